//! A request's body while it arrives: it is fed to the handler that reads it, and the socket is
//! read only when the handler wants data.

use std::mem;
use std::pin::pin;
use std::rc::Rc;

use bytes::Bytes;
use http::{HeaderName, StatusCode};
use http_body::Frame;
use hurtle_http::request::RequestHead;
use hurtle_http::request::fields::is_same;
use hurtle_http::request::framing::BodyLength;
use hurtle_http::request::{ParseError, fields};

use super::duplex::Duplex;
use super::pace::SILENCE_MS_MAX;
use super::worker::Worker;
use crate::body::{Feeder, Interim, RequestBody, feed};
use crate::clock;
use crate::handler::client::{Continue, ExchangeError};
use crate::protocol::reading::{Piece, Reading};
use crate::protocol::{InterimFields, Protocol};
use crate::rt::{First, race};
use crate::transport::{Input, Output, SendQueue};

/// Unread body bytes that are discarded to keep the connection. Up to this size, discarding costs
/// less than a new connection.
pub(super) const UNREAD_BYTES_MAX: u64 = 64 << 10;

/// A client's wait for 100 (Continue) (RFC 9110 section 10.1.1).
#[derive(Clone, Copy, PartialEq, Eq)]
enum Expectation {
    /// The client sends the body without waiting for one, or got it.
    Met,
    /// The client gets it when the body is read.
    Open,
    /// The client gets none, and may or may not send the body.
    Withheld,
}

/// A request's body, and the way to its reader.
pub(super) struct ArrivingBody {
    pub(super) reading: Reading,
    /// `true`: the body may arrive, and nobody reads it.
    is_unread: bool,
    /// `None`: there is no body, or it was delivered whole.
    feeder: Option<Feeder>,
    expectation: Expectation,
    /// `false`: the body may pause, as a stream of messages does.
    is_paced: bool,
    /// RFC 9110 section 15.2: HTTP/1.0 has no interim responses.
    sends_interim: bool,
    /// Encoded interim responses that wait to be sent.
    interim: Output,
    /// Interim responses that are being sent.
    sending: Option<Box<SendQueue>>,
    /// Fields that this server sets, which trailers must not have.
    own_fields: Vec<HeaderName>,
    /// Bytes of the body that may still come.
    bytes_left: u64,
    received: u64,
    /// Time spent waiting for the client, in milliseconds.
    waited_ms: u64,
}

impl ArrivingBody {
    /// A body of which nothing arrives.
    pub(super) fn none() -> ArrivingBody {
        ArrivingBody {
            reading: Reading::Done,
            is_unread: false,
            feeder: None,
            expectation: Expectation::Met,
            is_paced: true,
            sends_interim: false,
            interim: Output::default(),
            sending: None,
            own_fields: Vec::new(),
            bytes_left: u64::MAX,
            received: 0,
            waited_ms: 0,
        }
    }

    /// A body that may arrive and that nobody reads.
    pub(super) fn unread() -> ArrivingBody {
        ArrivingBody { is_unread: true, ..ArrivingBody::none() }
    }

    /// Returns the arriving body of a request, and the body that its handler reads. `None`: the
    /// request has no body. `is_call`: it is a stream of messages, which may pause.
    pub(super) fn new(
        io: &impl Protocol,
        request: &RequestHead<'_>,
        sends_continue: Continue,
        bytes_max: Option<u64>,
        is_call: bool,
    ) -> Option<(ArrivingBody, RequestBody)> {
        let len = match request.body {
            BodyLength::None => return None,
            BodyLength::Exactly(len) => Some(len),
            BodyLength::Chunked => None,
        };
        let (feeder, body) = feed(len);
        let expectation = match request.expect_continue && sends_continue == Continue::OnRead {
            true => Expectation::Open,
            false => Expectation::Met,
        };
        let arriving = ArrivingBody {
            reading: io.reading(request.body),
            feeder: Some(feeder),
            expectation,
            is_paced: !is_call,
            sends_interim: !request.http10,
            own_fields: request.own_fields.to_vec(),
            bytes_left: bytes_max.unwrap_or(u64::MAX),
            ..ArrivingBody::none()
        };
        Some((arriving, body))
    }

    /// Records that the client waits for 100 (Continue) and will not get it.
    pub(super) fn withhold_continue(&mut self) {
        if !self.reading.is_done() {
            self.expectation = Expectation::Withheld;
        }
    }

    /// Feeds the reader as long as it wants data, then waits until the peer is gone. Cancel-safe:
    /// it can be dropped and called again.
    pub(super) async fn run(
        &mut self,
        duplex: &Duplex<'_, impl Protocol>,
        input: &mut Input,
        ended: &mut bool,
        worker: &Rc<Worker>,
    ) -> ExchangeError {
        while let Some(feeder) = &self.feeder {
            match race(feeder.wanted(), duplex.io.reset()).await {
                First::A(true) => {}
                First::A(false) => break,
                First::B(()) => return ExchangeError::Gone,
            }
            // Boxed: most requests have no body, and a future is as large as its largest wait.
            if let Err(error) = Box::pin(self.advance(duplex, input, ended, worker)).await {
                return error;
            }
            duplex.record_feed();
        }
        duplex.io.reset().await;
        ExchangeError::Gone
    }

    /// Delivers a frame or the end to the reader.
    async fn advance(
        &mut self,
        duplex: &Duplex<'_, impl Protocol>,
        input: &mut Input,
        ended: &mut bool,
        worker: &Rc<Worker>,
    ) -> Result<(), ExchangeError> {
        self.encode_interim(duplex.io);
        // RFC 9110 section 10.1.1: no 100 (Continue) if the client has begun to send the body.
        if self.expectation == Expectation::Open && input.bytes().is_empty() {
            self.send_continue(duplex.io);
        }
        if !self.interim.is_empty() {
            self.sending.get_or_insert_default().push(mem::take(&mut self.interim));
        }
        if let Some(queue) = &mut self.sending {
            duplex.send(queue, false).await?;
            self.sending = None;
        }
        loop {
            let buffered = input.bytes().len();
            let piece = self.reading.next(input).map_err(ExchangeError::ParseError)?;
            self.received += (buffered - input.bytes().len()) as u64;
            match piece {
                Piece::Data(len) if len as u64 > self.bytes_left => {
                    return Err(ExchangeError::ParseError(ParseError::BodyTooLarge));
                }
                Piece::Data(len) => {
                    self.bytes_left -= len as u64;
                    let data = input.take_frame(len);
                    self.reading.settle(input);
                    duplex.count_body(len);
                    self.received += len as u64;
                    self.expectation = Expectation::Met;
                    self.give(Frame::data(data));
                    return Ok(());
                }
                Piece::End(lines) => return self.finish(&lines, worker),
                Piece::More => {}
            }
            let now_ms = clock::now_ms();
            let wait_ms = match self.is_paced {
                true => {
                    let pace = duplex.pace;
                    let left_ms = pace.earned_ms(self.received).saturating_sub(self.waited_ms);
                    left_ms.min(pace.pause_ms_max())
                }
                false => SILENCE_MS_MAX,
            };
            let by_ms = now_ms.saturating_add(wait_ms);
            let filled = {
                let Self { reading, feeder: Some(feeder), .. } = self else { return Ok(()) };
                let filling = pin!(duplex.fill(input, reading, by_ms));
                // A body that was dropped is awaited no longer.
                match race(filling, feeder.abandoned()).await {
                    First::A(filled) => filled,
                    First::B(()) => return Ok(()),
                }
            };
            self.waited_ms += clock::now_ms() - now_ms;
            *ended = matches!(filled, Ok(0)) && !matches!(self.reading, Reading::Ended(_));
            if *ended {
                // RFC 9112 section 8: the peer may have closed one direction only, so it gets an
                // error response.
                return Err(ExchangeError::ParseError(ParseError::BodyIncomplete));
            }
            if filled.is_err() {
                return Err(ExchangeError::Gone);
            }
        }
    }

    fn give(&mut self, frame: Frame<Bytes>) {
        let last = self.reading.is_done();
        if let Some(feeder) = &self.feeder {
            feeder.put(frame, last);
        }
        if last {
            self.feeder = None;
        }
    }

    /// Delivers the trailers, if any, and the end.
    fn finish(&mut self, lines: &[u8], worker: &Rc<Worker>) -> Result<(), ExchangeError> {
        let mut trailers = fields::map(lines);
        if trailers.len() > worker.head_limits.fields {
            return Err(ExchangeError::ParseError(ParseError::TooManyFields));
        }
        let is_own = |name: &HeaderName| {
            let is_own =
                |own: &HeaderName| is_same(name.as_str().as_bytes(), own.as_str().as_bytes());
            self.own_fields.iter().any(is_own)
        };
        let is_barred =
            |name: &&HeaderName| !fields::is_allowed_in_request_trailers(name) || is_own(name);
        for name in trailers.keys().filter(is_barred).cloned().collect::<Vec<_>>() {
            trailers.remove(name);
        }
        if trailers.is_empty() {
            if let Some(feeder) = self.feeder.take() {
                feeder.end();
            }
            return Ok(());
        }
        self.give(Frame::trailers(trailers));
        Ok(())
    }

    /// Encodes the interim responses that the reader has requested.
    fn encode_interim(&mut self, io: &impl Protocol) {
        let interim = self.feeder.as_ref().filter(|_| self.sends_interim).and_then(Feeder::interim);
        if let Some(Interim { status, fields }) = interim {
            io.encode_interim(self.interim.vec(), status, InterimFields::Made(&fields));
        }
    }

    fn send_continue(&mut self, io: &impl Protocol) {
        self.expectation = Expectation::Met;
        io.encode_interim(self.interim.vec(), StatusCode::CONTINUE, InterimFields::Empty);
    }

    /// Moves pending interim responses in front of the response head. After the head none may be
    /// sent.
    pub(super) fn precede(&mut self, io: &impl Protocol, head: &mut Vec<u8>) {
        if let Some(mut queue) = self.sending.take() {
            head.extend_from_slice(&queue.take_bytes(usize::MAX));
        }
        self.encode_interim(io);
        let is_open = self.expectation == Expectation::Open;
        if is_open && self.feeder.as_ref().is_some_and(Feeder::is_wanted) {
            self.send_continue(io);
        }
        head.extend_from_slice(&mem::take(&mut self.interim));
        self.sends_interim = false;
        if self.expectation == Expectation::Open {
            self.expectation = Expectation::Withheld;
        }
    }

    /// Returns whether the connection can be reused after a response that begins now.
    pub(super) fn allows_reuse(&self) -> bool {
        if self.is_unread {
            return false;
        }
        let read_on = self.feeder.as_ref().is_some_and(|feeder| !feeder.is_abandoned());
        match &self.reading {
            Reading::Done => true,
            // The next bytes may be the body or another request.
            _ if self.expectation != Expectation::Met => false,
            Reading::Exactly(left) => read_on || *left <= UNREAD_BYTES_MAX,
            Reading::Chunked(_) | Reading::Frames | Reading::Ended(_) => true,
        }
    }

    /// Returns whether all of it has arrived.
    pub(super) fn is_complete(&self) -> bool {
        !self.is_unread && self.reading.is_done()
    }

    /// Disconnects the reader: the response is complete.
    pub(super) fn cut(&mut self) {
        self.feeder = None;
    }
}
