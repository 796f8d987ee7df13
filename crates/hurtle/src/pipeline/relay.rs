//! Writes an upstream's response: encodes its head for the client, and relays its body no faster than
//! the client reads it.

use std::fmt::Display;

use http::{HeaderMap, HeaderName, StatusCode};
use hurtle_http::h1::forward::HeaderEdits;
use hurtle_http::h1::response::Delimiter;
use hurtle_http::h1::response_head::{Length, ResponseHead};
use hurtle_http::request::fields;
use hurtle_http::request::framing::BodyLength;
use hurtle_http::request::{Method, RequestHead};

use super::body_writer::BodyWriter;
use super::client::Incoming;
use super::duplex::Duplex;
use super::resolve::path_of;
use super::respond::{cut_by, persistence};
use super::upload::Upload;
use super::worker::Worker;
use super::{Exchange, Next};
use crate::answer::{Answer, is_bodiless};
use crate::clock;
use crate::handler::client::ExchangeError;
use crate::handler::proxy::{
    Phase, ReceivedHead, Source, UpstreamExchange, UpstreamResponse, log_failure,
};
use crate::handler::request::describe;
use crate::handler::wait::Waits;
use crate::protocol::reading::{Piece, Reading};
use crate::protocol::{Head, HeadFields, Protocol};
use crate::site::Resolved;
use crate::transport::{Input, Output};

/// Maximum size of a body that is sent with its head in one write, in bytes.
const WHOLE_BYTES_MAX: usize = 16 << 10;

/// A head that was encoded for the client.
struct EncodedHead {
    out: Output,
    framing: Framing,
    sent: SentHead,
}

/// Data about a head that is needed after the response was sent.
#[derive(Clone, Copy)]
struct SentHead {
    status: StatusCode,
    bytes: u64,
    /// `true` if the upstream's connection can be reused.
    keeps_upstream: bool,
    /// `true` if the client's connection can be reused.
    goes_on: bool,
}

impl<T: Protocol> Exchange<T> {
    /// Writes an upstream's response.
    pub(super) async fn relay(
        &mut self,
        request: &RequestHead<'_>,
        at: (&Worker, &Resolved<'_>),
        response: UpstreamResponse,
        mut incoming: Incoming,
    ) -> Next {
        let UpstreamResponse { mut exchange, head } = response;
        let EncodedHead { out, framing, sent } = self.encode_reply(request, at.1, *head, &incoming);
        match whole_body(&mut exchange, &framing, &incoming) {
            Some((input, len)) => {
                if let Err(next) = self.send_from(out, input, len).await {
                    self.log(Some(request), sent.status, sent.bytes);
                    return next;
                }
            }
            None => {
                let relaying =
                    self.relay_body(request, (&mut exchange, &mut incoming), (out, framing), sent);
                match Box::pin(relaying).await {
                    Ok(()) => {}
                    Err(RelayEnd::Next(next)) => return next,
                    Err(RelayEnd::Unsent(status)) => {
                        drop(exchange);
                        let answer = Answer::error(status, None);
                        let error = self.write_error(request, at, answer, incoming);
                        return Box::pin(error).await;
                    }
                }
            }
        }
        self.log(Some(request), sent.status, sent.bytes);
        if sent.keeps_upstream {
            exchange.upstream.finish();
        }
        match incoming {
            Incoming::Upload(upload) if !upload.reading.is_done() => {
                drop(exchange);
                Box::pin(self.discard_rest(*upload, sent.goes_on)).await
            }
            _ => self.after(sent.goes_on, false),
        }
    }

    /// Encodes a response's head for the client.
    fn encode_reply(
        &mut self,
        request: &RequestHead<'_>,
        resolved: &Resolved<'_>,
        head: ReceivedHead,
        incoming: &Incoming,
    ) -> EncodedHead {
        let ReceivedHead { bytes, parsed } = head;
        let reply = &parsed.attach(&bytes);
        let status = reply.status;
        let framing = Framing::of(request, reply);
        let may_go_on = match incoming {
            Incoming::Upload(upload) => upload.may_go_on(),
            Incoming::Done | Incoming::Unread => true,
        };
        let goes_on = self.goes_on(request) && may_go_on && framing.delimiter != Delimiter::Close;
        let mut out = Output::new();
        let persistence = persistence(request, goes_on);
        let date = clock::date(clock::now_ms());
        let edits = resolved.mount().map(|(_, place)| place.edits(status));
        let (removed, mut set) = edits.unwrap_or_default();
        if let Some(cache_status) = self.cache_status {
            cache_status.encode(&mut set);
        }
        let removes =
            |name: &[u8]| removed.iter().any(|r| r.as_str().as_bytes().eq_ignore_ascii_case(name));
        let edits = HeaderEdits { removes: &removes, set };
        let head = Head {
            status,
            fields: HeadFields::Forwarded(reply, &edits),
            delimiter: framing.delimiter,
            persistence,
            date: &date,
        };
        self.io.encode_head(out.vec(), &head);
        let keeps_upstream = reply.keep_alive && framing.may_keep_alive;
        let sent = SentHead { status, bytes: out.len() as u64, keeps_upstream, goes_on };
        EncodedHead { out, framing, sent }
    }

    /// Sends a response whose body has not arrived completely or is large; `out` holds its head.
    async fn relay_body(
        &mut self,
        request: &RequestHead<'_>,
        (exchange, incoming): (&mut UpstreamExchange, &mut Incoming),
        (out, framing): (Output, Framing),
        sent: SentHead,
    ) -> Result<(), RelayEnd> {
        let delimiter = framing.delimiter;
        let error = match self.run_relay(request, (exchange, incoming), out, framing).await {
            Ok(()) => return Ok(()),
            Err(RelayError::Client(error)) => error,
            Err(RelayError::Upstream(reason, status)) => {
                let path = path_of(&request.target).map_or(&b"*"[..], |(path, _)| path);
                log_failure(&exchange.upstream, &describe(request, path), &reason, status);
                if self.sent.moved.get() == 0 {
                    return Err(RelayEnd::Unsent(status));
                }
                ExchangeError::ResponseBody
            }
        };
        self.log(Some(request), sent.status, sent.bytes);
        Err(RelayEnd::Next(cut_by(error, delimiter)))
    }

    async fn run_relay(
        &mut self,
        request: &RequestHead<'_>,
        (exchange, incoming): (&mut UpstreamExchange, &mut Incoming),
        out: Output,
        framing: Framing,
    ) -> Result<(), RelayError> {
        self.sent.moved.set(0);
        let UpstreamExchange { upstream, waits, .. } = exchange;
        let within_ms = upstream.read_timeout_ms();
        let te_trailers = request.te_trailers;
        let streaming = async |duplex: &Duplex<'_, T>| {
            let relay = Relay { duplex, out, framing, te_trailers, waits, within_ms };
            let relayed =
                upstream.beside(waits, async |source, input| relay.run(source, input).await);
            relayed.await.unwrap_or(Err(RelayError::Client(ExchangeError::ResponseBody)))
        };
        let mut none;
        let upload = match incoming {
            Incoming::Upload(upload) => &mut **upload,
            Incoming::Done | Incoming::Unread => {
                none = Upload::none();
                &mut none
            }
        };
        match self.beside(upload, waits, streaming).await {
            Ok(relayed) => relayed,
            Err(ExchangeError::UpstreamTimeout) => {
                Err(RelayError::Upstream(Phase::Reading.to_string(), StatusCode::GATEWAY_TIMEOUT))
            }
            Err(error) => Err(RelayError::Client(error)),
        }
    }
}

/// Returns the input that holds the whole body, and the body's length. `None` unless the body has
/// arrived, is small, and nothing else is in progress.
fn whole_body<'e>(
    exchange: &'e mut UpstreamExchange,
    framing: &Framing,
    incoming: &Incoming,
) -> Option<(&'e mut Input, usize)> {
    let has_upload = matches!(incoming, Incoming::Upload(upload) if !upload.reading.is_done());
    if has_upload || !exchange.upstream.is_sent() {
        return None;
    }
    let len = framing.known_len().filter(|len| *len <= WHOLE_BYTES_MAX)?;
    let input = &mut exchange.upstream.link()?.input;
    (len <= input.bytes().len()).then_some((input, len))
}

/// The end of a response whose body was not relayed completely.
enum RelayEnd {
    /// The exchange has ended.
    Next(Next),
    /// Nothing was sent; the client gets this status.
    Unsent(StatusCode),
}

/// The framing of a body on both sides.
struct Framing {
    /// The delimiter towards the client.
    delimiter: Delimiter,
    /// The state of reading from the upstream. `None`: the body ends with the upstream's
    /// connection.
    reading: Option<Reading>,
    /// `true` if the upstream's connection can be reused after the body.
    may_keep_alive: bool,
    len: Option<u64>,
}

/// The error that ends a body early.
enum RelayError {
    /// The exchange with the client failed.
    Client(ExchangeError),
    /// The upstream failed: the reason, and the status if nothing was sent yet.
    Upstream(String, StatusCode),
}

impl From<ExchangeError> for RelayError {
    fn from(error: ExchangeError) -> RelayError {
        RelayError::Client(error)
    }
}

/// A body that is being relayed.
struct Relay<'a, T> {
    duplex: &'a Duplex<'a, T>,
    /// Bytes that leave with the next write; the head at first.
    out: Output,
    framing: Framing,
    /// `true` if the client accepts trailers.
    te_trailers: bool,
    waits: &'a Waits,
    /// Maximum time between two reads from the upstream, in milliseconds.
    within_ms: u64,
}

impl Framing {
    /// Computes the framing of the response to this request.
    fn of(request: &RequestHead<'_>, reply: &ResponseHead<'_>) -> Framing {
        if request.method == Method::Head || is_bodiless(reply.status) {
            // RFC 9110 section 8.6: a response without a body may have a Content-Length, but not
            // 204.
            let declared = match reply.status {
                StatusCode::NO_CONTENT => None,
                _ => reply.content_length,
            };
            let delimiter = declared.map_or(Delimiter::Given, Delimiter::Length);
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
    fn known_len(&self) -> Option<usize> {
        self.len.and_then(|len| usize::try_from(len).ok())
    }
}

impl<T: Protocol> Relay<'_, T> {
    /// Relays the whole body.
    async fn run(self, mut source: Source<'_>, input: &mut Input) -> Result<(), RelayError> {
        let Relay { duplex, out, framing, te_trailers, waits, within_ms } = self;
        let Framing { delimiter, mut reading, .. } = framing;
        let mut writer = BodyWriter::new(duplex, out, delimiter);
        loop {
            let piece = match &mut reading {
                Some(reading) => reading.next(input).map_err(|error| truncated(&error))?,
                None if input.bytes().is_empty() => Piece::More,
                None => Piece::Data(input.bytes().len()),
            };
            match piece {
                Piece::Data(len) => {
                    writer.data(&input.bytes()[..len], false).await?;
                    input.consume(len);
                }
                Piece::End(lines) => return finish(writer, &lines, te_trailers).await,
                Piece::More => {
                    writer.flush().await?;
                    match source.fill(input, waits, Some(within_ms)).await {
                        Ok(0) if reading.is_none() => {
                            return finish(writer, b"", te_trailers).await;
                        }
                        Ok(0) => return Err(truncated(&"the connection ended early")),
                        Ok(_) => {}
                        Err(e) => return Err(truncated(&e)),
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
fn truncated(error: &dyn Display) -> RelayError {
    RelayError::Upstream(format!("truncated response: {error}"), StatusCode::BAD_GATEWAY)
}
