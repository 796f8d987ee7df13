//! Serves an HTTP/3 connection: performs the handshake, then serves its requests.
//! `hurtle_http::h3` and QUIC bound the cost of a peer; exchanges enforce the deadlines of
//! requests.

use std::future::poll_fn;
use std::net::IpAddr;
use std::rc::Rc;

use hurtle_http::h3::Code;

use super::multiplexed::{self, Deadlines, Times, Verdict, ms};
use super::{LINGER_MS_MAX, LINGER_SILENCE_MS_MAX};
use crate::clock;
use crate::clock::NEVER;
use crate::config::Limits;
use crate::deadline::DeadlineError;
use crate::metrics::{HandshakeFailure, LimitKind, Protocol, TlsVersion};
use crate::pipeline::worker::{ConnectionSlot, Worker};
use crate::protocol::h3::{Session, Shared};
use crate::transport::quic::{Connection, ConnectionError, Event, Negotiated};

/// Least time between the first GOAWAY and the final one, in milliseconds. Requests that were sent
/// before the first one arrived are still accepted.
const GOAWAY_MS_MIN: u64 = 100;

/// Part of the idle timeout after which a client with requests in progress is asked for a sign of
/// life: QUIC ends connections without packets.
const PING_PART: u64 = 3;

/// The deadlines of a connection.
struct Clocks {
    shared: Rc<Shared>,
    began_ms: u64,
    /// `true` if the final GOAWAY was sent.
    has_left: bool,
    /// Number of acknowledgements at the last check of those that the client owes, and the time of
    /// that check in milliseconds.
    acks: u64,
    acked_ms: u64,
}

/// The reason for the next check of a connection.
#[derive(Clone, Copy, Debug, PartialEq, Eq, PartialOrd, Ord)]
enum Due {
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
    let session = Session::new(connection, negotiated, slot.worker().limits.head_bytes);
    let shared = Rc::clone(session.shared());
    let began_ms = clock::now_ms();
    let clocks = Clocks { shared, began_ms, has_left: false, acks: 0, acked_ms: 0 };
    Box::pin(multiplexed::run(session, clocks, Rc::new(slot))).await;
}

/// Waits for the end of the handshake. `None`: it failed.
async fn shake_hands(connection: &Connection, worker: &Worker) -> Option<Negotiated> {
    let watch = worker.deadlines.watch();
    watch.set(clock::now_ms() + ms(worker.limits.handshake_timeout));
    // A stopping server does not wait for handshakes.
    watch.set_idle(true);
    let handshake = poll_fn(|cx| connection.poll_event(cx));
    let failure = match watch.wait(handshake).await {
        Ok(Some(Event::HandshakeDataReady | Event::Connected)) => match connection.negotiated() {
            Some(Negotiated { client: Some(client), .. }) if client.is_expired() => {
                HandshakeFailure::Rejected
            }
            Some(negotiated) => {
                let resumed = usize::from(negotiated.is_resumed);
                worker.metrics.handshakes[TlsVersion::Tls13 as usize][resumed].add(1);
                return Some(negotiated);
            }
            None => HandshakeFailure::Closed,
        },
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

impl Deadlines<Session> for Clocks {
    type Due = Due;

    fn peer(&self) -> Option<IpAddr> {
        Some(self.shared.connection().peer().ip())
    }

    fn next_check(&self, times: &Times) -> (u64, Due) {
        let Limits { head_timeout, idle_timeout, .. } = &times.worker.limits;
        let begun = match self.shared.is_established() {
            true => self.shared.begun_ms().unwrap_or(NEVER),
            false => self.began_ms,
        };
        let busy_ms = self.shared.ended_ms().max(times.seen_busy_ms);
        let idle_ms = match self.shared.streams() {
            0 => ms(*idle_timeout),
            _ => ms(*idle_timeout) / PING_PART,
        };
        let leave_ms = match self.has_left {
            true => NEVER,
            false => times.goaway_ms.saturating_add(self.goaway_wait_ms()),
        };
        let is_idle_due = !times.has_sent_goaway() || self.shared.streams() > 0;
        [
            (leave_ms, Due::Leave),
            (self.owing_at_ms(times), Due::Owing),
            (begun.saturating_add(ms(*head_timeout)), Due::Unfinished),
            (if is_idle_due { busy_ms.saturating_add(idle_ms) } else { NEVER }, Due::Idle),
        ]
        .into_iter()
        .min()
        .unwrap_or((NEVER, Due::Idle))
    }

    fn check(&mut self, due: Due, session: &mut Session, times: &mut Times) -> Verdict {
        match due {
            Due::Leave => {
                self.has_left = true;
                session.leave_finally();
            }
            Due::Owing if self.owes_too_long(times) || !self.has_acked() => return Verdict::Drop,
            Due::Owing => {}
            Due::Unfinished if !self.shared.is_established() => {
                session.close(Code::MISSING_SETTINGS, "no SETTINGS in time");
                return Verdict::Drop;
            }
            Due::Unfinished => {
                times.has_given_up = true;
                self.shared.give_up_begun();
            }
            Due::Idle if self.shared.streams() > 0 => {
                times.seen_busy_ms = clock::now_ms();
                self.shared.connection().ping();
            }
            Due::Idle => return Verdict::Leave,
        }
        Verdict::Continue
    }

    fn received_bytes(&self) -> u64 {
        self.shared.received_bytes()
    }

    fn limits_hit(&self) -> (u64, Option<LimitKind>) {
        (0, self.shared.is_flooded().then_some(LimitKind::Http3Frames))
    }
}

impl Clocks {
    /// Returns the time of the check whether the client acknowledges, in milliseconds.
    fn owing_at_ms(&self, times: &Times) -> u64 {
        let silence_ms = self.silence_ms(times);
        let silent_ms = self.shared.owing_ms().max(self.acked_ms).saturating_add(silence_ms);
        silent_ms.min(self.owing_end_ms(silence_ms))
    }

    /// Returns the time for which the client may acknowledge nothing, in milliseconds.
    fn silence_ms(&self, times: &Times) -> u64 {
        match self.has_left && self.shared.streams() == 0 {
            true => LINGER_SILENCE_MS_MAX,
            false => times.slot.write_stall_ms(&times.worker.limits),
        }
    }

    /// Returns the time by which a response must be acknowledged whole, in milliseconds. A client
    /// may acknowledge the same packets again and again.
    fn owing_end_ms(&self, silence_ms: u64) -> u64 {
        self.shared.owing_ms().saturating_add(LINGER_MS_MAX.max(2 * silence_ms))
    }

    fn owes_too_long(&self, times: &Times) -> bool {
        clock::now_ms() >= self.owing_end_ms(self.silence_ms(times))
    }

    /// Returns whether an acknowledgement has come since the last call. One on a slow path need not
    /// be that of a whole response.
    fn has_acked(&mut self) -> bool {
        let acks = self.shared.connection().acks();
        self.acked_ms = clock::now_ms();
        acks != std::mem::replace(&mut self.acks, acks)
    }

    fn goaway_wait_ms(&self) -> u64 {
        GOAWAY_MS_MIN.max(2 * ms(self.shared.connection().rtt()))
    }
}
