//! Confidence of a median over few rounds: exact, by order statistics, and approximate, by
//! resampling.

use super::CONFIDENCE;
use crate::random::SplitMix;

/// Fewest rounds that can give an interval of 95 %: five reach 93.75 % at most.
pub const ROUNDS_MIN: usize = 6;

/// Resamplings of a bootstrap.
const RESAMPLES: usize = 4_000;

/// Indexes, from 0, of the sorted values that bound the median, and their confidence.
#[derive(Clone, Copy, Debug, PartialEq)]
pub struct Coverage {
    /// Index of the lower bound.
    pub low: usize,
    /// Index of the upper bound.
    pub high: usize,
    /// Probability that the median lies between the two.
    pub confidence: f64,
}

/// The narrowest symmetric pair of order statistics that contains the median with at least 95 %;
/// `None` below six values. Each value is above the median with probability one half, whatever the
/// distribution, so their number is binomial: the r-th from below and from above miss it with twice
/// P(Bin(n, 1/2) < r) (David and Nagaraja, Order Statistics, 3rd ed., 7.1).
pub fn exact(n: usize) -> Option<Coverage> {
    let mut best = None;
    let mut term_ln = n as f64 * 0.5_f64.ln(); // P(Bin = 0), too small for many rounds without ln
    let mut below = 0.0;
    for r in 1..=n / 2 {
        below += term_ln.exp(); // P(Bin < r)
        let confidence = 1.0 - 2.0 * below;
        if confidence < CONFIDENCE {
            break;
        }
        best = Some(Coverage { low: r - 1, high: n - r, confidence });
        term_ln += ((n + 1 - r) as f64 / r as f64).ln();
    }
    best
}

/// The median; `None` without values. Sorts its argument.
pub fn median(values: &mut [f64]) -> Option<f64> {
    values.sort_by(f64::total_cmp);
    let middle = values.len() / 2;
    let upper = *values.get(middle)?;
    Some(if values.len() % 2 == 1 { upper } else { (values[middle - 1] + upper) / 2.0 })
}

/// The bootstrap's 95 % interval of the median: the middle 95 % of the medians of resampled values
/// (B. Efron, Bootstrap methods: another look at the jackknife, Annals of Statistics 7 (1979)).
/// With few rounds it is too narrow; the exact one decides. The same seed gives the same interval.
/// `None` without values.
pub fn bootstrap(values: &[f64], seed: u64) -> Option<(f64, f64)> {
    if values.is_empty() {
        return None;
    }
    let mut random = SplitMix(seed);
    let mut drawn = vec![0.0; values.len()];
    let mut medians = Vec::with_capacity(RESAMPLES);
    for _ in 0..RESAMPLES {
        for value in &mut drawn {
            *value = values[random.below(values.len())];
        }
        medians.push(median(&mut drawn)?);
    }
    medians.sort_by(f64::total_cmp);
    let outside = (RESAMPLES as f64 * (1.0 - CONFIDENCE) / 2.0) as usize;
    Some((medians[outside], medians[RESAMPLES - 1 - outside]))
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn the_exact_interval_is_the_sign_tests() {
        // Places from 1, confidence in per cent: the table of the sign test's interval for the
        // median, e.g. Conover, Practical Nonparametric Statistics, or 1 - 2 * sum of binomials /
        // 2^n.
        let rows = [
            (6, 1, 6, 96.875),  // 1 - 2 * 1/64
            (7, 1, 7, 98.4375), // 1 - 2 * 1/128
            (8, 1, 8, 99.21875),
            (9, 2, 8, 96.09375),     // 1 - 2 * 10/512
            (10, 2, 9, 97.8515625),  // 1 - 2 * 11/1024
            (12, 3, 10, 96.142_578), // 1 - 2 * 79/4096
            (15, 4, 12, 96.484_375), // 1 - 2 * 576/32768
            (20, 6, 15, 95.861_053), // 1 - 2 * 21700/2^20
        ];
        for (n, low, high, percent) in rows {
            let found = exact(n).unwrap();
            assert_eq!((found.low + 1, found.high + 1), (low, high), "{n} rounds");
            assert!((found.confidence * 100.0 - percent).abs() < 1e-5, "{n} rounds: {found:?}");
        }
        for n in 0..ROUNDS_MIN {
            assert_eq!(exact(n), None, "{n} rounds cannot reach 95 %");
        }
        // By the normal approximation the places are n/2 -+ 0.98 sqrt(n).
        let many = exact(10_000).unwrap();
        assert!((4_898..=4_902).contains(&many.low) && many.high == 9_999 - many.low, "{many:?}");
    }

    #[test]
    fn the_median_is_the_middle() {
        let rows: [(&[f64], Option<f64>); 4] = [
            (&[], None),
            (&[3.0], Some(3.0)),
            (&[9.0, 1.0, 2.0], Some(2.0)),
            (&[4.0, 1.0], Some(2.5)),
        ];
        for (values, right) in rows {
            assert_eq!(median(&mut values.to_vec()), right, "{values:?}");
        }
    }

    #[test]
    fn a_bootstrap_repeats_itself_and_stays_among_its_values() {
        let values = [0.1, 0.2, 0.3, 0.4, 0.5, 0.6];
        let (low, high) = bootstrap(&values, 7).unwrap();
        assert_eq!(bootstrap(&values, 7), Some((low, high)), "one seed, one answer");
        assert!((0.1..0.35).contains(&low) && high > 0.35 && high <= 0.6, "{low} {high}");
        assert_eq!(bootstrap(&[2.0; 5], 1), Some((2.0, 2.0)), "no spread, no width");
        assert_eq!(bootstrap(&[], 1), None);
    }
}
