//! One stream of an HTTP/2 connection: reads the request body and sends the response, within the
//! peer's flow control windows.

use std::cell::Cell;
use std::future::poll_fn;
use std::io;
use std::rc::Rc;
use std::task::{Context, Poll, ready};

use bytes::Bytes;
use http::{HeaderMap, StatusCode, Version};
use hurtle_http::h2::{Body as Received, Reason, StreamClosed};
use hurtle_http::message::field_lines::number_field;
use hurtle_http::message::forward;
use hurtle_http::message::response::{self, Delimiter};
use hurtle_http::request::fields::{is_allowed_in_trailers, pairs};
use hurtle_http::request::{BodyLength, RequestFields};

use super::super::reading::Reading;
use super::super::{Head, InterimFields, Protocol, is_of_connection, status_of_stream};
use super::shared::Shared;
use crate::answer::is_bodiless;
use crate::body::Body;
use crate::tls::ClientCertificate;
use crate::transport::{Input, Output, Plain, Progress, SendQueue, Sender};

/// A stream.
pub struct Stream {
    pub(super) shared: Rc<Shared>,
    pub(super) id: u32,
    /// `true` if the request is a HEAD.
    is_head: bool,
    /// The response's status and delimiter, from encoding to sending.
    head: Cell<(StatusCode, Delimiter)>,
    state: Cell<State>,
}

/// The progress of the response.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
enum State {
    /// The head has not been sent.
    Head,
    /// The number of body bytes still to be sent.
    Exactly(u64),
    /// The body ends when its writer ends it.
    Open,
    Over,
}

impl Stream {
    pub(super) fn new(shared: Rc<Shared>, id: u32, is_head: bool) -> Stream {
        shared.pulse.stream_begins();
        let head = Cell::new((StatusCode::OK, Delimiter::Given));
        Stream { shared, id, is_head, head, state: Cell::new(State::Head) }
    }

    /// Ends a complete exchange.
    pub fn finish(&self) {
        if self.state.get() == State::Open {
            // The peer may be gone.
            let _ = self.put(Bytes::new(), true);
        }
    }

    /// Resets the stream, so that the response cannot look complete.
    pub fn abort(&self) {
        self.reset_with(Reason::CANCEL);
    }

    fn reset_with(&self, reason: Reason) {
        if self.state.replace(State::Over) != State::Over {
            self.shared.codec.borrow_mut().reset(self.id, reason);
            self.shared.queued();
        }
    }

    /// Sends the head; `lines` are its encoded fields.
    pub(super) fn send_head(&self, lines: &[u8], is_end: bool) -> io::Result<()> {
        let (status, delimiter) = self.head.get();
        let is_empty = delimiter == Delimiter::Length(0);
        let is_end = is_end || is_empty || self.is_head || is_bodiless(status);
        let fields = pairs(lines).filter(|(name, _)| !is_of_connection(name));
        let mut codec = self.shared.codec.borrow_mut();
        codec.send_head(self.id, status.as_u16(), fields, is_end).map_err(closed)?;
        drop(codec);
        self.shared.queued();
        self.state.set(match delimiter {
            _ if is_end => State::Over,
            Delimiter::Length(len) => State::Exactly(len),
            _ => State::Open,
        });
        Ok(())
    }

    /// Waits until some of `wanted` bytes may be queued. Returns their number.
    pub(super) fn poll_room(&self, cx: &Context<'_>, wanted: usize) -> Poll<io::Result<usize>> {
        match self.shared.codec.borrow_mut().capacity(self.id, wanted) {
            Err(gone) => Poll::Ready(Err(closed(gone))),
            Ok(0) => {
                self.shared.waiting.wait(self.id, cx);
                Poll::Pending
            }
            Ok(room) => Poll::Ready(Ok(room)),
        }
    }

    /// Returns how many of `wanted` bytes may be queued now.
    pub(super) fn room_now(&self, wanted: usize) -> io::Result<usize> {
        self.shared.codec.borrow_mut().capacity(self.id, wanted).map_err(closed)
    }

    /// Queues data within the available room. `is_last` ends the response.
    pub(super) fn put(&self, data: Bytes, is_last: bool) -> io::Result<()> {
        let mut is_last = is_last;
        if let State::Exactly(left) = self.state.get() {
            let left = left.saturating_sub(data.len() as u64);
            self.state.set(State::Exactly(left));
            is_last |= left == 0;
        }
        if is_last {
            self.state.set(State::Over);
        }
        let sent = self.shared.codec.borrow_mut().send_data(self.id, data, is_last);
        self.shared.queued();
        sent.map_err(closed)
    }

    fn is_over(&self) -> bool {
        self.state.get() == State::Over
    }

    fn is_open(&self) -> bool {
        self.shared.codec.borrow().is_open(self.id)
    }
}

impl Protocol for Stream {
    type Raw = Plain;

    fn version(&self) -> Version {
        Version::HTTP_2
    }

    fn is_secure(&self) -> bool {
        self.shared.is_secure
    }

    fn policy(&self) -> u32 {
        self.shared.policy
    }

    fn server_name(&self) -> Option<String> {
        self.shared.server_name.clone()
    }

    fn cipher(&self) -> Option<(&'static str, &'static str)> {
        self.shared.cipher
    }

    fn client(&self) -> Option<ClientCertificate> {
        self.shared.client.clone()
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
        let mut codec = self.shared.codec.borrow_mut();
        // The peer may be gone.
        let _ = codec.send_informational(self.id, status.as_u16(), fields);
        drop(codec);
        self.shared.queued();
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
        if is_end { Ok(()) } else { self.send_body(sender, body, sent).await }
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
        if self.is_over() { Ok(()) } else { self.send_bytes(data, true, sent).await }
    }

    fn begin(&self, head: &mut Output) -> io::Result<()> {
        self.send_head(head, false)?;
        head.vec().clear();
        Ok(())
    }

    fn frame(&self, _out: &mut Output, _delimiter: Delimiter, _len: usize) -> &'static [u8] {
        b""
    }

    fn poll_send(&self, cx: &mut Context<'_>, queue: &mut SendQueue) -> Poll<io::Result<usize>> {
        let room = ready!(self.poll_room(cx, queue.len()))?;
        let data = queue.take_bytes(room);
        let len = data.len();
        Poll::Ready(self.put(data, false).map(|()| len))
    }

    /// The connection's task writes the frames.
    fn poll_flush(&self, _cx: &mut Context<'_>) -> Poll<io::Result<()>> {
        Poll::Ready(Ok(()))
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
        self.state.set(State::Over);
        let sent = self.shared.codec.borrow_mut().send_trailers(self.id, fields);
        self.shared.queued();
        sent.map(|()| true).map_err(closed)
    }

    /// Returns the connection's sent bytes while this stream waits for its turn, because the peer
    /// is not stalled then.
    fn flushed_bytes(&self) -> u64 {
        match self.shared.codec.borrow().waits_for_turn(self.id) {
            true => self.shared.pulse.sent(),
            false => 0,
        }
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
        // RFC 9113 section 8.1: the rest of a request is not needed after the response.
        if self.is_over() {
            return Poll::Ready(Ok(0));
        }
        let read = ready!(poll_read(&self.shared, self.id, cx, input, reading));
        if matches!(read, Ok(1..)) {
            self.shared.queued();
        }
        Poll::Ready(read.map_err(closed))
    }

    async fn reset(&self) {
        poll_fn(|cx| {
            if !self.is_over() && !self.is_open() {
                return Poll::Ready(());
            }
            self.shared.waiting.wait(self.id, cx);
            Poll::Pending
        })
        .await;
    }

    fn raw(&self) -> Option<&Plain> {
        None
    }
}

impl Drop for Stream {
    fn drop(&mut self) {
        self.reset_with(Reason::INTERNAL_ERROR);
        // RFC 9113 section 8.1: the rest of the request is not needed.
        if self.is_open() {
            self.shared.codec.borrow_mut().reset(self.id, Reason::NO_ERROR);
            self.shared.queued();
        }
        self.shared.waiting.forget(self.id);
        self.shared.pulse.stream_ends();
        if self.shared.codec.borrow().is_finished() {
            self.shared.queued();
        }
    }
}

/// Reads more of a message's body into `input`. The end is in `reading`, with the trailers; 0 bytes
/// came with it.
pub(super) fn poll_read(
    shared: &Shared,
    id: u32,
    cx: &Context<'_>,
    input: &mut Input,
    reading: &mut Reading,
) -> Poll<Result<usize, StreamClosed>> {
    let mut codec = shared.codec.borrow_mut();
    let mut read = codec.read(id)?;
    let mut len = 0;
    if let Received::Data(bytes) = read {
        len = bytes.len();
        codec.release(id, len);
        input.append(bytes);
        if !codec.is_read(id) {
            return Poll::Ready(Ok(len));
        }
        // The end is known with the last data, which can be sent on with it.
        read = codec.read(id)?;
    }
    match read {
        Received::Trailers(section) => {
            *reading = Reading::Ended(RequestFields::Section(&section).to_lines());
        }
        Received::End => *reading = Reading::Ended(Vec::new()),
        Received::NotYet => {
            drop(codec);
            shared.waiting.wait(id, cx);
            return Poll::Pending;
        }
        Received::Data(_) => {}
    }
    Poll::Ready(Ok(len))
}

fn closed(_: StreamClosed) -> io::Error {
    io::ErrorKind::ConnectionReset.into()
}
