//! The encoding of frames (RFC 9114 sections 7.1 and 7.2), settings and stream types.

use bytes::{Buf, Bytes};

use super::varint;

pub(super) const DATA: u64 = 0x0;
pub(super) const HEADERS: u64 = 0x1;
pub(super) const CANCEL_PUSH: u64 = 0x3;
pub(super) const SETTINGS: u64 = 0x4;
pub(super) const PUSH_PROMISE: u64 = 0x5;
pub(super) const GOAWAY: u64 = 0x7;
pub(super) const MAX_PUSH_ID: u64 = 0xd;
/// PRIORITY_UPDATE for a request and for a push (RFC 9218 section 7.2).
pub(super) const PRIORITY_UPDATE: u64 = 0xf_0700;
pub(super) const PRIORITY_UPDATE_PUSH: u64 = 0xf_0701;

/// `true` if the frame type is reserved because HTTP/2 uses it (RFC 9114 section 7.2.8).
pub(super) fn is_of_http2(kind: u64) -> bool {
    matches!(kind, 0x2 | 0x6 | 0x8 | 0x9)
}

/// Settings (RFC 9114 section 7.2.4.1, RFC 9204 section 5, RFC 9220, RFC 9297).
pub(super) const QPACK_MAX_TABLE_CAPACITY: u64 = 0x1;
pub(super) const MAX_FIELD_SECTION_SIZE: u64 = 0x6;
pub(super) const QPACK_BLOCKED_STREAMS: u64 = 0x7;
pub(super) const ENABLE_CONNECT_PROTOCOL: u64 = 0x8;
pub(super) const H3_DATAGRAM: u64 = 0x33;
/// A reserved setting without a meaning (RFC 9114 section 7.2.4.1).
pub(super) const GREASE: u64 = 0x1f * 22 + 0x21;

/// `true` if the setting is reserved because HTTP/2 uses it (RFC 9114 section 11.2.2).
pub(super) fn is_setting_of_http2(id: u64) -> bool {
    matches!(id, 0x0 | 0x2..=0x5)
}

/// Types of unidirectional streams (RFC 9114 section 6.2, RFC 9204 section 4.2).
pub(super) const CONTROL_STREAM: u64 = 0x0;
pub(super) const PUSH_STREAM: u64 = 0x1;
pub(super) const ENCODER_STREAM: u64 = 0x2;
pub(super) const DECODER_STREAM: u64 = 0x3;

/// Maximum bytes of a frame's header: its type and its length.
const HEAD_BYTES_MAX: usize = 2 * varint::BYTES_MAX;

/// Header of a frame (RFC 9114 section 7.1).
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(super) struct Head {
    pub(super) kind: u64,
    /// Bytes of the payload.
    pub(super) len: u64,
}

impl Head {
    fn read(mut input: &[u8]) -> Option<(Head, &[u8])> {
        let kind = varint::read(&mut input)?;
        let len = varint::read(&mut input)?;
        Some((Head { kind, len }, input))
    }
}

/// Collects a frame's header, or a stream's type, wherever reads end.
#[derive(Clone, Copy, Debug, Default)]
pub(super) struct Prefix {
    bytes: [u8; HEAD_BYTES_MAX],
    len: u8,
}

impl Prefix {
    /// `true` between two frames.
    pub(super) fn is_empty(&self) -> bool {
        self.len == 0
    }

    /// Takes a header from the input; `None` until it is complete.
    pub(super) fn head(&mut self, input: &mut Bytes) -> Option<Head> {
        if self.len == 0
            && let Some((head, rest)) = Head::read(input)
        {
            input.advance(input.len() - rest.len());
            return Some(head);
        }
        while self.push(input) {
            if let Some((head, _)) = Head::read(&self.bytes[..usize::from(self.len)]) {
                self.len = 0;
                return Some(head);
            }
        }
        None
    }

    /// Takes an integer from the input; `None` until it is complete.
    pub(super) fn integer(&mut self, input: &mut Bytes) -> Option<u64> {
        while self.push(input) {
            if let Some(value) = varint::read(&mut &self.bytes[..usize::from(self.len)]) {
                self.len = 0;
                return Some(value);
            }
        }
        None
    }

    /// Moves one byte from the input; `false` if there is none.
    fn push(&mut self, input: &mut Bytes) -> bool {
        let (Some(&byte), Some(slot)) = (input.first(), self.bytes.get_mut(usize::from(self.len)))
        else {
            return false;
        };
        *slot = byte;
        self.len += 1;
        input.advance(1);
        true
    }
}

/// Appends a frame's header.
pub(super) fn write_head(out: &mut Vec<u8>, kind: u64, len: usize) {
    varint::write(out, kind);
    varint::write(out, len as u64);
}

/// Appends a frame whose payload is one integer.
pub(super) fn write_integer(out: &mut Vec<u8>, kind: u64, value: u64) {
    write_head(out, kind, varint::len(value));
    varint::write(out, value);
}

pub(super) fn write_settings(out: &mut Vec<u8>, settings: &[(u64, u64)]) {
    let len = settings.iter().map(|(id, value)| varint::len(*id) + varint::len(*value)).sum();
    write_head(out, SETTINGS, len);
    for (id, value) in settings {
        varint::write(out, *id);
        varint::write(out, *value);
    }
}

/// The only integer of a payload; `None` if the payload is shorter or longer.
pub(super) fn single(mut payload: &[u8]) -> Option<u64> {
    varint::read(&mut payload).filter(|_| payload.is_empty())
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn headers_are_read_wherever_reads_end() {
        let rows: [(&[u8], u64, u64); 3] = [
            (&[0x00, 0x05], DATA, 5),
            (&[0x80, 0x0f, 0x07, 0x00, 0x40, 0x03], PRIORITY_UPDATE, 3),
            (&[0x40, 0x01, 0xc0, 0, 0, 0, 0, 0, 0, 9], HEADERS, 9),
        ];
        for (bytes, kind, len) in rows {
            for split in 0..=bytes.len() {
                let mut prefix = Prefix::default();
                let (first, second) = bytes.split_at(split);
                let mut input = Bytes::copy_from_slice(first);
                let early = prefix.head(&mut input);
                assert_eq!(early.is_some(), split == bytes.len(), "{bytes:x?} at {split}");
                assert!(input.is_empty());
                let mut input = Bytes::from([second, b"rest"].concat());
                let head = early.or_else(|| prefix.head(&mut input));
                assert_eq!(head, Some(Head { kind, len }), "{bytes:x?} at {split}");
                assert_eq!((&input[..], prefix.is_empty()), (&b"rest"[..], true));
            }
        }
    }
}
