//! Figures of a job while it runs, for another thread; and of its course, in bins of time.

use std::collections::BTreeMap;
use std::io;
use std::sync::{Mutex, MutexGuard, PoisonError};

use super::Status;
use crate::histogram::Times;
use crate::sample::Load;

/// Interval at which figures are published.
const PUBLISH_NS: u64 = 100_000_000;

/// Duration of the first bins.
const BIN_NS: u64 = 1_000_000_000;

/// Requests of a job whose figures are counted apart, at most.
pub const APART_MAX: usize = 10_000;

/// Largest number of bins; beyond it neighbours are merged, so that a long run needs no more
/// memory.
const BINS_MAX: usize = 600;

/// Follows a job, and limits its requests.
#[derive(Debug, Default)]
pub struct Watch {
    requests_max: Option<u64>,
    progress: Mutex<Progress>,
}

/// Figures of a load from its start to now.
#[derive(Clone, Debug, Default)]
pub struct Progress {
    /// Seconds since the start.
    pub seconds: f64,
    /// Counts of all requests so far.
    pub load: Load,
    /// Number of responses by status.
    pub statuses: BTreeMap<Status, u64>,
    /// The responses that ended within the offered time.
    pub in_time: InTime,
    /// Connections that the server accepted.
    pub connections: u64,
    /// Error of the generator that ended the load.
    pub fault: Option<String>,
    /// The last full second, or all of a shorter time.
    pub recent: Bin,
    /// The course, once the job has ended.
    pub bins: Vec<Bin>,
    /// The figures of each of the job's first requests that was made, by its index, once the job
    /// has ended.
    pub apart: Vec<Apart>,
}

impl Progress {
    /// Responses whose status is a failure.
    pub fn bad_statuses(&self) -> u64 {
        self.statuses.iter().filter(|(status, _)| status.is_failure()).map(|(_, count)| count).sum()
    }

    /// The bins for people. The last one may be of milliseconds, in which a few responses are any
    /// rate: shorter than half of the one before, it is joined with that.
    pub fn course(&self) -> Vec<Bin> {
        let is_short = |last: &Bin, before: &Bin| last.seconds < before.seconds / 2.0;
        match &self.bins[..] {
            [full @ .., before, last] if is_short(last, before) => {
                let joined = merged(&[before.clone(), last.clone()]);
                full.iter().cloned().chain([joined]).collect()
            }
            all => all.to_vec(),
        }
    }
}

/// Complete responses that ended within the offered time. The others, under way at its end, may
/// take as long as the timeout, which is no time of the load.
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq)]
pub struct InTime {
    /// Number of these responses.
    pub replies: u64,
    /// Their bytes, heads included.
    pub bytes: u64,
}

/// Figures of one of the job's requests.
#[derive(Clone, Debug, Default)]
pub struct Apart {
    /// Complete responses of any status.
    pub replies: u64,
    /// Requests without a right response, and responses that state a failure.
    pub failed: u64,
    /// Response times, and those of requests without one in time.
    pub response: Times,
}

/// A part of the time.
#[derive(Clone, Debug, Default)]
pub struct Bin {
    /// Seconds since the start.
    pub from_s: f64,
    /// Length of the part, in seconds.
    pub seconds: f64,
    /// Responses that ended in it.
    pub replies: u64,
    /// Requests that failed in it, and responses that state a failure.
    pub failed: u64,
    /// Response times of those responses, and of requests without one in time.
    pub response: Times,
}

impl Watch {
    /// Follows a job that ends with so many requests; `None`: with its time alone.
    pub fn new(requests_max: Option<u64>) -> Watch {
        Watch { requests_max, ..Watch::default() }
    }

    /// The figures so far.
    pub fn progress(&self) -> Progress {
        self.lock().clone()
    }

    pub(super) fn fail(&self, fault: &io::Error) {
        self.lock().fault = Some(fault.to_string());
    }

    fn lock(&self) -> MutexGuard<'_, Progress> {
        self.progress.lock().unwrap_or_else(PoisonError::into_inner)
    }
}

/// The generator's side: what it counts beside the load.
#[derive(Debug, Default)]
pub(super) struct Observer {
    pub(super) requests_max: Option<u64>,
    statuses: BTreeMap<Status, u64>,
    in_time: InTime,
    connections: u64,
    published: u64,
    bins: Vec<Bin>,
    bin_ns: u64,
    bin: Bin,
    bin_from: u64,
    /// Counts at the start of the bin.
    errors_before: u64,
    apart: Vec<Apart>,
}

impl Observer {
    pub(super) fn new(watch: &Watch) -> Observer {
        Observer { requests_max: watch.requests_max, bin_ns: BIN_NS, ..Observer::default() }
    }

    /// Counts requests without a right response, each the job's request of this index.
    pub(super) fn fail(&mut self, which: usize, requests: u64) {
        if let Some(apart) = self.apart(which) {
            apart.failed += requests;
        }
    }

    pub(super) fn connection(&mut self) {
        self.connections += 1;
    }

    /// Counts a response in time. The status of a late one is not counted, because its request has
    /// failed by the timeout.
    pub(super) fn reply(&mut self, which: usize, status: Option<Status>) {
        if let Some(status) = status {
            *self.statuses.entry(status).or_default() += 1;
        }
        if status.is_some_and(Status::is_failure) {
            self.fail(which, 1);
            self.bin.failed += 1;
        }
        self.bin.replies += 1;
        if let Some(apart) = self.apart(which) {
            apart.replies += 1;
        }
    }

    /// Counts a response that ended within the offered time.
    pub(super) fn in_time(&mut self, bytes: u64) {
        self.in_time.replies += 1;
        self.in_time.bytes += bytes;
    }

    pub(super) fn response(&mut self, which: usize, ns: u64) {
        self.bin.response.record(ns);
        if let Some(apart) = self.apart(which) {
            apart.response.record(ns);
        }
    }

    /// The figures of a request; `None`: it is one of too many.
    fn apart(&mut self, which: usize) -> Option<&mut Apart> {
        if which >= self.apart.len() && which < APART_MAX {
            self.apart.resize_with(which + 1, Apart::default);
        }
        self.apart.get_mut(which)
    }

    /// Ends the bin if it is full, and publishes if it is time to.
    pub(super) fn turn(&mut self, now: u64, load: &Load, watch: &Watch) {
        if now.saturating_sub(self.bin_from) >= self.bin_ns {
            self.end_bin(now, load);
            if self.bins.len() >= BINS_MAX {
                self.bin_ns *= 2;
                self.bins = self.bins.chunks(2).map(merged).collect();
            }
        }
        // A reader that holds the figures does not delay a request.
        if now.saturating_sub(self.published) >= PUBLISH_NS
            && let Ok(mut progress) = watch.progress.try_lock()
        {
            self.published = now;
            let recent = self.bins.last().unwrap_or(&self.bin).clone();
            *progress = Progress { recent, bins: Vec::new(), ..self.progress(now, load) };
            if self.bins.is_empty() {
                progress.recent.seconds = progress.seconds;
            }
        }
    }

    /// Publishes the figures at the end.
    pub(super) fn finish(mut self, now: u64, load: &Load, watch: &Watch) {
        self.end_bin(now, load);
        let mut last = Progress {
            bins: std::mem::take(&mut self.bins),
            apart: std::mem::take(&mut self.apart),
            ..self.progress(now, load)
        };
        last.recent = last.course().pop().unwrap_or_default();
        *watch.lock() = last;
    }

    fn progress(&self, now: u64, load: &Load) -> Progress {
        Progress {
            seconds: seconds(now),
            load: Load { replies_per_second: Vec::new(), ..load.clone() },
            statuses: self.statuses.clone(),
            in_time: self.in_time,
            connections: self.connections,
            ..Progress::default()
        }
    }

    fn end_bin(&mut self, now: u64, load: &Load) {
        let errors = load.errors.total();
        let mut bin = std::mem::take(&mut self.bin);
        bin.from_s = seconds(self.bin_from);
        bin.seconds = seconds(now - self.bin_from.min(now));
        bin.failed += errors - self.errors_before.min(errors);
        (self.bin_from, self.errors_before) = (now, errors);
        if bin.seconds > 0.0 {
            self.bins.push(bin);
        }
    }
}

/// Neighbouring bins as one.
fn merged(bins: &[Bin]) -> Bin {
    let mut whole = Bin { from_s: bins.first().map_or(0.0, |bin| bin.from_s), ..Bin::default() };
    for bin in bins {
        whole.seconds += bin.seconds;
        whole.replies += bin.replies;
        whole.failed += bin.failed;
        whole.response.merge(&bin.response);
    }
    whole
}

fn seconds(ns: u64) -> f64 {
    ns as f64 / 1e9
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn a_long_run_has_few_bins_and_loses_nothing() {
        let watch = Watch::default();
        let mut observer = Observer::new(&watch);
        let mut load = Load::default();
        for second in 0..10_000_u64 {
            observer.reply(0, Some(Status::Http(if second % 10 == 0 { 503 } else { 200 })));
            observer.response(0, 1_000_000);
            load.replies += 1;
            load.errors.reset += 2;
            observer.turn((second + 1) * BIN_NS, &load, &watch);
            assert!(observer.bins.len() < BINS_MAX, "at {second} s");
        }
        observer.finish(10_001 * BIN_NS, &load, &watch);
        let progress = watch.progress();
        let sum = |count: fn(&Bin) -> u64| progress.bins.iter().map(count).sum::<u64>();
        assert_eq!((sum(|b| b.replies), sum(|b| b.failed)), (10_000, 21_000));
        assert_eq!(sum(|b| b.response.count()), 10_000);
        let seconds: f64 = progress.bins.iter().map(|b| b.seconds).sum();
        assert!((seconds - 10_001.0).abs() < 1e-6, "{seconds}");
    }

    /// Regression: three responses in the last millisecond were a part of 3,000 responses a second.
    #[test]
    fn a_short_last_part_is_joined_with_the_one_before() {
        let most = BINS_MAX as u64 - 1;
        for (full, rest_ms, parts, last_s, replies) in [
            (3, 1, 3, 1.001, 13),
            (3, 499, 3, 1.499, 13),
            (3, 500, 4, 0.5, 3),
            (0, 1, 1, 0.001, 3),
            // Regression: one more part of milliseconds halved the number of parts.
            (most, 1, BINS_MAX - 1, 1.001, 13),
            (most, 500, BINS_MAX, 0.5, 3),
            (most + 1, 999, BINS_MAX / 2, 2.999, 23),
        ] {
            let watch = Watch::default();
            let mut observer = Observer::new(&watch);
            let mut load = Load::default();
            for second in 0..full {
                (0..10).for_each(|_| observer.reply(0, Some(Status::Http(200))));
                observer.turn((second + 1) * BIN_NS, &load, &watch);
            }
            (0..3).for_each(|_| observer.reply(0, Some(Status::Http(200))));
            load.errors.reset = 1;
            observer.finish(full * BIN_NS + rest_ms * 1_000_000, &load, &watch);
            let progress = watch.progress();
            let course = progress.course();
            let last = course.last().unwrap();
            assert_eq!(progress.recent.replies, last.replies, "{full} and {rest_ms} ms");
            let found = (course.len(), last.replies, last.failed);
            assert_eq!(found, (parts, replies, 1), "{full} and {rest_ms} ms");
            assert!((last.seconds - last_s).abs() < 1e-6, "{full} and {rest_ms} ms: {last:?}");
            let all: u64 = course.iter().map(|bin| bin.replies).sum();
            assert_eq!(all, full * 10 + 3, "{full} and {rest_ms} ms");
        }
    }
}
