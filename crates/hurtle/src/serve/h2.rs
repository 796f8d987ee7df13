//! Serves an HTTP/2 connection. `hurtle_http::h2` bounds the cost of a peer; exchanges enforce the
//! deadlines of streams.

use std::net::IpAddr;
use std::rc::Rc;

use super::multiplexed::{self, Deadlines, Times, Verdict, ms};
use super::{LINGER_MS_MAX, LINGER_SILENCE_MS_MAX};
use crate::clock;
use crate::clock::NEVER;
use crate::config::Limits;
use crate::deadline::{Pass, Stall};
use crate::metrics::{LimitKind, Protocol};
use crate::pipeline::worker::ConnectionSlot;
use crate::protocol::h2::{Session, Shared};
use crate::transport::{Input, Transport};

/// The deadlines of a connection.
struct Clocks {
    shared: Rc<Shared>,
    peer: Option<IpAddr>,
    /// The schedule of writes while the peer does not read.
    stall: Stall,
}

/// The reason for the next check of a connection.
#[derive(Clone, Copy, Debug, PartialEq, Eq, PartialOrd, Ord)]
enum Due {
    /// The peer closed, or its time to close has passed.
    Finished,
    /// The peer does not read.
    Blocked,
    /// The peer does not complete a head or a control frame.
    Unfinished,
    /// The connection has no requests.
    Idle,
}

/// Serves a connection to its end. `early` holds the bytes that were already read.
pub(crate) async fn run<T: Transport>(
    io: T,
    early: Input,
    peer: Option<IpAddr>,
    slot: Rc<ConnectionSlot>,
) {
    slot.set_protocol(Some(Protocol::Http2));
    let session = Session::new(io, early, slot.worker().limits.head_bytes);
    let shared = Rc::clone(session.shared());
    let clocks = Clocks { shared, peer, stall: Stall::new(NEVER, 0) };
    multiplexed::run(session, clocks, slot).await;
}

impl<T: Transport> Deadlines<Session<T>> for Clocks {
    type Due = Due;

    fn peer(&self) -> Option<IpAddr> {
        self.peer
    }

    fn next_check(&self, times: &Times) -> (u64, Due) {
        let Limits { head_timeout, idle_timeout, .. } = &times.worker.limits;
        let begun = self.shared.begun_ms().unwrap_or(NEVER);
        let pulse = self.shared.pulse();
        let busy_ms = pulse.ended_ms().max(times.seen_busy_ms);
        let idle_at_ms = match times.has_sent_goaway() {
            // The end of a response waits for the peer.
            true if pulse.blocked_ms() != NEVER => NEVER,
            true => self.linger(busy_ms.max(times.goaway_ms).max(pulse.unblocked_ms())),
            false => busy_ms.saturating_add(ms(*idle_timeout)),
        };
        [
            (self.linger(pulse.finished_ms()), Due::Finished),
            (self.stall(times).due_ms(), Due::Blocked),
            (begun.saturating_add(ms(*head_timeout)), Due::Unfinished),
            (idle_at_ms, Due::Idle),
        ]
        .into_iter()
        .min()
        .unwrap_or((NEVER, Due::Idle))
    }

    fn check(&mut self, due: Due, session: &mut Session<T>, times: &mut Times) -> Verdict {
        match due {
            Due::Finished => Verdict::Drop,
            Due::Blocked => self.try_blocked(times),
            Due::Unfinished if !self.shared.is_established() => Verdict::Drop,
            Due::Unfinished => {
                times.has_given_up = true;
                session.give_up();
                Verdict::Continue
            }
            Due::Idle if self.shared.pulse().streams() > 0 => {
                times.seen_busy_ms = clock::now_ms();
                Verdict::Continue
            }
            Due::Idle if times.has_sent_goaway() => Verdict::Drop,
            Due::Idle => Verdict::Leave,
        }
    }

    fn received_bytes(&self) -> u64 {
        self.shared.pulse().received_bytes()
    }

    fn limits_hit(&self) -> (u64, Option<LimitKind>) {
        let (refused, is_flooded) = self.shared.limits_hit();
        (refused, is_flooded.then_some(LimitKind::Frames))
    }
}

impl Clocks {
    /// Returns the end of the time for the peer to close, in milliseconds. It reads the last
    /// response meanwhile: closing while it sends would reset the connection. One that floods gets
    /// little of it, since it may never stop.
    fn linger(&self, since_ms: u64) -> u64 {
        let heard_ms = self.shared.pulse().heard_ms();
        let silent_ms = since_ms.max(heard_ms).saturating_add(LINGER_SILENCE_MS_MAX);
        let (_, is_flooded) = self.shared.limits_hit();
        let most_ms = if is_flooded { LINGER_SILENCE_MS_MAX } else { LINGER_MS_MAX };
        silent_ms.min(since_ms.saturating_add(most_ms))
    }

    /// Returns the write schedule of the current stall.
    fn stall(&self, times: &Times) -> Stall {
        match self.shared.pulse().blocked_ms() {
            since_ms if since_ms == self.stall.since_ms() => self.stall,
            since_ms => Stall::new(since_ms, times.slot.write_stall_ms(&times.worker.limits)),
        }
    }

    /// Tries a write, or evaluates the last try.
    fn try_blocked(&mut self, times: &Times) -> Verdict {
        self.stall = self.stall(times);
        match self.stall.pass() {
            Pass::Try(_) => self.shared.pulse().insist(),
            Pass::Wait => {}
            Pass::GiveUp => {
                self.shared.pulse().abort();
                return Verdict::Drop;
            }
        }
        Verdict::Continue
    }
}
