//! A connection or stream to an upstream, and reading from it.

use std::cell::Cell;
use std::future::poll_fn;
use std::task::Poll;
use std::{fmt, io};

use hurtle_http::message::response_head::{ResponseError, ResponseHead, parse_lines};

use super::peer::UpstreamError;
use super::wait::Waits;
use crate::protocol::h1::{HeadError, parse_head, read_head};
use crate::protocol::h2::{RequestStream, ResponseFields, StreamError};
use crate::protocol::reading::Reading;
use crate::transport::{Fill, Input, Taken, Transport, UpstreamSocket};

/// The way of one request to an upstream.
#[allow(clippy::large_enum_variant)] // A socket is the common case.
pub(crate) enum Channel {
    /// A connection that carries one request at a time: HTTP/1.1.
    Socket(UpstreamSocket),
    /// A stream of a connection that requests share: HTTP/2.
    Stream(RequestStream),
}

/// A connection or stream to an upstream.
pub(crate) struct Link {
    pub channel: Channel,
    /// Bytes that were read and are not yet consumed.
    pub input: Input,
    /// A head that was read and is not yet handled.
    pub(super) head: Option<RawHead>,
    /// `true`: the connection has carried a request before.
    pub reused: bool,
    /// The generation of the upstream's addresses when it was opened.
    pub(super) generation: u32,
}

/// The head of a response as received.
#[derive(Debug)]
pub(crate) enum RawHead {
    /// The text of HTTP/1.1.
    Text(Taken),
    /// The text of HTTP/1.1, with edited fields.
    Edited(Vec<u8>),
    /// The fields of HTTP/2.
    Fields(ResponseFields),
}

/// A channel that a response is read from; a request may be written to it meanwhile.
pub(crate) struct Source<'a> {
    pub(super) channel: &'a Channel,
    /// Becomes `true` if the request's body is malformed; `None`: none is sent meanwhile.
    pub(super) is_malformed: Option<&'a Cell<bool>>,
}

/// The error of a response that ends early, because the request's body is malformed.
#[derive(Debug)]
pub(super) struct MalformedBody;

impl fmt::Display for MalformedBody {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        UpstreamError::BadRequest.fmt(f)
    }
}

impl std::error::Error for MalformedBody {}

impl RawHead {
    /// Returns the digits of the status.
    pub(super) fn status(&self) -> &[u8] {
        match self {
            RawHead::Text(text) => text.get(9..12).unwrap_or_default(),
            RawHead::Edited(text) => text.get(9..12).unwrap_or_default(),
            RawHead::Fields(fields) => fields.status.as_str().as_bytes(),
        }
    }

    /// Parses the head.
    ///
    /// # Errors
    /// It is malformed.
    pub(crate) fn parse(&self) -> Result<ResponseHead<'_>, ResponseError> {
        match self {
            RawHead::Text(text) => parse_head(text),
            RawHead::Edited(text) => parse_head(text),
            RawHead::Fields(ResponseFields { status, lines, is_end }) => {
                parse_lines(*status, lines, *is_end)
            }
        }
    }
}

impl Link {
    /// A connection for one request at a time.
    pub(super) fn new(io: UpstreamSocket, reused: bool, generation: u32) -> Link {
        let channel = Channel::Socket(io);
        Link { channel, input: Input::default(), head: None, reused, generation }
    }

    /// A stream, on which the request has begun.
    pub(super) fn of_stream(stream: RequestStream) -> Link {
        let (reused, channel) = (stream.is_reused(), Channel::Stream(stream));
        Link { channel, input: Input::default(), head: None, reused, generation: 0 }
    }

    /// Returns whether the request began on a connection that had been idle since another one.
    pub(super) fn was_idle(&self) -> bool {
        match &self.channel {
            Channel::Socket(_) => self.reused,
            Channel::Stream(stream) => stream.was_idle(),
        }
    }
}

impl fmt::Debug for Link {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        f.debug_struct("Link").field("reused", &self.reused).finish_non_exhaustive()
    }
}

impl Channel {
    /// Reads a response's head. It is cancel-safe: bytes that were read stay in `input`.
    pub(super) async fn head(&self, input: &mut Input) -> Result<RawHead, UpstreamError> {
        match self {
            Channel::Socket(io) => Ok(RawHead::Text(read_head(io, input).await?)),
            Channel::Stream(stream) => {
                let head = poll_fn(|cx| stream.poll_head(cx)).await;
                head.map(RawHead::Fields).map_err(UpstreamError::from)
            }
        }
    }
}

impl<'a> Source<'a> {
    /// A channel on which the request was sent whole.
    pub(super) fn new(channel: &'a Channel) -> Source<'a> {
        Source { channel, is_malformed: None }
    }

    /// Reads once from a body within `within_ms` (`None`: without a limit). 0 bytes mean the end of
    /// the connection, or of the stream's body, which is then in `reading`.
    ///
    /// # Errors
    /// Those of the channel, or `MalformedBody`.
    pub(crate) async fn fill(
        &mut self,
        input: &mut Input,
        mut reading: Option<&mut Reading>,
        waits: &Waits,
        within_ms: Option<u64>,
    ) -> io::Result<usize> {
        let _wait = within_ms.map(|ms| waits.read(ms));
        poll_fn(|cx| {
            if self.is_malformed.is_some_and(Cell::get) {
                return Poll::Ready(Err(io::Error::other(MalformedBody)));
            }
            match (self.channel, reading.as_deref_mut()) {
                (Channel::Socket(io), _) => io.poll_fill(cx, input, Fill::Body),
                (Channel::Stream(stream), Some(reading)) => stream.poll_fill(cx, input, reading),
                // The body of a stream always has a state.
                (Channel::Stream(_), None) => Poll::Ready(Err(io::ErrorKind::InvalidInput.into())),
            }
        })
        .await
    }
}

impl From<HeadError> for UpstreamError {
    fn from(error: HeadError) -> UpstreamError {
        match error {
            HeadError::Gone(error) => UpstreamError::Gone(error),
            HeadError::Cut => UpstreamError::Cut,
            HeadError::Malformed(error) => UpstreamError::BadResponse(error),
        }
    }
}

impl From<StreamError> for UpstreamError {
    fn from(error: StreamError) -> UpstreamError {
        match error {
            StreamError::Closed => UpstreamError::Gone(None),
            StreamError::Unprocessed => UpstreamError::Unprocessed,
            StreamError::Reset(_) | StreamError::Violation(_) => UpstreamError::Stream(error),
        }
    }
}
