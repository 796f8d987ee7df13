//! Buffers that belong to the worker, lent to a connection only while it has something in them:
//! an idle connection holds none, a partial head is kept in no more than it needs.

use std::cell::RefCell;
use std::ops::Deref;
use std::task::{Context, Poll, ready};
use std::{io, mem};

use bytes::Bytes;

use super::Transport;

/// The size of every pooled input buffer, and a head's read: nearly all fit, and a connection that
/// is answered slowly keeps its request's.
pub const BUFFER_BYTES: usize = 4 << 10;

/// A body's read.
const BODY_BYTES: usize = 64 << 10;

/// What is left free before a response's head, for the one that is written in its place.
const HEADROOM_BYTES: usize = 1 << 10;

/// Output buffers up to this size are kept for reuse.
const OUTPUT_BYTES_MAX: usize = 16 << 10;

/// Buffers a worker keeps for reuse; more are given back to the allocator.
const POOLED_MAX: usize = 64;

/// The same of those for bodies, which are only lent while bytes come.
const POOLED_BODIES_MAX: usize = 16;

thread_local! {
    static INPUTS: RefCell<Vec<Box<[u8]>>> = const { RefCell::new(Vec::new()) };
    static BODIES: RefCell<Vec<Box<[u8]>>> = const { RefCell::new(Vec::new()) };
    static OUTPUTS: RefCell<Vec<Vec<u8>>> = const { RefCell::new(Vec::new()) };
}

fn lend_input() -> Box<[u8]> {
    INPUTS.with_borrow_mut(Vec::pop).unwrap_or_else(|| vec![0; BUFFER_BYTES].into_boxed_slice())
}

fn lend_body() -> Box<[u8]> {
    BODIES.with_borrow_mut(Vec::pop).unwrap_or_else(|| vec![0; BODY_BYTES].into_boxed_slice())
}

fn return_input(buffer: Box<[u8]>) {
    let (pool, max) = match buffer.len() {
        BUFFER_BYTES => (&INPUTS, POOLED_MAX),
        BODY_BYTES => (&BODIES, POOLED_BODIES_MAX),
        _ => return,
    };
    // A thread that ends has no pool any more; then the buffer just goes.
    let _ = pool.try_with(|pool| {
        let mut pool = pool.borrow_mut();
        if pool.len() < max {
            pool.push(buffer);
        }
    });
}

/// What has come in on a connection and is not yet consumed.
#[derive(Debug, Default)]
pub struct Input {
    bytes: Box<[u8]>,
    start: usize,
    end: usize,
}

impl Input {
    /// One that holds these bytes.
    pub fn holding(bytes: Vec<u8>) -> Input {
        let end = bytes.len();
        Input { bytes: bytes.into(), start: 0, end }
    }

    /// One that holds a copy of these bytes.
    pub fn copy_of(bytes: &[u8]) -> Input {
        let mut input = Input::default();
        input.put_back(bytes);
        input
    }

    /// What is there.
    pub fn bytes(&self) -> &[u8] {
        &self.bytes[self.start..self.end]
    }

    /// Drops the first `n` bytes, which must be there.
    pub fn consume(&mut self, n: usize) {
        debug_assert!(n <= self.end - self.start);
        self.start += n;
        if self.start >= self.end {
            self.release();
        }
    }

    /// Takes the first `n` bytes out, which must be there. What follows stays; usually nothing
    /// does, and no byte is moved.
    pub fn take(&mut self, n: usize) -> Taken {
        let (start, end) = (self.start, self.start + n);
        if end == self.end {
            let bytes = mem::take(&mut self.bytes);
            (self.start, self.end) = (0, 0);
            return Taken { bytes, start, end };
        }
        let mut bytes = if n <= BUFFER_BYTES { lend_input() } else { vec![0; n].into() };
        bytes[..n].copy_from_slice(&self.bytes[start..end]);
        self.start = end;
        Taken { bytes, start: 0, end: n }
    }

    /// Puts back what was taken and is not used; all was taken.
    #[inline]
    pub fn put_back(&mut self, bytes: &[u8]) {
        if !bytes.is_empty() && !self.precede(bytes) {
            *self = Input::holding(bytes.to_vec());
        }
    }

    /// Has the next read of a body leave room before what it brings, for `precede`.
    pub fn leave_headroom(&mut self) {
        if self.bytes.is_empty() {
            self.bytes = lend_body();
            (self.start, self.end) = (HEADROOM_BYTES, HEADROOM_BYTES);
        }
    }

    /// Puts these bytes before what is there, where there is room for them: what was consumed, and
    /// headroom. What is there is not moved.
    pub fn precede(&mut self, bytes: &[u8]) -> bool {
        if self.bytes.is_empty() && bytes.len() <= BUFFER_BYTES {
            (self.bytes, self.start, self.end) = (lend_input(), bytes.len(), bytes.len());
        }
        let Some(start) = self.start.checked_sub(bytes.len()) else { return false };
        self.bytes[start..self.start].copy_from_slice(bytes);
        self.start = start;
        true
    }

    /// Reads once. `Ok(0)` is the peer's end. While nothing comes, no pooled buffer is held.
    pub fn poll_fill(
        &mut self,
        io: &mut impl Transport,
        cx: &mut Context<'_>,
    ) -> Poll<io::Result<usize>> {
        if self.bytes.is_empty() {
            // Before a buffer is lent that nothing comes for.
            if !io.is_readable() {
                ready!(io.poll_readable(cx))?;
            }
            return self.poll_fill_by(BUFFER_BYTES, |into| io.poll_read_likely(cx, into));
        }
        self.poll_fill_by(BUFFER_BYTES, |into| io.poll_read(cx, into))
    }

    /// As `poll_fill`, but after a short read the kernel is asked again, though it said that this
    /// was all.
    pub fn poll_fill_eagerly(
        &mut self,
        io: &impl Transport,
        cx: &mut Context<'_>,
    ) -> Poll<io::Result<usize>> {
        self.poll_fill_by(BUFFER_BYTES, |into| io.poll_read_shared(cx, into))
    }

    /// As `poll_fill`, but of a body: in larger pieces.
    pub fn poll_fill_body(
        &mut self,
        io: &mut impl Transport,
        cx: &mut Context<'_>,
    ) -> Poll<io::Result<usize>> {
        self.poll_fill_by(BODY_BYTES, |into| io.poll_read(cx, into))
    }

    /// As `poll_fill_body`, where something is likely to be there.
    pub fn poll_fill_likely(
        &mut self,
        io: &mut impl Transport,
        cx: &mut Context<'_>,
    ) -> Poll<io::Result<usize>> {
        self.poll_fill_by(BODY_BYTES, |into| io.poll_read_likely(cx, into))
    }

    /// As `poll_fill_body`, while something else may be writing.
    pub fn poll_fill_shared(
        &mut self,
        io: &impl Transport,
        cx: &mut Context<'_>,
    ) -> Poll<io::Result<usize>> {
        self.poll_fill_by(BODY_BYTES, |into| io.poll_read_shared(cx, into))
    }

    fn poll_fill_by(
        &mut self,
        room: usize,
        read: impl FnOnce(&mut [u8]) -> Poll<io::Result<usize>>,
    ) -> Poll<io::Result<usize>> {
        self.make_room(room);
        let read = read(&mut self.bytes[self.end..]);
        match read {
            Poll::Ready(Ok(n)) => self.end += n,
            Poll::Ready(Err(_)) => {}
            Poll::Pending => self.park(),
        }
        if self.start == self.end {
            self.release();
        }
        read
    }

    /// Makes at least half of `room` after what is there.
    #[inline]
    fn make_room(&mut self, room: usize) {
        if self.bytes.len() - self.end >= room / 2 {
            return;
        }
        let held = self.end - self.start;
        if held == 0 && room == BUFFER_BYTES {
            self.release();
            self.bytes = lend_input();
            return;
        }
        let mut roomy = if room == BUFFER_BYTES && held <= BUFFER_BYTES / 2 {
            lend_input()
        } else if room == BODY_BYTES && held <= BODY_BYTES / 2 {
            lend_body()
        } else {
            // How much is held is the caller's limit to keep; doubling keeps its copying linear.
            vec![0; (held + room.max(held)).next_multiple_of(BUFFER_BYTES)].into_boxed_slice()
        };
        roomy[..held].copy_from_slice(self.bytes());
        return_input(mem::replace(&mut self.bytes, roomy));
        (self.start, self.end) = (0, held);
    }

    /// Gives the roomy buffer back before a wait; what came is kept in just what it needs.
    pub fn park(&mut self) {
        let held = self.end - self.start;
        if held == 0 {
            self.release();
        } else if self.bytes.len() > held + 256 {
            let kept: Box<[u8]> = self.bytes().into();
            return_input(mem::replace(&mut self.bytes, kept));
            (self.start, self.end) = (0, held);
        }
    }

    #[inline]
    fn release(&mut self) {
        if !self.bytes.is_empty() {
            return_input(mem::take(&mut self.bytes));
        }
        (self.start, self.end) = (0, 0);
    }
}

impl Drop for Input {
    fn drop(&mut self) {
        self.release();
    }
}

/// What is gathered to leave in one write: up to a body's read. It holds a pooled buffer only while
/// there is something in it.
#[derive(Debug, Default)]
pub struct Gathered {
    bytes: Box<[u8]>,
    start: usize,
    end: usize,
}

impl Gathered {
    /// What is there.
    pub fn bytes(&self) -> &[u8] {
        &self.bytes[self.start..self.end]
    }

    /// Whether there is room for nothing more.
    pub fn is_full(&self) -> bool {
        self.end == BODY_BYTES
    }

    /// Appends as many of these as there is room for; how many.
    pub fn put(&mut self, bytes: &[u8]) -> usize {
        if self.bytes.is_empty() && !bytes.is_empty() {
            self.bytes = lend_body();
        }
        let n = bytes.len().min(self.bytes.len() - self.end);
        self.bytes[self.end..self.end + n].copy_from_slice(&bytes[..n]);
        self.end += n;
        n
    }

    /// Drops the first `n` bytes, which must be there.
    pub fn consume(&mut self, n: usize) {
        self.start += n;
        if self.start >= self.end {
            return_input(mem::take(&mut self.bytes));
            (self.start, self.end) = (0, 0);
        }
    }
}

impl Drop for Gathered {
    fn drop(&mut self) {
        return_input(mem::take(&mut self.bytes));
    }
}

/// A pooled buffer for a piece of a file that is copied: what a slow client's unsent piece may hold.
#[derive(Debug)]
pub struct Piece {
    bytes: Box<[u8]>,
    len: usize,
}

impl Piece {
    /// The size of every one.
    pub const BYTES: usize = BODY_BYTES;

    /// One from the pool, with whatever it held before.
    pub fn lend() -> Piece {
        Piece { bytes: lend_body(), len: 0 }
    }

    /// All of it, to be read into.
    pub fn room(&mut self) -> &mut [u8] {
        &mut self.bytes
    }

    /// Its first bytes, for whoever keeps them; it goes back to the pool after that. Few of them are
    /// copied: nobody is to keep much more than he was given.
    pub fn into_bytes(mut self, len: usize) -> Bytes {
        if len < Piece::BYTES / 2 {
            return Bytes::copy_from_slice(&self.bytes[..len]);
        }
        self.len = len;
        Bytes::from_owner(self)
    }
}

impl AsRef<[u8]> for Piece {
    fn as_ref(&self) -> &[u8] {
        &self.bytes[..self.len]
    }
}

impl Drop for Piece {
    fn drop(&mut self) {
        return_input(mem::take(&mut self.bytes));
    }
}

/// Bytes taken out of an `Input`: a request's head while it is answered.
#[derive(Debug)]
pub struct Taken {
    bytes: Box<[u8]>,
    start: usize,
    end: usize,
}

impl Deref for Taken {
    type Target = [u8];

    fn deref(&self) -> &[u8] {
        &self.bytes[self.start..self.end]
    }
}

impl Drop for Taken {
    fn drop(&mut self) {
        return_input(mem::take(&mut self.bytes));
    }
}

/// A pooled buffer for what is about to be sent.
#[derive(Debug, Default)]
pub struct Output(Vec<u8>);

impl Output {
    /// An empty one from the pool.
    pub fn new() -> Output {
        Output(OUTPUTS.with_borrow_mut(Vec::pop).unwrap_or_default())
    }

    /// To append to.
    pub fn vec(&mut self) -> &mut Vec<u8> {
        &mut self.0
    }
}

impl Deref for Output {
    type Target = [u8];

    fn deref(&self) -> &[u8] {
        &self.0
    }
}

impl Drop for Output {
    fn drop(&mut self) {
        let mut buffer = mem::take(&mut self.0);
        if buffer.capacity() == 0 || buffer.capacity() > OUTPUT_BYTES_MAX {
            return;
        }
        buffer.clear();
        let _ = OUTPUTS.try_with(|pool| {
            let mut pool = pool.borrow_mut();
            if pool.len() < POOLED_MAX {
                pool.push(buffer);
            }
        });
    }
}
