//! The decoding half of a connection's compression state: the dynamic table, the instructions for
//! the peer on the decoder stream, and the peer's decoder stream.

use super::QpackError;
use super::encoder_stream;
use crate::compression::table::Table;
use crate::compression::{CodingError, FIELD_OVERHEAD_BYTES, Verdict, integer};

/// The decoder of one connection. It knows no streams: the caller keeps sections that wait for
/// entries, and limits their number and length.
#[derive(Debug)]
pub struct Decoder {
    pub(super) table: Table<Verdict>,
    /// The capacity that the settings allow, in bytes.
    pub(super) capacity_max: usize,
    /// Number of entries inserted so far.
    pub(super) inserted: u64,
    /// The part of `inserted` that the peer knows of (RFC 9204 section 2.1.4).
    known: u64,
    /// Bytes of the encoder stream that were not executed: a part of an instruction.
    partial: Vec<u8>,
    /// Instructions for the peer that were not taken.
    output: Vec<u8>,
}

impl Decoder {
    /// Creates a decoder. `capacity_max`: the maximum size of the table in bytes, sent as
    /// SETTINGS_QPACK_MAX_TABLE_CAPACITY.
    pub fn new(capacity_max: usize) -> Decoder {
        Decoder {
            table: Table::new(0),
            capacity_max,
            inserted: 0,
            known: 0,
            partial: Vec::new(),
            output: Vec::new(),
        }
    }

    /// Number of entries inserted so far. A section can be decoded once its Required Insert Count
    /// is not above.
    pub fn inserted(&self) -> u64 {
        self.inserted
    }

    /// Maximum number of entries of the table (RFC 9204 section 4.5.1.1).
    pub(super) fn entries_max(&self) -> u64 {
        (self.capacity_max / FIELD_OVERHEAD_BYTES) as u64
    }

    /// Handles bytes of the peer's encoder stream until `inserted` is at least `until`, so that a
    /// section that waits for an entry is decoded before the entry may be evicted. The bytes after
    /// that are kept; a call without bytes continues with them. Returns the number of executed
    /// instructions.
    ///
    /// # Errors
    /// A connection error with QPACK_ENCODER_STREAM_ERROR.
    pub fn receive(&mut self, bytes: &[u8], until: u64) -> Result<u32, QpackError> {
        if self.partial.is_empty() {
            let (used, count) = encoder_stream::run(self, bytes, until)?;
            self.partial.extend_from_slice(&bytes[used..]);
            return Ok(count);
        }
        let mut partial = std::mem::take(&mut self.partial);
        partial.extend_from_slice(bytes);
        let (used, count) = encoder_stream::run(self, &partial, until)?;
        if used < partial.len() {
            partial.drain(..used);
            self.partial = partial;
        }
        Ok(count)
    }

    /// Queues a Section Acknowledgment for a decoded section with a Required Insert Count above 0
    /// (section 4.4.1).
    pub fn acknowledge(&mut self, stream: u64, required: u64) {
        self.known = self.known.max(required);
        integer::encode(&mut self.output, 0x80, 7, stream as usize);
    }

    /// Queues a Stream Cancellation for a stream whose sections will not all be decoded (section
    /// 4.4.2). A table without capacity needs none.
    pub fn cancel(&mut self, stream: u64) {
        if self.capacity_max > 0 {
            integer::encode(&mut self.output, 0x40, 6, stream as usize);
        }
    }

    /// Number of queued bytes, without the Insert Count Increment.
    pub fn queued(&self) -> usize {
        self.output.len()
    }

    /// Takes the bytes for the decoder stream. An Insert Count Increment (section 4.4.3) tells the
    /// insertions that no acknowledgment has told.
    pub fn take_output(&mut self) -> Vec<u8> {
        if self.inserted > self.known {
            integer::encode(&mut self.output, 0, 6, (self.inserted - self.known) as usize);
            self.known = self.inserted;
        }
        std::mem::take(&mut self.output)
    }
}

/// Reads the peer's decoder stream: acknowledgments for an encoder without dynamic table. Only
/// Stream Cancellation is valid.
#[derive(Debug, Default)]
pub(in crate::h3) struct Acknowledgments {
    /// The received part of an instruction, at most one integer.
    partial: Vec<u8>,
}

impl Acknowledgments {
    /// Handles received bytes.
    ///
    /// # Errors
    /// A connection error with QPACK_DECODER_STREAM_ERROR.
    pub(in crate::h3) fn receive(&mut self, bytes: &[u8]) -> Result<(), QpackError> {
        self.partial.extend_from_slice(bytes);
        let mut rest = &self.partial[..];
        while let Some(&first) = rest.first() {
            // Section Acknowledgment has the first bit, Stream Cancellation the second, and Insert
            // Count Increment neither (RFC 9204 section 4.4).
            if first & 0xc0 != 0x40 {
                return Err(QpackError::Acknowledgment);
            }
            match integer::decode_long(&mut rest, 6) {
                Ok(_) => {}
                Err(CodingError::Truncated) => break,
                Err(error) => return Err(error.into()),
            }
        }
        let used = self.partial.len() - rest.len();
        self.partial.drain(..used);
        Ok(())
    }
}

#[cfg(test)]
mod tests {
    use proptest::prelude::*;

    use super::*;
    use crate::compression::huffman;

    fn hex(text: &str) -> Vec<u8> {
        let digits: Vec<u8> = text.bytes().filter(u8::is_ascii_hexdigit).collect();
        let byte =
            |pair: &[u8]| u8::from_str_radix(std::str::from_utf8(pair).unwrap(), 16).unwrap();
        digits.chunks(2).map(byte).collect()
    }

    /// The Required Insert Count and the fields of a section, each as `name: value`.
    fn read(decoder: &Decoder, section: &[u8]) -> Result<(u64, Vec<String>), QpackError> {
        let mut rest = section;
        let prefix = decoder.prefix(&mut rest)?;
        let (mut lines, mut out, mut fields) = (decoder.lines(prefix, rest), Vec::new(), vec![]);
        while let Some(field) = lines.next_field(&mut out, true)? {
            let (name, value) = out.split_at(field.name_len);
            assert_eq!(value.len(), field.value_len);
            let text = [name, b": ", value].concat();
            fields.push(String::from_utf8_lossy(&text).into_owned());
            out.clear();
        }
        Ok((prefix.required, fields))
    }

    fn insert(decoder: &mut Decoder, instructions: &str) {
        decoder.receive(&hex(instructions), u64::MAX).unwrap();
    }

    /// RFC 9204 appendix B.
    #[test]
    fn examples_of_the_rfc() {
        let mut decoder = Decoder::new(4_096);
        let section = hex("0000 510b2f696e6465782e68746d6c");
        assert_eq!(read(&decoder, &section), Ok((0, vec![":path: /index.html".into()])), "B.1");

        insert(
            &mut decoder,
            "3fbd01 c00f7777772e6578616d706c652e636f6d c10c2f73616d706c652f70617468",
        );
        let expected = vec![":authority: www.example.com".into(), ":path: /sample/path".into()];
        assert_eq!(read(&decoder, &hex("0381 10 11")), Ok((2, expected)), "B.2");
        decoder.acknowledge(4, 2);
        assert_eq!(decoder.take_output(), [0x84], "B.2");

        insert(&mut decoder, "4a637573746f6d2d6b65790c637573746f6d2d76616c7565");
        assert_eq!(decoder.take_output(), [1], "B.3");

        insert(&mut decoder, "02");
        let expected = [":authority: www.example.com", ":path: /", "custom-key: custom-value"];
        assert_eq!(
            read(&decoder, &hex("0500 80 c1 81")),
            Ok((4, expected.map(String::from).to_vec())),
            "B.4"
        );
        decoder.cancel(8);
        assert_eq!(decoder.take_output(), [0x48, 1], "B.4, and the duplicate");

        insert(&mut decoder, "810d637573746f6d2d76616c756532");
        let newest = vec!["custom-key: custom-value2".into()];
        assert_eq!(read(&decoder, &hex("0600 80")), Ok((5, newest)), "B.5");
        assert_eq!(decoder.table.len(), 4, "B.5: an entry was evicted");
        assert_eq!(read(&decoder, &hex("0600 84")), Err(QpackError::Index), "B.5: it is gone");
    }

    /// RFC 9204 section 4.5.1.1: the table holds 3 entries at most, so the range is 6.
    #[test]
    fn encoded_insert_counts() {
        let rows = [
            ("no reference", 9, 0, Ok(0)),
            ("section 4.5.1.1's example", 10, 4, Ok(9)),
            ("the newest", 10, 5, Ok(10)),
            ("three that are to come", 10, 2, Ok(13)),
            ("the oldest possible", 10, 3, Ok(8)),
            ("at the start", 0, 2, Ok(1)),
            ("before the start", 0, 5, Err(QpackError::InsertCount)),
            ("at the start, 0", 0, 1, Err(QpackError::InsertCount)),
            ("beyond the range", 10, 7, Err(QpackError::InsertCount)),
        ];
        for (why, inserted, encoded, expected) in rows {
            let mut decoder = Decoder::new(100);
            decoder.inserted = inserted;
            let prefix = decoder.prefix(&mut &[encoded, 0][..]);
            assert_eq!(prefix.map(|prefix| prefix.required), expected, "{why}");
        }
    }

    #[test]
    fn a_partial_instruction_is_bounded() {
        let mut decoder = Decoder::new(4_096);
        insert(&mut decoder, "3fe11f");
        let mut sent = vec![0x7f];
        integer::encode(&mut sent, 0x60, 5, 15_000);
        sent.remove(0);
        sent.resize(15_100, 0xff);
        for byte in &sent {
            decoder.receive(&[*byte], u64::MAX).ok();
        }
        assert!(decoder.partial.capacity() < 64 << 10, "{}", decoder.partial.capacity());
    }

    /// An encoder that knows all that it has inserted, for sections with any reference.
    #[derive(Default)]
    struct Model {
        inserted: Vec<(Vec<u8>, Vec<u8>)>,
        evicted: usize,
    }

    const CAPACITY: usize = 200;

    impl Model {
        fn insert(&mut self, name: &[u8], value: &[u8]) {
            self.inserted.push((name.to_vec(), value.to_vec()));
            let size = |(name, value): &(Vec<u8>, Vec<u8>)| name.len() + value.len() + 32;
            while self.inserted[self.evicted..].iter().map(size).sum::<usize>() > CAPACITY {
                self.evicted += 1;
            }
        }
    }

    fn string(out: &mut Vec<u8>, bits: u8, prefix: u32, text: &[u8], is_coded: bool) {
        if is_coded {
            let mut code = Vec::new();
            huffman::encode(text, &mut code);
            integer::encode(out, bits | 1 << prefix, prefix, code.len());
            out.extend(code);
        } else {
            integer::encode(out, bits, prefix, text.len());
            out.extend(text);
        }
    }

    proptest! {
        /// Insertions and references in all representations give the fields of the model, wherever
        /// the encoder stream is cut.
        #[test]
        fn fields_are_those_of_the_encoder(
            steps in prop::collection::vec(
                (0..4_u8, "[a-z]{1,9}", "[ -~]{0,20}", any::<prop::sample::Index>(), any::<bool>()),
                1..60,
            ),
            lines in prop::collection::vec((0..5_u8, any::<prop::sample::Index>(), any::<bool>()), 0..12),
            base in any::<prop::sample::Index>(),
            cut in 1..9_usize,
        ) {
            let (mut model, mut sent) = (Model::default(), Vec::new());
            integer::encode(&mut sent, 0x20, 5, CAPACITY);
            for (kind, name, value, at, is_coded) in &steps {
                let (name, value) = (name.as_bytes(), value.as_bytes());
                let live = model.inserted.len() - model.evicted;
                let relative = if live > 0 { at.index(live) } else { 0 };
                match kind {
                    1 if live > 0 => {
                        let (name, _) = model.inserted[model.inserted.len() - 1 - relative].clone();
                        integer::encode(&mut sent, 0x80, 6, relative);
                        string(&mut sent, 0, 7, value, *is_coded);
                        model.insert(&name, value);
                    }
                    2 if live > 0 => {
                        let (name, value) = model.inserted[model.inserted.len() - 1 - relative].clone();
                        integer::encode(&mut sent, 0, 5, relative);
                        model.insert(&name, &value);
                    }
                    3 => {
                        integer::encode(&mut sent, 0xc0, 6, 95);
                        string(&mut sent, 0, 7, value, *is_coded);
                        model.insert(b"user-agent", value);
                    }
                    _ => {
                        string(&mut sent, 0x40, 5, name, *is_coded);
                        string(&mut sent, 0, 7, value, *is_coded);
                        model.insert(name, value);
                    }
                }
            }
            let mut decoder = Decoder::new(CAPACITY);
            let counts = sent.chunks(cut).map(|piece| decoder.receive(piece, u64::MAX).unwrap());
            prop_assert_eq!(counts.sum::<u32>() as usize, steps.len() + 1);
            prop_assert_eq!(decoder.inserted() as usize, model.inserted.len());

            let count = model.inserted.len();
            let base = base.index(count + 1);
            let (mut section, mut expected) = (Vec::new(), Vec::new());
            let range = 2 * (CAPACITY / 32);
            integer::encode(&mut section, 0, 8, count % range + 1);
            if base == count {
                section.push(0);
            } else {
                integer::encode(&mut section, 0x80, 7, count - base - 1);
            }
            for (kind, at, is_coded) in lines {
                let entry = model.evicted + at.index(count - model.evicted);
                let (name, value) = &model.inserted[entry];
                let is_before = entry < base;
                let index = if is_before { base - 1 - entry } else { entry - base };
                let is_indexed = kind % 2 == 0;
                match (is_before, is_indexed) {
                    (true, true) => integer::encode(&mut section, 0x80, 6, index),
                    (false, true) => integer::encode(&mut section, 0x10, 4, index),
                    (true, false) => integer::encode(&mut section, 0x40, 4, index),
                    (false, false) => integer::encode(&mut section, 0, 3, index),
                }
                let value = if is_indexed { value.as_slice() } else { &b"own value"[..] };
                if !is_indexed {
                    string(&mut section, 0, 7, value, is_coded);
                }
                expected.push(String::from_utf8([name, &b": "[..], value].concat()).unwrap());
            }
            prop_assert_eq!(read(&decoder, &section), Ok((count as u64, expected)));
        }

        #[test]
        fn no_bytes_make_it_panic(instructions: Vec<u8>, sections: Vec<Vec<u8>>) {
            let mut decoder = Decoder::new(200);
            let _ = decoder.receive(&[&[0x3f, 0xa9, 0x01][..], &instructions].concat(), u64::MAX);
            for section in sections {
                let _ = read(&decoder, &section);
            }
        }
    }
}
