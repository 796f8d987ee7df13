//! The few things of the runtime that code outside transport and server needs.

use std::any::Any;
use std::cell::Cell;
use std::fmt;
use std::future::{Future, poll_fn};
use std::io;
use std::panic::{AssertUnwindSafe, catch_unwind};
use std::pin::pin;
use std::task::Poll;
use std::time::{Duration, Instant};

thread_local! {
    /// How often tasks of this worker had a turn.
    static TURNS: Cell<u64> = const { Cell::new(0) };
}

/// Runs `task` beside the others on this worker.
pub fn spawn(task: impl Future<Output = ()> + 'static) {
    // In its box: a task within another future would be twice as large.
    let mut task = Box::pin(task);
    drop(tokio::task::spawn_local(poll_fn(move |cx| {
        TURNS.set(TURNS.get().wrapping_add(1));
        task.as_mut().poll(cx)
    })));
}

/// The same, until the task's handle is dropped.
pub fn spawn_held(task: impl Future<Output = ()> + 'static) -> Task {
    Task(Some(tokio::task::spawn_local(Box::pin(task)).abort_handle()))
}

/// Lets every other connection that is ready have its turn first. Whether nobody wanted one.
pub async fn give_way() -> bool {
    let before = TURNS.get();
    tokio::task::yield_now().await;
    // The last turn is the asker's own.
    TURNS.get().wrapping_sub(before) <= 1
}

/// Waits at least this long.
pub async fn sleep(time: Duration) {
    tokio::time::sleep(time).await;
}

/// `None` if `task` took longer.
pub async fn timeout<T>(time: Duration, task: impl Future<Output = T>) -> Option<T> {
    tokio::time::timeout(time, task).await.ok()
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
pub async fn race<A, B>(a: impl Future<Output = A>, b: impl Future<Output = B>) -> First<A, B> {
    let (mut a, mut b) = (pin!(a), pin!(b));
    poll_fn(|cx| match a.as_mut().poll(cx) {
        Poll::Ready(a) => Poll::Ready(First::A(a)),
        Poll::Pending => b.as_mut().poll(cx).map(First::B),
    })
    .await
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

/// Runs a task; `took` is told how long each turn of it was.
pub async fn timed<T>(task: impl Future<Output = T>, took: impl Fn(Duration)) -> T {
    let mut task = pin!(task);
    poll_fn(|cx| {
        let begun = Instant::now();
        let polled = task.as_mut().poll(cx);
        took(begun.elapsed());
        polled
    })
    .await
}

/// Runs a task that may panic; the error is what the panic said.
///
/// # Errors
/// The task panicked; it must not be asked again, and is not.
pub async fn caught<T>(task: impl Future<Output = T>) -> Result<T, String> {
    let mut task = pin!(task);
    poll_fn(|cx| match catch_unwind(AssertUnwindSafe(|| task.as_mut().poll(cx))) {
        Ok(polled) => polled.map(Ok),
        Err(panic) => Poll::Ready(Err(said(panic.as_ref()))),
    })
    .await
}

fn said(panic: &(dyn Any + Send)) -> String {
    let text = panic.downcast_ref::<&str>().copied();
    text.or_else(|| panic.downcast_ref::<String>().map(String::as_str)).unwrap_or("?").to_owned()
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn who_gives_way_learns_whether_anybody_else_had_a_turn() {
        let runtime = tokio::runtime::Builder::new_current_thread().build().unwrap();
        let told = tokio::task::LocalSet::new().block_on(&runtime, async {
            let (tell, told) = tokio::sync::oneshot::channel();
            spawn(async move {
                // Another was there before; then it is gone; then there is another.
                let (beside, alone) = (give_way().await, give_way().await);
                spawn(async {});
                tell.send([beside, alone, give_way().await]).unwrap();
            });
            spawn(async {});
            told.await.unwrap()
        });
        assert_eq!(told, [false, true, false]);
    }
}
