//! A body that is arriving from its upstream. Any number of clients read it, each at its own pace.
//! It is kept whole if there is room, so that it can be stored.

use std::collections::VecDeque;
use std::future::poll_fn;
use std::pin::Pin;
use std::sync::{Arc, Mutex, MutexGuard, PoisonError};
use std::task::{Context, Poll, Waker};

use bytes::Bytes;
use http_body::{Body, Frame, SizeHint};
use slab::Slab;

use super::{Cache, Charge, Head};
use crate::body::BoxError;

/// Size of a piece, in bytes. A reader gets one piece as one frame.
const PIECE_BYTES: usize = 64 << 10;

/// How far the fetch may be ahead of the slowest reader of a body that is not kept, in bytes.
const AHEAD_BYTES_MAX: u64 = 256 << 10;

/// A body that is arriving.
#[derive(Debug)]
pub struct Live {
    /// The response it belongs to.
    pub head: Head,
    /// Its length in bytes, if the head gives it.
    pub length: Option<u64>,
    coming: Mutex<LiveState>,
}

#[derive(Debug)]
struct LiveState {
    /// Full pieces; the first begins at `start`.
    pieces: VecDeque<Bytes>,
    start: u64,
    tail: Vec<u8>,
    end: End,
    /// Its room in memory, until `finish` hands it on.
    charge: Option<Charge>,
    /// `true`: all of it is here. `false`: it is too large, and read pieces were dropped.
    kept: bool,
    readers: Slab<Position>,
    filler: Option<Waker>,
}

#[derive(Clone, Copy, Debug, PartialEq, Eq)]
enum End {
    /// More will arrive.
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
pub struct Reader {
    live: Arc<Live>,
    number: usize,
    ended: bool,
}

impl Live {
    /// An empty body. `charge`: room for all of it, or for its beginning if `length` is unknown.
    pub fn new(head: Head, length: Option<u64>, charge: Charge) -> Arc<Live> {
        let coming = LiveState {
            pieces: VecDeque::new(),
            start: 0,
            tail: Vec::new(),
            end: End::Open,
            charge: Some(charge),
            kept: true,
            readers: Slab::new(),
            filler: None,
        };
        Arc::new(Live { head, length, coming: Mutex::new(coming) })
    }

    fn lock(&self) -> MutexGuard<'_, LiveState> {
        // No panic can leave the state half changed.
        self.coming.lock().unwrap_or_else(PoisonError::into_inner)
    }

    /// A reader from the beginning; `None`: the beginning was dropped.
    pub fn reader(self: &Arc<Live>) -> Option<Reader> {
        let mut coming = self.lock();
        if !coming.kept {
            return None;
        }
        let number = coming.readers.insert(Position { at: 0, waker: None });
        Some(Reader { live: Arc::clone(self), number, ended: false })
    }

    /// Adds bytes. `false`: the body has become too large to be kept.
    pub fn push(&self, mut data: &[u8], cache: &Cache) -> bool {
        let mut coming = self.lock();
        while !data.is_empty() {
            let room = PIECE_BYTES - coming.tail.len();
            let len = room.min(data.len());
            coming.tail.extend_from_slice(&data[..len]);
            data = &data[len..];
            if coming.tail.len() == PIECE_BYTES {
                let piece = std::mem::take(&mut coming.tail);
                coming.pieces.push_back(piece.into());
            }
        }
        let end = coming.reach();
        if self.length.is_none()
            && let Some(charge) = &mut coming.charge
        {
            let within = end + PIECE_BYTES as u64 <= cache.object_bytes_max();
            if !within || !cache.covers(charge, end + PIECE_BYTES as u64) {
                coming.charge = None;
                coming.kept = false;
            }
        }
        coming.wake();
        coming.kept
    }

    /// Waits until a body that is not kept may grow. `false`: it has no reader.
    pub async fn room(&self) -> bool {
        poll_fn(|cx| {
            let mut coming = self.lock();
            if coming.kept {
                return Poll::Ready(true);
            }
            let Some(slowest) = coming.readers.iter().map(|(_, place)| place.at).min() else {
                return Poll::Ready(false);
            };
            coming.forget(slowest);
            if coming.reach() - slowest < AHEAD_BYTES_MAX {
                return Poll::Ready(true);
            }
            coming.filler = Some(cx.waker().clone());
            Poll::Pending
        })
        .await
    }

    /// Ends the body. Returns it with its room, if it was kept.
    pub fn finish(&self) -> Option<(Bytes, Charge)> {
        let mut coming = self.lock();
        coming.end = End::Whole;
        coming.wake();
        let mut charge = coming.charge.take()?;
        let body = coming.join();
        charge.shrink(body.len() as u64);
        Some((body, charge))
    }

    /// Holds a charge as long as there are readers, which read from memory.
    pub fn hold(&self, charge: Option<Charge>) {
        self.lock().charge = charge;
    }

    /// Ends the body with an error: it broke off.
    pub fn fail(&self) {
        let mut coming = self.lock();
        coming.end = End::Broken;
        coming.wake();
    }
}

impl LiveState {
    /// Number of bytes that have arrived.
    fn reach(&self) -> u64 {
        let pieces: usize = self.pieces.iter().map(Bytes::len).sum();
        self.start + (pieces + self.tail.len()) as u64
    }

    /// Joins the pieces. They become slices of the returned bytes.
    fn join(&mut self) -> Bytes {
        let mut body = Vec::with_capacity(self.pieces.len() * PIECE_BYTES + self.tail.len());
        self.pieces.iter().for_each(|piece| body.extend_from_slice(piece));
        body.append(&mut self.tail);
        let body = Bytes::from(body);
        let begins = (0..body.len()).step_by(PIECE_BYTES);
        self.pieces = begins.map(|at| body.slice(at..body.len().min(at + PIECE_BYTES))).collect();
        body
    }

    fn wake(&mut self) {
        for (_, place) in &mut self.readers {
            if let Some(waker) = place.waker.take() {
                waker.wake();
            }
        }
    }

    /// Drops the pieces before `at`.
    fn forget(&mut self, at: u64) {
        while self.start + PIECE_BYTES as u64 <= at && self.pieces.pop_front().is_some() {
            self.start += PIECE_BYTES as u64;
        }
    }

    /// The bytes from a position to the end of its piece.
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
    /// The body it reads.
    pub fn live(&self) -> &Arc<Live> {
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
        let mut coming = live.lock();
        let Some(place) = coming.readers.get(self.number) else { return Poll::Ready(None) };
        if let Some(piece) = coming.piece(place.at) {
            coming.readers[self.number].at += piece.len() as u64;
            if let Some(filler) = coming.filler.take() {
                filler.wake();
            }
            return Poll::Ready(Some(Ok(Frame::data(piece))));
        }
        match coming.end {
            End::Open => {
                coming.readers[self.number].waker = Some(cx.waker().clone());
                Poll::Pending
            }
            End::Whole => {
                self.ended = true;
                Poll::Ready(None)
            }
            End::Broken => Poll::Ready(Some(Err("the upstream's answer broke off".into()))),
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
        let mut coming = self.live.lock();
        coming.readers.try_remove(self.number);
        if let Some(filler) = coming.filler.take() {
            filler.wake();
        }
    }
}
