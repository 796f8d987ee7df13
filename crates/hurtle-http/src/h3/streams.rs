//! The request streams of a connection (RFC 9114 section 4.1): received parts of requests.

use bytes::{Bytes, BytesMut};

use super::error::{Code, Error};
use super::frame::Prefix;
use crate::semantics::priority::Priority;
use crate::stream::FieldSection;

/// Streams for which an idle connection keeps memory.
const STREAMS_KEPT: usize = 2;

/// The position within a request.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(super) enum Phase {
    /// Before the end of its head.
    Head,
    /// After the head. `is_tunnel`: a CONNECT, which has only DATA (RFC 9114 section 4.4).
    Body { is_tunnel: bool },
    /// After the trailers.
    Trailed,
    /// The request is too large. The rest is discarded.
    Discarded,
}

/// The position within a frame.
#[derive(Debug)]
pub(super) enum State {
    /// Between two frames, or within a header.
    Head,
    /// Within HEADERS, before this number of bytes.
    Section(usize),
    /// Within DATA, before this number of bytes.
    Data(u64),
    /// Within a frame that is ignored.
    Skip(u64),
    /// After HEADERS whose section needs this number of insertions.
    Blocked(u64, Bytes),
}

/// A stream whose response is not complete.
#[derive(Debug)]
pub(super) struct Stream {
    pub(super) id: u64,
    /// The priority of PRIORITY_UPDATE, or else of the request.
    pub(super) priority: Option<Priority>,
    pub(super) phase: Phase,
    pub(super) state: State,
    pub(super) prefix: Prefix,
    /// The received part of an incomplete field section.
    pub(super) section: Vec<u8>,
    /// Received bytes that wait for the decoding of a field section.
    pub(super) input: Bytes,
    /// `true` once the client has ended the stream. `input` may still hold a part of it.
    pub(super) is_ended: bool,
    /// `true` while the request is incomplete.
    pub(super) is_receiving: bool,
    /// `true` once the caller has taken the request's event.
    pub(super) is_announced: bool,
    /// `true` if the caller found nothing to read, so that `Event::Readable` is due.
    pub(super) is_awaited: bool,
    /// Bytes of the body still to come, if there was a `content-length`.
    pub(super) body_left: Option<u64>,
    pub(super) body: Unread,
    pub(super) trailers: Option<Box<FieldSection>>,
    /// Time at which the client opened the stream, in milliseconds.
    pub(super) opened_ms: u64,
}

impl Stream {
    pub(super) fn new(id: u64, priority: Option<Priority>, now_ms: u64) -> Stream {
        Stream {
            id,
            priority,
            phase: Phase::Head,
            state: State::Head,
            prefix: Prefix::default(),
            section: Vec::new(),
            input: Bytes::new(),
            is_ended: false,
            is_receiving: true,
            is_announced: false,
            is_awaited: false,
            body_left: None,
            body: Unread::default(),
            trailers: None,
            opened_ms: now_ms,
        }
    }

    /// `true` if the section of a HEADERS frame waits for the encoder stream.
    pub(super) fn is_blocked(&self) -> bool {
        matches!(self.state, State::Blocked(..))
    }

    /// Counts bytes of the body against `content-length` (RFC 9114 section 4.1.2).
    pub(super) fn expect(&mut self, bytes: u64) -> Result<(), Error> {
        if let Some(left) = &mut self.body_left {
            *left = left.checked_sub(bytes).ok_or(Error::stream(
                Code::MESSAGE_ERROR,
                "the body is longer than its Content-Length",
            ))?;
        }
        Ok(())
    }

    /// Ends the request at the end of the stream.
    pub(super) fn end_request(&mut self) -> Result<(), Error> {
        // RFC 9114 section 7.1.
        if !matches!(self.state, State::Head) || !self.prefix.is_empty() {
            return Err(Error::connection(Code::FRAME_ERROR, "the stream ends within a frame"));
        }
        if self.phase == Phase::Head {
            return Err(Error::stream(
                Code::REQUEST_INCOMPLETE,
                "the stream ends before the request's head",
            ));
        }
        self.is_receiving = false;
        if self.body_left.is_some_and(|left| left > 0) {
            return Err(Error::stream(
                Code::MESSAGE_ERROR,
                "the body is shorter than its Content-Length",
            ));
        }
        Ok(())
    }
}

/// Bytes of a body that were not read. The first piece is not copied; further ones are gathered, so
/// that many small frames take no more memory than their bytes.
#[derive(Debug, Default)]
pub(super) struct Unread {
    first: Bytes,
    more: BytesMut,
}

impl Unread {
    pub(super) fn is_empty(&self) -> bool {
        self.first.is_empty()
    }

    pub(super) fn push(&mut self, piece: Bytes) {
        if self.first.is_empty() {
            self.first = piece;
        } else {
            self.more.extend_from_slice(&piece);
        }
    }

    /// Takes the next piece, empty if there is none.
    pub(super) fn take(&mut self) -> Bytes {
        let more = std::mem::take(&mut self.more).freeze();
        std::mem::replace(&mut self.first, more)
    }
}

/// All request streams of a connection.
#[derive(Debug, Default)]
pub(super) struct Streams {
    /// Open streams, in ascending order of their numbers.
    pub(super) open: Vec<Stream>,
    /// Number of request streams that the client has opened.
    pub(super) opened: u64,
}

impl Streams {
    pub(super) fn get(&mut self, id: u64) -> Option<&mut Stream> {
        let at = self.open.binary_search_by_key(&id, |stream| stream.id).ok()?;
        self.open.get_mut(at)
    }

    pub(super) fn find(&self, id: u64) -> Option<&Stream> {
        let at = self.open.binary_search_by_key(&id, |stream| stream.id).ok()?;
        self.open.get(at)
    }

    /// Adds a stream, whose number is the highest so far.
    pub(super) fn push(&mut self, stream: Stream) {
        if self.open.capacity() == 0 {
            self.open.reserve_exact(STREAMS_KEPT);
        }
        self.open.push(stream);
    }

    /// Removes a stream, if it is open.
    pub(super) fn remove(&mut self, id: u64) -> Option<Stream> {
        let at = self.open.binary_search_by_key(&id, |stream| stream.id).ok()?;
        let stream = self.open.remove(at);
        if self.open.is_empty() && self.open.capacity() > STREAMS_KEPT {
            self.open = Vec::new();
        }
        Some(stream)
    }

    /// Number of streams whose sections wait for insertions.
    pub(super) fn blocked(&self) -> usize {
        self.open.iter().filter(|stream| stream.is_blocked()).count()
    }

    /// The least number of insertions that a section waits for; `u64::MAX` if none waits.
    pub(super) fn least_required(&self) -> u64 {
        let required = self.open.iter().filter_map(|stream| match stream.state {
            State::Blocked(required, _) => Some(required),
            _ => None,
        });
        required.min().unwrap_or(u64::MAX)
    }

    /// A stream whose section waits for at most this number of insertions.
    pub(super) fn unblocked(&self, inserted: u64) -> Option<u64> {
        let is_ready = |stream: &&Stream| matches!(stream.state, State::Blocked(required, _) if required <= inserted);
        self.open.iter().find(is_ready).map(|stream| stream.id)
    }
}
