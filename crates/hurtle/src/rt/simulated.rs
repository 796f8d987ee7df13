//! Simulated time: the time of the paused runtime, which replaces the system's.

use std::cell::Cell;
use std::time::Duration;

use tokio::time::Instant;

thread_local! {
    /// Start of this thread's simulation.
    static BEGUN: Cell<Option<Instant>> = const { Cell::new(None) };
}

/// Value of `clock::now_ms` at the start of a simulation, in milliseconds.
const BEGIN_MS: u64 = 1_000_000;

/// Switches this thread to the runtime's time, which must be paused.
pub fn begin() {
    BEGUN.set(Some(Instant::now()));
}

/// Switches this thread back to the system's time.
pub fn end() {
    BEGUN.set(None);
}

/// Milliseconds of simulated time; `None`: this thread simulates nothing.
pub fn now_ms() -> Option<u64> {
    let begun = BEGUN.get()?;
    let ms = |time: Duration| u64::try_from(time.as_millis()).unwrap_or(u64::MAX);
    Some(BEGIN_MS + ms(Instant::now().duration_since(begun)))
}
