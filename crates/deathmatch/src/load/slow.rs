//! Slow clients: connections whose requests are sent, and whose responses are read at a low rate,
//! in small pieces; or whose requests' bodies are sent so. The generator's thread moves one piece
//! in a turn, so a page is late by no more than that.

use std::collections::VecDeque;
use std::io::{ErrorKind, Write as _};
use std::net::TcpStream;
use std::ops::Range;

use super::wire::{self, Transfer};
use crate::sample::SlowLoad;

/// Time between two reads or writes of a connection, in nanoseconds.
const EVERY_NS: u64 = 250_000_000;

/// Most bytes that a slow sender sends at once: a quarter of a second at the highest rate of a
/// plan.
const PIECE_BYTES_MAX: usize = 25_000;

/// Connections with a request under way; they do not block.
#[derive(Debug)]
pub struct SlowClients {
    /// Connections of all slow readers or senders.
    pub sockets: Vec<TcpStream>,
    /// Bytes that each reads or sends in a second.
    pub bytes_per_s: f64,
    /// `true`: they send the bodies of their requests.
    pub sends: bool,
}

/// The reads or writes of one run. Times are nanoseconds since its start.
pub(super) struct SlowTurns<'a> {
    clients: &'a SlowClients,
    measured: Range<u64>,
    /// Time of the next read or write of each connection, in order.
    due: VecDeque<(u64, &'a TcpStream)>,
    counts: SlowLoad,
}

impl<'a> SlowTurns<'a> {
    pub(super) fn new(clients: &'a SlowClients, measured: Range<u64>) -> SlowTurns<'a> {
        let count = clients.sockets.len().max(1) as u64;
        let spread = |(at, socket)| (at as u64 * EVERY_NS / count, socket);
        let due = clients.sockets.iter().enumerate().map(spread).collect();
        SlowTurns { clients, measured, due, counts: SlowLoad::default() }
    }

    /// Reads or sends a piece, if one is due; `true` if there was one.
    pub(super) fn turn(&mut self, now: u64, buffer: &mut [u8]) -> bool {
        let Some((due, socket)) = self.due.pop_front_if(|(due, _)| *due <= now) else {
            return false;
        };
        let piece = (self.clients.bytes_per_s * EVERY_NS as f64 / 1e9) as usize;
        let most = piece.clamp(1, buffer.len());
        let moved = match self.clients.sends {
            true => send(socket, most),
            false => wire::receive(socket, &mut buffer[..most]),
        };
        match moved {
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

/// Sends so many bytes of a body, which has any content. A connection on which the server has
/// answered before the end of the body counts as closed once it is.
fn send(mut socket: &TcpStream, bytes: usize) -> Transfer {
    let piece = [b'x'; PIECE_BYTES_MAX];
    match socket.write(&piece[..bytes.min(PIECE_BYTES_MAX)]) {
        Ok(count) => Transfer::Bytes(count),
        Err(e) if matches!(e.kind(), ErrorKind::WouldBlock | ErrorKind::Interrupted) => {
            Transfer::Blocked
        }
        Err(_) => Transfer::Broken,
    }
}
