//! The queue of bytes to write. Small pieces are gathered in one buffer, large ones are kept as
//! they are. An empty queue takes no memory.

use std::collections::VecDeque;
use std::mem;

use bytes::{Buf, Bytes};

/// Minimum size in bytes of data that is not copied. A piece of its own costs a TLS record or an
/// entry of `writev(2)`, some hundred instructions.
const SHARED_BYTES_MIN: usize = 4 << 10;

/// Maximum number of queued replies to control frames. Responses have limits of their own.
const REPLIES_MAX: usize = 1_024;

/// Initial capacity of a gathered piece in bytes: a response's head and a small body.
const GATHERED_BYTES: usize = 512;

/// Pieces and replies for which an idle connection keeps memory.
const PIECES_KEPT: usize = 4;

/// A queue of bytes.
#[derive(Debug, Default)]
pub(super) struct Output {
    pieces: VecDeque<Piece>,
    /// Written bytes of the first piece, if it is gathered.
    written: usize,
    len: usize,
    /// Bytes that were given out and are not written.
    given: usize,
    /// Bytes written since the connection began.
    total: u64,
    /// Ends of the queued replies to control frames.
    replies: VecDeque<u64>,
}

#[derive(Debug)]
enum Piece {
    Gathered(Vec<u8>),
    Shared(Bytes),
}

impl Output {
    /// Number of queued bytes.
    pub(super) fn len(&self) -> usize {
        self.len
    }

    /// The position after the last queued byte, counted from the connection's start.
    pub(super) fn end(&self) -> u64 {
        self.total + self.len as u64
    }

    /// The position of the first queued byte.
    pub(super) fn begin(&self) -> u64 {
        self.total
    }

    /// Appends the bytes that `write` appends to its buffer.
    pub(super) fn gather<T>(&mut self, write: impl FnOnce(&mut Vec<u8>) -> T) -> T {
        if !matches!(self.pieces.back(), Some(Piece::Gathered(_))) {
            self.pieces.push_back(Piece::Gathered(Vec::with_capacity(GATHERED_BYTES)));
        }
        let Some(Piece::Gathered(bytes)) = self.pieces.back_mut() else {
            unreachable!("it was just pushed")
        };
        let before = bytes.len();
        let result = write(bytes);
        self.len += bytes.len() - before;
        result
    }

    pub(super) fn push(&mut self, data: Bytes) {
        if data.len() < SHARED_BYTES_MIN {
            return self.gather(|bytes| bytes.extend_from_slice(&data));
        }
        self.len += data.len();
        self.pieces.push_back(Piece::Shared(data));
    }

    /// Counts the last queued bytes as a reply to a control frame; `false` if too many are queued.
    pub(super) fn count_reply(&mut self) -> bool {
        self.replies.push_back(self.end());
        self.replies.len() <= REPLIES_MAX
    }

    /// Gives out the first piece. Its bytes wait until `consume` takes them away.
    pub(super) fn take(&mut self) -> Option<Bytes> {
        let mut bytes = match self.pieces.pop_front()? {
            Piece::Gathered(bytes) => Bytes::from(bytes),
            Piece::Shared(bytes) => bytes,
        };
        bytes.advance(mem::take(&mut self.written));
        self.given += bytes.len();
        Some(bytes)
    }

    /// The pieces that were not given out, in order.
    pub(super) fn pieces(&self) -> impl Iterator<Item = &[u8]> {
        self.pieces.iter().enumerate().map(|(at, piece)| match piece {
            Piece::Gathered(bytes) if at == 0 => &bytes[self.written..],
            Piece::Gathered(bytes) => bytes,
            Piece::Shared(bytes) => bytes,
        })
    }

    /// Removes written bytes from the front; at most all.
    pub(super) fn consume(&mut self, bytes: usize) {
        let mut left = bytes.min(self.len);
        self.len -= left;
        self.total += left as u64;
        while self.replies.front().is_some_and(|end| *end <= self.total) {
            self.replies.pop_front();
        }
        let given = left.min(self.given);
        self.given -= given;
        left -= given;
        while left > 0 {
            let Some(piece) = self.pieces.front_mut() else { break };
            let has = match piece {
                Piece::Gathered(bytes) => bytes.len() - self.written,
                Piece::Shared(bytes) => bytes.len(),
            };
            if left >= has {
                left -= has;
                self.written = 0;
                self.pieces.pop_front();
                continue;
            }
            match piece {
                Piece::Gathered(_) => self.written += left,
                Piece::Shared(bytes) => bytes.advance(left),
            }
            left = 0;
        }
        if self.len == 0 {
            self.pieces.clear();
            if self.pieces.capacity() > PIECES_KEPT {
                self.pieces = VecDeque::new();
            }
            if self.replies.capacity() > PIECES_KEPT {
                self.replies = VecDeque::new();
            }
        }
    }
}

#[cfg(test)]
mod tests {
    use proptest::prelude::*;

    use super::*;

    /// They were counted since the queue had been empty, which it is not during a download.
    #[test]
    fn replies_that_are_written_are_not_counted() {
        let mut output = Output::default();
        for _ in 0..2 * REPLIES_MAX {
            output.push(Bytes::from_static(&[0; SHARED_BYTES_MIN]));
            output.gather(|bytes| bytes.extend_from_slice(b"reply"));
            assert!(output.count_reply());
            // All but the last bytes, so that the queue is never empty.
            output.consume(output.len() - 1);
        }
        let mut queued = 1;
        while output.count_reply() {
            queued += 1;
        }
        assert_eq!(queued, REPLIES_MAX);
    }

    proptest! {
        #[test]
        fn bytes_leave_in_their_order(
            steps in prop::collection::vec((0_usize..4, 0_usize..10_000), 0..50),
        ) {
            let (mut output, mut model) = (Output::default(), Vec::new());
            let mut given = Vec::new();
            for (n, (what, len)) in steps.into_iter().enumerate() {
                let bytes = vec![n as u8; len];
                match what {
                    0 => output.gather(|out| out.extend_from_slice(&bytes)),
                    1 => output.push(bytes.clone().into()),
                    2 => given.extend(output.take().into_iter().flatten()),
                    _ => output.consume(len),
                }
                if what < 2 {
                    model.extend(bytes);
                } else if what == 3 {
                    model.drain(..len.min(model.len()));
                    given.drain(..len.min(given.len()));
                }
                let left = output.pieces().collect::<Vec<_>>().concat();
                prop_assert_eq!([&given[..], &left].concat(), model.clone());
                prop_assert_eq!(output.len(), model.len());
            }
        }
    }
}
