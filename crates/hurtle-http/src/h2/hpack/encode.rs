//! Encodes fields as field blocks (RFC 7541 section 6). Repeated fields cost no allocation.
//!
//! - A field in a table is sent as its index.
//! - A field that is likely to repeat (`server`, `content-type`, ...) is added to the dynamic table
//!   at once. Most others are added the second time (`date`, an application's own fields).
//! - A field of one resource (`etag`, `content-length`, ...) is never added. Secrets are sent as
//!   never-indexed literals, so that intermediaries do not add them either (section 7.1.3).
//!
//! Strings that enter the table are Huffman-coded if that is shorter. Other strings are plain: the
//! code saves about 25 % of a few dozen bytes and costs ten times the instructions of a copy.

use super::TABLE_BYTES_MAX;
use super::static_table::{STATIC, static_index};
use crate::compression::table::Table;
use crate::compression::{huffman, integer, is_secret};

/// Number of remembered hashes of fields that were sent once.
const SEEN_MAX: usize = 16;

/// Maximum length of a name that is looked up in the tables.
const NAME_BYTES_MAX: usize = 64;

/// Maximum bytes of a field's lengths and index.
const LENGTHS_BYTES_MAX: usize = 16;

/// The static index of `:status: 200`, the first entry of that name.
const STATUS: usize = 8;

/// The encoding half of a connection's compression state.
#[derive(Debug)]
pub struct Encoder {
    /// An entry's note is a hash of its name and its value's length.
    table: Table<u32>,
    seen: [u32; SEEN_MAX],
    seen_next: u8,
    /// The smallest table size that the peer has set since the last block (section 4.2).
    smallest: Option<usize>,
}

/// Indexing of a field that is in no table.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
enum Policy {
    /// Added to the dynamic table.
    Keep,
    /// Added to the dynamic table if the same field was sent before.
    KeepSecond,
    /// Sent as a literal without indexing.
    Once,
    /// Sent as a never-indexed literal.
    Never,
}

const fn policy(name: &[u8]) -> Policy {
    match name {
        b":status"
        | b"server"
        | b"content-type"
        | b"cache-control"
        | b"accept-ranges"
        | b"vary"
        | b"content-encoding"
        | b"strict-transport-security"
        | b"access-control-allow-origin"
        | b"x-content-type-options"
        | b"alt-svc" => Policy::Keep,
        b"content-length"
        | b"etag"
        | b"last-modified"
        | b"location"
        | b"content-range"
        | b"age"
        | b"expires"
        | b"content-location"
        | b"content-disposition" => Policy::Once,
        _ if is_secret(name) => Policy::Never,
        _ => Policy::KeepSecond,
    }
}

/// The policies of the static table's names.
const STATIC_POLICY: [Policy; STATIC.len()] = {
    let mut policies = [Policy::Once; STATIC.len()];
    let mut at = 0;
    while at < policies.len() {
        policies[at] = policy(STATIC[at].0);
        at += 1;
    }
    policies
};

impl Default for Encoder {
    fn default() -> Encoder {
        Encoder {
            table: Table::new(TABLE_BYTES_MAX),
            seen: [0; SEEN_MAX],
            seen_next: 0,
            smallest: None,
        }
    }
}

impl Encoder {
    /// Applies the peer's SETTINGS_HEADER_TABLE_SIZE, the maximum size of the table in bytes.
    pub fn set_table_bytes_max(&mut self, bytes: usize) {
        let bytes = bytes.min(TABLE_BYTES_MAX);
        if bytes != self.table.size_max() {
            self.smallest = Some(self.smallest.map_or(bytes, |smallest| smallest.min(bytes)));
            self.table.set_size_max(bytes);
        }
    }

    /// Starts a block with a table size update if the size has changed (section 4.2).
    pub fn begin(&mut self, out: &mut Vec<u8>) {
        if let Some(smallest) = self.smallest.take() {
            let now = self.table.size_max();
            integer::encode(out, 0x20, 5, smallest);
            if smallest != now {
                integer::encode(out, 0x20, 5, now);
            }
        }
    }

    /// Appends `:status`, which has three digits.
    pub fn status(&mut self, status: u16, out: &mut Vec<u8>) {
        let index = match status {
            200 => 8,
            204 => 9,
            206 => 10,
            304 => 11,
            400 => 12,
            404 => 13,
            500 => 14,
            _ => 0,
        };
        if index > 0 {
            return out.push(0x80 | index);
        }
        let digits = [status / 100 % 10, status / 10 % 10, status % 10].map(|d| b'0' + d as u8);
        self.lower_case(b":status", STATUS, &digits, out);
    }

    /// Appends a field. Its name is converted to lower case.
    pub fn field(&mut self, name: &[u8], value: &[u8], out: &mut Vec<u8>) {
        out.reserve(name.len() + value.len() + LENGTHS_BYTES_MAX);
        let mut buffer = [0; NAME_BYTES_MAX];
        match buffer.get_mut(..name.len()) {
            Some(lower) => {
                for (to, from) in lower.iter_mut().zip(name) {
                    *to = from.to_ascii_lowercase();
                }
                let index = static_index(lower);
                self.lower_case(lower, index, value, out);
            }
            None => {
                out.push(0);
                plain(&name.to_ascii_lowercase(), out);
                plain(value, out);
            }
        }
    }

    fn lower_case(&mut self, name: &[u8], index: usize, value: &[u8], out: &mut Vec<u8>) {
        let policy = match index {
            0 => policy(name),
            _ => STATIC_POLICY[index - 1],
        };
        if matches!(policy, Policy::Once | Policy::Never) {
            let bits = if policy == Policy::Once { 0 } else { 0x10 };
            literal_name(bits, 4, name, index, out);
            return plain(value, out);
        }
        let note = note(name, index, value);
        if let Some(at) = self.find(note, name, value) {
            return integer::encode(out, 0x80, 7, STATIC.len() + 1 + at);
        }
        let is_kept = policy == Policy::Keep || self.is_second(hash(note, value));
        if is_kept && self.table.size_max() > 0 {
            literal_name(0x40, 6, name, index, out);
            coded(value, out);
            self.table.insert(name, value, note);
        } else {
            literal_name(0, 4, name, index, out);
            plain(value, out);
        }
    }

    fn find(&self, note: u32, name: &[u8], value: &[u8]) -> Option<usize> {
        let is_same = |at| {
            self.table.get(at).is_some_and(|(both, name_len, _)| {
                both[name_len..] == *value && both[..name_len] == *name
            })
        };
        self.table.find(|other| other == note, is_same)
    }

    /// `true` if this hash is among the last `SEEN_MAX`; adds it otherwise.
    fn is_second(&mut self, hash: u32) -> bool {
        if self.seen.contains(&hash) {
            return true;
        }
        self.seen[usize::from(self.seen_next)] = hash;
        self.seen_next = (self.seen_next + 1) % SEEN_MAX as u8;
        false
    }
}

/// A hash of a field's name, or of its static index, and of its value's length.
fn note(name: &[u8], index: usize, value: &[u8]) -> u32 {
    let name = match (index, name) {
        (0, [first, .., last]) => {
            name.len() ^ (usize::from(*first) << 3) ^ (usize::from(*last) << 8) | 0x8000
        }
        _ => index,
    };
    (name << 16 ^ value.len()) as u32
}

/// A hash that includes the value; never 0.
fn hash(note: u32, value: &[u8]) -> u32 {
    let mut hash = u64::from(note);
    for word in value.chunks(8) {
        let mut bytes = [0; 8];
        bytes[..word.len()].copy_from_slice(word);
        hash =
            (hash.rotate_left(5) ^ u64::from_le_bytes(bytes)).wrapping_mul(0x517c_c1b7_2722_0a95);
    }
    (hash >> 32) as u32 | 1
}

fn literal_name(bits: u8, prefix: u32, name: &[u8], index: usize, out: &mut Vec<u8>) {
    integer::encode(out, bits, prefix, index);
    if index == 0 {
        if bits & 0x40 == 0 { plain(name, out) } else { coded(name, out) }
    }
}

/// Appends a string without Huffman coding (section 5.2).
fn plain(text: &[u8], out: &mut Vec<u8>) {
    integer::encode(out, 0, 7, text.len());
    out.extend_from_slice(text);
}

/// Appends a string in the shorter of both forms.
fn coded(text: &[u8], out: &mut Vec<u8>) {
    let len = huffman::encoded_len(text);
    if len >= text.len() {
        return plain(text, out);
    }
    integer::encode(out, 0x80, 7, len);
    huffman::encode(text, out);
}

#[cfg(test)]
mod tests {
    use proptest::prelude::*;

    use super::super::Decoder;
    use super::*;

    fn read(decoder: &mut Decoder, block: &[u8]) -> Vec<(Vec<u8>, Vec<u8>)> {
        let mut fields = Vec::new();
        let (mut block, mut out) = (decoder.block(block), Vec::new());
        while let Some(field) = block.next_field(&mut out, true).unwrap() {
            fields.push((out[..field.name_len].to_vec(), out[field.name_len..].to_vec()));
            out.clear();
        }
        fields
    }

    #[test]
    fn repeated_fields_become_indices() {
        let mut encoder = Encoder::default();
        let mut block = || {
            let mut out = Vec::new();
            encoder.status(200, &mut out);
            encoder.field(b"Server", b"hurtle", &mut out);
            encoder.field(b"Date", b"Sun, 06 Nov 1994 08:49:37 GMT", &mut out);
            encoder.field(b"X-Own", b"value", &mut out);
            out.len()
        };
        let lens = [block(), block(), block()];
        assert_eq!(lens[2], 4, "{lens:?}");
    }

    #[test]
    fn secrets_and_fields_of_one_resource_are_not_indexed() {
        let mut encoder = Encoder::default();
        let rows: [(&[u8], u8); 4] =
            [(b"set-cookie", 0x10), (b"Authorization", 0x10), (b"ETag", 0), (b"Content-Length", 0)];
        for (name, bits) in rows {
            for _ in 0..3 {
                let mut out = Vec::new();
                encoder.field(name, b"7", &mut out);
                assert_eq!(out[0] & 0xf0, bits, "{}", String::from_utf8_lossy(name));
            }
        }
        assert_eq!(encoder.table.len(), 0);
    }

    #[test]
    fn table_size_changes_are_announced() {
        let mut encoder = Encoder::default();
        for (sizes, expected) in [
            (&[4_096][..], &[][..]),
            (&[0, 4_096], &[0x20, 0x3f, 0xe1, 0x1f]),
            (&[100, 50], &[0x3f, 0x13]),
            (&[100_000], &[0x3f, 0xe1, 0x1f]),
        ] {
            for size in sizes {
                encoder.set_table_bytes_max(*size);
            }
            let mut out = Vec::new();
            encoder.begin(&mut out);
            assert_eq!(out, expected, "{sizes:?}");
        }
    }

    proptest! {
        #[test]
        fn what_is_written_is_read(
            blocks in prop::collection::vec(
                (
                    prop::collection::vec(
                        ("[a-zA-Z-]{1,12}|Server|x{70}|set-cookie", "[ -~]{0,3}|[ -~]{90}"),
                        0..12,
                    ),
                    prop::option::of(0_usize..200),
                ),
                1..20,
            ),
        ) {
            let (mut encoder, mut decoder) = (Encoder::default(), Decoder::default());
            for (fields, size) in blocks {
                if let Some(size) = size {
                    encoder.set_table_bytes_max(size);
                }
                let mut out = Vec::new();
                encoder.begin(&mut out);
                encoder.status(418, &mut out);
                let mut expected = vec![(b":status".to_vec(), b"418".to_vec())];
                for (name, value) in fields {
                    encoder.field(name.as_bytes(), value.as_bytes(), &mut out);
                    expected.push((name.to_lowercase().into(), value.into()));
                }
                prop_assert_eq!(read(&mut decoder, &out), expected);
            }
        }
    }
}
