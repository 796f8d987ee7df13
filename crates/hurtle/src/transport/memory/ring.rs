//! The mode of `Memory` that owns what it works on, as an engine on io_uring does: it takes pieces
//! out of a queue at once, files too, and delivers them later, and it reads into buffers of its own. An
//! error of a delivery shows at the next call. There is no readiness.
//!
//! Users of `Transport` that pass all seeds in this mode lend nothing, flush before they wait or
//! close, and lose no bytes of a cancelled fill.

use std::io::{self, IoSlice};
use std::task::{Context, Poll, ready};

use super::super::{Front, Input, SendQueue, Taken};
use super::{Memory, Random};

/// Bytes of a file that are read at once.
const FILE_PIECE_BYTES: usize = 4 << 10;

/// The reads and writes of one end that are under way.
pub(super) struct Ring {
    /// Pieces that were taken and have not been delivered.
    sending: SendQueue,
    /// Bytes delivered.
    flushed: u64,
    /// A buffer that is being filled.
    reading: Option<Taken>,
    /// A buffer that was filled and not yet asked for.
    filled: Option<Taken>,
    random: Random,
}

impl Ring {
    pub(super) fn new(random: Random) -> Ring {
        let (reading, filled) = (None, None);
        Ring { sending: SendQueue::default(), flushed: 0, reading, filled, random }
    }

    pub(super) fn flushed_bytes(&self) -> u64 {
        self.flushed
    }

    /// Whether bytes were taken and not delivered.
    pub(super) fn is_sending(&self) -> bool {
        !self.sending.is_empty()
    }

    /// Whether a read is complete.
    pub(super) fn is_filled(&self) -> bool {
        self.filled.is_some()
    }

    /// Takes pieces once the earlier ones are delivered.
    pub(super) fn poll_send(
        &mut self,
        io: &Memory,
        cx: &mut Context<'_>,
        queue: &mut SendQueue,
    ) -> Poll<io::Result<usize>> {
        ready!(self.poll_flush(io, cx))?;
        let count = self.random.within(1, queue.pieces() as u64);
        for _ in 0..count {
            queue.pop().into_iter().for_each(|piece| self.sending.push(piece));
        }
        let taken = self.sending.len();
        io.note("takes", &(taken as u64).to_le_bytes());
        Poll::Ready(Ok(taken))
    }

    /// Delivers all taken pieces.
    pub(super) fn poll_flush(&mut self, io: &Memory, cx: &mut Context<'_>) -> Poll<io::Result<()>> {
        while let Some(front) = self.sending.front() {
            let sent = match front {
                Front::One(bytes) => io.poll_write(cx, &[IoSlice::new(bytes)]),
                Front::Many => io.poll_write_queue(cx, &self.sending),
                Front::File { head, file, offset, len } => {
                    let mut bytes = vec![0; len.min(FILE_PIECE_BYTES)];
                    let n = rustix::io::pread(file, &mut bytes, offset).expect("a readable file");
                    assert!(n > 0, "{}: a file that has become shorter", io.name);
                    io.poll_write(cx, &[IoSlice::new(head), IoSlice::new(&bytes[..n])])
                }
            };
            match ready!(sent) {
                Ok(n) => {
                    self.sending.consume(n);
                    self.flushed += n as u64;
                }
                Err(e) => {
                    self.sending.clear();
                    return Poll::Ready(Err(e));
                }
            }
        }
        Poll::Ready(Ok(()))
    }

    /// Waits until a read is complete: then `poll_fill` has its bytes, or the end.
    pub(super) fn poll_filled(
        &mut self,
        io: &Memory,
        cx: &mut Context<'_>,
    ) -> Poll<io::Result<()>> {
        if self.filled.is_none() {
            let mut buffer = self.reading.take().unwrap_or_else(Taken::lend);
            match io.poll_read(cx, buffer.room()) {
                Poll::Pending => {
                    self.reading = Some(buffer);
                    return Poll::Pending;
                }
                Poll::Ready(read) => buffer.fill(read?),
            }
            self.filled = Some(buffer);
            if self.random.is_one_in(4) {
                // The completion is seen later; the caller may have gone by then.
                cx.waker().wake_by_ref();
                return Poll::Pending;
            }
        }
        Poll::Ready(Ok(()))
    }

    pub(super) fn poll_fill(
        &mut self,
        io: &Memory,
        cx: &mut Context<'_>,
        input: &mut Input,
    ) -> Poll<io::Result<usize>> {
        input.park();
        ready!(self.poll_filled(io, cx))?;
        let filled = self.filled.take().map_or(0, |filled| input.put(filled));
        Poll::Ready(Ok(filled))
    }
}
