//! What a connection's streams have given to the library that has not left yet: bounded for all of
//! them together, however many there are and however little the peer takes. When it has left, those
//! who waited come before those who had some of it, and before whoever is new: else the same few
//! would have all of it, for as long as new ones follow them.

use std::cell::{Cell, RefCell};
use std::task::{Context, Waker};

/// Enough for a few streams' pieces, and many small answers.
const BYTES_MAX: usize = 256 << 10;

/// A connection's.
#[derive(Debug, Default)]
pub(super) struct Backlog {
    bytes: Cell<usize>,
    lines: RefCell<Lines>,
}

/// Those who wait for it to leave, the first first.
#[derive(Debug, Default)]
struct Lines {
    /// Since before it left last.
    due: Vec<(u32, Waker)>,
    /// Since then.
    new: Vec<(u32, Waker)>,
}

impl Backlog {
    /// Whether a stream may add to it; else it is woken when it may.
    pub(super) fn has_room(&self, stream: u32, cx: &Context<'_>) -> bool {
        let bytes = self.bytes.get();
        let lines = &mut *self.lines.borrow_mut();
        let is_due = lines.due.iter().any(|(of, _)| *of == stream);
        // Where nothing is left, nobody is in anybody's way: one of those who are due may want nothing
        // any more.
        if bytes == 0 || bytes < BYTES_MAX && (is_due || lines.due.is_empty()) {
            return true;
        }
        let line = if is_due { &mut lines.due } else { &mut lines.new };
        match line.iter_mut().find(|(of, _)| *of == stream) {
            Some((_, waker)) => waker.clone_from(cx.waker()),
            None => line.push((stream, cx.waker().clone())),
        }
        false
    }

    /// Whether a stream waits for it to leave.
    pub(super) fn holds(&self, stream: u32) -> bool {
        let lines = self.lines.borrow();
        lines.due.iter().chain(&lines.new).any(|(of, _)| *of == stream)
    }

    /// A stream is over, or waits for something else.
    pub(super) fn forget(&self, stream: u32) {
        self.lines.borrow_mut().forget(stream);
    }

    /// A stream has added so many bytes: it stands behind those who wait.
    pub(super) fn add(&self, stream: u32, bytes: usize) {
        self.bytes.set(self.bytes.get() + bytes);
        self.forget(stream);
    }

    /// All of it has left.
    pub(super) fn clear(&self) {
        self.bytes.set(0);
        let Lines { due, new } = &mut *self.lines.borrow_mut();
        due.append(new);
        for (_, waker) in due {
            waker.wake_by_ref();
        }
    }
}

impl Lines {
    fn forget(&mut self, stream: u32) {
        for line in [&mut self.due, &mut self.new] {
            line.retain(|(of, _)| *of != stream);
        }
    }
}
