//! Serves an HTTP/2 connection: runs each request as an exchange of its own, concurrently, and
//! enforces the connection's deadlines. `hurtle_http::h2` bounds the cost of a peer; exchanges
//! enforce the deadlines of streams.

use std::net::IpAddr;
use std::rc::Rc;

use super::answer::answer;
use crate::clock::NEVER;
use crate::config::Limits;
use crate::deadline::{DeadlineError, Pass, Stall, Watch};
use crate::metrics::{LimitKind, Protocol};
use crate::pipeline::Connection;
use crate::pipeline::worker::{ConnectionSlot, Worker};
use crate::protocol::h2::{Session, Shared, Stream};
use crate::protocol::multiplexed::Arrived;
use crate::transport::{Input, Transport};
use crate::{clock, rt};

/// Time for a peer to close after the last response, and again after the server's end, in
/// milliseconds.
const CLOSE_MS_MAX: u64 = 2_000;

/// A connection.
struct Driver<T: Transport> {
    session: Session<T>,
    peer: Option<IpAddr>,
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
    /// Time of the last check that found open streams, in milliseconds.
    seen_busy_ms: u64,
    /// Time at which GOAWAY was sent, in milliseconds; `NEVER`: not yet.
    goaway_ms: u64,
    /// The schedule of writes while the peer does not read.
    stall: Stall,
}

/// The reason for the next check of a connection.
#[derive(Clone, Copy, Debug, PartialEq, Eq, PartialOrd, Ord)]
enum Due {
    /// The server is stopping.
    Drain,
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
    let worker = slot.worker();
    let watch = worker.deadlines.watch();
    watch.set(clock::now_ms() + ms(worker.limits.head_timeout));
    // A stopping server checks this connection at once.
    watch.set_idle(true);
    let session = Session::new(io, early, worker.limits.head_bytes);
    let clocks = Clocks {
        shared: Rc::clone(session.shared()),
        slot: Rc::clone(&slot),
        worker,
        seen_busy_ms: 0,
        goaway_ms: NEVER,
        stall: Stall::new(NEVER, 0),
    };
    let has_given_up = false;
    Driver { session, peer, slot, clocks, served: 0, has_given_up }.run(&watch).await;
}

impl<T: Transport> Driver<T> {
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
        self.count_limits();
    }

    /// Counts the limits that the connection has hit.
    fn count_limits(&self) {
        let (refused, is_flooded) = self.clocks.shared.limits_hit();
        let metrics = self.slot.metrics();
        (0..refused).for_each(|_| metrics.hit(LimitKind::Streams));
        if self.has_given_up {
            metrics.hit(LimitKind::HeadTime);
        } else if is_flooded {
            metrics.hit(LimitKind::Frames);
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
        let connection = Connection::new(stream, Input::default(), self.peer, slot);
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
        match due {
            Due::Drain => self.send_goaway(),
            Due::Finished => return false,
            Due::Blocked => return self.clocks.try_blocked(),
            Due::Unfinished if !self.clocks.shared.is_established() => return false,
            Due::Unfinished => {
                self.has_given_up = true;
                self.session.give_up();
            }
            Due::Idle if self.clocks.shared.pulse().streams() > 0 => {
                self.clocks.seen_busy_ms = now_ms;
            }
            Due::Idle if self.clocks.has_sent_goaway() => return false,
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
        let finished = self.shared.pulse().finished_ms();
        let begun = self.shared.begun_ms().unwrap_or(NEVER);
        let busy_ms = self.shared.pulse().ended_ms().max(self.seen_busy_ms);
        let idle_at_ms = match self.has_sent_goaway() {
            true => busy_ms.max(self.goaway_ms).saturating_add(CLOSE_MS_MAX),
            false => busy_ms.saturating_add(ms(*idle_timeout)),
        };
        [
            (finished.saturating_add(CLOSE_MS_MAX), Due::Finished),
            (self.stall().due_ms(), Due::Blocked),
            (begun.saturating_add(ms(*head_timeout)), Due::Unfinished),
            (idle_at_ms, Due::Idle),
        ]
        .into_iter()
        .min()
        .unwrap_or((NEVER, Due::Idle))
    }

    fn has_sent_goaway(&self) -> bool {
        self.goaway_ms != NEVER
    }

    /// Returns the write schedule of the current stall.
    fn stall(&self) -> Stall {
        match self.shared.pulse().blocked_ms() {
            since_ms if since_ms == self.stall.since_ms() => self.stall,
            since_ms => Stall::new(since_ms, self.slot.write_stall_ms(&self.worker.limits)),
        }
    }

    /// Tries a write, or evaluates the last try. `false`: the peer is given up.
    fn try_blocked(&mut self) -> bool {
        self.stall = self.stall();
        match self.stall.pass() {
            Pass::Try(_) => self.shared.pulse().insist(),
            Pass::Wait => {}
            Pass::GiveUp => {
                self.shared.pulse().abort();
                return false;
            }
        }
        true
    }
}

fn ms(time: std::time::Duration) -> u64 {
    u64::try_from(time.as_millis()).unwrap_or(u64::MAX)
}
