//! The buckets of native histograms of Prometheus: bucket `i` of a schema `s` ends at
//! `2^(i / 2^s)`, inclusive, and begins at the end of the one before.

use std::collections::BTreeMap;
use std::fmt;

use super::counter::Counter;

/// The schema of times: eight buckets for each doubling, so a bucket is 9 % wide.
const TIME_SCHEMA: i32 = 3;

/// Buckets of a doubling of times.
const PER_DOUBLING: i32 = 8;

/// The ends of the buckets of the doubling from 1 to 2, but the last: `2^(i / 8)`.
const ENDS: [f64; 7] = [
    1.0905077326652577,
    1.189207115002721,
    1.2968395546510096,
    std::f64::consts::SQRT_2,
    1.5422108254079407,
    1.6817928305074292,
    1.8340080864093424,
];

/// Bits of the fraction of a number with double precision.
const FRACTION_BITS: u32 = 52;

/// Times below 2^-20 s, which is less than a microsecond, are in the zero bucket.
const ZERO_THRESHOLD: f64 = 1.0 / (1 << 20) as f64;

/// The bucket before the first, which begins at `ZERO_THRESHOLD`.
const BEFORE_FIRST: i32 = -160;

/// Buckets up to 2^13 s (2.3 hours); the last one has longer times, too.
const SLOTS: usize = 264;

/// The counts of a native histogram of times. The first slot is the zero bucket.
pub(super) struct NativeTimes([Counter; SLOTS + 1]);

impl Default for NativeTimes {
    fn default() -> NativeTimes {
        NativeTimes([const { Counter::new(0) }; SLOTS + 1])
    }
}

impl fmt::Debug for NativeTimes {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        self.read().fmt(f)
    }
}

impl NativeTimes {
    /// Counts a time in microseconds.
    pub(super) fn add(&self, us: u64, times: u64) {
        self.0[slot(us)].add(times);
    }

    /// Takes the counts of another histogram.
    pub(super) fn copy(&self, other: &NativeTimes) {
        self.0.iter().zip(&other.0).for_each(|(count, of)| count.set(of.get()));
    }

    /// Returns the buckets that are not empty.
    pub(super) fn read(&self) -> NativeBuckets {
        let counts = (BEFORE_FIRST..).zip(&self.0).skip(1);
        NativeBuckets {
            schema: TIME_SCHEMA,
            zero_threshold: ZERO_THRESHOLD,
            zero_count: self.0[0].get(),
            counts: counts.map(|(at, count)| (at, count.get())).filter(|(_, n)| *n > 0).collect(),
        }
    }
}

/// Returns the slot of a time. Each request has a time or two, and a logarithm takes longer than
/// these comparisons.
fn slot(us: u64) -> usize {
    let bits = (us as f64 / 1e6).to_bits();
    let doubling = (bits >> FRACTION_BITS) as i32 - f64::MAX_EXP + 1;
    let fraction = bits & ((1 << FRACTION_BITS) - 1);
    let within = f64::from_bits(1.0_f64.to_bits() | fraction);
    let begun = ENDS.iter().filter(|end| within > **end).count() as i32;
    let bucket = doubling * PER_DOUBLING + begun + i32::from(fraction > 0);
    (bucket - BEFORE_FIRST).clamp(0, SLOTS as i32) as usize
}

/// The buckets of a native histogram.
#[derive(Clone, Debug, Default, PartialEq)]
pub struct NativeBuckets {
    /// The schema, which tells the number of buckets per doubling.
    pub schema: i32,
    /// The upper end of the zero bucket.
    pub zero_threshold: f64,
    /// The count of the zero bucket.
    pub zero_count: u64,
    /// The counts of the other buckets, by their index.
    pub counts: BTreeMap<i32, u64>,
}

impl NativeBuckets {
    /// Adds the counts of a histogram of the same schema.
    pub(super) fn add(&mut self, other: &NativeBuckets) {
        (self.schema, self.zero_threshold) = (other.schema, other.zero_threshold);
        self.zero_count += other.zero_count;
        for (at, count) in &other.counts {
            *self.counts.entry(*at).or_insert(0) += count;
        }
    }

    /// Returns the number of all values.
    pub fn count(&self) -> u64 {
        self.zero_count + self.counts.values().sum::<u64>()
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn a_time_is_in_the_bucket_whose_end_is_not_less() {
        for us in [1, 2, 99, 100, 1_000_000, 1_000_001, 2_000_000, 123_456_789, 8_000_000_000] {
            let at = slot(us) as i32 + BEFORE_FIRST;
            let end = |at: i32| 2_f64.powf(f64::from(at) / 8.0) * (1.0 + 1e-12);
            let seconds = us as f64 / 1e6;
            assert!(seconds <= end(at) && seconds > end(at - 1) * (1.0 - 1e-11), "{us}: {at}");
        }
        assert_eq!((slot(0), slot(u64::MAX)), (0, SLOTS));
    }

    #[test]
    fn slots_are_those_of_the_logarithm() {
        for us in (1..200_000).chain((0..63).map(|bit| 1 << bit)) {
            let bucket = ((us as f64 / 1e6).log2() * 8.0).ceil() as i32;
            let expected = (bucket - BEFORE_FIRST).clamp(0, SLOTS as i32) as usize;
            assert_eq!(slot(us), expected, "{us}");
        }
    }
}
