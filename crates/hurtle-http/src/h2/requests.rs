//! Receives messages: field blocks, data, and the calls that read a body (RFC 9113 sections 5.1,
//! 6.1, 6.2, 6.10 and 8.1). `client` handles the heads of responses.

use std::collections::VecDeque;

use super::connection::{Connection, Event, FIRST_WINDOW_BYTES, Role, Shutdown};
use super::flood::{Kind, SMALL_DATA_BYTES};
use super::flow::SendWindow;
use super::frame::{self, Head, PAYLOAD_BYTES_MAX, Reason};
use super::receive::{Block, Data};
use super::schedule::Turn;
use super::stream::{Closure, Stream};
use crate::semantics::priority::Priority;
use crate::stream::section::{self, Fault, Purpose, Section};
use crate::stream::{Body, StreamClosed};

/// Maximum number of CONTINUATION frames in a block (CVE-2024-24549 and others).
const CONTINUATIONS_MAX: u32 = 64;

/// The role of a field block, by the state of its stream.
enum Disposition {
    Request,
    Response,
    Trailers,
    /// Decoded for the compression tables only.
    Ignored,
    /// Decoded for the tables only; the stream is reset with this error.
    Rejected(Reason),
    /// Decoded for the tables only; the stream is reset with REFUSED_STREAM.
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
        // One frame beyond the largest allowed field section.
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

    /// Handles a complete field block.
    fn block(&mut self, head: Head, parent: Option<u32>, block: &[u8]) -> Result<(), Reason> {
        let disposition = self.classify(head)?;
        let purpose = match disposition {
            Disposition::Request => {
                Purpose::Request { connect_protocol: self.limits.connect_protocol }
            }
            Disposition::Response => Purpose::Response,
            Disposition::Trailers => Purpose::Trailers,
            Disposition::Ignored | Disposition::Rejected(_) | Disposition::Refused => {
                Purpose::Tables
            }
        };
        let (len, bytes_max) = (block.len(), self.limits.header_list_bytes_max);
        let mut block = self.decoder.block(block);
        let next_field = |out: &mut Vec<u8>, is_wanted| block.next_field(out, is_wanted);
        let section = section::read(next_field, len, purpose, bytes_max)
            .map_err(|_| Reason::COMPRESSION_ERROR)?;
        match disposition {
            // RFC 7540 section 5.3.1.
            Disposition::Request | Disposition::Response | Disposition::Trailers
                if parent == Some(head.stream) =>
            {
                self.breach(head.stream, Reason::PROTOCOL_ERROR)
            }
            Disposition::Request => self.request(head, section),
            Disposition::Response => self.response(head, section),
            Disposition::Trailers => self.trailers(head, section),
            Disposition::Ignored => Ok(()),
            Disposition::Rejected(reason) => self.breach(head.stream, reason),
            Disposition::Refused => self.refuse(head.stream),
        }
    }

    /// Decides the role of a HEADERS frame's block (RFC 9113 section 5.1).
    fn classify(&mut self, head: Head) -> Result<Disposition, Reason> {
        let id = head.stream;
        if let Some(stream) = self.streams.get(id) {
            return Ok(match (stream.is_receiving, stream.is_headed) {
                (true, true) => Disposition::Trailers,
                (true, false) => Disposition::Response,
                (false, _) => Disposition::Rejected(Reason::STREAM_CLOSED),
            });
        }
        if id.is_multiple_of(2) {
            return Err(Reason::PROTOCOL_ERROR);
        }
        if id > self.last {
            if self.role == Role::Client {
                return Err(Reason::PROTOCOL_ERROR);
            }
            if self.shutdown == Shutdown::Final {
                return Ok(Disposition::Ignored);
            }
            self.last = id;
            let open = self.streams.open.len() + self.ends.len();
            let is_full = open >= self.limits.streams_max as usize;
            return Ok(if is_full { Disposition::Refused } else { Disposition::Request });
        }
        match self.streams.closure(id) {
            Closure::ResetHere(_) => Ok(Disposition::Ignored),
            Closure::ResetByPeer(_) => Ok(Disposition::Rejected(Reason::STREAM_CLOSED)),
            Closure::Ended => Err(Reason::STREAM_CLOSED),
            // A client has opened it, and has reset many others since.
            Closure::Unknown if self.role == Role::Client => Ok(Disposition::Ignored),
            // Section 5.1.1.
            Closure::Unknown => Err(Reason::PROTOCOL_ERROR),
        }
    }

    /// Refuses a request beyond SETTINGS_MAX_CONCURRENT_STREAMS (section 5.1.2). It is not the
    /// peer's error if it has not received the setting yet.
    fn refuse(&mut self, id: u32) -> Result<(), Reason> {
        self.refused += 1;
        self.count(Kind::Reset)?;
        self.streams.remember(id, Closure::ResetHere(Reason::REFUSED_STREAM));
        let code = Reason::REFUSED_STREAM.0.to_be_bytes();
        self.reply(|out| frame::write(out, frame::RST_STREAM, 0, id, &code))
    }

    fn request(&mut self, head: Head, section: Section) -> Result<(), Reason> {
        let id = head.stream;
        let end_stream = head.has(frame::END_STREAM);
        let is_short = end_stream && section.content_length.is_some_and(|length| length > 0);
        if section.fault == Some(Fault::Malformed) || is_short {
            self.early.take(id.into());
            return self.breach(id, Reason::PROTOCOL_ERROR);
        }
        if section.fault == Some(Fault::TooLarge) {
            self.count(Kind::Reset)?;
        }
        // A PRIORITY_UPDATE before the request is newer than what the request says (RFC 9218
        // section 7).
        let priority = self.early.take(id.into()).or(section.priority);
        let priority = priority.unwrap_or(Priority::UNSPECIFIED);
        self.streams.push(Stream {
            id,
            priority,
            turn: Turn::None,
            order: 0,
            send_window: SendWindow::new(self.initial_window),
            is_answered: false,
            is_sending: true,
            receive_window: self.limits.first_window(self.role),
            unannounced_bytes: self.limits.unannounced_bytes(self.role),
            is_small: section.content_length.is_some_and(|len| len <= FIRST_WINDOW_BYTES.into()),
            is_receiving: !end_stream,
            is_headed: true,
            is_head: false,
            is_connect: false,
            heads: VecDeque::new(),
            is_announced: false,
            is_awaited: false,
            body_left: section.content_length,
            body: Vec::new(),
            trailers: None,
        });
        self.events.push_back(match section.fault {
            Some(Fault::TooLarge) => Event::HeadTooLarge { id, head: section.fields },
            _ => Event::Request { id, head: section.fields, end_stream },
        });
        Ok(())
    }

    /// Handles trailers, which end the message (section 8.1).
    fn trailers(&mut self, head: Head, section: Section) -> Result<(), Reason> {
        let id = head.stream;
        let Some(stream) = self.streams.get(id) else { return Ok(()) };
        if section.fault.is_some() || !head.has(frame::END_STREAM) {
            return self.breach(id, Reason::PROTOCOL_ERROR);
        }
        if let Err(reason) = stream.end_message() {
            return self.breach(id, reason);
        }
        stream.trailers = Some(Box::new(section.fields));
        self.notify_reader(id);
        Ok(())
    }

    /// Validates the header of a DATA frame: its stream must be receiving.
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

    /// Counts announced data against the windows and the content length.
    pub(super) fn open_data(&mut self, data: Data, frame_len: usize) -> Result<(), Reason> {
        if data.left < SMALL_DATA_BYTES && !data.is_last {
            let kind = if data.left == 0 { Kind::Chatter } else { Kind::SmallData };
            self.count(kind)?;
        }
        // RFC 9113 section 6.9.1: it counts against the connection's window in any case.
        self.receive_window.take(frame_len as u32)?;
        let id = data.stream;
        let Some(stream) = self.streams.get(id) else {
            self.free(frame_len as u32);
            return match self.streams.closure(id) {
                _ if id > self.last => Ok(()),
                Closure::ResetHere(_) => Ok(()),
                Closure::Unknown if self.role == Role::Client => Ok(()),
                Closure::ResetByPeer(_) => self.breach(id, Reason::STREAM_CLOSED),
                Closure::Ended | Closure::Unknown => Err(Reason::STREAM_CLOSED),
            };
        };
        let checked = match stream.is_receiving && stream.is_headed {
            true => stream.receive_window.take(frame_len as u32),
            // Section 8.1: data follows a head.
            false if stream.is_receiving => Err(Reason::PROTOCOL_ERROR),
            false => Err(Reason::STREAM_CLOSED),
        };
        if let Err(reason) = checked {
            self.free(frame_len as u32);
            return self.breach(id, reason);
        }
        if let Err(reason) = stream.expect(data.left as u64) {
            return self.breach(id, reason);
        }
        // The padding and its length byte.
        if frame_len > data.left {
            self.release(id, frame_len - data.left);
            self.raise(id);
        }
        Ok(())
    }

    /// Buffers a piece of data. Data of a closed stream was credited already.
    pub(super) fn take_data(&mut self, id: u32, piece: &[u8]) {
        if let Some(stream) = self.streams.get(id) {
            stream.body.extend_from_slice(piece);
            self.notify_reader(id);
        }
    }

    /// Ends a message after its last DATA.
    pub(super) fn end_data(&mut self, id: u32) -> Result<(), Reason> {
        let Some(stream) = self.streams.get(id) else { return Ok(()) };
        match stream.end_message() {
            Ok(()) => self.notify_reader(id),
            Err(reason) => return self.breach(id, reason),
        }
        Ok(())
    }

    pub(super) fn notify_reader(&mut self, id: u32) {
        if let Some(stream) = self.streams.get(id)
            && stream.is_awaited
        {
            stream.is_awaited = false;
            self.events.push_back(Event::Readable(id));
        }
    }

    /// Takes the next part of a message's body: all buffered bytes.
    ///
    /// # Errors
    /// The stream is over.
    pub fn read(&mut self, id: u32) -> Result<Body, StreamClosed> {
        if self.streams.get(id).is_some_and(|stream| !stream.is_small) {
            self.raise(id);
        }
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

    /// Announces the rest of a message's window.
    fn raise(&mut self, id: u32) {
        let Some(stream) = self.streams.get(id) else { return };
        let bytes = std::mem::take(&mut stream.unannounced_bytes);
        if bytes > 0 && stream.is_receiving {
            stream.receive_window.raise(bytes);
            self.write_update(id, bytes);
        }
    }

    /// Returns whether all data of a message was read, and no more follows: `read` returns its
    /// trailers or its end.
    pub fn is_read(&self, id: u32) -> bool {
        let at = self.streams.position(id);
        at.map(|at| &self.streams.open[at]).is_some_and(|s| !s.is_receiving && s.body.is_empty())
    }

    /// Credits read bytes to the windows. Bytes of a closed stream were credited when it closed.
    pub fn release(&mut self, id: u32, bytes: usize) {
        let Some(stream) = self.streams.get(id) else { return };
        let freed = stream.receive_window.free(u32::try_from(bytes).unwrap_or(u32::MAX));
        // A complete message needs no window.
        let increment = if stream.is_receiving { stream.receive_window.increment() } else { None };
        if let Some(increment) = increment {
            self.write_update(id, increment);
        }
        self.free(freed);
    }
}
