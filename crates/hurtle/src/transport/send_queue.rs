//! The bytes that are to be sent on a connection, in order, as owned pieces. An engine takes pieces
//! from the front; it may keep them while the kernel works on them.

use std::collections::VecDeque;
use std::io::IoSlice;
use std::mem;
use std::sync::Arc;

use bytes::{Bytes, BytesMut};

use super::{Output, Taken};
use crate::body::OpenFile;

/// Number of inline slots after the first piece. A piece of a body between framing thus needs no
/// allocation.
const PLACES: usize = 3;

/// Bytes that are to be sent, with their owner.
#[derive(Debug)]
pub(crate) enum Piece {
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
    /// Pieces that do not fit in a queue's slots; only within a queue, in the last slot.
    #[doc(hidden)]
    Rest(Rest),
}

/// See `Piece::Rest`. A separate field of the queue would cost a call at every drop of a queue.
#[derive(Debug)]
pub(crate) struct Rest(VecDeque<Piece>);

/// A range of a file's bytes.
#[derive(Debug)]
pub(crate) struct FileRange {
    pub file: Arc<OpenFile>,
    /// The offset of the first byte.
    pub offset: u64,
    /// The number of bytes.
    pub len: usize,
}

/// The pieces that one system call can take.
#[derive(Debug)]
pub(crate) enum Front<'q> {
    /// One piece in memory.
    One(&'q [u8]),
    /// Several pieces in memory: see `SendQueue::slices`.
    Many,
    /// A range of a file, and the bytes before it; they may be empty.
    File {
        /// The bytes before the file.
        head: &'q [u8],
        file: &'q OpenFile,
        /// The offset of the first byte.
        offset: u64,
        /// The number of bytes.
        len: usize,
    },
}

/// A queue of pieces. It allocates nothing for up to four; empty pieces are dropped.
#[derive(Debug, Default)]
pub(crate) struct SendQueue {
    first: Option<Piece>,
    /// Bytes of the first piece that the engine has taken.
    skip: usize,
    /// The pieces after the first, without gaps.
    behind: [Option<Piece>; PLACES],
}

impl Piece {
    /// Returns the number of bytes.
    #[inline]
    pub(crate) fn len(&self) -> usize {
        match self {
            Piece::File(range) => range.len,
            _ => self.bytes().len(),
        }
    }

    /// Returns whether the piece has no bytes.
    pub(crate) fn is_empty(&self) -> bool {
        self.len() == 0
    }

    /// Returns the bytes in memory; none of a file.
    #[inline]
    pub(crate) fn bytes(&self) -> &[u8] {
        match self {
            Piece::Output(output) => output,
            Piece::Taken(taken) => taken,
            Piece::Bytes(bytes) => bytes,
            Piece::Static(bytes) => bytes,
            Piece::File(_) | Piece::Rest(_) => &[],
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
            Piece::Rest(_) => Piece::Static(&[]),
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
    #[inline]
    pub(crate) fn push(&mut self, piece: impl Into<Piece>) {
        let piece = piece.into();
        if piece.is_empty() {
            return;
        }
        if self.first.is_none() {
            self.first = Some(piece);
        } else {
            self.push_behind(piece);
        }
    }

    fn push_behind(&mut self, piece: Piece) {
        let [.., last] = &mut self.behind;
        match last {
            Some(Piece::Rest(Rest(rest))) => rest.push_back(piece),
            Some(_) => {
                let fourth = last.take();
                *last = Some(Piece::Rest(Rest(fourth.into_iter().chain([piece]).collect())));
            }
            None => {
                if let Some(slot) = self.behind.iter_mut().find(|slot| slot.is_none()) {
                    *slot = Some(piece);
                }
            }
        }
    }

    /// Returns whether the engine has taken all pieces.
    #[inline]
    pub(crate) fn is_empty(&self) -> bool {
        self.first.is_none()
    }

    /// Returns the number of pieces.
    pub(crate) fn pieces(&self) -> usize {
        self.iter().count()
    }

    /// Returns the number of bytes.
    pub(crate) fn len(&self) -> usize {
        self.iter().map(Piece::len).sum::<usize>() - self.skip
    }

    pub(crate) fn clear(&mut self) {
        if !self.is_empty() {
            *self = SendQueue::default();
        }
    }

    /// Returns the bytes in memory if they are one piece: the usual case.
    #[inline]
    pub(crate) fn sole(&self) -> Option<&[u8]> {
        match (&self.first, &self.behind[0]) {
            (Some(Piece::File(_)), _) | (_, Some(_)) => None,
            (first, None) => Some(&first.as_ref()?.bytes()[self.skip..]),
        }
    }

    /// Returns the pieces for the next system call; `None`: the queue is empty.
    pub(crate) fn front(&self) -> Option<Front<'_>> {
        let first = self.first.as_ref()?;
        if let Piece::File(range) = first {
            return Some(Front::file(&[], range, self.skip));
        }
        let head = &first.bytes()[self.skip..];
        Some(match &self.behind[0] {
            None => Front::One(head),
            Some(Piece::File(range)) => Front::file(head, range, 0),
            Some(_) => Front::Many,
        })
    }

    /// Writes the bytes in memory before the first file to `into`, at most `most` bytes; returns
    /// the number of slices.
    pub(crate) fn slices<'q>(&'q self, into: &mut [IoSlice<'q>], most: usize) -> usize {
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
    pub(crate) fn consume(&mut self, len: usize) {
        self.skip += len;
        while let Some(first) = &self.first {
            let has = first.len();
            if self.skip < has {
                return;
            }
            self.skip -= has;
            self.first = None;
            if self.behind[0].is_some() {
                self.move_up();
            }
        }
    }

    /// Takes the first piece, without the bytes that were consumed.
    pub(crate) fn pop(&mut self) -> Option<Piece> {
        let skip = mem::take(&mut self.skip);
        let piece = self.first.take()?;
        self.move_up();
        Some(if skip == 0 { piece } else { piece.part(skip, piece.len() - skip) })
    }

    /// Takes the first `len` bytes, or all if there are fewer.
    pub(crate) fn split_to(&mut self, len: usize) -> SendQueue {
        let (mut split, mut left) = (SendQueue::default(), len);
        while left > 0
            && let Some(first) = &self.first
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
    pub(crate) fn take_bytes(&mut self, max: usize) -> Bytes {
        let len = self.len().min(max);
        if let Some(Piece::Bytes(bytes)) = &self.first
            && bytes.len() - self.skip >= len
            && len * 2 >= bytes.len()
        {
            let part = bytes.slice(self.skip..self.skip + len);
            self.consume(len);
            return part;
        }
        let mut data = BytesMut::with_capacity(len);
        while let Some(first) = &self.first
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

    fn iter(&self) -> impl Iterator<Item = &Piece> {
        let rest = match &self.behind {
            [.., Some(Piece::Rest(Rest(rest)))] => Some(rest),
            _ => None,
        };
        let inline = self.first.iter().chain(self.behind.iter().flatten());
        let inline = inline.filter(|piece| !matches!(piece, Piece::Rest(_)));
        inline.chain(rest.into_iter().flatten())
    }

    /// Moves the pieces forward by one slot after the first was removed.
    fn move_up(&mut self) {
        let [second, third, fourth] = &mut self.behind;
        self.first = second.take();
        *second = third.take();
        *third = match fourth {
            Some(Piece::Rest(Rest(rest))) => {
                let next = rest.pop_front();
                // An idle connection has no allocation.
                if rest.len() <= 1 {
                    *fourth = rest.pop_front();
                }
                next
            }
            _ => fourth.take(),
        };
    }
}

impl<'q> Front<'q> {
    #[inline]
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
