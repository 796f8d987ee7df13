//! Replies in each second of a sample, which show how steady it was.

use serde::{Deserialize, Serialize};

/// Mean, extremes and spread of counts.
#[derive(Clone, Copy, Debug, Default, PartialEq, Serialize, Deserialize)]
pub struct Bins {
    /// Number of seconds, each with one count.
    pub count: u64,
    /// Mean of the counts.
    pub mean: f64,
    /// Lowest count of a second.
    pub min: f64,
    /// Highest count of a second.
    pub max: f64,
    /// Standard deviation of the seconds (over n - 1); 0 for fewer than two.
    pub deviation: f64,
}

impl Bins {
    /// From counts a second. In one pass, and without subtracting large squares from each other: B.
    /// P. Welford, Note on a method for calculating corrected sums of squares and products,
    /// Technometrics 4 (1962).
    pub fn of(counts: &[u64]) -> Bins {
        let mut bins = Bins { min: f64::INFINITY, max: f64::NEG_INFINITY, ..Bins::default() };
        let mut squares = 0.0;
        for value in counts.iter().map(|&count| count as f64) {
            bins.count += 1;
            let off = value - bins.mean;
            bins.mean += off / bins.count as f64;
            squares += off * (value - bins.mean);
            bins.min = bins.min.min(value);
            bins.max = bins.max.max(value);
        }
        if bins.count == 0 {
            return Bins::default();
        }
        if bins.count > 1 {
            bins.deviation = (squares / (bins.count - 1) as f64).sqrt();
        }
        bins
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn steadiness_is_mean_extremes_and_deviation() {
        let rows: [(&[u64], Bins, &str); 5] = [
            (&[], Bins::default(), "nothing"),
            (
                &[7],
                Bins { count: 1, mean: 7.0, min: 7.0, max: 7.0, deviation: 0.0 },
                "one second has no spread",
            ),
            (
                // Squares of 2,4,4,4,5,5,7,9 about 5 sum to 32; over n - 1: 32 / 7.
                &[2, 4, 4, 4, 5, 5, 7, 9],
                Bins {
                    count: 8,
                    mean: 5.0,
                    min: 2.0,
                    max: 9.0,
                    deviation: (32.0_f64 / 7.0).sqrt(),
                },
                "worked by hand",
            ),
            (
                // NIST StRD, Numerical Accuracy 1 (NumAcc1): mean 10000002, deviation 1.
                &[10_000_001, 10_000_003, 10_000_002],
                Bins {
                    count: 3,
                    mean: 10_000_002.0,
                    min: 10_000_001.0,
                    max: 10_000_003.0,
                    deviation: 1.0,
                },
                "small spread about a large mean",
            ),
            (
                &[3, 3, 3],
                Bins { count: 3, mean: 3.0, min: 3.0, max: 3.0, deviation: 0.0 },
                "steady",
            ),
        ];
        for (counts, right, sentence) in rows {
            let bins = Bins::of(counts);
            assert!((bins.deviation - right.deviation).abs() < 1e-9, "{sentence}: {bins:?}");
            assert!((bins.mean - right.mean).abs() < 1e-9, "{sentence}: {bins:?}");
            assert_eq!(
                (bins.count, bins.min, bins.max),
                (right.count, right.min, right.max),
                "{sentence}"
            );
        }
    }
}
