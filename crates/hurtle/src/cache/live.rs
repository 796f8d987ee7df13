//! A body that is still coming from its upstream: read by as many clients as want it, each at its
//! own pace, and kept for later ones if there is room for it.

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

/// Pieces of this size are kept, and one is a frame.
const PIECE_BYTES: usize = 64 << 10;

/// Of a body that is not kept, how far the fastest reader may be ahead of the slowest, in bytes.
const AHEAD_BYTES_MAX: u64 = 256 << 10;

/// A body under way.
#[derive(Debug)]
pub struct Live {
    /// What it is the body of.
    pub head: Head,
    /// Its length, if that was said.
    pub length: Option<u64>,
    coming: Mutex<Coming>,
}

#[derive(Debug)]
struct Coming {
    /// Whole pieces, of which the first begins at `start`.
    pieces: VecDeque<Bytes>,
    start: u64,
    tail: Vec<u8>,
    end: End,
    /// The room for it, until somebody else has it.
    charge: Option<Charge>,
    /// All that came is here; else it is too much.
    kept: bool,
    readers: Slab<Place>,
    filler: Option<Waker>,
}

#[derive(Clone, Copy, Debug, PartialEq, Eq)]
enum End {
    /// There is more to come.
    Open,
    Whole,
    Broken,
}

/// How far a reader is.
#[derive(Debug)]
struct Place {
    at: u64,
    waker: Option<Waker>,
}

/// A client's way through a body under way.
#[derive(Debug)]
pub struct Reader {
    live: Arc<Live>,
    number: usize,
    ended: bool,
}

impl Live {
    /// One that has not begun. `charge`: the room for it, or for its beginning.
    pub fn new(head: Head, length: Option<u64>, charge: Charge) -> Arc<Live> {
        let coming = Coming {
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

    fn lock(&self) -> MutexGuard<'_, Coming> {
        // Nothing in here is left half done by a panic.
        self.coming.lock().unwrap_or_else(PoisonError::into_inner)
    }

    /// A reader from the beginning; `None`: that is no longer here.
    pub fn reader(self: &Arc<Live>) -> Option<Reader> {
        let mut coming = self.lock();
        if !coming.kept {
            return None;
        }
        let number = coming.readers.insert(Place { at: 0, waker: None });
        Some(Reader { live: Arc::clone(self), number, ended: false })
    }

    /// Takes what came. False: it is too much to be kept, from now on.
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

    /// Waits until there is room for more of what is not kept. False: nobody reads it.
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

    /// The whole of it came: readers are told; what was kept, with the room it takes.
    pub fn finish(&self) -> Option<(Bytes, Charge)> {
        let mut coming = self.lock();
        coming.end = End::Whole;
        coming.wake();
        let mut charge = coming.charge.take()?;
        let body = coming.join();
        charge.shrink(body.len() as u64);
        Some((body, charge))
    }

    /// Keeps this as long as there are readers: what they read is in memory.
    pub fn hold(&self, charge: Option<Charge>) {
        self.lock().charge = charge;
    }

    /// It broke off: readers must not take it for whole.
    pub fn fail(&self) {
        let mut coming = self.lock();
        coming.end = End::Broken;
        coming.wake();
    }
}

impl Coming {
    /// Bytes that came.
    fn reach(&self) -> u64 {
        let pieces: usize = self.pieces.iter().map(Bytes::len).sum();
        self.start + (pieces + self.tail.len()) as u64
    }

    /// All of it, in one piece of which the others are now parts.
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

    /// What is next at a place.
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
    /// What it reads the body of.
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
