//! The ratio of two contenders over many short cycles, with an interval that holds although
//! neighbouring cycles resemble each other, those of one burst above all: blocks of them
//! are resampled.
//!
//! - *Mirrored cycles*: each odd cycle has the reverse order of the one before. The mean of the two
//!   log ratios is free of a steady drift of the machine, and is the unit of all that follows.
//! - *Estimate*: the mean of the units without the lowest and the highest fifth, which a burst of
//!   another program moves little (Tukey's trimmed mean; Wilcox, Introduction to Robust Estimation
//!   and Hypothesis Testing, chapter 3).
//! - *Error*: the standard deviation of the estimate over resamples in blocks of random length with
//!   a given mean (Politis and Romano, The stationary bootstrap, JASA 89 (1994); blocks: Kuensch,
//!   The jackknife and the bootstrap for general stationary observations, Annals of Statistics 17
//!   (1989)). The mean length follows the series' own correlation: at least the cube root of the
//!   number of units, the rate of Hall, Horowitz and Jing, On blocking rules for the bootstrap with
//!   dependent data, Biometrika 82 (1995).
//! - *Interval*: the estimate plus and minus the error times Student's t with a degree of freedom
//!   for each block but one. The percentiles of so few resampled blocks are too narrow.
//! - *Looks*: a duel that looks at most `LOOKS_MAX` times and stops when the interval is narrow
//!   would stop on lucky narrow ones. Each look therefore uses the quantile of 1 - 0.05 /
//!   `LOOKS_MAX`: the probability that any of them misses is at most 5 % (Bonferroni's inequality),
//!   whenever it stops.

use super::CONFIDENCE;
use super::interval::median;
use super::ratio::{Interval, Rounds};
use super::regimes::{CHANGES_MIN, regimes};
use crate::random::SplitMix;

/// Fewest cycles of which blocks can be resampled.
pub const CYCLES_MIN: usize = 12;

/// Largest number of looks at one duel.
pub const LOOKS_MAX: usize = 3;

/// Share of the units left out of the estimate at each end.
const TRIMMED: f64 = 0.2;

/// Resamples; their standard deviation is within 4 % of the limit.
const RESAMPLES: usize = 400;

/// Fewest blocks of the mean length.
const BLOCKS_MIN: usize = 4;

/// Fixed, so that a report is the same each time it is drawn.
const SEED: u64 = 1_994;

/// An estimate and its interval, as logarithms.
#[derive(Clone, Copy, Debug, PartialEq)]
pub struct Estimate {
    /// The trimmed mean.
    pub middle: f64,
    /// The interval. It reaches from one regime to the other if they changed too seldom to tell the
    /// share of each.
    pub interval: Interval,
    /// Mean length of the resampled blocks, in pairs of cycles.
    pub block: usize,
}

/// The estimate of these log ratios by cycle; `None` below `CYCLES_MIN` cycles.
pub fn estimate(logs: &Rounds) -> Option<Estimate> {
    if logs.len() < CYCLES_MIN {
        return None;
    }
    let units = mirrored(logs);
    let block = block_length(&units);
    let error = bootstrap_error(&units, block);
    let blocks = units.len() as f64 / block as f64;
    let off = error * student_t(blocks - 1.0);
    let middle = trimmed_mean(&mut units.clone());
    let (mut low, mut high) = (middle - off, middle + off);
    if let Some(regimes) = regimes(logs).filter(|regimes| regimes.changes < CHANGES_MIN) {
        low = low.min(regimes.low.ln());
        high = high.max(regimes.high.ln());
    }
    Some(Estimate { middle, interval: Interval { low, high, confidence: CONFIDENCE }, block })
}

/// The mean of each pair of mirrored cycles; of an incomplete pair the one it has.
fn mirrored(logs: &Rounds) -> Vec<f64> {
    let mut units: Vec<(u32, f64, f64)> = Vec::new();
    for (cycle, log) in logs {
        match units.last_mut() {
            Some((pair, sum, count)) if *pair == cycle / 2 => {
                *sum += log;
                *count += 1.0;
            }
            _ => units.push((cycle / 2, *log, 1.0)),
        }
    }
    units.into_iter().map(|(_, sum, count)| sum / count).collect()
}

/// Sorts its argument.
fn trimmed_mean(values: &mut [f64]) -> f64 {
    values.sort_unstable_by(f64::total_cmp);
    let out = (values.len() as f64 * TRIMMED) as usize;
    let kept = &values[out..values.len() - out];
    kept.iter().sum::<f64>() / kept.len() as f64
}

/// Mean block length: twice the correlation time, at least the cube root of the number of units.
fn block_length(units: &[f64]) -> usize {
    let n = units.len();
    let least = (n as f64).cbrt();
    let length = least.max(2.0 * correlation_time(units));
    (length.round() as usize).clamp(1, (n / BLOCKS_MIN).max(1))
}

/// One plus twice the sum of the autocorrelations, to the first pair of lags whose sum is not above
/// the noise (Geyer, Practical Markov chain Monte Carlo, Statistical Science 7 (1992)). Values far
/// out are brought in first, or one burst would hide the correlation of all others.
fn correlation_time(units: &[f64]) -> f64 {
    let n = units.len();
    let middle = median(&mut units.to_vec()).unwrap_or_default();
    let spread = median(&mut units.iter().map(|v| (v - middle).abs()).collect::<Vec<_>>());
    let far = 3.0 * 1.4826 * spread.unwrap_or_default();
    if far == 0.0 {
        return 1.0;
    }
    let drawn_in: Vec<f64> = units.iter().map(|v| (v - middle).clamp(-far, far)).collect();
    let mean = drawn_in.iter().sum::<f64>() / n as f64;
    let product = |lag: usize| {
        let pairs = drawn_in.iter().zip(&drawn_in[lag..]);
        pairs.map(|(a, b)| (a - mean) * (b - mean)).sum::<f64>()
    };
    let whole = product(0);
    let noise = 1.0 / (n as f64).sqrt();
    let mut time = 1.0;
    let mut lag = 1;
    while lag + 1 < n / 2 {
        let two = (product(lag) + product(lag + 1)) / whole;
        if two < noise {
            break;
        }
        time += 2.0 * two;
        lag += 2;
    }
    time
}

/// Standard deviation of the estimate over resamples in blocks that end with probability 1 / length
/// after each unit and go on from the last unit to the first.
fn bootstrap_error(units: &[f64], length: usize) -> f64 {
    let n = units.len();
    let mut random = SplitMix(SEED);
    let ends = 1.0 / length as f64;
    let mut drawn = vec![0.0; n];
    let (mut sum, mut squares) = (0.0, 0.0);
    let middle = trimmed_mean(&mut units.to_vec());
    for _ in 0..RESAMPLES {
        let mut at = random.below(n);
        for value in &mut drawn {
            *value = units[at];
            at = if random.unit() < ends { random.below(n) } else { (at + 1) % n };
        }
        // From the estimate, so that no large squares are subtracted.
        let off = trimmed_mean(&mut drawn) - middle;
        sum += off;
        squares += off * off;
    }
    let count = RESAMPLES as f64;
    // A resample has n - length degrees of freedom about its own mean.
    let small = n as f64 / (n as f64 - length as f64).max(1.0);
    ((squares - sum * sum / count) / (count - 1.0) * small).max(0.0).sqrt()
}

/// Student's t of two-sided probability 1 - 0.05 / `LOOKS_MAX` for a real number of degrees of
/// freedom, linear in their reciprocal between tabulated values (Bailey, Tables of the Bonferroni t
/// statistic, JASA 72 (1977), three comparisons).
fn student_t(freedom: f64) -> f64 {
    const TABLE: [(f64, f64); 11] = [
        (2.0, 7.649),
        (3.0, 4.857),
        (4.0, 3.961),
        (5.0, 3.534),
        (6.0, 3.287),
        (8.0, 3.016),
        (10.0, 2.870),
        (15.0, 2.694),
        (30.0, 2.536),
        (60.0, 2.463),
        (f64::INFINITY, 2.394),
    ];
    let above = TABLE.partition_point(|(known, _)| *known < freedom);
    let (more, low) = TABLE[above.min(TABLE.len() - 1)];
    let Some(&(less, high)) = above.checked_sub(1).and_then(|at| TABLE.get(at)) else {
        return low;
    };
    let span = 1.0 / less - 1.0 / more;
    if span > 0.0 { low + (high - low) * (1.0 / freedom - 1.0 / more) / span } else { low }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn the_quantile_is_students() {
        // (degrees of freedom, the tabulated quantile, or between two of them)
        for (freedom, least, most) in [
            (1.0, 7.6, 7.7),
            (4.0, 3.961, 3.961),
            (12.0, 2.779, 2.79),
            (45.0, 2.487, 2.488),
            (1e9, 2.39, 2.395),
        ] {
            let t = student_t(freedom);
            assert!((least..=most).contains(&t), "{freedom}: {t}");
        }
    }

    #[test]
    fn mirrored_cycles_cancel_a_drift() {
        // The log ratio of two equal servers while the machine slows by a constant step: the second
        // of a cycle looks slower, and in the next cycle the other one is second.
        let logs: Rounds =
            (0..40).map(|cycle| (cycle, if cycle % 2 == 0 { -0.05 } else { 0.05 })).collect();
        let found = estimate(&logs).unwrap();
        assert!(found.middle.abs() < 1e-12 && found.interval.high < 1e-9, "{found:?}");
    }

    #[test]
    fn few_cycles_have_no_interval_and_a_burst_moves_little() {
        let mut random = SplitMix(3);
        let mut logs: Rounds = (0..11).map(|cycle| (cycle, random.unit() / 100.0)).collect();
        assert_eq!(estimate(&logs), None);
        logs.extend((11..100).map(|cycle| (cycle, random.unit() / 100.0)));
        let quiet = estimate(&logs).unwrap();
        assert!((quiet.middle - 0.005).abs() < 0.001, "{quiet:?}");
        logs.extend((40..46).map(|cycle| (cycle, 0.7)));
        let burst = estimate(&logs).unwrap();
        assert!((burst.middle - quiet.middle).abs() < 0.001, "{burst:?}");
        assert_eq!(estimate(&logs), Some(burst), "one series, one answer");
    }

    #[test]
    fn blocks_grow_with_the_correlation() {
        let length = |hold: u32| {
            let mut random = SplitMix(5);
            let mut value = 0.0;
            let series = (0..256).map(|at| {
                if at % hold == 0 {
                    value = random.unit();
                }
                value
            });
            block_length(&series.collect::<Vec<_>>())
        };
        assert_eq!(length(1), 6, "the cube root");
        assert!(length(8) > 10, "{}", length(8));
    }
}
