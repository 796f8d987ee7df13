//! Deadlines of connections. Each is one number that a sweep of the worker checks, so that setting
//! a deadline on every request costs a store, not a timer.

use std::cell::{Cell, OnceCell, RefCell};
use std::future::{Future, poll_fn};
use std::pin::Pin;
use std::rc::Rc;
use std::task::{Context, Poll, Waker};
use std::time::Duration;

use pin_project_lite::pin_project;
use slab::Slab;

use crate::clock::{self, NEVER};
use crate::rt::{self, Alarm, Bell};
use crate::transport::{Attempt, Progress};

/// Resolution of deadlines, in milliseconds; a sweep handles those that fall together.
const GRAIN_MS: u64 = 50;

/// All deadlines of a worker.
#[derive(Debug, Default)]
pub(crate) struct Deadlines {
    slots: RefCell<Slab<Rc<Slot>>>,
    /// Time of the next sweep, in milliseconds.
    next_ms: Cell<u64>,
    changed: Bell,
    draining: Cell<bool>,
    /// Time until which connections between requests stay open while the worker is stopping.
    grace_until_ms: Cell<u64>,
}

#[derive(Debug)]
struct Slot {
    at_ms: Cell<u64>,
    passed: Cell<bool>,
    idle: Cell<Idle>,
    waker: RefCell<Option<Waker>>,
}

/// The state that lets a stopping server close a connection.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
enum Idle {
    /// A request or a handshake is in progress.
    No,
    /// The connection of HTTP/1.1 waits for a request.
    Http1,
    /// A handshake or a PROXY header has not begun, or HTTP/2 or HTTP/3 decides when it is over.
    Other,
}

/// The deadline of a connection, removed from the sweep when dropped. It is registered at the first
/// wait: most HTTP/2 streams are answered before one.
#[derive(Debug)]
pub(crate) struct Watch {
    all: Rc<Deadlines>,
    swept: OnceCell<(usize, Rc<Slot>)>,
}

/// The deadline passed before the task was complete.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(crate) struct DeadlineError;

/// The schedule of writes to a peer that does not read.
///
/// The kernel reports a socket as writable only when a third of its buffer is free, so a write may
/// wait while the peer still reads. The first try comes soon after the wait began, since the buffer
/// usually empties a little more then. Further tries follow at doubling intervals while the peer
/// reads nothing. After the last try, a peer that reads anything within `stall_ms` is kept. A peer
/// that reads nothing is given up after `stall_ms` and the first pause.
#[derive(Clone, Copy, Debug)]
pub(crate) struct Stall {
    /// Time at which the peer last read something.
    since_ms: u64,
    /// Time from `since_ms` to the next try.
    pause_ms: u64,
    stall_ms: u64,
    /// `true` if the due try was made.
    has_tried: bool,
}

/// The next action for a stalled peer.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(crate) enum Pass {
    Try(Attempt),
    /// The try moved nothing: wait for the next one.
    Wait,
    /// The last try moved nothing.
    GiveUp,
}

impl Stall {
    /// The first try comes after this fraction of the stall timeout.
    const FIRST_PART: u64 = 64;

    /// Creates the schedule of a peer that has read nothing since `since_ms`, with a timeout of
    /// `stall_ms`.
    pub(crate) fn new(since_ms: u64, stall_ms: u64) -> Stall {
        let pause_ms = (stall_ms / Stall::FIRST_PART).max(GRAIN_MS).min(stall_ms);
        Stall { since_ms, pause_ms, stall_ms, has_tried: false }
    }

    /// Returns the time at which the peer last read something.
    pub(crate) fn since_ms(&self) -> u64 {
        self.since_ms
    }

    /// Returns the time of the next check.
    pub(crate) fn due_ms(&self) -> u64 {
        self.since_ms.saturating_add(self.pause_ms)
    }

    /// Returns the action that is due.
    pub(crate) fn pass(&mut self) -> Pass {
        if !self.has_tried {
            self.has_tried = true;
            return Pass::Try(if self.is_over() { Attempt::Last } else { Attempt::Forced });
        }
        if self.is_over() {
            return Pass::GiveUp;
        }
        self.has_tried = false;
        self.pause_ms = self.pause_ms.saturating_mul(2).min(self.stall_ms);
        Pass::Wait
    }

    /// Returns whether the stall timeout has passed.
    fn is_over(&self) -> bool {
        self.pause_ms >= self.stall_ms
    }
}

impl Deadlines {
    /// Creates an empty set of deadlines.
    pub(crate) fn new() -> Rc<Deadlines> {
        let all = Deadlines::default();
        all.next_ms.set(NEVER);
        Rc::new(all)
    }

    /// Creates the deadline of a new connection.
    pub(crate) fn watch(self: &Rc<Deadlines>) -> Watch {
        Watch { all: Rc::clone(self), swept: OnceCell::new() }
    }

    /// Enforces the deadlines for the lifetime of the worker.
    pub(crate) async fn sweep(&self) {
        let mut alarm = Alarm::unset();
        loop {
            let now_ms = clock::now_ms();
            let next_ms = self.pass(now_ms);
            self.next_ms.set(next_ms);
            let changed = self.changed.wait(None);
            match next_ms {
                NEVER => changed.await,
                at => {
                    let ms = at.saturating_sub(now_ms).max(GRAIN_MS);
                    rt::race(changed, alarm.wait(Duration::from_millis(ms))).await;
                }
            }
        }
    }

    /// Wakes the connections whose deadline has passed; returns the time of the next deadline.
    fn pass(&self, now_ms: u64) -> u64 {
        let mut next_ms = NEVER;
        for (_, slot) in self.slots.borrow().iter() {
            if slot.at_ms.get() <= now_ms {
                slot.expire();
            } else {
                next_ms = next_ms.min(slot.at_ms.get());
            }
        }
        next_ms
    }

    /// Wakes all connections that wait, which then let go of a replaced configuration.
    pub(crate) fn wake_all(&self) {
        for (_, slot) in self.slots.borrow().iter() {
            // It stays: a task that finds nothing to do does not register itself again.
            if let Some(waker) = slot.waker.borrow().as_ref() {
                waker.wake_by_ref();
            }
        }
    }

    /// Returns the number of connections of HTTP/1.1 that wait for a request.
    pub(crate) fn http1_idle_count(&self) -> usize {
        self.slots.borrow().iter().filter(|(_, slot)| slot.idle.get() == Idle::Http1).count()
    }

    /// Begins to stop: connections start no new requests. Connections between requests have `grace`
    /// to send one that is under way.
    pub(crate) fn drain(&self, grace: Duration) {
        self.draining.set(true);
        let at_ms = clock::now_ms() + grace.as_millis() as u64;
        self.grace_until_ms.set(at_ms);
        for (_, slot) in self.slots.borrow().iter() {
            if slot.idle.get() != Idle::No {
                slot.at_ms.set(at_ms.min(slot.at_ms.get()));
            }
        }
        self.changed.ring();
    }

    /// Returns the time until which a connection between requests stays open while the worker is
    /// stopping.
    pub(crate) fn grace_until_ms(&self) -> u64 {
        self.grace_until_ms.get()
    }

    /// Returns whether the worker is stopping.
    pub(crate) fn is_draining(&self) -> bool {
        self.draining.get()
    }
}

impl Slot {
    fn expire(&self) {
        self.at_ms.set(NEVER);
        self.passed.set(true);
        if let Some(waker) = self.waker.borrow_mut().take() {
            waker.wake();
        }
    }
}

impl Watch {
    fn slot(&self) -> &Slot {
        let (_, slot) = self.swept.get_or_init(|| {
            let slot = Rc::new(Slot {
                at_ms: Cell::new(NEVER),
                passed: Cell::new(false),
                idle: Cell::new(Idle::No),
                waker: RefCell::new(None),
            });
            (self.all.slots.borrow_mut().insert(Rc::clone(&slot)), slot)
        });
        slot
    }

    /// Sets the deadline to `at_ms`, on the scale of `clock`.
    pub(crate) fn set(&self, at_ms: u64) {
        let slot = self.slot();
        slot.passed.set(false);
        slot.at_ms.set(at_ms);
        if at_ms < self.all.next_ms.get() {
            self.all.next_ms.set(at_ms);
            self.all.changed.ring();
        }
    }

    /// Sets whether a stopping server may close the connection, which is not one of HTTP/1.1.
    pub(crate) fn set_idle(&self, idle: bool) {
        self.slot().idle.set(if idle { Idle::Other } else { Idle::No });
    }

    /// Sets whether the connection of HTTP/1.1 waits for a request.
    pub(crate) fn set_http1_idle(&self, idle: bool) {
        self.slot().idle.set(if idle { Idle::Http1 } else { Idle::No });
    }

    /// Awaits `task` until the deadline.
    pub(crate) fn wait<F: Future>(&self, task: F) -> Wait<'_, F> {
        Wait { watch: self, task }
    }

    /// Awaits `task` while it moves bytes. Gives the peer up if it reads nothing for `stall_ms`
    /// (see [`Stall`]). Waits for a rate limit do not count. The caller pins the task, because
    /// moving a large one would store it twice.
    pub(crate) async fn wait_while_moving<F: Future>(
        &self,
        mut task: Pin<&mut F>,
        progress: &Progress,
        stall_ms: u64,
    ) -> Result<F::Output, DeadlineError> {
        let (mut seen, mut stall) = (None, Stall::new(0, stall_ms));
        poll_fn(|cx| {
            loop {
                if let Poll::Ready(value) = task.as_mut().poll(cx) {
                    return Poll::Ready(Ok(value));
                }
                let state = Some((progress.mark(), progress.held.get()));
                if seen != state {
                    seen = state;
                    stall = Stall::new(clock::now_ms(), stall_ms);
                    self.set(stall.due_ms());
                }
                if self.check::<F::Output>(cx.waker()).is_pending() {
                    return Poll::Pending;
                }
                if progress.held.get() {
                    seen = None;
                    continue;
                }
                match stall.pass() {
                    Pass::Try(how) => progress.attempt.set(how),
                    Pass::Wait => self.set(stall.due_ms()),
                    Pass::GiveUp => return Poll::Ready(Err(DeadlineError)),
                }
            }
        })
        .await
    }

    /// Awaits `task`; each time it is pending, `due` returns its deadline.
    pub(crate) fn wait_until<F: Future, D: FnMut() -> u64>(
        &self,
        task: F,
        due: D,
    ) -> WaitUntil<'_, F, D> {
        WaitUntil { watch: self, task, due, set: None }
    }

    fn check<T>(&self, waker: &Waker) -> Poll<Result<T, DeadlineError>> {
        let slot = self.slot();
        if slot.passed.get() {
            return Poll::Ready(Err(DeadlineError));
        }
        let mut kept = slot.waker.borrow_mut();
        if !kept.as_ref().is_some_and(|kept| kept.will_wake(waker)) {
            *kept = Some(waker.clone());
        }
        Poll::Pending
    }
}

pin_project! {
    /// The future that `Watch::wait` returns.
    pub(crate) struct Wait<'a, F> {
        watch: &'a Watch,
        #[pin]
        task: F,
    }
}

impl<F: Future> Future for Wait<'_, F> {
    type Output = Result<F::Output, DeadlineError>;

    fn poll(self: Pin<&mut Self>, cx: &mut Context<'_>) -> Poll<Self::Output> {
        let this = self.project();
        match this.task.poll(cx) {
            Poll::Ready(value) => Poll::Ready(Ok(value)),
            Poll::Pending => this.watch.check(cx.waker()),
        }
    }
}

pin_project! {
    /// The future that `Watch::wait_until` returns.
    pub(crate) struct WaitUntil<'a, F, D> {
        watch: &'a Watch,
        #[pin]
        task: F,
        due: D,
        set: Option<u64>,
    }
}

impl<F: Future, D: FnMut() -> u64> Future for WaitUntil<'_, F, D> {
    type Output = Result<F::Output, DeadlineError>;

    fn poll(self: Pin<&mut Self>, cx: &mut Context<'_>) -> Poll<Self::Output> {
        let this = self.project();
        if let Poll::Ready(value) = this.task.poll(cx) {
            return Poll::Ready(Ok(value));
        }
        let at_ms = (this.due)();
        if *this.set != Some(at_ms) {
            *this.set = Some(at_ms);
            this.watch.set(at_ms);
        }
        this.watch.check(cx.waker())
    }
}

impl Drop for Watch {
    fn drop(&mut self) {
        let Some((key, _)) = self.swept.get() else { return };
        let mut slots = self.all.slots.borrow_mut();
        slots.remove(*key);
        // Frees memory when the connections are gone.
        if slots.is_empty() {
            slots.shrink_to_fit();
        }
    }
}
