//! Comparison of two runs, or of two contenders of one run, for automatic decisions about a change.

use std::collections::{BTreeMap, BTreeSet};
use std::fmt;

use serde::{Deserialize, Serialize};

use crate::sample::{Mark, Offered, Sample};
use crate::stats::{
    Interval, Ratio, Rounds, by_round, comparable, counts, is_overload, middle, shift,
};

mod limits;
pub mod row;

use limits::limit;
pub use row::{Figure, Outcome, Row};

/// The contender every run is normalised by: the kernel's cost.
pub const FLOOR: &str = "floor";

/// Largest change of the floor between two runs that are comparable.
pub const FLOOR_MOVED_MAX: f64 = 0.05;

/// Largest increase of the share of failed requests that is no regression.
const ERRORS_GROWN_MAX: f64 = 0.0001;

/// Result of a comparison.
#[derive(Clone, Debug, PartialEq, Serialize, Deserialize)]
pub struct Comparison {
    /// Share by which a figure may be worse.
    pub tolerance: f64,
    /// By work and contender.
    pub rows: Vec<Row>,
}

impl Comparison {
    /// Outcome of all rows: a regression decides, then an inconclusive row; no rows are
    /// inconclusive too.
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

/// Compares run `b` with the earlier run `a`. Rounds of two runs are no pairs, so each contender is
/// divided by its run's floor within the round, and the two sets of quotients are compared.
/// `tolerance` is a share: 0.05 allows a figure to be 5 % worse.
pub fn compare(a: &[Sample], b: &[Sample], tolerance: f64) -> Comparison {
    let all = || a.iter().chain(b).filter(|s| s.contender != FLOOR && is_comparable(s));
    let mut searched = BTreeMap::new();
    for (file, contender) in all().map(|s| (s.file.as_str(), s.contender.as_str())) {
        let limits = || Some((limit(a, file, contender)?, limit(b, file, contender)?));
        searched.entry((file, contender)).or_insert_with(limits);
    }
    // A rate that only one search tried is not missing in the other: the limits are compared.
    let of_search = |s: &Sample| {
        let open = matches!(s.offered, Offered::Open { .. });
        let found = searched.get(&(s.file.as_str(), s.contender.as_str()));
        open && found.is_some_and(Option::is_some)
    };
    let tried_in_both = |s: &&Sample| {
        let in_run = |run: &[Sample]| {
            run.iter().any(|other| other.work == s.work && other.contender == s.contender)
        };
        !of_search(s) || in_run(a) && in_run(b)
    };
    let keys: BTreeSet<(&str, &str, bool)> = all()
        .filter(tried_in_both)
        .map(|s| (s.work.as_str(), s.contender.as_str(), of_search(s)))
        .collect();
    let rows = keys.into_iter().map(|(work, contender, of_search)| {
        let side = |all| Side { all, work, contender };
        (between_runs(side(a), side(b), tolerance), of_search)
    });
    let mut rows: Vec<Row> = shown_rows(rows);
    let moved = rows.iter().filter_map(|row| row.floor_moved).any(|moved| !is_unmoved(moved));
    rows.extend(searched.into_iter().filter_map(|((file, contender), limits)| {
        let (before, after) = limits?;
        let row = limits::row(file, contender, before, after, tolerance);
        Some(if moved { row.undecided("the floor moved") } else { row })
    }));
    Comparison { tolerance, rows }
}

/// `true` if a sample can be compared, by its work's name, with one of another run or contender.
fn is_comparable(sample: &Sample) -> bool {
    counts(sample) && !is_overload(sample)
}

/// The rows to show: a search tries some rates in few rounds only, and its limit is shown instead.
fn shown_rows(rows: impl Iterator<Item = (Row, bool)>) -> Vec<Row> {
    rows.filter(|(row, of_search)| !of_search || row.interval.is_some())
        .map(|(row, _)| row)
        .collect()
}

/// `true` if the floor has not moved.
fn is_unmoved(moved: f64) -> bool {
    moved.ln().abs() <= (1.0 + FLOOR_MOVED_MAX).ln()
}

/// Compares contender `two` with contender `one` of the same run, within its rounds: the machine's
/// state is the same there, and no floor is needed.
pub fn contenders(samples: &[Sample], one: &str, two: &str, tolerance: f64) -> Comparison {
    let mut works = [BTreeSet::new(), BTreeSet::new()];
    let mut files = BTreeSet::new();
    for sample in samples.iter().filter(|s| is_comparable(s)) {
        for (name, works) in [one, two].into_iter().zip(&mut works) {
            let open = matches!(sample.offered, Offered::Open { .. });
            if sample.contender == name {
                works.insert((sample.work.as_str(), open));
                files.insert(sample.file.as_str());
            }
        }
    }
    let limits = |file| Some((limit(samples, file, one)?, limit(samples, file, two)?));
    let searched: Vec<_> = files.into_iter().filter_map(|f| Some((f, limits(f)?))).collect();
    // Each search tries rates of its own.
    let both = |(work, open): &&(&str, bool)| {
        !open || searched.is_empty() || works.iter().all(|works| works.contains(&(work, true)))
    };
    let rows = works[0].union(&works[1]).filter(both).map(|(work, open)| {
        let side = |contender| Side { all: samples, work, contender };
        (within_run(side(one), side(two), tolerance), *open && !searched.is_empty())
    });
    let mut rows: Vec<Row> = shown_rows(rows);
    rows.extend(
        searched
            .into_iter()
            .map(|(file, (before, after))| limits::row(file, two, before, after, tolerance)),
    );
    Comparison { tolerance, rows }
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
    if !is_unmoved(moved) {
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

/// The first figure that both sides have. `None` with the row decided: by errors, or by a missing
/// figure.
fn agreed(row: &mut Row, a: &[Side<'_>], b: &[Side<'_>]) -> Option<Figure> {
    let (before, after) = (*a.first()?, *b.first()?);
    if before.samples().next().is_none() {
        (row.outcome, row.why) = (Outcome::Fine, "new: there is no baseline".into());
        return None;
    }
    if after.samples().next().is_none() {
        row.why = "missing from the compared run".into();
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
        let its = move |s: &&Sample| s.contender == self.contender && s.work == self.work;
        self.all.iter().filter(its).filter(|s| counts(s))
    }

    fn rounds(self, figure: Figure) -> Rounds {
        let by_time = figure == Figure::ResponseMedian;
        by_round(self.samples().filter(|s| comparable(s, by_time)), |s| figure.value(s))
    }

    /// The floor is often as fast as the generator, and still a valid measure of the machine.
    fn floor_rounds(self, figure: Figure) -> Rounds {
        let spoilt =
            |mark: &Mark| matches!(mark, Mark::ForeignCpu | Mark::WrongBytes | Mark::FloorMoved);
        let fit = self.floor().samples().filter(|sample| !sample.marks.iter().any(spoilt));
        by_round(fit, |sample| figure.value(sample))
    }

    /// Share of requests that failed; 1 for wrong bytes without a count.
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
