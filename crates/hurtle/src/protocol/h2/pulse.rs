//! The times and counters of an HTTP/2 connection that its deadlines depend on.

use std::cell::Cell;
use std::io;
use std::task::Poll;

use crate::clock::{self, NEVER};
use crate::transport::Attempt;

/// The times and counters of one connection. Times are in milliseconds on the scale of `clock`.
#[derive(Debug)]
pub(crate) struct Pulse {
    /// Time since which the peer has read nothing while bytes wait.
    blocked_ms: Cell<u64>,
    /// The transport's `flushed_bytes`.
    flushed: Cell<u64>,
    /// `true` if writes ignore the socket's readiness; see `Progress`.
    insist: Cell<bool>,
    /// `true` if the connection ends with a reset, because the peer does not read.
    pub(super) abort: Cell<bool>,
    /// Time at which bytes that had waited for the peer were taken; 0: none had.
    unblocked_ms: Cell<u64>,
    /// Time at which the peer last sent something; 0: nothing came.
    heard_ms: Cell<u64>,
    /// Bytes that the peer has sent, without those that were read before.
    received: Cell<u64>,
    /// Time at which the last byte was sent.
    finished_ms: Cell<u64>,
    /// Number of requests in progress.
    streams: Cell<usize>,
    /// The received bytes when the first of these began.
    received_before: Cell<u64>,
    /// Time at which the last response ended.
    ended_ms: Cell<u64>,
}

impl Pulse {
    pub(super) fn new() -> Pulse {
        Pulse {
            blocked_ms: Cell::new(NEVER),
            flushed: Cell::new(0),
            insist: Cell::new(false),
            abort: Cell::new(false),
            unblocked_ms: Cell::new(0),
            heard_ms: Cell::new(0),
            received: Cell::new(0),
            finished_ms: Cell::new(NEVER),
            streams: Cell::new(0),
            received_before: Cell::new(0),
            ended_ms: Cell::new(clock::now_ms()),
        }
    }

    /// Returns the time since which the peer has read nothing; `NEVER`: no bytes wait.
    pub(crate) fn blocked_ms(&self) -> u64 {
        self.blocked_ms.get()
    }

    /// Returns the time at which bytes that had waited for the peer were taken.
    pub(crate) fn unblocked_ms(&self) -> u64 {
        self.unblocked_ms.get()
    }

    /// Returns the time at which the peer last sent something.
    pub(crate) fn heard_ms(&self) -> u64 {
        self.heard_ms.get()
    }

    /// Records that the peer sent `bytes`.
    pub(super) fn heard(&self, bytes: usize, now_ms: u64) {
        self.heard_ms.set(now_ms);
        self.received.set(self.received.get() + bytes as u64);
    }

    /// Returns the bytes that the peer has sent, without those that were read before.
    pub(crate) fn received_bytes(&self) -> u64 {
        self.received.get()
    }

    /// Returns the time since which only the peer's end is awaited.
    pub(crate) fn finished_ms(&self) -> u64 {
        self.finished_ms.get()
    }

    /// Returns the number of requests in progress.
    pub(crate) fn streams(&self) -> usize {
        self.streams.get()
    }

    /// Returns the time at which the last response ended or the connection began.
    pub(crate) fn ended_ms(&self) -> u64 {
        self.ended_ms.get()
    }

    /// Ends the connection with a reset.
    pub(crate) fn abort(&self) {
        self.abort.set(true);
    }

    /// Returns the mode of writes.
    pub(super) fn attempt(&self) -> Attempt {
        if self.insist.get() { Attempt::Forced } else { Attempt::Ready }
    }

    /// Makes writes ignore the socket's readiness until one moves nothing.
    pub(crate) fn insist(&self) {
        self.insist.set(true);
    }

    pub(super) fn stream_begins(&self) {
        if self.streams.get() == 0 {
            self.received_before.set(self.received.get());
        }
        self.streams.set(self.streams.get() + 1);
    }

    /// Returns whether the peer has sent nothing since there was no request in progress.
    pub(super) fn is_unheard(&self) -> bool {
        self.received.get() == self.received_before.get()
    }

    pub(super) fn stream_ends(&self) {
        self.streams.set(self.streams.get() - 1);
        self.ended_ms.set(clock::now_ms());
    }

    /// Records that the last byte was sent; `true` at the first call.
    pub(super) fn finish(&self) -> bool {
        let is_first = self.finished_ms.get() == NEVER;
        if is_first {
            self.finished_ms.set(clock::now_ms());
        }
        is_first
    }

    pub(super) fn wrote(&self, written: &Poll<io::Result<usize>>, flushed: u64) {
        match written {
            Poll::Ready(Ok(_)) => {
                if self.blocked_ms.replace(NEVER) != NEVER {
                    self.unblocked_ms.set(clock::now_ms());
                }
            }
            Poll::Ready(Err(_)) => {}
            Poll::Pending => {
                self.insist.set(false);
                if self.blocked_ms.get() == NEVER || self.flushed.get() != flushed {
                    self.blocked_ms.set(clock::now_ms());
                }
            }
        }
        self.flushed.set(flushed);
    }
}
