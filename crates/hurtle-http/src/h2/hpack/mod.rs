//! HPACK (RFC 7541): decodes ([`Decoder`]) and encodes ([`Encoder`]) field blocks, independently of
//! frames and streams. The caller limits the length of a block.

mod decode;
mod encode;
mod static_table;

pub use decode::{Decoder, HpackError};
pub use encode::Encoder;

pub use crate::compression::{Class, Decoded, FIELD_OVERHEAD_BYTES, Verdict};

/// Maximum size of either dynamic table in bytes: the default of SETTINGS_HEADER_TABLE_SIZE
/// (RFC 9113 section 6.5.2).
pub const TABLE_BYTES_MAX: usize = 4_096;
