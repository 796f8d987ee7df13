//! One job: its work until a disk thread takes it, then its result until the task takes that. Both
//! are in one allocation, which one thread makes and another may free.

use std::any::Any;
use std::mem;
use std::panic::{AssertUnwindSafe, catch_unwind};
use std::sync::{Arc, Mutex, MutexGuard, PoisonError};
use std::task::{Context, Poll, Waker};
use std::thread;

use super::mailbox::{self, Mailbox, Waiting};
use super::{Failure, WAIT_MAX};
use crate::rt;

/// A job as the queue has it. One that is dropped before it ran has failed.
pub(super) struct Job(Option<Arc<dyn Run>>);

/// A job of the pool whose result is awaited. A job that has not begun when this is dropped is not
/// run: nobody waits for it.
pub struct Queued<T> {
    job: Arc<dyn Finish<T>>,
    /// The mailbox of the event loop that queued it, if it has one.
    mailbox: Option<Arc<Mailbox>>,
    waiting: Option<Waiting>,
}

struct Shared<F, T> {
    state: Mutex<State<F, T>>,
    mailbox: Option<Arc<Mailbox>>,
}

struct State<F, T> {
    progress: Progress<F, T>,
    /// The task that waits.
    task: Option<Waker>,
    is_abandoned: bool,
}

enum Progress<F, T> {
    Queued(F),
    /// It runs, or its result was taken.
    Away,
    Done(thread::Result<T>),
    /// The pool has ended.
    Ended,
}

/// The side of a disk thread.
trait Run: Send + Sync {
    fn run(&self);
    fn end(&self);
}

/// The side of the task that waits.
trait Finish<T>: Send + Sync {
    /// The result; `None`: there will be none.
    fn poll(&self, cx: &mut Context<'_>) -> Poll<Option<thread::Result<T>>>;
    fn abandon(&self);
}

/// Creates a job whose result is awaited.
pub(super) fn awaited<T, F>(work: F) -> (Job, Queued<T>)
where
    T: Send + 'static,
    F: FnOnce() -> T + Send + 'static,
{
    let mailbox = mailbox::mine();
    let job = shared(work, mailbox.clone());
    (Job(Some(Arc::clone(&job) as _)), Queued { job, mailbox, waiting: None })
}

/// Creates a job without a result.
pub(super) fn begun(work: impl FnOnce() + Send + 'static) -> Job {
    Job(Some(shared(work, None)))
}

fn shared<T, F>(work: F, mailbox: Option<Arc<Mailbox>>) -> Arc<Shared<F, T>> {
    let progress = Progress::Queued(work);
    let state = Mutex::new(State { progress, task: None, is_abandoned: false });
    Arc::new(Shared { state, mailbox })
}

impl Job {
    /// Runs the job, unless nobody waits for it.
    pub(super) fn run(mut self) {
        if let Some(job) = self.0.take() {
            job.run();
        }
    }
}

impl Drop for Job {
    fn drop(&mut self) {
        if let Some(job) = self.0.take() {
            job.end();
        }
    }
}

impl<T> Queued<T> {
    /// Waits for the result, at most about `WAIT_MAX` from the first poll.
    ///
    /// # Errors
    /// See `Failure`. After `Busy` the job may still run to its end; its result is dropped.
    pub async fn result(mut self) -> Result<T, Failure> {
        // The mailbox has the time limits of those that wait for it.
        let has_limit = self.mailbox.is_some();
        let done = std::future::poll_fn(|cx| self.poll(cx));
        let done = if has_limit { Some(done.await) } else { rt::timeout(WAIT_MAX, done).await };
        match done.flatten() {
            Some(Ok(value)) => Ok(value),
            Some(Err(panic)) => {
                tracing::error!("a disk job panicked: {}", panic_message(&*panic));
                Err(Failure::Panicked)
            }
            // The pool is ending, or too slow.
            None => Err(Failure::Busy),
        }
    }

    fn poll(&mut self, cx: &mut Context<'_>) -> Poll<Option<thread::Result<T>>> {
        let polled = self.job.poll(cx);
        match (&self.mailbox, &mut self.waiting) {
            _ if polled.is_ready() => polled,
            (None, _) => Poll::Pending,
            // A result that nobody waits for yet may be late.
            (Some(mailbox), None) => {
                self.waiting = Some(mailbox.wait(cx.waker(), WAIT_MAX));
                Poll::Pending
            }
            (Some(_), Some(waiting)) if waiting.is_over() => Poll::Ready(None),
            (Some(_), Some(waiting)) => {
                waiting.renew(cx.waker());
                Poll::Pending
            }
        }
    }
}

impl<T> Drop for Queued<T> {
    fn drop(&mut self) {
        self.job.abandon();
    }
}

impl<T> std::fmt::Debug for Queued<T> {
    fn fmt(&self, f: &mut std::fmt::Formatter<'_>) -> std::fmt::Result {
        f.debug_struct("Queued").field("waiting", &self.waiting).finish_non_exhaustive()
    }
}

impl<F, T> Shared<F, T> {
    /// Nothing panics while the lock is held, so a poisoned lock is consistent.
    fn lock(&self) -> MutexGuard<'_, State<F, T>> {
        self.state.lock().unwrap_or_else(PoisonError::into_inner)
    }

    fn finish(&self, progress: Progress<F, T>) {
        let mut state = self.lock();
        let unwanted = match state.is_abandoned {
            true => Some(progress),
            false => Some(mem::replace(&mut state.progress, progress)),
        };
        let task = state.task.take();
        drop(state);
        // Its drop may block on the disk: a file's last descriptor, for example.
        drop(unwanted);
        match (task, &self.mailbox) {
            (Some(task), Some(mailbox)) => mailbox.deliver(task),
            (Some(task), None) => task.wake(),
            (None, _) => {}
        }
    }
}

impl<T, F> Run for Shared<F, T>
where
    T: Send,
    F: FnOnce() -> T + Send,
{
    fn run(&self) {
        let mut state = self.lock();
        let queued = mem::replace(&mut state.progress, Progress::Away);
        let is_abandoned = state.is_abandoned;
        drop(state);
        if let (Progress::Queued(work), false) = (queued, is_abandoned) {
            self.finish(Progress::Done(catch_unwind(AssertUnwindSafe(work))));
        }
    }

    fn end(&self) {
        self.finish(Progress::Ended);
    }
}

impl<T: Send, F: Send> Finish<T> for Shared<F, T> {
    fn poll(&self, cx: &mut Context<'_>) -> Poll<Option<thread::Result<T>>> {
        let mut state = self.lock();
        match mem::replace(&mut state.progress, Progress::Away) {
            Progress::Done(result) => return Poll::Ready(Some(result)),
            Progress::Ended => return Poll::Ready(None),
            progress => state.progress = progress,
        }
        let is_known = state.task.as_ref().is_some_and(|task| task.will_wake(cx.waker()));
        let before = if is_known { None } else { state.task.replace(cx.waker().clone()) };
        // A waker's drop may end a task, and with it what the task waits for.
        drop(state);
        drop(before);
        Poll::Pending
    }

    fn abandon(&self) {
        let mut state = self.lock();
        state.is_abandoned = true;
        let task = state.task.take();
        drop(state);
        drop(task);
    }
}

fn panic_message(panic: &(dyn Any + Send)) -> &str {
    panic
        .downcast_ref::<&str>()
        .copied()
        .or_else(|| panic.downcast_ref::<String>().map(String::as_str))
        .unwrap_or("no message")
}
