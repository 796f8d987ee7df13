//! Serves an HTTP/3 connection: performs the handshake, runs each request as an exchange of its
//! own, concurrently, and enforces the connection's deadlines. `hurtle_http::h3` and QUIC bound the
//! cost of a peer; exchanges enforce the deadlines of requests.

use std::future::poll_fn;
use std::net::IpAddr;
use std::rc::Rc;

use hurtle_http::h3::Code;

use super::answer::answer;
use crate::clock::NEVER;
use crate::config::Limits;
use crate::deadline::{DeadlineError, Watch};
use crate::metrics::{HandshakeFailure, LimitKind, Protocol, TlsVersion};
use crate::pipeline;
use crate::pipeline::worker::{ConnectionSlot, Worker};
use crate::protocol::h3::{Session, Shared, Stream};
use crate::protocol::multiplexed::Arrived;
use crate::transport::Input;
use crate::transport::quic::{Connection, ConnectionError, Event, Negotiated};
use crate::{clock, rt};

/// Time for a peer to acknowledge the last responses after GOAWAY, in milliseconds.
const CLOSE_MS_MAX: u64 = 2_000;

/// Least time between the first GOAWAY and the final one, in milliseconds. Requests that were sent
/// before the first one arrived are still accepted.
const GOAWAY_MS_MIN: u64 = 100;

/// Part of the idle timeout after which a client with requests in progress is asked for a sign of
/// life: QUIC ends connections without packets.
const PING_PART: u64 = 3;

/// A connection.
struct Driver {
    session: Session,
    slot: Rc<ConnectionSlot>,
    clocks: Clocks,
    served: u64,
    /// `true` if the client has not completed a head in time.
    has_given_up: bool,
}

/// The times that the connection's deadlines depend on.
struct Clocks {
    shared: Rc<Shared>,
    slot: Rc<ConnectionSlot>,
    worker: Rc<Worker>,
    began_ms: u64,
    /// Time of the last check that found open requests, in milliseconds.
    seen_busy_ms: u64,
    /// Time at which the first GOAWAY was sent, in milliseconds; `NEVER`: not yet.
    goaway_ms: u64,
    /// `true` if the final GOAWAY was sent.
    has_left: bool,
}

/// The reason for the next check of a connection.
#[derive(Clone, Copy, Debug, PartialEq, Eq, PartialOrd, Ord)]
enum Due {
    /// The server is stopping.
    Drain,
    /// The client has had time to receive the first GOAWAY.
    Leave,
    /// The peer does not acknowledge what it got.
    Owing,
    /// The peer does not complete a head, or has sent no settings.
    Unfinished,
    /// The connection has no requests, or has had some for long.
    Idle,
}

/// Serves a connection to its end. `acquire` counts the client; `None`: it has too many
/// connections.
pub(crate) async fn run<G>(
    connection: Rc<Connection>,
    slot: ConnectionSlot,
    acquire: impl FnOnce(IpAddr) -> Option<G>,
) {
    slot.metrics().handshaking.add(1);
    let negotiated = Box::pin(shake_hands(&connection, &slot.worker())).await;
    slot.metrics().handshaking.sub(1);
    let Some(negotiated) = negotiated else { return connection.linger() };
    slot.set_protocol(Some(Protocol::Http3));
    let Some(_counted) = acquire(connection.peer().ip()) else {
        slot.metrics().hit(LimitKind::AddressConnections);
        connection.close(Code::EXCESSIVE_LOAD.0, "too many connections");
        return connection.linger();
    };
    let worker = slot.worker();
    let watch = worker.deadlines.watch();
    watch.set(clock::now_ms() + ms(worker.limits.head_timeout));
    // A stopping server checks this connection at once.
    watch.set_idle(true);
    let slot = Rc::new(slot);
    let session = Session::new(connection, negotiated, worker.limits.head_bytes);
    let clocks = Clocks {
        shared: Rc::clone(session.shared()),
        slot: Rc::clone(&slot),
        worker,
        began_ms: clock::now_ms(),
        seen_busy_ms: 0,
        goaway_ms: NEVER,
        has_left: false,
    };
    let driver = Driver { session, slot, clocks, served: 0, has_given_up: false };
    Box::pin(driver.run(&watch)).await;
}

/// Waits for the end of the handshake. `None`: it failed.
async fn shake_hands(connection: &Connection, worker: &Worker) -> Option<Negotiated> {
    let watch = worker.deadlines.watch();
    watch.set(clock::now_ms() + ms(worker.limits.handshake_timeout));
    // A stopping server does not wait for handshakes.
    watch.set_idle(true);
    let handshake = poll_fn(|cx| connection.poll_event(cx));
    let failure = match watch.wait(handshake).await {
        Ok(Some(Event::HandshakeDataReady | Event::Connected)) => {
            if let Some(negotiated) = connection.negotiated() {
                let resumed = usize::from(negotiated.is_resumed);
                worker.metrics.handshakes[TlsVersion::Tls13 as usize][resumed].add(1);
                return Some(negotiated);
            }
            HandshakeFailure::Closed
        }
        Ok(Some(Event::ConnectionLost { reason })) => {
            tracing::debug!("QUIC handshake: {reason}");
            failure(&reason)
        }
        Ok(_) => HandshakeFailure::Closed,
        Err(DeadlineError) => {
            tracing::debug!("QUIC handshake: timed out");
            HandshakeFailure::TimedOut
        }
    };
    worker.metrics.handshake_failures[failure as usize].add(1);
    connection.close(Code::NO_ERROR.0, "");
    None
}

/// The TLS alert for an unknown name as an error code of QUIC (RFC 9001 section 4.8).
const UNRECOGNIZED_NAME: u64 = 0x100 + 112;

fn failure(reason: &ConnectionError) -> HandshakeFailure {
    match reason {
        ConnectionError::TransportError(error) if u64::from(error.code) == UNRECOGNIZED_NAME => {
            HandshakeFailure::UnknownName
        }
        ConnectionError::TransportError(_) => HandshakeFailure::Rejected,
        ConnectionError::TimedOut => HandshakeFailure::TimedOut,
        _ => HandshakeFailure::Closed,
    }
}

impl Driver {
    async fn run(mut self, watch: &Watch) {
        loop {
            let Driver { session, clocks, slot, .. } = &mut self;
            let due = || {
                slot.update(&mut clocks.worker);
                clocks.due().0
            };
            match watch.wait_until(session.next(), due).await {
                Ok(Some((arrived, stream))) => self.start_exchange(arrived, stream),
                Ok(None) => break,
                Err(DeadlineError) if self.run_due_check() => {}
                Err(DeadlineError) => break,
            }
        }
        let metrics = self.slot.metrics();
        if self.has_given_up {
            metrics.hit(LimitKind::HeadTime);
        } else if self.clocks.shared.is_flooded() {
            metrics.hit(LimitKind::Http3Frames);
        }
    }

    /// Starts an exchange for a request.
    fn start_exchange(&mut self, arrived: Arrived, stream: Stream) {
        self.served += 1;
        self.slot.update(&mut self.clocks.worker);
        if !self.slot.may_follow(self.served, &self.clocks.worker.limits) {
            self.send_goaway();
        }
        let slot = Rc::clone(&self.slot);
        // The client may have moved to another address.
        let peer = self.clocks.shared.connection().peer().ip();
        let connection = pipeline::Connection::new(stream, Input::default(), Some(peer), slot);
        self.session.aside(|| rt::begin(answer(connection, arrived)));
    }

    fn send_goaway(&mut self) {
        if !self.clocks.has_sent_goaway() {
            self.clocks.goaway_ms = clock::now_ms();
            self.session.leave();
        }
    }

    /// Performs the due check. `false`: the connection must be dropped.
    fn run_due_check(&mut self) -> bool {
        let now_ms = clock::now_ms();
        let (at_ms, due) = self.clocks.due();
        if at_ms > now_ms {
            return true;
        }
        let shared = &self.clocks.shared;
        match due {
            Due::Drain => self.send_goaway(),
            Due::Leave => {
                self.clocks.has_left = true;
                self.session.leave_finally();
            }
            Due::Owing => return false,
            Due::Unfinished if !shared.is_established() => {
                self.session.close(Code::MISSING_SETTINGS, "no SETTINGS in time");
                return false;
            }
            Due::Unfinished => {
                self.has_given_up = true;
                shared.give_up_begun();
            }
            Due::Idle if shared.streams() > 0 => {
                self.clocks.seen_busy_ms = now_ms;
                shared.connection().ping();
            }
            Due::Idle => self.send_goaway(),
        }
        true
    }
}

impl Clocks {
    /// Returns the time and the reason of the next check.
    fn due(&self) -> (u64, Due) {
        let Limits { head_timeout, idle_timeout, .. } = &self.worker.limits;
        if self.worker.deadlines.is_draining() && !self.has_sent_goaway() {
            return (0, Due::Drain);
        }
        let owing_ms = match self.has_left {
            true => CLOSE_MS_MAX,
            false => self.slot.write_stall_ms(&self.worker.limits),
        };
        let begun = match self.shared.is_established() {
            true => self.shared.begun_ms().unwrap_or(NEVER),
            false => self.began_ms,
        };
        let busy_ms = self.shared.ended_ms().max(self.seen_busy_ms);
        let idle_ms = match self.shared.streams() {
            0 => ms(*idle_timeout),
            _ => ms(*idle_timeout) / PING_PART,
        };
        let leave_ms = match self.has_left {
            true => NEVER,
            false => self.goaway_ms.saturating_add(self.goaway_wait_ms()),
        };
        let is_idle_due = !self.has_sent_goaway() || self.shared.streams() > 0;
        [
            (leave_ms, Due::Leave),
            (self.shared.owing_ms().saturating_add(owing_ms), Due::Owing),
            (begun.saturating_add(ms(*head_timeout)), Due::Unfinished),
            (if is_idle_due { busy_ms.saturating_add(idle_ms) } else { NEVER }, Due::Idle),
        ]
        .into_iter()
        .min()
        .unwrap_or((NEVER, Due::Idle))
    }

    fn goaway_wait_ms(&self) -> u64 {
        GOAWAY_MS_MIN.max(2 * ms(self.shared.connection().rtt()))
    }

    fn has_sent_goaway(&self) -> bool {
        self.goaway_ms != NEVER
    }
}

fn ms(time: std::time::Duration) -> u64 {
    u64::try_from(time.as_millis()).unwrap_or(u64::MAX)
}
