//! Streams a response body from an upstream to the client, no faster than the client reads it.

use std::fmt::Display;

use http::{HeaderMap, HeaderName, StatusCode};
use hurtle_http::h1::response::Delimiter;
use hurtle_http::h1::response_head::{Length, ResponseHead};
use hurtle_http::request::fields;
use hurtle_http::request::framing::BodyLength;
use hurtle_http::request::{Method, RequestHead};

use super::body_writer::{BodyWriter, Data};
use super::duplex::{Duplex, ExchangeError};
use super::is_bodiless;
use crate::handler::proxy::{Source, Waits};
use crate::protocol::Protocol;
use crate::protocol::reading::{Piece, Reading};
use crate::transport::{Input, Output};

/// The framing of a body on both sides.
pub(super) struct Framing {
    /// The delimiter towards the client.
    pub(super) delimiter: Delimiter,
    /// The state of reading from the upstream. `None`: the body ends with the upstream's
    /// connection.
    reading: Option<Reading>,
    /// `true` if the upstream's connection can be reused after the body.
    pub(super) may_keep_alive: bool,
    len: Option<u64>,
}

/// The error that ends a body early.
pub(super) enum RelayError {
    /// The exchange with the client failed.
    Client(ExchangeError),
    /// The upstream failed: the reason, and the status if nothing was sent yet.
    Upstream(String, StatusCode),
}

impl From<ExchangeError> for RelayError {
    fn from(broken: ExchangeError) -> RelayError {
        RelayError::Client(broken)
    }
}

/// A body that is being relayed.
pub(super) struct Relay<'a, T> {
    pub(super) duplex: &'a Duplex<'a, T>,
    /// Bytes that leave with the next write; the head at first.
    pub(super) out: Output,
    pub(super) framing: Framing,
    /// `true` if the client accepts trailers.
    pub(super) te_trailers: bool,
    pub(super) waits: &'a Waits,
    /// Maximum time between two reads from the upstream, in milliseconds.
    pub(super) within_ms: u64,
}

impl Framing {
    /// Computes the framing of the response to this request.
    pub(super) fn of(request: &RequestHead<'_>, reply: &ResponseHead<'_>) -> Framing {
        if request.method == Method::Head || is_bodiless(reply.status) {
            // RFC 9110 section 8.6: a response without a body may have a Content-Length, but not
            // 204.
            let said = match reply.status {
                StatusCode::NO_CONTENT => None,
                _ => reply.content_length,
            };
            let delimiter = said.map_or(Delimiter::Given, Delimiter::Length);
            // RFC 9112 section 6.3: such a response has no body, but a faulty upstream may send
            // one. It would be read as the next response.
            let odd = match (reply.status, reply.length) {
                (StatusCode::NO_CONTENT, Length::Framed(length)) => length != BodyLength::None,
                (StatusCode::NOT_MODIFIED, Length::Framed(length)) => length == BodyLength::Chunked,
                _ => false,
            };
            let mut framing = Framing::none(delimiter);
            framing.may_keep_alive = !odd;
            return framing;
        }
        let unknown = if request.http10 { Delimiter::Close } else { Delimiter::Chunked };
        match reply.length {
            Length::Framed(BodyLength::None) => Framing::none(Delimiter::Length(0)),
            Length::Framed(length @ BodyLength::Exactly(len)) => {
                Framing::new(Delimiter::Length(len), Some(length))
            }
            Length::Framed(length @ BodyLength::Chunked) => Framing::new(unknown, Some(length)),
            Length::UntilClose => Framing::new(unknown, None),
        }
    }

    /// Creates the framing of a response without a body.
    fn none(delimiter: Delimiter) -> Framing {
        Framing { delimiter, reading: Some(Reading::Done), may_keep_alive: true, len: Some(0) }
    }

    /// Creates the framing of a body. `None`: it ends with the connection.
    fn new(delimiter: Delimiter, length: Option<BodyLength>) -> Framing {
        let len = match length {
            Some(BodyLength::Exactly(len)) => Some(len),
            _ => None,
        };
        let may_keep_alive = length.is_some();
        Framing { delimiter, reading: length.map(Reading::new), may_keep_alive, len }
    }

    /// Returns the body's length if it is known and fits in memory.
    pub(super) fn known_len(&self) -> Option<usize> {
        self.len.and_then(|len| usize::try_from(len).ok())
    }
}

impl<T: Protocol> Relay<'_, T> {
    /// Relays the whole body.
    pub(super) async fn run(
        self,
        mut source: Source<'_>,
        input: &mut Input,
    ) -> Result<(), RelayError> {
        let Relay { duplex, out, framing, te_trailers, waits, within_ms } = self;
        let Framing { delimiter, mut reading, .. } = framing;
        let mut writer = BodyWriter::new(duplex, out, delimiter);
        loop {
            let piece = match &mut reading {
                Some(reading) => reading.next(input).map_err(|error| broke(&error))?,
                None if input.bytes().is_empty() => Piece::More,
                None => Piece::Data(input.bytes().len()),
            };
            match piece {
                Piece::Data(len) => {
                    writer.data(Data::Input(input, len), false).await?;
                }
                Piece::End(lines) => return finish(writer, &lines, te_trailers).await,
                Piece::More => {
                    writer.flush().await?;
                    match source.fill(input, waits, Some(within_ms)).await {
                        Ok(0) if reading.is_none() => {
                            return finish(writer, b"", te_trailers).await;
                        }
                        Ok(0) => return Err(broke(&"the connection ended early")),
                        Ok(_) => {}
                        Err(e) => return Err(broke(&e)),
                    }
                }
            }
        }
    }
}

async fn finish<P: Protocol>(
    writer: BodyWriter<'_, P>,
    lines: &[u8],
    te_trailers: bool,
) -> Result<(), RelayError> {
    let mut trailers = None;
    if te_trailers && !lines.is_empty() {
        let trailers: &mut HeaderMap = trailers.insert(fields::map(lines));
        for name in PRIVATE {
            trailers.remove(name);
        }
    }
    Ok(writer.finish(trailers.as_ref()).await?)
}

/// Fields for this server only, also in trailers.
const PRIVATE: [HeaderName; 4] = [
    HeaderName::from_static("x-accel-redirect"),
    HeaderName::from_static("x-sendfile"),
    HeaderName::from_static("keep-alive"),
    HeaderName::from_static("proxy-authenticate"),
];

/// The client notices the truncated body; the operator gets a log line.
fn broke(error: &dyn Display) -> RelayError {
    RelayError::Upstream(format!("truncated response: {error}"), StatusCode::BAD_GATEWAY)
}
