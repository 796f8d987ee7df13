//! Requests, or sessions, by their intended times, and those that wait for a connection.

use std::collections::VecDeque;
use std::time::Duration;

use super::pace::Pace;
use super::tally::{Failure, Tally};

/// Index of a request that was not chosen when it failed.
const NOT_CHOSEN: usize = usize::MAX;

/// First in, first out; none older than the timeout, if `expire` is called.
pub(super) struct Arrivals {
    /// `None` in a closed loop.
    pace: Option<Pace>,
    waiting: VecDeque<u64>,
    /// Calls of each session.
    calls: u32,
}

impl Arrivals {
    pub(super) fn new(pace: Option<Pace>, calls: u32) -> Arrivals {
        Arrivals { pace, waiting: VecDeque::new(), calls }
    }

    /// Adds arrivals due by now.
    pub(super) fn add_due(&mut self, now: u64, tally: &mut Tally) {
        let Some(pace) = &mut self.pace else { return };
        while !tally.is_full()
            && let Some(intended) = pace.due(now.min(tally.to().saturating_sub(1)))
        {
            tally.intend(intended, u64::from(self.calls));
            self.waiting.push_back(intended);
        }
    }

    /// Time to the next arrival, or to this moment.
    pub(super) fn pause(&self, now: u64, until: u64) -> Duration {
        let next = self.pace.as_ref().map_or(until, |pace| pace.next().min(until));
        Duration::from_nanos(next.saturating_sub(now))
    }

    /// Intended time of the first that waits.
    pub(super) fn first(&self) -> Option<u64> {
        self.waiting.front().copied()
    }

    /// Removes the first that waits.
    pub(super) fn begin(&mut self) {
        self.waiting.pop_front();
    }

    /// Removes those intended before a moment.
    pub(super) fn expire(&mut self, before: u64, tally: &mut Tally) {
        while let Some(intended) = self.first().filter(|&intended| intended < before) {
            self.begin();
            tally.fail(intended, NOT_CHOSEN, Failure::Timeout, u64::from(self.calls));
        }
    }
}
