//! One line of a comparison: the deciding figure and the outcome.

use std::fmt;

use serde::{Deserialize, Serialize};

use crate::sample::{Offered, Sample};
use crate::stats::{Better, Interval, cpu_us_per_reply, replies_per_second};

/// A contender at one piece of work, before and after.
#[derive(Clone, Debug, PartialEq, Serialize, Deserialize)]
pub struct Row {
    /// The work.
    pub work: String,
    /// The contender; of two, the second.
    pub contender: String,
    /// The compared figure; `None` if none was compared.
    pub figure: Option<Figure>,
    /// The median over rounds, in the figure's unit.
    pub before: Option<f64>,
    /// The figure after; likewise.
    pub after: Option<f64>,
    /// After over before, each divided by its run's floor: not always the quotient of those two.
    pub ratio: Option<f64>,
    /// Interval of the ratio; `None` with too few rounds.
    pub interval: Option<Interval>,
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
    /// Not worse beyond the tolerance.
    Fine,
    /// Better by more than the tolerance, in the whole interval.
    Improved,
    /// Worse by more than the tolerance, in the whole interval; or more requests fail.
    Regressed,
    /// Undecided.
    Inconclusive,
}

impl Figure {
    /// Figures that decide such work, best first. Replies at an offered rate equal the rate, so
    /// there cost decides, or response time if cost was not measured (another machine).
    pub fn of(offered: &Offered) -> &'static [Figure] {
        match offered {
            Offered::Closed { .. } => &[Figure::RepliesPerSecond],
            Offered::Open { .. } | Offered::Sessions { .. } => {
                &[Figure::CpuPerReply, Figure::ResponseMedian]
            }
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
            floor_moved: None,
            outcome: Outcome::Inconclusive,
            why: String::new(),
        }
    }

    pub(super) fn undecided(mut self, why: &str) -> Row {
        (self.outcome, self.why) = (Outcome::Inconclusive, why.to_owned());
        self
    }

    /// Decides by a ratio: beyond the tolerance, and the whole interval on one side.
    pub(super) fn judged(
        mut self,
        figure: Figure,
        ratio: f64,
        interval: Option<Interval>,
        tolerance: f64,
    ) -> Row {
        (self.ratio, self.interval) = (Some(ratio), interval);
        let beyond = (1.0 + tolerance).ln();
        let up = ratio.ln();
        let (worse, better) = match figure.better() {
            Better::More => (-up > beyond, up > beyond),
            Better::Less => (up > beyond, -up > beyond),
        };
        let sure = interval.is_some_and(|i| i.low > 1.0 || i.high < 1.0);
        (self.outcome, self.why) = match (worse, better, sure) {
            (true, _, true) => (Outcome::Regressed, String::new()),
            (true, _, false) if interval.is_none() => {
                (Outcome::Inconclusive, "worse, but in too few rounds to be sure".to_owned())
            }
            (true, _, false) => {
                (Outcome::Inconclusive, "worse, but the interval contains 1".to_owned())
            }
            (_, true, true) => (Outcome::Improved, String::new()),
            _ if interval.is_none() => {
                (Outcome::Inconclusive, "too few rounds for an interval".to_owned())
            }
            _ => (Outcome::Fine, String::new()),
        };
        self
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
        let (before, after) = (value(self.before), value(self.after));
        write!(to, "{before:>12}  {after:>12}  {ratio:>6}  {interval:>16}  {}", self.outcome)?;
        if self.why.is_empty() { Ok(()) } else { write!(to, ": {}", self.why) }
    }
}

impl fmt::Display for Outcome {
    fn fmt(&self, to: &mut fmt::Formatter<'_>) -> fmt::Result {
        to.write_str(match self {
            Outcome::Fine => "fine",
            Outcome::Improved => "improved",
            Outcome::Regressed => "regressed",
            Outcome::Inconclusive => "inconclusive",
        })
    }
}
