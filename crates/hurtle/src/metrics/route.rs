//! The requests of one mount in one worker.

use std::hint::spin_loop;
use std::sync::atomic::Ordering::{Acquire, Relaxed, Release};
use std::sync::atomic::{AtomicU64, fence};
use std::time::Duration;

use super::counter::Counter;
use super::snapshot::{Distribution, RequestCount, RouteSnapshot};
use super::{Histogram, NativeBuckets};

/// A protocol that carries requests.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum Protocol {
    /// HTTP/1.0 and HTTP/1.1.
    Http1,
    Http2,
    Http3,
}

/// Names of the protocols, as of ALPN (RFC 7301).
pub(super) const PROTOCOLS: [&str; 3] = ["http/1.1", "h2", "h3"];

/// Names of the status classes.
const CLASSES: [&str; 5] = ["1xx", "2xx", "3xx", "4xx", "5xx"];

/// Slots for the hundreds of a status, up to 9: a power of two, so that the index needs no check.
const CLASS_SLOTS: usize = 16;

/// Upper bounds of the size buckets: 256 bytes, then four times as much each, up to 1 GiB.
const SIZE_BOUNDS: usize = 12;
const SIZE_BUCKETS: usize = SIZE_BOUNDS + 1;

/// Slots for sizes: one for each power of two. The reader joins them to buckets, because finding
/// the bucket of each response would take more instructions.
const SIZE_SLOTS: usize = u64::BITS as usize;

/// Results of a response cache, as in the access log.
const CACHE_RESULTS: [&str; 7] =
    ["hit", "stale", "revalidated", "miss", "collapsed", "pass", "bypass"];

/// Counts of the requests to a mount of a site, by one worker.
#[derive(Debug)]
pub struct RouteMetrics {
    /// The site's name; empty: no site has the requested host.
    pub(super) site: String,
    /// The mount's path; empty: the site itself responded.
    pub(super) mount: String,
    requests: [[Counter; CLASS_SLOTS]; PROTOCOLS.len()],
    times: Histogram,
    sizes: [Counter; SIZE_SLOTS],
    size_sum: Counter,
    cached: [Counter; CACHE_RESULTS.len()],
    /// Responses since the last that was timed. They count as that one, but are added to the
    /// histogram with the next one, or by the reader.
    untimed: Counter,
    /// A known response is timed after this many that were not.
    untimed_max: Counter,
    /// Bucket and microseconds of the last that was timed.
    last_bucket: Counter,
    last_us: Counter,
    /// Odd while the histogram and the counters above change together.
    version: AtomicU64,
}

impl RouteMetrics {
    pub(super) fn new(site: &str, mount: &str) -> RouteMetrics {
        RouteMetrics {
            site: site.to_owned(),
            mount: mount.to_owned(),
            requests: Default::default(),
            times: Histogram::default(),
            sizes: [const { Counter::new(0) }; SIZE_SLOTS],
            size_sum: Counter::default(),
            cached: Default::default(),
            untimed: Counter::default(),
            untimed_max: Counter::default(),
            last_bucket: Counter::default(),
            last_us: Counter::default(),
            version: AtomicU64::new(0),
        }
    }

    /// Returns the site's name; `None`: no site has the requested host.
    pub fn site(&self) -> Option<&str> {
        Some(self.site.as_str()).filter(|site| !site.is_empty())
    }

    /// Returns the mount's path; `None`: the site itself responded.
    pub fn mount(&self) -> Option<&str> {
        Some(self.mount.as_str()).filter(|mount| !mount.is_empty())
    }

    /// Counts a response by protocol, status and bytes of its body.
    #[inline]
    pub fn count(&self, protocol: Protocol, status: u16, body_bytes: u64) {
        self.requests[protocol as usize][usize::from(status / 100) % CLASS_SLOTS].add(1);
        self.sizes[size_slot(body_bytes)].add(1);
        self.size_sum.add(body_bytes);
    }

    /// Returns whether the next known response should be timed.
    #[inline]
    pub fn is_due(&self) -> bool {
        self.untimed.get() >= self.untimed_max.get()
    }

    /// Sets the number of known responses that are not timed before one is.
    pub(super) fn set_due_after(&self, responses: u64) {
        self.untimed_max.set(responses);
    }

    /// Counts a response whose time was not measured. It counts as the last that was.
    #[inline]
    pub fn count_untimed(&self) {
        self.untimed.add(1);
    }

    /// Adds a time to the histogram, and the responses before it that were not timed. Returns the
    /// number of both.
    pub fn time(&self, time: Duration) -> u64 {
        let version = self.version.load(Relaxed);
        self.version.store(version + 1, Relaxed);
        fence(Release);
        let (bucket, us) = (self.last_bucket.get() as usize, self.last_us.get());
        let untimed = self.untimed.get();
        self.times.repeat(bucket, us, untimed);
        self.untimed.set(0);
        let (bucket, us) = self.times.observe(time);
        self.last_bucket.set(bucket as u64);
        self.last_us.set(us);
        self.version.store(version + 2, Release);
        untimed + 1
    }

    /// Reads the histogram with the responses that were not timed. Repeats while the worker changes
    /// it, which takes some nanoseconds.
    fn times(&self) -> Distribution {
        loop {
            let version = self.version.load(Acquire);
            let times = Histogram::default();
            times.copy(&self.times);
            let (bucket, us) = (self.last_bucket.get() as usize, self.last_us.get());
            times.repeat(bucket, us, self.untimed.get());
            fence(Acquire);
            if version.is_multiple_of(2) && self.version.load(Relaxed) == version {
                let mut read = Distribution::default();
                read.add_times(&times);
                return read;
            }
            spin_loop();
        }
    }

    /// Counts the result of the response cache, by its name in the access log.
    pub fn count_cached(&self, result: &str) {
        if let Some(at) = CACHE_RESULTS.iter().position(|name| *name == result) {
            self.cached[at].add(1);
        }
    }

    /// Returns the bytes of all response bodies.
    pub(super) fn sent_bytes(&self) -> u64 {
        self.size_sum.get()
    }

    /// Returns the sizes in native buckets, one for each doubling: slot `i` ends at `2^(i + 1)`. A
    /// body of one byte is counted with those of two.
    fn native_sizes(&self) -> NativeBuckets {
        let slots = (1..).zip(&self.sizes).take(SIZE_SLOTS - 1);
        NativeBuckets {
            schema: 0,
            zero_threshold: 0.5,
            zero_count: self.sizes[SIZE_SLOTS - 1].get(),
            counts: slots.map(|(at, count)| (at, count.get())).filter(|(_, n)| *n > 0).collect(),
        }
    }

    /// Adds the counts to those of the same mount in other workers.
    pub(super) fn add_to(&self, all: &mut RouteSnapshot) {
        for (protocol, classes) in PROTOCOLS.iter().zip(&self.requests) {
            for (slot, count) in classes.iter().enumerate() {
                let class = CLASSES[slot.wrapping_sub(1).min(CLASSES.len() - 1)];
                let same = |known: &&mut RequestCount| {
                    known.protocol == *protocol && known.status == class
                };
                match (all.requests.iter_mut().find(same), count.get()) {
                    (_, 0) => {}
                    (Some(known), n) => known.count += n,
                    (None, count) => {
                        let (protocol, status) = ((*protocol).into(), (*class).into());
                        all.requests.push(RequestCount { protocol, status, count });
                    }
                }
            }
        }
        all.duration_seconds.add(&self.times());
        let bounds = (0..SIZE_BOUNDS).map(|at| (256_u64 << (2 * at)) as f64);
        let mut counts = vec![0; SIZE_BUCKETS];
        for (slot, count) in self.sizes.iter().enumerate() {
            counts[size_bucket(slot)] += count.get();
        }
        let size = Distribution::new(bounds.collect(), counts, self.size_sum.get() as f64);
        all.response_bytes.add(&Distribution { native: self.native_sizes(), ..size });
        for (result, count) in CACHE_RESULTS.iter().zip(&self.cached) {
            if count.get() > 0 {
                *all.cache.entry((*result).into()).or_insert(0) += count.get();
            }
        }
    }
}

/// Returns the slot of a size: the number of the highest bit of the size less one. So 0 bytes have
/// the last slot.
#[inline]
fn size_slot(bytes: u64) -> usize {
    (bytes.wrapping_sub(1) | 1).ilog2() as usize
}

/// Returns the bucket of a slot: the first whose bound is not less than the slot's sizes.
fn size_bucket(slot: usize) -> usize {
    match slot + 1 {
        SIZE_SLOTS => 0,
        // A bound has 8 bits, the next one 10, and so on.
        bits => bits.saturating_sub(8).div_ceil(2).min(SIZE_BUCKETS - 1),
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn a_size_is_counted_in_the_first_bucket_that_holds_it() {
        let rows = [
            (0, 0),
            (1, 0),
            (256, 0),
            (257, 1),
            (1_024, 1),
            (1_025, 2),
            (4_096, 2),
            (1 << 30, 11),
            ((1 << 30) + 1, 12),
            (1 << 62, 12),
        ];
        for (bytes, expected) in rows {
            assert_eq!(size_bucket(size_slot(bytes)), expected, "{bytes}");
        }
    }

    #[test]
    fn a_response_without_a_time_counts_as_the_last_timed_one() {
        let route = RouteMetrics::new("s", "/");
        assert!(route.is_due(), "the first is timed");
        let mut none = RouteSnapshot::default();
        route.add_to(&mut none);
        assert_eq!(none.duration_seconds.count, 0);
        assert_eq!(route.time(Duration::from_millis(2)), 1);
        route.set_due_after(31);
        for _ in 0..31 {
            assert!(!route.is_due());
            route.count_untimed();
        }
        assert!(route.is_due());
        let mut all = RouteSnapshot::default();
        route.add_to(&mut all);
        assert_eq!(all.duration_seconds.count, 32);
        assert!((all.duration_seconds.sum - 0.064).abs() < 1e-9);
        assert_eq!(route.time(Duration::ZERO), 32);
    }
}
