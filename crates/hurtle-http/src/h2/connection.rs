//! An HTTP/2 connection: its state, its events and its end. `receive` reads the input, `send`
//! writes the output; `client` holds what only a client does.

use std::collections::VecDeque;

use bytes::Bytes;

use super::client::ServerSettings;
use super::flood::{Flood, Kind};
use super::flow::{ReceiveWindow, SendWindow, WINDOW_BYTES_DEFAULT, WINDOW_BYTES_MAX};
use super::frame::{self, Reason};
use super::hpack::{Decoder, Encoder};
use super::output::Output;
use super::receive::Reader;
use super::schedule::{SHARE_BYTES_MAX, Turn};
use super::stream::{Closure, Streams};
use crate::stream::FieldSection;
use crate::stream::priority::EarlyPriorities;

/// Events for which an idle connection keeps memory.
const EVENTS_KEPT: usize = 4;

/// The payload of the PING that follows the first GOAWAY (RFC 9113 section 6.8).
pub(super) const SHUTDOWN_PING: [u8; 8] = *b"leaving!";

/// Limits on the resources that a peer may use.
#[derive(Clone, Copy, Debug)]
pub struct Limits {
    /// Concurrent requests. A client also obeys the peer's SETTINGS_MAX_CONCURRENT_STREAMS.
    pub streams_max: u32,
    /// Unread bytes of one message's body; at least 65,535. Of a request whose body nobody has read
    /// yet, the peer is told that 16 KiB are.
    pub stream_window_bytes: u32,
    /// Unread bytes of all bodies of the connection. A server's should exceed 16 KiB for each of
    /// `streams_max`, so that requests that wait for their turn stop no other.
    pub connection_window_bytes: u32,
    /// Bytes of a message's fields, counted as in RFC 9113 section 6.5.2.
    pub header_list_bytes_max: usize,
    /// `true` if requests may have `:protocol` (RFC 8441): SETTINGS_ENABLE_CONNECT_PROTOCOL is
    /// sent.
    pub connect_protocol: bool,
    /// Queued output in bytes from which `capacity` returns 0. Heads, and one share of 64 KiB, may
    /// exceed it.
    pub queued_bytes_max: usize,
}

/// The first window of a request, in bytes. It is raised when the body is read, about as fast as
/// the congestion window of a new TCP connection grows beyond it (RFC 6928: 10 segments).
pub(super) const FIRST_WINDOW_BYTES: u32 = 16 << 10;

impl Limits {
    /// The first window of a peer's message.
    fn first_window_bytes(&self, role: Role) -> u32 {
        match role {
            Role::Server => FIRST_WINDOW_BYTES,
            Role::Client => self.stream_window_bytes,
        }
    }

    /// The first window of a peer's message as this side counts it. The peer may not know the
    /// setting yet (RFC 9113 section 6.9.2).
    pub(super) fn first_window(&self, role: Role) -> ReceiveWindow {
        ReceiveWindow::new(self.first_window_bytes(role).max(WINDOW_BYTES_DEFAULT))
    }

    /// Bytes of a message's window beyond the first one.
    pub(super) fn unannounced_bytes(&self, role: Role) -> u32 {
        self.stream_window_bytes - self.first_window_bytes(role)
    }
}

impl Default for Limits {
    fn default() -> Limits {
        Limits {
            streams_max: 128,
            stream_window_bytes: 256 << 10,
            connection_window_bytes: 3 << 20,
            header_list_bytes_max: 32 << 10,
            connect_protocol: false,
            queued_bytes_max: 256 << 10,
        }
    }
}

/// An event for the caller.
#[derive(Debug, PartialEq, Eq)]
pub enum Event {
    /// A request. A body or trailers follow unless `end_stream`.
    Request {
        /// The number of its stream.
        id: u32,
        /// The fields of its head, pseudo-header fields included.
        head: FieldSection,
        /// The request has no body and no trailers.
        end_stream: bool,
    },
    /// A request whose fields exceed `header_list_bytes_max`. The caller answers it with 431.
    HeadTooLarge {
        /// Number of the stream with the request.
        id: u32,
        /// The pseudo-fields and fields before the limit.
        head: FieldSection,
    },
    /// `read` or `read_head` returns something again after it returned nothing.
    Readable(u32),
    /// `capacity` is above 0 again after it was 0.
    Writable(u32),
    /// A stream was closed before its response was complete. Its state is gone, except for
    /// `reset_reason`.
    Reset(u32, Reason),
    /// The peer will send no more requests, or accept no more.
    GoAway(Reason),
    /// The connection has failed, and all streams are closed. Queued output can still be written.
    Closed(Reason),
}

/// A connection of HTTP/2, of a server or a client, without its transport.
#[derive(Debug)]
pub struct Connection {
    pub(super) role: Role,
    pub(super) limits: Limits,
    pub(super) reader: Reader,
    pub(super) decoder: Decoder,
    pub(super) encoder: Encoder,
    pub(super) streams: Streams,
    pub(super) early: EarlyPriorities,
    /// The highest stream number of a request, sent or received.
    pub(super) last: u32,
    pub(super) send_window: SendWindow,
    pub(super) receive_window: ReceiveWindow,
    /// The peer's SETTINGS_INITIAL_WINDOW_SIZE and SETTINGS_MAX_FRAME_SIZE.
    pub(super) initial_window: u32,
    pub(super) frame_bytes_max: usize,
    /// Settings of a client's server.
    pub(super) server: ServerSettings,
    pub(super) output: Output,
    /// The position after the last DATA frame in the output that is not empty.
    pub(super) data_end: u64,
    /// Positions in the output at which ended streams end. A stream counts as open until then.
    pub(super) ends: VecDeque<u64>,
    pub(super) events: VecDeque<Event>,
    /// `true` if all events were taken since the last share was granted.
    is_settled: bool,
    pub(super) flood: Flood,
    pub(super) shutdown: Shutdown,
    pub(super) closed: Option<Reason>,
    /// Requests beyond SETTINGS_MAX_CONCURRENT_STREAMS.
    pub(super) refused: u64,
    pub(super) now_ms: u64,
}

/// The side of a connection.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(super) enum Role {
    Server,
    Client,
}

/// The state of a graceful shutdown.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(super) enum Shutdown {
    No,
    /// A first GOAWAY was sent. Requests sent before the peer received it are accepted.
    Announced,
    /// The final GOAWAY was sent, or a client has received one. Later requests are ignored.
    Final,
}

impl Connection {
    /// Creates a server's connection and queues SETTINGS.
    pub fn new(limits: &Limits, now_ms: u64) -> Connection {
        Connection::of(Role::Server, limits, now_ms)
    }

    pub(super) fn of(role: Role, limits: &Limits, now_ms: u64) -> Connection {
        let mut limits = *limits;
        let window = |bytes: u32| bytes.clamp(WINDOW_BYTES_DEFAULT, WINDOW_BYTES_MAX);
        limits.stream_window_bytes = window(limits.stream_window_bytes);
        limits.connection_window_bytes = window(limits.connection_window_bytes);
        let mut output = Output::default();
        output.gather(|out| {
            let list_bytes = u32::try_from(limits.header_list_bytes_max).unwrap_or(u32::MAX);
            let first = match role {
                Role::Server => (frame::MAX_CONCURRENT_STREAMS, limits.streams_max),
                Role::Client => (frame::ENABLE_PUSH, 0),
            };
            if role == Role::Client {
                out.extend_from_slice(frame::PREFACE);
            }
            let settings = [
                first,
                (frame::INITIAL_WINDOW_SIZE, limits.first_window_bytes(role)),
                (frame::MAX_HEADER_LIST_SIZE, list_bytes),
                (frame::NO_RFC7540_PRIORITIES, 1),
                (frame::ENABLE_CONNECT_PROTOCOL, 1),
            ];
            let sent = settings.len() - usize::from(!limits.connect_protocol);
            frame::write_settings(out, &settings[..sent]);
            let more = limits.connection_window_bytes - WINDOW_BYTES_DEFAULT;
            if more > 0 {
                frame::write(out, frame::WINDOW_UPDATE, 0, 0, &more.to_be_bytes());
            }
        });
        Connection {
            role,
            reader: Reader::new(role, now_ms),
            decoder: Decoder::default(),
            encoder: Encoder::default(),
            streams: Streams::default(),
            early: EarlyPriorities::default(),
            last: 0,
            send_window: SendWindow::new(WINDOW_BYTES_DEFAULT),
            receive_window: ReceiveWindow::new(limits.connection_window_bytes),
            initial_window: WINDOW_BYTES_DEFAULT,
            frame_bytes_max: frame::PAYLOAD_BYTES_MAX,
            server: ServerSettings::new(&limits),
            output,
            ends: VecDeque::new(),
            events: VecDeque::new(),
            is_settled: false,
            flood: Flood::new(now_ms),
            data_end: 0,
            shutdown: Shutdown::No,
            closed: None,
            refused: 0,
            now_ms,
            limits,
        }
    }

    /// The next event. The caller takes events until there are none: after it received or wrote
    /// bytes, and after the streams of earlier events have acted.
    pub fn next_event(&mut self) -> Option<Event> {
        while let Some(event) = self.events.pop_front() {
            if self.events.is_empty() && self.events.capacity() > EVENTS_KEPT {
                self.events = VecDeque::new();
            }
            if let Event::Request { id, .. }
            | Event::HeadTooLarge { id, .. }
            | Event::Readable(id) = event
            {
                // The stream was reset before the caller learned of it.
                let Some(stream) = self.streams.get(id) else { continue };
                stream.is_announced = true;
            }
            return Some(event);
        }
        if self.streams.waiting > 0 {
            let queued = self.output.len();
            let room = if queued * 2 > self.limits.queued_bytes_max { 0 } else { self.room() };
            let is_unused = queued == 0 && self.is_settled;
            if let Some(id) = self.streams.grant(room, is_unused) {
                self.is_settled = false;
                return Some(Event::Writable(id));
            }
        }
        self.is_settled = true;
        None
    }

    /// Bytes of data that all streams together may queue now.
    pub(super) fn room(&self) -> usize {
        let queue = match self.limits.queued_bytes_max.checked_sub(self.output.len()) {
            None | Some(0) => 0,
            Some(left) => left.max(SHARE_BYTES_MAX),
        };
        queue.min(self.send_window.bytes())
    }

    /// Gives out the first piece of the bytes to be written. They count as queued until `consume`.
    pub fn take_output(&mut self) -> Option<Bytes> {
        self.output.take()
    }

    /// The bytes to be written that were not given out, in order.
    pub fn output(&self) -> impl Iterator<Item = &[u8]> {
        self.output.pieces()
    }

    /// The number of bytes to write.
    pub fn queued(&self) -> usize {
        self.output.len()
    }

    /// Removes the first `bytes` of the output, which were written.
    pub fn consume(&mut self, bytes: usize) {
        let bytes = bytes.min(self.queued());
        self.output.consume(bytes);
        self.flood.sent(bytes);
        while self.ends.front().is_some_and(|end| *end <= self.output.begin()) {
            self.ends.pop_front();
        }
        if self.ends.is_empty() && self.ends.capacity() > EVENTS_KEPT {
            self.ends = VecDeque::new();
        }
    }

    /// Sends a first GOAWAY. Requests in flight are accepted. `is_finished` is true once all
    /// requests are answered.
    pub fn graceful_shutdown(&mut self) {
        if self.role == Role::Client {
            self.leave();
        } else if self.shutdown == Shutdown::No && self.closed.is_none() {
            self.shutdown = Shutdown::Announced;
            self.go_away(WINDOW_BYTES_MAX, Reason::NO_ERROR);
            self.output.gather(|out| frame::write(out, frame::PING, 0, 0, &SHUTDOWN_PING));
        }
    }

    /// Sends the final GOAWAY. The peer has acknowledged the first one, so no request is in flight.
    pub(super) fn finish_shutdown(&mut self) {
        if self.shutdown == Shutdown::Announced {
            self.shutdown = Shutdown::Final;
            self.go_away(self.last, Reason::NO_ERROR);
        }
    }

    /// Returns the error that the connection was failed with.
    pub fn failure(&self) -> Option<Reason> {
        self.closed
    }

    /// Returns the number of requests that were refused because too many streams were open.
    pub fn refused_streams(&self) -> u64 {
        self.refused
    }

    /// Fails the connection with this error code.
    pub fn abrupt(&mut self, reason: Reason) {
        if self.closed.is_some() {
            return;
        }
        self.closed = Some(reason);
        // A server opens no streams.
        let last = if self.role == Role::Client { 0 } else { self.last };
        self.go_away(last, reason);
        self.streams.end(self.role);
        self.reader.forget();
        self.events.clear();
        self.events.push_back(Event::Closed(reason));
    }

    pub(super) fn go_away(&mut self, last: u32, reason: Reason) {
        let mut payload = [0; 8];
        payload[..4].copy_from_slice(&last.to_be_bytes());
        payload[4..].copy_from_slice(&reason.0.to_be_bytes());
        self.output.gather(|out| frame::write(out, frame::GOAWAY, 0, 0, &payload));
    }

    /// Returns `true` if the connection ends once the queued bytes are written.
    pub fn is_finished(&self) -> bool {
        let is_done = self.shutdown == Shutdown::Final && self.streams.open.is_empty();
        self.closed.is_some() || is_done
    }

    /// Returns `true` if the peer has sent its preface and its settings.
    pub fn is_established(&self) -> bool {
        self.reader.is_established()
    }

    /// Time at which an incomplete preface, control frame or field block began, in milliseconds of
    /// `receive`'s clock; `None` if nothing is incomplete.
    pub fn begun_ms(&self) -> Option<u64> {
        if self.closed.is_some() { None } else { self.reader.begun_ms() }
    }

    /// Number of open streams.
    pub fn open_streams(&self) -> usize {
        self.streams.open.len()
    }

    /// Returns `true` if the stream is open, so that its response may continue.
    pub fn is_open(&self, id: u32) -> bool {
        self.streams.position(id).is_some()
    }

    /// `true` if the stream waits for its turn to send, because other streams go first or the
    /// connection cannot send. The peer is not late for this stream as long as `sent_data` grows.
    pub fn waits_for_turn(&self, id: u32) -> bool {
        let at = self.streams.position(id);
        at.is_some_and(|at| matches!(self.streams.open[at].turn, Turn::Waits(_)))
    }

    /// Returns a number that grows as long as DATA frames are written: the bytes since the
    /// connection began, up to the end of the last DATA frame. Replies to control frames, which a
    /// peer can have for nothing, do not let it grow.
    pub fn sent_data(&self) -> u64 {
        self.output.begin().min(self.data_end)
    }

    /// Resets a stream after an error of the peer (RFC 9113 section 5.4.2).
    ///
    /// # Errors
    /// A connection error: the peer has caused too many stream errors.
    pub(super) fn breach(&mut self, id: u32, reason: Reason) -> Result<(), Reason> {
        self.count(Kind::Breach)?;
        self.lose_stream(id, Closure::ResetHere(reason));
        self.reply(|out| frame::write(out, frame::RST_STREAM, 0, id, &reason.0.to_be_bytes()))
    }

    /// Removes a stream that the caller has not ended, and queues an event.
    pub(super) fn lose_stream(&mut self, id: u32, closure: Closure) {
        let reason = closure.reason();
        match self.streams.get(id) {
            Some(stream) if stream.is_announced => self.events.push_back(Event::Reset(id, reason)),
            Some(_) => {}
            None => return self.streams.remember(id, closure),
        }
        self.close_stream(id, closure);
    }

    /// Removes a stream. Its unread bytes are credited to the connection's window.
    pub(super) fn close_stream(&mut self, id: u32, closure: Closure) {
        if let Some(at) = self.streams.position(id) {
            let stream = self.streams.remove(at, closure);
            self.free(stream.receive_window.held());
        }
    }

    /// Credits bytes to the connection's receive window.
    pub(super) fn free(&mut self, bytes: u32) {
        self.receive_window.free(bytes);
        if let Some(increment) = self.receive_window.shared_increment() {
            self.write_update(0, increment);
        }
    }

    pub(super) fn write_update(&mut self, id: u32, increment: u32) {
        let payload = increment.to_be_bytes();
        self.output.gather(|out| frame::write(out, frame::WINDOW_UPDATE, 0, id, &payload));
    }

    /// Counts a frame against the peer's allowance.
    pub(super) fn count(&mut self, kind: Kind) -> Result<(), Reason> {
        match (self.role, kind) {
            // An upstream may stream short messages as fast as it can; the windows bound them.
            (Role::Client, Kind::SmallData) => Ok(()),
            _ => self.flood.count(kind, self.now_ms),
        }
    }

    /// Queues a reply to a frame that costs the peer nothing.
    pub(super) fn reply(&mut self, write: impl FnOnce(&mut Vec<u8>)) -> Result<(), Reason> {
        self.output.gather(write);
        if self.output.count_reply() { Ok(()) } else { Err(Reason::ENHANCE_YOUR_CALM) }
    }
}
