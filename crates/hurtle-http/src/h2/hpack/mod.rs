//! HPACK (RFC 7541): decodes ([`Decoder`]) and encodes ([`Encoder`]) field blocks, independently of
//! frames and streams. The caller limits the length of a block.

mod decode;
mod encode;
mod huffman;
mod integer;
mod names;
mod table;

pub use decode::{Decoded, Decoder, HpackError};
pub use encode::Encoder;
pub use names::{Class, Verdict};

/// Maximum size of either dynamic table in bytes: the default of SETTINGS_HEADER_TABLE_SIZE
/// (RFC 9113 section 6.5.2).
pub const TABLE_BYTES_MAX: usize = 4_096;

/// Bytes that an entry counts in addition to its name and value (RFC 7541 section 4.1), and a field
/// in SETTINGS_MAX_HEADER_LIST_SIZE (RFC 9113 section 6.5.2).
pub const FIELD_OVERHEAD_BYTES: usize = 32;
