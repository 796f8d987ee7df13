//! What a connection's streams have given to the library that has not left yet: bounded for all of
//! them together, however many there are and however little the peer takes.

use std::cell::{Cell, RefCell};
use std::task::{Context, Waker};

/// Enough for a few streams' pieces, and many small answers.
const BYTES_MAX: usize = 256 << 10;

/// A connection's.
#[derive(Debug, Default)]
pub(super) struct Backlog {
    bytes: Cell<usize>,
    /// Those who wait for it to leave, the first first.
    waiting: RefCell<Vec<(u32, Waker)>>,
}

impl Backlog {
    /// Whether a stream may add to it; else it is woken when it may.
    pub(super) fn has_room(&self, stream: u32, cx: &Context<'_>) -> bool {
        if self.bytes.get() < BYTES_MAX {
            return true;
        }
        let mut waiting = self.waiting.borrow_mut();
        match waiting.iter_mut().find(|(of, _)| *of == stream) {
            Some((_, waker)) => waker.clone_from(cx.waker()),
            None => waiting.push((stream, cx.waker().clone())),
        }
        false
    }

    /// Whether a stream waits for it to leave.
    pub(super) fn holds(&self, stream: u32) -> bool {
        self.waiting.borrow().iter().any(|(of, _)| *of == stream)
    }

    /// A stream is over.
    pub(super) fn forget(&self, stream: u32) {
        self.waiting.borrow_mut().retain(|(of, _)| *of != stream);
    }

    pub(super) fn add(&self, bytes: usize) {
        self.bytes.set(self.bytes.get() + bytes);
    }

    /// All of it has left.
    pub(super) fn clear(&self) {
        self.bytes.set(0);
        for (_, waker) in self.waiting.take() {
            waker.wake();
        }
    }
}
