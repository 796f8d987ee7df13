//! Bytes to frames, wherever reads end: finds each frame, judges its header, and hands its payload
//! to `dispatch` or, if it is data, to `data` piece by piece.

use super::connection::Connection;
use super::flood::Kind;
use super::frame::{self, HEAD_BYTES, Head, PAYLOAD_BYTES_MAX, PREFACE, Reason};

/// The state of reading.
#[derive(Debug)]
pub(super) struct Reader {
    state: State,
    head: [u8; HEAD_BYTES],
    head_len: usize,
    /// The received part of a payload that is not complete.
    payload: Vec<u8>,
    /// The peer's settings were received.
    is_established: bool,
    /// A field block that goes on in CONTINUATION.
    pub(super) block: Option<Block>,
    /// Since when something other than a body is begun and not whole.
    begun_ms: Option<u64>,
}

#[derive(Clone, Copy, Debug)]
enum State {
    /// So many bytes of the preface were received.
    Preface(usize),
    Head,
    Payload(Head),
    /// The byte that tells how long the padding is.
    PadLength(Head),
    Data(Data),
    /// So many bytes that nobody looks at.
    Skip(usize),
}

/// A DATA frame whose payload is being received.
#[derive(Clone, Copy, Debug)]
pub(super) struct Data {
    pub(super) stream: u32,
    /// Bytes of data, then of padding, that are to come.
    pub(super) left: usize,
    pub(super) padding: usize,
    pub(super) is_last: bool,
}

/// A field block that is not whole.
#[derive(Debug)]
pub(super) struct Block {
    /// The HEADERS frame's.
    pub(super) head: Head,
    /// The stream that the priority of RFC 7540 names.
    pub(super) parent: Option<u32>,
    pub(super) bytes: Vec<u8>,
    /// CONTINUATION frames that were received.
    pub(super) frames: u32,
}

impl Reader {
    pub(super) fn new(now_ms: u64) -> Reader {
        Reader {
            state: State::Preface(0),
            head: [0; HEAD_BYTES],
            head_len: 0,
            payload: Vec::new(),
            is_established: false,
            block: None,
            begun_ms: Some(now_ms),
        }
    }

    pub(super) fn is_established(&self) -> bool {
        self.is_established
    }

    pub(super) fn begun_ms(&self) -> Option<u64> {
        self.begun_ms
    }

    /// Lets go of what was received: nothing more is read.
    pub(super) fn forget(&mut self) {
        self.payload = Vec::new();
        self.block = None;
    }

    /// Returns whether a frame other than DATA is incomplete.
    fn is_within(&self) -> bool {
        match self.state {
            State::Head => self.head_len > 0 || self.block.is_some() || !self.is_established,
            State::Data(_) | State::PadLength(_) => false,
            State::Preface(_) | State::Payload(_) | State::Skip(_) => true,
        }
    }

    /// Takes a frame's header, once it is whole.
    fn take_head(&mut self, bytes: &mut &[u8]) -> Option<Head> {
        if self.head_len == 0
            && let Some((head, rest)) = bytes.split_first_chunk()
        {
            *bytes = rest;
            return Some(Head::read(*head));
        }
        let (some, rest) = bytes.split_at(bytes.len().min(HEAD_BYTES - self.head_len));
        self.head[self.head_len..][..some.len()].copy_from_slice(some);
        self.head_len += some.len();
        *bytes = rest;
        if self.head_len < HEAD_BYTES {
            return None;
        }
        self.head_len = 0;
        Some(Head::read(self.head))
    }
}

impl Connection {
    /// Takes bytes that were received: all of them. After an error of the connection GOAWAY is queued
    /// and the rest is ignored. `now_ms`: of a clock that never goes back, in milliseconds.
    pub fn receive(&mut self, bytes: &[u8], now_ms: u64) {
        self.now_ms = now_ms;
        let mut rest = bytes;
        let mut is_within = self.reader.is_within();
        while !rest.is_empty() && self.closed.is_none() {
            if let Err(reason) = self.advance(&mut rest) {
                self.abrupt(reason);
            }
            // A frame that begins now has a time of its own.
            if !self.reader.is_within() {
                is_within = false;
            }
        }
        if !is_within {
            self.reader.begun_ms = self.reader.is_within().then_some(now_ms);
        }
    }

    /// Reads the next part of what is received: not nothing.
    fn advance(&mut self, bytes: &mut &[u8]) -> Result<(), Reason> {
        match self.reader.state {
            State::Preface(len) => self.preface(len, bytes),
            State::Head => match self.reader.take_head(bytes) {
                Some(head) => self.begin_frame(head, bytes),
                None => Ok(()),
            },
            State::Payload(head) => self.payload(head, bytes),
            State::PadLength(head) => {
                let (&padding, rest) = bytes.split_first().ok_or(Reason::INTERNAL_ERROR)?;
                *bytes = rest;
                self.begin_data(head, Some(padding))
            }
            State::Data(data) => self.data(data, bytes),
            State::Skip(left) => {
                let some = left.min(bytes.len());
                *bytes = &bytes[some..];
                self.reader.state =
                    if some == left { State::Head } else { State::Skip(left - some) };
                Ok(())
            }
        }
    }

    fn preface(&mut self, len: usize, bytes: &mut &[u8]) -> Result<(), Reason> {
        let some = bytes.len().min(PREFACE.len() - len);
        if bytes[..some] != PREFACE[len..len + some] {
            return Err(Reason::PROTOCOL_ERROR);
        }
        *bytes = &bytes[some..];
        let len = len + some;
        self.reader.state = if len == PREFACE.len() { State::Head } else { State::Preface(len) };
        Ok(())
    }

    /// Judges a frame's header, and goes on to its payload.
    fn begin_frame(&mut self, head: Head, bytes: &mut &[u8]) -> Result<(), Reason> {
        // RFC 9113 section 4.2.
        if head.len > PAYLOAD_BYTES_MAX {
            return Err(Reason::FRAME_SIZE_ERROR);
        }
        // Section 3.4.
        if !self.reader.is_established {
            if head.kind != frame::SETTINGS || head.has(frame::ACK) {
                return Err(Reason::PROTOCOL_ERROR);
            }
            self.reader.is_established = true;
        }
        // Section 6.10: nothing but its rest comes within a block, and no rest elsewhere.
        let within = self.reader.block.as_ref().map(|block| block.head.stream);
        let goes_on = (head.kind == frame::CONTINUATION).then_some(head.stream);
        if within != goes_on {
            return Err(Reason::PROTOCOL_ERROR);
        }
        match head.kind {
            frame::DATA => {
                self.check_data(head)?;
                if head.has(frame::PADDED) {
                    self.reader.state = State::PadLength(head);
                    return Ok(());
                }
                self.begin_data(head, None)
            }
            frame::HEADERS | frame::CONTINUATION => self.payload(head, bytes),
            frame::PUSH_PROMISE => Err(Reason::PROTOCOL_ERROR),
            kind => {
                let kind = match kind {
                    frame::RST_STREAM => Kind::Reset,
                    frame::WINDOW_UPDATE => Kind::Update,
                    _ => Kind::Chatter,
                };
                self.flood.count(kind, self.now_ms)?;
                let is_known =
                    head.kind <= frame::CONTINUATION || head.kind == frame::PRIORITY_UPDATE;
                if is_known {
                    return self.payload(head, bytes);
                }
                // Section 5.5.
                self.reader.state = if head.len > 0 { State::Skip(head.len) } else { State::Head };
                Ok(())
            }
        }
    }

    /// Takes a payload, once it is whole.
    fn payload(&mut self, head: Head, bytes: &mut &[u8]) -> Result<(), Reason> {
        let held = &mut self.reader.payload;
        let (some, rest) = bytes.split_at(bytes.len().min(head.len - held.len()));
        *bytes = rest;
        if some.len() == head.len {
            self.reader.state = State::Head;
            return self.dispatch(head, some);
        }
        if held.is_empty() {
            held.reserve_exact(head.len);
        }
        held.extend_from_slice(some);
        if held.len() < head.len {
            self.reader.state = State::Payload(head);
            return Ok(());
        }
        let payload = std::mem::take(held);
        self.reader.state = State::Head;
        self.dispatch(head, &payload)
    }

    /// Begins the data of a frame whose header is in order.
    fn begin_data(&mut self, head: Head, padding: Option<u8>) -> Result<(), Reason> {
        let padding_bytes = usize::from(padding.unwrap_or(0));
        let len = head.len - usize::from(padding.is_some());
        // RFC 9113 section 6.1.
        let left = len.checked_sub(padding_bytes).ok_or(Reason::PROTOCOL_ERROR)?;
        let data = Data {
            stream: head.stream,
            left,
            padding: padding_bytes,
            is_last: head.has(frame::END_STREAM),
        };
        self.open_data(data, head.len)?;
        self.go_on(data)
    }

    /// Takes a part of a frame's data, then its padding.
    fn data(&mut self, mut data: Data, bytes: &mut &[u8]) -> Result<(), Reason> {
        let (some, rest) = bytes.split_at(bytes.len().min(data.left));
        if !some.is_empty() {
            self.take_data(data.stream, some);
            data.left -= some.len();
        }
        let (some, rest) = rest.split_at(rest.len().min(data.padding));
        if data.left == 0 {
            data.padding -= some.len();
        }
        *bytes = rest;
        self.go_on(data)
    }

    fn go_on(&mut self, data: Data) -> Result<(), Reason> {
        if data.left + data.padding > 0 {
            self.reader.state = State::Data(data);
            return Ok(());
        }
        self.reader.state = State::Head;
        if data.is_last { self.end_data(data.stream) } else { Ok(()) }
    }
}
