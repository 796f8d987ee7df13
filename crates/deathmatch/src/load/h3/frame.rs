//! Frames of HTTP/3 (RFC 9114, 7.1) and the integers of QUIC (RFC 9000, 16). Pure.

pub(super) const DATA: u64 = 0x0;
pub(super) const HEADERS: u64 = 0x1;
pub(super) const CANCEL_PUSH: u64 = 0x3;
pub(super) const SETTINGS: u64 = 0x4;
pub(super) const PUSH_PROMISE: u64 = 0x5;
pub(super) const GOAWAY: u64 = 0x7;
pub(super) const MAX_PUSH_ID: u64 = 0xd;

/// Largest type and length of a frame, in bytes.
const HEAD_BYTES_MAX: usize = 16;

/// A part of a frame's payload.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(super) struct Piece<'a> {
    pub(super) kind: u64,
    pub(super) bytes: &'a [u8],
    /// The frame ends with it.
    pub(super) is_last: bool,
}

/// Splits the bytes of a stream into frames.
#[derive(Debug, Default)]
pub(super) struct Frames {
    /// The received part of a frame's type and length.
    head: Vec<u8>,
    /// The type and the rest of the length of the present frame.
    present: Option<(u64, u64)>,
}

impl Frames {
    /// The next part of a payload; `None` once all bytes are taken.
    pub(super) fn next<'a>(&mut self, bytes: &mut &'a [u8]) -> Option<Piece<'a>> {
        let (kind, left) = match self.present {
            Some(present) => present,
            None => self.take_head(bytes)?,
        };
        if left > 0 && bytes.is_empty() {
            self.present = Some((kind, left));
            return None;
        }
        let count = usize::try_from(left).map_or(bytes.len(), |left| left.min(bytes.len()));
        let (piece, rest) = bytes.split_at(count);
        *bytes = rest;
        let left = left - count as u64;
        self.present = (left > 0).then_some((kind, left));
        Some(Piece { kind, bytes: piece, is_last: left == 0 })
    }

    /// `true` between two frames.
    pub(super) fn is_between(&self) -> bool {
        self.head.is_empty() && self.present.is_none()
    }

    fn take_head(&mut self, bytes: &mut &[u8]) -> Option<(u64, u64)> {
        while self.head.len() < HEAD_BYTES_MAX {
            let (&byte, rest) = bytes.split_first()?;
            *bytes = rest;
            self.head.push(byte);
            let mut head = &self.head[..];
            if let (Some(kind), Some(length)) = (integer(&mut head), integer(&mut head)) {
                self.head.clear();
                return Some((kind, length));
            }
        }
        None
    }
}

/// Reads an integer; `None` if it is incomplete.
pub(super) fn integer(bytes: &mut &[u8]) -> Option<u64> {
    let &first = bytes.first()?;
    let (all, rest) = bytes.split_at_checked(1 << (first >> 6))?;
    *bytes = rest;
    let value = all.iter().fold(0, |value, &byte| (value << 8) | u64::from(byte));
    // The first two bits tell the length.
    Some(value & (u64::MAX >> (66 - 8 * all.len())))
}

pub(super) fn put_integer(out: &mut Vec<u8>, value: u64) {
    match value {
        0..0x40 => out.push(value as u8),
        0x40..0x4000 => out.extend((value as u16 | 0x4000).to_be_bytes()),
        0x4000..0x4000_0000 => out.extend((value as u32 | 0x8000_0000).to_be_bytes()),
        _ => out.extend((value | 0xc000_0000_0000_0000).to_be_bytes()),
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn integers_of_the_rfc() {
        for (bytes, value) in [
            (&[0xc2, 0x19, 0x7c, 0x5e, 0xff, 0x14, 0xe8, 0x8c][..], 151_288_809_941_952_652),
            (&[0x9d, 0x7f, 0x3e, 0x7d], 494_878_333),
            (&[0x7b, 0xbd], 15_293),
            (&[0x25], 37),
        ] {
            let mut rest = bytes;
            assert_eq!((integer(&mut rest), rest), (Some(value), &[][..]));
            assert_eq!(integer(&mut &bytes[..bytes.len() - 1]), None);
            let mut out = Vec::new();
            put_integer(&mut out, value);
            assert_eq!(out, bytes);
        }
    }

    #[test]
    fn frames_are_found_wherever_reads_end() {
        let sent = [&[1, 3][..], b"abc", &[0x40, 0x21, 0], &[0, 0x40, 5], b"hello"].concat();
        for size in 1..=sent.len() {
            let (mut frames, mut seen) = (Frames::default(), Vec::new());
            let mut present = Vec::new();
            for mut bytes in sent.chunks(size) {
                while let Some(piece) = frames.next(&mut bytes) {
                    present.extend(piece.bytes);
                    if piece.is_last {
                        seen.push((piece.kind, std::mem::take(&mut present)));
                    }
                }
            }
            let expected = [(1, b"abc".to_vec()), (0x21, vec![]), (0, b"hello".to_vec())];
            assert_eq!(seen, expected, "in pieces of {size}");
            assert!(frames.is_between());
        }
    }
}
