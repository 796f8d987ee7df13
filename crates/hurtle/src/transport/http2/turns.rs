//! Which of a connection's streams sends next (RFC 9218 10): the most urgent; of equals the one asked
//! for first, or all in turn where the client can use them in parts. Only bodies whose length is
//! known stand in line: one that is made as it goes is never ready for long. Who has the turn and
//! cannot use it, for want of a window or of a disk, is passed over until it can.

use std::cell::{Cell, RefCell};
use std::collections::VecDeque;
use std::task::{Context, Waker};

use crate::semantics::priority::Priority;

/// Before it come streams that are not to be mixed, by their numbers (31 bits).
const SHARED: u64 = 1 << 32;

/// Wishes kept for streams that are not in line: before they are opened, or answered.
const WISHES_MAX: usize = 32;

/// A connection's line. It is as long as there are streams.
#[derive(Debug, Default)]
pub(super) struct Turns {
    /// Some client's wish was seen: before, everybody sends as windows allow.
    heeded: Cell<bool>,
    line: RefCell<Vec<Place>>,
    /// What was said of streams that are not in line yet, the oldest first.
    wishes: RefCell<VecDeque<(u32, Priority)>>,
    /// Places given out to those that share.
    shared: Cell<u64>,
    /// Pieces that left in turn.
    moved: Cell<u64>,
    /// Who passes on a turn that is not used.
    driver: RefCell<Option<Waker>>,
}

/// A stream's place in line.
#[derive(Debug)]
struct Place {
    stream: u32,
    priority: Priority,
    /// Among those that are as urgent.
    order: u64,
    /// It had its turn and did not use it.
    is_passed_over: bool,
    /// It waits for its turn.
    waiting: Option<Waker>,
}

impl Turns {
    /// There are wishes: from now on streams stand in line.
    pub(super) fn heed(&self) {
        self.heeded.set(true);
    }

    /// Whether it is this stream's turn; else it is woken when it is.
    pub(super) fn has(&self, stream: u32, priority: Priority, cx: &Context<'_>) -> bool {
        if !self.heeded.get() {
            return true;
        }
        let mut line = self.line.borrow_mut();
        let at = line.iter().position(|place| place.stream == stream).unwrap_or_else(|| {
            line.push(self.place(stream, priority));
            line.len() - 1
        });
        let is_first = first(&line) == Some(at);
        line[at].waiting = (!is_first).then(|| cx.waker().clone());
        drop(line);
        if !is_first {
            self.wake_driver();
        }
        is_first
    }

    /// A stream has another priority now, or will have when it comes.
    pub(super) fn wish(&self, stream: u32, priority: Priority) {
        self.heed();
        let mut line = self.line.borrow_mut();
        if let Some(place) = line.iter_mut().find(|place| place.stream == stream) {
            (place.priority, place.order) = (priority, self.order(stream, priority));
            return wake_first(&mut line);
        }
        let mut wishes = self.wishes.borrow_mut();
        wishes.retain(|(of, _)| *of != stream);
        if wishes.len() == WISHES_MAX {
            wishes.pop_front();
        }
        wishes.push_back((stream, priority));
    }

    fn place(&self, stream: u32, priority: Priority) -> Place {
        let mut wishes = self.wishes.borrow_mut();
        let wished = wishes.iter().position(|(of, _)| *of == stream);
        let wished = wished.and_then(|at| wishes.remove(at)).map(|(_, priority)| priority);
        let priority = wished.unwrap_or(priority);
        let order = self.order(stream, priority);
        Place { stream, priority, order, is_passed_over: false, waiting: None }
    }

    fn order(&self, stream: u32, priority: Priority) -> u64 {
        if priority.incremental { self.next_shared() } else { stream.into() }
    }

    fn next_shared(&self) -> u64 {
        self.shared.set(self.shared.get() + 1);
        SHARED + self.shared.get()
    }

    /// Whether this stream has not used its turn, and waits for what it lacked.
    pub(super) fn is_passed_over(&self, stream: u32) -> bool {
        self.line.borrow().iter().any(|place| place.stream == stream && place.is_passed_over)
    }

    /// Whether this stream waits for others.
    pub(super) fn is_waiting(&self, stream: u32) -> bool {
        self.line.borrow().iter().any(|place| place.stream == stream && place.waiting.is_some())
    }

    /// It could use a turn again. So perhaps could those before it, which lacked the same.
    pub(super) fn come_back(&self, stream: u32) {
        let mut line = self.line.borrow_mut();
        let own = line.iter().find(|place| place.stream == stream).map(Place::rank);
        for place in line.iter_mut().filter(|place| Some(place.rank()) <= own) {
            place.is_passed_over = false;
        }
    }

    /// A piece of it was sent, and there is more.
    pub(super) fn sent(&self, stream: u32) {
        self.moved.set(self.moved.get() + 1);
        let mut line = self.line.borrow_mut();
        if let Some(place) = line.iter_mut().find(|place| place.stream == stream)
            && place.priority.incremental
        {
            place.order = self.next_shared();
            wake_first(&mut line);
        }
    }

    /// It has no room for what it would send: others may have. Where others before it had none it is
    /// likely to be the connection's, and is theirs when there is some.
    pub(super) fn stands(&self, stream: u32) {
        let mut line = self.line.borrow_mut();
        let own = line.iter().position(|place| place.stream == stream);
        if let Some(own) = own
            && line.iter().any(|other| other.is_passed_over && other.rank() < line[own].rank())
        {
            line[own].is_passed_over = true;
            return wake_first(&mut line);
        }
        drop(line);
        if self.is_in_doubt() {
            self.wake_driver();
        }
    }

    /// It has nothing more to send.
    pub(super) fn leave(&self, stream: u32) {
        let mut line = self.line.borrow_mut();
        if let Some(at) = line.iter().position(|place| place.stream == stream) {
            line.swap_remove(at);
            wake_first(&mut line);
        }
    }

    /// Whether a turn may have to be passed on; if not, this task is woken when it may.
    pub(super) fn poll_doubt(&self, cx: &Context<'_>) -> bool {
        let mut driver = self.driver.borrow_mut();
        if self.heeded.get() && !driver.as_ref().is_some_and(|d| d.will_wake(cx.waker())) {
            *driver = Some(cx.waker().clone());
        }
        self.is_in_doubt()
    }

    /// Whether somebody has the turn for whom others wait; or who, if it cannot use it either, must
    /// not be before those that were passed over when they all can again.
    fn is_in_doubt(&self) -> bool {
        let line = self.line.borrow();
        let first = first(&line);
        let others = || line.iter().enumerate().filter(|(at, _)| Some(*at) != first);
        first.is_some() && others().any(|(_, p)| p.is_passed_over || p.waiting.is_some())
    }

    /// A number that changes with every piece.
    pub(super) fn moved(&self) -> u64 {
        self.moved.get()
    }

    /// Passes on the turn of who could have used it since then, and has not; whether it was so.
    pub(super) fn pass_on(&self, moved: u64) -> bool {
        let mut line = self.line.borrow_mut();
        let unused = first(&line).filter(|_| self.moved.get() == moved);
        if let Some(at) = unused {
            line[at].is_passed_over = true;
            wake_first(&mut line);
        }
        unused.is_some()
    }

    fn wake_driver(&self) {
        if let Some(driver) = &*self.driver.borrow() {
            driver.wake_by_ref();
        }
    }
}

impl Place {
    fn rank(&self) -> (u8, u64) {
        (self.priority.urgency, self.order)
    }
}

/// Whose turn it is.
fn first(line: &[Place]) -> Option<usize> {
    let able = line.iter().enumerate().filter(|(_, place)| !place.is_passed_over);
    able.min_by_key(|(_, place)| place.rank()).map(|(at, _)| at)
}

fn wake_first(line: &mut [Place]) {
    if let Some(at) = first(line)
        && let Some(waker) = line[at].waiting.take()
    {
        waker.wake();
    }
}
