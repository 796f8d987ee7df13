//! A server's HTTP/2 connection: its state, its events, and how it ends. What comes in is read in
//! `receive`, what goes out is made in `send`.

use std::collections::VecDeque;

use bytes::Bytes;

use super::fields::FieldSection;
use super::flood::{Flood, Kind};
use super::flow::{ReceiveWindow, SendWindow, WINDOW_BYTES_DEFAULT, WINDOW_BYTES_MAX};
use super::frame::{self, Reason};
use super::hpack::{Decoder, Encoder};
use super::output::Output;
use super::priority::EarlyPriorities;
use super::receive::Reader;
use super::schedule::{SHARE_BYTES_MAX, Turn};
use super::stream::{Past, Streams};

/// Events there is always room for, in an idle connection too.
const EVENTS_KEPT: usize = 4;

/// The payload of the PING that follows the first GOAWAY (RFC 9113 section 6.8).
pub(super) const LEAVING: [u8; 8] = *b"leaving!";

/// Bounds on what a peer can cost.
#[derive(Clone, Copy, Debug)]
pub struct Limits {
    /// Requests at once.
    pub streams_max: u32,
    /// Bytes of a request's body that are held unread; 65,535 at least.
    pub stream_window_bytes: u32,
    /// Bytes of all request bodies of the connection that are held unread.
    pub connection_window_bytes: u32,
    /// Bytes of a request's fields, as RFC 9113 section 6.5.2 counts them.
    pub header_list_bytes_max: usize,
    /// Bytes that wait to be written before `capacity` gives no more. A share of 64 KiB may exceed
    /// it, and heads do.
    pub queued_bytes_max: usize,
}

impl Default for Limits {
    fn default() -> Limits {
        Limits {
            streams_max: 128,
            stream_window_bytes: 256 << 10,
            connection_window_bytes: 1 << 20,
            header_list_bytes_max: 32 << 10,
            queued_bytes_max: 256 << 10,
        }
    }
}

/// An event for the caller.
#[derive(Debug, PartialEq, Eq)]
pub enum Event {
    /// A request; a body or trailers follow unless `end_stream`.
    Request {
        /// Its stream.
        id: u32,
        /// Its fields.
        head: FieldSection,
        /// It is whole.
        end_stream: bool,
    },
    /// A request whose fields exceed `header_list_bytes_max`: it is to be answered with 431.
    HeadTooLarge(u32),
    /// `read` has something, after it had not.
    Readable(u32),
    /// `capacity` has something, after it had not.
    Writable(u32),
    /// A stream is over before the response is. Its state is gone.
    Reset(u32, Reason),
    /// The peer will send no more requests.
    GoAway(Reason),
    /// The connection is over, and so are all streams; what is queued can be written still.
    Closed(Reason),
}

/// The stream is over: reset, or answered.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub struct StreamClosed;

impl std::fmt::Display for StreamClosed {
    fn fmt(&self, f: &mut std::fmt::Formatter<'_>) -> std::fmt::Result {
        f.write_str("the stream is closed")
    }
}

impl std::error::Error for StreamClosed {}

/// A connection.
#[derive(Debug)]
pub struct Connection {
    pub(super) limits: Limits,
    pub(super) reader: Reader,
    pub(super) decoder: Decoder,
    pub(super) encoder: Encoder,
    pub(super) streams: Streams,
    pub(super) early: EarlyPriorities,
    /// The greatest number of a request.
    pub(super) last: u32,
    pub(super) send_window: SendWindow,
    pub(super) receive_window: ReceiveWindow,
    /// The peer's SETTINGS_INITIAL_WINDOW_SIZE and SETTINGS_MAX_FRAME_SIZE.
    pub(super) initial_window: u32,
    pub(super) frame_bytes_max: usize,
    pub(super) output: Output,
    /// Positions in the output at which ended streams end. A stream counts as open until then.
    pub(super) ends: VecDeque<u64>,
    pub(super) events: VecDeque<Event>,
    /// All events were taken since the last share was granted.
    is_settled: bool,
    pub(super) flood: Flood,
    pub(super) leaving: Leaving,
    pub(super) closed: Option<Reason>,
    pub(super) now_ms: u64,
}

/// The state of a graceful shutdown.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(super) enum Leaving {
    No,
    /// The peer was told, and may have requests on their way.
    Announced,
    /// Requests beyond the last are not looked at.
    Final,
}

impl Connection {
    /// Begins a connection; queues SETTINGS.
    pub fn new(limits: &Limits, now_ms: u64) -> Connection {
        let mut limits = *limits;
        let window = |bytes: u32| bytes.clamp(WINDOW_BYTES_DEFAULT, WINDOW_BYTES_MAX);
        limits.stream_window_bytes = window(limits.stream_window_bytes);
        limits.connection_window_bytes = window(limits.connection_window_bytes);
        let mut output = Output::default();
        output.gather(|out| {
            let list_bytes = u32::try_from(limits.header_list_bytes_max).unwrap_or(u32::MAX);
            let settings = [
                (frame::MAX_CONCURRENT_STREAMS, limits.streams_max),
                (frame::INITIAL_WINDOW_SIZE, limits.stream_window_bytes),
                (frame::MAX_HEADER_LIST_SIZE, list_bytes),
                (frame::NO_RFC7540_PRIORITIES, 1),
            ];
            frame::write_settings(out, &settings);
            let more = limits.connection_window_bytes - WINDOW_BYTES_DEFAULT;
            if more > 0 {
                frame::write(out, frame::WINDOW_UPDATE, 0, 0, &more.to_be_bytes());
            }
        });
        Connection {
            reader: Reader::new(now_ms),
            decoder: Decoder::default(),
            encoder: Encoder::default(),
            streams: Streams::default(),
            early: EarlyPriorities::default(),
            last: 0,
            send_window: SendWindow::new(WINDOW_BYTES_DEFAULT),
            receive_window: ReceiveWindow::new(limits.connection_window_bytes),
            initial_window: WINDOW_BYTES_DEFAULT,
            frame_bytes_max: frame::PAYLOAD_BYTES_MAX,
            output,
            ends: VecDeque::new(),
            events: VecDeque::new(),
            is_settled: false,
            flood: Flood::new(now_ms),
            leaving: Leaving::No,
            closed: None,
            now_ms,
            limits,
        }
    }

    /// The next event. To be called until it gives none: after bytes were received or written, and
    /// after the streams that were told of something had the occasion to act.
    pub fn next_event(&mut self) -> Option<Event> {
        while let Some(event) = self.events.pop_front() {
            if self.events.is_empty() && self.events.capacity() > EVENTS_KEPT {
                self.events = VecDeque::new();
            }
            if let Event::Request { id, .. } | Event::HeadTooLarge(id) | Event::Readable(id) = event
            {
                // A stream that was reset in the meantime never was.
                let Some(stream) = self.streams.get(id) else { continue };
                stream.is_told = true;
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

    /// Bytes of data that may be queued now, by all streams together.
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

    /// The bytes to be written that were not given out, in their order.
    pub fn output(&self) -> impl Iterator<Item = &[u8]> {
        self.output.pieces()
    }

    /// Bytes that wait to be written.
    pub fn queued(&self) -> usize {
        self.output.len()
    }

    /// Takes away bytes that were written, from the first on.
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

    /// Announces the end: requests that are on their way are taken, and when all are answered
    /// `is_finished` is true.
    pub fn graceful_shutdown(&mut self) {
        if self.leaving == Leaving::No && self.closed.is_none() {
            self.leaving = Leaving::Announced;
            self.go_away(WINDOW_BYTES_MAX, Reason::NO_ERROR);
            self.output.gather(|out| frame::write(out, frame::PING, 0, 0, &LEAVING));
        }
    }

    /// The peer has seen that there is an end: no request is on its way.
    pub(super) fn leave(&mut self) {
        if self.leaving == Leaving::Announced {
            self.leaving = Leaving::Final;
            self.go_away(self.last, Reason::NO_ERROR);
        }
    }

    /// Ends the connection at once, for this reason.
    pub fn abrupt(&mut self, reason: Reason) {
        if self.closed.is_some() {
            return;
        }
        self.closed = Some(reason);
        self.go_away(self.last, reason);
        self.streams = Streams::default();
        self.reader.forget();
        self.events.clear();
        self.events.push_back(Event::Closed(reason));
    }

    fn go_away(&mut self, last: u32, reason: Reason) {
        let mut payload = [0; 8];
        payload[..4].copy_from_slice(&last.to_be_bytes());
        payload[4..].copy_from_slice(&reason.0.to_be_bytes());
        self.output.gather(|out| frame::write(out, frame::GOAWAY, 0, 0, &payload));
    }

    /// Returns whether the connection is over once the queued bytes are written.
    pub fn is_finished(&self) -> bool {
        let is_done = self.leaving == Leaving::Final && self.streams.open.is_empty();
        self.closed.is_some() || is_done
    }

    /// Returns whether the peer has sent its preface and its settings.
    pub fn is_established(&self) -> bool {
        self.reader.is_established()
    }

    /// Since when the peer owes the rest of something that is not a body: of the preface, a frame, a
    /// field block. Milliseconds, by the clock that `receive` is given.
    pub fn begun_ms(&self) -> Option<u64> {
        if self.closed.is_some() { None } else { self.reader.begun_ms() }
    }

    /// Requests that are being answered.
    pub fn open_streams(&self) -> usize {
        self.streams.open.len()
    }

    /// Returns whether the stream's response may go on.
    pub fn is_open(&self, id: u32) -> bool {
        self.streams.position(id).is_some()
    }

    /// Whether the stream stands in line: others send before it, or nobody can. As long as `sent_bytes`
    /// grows the peer is not late for this stream.
    pub fn waits_for_turn(&self, id: u32) -> bool {
        let at = self.streams.position(id);
        at.is_some_and(|at| matches!(self.streams.open[at].turn, Turn::Waits(_)))
    }

    /// Bytes that were written since the connection began.
    pub fn sent_bytes(&self) -> u64 {
        self.output.begin()
    }

    /// Ends a stream for a peer's fault (RFC 9113 section 5.4.2).
    ///
    /// # Errors
    /// A connection error: the peer has caused too many.
    pub(super) fn breach(&mut self, id: u32, reason: Reason) -> Result<(), Reason> {
        self.flood.count(Kind::Breach, self.now_ms)?;
        self.lose_stream(id, reason, Past::ResetHere);
        self.reply(|out| frame::write(out, frame::RST_STREAM, 0, id, &reason.0.to_be_bytes()))
    }

    /// Takes a stream out that the caller did not end, and tells of it.
    pub(super) fn lose_stream(&mut self, id: u32, reason: Reason, past: Past) {
        match self.streams.get(id) {
            Some(stream) if stream.is_told => self.events.push_back(Event::Reset(id, reason)),
            Some(_) => {}
            None => return self.streams.remember(id, past),
        }
        self.close_stream(id, past);
    }

    /// Takes a stream out: what was received of it and not read is given back to the connection.
    pub(super) fn close_stream(&mut self, id: u32, past: Past) {
        if let Some(at) = self.streams.position(id) {
            let stream = self.streams.remove(at, past);
            self.free(stream.receive_window.held());
        }
    }

    /// Gives back so many bytes of the connection's window.
    pub(super) fn free(&mut self, bytes: u32) {
        self.receive_window.free(bytes);
        if let Some(increment) = self.receive_window.increment() {
            self.write_update(0, increment);
        }
    }

    pub(super) fn write_update(&mut self, id: u32, increment: u32) {
        let payload = increment.to_be_bytes();
        self.output.gather(|out| frame::write(out, frame::WINDOW_UPDATE, 0, id, &payload));
    }

    /// Queues a reply to something that costs the peer nothing.
    pub(super) fn reply(&mut self, write: impl FnOnce(&mut Vec<u8>)) -> Result<(), Reason> {
        self.output.gather(write);
        if self.output.count_reply() { Ok(()) } else { Err(Reason::ENHANCE_YOUR_CALM) }
    }
}
