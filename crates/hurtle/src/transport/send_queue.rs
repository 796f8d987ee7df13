//! The bytes that are to be sent on a connection, in order, as owned pieces. An engine takes pieces
//! from the front; it may keep them while the kernel works on them.

use std::collections::VecDeque;
use std::io::IoSlice;
use std::sync::Arc;

use bytes::{Bytes, BytesMut};

use super::{Output, Taken};
use crate::body::OpenFile;

/// Maximum number of pieces that need no allocation: a head, framing around a piece of a body, and
/// one more.
const NEAR_PIECES: usize = 4;

/// Bytes that are to be sent, with their owner.
#[derive(Debug)]
pub enum Piece {
    /// An encoded head or framing, with small pieces of a body.
    Output(Output),
    /// Bytes that were read from another connection or from a file.
    Taken(Taken),
    /// A piece of a body in memory.
    Bytes(Bytes),
    /// Constant framing.
    Static(&'static [u8]),
    /// A range of a file. Only for a channel whose `Transport::sends_files` has returned true.
    File(FileRange),
}

/// A range of a file's bytes.
#[derive(Debug)]
pub struct FileRange {
    /// The file.
    pub file: Arc<OpenFile>,
    /// The offset of the first byte.
    pub offset: u64,
    /// The number of bytes.
    pub len: usize,
}

/// The pieces that one system call can take.
#[derive(Debug)]
pub enum Front<'q> {
    /// One piece in memory.
    One(&'q [u8]),
    /// Several pieces in memory: see `SendQueue::slices`.
    Many,
    /// A range of a file, and the bytes before it; they may be empty.
    File {
        /// The bytes before the file.
        head: &'q [u8],
        /// The file.
        file: &'q OpenFile,
        /// The offset of the first byte.
        offset: u64,
        /// The number of bytes.
        len: usize,
    },
}

/// A queue of pieces. It allocates nothing for up to four; empty pieces are dropped.
#[derive(Debug, Default)]
pub struct SendQueue {
    /// The first pieces, a ring from `first` on.
    near: [Option<Piece>; NEAR_PIECES],
    first: usize,
    near_len: usize,
    /// The pieces behind them.
    far: VecDeque<Piece>,
    /// Bytes of the first piece that the engine has taken.
    skip: usize,
}

impl Piece {
    /// Returns the number of bytes.
    pub fn len(&self) -> usize {
        match self {
            Piece::File(range) => range.len,
            _ => self.bytes().len(),
        }
    }

    /// Returns whether the piece has no bytes.
    pub fn is_empty(&self) -> bool {
        self.len() == 0
    }

    /// Returns the bytes in memory; none of a file.
    pub fn bytes(&self) -> &[u8] {
        match self {
            Piece::Output(output) => output,
            Piece::Taken(taken) => taken,
            Piece::Bytes(bytes) => bytes,
            Piece::Static(bytes) => bytes,
            Piece::File(_) => &[],
        }
    }

    fn is_file(&self) -> bool {
        matches!(self, Piece::File(_))
    }

    /// Returns the bytes `skip..skip + len` as a piece. Pooled bytes are copied.
    fn part(&self, skip: usize, len: usize) -> Piece {
        match self {
            Piece::Output(_) | Piece::Taken(_) => {
                Piece::Bytes(Bytes::copy_from_slice(&self.bytes()[skip..skip + len]))
            }
            Piece::Bytes(bytes) => Piece::Bytes(bytes.slice(skip..skip + len)),
            Piece::Static(bytes) => Piece::Static(&bytes[skip..skip + len]),
            Piece::File(FileRange { file, offset, .. }) => {
                let offset = offset + skip as u64;
                Piece::File(FileRange { file: Arc::clone(file), offset, len })
            }
        }
    }
}

impl From<Output> for Piece {
    fn from(output: Output) -> Piece {
        Piece::Output(output)
    }
}

impl From<Taken> for Piece {
    fn from(taken: Taken) -> Piece {
        Piece::Taken(taken)
    }
}

impl From<Bytes> for Piece {
    fn from(bytes: Bytes) -> Piece {
        Piece::Bytes(bytes)
    }
}

impl From<&'static [u8]> for Piece {
    fn from(bytes: &'static [u8]) -> Piece {
        Piece::Static(bytes)
    }
}

impl From<FileRange> for Piece {
    fn from(range: FileRange) -> Piece {
        Piece::File(range)
    }
}

impl SendQueue {
    /// Appends a piece.
    #[inline]
    pub fn push(&mut self, piece: impl Into<Piece>) {
        let piece = piece.into();
        if piece.is_empty() {
            return;
        }
        if self.near_len == NEAR_PIECES {
            self.far.push_back(piece);
            return;
        }
        self.near[(self.first + self.near_len) % NEAR_PIECES] = Some(piece);
        self.near_len += 1;
    }

    /// Returns whether the engine has taken all pieces.
    #[inline]
    pub fn is_empty(&self) -> bool {
        self.near_len == 0
    }

    /// Returns the number of pieces.
    pub fn pieces(&self) -> usize {
        self.near_len + self.far.len()
    }

    /// Returns the number of bytes.
    pub fn len(&self) -> usize {
        self.iter().map(Piece::len).sum::<usize>() - self.skip
    }

    /// Drops all pieces.
    pub fn clear(&mut self) {
        *self = SendQueue::default();
    }

    /// Returns the pieces for the next system call; `None`: the queue is empty.
    #[inline]
    pub fn front(&self) -> Option<Front<'_>> {
        let first = self.near(0)?;
        let (head, second) = (first.bytes().get(self.skip..).unwrap_or_default(), self.near(1));
        Some(match (first, second) {
            (Piece::File(range), _) => Front::file(head, range, self.skip),
            (_, Some(Piece::File(range))) => Front::file(head, range, 0),
            (_, None) => Front::One(head),
            (_, Some(_)) => Front::Many,
        })
    }

    /// Writes the bytes in memory before the first file to `into`, at most `most` bytes; returns the
    /// number of slices.
    pub fn slices<'q>(&'q self, into: &mut [IoSlice<'q>], most: usize) -> usize {
        let (mut count, mut left, mut skip) = (0, most, self.skip);
        for (slot, piece) in into.iter_mut().zip(self.iter()) {
            if piece.is_file() || left == 0 {
                break;
            }
            let bytes = &piece.bytes()[skip..];
            let bytes = &bytes[..bytes.len().min(left)];
            *slot = IoSlice::new(bytes);
            (count, left, skip) = (count + 1, left - bytes.len(), 0);
        }
        count
    }

    /// Drops the first `len` bytes, which must be present.
    #[inline]
    pub fn consume(&mut self, len: usize) {
        let mut left = self.skip + len;
        while let Some(first) = self.near(0).map(Piece::len)
            && left >= first
        {
            left -= first;
            self.take_first();
        }
        self.skip = left;
    }

    /// Takes the first piece, whole or what is left of it.
    pub fn pop(&mut self) -> Option<Piece> {
        let skip = std::mem::take(&mut self.skip);
        let piece = self.take_first()?;
        Some(if skip == 0 { piece } else { piece.part(skip, piece.len() - skip) })
    }

    /// Takes the first `len` bytes, or all if there are fewer.
    pub fn split_to(&mut self, len: usize) -> SendQueue {
        let (mut split, mut left) = (SendQueue::default(), len);
        while left > 0
            && let Some(first) = self.near(0)
        {
            let has = first.len() - self.skip;
            if has <= left {
                left -= has;
                self.pop().into_iter().for_each(|piece| split.push(piece));
            } else {
                split.push(first.part(self.skip, left));
                self.skip += left;
                left = 0;
            }
        }
        split
    }

    /// Takes at most `max` bytes in memory as one piece. Bytes that are shared already are not
    /// copied, unless a small part would hold a large buffer.
    pub fn take_bytes(&mut self, max: usize) -> Bytes {
        let len = self.len().min(max);
        if let Some(Piece::Bytes(bytes)) = self.near(0)
            && bytes.len() - self.skip >= len
            && len * 2 >= bytes.len()
        {
            let part = bytes.slice(self.skip..self.skip + len);
            self.consume(len);
            return part;
        }
        let mut data = BytesMut::with_capacity(len);
        while let Some(first) = self.near(0)
            && data.len() < len
            && !first.is_file()
        {
            let bytes = &first.bytes()[self.skip..];
            let part = bytes.len().min(len - data.len());
            data.extend_from_slice(&bytes[..part]);
            self.consume(part);
        }
        data.freeze()
    }

    fn near(&self, at: usize) -> Option<&Piece> {
        self.near[(self.first + at) % NEAR_PIECES].as_ref()
    }

    fn iter(&self) -> impl Iterator<Item = &Piece> {
        (0..self.near_len).filter_map(|at| self.near(at)).chain(&self.far)
    }

    fn take_first(&mut self) -> Option<Piece> {
        let piece = self.near[self.first].take()?;
        self.first = (self.first + 1) % NEAR_PIECES;
        self.near_len -= 1;
        if !self.far.is_empty() {
            self.draw_near();
        }
        Some(piece)
    }

    /// Fills the free place. An emptied allocation is freed, so that an idle connection has none.
    #[cold]
    fn draw_near(&mut self) {
        let next = self.far.pop_front();
        self.near[(self.first + self.near_len) % NEAR_PIECES] = next;
        self.near_len += 1;
        if self.far.is_empty() {
            self.far = VecDeque::new();
        }
    }
}

impl<'q> Front<'q> {
    fn file(head: &'q [u8], range: &'q FileRange, skip: usize) -> Front<'q> {
        let FileRange { file, offset, len } = range;
        Front::File { head, file, offset: offset + skip as u64, len: len - skip }
    }
}

#[cfg(test)]
mod tests {
    use proptest::prelude::*;

    use super::*;

    fn piece(kind: u8, bytes: Vec<u8>) -> Piece {
        match kind {
            0 => {
                let mut output = Output::new();
                output.vec().extend(bytes);
                output.into()
            }
            1 => {
                let mut taken = Taken::lend();
                taken.room()[..bytes.len()].copy_from_slice(&bytes);
                taken.fill(bytes.len());
                taken.into()
            }
            2 => Bytes::from(bytes).into(),
            _ => Piece::Static(bytes.leak()),
        }
    }

    fn content(queue: &SendQueue) -> Vec<u8> {
        let mut slots = [IoSlice::new(&[]); 64];
        let count = queue.slices(&mut slots, usize::MAX);
        slots[..count].iter().flat_map(|slice| slice.to_vec()).collect()
    }

    proptest! {
        #[test]
        fn bytes_leave_in_order_by_every_exit(
            steps in prop::collection::vec((0_u8..9, 0_usize..300), 0..40),
        ) {
            let (mut queue, mut model) = (SendQueue::default(), Vec::new());
            for (n, (step, len)) in steps.into_iter().enumerate() {
                let has = model.len();
                let left = match step {
                    0..4 => {
                        let bytes: Vec<u8> = (0..len).map(|at| (at + n) as u8).collect();
                        model.extend(&bytes);
                        queue.push(piece(step, bytes));
                        Vec::new()
                    }
                    4 => {
                        queue.consume(len.min(has));
                        model.drain(..len.min(has)).collect()
                    }
                    5 => content(&queue.split_to(len)),
                    6 => queue.take_bytes(len).to_vec(),
                    7 => queue.pop().map_or(Vec::new(), |piece| piece.bytes().to_vec()),
                    _ => match queue.front() {
                        None => Vec::new(),
                        Some(Front::One(bytes)) => {
                            prop_assert_eq!(bytes, &model[..]);
                            Vec::new()
                        }
                        Some(Front::Many) => {
                            prop_assert!(queue.pieces() > 1);
                            Vec::new()
                        }
                        Some(Front::File { .. }) => unreachable!("there is none"),
                    },
                };
                if (5..8).contains(&step) {
                    if step < 7 {
                        prop_assert_eq!(left.len(), len.min(has));
                    }
                    let expected: Vec<u8> = model.drain(..left.len()).collect();
                    prop_assert_eq!(left, expected);
                }
                prop_assert_eq!(queue.len(), model.len());
                prop_assert_eq!(queue.is_empty(), model.is_empty());
                prop_assert_eq!(content(&queue), model.clone());
            }
        }
    }
}
