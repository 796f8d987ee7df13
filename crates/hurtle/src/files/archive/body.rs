//! The body of an archive. The disk threads make each piece when the protocol asks for it, so a
//! slow client holds one piece in memory and no thread.

use std::fmt;
use std::io;
use std::pin::Pin;
use std::task::{Context, Poll, ready};
use std::time::Duration;

use bytes::Bytes;
use http_body::{Body, Frame, SizeHint};

use super::Source;
use crate::body::BoxError;
use crate::disk::{Disk, Lane};
use crate::{clock, rt};

/// Size of a piece, in bytes.
const PIECE_BYTES: usize = 256 << 10;

/// Number of pieces per second under a rate limit, so that the transfer is even.
const PIECES_PER_SECOND: u64 = 8;

/// The bytes of an archive, of known length. It ends with an error if a file changes meanwhile.
pub(crate) struct ArchiveBody {
    /// Bytes left to send.
    left: u64,
    state: ArchiveState,
    disk: Disk,
    lane: Lane,
    /// Bytes a second; 0 means unlimited.
    rate: u64,
    /// Bytes sent and the time of the first, in milliseconds.
    sent: (u64, u64),
}

enum ArchiveState {
    Idle(Box<Source>),
    Filling(Filling),
    Ended,
}

type Filling = Pin<Box<dyn Future<Output = io::Result<(Box<Source>, Bytes)>> + Send>>;

impl ArchiveBody {
    /// The body of a whole archive.
    pub(super) fn new(source: Source, disk: Disk, lane: Lane, rate: u64) -> ArchiveBody {
        let left = source.len();
        let state = ArchiveState::Idle(Box::new(source));
        ArchiveBody { left, state, disk, lane, rate, sent: (0, clock::now_ms()) }
    }

    fn begin(&self, source: Box<Source>) -> Filling {
        let len = match self.rate {
            0 => PIECE_BYTES,
            rate => usize::try_from(rate / PIECES_PER_SECOND)
                .map_or(PIECE_BYTES, |bytes| bytes.clamp(1, PIECE_BYTES)),
        };
        let len = len.min(usize::try_from(self.left).unwrap_or(usize::MAX));
        let (sent, started_ms) = self.sent;
        let earned_ms = sent.saturating_mul(1_000).checked_div(self.rate).unwrap_or(0);
        let wait_ms = started_ms.saturating_add(earned_ms).saturating_sub(clock::now_ms());
        Box::pin(fill(self.disk.clone(), self.lane, source, len, wait_ms))
    }
}

/// Makes the next piece after a pause.
async fn fill(
    disk: Disk,
    lane: Lane,
    mut source: Box<Source>,
    len: usize,
    wait_ms: u64,
) -> io::Result<(Box<Source>, Bytes)> {
    if wait_ms > 0 {
        rt::sleep(Duration::from_millis(wait_ms)).await;
    }
    let job = move || {
        let mut piece = Vec::with_capacity(len);
        source.fill(&mut piece, len)?;
        Ok((source, piece.into()))
    };
    disk.run(lane, job).await.map_err(|_| io::Error::from(io::ErrorKind::TimedOut))?
}

impl Body for ArchiveBody {
    type Data = Bytes;
    type Error = BoxError;

    fn poll_frame(
        mut self: Pin<&mut Self>,
        cx: &mut Context<'_>,
    ) -> Poll<Option<Result<Frame<Bytes>, BoxError>>> {
        if self.left == 0 {
            return Poll::Ready(None);
        }
        self.state = match std::mem::replace(&mut self.state, ArchiveState::Ended) {
            ArchiveState::Idle(source) => ArchiveState::Filling(self.begin(source)),
            other => other,
        };
        let ArchiveState::Filling(filling) = &mut self.state else { return Poll::Ready(None) };
        let filled = ready!(filling.as_mut().poll(cx));
        self.state = ArchiveState::Ended;
        match filled {
            Ok((_, piece)) if piece.is_empty() => {
                Poll::Ready(Some(Err(io::Error::from(io::ErrorKind::UnexpectedEof).into())))
            }
            Ok((source, piece)) => {
                self.left = self.left.saturating_sub(piece.len() as u64);
                self.sent.0 += piece.len() as u64;
                self.state = ArchiveState::Idle(source);
                Poll::Ready(Some(Ok(Frame::data(piece))))
            }
            Err(e) => Poll::Ready(Some(Err(e.into()))),
        }
    }

    fn is_end_stream(&self) -> bool {
        self.left == 0
    }

    fn size_hint(&self) -> SizeHint {
        SizeHint::with_exact(self.left)
    }
}

impl fmt::Debug for ArchiveBody {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        f.debug_struct("ArchiveBody").field("left", &self.left).finish_non_exhaustive()
    }
}
