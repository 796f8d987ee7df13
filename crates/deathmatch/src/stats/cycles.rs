//! The ratio of two contenders over many short cycles, with an interval that holds although
//! neighbouring cycles resemble each other, and those of one burst share their processes: whole
//! bursts are resampled.
//!
//! - *Mirrored cycles*: each odd cycle has the reverse order of the one before. The mean of the two
//!   log ratios is free of a steady drift of the machine, and is the unit of all that follows.
//! - *Estimate*: the mean of the units without the lowest and the highest fifth, which a burst of
//!   another program moves little (Tukey's trimmed mean; Wilcox, Introduction to Robust Estimation
//!   and Hypothesis Testing, chapter 3).
//! - *Error*: the standard deviation of the estimate over resamples of whole bursts, each with all
//!   its units, because a start decides something for all cycles of a burst (the cluster bootstrap:
//!   Davison and Hinkley, Bootstrap Methods and their Application, section 3.8). Rounds of turns,
//!   which have no bursts, are resampled by units.
//! - *Blocks*: neighbouring bursts are drawn together, in blocks of random length with a given mean
//!   (Politis and Romano, The stationary bootstrap, JASA 89 (1994); blocks: Kuensch, The jackknife
//!   and the bootstrap for general stationary observations, Annals of Statistics 17 (1989)). The
//!   mean length follows the bursts' own correlation: at least a burst, and the cube root of the
//!   number of units, the rate of Hall, Horowitz and Jing, On blocking rules for the bootstrap with
//!   dependent data, Biometrika 82 (1995).
//! - *Interval*: the estimate plus and minus the error times Student's t with a degree of freedom
//!   for each block but one. The percentiles of so few resampled blocks are too narrow.
//! - *Looks*: a duel that looks at most `LOOKS_MAX` times and stops when the interval is narrow
//!   would stop on lucky narrow ones. Each look therefore uses the quantile of 1 - 0.05 /
//!   `LOOKS_MAX`: the probability that any of them misses is at most 5 % (Bonferroni's inequality),
//!   whenever it stops.

use std::collections::BTreeMap;

use super::CONFIDENCE;
use super::interval::median;
use super::ratio::{Interval, Rounds};
use super::regimes::{CHANGES_MIN, regimes};
use crate::random::SplitMix;
use crate::sample::Sample;

/// Fewest cycles of which blocks can be resampled.
pub const CYCLES_MIN: usize = 12;

/// Fewest bursts of slices: fewer do not show how much a start decides.
pub const BURSTS_MIN: usize = 4;

/// The burst of each cycle; rounds of turns have none.
pub type Bursts = BTreeMap<u32, u32>;

/// The bursts of these samples of one work.
pub fn bursts<'a>(samples: impl IntoIterator<Item = &'a Sample>) -> Bursts {
    samples.into_iter().filter_map(|s| Some((s.round, s.slice?.burst))).collect()
}

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
    /// Mean length of the resampled blocks, in bursts; of rounds of turns, in pairs.
    pub block: usize,
}

/// The estimate of these log ratios by cycle; `None` if there are fewer than `CYCLES_MIN` cycles or
/// `BURSTS_MIN` bursts of them.
pub fn estimate(logs: &Rounds, bursts: &Bursts) -> Option<Estimate> {
    let groups = grouped(logs, bursts);
    if logs.len() < CYCLES_MIN || groups.len() < BURSTS_MIN {
        return None;
    }
    let block = block_length(&groups);
    let error = bootstrap_error(&groups, block);
    let blocks = groups.len() as f64 / block as f64;
    let off = error * student_t(blocks - 1.0);
    let middle = trimmed_mean(&mut groups.concat());
    let (mut low, mut high) = (middle - off, middle + off);
    if let Some(regimes) = regimes(logs).filter(|regimes| regimes.changes < CHANGES_MIN) {
        low = low.min(regimes.low.ln());
        high = high.max(regimes.high.ln());
    }
    Some(Estimate { middle, interval: Interval { low, high, confidence: CONFIDENCE }, block })
}

/// The units of each burst: the mean of each pair of mirrored cycles; of an incomplete pair the
/// one it has. Without bursts each unit is by itself.
fn grouped(logs: &Rounds, bursts: &Bursts) -> Vec<Vec<f64>> {
    let mut pairs: BTreeMap<u32, (Option<u32>, Vec<f64>)> = BTreeMap::new();
    for (cycle, log) in logs {
        let (burst, its) = pairs.entry(cycle / 2).or_default();
        *burst = bursts.get(cycle).copied();
        its.push(*log);
    }
    let mut groups: Vec<(Option<u32>, Vec<f64>)> = Vec::new();
    for (burst, its) in pairs.into_values() {
        let unit = its.iter().sum::<f64>() / its.len() as f64;
        match groups.last_mut() {
            Some((last, units)) if burst.is_some() && *last == burst => units.push(unit),
            _ => groups.push((burst, vec![unit])),
        }
    }
    groups.into_iter().map(|(_, units)| units).collect()
}

fn mean(values: &[f64]) -> f64 {
    values.iter().sum::<f64>() / values.len() as f64
}

/// Sorts its argument.
fn trimmed_mean(values: &mut [f64]) -> f64 {
    values.sort_unstable_by(f64::total_cmp);
    let out = (values.len() as f64 * TRIMMED) as usize;
    let kept = &values[out..values.len() - out];
    kept.iter().sum::<f64>() / kept.len() as f64
}

/// Mean block length in bursts: 1 if they are independent, else nearly twice their correlation
/// time; at least the cube root of the number of units.
fn block_length(groups: &[Vec<f64>]) -> usize {
    let n = groups.len();
    let units = groups.iter().map(Vec::len).sum::<usize>() as f64;
    let least = units.cbrt() * n as f64 / units;
    let means: Vec<f64> = groups.iter().map(|units| mean(units)).collect();
    let length = least.max(2.0 * correlation_time(&means) - 1.0);
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
/// after each burst and go on from the last burst to the first.
fn bootstrap_error(groups: &[Vec<f64>], length: usize) -> f64 {
    let n = groups.len();
    let mut random = SplitMix(SEED);
    let ends = 1.0 / length as f64;
    let mut drawn = Vec::new();
    let (mut sum, mut squares) = (0.0, 0.0);
    let middle = trimmed_mean(&mut groups.concat());
    for _ in 0..RESAMPLES {
        let mut at = random.below(n);
        drawn.clear();
        for _ in 0..n {
            drawn.extend_from_slice(&groups[at]);
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
        let found = estimate(&logs, &Bursts::new()).unwrap();
        assert!(found.middle.abs() < 1e-12 && found.interval.high < 1e-9, "{found:?}");
    }

    #[test]
    fn few_cycles_have_no_interval_and_a_burst_moves_little() {
        let estimate = |logs: &Rounds| estimate(logs, &Bursts::new());
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
            block_length(&series.map(|unit| vec![unit]).collect::<Vec<_>>())
        };
        assert_eq!(length(1), 6, "the cube root");
        assert!(length(8) > 10, "{}", length(8));
    }

    #[test]
    fn what_a_start_decides_widens_the_interval() {
        let half = |seed: u64, burst: u32| {
            let (mut random, mut offset) = (SplitMix(seed), 0.0);
            // Cycles of four are alike, and their offsets are not.
            let logs: Rounds = (0..48)
                .map(|cycle| {
                    offset = if cycle % 4 == 0 { random.unit() / 50.0 } else { offset };
                    (cycle, offset + random.unit() / 1e4)
                })
                .collect();
            let bursts = logs.keys().map(|cycle| (*cycle, cycle / burst)).collect();
            let interval = estimate(&logs, &bursts)?.interval;
            Some((interval.high - interval.low) / 2.0)
        };
        let mean = |burst| (0..20).map(|seed| half(seed, burst).unwrap()).sum::<f64>() / 20.0;
        // Student's t for twelve bursts (2.8) times the error of the mean of as many offsets, or
        // somewhat more: the trimmed mean is not the best for uniform ones.
        let error = 0.02 / 12.0_f64.sqrt() / 12.0_f64.sqrt();
        let found = mean(4);
        assert!((2.5..5.0).contains(&(found / error)), "{found}, {error}");
        assert_eq!(half(0, 16), None, "three bursts");
    }

    #[test]
    fn a_burst_has_its_pairs_of_cycles() {
        let logs: Rounds = [(0, 1.0), (1, 3.0), (2, 4.0), (4, 5.0), (5, 7.0)].into();
        let alone = [vec![2.0], vec![4.0], vec![6.0]];
        assert_eq!(grouped(&logs, &Bursts::new()), alone, "rounds of turns");
        let bursts = (0..6).map(|cycle| (cycle, cycle / 4)).collect();
        assert_eq!(grouped(&logs, &bursts), [vec![2.0, 4.0], vec![6.0]]);
    }
}
