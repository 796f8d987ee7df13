//! The client's side of HTTP/2: requests to an upstream as streams of a connection that they share.

use std::future::poll_fn;
use std::rc::Rc;
use std::task::{Context, Poll, ready};
use std::{fmt, io};

use bytes::Bytes;
use http::{HeaderMap, StatusCode};
use hurtle_http::h2::{Connection, Limits, Reason, RequestLine};
use hurtle_http::message::response_head::HEAD_BYTES_MAX;
use hurtle_http::request::RequestFields;
use hurtle_http::request::fields::is_allowed_in_trailers;

use super::super::reading::Reading;
use super::frames::poll_read;
use super::{Session, Shared, is_of_connection};
use crate::transport::{Input, Transport};

/// Maximum number of concurrent requests on one connection, also if the upstream allows more.
pub(crate) const STREAMS_MAX: u32 = 100;

/// Window of a connection, in bytes: twice the bodies that all streams may leave unread, because a
/// window is announced again once half of it is free. So slow readers of some streams never stop
/// the others.
const CONNECTION_WINDOW_BYTES: u32 = 2 * STREAMS_MAX * STREAM_WINDOW_BYTES;

/// Maximum size of a stream's unread body, in bytes.
const STREAM_WINDOW_BYTES: u32 = 256 << 10;

/// A request on a shared connection. Dropping it resets the stream, unless it is complete.
pub(crate) struct RequestStream {
    shared: Rc<Shared>,
    id: u32,
    /// `true` if the connection had carried requests before, but carried no other one then.
    was_idle: bool,
}

/// The head of a response.
#[derive(Debug)]
pub(crate) struct ResponseFields {
    /// The status, 100 to 599.
    pub status: StatusCode,
    /// The field lines, each ended by CRLF, and the empty line.
    pub lines: Vec<u8>,
    /// `true` if neither a body nor trailers follow.
    pub is_end: bool,
}

/// The end of a stream before its response was complete.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum StreamError {
    /// The upstream has not processed the request (RFC 9113 section 8.7).
    Unprocessed,
    /// The upstream has reset the stream.
    Reset(Reason),
    /// The upstream has violated the protocol.
    Violation(Reason),
    /// The connection has ended.
    Closed,
}

impl fmt::Display for StreamError {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        match self {
            StreamError::Unprocessed => f.write_str("it refused the stream"),
            StreamError::Reset(reason) => write!(f, "it reset the stream: {reason}"),
            StreamError::Violation(reason) => write!(f, "it violates HTTP/2: {reason}"),
            StreamError::Closed => f.write_str("the connection ended early"),
        }
    }
}

impl std::error::Error for StreamError {}

impl From<StreamError> for io::Error {
    fn from(error: StreamError) -> io::Error {
        io::Error::other(error)
    }
}

impl<T: Transport> Session<T> {
    /// Begins a connection to an upstream.
    pub(crate) fn connect(io: T) -> Session<T> {
        let limits = Limits {
            streams_max: STREAMS_MAX,
            header_list_bytes_max: HEAD_BYTES_MAX,
            stream_window_bytes: STREAM_WINDOW_BYTES,
            connection_window_bytes: CONNECTION_WINDOW_BYTES,
            ..Limits::default()
        };
        Session::of(io, Input::default(), |now_ms| Connection::client(&limits, now_ms))
    }

    /// Waits for the upstream's settings.
    ///
    /// # Errors
    /// The upstream does not speak HTTP/2, or has closed the connection.
    pub(crate) async fn establish(&mut self) -> Result<(), StreamError> {
        poll_fn(|cx| {
            let polled = self.poll_next(cx);
            match self.shared.failure() {
                Some(error) => Poll::Ready(Err(error)),
                None if self.shared.is_established() => Poll::Ready(Ok(())),
                None if polled.is_ready() => Poll::Ready(Err(StreamError::Closed)),
                None => Poll::Pending,
            }
        })
        .await
    }

    /// Moves bytes until the connection has ended.
    pub(crate) async fn run(&mut self) {
        while poll_fn(|cx| self.poll_next(cx)).await.is_some() {}
    }
}

impl Shared {
    /// Returns whether a request may begin now.
    pub(crate) fn can_open(&self) -> bool {
        self.codec.borrow().can_open()
    }

    /// Returns whether the upstream accepts requests, now or later.
    pub(crate) fn is_accepting(&self) -> bool {
        self.codec.borrow().is_accepting()
    }

    /// Returns whether the upstream takes extended CONNECT requests (RFC 8441 section 3).
    pub(crate) fn allows_connect(&self) -> bool {
        self.codec.borrow().allows_connect()
    }

    /// Begins no more requests; the connection ends after those in progress.
    pub(crate) fn leave(&self) {
        self.codec.borrow_mut().graceful_shutdown();
        self.queued();
    }

    /// Returns the error that has failed the connection.
    fn failure(&self) -> Option<StreamError> {
        self.codec.borrow().failure().map(|reason| match reason {
            Reason::NO_ERROR => StreamError::Closed,
            reason => StreamError::Violation(reason),
        })
    }

    /// Wakes the connection's task if there are bytes to write, or the connection ends.
    fn written(&self) {
        let codec = self.codec.borrow();
        if codec.queued() > 0 || codec.is_finished() {
            drop(codec);
            self.queued();
        }
    }
}

impl RequestStream {
    /// Sends the head of a request; `is_end`: there is no body. Fields of an HTTP/1.1 connection
    /// are left out. `None`: the connection has no room.
    pub(crate) fn open<'f>(
        shared: &Rc<Shared>,
        line: &RequestLine<'_>,
        fields: impl Iterator<Item = (&'f [u8], &'f [u8])>,
        is_end: bool,
    ) -> Option<RequestStream> {
        let fields = fields.filter(|(name, _)| !is_of_connection(name));
        let id = shared.codec.borrow_mut().open(line, fields, is_end).ok()?;
        shared.pulse.stream_begins();
        let was_idle = id > 1 && shared.pulse.is_unheard();
        shared.queued();
        Some(RequestStream { shared: Rc::clone(shared), id, was_idle })
    }

    /// Returns whether the connection has carried another request before.
    pub(crate) fn is_reused(&self) -> bool {
        self.id > 1
    }

    /// Returns whether the request began, alone or with others, on a connection that had been idle
    /// since another one. The upstream may have closed it at that moment.
    pub(crate) fn was_idle(&self) -> bool {
        self.was_idle
    }

    /// Lets the connection begin no more requests.
    pub(crate) fn retire(&self) {
        self.shared.leave();
    }

    /// Waits for the next head of the response.
    ///
    /// # Errors
    /// There will be no head.
    pub(crate) fn poll_head(&self, cx: &Context<'_>) -> Poll<Result<ResponseFields, StreamError>> {
        let read = self.shared.codec.borrow_mut().read_head(self.id);
        match read {
            Err(_) => Poll::Ready(Err(self.error())),
            Ok(None) => {
                self.shared.waiting.wait(self.id, cx);
                Poll::Pending
            }
            Ok(Some((section, is_end))) => {
                let mut lines = RequestFields::Section(&section).to_lines();
                lines.extend_from_slice(b"\r\n");
                // The codec accepts no other status.
                let status = StatusCode::from_u16(section.status()).unwrap_or(StatusCode::OK);
                Poll::Ready(Ok(ResponseFields { status, lines, is_end }))
            }
        }
    }

    /// Reads more of the response's body; as `Protocol::poll_fill`.
    pub(crate) fn poll_fill(
        &self,
        cx: &Context<'_>,
        input: &mut Input,
        reading: &mut Reading,
    ) -> Poll<io::Result<usize>> {
        let read = ready!(poll_read(&self.shared, self.id, cx, input, reading));
        self.shared.written();
        Poll::Ready(read.map_err(|_| self.error().into()))
    }

    /// Sends a part of `data`, which is not empty, as flow control allows; `is_last`: the request
    /// ends with `data`. Returns the number of bytes.
    ///
    /// # Errors
    /// The upstream reads no more.
    pub(crate) fn poll_send(
        &self,
        cx: &Context<'_>,
        data: &mut Bytes,
        is_last: bool,
    ) -> Poll<io::Result<usize>> {
        let room = ready!(self.poll_room(cx, data.len()))?;
        let piece = data.split_to(room);
        let is_last = is_last && data.is_empty();
        Poll::Ready(self.put(piece, is_last).map(|()| room))
    }

    /// Waits until some of `wanted` bytes, which are more than 0, may be sent. Returns their
    /// number.
    ///
    /// # Errors
    /// The upstream reads no more.
    pub(crate) fn poll_room(&self, cx: &Context<'_>, wanted: usize) -> Poll<io::Result<usize>> {
        let capacity = self.shared.codec.borrow_mut().capacity(self.id, wanted);
        match capacity {
            Err(_) => Poll::Ready(Err(self.error().into())),
            Ok(0) => {
                self.shared.waiting.wait(self.id, cx);
                Poll::Pending
            }
            Ok(room) => Poll::Ready(Ok(room)),
        }
    }

    /// Ends the request.
    ///
    /// # Errors
    /// The upstream reads no more.
    pub(crate) fn end(&self, trailers: Option<&HeaderMap>) -> io::Result<()> {
        let trailers = trailers.into_iter().flatten();
        let mut trailers = trailers.filter(|(name, _)| is_allowed_in_trailers(name)).peekable();
        if trailers.peek().is_none() {
            return self.put(Bytes::new(), true);
        }
        let fields = trailers.map(|(name, value)| (name.as_str().as_bytes(), value.as_bytes()));
        let sent = self.shared.codec.borrow_mut().send_trailers(self.id, fields);
        self.shared.queued();
        sent.map_err(|_| self.error().into())
    }

    /// Sends data within the room that `poll_room` has returned; `is_last`: the request ends with
    /// it.
    ///
    /// # Errors
    /// The upstream reads no more.
    pub(crate) fn put(&self, data: Bytes, is_last: bool) -> io::Result<()> {
        let sent = self.shared.codec.borrow_mut().send_data(self.id, data, is_last);
        self.shared.queued();
        sent.map_err(|_| self.error().into())
    }

    /// Returns the reason for the end of the stream.
    fn error(&self) -> StreamError {
        let reset = self.shared.codec.borrow().reset_reason(self.id);
        match reset {
            Some((Reason::REFUSED_STREAM, true)) => StreamError::Unprocessed,
            Some((reason, true)) => StreamError::Reset(reason),
            Some((reason, false)) => StreamError::Violation(reason),
            None => self.shared.failure().unwrap_or(StreamError::Closed),
        }
    }
}

impl fmt::Debug for RequestStream {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        f.debug_struct("RequestStream").field("id", &self.id).finish_non_exhaustive()
    }
}

impl Drop for RequestStream {
    fn drop(&mut self) {
        self.shared.codec.borrow_mut().finish(self.id);
        self.shared.waiting.forget(self.id);
        self.shared.pulse.stream_ends();
        self.shared.written();
    }
}
