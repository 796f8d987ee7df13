//! A connection's streams (RFC 9113 section 5.1): open ones, and as much of closed ones as late
//! frames need.

use std::collections::VecDeque;

use super::connection::Role;
use super::flood::RESETS;
use super::flow::{ReceiveWindow, SendWindow};
use super::frame::Reason;
use super::schedule::Turn;
use crate::semantics::priority::Priority;
use crate::stream::FieldSection;

/// Number of remembered reset streams, for which frames may be in flight. As many as may be open,
/// and as may be refused beyond these at once.
const RESETS_MAX: usize = 128 + RESETS.burst as usize;

/// Number of remembered ended streams. They only determine the error code of late frames.
const ENDED_MAX: usize = 8;

/// Streams for which an idle connection keeps memory.
const STREAMS_KEPT: usize = 2;

/// A stream that is open: on a server until the response has ended, on a client until the caller
/// closes it.
#[derive(Debug)]
pub(super) struct Stream {
    pub(super) id: u32,
    pub(super) priority: Priority,
    pub(super) turn: Turn,
    /// Its order among equally urgent streams that wait for a turn.
    pub(super) order: u64,
    pub(super) send_window: SendWindow,
    /// `true` once this side's head was sent.
    pub(super) is_answered: bool,
    /// `false` once a client's request has ended.
    pub(super) is_sending: bool,
    pub(super) receive_window: ReceiveWindow,
    /// Bytes of the window that the peer is told of when the body is read.
    pub(super) unannounced_bytes: u32,
    /// `true` if the body fits in the first window.
    pub(super) is_small: bool,
    /// `true` while the peer's message is incomplete.
    pub(super) is_receiving: bool,
    /// `true` once the head of the peer's message has arrived, which is not interim.
    pub(super) is_headed: bool,
    /// `true` if the response has no body in spite of its Content-Length: the method is HEAD.
    pub(super) is_head: bool,
    /// `true` if the request is an extended CONNECT (RFC 8441).
    pub(super) is_connect: bool,
    /// Unread heads of responses, the interim ones first.
    pub(super) heads: VecDeque<FieldSection>,
    /// `true` once the caller knows the stream.
    pub(super) is_announced: bool,
    /// `true` if the caller found nothing to read, so that `Event::Readable` is due.
    pub(super) is_awaited: bool,
    /// Bytes of the body still to come, if there was a `content-length`.
    pub(super) body_left: Option<u64>,
    pub(super) body: Vec<u8>,
    pub(super) trailers: Option<Box<FieldSection>>,
}

impl Stream {
    /// Counts bytes of the body against `content-length` (RFC 9113 section 8.1.1).
    pub(super) fn expect(&mut self, bytes: u64) -> Result<(), Reason> {
        if let Some(left) = &mut self.body_left {
            *left = left.checked_sub(bytes).ok_or(Reason::PROTOCOL_ERROR)?;
        }
        Ok(())
    }

    /// Ends the peer's message, which must have its full length.
    pub(super) fn end_message(&mut self) -> Result<(), Reason> {
        self.is_receiving = false;
        if self.body_left.is_some_and(|left| left > 0) {
            return Err(Reason::PROTOCOL_ERROR);
        }
        Ok(())
    }
}

/// The way in which a stream was closed.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(super) enum Closure {
    /// This side reset it. Frames of any kind may be in flight.
    ResetHere(Reason),
    /// The peer reset it, or a client's GOAWAY says that the request was not processed.
    ResetByPeer(Reason),
    /// Both sides ended it.
    Ended,
    /// Not remembered, or never open.
    Unknown,
}

impl Closure {
    /// The error code of a reset.
    pub(super) fn reason(self) -> Reason {
        match self {
            Closure::ResetHere(reason) | Closure::ResetByPeer(reason) => reason,
            Closure::Ended | Closure::Unknown => Reason::NO_ERROR,
        }
    }
}

/// All streams of a connection.
#[derive(Debug, Default)]
pub(super) struct Streams {
    /// Open streams, in ascending order of their numbers.
    pub(super) open: Vec<Stream>,
    /// Number of streams that wait for a turn.
    pub(super) waiting: usize,
    /// Bytes of granted shares that are not used yet.
    pub(super) reserved: usize,
    /// Order numbers given to waiting streams so far.
    pub(super) tickets: u64,
    resets: VecDeque<(u32, Closure)>,
    ended: [u32; ENDED_MAX],
    ended_next: usize,
}

impl Streams {
    /// The index of the stream.
    pub(super) fn position(&self, id: u32) -> Option<usize> {
        self.open.binary_search_by_key(&id, |stream| stream.id).ok()
    }

    pub(super) fn get(&mut self, id: u32) -> Option<&mut Stream> {
        let at = self.position(id)?;
        self.open.get_mut(at)
    }

    /// Adds a stream, whose number is the highest so far.
    pub(super) fn push(&mut self, stream: Stream) {
        if self.open.capacity() == 0 {
            self.open.reserve_exact(STREAMS_KEPT);
        }
        self.open.push(stream);
    }

    /// Ends the streams with their connection. A client may still read what is complete, and learn
    /// which streams were reset before.
    pub(super) fn end(&mut self, role: Role) {
        let mut open = std::mem::take(&mut self.open);
        open.retain(|stream| role == Role::Client && !stream.is_receiving);
        for stream in &mut open {
            (stream.is_sending, stream.turn) = (false, Turn::None);
        }
        let resets = std::mem::take(&mut self.resets);
        *self = Streams { open, resets, ..Streams::default() };
    }

    /// Removes a closed stream.
    pub(super) fn remove(&mut self, at: usize, closure: Closure) -> Stream {
        self.set_turn(at, Turn::None);
        let stream = self.open.remove(at);
        self.remember(stream.id, closure);
        if self.open.is_empty() && self.open.capacity() > STREAMS_KEPT {
            self.open = Vec::new();
        }
        stream
    }

    pub(super) fn remember(&mut self, id: u32, closure: Closure) {
        if closure == Closure::Ended {
            self.ended[self.ended_next] = id;
            self.ended_next = (self.ended_next + 1) % ENDED_MAX;
            return;
        }
        if self.resets.len() == RESETS_MAX {
            self.resets.pop_front();
        }
        self.resets.push_back((id, closure));
    }

    /// The record of a stream that is no longer open.
    pub(super) fn closure(&self, id: u32) -> Closure {
        let reset = self.resets.iter().rev().find(|(of, _)| *of == id);
        match reset {
            Some((_, closure)) => *closure,
            None if self.ended.contains(&id) => Closure::Ended,
            None => Closure::Unknown,
        }
    }
}
