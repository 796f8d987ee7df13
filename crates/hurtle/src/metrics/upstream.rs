//! The requests to one upstream by one worker.

use std::time::Duration;

use super::Histogram;
use super::counter::Counter;
use super::snapshot::UpstreamSnapshot;

/// The end of an attempt to get a response from an upstream.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum UpstreamOutcome {
    /// It sent the head of a response.
    Answered,
    /// It could not be reached, closed the connection, or sent a malformed response.
    Failed,
    /// It took too long.
    TimedOut,
}

/// Names of the outcomes.
pub(super) const OUTCOMES: [&str; 3] = ["answered", "failed", "timed_out"];

/// Counts of the requests to an upstream of a mount, by one worker.
#[derive(Debug, Default)]
pub struct UpstreamMetrics {
    pub(super) site: String,
    pub(super) mount: String,
    pub(super) upstream: String,
    outcomes: [Counter; OUTCOMES.len()],
    /// Time from choosing the upstream to the head of its response.
    times: Histogram,
    connects: Counter,
    /// 1: the upstream gets requests.
    is_up: Counter,
    in_flight: Counter,
    idle: Counter,
    waiting: Counter,
    refused: Counter,
}

impl UpstreamMetrics {
    pub(super) fn new(site: &str, mount: &str, upstream: &str) -> UpstreamMetrics {
        let (site, mount, upstream) = (site.to_owned(), mount.to_owned(), upstream.to_owned());
        let new = UpstreamMetrics { site, mount, upstream, ..UpstreamMetrics::default() };
        new.is_up.set(1);
        new
    }

    /// Counts an attempt. `time`: up to the head of the response.
    pub fn count(&self, outcome: UpstreamOutcome, time: Option<Duration>) {
        self.outcomes[outcome as usize].add(1);
        if let Some(time) = time {
            self.times.observe(time);
        }
    }

    /// Counts an attempt to connect.
    pub fn count_connect(&self) {
        self.connects.add(1);
    }

    /// Counts a request that was refused because the upstream was busy.
    pub fn count_refused(&self) {
        self.refused.add(1);
    }

    /// Publishes the state: requests in flight, idle connections, and requests that wait.
    pub fn publish(&self, is_up: bool, in_flight: usize, idle: usize, waiting: usize) {
        self.is_up.set(u64::from(is_up));
        self.in_flight.set(in_flight as u64);
        self.idle.set(idle as u64);
        self.waiting.set(waiting as u64);
    }

    /// Adds the counts to those of the same upstream in other workers. An upstream is up if every
    /// worker sends it requests.
    pub(super) fn add_to(&self, all: &mut UpstreamSnapshot) {
        for (name, count) in OUTCOMES.iter().zip(&self.outcomes) {
            *all.requests.entry((*name).into()).or_insert(0) += count.get();
        }
        all.response_seconds.add_times(&self.times);
        all.connects += self.connects.get();
        all.is_up &= self.is_up.get() == 1;
        all.in_flight += self.in_flight.get();
        all.idle_connections += self.idle.get();
        all.waiting += self.waiting.get();
        all.refused += self.refused.get();
    }
}
