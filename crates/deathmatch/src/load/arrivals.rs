//! Requests, or sessions, by their intended times, and those that wait for a connection.

use std::collections::VecDeque;
use std::time::Duration;

use super::pace::Pace;
use super::tally::{Failure, Tally};

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

    /// The arrivals of a further run. Random gaps go on where they ended, or all slices of a load
    /// would have the same few.
    pub(super) fn then(&self, pace: Option<Pace>, calls: u32) -> Arrivals {
        Arrivals::new(pace.map(|pace| pace.after(self.pace.as_ref())), calls)
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

    /// Time to the next arrival that the tally takes, or to this moment.
    pub(super) fn pause(&self, now: u64, until: u64, tally: &Tally) -> Duration {
        let arrival = self.pace.as_ref().map(Pace::next).filter(|next| tally.is_open(*next));
        let next = arrival.map_or(until, |next| next.min(until));
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

    /// Removes those intended before a moment; `choose` returns the index of the next request.
    pub(super) fn expire(
        &mut self,
        before: u64,
        tally: &mut Tally,
        mut choose: impl FnMut() -> usize,
    ) {
        while let Some(intended) = self.first().filter(|&intended| intended < before) {
            self.begin();
            tally.wait_in_vain(intended);
            (0..self.calls).for_each(|_| tally.fail(intended, choose(), Failure::Timeout, 1));
        }
    }
}

#[cfg(test)]
mod tests {
    use super::*;
    use crate::load::watch::Watch;

    #[test]
    fn after_the_last_arrival_there_is_none_to_wait_for() {
        let [ms, second] = [Duration::from_millis(1), Duration::from_secs(1)];
        // Ten requests end at 9 ms, with the time or with their number.
        for (time, requests_max) in [(10 * ms, None), (second, Some(10))] {
            let watch = Watch::new(requests_max);
            let mut tally = Tally::new(Duration::ZERO, time, second).watched(Some(&watch));
            let mut arrivals = Arrivals::new(Some(Pace::new(1_000.0, None)), 1);
            arrivals.add_due(8_000_000, &mut tally);
            assert_eq!(arrivals.pause(8_400_000, 20_000_000, &tally), Duration::from_micros(600));
            arrivals.add_due(12_000_000, &mut tally);
            assert_eq!(arrivals.waiting.len(), 10, "{requests_max:?}");
            assert_eq!(arrivals.pause(12_000_000, 20_000_000, &tally), 8 * ms, "{requests_max:?}");
        }
    }
}
