//! Requests on their way in: field blocks, data, and what is given to the caller of them
//! (RFC 9113 sections 5.1, 6.1, 6.2, 6.10 and 8.1).

use bytes::Bytes;

use super::connection::{Connection, Event, Leaving, StreamClosed};
use super::fields::FieldSection;
use super::flood::{Kind, SMALL_DATA_BYTES};
use super::flow::{ReceiveWindow, SendWindow};
use super::frame::{self, Head, PAYLOAD_BYTES_MAX, Reason};
use super::receive::{Block, Data};
use super::schedule::Turn;
use super::section::{self, Fault, Purpose, Section};
use super::stream::{Past, Stream};
use crate::semantics::priority::Priority;

/// CONTINUATION frames of one block at most (CVE-2024-24549 and others).
const CONTINUATIONS_MAX: u32 = 64;

/// The next part of a request's body.
#[derive(Debug, PartialEq, Eq)]
pub enum Body {
    /// Bytes, at least one. `release` gives their window back.
    Data(Bytes),
    /// The trailers; the end follows.
    Trailers(FieldSection),
    /// There is no more.
    End,
    /// Nothing was received; `Event::Readable` follows.
    NotYet,
}

/// The role of a field block, by the state of its stream.
enum Fate {
    Request,
    Trailers,
    /// It is not looked at, but for the tables.
    Ignored,
    /// Nor is it, and the stream is reset.
    Rejected(Reason),
    /// Nor is it, and the request may be sent again.
    Refused,
}

impl Connection {
    pub(super) fn headers(&mut self, head: Head, payload: &[u8]) -> Result<(), Reason> {
        if head.stream == 0 {
            return Err(Reason::PROTOCOL_ERROR);
        }
        let (fragment, parent) = frame::fragment(head, payload)?;
        if head.has(frame::END_HEADERS) {
            return self.block(head, parent, fragment);
        }
        let bytes = fragment.to_vec();
        self.reader.block = Some(Block { head, parent, bytes, frames: 0 });
        Ok(())
    }

    pub(super) fn continuation(&mut self, head: Head, payload: &[u8]) -> Result<(), Reason> {
        let mut block = self.reader.block.take().ok_or(Reason::PROTOCOL_ERROR)?;
        block.frames += 1;
        let bytes = block.bytes.len() + payload.len();
        // One frame more than the fields may have.
        let bytes_max = self.limits.header_list_bytes_max + PAYLOAD_BYTES_MAX;
        if block.frames > CONTINUATIONS_MAX || bytes > bytes_max {
            return Err(Reason::ENHANCE_YOUR_CALM);
        }
        block.bytes.extend_from_slice(payload);
        if head.has(frame::END_HEADERS) {
            return self.block(block.head, block.parent, &block.bytes);
        }
        self.reader.block = Some(block);
        Ok(())
    }

    /// Takes a field block that is whole.
    fn block(&mut self, head: Head, parent: Option<u32>, block: &[u8]) -> Result<(), Reason> {
        let fate = self.fate(head)?;
        let purpose = match fate {
            Fate::Request => Purpose::Request,
            Fate::Trailers => Purpose::Trailers,
            Fate::Ignored | Fate::Rejected(_) | Fate::Refused => Purpose::Tables,
        };
        let section =
            section::read(&mut self.decoder, block, purpose, self.limits.header_list_bytes_max)
                .map_err(|_| Reason::COMPRESSION_ERROR)?;
        match fate {
            // RFC 7540 section 5.3.1.
            Fate::Request | Fate::Trailers if parent == Some(head.stream) => {
                self.breach(head.stream, Reason::PROTOCOL_ERROR)
            }
            Fate::Request => self.request(head, section),
            Fate::Trailers => self.trailers(head, section),
            Fate::Ignored => Ok(()),
            Fate::Rejected(reason) => self.breach(head.stream, reason),
            Fate::Refused => self.refuse(head.stream),
        }
    }

    /// RFC 9113 section 5.1.
    fn fate(&mut self, head: Head) -> Result<Fate, Reason> {
        let id = head.stream;
        if let Some(stream) = self.streams.get(id) {
            let is_open = stream.is_receiving;
            return Ok(if is_open {
                Fate::Trailers
            } else {
                Fate::Rejected(Reason::STREAM_CLOSED)
            });
        }
        if id.is_multiple_of(2) {
            return Err(Reason::PROTOCOL_ERROR);
        }
        if id > self.last {
            if self.leaving == Leaving::Final {
                return Ok(Fate::Ignored);
            }
            self.last = id;
            let open = self.streams.open.len() + self.ends.len();
            let is_full = open >= self.limits.streams_max as usize;
            return Ok(if is_full { Fate::Refused } else { Fate::Request });
        }
        match self.streams.past(id) {
            Past::ResetHere => Ok(Fate::Ignored),
            Past::ResetByPeer => Ok(Fate::Rejected(Reason::STREAM_CLOSED)),
            Past::Ended => Err(Reason::STREAM_CLOSED),
            // Section 5.1.1.
            Past::Unknown => Err(Reason::PROTOCOL_ERROR),
        }
    }

    /// There are as many requests as are taken (section 5.1.2). A client that does not know yet how
    /// many that is does nothing wrong.
    fn refuse(&mut self, id: u32) -> Result<(), Reason> {
        self.flood.count(Kind::Reset, self.now_ms)?;
        self.streams.remember(id, Past::ResetHere);
        let code = Reason::REFUSED_STREAM.0.to_be_bytes();
        self.reply(|out| frame::write(out, frame::RST_STREAM, 0, id, &code))
    }

    fn request(&mut self, head: Head, section: Section) -> Result<(), Reason> {
        let id = head.stream;
        let end_stream = head.has(frame::END_STREAM);
        let is_short = end_stream && section.content_length.is_some_and(|length| length > 0);
        if section.fault == Some(Fault::Malformed) || is_short {
            self.early.take(id);
            return self.breach(id, Reason::PROTOCOL_ERROR);
        }
        // A PRIORITY_UPDATE before the request is newer than what the request says (RFC 9218
        // section 7).
        let priority = self.early.take(id).or(section.priority);
        let priority = priority.unwrap_or(Priority::UNSPECIFIED);
        self.streams.push(Stream {
            id,
            priority,
            turn: Turn::None,
            order: 0,
            send_window: SendWindow::new(self.initial_window),
            is_answered: false,
            receive_window: ReceiveWindow::new(self.limits.stream_window_bytes),
            is_receiving: !end_stream,
            is_told: false,
            is_awaited: false,
            body_left: section.content_length,
            body: Vec::new(),
            trailers: None,
        });
        self.events.push_back(match section.fault {
            Some(Fault::TooLarge) => Event::HeadTooLarge(id),
            _ => Event::Request { id, head: section.fields, end_stream },
        });
        Ok(())
    }

    /// Section 8.1: they end the request.
    fn trailers(&mut self, head: Head, section: Section) -> Result<(), Reason> {
        let id = head.stream;
        let Some(stream) = self.streams.get(id) else { return Ok(()) };
        if section.fault.is_some() || !head.has(frame::END_STREAM) {
            return self.breach(id, Reason::PROTOCOL_ERROR);
        }
        if let Err(reason) = stream.end_request() {
            return self.breach(id, reason);
        }
        stream.trailers = Some(Box::new(section.fields));
        self.tell(id);
        Ok(())
    }

    /// Judges a DATA frame's header: whether there may be data at all.
    pub(super) fn check_data(&mut self, head: Head) -> Result<(), Reason> {
        if head.stream == 0 {
            return Err(Reason::PROTOCOL_ERROR);
        }
        if self.is_idle(head.stream) {
            return Err(Reason::PROTOCOL_ERROR);
        }
        if head.has(frame::PADDED) && head.len == 0 {
            return Err(Reason::FRAME_SIZE_ERROR);
        }
        Ok(())
    }

    /// Takes note of data that follows: of windows, of the body's length, of the stream's state.
    pub(super) fn open_data(&mut self, data: Data, frame_len: usize) -> Result<(), Reason> {
        if data.left < SMALL_DATA_BYTES && !data.is_last {
            let kind = if data.left == 0 { Kind::Chatter } else { Kind::SmallData };
            self.flood.count(kind, self.now_ms)?;
        }
        // RFC 9113 section 6.9.1: whatever becomes of the stream.
        self.receive_window.take(frame_len as u32)?;
        let id = data.stream;
        let Some(stream) = self.streams.get(id) else {
            self.free(frame_len as u32);
            return match self.streams.past(id) {
                _ if id > self.last => Ok(()),
                Past::ResetHere => Ok(()),
                Past::ResetByPeer => self.breach(id, Reason::STREAM_CLOSED),
                Past::Ended | Past::Unknown => Err(Reason::STREAM_CLOSED),
            };
        };
        let checked = match stream.is_receiving {
            true => stream.receive_window.take(frame_len as u32),
            false => Err(Reason::STREAM_CLOSED),
        };
        if let Err(reason) = checked {
            self.free(frame_len as u32);
            return self.breach(id, reason);
        }
        if let Err(reason) = stream.expect(data.left as u64) {
            return self.breach(id, reason);
        }
        // The padding, and the byte that tells of it.
        self.release(id, frame_len - data.left);
        Ok(())
    }

    /// Takes a piece of data. That of a stream which is over was given back already.
    pub(super) fn take_data(&mut self, id: u32, piece: &[u8]) {
        if let Some(stream) = self.streams.get(id) {
            stream.body.extend_from_slice(piece);
            self.tell(id);
        }
    }

    /// The request's last DATA was received.
    pub(super) fn end_data(&mut self, id: u32) -> Result<(), Reason> {
        let Some(stream) = self.streams.get(id) else { return Ok(()) };
        match stream.end_request() {
            Ok(()) => self.tell(id),
            Err(reason) => return self.breach(id, reason),
        }
        Ok(())
    }

    fn tell(&mut self, id: u32) {
        if let Some(stream) = self.streams.get(id)
            && stream.is_awaited
        {
            stream.is_awaited = false;
            self.events.push_back(Event::Readable(id));
        }
    }

    /// The next part of a request's body: all that was received of it.
    ///
    /// # Errors
    /// The stream is over.
    pub fn read(&mut self, id: u32) -> Result<Body, StreamClosed> {
        let stream = self.streams.get(id).ok_or(StreamClosed)?;
        if !stream.body.is_empty() {
            return Ok(Body::Data(std::mem::take(&mut stream.body).into()));
        }
        if stream.is_receiving {
            stream.is_awaited = true;
            return Ok(Body::NotYet);
        }
        Ok(stream.trailers.take().map_or(Body::End, |trailers| Body::Trailers(*trailers)))
    }

    /// Gives the window of so many bytes that were read back to the peer. Those of a stream that is
    /// over were given back with it.
    pub fn release(&mut self, id: u32, bytes: usize) {
        let Some(stream) = self.streams.get(id) else { return };
        let freed = stream.receive_window.free(u32::try_from(bytes).unwrap_or(u32::MAX));
        // A request that has ended needs no window.
        let increment = if stream.is_receiving { stream.receive_window.increment() } else { None };
        if let Some(increment) = increment {
            self.write_update(id, increment);
        }
        self.free(freed);
    }
}
