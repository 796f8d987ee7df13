//! Comparison of two runs, or of two contenders of one run, for automatic decisions about a change.

use std::collections::{BTreeMap, BTreeSet};
use std::fmt;

use serde::{Deserialize, Serialize};

use crate::sample::{Mark, Offered, Sample};
use crate::stats::{
    FAILED_GROWN_MAX, Interval, Ratio, Rounds, SIDE_MAX, Saturation, bursts, by_round, comparable,
    counts, failed_share, is_overload, middle, shift, shift_p,
};

mod limits;
mod many;
pub mod row;

use limits::{limit, lows};
use many::sign_test;
use row::settle;
pub use row::{Figure, Outcome, Row};

/// The contender every run is normalised by: the kernel's cost.
pub const FLOOR: &str = "floor";

/// Largest change of the floor between two runs that are comparable.
pub const FLOOR_MOVED_MAX: f64 = 0.05;

/// Result of a comparison.
#[derive(Clone, Debug, PartialEq, Serialize, Deserialize)]
pub struct Comparison {
    /// Share by which a figure may be worse.
    pub tolerance: f64,
    /// By work and contender.
    pub rows: Vec<Row>,
    /// Parts of either side that were not compared, a sentence each.
    pub notes: Vec<String>,
}

/// A comparison that cannot be made.
#[derive(Clone, Debug, PartialEq, Eq)]
pub enum CompareError {
    /// The run has no samples of this contender. The list names the contenders that it has.
    UnknownContender(String, Vec<String>),
    /// The two sides share no work of one contender.
    NothingInCommon,
}

impl fmt::Display for CompareError {
    fn fmt(&self, to: &mut fmt::Formatter<'_>) -> fmt::Result {
        match self {
            CompareError::UnknownContender(name, known) => {
                write!(to, "the run has no contender {name:?}; it has {}", known.join(", "))
            }
            CompareError::NothingInCommon => {
                write!(to, "no contender did the same work on both sides: nothing to compare")
            }
        }
    }
}

impl std::error::Error for CompareError {}

impl Comparison {
    /// Outcome of all rows: a regression decides, then a row that shows nothing.
    pub fn outcome(&self) -> Outcome {
        let any = |outcome| self.rows.iter().any(|row| row.outcome == outcome);
        match () {
            () if any(Outcome::Regressed) => Outcome::Regressed,
            () if self.rows.is_empty() || any(Outcome::NotShown) => Outcome::NotShown,
            () if any(Outcome::Improved) => Outcome::Improved,
            () => Outcome::Fine,
        }
    }

    /// 0 fine or improved, 1 regressed, 3 not shown; 2 is for usage.
    pub fn exit_code(&self) -> u8 {
        match self.outcome() {
            Outcome::Fine | Outcome::Improved => 0,
            Outcome::Regressed => 1,
            Outcome::NotShown => 3,
        }
    }
}

/// Compares run `b` with the earlier run `a`. Rounds of two runs are no pairs, so each contender is
/// divided by its run's floor within the round, and the two sets of quotients are compared.
/// `tolerance` is a share: 0.05 allows a figure to be 5 % worse. Only contenders and works of both
/// runs are compared; the others are noted.
///
/// # Errors
/// The runs have no contender and work in common.
pub fn compare(a: &[Sample], b: &[Sample], tolerance: f64) -> Result<Comparison, CompareError> {
    let in_a = keys(a);
    let common: BTreeSet<_> = keys(b).into_iter().filter(|key| in_a.contains(key)).collect();
    let mut searched = BTreeMap::new();
    for s in a.iter().filter(|s| s.contender != FLOOR && is_comparable(s)) {
        let (file, contender) = (s.file.as_str(), s.contender.as_str());
        let limits = || Some((limit(a, file, contender)?, limit(b, file, contender)?));
        searched.entry((file, contender)).or_insert_with(limits);
    }
    searched.retain(|_, limits| limits.is_some_and(|(a, b)| is_found(a) || is_found(b)));
    // A search tries rates of its own: the limits are compared, and rates in few rounds left out.
    let of_search =
        |key: &Key<'_>| key.is_open && searched.contains_key(&(key.file, key.contender));
    let rows = common.into_iter().flat_map(|key| {
        let side = |all| Side { all, work: key.work, contender: key.contender };
        let is_search = of_search(&key);
        between_runs(side(a), side(b)).into_iter().map(move |row| (row, is_search))
    });
    let (mut rows, left_out) = shown_rows(rows);
    let moved = rows.iter().filter_map(|row| row.floor_moved).any(|moved| !is_unmoved(moved));
    let limits = searched.iter().filter_map(|(key, limits)| Some((key, (*limits)?)));
    rows.extend(limits.map(|((file, contender), (before, after))| {
        let lows = |all| lows(all, file, contender).into_values().collect::<Vec<f64>>();
        let p = shift_p(&lows(a), &lows(b)).unwrap_or(1.0);
        let row = limits::row(file, contender, before, after, p, tolerance);
        if moved { row.undecided("the floor moved") } else { row }
    }));
    let mut notes = notes(a, b, of_search);
    notes.extend(left_out);
    finished(rows, tolerance, notes)
}

/// `true` if a search, or fixed rates, found a limit; otherwise all rates were carried.
fn is_found(limit: Saturation) -> bool {
    limit.high.is_some() || limit.load_limited
}

fn finished(
    mut rows: Vec<Row>,
    tolerance: f64,
    notes: Vec<String>,
) -> Result<Comparison, CompareError> {
    if rows.is_empty() {
        return Err(CompareError::NothingInCommon);
    }
    settle(&mut rows, tolerance);
    Ok(Comparison { tolerance, rows, notes })
}

/// A contender's work in a run.
#[derive(Clone, Copy, PartialEq, Eq, PartialOrd, Ord)]
struct Key<'a> {
    work: &'a str,
    contender: &'a str,
    file: &'a str,
    is_open: bool,
}

impl<'a> Key<'a> {
    fn of(sample: &'a Sample) -> Key<'a> {
        let is_open = matches!(sample.offered, Offered::Open { .. });
        let (work, contender, file) = (&sample.work, &sample.contender, &sample.file);
        Key { work, contender, file, is_open }
    }
}

fn keys(samples: &[Sample]) -> BTreeSet<Key<'_>> {
    let its = samples.iter().filter(|s| s.contender != FLOOR && is_comparable(s));
    its.map(Key::of).collect()
}

/// Differences of two runs in plans, contenders, works of their common contenders.
fn notes(a: &[Sample], b: &[Sample], of_search: impl Fn(&Key<'_>) -> bool) -> Vec<String> {
    let mut notes = Vec::new();
    let plan = |run: &[Sample]| run.first().map(|s| s.plan.clone()).unwrap_or_default();
    if plan(a) != plan(b) {
        let (a, b) = (plan(a), plan(b));
        notes.push(format!("the plans differ ({a}, {b}): works of one name may not be the same"));
    }
    let (a, b) = (keys(a), keys(b));
    let contenders = |keys: &BTreeSet<Key<'_>>| -> BTreeSet<String> {
        keys.iter().map(|key| key.contender.to_owned()).collect()
    };
    // The rates that a search tries are its own.
    let works = |keys: &BTreeSet<Key<'_>>| -> BTreeSet<String> {
        keys.iter().filter(|key| !of_search(key)).map(|key| key.work.to_owned()).collect()
    };
    for (which, one, other) in [("first", &a, &b), ("second", &b, &a)] {
        for (what, of) in [("contenders", contenders(one)), ("works", works(one))] {
            let known = if what == "works" { works(other) } else { contenders(other) };
            let alone: Vec<String> = of.difference(&known).cloned().collect();
            if !alone.is_empty() {
                notes.push(format!("{what} of the {which} run alone: {}", alone.join(", ")));
            }
        }
    }
    notes
}

/// `true` if a sample can be compared, by its work's name, with one of another run or contender.
fn is_comparable(sample: &Sample) -> bool {
    counts(sample) && !is_overload(sample)
}

/// The rows to show, and a note on the others: a search tries some rates in few rounds only, and
/// its limit is shown instead.
fn shown_rows(rows: impl Iterator<Item = (Row, bool)>) -> (Vec<Row>, Option<String>) {
    let is_shown = |(row, of_search): &(Row, bool)| !of_search || row.interval.is_some();
    let (shown, others): (Vec<_>, Vec<_>) = rows.partition(is_shown);
    let works: BTreeSet<&str> = others.iter().map(|(row, _)| row.work.as_str()).collect();
    let works: Vec<&str> = works.into_iter().collect();
    let note = (!works.is_empty()).then(|| {
        let works = works.join(", ");
        format!("rates of a search in too few rounds to compare, but for its limit: {works}")
    });
    (shown.into_iter().map(|(row, _)| row).collect(), note)
}

/// `true` if the floor has not moved.
fn is_unmoved(moved: f64) -> bool {
    moved.ln().abs() <= (1.0 + FLOOR_MOVED_MAX).ln()
}

/// Compares contender `two` with contender `one` of the same run, within its rounds: the machine's
/// state is the same there, and no floor is needed.
///
/// # Errors
/// The run has no such contender, or the two did no work in common.
pub fn contenders(
    samples: &[Sample],
    one: &str,
    two: &str,
    tolerance: f64,
) -> Result<Comparison, CompareError> {
    for name in [one, two] {
        if !samples.iter().any(|s| s.contender == name) {
            let known: BTreeSet<String> = samples.iter().map(|s| s.contender.clone()).collect();
            let known = known.into_iter().collect();
            return Err(CompareError::UnknownContender(name.to_owned(), known));
        }
    }
    let of = |name: &str| -> BTreeSet<(&str, &str, bool)> {
        let its = samples.iter().filter(|s| s.contender == name && is_comparable(s));
        let open = |s: &Sample| matches!(s.offered, Offered::Open { .. });
        its.map(|s| (s.work.as_str(), s.file.as_str(), open(s))).collect()
    };
    let (ones, twos) = (of(one), of(two));
    let common = || ones.intersection(&twos);
    let files: BTreeSet<&str> = ones.iter().map(|(_, file, _)| *file).collect();
    let limits = |file| Some((limit(samples, file, one)?, limit(samples, file, two)?));
    let is_searched = |(a, b): &(Saturation, Saturation)| is_found(*a) || is_found(*b);
    let searched: BTreeMap<&str, _> = files
        .into_iter()
        .filter_map(|file| Some((file, limits(file).filter(is_searched)?)))
        .collect();
    let of_search = |file: &str, open: bool| open && searched.contains_key(file);
    let rows = common().flat_map(|(work, file, open)| {
        let side = |contender| Side { all: samples, work, contender };
        let is_search = of_search(file, *open);
        within_run(side(one), side(two)).into_iter().map(move |row| (row, is_search))
    });
    let (mut rows, left_out) = shown_rows(rows);
    rows.extend(searched.iter().map(|(file, (before, after))| {
        let ratio = Ratio::of(&lows(samples, file, two), &lows(samples, file, one));
        let p = ratio.map_or(1.0, |r| sign_test(r.rounds.values().copied()));
        limits::row(file, two, *before, *after, p, tolerance)
    }));
    let alone = |name, its: &BTreeSet<(&str, &str, bool)>, other: &BTreeSet<_>| {
        let works = its.difference(other).filter(|(_, file, open)| !of_search(file, *open));
        let works: Vec<&str> = works.map(|(work, _, _)| *work).collect();
        (!works.is_empty()).then(|| format!("works of {name} alone: {}", works.join(", ")))
    };
    let notes = [alone(one, &ones, &twos), alone(two, &twos, &ones), left_out];
    finished(rows, tolerance, notes.into_iter().flatten().collect())
}

/// A row for each figure of a work that both sides have; the first also if they have none.
fn rows(a: &[Side<'_>], b: &[Side<'_>], row: impl Fn(&[Figure]) -> Row) -> Vec<Row> {
    let Some(sample) = b.first().and_then(|side| side.samples().next()) else { return Vec::new() };
    let all = || a.iter().chain(b).flat_map(|side| side.samples());
    let mut rows: Vec<Row> = Vec::new();
    for (at, figures) in Figure::of(&sample.offered).iter().enumerate() {
        let is_measured = figures.iter().any(|figure| all().all(|s| figure.has(s)));
        // Errors have decided all of the work.
        let is_decided = rows.iter().any(|row| row.figure.is_none());
        if at == 0 || (is_measured && !is_decided) {
            rows.push(row(figures));
        }
    }
    rows
}

fn between_runs(a: Side<'_>, b: Side<'_>) -> Vec<Row> {
    let (of_a, of_b) = ([a, a.floor()], [b, b.floor()]);
    rows(&of_a, &of_b, |figures| between(a, b, figures))
}

fn between(a: Side<'_>, b: Side<'_>, figures: &[Figure]) -> Row {
    let mut row = Row::new(b.work, b.contender);
    let Some(figure) = agreed(&mut row, &[a, a.floor()], &[b, b.floor()], figures) else {
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
    let both = |side: Side<'_>, floor: &Rounds| {
        let mut rounds = side.rounds(figure);
        rounds.retain(|round, _| floor.contains_key(round));
        let ratios = Ratio::of(&rounds, floor).map(|r| r.rounds).unwrap_or_default();
        (middle(&rounds), side.independent_logs(&ratios))
    };
    let ((before, one), (after, two)): ((_, Vec<f64>), (_, Vec<f64>)) =
        (both(a, &floor_a), both(b, &floor_b));
    (row.before, row.after) = (before, after);
    let (Some(found), Some(p)) = (shift(&one, &two), shift_p(&one, &two)) else {
        return row.undecided("no round holds both it and the floor, or there are too many");
    };
    let interval = found.interval.map(|(low, high, confidence)| Interval {
        low: low.exp(),
        high: high.exp(),
        confidence,
    });
    row.measured(found.median.exp(), interval, p)
}

fn within_run(one: Side<'_>, two: Side<'_>) -> Vec<Row> {
    rows(&[one], &[two], |figures| within(one, two, figures))
}

fn within(one: Side<'_>, two: Side<'_>, figures: &[Figure]) -> Row {
    let mut row = Row::new(two.work, two.contender);
    let Some(figure) = agreed(&mut row, &[one], &[two], figures) else {
        return row;
    };
    let (mut before, mut after) = (one.rounds(figure), two.rounds(figure));
    before.retain(|round, _| after.contains_key(round));
    after.retain(|round, _| before.contains_key(round));
    (row.before, row.after) = (middle(&before), middle(&after));
    match Ratio::within(&after, &before, &bursts(one.samples())) {
        Some(ratio) => {
            let p = sign_test(two.independent_logs(&ratio.rounds).into_iter().map(f64::exp));
            row.measured(ratio.median, ratio.interval, p)
        }
        None => row.undecided("the two share no round"),
    }
}

/// The first of these figures that both sides have. `None` with the row decided: by errors, or by a
/// missing figure.
fn agreed(row: &mut Row, a: &[Side<'_>], b: &[Side<'_>], figures: &[Figure]) -> Option<Figure> {
    let (before, after) = (*a.first()?, *b.first()?);
    let (failed_before, failed) = (failed_share(before.samples()), failed_share(after.samples()));
    if failed > failed_before + FAILED_GROWN_MAX {
        row.outcome = Outcome::Regressed;
        let share = |share: f64| format!("{:.3} %", share * 100.0);
        row.why = format!("{} of requests fail, {} did", share(failed), share(failed_before));
        return None;
    }
    let sides = || a.iter().chain(b);
    let has = |figure: &Figure| sides().flat_map(|side| side.samples()).all(|s| figure.has(s));
    let figure = figures.iter().copied().find(has)?;
    row.figure = Some(figure);
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
        by_round(self.samples().filter(|s| comparable(s, figure.kind())), |s| figure.value(s))
    }

    /// Logarithms of ratios by round, of slices their means by burst: neighbouring cycles are not
    /// independent, as `shift` and the sign test take their values to be. Beyond `SIDE_MAX` bursts
    /// on a side those beside each other are joined.
    fn independent_logs(self, ratios: &Rounds) -> Vec<f64> {
        let bursts = bursts(self.samples());
        let all = bursts.values().max().map_or(0, |last| *last as usize + 1);
        let joined = u32::try_from(all.div_ceil(SIDE_MAX)).unwrap_or(u32::MAX).max(1);
        let mut groups: BTreeMap<(u32, bool), Vec<f64>> = BTreeMap::new();
        for (round, ratio) in ratios {
            let group = bursts.get(round).map_or((*round, false), |burst| (burst / joined, true));
            groups.entry(group).or_default().push(ratio.ln());
        }
        groups.into_values().map(|logs| logs.iter().sum::<f64>() / logs.len() as f64).collect()
    }

    /// The floor is often as fast as the generator, and still a valid measure of the machine.
    fn floor_rounds(self, figure: Figure) -> Rounds {
        let spoilt =
            |mark: &Mark| matches!(mark, Mark::ForeignCpu | Mark::WrongBytes | Mark::FloorMoved);
        let fit = self.floor().samples().filter(|sample| !sample.marks.iter().any(spoilt));
        by_round(fit, |sample| figure.value(sample))
    }

    fn marks(self) -> String {
        let marks: BTreeSet<String> =
            self.samples().flat_map(|s| &s.marks).map(ToString::to_string).collect();
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
            "{:work$}  {:contender$}  {:11}  {:>12}  {:>12}  {:>6}  {:>16}  {:>5}  outcome",
            "work", "contender", "figure", "before", "after", "ratio", "interval", "p"
        )?;
        for row in &self.rows {
            writeln!(to, "{:work$}  {:contender$}  {row}", row.work, row.contender)?;
        }
        for note in &self.notes {
            writeln!(to, "note: {note}")?;
        }
        writeln!(to, "{} at a tolerance of {:.1} %", self.outcome(), self.tolerance * 100.0)
    }
}

#[cfg(test)]
mod tests;
