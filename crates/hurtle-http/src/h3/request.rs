//! Receives requests (RFC 9114 sections 4.1 and 7): the frames of request streams, field sections,
//! and the calls that read a body.

use bytes::{Buf, Bytes};

use super::connection::{Connection, Event};
use super::error::{Code, Error};
use super::flood::{Kind, SMALL_DATA_BYTES};
use super::frame::{self, Head};
use super::streams::{Phase, State};
use super::unidirectional::qpack;
use crate::stream::section::{self, Fault, Purpose, Section};
use crate::stream::{Body, FieldSection, StreamClosed};

impl Connection {
    /// Handles bytes of a request stream.
    pub(super) fn receive_request(
        &mut self,
        id: u64,
        bytes: Bytes,
        is_end: bool,
    ) -> Result<(), Error> {
        let Some(stream) = self.streams.get(id) else { return Ok(()) };
        stream.is_ended |= is_end;
        if stream.phase == Phase::Discarded {
            stream.is_receiving &= !is_end;
            return Ok(());
        }
        stream.input = match stream.input.is_empty() {
            true => bytes,
            false => [&stream.input[..], &bytes].concat().into(),
        };
        self.advance(id)
    }

    /// Returns the requests whose sections waited for insertions and are decoded now. The driver
    /// reads on from their QUIC streams before it takes an event.
    pub fn take_resumed(&mut self) -> Vec<u64> {
        std::mem::take(&mut self.resumed)
    }

    /// Decodes a section that waited for insertions, then continues with the bytes after it.
    pub(super) fn resume(&mut self, id: u64) -> Result<(), Error> {
        self.resumed.push(id);
        let Some(stream) = self.streams.get(id) else { return Ok(()) };
        if let State::Blocked(_, block) = std::mem::replace(&mut stream.state, State::Head) {
            self.section(id, block)?;
        }
        self.advance(id)
    }

    /// Processes the input of a stream until it needs more.
    fn advance(&mut self, id: u64) -> Result<(), Error> {
        loop {
            let Some(stream) = self.streams.get(id) else { return Ok(()) };
            if stream.phase == Phase::Discarded {
                stream.is_receiving = !stream.is_ended;
                return Ok(());
            }
            if let State::Blocked(..) = stream.state {
                return Ok(());
            }
            if stream.input.is_empty() {
                break;
            }
            match stream.state {
                State::Head => match stream.prefix.head(&mut stream.input) {
                    Some(head) => self.begin_frame(id, head)?,
                    None => break,
                },
                State::Section(left) => {
                    let piece = stream.input.split_to(left.min(stream.input.len()));
                    let is_whole = piece.len() == left;
                    if is_whole && stream.section.is_empty() {
                        stream.state = State::Head;
                        self.section(id, piece)?;
                        continue;
                    }
                    stream.section.extend_from_slice(&piece);
                    stream.state = State::Section(left - piece.len());
                    if is_whole {
                        stream.state = State::Head;
                        let block = std::mem::take(&mut stream.section);
                        self.section(id, block.into())?;
                    }
                }
                State::Data(left) => {
                    let some = left.min(stream.input.len() as u64);
                    let piece = stream.input.split_to(some as usize);
                    stream.body.push(piece);
                    stream.state =
                        if some == left { State::Head } else { State::Data(left - some) };
                    self.notify_reader(id);
                }
                State::Skip(left) => {
                    let some = left.min(stream.input.len() as u64);
                    stream.input.advance(some as usize);
                    stream.state =
                        if some == left { State::Head } else { State::Skip(left - some) };
                }
                State::Blocked(..) => return Ok(()),
            }
        }
        let Some(stream) = self.streams.get(id) else { return Ok(()) };
        if stream.is_ended && stream.is_receiving {
            stream.end_request()?;
            self.notify_reader(id);
        }
        Ok(())
    }

    /// Validates a frame's header and enters the state for its payload.
    fn begin_frame(&mut self, id: u64, head: Head) -> Result<(), Error> {
        let Some(stream) = self.streams.get(id) else { return Ok(()) };
        match (head.kind, stream.phase) {
            (frame::HEADERS, Phase::Head | Phase::Body { is_tunnel: false }) => {
                return self.begin_section(id, head.len);
            }
            (frame::DATA, Phase::Body { .. }) => {
                if head.len < SMALL_DATA_BYTES {
                    self.flood.count(Kind::SmallFrame, 1, self.now_ms)?;
                }
                let Some(stream) = self.streams.get(id) else { return Ok(()) };
                stream.expect(head.len)?;
                stream.state = if head.len > 0 { State::Data(head.len) } else { State::Head };
            }
            (frame::DATA, Phase::Head) => return Err(unexpected("DATA before the request's head")),
            (frame::DATA | frame::HEADERS, _) => {
                return Err(unexpected("a frame after the end of the request"));
            }
            (kind, _) if is_misplaced(kind) => {
                return Err(unexpected("a frame that does not belong to a request"));
            }
            _ => {
                self.flood.count(Kind::SmallFrame, 1, self.now_ms)?;
                let Some(stream) = self.streams.get(id) else { return Ok(()) };
                stream.state = if head.len > 0 { State::Skip(head.len) } else { State::Head };
            }
        }
        Ok(())
    }

    /// Enters a HEADERS frame, unless its section exceeds the limit. Decoded fields are counted
    /// with an overhead, so a longer encoded section cannot be within the limit, but for a wasteful
    /// Huffman code.
    fn begin_section(&mut self, id: u64, len: u64) -> Result<(), Error> {
        let len_max = self.limits.header_list_bytes_max;
        let Some(stream) = self.streams.get(id) else { return Ok(()) };
        let len = match usize::try_from(len) {
            Ok(0) => return self.section(id, Bytes::new()),
            Ok(len) if len <= len_max => len,
            _ if stream.phase == Phase::Head => {
                return self.discard(id, FieldSection::default());
            }
            _ => return Err(TRAILERS_TOO_LARGE),
        };
        stream.state = State::Section(len);
        Ok(())
    }

    /// Decodes a complete field section, or keeps it until the entries it needs are inserted.
    fn section(&mut self, id: u64, block: Bytes) -> Result<(), Error> {
        let failed = |error| qpack(Code::QPACK_DECOMPRESSION_FAILED, error);
        let mut rest = &block[..];
        let prefix = self.decoder.prefix(&mut rest).map_err(failed)?;
        if prefix.required > self.decoder.inserted() {
            // RFC 9204 section 2.1.2.
            if self.streams.blocked() >= self.limits.blocked_streams_max {
                return Err(Error::connection(
                    Code::QPACK_DECOMPRESSION_FAILED,
                    "too many requests wait for the dynamic table",
                ));
            }
            if let Some(stream) = self.streams.get(id) {
                stream.state = State::Blocked(prefix.required, block);
            }
            return Ok(());
        }
        let Some(stream) = self.streams.get(id) else { return Ok(()) };
        let is_head = stream.phase == Phase::Head;
        let purpose = match is_head {
            true => Purpose::Request { connect_protocol: self.limits.connect_protocol },
            false => Purpose::Trailers,
        };
        let (len, bytes_max) = (rest.len(), self.limits.header_list_bytes_max);
        let mut lines = self.decoder.lines(prefix, rest);
        let next_field = |out: &mut Vec<u8>, is_wanted| lines.next_field(out, is_wanted);
        let section = section::read(next_field, len, purpose, bytes_max).map_err(failed)?;
        if prefix.required > 0 {
            self.decoder.acknowledge(id, prefix.required);
            self.check_output()?;
        }
        if is_head { self.request(id, section) } else { self.trailers(id, section) }
    }

    fn request(&mut self, id: u64, section: Section) -> Result<(), Error> {
        let Some(stream) = self.streams.get(id) else { return Ok(()) };
        let is_tunnel = section.fields.method() == b"CONNECT";
        stream.phase = Phase::Body { is_tunnel };
        // PRIORITY_UPDATE is newer than what the request says (RFC 9218 section 7).
        stream.priority = stream.priority.or(section.priority);
        stream.body_left = section.content_length;
        match section.fault {
            Some(Fault::Malformed) => {
                return Err(Error::stream(Code::MESSAGE_ERROR, "the request is malformed"));
            }
            Some(Fault::TooLarge) => return self.discard(id, section.fields),
            None => {}
        }
        // `next_event` finds out whether the stream has ended.
        let event = Event::Request { id, head: section.fields, end_stream: false };
        self.events.push_back(event);
        Ok(())
    }

    /// Discards the rest of a request that is too large. `head`: what was decoded of it.
    fn discard(&mut self, id: u64, head: FieldSection) -> Result<(), Error> {
        let Some(stream) = self.streams.get(id) else { return Ok(()) };
        stream.phase = Phase::Discarded;
        stream.input = Bytes::new();
        self.decoder.cancel(id);
        self.events.push_back(Event::HeadTooLarge { id, head });
        self.flood.count(Kind::Reset, 1, self.now_ms)?;
        self.check_output()
    }

    /// Handles trailers, after which no frame but unknown ones may follow.
    fn trailers(&mut self, id: u64, section: Section) -> Result<(), Error> {
        let Some(stream) = self.streams.get(id) else { return Ok(()) };
        match section.fault {
            Some(Fault::Malformed) => {
                return Err(Error::stream(Code::MESSAGE_ERROR, "the trailers are malformed"));
            }
            Some(Fault::TooLarge) => return Err(TRAILERS_TOO_LARGE),
            None => {}
        }
        stream.phase = Phase::Trailed;
        stream.trailers = Some(Box::new(section.fields));
        Ok(())
    }

    fn notify_reader(&mut self, id: u64) {
        if let Some(stream) = self.streams.get(id)
            && stream.is_awaited
        {
            stream.is_awaited = false;
            self.events.push_back(Event::Readable(id));
        }
    }

    /// Returns `true` if bytes of a client's stream should be read. Of a request's body, at most
    /// the bytes of one `receive` are kept until the handler reads them; a request whose section
    /// waits for the encoder stream is not read either.
    pub fn wants(&self, id: u64) -> bool {
        if id & 3 != 0 {
            return true;
        }
        self.streams.find(id).is_some_and(|stream| {
            let is_idle = stream.body.is_empty() && !stream.is_blocked();
            is_idle && !stream.is_ended
        })
    }

    /// Takes the next part of a request's body: buffered bytes. After `Body::NotYet` the driver
    /// reads from the QUIC stream; `Event::Readable` follows.
    ///
    /// # Errors
    /// The stream is over.
    pub fn read(&mut self, id: u64) -> Result<Body, StreamClosed> {
        let stream = self.streams.get(id).ok_or(StreamClosed)?;
        if !stream.body.is_empty() {
            return Ok(Body::Data(stream.body.take()));
        }
        if stream.is_receiving {
            stream.is_awaited = true;
            return Ok(Body::NotYet);
        }
        Ok(stream.trailers.take().map_or(Body::End, |trailers| Body::Trailers(*trailers)))
    }
}

const TRAILERS_TOO_LARGE: Error = Error::stream(Code::EXCESSIVE_LOAD, "the trailers are too large");

/// `true` if a known frame never belongs to a request stream (RFC 9114 section 7.2, RFC 9218
/// section 7.2).
fn is_misplaced(kind: u64) -> bool {
    let is_of_control = matches!(
        kind,
        frame::CANCEL_PUSH
            | frame::SETTINGS
            | frame::PUSH_PROMISE
            | frame::GOAWAY
            | frame::MAX_PUSH_ID
            | frame::PRIORITY_UPDATE
            | frame::PRIORITY_UPDATE_PUSH
    );
    is_of_control || frame::is_of_http2(kind)
}

fn unexpected(reason: &'static str) -> Error {
    Error::connection(Code::FRAME_UNEXPECTED, reason)
}
