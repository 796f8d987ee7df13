//! Sends a request to an upstream: its head, then its body as the client sends it.

use std::future::poll_fn;
use std::io;
use std::rc::Rc;
use std::task::{Context, Waker};

use bytes::Bytes;
use http::{HeaderMap, HeaderName};
use hurtle_http::h2::RequestLine;
use hurtle_http::message::forward::{RequestEdits, is_among};
use hurtle_http::message::upstream_head::UpstreamHead;
use hurtle_http::request::fields::pairs;
use hurtle_http::request::{BodyLength, RequestHead};

use super::super::body_buffer::{OutgoingBody, PIECES_MAX};
use super::handshake::WEBSOCKET_KEY;
use super::link::Channel;
use super::wait::Waits;
use super::web_call::Decoder;
use crate::body::{Part, RequestBody, WINDOW_BYTES};
use crate::protocol::h1::RequestWriter;
use crate::protocol::h2::{RequestStream, Shared};
use crate::rt;
use crate::transport::{Output, Transport, UpstreamSocket};

/// Bytes of a body that are kept for another attempt over HTTP/2, where an upstream may refuse a
/// request that has begun. Most calls are smaller.
const KEPT_BYTES_MAX: usize = 64 << 10;

/// The unsent part of a request. Queued bytes survive a cancelled `run`.
pub(super) struct RequestSender {
    /// Kept for another attempt.
    head: OutgoingHead,
    /// Queued bytes for a connection that carries one request at a time.
    writer: RequestWriter,
    /// Data for a stream that flow control holds back.
    held_back: Bytes,
    body: OutgoingBody,
    state: SenderState,
    /// `true`: the request has a body, which may be empty.
    is_framed: bool,
    /// Decodes the body from base64; `None`: it is sent as it is.
    decoder: Option<Decoder>,
    /// The data of the body that was read, for another attempt.
    kept: Kept,
    /// Names of trailer fields that the upstream does not get.
    removed: Vec<HeaderName>,
}

/// The head of a request, in the forms that its upstreams take.
#[derive(Default)]
pub(super) struct OutgoingHead {
    /// The text of HTTP/1.1; empty if no upstream takes it.
    pub(super) text: Output,
    /// The parts for HTTP/2; `None`: no upstream takes them.
    pub(super) parts: Option<Box<UpstreamHead>>,
}

/// The reason why a request was not sent whole.
pub(super) enum SendError {
    /// The client's body is no base64.
    Malformed,
    /// The buffered body cannot be read.
    Lost(String),
    /// The channel to the upstream failed.
    Channel(io::Error),
}

impl From<io::Error> for SendError {
    fn from(error: io::Error) -> SendError {
        SendError::Channel(error)
    }
}

/// The read part of a body.
#[derive(Default)]
struct Kept {
    pieces: Vec<Bytes>,
    bytes: usize,
    /// The next piece to send again.
    next: usize,
    /// `true`: a part is lost, so the request cannot be sent to another upstream.
    is_incomplete: bool,
}

#[derive(Clone, Copy, PartialEq, Eq)]
enum SenderState {
    /// The body waits for 100 Continue (RFC 9110 section 10.1.1).
    Held,
    Body,
    /// The queued bytes are the last.
    Ending,
}

/// A piece of the body.
enum Piece {
    /// Data; `true`: the body ends with it.
    Data(Part, bool),
    End(Option<HeaderMap>),
}

impl Kept {
    /// Adds data that is sent to a stream.
    fn add(&mut self, data: &Bytes) {
        self.bytes += data.len();
        if self.bytes > KEPT_BYTES_MAX {
            self.lose();
        }
        if !self.is_incomplete {
            self.pieces.push(data.clone());
            self.next = self.pieces.len();
        }
    }

    fn lose(&mut self) {
        *self = Kept { is_incomplete: true, ..Kept::default() };
    }

    /// Drops all but the pieces that are still to be sent again.
    fn settle(&mut self) {
        if !self.pieces.is_empty() {
            self.pieces.drain(..self.next);
            self.next = 0;
            self.is_incomplete = true;
        }
    }

    /// Takes the next piece that is sent again.
    fn again(&mut self) -> Option<Bytes> {
        let piece = self.pieces.get(self.next)?.clone();
        self.next += 1;
        Some(piece)
    }
}

impl RequestSender {
    /// Sends a head, then the body of `request`, which waits for `release` if the client does.
    pub(super) fn new(
        head: OutgoingHead,
        body: OutgoingBody,
        request: &RequestHead<'_>,
    ) -> RequestSender {
        let state = match (body.is_end_stream(), request.expect_continue) {
            (true, _) => SenderState::Ending,
            (false, true) => SenderState::Held,
            (false, false) => SenderState::Body,
        };
        RequestSender {
            head,
            is_framed: state != SenderState::Ending,
            writer: RequestWriter::new(request.body == BodyLength::Chunked),
            held_back: Bytes::new(),
            body,
            state,
            decoder: None,
            kept: Kept::default(),
            removed: Vec::new(),
        }
    }

    /// Takes the body that has not been read; `None`: there is none.
    pub(super) fn unread_body(&mut self) -> Option<RequestBody> {
        (self.state != SenderState::Ending).then(|| std::mem::take(&mut self.body).into_rest())
    }

    /// Sends this body, without waiting for 100 (Continue).
    pub(super) fn put_body(&mut self, body: OutgoingBody) {
        self.is_framed = true;
        self.body = body;
        self.state = SenderState::Body;
    }

    /// Removes the fields of these edits from trailers.
    pub(super) fn edit(&mut self, edits: &RequestEdits) {
        self.removed.clone_from(&edits.removed);
    }

    /// Decodes the body from base64.
    pub(super) fn decode(&mut self) {
        self.decoder = Some(Decoder::default());
    }

    /// Starts on a connection; again only if `is_repeatable`.
    pub(super) fn begin(&mut self) {
        self.writer.begin(self.head.text.share());
        self.held_back = Bytes::new();
        self.kept.next = 0;
        let is_read = self.is_framed && self.state == SenderState::Ending;
        if self.body.rewind() || !self.kept.pieces.is_empty() || is_read {
            self.state = SenderState::Body;
        }
    }

    /// Begins the request on a shared connection. One that asks for another protocol is an extended
    /// CONNECT, which `connection` must allow. `None`: it has no room.
    pub(super) fn open(&mut self, connection: &Rc<Shared>, is_tls: bool) -> Option<RequestStream> {
        let UpstreamHead { method, target, authority, lines, protocol } =
            self.head.parts.as_deref()?;
        let is_connect = protocol.is_some();
        let line = RequestLine {
            method: if is_connect { b"CONNECT" } else { method },
            scheme: if is_tls { b"https" } else { b"http" },
            authority,
            path: target,
            protocol: protocol.as_ref().map(String::as_bytes),
        };
        let fields = pairs(lines);
        // RFC 8441 section 5: an extended CONNECT has no key.
        let fields =
            fields.filter(|(name, _)| !is_connect || !name.eq_ignore_ascii_case(WEBSOCKET_KEY));
        let is_end = !is_connect && !self.has_body();
        let stream = RequestStream::open(connection, &line, fields, is_end);
        self.writer.clear();
        stream
    }

    /// `true` if the request asks for another protocol.
    pub(super) fn switches_protocol(&self) -> bool {
        self.head.parts.as_ref().is_some_and(|parts| parts.protocol.is_some())
    }

    pub(super) fn has_body(&self) -> bool {
        self.is_framed || !self.is_repeatable() || self.body.is_whole()
    }

    /// `true` if nothing of the body is lost, so the request can be sent to another upstream.
    pub(super) fn is_repeatable(&self) -> bool {
        !self.kept.is_incomplete
    }

    /// Drops what is kept for another attempt: the upstream has responded.
    pub(super) fn settle(&mut self) {
        self.kept.settle();
    }

    /// `true` if the whole request is sent.
    pub(super) fn is_done(&self) -> bool {
        self.state == SenderState::Ending && self.is_sent()
    }

    pub(super) fn is_held(&self) -> bool {
        self.state == SenderState::Held
    }

    /// Allows the body to be sent.
    pub(super) fn release(&mut self) {
        if self.state == SenderState::Held {
            self.state = SenderState::Body;
        }
    }

    fn is_sent(&self) -> bool {
        self.writer.is_sent() && self.held_back.is_empty()
    }

    /// Sends queued bytes without waiting; `run` sends the rest and reports errors.
    pub(super) fn send_at_once(&mut self, channel: &Channel) {
        let Channel::Socket(io) = channel else { return };
        let mut context = Context::from_waker(Waker::noop());
        // Errors show again in `run`.
        let _ = self.writer.poll_send(io, &mut context);
    }

    /// Sends everything that may be sent.
    ///
    /// # Errors
    /// The channel failed, or the body is malformed.
    pub(super) async fn run(
        &mut self,
        channel: &Channel,
        waits: &Waits,
        stall_ms: u64,
    ) -> Result<(), SendError> {
        for number in 1_u64.. {
            if number.is_multiple_of(PIECES_MAX) {
                rt::give_way().await;
            }
            match channel {
                Channel::Socket(io) => self.flush(io, waits, stall_ms).await?,
                Channel::Stream(stream) => self.flush_stream(stream, waits, stall_ms).await?,
            }
            if self.state != SenderState::Body {
                return Ok(());
            }
            // Boxed, because most requests have no body and every future is as large as its largest
            // state.
            let piece = Box::pin(self.next(channel)).await?;
            match channel {
                Channel::Socket(_) => self.queue_piece(piece),
                Channel::Stream(stream) => self.put(stream, piece)?,
            }
        }
        Ok(())
    }

    /// Sends the queued bytes.
    async fn flush(&mut self, io: &UpstreamSocket, waits: &Waits, stall_ms: u64) -> io::Result<()> {
        if self.is_sent() {
            return Ok(());
        }
        let mut wait = Some(waits.send(stall_ms));
        let mut moved = self.writer.mark(io);
        poll_fn(|cx| {
            let sent = self.writer.poll_send(io, cx);
            let now = self.writer.mark(io);
            if now != moved {
                moved = now;
                drop(wait.take());
                wait = Some(waits.send(stall_ms));
                waits.refresh(stall_ms);
            }
            sent
        })
        .await
    }

    /// Sends the data that flow control has held back.
    async fn flush_stream(
        &mut self,
        stream: &RequestStream,
        waits: &Waits,
        stall_ms: u64,
    ) -> io::Result<()> {
        while !self.held_back.is_empty() {
            let _wait = waits.send(stall_ms);
            let is_last = self.state == SenderState::Ending;
            poll_fn(|cx| stream.poll_send(cx, &mut self.held_back, is_last)).await?;
            waits.refresh(stall_ms);
        }
        Ok(())
    }

    /// Waits for the beginning of a held body, which a client may send without waiting for 100
    /// (Continue), and releases it. Cancel-safe.
    ///
    /// # Errors
    /// The body is malformed.
    pub(super) async fn begin_body(&mut self, channel: &Channel) -> Result<(), SendError> {
        let piece = self.next(channel).await?;
        self.release();
        match channel {
            Channel::Socket(_) => self.queue_piece(piece),
            Channel::Stream(stream) => self.put(stream, piece)?,
        }
        Ok(())
    }

    /// Waits for the body's next piece. Cancel-safe.
    ///
    /// # Errors
    /// The body is no base64.
    async fn next(&mut self, channel: &Channel) -> Result<Piece, SendError> {
        if let Some(data) = self.kept.again() {
            let is_end = self.kept.next == self.kept.pieces.len() && self.body.is_end_stream();
            return Ok(Piece::Data(Part::Bytes(data), is_end));
        }
        let body = &mut self.body;
        let by_kernel = match channel {
            Channel::Socket(io) => self.decoder.is_none() && io.sends_files(WINDOW_BYTES),
            Channel::Stream(_) => false,
        };
        let part = if by_kernel { poll_fn(|cx| body.poll_part(cx)).await } else { None };
        let next = match part {
            Some(_) => None,
            None => poll_fn(|cx| body.poll_frame(cx)).await,
        };
        let is_kept = matches!(channel, Channel::Stream(_));
        // A body that is whole is read again for another attempt.
        if !is_kept && !body.is_whole() {
            self.kept.lose();
            self.head = OutgoingHead::default();
        }
        if let Some(part) = part {
            let part = part.map_err(|error| SendError::Lost(error.to_string()))?;
            return Ok(Piece::Data(part, self.body.is_end_stream()));
        }
        let frame = match next {
            None if self.decoder.as_ref().is_some_and(Decoder::is_within) => {
                return Err(SendError::Malformed);
            }
            None => return Ok(Piece::End(None)),
            Some(Ok(frame)) => frame,
            Some(Err(error)) if self.body.is_lost() => {
                return Err(SendError::Lost(error.to_string()));
            }
            // The client ended the body early; the reader of the exchange cancels it.
            Some(Err(_)) => return std::future::pending().await,
        };
        match frame.into_data() {
            Ok(mut data) => {
                let is_end = self.body.is_end_stream();
                if let Some(decoder) = &mut self.decoder {
                    let decoded = decoder.decode(&data, is_end);
                    data = decoded.map_err(|_| SendError::Malformed)?;
                }
                if !self.kept.is_incomplete && !self.body.is_whole() {
                    self.kept.add(&data);
                }
                Ok(Piece::Data(Part::Bytes(data), is_end))
            }
            Err(frame) => {
                if !self.body.is_whole() {
                    self.kept.lose();
                }
                let mut trailers = frame.into_trailers().ok();
                let is_removed =
                    |name: &&HeaderName| is_among(name.as_str().as_bytes(), &self.removed);
                if let Some(trailers) = &mut trailers {
                    for name in trailers.keys().filter(is_removed).cloned().collect::<Vec<_>>() {
                        trailers.remove(name);
                    }
                }
                Ok(Piece::End(trailers.filter(|trailers| !trailers.is_empty())))
            }
        }
    }

    /// Queues a piece for a socket.
    fn queue_piece(&mut self, piece: Piece) {
        match piece {
            Piece::Data(data, is_end) => {
                self.writer.put(data, is_end);
                if is_end {
                    self.state = SenderState::Ending;
                }
            }
            Piece::End(trailers) => {
                self.state = SenderState::Ending;
                self.writer.end(trailers.as_ref());
            }
        }
    }

    /// Passes a piece to a stream; data waits for flow control.
    fn put(&mut self, stream: &RequestStream, piece: Piece) -> io::Result<()> {
        match piece {
            Piece::Data(data, is_end) => {
                if is_end {
                    self.state = SenderState::Ending;
                }
                let Part::Bytes(data) = data else { return Err(io::ErrorKind::Unsupported.into()) };
                if data.is_empty() && is_end {
                    return stream.end(None);
                }
                self.held_back = data;
                Ok(())
            }
            Piece::End(trailers) => {
                self.state = SenderState::Ending;
                stream.end(trailers.as_ref())
            }
        }
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    /// Regression: the pieces that were still to be sent again were lost.
    #[test]
    fn a_response_ends_what_is_kept_but_not_what_is_being_sent_again() {
        let mut kept = Kept::default();
        let pieces = ["one", "two", "three"].map(Bytes::from);
        pieces.iter().for_each(|piece| kept.add(piece));
        kept.next = 0;
        assert_eq!(kept.again().as_ref(), Some(&pieces[0]));
        kept.settle();
        assert!(kept.is_incomplete, "it cannot be sent a third time");
        assert_eq!(std::iter::from_fn(|| kept.again()).collect::<Vec<_>>(), pieces[1..]);
    }
}
