//! Encodes field sections with the static table and literals (RFC 9204 section 4.5).
//!
//! Strings are not Huffman-coded: the code saves about 25 % of a few dozen bytes and costs ten
//! times the instructions of a copy. Secrets are marked as never-indexed, so that intermediaries do
//! not add them to a table either (section 7.1.3).

use super::static_table::{Found, find};
use crate::compression::{integer, is_secret};

/// Maximum length of a name that is looked up in the static table.
const NAME_BYTES_MAX: usize = 64;

/// Maximum bytes of a field's lengths and index.
const LENGTHS_BYTES_MAX: usize = 24;

/// The static index of `:status: 200`, of which 25 other codes' literals take the name.
const STATUS: usize = 25;

/// Appends the prefix of a section without references to the dynamic table (section 4.5.1).
pub fn prefix(out: &mut Vec<u8>) {
    out.extend_from_slice(&[0, 0]);
}

/// Appends `:status`, which has three digits.
pub fn status(status: u16, out: &mut Vec<u8>) {
    let index: u8 = match status {
        100 => 63,
        103 => 24,
        200 => 25,
        204 => 64,
        206 => 65,
        302 => 66,
        304 => 26,
        400 => 67,
        403 => 68,
        404 => 27,
        421 => 69,
        425 => 70,
        500 => 71,
        503 => 28,
        _ => {
            let digits = [status / 100 % 10, status / 10 % 10, status % 10];
            literal(STATUS, &digits.map(|digit| b'0' + digit as u8), false, out);
            return;
        }
    };
    integer::encode(out, 0xc0, 6, index.into());
}

/// Appends a field. Its name is converted to lower case.
pub fn field(name: &[u8], value: &[u8], out: &mut Vec<u8>) {
    out.reserve(name.len() + value.len() + LENGTHS_BYTES_MAX);
    let mut buffer = [0; NAME_BYTES_MAX];
    let Some(lower) = buffer.get_mut(..name.len()) else {
        return unknown(&name.to_ascii_lowercase(), value, out);
    };
    for (to, from) in lower.iter_mut().zip(name) {
        *to = from.to_ascii_lowercase();
    }
    match find(lower, value) {
        Found::Field(index) => integer::encode(out, 0xc0, 6, index),
        Found::Name(index) => literal(index, value, is_secret(lower), out),
        Found::Nothing => unknown(lower, value, out),
    }
}

/// Appends a literal with the name of a static entry (section 4.5.4).
fn literal(index: usize, value: &[u8], is_secret: bool, out: &mut Vec<u8>) {
    integer::encode(out, if is_secret { 0x70 } else { 0x50 }, 4, index);
    plain(value, out);
}

/// Appends a literal with a literal name (section 4.5.6).
fn unknown(name: &[u8], value: &[u8], out: &mut Vec<u8>) {
    integer::encode(out, if is_secret(name) { 0x30 } else { 0x20 }, 3, name.len());
    out.extend_from_slice(name);
    plain(value, out);
}

fn plain(text: &[u8], out: &mut Vec<u8>) {
    integer::encode(out, 0, 7, text.len());
    out.extend_from_slice(text);
}

#[cfg(test)]
mod tests {
    use proptest::prelude::*;

    use super::super::Decoder;
    use super::*;

    /// The fields of a section.
    fn read(section: &[u8]) -> Vec<(Vec<u8>, Vec<u8>)> {
        let decoder = Decoder::new(0);
        let mut rest = section;
        let prefix = decoder.prefix(&mut rest).unwrap();
        let (mut lines, mut out, mut fields) = (decoder.lines(prefix, rest), Vec::new(), vec![]);
        while let Some(field) = lines.next_field(&mut out, true).unwrap() {
            fields.push((out[..field.name_len].to_vec(), out[field.name_len..].to_vec()));
            out.clear();
        }
        fields
    }

    #[test]
    fn representations() {
        let rows: [(&str, &str, &str, &[u8]); 7] = [
            ("an entry", "Accept-Ranges", "bytes", &[0xe0]),
            ("a late entry", "x-frame-options", "sameorigin", &[0xff, 35]),
            ("the name of an entry", "Age", "7", &[0x52, 1, b'7']),
            ("the name of a late entry", "Server", "h", &[0x5f, 77, 1, b'h']),
            ("an unknown name", "X-A", "b", &[0x23, b'x', b'-', b'a', 1, b'b']),
            ("a secret", "Set-Cookie", "a", &[0x7e, 1, b'a']),
            (
                "a secret of an unknown name",
                "Proxy-Authenticate",
                "",
                b"\x37\x0bproxy-authenticate\0",
            ),
        ];
        for (why, name, value, expected) in rows {
            let mut out = Vec::new();
            field(name.as_bytes(), value.as_bytes(), &mut out);
            assert_eq!(out, expected, "{why}");
        }
    }

    #[test]
    fn every_status_is_read() {
        for code in 100..1_000 {
            let mut out = Vec::new();
            prefix(&mut out);
            status(code, &mut out);
            assert_eq!(read(&out), [(b":status".to_vec(), code.to_string().into_bytes())]);
        }
    }

    proptest! {
        #[test]
        fn what_is_written_is_read(
            fields in prop::collection::vec(
                ("[a-zA-Z-]{1,12}|Server|x{70}|set-cookie|vary", "[ -~]{0,3}|[ -~]{90}|origin"),
                0..12,
            ),
        ) {
            let mut out = Vec::new();
            prefix(&mut out);
            for (name, value) in &fields {
                field(name.as_bytes(), value.as_bytes(), &mut out);
            }
            let lower = fields.into_iter().map(|(name, value)| (name.to_lowercase().into(), value.into()));
            prop_assert_eq!(read(&out), lower.collect::<Vec<(Vec<u8>, Vec<u8>)>>());
        }
    }
}
