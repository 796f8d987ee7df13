//! A server's HTTP/3 connection: its state, its events and its end. `request` reads the clients'
//! requests, `unidirectional` and `control` its other streams.

use std::collections::VecDeque;

use bytes::Bytes;

use super::control::Control;
use super::error::{Code, Error, Scope};
use super::flood::{Flood, Kind};
use super::frame;
use super::qpack;
use super::streams::{Phase, Stream, Streams};
use super::unidirectional::Unidirectional;
use super::varint;
use crate::semantics::priority::Priority;
use crate::stream::FieldSection;
use crate::stream::priority::EarlyPriorities;

/// Events for which an idle connection keeps memory.
const EVENTS_KEPT: usize = 4;

/// Maximum bytes for the decoder stream that the driver has not taken.
const DECODER_OUTPUT_BYTES_MAX: usize = 16 << 10;

/// The largest ID of a client's request stream (RFC 9114 section 5.2).
const REQUEST_ID_MAX: u64 = varint::MAX - 3;

/// Limits on the resources that a peer may use.
#[derive(Clone, Copy, Debug)]
pub struct Limits {
    /// Concurrent requests, as QUIC's limit of bidirectional streams allows them.
    pub streams_max: u32,
    /// Bytes of a request's fields, counted as in RFC 9114 section 4.2.2.
    pub header_list_bytes_max: usize,
    /// `true` if requests may have `:protocol` (RFC 9220): SETTINGS_ENABLE_CONNECT_PROTOCOL is
    /// sent.
    pub connect_protocol: bool,
    /// Bytes of QPACK's dynamic table; 0: the client uses none.
    pub table_bytes_max: usize,
    /// Requests that may wait for insertions into QPACK's dynamic table.
    pub blocked_streams_max: usize,
}

impl Default for Limits {
    fn default() -> Limits {
        Limits {
            streams_max: 128,
            header_list_bytes_max: 32 << 10,
            connect_protocol: false,
            table_bytes_max: 4 << 10,
            blocked_streams_max: 16,
        }
    }
}

/// An event for the driver.
#[derive(Debug, PartialEq, Eq)]
pub enum Event {
    /// A request. A body or trailers follow unless `end_stream`.
    Request {
        /// The number of its stream.
        id: u64,
        /// The fields of its head, pseudo-header fields included.
        head: FieldSection,
        /// The request has no body and no trailers.
        end_stream: bool,
    },
    /// A request whose fields exceed `header_list_bytes_max`. The driver answers it with 431.
    HeadTooLarge {
        /// Number of the stream with the request.
        id: u64,
        /// The pseudo-fields and fields before the limit; none if it was not decoded.
        head: FieldSection,
    },
    /// `read` returns something again after `Body::NotYet`.
    Readable(u64),
    /// The client has changed the priority of a response.
    Priority(u64, Priority),
    /// A stream is over before its response is complete, and its state is gone. The driver sends
    /// RESET_STREAM and STOP_SENDING with this code, as far as the stream's sides are open.
    Reset(u64, Code),
    /// The driver sends STOP_SENDING with this code on a unidirectional stream of the client,
    /// unless it has ended.
    Stop(u64, Code),
    /// The client will accept no more pushes; it is about to leave.
    GoAway,
    /// The connection has failed, and all streams are closed. The driver sends CONNECTION_CLOSE
    /// with this error.
    Closed(Error),
}

/// A unidirectional stream of the server. QPACK's encoder stream is not needed.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum Outlet {
    /// The control stream (RFC 9114 section 6.2.1).
    Control,
    /// QPACK's decoder stream (RFC 9204 section 4.2).
    Decoder,
}

/// The server's side of a connection of HTTP/3, without its transport.
#[derive(Debug)]
pub struct Connection {
    pub(super) limits: Limits,
    pub(super) decoder: qpack::Decoder,
    pub(super) streams: Streams,
    pub(super) early: EarlyPriorities,
    pub(super) unidirectional: Unidirectional,
    pub(super) control: Control,
    control_output: Vec<u8>,
    is_decoder_stream_open: bool,
    pub(super) events: VecDeque<Event>,
    /// Requests that are to be read on.
    pub(super) resumed: Vec<u64>,
    pub(super) flood: Flood,
    shutdown: Shutdown,
    closed: Option<Error>,
    /// Requests after the final GOAWAY.
    refused: u64,
    pub(super) now_ms: u64,
}

/// The state of a graceful shutdown.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
enum Shutdown {
    No,
    /// A first GOAWAY was sent. Requests sent before the peer received it are accepted.
    Announced,
    /// The final GOAWAY was sent. Later requests are rejected.
    Final,
}

impl Connection {
    /// Creates a connection and queues SETTINGS.
    pub fn new(limits: &Limits, now_ms: u64) -> Connection {
        let mut control_output = Vec::new();
        varint::write(&mut control_output, frame::CONTROL_STREAM);
        let settings = [
            (frame::QPACK_MAX_TABLE_CAPACITY, limits.table_bytes_max as u64),
            (frame::MAX_FIELD_SECTION_SIZE, limits.header_list_bytes_max as u64),
            (frame::QPACK_BLOCKED_STREAMS, limits.blocked_streams_max as u64),
            (frame::GREASE, 0),
            (frame::ENABLE_CONNECT_PROTOCOL, 1),
        ];
        let sent = settings.len() - usize::from(!limits.connect_protocol);
        frame::write_settings(&mut control_output, &settings[..sent]);
        Connection {
            decoder: qpack::Decoder::new(limits.table_bytes_max),
            streams: Streams::default(),
            early: EarlyPriorities::default(),
            unidirectional: Unidirectional::default(),
            control: Control::default(),
            control_output,
            is_decoder_stream_open: false,
            events: VecDeque::new(),
            resumed: Vec::new(),
            flood: Flood::new(now_ms),
            shutdown: Shutdown::No,
            closed: None,
            refused: 0,
            now_ms,
            limits: *limits,
        }
    }

    /// Registers a stream that the client has opened. The driver registers all streams of a kind in
    /// the order of their numbers.
    pub fn open(&mut self, id: u64, now_ms: u64) {
        self.now_ms = now_ms;
        match id & 3 {
            _ if self.closed.is_some() => {}
            CLIENT_BIDIRECTIONAL if id / 4 >= self.streams.opened => {
                self.streams.opened = id / 4 + 1;
                if self.shutdown == Shutdown::Final {
                    self.refused += 1;
                    return self.events.push_back(Event::Reset(id, Code::REQUEST_REJECTED));
                }
                let priority = self.early.take(id);
                self.streams.push(Stream::new(id, priority, now_ms));
            }
            CLIENT_UNIDIRECTIONAL => {
                let opened = self.unidirectional.open(id);
                self.handle(id, opened);
            }
            // A client cannot open the server's streams.
            _ => {}
        }
    }

    /// Processes received bytes of a stream; `is_end`: they are the last ones. A stream error
    /// queues `Event::Reset`, a connection error `Event::Closed`. Bytes of closed streams are
    /// ignored. `now_ms`: time of a monotonic clock, in milliseconds.
    pub fn receive(&mut self, id: u64, bytes: Bytes, is_end: bool, now_ms: u64) {
        self.now_ms = now_ms;
        let result = match id & 3 {
            _ if self.closed.is_some() => return,
            CLIENT_BIDIRECTIONAL => self.receive_request(id, bytes, is_end),
            CLIENT_UNIDIRECTIONAL => self.receive_unidirectional(id, bytes, is_end),
            _ => return,
        };
        self.handle(id, result);
    }

    /// Handles the end of a stream by RESET_STREAM.
    pub fn reset(&mut self, id: u64, now_ms: u64) {
        self.now_ms = now_ms;
        let result = match id & 3 {
            _ if self.closed.is_some() => return,
            CLIENT_BIDIRECTIONAL => self.cancel(id),
            CLIENT_UNIDIRECTIONAL => self.unidirectional.end(id),
            _ => return,
        };
        self.handle(id, result);
    }

    /// Handles STOP_SENDING. The client does not want the response, so the request is cancelled.
    /// The server's unidirectional streams must not be stopped (RFC 9114 section 6.2.1).
    pub fn stopped(&mut self, id: u64, now_ms: u64) {
        self.now_ms = now_ms;
        let result = match id & 3 {
            _ if self.closed.is_some() => return,
            CLIENT_BIDIRECTIONAL => self.cancel(id),
            _ => Err(Error::connection(
                Code::CLOSED_CRITICAL_STREAM,
                "STOP_SENDING on a stream that the connection needs",
            )),
        };
        self.handle(id, result);
    }

    /// Ends a stream after a request was cancelled by the client (section 4.1.1).
    fn cancel(&mut self, id: u64) -> Result<(), Error> {
        if self.streams.find(id).is_none() {
            return Ok(());
        }
        self.flood.count(Kind::Reset, 1, self.now_ms)?;
        self.lose_stream(id, Code::REQUEST_CANCELLED);
        self.check_output()
    }

    /// Turns an error into an event.
    pub(super) fn handle(&mut self, id: u64, result: Result<(), Error>) {
        let Err(error) = result else { return };
        let mut error = error;
        if error.scope == Scope::Stream {
            self.lose_stream(id, error.code);
            let counted = self.flood.count(Kind::Breach, 1, self.now_ms);
            match counted.and_then(|()| self.check_output()) {
                Ok(()) => return,
                Err(flood) => error = flood,
            }
        }
        self.fail(error);
    }

    /// Removes a stream that the driver has not closed, and queues an event.
    fn lose_stream(&mut self, id: u64, code: Code) {
        if let Some(stream) = self.streams.remove(id) {
            self.abandon(&stream);
            self.events.push_back(Event::Reset(id, code));
        }
    }

    /// Tells the client's encoder that sections of a stream may remain undecoded.
    fn abandon(&mut self, stream: &Stream) {
        // A discarded request was cancelled before.
        if stream.is_receiving && stream.phase != Phase::Discarded {
            self.decoder.cancel(stream.id);
        }
    }

    /// Limits the instructions that wait for the decoder stream.
    pub(super) fn check_output(&self) -> Result<(), Error> {
        match self.decoder.queued() > DECODER_OUTPUT_BYTES_MAX {
            true => Err(Error::connection(
                Code::EXCESSIVE_LOAD,
                "the client does not read the decoder stream",
            )),
            false => Ok(()),
        }
    }

    /// The next event. The driver takes events until there are none: after each call that passes
    /// something from the client.
    pub fn next_event(&mut self) -> Option<Event> {
        while let Some(mut event) = self.events.pop_front() {
            if self.events.is_empty() && self.events.capacity() > EVENTS_KEPT {
                self.events = VecDeque::new();
            }
            match &mut event {
                Event::Request { id, end_stream, .. } => {
                    // The stream was reset before the driver learned of it.
                    let Some(stream) = self.streams.get(*id) else { continue };
                    stream.is_announced = true;
                    *end_stream = !stream.is_receiving && stream.body.is_empty();
                    *end_stream &= stream.trailers.is_none();
                }
                Event::HeadTooLarge { id, .. } | Event::Readable(id) | Event::Priority(id, _) => {
                    let Some(stream) = self.streams.get(*id) else { continue };
                    stream.is_announced = true;
                }
                _ => {}
            }
            return Some(event);
        }
        None
    }

    /// Closes a stream: its response is complete, or the driver resets it. Returns `true` if the
    /// request is incomplete; the driver then sends STOP_SENDING, with H3_NO_ERROR after a complete
    /// response (RFC 9114 section 4.1).
    pub fn close(&mut self, id: u64) -> bool {
        let Some(stream) = self.streams.remove(id) else { return false };
        self.abandon(&stream);
        if let Err(error) = self.check_output() {
            self.fail(error);
        }
        stream.is_receiving && !stream.is_ended
    }

    /// Takes the bytes to write to a stream of the server, with the stream's type in front of the
    /// first ones; `None` if there are none. The driver writes them in order.
    pub fn take_output(&mut self, outlet: Outlet) -> Option<Bytes> {
        let bytes = match outlet {
            Outlet::Control => std::mem::take(&mut self.control_output),
            Outlet::Decoder => {
                let bytes = self.decoder.take_output();
                if bytes.is_empty() || self.is_decoder_stream_open {
                    bytes
                } else {
                    self.is_decoder_stream_open = true;
                    let mut begun = Vec::with_capacity(bytes.len() + 1);
                    varint::write(&mut begun, frame::DECODER_STREAM);
                    begun.extend_from_slice(&bytes);
                    begun
                }
            }
        };
        if bytes.is_empty() { None } else { Some(bytes.into()) }
    }

    /// Sends a first GOAWAY. Requests in flight are accepted. The driver calls `finish_shutdown`
    /// once the client had time to receive it, at least a round trip later (RFC 9114 section 5.2).
    pub fn graceful_shutdown(&mut self) {
        if self.shutdown == Shutdown::No && self.closed.is_none() {
            self.shutdown = Shutdown::Announced;
            frame::write_integer(&mut self.control_output, frame::GOAWAY, REQUEST_ID_MAX);
        }
    }

    /// Sends the final GOAWAY. Later requests are rejected, so that the client may repeat them.
    pub fn finish_shutdown(&mut self) {
        if self.shutdown != Shutdown::Final && self.closed.is_none() {
            self.shutdown = Shutdown::Final;
            let next = self.streams.opened * 4;
            frame::write_integer(&mut self.control_output, frame::GOAWAY, next);
        }
    }

    /// Closes the connection and all of its streams with this error.
    pub fn fail(&mut self, error: Error) {
        if self.closed.is_some() {
            return;
        }
        let error = Error { scope: Scope::Connection, ..error };
        self.closed = Some(error);
        self.streams = Streams { opened: self.streams.opened, ..Streams::default() };
        self.unidirectional = Unidirectional::default();
        self.control = Control::default();
        self.events.clear();
        self.events.push_back(Event::Closed(error));
    }

    /// Returns the error that the connection was failed with.
    pub fn failure(&self) -> Option<Error> {
        self.closed
    }

    /// Returns `true` if the connection ends once the responses and GOAWAY are sent.
    pub fn is_finished(&self) -> bool {
        let is_done = self.shutdown == Shutdown::Final && self.streams.open.is_empty();
        self.closed.is_some() || is_done
    }

    /// Returns `true` if the client has sent its settings.
    pub fn is_established(&self) -> bool {
        self.control.is_established()
    }

    /// Returns the number of requests that were rejected after the final GOAWAY.
    pub fn refused_streams(&self) -> u64 {
        self.refused
    }

    /// The first stream whose request has no complete head, and the time at which it was opened, in
    /// milliseconds of `open`'s clock.
    pub fn begun(&self) -> Option<(u64, u64)> {
        let stream = self.streams.open.iter().find(|stream| stream.phase == Phase::Head)?;
        Some((stream.id, stream.opened_ms))
    }

    /// Number of request streams that are not closed.
    pub fn open_streams(&self) -> usize {
        self.streams.open.len()
    }

    /// Returns `true` if the stream is open, so that its response may continue.
    pub fn is_open(&self, id: u64) -> bool {
        self.streams.find(id).is_some()
    }

    /// The priority of a response.
    pub fn priority(&self, id: u64) -> Priority {
        let stream = self.streams.find(id);
        stream.and_then(|stream| stream.priority).unwrap_or(Priority::UNSPECIFIED)
    }
}

/// Kinds of streams by the last two bits of their number (RFC 9000 section 2.1).
const CLIENT_BIDIRECTIONAL: u64 = 0;
const CLIENT_UNIDIRECTIONAL: u64 = 2;
