//! The peer's instructions for the dynamic table (RFC 9204 section 4.3).

use super::QpackError;
use super::decoder::Decoder;
use super::static_table::STATIC;
use crate::compression::{CodingError, FIELD_OVERHEAD_BYTES, Verdict, huffman, integer};

/// Maximum length of a byte's Huffman code in bits (RFC 7541 appendix B).
const CODE_BITS_MAX: u64 = 30;

/// Executes the complete instructions of `bytes` until there are `until` insertions. Returns the
/// number of executed bytes and instructions.
pub(super) fn run(
    decoder: &mut Decoder,
    bytes: &[u8],
    until: u64,
) -> Result<(usize, u32), QpackError> {
    let (mut rest, mut count) = (bytes, 0);
    while !rest.is_empty() && decoder.inserted < until {
        let mut after = rest;
        match decoder.instruction(&mut after) {
            Ok(()) => {}
            Err(QpackError::Coding(CodingError::Truncated)) => break,
            Err(error) => return Err(error),
        }
        rest = after;
        count += 1;
    }
    Ok((bytes.len() - rest.len(), count))
}

/// A string that is not decoded yet.
struct Text<'a> {
    bytes: &'a [u8],
    is_coded: bool,
}

impl Text<'_> {
    fn decode(&self, out: &mut Vec<u8>) -> Result<(), QpackError> {
        if self.is_coded {
            huffman::decode(self.bytes, out)?;
        } else {
            out.extend_from_slice(self.bytes);
        }
        Ok(())
    }
}

impl Decoder {
    /// Executes one instruction, and advances `input` beyond it.
    fn instruction(&mut self, input: &mut &[u8]) -> Result<(), QpackError> {
        let first = *input.first().ok_or(CodingError::Truncated)?;
        let mut field = Vec::new();
        match first {
            // Insert with Name Reference: 1Txxxxxx.
            0x80.. => {
                let index = integer::decode_long(input, 6)?;
                let value = self.text(input, 7)?;
                let name_len = if first & 0x40 != 0 {
                    let at = usize::try_from(index).map_err(|_| QpackError::Index)?;
                    let (name, _) = STATIC.get(at).ok_or(QpackError::Index)?;
                    field.extend_from_slice(name);
                    name.len()
                } else {
                    let (both, name_len, _) = self.newest(index)?;
                    field.extend_from_slice(&both[..name_len]);
                    name_len
                };
                value.decode(&mut field)?;
                self.insert(&field, name_len)
            }
            // Insert with Literal Name: 01Hxxxxx.
            0x40.. => {
                let name = self.text(input, 5)?;
                let value = self.text(input, 7)?;
                name.decode(&mut field)?;
                let name_len = field.len();
                value.decode(&mut field)?;
                self.insert(&field, name_len)
            }
            // Set Dynamic Table Capacity: 001xxxxx.
            0x20.. => {
                let capacity = integer::decode_long(input, 5)?;
                let capacity = usize::try_from(capacity).map_err(|_| QpackError::Capacity)?;
                if capacity > self.capacity_max {
                    return Err(QpackError::Capacity);
                }
                self.table.set_size_max(capacity);
                Ok(())
            }
            // Duplicate: 000xxxxx.
            _ => {
                let index = integer::decode_long(input, 5)?;
                let (both, name_len, _) = self.newest(index)?;
                field.extend_from_slice(both);
                self.insert(&field, name_len)
            }
        }
    }

    /// An entry by its index relative to the newest (section 3.2.5).
    fn newest(&self, index: u64) -> Result<(&[u8], usize, Verdict), QpackError> {
        let at = usize::try_from(index).map_err(|_| QpackError::Index)?;
        self.table.get(at).ok_or(QpackError::Index)
    }

    /// Takes a string whose length has a prefix of `prefix` bits, and the bit before it tells the
    /// Huffman code. One that cannot fit the table is refused before it has arrived.
    fn text<'a>(&self, input: &mut &'a [u8], prefix: u32) -> Result<Text<'a>, QpackError> {
        let first = *input.first().ok_or(CodingError::Truncated)?;
        let is_coded = first & 1 << prefix != 0;
        let len = integer::decode_long(input, prefix)?;
        let least = if is_coded { (len / CODE_BITS_MAX).saturating_mul(8) } else { len };
        if least > self.table.size_max() as u64 {
            return Err(QpackError::EntryTooLarge);
        }
        let len = usize::try_from(len).map_err(|_| QpackError::EntryTooLarge)?;
        let (bytes, rest) = input.split_at_checked(len).ok_or(CodingError::Truncated)?;
        *input = rest;
        Ok(Text { bytes, is_coded })
    }

    fn insert(&mut self, field: &[u8], name_len: usize) -> Result<(), QpackError> {
        if field.len() + FIELD_OVERHEAD_BYTES > self.table.size_max() {
            return Err(QpackError::EntryTooLarge);
        }
        let (name, value) = field.split_at(name_len);
        self.table.insert(name, value, Verdict::of(name, value));
        self.inserted += 1;
        Ok(())
    }
}
