//! Two runs, or two contenders of one run, held against each other: for use where a machine decides
//! whether a change may go in.

use std::collections::BTreeSet;
use std::fmt;

use serde::{Deserialize, Serialize};

use crate::sample::{Mark, Sample};
use crate::stats::{Interval, Ratio, Rounds, by_round, middle, rounds, shift};

pub mod row;

pub use row::{Figure, Outcome, Row};

/// The contender every run is measured against: what the kernel alone costs.
pub const FLOOR: &str = "floor";

/// How far the floor may move between two runs before they are of two machines.
pub const FLOOR_MOVED_MAX: f64 = 0.05;

/// How much the share of failed requests may grow.
const ERRORS_GROWN_MAX: f64 = 0.0001;

/// What came of it.
#[derive(Clone, Debug, PartialEq, Serialize, Deserialize)]
pub struct Comparison {
    /// How much worse is still fine.
    pub tolerance: f64,
    /// By work and contender.
    pub rows: Vec<Row>,
}

impl Comparison {
    /// Of all rows: a regression tells; else what could not be decided; nothing to compare is not
    /// fine either.
    pub fn outcome(&self) -> Outcome {
        let any = |outcome| self.rows.iter().any(|row| row.outcome == outcome);
        match () {
            () if any(Outcome::Regressed) => Outcome::Regressed,
            () if self.rows.is_empty() || any(Outcome::Inconclusive) => Outcome::Inconclusive,
            () if any(Outcome::Improved) => Outcome::Improved,
            () => Outcome::Fine,
        }
    }

    /// 0 fine, 1 regressed, 2 inconclusive.
    pub fn exit_code(&self) -> u8 {
        match self.outcome() {
            Outcome::Fine | Outcome::Improved => 0,
            Outcome::Regressed => 1,
            Outcome::Inconclusive => 2,
        }
    }
}

/// Compares run `b` with run `a`, which came before. Rounds of two runs are no pairs, so each
/// contender is divided by its run's floor within the round, and the two sets of quotients are
/// compared as such. `tolerance` is a share: 0.05 lets a figure be 5 % worse.
pub fn compare(a: &[Sample], b: &[Sample], tolerance: f64) -> Comparison {
    let keys = a.iter().chain(b).filter(|sample| sample.contender != FLOOR);
    let keys: BTreeSet<(&str, &str)> =
        keys.map(|sample| (sample.work.as_str(), sample.contender.as_str())).collect();
    let rows = keys.into_iter().map(|(work, contender)| {
        let side = |all| Side { all, work, contender };
        between_runs(side(a), side(b), tolerance)
    });
    Comparison { tolerance, rows: rows.collect() }
}

/// Compares contender `two` with contender `one` of the same run, within its rounds: there the
/// weather is the same, and no floor is needed.
pub fn contenders(samples: &[Sample], one: &str, two: &str, tolerance: f64) -> Comparison {
    let works = samples.iter().filter(|s| s.contender == one || s.contender == two);
    let works: BTreeSet<&str> = works.map(|sample| sample.work.as_str()).collect();
    let rows = works.into_iter().map(|work| {
        let side = |contender| Side { all: samples, work, contender };
        within_run(side(one), side(two), tolerance)
    });
    Comparison { tolerance, rows: rows.collect() }
}

fn between_runs(a: Side<'_>, b: Side<'_>, tolerance: f64) -> Row {
    let mut row = Row::new(b.work, b.contender);
    let Some(figure) = agreed(&mut row, &[a, a.floor()], &[b, b.floor()]) else {
        return row;
    };
    let (floor_a, floor_b) = (a.floor_rounds(figure), b.floor_rounds(figure));
    let (Some(before), Some(after)) = (middle(&floor_a), middle(&floor_b)) else {
        return row.undecided("a run has no floor for this work");
    };
    let moved = after / before;
    row.floor_moved = Some(moved);
    if moved.ln().abs() > (1.0 + FLOOR_MOVED_MAX).ln() {
        return row.undecided(&format!("the floor moved by {:+.1} %", (moved - 1.0) * 100.0));
    }
    let logs = |side: Side<'_>, floor: &Rounds| {
        let ratio = Ratio::of(&side.rounds(figure), floor);
        ratio.map(|r| r.rounds.values().map(|v| v.ln()).collect::<Vec<f64>>()).unwrap_or_default()
    };
    let Some(found) = shift(&logs(a, &floor_a), &logs(b, &floor_b)) else {
        return row.undecided("no round holds both it and the floor, or there are too many rounds");
    };
    let interval = found.interval.map(|(low, high, confidence)| Interval {
        low: low.exp(),
        high: high.exp(),
        confidence,
    });
    row.judged(figure, found.median.exp(), interval, tolerance)
}

fn within_run(one: Side<'_>, two: Side<'_>, tolerance: f64) -> Row {
    let mut row = Row::new(two.work, two.contender);
    let Some(figure) = agreed(&mut row, &[one], &[two]) else {
        return row;
    };
    match Ratio::of(&two.rounds(figure), &one.rounds(figure)) {
        Some(ratio) => row.judged(figure, ratio.median, ratio.interval, tolerance),
        None => row.undecided("the two share no round"),
    }
}

/// The figure both sides have, or `None` with the row decided: by errors, or by what is missing. The
/// first of each side is what is compared.
fn agreed(row: &mut Row, a: &[Side<'_>], b: &[Side<'_>]) -> Option<Figure> {
    let (before, after) = (*a.first()?, *b.first()?);
    if before.samples().next().is_none() {
        (row.outcome, row.why) = (Outcome::Fine, "it is new: nothing to compare with".into());
        return None;
    }
    if after.samples().next().is_none() {
        row.why = "it is missing from what is compared".into();
        return None;
    }
    let (failed_before, failed) = (before.failed(), after.failed());
    if failed > failed_before + ERRORS_GROWN_MAX {
        row.outcome = Outcome::Regressed;
        let share = |share: f64| format!("{:.3} %", share * 100.0);
        row.why = format!("{} of requests fail, {} did", share(failed), share(failed_before));
        return None;
    }
    let offered = &after.samples().next()?.offered;
    let sides = || a.iter().chain(b);
    let has = |figure: &Figure| sides().flat_map(|side| side.samples()).all(|s| figure.has(s));
    let figure = Figure::of(offered).iter().copied().find(has)?;
    (row.figure, row.before, row.after) =
        (Some(figure), middle(&before.rounds(figure)), middle(&after.rounds(figure)));
    for side in [before, after] {
        if side.rounds(figure).is_empty() {
            row.why = format!("none of its samples may be ranked: {}", side.marks());
            return None;
        }
    }
    Some(figure)
}

/// One contender at one piece of work in one run.
#[derive(Clone, Copy)]
struct Side<'a> {
    all: &'a [Sample],
    work: &'a str,
    contender: &'a str,
}

impl<'a> Side<'a> {
    fn floor(self) -> Side<'a> {
        Side { contender: FLOOR, ..self }
    }

    fn samples(self) -> impl Iterator<Item = &'a Sample> {
        self.all.iter().filter(move |s| s.contender == self.contender && s.work == self.work)
    }

    fn rounds(self, figure: Figure) -> Rounds {
        rounds(self.all, self.contender, self.work, |sample| figure.value(sample))
    }

    /// The floor often is as fast as the generator; as a measure of the machine it serves all the same.
    fn floor_rounds(self, figure: Figure) -> Rounds {
        let spoilt = |mark: &Mark| matches!(mark, Mark::ForeignCpu | Mark::WrongBytes);
        let fit = self.floor().samples().filter(|sample| !sample.marks.iter().any(spoilt));
        by_round(fit, |sample| figure.value(sample))
    }

    /// Share of requests that failed; wrong bytes without a count are a failure of all.
    fn failed(self) -> f64 {
        let (mut failed, mut all) = (0, 0);
        for sample in self.samples() {
            let errors = sample.load.errors.total();
            let wrong = sample.marks.contains(&Mark::WrongBytes);
            failed += if wrong && errors == 0 { sample.load.replies } else { errors };
            all += sample.load.replies + errors;
        }
        if all == 0 { 0.0 } else { failed as f64 / all as f64 }
    }

    fn marks(self) -> String {
        let marks: BTreeSet<String> =
            self.samples().flat_map(|s| &s.marks).map(|mark| format!("{mark:?}")).collect();
        if marks.is_empty() {
            return "nothing was answered".to_owned();
        }
        marks.into_iter().collect::<Vec<_>>().join(", ")
    }
}

impl fmt::Display for Comparison {
    fn fmt(&self, to: &mut fmt::Formatter<'_>) -> fmt::Result {
        let longest = |of: fn(&Row) -> &str| {
            self.rows.iter().map(|row| of(row).chars().count()).max().unwrap_or(0).max(9)
        };
        let (work, contender) = (longest(|r| &r.work), longest(|r| &r.contender));
        writeln!(
            to,
            "{:work$}  {:contender$}  {:>12}  {:>12}  {:>6}  {:>16}  outcome",
            "work", "contender", "before", "after", "ratio", "interval"
        )?;
        for row in &self.rows {
            writeln!(to, "{:work$}  {:contender$}  {row}", row.work, row.contender)?;
        }
        writeln!(to, "{} at a tolerance of {:.1} %", self.outcome(), self.tolerance * 100.0)
    }
}

#[cfg(test)]
mod tests;
