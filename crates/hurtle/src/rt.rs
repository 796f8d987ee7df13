//! The few things of the runtime that code outside transport and server needs.

mod alarm;

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

pub use alarm::Alarm;

thread_local! {
    /// How often tasks of this worker had a turn that was not a part of a long body.
    static TURNS: Cell<u64> = const { Cell::new(0) };
    /// Whether this turn is one.
    static IS_LONG: Cell<bool> = const { Cell::new(false) };
    /// What a task was in that was over at once, for the next one of its kind.
    static ROOM: RefCell<Option<Box<dyn Any>>> = const { RefCell::new(None) };
}

/// Runs `task` beside the others on this worker.
pub fn spawn(task: impl Future<Output = ()> + 'static) {
    // In its box: a task within another future would be twice as large.
    spawn_boxed(Box::pin(task));
}

/// Runs `task` at once as far as it goes without waiting, and then, if it is not over, beside the
/// others on this worker.
pub fn begin<F: Future + 'static>(task: F) {
    let room = ROOM.take().and_then(|room| room.downcast::<Pin<Box<F>>>().ok());
    let mut begun = match room {
        Some(mut room) => {
            room.set(task);
            room
        }
        None => Box::new(Box::pin(task)),
    };
    // As a task of its own it is asked again, and then whoever it waits for knows whom to wake.
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

/// The same, until the task's handle is dropped.
pub fn spawn_held(task: impl Future<Output = ()> + 'static) -> Task {
    Task(Some(tokio::task::spawn_local(Box::pin(task)).abort_handle()))
}

/// Lets every other connection that is ready have its turn first.
pub async fn give_way() {
    tokio::task::yield_now().await;
}

/// Says that this turn is a part of a long body; returns how many turns so far were not. While
/// that stays the same, nobody has come who would mind a longer wait.
pub fn long_turn() -> u64 {
    IS_LONG.set(true);
    TURNS.get()
}

/// Waits at least this long. What a worker waits for again and again has an [`Alarm`].
pub async fn sleep(time: Duration) {
    tokio::time::sleep(time).await;
}

/// `None` if `task` took longer.
pub fn timeout<F: Future>(time: Duration, task: F) -> Timeout<F> {
    Timeout { timed: tokio::time::timeout(time, task) }
}

pin_project! {
    /// See `timeout`.
    pub struct Timeout<F> {
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

/// A bell that one task waits for and others ring, on whatever worker.
#[derive(Debug, Default)]
pub struct Bell(tokio::sync::Notify);

impl Bell {
    /// Wakes who waits, or the next one who will.
    pub fn ring(&self) {
        self.0.notify_one();
    }

    /// Wakes all who wait now.
    pub fn ring_all(&self) {
        self.0.notify_waiters();
    }

    /// Waits for the bell, at most this long (`None`: as long as it takes).
    pub async fn wait(&self, at_most: Option<Duration>) {
        match at_most {
            None => self.0.notified().await,
            Some(time) => drop(timeout(time, self.0.notified()).await),
        }
    }
}

/// Threads for tasks that may hold the one they run on: as many as there are processors, and more
/// for what asks for them (`spawn_blocking`).
pub struct Threads(Option<tokio::runtime::Runtime>);

impl Threads {
    /// Starts them, called `name`.
    ///
    /// # Errors
    /// When the system refuses a thread.
    pub fn start(name: &str) -> io::Result<Threads> {
        let mut threads = tokio::runtime::Builder::new_multi_thread();
        Ok(Threads(Some(threads.thread_name(name).enable_all().build()?)))
    }

    /// Runs a task there.
    pub fn spawn(&self, task: impl Future<Output = ()> + Send + 'static) -> Task {
        Task(self.0.as_ref().map(|threads| threads.spawn(task).abort_handle()))
    }
}

impl Drop for Threads {
    /// Waits for none of them: the last handle may go on any thread, and a task never end.
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

/// A task on other threads, or beside the others on this one. Dropped, it ends the task, at its next wait.
#[derive(Debug)]
pub struct Task(Option<tokio::task::AbortHandle>);

impl Task {
    /// Lets the task run to its own end.
    pub fn let_go(mut self) {
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

/// A value on its way from one task to another, maybe on another thread.
pub fn once<T>() -> (Teller<T>, Told<T>) {
    let (teller, told) = tokio::sync::oneshot::channel();
    (Teller(teller), Told(told))
}

/// Who gives the value.
#[derive(Debug)]
pub struct Teller<T>(tokio::sync::oneshot::Sender<T>);

/// Who waits for it.
#[derive(Debug)]
pub struct Told<T>(tokio::sync::oneshot::Receiver<T>);

impl<T> Teller<T> {
    /// Whether nobody waits for it any more.
    pub fn is_deaf(&self) -> bool {
        self.0.is_closed()
    }

    /// Gives it; if nobody waits any more it is dropped.
    pub fn tell(self, value: T) {
        drop(self.0.send(value));
    }
}

impl<T> Told<T> {
    /// The value; `None`: its giver is gone.
    pub async fn wait(self) -> Option<T> {
        self.0.await.ok()
    }
}

/// Which of two tasks was done first.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum First<A, B> {
    /// The first.
    A(A),
    /// The second.
    B(B),
}

/// Runs two tasks until one is done, and drops the other. The first is asked first.
pub fn race<A: Future, B: Future>(a: A, b: B) -> Race<A, B> {
    Race { a, b }
}

// Types, not async functions: those keep what they are given twice, once as an argument and once
// where they await it, and so each layer of them doubles the ones beneath it.
pin_project! {
    /// See `race`.
    pub struct Race<A, B> {
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

/// Runs two tasks until both are done.
pub async fn both<A, B>(a: impl Future<Output = A>, b: impl Future<Output = B>) -> (A, B) {
    tokio::join!(a, b)
}

/// Runs two tasks until both are done, or one of them has failed, and drops the other.
///
/// # Errors
/// The first failure.
pub async fn try_both<E>(
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
        }
        if a_done && b_done { Poll::Ready(Ok(())) } else { Poll::Pending }
    })
    .await
}

/// Does what may panic; the error is what the panic said. What panicked must not be asked again.
///
/// # Errors
/// It panicked.
pub fn catch<T>(work: impl FnOnce() -> T) -> Result<T, String> {
    catch_unwind(AssertUnwindSafe(work)).map_err(|panic| said(panic.as_ref()))
}

fn said(panic: &(dyn Any + Send)) -> String {
    let text = panic.downcast_ref::<&str>().copied();
    text.or_else(|| panic.downcast_ref::<String>().map(String::as_str)).unwrap_or("?").to_owned()
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn who_sends_a_long_body_learns_whether_anybody_came_who_does_not() {
        let runtime = tokio::runtime::Builder::new_current_thread().build().unwrap();
        let told = tokio::task::LocalSet::new().block_on(&runtime, async {
            let (tell, told) = tokio::sync::oneshot::channel();
            spawn(async move {
                let mut seen = vec![long_turn()];
                for _ in 0..3 {
                    give_way().await;
                    seen.push(long_turn());
                }
                spawn(async {});
                give_way().await;
                seen.push(long_turn());
                tell.send(seen).unwrap();
            });
            // Another long body, whose last turn is beside the first one's third.
            spawn(async {
                for _ in 0..2 {
                    long_turn();
                    give_way().await;
                }
                long_turn();
            });
            told.await.unwrap()
        });
        assert_eq!(told, [0, 0, 0, 0, 1]);
    }
}
