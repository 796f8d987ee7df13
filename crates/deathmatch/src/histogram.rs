//! Histograms of times that can be stored and merged: percentiles of several samples come from
//! their merged histograms, never from averages of percentiles.

use std::fmt;

use hdrhistogram::Histogram;
use hdrhistogram::serialization::{Deserializer as HdrDeserializer, Serializer as _, V2Serializer};
use serde::de::Error as _;
use serde::ser::Error as _;
use serde::{Deserialize, Deserializer, Serialize, Serializer};

/// The longest distinct time, in nanoseconds; longer ones count as this.
pub const TIME_NS_MAX: u64 = 120_000_000_000;

/// Digits of a time: buckets are at most one part in 128 wide, well below the differences between
/// rounds. A third digit would make a sample eight times as large.
pub const DIGITS: u8 = 2;

/// Times in nanoseconds, to two digits (HdrHistogram, Gil Tene). It grows with the longest time: a
/// few kilobytes instead of hundreds.
#[derive(Clone, PartialEq)]
pub struct Times(Histogram<u32>);

impl Default for Times {
    fn default() -> Self {
        // The crate supports two digits, and such a histogram grows automatically.
        Times(Histogram::new(DIGITS).expect("the digits above are valid"))
    }
}

impl fmt::Debug for Times {
    fn fmt(&self, to: &mut fmt::Formatter<'_>) -> fmt::Result {
        let [p50, p99] = [0.5, 0.99].map(|share| self.quantile(share));
        write!(to, "Times({}, p50 {p50} ns, p99 {p99} ns, max {} ns)", self.count(), self.max())
    }
}

impl Times {
    /// Counts a time, in nanoseconds.
    pub fn record(&mut self, ns: u64) {
        // It grows with the longest time, so every time fits.
        let _ = self.0.record(ns.clamp(1, TIME_NS_MAX));
    }

    /// Number of recorded times.
    pub fn count(&self) -> u64 {
        self.0.len()
    }

    /// The time that this share (0 to 1) of all did not exceed, in nanoseconds; 0 for none.
    pub fn quantile(&self, share: f64) -> u64 {
        if self.0.is_empty() { 0 } else { self.0.value_at_quantile(share) }
    }

    /// The longest time, in nanoseconds; 0 for none.
    pub fn max(&self) -> u64 {
        self.0.max()
    }

    /// The mean time, in nanoseconds.
    pub fn mean(&self) -> f64 {
        self.0.mean()
    }

    /// Adds the times of another histogram.
    pub fn merge(&mut self, other: &Times) {
        if other.0.is_empty() {
            return;
        }
        // Recording the longest time zero times makes it grow and store its new length, which `add`
        // does not; it could not be read again. After that every value of the other fits.
        let _ = self.0.record_n(other.0.max().min(TIME_NS_MAX), 0);
        let _ = self.0.add(&other.0);
    }

    /// With the times of requests that a sender would have sent at this interval, in nanoseconds,
    /// had it not waited for slow responses (HdrHistogram's correction for coordinated omission).
    pub fn corrected(&self, interval_ns: u64) -> Times {
        Times(self.0.clone_correct(interval_ns))
    }

    /// (a time in nanoseconds, its count) of each bucket that has any.
    pub fn buckets(&self) -> impl Iterator<Item = (u64, u64)> + '_ {
        let recorded = self.0.iter_recorded();
        recorded.map(|at| (at.value_iterated_to(), u64::from(at.count_at_value())))
    }

    /// (time in nanoseconds, share of all that did not exceed it), at each change of the share.
    pub fn steps(&self) -> Vec<(u64, f64)> {
        let all = self.0.len().max(1) as f64;
        let mut seen = 0;
        let step = |value: hdrhistogram::iterators::IterationValue<u32>| {
            seen += value.count_since_last_iteration();
            (value.value_iterated_to(), seen as f64 / all)
        };
        self.0.iter_recorded().map(step).collect()
    }
}

impl Serialize for Times {
    fn serialize<S: Serializer>(&self, to: S) -> Result<S::Ok, S::Error> {
        let mut bytes = Vec::new();
        V2Serializer::new().serialize(&self.0, &mut bytes).map_err(S::Error::custom)?;
        let hex: String = bytes.iter().map(|b| format!("{b:02x}")).collect();
        to.serialize_str(&hex)
    }
}

impl<'de> Deserialize<'de> for Times {
    fn deserialize<D: Deserializer<'de>>(from: D) -> Result<Self, D::Error> {
        let hex = String::deserialize(from)?;
        let pairs = hex.as_bytes().chunks(2);
        let bytes: Option<Vec<u8>> = pairs
            .map(|pair| u8::from_str_radix(std::str::from_utf8(pair).ok()?, 16).ok())
            .collect();
        let bytes = bytes.ok_or_else(|| D::Error::custom("a histogram is not hexadecimal"))?;
        let read = HdrDeserializer::new().deserialize(&mut &bytes[..]);
        let mut read: Histogram<u32> =
            read.map_err(|e| D::Error::custom(format!("a histogram is damaged: {e:?}")))?;
        read.auto(true); // merged with longer times it must grow
        Ok(Times(read))
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn a_written_histogram_is_read_back_equal() {
        let mut times = Times::default();
        for ns in [0, 1, 1_000, 12_345_678, u64::MAX] {
            times.record(ns);
        }
        let text = serde_json::to_string(&times).unwrap();
        assert_eq!(serde_json::from_str::<Times>(&text).unwrap(), times);
        assert!(serde_json::from_str::<Times>("\"zz\"").is_err(), "no hexadecimal");
        assert!(serde_json::from_str::<Times>("\"00\"").is_err(), "no histogram");
    }

    #[test]
    fn a_merged_histogram_grows_and_is_read_back_equal() {
        let times = |all: &[u64]| {
            let mut times = Times::default();
            all.iter().for_each(|ns| times.record(*ns));
            times
        };
        let read = |times: &Times| -> Times {
            serde_json::from_str(&serde_json::to_string(times).unwrap()).unwrap()
        };
        let (short, long) = (times(&[900, 1_100]), times(&[30_000, 70_000_000_000]));
        for (one, two) in [(&short, &long), (&long, &short), (&read(&short), &read(&long))] {
            let mut all = one.clone();
            all.merge(two);
            let all = read(&all);
            assert_eq!((all.count(), all.max()), (4, long.max()), "{one:?} and {two:?}");
            assert_eq!(all.quantile(0.25) / 100, 9, "{all:?}");
        }
        let mut none = Times::default();
        none.merge(&Times::default());
        assert_eq!(none, Times::default());
        assert!(format!("{long:?}").starts_with("Times(2, p50 30"), "{long:?}");
    }

    #[test]
    fn a_sample_s_times_cost_kilobytes() {
        let mut times = Times::default();
        (1..=1_000).for_each(|n| times.record(n * 20_000)); // up to 20 ms
        assert!(times.0.distinct_values() * size_of::<u32>() < 16 << 10, "{times:?}");
        assert!((times.quantile(0.5) as f64 / 10e6 - 1.0).abs() < 0.01, "{times:?}");
        for ns in [TIME_NS_MAX, u64::MAX] {
            times.record(ns);
        }
        assert_eq!(times.count(), 1_002, "none is lost");
        assert!(times.max() as f64 <= TIME_NS_MAX as f64 * 1.01, "{times:?}");
    }

    #[test]
    fn percentiles_come_from_what_is_merged() {
        let (mut fast, mut slow) = (Times::default(), Times::default());
        for _ in 0..99 {
            fast.record(1_000);
        }
        slow.record(1_000_000);
        fast.merge(&slow);
        assert_eq!(fast.count(), 100);
        assert_eq!(fast.quantile(0.5) / 100, 10);
        assert!(fast.quantile(0.999) >= 999_000);
    }
}
