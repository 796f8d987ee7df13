//! Times as a histogram that can be written down and merged: percentiles of several samples come
//! from their merged histograms, never from averages of percentiles.

use hdrhistogram::Histogram;
use hdrhistogram::serialization::{Deserializer as HdrDeserializer, Serializer as _, V2Serializer};
use serde::de::Error as _;
use serde::ser::Error as _;
use serde::{Deserialize, Deserializer, Serialize, Serializer};

/// The longest time told apart, in nanoseconds: longer ones count as this long.
pub const TIME_NS_MAX: u64 = 120_000_000_000;

/// Times in nanoseconds, to three digits (HdrHistogram, Gil Tene).
#[derive(Clone, Debug, PartialEq)]
pub struct Times(Histogram<u64>);

impl Default for Times {
    fn default() -> Self {
        // 1 ns to two minutes with three digits is within what the crate can hold.
        Times(Histogram::new_with_bounds(1, TIME_NS_MAX, 3).expect("the bounds above are valid"))
    }
}

impl Times {
    /// Counts one time.
    pub fn record(&mut self, ns: u64) {
        self.0.saturating_record(ns.max(1));
    }

    /// How many were counted.
    pub fn count(&self) -> u64 {
        self.0.len()
    }

    /// The time that this share (0 to 1) of all did not exceed, in nanoseconds; 0 if there is none.
    pub fn quantile(&self, share: f64) -> u64 {
        if self.0.is_empty() { 0 } else { self.0.value_at_quantile(share) }
    }

    /// The longest, in nanoseconds; 0 if there is none.
    pub fn max(&self) -> u64 {
        self.0.max()
    }

    /// The average, in nanoseconds.
    pub fn mean(&self) -> f64 {
        self.0.mean()
    }

    /// Adds another one's times.
    pub fn merge(&mut self, other: &Times) {
        // Both have the same bounds, so every value of one fits the other.
        let _ = self.0.add(&other.0);
    }

    /// (time in nanoseconds, share of all that did not exceed it), where the share changes.
    pub fn steps(&self) -> Vec<(u64, f64)> {
        let all = self.0.len().max(1) as f64;
        let mut seen = 0;
        let step = |value: hdrhistogram::iterators::IterationValue<u64>| {
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
        read.map(Times).map_err(|e| D::Error::custom(format!("a histogram is damaged: {e:?}")))
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn written_down_and_read_it_is_the_same() {
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
