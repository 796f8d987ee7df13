//! The seam between an exchange (one request and its response) and the protocol that carries it.
//!
//! `Protocol` is implemented by HTTP/1.1 (`h1`) and by one stream (`multiplexed`) of HTTP/2 (`h2`)
//! or HTTP/3 (`h3`). It encodes response heads, delimits bodies, and reads request bodies; the
//! pipeline chooses the response.

pub(crate) mod h1;
pub(crate) mod h2;
pub(crate) mod h3;
pub(crate) mod multiplexed;
pub(crate) mod reading;
mod waiters;

use std::io;
use std::task::{Context, Poll};

use http::{HeaderMap, StatusCode, Version};
use hurtle_http::message::response::{Delimiter, Fields, Persistence};
use hurtle_http::message::response_head::ResponseHead;
use hurtle_http::request::framing::BodyLength;

use self::reading::Reading;
use crate::body::Body;
use crate::tls::ClientCertificate;
use crate::transport::{Attempt, Input, Output, Progress, SendQueue, Sender, Transport};

/// A response head before encoding.
pub(crate) struct Head<'a> {
    /// A final status, or 101.
    pub status: StatusCode,
    /// The fields, without those for framing and the connection.
    pub fields: &'a Fields,
    /// The delimiter of the body (RFC 9112 section 6).
    pub delimiter: Delimiter,
    /// The Connection option for the next request; HTTP/1 only.
    pub persistence: Persistence,
    /// The value of Date, if the fields have none.
    pub date: &'a [u8; 29],
}

/// The fields of an interim response.
#[derive(Clone, Copy)]
pub(crate) enum InterimFields<'a> {
    /// A response without fields: 100 (Continue).
    Empty,
    /// Fields from this server.
    Made(&'a HeaderMap),
    /// An upstream's interim response.
    Forwarded(&'a ResponseHead<'a>),
}

/// The protocol that carries one exchange. Methods take `&self`, so that a request body can be read
/// while the response is written.
pub(crate) trait Protocol {
    /// The byte stream beneath, for the protocol after a 101.
    type Raw: Transport;

    /// The version of the response.
    fn version(&self) -> Version;

    /// Returns whether the connection is encrypted.
    fn is_secure(&self) -> bool;

    /// The number of the client authentication policy that the handshake met; 0: none.
    fn policy(&self) -> u32;

    /// The server name that the client requested (RFC 6066 section 3).
    fn server_name(&self) -> Option<String>;

    /// The version of TLS and the cipher suite, for the log.
    fn cipher(&self) -> Option<(&'static str, &'static str)>;

    /// The client's certificate, if it was verified.
    fn client(&self) -> Option<ClientCertificate>;

    /// Returns whether the connection can carry another request after this one.
    fn carries_more(&self) -> bool;

    /// Appends an encoded head to `out`.
    fn encode_head(&self, out: &mut Vec<u8>, head: &Head<'_>);

    /// Appends an encoded interim response to `out`, or queues it to be sent.
    fn encode_interim(&self, out: &mut Vec<u8>, status: StatusCode, fields: InterimFields<'_>);

    /// Sends an encoded head and a complete body. Returns when the kernel (HTTP/1.1), or the state
    /// machine of the connection (HTTP/2, HTTP/3), has taken both; so a log record may precede the
    /// last bytes.
    ///
    /// # Errors
    /// Errors of the connection or the file (see `Sender::send`). The exchange must be dropped
    /// then.
    fn send(
        &mut self,
        sender: &Sender,
        head: Output,
        body: &Body,
        sent: &Progress,
    ) -> impl Future<Output = io::Result<()>>;

    /// Sends an encoded head and the first `len` bytes of `input`, which must be present.
    ///
    /// # Errors
    /// Errors of the connection.
    fn send_from(
        &mut self,
        head: Output,
        input: &mut Input,
        len: usize,
        sent: &Progress,
    ) -> impl Future<Output = io::Result<()>>;

    /// Begins to send a body in pieces. `head` is the encoded head. It is either sent, or left in
    /// place to leave with the first piece.
    ///
    /// # Errors
    /// Errors of the connection.
    fn begin(&self, head: &mut Output) -> io::Result<()>;

    /// Appends the framing before a piece of `len` bytes to `out`. Returns the framing after the
    /// piece.
    fn frame(&self, out: &mut Output, delimiter: Delimiter, len: usize) -> &'static [u8];

    /// Takes bytes from the front of `queue`: framing and pieces of a body in memory. On a shared
    /// connection, another task writes them, and chooses the mode.
    fn poll_send(
        &self,
        cx: &mut Context<'_>,
        queue: &mut SendQueue,
        attempt: Attempt,
    ) -> Poll<io::Result<usize>>;

    /// Waits until the taken bytes are on their way without further calls.
    fn poll_flush(&self, cx: &mut Context<'_>, attempt: Attempt) -> Poll<io::Result<()>>;

    /// Ends a body that was sent in pieces: appends the last framing to `out`, or sends it. Returns
    /// `false` if the bytes in `out` must be sent first; the caller then repeats the call.
    ///
    /// # Errors
    /// Errors of the connection.
    fn end(
        &self,
        out: &mut Output,
        delimiter: Delimiter,
        trailers: Option<&HeaderMap>,
    ) -> io::Result<bool>;

    /// Returns a number that grows with the bytes that the kernel takes while the exchange waits
    /// for `poll_send` or `poll_flush`.
    fn flushed_bytes(&self) -> u64;

    /// Returns the initial read state of a request body of this length.
    fn reading(&self, length: BodyLength) -> Reading;

    /// Reads more of a request body into `input`; 0 is the end of the peer's data.
    fn poll_fill(
        &self,
        cx: &mut Context<'_>,
        input: &mut Input,
        reading: &mut Reading,
    ) -> Poll<io::Result<usize>>;

    /// Waits until the peer has reset the exchange.
    fn reset(&self) -> impl Future<Output = ()>;

    /// Returns the byte stream beneath. `None`: it also carries other exchanges, and a tunnel moves
    /// its bytes as a body.
    fn raw(&self) -> Option<&Self::Raw>;
}

/// Returns the status of a response in HTTP/2 and HTTP/3: a tunnel begins with 200 (RFC 8441
/// section 5), not 101.
fn status_of_stream(status: StatusCode) -> StatusCode {
    if status == StatusCode::SWITCHING_PROTOCOLS { StatusCode::OK } else { status }
}

/// Returns whether a field belongs to an HTTP/1.1 connection (RFC 9113 section 8.2.2,
/// RFC 9114 section 4.2, RFC 8441 section 5).
fn is_of_connection(name: &[u8]) -> bool {
    let is = |known: &[u8]| name.eq_ignore_ascii_case(known);
    match name.len() {
        7 => is(b"upgrade"),
        10 => is(b"connection") || is(b"keep-alive"),
        16 => is(b"proxy-connection"),
        17 => is(b"transfer-encoding"),
        20 => is(b"sec-websocket-accept"),
        _ => false,
    }
}
