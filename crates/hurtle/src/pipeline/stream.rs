//! Sends a response body frame by frame; each frame is sent before the next one is awaited.

use std::fmt::Display;

use bytes::Bytes;
use http::HeaderMap;
use http_body::Frame;
use hurtle_http::message::response::Delimiter;

use super::body_writer::BodyWriter;
use super::duplex::Duplex;
use crate::body::Stream;
use crate::handler::client::{Data, ExchangeError};
use crate::protocol::Protocol;
use crate::transport::Output;

/// A streamed response that is being sent.
pub(super) struct StreamSender<'a, P> {
    pub(super) duplex: &'a Duplex<'a, P>,
    /// The encoded head.
    pub(super) out: Output,
    pub(super) delimiter: Delimiter,
    /// The length of the body that its source states, in bytes.
    pub(super) len: Option<u64>,
    /// `true` if the client accepts trailers.
    pub(super) trailers: bool,
}

impl<P: Protocol> StreamSender<'_, P> {
    /// Sends the whole body.
    pub(super) async fn run(self, mut stream: Stream) -> Result<(), ExchangeError> {
        let mut left = self.len;
        // Trailers may follow a body whose end the client knows by its framing.
        let ends_at_length = matches!(self.delimiter, Delimiter::Length(_));
        let mut writer = BodyWriter::new(self.duplex, self.out, self.delimiter);
        loop {
            let frame = match stream.frame_at_once().await {
                Some(frame) => frame,
                None => {
                    writer.flush().await?;
                    stream.frame().await
                }
            };
            let Some(frame) = frame else { return finish(writer, left, None).await };
            let counted = frame.map_err(|error| truncated(&error));
            let counted = counted.and_then(|frame| counted_frame(frame, &mut left));
            let frame = match counted {
                Ok(frame) => frame,
                Err(error) => {
                    // The client gets all that came before the error.
                    writer.flush().await?;
                    return Err(error);
                }
            };
            match frame.into_data() {
                Ok(data) => {
                    let is_end = stream.is_end() || (ends_at_length && left == Some(0));
                    writer.data(Data::Bytes(data), is_end).await?;
                    if is_end {
                        return finish(writer, left, None).await;
                    }
                }
                Err(frame) => {
                    let trailers = frame.into_trailers().ok().filter(|_| self.trailers);
                    return finish(writer, left, trailers).await;
                }
            }
        }
    }
}

/// Subtracts a frame from the declared length: extra bytes would be read as the next response.
fn counted_frame(
    frame: Frame<Bytes>,
    left: &mut Option<u64>,
) -> Result<Frame<Bytes>, ExchangeError> {
    if let (Some(left), Some(data)) = (left, frame.data_ref()) {
        let rest = left.checked_sub(data.len() as u64);
        *left = rest.ok_or_else(|| truncated(&"the body is longer than declared"))?;
    }
    Ok(frame)
}

async fn finish<P: Protocol>(
    mut writer: BodyWriter<'_, P>,
    left: Option<u64>,
    trailers: Option<HeaderMap>,
) -> Result<(), ExchangeError> {
    if left.is_some_and(|left| left > 0) {
        writer.flush().await?;
        return Err(truncated(&"the body is shorter than declared"));
    }
    writer.finish(trailers.as_ref()).await
}

/// The client notices the truncated body; the operator gets a log line.
fn truncated(error: &dyn Display) -> ExchangeError {
    tracing::warn!("a response's body ended early: {error}");
    ExchangeError::ResponseBody
}
