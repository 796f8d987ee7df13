//! One request of an HTTP/3 connection: reads the request body and sends the response, within the
//! client's flow control windows.

use std::cell::Cell;
use std::future::poll_fn;
use std::io;
use std::rc::Rc;
use std::task::{Context, Poll, ready};

use bytes::Bytes;
use http::{HeaderMap, StatusCode, Version};
use hurtle_http::h3::{self, Body as Received, Code, DATA_HEAD_BYTES_MAX, StreamClosed};
use hurtle_http::message::field_lines::number_field;
use hurtle_http::message::forward;
use hurtle_http::message::response::{self, Delimiter};
use hurtle_http::request::fields::{is_allowed_in_trailers, pairs};
use hurtle_http::request::{BodyLength, RequestFields};

use super::super::reading::Reading;
use super::super::{Head, InterimFields, Protocol, is_of_connection, status_of_stream};
use super::shared::Shared;
use super::stream_id;
use crate::answer::is_bodiless;
use crate::body::Body;
use crate::tls::ClientCertificate;
use crate::transport::{Input, Output, Plain, Progress, SendQueue, Sender};

/// A body up to this size is copied behind its head, in bytes: one buffer costs less than two.
const COPY_BYTES_MAX: usize = 1 << 10;

/// Bytes of a streamed body that are queued at once. They are held while flow control blocks.
const PIECE_BYTES_MAX: usize = 64 << 10;

/// A request and its response.
pub struct Stream {
    pub(super) shared: Rc<Shared>,
    id: u64,
    /// `true` if the request is a HEAD.
    is_head: bool,
    /// The response's status and delimiter, from encoding to sending.
    head: Cell<(StatusCode, Delimiter)>,
    state: Cell<State>,
    /// An encoded head that leaves with the first bytes of the body.
    unsent: Cell<Vec<u8>>,
}

/// The progress of the response.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
enum State {
    /// The head has not been sent.
    Head,
    /// The number of body bytes still to be sent, in a DATA frame that has begun.
    Exactly(u64),
    /// The body ends when its writer ends it.
    Open,
    Over,
}

impl Stream {
    pub(super) fn new(shared: Rc<Shared>, id: u64, is_head: bool) -> Stream {
        shared.stream_begins();
        let rank = h3::send_rank(shared.codec.borrow().priority(id), id);
        shared.connection.set_priority(stream_id(id), rank);
        let head = Cell::new((StatusCode::OK, Delimiter::Given));
        let (state, unsent) = (Cell::new(State::Head), Cell::default());
        Stream { shared, id, is_head, head, state, unsent }
    }

    /// Ends a complete exchange.
    pub fn finish(&self) {
        if self.state.get() == State::Open {
            // The client may be gone.
            let _ = self.put(Bytes::new(), true);
        }
    }

    /// Resets the stream, so that the response cannot look complete.
    pub fn abort(&self) {
        self.reset_with(Code::REQUEST_CANCELLED);
    }

    fn reset_with(&self, code: Code) {
        // A stream that the codec has given up is reset with the codec's code, by an event.
        if self.state.replace(State::Over) != State::Over && self.is_open() {
            self.shared.abandon(self.id, code);
        }
    }

    /// Encodes the head, which leaves with the body; `lines` are its encoded fields. Without a body
    /// it is sent at once.
    pub(super) fn send_head(&self, lines: &[u8], is_end: bool) -> io::Result<()> {
        let (status, delimiter) = self.head.get();
        let is_end = is_end || self.is_head || is_bodiless(status);
        let fields = pairs(lines).filter(|(name, _)| !is_of_connection(name));
        let mut encoded = self.unsent.take();
        encoded.reserve(lines.len());
        h3::write_head(&mut encoded, status.as_u16(), fields);
        if is_end {
            self.state.set(State::Over);
            return self.write(&mut [encoded.into()], true);
        }
        self.state.set(match delimiter {
            Delimiter::Length(len) => {
                // One frame for the whole body.
                h3::write_data_head(&mut encoded, len);
                State::Exactly(len)
            }
            _ => State::Open,
        });
        self.unsent.set(encoded);
        Ok(())
    }

    fn write(&self, pieces: &mut [Bytes], is_last: bool) -> io::Result<()> {
        self.shared.write(self.id, pieces, is_last)
    }

    /// Waits until QUIC has taken all bytes of this response.
    pub(super) fn poll_taken(&self, cx: &Context<'_>) -> Poll<io::Result<()>> {
        if !self.shared.is_held(self.id) {
            return Poll::Ready(Ok(()));
        }
        if !self.is_open() {
            return Poll::Ready(Err(io::ErrorKind::ConnectionReset.into()));
        }
        self.shared.waiting.wait(self.id, cx);
        Poll::Pending
    }

    /// Queues data, with the head if it was not sent. `is_last` ends the response.
    pub(super) fn put(&self, data: Bytes, is_last: bool) -> io::Result<()> {
        let mut is_last = is_last;
        let mut before = self.unsent.take();
        match self.state.get() {
            State::Exactly(left) => {
                let left = left.saturating_sub(data.len() as u64);
                self.state.set(State::Exactly(left));
                is_last |= left == 0;
            }
            _ if !data.is_empty() => {
                before.reserve(DATA_HEAD_BYTES_MAX);
                h3::write_data_head(&mut before, data.len() as u64);
            }
            _ => {}
        }
        if is_last {
            self.state.set(State::Over);
        }
        let mut data = data;
        if !before.is_empty() && data.len() <= COPY_BYTES_MAX {
            before.extend_from_slice(&data);
            data = Bytes::new();
        }
        self.write(&mut [before.into(), data], is_last)
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
        Version::HTTP_3
    }

    fn is_secure(&self) -> bool {
        true
    }

    fn policy(&self) -> u32 {
        self.shared.negotiated.policy
    }

    fn server_name(&self) -> Option<String> {
        self.shared.negotiated.server_name.clone()
    }

    fn cipher(&self) -> Option<(&'static str, &'static str)> {
        self.shared.negotiated.cipher
    }

    fn client(&self) -> Option<ClientCertificate> {
        self.shared.negotiated.client.clone()
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
        let mut encoded = Vec::new();
        h3::write_head(&mut encoded, status.as_u16(), fields);
        // The client may be gone.
        let _ = self.write(&mut [encoded.into()], false);
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
        self.taken(sent).await
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
            self.send_bytes(data, true, sent).await?;
        }
        self.taken(sent).await
    }

    fn begin(&self, head: &mut Output) -> io::Result<()> {
        self.send_head(head, false)?;
        head.vec().clear();
        // The head leaves now, because the first bytes of the body may come much later.
        let encoded = self.unsent.take();
        match encoded.is_empty() {
            true => Ok(()),
            false => self.write(&mut [encoded.into()], false),
        }
    }

    fn frame(&self, _out: &mut Output, _delimiter: Delimiter, _len: usize) -> &'static [u8] {
        b""
    }

    fn poll_send(&self, cx: &mut Context<'_>, queue: &mut SendQueue) -> Poll<io::Result<usize>> {
        ready!(self.poll_taken(cx))?;
        let data = queue.take_bytes(queue.len().min(PIECE_BYTES_MAX));
        let len = data.len();
        Poll::Ready(self.put(data, false).map(|()| len))
    }

    fn poll_flush(&self, cx: &mut Context<'_>) -> Poll<io::Result<()>> {
        self.poll_taken(cx)
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
        let mut encoded = self.unsent.take();
        h3::write_trailers(&mut encoded, fields);
        self.state.set(State::Over);
        self.write(&mut [encoded.into()], true).map(|()| true)
    }

    /// Returns the connection's bytes, because other responses may go first.
    fn flushed_bytes(&self) -> u64 {
        self.shared.written()
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
        // RFC 9114 section 4.1: the rest of a request is not needed after the response.
        if self.is_over() {
            return Poll::Ready(Ok(0));
        }
        let mut has_received = false;
        loop {
            let received = self.shared.codec.borrow_mut().read(self.id).map_err(closed)?;
            match received {
                Received::Data(bytes) => {
                    let len = bytes.len();
                    input.append(bytes);
                    return Poll::Ready(Ok(len));
                }
                Received::Trailers(section) => {
                    *reading = Reading::Ended(RequestFields::Section(&section).to_lines());
                }
                Received::End => *reading = Reading::Ended(Vec::new()),
                Received::NotYet if has_received => {
                    self.shared.waiting.wait(self.id, cx);
                    return Poll::Pending;
                }
                Received::NotYet => {
                    // Bytes that the codec did not want before. It may have events of other kinds
                    // now.
                    has_received = true;
                    self.shared.receive(self.id);
                    self.shared.connection.wake();
                    continue;
                }
            }
            return Poll::Ready(Ok(0));
        }
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
        self.reset_with(Code::INTERNAL_ERROR);
        // RFC 9114 section 4.1: the rest of the request is not needed.
        if self.shared.codec.borrow_mut().close(self.id) {
            self.shared.connection.stop(stream_id(self.id), Code::NO_ERROR.0);
        }
        self.shared.waiting.forget(self.id);
        self.shared.stream_ends();
        self.shared.connection.wake();
    }
}

fn closed(_: StreamClosed) -> io::Error {
    io::ErrorKind::ConnectionReset.into()
}
