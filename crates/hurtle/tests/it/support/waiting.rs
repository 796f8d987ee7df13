//! Waiting for what the server does on its own, such as making an encoding.

use std::thread;
use std::time::{Duration, Instant};

use super::client::PATIENCE;

/// Time between two looks. Without it the looks take the processors from threads of low priority,
/// which may do what is waited for.
pub(crate) const PAUSE: Duration = Duration::from_millis(5);

/// Looks until there is a result, and returns it. The test fails if that takes too long.
#[track_caller]
pub(crate) fn eventually<T>(what: &str, mut look: impl FnMut() -> Option<T>) -> T {
    let end = Instant::now() + PATIENCE;
    loop {
        if let Some(found) = look() {
            return found;
        }
        assert!(Instant::now() < end, "still not: {what}");
        thread::sleep(PAUSE);
    }
}
