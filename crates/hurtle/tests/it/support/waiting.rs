//! Waiting for what the server does on its own, such as making an encoding.

use std::thread;
use std::time::{Duration, Instant};

/// Time between two looks. Without it the looks take the processors from threads of low priority,
/// which may do what is waited for.
const PAUSE: Duration = Duration::from_millis(5);

/// Time limit for a result. On two processors with a dozen busy programs such a thread has
/// a fiftieth of one.
pub(crate) const RESULT_PATIENCE: Duration = Duration::from_secs(600);

/// Looks until there is a result, and returns it. The test fails if that takes too long.
#[track_caller]
pub(crate) fn eventually<T>(what: &str, mut look: impl FnMut() -> Option<T>) -> T {
    let end = Instant::now() + RESULT_PATIENCE;
    loop {
        if let Some(found) = look() {
            return found;
        }
        assert!(Instant::now() < end, "still not: {what}");
        thread::sleep(PAUSE);
    }
}
