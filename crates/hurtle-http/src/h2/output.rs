//! The bytes that wait to be written, in order: small pieces gathered in one buffer, large ones as they were
//! given. It takes no memory while it is empty.

use std::collections::VecDeque;
use std::mem;

use bytes::{Buf, Bytes};

/// Data from so many bytes on is not copied: a piece of its own costs a record or an entry of
/// `writev`, some hundred instructions.
const SHARED_BYTES_MIN: usize = 4 << 10;

/// Replies that wait at most. Requests and data are bounded otherwise.
const REPLIES_MAX: u32 = 1_024;

/// Bytes a gathered piece has room for at first: a response's head and a small body.
const GATHERED_BYTES: usize = 512;

/// Pieces there is always room for, in an idle connection too.
const PIECES_KEPT: usize = 4;

/// A queue of bytes.
#[derive(Debug, Default)]
pub(super) struct Output {
    pieces: VecDeque<Piece>,
    /// Bytes of the first piece that are written, if it is gathered.
    written: usize,
    len: usize,
    /// Bytes that were given out and are not written.
    given: usize,
    /// All bytes that were ever written.
    total: u64,
    replies: u32,
}

#[derive(Debug)]
enum Piece {
    Gathered(Vec<u8>),
    Shared(Bytes),
}

impl Output {
    /// Bytes that wait.
    pub(super) fn len(&self) -> usize {
        self.len
    }

    /// The position behind the last byte, counted from the connection's begin.
    pub(super) fn end(&self) -> u64 {
        self.total + self.len as u64
    }

    /// The position of the first byte that waits.
    pub(super) fn begin(&self) -> u64 {
        self.total
    }

    /// Appends what `write` appends to a buffer.
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

    /// Appends data.
    pub(super) fn push(&mut self, data: Bytes) {
        if data.len() < SHARED_BYTES_MIN {
            return self.gather(|bytes| bytes.extend_from_slice(&data));
        }
        self.len += data.len();
        self.pieces.push_back(Piece::Shared(data));
    }

    /// Counts a reply to something that costs the peer nothing; false: too many wait already.
    pub(super) fn count_reply(&mut self) -> bool {
        self.replies += 1;
        self.replies <= REPLIES_MAX
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

    /// The pieces that were not given out, in their order.
    pub(super) fn pieces(&self) -> impl Iterator<Item = &[u8]> {
        self.pieces.iter().enumerate().map(|(at, piece)| match piece {
            Piece::Gathered(bytes) if at == 0 => &bytes[self.written..],
            Piece::Gathered(bytes) => bytes,
            Piece::Shared(bytes) => bytes,
        })
    }

    /// Takes away bytes that were written, from the first on; more than there are take all.
    pub(super) fn consume(&mut self, bytes: usize) {
        let mut left = bytes.min(self.len);
        self.len -= left;
        self.total += left as u64;
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
            self.replies = 0;
            self.pieces.clear();
            if self.pieces.capacity() > PIECES_KEPT {
                self.pieces = VecDeque::new();
            }
        }
    }
}

#[cfg(test)]
mod tests {
    use proptest::prelude::*;

    use super::*;

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
