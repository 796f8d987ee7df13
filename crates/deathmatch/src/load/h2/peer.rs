//! One connection of HTTP/2 (RFC 9113) as a client sees it: requests in, their ends out, no sockets. What
//! it has to say waits in `out`. Every answer is followed to its end; whatever the server does that a
//! client need not bear, a GOAWAY too, is the connection's end.

use std::collections::HashMap;

use super::frame::{self, Frame, Frames, Head};
use super::hpack;
use crate::load::Expected;
use crate::load::reader::Wrong;

/// What a server may send unacknowledged, on a stream and on the connection (RFC 9113, 6.9): much, as
/// with browsers. Half of it is given back at a time.
pub(super) const WINDOW_BYTES: u32 = 16 * 1024 * 1024;

/// What the connection may be sent before the first WINDOW_UPDATE (6.9.2).
const FIRST_WINDOW_BYTES: u32 = 65_535;

/// A block of fields, in one frame or several.
const BLOCK_BYTES_MAX: usize = 64 * 1024;

/// The highest number a stream can have.
const STREAM_MAX: u32 = (1 << 31) - 1;

/// The server broke the protocol, or will not go on.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(super) struct Over;

/// How a request ended.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(super) enum End {
    /// With an answer, and what was wrong with it.
    Answer(Option<Wrong>),
    /// The server reset its stream.
    Reset,
}

/// A request that ended.
#[derive(Clone, Copy, Debug)]
pub(super) struct Ended {
    /// As it was called when it was made.
    pub(super) place: usize,
    pub(super) how: End,
    /// Of its answer, without frames' heads.
    pub(super) bytes: u64,
}

/// A connection.
#[derive(Debug)]
pub(super) struct Peer {
    frames: Frames,
    fields: hpack::Reader,
    /// Streams by their numbers.
    open: HashMap<u32, Answer>,
    /// Fields of which more is to come, and whose.
    block: Option<Block>,
    next_stream: u32,
    /// Taken off the connection's window.
    taken: u32,
    /// Streams the server allows; `None` before its settings came.
    streams_max: Option<u32>,
    /// To be sent.
    pub(super) out: Vec<u8>,
}

/// An answer so far.
#[derive(Debug)]
struct Answer {
    place: usize,
    status: Option<u16>,
    body: u64,
    /// Of its fields and body.
    bytes: u64,
    /// Taken off its window.
    taken: u32,
    wrong: Option<Wrong>,
}

#[derive(Debug)]
struct Block {
    stream: u32,
    ends: bool,
    bytes: Vec<u8>,
}

impl Peer {
    /// A new connection, its preface ready to be sent.
    pub(super) fn new() -> Peer {
        let mut out = frame::PREFACE.to_vec();
        let settings = [(frame::ENABLE_PUSH, 0), (frame::INITIAL_WINDOW_SIZE, WINDOW_BYTES)];
        frame::settings(&mut out, &settings);
        frame::window_update(&mut out, 0, WINDOW_BYTES - FIRST_WINDOW_BYTES);
        Peer {
            frames: Frames::default(),
            fields: hpack::Reader::default(),
            open: HashMap::new(),
            block: None,
            next_stream: 1,
            taken: 0,
            streams_max: None,
            out,
        }
    }

    /// Whether requests may be made: the server has said how many at once.
    pub(super) fn is_ready(&self) -> bool {
        self.streams_max.is_some()
    }

    /// How many requests there may be at once.
    pub(super) fn streams_max(&self) -> u32 {
        self.streams_max.unwrap_or(0)
    }

    /// Makes a request of these fields, and calls it so; the number of its stream.
    pub(super) fn ask(&mut self, place: usize, fields: &[u8]) -> Result<u32, Over> {
        let stream = self.next_stream;
        if stream > STREAM_MAX {
            return Err(Over);
        }
        self.next_stream += 2;
        frame::headers(&mut self.out, stream, fields);
        let answer = Answer { place, status: None, body: 0, bytes: 0, taken: 0, wrong: None };
        self.open.insert(stream, answer);
        Ok(stream)
    }

    /// Gives a request up; what still comes for it is passed over.
    pub(super) fn give_up(&mut self, stream: u32) {
        if self.open.remove(&stream).is_some() {
            frame::reset(&mut self.out, stream, frame::CANCEL);
        }
    }

    /// These bytes came.
    pub(super) fn feed(
        &mut self,
        mut bytes: &[u8],
        expected: &Expected,
        ended: &mut Vec<Ended>,
    ) -> Result<(), Over> {
        let mut frames = std::mem::take(&mut self.frames);
        let fed = loop {
            match frames.next(&mut bytes) {
                Ok(Some(frame)) => {
                    if let Err(over) = self.take(&frame, expected, ended) {
                        break Err(over);
                    }
                }
                Ok(None) => break Ok(()),
                Err(frame::Broken) => break Err(Over),
            }
        };
        self.frames = frames;
        fed
    }

    fn take(
        &mut self,
        frame: &Frame<'_>,
        expected: &Expected,
        ended: &mut Vec<Ended>,
    ) -> Result<(), Over> {
        let (head, bytes) = match *frame {
            Frame::Data { head, body, counts, last } => {
                return self.data(head, body, counts, last, expected, ended);
            }
            Frame::Other { head, payload } => (head, payload),
        };
        let continues = self.block.as_ref().is_some_and(|block| block.stream == head.stream);
        if (self.block.is_some() || head.kind == frame::CONTINUATION)
            && !(continues && head.kind == frame::CONTINUATION)
        {
            return Err(Over);
        }
        // RFC 9113, 3.4: the first thing a server says are its settings.
        if self.streams_max.is_none() && head.kind != frame::SETTINGS {
            return Err(Over);
        }
        match head.kind {
            frame::HEADERS => {
                let bytes = frame::fields(head, bytes).ok_or(Over)?.to_vec();
                let ends = head.has(frame::END_STREAM);
                self.block = Some(Block { stream: head.stream, ends, bytes });
                self.block_over(head, expected, ended)
            }
            frame::CONTINUATION => {
                if let Some(block) = &mut self.block {
                    block.bytes.extend_from_slice(bytes);
                }
                self.block_over(head, expected, ended)
            }
            frame::SETTINGS => self.settings(head, bytes),
            frame::PING if bytes.len() != 8 || head.stream != 0 => Err(Over),
            frame::PING => {
                if !head.has(frame::ACK) {
                    frame::pong(&mut self.out, bytes);
                }
                Ok(())
            }
            frame::RST_STREAM if bytes.len() != 4 => Err(Over),
            frame::RST_STREAM => {
                if let Some(answer) = self.open.remove(&head.stream) {
                    ended.push(answer.ended(End::Reset));
                }
                Ok(())
            }
            // Nothing was said that could be pushed; nobody waits for leave to send.
            frame::GOAWAY | frame::PUSH_PROMISE => Err(Over),
            _ => Ok(()),
        }
    }

    fn settings(&mut self, head: Head, bytes: &[u8]) -> Result<(), Over> {
        if head.stream != 0 || !bytes.len().is_multiple_of(6) {
            return Err(Over);
        }
        if head.has(frame::ACK) {
            return Ok(());
        }
        let most = frame::setting(bytes, frame::MAX_CONCURRENT_STREAMS);
        self.streams_max = Some(most.or(self.streams_max).unwrap_or(u32::MAX));
        frame::settings_ack(&mut self.out);
        Ok(())
    }

    /// A block of fields, or a part of one, came.
    fn block_over(
        &mut self,
        head: Head,
        expected: &Expected,
        ended: &mut Vec<Ended>,
    ) -> Result<(), Over> {
        let whole = head.has(frame::END_HEADERS);
        let Some(Block { stream, ends, bytes }) = self.block.take_if(|_| whole) else {
            let size = self.block.as_ref().map_or(0, |block| block.bytes.len());
            return if size > BLOCK_BYTES_MAX { Err(Over) } else { Ok(()) };
        };
        // Also of a stream that was given up, for what comes later refers to it.
        let status = self.fields.status(&bytes).map_err(|hpack::Unreadable| Over)?;
        let Some(answer) = self.open.get_mut(&stream) else { return self.was_open(stream) };
        answer.bytes += bytes.len() as u64;
        match (status, answer.status) {
            // RFC 9113, 8.1: interim answers, the real one, and perhaps trailers.
            (Some(status), None) if status < 200 && !ends => {}
            (Some(status), None) if status >= 200 => {
                answer.status = Some(status);
                if status != expected.status {
                    answer.wrong = Some(Wrong::Status);
                }
            }
            (None, Some(_)) if ends => {}
            _ => return Err(Over),
        }
        if ends {
            self.end(stream, expected, ended);
        }
        Ok(())
    }

    /// A piece of a body came; `counts`: bytes taken off the windows, padding included.
    fn data(
        &mut self,
        head: Head,
        body: &[u8],
        counts: usize,
        last: bool,
        expected: &Expected,
        ended: &mut Vec<Ended>,
    ) -> Result<(), Over> {
        if self.block.is_some() {
            return Err(Over);
        }
        let counts = counts as u32;
        give_back(&mut self.out, 0, &mut self.taken, counts);
        let Some(answer) = self.open.get_mut(&head.stream) else {
            return self.was_open(head.stream);
        };
        if answer.status.is_none() {
            return Err(Over);
        }
        give_back(&mut self.out, head.stream, &mut answer.taken, counts);
        if let Some(whole) = &expected.body {
            let from = usize::try_from(answer.body).unwrap_or(usize::MAX);
            let want = whole.get(from..).and_then(|rest| rest.get(..body.len()));
            if want != Some(body) {
                answer.wrong = answer.wrong.or(Some(Wrong::Bytes));
            }
        }
        answer.body += body.len() as u64;
        answer.bytes += body.len() as u64;
        if last && head.has(frame::END_STREAM) {
            self.end(head.stream, expected, ended);
        }
        Ok(())
    }

    fn end(&mut self, stream: u32, expected: &Expected, ended: &mut Vec<Ended>) {
        let Some(answer) = self.open.remove(&stream) else { return };
        let short = answer.body != expected.body_bytes;
        let wrong = answer.wrong.or(short.then_some(Wrong::Bytes));
        ended.push(answer.ended(End::Answer(wrong)));
    }

    /// Right, if this was the number of a request.
    fn was_open(&self, stream: u32) -> Result<(), Over> {
        if stream % 2 == 1 && stream < self.next_stream { Ok(()) } else { Err(Over) }
    }
}

impl Answer {
    fn ended(&self, how: End) -> Ended {
        Ended { place: self.place, how, bytes: self.bytes }
    }
}

/// Takes bytes off a window, and gives half of it back once that is used up.
fn give_back(out: &mut Vec<u8>, stream: u32, taken: &mut u32, counts: u32) {
    *taken += counts;
    if *taken >= WINDOW_BYTES / 2 {
        frame::window_update(out, stream, *taken);
        *taken = 0;
    }
}
