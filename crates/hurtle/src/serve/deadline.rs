//! When a connection is given up: one number each, looked at by one sweep a worker, so that setting
//! a deadline on every request costs a store, not a timer.

use std::cell::{Cell, OnceCell, RefCell};
use std::future::{Future, poll_fn};
use std::pin::Pin;
use std::rc::Rc;
use std::task::{Context, Poll, Waker};
use std::time::Duration;

use pin_project_lite::pin_project;
use slab::Slab;

use crate::clock;
use crate::rt::{self, Alarm, Bell};
use crate::transport::Progress;

/// Deadlines are kept this coarsely, in milliseconds: a sweep gathers those that fall together.
const GRAIN_MS: u64 = 50;

/// No deadline.
pub const NEVER: u64 = u64::MAX;

/// All deadlines of a worker.
#[derive(Debug, Default)]
pub struct Deadlines {
    slots: RefCell<Slab<Rc<Slot>>>,
    /// When the sweep will next look.
    next_ms: Cell<u64>,
    changed: Bell,
    draining: Cell<bool>,
}

#[derive(Debug)]
struct Slot {
    at_ms: Cell<u64>,
    passed: Cell<bool>,
    /// Between requests: a stop may end it.
    idle: Cell<bool>,
    waker: RefCell<Option<Waker>>,
}

/// A connection's deadline; it leaves the sweep when dropped. It is there once there is something to
/// wait for: most streams of HTTP/2 are answered before.
#[derive(Debug)]
pub struct Watch {
    all: Rc<Deadlines>,
    swept: OnceCell<(usize, Rc<Slot>)>,
}

/// The deadline passed first.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub struct Late;

impl Deadlines {
    /// None yet.
    pub fn new() -> Rc<Deadlines> {
        let all = Deadlines::default();
        all.next_ms.set(NEVER);
        Rc::new(all)
    }

    /// A new connection's.
    pub fn watch(self: &Rc<Deadlines>) -> Watch {
        Watch { all: Rc::clone(self), swept: OnceCell::new() }
    }

    /// Looks after the deadlines for as long as the worker lives.
    pub async fn sweep(&self) {
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

    /// Marks and wakes what is due; returns when the next one is.
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

    /// From now on nothing new is begun; connections between requests have `grace` to send one
    /// that is on its way.
    pub fn drain(&self, grace: Duration) {
        self.draining.set(true);
        let at_ms = clock::now_ms() + grace.as_millis() as u64;
        for (_, slot) in self.slots.borrow().iter() {
            if slot.idle.get() {
                slot.at_ms.set(at_ms.min(slot.at_ms.get()));
            }
        }
        self.changed.ring();
    }

    /// Whether the worker is stopping.
    pub fn is_draining(&self) -> bool {
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
                idle: Cell::new(false),
                waker: RefCell::new(None),
            });
            (self.all.slots.borrow_mut().insert(Rc::clone(&slot)), slot)
        });
        slot
    }

    /// Sets the deadline to `at_ms` on `clock`'s scale.
    pub fn set(&self, at_ms: u64) {
        let slot = self.slot();
        slot.passed.set(false);
        slot.at_ms.set(at_ms);
        if at_ms < self.all.next_ms.get() {
            self.all.next_ms.set(at_ms);
            self.all.changed.ring();
        }
    }

    /// Says whether the connection is between requests.
    pub fn set_idle(&self, idle: bool) {
        self.slot().idle.set(idle);
    }

    /// Awaits `task`, but not beyond the deadline.
    pub fn wait<F: Future>(&self, task: F) -> Wait<'_, F> {
        Wait { watch: self, task }
    }

    /// Awaits `task` for as long as `progress` goes on: the deadline moves with it by `stall_ms`.
    /// When it passes, one write more is tried before the peer is given up. What is held back by a
    /// limit is not the peer's delay.
    /// Pinned by the caller, who stores it anyway: a large task moved is stored twice.
    pub async fn wait_while_moving<F: Future>(
        &self,
        mut task: Pin<&mut F>,
        progress: &Progress,
        stall_ms: u64,
    ) -> Result<F::Output, Late> {
        let (mut seen, mut insisted) = (None, false);
        poll_fn(|cx| {
            loop {
                if let Poll::Ready(value) = task.as_mut().poll(cx) {
                    return Poll::Ready(Ok(value));
                }
                let state = Some((progress.mark(), progress.held.get()));
                if seen != state {
                    seen = state;
                    self.set(clock::now_ms() + stall_ms);
                    insisted = false;
                }
                match self.check(cx.waker()) {
                    Poll::Ready(Err(Late)) if progress.held.get() => seen = None,
                    Poll::Ready(Err(Late)) if !insisted => {
                        insisted = true;
                        progress.insist.set(true);
                    }
                    outcome => return outcome,
                }
            }
        })
        .await
    }

    /// Awaits `task`; whenever it waits, `due` says until when it may.
    pub fn wait_until<F: Future, D: FnMut() -> u64>(&self, task: F, due: D) -> WaitUntil<'_, F, D> {
        WaitUntil { watch: self, task, due, set: None }
    }

    fn check<T>(&self, waker: &Waker) -> Poll<Result<T, Late>> {
        let slot = self.slot();
        if slot.passed.get() {
            return Poll::Ready(Err(Late));
        }
        let mut kept = slot.waker.borrow_mut();
        if !kept.as_ref().is_some_and(|kept| kept.will_wake(waker)) {
            *kept = Some(waker.clone());
        }
        Poll::Pending
    }
}

pin_project! {
    /// See `Watch::wait`.
    pub struct Wait<'a, F> {
        watch: &'a Watch,
        #[pin]
        task: F,
    }
}

impl<F: Future> Future for Wait<'_, F> {
    type Output = Result<F::Output, Late>;

    fn poll(self: Pin<&mut Self>, cx: &mut Context<'_>) -> Poll<Self::Output> {
        let this = self.project();
        match this.task.poll(cx) {
            Poll::Ready(value) => Poll::Ready(Ok(value)),
            Poll::Pending => this.watch.check(cx.waker()),
        }
    }
}

pin_project! {
    /// See `Watch::wait_until`.
    pub struct WaitUntil<'a, F, D> {
        watch: &'a Watch,
        #[pin]
        task: F,
        due: D,
        set: Option<u64>,
    }
}

impl<F: Future, D: FnMut() -> u64> Future for WaitUntil<'_, F, D> {
    type Output = Result<F::Output, Late>;

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
        // Memory follows the number of connections down again.
        if slots.is_empty() {
            slots.shrink_to_fit();
        }
    }
}
