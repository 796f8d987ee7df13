//! A channel as HTTP/2's library wants it, and what is to be seen there: what comes in (`toll`),
//! whether the peer takes what goes out, and the end.

use std::cell::{Cell, RefCell};
use std::io::{self, IoSlice};
use std::pin::Pin;
use std::rc::Rc;
use std::task::{Context, Poll, ready};

use h2::Reason;
use tokio::io::{AsyncRead, AsyncWrite, ReadBuf};

use super::super::buffer::{Gathered, Piece};
use super::super::{Input, Transport};
use super::toll::Toll;
use super::turns::Turns;
use crate::clock;

/// What waits to leave may be this much: a write's worth.
const WAITING_BYTES_MAX: usize = 64 << 10;

/// A record of TLS holds so much (RFC 8446 5.1).
const RECORD_BYTES: usize = 16 << 10;

/// Less is gathered: a record costs more than a copy of it.
const AHEAD_BYTES_MIN: usize = 4 << 10;

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
    /// The requests being answered.
    streams: Cell<usize>,
    /// When the last one ended.
    ended_ms: Cell<u64>,
}

impl Pulse {
    pub(super) fn new() -> Rc<Pulse> {
        let now_ms = clock::now_ms();
        Rc::new(Pulse {
            toll: RefCell::new(Toll::new(now_ms)),
            fault: Cell::new(None),
            blocked_ms: Cell::new(NEVER),
            waiting: Cell::new(0),
            insist: Cell::new(false),
            abort: Cell::new(false),
            finished_ms: Cell::new(NEVER),
            sent: Cell::new(0),
            streams: Cell::new(0),
            ended_ms: Cell::new(now_ms),
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

    /// How many requests are being answered.
    pub fn streams(&self) -> usize {
        self.streams.get()
    }

    /// When the last answer to one ended, or the connection began.
    pub fn ended_ms(&self) -> u64 {
        self.ended_ms.get()
    }

    pub(super) fn stream_begins(&self) {
        self.streams.set(self.streams.get() + 1);
    }

    pub(super) fn stream_ends(&self) {
        self.streams.set(self.streams.get() - 1);
        self.ended_ms.set(clock::now_ms());
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
/// frames are gathered here, and leave together once it has no more (`Session`). Where they are
/// encrypted a large one is so at once: it is copied no more often than that.
pub(super) struct Conduit<T: Transport> {
    io: T,
    out: Gathered,
    /// Bytes before those that the channel has taken, and that have not left.
    ahead: usize,
    /// Until there is a session, nobody else has it leave.
    gathers: bool,
    pulse: Rc<Pulse>,
}

impl<T: Transport> Conduit<T> {
    pub(super) fn new(io: T, pulse: Rc<Pulse>) -> Rc<RefCell<Conduit<T>>> {
        Rc::new(RefCell::new(Conduit {
            io,
            out: Gathered::default(),
            ahead: 0,
            gathers: false,
            pulse,
        }))
    }

    /// From now on somebody has it leave.
    pub(super) fn gather(&mut self) {
        self.gathers = true;
    }

    /// Whether nothing more can be written before some of it has left.
    pub(super) fn is_full(&self) -> bool {
        self.out.is_full() || self.waiting() >= WAITING_BYTES_MAX
    }

    fn waiting(&self) -> usize {
        self.ahead + self.out.bytes().len()
    }

    /// Takes some of these bytes; how many.
    fn put(&mut self, bufs: &[IoSlice<'_>]) -> io::Result<usize> {
        let mut taken = self.put_ahead(bufs)?;
        let mut skipped = taken;
        for buf in bufs {
            let skips = skipped.min(buf.len());
            skipped -= skips;
            taken += self.out.put(&buf[skips..]);
        }
        Ok(taken)
    }

    /// Has the channel take what was gathered and these behind it, if that is worth a record, or so
    /// many full ones; how many of these.
    fn put_ahead(&mut self, bufs: &[IoSlice<'_>]) -> io::Result<usize> {
        let held = self.out.bytes().len();
        let [first, second] = [0, 1].map(|at| bufs.get(at).map_or(&[][..], |buf| &buf[..]));
        let all = held + first.len() + second.len();
        if all < AHEAD_BYTES_MIN {
            return Ok(0);
        }
        let full = all / RECORD_BYTES * RECORD_BYTES;
        let mut left = if full > 0 { full } else { all };
        left = left.min(WAITING_BYTES_MAX.saturating_sub(self.ahead));
        let some = [self.out.bytes(), first, second].map(|bytes| {
            let n = bytes.len().min(left);
            left -= n;
            IoSlice::new(&bytes[..n])
        });
        let taken = self.io.take_ahead(&some)?;
        self.ahead += taken;
        if held > 0 {
            self.out.consume(held.min(taken));
        }
        Ok(taken.saturating_sub(held))
    }

    /// Has all that was written leave.
    pub(super) fn poll_out(&mut self, cx: &mut Context<'_>) -> Poll<io::Result<()>> {
        while self.waiting() > 0 {
            let some = [IoSlice::new(self.out.bytes())];
            let bufs = if some[0].is_empty() { &[][..] } else { &some[..] };
            let written = match self.pulse.insist.take() {
                true => self.io.write_anyway(cx, bufs),
                false => self.io.poll_write(cx, bufs),
            };
            let ahead = self.ahead;
            let written = written.map_ok(|n| ahead + n);
            self.pulse.wrote(&written, self.io.taken_of_waiting());
            match ready!(written)? {
                0 => return Poll::Ready(Err(io::ErrorKind::WriteZero.into())),
                n => {
                    self.ahead = 0;
                    self.out.consume(n - ahead);
                }
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
            ready!(conduit.io.poll_readable(cx))?;
            // Not at once where it belongs: all of that room would have to be zeroed each time.
            let mut piece = Piece::lend();
            let room = into.remaining().min(Piece::BYTES);
            let n = ready!(conduit.io.poll_read_likely(cx, &mut piece.room()[..room]))?;
            into.put_slice(&piece.room()[..n]);
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
        Poll::Ready(conduit.put(bufs))
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
