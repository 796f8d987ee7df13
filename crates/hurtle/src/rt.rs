//! The parts of the async runtime that code beneath `apps` uses, but for `transport`.

mod alarm;
pub(crate) mod host_names;
pub(crate) mod oneshot;
mod permits;
#[cfg(test)]
pub(crate) mod simulated;

use std::any::Any;
use std::cell::{Cell, RefCell};
use std::fmt;
use std::future::{Future, poll_fn};
use std::io;
use std::panic::{AssertUnwindSafe, catch_unwind};
use std::pin::{Pin, pin};
use std::task::{Context, Poll, Waker};
use std::time::Duration;

use pin_project_lite::pin_project;
use tokio::time::{Interval, MissedTickBehavior};

/// Awaits a future where it is made. A plain `.await` may copy the future first, which takes
/// hundreds of instructions for those of a request.
macro_rules! await_in_place {
    ($future:expr) => {{
        let future = std::pin::pin!($future);
        future.await
    }};
}

pub(crate) use alarm::Alarm;
pub(crate) use await_in_place;
pub(crate) use permits::{Permit, Permits};
/// A monotonic time, which tests may simulate.
pub(crate) use tokio::time::Instant;

thread_local! {
    /// Turns of this worker's tasks that were not part of a long body.
    static TURNS: Cell<u64> = const { Cell::new(0) };
    /// The current turn is part of a long body.
    static IS_LONG: Cell<bool> = const { Cell::new(false) };
    /// The allocation of a task that ended at once, for the next task of the same type.
    static ROOM: RefCell<Option<Box<dyn Any>>> = const { RefCell::new(None) };
}

/// Runs `task` concurrently on this worker.
pub(crate) fn spawn(task: impl Future<Output = ()> + 'static) {
    // Boxed, because a task within another future would be twice as large.
    spawn_boxed(Box::pin(task));
}

/// Polls `task` immediately; if it is not ready, runs it concurrently on this worker.
pub(crate) fn begin<F: Future + 'static>(task: F) {
    let room = ROOM.take().and_then(|room| room.downcast::<Pin<Box<F>>>().ok());
    let mut begun = match room {
        Some(mut room) => {
            room.set(task);
            room
        }
        None => Box::new(Box::pin(task)),
    };
    // The new task is polled again, which registers its waker.
    match begun.as_mut().as_mut().poll(&mut Context::from_waker(Waker::noop())) {
        Poll::Ready(_) => ROOM.set(Some(begun)),
        Poll::Pending => spawn_boxed(*begun),
    }
}

fn spawn_boxed(mut task: Pin<Box<impl Future + 'static>>) {
    drop(tokio::task::spawn_local(poll_fn(move |cx| {
        IS_LONG.set(false);
        let polled = task.as_mut().poll(cx).map(drop);
        TURNS.set(TURNS.get().wrapping_add(u64::from(!IS_LONG.get())));
        polled
    })));
}

/// Runs `task` concurrently on this worker; dropping the handle ends it.
pub(crate) fn spawn_held(task: impl Future<Output = ()> + 'static) -> Task {
    Task(Some(tokio::task::spawn_local(Box::pin(task)).abort_handle()))
}

/// Yields to all other tasks that are ready.
pub(crate) async fn give_way() {
    tokio::task::yield_now().await;
}

/// Marks this turn as part of a long body; returns the number of turns so far that were not. While
/// that number stays the same, no other task is delayed by longer turns.
pub(crate) fn long_turn() -> u64 {
    IS_LONG.set(true);
    TURNS.get()
}

/// Waits at least `time`. For repeated waits of a worker use an [`Alarm`].
pub(crate) async fn sleep(time: Duration) {
    tokio::time::sleep(time).await;
}

/// Runs `work`, which may block, on a thread of its own. It runs to its end even if this is
/// dropped.
///
/// # Errors
/// `work` panicked.
pub(crate) async fn blocking<T: Send + 'static>(
    work: impl FnOnce() -> T + Send + 'static,
) -> io::Result<T> {
    tokio::task::spawn_blocking(work).await.map_err(io::Error::other)
}

/// Awaits `task` for at most `time`; `None` if it took longer.
pub(crate) fn timeout<F: Future>(time: Duration, task: F) -> Timeout<F> {
    Timeout { timed: tokio::time::timeout(time, task) }
}

pin_project! {
    /// The future that `timeout` returns.
    pub(crate) struct Timeout<F> {
        #[pin]
        timed: tokio::time::Timeout<F>,
    }
}

impl<F: Future> Future for Timeout<F> {
    type Output = Option<F::Output>;

    fn poll(self: Pin<&mut Self>, cx: &mut Context<'_>) -> Poll<Self::Output> {
        self.project().timed.poll(cx).map(Result::ok)
    }
}

/// A timer that fires again and again. It is set each time that it fires, not for each wait.
#[derive(Debug)]
pub(crate) struct Ticks(Interval);

impl Ticks {
    /// Creates a timer that fires this time after its creation, and after each time that a wait
    /// has seen it fire.
    pub(crate) fn every(time: Duration) -> Ticks {
        let mut interval = tokio::time::interval_at(Instant::now() + time, time);
        interval.set_missed_tick_behavior(MissedTickBehavior::Delay);
        Ticks(interval)
    }

    /// Waits until it fires.
    pub(crate) async fn next(&mut self) {
        self.0.tick().await;
    }
}

/// A notification from any thread to the tasks that wait for it.
#[derive(Debug, Default)]
pub(crate) struct Bell(tokio::sync::Notify);

impl Bell {
    /// Wakes one waiting task, or the next one to wait.
    pub(crate) fn ring(&self) {
        self.0.notify_one();
    }

    /// Wakes all tasks that wait now.
    pub(crate) fn ring_all(&self) {
        self.0.notify_waiters();
    }

    /// Waits for a ring, at most for `at_most`; `None`: without limit.
    pub(crate) async fn wait(&self, at_most: Option<Duration>) {
        match at_most {
            None => self.0.notified().await,
            Some(time) => drop(timeout(time, self.0.notified()).await),
        }
    }
}

/// Threads for tasks that may block their thread: one for each processor, and more on demand
/// (`spawn_blocking`).
pub(crate) struct Threads(Option<tokio::runtime::Runtime>);

impl Threads {
    /// Starts threads called `name`.
    ///
    /// # Errors
    /// Errors of the system; it may refuse a thread.
    pub(crate) fn start(name: &str) -> io::Result<Threads> {
        let mut threads = tokio::runtime::Builder::new_multi_thread();
        Ok(Threads(Some(threads.thread_name(name).enable_all().build()?)))
    }

    /// Starts one thread called `name`.
    ///
    /// # Errors
    /// Errors of the system; it may refuse a thread.
    pub(crate) fn start_one(name: &str) -> io::Result<Threads> {
        let mut threads = tokio::runtime::Builder::new_multi_thread();
        Ok(Threads(Some(threads.worker_threads(1).thread_name(name).enable_all().build()?)))
    }

    /// Runs a task on these threads.
    pub(crate) fn spawn(&self, task: impl Future<Output = ()> + Send + 'static) -> Task {
        Task(self.0.as_ref().map(|threads| threads.spawn(task).abort_handle()))
    }
}

impl Drop for Threads {
    /// Does not wait for tasks: the last handle may be dropped on any thread, and a task may never
    /// end.
    fn drop(&mut self) {
        if let Some(threads) = self.0.take() {
            threads.shutdown_background();
        }
    }
}

impl fmt::Debug for Threads {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        f.write_str("Threads")
    }
}

/// A handle on a task. Dropping it ends the task at its next await.
#[derive(Debug)]
pub(crate) struct Task(Option<tokio::task::AbortHandle>);

impl Task {
    /// Detaches the task: it runs to its end.
    pub(crate) fn let_go(mut self) {
        self.0 = None;
    }
}

impl Drop for Task {
    fn drop(&mut self) {
        if let Some(task) = &self.0 {
            task.abort();
        }
    }
}

/// The result of the task that ended first.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(crate) enum First<A, B> {
    /// The first future was ready.
    A(A),
    /// The second future was ready.
    B(B),
}

/// Runs two tasks until one ends, and drops the other. `a` is polled first.
pub(crate) fn race<A: Future, B: Future>(a: A, b: B) -> Race<A, B> {
    Race { a, b }
}

// Types, not async functions: an async function stores an argument that it awaits twice, so each
// layer would double the size of those beneath it.
pin_project! {
    /// The future that `race` returns.
    pub(crate) struct Race<A, B> {
        #[pin]
        a: A,
        #[pin]
        b: B,
    }
}

impl<A: Future, B: Future> Future for Race<A, B> {
    type Output = First<A::Output, B::Output>;

    fn poll(self: Pin<&mut Self>, cx: &mut Context<'_>) -> Poll<Self::Output> {
        let both = self.project();
        match both.a.poll(cx) {
            Poll::Ready(a) => Poll::Ready(First::A(a)),
            Poll::Pending => both.b.poll(cx).map(First::B),
        }
    }
}

/// Runs two tasks until both end.
pub(crate) async fn both<A, B>(a: impl Future<Output = A>, b: impl Future<Output = B>) -> (A, B) {
    tokio::join!(a, b)
}

/// Runs two tasks until both end, or until one fails, and drops the other.
///
/// # Errors
/// The first failure.
pub(crate) async fn try_both<E>(
    a: impl Future<Output = Result<(), E>>,
    b: impl Future<Output = Result<(), E>>,
) -> Result<(), E> {
    let (mut a, mut b) = (pin!(a), pin!(b));
    let (mut a_done, mut b_done) = (false, false);
    poll_fn(|cx| {
        if !a_done && let Poll::Ready(done) = a.as_mut().poll(cx) {
            done?;
            a_done = true;
        }
        if !b_done && let Poll::Ready(done) = b.as_mut().poll(cx) {
            done?;
            b_done = true;
            // Its end may be that of the other, which nothing else may wake.
            if !a_done && let Poll::Ready(done) = a.as_mut().poll(cx) {
                done?;
                a_done = true;
            }
        }
        if a_done && b_done { Poll::Ready(Ok(())) } else { Poll::Pending }
    })
    .await
}

/// Runs `work` and catches a panic. State that `work` shared must not be used after one.
///
/// # Errors
/// The panic's message.
pub(crate) fn catch<T>(work: impl FnOnce() -> T) -> Result<T, String> {
    catch_unwind(AssertUnwindSafe(work)).map_err(|panic| panic_message(panic.as_ref()))
}

fn panic_message(panic: &(dyn Any + Send)) -> String {
    let text = panic.downcast_ref::<&str>().copied();
    text.or_else(|| panic.downcast_ref::<String>().map(String::as_str)).unwrap_or("?").to_owned()
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn long_turn_counts_the_turns_of_other_tasks() {
        let runtime = tokio::runtime::Builder::new_current_thread().build().unwrap();
        let counts = tokio::task::LocalSet::new().block_on(&runtime, async {
            let (sender, receiver) = tokio::sync::oneshot::channel();
            spawn(async move {
                let mut counts = vec![long_turn()];
                for _ in 0..3 {
                    give_way().await;
                    counts.push(long_turn());
                }
                spawn(async {});
                give_way().await;
                counts.push(long_turn());
                sender.send(counts).unwrap();
            });
            // The last turn of another long body runs between turns of the first one.
            spawn(async {
                for _ in 0..2 {
                    long_turn();
                    give_way().await;
                }
                long_turn();
            });
            receiver.await.unwrap()
        });
        assert_eq!(counts, [0, 0, 0, 0, 1]);
    }
}
