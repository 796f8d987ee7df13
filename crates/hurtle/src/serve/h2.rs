//! One HTTP/2 connection: takes its requests, has each answered beside the others as one on a
//! connection of its own, and decides when the connection is given up. What a peer can cost is
//! bounded in `transport::http2`; a stream's own deadlines are `h1`'s.

use std::net::IpAddr;
use std::rc::Rc;

use super::deadline::{Late, NEVER, Watch};
use super::h1::Connection;
use super::{Place, Worker};
use crate::config::Limits;
use crate::transport::http2::{Pulse, Session, Stream};
use crate::transport::{Input, Transport};
use crate::{clock, rt};

/// How long a peer may take to agree that the connection ends, once all is answered; and to see
/// that it has ended, in milliseconds.
const LEAVE_MS_MAX: u64 = 2_000;

/// A connection.
struct Driver<T: Transport> {
    session: Session<T>,
    worker: Rc<Worker>,
    peer: Option<IpAddr>,
    place: Rc<Place>,
    clocks: Clocks,
    served: u64,
}

/// What is known of a connection's times.
struct Clocks {
    pulse: Rc<Pulse>,
    worker: Rc<Worker>,
    /// When streams were last found to be open, and so nothing idle.
    seen_busy_ms: u64,
    /// When the peer was told that there is an end; `NEVER`: it was not.
    left_ms: u64,
    /// A write was tried against what is said of the socket: for the block since then.
    insisted_ms: u64,
}

/// Why a connection has to be looked at, or until when not.
#[derive(Clone, Copy, Debug, PartialEq, Eq, PartialOrd, Ord)]
enum Due {
    /// The server stops.
    Drain,
    /// The peer saw the end, or had the time to.
    Finished,
    /// It takes nothing.
    Blocked,
    /// It does not end what it began.
    Unfinished,
    /// Nothing is asked.
    Idle,
}

/// Serves a connection to its end; `early`: what was read of it already.
pub async fn run<T: Transport + Unpin>(
    io: T,
    early: Input,
    peer: Option<IpAddr>,
    place: Rc<Place>,
) {
    let worker = Rc::clone(&place.0);
    let watch = worker.deadlines.watch();
    watch.set(clock::now_ms() + ms(worker.limits.head_timeout));
    // A stop looks at it again.
    watch.set_idle(true);
    let beginning = Session::begin(io, early, worker.limits.head_bytes);
    let session = match watch.wait(Box::pin(beginning)).await {
        Ok(Ok(session)) => session,
        Ok(Err(e)) => return tracing::debug!("HTTP/2: {e}"),
        Err(Late) => return,
    };
    let clocks = Clocks {
        pulse: Rc::clone(session.pulse()),
        worker: Rc::clone(&worker),
        seen_busy_ms: 0,
        left_ms: NEVER,
        insisted_ms: NEVER,
    };
    Driver { session, worker, peer, place, clocks, served: 0 }.run(&watch).await;
}

impl<T: Transport + Unpin> Driver<T> {
    async fn run(mut self, watch: &Watch) {
        loop {
            let Driver { session, clocks, .. } = &mut self;
            match watch.wait_until(session.next(), || clocks.due().0).await {
                Ok(Some((input, stream))) => self.answer(input, stream),
                Ok(None) => return,
                Err(Late) if self.goes_on() => {}
                Err(Late) => return,
            }
        }
    }

    /// Has a request answered.
    fn answer(&mut self, input: Input, stream: Stream) {
        self.served += 1;
        let most = self.worker.limits.requests_per_connection;
        if most.is_some_and(|max| self.served >= max) {
            self.leave();
        }
        let connection = Connection::new(stream, input, self.peer, Rc::clone(&self.place));
        self.session.aside(|| rt::begin(connection.run()));
    }

    fn leave(&mut self) {
        if !self.clocks.is_leaving() {
            self.clocks.left_ms = clock::now_ms();
            self.session.leave();
        }
    }

    /// Does what is due; false: the connection is to be dropped.
    fn goes_on(&mut self) -> bool {
        let now_ms = clock::now_ms();
        let (at_ms, due) = self.clocks.due();
        if at_ms > now_ms {
            return true;
        }
        match due {
            Due::Drain => self.leave(),
            Due::Finished => return false,
            Due::Blocked if self.clocks.has_insisted() => {
                self.clocks.pulse.abort();
                return false;
            }
            Due::Blocked => self.clocks.insist(),
            Due::Unfinished => self.session.give_up(),
            Due::Idle if self.clocks.pulse.streams() > 0 => self.clocks.seen_busy_ms = now_ms,
            Due::Idle if self.clocks.is_leaving() => return false,
            Due::Idle => self.leave(),
        }
        true
    }
}

impl Clocks {
    /// What is due next, and when.
    fn due(&self) -> (u64, Due) {
        let Limits { head_timeout, idle_timeout, write_stall, .. } = &self.worker.limits;
        if self.worker.deadlines.is_draining() && !self.is_leaving() {
            return (0, Due::Drain);
        }
        let stall_ms = ms(*write_stall);
        // Half of it is left for what the second try brings.
        let stall_ms = if self.has_insisted() { stall_ms } else { stall_ms / 2 };
        let finished = self.pulse.finished_ms();
        let begun = self.pulse.begun_ms();
        let busy_ms = self.pulse.ended_ms().max(self.seen_busy_ms);
        let idle_at_ms = match self.is_leaving() {
            true => busy_ms.max(self.left_ms).saturating_add(LEAVE_MS_MAX),
            false => busy_ms.saturating_add(ms(*idle_timeout)),
        };
        [
            (finished.saturating_add(LEAVE_MS_MAX), Due::Finished),
            (self.pulse.blocked_ms().saturating_add(stall_ms), Due::Blocked),
            (begun.saturating_add(ms(*head_timeout)), Due::Unfinished),
            (idle_at_ms, Due::Idle),
        ]
        .into_iter()
        .min()
        .unwrap_or((NEVER, Due::Idle))
    }

    fn is_leaving(&self) -> bool {
        self.left_ms != NEVER
    }

    /// Whether what is blocked was tried all the same.
    fn has_insisted(&self) -> bool {
        let blocked_ms = self.pulse.blocked_ms();
        blocked_ms != NEVER && self.insisted_ms == blocked_ms
    }

    fn insist(&mut self) {
        self.insisted_ms = self.pulse.blocked_ms();
        self.pulse.insist();
    }
}

fn ms(time: std::time::Duration) -> u64 {
    u64::try_from(time.as_millis()).unwrap_or(u64::MAX)
}
