//! The mode of `Memory` that owns data while it works on it, like an engine on io_uring. It accepts
//! pieces, including files, and writes them later; it reads into its own buffers. The next call
//! reports the error of a write. There is no readiness.
//!
//! Code that passes all seeds in this mode keeps the contract of `Transport`: it lends no buffers,
//! flushes before it waits or closes, and loses no bytes of a cancelled fill.

use std::io::{self, IoSlice};
use std::task::{Context, Poll, ready};

use super::super::{Front, Input, SendQueue, Taken};
use super::{Memory, Random};

/// Maximum size of one read of a file, in bytes.
const FILE_PIECE_BYTES: usize = 4 << 10;

/// The reads and writes in progress at one end.
pub(super) struct Ring {
    /// Accepted pieces that are not written.
    sending: SendQueue,
    /// Number of bytes written.
    flushed: u64,
    /// The buffer of a read in progress.
    reading: Option<Taken>,
    /// The buffer of a complete read that no fill has used.
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

    /// Returns whether accepted bytes are not written.
    pub(super) fn is_sending(&self) -> bool {
        !self.sending.is_empty()
    }

    /// Returns whether a read is complete.
    pub(super) fn is_filled(&self) -> bool {
        self.filled.is_some()
    }

    /// Accepts pieces after the earlier ones are written.
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
        io.record("accepts", &(taken as u64).to_le_bytes());
        Poll::Ready(Ok(taken))
    }

    /// Writes all accepted pieces.
    pub(super) fn poll_flush(&mut self, io: &Memory, cx: &mut Context<'_>) -> Poll<io::Result<()>> {
        while let Some(front) = self.sending.front() {
            let sent = match front {
                Front::One(bytes) => io.poll_write(cx, &[IoSlice::new(bytes)]),
                Front::Many => io.poll_write_queue(cx, &self.sending),
                Front::File { head, file, offset, len } => {
                    let mut bytes = vec![0; len.min(FILE_PIECE_BYTES)];
                    let n = rustix::io::pread(file, &mut bytes, offset).expect("a readable file");
                    assert!(n > 0, "{}: the file was truncated", io.name);
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

    /// Waits until a read is complete; `poll_fill` then returns its bytes, or the end.
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
                // Reports the completion later, when the caller may have cancelled the fill.
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
