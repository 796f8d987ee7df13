//! The parts that HPACK (RFC 7541) and QPACK (RFC 9204) share: integers, Huffman-coded strings, the
//! dynamic table, and the classes of field names.

use std::fmt;

pub(crate) mod huffman;
pub(crate) mod integer;
mod names;
pub(crate) mod table;

pub use names::{Class, Verdict};
pub(crate) use names::{class, is_secret};

/// Bytes that an entry counts in addition to its name and value (RFC 7541 section 4.1, RFC 9204
/// section 3.2.1), and a field in the limit of a field section (RFC 9113 section 6.5.2, RFC 9114
/// section 4.2.2).
pub const FIELD_OVERHEAD_BYTES: usize = 32;

/// A decoded field, whose name and value were appended to the caller's buffer.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub struct Decoded {
    /// Bytes of the name.
    pub name_len: usize,
    /// Bytes of the value.
    pub value_len: usize,
    /// The validity of its name and value.
    pub verdict: Verdict,
}

/// An integer or a string that cannot be decoded.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum CodingError {
    /// The input ends within an integer or a string.
    Truncated,
    /// An integer has more bits than the format allows.
    Integer,
    /// A string is not valid Huffman code.
    Huffman,
}

impl fmt::Display for CodingError {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        f.write_str(match self {
            CodingError::Truncated => "the field block ends within a field",
            CodingError::Integer => "an integer of the field block is too large",
            CodingError::Huffman => "a string of the field block is no Huffman code",
        })
    }
}

impl std::error::Error for CodingError {}
