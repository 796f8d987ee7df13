//! Decodes field blocks (RFC 7541 section 6). Names and values are appended to the caller's buffer,
//! so a field costs no allocation.

use std::fmt;

use super::TABLE_BYTES_MAX;
use super::static_table::STATIC;
use crate::compression::table::Table;
use crate::compression::{Class, CodingError, Decoded, Verdict, class, huffman, integer};

/// A decoding error. It ends the connection with COMPRESSION_ERROR (RFC 9113 section 4.3).
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum HpackError {
    /// An integer or a string cannot be decoded.
    Coding(CodingError),
    /// The index is beyond the table.
    Index,
    /// A table size update exceeds the setting, or follows a field.
    SizeUpdate,
}

impl fmt::Display for HpackError {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        match self {
            HpackError::Coding(error) => fmt::Display::fmt(error, f),
            HpackError::Index => {
                f.write_str("the field block names a table entry that does not exist")
            }
            HpackError::SizeUpdate => {
                f.write_str("a table size update is too large or out of place")
            }
        }
    }
}

impl std::error::Error for HpackError {}

impl From<CodingError> for HpackError {
    fn from(error: CodingError) -> HpackError {
        HpackError::Coding(error)
    }
}

/// The decoding half of a connection's compression state.
#[derive(Debug)]
pub struct Decoder {
    table: Table<Verdict>,
}

/// Classes of the static table's names.
const STATIC_CLASS: [Class; STATIC.len()] = {
    let mut classes = [Class::Regular; STATIC.len()];
    let mut at = 0;
    while at < classes.len() {
        classes[at] = class(STATIC[at].0);
        at += 1;
    }
    classes
};

impl Default for Decoder {
    fn default() -> Decoder {
        Decoder { table: Table::new(TABLE_BYTES_MAX) }
    }
}

impl Decoder {
    /// Begins to decode a field block (RFC 9113 section 4.3).
    pub fn block<'d, 'b>(&'d mut self, bytes: &'b [u8]) -> Block<'d, 'b> {
        Block { decoder: self, rest: bytes, is_first: true }
    }

    /// Entries of the dynamic table.
    pub fn entries(&self) -> usize {
        self.table.len()
    }

    /// Appends an entry's name and value if `wanted`.
    fn entry(&self, index: usize, out: &mut Vec<u8>, wanted: bool) -> Result<Decoded, HpackError> {
        let at = index.checked_sub(1).ok_or(HpackError::Index)?;
        if let Some((name, value)) = STATIC.get(at) {
            if wanted {
                out.extend_from_slice(name);
                out.extend_from_slice(value);
            }
            let verdict = Verdict { class: STATIC_CLASS[at], is_value_valid: true };
            return Ok(Decoded { name_len: name.len(), value_len: value.len(), verdict });
        }
        let found = self.table.get(at - STATIC.len());
        let (both, name_len, verdict) = found.ok_or(HpackError::Index)?;
        if wanted {
            out.extend_from_slice(both);
        }
        Ok(Decoded { name_len, value_len: both.len() - name_len, verdict })
    }
}

/// A block that is being decoded. It must be decoded to its end, because the dynamic tables of both
/// sides would differ otherwise.
#[derive(Debug)]
pub struct Block<'d, 'b> {
    decoder: &'d mut Decoder,
    rest: &'b [u8],
    /// `true` before the first field.
    is_first: bool,
}

impl Block<'_, '_> {
    /// Decodes the next field and appends its name, then its value, to `out`. If `wanted` is false,
    /// a field from a table is not appended.
    ///
    /// # Errors
    /// The block cannot be decoded.
    pub fn next_field(
        &mut self,
        out: &mut Vec<u8>,
        wanted: bool,
    ) -> Result<Option<Decoded>, HpackError> {
        while let Some(&first) = self.rest.first() {
            // RFC 7541 section 6.3: 001xxxxx.
            if first & 0xe0 == 0x20 {
                self.resize()?;
                continue;
            }
            self.is_first = false;
            return if first & 0x80 != 0 { self.indexed(out, wanted) } else { self.literal(out) };
        }
        Ok(None)
    }

    /// Table size updates, which are allowed at the start of a block only (RFC 7541 section 4.2).
    fn resize(&mut self) -> Result<(), HpackError> {
        let size_max = integer::decode(&mut self.rest, 5)?;
        if !self.is_first || size_max > TABLE_BYTES_MAX {
            return Err(HpackError::SizeUpdate);
        }
        self.decoder.table.set_size_max(size_max);
        Ok(())
    }

    fn indexed(&mut self, out: &mut Vec<u8>, wanted: bool) -> Result<Option<Decoded>, HpackError> {
        let index = integer::decode(&mut self.rest, 7)?;
        self.decoder.entry(index, out, wanted).map(Some)
    }

    fn literal(&mut self, out: &mut Vec<u8>) -> Result<Option<Decoded>, HpackError> {
        let is_kept = self.rest[0] & 0x40 != 0;
        let index = integer::decode(&mut self.rest, if is_kept { 6 } else { 4 })?;
        let begin = out.len();
        let known = match index {
            0 => {
                self.string(out)?;
                None
            }
            _ => {
                let field = self.decoder.entry(index, out, true)?;
                out.truncate(begin + field.name_len);
                Some(field.verdict.class)
            }
        };
        let middle = out.len();
        self.string(out)?;
        let (name, value) = out[begin..].split_at(middle - begin);
        let verdict = match known {
            Some(class) => Verdict::of_class(class, value),
            None => Verdict::of(name, value),
        };
        if is_kept {
            self.decoder.table.insert(name, value, verdict);
        }
        Ok(Some(Decoded { name_len: name.len(), value_len: value.len(), verdict }))
    }

    /// RFC 7541 section 5.2.
    fn string(&mut self, out: &mut Vec<u8>) -> Result<(), HpackError> {
        let is_coded = self.rest.first().is_some_and(|first| first & 0x80 != 0);
        let len = integer::decode(&mut self.rest, 7)?;
        let (text, rest) = self.rest.split_at_checked(len).ok_or(CodingError::Truncated)?;
        self.rest = rest;
        if is_coded {
            huffman::decode(text, out)?;
            return Ok(());
        }
        out.extend_from_slice(text);
        Ok(())
    }
}

#[cfg(test)]
mod tests {
    use proptest::prelude::*;

    use super::*;

    /// The fields of a block, each as `name: value`.
    fn read(decoder: &mut Decoder, block: &[u8]) -> Result<Vec<String>, HpackError> {
        let mut fields = Vec::new();
        let mut block = decoder.block(block);
        let mut out = Vec::new();
        while let Some(field) = block.next_field(&mut out, true)? {
            let (name, value) = out.split_at(field.name_len);
            assert_eq!(value.len(), field.value_len);
            let text = [name, b": ", value].concat();
            fields.push(String::from_utf8_lossy(&text).into_owned());
            out.clear();
        }
        Ok(fields)
    }

    fn hex(text: &str) -> Vec<u8> {
        let digits: Vec<u8> = text.bytes().filter(u8::is_ascii_hexdigit).collect();
        let byte =
            |pair: &[u8]| u8::from_str_radix(std::str::from_utf8(pair).unwrap(), 16).unwrap();
        digits.chunks(2).map(byte).collect()
    }

    const FIRST: [&str; 4] =
        [":method: GET", ":scheme: http", ":path: /", ":authority: www.example.com"];
    const SECOND: [&str; 5] = [FIRST[0], FIRST[1], FIRST[2], FIRST[3], "cache-control: no-cache"];
    const THIRD: [&str; 5] =
        [FIRST[0], ":scheme: https", ":path: /index.html", FIRST[3], "custom-key: custom-value"];

    #[test]
    fn requests_of_the_rfc() {
        let rows: [(&str, [&str; 3]); 2] = [
            (
                "C.3: without Huffman code",
                [
                    "828684410f7777772e6578616d706c652e636f6d",
                    "828684be58086e6f2d6361636865",
                    "828785bf400a637573746f6d2d6b65790c637573746f6d2d76616c7565",
                ],
            ),
            (
                "C.4: with Huffman code",
                [
                    "828684418cf1e3c2e5f23a6ba0ab90f4ff",
                    "828684be5886a8eb10649cbf",
                    "828785bf408825a849e95ba97d7f8925a849e95bb8e8b4bf",
                ],
            ),
        ];
        for (why, blocks) in rows {
            let mut decoder = Decoder::default();
            let expected: [&[&str]; 3] = [&FIRST, &SECOND, &THIRD];
            for (block, expected) in blocks.iter().zip(expected) {
                assert_eq!(read(&mut decoder, &hex(block)).unwrap(), expected, "{why}");
            }
            assert_eq!(decoder.entries(), 3, "{why}");
        }
    }

    /// Uses a table of 256 bytes, as the RFC does.
    #[test]
    fn responses_of_the_rfc() {
        let rows: [(&str, [&str; 3]); 2] = [
            (
                "C.5: without Huffman code",
                [
                    "4803333032580770726976617465611d4d6f6e2c203231204f63742032303133
                     2032303a31333a323120474d546e1768747470733a2f2f7777772e6578616d70
                     6c652e636f6d",
                    "4803333037c1c0bf",
                    "88c1611d4d6f6e2c203231204f637420323031332032303a31333a323220474d
                     54c05a04677a69707738666f6f3d4153444a4b48514b425a584f5157454f5049
                     5541585157454f49553b206d61782d6167653d333630303b2076657273696f6e
                     3d31",
                ],
            ),
            (
                "C.6: with Huffman code",
                [
                    "488264025885aec3771a4b6196d07abe941054d444a8200595040b8166e082a6
                     2d1bff6e919d29ad171863c78f0b97c8e9ae82ae43d3",
                    "4883640effc1c0bf",
                    "88c16196d07abe941054d444a8200595040b8166e084a62d1bffc05a839bd9ab
                     77ad94e7821dd7f2e6c7b335dfdfcd5b3960d5af27087f3672c1ab270fb5291f
                     9587316065c003ed4ee5b1063d5007",
                ],
            ),
        ];
        let (date, location) =
            ("date: Mon, 21 Oct 2013 20:13:21 GMT", "location: https://www.example.com");
        let expected: [&[&str]; 3] = [
            &[":status: 302", "cache-control: private", date, location],
            &[":status: 307", "cache-control: private", date, location],
            &[
                ":status: 200",
                "cache-control: private",
                "date: Mon, 21 Oct 2013 20:13:22 GMT",
                location,
                "content-encoding: gzip",
                "set-cookie: foo=ASDJKHQKBZXOQWEOPIUAXQWEOIU; max-age=3600; version=1",
            ],
        ];
        for (why, blocks) in rows {
            let mut decoder = Decoder::default();
            decoder.table.set_size_max(256);
            for (block, expected) in blocks.iter().zip(expected) {
                assert_eq!(read(&mut decoder, &hex(block)).unwrap(), expected, "{why}");
            }
            assert_eq!(decoder.entries(), 3, "{why}");
        }
    }

    #[test]
    fn kinds_of_fields() {
        let rows = [
            ("C.2.1: literal, kept", "400a637573746f6d2d6b65790d637573746f6d2d686561646572", 1),
            ("C.2.2: literal, not kept", "040c2f73616d706c652f70617468", 0),
            ("C.2.3: literal, never kept", "100870617373776f726406736563726574", 0),
            ("C.2.4: indexed", "82", 0),
        ];
        let expected = [
            "custom-key: custom-header",
            ":path: /sample/path",
            "password: secret",
            ":method: GET",
        ];
        for ((why, block, kept), expected) in rows.into_iter().zip(expected) {
            let mut decoder = Decoder::default();
            assert_eq!(read(&mut decoder, &hex(block)).unwrap(), [expected], "{why}");
            assert_eq!(decoder.entries(), kept, "{why}");
        }
    }

    #[test]
    fn blocks_that_cannot_be_read() {
        let rows = [
            ("6.1: index 0", "80", HpackError::Index),
            ("2.3.3: an index beyond the tables", "be", HpackError::Index),
            ("2.3.3: a name beyond the tables", "7e0161", HpackError::Index),
            ("6.3: a table larger than was agreed", "3fe21f", HpackError::SizeUpdate),
            ("4.2: a size update behind a field", "8220", HpackError::SizeUpdate),
            (
                "5.1: an integer without end",
                "7fffffffffffffffff",
                HpackError::Coding(CodingError::Integer),
            ),
            (
                "5.2: a string longer than the block",
                "000961",
                HpackError::Coding(CodingError::Truncated),
            ),
            ("5.2: a name and no value", "000161", HpackError::Coding(CodingError::Truncated)),
            ("5.2: padding of 0s", "0001618118", HpackError::Coding(CodingError::Huffman)),
        ];
        for (why, block, error) in rows {
            assert_eq!(read(&mut Decoder::default(), &hex(block)), Err(error), "{why}");
        }
    }

    proptest! {
        #[test]
        fn no_bytes_make_it_panic(blocks: Vec<Vec<u8>>) {
            let mut decoder = Decoder::default();
            for block in blocks {
                let _ = read(&mut decoder, &block);
            }
        }
    }
}
