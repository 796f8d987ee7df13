//! Requests and responses on a connection that they share, as HTTP/2 and HTTP/3 have them: one
//! `Stream` is an exchange. `FrameStream` is what differs: frames, and flow control.

mod body;
mod stream;

use std::io;
use std::task::{Context, Poll};

use bytes::Bytes;
use http::{StatusCode, Version};
use hurtle_http::stream::FieldSection;

use super::reading::Reading;
use crate::tls::ClientCertificate;
use crate::transport::Input;

pub(crate) use self::stream::Stream;

/// A request head that has arrived.
pub(crate) enum Arrived {
    /// The fields, and whether the request ends with them.
    Head(FieldSection, bool),
    /// The fields exceed the size limit; those before it.
    TooLarge(FieldSection),
}

/// Returns whether the response to a head that is too large has no content: always if its method is
/// not known (RFC 9110 section 9.3.2).
pub(super) fn is_head_or_unknown(head: &FieldSection) -> bool {
    matches!(head.method(), b"HEAD" | b"")
}

/// The properties of a connection that all its requests have.
#[derive(Debug)]
pub(crate) struct Security {
    /// `true` if it is encrypted.
    pub is_secure: bool,
    /// The number of the client authentication policy that the handshake met; 0: none.
    pub policy: u32,
    /// The server name that the client requested (RFC 6066 section 3).
    pub server_name: Option<String>,
    /// The version of TLS and the cipher suite, for the log.
    pub cipher: Option<(&'static str, &'static str)>,
    /// The client's certificate, if it was verified.
    pub client: Option<ClientCertificate>,
}

/// The reason for which a stream is reset.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(crate) enum ResetCause {
    /// The response is given up, and must not look complete.
    Cancelled,
    /// The exchange was dropped.
    Failed,
}

/// A connection that carries several requests at once.
pub(crate) trait Session {
    /// The frames of its streams.
    type Frames: FrameStream + 'static;

    /// Waits for the next request. `None`: the connection has ended. The connection moves bytes
    /// only while this is awaited.
    async fn next(&mut self) -> Option<(Arrived, Stream<Self::Frames>)>;

    /// Runs `task`, which may queue bytes without waking this connection's task. The caller must
    /// await `next` right after it.
    fn aside(&self, task: impl FnOnce());

    /// Sends GOAWAY: completes requests in progress.
    fn leave(&mut self);
}

/// The frames of one stream. Errors are those of a stream or a connection that is gone.
pub(crate) trait FrameStream {
    /// The version of the response.
    const VERSION: Version;
    /// Most bytes of a streamed body that are queued at once.
    const QUEUED_BYTES_MAX: usize;
    /// `true`: other responses take their turn after each piece of a file.
    const GIVES_WAY: bool;

    /// Returns the connection's properties.
    fn security(&self) -> &Security;

    /// Returns whether the peer still takes part in the stream.
    fn is_open(&self) -> bool;

    /// Waits for an event of the stream.
    fn wait(&self, cx: &Context<'_>);

    /// Sends the head of the response. A body of `len` bytes follows, or one of any length, unless
    /// `is_end`. The head may be kept until the first data.
    ///
    /// # Errors
    /// The stream is gone.
    fn send_head<'f>(
        &self,
        status: StatusCode,
        fields: impl Iterator<Item = (&'f [u8], &'f [u8])>,
        len: Option<u64>,
        is_end: bool,
    ) -> io::Result<()>;

    /// Sends a head that is kept.
    ///
    /// # Errors
    /// The stream is gone.
    fn flush_head(&self) -> io::Result<()>;

    /// Sends the head of an interim response.
    fn send_interim<'f>(
        &self,
        status: StatusCode,
        fields: impl Iterator<Item = (&'f [u8], &'f [u8])>,
    );

    /// Queues data within the room. `has_len`: the head named the length of the body.
    ///
    /// # Errors
    /// The stream is gone.
    fn send_data(&self, data: Bytes, has_len: bool, is_last: bool) -> io::Result<()>;

    /// Ends the response with trailers.
    ///
    /// # Errors
    /// The stream is gone.
    fn send_trailers<'f>(
        &self,
        fields: impl Iterator<Item = (&'f [u8], &'f [u8])>,
    ) -> io::Result<()>;

    /// Waits until some of `wanted` bytes may be queued. Returns their number.
    ///
    /// # Errors
    /// The stream is gone.
    fn poll_room(&self, cx: &Context<'_>, wanted: usize) -> Poll<io::Result<usize>>;

    /// Returns how many of `wanted` bytes may be queued now.
    ///
    /// # Errors
    /// The stream is gone.
    fn room_now(&self, wanted: usize) -> io::Result<usize>;

    /// Waits until the queued bytes are on their way without further calls.
    ///
    /// # Errors
    /// The stream is gone.
    fn poll_flush(&self, cx: &Context<'_>) -> Poll<io::Result<()>>;

    /// Returns a number that grows while the peer is not to blame for a wait.
    fn flushed_bytes(&self) -> u64;

    /// Returns the bytes of a file that are read at once.
    fn piece_bytes(&self) -> usize;

    /// Reads more of the request's body. The end is in `reading`, with the trailers.
    ///
    /// # Errors
    /// The stream is gone.
    fn poll_read(
        &self,
        cx: &Context<'_>,
        input: &mut Input,
        reading: &mut Reading,
    ) -> Poll<io::Result<usize>>;

    /// Returns whether queued bytes may never reach a client that opens no window. Those of HTTP/2
    /// are within the windows.
    fn is_held(&self) -> bool {
        false
    }

    fn reset(&self, cause: ResetCause);

    /// Ends the exchange: no more of the request is read, and its place on the connection is free.
    fn close(&self);
}
