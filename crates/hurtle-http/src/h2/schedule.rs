//! Selects the next stream to send (RFC 9218 section 10): the most urgent one. Among equally urgent
//! streams, non-incremental ones go first in the order of their numbers, then incremental ones in
//! turn.
//!
//! A stream requests a share (`ask`) when it has data. If none is free it waits, and `grant` gives
//! it one later. A share is reserved until the stream uses it. If nothing is queued, the next
//! stream is granted a share as well, so an unused share delays others only briefly. A stream whose
//! own window is closed does not wait for a share.

use super::stream::{Stream, Streams};

/// Maximum bytes of a share, after which other streams have their turn.
pub(super) const SHARE_BYTES_MAX: usize = 64 << 10;

/// The state of a stream that wants to send.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(super) enum Turn {
    None,
    /// Its own window, for this number of bytes.
    Window(usize),
    /// A share, for this number of bytes.
    Waits(usize),
    /// Nothing: it holds a share of this number of bytes.
    Granted(usize),
}

/// The order of waiting streams; the lowest goes first.
type Rank = (u8, bool, u64);

impl Streams {
    /// Requests a share of `wanted` bytes; `room` is the connection's free capacity. Returns the
    /// number of bytes that the stream may send now. After 0 the stream waits.
    pub(super) fn ask(&mut self, at: usize, wanted: usize, room: usize) -> usize {
        let stream = &self.open[at];
        let turn = stream.turn;
        let wanted = wanted.min(SHARE_BYTES_MAX);
        let own = wanted.min(stream.send_window.bytes());
        if own == 0 {
            self.set_turn(at, Turn::Window(wanted));
            return 0;
        }
        let is_granted = matches!(turn, Turn::Granted(_));
        let room = if is_granted { room } else { room.saturating_sub(self.reserved) };
        let share = own.min(room);
        if share > 0 && (is_granted || !self.is_behind(at)) {
            if !is_granted {
                self.set_turn(at, Turn::None);
            }
            return share;
        }
        self.wait(at, wanted);
        0
    }

    /// Grants a share to the next waiting stream, and returns its number. `is_unused`: nothing is
    /// queued, so streams with a share do not use it.
    pub(super) fn grant(&mut self, room: usize, is_unused: bool) -> Option<u32> {
        while self.waiting > 0 {
            let free = room.saturating_sub(self.reserved);
            let free = if free == 0 && is_unused { room } else { free };
            if free == 0 {
                return None;
            }
            let waiting = self.open.iter().enumerate().filter(|(_, stream)| is_waiting(stream));
            let (at, stream) = waiting.min_by_key(|(_, stream)| rank(stream))?;
            let Turn::Waits(wanted) = stream.turn else { return None };
            let (id, own) = (stream.id, wanted.min(stream.send_window.bytes()));
            if own == 0 {
                self.set_turn(at, Turn::Window(wanted));
                continue;
            }
            self.set_turn(at, Turn::Granted(own.min(free)));
            return Some(id);
        }
        None
    }

    /// Ends a stream's share after it has sent data. It requests another one for more.
    pub(super) fn sent(&mut self, id: u32) {
        if let Some(at) = self.position(id) {
            self.set_turn(at, Turn::None);
        }
    }

    /// Lets a stream wait for a share once its own window has opened.
    pub(super) fn window_opened(&mut self, at: usize) {
        if let Turn::Window(wanted) = self.open[at].turn
            && self.open[at].send_window.bytes() > 0
        {
            self.wait(at, wanted);
        }
    }

    /// Adds the stream to those that wait.
    fn wait(&mut self, at: usize, wanted: usize) {
        if !matches!(self.open[at].turn, Turn::Waits(_) | Turn::Granted(_)) {
            self.tickets += 1;
            self.open[at].order = self.tickets;
        }
        self.set_turn(at, Turn::Waits(wanted));
    }

    /// `true` if another stream goes first: it waits, or has an unused share.
    fn is_behind(&self, at: usize) -> bool {
        if self.waiting == 0 && self.reserved == 0 {
            return false;
        }
        let stream = &self.open[at];
        let mut own = rank(stream);
        if !is_waiting(stream) && stream.priority.incremental {
            own.2 = u64::MAX;
        }
        self.open.iter().any(|other| is_in_line(other) && rank(other) < own)
    }

    pub(super) fn set_turn(&mut self, at: usize, turn: Turn) {
        let stream = &mut self.open[at];
        match stream.turn {
            Turn::Waits(_) => self.waiting -= 1,
            Turn::Granted(bytes) => self.reserved -= bytes,
            _ => {}
        }
        match turn {
            Turn::Waits(_) => self.waiting += 1,
            Turn::Granted(bytes) => self.reserved += bytes,
            _ => {}
        }
        stream.turn = turn;
    }
}

fn rank(stream: &Stream) -> Rank {
    let priority = stream.priority;
    let order = if priority.incremental { stream.order } else { u64::from(stream.id) };
    (priority.urgency, priority.incremental, order)
}

fn is_in_line(stream: &Stream) -> bool {
    matches!(stream.turn, Turn::Waits(_) | Turn::Granted(_))
}

fn is_waiting(stream: &Stream) -> bool {
    matches!(stream.turn, Turn::Waits(_))
}
