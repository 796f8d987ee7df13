//! Counts events into a `Load`; knows which requests and times are measured.

use std::ops::Range;
use std::time::Duration;

use super::Status;
use super::reader::ResponseFault;
use super::watch::{Observer, Watch};
use crate::sample::Load;

const SECOND_NS: u64 = 1_000_000_000;

/// Reason for which a request failed.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(super) enum Failure {
    Refused,
    Reset,
    Timeout,
    Tls,
    /// The server violates HTTP/2, HTTP/3 or the WebSocket protocol, or resets a stream.
    Protocol,
    Response(ResponseFault),
}

/// The counts of one run. Times are nanoseconds since its start.
pub(super) struct Tally {
    load: Load,
    from: u64,
    to: u64,
    /// The latest intended time.
    latest: u64,
    timeout: u64,
    /// `None` unless the job is watched.
    observer: Option<Box<Observer>>,
}

impl Tally {
    pub(super) fn new(warm_up: Duration, duration: Duration, timeout: Duration) -> Tally {
        let from = nanoseconds(warm_up);
        let to = from.saturating_add(nanoseconds(duration));
        let whole_seconds = usize::try_from(duration.as_secs()).unwrap_or(0);
        let replies_per_second = vec![0; whole_seconds];
        let load = Load { seconds: duration.as_secs_f64(), replies_per_second, ..Load::default() };
        Tally { load, from, to, latest: 0, timeout: nanoseconds(timeout), observer: None }
    }

    /// Counts what a watch shows too.
    pub(super) fn watched(mut self, watch: Option<&Watch>) -> Tally {
        self.observer = watch.map(|watch| Box::new(Observer::new(watch)));
        self
    }

    /// `true` if further requests may be intended now.
    pub(super) fn is_open(&self, now: u64) -> bool {
        now < self.to && !self.is_full()
    }

    /// `true` if the watch's number of requests is reached.
    pub(super) fn is_full(&self) -> bool {
        let most = self.observer.as_ref().and_then(|observer| observer.requests_max);
        most.is_some_and(|most| self.load.intended >= most)
    }

    /// End of the time in which requests are intended.
    pub(super) fn to(&self) -> u64 {
        self.to
    }

    /// The time whose intended requests count.
    pub(super) fn measured(&self) -> Range<u64> {
        self.from..self.to
    }

    /// `true` if requests intended at this moment, and work done at it, count.
    pub(super) fn measures(&self, at: u64) -> bool {
        (self.from..self.to).contains(&at)
    }

    pub(super) fn intend(&mut self, intended: u64, requests: u64) {
        if self.measures(intended) {
            self.load.intended += requests;
        }
        self.latest = self.latest.max(intended);
        if self.is_full() {
            self.to = self.to.min(self.latest + 1);
            let offering_ns = self.to.saturating_sub(self.from);
            self.load.draining_s = self.load.seconds - offering_ns as f64 / 1e9;
        }
    }

    /// Counts a request, or visit, that is begun now, on a connection or by a visitor that is free
    /// since a moment: before that it waits, after that the generator is late.
    pub(super) fn begin(&mut self, intended: u64, free_since: u64, now: u64) {
        let could_begin = free_since.max(intended);
        self.wait(intended, could_begin - intended);
        if self.measures(intended) {
            self.load.lateness.record(now.saturating_sub(could_begin));
        }
    }

    /// Counts the delay of a step by the generator, after the pause before it.
    pub(super) fn late(&mut self, intended: u64, now: u64) {
        if self.measures(intended) {
            self.load.lateness.record(now.saturating_sub(intended));
        }
    }

    /// Counts a wait for a connection, or a visitor, that ended without one.
    pub(super) fn wait_in_vain(&mut self, intended: u64) {
        self.wait(intended, self.timeout);
    }

    fn wait(&mut self, intended: u64, ns: u64) {
        if ns > 0 && self.measures(intended) {
            self.load.waits += 1;
            self.load.waited_s += ns as f64 / 1e9;
        }
    }

    /// Counts failed requests, each the job's request of this index. Those without a response in
    /// time count as response times of the timeout.
    pub(super) fn fail(&mut self, intended: u64, which: usize, why: Failure, requests: u64) {
        if !self.measures(intended) {
            return;
        }
        if why == Failure::Timeout {
            (0..requests).for_each(|_| self.record(which, self.timeout));
        }
        self.count(which, why, requests);
    }

    /// Records a response time, or that of a request that was given up.
    fn record(&mut self, which: usize, response: u64) {
        self.load.response.record(response);
        if let Some(observer) = &mut self.observer {
            observer.response(which, response);
        }
    }

    fn count(&mut self, which: usize, why: Failure, requests: u64) {
        if let Some(observer) = &mut self.observer {
            observer.fail(which, requests);
        }
        let errors = &mut self.load.errors;
        *match why {
            Failure::Refused => &mut errors.refused,
            Failure::Reset => &mut errors.reset,
            Failure::Timeout => &mut errors.timeout,
            Failure::Tls => &mut errors.tls,
            Failure::Protocol => &mut errors.http2,
            Failure::Response(ResponseFault::Status) => &mut errors.status,
            Failure::Response(ResponseFault::Bytes) => &mut errors.bytes,
        } += requests;
    }

    /// Counts a right response: by its intended time, and in the seconds' bins by its end, which is
    /// the throughput also if a queue is left at the end. `began`: start of its response time.
    pub(super) fn reply(&mut self, at: &Reply) {
        let response = at.ended - at.began.min(at.ended);
        if response > self.timeout {
            if self.measures(at.intended) {
                self.record(at.which, response);
                self.count(at.which, Failure::Timeout, 1);
            }
            return;
        }
        if self.measures(at.ended) {
            let second = usize::try_from((at.ended - self.from) / SECOND_NS).unwrap_or(usize::MAX);
            if let Some(bin) = self.load.replies_per_second.get_mut(second) {
                *bin += 1;
            }
        }
        if self.measures(at.intended) {
            if let Some(observer) = &mut self.observer {
                observer.reply(at.which, at.status);
                if at.ended < self.to {
                    observer.in_time(at.bytes);
                }
            }
            self.load.replies += 1;
            self.load.bytes += at.bytes;
            self.record(at.which, response);
            self.load.service.record(at.ended - at.sent.min(at.ended));
        }
    }

    /// Counts a connection that the server accepted, for a watch.
    pub(super) fn connection(&mut self) {
        if let Some(observer) = &mut self.observer {
            observer.connection();
        }
    }

    /// Publishes the figures from time to time.
    pub(super) fn publish(&mut self, now: u64, watch: &Watch) {
        if let Some(observer) = &mut self.observer {
            observer.turn(now, &self.load, watch);
        }
    }

    /// Publishes the last figures of a watched job.
    pub(super) fn publish_last(&mut self, now: u64, watch: &Watch) {
        if let Some(observer) = self.observer.take() {
            observer.finish(now, &self.load, watch);
        }
    }

    pub(super) fn read(&mut self, now: u64) {
        self.load.reads += u64::from(self.measures(now));
    }

    /// Counts a handshake at this moment.
    pub(super) fn handshake(&mut self, at: u64, resumed: bool) {
        if self.measures(at) {
            let handshakes = &mut self.load.handshakes;
            *if resumed { &mut handshakes.resumed } else { &mut handshakes.full } += 1;
        }
    }

    /// Counts the generator's work from one moment to the other, as far as it is measured.
    pub(super) fn busy(&mut self, from: u64, to: u64) {
        if self.measures(from) {
            self.load.busy_s += to.min(self.to).saturating_sub(from) as f64 / 1e9;
        }
    }

    /// Returns the counts, and leaves empty ones.
    pub(super) fn finish(&mut self) -> Load {
        std::mem::take(&mut self.load)
    }
}

/// The times of one answered request.
pub(super) struct Reply {
    /// Decides if it is measured; for a session's later calls that of the session.
    pub(super) intended: u64,
    /// Index of the job's request.
    pub(super) which: usize,
    /// Start of its response time.
    pub(super) began: u64,
    pub(super) sent: u64,
    pub(super) ended: u64,
    pub(super) bytes: u64,
    /// Its status, for a watch; `None`: it has none, as a message of a WebSocket.
    pub(super) status: Option<Status>,
}

pub(super) fn nanoseconds(duration: Duration) -> u64 {
    u64::try_from(duration.as_nanos()).unwrap_or(u64::MAX)
}

#[cfg(test)]
mod tests {
    use super::*;

    /// Regression: of visits with pauses, requests could be counted without their responses.
    #[test]
    fn the_last_of_a_number_of_requests_may_be_due_before_others() {
        let watch = Watch::new(Some(2));
        let hour = Duration::from_secs(3_600);
        let mut tally = Tally::new(Duration::ZERO, hour, hour).watched(Some(&watch));
        for intended in [100, 50] {
            tally.intend(intended, 1);
        }
        for intended in [100, 50] {
            let (began, sent, ended) = (intended, intended, intended + 10);
            tally.reply(&Reply { intended, which: 0, began, sent, ended, bytes: 1, status: None });
        }
        let load = tally.finish();
        assert_eq!((load.intended, load.replies), (2, 2));
    }

    /// Regression: the work of a load by number counted until its last request began, and all of
    /// its time as time in which it could have worked.
    #[test]
    fn a_load_by_number_drains_after_its_last_request() {
        let watch = Watch::new(Some(2));
        let hour = Duration::from_secs(3_600);
        let mut tally = Tally::new(Duration::ZERO, hour, hour).watched(Some(&watch));
        tally.intend(0, 1);
        tally.busy(0, SECOND_NS / 2);
        assert!(tally.is_open(SECOND_NS));
        tally.intend(SECOND_NS, 1);
        tally.busy(SECOND_NS / 2, 3 * SECOND_NS);
        tally.busy(3 * SECOND_NS, 4 * SECOND_NS);
        let load = tally.finish();
        let [offering_s, busy_s] = [load.offering_s(), load.busy_s].map(|s| (s * 1e6).round());
        assert_eq!((offering_s, busy_s), (1e6, 1e6), "{load:?}");
    }
}
