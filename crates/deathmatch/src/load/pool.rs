//! Slots for connections, and which of them are free. The engine uses them.

use std::collections::VecDeque;

use super::channel::Channel;
use super::reader::{Reader, ResponseFault};

/// All slots. Each is in exactly one state: with a call, idle, closed, or being connected in
/// advance.
pub(super) struct Pool {
    pub(super) slots: Vec<Slot>,
    /// Connected slots without a call, the longest free first, so that all are used equally.
    idle: VecDeque<usize>,
    /// Slots without connection and call.
    shut: Vec<usize>,
    /// Largest number of slots.
    slots_max: usize,
}

/// A slot for a connection.
#[derive(Default)]
pub(super) struct Slot {
    pub(super) channel: Option<Channel>,
    /// Distinguishes events of the present connection from those of earlier ones.
    pub(super) generation: u32,
    pub(super) state: State,
    pub(super) call: Option<Call>,
    /// Time at which the generator saw that its last call had ended.
    pub(super) free_since: u64,
    /// The connection existed before its call, so the server may have closed it meanwhile.
    pub(super) reused: bool,
    pub(super) reader: Reader,
}

/// State of a slot's connection.
#[derive(Clone, Copy, Default, PartialEq, Eq)]
pub(super) enum State {
    #[default]
    Shut,
    Connecting,
    Handshake,
    Idle,
    Busy {
        /// Bytes of the request sent.
        pushed: usize,
    },
    /// The response is complete; the server must close.
    Closing {
        wrong: Option<ResponseFault>,
    },
}

/// A request under way. Times are nanoseconds since the start.
#[derive(Clone, Copy)]
pub(super) struct Call {
    /// Intended start of it or of its session.
    pub(super) intended: u64,
    /// Start of its response time.
    pub(super) began: u64,
    /// Time at which it was sent; before that, at which its connection was begun.
    pub(super) sent: u64,
    /// Remaining calls of this session, itself included.
    pub(super) left: u32,
    /// Index of the job's request.
    pub(super) which: usize,
    pub(super) bytes: u64,
    pub(super) retried: bool,
}

impl Pool {
    pub(super) fn new(slots: usize, slots_max: usize) -> Pool {
        let slots = std::iter::repeat_with(Slot::default).take(slots).collect();
        Pool { slots, idle: VecDeque::new(), shut: Vec::new(), slots_max }
    }

    /// Takes a free slot, a connected one if possible; `grows`: makes a new one if there is none.
    pub(super) fn take(&mut self, grows: bool) -> Option<usize> {
        let free = self.idle.pop_front().or_else(|| self.shut.pop());
        if free.is_some() || !grows || self.slots.len() >= self.slots_max {
            return free;
        }
        self.slots.push(Slot::default());
        Some(self.slots.len() - 1)
    }

    /// Takes all slots at the start of a run, when none has a call.
    pub(super) fn take_all(&mut self) -> std::ops::Range<usize> {
        self.idle.clear();
        self.shut.clear();
        0..self.slots.len()
    }

    /// Takes the slots without connection at the start of a run, when none has a call.
    pub(super) fn take_unconnected(&mut self) -> Vec<usize> {
        self.shut.clear();
        (0..self.slots.len()).filter(|&at| self.slots[at].state == State::Shut).collect()
    }

    /// Frees the slots without connection at the start of a run: each request connects.
    pub(super) fn free_unconnected(&mut self) {
        self.shut = self.take_unconnected();
    }

    /// Forgets times of an earlier run: they count from the start of each.
    pub(super) fn forget_times(&mut self) {
        self.slots.iter_mut().for_each(|slot| slot.free_since = 0);
    }

    /// Takes all slots without connection.
    pub(super) fn take_shut(&mut self) -> Vec<usize> {
        std::mem::take(&mut self.shut)
    }

    /// Frees the slot; closes its connection on request.
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

    /// Handles the loss of an idle connection.
    pub(super) fn drop_connection(&mut self, index: usize, now: u64) {
        self.idle.retain(|&other| other != index);
        self.release(index, true, now);
    }
}
