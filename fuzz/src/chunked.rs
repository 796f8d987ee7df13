//! `chunked`: the chunked transfer coding.

use hurtle_http::h1::chunked::{Decoder, Step, encode_size};
use hurtle_http::request::ParseError;

/// An accepted body, encoded again, decodes to the same body; the bytes after it are not consumed.
pub fn chunked(data: &[u8]) {
    let first = decode(data, usize::MAX);
    let Ok(Some(len)) = first.end else { return };
    assert!(len <= data.len(), "{len} bytes of {}", data.len());

    let mut coded = Vec::new();
    for part in first.body.chunks(100) {
        encode_size(part.len(), &mut coded);
        coded.extend_from_slice(part);
        coded.extend_from_slice(b"\r\n");
    }
    coded.extend_from_slice(b"0\r\n\r\nnext");
    let second = decode(&coded, usize::MAX);
    assert_eq!(second.end, Ok(Some(coded.len() - b"next".len())));
    assert_eq!(second.body, first.body);
}

/// Result of decoding.
#[derive(Debug, PartialEq)]
pub(crate) struct Decoded {
    pub(crate) body: Vec<u8>,
    pub(crate) trailers: Vec<u8>,
    /// Length of the body in the input; `None` if more bytes are needed.
    pub(crate) end: Result<Option<usize>, ParseError>,
}

/// Decodes `input` in pieces of `piece` bytes, 1 or more.
pub(crate) fn decode(input: &[u8], piece: usize) -> Decoded {
    let mut decoder = Decoder::default();
    let mut decoded = Decoded { body: Vec::new(), trailers: Vec::new(), end: Ok(None) };
    let mut consumed = 0;
    'pieces: for piece in input.chunks(piece.min(input.len()).max(1)) {
        let mut rest = piece;
        loop {
            match decoder.decode(rest) {
                Ok(Step::Data { skip, len }) => {
                    assert!(len > 0, "data of no length");
                    decoded.body.extend_from_slice(&rest[skip..skip + len]);
                    rest = &rest[skip + len..];
                    consumed += skip + len;
                }
                Ok(Step::NeedMore) => {
                    consumed += rest.len();
                    break;
                }
                Ok(Step::End(len)) => {
                    decoded.end = Ok(Some(consumed + len));
                    break 'pieces;
                }
                Err(error) => {
                    decoded.end = Err(error);
                    break 'pieces;
                }
            }
        }
    }
    decoded.trailers = decoder.trailers().to_vec();
    decoded
}
