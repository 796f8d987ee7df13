//! The tasks of a connection's streams that wait for an event.

use std::cell::RefCell;
use std::task::{Context, Waker};

/// Wakers by the number of their stream.
#[derive(Debug)]
pub(super) struct Waiters<Id>(RefCell<Vec<(Id, Waker)>>);

impl<Id> Default for Waiters<Id> {
    fn default() -> Waiters<Id> {
        Waiters(RefCell::default())
    }
}

impl<Id: Copy + Eq> Waiters<Id> {
    /// Registers this task for the stream's next event.
    pub(super) fn wait(&self, id: Id, cx: &Context<'_>) {
        let mut waiting = self.0.borrow_mut();
        match waiting.iter_mut().find(|(of, _)| *of == id) {
            Some((_, waker)) => waker.clone_from(cx.waker()),
            None => waiting.push((id, cx.waker().clone())),
        }
    }

    /// Removes the waker of a stream that ends.
    pub(super) fn forget(&self, id: Id) {
        let mut waiting = self.0.borrow_mut();
        waiting.retain(|(of, _)| *of != id);
        if waiting.is_empty() {
            *waiting = Vec::new();
        }
    }

    /// Wakes the task of a stream that has an event.
    pub(super) fn wake(&self, id: Id) {
        let mut waiting = self.0.borrow_mut();
        if let Some(at) = waiting.iter().position(|(of, _)| *of == id) {
            waiting.swap_remove(at).1.wake();
        }
    }

    /// Wakes all tasks when the connection has ended.
    pub(super) fn wake_all(&self) {
        for (_, waker) in self.0.take() {
            waker.wake();
        }
    }
}
