//! Slow readers: connections whose requests are sent, and whose responses are read at a low rate, in
//! small pieces. The generator's thread reads one piece in a turn, so a page is late by no more than
//! that.

use std::collections::VecDeque;
use std::net::TcpStream;
use std::ops::Range;

use super::wire::{self, Transfer};
use crate::sample::SlowLoad;

/// Time between two reads of a connection, in nanoseconds.
const EVERY_NS: u64 = 250_000_000;

/// Connections with a request under way; they do not block.
#[derive(Debug)]
pub struct SlowReaders {
    /// The connections.
    pub sockets: Vec<TcpStream>,
    /// Bytes that each reads in a second.
    pub bytes_per_s: f64,
}

/// The reads of one run. Times are nanoseconds since its start.
pub(super) struct Reads<'a> {
    readers: &'a SlowReaders,
    measured: Range<u64>,
    /// Time of the next read of each connection, in order.
    due: VecDeque<(u64, &'a TcpStream)>,
    counts: SlowLoad,
}

impl<'a> Reads<'a> {
    pub(super) fn new(readers: &'a SlowReaders, measured: Range<u64>) -> Reads<'a> {
        let count = readers.sockets.len().max(1) as u64;
        let spread = |(at, socket)| (at as u64 * EVERY_NS / count, socket);
        let due = readers.sockets.iter().enumerate().map(spread).collect();
        Reads { readers, measured, due, counts: SlowLoad::default() }
    }

    /// Reads a piece, if one is due; `true` if there was one.
    pub(super) fn turn(&mut self, now: u64, buffer: &mut [u8]) -> bool {
        let Some((due, socket)) = self.due.pop_front_if(|(due, _)| *due <= now) else {
            return false;
        };
        let piece = (self.readers.bytes_per_s * EVERY_NS as f64 / 1e9) as usize;
        let most = piece.clamp(1, buffer.len());
        match wire::receive(socket, &mut buffer[..most]) {
            Transfer::Bytes(0) | Transfer::Broken => {
                self.counts.closed += 1;
                return true;
            }
            Transfer::Bytes(count) if self.measured.contains(&now) => {
                self.counts.bytes += count as u64;
            }
            Transfer::Bytes(_) | Transfer::Blocked => {}
        }
        self.due.push_back((due + EVERY_NS, socket));
        true
    }

    /// Totals of the measured time.
    pub(super) fn finish(self) -> SlowLoad {
        self.counts
    }
}
