//! Splits received bytes into frames, wherever reads end. It validates each header, and passes
//! complete payloads to `dispatch` and DATA piece by piece to `data`.

use super::connection::{Connection, Role};
use super::flood::Kind;
use super::frame::{self, HEAD_BYTES, Head, PAYLOAD_BYTES_MAX, PREFACE, Reason};

/// The state of the frame reader.
#[derive(Debug)]
pub(super) struct Reader {
    state: ReceiveState,
    head: [u8; HEAD_BYTES],
    head_len: usize,
    /// The received part of an incomplete payload.
    payload: Vec<u8>,
    /// `true` once the peer's first SETTINGS was received.
    is_established: bool,
    /// A field block that continues in CONTINUATION.
    pub(super) block: Option<Block>,
    /// Time at which an incomplete preface, control frame or field block began, in milliseconds.
    begun_ms: Option<u64>,
}

#[derive(Clone, Copy, Debug)]
enum ReceiveState {
    /// Within the preface, after this number of bytes.
    Preface(usize),
    Head,
    Payload(Head),
    /// Before the byte with the padding's length.
    PadLength(Head),
    Data(Data),
    /// Within an ignored payload, with this number of bytes to come.
    Skip(usize),
}

/// A DATA frame whose payload is being received.
#[derive(Clone, Copy, Debug)]
pub(super) struct Data {
    pub(super) stream: u32,
    /// Bytes of data, then of padding, still to come.
    pub(super) left: usize,
    pub(super) padding: usize,
    pub(super) is_last: bool,
}

/// An incomplete field block.
#[derive(Debug)]
pub(super) struct Block {
    /// The header of its HEADERS frame.
    pub(super) head: Head,
    /// The parent stream of an RFC 7540 priority.
    pub(super) parent: Option<u32>,
    pub(super) bytes: Vec<u8>,
    /// Number of received CONTINUATION frames.
    pub(super) frames: u32,
}

impl Reader {
    pub(super) fn new(role: Role, now_ms: u64) -> Reader {
        Reader {
            state: match role {
                Role::Server => ReceiveState::Preface(0),
                // Only clients send the preface's first part (RFC 9113 section 3.4).
                Role::Client => ReceiveState::Head,
            },
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

    /// Drops the buffered input.
    pub(super) fn forget(&mut self) {
        self.payload = Vec::new();
        self.block = None;
    }

    /// Returns `true` if a frame other than DATA is incomplete.
    fn is_within(&self) -> bool {
        match self.state {
            ReceiveState::Head => self.head_len > 0 || self.block.is_some() || !self.is_established,
            ReceiveState::Data(_) | ReceiveState::PadLength(_) => false,
            ReceiveState::Preface(_) | ReceiveState::Payload(_) | ReceiveState::Skip(_) => true,
        }
    }

    /// Collects a frame's header; `None` until it is complete.
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
    /// Processes received bytes. A connection error queues GOAWAY, and later bytes are ignored.
    /// `now_ms`: time of a monotonic clock, in milliseconds.
    pub fn receive(&mut self, bytes: &[u8], now_ms: u64) {
        self.now_ms = now_ms;
        let mut rest = bytes;
        let mut is_within = self.reader.is_within();
        while !rest.is_empty() && self.closed.is_none() {
            if let Err(reason) = self.advance(&mut rest) {
                self.abrupt(reason);
            }
            // The next frame gets its own start time.
            if !self.reader.is_within() {
                is_within = false;
            }
        }
        if !is_within {
            self.reader.begun_ms = self.reader.is_within().then_some(now_ms);
        }
    }

    /// Reads the next part of `bytes`, which is not empty.
    fn advance(&mut self, bytes: &mut &[u8]) -> Result<(), Reason> {
        match self.reader.state {
            ReceiveState::Preface(len) => self.preface(len, bytes),
            ReceiveState::Head => match self.reader.take_head(bytes) {
                Some(head) => self.begin_frame(head, bytes),
                None => Ok(()),
            },
            ReceiveState::Payload(head) => self.payload(head, bytes),
            ReceiveState::PadLength(head) => {
                let (&padding, rest) = bytes.split_first().ok_or(Reason::INTERNAL_ERROR)?;
                *bytes = rest;
                self.begin_data(head, Some(padding))
            }
            ReceiveState::Data(data) => self.data(data, bytes),
            ReceiveState::Skip(left) => {
                let some = left.min(bytes.len());
                *bytes = &bytes[some..];
                self.reader.state =
                    if some == left { ReceiveState::Head } else { ReceiveState::Skip(left - some) };
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
        self.reader.state =
            if len == PREFACE.len() { ReceiveState::Head } else { ReceiveState::Preface(len) };
        Ok(())
    }

    /// Validates a frame's header and enters the state for its payload.
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
        // Section 6.10: within a block only CONTINUATION is allowed, and nowhere else.
        let within = self.reader.block.as_ref().map(|block| block.head.stream);
        let goes_on = (head.kind == frame::CONTINUATION).then_some(head.stream);
        if within != goes_on {
            return Err(Reason::PROTOCOL_ERROR);
        }
        match head.kind {
            frame::DATA => {
                self.check_data(head)?;
                if head.has(frame::PADDED) {
                    self.reader.state = ReceiveState::PadLength(head);
                    return Ok(());
                }
                self.begin_data(head, None)
            }
            frame::HEADERS | frame::CONTINUATION => self.payload(head, bytes),
            frame::PUSH_PROMISE => Err(Reason::PROTOCOL_ERROR),
            kind => {
                let kind = match kind {
                    // A client's stream is reset at most once.
                    frame::RST_STREAM if self.role == Role::Client && self.is_open(head.stream) => {
                        return self.payload(head, bytes);
                    }
                    frame::RST_STREAM => Kind::Reset,
                    frame::WINDOW_UPDATE => Kind::Update,
                    _ => Kind::Chatter,
                };
                self.count(kind)?;
                let is_known =
                    head.kind <= frame::CONTINUATION || head.kind == frame::PRIORITY_UPDATE;
                if is_known {
                    return self.payload(head, bytes);
                }
                // Section 5.5.
                self.reader.state =
                    if head.len > 0 { ReceiveState::Skip(head.len) } else { ReceiveState::Head };
                Ok(())
            }
        }
    }

    /// Collects a payload and handles it once it is complete.
    fn payload(&mut self, head: Head, bytes: &mut &[u8]) -> Result<(), Reason> {
        let held = &mut self.reader.payload;
        let (some, rest) = bytes.split_at(bytes.len().min(head.len - held.len()));
        *bytes = rest;
        if some.len() == head.len {
            self.reader.state = ReceiveState::Head;
            return self.dispatch(head, some);
        }
        if held.is_empty() {
            held.reserve_exact(head.len);
        }
        held.extend_from_slice(some);
        if held.len() < head.len {
            self.reader.state = ReceiveState::Payload(head);
            return Ok(());
        }
        let payload = std::mem::take(held);
        self.reader.state = ReceiveState::Head;
        self.dispatch(head, &payload)
    }

    /// Starts the payload of a valid DATA frame.
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
        self.continue_data(data)
    }

    /// Reads a part of a DATA frame's data, then its padding.
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
        self.continue_data(data)
    }

    fn continue_data(&mut self, data: Data) -> Result<(), Reason> {
        if data.left + data.padding > 0 {
            self.reader.state = ReceiveState::Data(data);
            return Ok(());
        }
        self.reader.state = ReceiveState::Head;
        if data.is_last { self.end_data(data.stream) } else { Ok(()) }
    }
}
