//! Waits for a time. A worker's have one timer of the system's for all: the runtime's own would have the
//! event loop read the clock, look through its timers and perhaps set one each time it waits for
//! anything at all. Where the system's timers are no descriptors the runtime's are used.

use std::cell::{Cell, RefCell};
use std::collections::BTreeMap;
use std::future::Future;
use std::io::{self, ErrorKind};
use std::mem;
use std::os::fd::OwnedFd;
use std::pin::Pin;
use std::rc::Rc;
use std::task::{Context, Poll, Waker};
use std::time::Duration;

use pin_project_lite::pin_project;
use tokio::net::unix::pipe::Receiver;

use crate::sys;

/// Times are kept this coarsely, in nanoseconds: those that fall together are one wake-up.
const GRAIN_NS: u64 = 1_000_000;

/// No time.
const NEVER: u64 = u64::MAX;

thread_local! {
    static OWN: RefCell<Option<Rc<Timers>>> = const { RefCell::new(None) };
}

/// From now on what waits for a time on this thread waits by this timer (`sys::timer`), in a task of
/// the runtime's.
///
/// # Errors
/// When the event loop does not take it.
pub fn keep_time(timer: OwnedFd) -> io::Result<()> {
    // Not a pipe, but read like one.
    let timers = Rc::new(Timers {
        timer: Receiver::from_owned_fd_unchecked(timer)?,
        sleepers: RefCell::default(),
        last: Cell::new(0),
        set_ns: Cell::new(NEVER),
    });
    super::spawn({
        let timers = Rc::clone(&timers);
        async move { timers.run().await }
    });
    OWN.set(Some(timers));
    Ok(())
}

/// A worker's.
struct Timers {
    timer: Receiver,
    /// By when, and a number of their own.
    sleepers: RefCell<BTreeMap<Key, Waker>>,
    last: Cell<u64>,
    /// When the timer will be ready.
    set_ns: Cell<u64>,
}

type Key = (u64, u64);

impl Timers {
    /// Wakes who sleeps, for as long as the worker lives.
    async fn run(&self) {
        while self.timer.readable().await.is_ok() {
            match self.timer.try_read(&mut [0; 8]) {
                // One that was set before made it ready.
                Err(e) if e.kind() == ErrorKind::WouldBlock => {}
                _ => self.wake(sys::precise_ns()),
            }
        }
    }

    fn wake(&self, now_ns: u64) {
        self.set_ns.set(NEVER);
        let due = {
            let mut sleepers = self.sleepers.borrow_mut();
            let later = sleepers.split_off(&(now_ns + 1, 0));
            mem::replace(&mut *sleepers, later)
        };
        due.into_values().for_each(Waker::wake);
        let next = self.sleepers.borrow().first_key_value().map(|(key, _)| key.0);
        if let Some(at_ns) = next {
            self.set(at_ns, now_ns);
        }
    }

    /// A place for who sleeps until then.
    fn put(&self, at_ns: u64, waker: Waker, now_ns: u64) -> Key {
        let key = (at_ns, self.last.get() + 1);
        self.last.set(key.1);
        self.sleepers.borrow_mut().insert(key, waker);
        self.set(at_ns, now_ns);
        key
    }

    fn set(&self, at_ns: u64, now_ns: u64) {
        if at_ns >= self.set_ns.get() {
            return;
        }
        match sys::set_timer(&self.timer, Duration::from_nanos(at_ns.saturating_sub(now_ns))) {
            Ok(()) => self.set_ns.set(at_ns),
            Err(e) => tracing::error!("the system's timer cannot be set: {e}"),
        }
    }
}

/// Waits at least this long, to the millisecond.
pub fn sleep(time: Duration) -> Sleep {
    let is_own = OWN.with_borrow(Option::is_some);
    Sleep(if is_own {
        let time_ns = u64::try_from(time.as_nanos()).unwrap_or(NEVER);
        let at_ns = sys::precise_ns().saturating_add(time_ns);
        let at_ns = at_ns.checked_next_multiple_of(GRAIN_NS).unwrap_or(NEVER);
        Kind::Own { at_ns, key: None }
    } else {
        Kind::Runtime(Box::pin(tokio::time::sleep(time)))
    })
}

/// See `sleep`.
pub struct Sleep(Kind);

enum Kind {
    /// By the worker's timer; the key is of its place there.
    Own {
        at_ns: u64,
        key: Option<Key>,
    },
    Runtime(Pin<Box<tokio::time::Sleep>>),
}

impl Future for Sleep {
    type Output = ();

    fn poll(mut self: Pin<&mut Self>, cx: &mut Context<'_>) -> Poll<()> {
        let (at_ns, key) = match &mut self.0 {
            Kind::Runtime(sleep) => return sleep.as_mut().poll(cx),
            Kind::Own { at_ns, key } => (*at_ns, key),
        };
        let now_ns = sys::precise_ns();
        OWN.with_borrow(|own| {
            // It has not left the thread it began on.
            let Some(timers) = own.as_deref().filter(|_| now_ns < at_ns) else {
                return Poll::Ready(());
            };
            let waker = cx.waker().clone();
            match *key {
                None => *key = Some(timers.put(at_ns, waker, now_ns)),
                Some(key) => {
                    let last = timers.sleepers.borrow_mut().insert(key, waker);
                    drop(last);
                }
            }
            Poll::Pending
        })
    }
}

impl Drop for Sleep {
    fn drop(&mut self) {
        if let Kind::Own { key: Some(key), .. } = self.0 {
            // A thread that ends has none any more.
            let _ = OWN.try_with(|own| {
                if let Ok(own) = own.try_borrow()
                    && let Some(timers) = own.as_deref()
                {
                    let waker = timers.sleepers.borrow_mut().remove(&key);
                    drop(waker);
                }
            });
        }
    }
}

/// `None` if `task` took longer.
pub fn timeout<F: Future>(time: Duration, task: F) -> Timeout<F> {
    Timeout { task, sleep: sleep(time) }
}

pin_project! {
    /// See `timeout`.
    pub struct Timeout<F> {
        #[pin]
        task: F,
        sleep: Sleep,
    }
}

impl<F: Future> Future for Timeout<F> {
    type Output = Option<F::Output>;

    fn poll(self: Pin<&mut Self>, cx: &mut Context<'_>) -> Poll<Self::Output> {
        let this = self.project();
        match this.task.poll(cx) {
            Poll::Ready(value) => Poll::Ready(Some(value)),
            Poll::Pending => Pin::new(this.sleep).poll(cx).map(|()| None),
        }
    }
}

#[cfg(test)]
mod tests {
    use std::rc::Rc;

    use tokio::runtime::{Builder, LocalOptions};

    use super::*;
    use crate::rt::{First, race, spawn};

    /// On a runtime that has no timers itself.
    fn on_own_timer(task: impl Future<Output = ()>) {
        let Ok(timer) = sys::timer() else { return };
        let mut builder = Builder::new_current_thread();
        let runtime = builder.enable_io().build_local(LocalOptions::default()).unwrap();
        runtime.block_on(async {
            keep_time(timer).unwrap();
            task.await;
        });
    }

    #[test]
    fn who_sleeps_wakes_in_time_and_in_order() {
        on_own_timer(async {
            let begun_ns = sys::precise_ns();
            let woken = Rc::new(RefCell::new(Vec::new()));
            for ms in [30, 10, 20, 0, 10, 40] {
                let woken = Rc::clone(&woken);
                spawn(async move {
                    sleep(Duration::from_millis(ms)).await;
                    let took_ns = sys::precise_ns() - begun_ns;
                    assert!(took_ns >= ms * 1_000_000, "{took_ns} ns for {ms} ms");
                    woken.borrow_mut().push(ms);
                });
            }
            sleep(Duration::from_millis(60)).await;
            assert_eq!(*woken.borrow(), [0, 10, 10, 20, 30, 40]);
        });
    }

    #[test]
    fn who_is_gone_is_not_woken_and_forgotten() {
        on_own_timer(async {
            let hour = Duration::from_secs(3600);
            let sleepers = || OWN.with_borrow(|own| own.as_ref().unwrap().sleepers.borrow().len());
            for _ in 0..3 {
                let first = race(sleep(hour), sleep(Duration::from_millis(1))).await;
                assert_eq!(first, First::B(()));
                assert_eq!(sleepers(), 0);
            }
            assert_eq!(timeout(hour, async { 1 }).await, Some(1));
            let late = timeout(Duration::from_millis(1), std::future::pending::<()>()).await;
            assert_eq!(late, None);
            assert_eq!(timeout(Duration::MAX, sleep(Duration::ZERO)).await, Some(()));
            assert_eq!(sleepers(), 0);
        });
    }

    #[test]
    fn elsewhere_the_runtime_keeps_time() {
        let runtime = Builder::new_current_thread().enable_time().build().unwrap();
        let late = runtime.block_on(async {
            timeout(Duration::from_millis(1), sleep(Duration::from_secs(3600))).await
        });
        assert_eq!(late, None);
    }
}
