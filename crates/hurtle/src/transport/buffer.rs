//! Worker-owned buffers that are lent to connections while they hold data. An idle connection holds
//! none, and a partial head is kept in a buffer of its size.

use std::cell::{Cell, RefCell};
use std::ops::Deref;
use std::rc::Rc;
use std::task::Poll;
use std::{io, mem};

use bytes::Bytes;

/// Size of a pooled input buffer and of a read of a head, in bytes. Nearly all heads fit; a slowly
/// served connection keeps the buffer of its request.
pub(crate) const BUFFER_BYTES: usize = 4 << 10;

/// Size of a read of a body, in bytes.
pub(crate) const BODY_BYTES: usize = 64 << 10;

/// Bytes left free in front of a response body, so that the encoded head can be written there.
const HEADROOM_BYTES: usize = 1 << 10;

/// Output buffers up to this size are kept for reuse, in bytes.
const OUTPUT_BYTES_MAX: usize = 16 << 10;

/// Maximum number of input and output buffers that a worker keeps for reuse; others are freed.
const POOLED_MAX: usize = 64;

/// Maximum number of body buffers that a worker keeps for reuse.
const POOLED_BODIES_MAX: usize = 16;

thread_local! {
    static INPUTS: RefCell<Vec<Box<[u8]>>> = const { RefCell::new(Vec::new()) };
    static BODIES: RefCell<Vec<Box<[u8]>>> = const { RefCell::new(Vec::new()) };
    /// `true` once this thread has lent a body buffer. Others that are given one free it.
    static LENDS_BODIES: Cell<bool> = const { Cell::new(false) };
    static OUTPUTS: RefCell<Vec<Rc<Vec<u8>>>> = const { RefCell::new(Vec::new()) };
}

fn lend_input() -> Box<[u8]> {
    INPUTS.with_borrow_mut(Vec::pop).unwrap_or_else(|| vec![0; BUFFER_BYTES].into_boxed_slice())
}

fn lend_body() -> Box<[u8]> {
    LENDS_BODIES.set(true);
    BODIES.with_borrow_mut(Vec::pop).unwrap_or_else(|| vec![0; BODY_BYTES].into_boxed_slice())
}

fn return_input(buffer: Box<[u8]>) {
    let (pool, max) = match buffer.len() {
        BUFFER_BYTES => (&INPUTS, POOLED_MAX),
        BODY_BYTES if LENDS_BODIES.try_with(Cell::get) == Ok(true) => (&BODIES, POOLED_BODIES_MAX),
        _ => return,
    };
    // An ending thread has no pool; the buffer is freed then.
    let _ = pool.try_with(|pool| {
        let mut pool = pool.borrow_mut();
        if pool.len() < max {
            pool.push(buffer);
        }
    });
}

/// The size and the mode of a read.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(crate) enum Fill {
    /// Up to 4 KiB, usually a request head. After a short read the next one waits for readiness.
    Head,
    /// Like `Head`, but after a short read the next one calls the kernel again.
    HeadEagerly,
    /// Up to 64 KiB of a body. After a short read the next one waits for readiness.
    Body,
    /// Like `Body`; an empty input gets headroom for `Input::precede`.
    Response,
}

impl Fill {
    #[inline]
    fn bytes(self) -> usize {
        match self {
            Fill::Head | Fill::HeadEagerly => BUFFER_BYTES,
            Fill::Body | Fill::Response => BODY_BYTES,
        }
    }
}

/// Bytes that were read from a connection and not yet consumed.
#[derive(Debug, Default)]
pub(crate) struct Input {
    bytes: Box<[u8]>,
    start: usize,
    end: usize,
}

impl Input {
    /// Creates an input that holds these bytes.
    pub(crate) fn holding(bytes: Vec<u8>) -> Input {
        let end = bytes.len();
        Input { bytes: bytes.into(), start: 0, end }
    }

    /// Returns the unconsumed bytes.
    pub(crate) fn bytes(&self) -> &[u8] {
        &self.bytes[self.start..self.end]
    }

    /// Appends bytes; an empty input takes them without a copy.
    pub(crate) fn append(&mut self, bytes: Bytes) {
        if self.bytes().is_empty() {
            *self = Input::holding(bytes.into());
            return;
        }
        if self.bytes.len() - self.end < bytes.len() {
            let roomy = [self.bytes(), &bytes].concat();
            *self = Input::holding(roomy);
            return;
        }
        self.bytes[self.end..self.end + bytes.len()].copy_from_slice(&bytes);
        self.end += bytes.len();
    }

    /// Appends the bytes of a buffer that an engine has filled; returns their number. An empty
    /// input takes the buffer without a copy.
    #[cfg(test)]
    pub(crate) fn put(&mut self, mut filled: Taken) -> usize {
        let len = filled.len();
        if len == 0 {
            return 0;
        }
        if self.bytes().is_empty() {
            self.release();
            (self.start, self.end) = (filled.start, filled.end);
            self.bytes = mem::take(&mut filled.bytes);
        } else {
            self.make_room(if len <= BUFFER_BYTES / 2 { Fill::Head } else { Fill::Body });
            if self.bytes.len() - self.end < len {
                *self = Input::holding([self.bytes(), &filled].concat());
                return len;
            }
            self.bytes[self.end..self.end + len].copy_from_slice(&filled);
            self.end += len;
        }
        len
    }

    /// Drops the first `n` bytes, which must be present.
    pub(crate) fn consume(&mut self, n: usize) {
        debug_assert!(n <= self.end - self.start);
        self.start += n;
        if self.start >= self.end {
            self.release();
        }
    }

    /// Takes the first `n` bytes, which must be present, and keeps the rest. Usually there is no
    /// rest, and nothing is copied. Otherwise a head is copied, and of a body the smaller part.
    pub(crate) fn take(&mut self, n: usize) -> Taken {
        let (start, end) = (self.start, self.start + n);
        if end == self.end {
            let bytes = mem::take(&mut self.bytes);
            (self.start, self.end) = (0, 0);
            return Taken { bytes, start, end };
        }
        let rest = self.end - end;
        if n > BUFFER_BYTES && rest < n {
            let mut kept = if rest <= BUFFER_BYTES { lend_input() } else { vec![0; rest].into() };
            kept[..rest].copy_from_slice(&self.bytes[end..self.end]);
            (self.start, self.end) = (0, rest);
            return Taken { bytes: mem::replace(&mut self.bytes, kept), start, end };
        }
        let mut bytes = if n <= BUFFER_BYTES { lend_input() } else { vec![0; n].into() };
        bytes[..n].copy_from_slice(&self.bytes[start..end]);
        self.start = end;
        Taken { bytes, start: 0, end: n }
    }

    /// Takes the first `n` bytes, which must be present, as a frame of a body. A large frame that
    /// leaves nothing behind is not copied.
    pub(crate) fn take_frame(&mut self, n: usize) -> Bytes {
        if n == self.end - self.start {
            return self.take(n).into_bytes();
        }
        let frame = Bytes::copy_from_slice(&self.bytes()[..n]);
        self.consume(n);
        frame
    }

    /// Puts back unused bytes that were taken; the input must be empty.
    #[inline]
    pub(crate) fn put_back(&mut self, bytes: &[u8]) {
        if !bytes.is_empty() && !self.precede(bytes) {
            *self = Input::holding(bytes.to_vec());
        }
    }

    /// Writes these bytes in front of the unconsumed ones, over consumed bytes and headroom,
    /// without moving any. `false`: there is no room.
    pub(crate) fn precede(&mut self, bytes: &[u8]) -> bool {
        if self.bytes.is_empty() && bytes.len() <= BUFFER_BYTES {
            (self.bytes, self.start, self.end) = (lend_input(), bytes.len(), bytes.len());
        }
        let Some(start) = self.start.checked_sub(bytes.len()) else { return false };
        self.bytes[start..self.start].copy_from_slice(bytes);
        self.start = start;
        true
    }

    /// Returns whether no buffer is held, so that a fill would take one from the pool.
    pub(super) fn holds_no_buffer(&self) -> bool {
        self.bytes.is_empty()
    }

    /// Reads once into room behind the unconsumed bytes, for engines on readiness. While nothing
    /// arrives, no pooled buffer is held.
    pub(super) fn poll_fill_by(
        &mut self,
        fill: Fill,
        read: impl FnOnce(&mut [u8]) -> Poll<io::Result<usize>>,
    ) -> Poll<io::Result<usize>> {
        self.make_room(fill);
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

    /// Makes at least half of the fill's size available behind the unconsumed bytes.
    #[inline]
    fn make_room(&mut self, fill: Fill) {
        if fill == Fill::Response && self.bytes.is_empty() {
            self.bytes = lend_body();
            (self.start, self.end) = (HEADROOM_BYTES, HEADROOM_BYTES);
            return;
        }
        let room = fill.bytes();
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
            // The caller limits the size; doubling keeps the cost of copying linear.
            vec![0; (held + room.max(held)).next_multiple_of(BUFFER_BYTES)].into_boxed_slice()
        };
        roomy[..held].copy_from_slice(self.bytes());
        return_input(mem::replace(&mut self.bytes, roomy));
        (self.start, self.end) = (0, held);
    }

    /// Returns a large buffer to the pool before a wait; the bytes move to one of their size.
    pub(crate) fn park(&mut self) {
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

/// A pooled buffer with bytes that were taken from an `Input`, or read by another owner: a request
/// head while the request is handled, or a piece of a body in transit.
#[derive(Debug)]
pub(crate) struct Taken {
    bytes: Box<[u8]>,
    start: usize,
    end: usize,
}

impl Taken {
    /// Takes an empty buffer of `BODY_BYTES` from the pool.
    pub(crate) fn lend() -> Taken {
        Taken { bytes: lend_body(), start: 0, end: 0 }
    }

    /// Returns the room behind the bytes; its content is undefined.
    pub(crate) fn room(&mut self) -> &mut [u8] {
        &mut self.bytes[self.end..]
    }

    /// Appends the first `len` bytes of the room.
    pub(crate) fn fill(&mut self, len: usize) {
        debug_assert!(len <= self.bytes.len() - self.end);
        self.end += len;
    }

    /// Converts the bytes into shared bytes. A small part is copied, so that it does not hold the
    /// whole buffer.
    pub(crate) fn into_bytes(self) -> Bytes {
        if self.len() < self.bytes.len() / 2 {
            return Bytes::copy_from_slice(&self);
        }
        Bytes::from_owner(self)
    }
}

impl AsRef<[u8]> for Taken {
    fn as_ref(&self) -> &[u8] {
        self
    }
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

/// A pooled buffer for bytes to send. It can be shared with an engine that is sending it.
#[derive(Debug, Default)]
pub(crate) struct Output(Option<Rc<Vec<u8>>>);

impl Output {
    /// Takes an empty buffer from the pool.
    pub(crate) fn new() -> Output {
        Output(OUTPUTS.with_borrow_mut(Vec::pop))
    }

    /// Returns the bytes for appending. Bytes that are shared are copied first.
    #[inline]
    pub(crate) fn vec(&mut self) -> &mut Vec<u8> {
        if self.0.as_mut().is_none_or(|bytes| Rc::get_mut(bytes).is_none()) {
            self.make_own();
        }
        match self.0.as_mut().and_then(Rc::get_mut) {
            Some(bytes) => bytes,
            None => unreachable!("these bytes have one owner"),
        }
    }

    #[cold]
    fn make_own(&mut self) {
        Rc::make_mut(self.0.get_or_insert_default());
    }

    /// Returns a second owner of the same bytes.
    pub(crate) fn share(&self) -> Output {
        Output(self.0.clone())
    }
}

impl Deref for Output {
    type Target = [u8];

    #[inline]
    fn deref(&self) -> &[u8] {
        self.0.as_ref().map_or(&[], |bytes| bytes)
    }
}

impl Drop for Output {
    fn drop(&mut self) {
        let Some(mut buffer) = self.0.take() else { return };
        // The last owner returns it.
        let Some(bytes) = Rc::get_mut(&mut buffer) else { return };
        if bytes.capacity() == 0 || bytes.capacity() > OUTPUT_BYTES_MAX {
            return;
        }
        bytes.clear();
        let _ = OUTPUTS.try_with(|pool| {
            let mut pool = pool.borrow_mut();
            if pool.len() < POOLED_MAX {
                pool.push(buffer);
            }
        });
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    fn filled(bytes: &[u8]) -> Taken {
        let mut taken = Taken::lend();
        taken.room()[..bytes.len()].copy_from_slice(bytes);
        taken.fill(bytes.len());
        taken
    }

    #[test]
    fn an_input_gives_and_takes_buffers_in_order() {
        let rows = [(10, 10), (5_000, 10), (5_000, 4_990), (60_000, 50_000), (60_000, 59_999)];
        for (len, n) in rows {
            let bytes: Vec<u8> = (0..len).map(|at| (at / 7) as u8).collect();
            let mut input = Input::default();
            assert_eq!(input.put(filled(&bytes)), len);
            let taken = input.take(n);
            assert_eq!((&*taken, input.bytes()), bytes.split_at(n), "{n} of {len}");
            assert_eq!(input.put(filled(b"end")), 3);
            assert_eq!(input.bytes(), [&bytes[n..], b"end"].concat(), "{n} of {len}");
        }
    }

    #[test]
    fn shared_output_keeps_its_bytes() {
        let mut output = Output::new();
        output.vec().extend_from_slice(b"head");
        let shared = output.share();
        output.vec().extend_from_slice(b" and more");
        assert_eq!((&*shared, &*output), (&b"head"[..], &b"head and more"[..]));
        drop(output);
        assert_eq!(Output::new().len(), 0, "a buffer comes back empty");
        assert_eq!(&*shared, b"head");
    }
}
