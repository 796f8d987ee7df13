//! Until when an upstream must have done something, told to whoever watches the clock.

use std::cell::Cell;

use crate::clock;

/// No deadline.
pub const NEVER: u64 = u64::MAX;

/// An upstream's two deadlines: both directions flow at once.
#[derive(Debug)]
pub struct Waits {
    send_by_ms: Cell<u64>,
    read_by_ms: Cell<u64>,
}

/// A wait under way; it is over when this is dropped, also where its task is given up.
pub(super) struct Wait<'a>(&'a Cell<u64>);

impl Default for Waits {
    fn default() -> Waits {
        Waits { send_by_ms: Cell::new(NEVER), read_by_ms: Cell::new(NEVER) }
    }
}

impl Waits {
    /// When the first of them passes, on `clock`'s scale.
    pub fn due_ms(&self) -> u64 {
        self.send_by_ms.get().min(self.read_by_ms.get())
    }

    /// The upstream has taken something: who is not idle may go on thinking of its answer.
    pub(super) fn refresh(&self, within_ms: u64) {
        if self.read_by_ms.get() != NEVER {
            self.read_by_ms.set(clock::now_ms().saturating_add(within_ms));
        }
    }

    pub(super) fn send(&self, within_ms: u64) -> Wait<'_> {
        Wait::begin(&self.send_by_ms, within_ms)
    }

    pub(super) fn read(&self, within_ms: u64) -> Wait<'_> {
        Wait::begin(&self.read_by_ms, within_ms)
    }
}

impl Wait<'_> {
    fn begin(by_ms: &Cell<u64>, within_ms: u64) -> Wait<'_> {
        by_ms.set(clock::now_ms().saturating_add(within_ms));
        Wait(by_ms)
    }
}

impl Drop for Wait<'_> {
    fn drop(&mut self) {
        self.0.set(NEVER);
    }
}
