//! Simulated time: the time of the paused runtime, which replaces the system's. Simulated disks:
//! jobs take time, files are not in the page cache, and disks fill.

use std::cell::{Cell, RefCell};
use std::collections::VecDeque;
use std::time::Duration;

use tokio::time::Instant;

thread_local! {
    /// Start of this thread's simulation.
    static BEGUN: Cell<Option<Instant>> = const { Cell::new(None) };
    /// The disks of this thread's simulation.
    static DISKS: RefCell<Option<Box<dyn Disks>>> = const { RefCell::new(None) };
}

/// Value of `clock::now_ms` at the start of a simulation, in milliseconds.
const BEGIN_MS: u64 = 1_000_000;

/// Switches this thread to the runtime's time, which must be paused.
pub(crate) fn begin() {
    BEGUN.set(Some(Instant::now()));
}

/// Switches this thread back to the system's time and disks.
pub(crate) fn end() {
    BEGUN.set(None);
    DISKS.set(None);
}

/// The behaviour of disks, asked anew for each job.
pub(crate) trait Disks {
    /// Time that a job takes; zero: none, not even that of a turn.
    fn delay(&mut self) -> Duration;
    /// `true`: a piece of a file is not in the page cache.
    fn is_cold(&mut self) -> bool;
    /// `true`: the disk takes no more bytes.
    fn is_full(&mut self) -> bool;
}

/// Disks without a page cache: seconds that jobs take, the last one at each job after it.
pub(crate) struct SlowDisks(VecDeque<u64>);

impl SlowDisks {
    pub(crate) fn new(seconds: &[u64]) -> SlowDisks {
        SlowDisks(seconds.iter().copied().collect())
    }
}

impl Disks for SlowDisks {
    fn delay(&mut self) -> Duration {
        let seconds = self.0.front().copied().unwrap_or_default();
        if self.0.len() > 1 {
            self.0.pop_front();
        }
        Duration::from_secs(seconds)
    }

    fn is_cold(&mut self) -> bool {
        true
    }

    fn is_full(&mut self) -> bool {
        false
    }
}

/// Sets the disks of this thread.
pub(crate) fn set_disks(disks: impl Disks + 'static) {
    DISKS.set(Some(Box::new(disks)));
}

/// Runs a job of a disk thread, in simulated time.
pub(crate) fn run_job(job: impl FnOnce() + 'static) {
    match DISKS.with_borrow_mut(|disks| disks.as_mut().map_or(Duration::ZERO, |d| d.delay())) {
        Duration::ZERO => job(),
        time => drop(tokio::task::spawn_local(async move {
            tokio::time::sleep(time).await;
            job();
        })),
    }
}

/// `true`: a piece of a file is not in the page cache.
pub(crate) fn is_cold() -> bool {
    DISKS.with_borrow_mut(|disks| disks.as_mut().is_some_and(|d| d.is_cold()))
}

/// `true`: the disk takes no more bytes.
pub(crate) fn is_full() -> bool {
    DISKS.with_borrow_mut(|disks| disks.as_mut().is_some_and(|d| d.is_full()))
}

/// Milliseconds of simulated time; `None`: this thread simulates nothing.
pub(crate) fn now_ms() -> Option<u64> {
    let begun = BEGUN.get()?;
    let ms = |time: Duration| u64::try_from(time.as_millis()).unwrap_or(u64::MAX);
    Some(BEGIN_MS + ms(Instant::now().duration_since(begun)))
}
