//! Deadlines of an upstream, watched by the connection's timer.

use std::cell::Cell;
use std::time::Duration;

use crate::clock::{self, NEVER};
use crate::rt::{self, First};

/// Interval at which `within` checks the deadline.
const STEP: Duration = Duration::from_millis(250);

/// The deadlines of an upstream, one for each direction, since both are used at the same time.
#[derive(Debug)]
pub(crate) struct Waits {
    send_by_ms: Cell<u64>,
    read_by_ms: Cell<u64>,
    /// `true`: the exchange goes on after a deadline, with what the upstream has sent before.
    goes_on: Cell<bool>,
    is_late: Cell<bool>,
}

/// A running deadline; it is cleared when this is dropped, also on cancellation.
pub(super) struct RunningDeadline<'a>(&'a Cell<u64>);

impl Default for Waits {
    fn default() -> Waits {
        Waits {
            send_by_ms: Cell::new(NEVER),
            read_by_ms: Cell::new(NEVER),
            goes_on: Cell::new(false),
            is_late: Cell::new(false),
        }
    }
}

impl Waits {
    /// The earlier deadline, on `clock`'s scale.
    pub(crate) fn due_ms(&self) -> u64 {
        self.send_by_ms.get().min(self.read_by_ms.get())
    }

    /// Has the exchange go on after a deadline; the handler asks `is_late`.
    pub(super) fn go_on(&self) {
        self.goes_on.set(true);
    }

    /// `true` once a deadline has passed.
    pub(super) fn is_late(&self) -> bool {
        self.is_late.get()
    }

    /// Returns whether the exchange goes on after a deadline, and records then that one has passed.
    pub(crate) fn note_late(&self) -> bool {
        let goes_on = self.goes_on.get();
        if goes_on {
            self.is_late.set(true);
            self.send_by_ms.set(NEVER);
            self.read_by_ms.set(NEVER);
        }
        goes_on
    }

    /// The upstream has read something, after which it has this time to respond, at least.
    pub(super) fn refresh(&self, within_ms: u64) {
        let by_ms = clock::now_ms().saturating_add(within_ms);
        self.read_by_ms.set(self.read_by_ms.get().max(by_ms));
    }

    /// Runs `work` until the deadline. `None`: it has passed.
    pub(super) async fn within<T>(&self, work: impl Future<Output = T>) -> Option<T> {
        let late = async {
            loop {
                let left_ms = self.due_ms().saturating_sub(clock::now_ms());
                if left_ms == 0 {
                    return;
                }
                rt::sleep(STEP.min(Duration::from_millis(left_ms))).await;
            }
        };
        match rt::race(work, late).await {
            First::A(done) => Some(done),
            First::B(()) => None,
        }
    }

    pub(super) fn send(&self, within_ms: u64) -> RunningDeadline<'_> {
        RunningDeadline::begin(&self.send_by_ms, within_ms)
    }

    pub(super) fn read(&self, within_ms: u64) -> RunningDeadline<'_> {
        RunningDeadline::begin(&self.read_by_ms, within_ms)
    }
}

impl RunningDeadline<'_> {
    fn begin(by_ms: &Cell<u64>, within_ms: u64) -> RunningDeadline<'_> {
        by_ms.set(clock::now_ms().saturating_add(within_ms));
        RunningDeadline(by_ms)
    }
}

impl Drop for RunningDeadline<'_> {
    fn drop(&mut self) {
        self.0.set(NEVER);
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    /// Regression: a message of a client cut the longest pause of the response to `send_timeout`.
    #[test]
    fn progress_extends_a_deadline_and_never_shortens_it() {
        let waits = Waits::default();
        waits.refresh(1_000);
        assert_eq!(waits.due_ms(), NEVER, "nothing is awaited");
        let reading = waits.read(3_600_000);
        let due_ms = waits.due_ms();
        waits.refresh(30_000);
        assert_eq!(waits.due_ms(), due_ms);
        waits.refresh(7_200_000);
        assert!(waits.due_ms() > due_ms);
        drop(reading);
        assert_eq!(waits.due_ms(), NEVER);
    }
}
