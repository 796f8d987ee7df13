//! Encodes the body of an upstream's response on its way: in a content-coding, or as gRPC-Web.

use std::fmt::Display;

use base64::Engine as _;
use base64::engine::general_purpose::STANDARD;
use bytes::Bytes;
use http::StatusCode;
use hurtle_http::request::grpc_web::{WebFormat, trailer_frame};
use hurtle_http::semantics::accept::Coding;

use super::body_writer::{BodyWriter, Data};
use super::relay::RelayError;
use crate::compress::{Effort, Encoder, TURN_BYTES};
use crate::handler::proxy::BodyCoding;
use crate::protocol::Protocol;
use crate::rt;
use crate::transport::Input;

/// The encoder of a body that is relayed.
pub(super) enum BodyEncoder {
    /// A content-coding.
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
                Ok(BodyEncoder::Content(Box::new(ContentEncoder::new(coding)?)))
            }
            BodyCoding::Web(format) => Ok(BodyEncoder::Web(format)),
        }
    }

    /// Encodes the first `len` bytes of an input, which are consumed.
    pub(super) async fn encode<P: Protocol>(
        &mut self,
        (input, len): (&mut Input, usize),
        writer: &mut BodyWriter<'_, P>,
    ) -> Result<(), RelayError> {
        match self {
            BodyEncoder::Content(encoder) => encoder.encode((input, len), writer).await,
            BodyEncoder::Web(WebFormat::Binary) => {
                Ok(writer.data(Data::Input(input, len), false).await?)
            }
            BodyEncoder::Web(WebFormat::Text) => {
                // Each piece has its own padding, so that a message arrives at once.
                let text = STANDARD.encode(&input.bytes()[..len]);
                input.consume(len);
                Ok(writer.data(Data::Bytes(text.into()), false).await?)
            }
        }
    }

    /// Writes all that was encoded, before a wait.
    pub(super) async fn flush<P: Protocol>(
        &mut self,
        writer: &mut BodyWriter<'_, P>,
    ) -> Result<(), RelayError> {
        match self {
            BodyEncoder::Content(encoder) => encoder.flush(writer).await,
            BodyEncoder::Web(_) => Ok(()),
        }
    }

    /// Writes the end of the encoded bytes; `lines` are the upstream's trailers. Returns the trailers
    /// of the response.
    pub(super) async fn end<P: Protocol>(
        self,
        lines: Vec<u8>,
        writer: &mut BodyWriter<'_, P>,
    ) -> Result<Vec<u8>, RelayError> {
        match self {
            BodyEncoder::Content(encoder) => encoder.end(writer).await.map(|()| lines),
            BodyEncoder::Web(format) => {
                let frame = trailer_frame(&lines);
                let data: Bytes = match format {
                    WebFormat::Binary => frame.into(),
                    WebFormat::Text => STANDARD.encode(frame).into(),
                };
                writer.data(Data::Bytes(data), true).await?;
                Ok(Vec::new())
            }
        }
    }
}

impl ContentEncoder {
    fn new(coding: Coding) -> Result<ContentEncoder, RelayError> {
        let encoder = Encoder::new(coding, Effort::Live).map_err(|error| unencoded(&error))?;
        Ok(ContentEncoder { encoder, has_unflushed: false, turn_bytes: 0 })
    }

    /// Encodes bytes. Other connections run between pieces.
    async fn encode<P: Protocol>(
        &mut self,
        (input, mut len): (&mut Input, usize),
        writer: &mut BodyWriter<'_, P>,
    ) -> Result<(), RelayError> {
        while len > 0 {
            let piece = len.min(TURN_BYTES);
            let mut coded = Vec::new();
            let encoded = self.encoder.write(&input.bytes()[..piece], &mut coded);
            encoded.map_err(|error| unencoded(&error))?;
            self.has_unflushed = true;
            input.consume(piece);
            len -= piece;
            writer.data(Data::Bytes(coded.into()), false).await?;
            self.turn_bytes += piece;
            if self.turn_bytes >= TURN_BYTES {
                self.turn_bytes = 0;
                rt::give_way().await;
            }
        }
        Ok(())
    }

    async fn flush<P: Protocol>(
        &mut self,
        writer: &mut BodyWriter<'_, P>,
    ) -> Result<(), RelayError> {
        if !std::mem::take(&mut self.has_unflushed) {
            return Ok(());
        }
        let mut coded = Vec::new();
        self.encoder.flush(&mut coded).map_err(|error| unencoded(&error))?;
        Ok(writer.data(Data::Bytes(coded.into()), false).await?)
    }

    async fn end<P: Protocol>(self, writer: &mut BodyWriter<'_, P>) -> Result<(), RelayError> {
        let mut coded = Vec::new();
        self.encoder.finish(&mut coded).map_err(|error| unencoded(&error))?;
        Ok(writer.data(Data::Bytes(coded.into()), true).await?)
    }
}

fn unencoded(error: &dyn Display) -> RelayError {
    let status = StatusCode::INTERNAL_SERVER_ERROR;
    RelayError::upstream(format!("the body was not compressed: {error}"), status)
}
