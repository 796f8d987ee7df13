//! Two regimes: a ratio that stays near one value for some cycles and near another for others,
//! which no single figure describes.

use serde::{Deserialize, Serialize};

use super::ratio::Rounds;

/// Smallest distance of the two values, as a logarithm: a nearer pair would change no verdict.
const APART_MIN: f64 = 0.03;

/// Smallest distance of the two values in standard deviations of the values about them (Ashman's D;
/// Ashman, Bird and Zepf, Detecting bimodality in astronomical datasets, Astronomical Journal 108
/// (1994), require 2). Halves of one normal distribution have 2.7, of a uniform one 3.5.
const ASHMAN_MIN: f64 = 4.5;

/// Fewest cycles in the rarer regime, as a number and as a share.
const RARE_MIN: usize = 4;
const RARE_SHARE_MIN: f64 = 0.1;

/// Largest number of changes from one to the other, in standard deviations from that of a random
/// order: one-sided 1 % (Wald and Wolfowitz, On a test whether two samples are from the same
/// population, Annals of Mathematical Statistics 11 (1940)).
const CHANGES_Z_MAX: f64 = -2.33;

/// Fewest changes from one to the other from which the share of each can be told.
pub const CHANGES_MIN: usize = 12;

/// The two values of a ratio.
#[derive(Clone, Copy, Debug, PartialEq, Serialize, Deserialize)]
pub struct Regimes {
    /// The lower of the two values.
    pub low: f64,
    /// The higher of the two values.
    pub high: f64,
    /// Share of the cycles at the lower one, from 0 to 1.
    pub low_share: f64,
    /// Changes from one to the other.
    pub changes: usize,
}

/// The regimes of these log ratios by cycle; `None` if they have one.
pub fn regimes(logs: &Rounds) -> Option<Regimes> {
    let mut sorted: Vec<f64> = logs.values().copied().collect();
    sorted.sort_unstable_by(f64::total_cmp);
    let below = split(&sorted)?;
    let (low, high) = sorted.split_at(below);
    let ((low_mean, low_var), (high_mean, high_var)) = (moments(low), moments(high));
    let apart = high_mean - low_mean;
    let ashman = std::f64::consts::SQRT_2 * apart / (low_var + high_var).sqrt();
    let is_high: Vec<bool> = logs.values().map(|log| *log >= high[0]).collect();
    let changes = is_high.windows(2).filter(|two| two[0] != two[1]).count();
    let rare = low.len().min(high.len());
    let is_rare_enough = rare >= RARE_MIN && rare as f64 >= RARE_SHARE_MIN * sorted.len() as f64;
    // A distance of 0 over a variance of 0 is not a number, and no regime.
    let is_apart = apart >= APART_MIN && ashman >= ASHMAN_MIN;
    let stays = runs_z(low.len() as f64, high.len() as f64, changes as f64 + 1.0) <= CHANGES_Z_MAX;
    (is_rare_enough && is_apart && stays).then(|| Regimes {
        low: low_mean.exp(),
        high: high_mean.exp(),
        low_share: low.len() as f64 / sorted.len() as f64,
        changes,
    })
}

/// Index that divides sorted values so that the two means are as far apart as their numbers allow
/// (Otsu, A threshold selection method from gray-level histograms, IEEE Transactions SMC 9 (1979)).
fn split(sorted: &[f64]) -> Option<usize> {
    let total: f64 = sorted.iter().sum();
    let n = sorted.len() as f64;
    let mut sum = 0.0;
    let between = |at: usize, sum: f64| {
        let (low, high) = (at as f64, n - at as f64);
        low * high * (sum / low - (total - sum) / high).powi(2)
    };
    let scores = (1..sorted.len()).map(|at| {
        sum += sorted[at - 1];
        (at, between(at, sum))
    });
    scores.max_by(|a, b| a.1.total_cmp(&b.1)).map(|(at, _)| at)
}

/// Mean and variance.
fn moments(values: &[f64]) -> (f64, f64) {
    let n = values.len() as f64;
    let mean = values.iter().sum::<f64>() / n;
    (mean, values.iter().map(|v| (v - mean).powi(2)).sum::<f64>() / n)
}

/// The number of runs, in standard deviations from that of a random order.
fn runs_z(one: f64, two: f64, runs: f64) -> f64 {
    let (n, product) = (one + two, 2.0 * one * two);
    let expected = product / n + 1.0;
    let variance = product * (product - n) / (n * n * (n - 1.0));
    (runs - expected) / variance.sqrt()
}

#[cfg(test)]
mod tests {
    use super::*;
    use crate::random::SplitMix;

    /// Cycles that change between two ratios after `hold` cycles, with noise of some per cent.
    fn series(low: f64, high: f64, hold: u32, noise: f64) -> Rounds {
        let mut random = SplitMix(11);
        let log = |cycle: u32| if (cycle / hold).is_multiple_of(2) { low.ln() } else { high.ln() };
        (0..90).map(|cycle| (cycle, log(cycle) + noise * (random.unit() - 0.5))).collect()
    }

    #[test]
    fn two_regimes_are_told_from_noise_drift_and_outliers() {
        let found = regimes(&series(0.65, 0.9, 9, 0.04)).unwrap();
        assert!((found.low - 0.65).abs() < 0.01 && (found.high - 0.9).abs() < 0.01, "{found:?}");
        assert_eq!((found.low_share, found.changes), (0.5, 9));
        let drift: Rounds = (0..90).map(|cycle| (cycle, f64::from(cycle) / 100.0)).collect();
        let mut burst = series(1.0, 1.0, 1, 0.02);
        burst.extend([(40, 0.3), (41, 0.3), (42, 0.3)]);
        for (logs, why) in [
            (series(1.0, 1.0, 1, 0.1), "noise"),
            (series(1.0, 1.01, 9, 0.001), "nearer than any verdict"),
            (series(0.65, 0.9, 1, 0.04), "each other cycle is no regime"),
            (drift, "a drift"),
            (burst, "a burst"),
            ((0..20).map(|cycle| (cycle, 0.0)).collect(), "all equal"),
            (Rounds::new(), "nothing"),
        ] {
            assert_eq!(regimes(&logs), None, "{why}");
        }
    }
}
