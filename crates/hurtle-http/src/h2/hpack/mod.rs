//! HPACK (RFC 7541): field blocks to fields ([`Decoder`]) and fields to field blocks ([`Encoder`]).
//! It knows nothing of frames or streams. The caller bounds the length of a block.

mod decode;
mod encode;
mod huffman;
mod integer;
mod names;
mod table;

pub use decode::{Decoded, Decoder, HpackError};
pub use encode::Encoder;
pub use names::{Class, Verdict};

/// Bytes of a dynamic table at most, each way: the default of SETTINGS_HEADER_TABLE_SIZE
/// (RFC 9113 section 6.5.2).
pub const TABLE_BYTES_MAX: usize = 4_096;

/// Bytes that an entry counts beside its name and value (RFC 7541 section 4.1), and a field in
/// SETTINGS_MAX_HEADER_LIST_SIZE (RFC 9113 section 6.5.2).
pub const FIELD_OVERHEAD_BYTES: usize = 32;
