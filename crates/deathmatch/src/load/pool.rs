//! The places for connections, and which of them are free. What is done with one is the engine's
//! business.

use std::collections::VecDeque;

use super::channel::Channel;
use super::reader::{Reader, Wrong};

/// All places. Each is in exactly one state: with a call, idle, shut, or being connected in advance.
pub(super) struct Pool {
    pub(super) slots: Vec<Slot>,
    /// Connected and without a call; the one that has been so longest is next, so that all are used
    /// alike.
    idle: VecDeque<usize>,
    /// Not connected and without a call.
    shut: Vec<usize>,
    /// Places there may be at most.
    slots_max: usize,
}

/// A place for a connection.
#[derive(Default)]
pub(super) struct Slot {
    pub(super) channel: Option<Channel>,
    /// Tells events of the present connection from those of its predecessors.
    pub(super) generation: u32,
    pub(super) state: State,
    pub(super) call: Option<Call>,
    /// When the generator saw that no call needed it any more.
    pub(super) free_since: u64,
    /// The connection stood before its call began, so the server may have closed it meanwhile.
    pub(super) reused: bool,
    pub(super) reader: Reader,
}

/// What a slot's connection is doing.
#[derive(Clone, Copy, Default, PartialEq, Eq)]
pub(super) enum State {
    #[default]
    Shut,
    Connecting,
    /// Of TLS.
    Handshake,
    Idle,
    Busy {
        /// Bytes of the request sent.
        pushed: usize,
    },
    /// The answer is over; the server is to close.
    Closing {
        wrong: Option<Wrong>,
    },
}

/// A request under way. Moments are nanoseconds since the start.
#[derive(Clone, Copy)]
pub(super) struct Call {
    /// When it, or the session it belongs to, should have begun.
    pub(super) intended: u64,
    /// When its response time begins.
    pub(super) began: u64,
    /// When it was sent; before that, when its connection was begun.
    pub(super) sent: u64,
    /// Calls of this session to come, itself included.
    pub(super) left: u32,
    /// Which of the job's requests.
    pub(super) which: usize,
    pub(super) bytes: u64,
    pub(super) retried: bool,
}

impl Pool {
    pub(super) fn new(slots: usize, slots_max: usize) -> Pool {
        let slots = std::iter::repeat_with(Slot::default).take(slots).collect();
        Pool { slots, idle: VecDeque::new(), shut: Vec::new(), slots_max }
    }

    /// Takes a free slot, connected if there is one; `grows`: makes a new one if there is none.
    pub(super) fn take(&mut self, grows: bool) -> Option<usize> {
        let free = self.idle.pop_front().or_else(|| self.shut.pop());
        if free.is_some() || !grows || self.slots.len() >= self.slots_max {
            return free;
        }
        self.slots.push(Slot::default());
        Some(self.slots.len() - 1)
    }

    /// Takes all that are not connected.
    pub(super) fn take_shut(&mut self) -> Vec<usize> {
        std::mem::take(&mut self.shut)
    }

    /// The slot is free; its connection is closed on request.
    pub(super) fn release(&mut self, index: usize, close: bool, now: u64) {
        let slot = &mut self.slots[index];
        slot.free_since = now;
        if close {
            slot.channel = None;
            slot.generation = slot.generation.wrapping_add(1);
            slot.state = State::Shut;
            self.shut.push(index);
        } else {
            slot.state = State::Idle;
            self.idle.push_back(index);
        }
    }

    /// An idle connection is no more.
    pub(super) fn lose(&mut self, index: usize, now: u64) {
        self.idle.retain(|&other| other != index);
        self.release(index, true, now);
    }
}
