//! A body that is arriving from its upstream. Any number of clients read it, each at its own rate.
//! It is kept whole if memory allows, so that it can be stored.

use std::collections::VecDeque;
use std::future::poll_fn;
use std::pin::Pin;
use std::sync::{Arc, Mutex, MutexGuard, PoisonError};
use std::task::{Context, Poll, Waker};

use bytes::Bytes;
use http_body::{Body, Frame, SizeHint};
use slab::Slab;

use super::{Cache, Charge, Head};
use crate::body::{BoxError, TruncatedError};

/// Size of a piece, in bytes. A reader gets one piece as one frame.
const PIECE_BYTES: usize = 64 << 10;

/// Maximum lead of a fetch over the slowest reader if the body is not kept, in bytes.
const AHEAD_BYTES_MAX: u64 = 256 << 10;

/// A body that is arriving.
#[derive(Debug)]
pub(crate) struct Live {
    /// The head of the response.
    pub head: Head,
    /// The length in bytes, if the head declares it.
    pub length: Option<u64>,
    state: Mutex<LiveState>,
}

#[derive(Debug)]
struct LiveState {
    /// Full pieces; the first begins at `start`.
    pieces: VecDeque<Bytes>,
    start: u64,
    tail: Vec<u8>,
    end: End,
    /// The charge of the memory, until all bytes have arrived; the pieces have it then.
    charge: Option<Charge>,
    /// `true` if all received bytes are in memory; `false` if the body is too large and pieces that
    /// all readers have read are dropped.
    kept: bool,
    readers: Slab<Position>,
    filler: Option<Waker>,
}

#[derive(Clone, Copy, Debug, PartialEq, Eq)]
enum End {
    Open,
    Whole,
    Broken,
}

/// The position of a reader.
#[derive(Debug)]
struct Position {
    at: u64,
    waker: Option<Waker>,
}

/// A client's reader of a body that is arriving.
#[derive(Debug)]
pub(crate) struct Reader {
    live: Arc<Live>,
    number: usize,
    ended: bool,
}

impl Live {
    /// Creates an empty body. `charge` covers the whole body, or its beginning if `length` is
    /// unknown.
    pub(crate) fn new(head: Head, length: Option<u64>, charge: Charge) -> Arc<Live> {
        let state = LiveState {
            pieces: VecDeque::new(),
            start: 0,
            tail: Vec::new(),
            end: End::Open,
            charge: Some(charge),
            kept: true,
            readers: Slab::new(),
            filler: None,
        };
        Arc::new(Live { head, length, state: Mutex::new(state) })
    }

    fn lock(&self) -> MutexGuard<'_, LiveState> {
        // A panic cannot leave the state inconsistent, so poisoning is ignored.
        self.state.lock().unwrap_or_else(PoisonError::into_inner)
    }

    /// Creates a reader at the beginning; `None`: the beginning was dropped.
    pub(crate) fn reader(self: &Arc<Live>) -> Option<Reader> {
        let mut state = self.lock();
        if !state.kept {
            return None;
        }
        let number = state.readers.insert(Position { at: 0, waker: None });
        Some(Reader { live: Arc::clone(self), number, ended: false })
    }

    /// Appends bytes. Returns `false` when the body becomes too large to be kept.
    pub(crate) fn push(&self, mut data: &[u8], cache: &Cache) -> bool {
        let mut state = self.lock();
        while !data.is_empty() {
            let room = PIECE_BYTES - state.tail.len();
            let len = room.min(data.len());
            state.tail.extend_from_slice(&data[..len]);
            data = &data[len..];
            if state.tail.len() == PIECE_BYTES {
                let piece = std::mem::take(&mut state.tail);
                state.pieces.push_back(piece.into());
            }
        }
        let end = state.reach();
        if self.length.is_none()
            && state.kept
            && let Some(charge) = &mut state.charge
        {
            let within = end + PIECE_BYTES as u64 <= cache.object_bytes_max();
            state.kept = within && cache.covers(charge, end + PIECE_BYTES as u64);
        }
        state.wake();
        state.kept
    }

    /// Waits until a body that is not kept may grow. Returns `false` if it has no reader.
    pub(crate) async fn room(&self) -> bool {
        poll_fn(|cx| {
            let mut state = self.lock();
            if state.kept {
                return Poll::Ready(true);
            }
            let Some(slowest) = state.readers.iter().map(|(_, position)| position.at).min() else {
                return Poll::Ready(false);
            };
            state.drop_before(slowest);
            if state.reach() - slowest < AHEAD_BYTES_MAX {
                return Poll::Ready(true);
            }
            state.filler = Some(cx.waker().clone());
            Poll::Pending
        })
        .await
    }

    /// Ends the body. Returns it if it was kept; its memory is charged.
    pub(crate) fn finish(&self) -> Option<Bytes> {
        let mut state = self.lock();
        state.end = End::Whole;
        state.wake();
        if state.kept { state.join() } else { None }
    }

    /// Ends the body with an error, because it is truncated.
    pub(crate) fn fail(&self) {
        let mut state = self.lock();
        state.end = End::Broken;
        state.wake();
    }
}

impl LiveState {
    /// Returns the number of bytes that have arrived.
    fn reach(&self) -> u64 {
        let pieces: usize = self.pieces.iter().map(Bytes::len).sum();
        self.start + (pieces + self.tail.len()) as u64
    }

    /// Joins the pieces; each becomes a slice of the returned bytes, which are charged. `None`:
    /// that was done before.
    fn join(&mut self) -> Option<Bytes> {
        let mut charge = self.charge.take()?;
        let mut body = Vec::with_capacity(self.pieces.len() * PIECE_BYTES + self.tail.len());
        self.pieces.iter().for_each(|piece| body.extend_from_slice(piece));
        body.append(&mut self.tail);
        charge.shrink(body.len() as u64);
        let body = charge.of(body.into());
        let begins = (0..body.len()).step_by(PIECE_BYTES);
        self.pieces = begins.map(|at| body.slice(at..body.len().min(at + PIECE_BYTES))).collect();
        Some(body)
    }

    fn wake(&mut self) {
        for (_, position) in &mut self.readers {
            if let Some(waker) = position.waker.take() {
                waker.wake();
            }
        }
    }

    /// Drops the pieces before `at`.
    fn drop_before(&mut self, at: u64) {
        while self.start + PIECE_BYTES as u64 <= at && self.pieces.pop_front().is_some() {
            self.start += PIECE_BYTES as u64;
        }
        let left = self.reach() - self.start;
        if let Some(charge) = &mut self.charge {
            charge.shrink(left);
        }
    }

    /// Returns the bytes from a position to the end of its piece.
    fn piece(&self, at: u64) -> Option<Bytes> {
        // A reader is never before the first piece, and pieces are few enough for `usize`.
        let offset = usize::try_from(at - self.start).ok()?;
        let (number, within) = (offset / PIECE_BYTES, offset % PIECE_BYTES);
        match self.pieces.get(number) {
            Some(piece) if within < piece.len() => Some(piece.slice(within..)),
            Some(_) => None,
            None if within < self.tail.len() => Some(Bytes::copy_from_slice(&self.tail[within..])),
            None => None,
        }
    }
}

impl Reader {
    pub(crate) fn live(&self) -> &Arc<Live> {
        &self.live
    }
}

impl Body for Reader {
    type Data = Bytes;
    type Error = BoxError;

    fn poll_frame(
        mut self: Pin<&mut Self>,
        cx: &mut Context<'_>,
    ) -> Poll<Option<Result<Frame<Bytes>, BoxError>>> {
        let live = Arc::clone(&self.live);
        let mut state = live.lock();
        let Some(position) = state.readers.get(self.number) else { return Poll::Ready(None) };
        if let Some(piece) = state.piece(position.at) {
            state.readers[self.number].at += piece.len() as u64;
            if let Some(filler) = state.filler.take() {
                filler.wake();
            }
            return Poll::Ready(Some(Ok(Frame::data(piece))));
        }
        match state.end {
            End::Open => {
                state.readers[self.number].waker = Some(cx.waker().clone());
                Poll::Pending
            }
            End::Whole => {
                self.ended = true;
                Poll::Ready(None)
            }
            End::Broken => Poll::Ready(Some(Err(TruncatedError::default().into()))),
        }
    }

    fn is_end_stream(&self) -> bool {
        self.ended
    }

    fn size_hint(&self) -> SizeHint {
        self.live.length.map_or_else(SizeHint::default, SizeHint::with_exact)
    }
}

impl Drop for Reader {
    fn drop(&mut self) {
        let mut state = self.live.lock();
        state.readers.try_remove(self.number);
        if let Some(filler) = state.filler.take() {
            filler.wake();
        }
    }
}
