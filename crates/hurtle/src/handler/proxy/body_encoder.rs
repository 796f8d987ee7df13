//! Encodes the body of an upstream's response on its way: in a content-coding, or as gRPC-Web.

use std::fmt::Display;

use base64::Engine as _;
use base64::engine::general_purpose::STANDARD;
use bytes::Bytes;
use http::StatusCode;
use hurtle_http::request::grpc_web::{WebFormat, trailer_frame};

use super::BodyCoding;
use super::relay::RelayError;
use crate::compress::{Effort, Encoder, TURN_BYTES};
use crate::transport::Input;

/// The encoder of a body that is relayed.
pub(super) enum BodyEncoder {
    Content(Box<ContentEncoder>),
    /// gRPC-Web: the trailers are part of the body.
    Web(WebFormat),
}

/// The encoder of a content-coding.
pub(super) struct ContentEncoder {
    encoder: Encoder<'static>,
    /// Bytes were encoded since the last flush.
    has_unflushed: bool,
    /// Bytes encoded since other connections ran.
    turn_bytes: usize,
}

impl BodyEncoder {
    pub(super) fn new(coding: BodyCoding) -> Result<BodyEncoder, RelayError> {
        match coding {
            BodyCoding::Content(coding) => {
                let encoder = Encoder::new(coding, Effort::Live);
                let encoder = encoder.map_err(|error| unencoded(&error))?;
                let content = ContentEncoder { encoder, has_unflushed: false, turn_bytes: 0 };
                Ok(BodyEncoder::Content(Box::new(content)))
            }
            BodyCoding::Web(format) => Ok(BodyEncoder::Web(format)),
        }
    }

    /// Returns how many of the next `len` bytes are encoded at once.
    pub(super) fn piece_bytes(&self, len: usize) -> usize {
        match self {
            BodyEncoder::Content(_) => len.min(TURN_BYTES),
            BodyEncoder::Web(_) => len,
        }
    }

    /// Returns whether other connections run now, because enough was encoded.
    pub(super) fn ends_turn(&mut self) -> bool {
        let BodyEncoder::Content(content) = self else { return false };
        let ends = content.turn_bytes >= TURN_BYTES;
        if ends {
            content.turn_bytes = 0;
        }
        ends
    }

    /// Encodes the first `len` bytes of an input, which are consumed. `None`: they stay as they
    /// are.
    ///
    /// # Errors
    /// The encoder has no memory.
    pub(super) fn encode(
        &mut self,
        input: &mut Input,
        len: usize,
    ) -> Result<Option<Bytes>, RelayError> {
        let coded = match self {
            BodyEncoder::Content(content) => {
                let mut coded = Vec::new();
                let encoded = content.encoder.write(&input.bytes()[..len], &mut coded);
                encoded.map_err(|error| unencoded(&error))?;
                content.has_unflushed = true;
                content.turn_bytes += len;
                coded.into()
            }
            BodyEncoder::Web(WebFormat::Binary) => return Ok(None),
            // Each piece has its own padding, so that a message arrives at once.
            BodyEncoder::Web(WebFormat::Text) => STANDARD.encode(&input.bytes()[..len]).into(),
        };
        input.consume(len);
        Ok(Some(coded))
    }

    /// Returns all that was encoded, before a wait.
    ///
    /// # Errors
    /// The encoder has no memory.
    pub(super) fn flush(&mut self) -> Result<Bytes, RelayError> {
        let mut coded = Vec::new();
        if let BodyEncoder::Content(content) = self
            && std::mem::take(&mut content.has_unflushed)
        {
            content.encoder.flush(&mut coded).map_err(|error| unencoded(&error))?;
        }
        Ok(coded.into())
    }

    /// Returns the end of the encoded bytes, and the trailers of the response; `lines` are the
    /// upstream's.
    ///
    /// # Errors
    /// The encoder has no memory.
    pub(super) fn end(self, lines: Vec<u8>) -> Result<(Bytes, Vec<u8>), RelayError> {
        match self {
            BodyEncoder::Content(content) => {
                let mut coded = Vec::new();
                let ended = content.encoder.finish(&mut coded);
                ended.map_err(|error| unencoded(&error))?;
                Ok((coded.into(), lines))
            }
            BodyEncoder::Web(format) => {
                let frame = trailer_frame(&lines);
                let data = match format {
                    WebFormat::Binary => frame.into(),
                    WebFormat::Text => STANDARD.encode(frame).into(),
                };
                Ok((data, Vec::new()))
            }
        }
    }
}

fn unencoded(error: &dyn Display) -> RelayError {
    let status = StatusCode::INTERNAL_SERVER_ERROR;
    RelayError::upstream(format!("the body was not compressed: {error}"), status)
}
