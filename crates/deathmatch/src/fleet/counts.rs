//! Counts of one generator or of several: adding them is associative and exact, also of the
//! response times, whose histograms have the same buckets everywhere.

use std::collections::BTreeMap;
use std::fmt;

use base64::Engine as _;
use base64::prelude::BASE64_STANDARD;
use hdrhistogram::Histogram;
use hdrhistogram::serialization::{
    Deserializer as HdrDeserializer, Serializer as _, V2DeflateSerializer,
};
use serde::de::Error as _;
use serde::ser::Error as _;
use serde::{Deserialize, Deserializer, Serialize, Serializer};

use crate::figures::Latency;
use crate::histogram::{DIGITS, TIME_NS_MAX, Times};
use crate::load::Status;
use crate::sample::Errors;

/// Counts of requests and their response times.
#[derive(Clone, Debug, Default, PartialEq, Serialize, Deserialize)]
pub struct Counts {
    /// Requests that should have been sent.
    pub requests: u64,
    /// Complete responses of any status.
    pub responses: u64,
    /// Requests without a response, and responses that state a failure.
    pub failed: u64,
    /// Requests under way when the load was interrupted.
    pub unfinished: u64,
    /// Bytes of responses, heads included.
    pub bytes: u64,
    /// Connections that were begun.
    pub connections: u64,
    /// Number of responses by status.
    pub statuses: BTreeMap<Status, u64>,
    /// Requests without a right response, by kind.
    pub errors: Errors,
    /// Response times in nanoseconds.
    pub histogram: Sum,
}

impl Counts {
    /// Adds those of other generators.
    pub fn add(&mut self, other: &Counts) {
        self.requests += other.requests;
        self.responses += other.responses;
        self.failed += other.failed;
        self.unfinished += other.unfinished;
        self.bytes += other.bytes;
        self.connections += other.connections;
        for (status, count) in &other.statuses {
            *self.statuses.entry(*status).or_default() += count;
        }
        let (mine, theirs) = (&mut self.errors, &other.errors);
        mine.refused += theirs.refused;
        mine.reset += theirs.reset;
        mine.timeout += theirs.timeout;
        mine.tls += theirs.tls;
        mine.http2 += theirs.http2;
        mine.status += theirs.status;
        mine.bytes += theirs.bytes;
        self.histogram.add(&other.histogram);
    }
}

/// Times of many generators. Serialized as HdrHistogram's V2 compressed encoding, in base64, which
/// every implementation of HdrHistogram reads.
#[derive(Clone)]
pub struct Sum(Histogram<u64>);

impl Default for Sum {
    fn default() -> Self {
        // The crate supports these bounds and digits.
        Sum(Histogram::new_with_bounds(1, TIME_NS_MAX, DIGITS).expect("the bounds above are valid"))
    }
}

impl fmt::Debug for Sum {
    fn fmt(&self, to: &mut fmt::Formatter<'_>) -> fmt::Result {
        write!(to, "Sum({}, max {} ns)", self.0.len(), self.0.max())
    }
}

/// Equal if every bucket has the same count.
impl PartialEq for Sum {
    fn eq(&self, other: &Sum) -> bool {
        let buckets = |sum: &Sum| -> Vec<(u64, u64)> {
            let recorded = sum.0.iter_recorded();
            recorded.map(|at| (at.value_iterated_to(), at.count_at_value())).collect()
        };
        buckets(self) == buckets(other)
    }
}

impl From<&Times> for Sum {
    fn from(times: &Times) -> Sum {
        let mut sum = Sum::default();
        for (ns, count) in times.buckets() {
            sum.record(ns, count);
        }
        sum
    }
}

impl Sum {
    /// Counts a time, in nanoseconds, so many times.
    pub fn record(&mut self, ns: u64, count: u64) {
        // Every time fits the bounds.
        let _ = self.0.record_n(ns.clamp(1, TIME_NS_MAX), count);
    }

    /// Adds the times of another.
    pub fn add(&mut self, other: &Sum) {
        // Both have the same bounds.
        let _ = self.0.add(&other.0);
    }

    /// Returns the number of recorded times.
    pub fn count(&self) -> u64 {
        self.0.len()
    }

    /// Returns percentiles of the recorded times; `None` without any.
    pub fn latency(&self) -> Option<Latency> {
        let at = |share| self.0.value_at_quantile(share);
        (!self.0.is_empty()).then(|| Latency::new(self.0.mean(), self.0.max(), at))
    }

    /// (time in nanoseconds, share of all that did not exceed it), at each change of the share.
    pub fn steps(&self) -> Vec<(u64, f64)> {
        let all = self.0.len().max(1) as f64;
        let mut seen = 0;
        let step = |at: hdrhistogram::iterators::IterationValue<u64>| {
            seen += at.count_since_last_iteration();
            (at.value_iterated_to(), seen as f64 / all)
        };
        self.0.iter_recorded().map(step).collect()
    }

    /// HdrHistogram's V2 compressed encoding, in base64.
    ///
    /// # Errors
    /// The encoder's, in words.
    pub fn encode(&self) -> Result<String, String> {
        let mut bytes = Vec::new();
        V2DeflateSerializer::new()
            .serialize(&self.0, &mut bytes)
            .map_err(|e| format!("a histogram cannot be written: {e}"))?;
        Ok(BASE64_STANDARD.encode(bytes))
    }

    /// Reads that encoding.
    ///
    /// # Errors
    /// It is damaged, or its buckets are not those of this version.
    pub fn decode(text: &str) -> Result<Sum, String> {
        let bytes = BASE64_STANDARD.decode(text).map_err(|e| format!("no base64: {e}"))?;
        let read: Histogram<u64> = HdrDeserializer::new()
            .deserialize(&mut &bytes[..])
            .map_err(|e| format!("no HdrHistogram: {e}"))?;
        if read.sigfig() != DIGITS || read.low() != 1 || read.max() > TIME_NS_MAX / 100 * 101 {
            return Err(format!(
                "its histogram has other buckets ({} digits from {} ns)",
                read.sigfig(),
                read.low()
            ));
        }
        let mut sum = Sum::default();
        for at in read.iter_recorded() {
            sum.record(at.value_iterated_to(), at.count_at_value());
        }
        Ok(sum)
    }
}

impl Serialize for Sum {
    fn serialize<S: Serializer>(&self, to: S) -> Result<S::Ok, S::Error> {
        to.serialize_str(&self.encode().map_err(S::Error::custom)?)
    }
}

impl<'de> Deserialize<'de> for Sum {
    fn deserialize<D: Deserializer<'de>>(from: D) -> Result<Self, D::Error> {
        Sum::decode(&String::deserialize(from)?).map_err(D::Error::custom)
    }
}

#[cfg(test)]
mod tests {
    use proptest::prelude::*;

    use super::*;

    fn counts(times: &[u64], status: u16) -> Counts {
        let mut mine = Times::default();
        times.iter().for_each(|ns| mine.record(*ns));
        let number = times.len() as u64;
        Counts {
            requests: number + 2,
            responses: number,
            failed: 2,
            statuses: BTreeMap::from([(Status::Http(status), number)]),
            errors: Errors { reset: 1, timeout: 1, ..Errors::default() },
            histogram: Sum::from(&mine),
            ..Counts::default()
        }
    }

    fn sum(parts: &[&Counts]) -> Counts {
        let mut all = Counts::default();
        parts.iter().for_each(|part| all.add(part));
        all
    }

    proptest! {
        #[test]
        fn merging_is_associative_and_equals_one_histogram_of_all(
            a in prop::collection::vec(0..=u64::MAX >> 24, 0..60),
            b in prop::collection::vec(0..=u64::MAX >> 40, 0..60),
            c in prop::collection::vec(0..=200_000_000_000_u64, 0..60),
        ) {
            let all = [a.clone(), b.clone(), c.clone()].concat();
            let (a, b, c) = (counts(&a, 200), counts(&b, 404), counts(&c, 200));
            let left = sum(&[&sum(&[&a, &b]), &c]);
            prop_assert_eq!(&left, &sum(&[&a, &sum(&[&b, &c])]));
            prop_assert_eq!(&left, &sum(&[&c, &a, &b]));
            prop_assert_eq!(&left.histogram, &counts(&all, 200).histogram);
            // Files between the generators and the merge lose nothing.
            let through = |counts: &Counts| -> Counts {
                serde_json::from_str(&serde_json::to_string(counts).unwrap()).unwrap()
            };
            prop_assert_eq!(&through(&left), &left);
            prop_assert_eq!(&sum(&[&through(&a), &through(&b), &through(&c)]), &left);
        }
    }

    #[test]
    fn a_bucket_counts_beyond_32_bits() {
        let mut one = Sum::default();
        one.record(1_000, u64::from(u32::MAX));
        let mut both = one.clone();
        both.add(&one);
        let both = Sum::decode(&both.encode().unwrap()).unwrap();
        assert_eq!(both.count(), 2 * u64::from(u32::MAX));
    }

    #[test]
    fn damage_and_other_buckets_are_told() {
        let text = Sum::default().encode().unwrap();
        let mut other = Histogram::<u64>::new(3).unwrap();
        other.record(5_000).unwrap();
        let mut bytes = Vec::new();
        V2DeflateSerializer::new().serialize(&other, &mut bytes).unwrap();
        let other = BASE64_STANDARD.encode(bytes);
        for (text, why) in [
            ("%", "base64"),
            ("", "HdrHistogram"),
            (&text[..text.len() / 8 * 4], "HdrHistogram"),
            (&other, "3 digits"),
        ] {
            let error = Sum::decode(text).unwrap_err();
            assert!(error.contains(why), "{text}: {error}");
        }
    }
}
