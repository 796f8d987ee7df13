//! The client's part of a connection: it opens streams, reads the heads of responses, and learns
//! which requests a server that leaves has not processed (RFC 9113 sections 6.8, 8.1 and 8.3).

use std::collections::VecDeque;

use super::connection::{Connection, Limits, Role, Shutdown};
use super::flow::SendWindow;
use super::frame::{self, Head, Reason};
use super::schedule::Turn;
use super::stream::{Closure, Stream};
use crate::semantics::priority::Priority;
use crate::stream::section::Section;
use crate::stream::{FieldSection, StreamClosed};

/// Maximum number of unread heads of one response: interim ones and the final one.
const HEADS_MAX: usize = 8;

/// Streams after this number need a new connection (RFC 9113 section 5.1.1).
const ID_MAX: u32 = 0x7fff_fff0;

/// The settings of a server that concern a client only.
#[derive(Clone, Copy, Debug)]
pub(super) struct ServerSettings {
    /// SETTINGS_MAX_CONCURRENT_STREAMS.
    pub(super) streams_max: u32,
    /// SETTINGS_ENABLE_CONNECT_PROTOCOL (RFC 8441 section 3).
    pub(super) allows_connect: bool,
}

impl ServerSettings {
    pub(super) fn new(limits: &Limits) -> ServerSettings {
        ServerSettings { streams_max: limits.streams_max, allows_connect: false }
    }
}

/// The pseudo-fields of a request (RFC 9113 section 8.3.1).
#[derive(Clone, Copy, Debug)]
pub struct RequestLine<'a> {
    /// `:method`
    pub method: &'a [u8],
    /// `:scheme`
    pub scheme: &'a [u8],
    /// `:authority`
    pub authority: &'a [u8],
    /// `:path`
    pub path: &'a [u8],
    /// `:protocol` of an extended CONNECT (RFC 8441 section 4).
    pub protocol: Option<&'a [u8]>,
}

impl Connection {
    /// Creates a client's connection and queues the preface and SETTINGS.
    pub fn client(limits: &Limits, now_ms: u64) -> Connection {
        Connection::of(Role::Client, limits, now_ms)
    }

    /// Returns whether a client may open a stream now: the server accepts requests, and fewer
    /// streams are open than both sides allow.
    pub fn can_open(&self) -> bool {
        let streams_max = self.limits.streams_max.min(self.server.streams_max) as usize;
        self.is_accepting() && self.streams.open.len() < streams_max
    }

    /// Returns whether the server accepts requests on this connection, now or later.
    pub fn is_accepting(&self) -> bool {
        self.shutdown == Shutdown::No && self.closed.is_none() && self.last < ID_MAX
    }

    /// Returns whether the server takes requests with `:protocol` (RFC 8441 section 3).
    pub fn allows_connect(&self) -> bool {
        self.server.allows_connect
    }

    /// Opens a stream and queues the request's head; `is_end`: there is no body. Returns the
    /// stream's number. For the fields see `send_informational`. The caller ends the stream with
    /// `finish`.
    ///
    /// # Errors
    /// `can_open` is false.
    pub fn open<'f>(
        &mut self,
        line: &RequestLine<'_>,
        fields: impl IntoIterator<Item = (&'f [u8], &'f [u8])>,
        is_end: bool,
    ) -> Result<u32, StreamClosed> {
        if !self.can_open() {
            return Err(StreamClosed);
        }
        let id = if self.last == 0 { 1 } else { self.last + 2 };
        self.last = id;
        self.streams.push(Stream {
            id,
            priority: Priority::UNSPECIFIED,
            turn: Turn::None,
            order: 0,
            send_window: SendWindow::new(self.initial_window),
            is_answered: true,
            is_sending: !is_end,
            receive_window: self.limits.first_window(self.role),
            unannounced_bytes: self.limits.unannounced_bytes(self.role),
            is_small: false,
            is_receiving: true,
            is_headed: false,
            is_head: line.method == b"HEAD",
            is_connect: line.protocol.is_some(),
            heads: VecDeque::new(),
            is_announced: true,
            is_awaited: false,
            body_left: None,
            body: Vec::new(),
            trailers: None,
        });
        self.write_fields(id, is_end, |encoder, out| {
            for (name, value) in [
                (&b":method"[..], line.method),
                (b":scheme", line.scheme),
                (b":authority", line.authority),
                (b":path", line.path),
            ] {
                encoder.field(name, value, out);
            }
            if let Some(protocol) = line.protocol {
                encoder.field(b":protocol", protocol, out);
            }
            for (name, value) in fields {
                encoder.field(name, value, out);
            }
        });
        Ok(id)
    }

    /// Takes the next head of a response; heads with a status below 200 are interim. The second
    /// value is `true` if neither a body nor trailers follow. `None`: it has not arrived;
    /// `Event::Readable` follows.
    ///
    /// # Errors
    /// The stream is over; see `reset_reason`.
    pub fn read_head(&mut self, id: u32) -> Result<Option<(FieldSection, bool)>, StreamClosed> {
        let stream = self.streams.get(id).ok_or(StreamClosed)?;
        let Some(head) = stream.heads.pop_front() else {
            stream.is_awaited = true;
            return Ok(None);
        };
        let is_end = !stream.is_receiving
            && stream.heads.is_empty()
            && stream.body.is_empty()
            && stream.trailers.is_none();
        Ok(Some((head, is_end)))
    }

    /// Closes a client's stream. An incomplete one is reset with CANCEL.
    pub fn finish(&mut self, id: u32) {
        let Some(stream) = self.streams.get(id) else { return };
        match stream.is_sending || stream.is_receiving {
            true => self.reset(id, Reason::CANCEL),
            false => self.close_stream(id, Closure::Ended),
        }
    }

    /// Returns the error code of a stream that was reset lately; `true`: the peer has reset it.
    /// REFUSED_STREAM from the peer means that the request was not processed (section 8.7).
    pub fn reset_reason(&self, id: u32) -> Option<(Reason, bool)> {
        match self.streams.closure(id) {
            Closure::ResetByPeer(reason) => Some((reason, true)),
            Closure::ResetHere(reason) => Some((reason, false)),
            Closure::Ended | Closure::Unknown => None,
        }
    }

    /// Sends GOAWAY. `is_finished` is true once all streams are closed.
    pub(super) fn leave(&mut self) {
        if self.shutdown == Shutdown::No && self.closed.is_none() {
            self.shutdown = Shutdown::Final;
            self.go_away(0, Reason::NO_ERROR);
        }
    }

    /// Handles GOAWAY: requests after the stream `last` were not processed (section 6.8).
    pub(super) fn left_by_server(&mut self, last: u32) {
        self.shutdown = Shutdown::Final;
        let lost = self.streams.open.iter().map(|stream| stream.id).filter(|id| *id > last);
        for id in lost.collect::<Vec<_>>() {
            self.lose_stream(id, Closure::ResetByPeer(Reason::REFUSED_STREAM));
        }
    }

    /// Handles the head of a response (sections 8.1 and 8.3.2).
    pub(super) fn response(&mut self, head: Head, section: Section) -> Result<(), Reason> {
        let id = head.stream;
        let is_end = head.has(frame::END_STREAM);
        let Some(stream) = self.streams.get(id) else { return Ok(()) };
        let status = section.fields.status();
        let is_interim = (100..200).contains(&status);
        // RFC 9110 section 8.6: these may have the length of a body that they do not have.
        // RFC 9110 section 9.3.6: the length in a successful response to CONNECT is ignored.
        let is_tunnel = stream.is_connect && (200..300).contains(&status);
        let has_length = !stream.is_head && !is_tunnel && status != 304;
        let length = section.content_length.filter(|_| has_length);
        let is_short = is_end && length.is_some_and(|length| length > 0);
        // Section 8.6: HTTP/2 does not support 101.
        let is_malformed = section.fault.is_some() || status == 101 || is_short;
        if is_malformed || is_interim && is_end || stream.heads.len() >= HEADS_MAX {
            return self.breach(id, Reason::PROTOCOL_ERROR);
        }
        if !is_interim {
            stream.is_headed = true;
            stream.body_left = if is_end { None } else { length };
        }
        stream.is_receiving = !is_end;
        stream.heads.push_back(section.fields);
        self.notify_reader(id);
        Ok(())
    }
}
