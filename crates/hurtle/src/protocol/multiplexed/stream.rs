//! One exchange on a shared connection: reads the request body and sends the response, within the
//! peer's flow control windows.

use std::cell::Cell;
use std::future::poll_fn;
use std::io;
use std::task::{Context, Poll, ready};

use bytes::Bytes;
use http::{HeaderMap, StatusCode, Version};
use hurtle_http::message::field_lines::number_field;
use hurtle_http::message::forward;
use hurtle_http::message::response::{self, Delimiter};
use hurtle_http::request::BodyLength;
use hurtle_http::request::fields::{is_allowed_in_trailers, pairs};

use super::super::reading::Reading;
use super::super::{Head, InterimFields, Protocol, is_of_connection, status_of_stream};
use super::{FrameStream, ResetCause};
use crate::answer::is_bodiless;
use crate::body::Body;
use crate::tls::ClientCertificate;
use crate::transport::meter::Hold;
use crate::transport::{Attempt, Input, Output, Plain, Progress, SendQueue, Sender};

/// A request and its response.
pub(crate) struct Stream<F: FrameStream> {
    pub(super) frames: F,
    /// `true` if the request is a HEAD.
    is_head: bool,
    /// The response's status and delimiter, from encoding to sending.
    head: Cell<(StatusCode, Delimiter)>,
    state: Cell<StreamState>,
}

/// The progress of the response.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
enum StreamState {
    /// The head has not been sent.
    Head,
    /// The number of body bytes still to be sent.
    Exactly(u64),
    /// The body ends when its writer ends it.
    Open,
    Over,
}

impl<F: FrameStream> Stream<F> {
    pub(in super::super) fn new(frames: F, is_head: bool) -> Stream<F> {
        let head = Cell::new((StatusCode::OK, Delimiter::Given));
        Stream { frames, is_head, head, state: Cell::new(StreamState::Head) }
    }

    /// Ends a complete exchange.
    pub(crate) fn finish(&self) {
        if self.state.get() == StreamState::Open {
            // The peer may be gone.
            let _ = self.put(Bytes::new(), true);
        }
    }

    /// Resets the stream, so that the response cannot look complete. One whose last bytes are held
    /// back is not complete for the client.
    pub(crate) fn abort(&self) {
        let is_over = self.state.replace(StreamState::Over) == StreamState::Over;
        if !is_over || self.frames.is_held() {
            self.frames.reset(ResetCause::Cancelled);
        }
    }

    fn reset_for(&self, cause: ResetCause) {
        if self.state.replace(StreamState::Over) != StreamState::Over {
            self.frames.reset(cause);
        }
    }

    /// Sends the head; `lines` are its encoded fields.
    fn send_head(&self, lines: &[u8], is_end: bool) -> io::Result<()> {
        let (status, delimiter) = self.head.get();
        let is_empty = delimiter == Delimiter::Length(0);
        let is_end = is_end || is_empty || self.is_head || is_bodiless(status);
        let fields = pairs(lines).filter(|(name, _)| !is_of_connection(name));
        let (len, state) = match delimiter {
            _ if is_end => (None, StreamState::Over),
            Delimiter::Length(len) => (Some(len), StreamState::Exactly(len)),
            _ => (None, StreamState::Open),
        };
        self.frames.send_head(status, fields, len, is_end)?;
        self.state.set(state);
        Ok(())
    }

    /// Queues data within the available room. `is_last` ends the response.
    pub(super) fn put(&self, data: Bytes, is_last: bool) -> io::Result<()> {
        let mut is_last = is_last;
        let state = self.state.get();
        if let StreamState::Exactly(left) = state {
            let left = left.saturating_sub(data.len() as u64);
            self.state.set(StreamState::Exactly(left));
            is_last |= left == 0;
        }
        if is_last {
            self.state.set(StreamState::Over);
        }
        self.frames.send_data(data, matches!(state, StreamState::Exactly(_)), is_last)
    }

    fn is_over(&self) -> bool {
        self.state.get() == StreamState::Over
    }

    /// Waits until all bytes of the response so far are on their way.
    async fn flushed(&self, sent: &Progress) -> io::Result<()> {
        poll_fn(|cx| {
            let flushed = self.frames.poll_flush(cx);
            if flushed.is_pending() {
                sent.flushed.set(self.frames.flushed_bytes());
            }
            flushed
        })
        .await
    }
}

impl<F: FrameStream> Protocol for Stream<F> {
    type Raw = Plain;

    fn version(&self) -> Version {
        F::VERSION
    }

    fn is_secure(&self) -> bool {
        self.frames.security().is_secure
    }

    fn policy(&self) -> u32 {
        self.frames.security().policy
    }

    fn server_name(&self) -> Option<String> {
        self.frames.security().server_name.clone()
    }

    fn cipher(&self) -> Option<(&'static str, &'static str)> {
        self.frames.security().cipher
    }

    fn client(&self) -> Option<ClientCertificate> {
        self.frames.security().client.clone()
    }

    fn carries_more(&self) -> bool {
        false
    }

    /// Stores the status and delimiter, and appends the fields to `out` as lines.
    fn encode_head(&self, out: &mut Vec<u8>, head: &Head<'_>) {
        self.head.set((status_of_stream(head.status), head.delimiter));
        response::encode_fields(out, head.date, head.fields);
        if let Delimiter::Length(len) = head.delimiter {
            number_field(out, "Content-Length", len);
        }
    }

    /// Queues the interim response; appends nothing to `out`.
    fn encode_interim(&self, _out: &mut Vec<u8>, status: StatusCode, fields: InterimFields<'_>) {
        let mut lines = Output::new();
        match fields {
            InterimFields::Empty => {}
            InterimFields::Made(fields) => response::encode_interim_fields(fields, lines.vec()),
            InterimFields::Forwarded(reply) => forward::interim_fields(lines.vec(), reply),
        }
        let fields = pairs(&lines).filter(|(name, _)| !is_of_connection(name));
        self.frames.send_interim(status, fields);
    }

    async fn send(
        &mut self,
        sender: &Sender,
        head: Output,
        body: &Body,
        sent: &Progress,
    ) -> io::Result<()> {
        let is_end = matches!(body, Body::Empty);
        self.send_head(&head, is_end)?;
        sent.moved.set(sent.moved.get() + head.len() as u64);
        drop(head);
        if !is_end {
            self.send_body(sender, body, sent).await?;
        }
        self.flushed(sent).await
    }

    async fn send_from(
        &mut self,
        head: Output,
        input: &mut Input,
        len: usize,
        sent: &Progress,
    ) -> io::Result<()> {
        self.send_head(&head, len == 0)?;
        sent.moved.set(sent.moved.get() + head.len() as u64);
        drop(head);
        let data = Bytes::copy_from_slice(&input.bytes()[..len]);
        input.consume(len);
        if !self.is_over() {
            let hold = Hold::new(0, sent);
            self.send_held(data, true, sent, hold.as_deref()).await?;
        }
        self.flushed(sent).await
    }

    fn begin(&self, head: &mut Output) -> io::Result<()> {
        self.send_head(head, false)?;
        head.vec().clear();
        // The head leaves now, because the first bytes of the body may come much later.
        self.frames.flush_head()
    }

    fn frame(&self, _out: &mut Output, _delimiter: Delimiter, _len: usize) -> &'static [u8] {
        b""
    }

    fn poll_send(
        &self,
        cx: &mut Context<'_>,
        queue: &mut SendQueue,
        _attempt: Attempt,
    ) -> Poll<io::Result<usize>> {
        let wanted = queue.len().min(F::QUEUED_BYTES_MAX);
        let room = ready!(self.frames.poll_room(cx, wanted))?;
        let data = queue.take_bytes(room);
        let len = data.len();
        Poll::Ready(self.put(data, false).map(|()| len))
    }

    fn poll_flush(&self, cx: &mut Context<'_>, _attempt: Attempt) -> Poll<io::Result<()>> {
        self.frames.poll_flush(cx)
    }

    fn end(
        &self,
        out: &mut Output,
        _delimiter: Delimiter,
        trailers: Option<&HeaderMap>,
    ) -> io::Result<bool> {
        if self.is_over() || !out.is_empty() {
            return Ok(out.is_empty());
        }
        let mut trailers = trailers
            .into_iter()
            .flatten()
            .filter(|(name, _)| is_allowed_in_trailers(name))
            .peekable();
        if trailers.peek().is_none() {
            return self.put(Bytes::new(), true).map(|()| true);
        }
        let fields = trailers.map(|(name, value)| (name.as_str().as_bytes(), value.as_bytes()));
        self.state.set(StreamState::Over);
        self.frames.send_trailers(fields).map(|()| true)
    }

    fn flushed_bytes(&self) -> u64 {
        self.frames.flushed_bytes()
    }

    fn reading(&self, length: BodyLength) -> Reading {
        match length {
            BodyLength::None => Reading::Done,
            _ => Reading::Frames,
        }
    }

    fn poll_fill(
        &self,
        cx: &mut Context<'_>,
        input: &mut Input,
        reading: &mut Reading,
    ) -> Poll<io::Result<usize>> {
        // RFC 9113 section 8.1, RFC 9114 section 4.1: the rest of a request is not needed after the
        // response.
        if self.is_over() {
            // Its last bytes may still wait for room.
            return self.frames.poll_flush(cx).map(|_| Ok(0));
        }
        self.frames.poll_read(cx, input, reading)
    }

    async fn reset(&self) {
        poll_fn(|cx| {
            if !self.is_over() && !self.frames.is_open() {
                return Poll::Ready(());
            }
            self.frames.wait(cx);
            Poll::Pending
        })
        .await;
    }

    fn raw(&self) -> Option<&Plain> {
        None
    }
}

impl<F: FrameStream> Drop for Stream<F> {
    fn drop(&mut self) {
        self.reset_for(ResetCause::Failed);
        self.frames.close();
    }
}
