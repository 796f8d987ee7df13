//! A connection's streams (RFC 9113 section 5.1): those that are open, and of those that are over as
//! much as late frames need.

use std::collections::VecDeque;

use super::fields::FieldSection;
use super::flow::{ReceiveWindow, SendWindow};
use super::frame::Reason;
use super::schedule::Turn;
use crate::semantics::priority::Priority;

/// Streams that were reset and are remembered: frames for them may be on their way. As many as are
/// open at once.
const RESETS_MAX: usize = 128;

/// Streams that ended and are remembered, which tells one error code from another only.
const ENDED_MAX: usize = 8;

/// Streams there is always room for, in an idle connection too.
const STREAMS_KEPT: usize = 2;

/// A stream that is open, at least on this side.
#[derive(Debug)]
pub(super) struct Stream {
    pub(super) id: u32,
    pub(super) priority: Priority,
    pub(super) turn: Turn,
    /// Its place among streams as urgent that wait for a turn.
    pub(super) order: u64,
    pub(super) send_window: SendWindow,
    /// The response's head was sent.
    pub(super) is_answered: bool,
    pub(super) receive_window: ReceiveWindow,
    /// The request is not whole.
    pub(super) is_receiving: bool,
    /// The caller was told of the request.
    pub(super) is_told: bool,
    /// The caller found nothing to read, and is to be told when there is something.
    pub(super) is_awaited: bool,
    /// Bytes of the body that are to come, if `content-length` was sent.
    pub(super) body_left: Option<u64>,
    pub(super) body: Vec<u8>,
    pub(super) trailers: Option<Box<FieldSection>>,
}

impl Stream {
    /// Takes note of so many bytes of body (RFC 9113 section 8.1.1).
    pub(super) fn expect(&mut self, bytes: u64) -> Result<(), Reason> {
        if let Some(left) = &mut self.body_left {
            *left = left.checked_sub(bytes).ok_or(Reason::PROTOCOL_ERROR)?;
        }
        Ok(())
    }

    /// Ends the request.
    pub(super) fn end_request(&mut self) -> Result<(), Reason> {
        self.is_receiving = false;
        if self.body_left.is_some_and(|left| left > 0) {
            return Err(Reason::PROTOCOL_ERROR);
        }
        Ok(())
    }
}

/// The way in which a stream was closed.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(super) enum Past {
    /// This side reset it: frames of any kind may be on their way.
    ResetHere,
    /// The peer did.
    ResetByPeer,
    /// Both sides ended it.
    Ended,
    /// It is not remembered, or was never open.
    Unknown,
}

/// All streams of a connection.
#[derive(Debug, Default)]
pub(super) struct Streams {
    /// By their numbers, which grow.
    pub(super) open: Vec<Stream>,
    /// Streams that wait for a turn.
    pub(super) waiting: usize,
    /// Bytes that streams were told they may send, and have not yet.
    pub(super) reserved: usize,
    /// Places given out among streams that wait.
    pub(super) tickets: u64,
    resets: VecDeque<(u32, Past)>,
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

    /// Adds a stream, whose number is greater than all before.
    pub(super) fn push(&mut self, stream: Stream) {
        if self.open.capacity() == 0 {
            self.open.reserve_exact(STREAMS_KEPT);
        }
        self.open.push(stream);
    }

    /// Takes a stream out that is over.
    pub(super) fn remove(&mut self, at: usize, past: Past) -> Stream {
        self.set_turn(at, Turn::None);
        let stream = self.open.remove(at);
        self.remember(stream.id, past);
        if self.open.is_empty() && self.open.capacity() > STREAMS_KEPT {
            self.open = Vec::new();
        }
        stream
    }

    pub(super) fn remember(&mut self, id: u32, past: Past) {
        if past == Past::Ended {
            self.ended[self.ended_next] = id;
            self.ended_next = (self.ended_next + 1) % ENDED_MAX;
            return;
        }
        if self.resets.len() == RESETS_MAX {
            self.resets.pop_front();
        }
        self.resets.push_back((id, past));
    }

    /// The record of a stream that is no longer open.
    pub(super) fn past(&self, id: u32) -> Past {
        let reset = self.resets.iter().rev().find(|(of, _)| *of == id);
        match reset {
            Some((_, past)) => *past,
            None if self.ended.contains(&id) => Past::Ended,
            None => Past::Unknown,
        }
    }
}
