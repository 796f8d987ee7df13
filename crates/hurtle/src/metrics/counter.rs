//! Counters with one writer, which other threads may read. A relaxed load and store compile to one
//! plain addition, without a locked instruction.

use std::sync::atomic::AtomicU64;
use std::sync::atomic::Ordering::Relaxed;
use std::time::Duration;

use super::native::{NativeBuckets, NativeTimes};

/// A number with one writing thread. As a counter it only grows; as a gauge it may be set.
#[derive(Debug, Default)]
pub struct Counter(AtomicU64);

impl Counter {
    /// Creates a counter that begins at `n`.
    pub(super) const fn new(n: u64) -> Counter {
        Counter(AtomicU64::new(n))
    }

    /// Adds `n`. Must be called by one thread only.
    #[inline]
    pub fn add(&self, n: u64) {
        self.0.store(self.0.load(Relaxed).wrapping_add(n), Relaxed);
    }

    /// Subtracts `n`. Must be called by one thread only.
    #[inline]
    pub fn sub(&self, n: u64) {
        self.0.store(self.0.load(Relaxed).wrapping_sub(n), Relaxed);
    }

    #[inline]
    pub fn set(&self, n: u64) {
        self.0.store(n, Relaxed);
    }

    #[inline]
    pub fn get(&self) -> u64 {
        self.0.load(Relaxed)
    }
}

/// Upper bounds of the buckets of a histogram of times, in microseconds. The last bucket has none.
pub(super) const TIME_BOUNDS_US: [u64; 18] = [
    100, 250, 500, 1_000, 2_500, 5_000, 10_000, 25_000, 50_000, 100_000, 250_000, 500_000,
    1_000_000, 2_500_000, 5_000_000, 10_000_000, 30_000_000, 60_000_000,
];

/// Number of buckets of a histogram of times.
pub(super) const TIME_BUCKETS: usize = TIME_BOUNDS_US.len() + 1;

/// A histogram of times.
#[derive(Debug, Default)]
pub struct Histogram {
    buckets: [Counter; TIME_BUCKETS],
    sum_us: Counter,
    native: NativeTimes,
}

impl Histogram {
    /// Counts a time. Returns its bucket and its microseconds, for `repeat`.
    pub fn observe(&self, time: Duration) -> (usize, u64) {
        let us = u64::try_from(time.as_micros()).unwrap_or(u64::MAX);
        let bucket = TIME_BOUNDS_US.partition_point(|bound| *bound < us);
        self.repeat(bucket, us, 1);
        (bucket, us)
    }

    /// Counts a time that `observe` has measured `times` times more.
    pub(super) fn repeat(&self, bucket: usize, us: u64, times: u64) {
        self.buckets[bucket.min(TIME_BUCKETS - 1)].add(times);
        self.sum_us.add(us.saturating_mul(times));
        self.native.add(us, times);
    }

    /// Takes the counts of another histogram.
    pub(super) fn copy(&self, other: &Histogram) {
        for (count, of) in self.buckets.iter().zip(&other.buckets) {
            count.set(of.get());
        }
        self.sum_us.set(other.sum_us.get());
        self.native.copy(&other.native);
    }

    /// Returns the counts of the buckets, not cumulative.
    pub(super) fn buckets(&self) -> impl Iterator<Item = u64> {
        self.buckets.iter().map(Counter::get)
    }

    /// Returns the native buckets.
    pub(super) fn native(&self) -> NativeBuckets {
        self.native.read()
    }

    /// Returns the sum of the times in microseconds.
    pub(super) fn sum_us(&self) -> u64 {
        self.sum_us.get()
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn a_time_is_counted_in_the_first_bucket_that_holds_it() {
        let rows = [(0, 0), (100, 0), (101, 1), (60_000_000, 17), (60_000_001, 18), (u64::MAX, 18)];
        for (us, expected) in rows {
            let histogram = Histogram::default();
            let (bucket, _) = histogram.observe(Duration::from_micros(us));
            assert_eq!(bucket, expected, "{us} us");
            assert_eq!(histogram.buckets().position(|count| count == 1), Some(expected));
            assert_eq!(histogram.sum_us(), us);
        }
    }
}
