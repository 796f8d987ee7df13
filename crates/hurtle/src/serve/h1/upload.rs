//! A request's body on its way to an application: read from the socket only when it is asked for.

use std::io::IoSlice;
use std::rc::Rc;

use bytes::Bytes;
use http_body::Frame;

use super::duplex::{Broken, Duplex};
use super::input::earned_ms;
use super::reading::{Piece, Reading};
use crate::body::{Feeder, Interim, RequestBody, feed};
use crate::clock;
use crate::h1::framing::BodyLength;
use crate::h1::request::Request;
use crate::h1::{Sin, fields, response};
use crate::rt::{First, race};
use crate::serve::Worker;
use crate::transport::{Input, Transport};

/// What is read of a body that its application did not want, so that the connection can go on: less
/// costs less than a new connection.
pub(super) const UNREAD_BYTES_MAX: u64 = 64 << 10;

/// A request's body and its reader.
pub(super) struct Upload {
    pub(super) reading: Reading,
    /// `None`: there is no body, or it was given whole.
    feeder: Option<Feeder>,
    /// The client sends nothing before it is invited.
    expects: bool,
    /// RFC 9110 15.2: HTTP/1.0 knows no interim answers.
    may_tell: bool,
    /// What is left to send of interim answers.
    interim: Vec<u8>,
    received: u64,
    /// How long the client was waited for.
    waited_ms: u64,
}

impl Upload {
    /// Of a request that nobody reads further.
    pub(super) fn none() -> Upload {
        Upload {
            reading: Reading::Done,
            feeder: None,
            expects: false,
            may_tell: false,
            interim: Vec::new(),
            received: 0,
            waited_ms: 0,
        }
    }

    /// Of this request; and what the application reads from.
    pub(super) fn new(request: &Request<'_>) -> (Upload, RequestBody) {
        let len = match request.body {
            BodyLength::None => return (Upload::none(), RequestBody::default()),
            BodyLength::Exactly(len) => Some(len),
            BodyLength::Chunked => None,
        };
        let (feeder, body) = feed(len);
        let upload = Upload {
            reading: Reading::new(request.body),
            feeder: Some(feeder),
            expects: request.expect_continue,
            may_tell: !request.http10,
            ..Upload::none()
        };
        (upload, body)
    }

    /// The same, for an upstream that invites the client itself, or does not.
    pub(super) fn relayed(request: &Request<'_>) -> (Upload, RequestBody) {
        let (upload, body) = Upload::new(request);
        (Upload { expects: false, ..upload }, body)
    }

    /// The client waits for leave to send its body, and will not get it.
    pub(super) fn was_not_invited(&mut self) {
        self.expects = !self.reading.is_done();
    }

    /// Feeds the reader for as long as it wants; then waits for the peer to be gone. It may be
    /// dropped and begun again at any time.
    pub(super) async fn run(
        &mut self,
        duplex: &Duplex<'_, impl Transport>,
        input: &mut Input,
        ended: &mut bool,
        worker: &Rc<Worker>,
    ) -> Broken {
        while let Some(feeder) = &self.feeder {
            match race(feeder.wanted(), duplex.io.reset()).await {
                First::A(true) => {}
                First::A(false) => break,
                First::B(()) => return Broken::Gone,
            }
            // In a box: most requests have no body, and are as large as their largest wait.
            if let Err(broken) = Box::pin(self.advance(duplex, input, ended, worker)).await {
                return broken;
            }
        }
        duplex.io.reset().await;
        Broken::Gone
    }

    /// Gives the reader a frame, or the end.
    async fn advance(
        &mut self,
        duplex: &Duplex<'_, impl Transport>,
        input: &mut Input,
        ended: &mut bool,
        worker: &Rc<Worker>,
    ) -> Result<(), Broken> {
        self.tell();
        // RFC 9110 10.1.1: who sends without waiting needs no invitation.
        if self.expects && input.bytes().is_empty() {
            self.invite();
        }
        while !self.interim.is_empty() {
            let n = duplex.write_some(&[IoSlice::new(&self.interim)]).await?;
            self.interim.drain(..n);
        }
        loop {
            let here = input.bytes().len();
            let piece = self.reading.next(input).map_err(Broken::Sin)?;
            self.received += (here - input.bytes().len()) as u64;
            match piece {
                Piece::Data(len) => {
                    let data = Bytes::copy_from_slice(&input.bytes()[..len]);
                    input.consume(len);
                    self.received += len as u64;
                    self.expects = false;
                    self.give(Frame::data(data));
                    return Ok(());
                }
                Piece::End(lines) => return self.finish(&lines, worker),
                Piece::More => {}
            }
            let now_ms = clock::now_ms();
            let left_ms = earned_ms(&worker.limits, self.received).saturating_sub(self.waited_ms);
            let filled = duplex.fill(input, now_ms.saturating_add(left_ms)).await;
            self.waited_ms += clock::now_ms() - now_ms;
            *ended = matches!(filled, Ok(0));
            if *ended {
                // RFC 9112 8: it may be half-closed, and is told.
                return Err(Broken::Sin(Sin::BodyIncomplete));
            }
            if filled.is_err() {
                return Err(Broken::Gone);
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

    /// Gives the trailers, if there are some, and the end.
    fn finish(&mut self, lines: &[u8], worker: &Rc<Worker>) -> Result<(), Broken> {
        let mut trailers = fields::map(lines);
        if trailers.len() > worker.head_limits.fields {
            return Err(Broken::Sin(Sin::TooManyFields));
        }
        let barred: Vec<_> = trailers.keys().filter(|name| !fields::may_trail(name)).collect();
        for name in barred.into_iter().cloned().collect::<Vec<_>>() {
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

    /// Takes up what the reader has to say to the client.
    fn tell(&mut self) {
        let interim = self.feeder.as_ref().filter(|_| self.may_tell).and_then(Feeder::interim);
        if let Some(Interim { status, fields }) = interim {
            response::encode_interim(status, &fields, &mut self.interim);
        }
    }

    fn invite(&mut self) {
        self.expects = false;
        self.interim.extend_from_slice(response::CONTINUE);
    }

    /// Puts before an answer's head what has to stand there: interim answers that are under way, or
    /// that the reader has just asked for. After the head there can be none.
    pub(super) fn precede(&mut self, head: &mut Vec<u8>) {
        self.tell();
        if self.expects && self.feeder.as_ref().is_some_and(Feeder::is_wanted) {
            self.invite();
        }
        head.append(&mut self.interim);
    }

    /// Whether the connection can go on after an answer that begins now.
    pub(super) fn may_go_on(&self) -> bool {
        let read_on = self.feeder.as_ref().is_some_and(|feeder| !feeder.is_abandoned());
        match &self.reading {
            Reading::Done => true,
            // Whether a client that was not invited sends its body is not known.
            _ if self.expects => false,
            Reading::Exactly(left) => read_on || *left <= UNREAD_BYTES_MAX,
            Reading::Chunked(_) => true,
        }
    }

    /// Cuts the reader off: the answer is complete.
    pub(super) fn cut(&mut self) {
        self.feeder = None;
    }
}
