//! Tells event loops about the results of jobs in batches, and ends the waits of those that take
//! too long. Each message to a loop is a write to its event descriptor, and interrupts the thread
//! that sends it, because a loop has precedence.

use std::cell::RefCell;
use std::mem;
use std::sync::{Arc, Mutex, MutexGuard, PoisonError};
use std::task::Waker;
use std::time::Duration;

use slab::Slab;

use crate::clock;
use crate::rt::{self, Bell, Ticks};

/// Results of one disk thread that wait for its next message.
const RESULTS_MAX: usize = 8;

/// Longest wait of a result for its message. The next job of its thread may hang.
const MESSAGE_WAIT_MAX: Duration = Duration::from_millis(1);

/// Time between two searches for waits that are over, in milliseconds.
const SEARCH_EVERY_MS: u64 = 1_000;

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

/// Tasks of an event loop whose results are there, and those that wait.
#[derive(Debug, Default)]
pub(super) struct Mailbox {
    ready: Mutex<Vec<Waker>>,
    /// Rung when tasks are ready.
    bell: Bell,
    /// Tasks that wait for a result, and the end of each wait in milliseconds.
    waiting: Mutex<Slab<(Waker, u64)>>,
    /// Rung when the first of them begins to wait.
    began: Bell,
}

/// Delivers results to the tasks of this event loop for as long as it is polled.
pub(crate) async fn deliver() {
    let mine = Arc::<Mailbox>::default();
    MINE.set(Some(Arc::clone(&mine)));
    let mut ticks = Ticks::every(MESSAGE_WAIT_MAX);
    let mut searched_ms = clock::now_ms();
    loop {
        if mine.waiting().is_empty() {
            mine.began.wait(None).await;
        }
        rt::race(mine.bell.wait(None), ticks.next()).await;
        mine.take().into_iter().for_each(Waker::wake);
        let now_ms = clock::now_ms();
        if now_ms.saturating_sub(searched_ms) >= SEARCH_EVERY_MS {
            searched_ms = now_ms;
            mine.wake_late(now_ms);
        }
    }
}

/// The mailbox of this event loop, if it has one.
pub(super) fn mine() -> Option<Arc<Mailbox>> {
    MINE.with_borrow(Clone::clone)
}

impl Mailbox {
    /// Tells the event loop, with the next message, that a task's result is there.
    pub(super) fn deliver(self: &Arc<Mailbox>, task: Waker) {
        self.ready.lock().unwrap_or_else(PoisonError::into_inner).push(task);
        let is_kept = UNTOLD.with_borrow_mut(|untold| {
            let Some(untold) = untold else { return false };
            untold.results += 1;
            if !untold.mailboxes.iter().any(|known| Arc::ptr_eq(known, self)) {
                untold.mailboxes.push(Arc::clone(self));
            }
            true
        });
        if !is_kept {
            self.bell.ring();
        }
    }

    /// Counts a task as one that waits. It is woken within about a second after the wait has taken
    /// `at_most`, a time of whole milliseconds.
    pub(super) fn wait(self: &Arc<Mailbox>, task: &Waker, at_most: Duration) -> Waiting {
        let at_most_ms = u64::try_from(at_most.as_millis()).unwrap_or(u64::MAX);
        let until_ms = clock::now_ms().saturating_add(at_most_ms);
        let mut waiting = self.waiting();
        if waiting.is_empty() {
            self.began.ring();
        }
        let key = waiting.insert((task.clone(), until_ms));
        Waiting { mailbox: Arc::clone(self), key, until_ms }
    }

    /// Nothing panics while these locks are held, so a poisoned one is consistent.
    fn waiting(&self) -> MutexGuard<'_, Slab<(Waker, u64)>> {
        self.waiting.lock().unwrap_or_else(PoisonError::into_inner)
    }

    fn take(&self) -> Vec<Waker> {
        mem::take(&mut *self.ready.lock().unwrap_or_else(PoisonError::into_inner))
    }

    fn wake_late(&self, now_ms: u64) {
        let is_late =
            |(_, (task, until_ms)): (_, &(Waker, u64))| (now_ms >= *until_ms).then(|| task.clone());
        let late: Vec<_> = self.waiting().iter().filter_map(is_late).collect();
        late.into_iter().for_each(Waker::wake);
    }
}

/// A task that waits.
#[derive(Debug)]
pub(super) struct Waiting {
    mailbox: Arc<Mailbox>,
    key: usize,
    until_ms: u64,
}

impl Waiting {
    /// Returns whether the wait has taken too long.
    pub(super) fn is_over(&self) -> bool {
        clock::now_ms() >= self.until_ms
    }

    /// Has this waker woken from now on.
    pub(super) fn renew(&self, task: &Waker) {
        let mut waiting = self.mailbox.waiting();
        let known = waiting.get_mut(self.key).filter(|(known, _)| !known.will_wake(task));
        let before = known.map(|(known, _)| mem::replace(known, task.clone()));
        // A waker's drop may end a task, which may drop another that waits.
        drop(waiting);
        drop(before);
    }
}

impl Drop for Waiting {
    fn drop(&mut self) {
        let removed = self.mailbox.waiting().try_remove(self.key);
        // Without the lock: see `renew`.
        drop(removed);
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
    use std::sync::atomic::{AtomicUsize, Ordering::Relaxed};
    use std::task::Wake;

    use super::*;

    /// The event loop wakes each millisecond while a task waits.
    #[test]
    fn a_task_is_counted_until_its_wait_ends() {
        let mailbox = Arc::<Mailbox>::default();
        let waiting = || mailbox.waiting().len();
        let first = mailbox.wait(Waker::noop(), Duration::from_secs(3_600));
        first.renew(Waker::noop());
        assert_eq!(waiting(), 1, "a task that was polled twice");
        let second = mailbox.wait(Waker::noop(), Duration::ZERO);
        assert_eq!((waiting(), first.is_over(), second.is_over()), (2, false, true));
        drop(first);
        assert_eq!(waiting(), 1);
        drop(second);
        assert_eq!(waiting(), 0, "tasks that have ended");
    }

    #[test]
    fn only_tasks_whose_wait_is_over_are_woken() {
        struct Count(AtomicUsize);
        impl Wake for Count {
            fn wake(self: Arc<Count>) {
                self.0.fetch_add(1, Relaxed);
            }
        }
        let mailbox = Arc::<Mailbox>::default();
        let [late, early] = [0; 2].map(|_| Arc::new(Count(AtomicUsize::new(0))));
        let _waits = [(&late, Duration::ZERO), (&early, Duration::from_secs(3_600))]
            .map(|(count, at_most)| mailbox.wait(&Waker::from(Arc::clone(count)), at_most));
        mailbox.wake_late(clock::now_ms());
        assert_eq!([&late, &early].map(|count| count.0.load(Relaxed)), [1, 0]);
    }
}
