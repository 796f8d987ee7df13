//! A connection that carries several requests, as `multiplex` and `visits` drive it, and what it
//! tells.

use std::io;
use std::net::SocketAddr;
use std::os::fd::BorrowedFd;
use std::time::Instant;

use bytes::Bytes;

use super::reader::ResponseFault;
use super::tally::Failure;
use super::{Expected, Job, Status, Tls};

/// A connection that carries several requests.
pub(super) trait Link: Default {
    /// `true` if it has timers.
    const HAS_TIMERS: bool;

    /// `true` if it carries several requests at once.
    const IS_MULTIPLEXED: bool;

    /// Takes what the job says of its connections; called once, before the first begins.
    fn set_up(&mut self, _job: &Job) {}

    /// A place for a connection of this job.
    fn of(job: &Job) -> Self {
        let mut link = Self::default();
        link.set_up(job);
        link
    }

    /// Begins a connection; `false`: it was refused.
    ///
    /// # Errors
    /// The generator's own fault.
    fn begin(&mut self, target: SocketAddr, tls: Option<&Tls>) -> io::Result<bool>;

    /// Its socket, unless it is shut.
    fn socket(&self) -> Option<BorrowedFd<'_>>;

    /// Distinguishes its events from those of other connections and of earlier ones in its place.
    fn token(&self, at: usize) -> u64;

    /// Checks that the server accepted the connection; begins the handshake, unless it has begun.
    ///
    /// # Errors
    /// The generator's own fault.
    fn connected(&mut self, tls: Option<&Tls>) -> io::Result<bool>;

    /// `true` once it accepts requests.
    fn is_ready(&self) -> bool;

    /// `true` while requests may be sent: also before the server has told its limits (RFC 9113,
    /// 3.4), and until it ends the connection.
    fn may_ask(&self) -> bool {
        self.is_ready()
    }

    /// Largest number of concurrent requests; before the server has told it, an assumed one.
    fn streams_max(&self) -> u32;

    /// `true` if the handshake was resumed.
    fn resumed(&self) -> bool;

    /// Makes a request with this head, as the protocol writes it, and this body for this slot;
    /// returns its ticket.
    fn ask(&mut self, slot: usize, head: &[u8], body: Bytes) -> Result<u64, PeerError>;

    /// Gives up the request of this ticket.
    fn cancel(&mut self, ticket: u64);

    fn flush(&mut self) -> Result<(), ConnectionLost>;

    /// Receives once; adds ended requests to `ended`.
    fn receive(
        &mut self,
        buffer: &mut [u8],
        expected: &Expected,
        ended: &mut Vec<EndedRequest>,
    ) -> Received;

    /// Handles timers that are due; `false`: the connection is lost.
    fn expire(&mut self, _now: Instant) -> bool {
        true
    }

    /// `true` if the server goes away: it takes no more requests (RFC 9113, 6.8; RFC 9114, 5.2).
    fn is_leaving(&self) -> bool {
        false
    }

    /// `true` if the server goes away and every stream has ended.
    fn is_drained(&self) -> bool;

    fn is_shut(&self) -> bool;

    fn shut(&mut self);
}

/// The server violated the protocol, or ends the connection.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(super) struct PeerError;

/// The connection is lost.
pub(super) struct ConnectionLost;

/// Result of a receive.
pub(super) enum Received {
    Nothing,
    Some {
        /// The socket is drained.
        drained: bool,
    },
    Lost(Failure),
}

/// Result of a request.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(super) enum End {
    /// A response, with its fault if any.
    Answer(Option<ResponseFault>),
    /// The server reset its stream.
    Reset,
    /// The server goes away and has not begun it: it may be made again (RFC 9113, 6.8).
    Unprocessed,
}

/// A request that ended.
#[derive(Clone, Copy, Debug)]
pub(super) struct EndedRequest {
    /// The slot given when it was made.
    pub(super) slot: usize,
    pub(super) how: End,
    /// Bytes of its response, without frames' heads.
    pub(super) bytes: u64,
    /// Status of its response, if there was one.
    pub(super) status: Option<Status>,
}
