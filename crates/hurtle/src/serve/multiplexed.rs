//! Serves a connection that carries several requests at once, as HTTP/2 and HTTP/3 do: runs each
//! request as an exchange of its own, concurrently, and has the connection's deadlines checked.

use std::net::IpAddr;
use std::rc::Rc;
use std::time::Duration;

use super::answer::answer;
use crate::clock::NEVER;
use crate::deadline::DeadlineError;
use crate::metrics::LimitKind;
use crate::pipeline::Connection;
use crate::pipeline::worker::{ConnectionSlot, Worker};
use crate::protocol::multiplexed::{Arrived, Session, Stream};
use crate::transport::Input;
use crate::{clock, rt};

/// The deadlines of one protocol's connection.
pub(super) trait Deadlines<S> {
    /// The reason for a check.
    type Due;

    /// Returns the address of the client.
    fn peer(&self) -> Option<IpAddr>;

    /// Returns the time of the next check, in milliseconds, and its reason.
    fn next_check(&self, times: &Times) -> (u64, Self::Due);

    /// Performs a check whose time has come.
    fn check(&mut self, due: Self::Due, session: &mut S, times: &mut Times) -> Verdict;

    /// Returns the number of bytes that the client has sent.
    fn received_bytes(&self) -> u64;

    /// Returns the number of requests beyond the limit of those at once, and the limit whose
    /// violation has ended the connection.
    fn limits_hit(&self) -> (u64, Option<LimitKind>);
}

/// The times that a connection's deadlines depend on.
pub(super) struct Times {
    pub(super) worker: Rc<Worker>,
    pub(super) slot: Rc<ConnectionSlot>,
    /// Time of the last check that found open requests, in milliseconds.
    pub(super) seen_busy_ms: u64,
    /// Time at which the first GOAWAY was sent, in milliseconds; `NEVER`: not yet.
    pub(super) goaway_ms: u64,
    /// Received bytes that are in the worker's counter.
    received_bytes: u64,
    /// `true` if the client has not completed a head in time.
    pub(super) has_given_up: bool,
}

/// Result of a check.
pub(super) enum Verdict {
    Continue,
    /// GOAWAY is to be sent.
    Leave,
    /// The connection must be dropped.
    Drop,
}

/// A connection and its state.
struct Driver<S, D> {
    session: S,
    deadlines: D,
    times: Times,
    served: u64,
}

/// Serves a connection to its end.
pub(super) async fn run<S: Session>(
    session: S,
    deadlines: impl Deadlines<S>,
    slot: Rc<ConnectionSlot>,
) {
    let worker = slot.worker();
    let times = Times {
        worker,
        slot,
        seen_busy_ms: 0,
        goaway_ms: NEVER,
        received_bytes: 0,
        has_given_up: false,
    };
    Driver { session, deadlines, times, served: 0 }.run().await;
}

impl<S: Session, D: Deadlines<S>> Driver<S, D> {
    async fn run(mut self) {
        let watch = self.times.worker.deadlines.watch();
        watch.set(clock::now_ms() + ms(self.times.worker.limits.head_timeout));
        // A stopping server checks this connection at once.
        watch.set_idle(true);
        loop {
            let Driver { session, deadlines, times, .. } = &mut self;
            let due = || {
                times.slot.update(&mut times.worker);
                times.count_received(deadlines.received_bytes());
                if times.must_leave() { 0 } else { deadlines.next_check(times).0 }
            };
            match watch.wait_until(session.next(), due).await {
                Ok(Some((arrived, stream))) => self.start_exchange(arrived, stream),
                Ok(None) => break,
                Err(DeadlineError) if self.run_due_check() => {}
                Err(DeadlineError) => break,
            }
        }
        self.times.count_received(self.deadlines.received_bytes());
        self.count_limits();
    }

    /// Starts an exchange for a request.
    fn start_exchange(&mut self, arrived: Arrived, stream: Stream<S::Frames>) {
        let Times { worker, slot, .. } = &mut self.times;
        self.served += 1;
        slot.update(worker);
        let is_last = !slot.may_follow(self.served, &worker.limits);
        let slot = Rc::clone(slot);
        if is_last {
            self.send_goaway();
        }
        let connection = Connection::new(stream, Input::default(), self.deadlines.peer(), slot);
        self.session.aside(|| rt::begin(answer(connection, arrived)));
    }

    fn send_goaway(&mut self) {
        if !self.times.has_sent_goaway() {
            self.times.goaway_ms = clock::now_ms();
            self.session.leave();
        }
    }

    /// Performs the due check. `false`: the connection must be dropped.
    fn run_due_check(&mut self) -> bool {
        let Driver { session, deadlines, times, .. } = self;
        let verdict = match deadlines.next_check(times) {
            _ if times.must_leave() => Verdict::Leave,
            (at_ms, _) if at_ms > clock::now_ms() => Verdict::Continue,
            (_, due) => deadlines.check(due, session, times),
        };
        if matches!(verdict, Verdict::Leave) {
            self.send_goaway();
        }
        !matches!(verdict, Verdict::Drop)
    }

    /// Counts the limits that the connection has hit.
    fn count_limits(&self) {
        let (refused, violated) = self.deadlines.limits_hit();
        let metrics = self.times.slot.metrics();
        (0..refused).for_each(|_| metrics.hit(LimitKind::Streams));
        if self.times.has_given_up {
            metrics.hit(LimitKind::HeadTime);
        } else if let Some(limit) = violated {
            metrics.hit(limit);
        }
    }
}

impl Times {
    pub(super) fn has_sent_goaway(&self) -> bool {
        self.goaway_ms != NEVER
    }

    /// Adds what the client has sent since the last call to the worker's counter. `bytes` is what
    /// it has sent on the connection.
    fn count_received(&mut self, bytes: u64) {
        let before = std::mem::replace(&mut self.received_bytes, bytes);
        self.slot.metrics().received.add(bytes - before);
    }

    /// `true` if the server is stopping, and the client does not know yet.
    fn must_leave(&self) -> bool {
        self.worker.deadlines.is_draining() && !self.has_sent_goaway()
    }
}

/// Returns a time in milliseconds.
pub(super) fn ms(time: Duration) -> u64 {
    u64::try_from(time.as_millis()).unwrap_or(u64::MAX)
}
