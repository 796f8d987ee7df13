//! QPACK (RFC 9204): decodes field sections with the peer's dynamic table ([`Decoder`]), and
//! encodes field sections with the static table ([`encode`]).
//!
//! The encoder uses no dynamic table, so an encoded line is valid on every connection and at any
//! time. It needs no state, no encoder stream, and no section of it ever blocks at the peer.

mod decoder;
pub mod encode;
mod encoder_stream;
mod section;
mod static_table;

use std::fmt;

pub(super) use decoder::Acknowledgments;
pub use decoder::Decoder;
pub use section::{Lines, Prefix};

use crate::compression::CodingError;

/// A violation of RFC 9204.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum QpackError {
    /// An integer or a string cannot be decoded.
    Coding(CodingError),
    /// A table entry that does not exist, or that the section must not use.
    Index,
    /// The Required Insert Count is out of range (RFC 9204 section 4.5.1.1).
    InsertCount,
    /// The Base is negative (section 4.5.1.2).
    Base,
    /// The capacity exceeds the limit (section 4.3.1).
    Capacity,
    /// An entry is larger than the table (section 3.2.2).
    EntryTooLarge,
    /// An acknowledgment of something that was not sent (section 4.4).
    Acknowledgment,
}

impl From<CodingError> for QpackError {
    fn from(error: CodingError) -> QpackError {
        QpackError::Coding(error)
    }
}

impl QpackError {
    /// A description of the violation.
    pub fn reason(self) -> &'static str {
        match self {
            QpackError::Coding(CodingError::Truncated) => "the field section ends within a field",
            QpackError::Coding(CodingError::Integer) => "an integer has more than 62 bits",
            QpackError::Coding(CodingError::Huffman) => "a string is no Huffman code",
            QpackError::Index => "the field section names a table entry that does not exist",
            QpackError::InsertCount => "the Required Insert Count is out of range",
            QpackError::Base => "the Base is negative",
            QpackError::Capacity => "the table capacity exceeds the limit",
            QpackError::EntryTooLarge => "an entry is larger than the dynamic table",
            QpackError::Acknowledgment => "an acknowledgment of something that was not sent",
        }
    }
}

impl fmt::Display for QpackError {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        f.write_str(self.reason())
    }
}

impl std::error::Error for QpackError {}
