//! Writes an upstream's response: relays its body to the client, no faster than the client reads it.

use std::fmt::Display;
use std::io;

use http::{HeaderMap, HeaderName, StatusCode};
use hurtle_http::h1::response::field;
use hurtle_http::request::RequestHead;
use hurtle_http::request::fields;
use hurtle_http::semantics::grpc::GrpcStatus;

use super::body_encoder::BodyEncoder;
use super::body_writer::{BodyWriter, Data};
use super::client::Incoming;
use super::duplex::Duplex;
use super::resolve::path_of;
use super::respond::cut_by;
use super::send::next_after;
use super::upload::Upload;
use super::worker::Worker;
use super::{Connection, Next};
use crate::answer::{Answer, grpc_fields};
use crate::handler::client::{EncodedHead, ExchangeError};
use crate::handler::proxy::{
    BodyCoding, Framing, MalformedBody, Phase, Source, UpstreamExchange, UpstreamRequest,
    UpstreamResponse, grpc_status, log_failure,
};
use crate::handler::request::describe;
use crate::handler::wait::Waits;
use crate::protocol::Protocol;
use crate::protocol::h2::StreamError;
use crate::protocol::reading::{Piece, Reading};
use crate::site::Resolved;
use crate::transport::{Input, Output};

/// Maximum size of a body that is sent with its head in one write, in bytes.
const WHOLE_BYTES_MAX: usize = 16 << 10;

impl<T: Protocol> Connection<T> {
    /// Writes an upstream's response.
    pub(super) async fn relay(
        &mut self,
        request: &RequestHead<'_>,
        at: (&Worker, &Resolved<'_>),
        response: UpstreamResponse,
        mut incoming: Incoming,
    ) -> Next {
        let UpstreamResponse { mut exchange, head, framing, coding, status, keeps_upstream } =
            response;
        let EncodedHead { bytes: out, is_reusable } = head;
        let (head_bytes, delimiter) = (out.len() as u64, framing.delimiter);
        self.note_upstream(&exchange.upstream);
        self.begin_response();
        let whole = match coding {
            None => whole_body(&mut exchange, &framing, &incoming),
            Some(_) => None,
        };
        match whole {
            Some((input, len)) => {
                if let Err(error) = self.send_from(out, input, len).await {
                    self.observe(Some(request), status, head_bytes, Err(error));
                    return next_after(error);
                }
            }
            None => {
                let relaying = self.relay_body(
                    request,
                    (&mut exchange, &mut incoming),
                    (out, framing, coding),
                );
                match Box::pin(relaying).await {
                    Ok(()) => {}
                    Err(RelayEnd::Cut(error)) => {
                        self.observe(Some(request), status, head_bytes, Err(error));
                        return cut_by(error, delimiter);
                    }
                    Err(RelayEnd::Reported(error)) => {
                        self.observe(Some(request), status, head_bytes, Err(error));
                        return Next::Linger;
                    }
                    Err(RelayEnd::Unsent(status)) => {
                        drop(exchange);
                        let answer = Answer::error(status, None);
                        let error = self.write_error(request, at, answer, incoming);
                        return Box::pin(error).await;
                    }
                }
            }
        }
        self.observe(Some(request), status, head_bytes, Ok(()));
        if keeps_upstream {
            exchange.upstream.finish();
        }
        match incoming {
            Incoming::Upload(upload) if !upload.reading.is_done() => {
                drop(exchange);
                Box::pin(self.discard_rest(*upload, is_reusable)).await
            }
            _ => self.after(is_reusable, false),
        }
    }

    /// Sends a response whose body has not arrived completely or is large; `out` holds its head.
    async fn relay_body(
        &mut self,
        request: &RequestHead<'_>,
        (exchange, incoming): (&mut UpstreamExchange, &mut Incoming),
        (out, framing, coding): (Output, Framing, Option<BodyCoding>),
    ) -> Result<(), RelayEnd> {
        let delimiter = framing.delimiter;
        let relayed = self.run_relay(request, (exchange, incoming), (out, framing, coding));
        let error = match relayed.await {
            Ok(()) => return Ok(()),
            Err(RelayError::Client(error)) => error,
            Err(RelayError::Upstream(failure)) => {
                let Failure { reason, status, is_reported, .. } = &*failure;
                let path = path_of(&request.target).map_or(&b"*"[..], |(path, _)| path);
                log_failure(&exchange.upstream, &describe(request, path), reason, *status);
                if self.sent.moved.get() == 0 {
                    return Err(RelayEnd::Unsent(*status));
                }
                if *is_reported {
                    return Err(RelayEnd::Reported(ExchangeError::ResponseBody));
                }
                if request.is_grpc() {
                    let trailers = failure.grpc_fields(&exchange.upstream, request);
                    // The client may be gone.
                    let _ = self.io.end(&mut Output::default(), delimiter, Some(&trailers));
                }
                match *status {
                    StatusCode::GATEWAY_TIMEOUT => ExchangeError::UpstreamTimeout,
                    _ => ExchangeError::ResponseBody,
                }
            }
        };
        Err(RelayEnd::Cut(error))
    }

    async fn run_relay(
        &mut self,
        request: &RequestHead<'_>,
        (exchange, incoming): (&mut UpstreamExchange, &mut Incoming),
        (out, framing, coding): (Output, Framing, Option<BodyCoding>),
    ) -> Result<(), RelayError> {
        self.sent.moved.set(0);
        // A response without a body has no coded bytes either.
        let coding = coding.filter(|_| framing.known_len() != Some(0));
        let encoder = coding.map(BodyEncoder::new).transpose()?;
        let UpstreamExchange { upstream, waits, .. } = exchange;
        let within_ms = upstream.read_timeout_ms();
        let te_trailers = request.te_trailers;
        let streaming = async |duplex: &Duplex<'_, T>| {
            let writer = BodyWriter::new(duplex, out, framing.delimiter);
            let mut relay = Relay { writer, framing, encoder, te_trailers, waits, within_ms };
            let relayed =
                upstream.beside(waits, async |source, input| relay.run(source, input).await);
            match relayed.await {
                Some(Err(RelayError::Upstream(failure))) => {
                    let fields = || failure.grpc_fields(upstream, request);
                    let is_reported = relay.end_call(fields).await?;
                    Err(RelayError::Upstream(Box::new(Failure { is_reported, ..*failure })))
                }
                Some(relayed) => relayed,
                None => Err(RelayError::Client(ExchangeError::ResponseBody)),
            }
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
                Err(RelayError::upstream(Phase::Reading.to_string(), StatusCode::GATEWAY_TIMEOUT))
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
    /// The response was cut short.
    Cut(ExchangeError),
    /// The body ends with the status of the failed call.
    Reported(ExchangeError),
    /// Nothing was sent; the client gets this status.
    Unsent(StatusCode),
}

/// The error that ends a body early.
pub(super) enum RelayError {
    /// The exchange with the client failed.
    Client(ExchangeError),
    /// The upstream failed.
    Upstream(Box<Failure>),
}

/// The failure of an upstream.
pub(super) struct Failure {
    /// The reason, for the log.
    reason: String,
    /// The status of the response if nothing was sent yet.
    status: StatusCode,
    /// The end of the upstream's stream.
    ended: Option<StreamError>,
    /// `true` if the body ends with the status of the failed call.
    is_reported: bool,
}

impl Failure {
    /// Returns the trailers of the failed call.
    fn grpc_fields(&self, upstream: &UpstreamRequest, call: &RequestHead<'_>) -> HeaderMap {
        let ended = self.ended.and_then(|error| grpc_status(upstream, call, &error));
        grpc_fields(ended.unwrap_or(GrpcStatus::of(self.status)), &self.reason)
    }
}

impl RelayError {
    pub(super) fn upstream(reason: String, status: StatusCode) -> RelayError {
        RelayError::Upstream(Box::new(Failure { reason, status, ended: None, is_reported: false }))
    }

    /// The upstream's channel failed within the body, or the request did.
    fn of_read(error: &io::Error) -> RelayError {
        let inner = error.get_ref();
        if inner.and_then(|error| error.downcast_ref::<MalformedBody>()).is_some() {
            return RelayError::upstream(error.to_string(), StatusCode::BAD_REQUEST);
        }
        let mut failed = truncated(error);
        let stream_error = inner.and_then(|error| error.downcast_ref::<StreamError>());
        if let RelayError::Upstream(failure) = &mut failed {
            failure.ended = stream_error.copied();
        }
        failed
    }
}

impl From<ExchangeError> for RelayError {
    fn from(error: ExchangeError) -> RelayError {
        RelayError::Client(error)
    }
}

/// A body that is being relayed.
struct Relay<'a, T> {
    writer: BodyWriter<'a, T>,
    framing: Framing,
    /// The encoder of the body; `None`: it is relayed as it is.
    encoder: Option<BodyEncoder>,
    /// `true` if the client accepts trailers.
    te_trailers: bool,
    waits: &'a Waits,
    /// Maximum time between two reads from the upstream, in milliseconds.
    within_ms: u64,
}

impl<T: Protocol> Relay<'_, T> {
    /// Relays the whole body.
    async fn run(&mut self, mut source: Source<'_>, input: &mut Input) -> Result<(), RelayError> {
        let Relay { writer, framing, encoder, te_trailers, waits, within_ms } = self;
        let reading = &mut framing.reading;
        loop {
            let piece = match reading {
                Some(reading) => reading.next(input).map_err(|error| truncated(&error))?,
                None if input.bytes().is_empty() => Piece::More,
                None => Piece::Data(input.bytes().len()),
            };
            match piece {
                Piece::Data(len) => match encoder {
                    None => writer.data(Data::Input(input, len), false).await?,
                    Some(encoder) => encoder.encode((input, len), writer).await?,
                },
                Piece::End(mut lines) => {
                    if let Some(encoder) = encoder.take() {
                        lines = encoder.end(lines, writer).await?;
                    }
                    return finish(writer, &lines, *te_trailers).await;
                }
                Piece::More => {
                    if let Some(encoder) = encoder {
                        encoder.flush(writer).await?;
                    }
                    writer.flush().await?;
                    match source.fill(input, reading.as_mut(), waits, Some(*within_ms)).await {
                        Ok(0) if reading.is_none() => {
                            if let Some(encoder) = encoder.take() {
                                encoder.end(Vec::new(), writer).await?;
                            }
                            return finish(writer, b"", *te_trailers).await;
                        }
                        Ok(0) if matches!(reading, Some(Reading::Ended(_))) => {}
                        Ok(0) => return Err(truncated(&"the connection ended early")),
                        Ok(_) => {}
                        Err(e) => return Err(RelayError::of_read(&e)),
                    }
                }
            }
        }
    }

    /// Ends the body of a gRPC-Web call that has failed after its head was sent. Returns `false` if it
    /// is another response, or if the client can still get another head.
    async fn end_call(&mut self, fields: impl FnOnce() -> HeaderMap) -> Result<bool, RelayError> {
        let is_call = matches!(self.encoder, Some(BodyEncoder::Web(_)));
        let Some(encoder) = self.encoder.take_if(|_| is_call && self.writer.has_sent()) else {
            return Ok(false);
        };
        let mut lines = Vec::new();
        for (name, value) in &fields() {
            field(&mut lines, name.as_str(), value.as_bytes());
        }
        encoder.end(lines, &mut self.writer).await?;
        self.writer.finish(None).await?;
        Ok(true)
    }
}

async fn finish<P: Protocol>(
    writer: &mut BodyWriter<'_, P>,
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
    RelayError::upstream(format!("truncated response: {error}"), StatusCode::BAD_GATEWAY)
}
