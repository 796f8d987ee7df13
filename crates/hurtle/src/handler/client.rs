//! The client's side of an exchange, as far as a handler needs it while it waits: the request's
//! body, interim responses, and the end of the exchange.

use std::net::IpAddr;
use std::pin::Pin;
use std::sync::Arc;

use bytes::Bytes;
use http::{HeaderMap, HeaderValue, StatusCode, Version};
use hurtle_http::message::forwarded_headers::ForwardedHeaders;
use hurtle_http::request::ParseError;
use hurtle_http::semantics::forwarded::Family;

use super::wait::Waits;
use crate::body::RequestBody;
use crate::cache::CacheStatus;
use crate::observe::BufferedBytes;
use crate::protocol::InterimFields;
use crate::tls::ClientCertificate;
use crate::transport::{Input, Piece};

/// The properties of a connection and its client.
#[derive(Clone, Copy, Debug)]
pub(crate) struct ClientInfo {
    /// The address of the peer; `None` on a unix socket.
    pub peer: Option<IpAddr>,
    /// The address of the client: the peer's, or the one that a trusted proxy names.
    pub address: Option<IpAddr>,
    /// The forwarding fields that are used, if the peer is a trusted proxy.
    pub trusted: Option<Family>,
    /// `true` if the connection is encrypted.
    pub is_tls: bool,
    /// The protocol of the connection.
    pub version: Version,
    /// The port of the listener; `None`: a unix socket.
    pub port: Option<u16>,
}

/// Returns whether nobody between the client and the server sees or changes what is sent: the
/// connection is encrypted, or does not leave the machine. `peer` is `None` on a unix socket.
pub(crate) fn is_private(is_tls: bool, peer: Option<IpAddr>) -> bool {
    is_tls || peer.is_none_or(|peer| peer.to_canonical().is_loopback())
}

/// The sender of 100 (Continue).
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(crate) enum Continue {
    /// The pipeline sends it when the handler begins to read the body.
    OnRead,
    /// The handler sends it.
    ByHandler,
}

/// The error that ends an exchange early.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(crate) enum ExchangeError {
    /// The peer has closed or reset the connection.
    Gone,
    /// The peer does not read the response.
    Stalled,
    /// The request body is malformed.
    ParseError(ParseError),
    /// The handler failed, or sent a body of another length than declared.
    ResponseBody,
    /// The upstream's deadline passed.
    UpstreamTimeout,
}

/// A part of a response's body on its way to the client.
pub(crate) enum Frame<'a> {
    /// A piece. `true`: the end follows.
    Data(Data<'a>, bool),
    /// All that was written is sent now, because a wait follows.
    Flush,
    /// The end, with trailers.
    End(Option<HeaderMap>),
}

/// Pieces up to this size are copied, in bytes, so that an input keeps its buffer.
const COPIED_BYTES_MAX: usize = 8 << 10;

/// A piece of a body. Large ones are sent without a copy.
pub(crate) enum Data<'a> {
    /// The first bytes of an input, this many; they are consumed.
    Input(&'a mut Input, usize),
    Bytes(Bytes),
}

impl Data<'_> {
    pub(crate) fn bytes(&self) -> &[u8] {
        match self {
            Data::Input(input, len) => &input.bytes()[..*len],
            Data::Bytes(bytes) => bytes,
        }
    }

    /// Removes the bytes from their input.
    pub(crate) fn consume(self) {
        if let Data::Input(input, len) = self {
            input.consume(len);
        }
    }

    /// Takes the bytes; short ones are copied.
    pub(crate) fn into_bytes(self) -> Bytes {
        match self {
            Data::Input(input, len) if len <= COPIED_BYTES_MAX => {
                let bytes = Bytes::copy_from_slice(&input.bytes()[..len]);
                input.consume(len);
                bytes
            }
            Data::Input(input, len) => Bytes::from_owner(input.take(len)),
            Data::Bytes(bytes) => bytes,
        }
    }

    /// Takes the bytes without a copy.
    pub(crate) fn into_piece(self) -> Piece {
        match self {
            Data::Input(input, len) => input.take(len).into(),
            Data::Bytes(bytes) => bytes.into(),
        }
    }
}

/// The client of one exchange. The pipeline implements it for every protocol.
pub(crate) trait Client {
    /// Returns the client's certificate, if it was verified.
    fn certificate(&self) -> Option<ClientCertificate>;

    /// Returns the request's body, which arrives while [`Client::beside`] runs. Called at most
    /// once.
    fn body(&mut self, sends_continue: Continue) -> RequestBody;

    /// Records that the client gets no 100 (Continue), although it may wait for one.
    fn withhold_continue(&mut self);

    /// Reads and discards the body, for a handler that does not read it. The response to a refused
    /// request does not wait for its body.
    ///
    /// # Errors
    /// The body is malformed, too large or too slow, or the client is gone.
    fn discard_body(&mut self, is_refused: bool)
    -> impl Future<Output = Result<(), ExchangeError>>;

    /// Runs `work` while the request's body arrives.
    ///
    /// # Errors
    /// The client is gone or does not read, its body is malformed, or a deadline of `waits` passed.
    fn beside<R>(
        &mut self,
        waits: &Waits,
        work: impl AsyncFnOnce(&dyn InterimSender) -> R,
    ) -> impl Future<Output = Result<R, ExchangeError>>;

    /// Runs `work` until `due_ms`, on the scale of `clock`. The request has no body.
    ///
    /// # Errors
    /// The client is gone, or the time has passed.
    fn until<R>(
        &mut self,
        due_ms: u64,
        work: impl Future<Output = R>,
    ) -> impl Future<Output = Result<R, ExchangeError>>;

    /// Returns the Link field that the site adds to the response, if it is worth a 103.
    fn hint(&self) -> Option<HeaderValue>;

    /// Returns the forwarding fields of the connection's previous request; `None` for the first
    /// request.
    fn forwarded_headers(&mut self) -> Option<&mut ForwardedHeaders>;

    /// Returns the cache's handling of the request, for the response and the access log.
    fn cache_status(&mut self) -> &mut Option<CacheStatus>;

    /// Returns the counts of the request's bytes in files; `None`: no log has them.
    fn buffered(&self) -> Option<Arc<BufferedBytes>>;
}

/// Sends interim responses (RFC 9110 section 15.2). They are rare, so the future is boxed.
pub(crate) trait InterimSender {
    /// Sends an interim response.
    fn send<'a>(&'a self, status: StatusCode, fields: InterimFields<'a>) -> Sending<'a>;
}

/// The future of an interim response.
pub(crate) type Sending<'a> = Pin<Box<dyn Future<Output = Result<(), ExchangeError>> + 'a>>;
