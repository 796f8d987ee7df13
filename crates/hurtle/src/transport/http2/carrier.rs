//! A channel as HTTP/2's library wants it, and what is to be seen there: what comes in (`toll`),
//! whether the peer takes what goes out, and the end.

use std::cell::{Cell, RefCell};
use std::io::{self, IoSlice};
use std::pin::Pin;
use std::rc::Rc;
use std::task::{Context, Poll, ready};

use h2::Reason;
use tokio::io::{AsyncRead, AsyncWrite, ReadBuf};

use super::super::buffer::Gathered;
use super::super::{Input, Transport};
use super::toll::Toll;
use super::turns::Turns;
use crate::clock;

/// No time.
const NEVER: u64 = u64::MAX;

/// What is seen of a connection by who watches the clock.
#[derive(Debug)]
pub struct Pulse {
    toll: RefCell<Toll>,
    /// What the peer is told when it is given up; nothing more of what it sends is looked at.
    fault: Cell<Option<Reason>>,
    /// Since when the peer has taken nothing of what is written.
    blocked_ms: Cell<u64>,
    /// What of an unfinished write it has taken.
    waiting: Cell<u64>,
    /// The next write is to be tried though the socket is not said to be writable; see `Progress`.
    insist: Cell<bool>,
    /// The peer takes nothing: what it did not take is not kept for it.
    abort: Cell<bool>,
    /// When the last word was said.
    finished_ms: Cell<u64>,
    /// Bytes that have left.
    sent: Cell<u64>,
}

impl Pulse {
    pub(super) fn new() -> Rc<Pulse> {
        Rc::new(Pulse {
            toll: RefCell::new(Toll::new(clock::now_ms())),
            fault: Cell::new(None),
            blocked_ms: Cell::new(NEVER),
            waiting: Cell::new(0),
            insist: Cell::new(false),
            abort: Cell::new(false),
            finished_ms: Cell::new(NEVER),
            sent: Cell::new(0),
        })
    }

    /// Since when the peer owes the rest of a head, or of a frame that is no body.
    pub fn begun_ms(&self) -> u64 {
        if self.fault.get().is_some() { NEVER } else { self.toll.borrow().begun_ms() }
    }

    /// Since when the peer has taken nothing of what waits for it.
    pub fn blocked_ms(&self) -> u64 {
        self.blocked_ms.get()
    }

    /// Since when all that is waited for is the peer's end.
    pub fn finished_ms(&self) -> u64 {
        self.finished_ms.get()
    }

    /// Has the connection end by a reset.
    pub fn abort(&self) {
        self.abort.set(true);
    }

    /// Has one write tried whatever is said of the socket.
    pub fn insist(&self) {
        self.insist.set(true);
    }

    pub(super) fn fault(&self) -> Option<Reason> {
        self.fault.get()
    }

    pub(super) fn find_fault(&self, fault: Reason) {
        self.fault.set(Some(fault));
    }

    /// Bytes that have left.
    pub(super) fn sent(&self) -> u64 {
        self.sent.get()
    }

    fn wrote(&self, written: &Poll<io::Result<usize>>, waiting: u64) {
        match written {
            Poll::Ready(Ok(n)) => {
                self.toll.borrow_mut().sent(*n);
                self.sent.set(self.sent.get() + *n as u64);
                self.blocked_ms.set(NEVER);
            }
            Poll::Ready(Err(_)) => {}
            Poll::Pending => {
                if self.blocked_ms.get() == NEVER || self.waiting.get() != waiting {
                    self.blocked_ms.set(clock::now_ms());
                }
            }
        }
        self.waiting.set(waiting);
    }
}

/// A channel, and what is to leave by it. The library writes each frame by itself, and flushes:
/// frames are gathered here, and leave together once it has no more (`Session`).
pub(super) struct Conduit<T: Transport> {
    io: T,
    out: Gathered,
    /// Until there is a session, nobody else has it leave.
    gathers: bool,
    pulse: Rc<Pulse>,
}

impl<T: Transport> Conduit<T> {
    pub(super) fn new(io: T, pulse: Rc<Pulse>) -> Rc<RefCell<Conduit<T>>> {
        Rc::new(RefCell::new(Conduit { io, out: Gathered::default(), gathers: false, pulse }))
    }

    /// From now on somebody has it leave.
    pub(super) fn gather(&mut self) {
        self.gathers = true;
    }

    /// Whether nothing more can be written before some of it has left.
    pub(super) fn is_full(&self) -> bool {
        self.out.is_full()
    }

    /// Has all that was written leave.
    pub(super) fn poll_out(&mut self, cx: &mut Context<'_>) -> Poll<io::Result<()>> {
        while !self.out.bytes().is_empty() {
            let bufs = [IoSlice::new(self.out.bytes())];
            let written = match self.pulse.insist.take() {
                true => self.io.write_anyway(cx, &bufs),
                false => self.io.poll_write(cx, &bufs),
            };
            self.pulse.wrote(&written, self.io.taken_of_waiting());
            match ready!(written)? {
                0 => return Poll::Ready(Err(io::ErrorKind::WriteZero.into())),
                n => self.out.consume(n),
            }
        }
        Poll::Ready(Ok(()))
    }
}

impl<T: Transport> Drop for Conduit<T> {
    fn drop(&mut self) {
        if self.pulse.abort.get() {
            self.io.abort();
        }
    }
}

/// A channel in the library's hands.
pub(super) struct Carrier<T: Transport> {
    conduit: Rc<RefCell<Conduit<T>>>,
    /// What was read of it already.
    early: Input,
    pulse: Rc<Pulse>,
    turns: Rc<Turns>,
}

impl<T: Transport> Carrier<T> {
    pub(super) fn new(
        conduit: Rc<RefCell<Conduit<T>>>,
        early: Input,
        pulse: Rc<Pulse>,
        turns: Rc<Turns>,
    ) -> Carrier<T> {
        Carrier { conduit, early, pulse, turns }
    }
}

impl<T: Transport + Unpin> AsyncRead for Carrier<T> {
    fn poll_read(
        self: Pin<&mut Self>,
        cx: &mut Context<'_>,
        into: &mut ReadBuf<'_>,
    ) -> Poll<io::Result<()>> {
        let this = self.get_mut();
        if this.pulse.fault().is_some() {
            return Poll::Pending;
        }
        let before = into.filled().len();
        let early = this.early.bytes();
        if early.is_empty() {
            let mut conduit = this.conduit.borrow_mut();
            let n = ready!(conduit.io.poll_read(cx, into.initialize_unfilled()))?;
            into.advance(n);
        } else {
            let n = early.len().min(into.remaining());
            into.put_slice(&early[..n]);
            this.early.consume(n);
        }
        let mut toll = this.pulse.toll.borrow_mut();
        let passed = toll.pass(&into.filled()[before..]);
        for (stream, priority) in toll.wishes() {
            this.turns.wish(stream, priority);
        }
        if let Err(fault) = passed {
            this.pulse.find_fault(fault);
            into.set_filled(before);
            return Poll::Pending;
        }
        Poll::Ready(Ok(()))
    }
}

impl<T: Transport + Unpin> AsyncWrite for Carrier<T> {
    fn poll_write(
        self: Pin<&mut Self>,
        cx: &mut Context<'_>,
        bytes: &[u8],
    ) -> Poll<io::Result<usize>> {
        self.poll_write_vectored(cx, &[IoSlice::new(bytes)])
    }

    fn poll_write_vectored(
        self: Pin<&mut Self>,
        cx: &mut Context<'_>,
        bufs: &[IoSlice<'_>],
    ) -> Poll<io::Result<usize>> {
        let mut conduit = self.conduit.borrow_mut();
        if conduit.is_full() {
            ready!(conduit.poll_out(cx))?;
        }
        Poll::Ready(Ok(bufs.iter().map(|buf| conduit.out.put(buf)).sum()))
    }

    fn is_write_vectored(&self) -> bool {
        true
    }

    fn poll_flush(self: Pin<&mut Self>, cx: &mut Context<'_>) -> Poll<io::Result<()>> {
        let mut conduit = self.conduit.borrow_mut();
        if conduit.gathers { Poll::Ready(Ok(())) } else { conduit.poll_out(cx) }
    }

    /// Says the last word, then reads until the peer has seen it: closing with bytes unread would
    /// reset the connection, and what it was told with it.
    fn poll_shutdown(self: Pin<&mut Self>, cx: &mut Context<'_>) -> Poll<io::Result<()>> {
        let mut conduit = self.conduit.borrow_mut();
        ready!(conduit.poll_out(cx))?;
        if self.pulse.finished_ms.get() == NEVER {
            conduit.io.finish();
            self.pulse.finished_ms.set(clock::now_ms());
        }
        let mut unread = [0; 4 << 10];
        loop {
            match ready!(conduit.io.poll_read(cx, &mut unread)) {
                Ok(0) | Err(_) => return Poll::Ready(Ok(())),
                Ok(_) => {}
            }
        }
    }
}
