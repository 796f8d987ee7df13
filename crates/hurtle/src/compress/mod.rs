//! Compression. `encoder` is the content-codings, `policy` decides about a response, `files` makes
//! and keeps encoded files, with `directory` as its second level and `dictionary` for differences,
//! `live` encodes files while they are sent, and `body` encodes a stream frame by frame.

mod body;
mod dictionary;
mod directory;
mod encoder;
mod files;
mod live;
mod policy;
mod response;

pub(crate) use dictionary::{Dictionary, DictionaryHash};
pub(crate) use encoder::{Effort, Encoder};
pub(crate) use files::{Compressor, EncodedFile, Encoding, EncodingResult};
pub(crate) use policy::{FileFacts, Policy, Uncompressed, forbids};
pub(crate) use response::{encode, encode_upstream};

/// The codings that files and streams are offered in, best first: Brotli is the smallest, and zstd
/// decodes faster than gzip.
pub(crate) const CODINGS: [hurtle_http::semantics::accept::Coding; 3] = {
    use hurtle_http::semantics::accept::Coding;
    [Coding::Br, Coding::Zstd, Coding::Gzip]
};

/// Bytes that are encoded before other connections run: about a millisecond.
pub(crate) const TURN_BYTES: usize = 32 << 10;
