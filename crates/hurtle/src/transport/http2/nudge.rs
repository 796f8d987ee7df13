//! How a connection's task is woken: not for what is done in its own turn, since it looks for that
//! itself before the turn is over.

use std::sync::Arc;
use std::sync::atomic::{AtomicBool, Ordering};
use std::task::{Context, Wake, Waker};

/// A connection's, kept for as long as it is in the same task.
#[derive(Debug)]
pub(super) struct Nudge {
    inner: Arc<Inner>,
    waker: Waker,
}

#[derive(Debug)]
struct Inner {
    task: Waker,
    is_busy: AtomicBool,
}

impl Default for Nudge {
    fn default() -> Nudge {
        Nudge::new(Waker::noop().clone())
    }
}

impl Nudge {
    fn new(task: Waker) -> Nudge {
        let inner = Arc::new(Inner { task, is_busy: AtomicBool::new(false) });
        Nudge { waker: Waker::from(Arc::clone(&inner)), inner }
    }

    /// What wakes this task.
    pub(super) fn of(&mut self, cx: &Context<'_>) -> &Waker {
        if !self.inner.task.will_wake(cx.waker()) {
            *self = Nudge::new(cx.waker().clone());
        }
        &self.waker
    }

    /// Whether the task is in its turn, and will look before it ends it.
    pub(super) fn set_busy(&self, is_busy: bool) {
        self.inner.is_busy.store(is_busy, Ordering::Relaxed);
    }
}

impl Wake for Inner {
    fn wake(self: Arc<Self>) {
        self.wake_by_ref();
    }

    fn wake_by_ref(self: &Arc<Self>) {
        if !self.is_busy.load(Ordering::Relaxed) {
            self.task.wake_by_ref();
        }
    }
}
