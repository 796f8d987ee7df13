//! Tells event loops about the results of jobs in batches. Each message to a loop is a write to its
//! event descriptor, and interrupts the thread that sends it, because a loop has precedence.

use std::cell::RefCell;
use std::sync::atomic::{AtomicUsize, Ordering::Relaxed};
use std::sync::{Arc, Mutex, PoisonError};
use std::task::{Context, Poll, Wake, Waker};
use std::time::Duration;

use crate::rt::Bell;

/// Results of one disk thread that wait for its next message.
const RESULTS_MAX: usize = 8;

/// Longest wait of a result for its message. The next job of its thread may hang.
const WAIT_MAX: Duration = Duration::from_millis(1);

thread_local! {
    /// The mailbox of this event loop, while `deliver` runs.
    static MINE: RefCell<Option<Arc<Mailbox>>> = const { RefCell::new(None) };
    /// The mailboxes that this disk thread has not told of results, and their number; `None`: this
    /// is no disk thread.
    static UNTOLD: RefCell<Option<Untold>> = const { RefCell::new(None) };
}

#[derive(Debug, Default)]
struct Untold {
    mailboxes: Vec<Arc<Mailbox>>,
    results: usize,
}

/// Tasks of an event loop whose results are there.
#[derive(Debug, Default)]
struct Mailbox {
    ready: Mutex<Vec<Waker>>,
    /// Rung when tasks are ready.
    bell: Bell,
    /// Tasks that wait for a result.
    waiting: AtomicUsize,
    /// Rung when the first of them begins to wait.
    began: Bell,
}

/// Delivers results to the tasks of this event loop for as long as it is polled.
pub(crate) async fn deliver() {
    let mine = Arc::<Mailbox>::default();
    MINE.set(Some(Arc::clone(&mine)));
    loop {
        if mine.waiting.load(Relaxed) == 0 {
            mine.began.wait(None).await;
        }
        mine.bell.wait(Some(WAIT_MAX)).await;
        mine.take().into_iter().for_each(Waker::wake);
    }
}

/// A job that a task of this event loop waits for.
#[derive(Debug)]
pub(super) struct Awaited {
    mine: Option<Arc<Mailbox>>,
    /// `true` while the task is counted as one that waits.
    is_waiting: bool,
    /// The waker of the last poll and what stands for it on the disk thread.
    waker: Option<(Waker, Waker)>,
}

impl Awaited {
    /// A job whose result arrives through the mailbox of this event loop, if it has one.
    pub(super) fn begin() -> Awaited {
        Awaited { mine: MINE.with_borrow(Clone::clone), is_waiting: false, waker: None }
    }

    /// Polls with a waker whose wakes arrive through the mailbox of this event loop.
    pub(super) fn poll<T>(
        &mut self,
        cx: &mut Context<'_>,
        poll: impl FnOnce(&mut Context<'_>) -> Poll<T>,
    ) -> Poll<T> {
        let Some(mine) = &self.mine else { return poll(cx) };
        if !self.waker.as_ref().is_some_and(|(known, _)| known.will_wake(cx.waker())) {
            let task = cx.waker().clone();
            let letter = Letter { task: task.clone(), mailbox: Arc::clone(mine) };
            self.waker = Some((task, Waker::from(Arc::new(letter))));
        }
        let polled = match &self.waker {
            Some((_, waker)) => poll(&mut Context::from_waker(waker)),
            None => poll(cx),
        };
        // A result that nobody waits for yet may be late.
        if polled.is_pending() && !self.is_waiting {
            self.is_waiting = true;
            if mine.waiting.fetch_add(1, Relaxed) == 0 {
                mine.began.ring();
            }
        }
        polled
    }
}

impl Drop for Awaited {
    fn drop(&mut self) {
        if let (Some(mine), true) = (&self.mine, self.is_waiting) {
            mine.waiting.fetch_sub(1, Relaxed);
        }
    }
}

/// A waker for other threads.
struct Letter {
    task: Waker,
    mailbox: Arc<Mailbox>,
}

impl Wake for Letter {
    fn wake(self: Arc<Letter>) {
        self.wake_by_ref();
    }

    fn wake_by_ref(self: &Arc<Letter>) {
        self.mailbox.lock().push(self.task.clone());
        let is_kept = UNTOLD.with_borrow_mut(|untold| {
            let Some(untold) = untold else { return false };
            untold.results += 1;
            if !untold.mailboxes.iter().any(|known| Arc::ptr_eq(known, &self.mailbox)) {
                untold.mailboxes.push(Arc::clone(&self.mailbox));
            }
            true
        });
        if !is_kept {
            self.mailbox.bell.ring();
        }
    }
}

impl Mailbox {
    fn lock(&self) -> std::sync::MutexGuard<'_, Vec<Waker>> {
        self.ready.lock().unwrap_or_else(PoisonError::into_inner)
    }

    fn take(&self) -> Vec<Waker> {
        std::mem::take(&mut *self.lock())
    }
}

/// Makes this thread one that tells event loops of results when [`tell`] is called.
pub(super) fn begin_telling() {
    UNTOLD.set(Some(Untold::default()));
}

/// `true`: event loops do not know of results of this disk thread.
pub(super) fn has_untold() -> bool {
    UNTOLD.with_borrow(|untold| untold.as_ref().is_some_and(|untold| untold.results > 0))
}

/// Tells event loops of the results of this disk thread. `has_more`: it has found another job, so a
/// few results may wait for those of the next ones.
pub(super) fn tell(has_more: bool) {
    UNTOLD.with_borrow_mut(|untold| {
        let Some(untold) = untold else { return };
        if has_more && untold.results < RESULTS_MAX {
            return;
        }
        untold.results = 0;
        untold.mailboxes.drain(..).for_each(|mailbox| mailbox.bell.ring());
    });
}

#[cfg(test)]
mod tests {
    use std::sync::atomic::Ordering::Relaxed;
    use std::task::{Context, Poll, Waker};

    use super::{Arc, Awaited, MINE, Mailbox};

    /// The event loop wakes each millisecond while a task waits.
    #[test]
    fn only_jobs_with_a_task_that_waits_are_counted() {
        let mine = Arc::<Mailbox>::default();
        MINE.set(Some(Arc::clone(&mine)));
        let waiting = || mine.waiting.load(Relaxed);
        let cx = &mut Context::from_waker(Waker::noop());

        let read_ahead = Awaited::begin();
        assert_eq!(waiting(), 0, "nobody waits for bytes that are read ahead");
        let mut probe = Awaited::begin();
        assert!(probe.poll(cx, |_| Poll::<()>::Pending).is_pending());
        assert!(probe.poll(cx, |_| Poll::<()>::Pending).is_pending());
        assert_eq!(waiting(), 1, "a task that was polled twice");
        let mut done = Awaited::begin();
        assert!(done.poll(cx, |_| Poll::Ready(())).is_ready());
        assert_eq!(waiting(), 1, "a result that was there at once");
        drop((read_ahead, done));
        assert_eq!(waiting(), 1);
        drop(probe);
        assert_eq!(waiting(), 0, "a task that has ended");
    }
}
