//! Decodes field sections (RFC 9204 section 4.5). Names and values are appended to the caller's
//! buffer, so a field costs no allocation.

use super::QpackError;
use super::decoder::Decoder;
use super::static_table::STATIC;
use crate::compression::{Class, CodingError, Decoded, Verdict, class, huffman, integer};

/// The prefix of a section (section 4.5.1).
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub struct Prefix {
    /// Required Insert Count: the number of insertions that the section depends on.
    pub required: u64,
    /// Base of relative indices.
    base: u64,
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

impl Decoder {
    /// Reads a section's prefix, and advances `section` beyond it. The section can be decoded once
    /// [`Decoder::inserted`] is at least `required`.
    ///
    /// # Errors
    /// A connection error with QPACK_DECOMPRESSION_FAILED.
    pub fn prefix(&self, section: &mut &[u8]) -> Result<Prefix, QpackError> {
        let encoded = integer::decode_long(section, 8)?;
        let required = self.required(encoded)?;
        let is_negative = section.first().ok_or(CodingError::Truncated)? & 0x80 != 0;
        let delta = integer::decode_long(section, 7)?;
        let base = match is_negative {
            false => required + delta,
            true => required.checked_sub(delta + 1).ok_or(QpackError::Base)?,
        };
        Ok(Prefix { required, base })
    }

    /// The Required Insert Count, of which the section has the remainder of a division (section
    /// 4.5.1.1).
    fn required(&self, encoded: u64) -> Result<u64, QpackError> {
        if encoded == 0 {
            return Ok(0);
        }
        let entries = self.entries_max();
        let range = 2 * entries;
        if encoded > range {
            return Err(QpackError::InsertCount);
        }
        let largest = self.inserted + entries;
        let required = largest / range * range + encoded - 1;
        let required = match required > largest {
            true => required.checked_sub(range).ok_or(QpackError::InsertCount)?,
            false => required,
        };
        if required == 0 { Err(QpackError::InsertCount) } else { Ok(required) }
    }

    /// Decodes the lines of a section, which follow its prefix.
    pub fn lines<'d, 'b>(&'d self, prefix: Prefix, lines: &'b [u8]) -> Lines<'d, 'b> {
        Lines { decoder: self, prefix, rest: lines }
    }
}

/// A section that is being decoded.
#[derive(Debug)]
pub struct Lines<'d, 'b> {
    decoder: &'d Decoder,
    prefix: Prefix,
    rest: &'b [u8],
}

/// An entry of the dynamic table.
struct Entry<'d> {
    /// The name, and the value behind it.
    both: &'d [u8],
    name_len: usize,
    verdict: Verdict,
}

impl<'d> Lines<'d, '_> {
    /// Decodes the next field and appends its name, then its value, to `out`. If `wanted` is false,
    /// a field from a table is not appended.
    ///
    /// # Errors
    /// A connection error with QPACK_DECOMPRESSION_FAILED.
    pub fn next_field(
        &mut self,
        out: &mut Vec<u8>,
        wanted: bool,
    ) -> Result<Option<Decoded>, QpackError> {
        let Some(&first) = self.rest.first() else { return Ok(None) };
        let decoded = match first {
            // Indexed Field Line: 1Txxxxxx.
            0x80.. => {
                let index = integer::decode_long(&mut self.rest, 6)?;
                if first & 0x40 != 0 {
                    return fixed(index, out, wanted).map(Some);
                }
                copy(self.relative(index)?, out, wanted)
            }
            // Literal with Name Reference: 01NTxxxx.
            0x40.. => {
                let index = integer::decode_long(&mut self.rest, 4)?;
                let (name, class) = if first & 0x10 != 0 {
                    let at = usize::try_from(index).map_err(|_| QpackError::Index)?;
                    let (name, _) = STATIC.get(at).ok_or(QpackError::Index)?;
                    (*name, STATIC_CLASS[at])
                } else {
                    name_of(self.relative(index)?)
                };
                self.literal(name, class, out)?
            }
            // Literal with Literal Name: 001NHxxx.
            0x20.. => {
                let begin = out.len();
                self.text(3, out)?;
                let middle = out.len();
                self.text(7, out)?;
                let (name, value) = out[begin..].split_at(middle - begin);
                let verdict = Verdict::of(name, value);
                Decoded { name_len: name.len(), value_len: value.len(), verdict }
            }
            // Indexed Field Line with Post-Base Index: 0001xxxx.
            0x10.. => {
                let index = integer::decode_long(&mut self.rest, 4)?;
                copy(self.absolute(self.prefix.base + index)?, out, wanted)
            }
            // Literal with Post-Base Name Reference: 0000Nxxx.
            _ => {
                let index = integer::decode_long(&mut self.rest, 3)?;
                let (name, class) = name_of(self.absolute(self.prefix.base + index)?);
                self.literal(name, class, out)?
            }
        };
        Ok(Some(decoded))
    }

    fn relative(&self, index: u64) -> Result<Entry<'d>, QpackError> {
        self.absolute(self.prefix.base.checked_sub(index + 1).ok_or(QpackError::Index)?)
    }

    /// An entry of the dynamic table by its absolute index (section 3.2.4), which is below the
    /// Required Insert Count (section 2.2.3).
    fn absolute(&self, index: u64) -> Result<Entry<'d>, QpackError> {
        if index >= self.prefix.required {
            return Err(QpackError::Index);
        }
        let age = self.decoder.inserted.checked_sub(index + 1).ok_or(QpackError::Index)?;
        let age = usize::try_from(age).map_err(|_| QpackError::Index)?;
        // `None`: the entry was evicted.
        let (both, name_len, verdict) = self.decoder.table.get(age).ok_or(QpackError::Index)?;
        Ok(Entry { both, name_len, verdict })
    }

    /// Appends a name and the literal value that follows.
    fn literal(
        &mut self,
        name: &[u8],
        class: Class,
        out: &mut Vec<u8>,
    ) -> Result<Decoded, QpackError> {
        out.extend_from_slice(name);
        let begin = out.len();
        self.text(7, out)?;
        let value = &out[begin..];
        let verdict = Verdict::of_class(class, value);
        Ok(Decoded { name_len: name.len(), value_len: value.len(), verdict })
    }

    /// Appends a string whose length has a prefix of `prefix` bits; the bit before it tells the
    /// Huffman code (section 4.1.2).
    fn text(&mut self, prefix: u32, out: &mut Vec<u8>) -> Result<(), QpackError> {
        let first = *self.rest.first().ok_or(CodingError::Truncated)?;
        let len = integer::decode_long(&mut self.rest, prefix)?;
        let len = usize::try_from(len).map_err(|_| CodingError::Truncated)?;
        let (text, rest) = self.rest.split_at_checked(len).ok_or(CodingError::Truncated)?;
        self.rest = rest;
        if first & 1 << prefix != 0 {
            huffman::decode(text, out)?;
        } else {
            out.extend_from_slice(text);
        }
        Ok(())
    }
}

/// Appends an entry of the static table if `wanted`.
fn fixed(index: u64, out: &mut Vec<u8>, wanted: bool) -> Result<Decoded, QpackError> {
    let at = usize::try_from(index).map_err(|_| QpackError::Index)?;
    let (name, value) = STATIC.get(at).ok_or(QpackError::Index)?;
    if wanted {
        out.extend_from_slice(name);
        out.extend_from_slice(value);
    }
    let verdict = Verdict { class: STATIC_CLASS[at], is_value_valid: true };
    Ok(Decoded { name_len: name.len(), value_len: value.len(), verdict })
}

/// Appends an entry of the dynamic table if `wanted`.
fn copy(Entry { both, name_len, verdict }: Entry<'_>, out: &mut Vec<u8>, wanted: bool) -> Decoded {
    if wanted {
        out.extend_from_slice(both);
    }
    Decoded { name_len, value_len: both.len() - name_len, verdict }
}

fn name_of(Entry { both, name_len, verdict }: Entry<'_>) -> (&[u8], Class) {
    (&both[..name_len], verdict.class)
}
