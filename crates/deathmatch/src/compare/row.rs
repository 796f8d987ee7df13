//! One line of a comparison: the deciding figure and the outcome.

use std::fmt;

use serde::{Deserialize, Serialize};

use super::many::{ALPHA, holm, rounds_needed};
use crate::sample::{Offered, Sample};
use crate::stats::{Better, Interval, Kind, cpu_us_per_reply, replies_per_second};

/// The quotient of the medians may lie outside the ratio's interval by this share.
const APART_MAX: f64 = 0.02;

/// Decimal places of a share in per cent, at most.
const PLACES_MAX: usize = 9;

/// A contender at one piece of work, before and after.
#[derive(Clone, Debug, PartialEq, Serialize, Deserialize)]
pub struct Row {
    pub work: String,
    /// The contender; of two, the second.
    pub contender: String,
    /// The compared figure; `None` if none was compared.
    pub figure: Option<Figure>,
    /// The median over the compared rounds, in the figure's unit.
    pub before: Option<f64>,
    /// The figure after; likewise, over the same rounds.
    pub after: Option<f64>,
    /// After over before. Of two runs each is divided by its run's floor: not always the quotient
    /// of those two.
    pub ratio: Option<f64>,
    /// Interval of the ratio; `None` with too few rounds.
    pub interval: Option<Interval>,
    /// Two-sided p of no difference, adjusted for all rows of the comparison (Holm).
    pub p: Option<f64>,
    /// The floor's figure, after over before; `None` within a run.
    pub floor_moved: Option<f64>,
    /// Outcome of the row.
    pub outcome: Outcome,
    /// Reason of the outcome; empty if the numbers say it.
    pub why: String,
}

/// A figure that is compared.
#[derive(Clone, Copy, Debug, PartialEq, Eq, Serialize, Deserialize)]
#[serde(rename_all = "snake_case")]
pub enum Figure {
    /// Right answers a second.
    RepliesPerSecond,
    /// Processor time of the server for each, in microseconds.
    CpuPerReply,
    /// The highest rate carried, in requests a second.
    Saturation,
    /// Median response time, in microseconds.
    ResponseMedian,
}

/// Outcome of a row, or of all rows.
#[derive(Clone, Copy, Debug, PartialEq, Eq, Serialize, Deserialize)]
#[serde(rename_all = "snake_case")]
pub enum Outcome {
    /// Shown to be at most the tolerance worse: the interval's worse bound lies within it. That is
    /// the half of an equivalence test that asks for harm (two one-sided tests: Schuirmann, Journal
    /// of Pharmacokinetics and Biopharmaceutics 15 (1987)), at the interval's confidence.
    Fine,
    /// Better by more than the tolerance, and surely better.
    Improved,
    /// Worse by more than the tolerance, and surely worse; or more requests fail.
    Regressed,
    /// Undecided: the numbers show no other outcome.
    NotShown,
}

impl Figure {
    /// Figures that decide such work, a row for each; of alternatives, the first that was measured.
    /// Replies at an offered rate equal the rate, so there cost decides, or response time if cost
    /// was not measured (another machine).
    pub fn of(offered: &Offered) -> &'static [&'static [Figure]] {
        match offered {
            Offered::Closed { .. } => &[&[Figure::RepliesPerSecond], &[Figure::CpuPerReply]],
            Offered::Open { .. } | Offered::Sessions { .. } => {
                &[&[Figure::CpuPerReply, Figure::ResponseMedian]]
            }
        }
    }

    /// Its name in a table.
    pub fn name(self) -> &'static str {
        match self {
            Figure::RepliesPerSecond => "replies",
            Figure::CpuPerReply => "CPU/request",
            Figure::Saturation => "limit",
            Figure::ResponseMedian => "p50",
        }
    }

    /// Kind of figure, which decides the samples that are compared by it.
    pub fn kind(self) -> Kind {
        match self {
            Figure::ResponseMedian => Kind::Time,
            Figure::RepliesPerSecond | Figure::Saturation => Kind::Rate,
            Figure::CpuPerReply => Kind::Cost,
        }
    }

    /// The direction in which the figure is better.
    pub fn better(self) -> Better {
        match self {
            Figure::RepliesPerSecond | Figure::Saturation => Better::More,
            Figure::CpuPerReply | Figure::ResponseMedian => Better::Less,
        }
    }

    /// `true` if a sample can have the figure.
    pub fn has(self, sample: &Sample) -> bool {
        self != Figure::CpuPerReply || sample.server.is_some()
    }

    /// A sample's value; a single sample has no saturation.
    pub fn value(self, sample: &Sample) -> Option<f64> {
        match self {
            Figure::RepliesPerSecond => replies_per_second(sample),
            Figure::Saturation => None,
            Figure::CpuPerReply => cpu_us_per_reply(sample),
            Figure::ResponseMedian => Some(sample.load.response.quantile(0.5) as f64 / 1e3),
        }
    }
}

impl Row {
    /// A row without figures.
    pub(super) fn new(work: &str, contender: &str) -> Row {
        Row {
            work: work.to_owned(),
            contender: contender.to_owned(),
            figure: None,
            before: None,
            after: None,
            ratio: None,
            interval: None,
            p: None,
            floor_moved: None,
            outcome: Outcome::NotShown,
            why: String::new(),
        }
    }

    pub(super) fn undecided(mut self, why: &str) -> Row {
        (self.outcome, self.why) = (Outcome::NotShown, why.to_owned());
        self
    }

    /// Sets a ratio with its interval and p; `settle` decides.
    pub(super) fn measured(mut self, ratio: f64, interval: Option<Interval>, p: f64) -> Row {
        (self.ratio, self.interval, self.p) = (Some(ratio), interval, Some(p));
        let medians = self.before.zip(self.after).map(|(before, after)| after / before);
        let medians = medians.map(|quotient| quotient / self.floor_moved.unwrap_or(1.0));
        // Both estimate the same; far apart, the machine's speed changed between the rounds.
        if let (Some(quotient), Some(i)) = (medians, interval)
            && (quotient.ln() * ratio.ln() < 0.0)
            && (quotient > i.high * (1.0 + APART_MAX) || quotient * (1.0 + APART_MAX) < i.low)
        {
            let why = "the medians and the rounds disagree: the machine's speed changed";
            return self.undecided(why);
        }
        self
    }

    fn is_open(&self) -> bool {
        self.p.is_some() && self.outcome == Outcome::NotShown && self.why.is_empty()
    }

    /// Decides by the ratio, its interval, and the adjusted p; `tests` is the number of rows at
    /// once.
    fn decide(&mut self, tolerance: f64, tests: usize) {
        let (Some(figure), Some(ratio)) = (self.figure, self.ratio) else { return };
        let Some(Interval { low, high, .. }) = self.interval else {
            "too few rounds for an interval".clone_into(&mut self.why);
            return;
        };
        // As factors by which it is worse, so that all figures read alike.
        let (worse, least, most) = match figure.better() {
            Better::More => (1.0 / ratio, 1.0 / high, 1.0 / low),
            Better::Less => (ratio, low, high),
        };
        let (limit, is_sure) = (1.0 + tolerance, self.p.is_some_and(|p| p <= ALPHA));
        (self.outcome, self.why) = match () {
            () if worse > limit && least > 1.0 && is_sure => (Outcome::Regressed, String::new()),
            () if worse * limit < 1.0 && most < 1.0 && is_sure => {
                (Outcome::Improved, String::new())
            }
            () if most <= limit => (Outcome::Fine, String::new()),
            () if worse > limit && least > 1.0 => {
                let rounds = rounds_needed(tests);
                let why = format!(
                    "worse, but not surely among {tests} rows: run {rounds} rounds, or bursts of a duel"
                );
                (Outcome::NotShown, why)
            }
            () => {
                let percent = percent_above(most - 1.0, tolerance);
                (Outcome::NotShown, format!("it may be as much as {percent} % worse"))
            }
        };
    }
}

/// The share in per cent, with as many decimal places as show it above the tolerance.
fn percent_above(share: f64, tolerance: f64) -> String {
    let shown = |places: usize| format!("{:.places$}", 100.0 * share);
    // The product may be a little less than the number that the user has written.
    let limit = 100.0 * tolerance + 1e-9;
    let is_above = |text: &String| text.parse::<f64>().is_ok_and(|percent| percent > limit);
    (0..=PLACES_MAX).map(shown).find(is_above).unwrap_or_else(|| shown(0))
}

/// Adjusts the p of all rows for their number, then decides those that are open. Rows by processor
/// time are a family of their own: they answer another question than rows by speed.
pub(super) fn settle(rows: &mut [Row], tolerance: f64) {
    let is_cost = |row: &Row| row.figure == Some(Figure::CpuPerReply);
    for family in [true, false] {
        let its = rows.iter_mut().filter(|row| is_cost(row) == family && row.p.is_some());
        settle_family(&mut its.collect::<Vec<_>>(), tolerance);
    }
}

fn settle_family(rows: &mut [&mut Row], tolerance: f64) {
    let ps: Vec<f64> = rows.iter().filter_map(|row| row.p).collect();
    let adjusted = holm(&ps);
    for (row, p) in rows.iter_mut().zip(adjusted) {
        row.p = Some(p);
        if row.is_open() {
            row.decide(tolerance, ps.len());
        } else if p > ALPHA && row.outcome == Outcome::Regressed {
            (row.outcome, row.why) = (Outcome::NotShown, "not in enough rounds to be sure".into());
        } else if p > ALPHA && row.outcome == Outcome::Improved {
            row.outcome = Outcome::Fine;
        }
    }
}

impl fmt::Display for Row {
    fn fmt(&self, to: &mut fmt::Formatter<'_>) -> fmt::Result {
        let unit = match self.figure {
            Some(Figure::RepliesPerSecond | Figure::Saturation) => "/s",
            Some(Figure::CpuPerReply | Figure::ResponseMedian) => " us",
            None => "",
        };
        let value = |v: Option<f64>| v.map_or("-".to_owned(), |v| format!("{v:.1}{unit}"));
        let ratio = self.ratio.map_or("-".to_owned(), |r| format!("{r:.3}"));
        let interval =
            self.interval.map_or("-".to_owned(), |i| format!("[{:.3}, {:.3}]", i.low, i.high));
        let p = self.p.map_or("-".to_owned(), |p| format!("{p:.3}"));
        let (before, after) = (value(self.before), value(self.after));
        let figure = self.figure.map_or("-", Figure::name);
        write!(to, "{figure:11}  {before:>12}  {after:>12}  {ratio:>6}  {interval:>16}  {p:>5}  ")?;
        write!(to, "{}", self.outcome)?;
        if self.why.is_empty() { Ok(()) } else { write!(to, ": {}", self.why) }
    }
}

impl fmt::Display for Outcome {
    fn fmt(&self, to: &mut fmt::Formatter<'_>) -> fmt::Result {
        to.write_str(match self {
            Outcome::Fine => "fine",
            Outcome::Improved => "improved",
            Outcome::Regressed => "regressed",
            Outcome::NotShown => "not shown",
        })
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn a_share_above_the_tolerance_is_shown_above_it() {
        for (share, tolerance, shown) in [
            (0.0526, 0.05, "5.3"),
            (0.0501, 0.05, "5.01"),
            (0.07, 0.05, "7"),
            (0.292, 0.29, "29.2"),
            (0.004, 0.0, "0.4"),
            (f64::INFINITY, 0.05, "inf"),
        ] {
            assert_eq!(percent_above(share, tolerance), shown, "{share} and {tolerance}");
        }
    }
}
