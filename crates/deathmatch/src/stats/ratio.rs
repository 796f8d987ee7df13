//! The ratio of two contenders within each round, its median, interval and verdict.

use std::collections::BTreeMap;
use std::fmt;

use serde::{Deserialize, Serialize};

use super::MARGIN;
use super::cycles::{self, Bursts, Estimate};
use super::interval::{ROUNDS_MIN, bootstrap, exact, median};
use super::regimes::{Regimes, regimes};

/// A figure, above 0, by round.
pub type Rounds = BTreeMap<u32, f64>;

/// Fixed, so that a report is the same each time it is drawn.
const BOOTSTRAP_SEED: u64 = 2_009;

/// A ratio over rounds.
#[derive(Clone, Debug, PartialEq, Serialize, Deserialize)]
pub struct Ratio {
    /// The median, or from `CYCLES_MIN` rounds and `BURSTS_MIN` bursts on the trimmed mean: the
    /// figure is this many times the reference's.
    pub median: f64,
    /// The exact interval, or with the trimmed mean the block bootstrap's; `None` below six rounds,
    /// and of slices without the trimmed mean.
    pub interval: Option<Interval>,
    /// The bootstrap's 95 % interval, for display: `interval` decides.
    pub bootstrap: (f64, f64),
    /// The ratio of each round both took part in.
    pub rounds: Rounds,
}

/// Two bounds and the probability that the median lies between them.
#[derive(Clone, Copy, Debug, PartialEq, Serialize, Deserialize)]
pub struct Interval {
    /// Lower bound of the ratio.
    pub low: f64,
    /// Upper bound of the ratio.
    pub high: f64,
    /// From 0 to 1.
    pub confidence: f64,
}

/// Direction in which a figure is better.
#[derive(Clone, Copy, Debug, PartialEq, Eq, Serialize, Deserialize)]
#[serde(rename_all = "snake_case")]
pub enum Better {
    /// More is better, as of replies.
    More,
    /// Less is better, as of times and costs.
    Less,
}

/// Verdict on a ratio.
#[derive(Clone, Copy, Debug, PartialEq, Eq, Serialize, Deserialize)]
#[serde(rename_all = "snake_case")]
pub enum Verdict {
    /// Better than the reference by more than the margin, in the whole interval.
    Faster,
    /// Worse than the reference by more than the margin, in the whole interval.
    Slower,
    /// Within the margin, in the whole interval.
    Equal,
    /// Neither, or too few rounds to have an interval.
    TooCloseToCall,
}

/// Judgement on the machine by the same contender under two names, from best to worst.
#[derive(Clone, Copy, Debug, PartialEq, Eq, PartialOrd, Ord, Serialize, Deserialize)]
#[serde(rename_all = "snake_case")]
pub enum Fitness {
    /// The pair is equal.
    Fit,
    /// The median is within the margin and the interval is not, or there is none: the machine
    /// cannot resolve the margin.
    Coarse,
    /// The median is outside the margin: no small difference of this run means anything.
    Unfit,
}

impl Ratio {
    /// The ratio over the rounds of turns both have; `None` if there are none. From `CYCLES_MIN`
    /// rounds on neighbouring ones are not taken as independent (`cycles`). Computed with
    /// logarithms, so that swapping the two gives the reciprocal of everything.
    pub fn of(figure: &Rounds, reference: &Rounds) -> Option<Ratio> {
        Ratio::within(figure, reference, &Bursts::new())
    }

    /// The ratio over rounds of turns, or over cycles of slices, which are those with a burst. Few
    /// cycles or bursts have no interval, because the exact one takes them for independent.
    pub fn within(figure: &Rounds, reference: &Rounds, bursts: &Bursts) -> Option<Ratio> {
        let log = |(round, value): (&u32, &f64)| {
            let log = value.ln() - reference.get(round)?.ln();
            log.is_finite().then_some((*round, log)) // a figure of 0 has no ratio
        };
        let logs: Rounds = figure.iter().filter_map(log).collect();
        if let Some(estimate) = cycles::estimate(&logs, bursts) {
            return Some(Ratio::of_cycles(&logs, &estimate));
        }
        let are_slices = logs.keys().any(|round| bursts.contains_key(round));
        let mut sorted: Vec<f64> = logs.values().copied().collect();
        let (low, high) = bootstrap(&sorted, BOOTSTRAP_SEED)?;
        Some(Ratio {
            median: median(&mut sorted)?.exp(),
            interval: exact(sorted.len()).filter(|_| !are_slices).map(|at| Interval {
                low: sorted[at.low].exp(),
                high: sorted[at.high].exp(),
                confidence: at.confidence,
            }),
            bootstrap: (low.exp(), high.exp()),
            rounds: logs.into_iter().map(|(round, log)| (round, log.exp())).collect(),
        })
    }

    fn of_cycles(logs: &Rounds, estimate: &Estimate) -> Ratio {
        let Interval { low, high, confidence } = estimate.interval;
        let (low, high) = (low.exp(), high.exp());
        Ratio {
            median: estimate.middle.exp(),
            interval: Some(Interval { low, high, confidence }),
            bootstrap: (low, high),
            rounds: logs.iter().map(|(round, log)| (*round, log.exp())).collect(),
        }
    }

    /// The two regimes of the ratio, if it has two.
    pub fn regimes(&self) -> Option<Regimes> {
        regimes(&self.rounds.iter().map(|(round, ratio)| (*round, ratio.ln())).collect())
    }

    /// Half the width of the interval, as a share of the ratio; `None` without an interval.
    pub fn precision(&self) -> Option<f64> {
        self.interval.map(|i| (i.high / i.low).sqrt() - 1.0)
    }

    /// Verdict on the ratio. The margin's lower bound is 1 / 1.02, so that swapping the two swaps
    /// the verdict.
    pub fn verdict(&self, better: Better) -> Verdict {
        let Some(Interval { low, high, .. }) = self.interval else {
            return Verdict::TooCloseToCall;
        };
        let (least, most) = margin();
        let (above, below) = (low > most, high < least);
        match better {
            Better::More if above => Verdict::Faster,
            Better::More if below => Verdict::Slower,
            Better::Less if below => Verdict::Faster,
            Better::Less if above => Verdict::Slower,
            _ if low >= least && high <= most => Verdict::Equal,
            _ => Verdict::TooCloseToCall,
        }
    }
}

/// Judges the machine by the ratio of a contender to itself.
pub fn fitness(pair: &Ratio) -> Fitness {
    let (least, most) = margin();
    if pair.median < least || pair.median > most {
        return Fitness::Unfit;
    }
    match pair.verdict(Better::More) {
        Verdict::Equal => Fitness::Fit,
        _ => Fitness::Coarse,
    }
}

fn margin() -> (f64, f64) {
    (1.0 / (1.0 + MARGIN), 1.0 + MARGIN)
}

impl fmt::Display for Ratio {
    fn fmt(&self, to: &mut fmt::Formatter<'_>) -> fmt::Result {
        write!(to, "{:.3}", self.median)?;
        match self.interval {
            Some(Interval { low, high, confidence }) => {
                write!(to, " [{low:.3}, {high:.3}] ({:.1} %)", confidence * 100.0)
            }
            None => {
                let n = self.rounds.len();
                write!(to, " (no interval: {n} of at least {ROUNDS_MIN} rounds)")
            }
        }
    }
}

impl fmt::Display for Verdict {
    fn fmt(&self, to: &mut fmt::Formatter<'_>) -> fmt::Result {
        to.write_str(match self {
            Verdict::Faster => "faster",
            Verdict::Slower => "slower",
            Verdict::Equal => "equal",
            Verdict::TooCloseToCall => "too close to call",
        })
    }
}

/// The median of a contender's own figures, in their unit; `None` without figures.
pub fn middle(rounds: &Rounds) -> Option<f64> {
    let mut values: Vec<f64> = rounds.values().copied().collect();
    median(&mut values)
}
