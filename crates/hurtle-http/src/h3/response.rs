//! Encodes responses (RFC 9114 section 4.1) for a request's stream. Nothing here depends on the
//! connection: encoded heads may be kept and sent on any connection.

use super::frame;
use super::qpack::encode;
use super::varint;
use crate::semantics::priority::Priority;

/// Maximum bytes of the header of a DATA frame.
pub const DATA_HEAD_BYTES_MAX: usize = 1 + varint::BYTES_MAX;

/// Bytes for the length of a field section, which is known once the section is encoded.
const SECTION_LEN_BYTES: usize = 4;

/// Appends a HEADERS frame with a response's head: an interim one (1xx), or the final one. Names
/// may have capitals. Pseudo-fields and connection-specific fields are not allowed.
pub fn write_head<'f>(
    out: &mut Vec<u8>,
    status: u16,
    fields: impl IntoIterator<Item = (&'f [u8], &'f [u8])>,
) {
    section(out, Some(status), fields);
}

/// Appends a HEADERS frame with trailers, which end the response. For the fields see `write_head`.
pub fn write_trailers<'f>(
    out: &mut Vec<u8>,
    fields: impl IntoIterator<Item = (&'f [u8], &'f [u8])>,
) {
    section(out, None, fields);
}

/// Appends the header of a DATA frame whose payload of `len` bytes, at most 2^62 - 1, follows.
pub fn write_data_head(out: &mut Vec<u8>, len: u64) {
    varint::write(out, frame::DATA);
    varint::write(out, len);
}

/// The order in which responses are sent (RFC 9218 section 10), for a QUIC library that sends
/// streams of a higher number first and streams of equal numbers in turn. Among equally urgent
/// responses, non-incremental ones go first, in the order of their requests.
pub fn send_rank(priority: Priority, id: u64) -> i32 {
    const ORDERS: u64 = 1 << 27;
    let urgency = i32::from(7 - priority.urgency.min(7)) << 28;
    if priority.incremental {
        return urgency;
    }
    let order = (id / 4) % ORDERS;
    urgency + (ORDERS + (ORDERS - 1 - order)) as i32
}

fn section<'f>(
    out: &mut Vec<u8>,
    status: Option<u16>,
    fields: impl IntoIterator<Item = (&'f [u8], &'f [u8])>,
) {
    varint::write(out, frame::HEADERS);
    let len_at = out.len();
    out.extend_from_slice(&[0; SECTION_LEN_BYTES]);
    let begin = out.len();
    encode::prefix(out);
    if let Some(status) = status {
        encode::status(status, out);
    }
    for (name, value) in fields {
        encode::field(name, value, out);
    }
    // RFC 9000 section 16: a length of four bytes begins with the bits 10.
    let len = (out.len() - begin) as u32 & 0x3fff_ffff | 0x8000_0000;
    out[len_at..begin].copy_from_slice(&len.to_be_bytes());
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn frames() {
        let mut out = Vec::new();
        write_head(&mut out, 103, [(&b"Link"[..], &b"</a>"[..])]);
        assert_eq!(out, b"\x01\x80\0\0\x09\0\0\xd8\x5b\x04</a>", "interim");
        out.clear();
        write_head(&mut out, 201, []);
        assert_eq!(out, b"\x01\x80\0\0\x08\0\0\x5f\x0a\x03201", "no fields");
        out.clear();
        write_trailers(&mut out, [(&b"a"[..], &b"b"[..])]);
        assert_eq!(out, b"\x01\x80\0\0\x06\0\0\x21a\x01b", "trailers");
        for (len, expected) in
            [(5, &[0, 5][..]), (64, &[0, 0x40, 64]), (1 << 30, b"\0\xc0\0\0\0\x40\0\0\0")]
        {
            out.clear();
            write_data_head(&mut out, len);
            assert_eq!(out, expected, "DATA of {len}");
            assert!(out.len() <= DATA_HEAD_BYTES_MAX);
        }
    }

    #[test]
    fn ranks() {
        let of = |urgency, incremental, id| send_rank(Priority { urgency, incremental }, id);
        let descending = [
            of(0, false, 0),
            of(0, false, 4),
            of(0, true, 8),
            of(3, false, 400),
            of(3, true, 0),
            of(7, false, 4 << 26),
            of(7, true, 0),
        ];
        assert!(descending.is_sorted_by(|a, b| a > b), "{descending:?}");
        assert_eq!(of(3, true, 0), of(3, true, 4), "incremental responses share");
        assert!(of(0, false, 0) > 0 && of(7, true, u64::MAX) == 0);
    }
}
