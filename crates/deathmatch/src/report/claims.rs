//! Claims of the take home: the best by a measure, contenders that share the place, and the worst.

use super::Data;
use super::measure::Measure;
use super::numbers::{listed, sensible};
use super::scale::step_words;
use super::series::{Ladder, Row};
use crate::stats::{Better, Ratio, Verdict, bursts, by_round, comparable};

/// A gap between intervals smaller than this share is no difference.
const SAME_WITHIN: f64 = 0.02;

/// The worst value's multiple of the best is mentioned from here on.
const TIMES_MIN: f64 = 1.1;

/// Words of a sentence on the best and the worst.
pub(super) struct Claim {
    measure: Measure,
    best: &'static str,
    worst: &'static str,
}

pub(super) const MOST: Claim =
    Claim { measure: Measure::Replies, best: "answered most", worst: "fewest" };
pub(super) const CPU: Claim = Claim {
    measure: Measure::CpuPerRequest,
    best: "used the least CPU per request",
    worst: "most",
};
pub(super) const SOONEST: Claim =
    Claim { measure: Measure::P99, best: "had the shortest p99", worst: "longest" };
pub(super) const SMALLEST: Claim =
    Claim { measure: Measure::Resident, best: "kept the least memory", worst: "most" };

/// Sentence on the best at the highest step that all carried.
pub(super) fn best_of_all(data: Data<'_>, ladder: &Ladder<'_>, claim: &Claim) -> Option<String> {
    let step = ladder.common()?;
    let at_step = || ladder.rows.iter().filter(|r| r.x == step);
    let limited = at_step().any(Row::is_limited);
    let is_idle = |r: &Row<'_>| !r.is_limited() && !r.is_saturated();
    let idle = claim.measure == CPU.measure
        && at_step().any(|r| data.run.competes(r.contender) && is_idle(r));
    let note = match ladder.steps.are_rates() {
        true if claim.measure == CPU.measure && all(data, ladder) => {
            ", the highest rate that all carried"
        }
        true if claim.measure == CPU.measure => ", carried by all contenders that carried any rate",
        false if limited && idle => {
            ", of those that the generator did not limit and that had no idle time"
        }
        false if limited => ", of those that the generator did not limit",
        false if idle => ", of those that had no idle time",
        _ => "",
    };
    best(data, ladder, step, note, claim)
}

/// `true` if every contender carried some step.
fn all(data: Data<'_>, ladder: &Ladder<'_>) -> bool {
    ranked(data, ladder).into_iter().all(|name| ladder.of(name).any(Row::is_carried))
}

/// Sentence on the least processor time at the highest rate that the better half carries: one slow
/// contender must not prevent a comparison under load.
pub(super) fn best_of_half(data: Data<'_>, ladder: &Ladder<'_>) -> Option<String> {
    let names = ranked(data, ladder);
    let step = ladder.widely_carried()?;
    if !ladder.steps.are_rates() || ladder.common().is_some_and(|common| common >= step) {
        return None;
    }
    let carried = ladder.carriers(step, &names);
    let dropped = ladder.dropped(step).into_iter().map(|name| data.run.title(name).to_owned());
    let dropped = match dropped.collect::<Vec<_>>() {
        none if none.is_empty() => String::new(),
        some => format!(" (not measured there, having failed lower rates: {})", listed(&some)),
    };
    let note = format!(", which {carried} of {} carried{dropped}", names.len());
    best(data, ladder, step, &note, &CPU)
}

/// Sentence on the best of those that carried a step.
fn best(
    data: Data<'_>,
    ladder: &Ladder<'_>,
    step: f64,
    note: &str,
    claim: &Claim,
) -> Option<String> {
    let fits = |row: &&Row<'_>| match ladder.steps.are_rates() {
        _ if row.is_disturbed() => false,
        true if claim.measure.is_time() => row.is_carried() && !row.is_late(),
        true => row.is_carried(),
        false if row.is_wrong() => false,
        false if row.holds_below_the_limit(claim.measure) => true,
        false if row.is_limited() => false,
        false => claim.measure != Measure::CpuPerRequest || row.is_saturated(),
    };
    let mut rows: Vec<(&Row<'_>, f64)> = ranked(data, ladder)
        .into_iter()
        .filter_map(|name| ladder.at(name, step))
        .filter(fits)
        .filter_map(|row| Some((row, row.middle(claim.measure)?)))
        .collect();
    let more = claim.measure.more_is_better();
    rows.sort_by(|a, b| if more { b.1.total_cmp(&a.1) } else { a.1.total_cmp(&b.1) });
    let [(first, value), .., (last, worst)] = rows[..] else { return None };
    let tied = rows.iter().filter(|(row, _)| is_alike(claim.measure, first, row));
    let title = |row: &Row<'_>| data.run.title(row.contender).to_owned();
    let tied: Vec<String> = tied.map(|(row, _)| title(row)).collect();
    let (at, does) = (step_words(step, ladder.steps.words().2), claim.best);
    if tied.len() == rows.len() {
        let tied = listed(&tied);
        return Some(format!(
            "At {at}{note}, it is too close to call which contender {does}: {tied}."
        ));
    }
    let unit = claim.measure.words().1;
    let floor = ladder.at(&data.run.floor, step).and_then(|r| r.middle(claim.measure));
    let floor = floor.map(|v| format!(" (the floor: {})", sensible(v))).unwrap_or_default();
    let times = worst / value;
    let times = match times >= TIMES_MIN && times.is_finite() {
        true => format!(", {} times that", sensible(times)),
        false => String::new(),
    };
    let close = if tied.len() > 1 { ", too close to call between them" } else { "" };
    let sure = if ratio(claim.measure, first, first).is_some_and(|r| r.interval.is_some()) {
        ""
    } else {
        ", in too few rounds to be sure"
    };
    Some(format!(
        "At {at}{note}, {} {does}: {} {unit}{floor}{close}{sure}; {} the {}: {} {unit}{times}.",
        listed(&tied),
        sensible(value),
        title(last),
        claim.worst,
        sensible(worst),
    ))
}

/// The second row's measure over the first's, within the rounds of both.
fn ratio(measure: Measure, one: &Row<'_>, two: &Row<'_>) -> Option<Ratio> {
    let rounds = |row: &Row<'_>| {
        let fit = row.samples.iter().copied().filter(|s| comparable(s, measure.kind()));
        by_round(fit, |s| measure.of(s))
    };
    let bursts = bursts(one.samples.iter().copied());
    Ratio::within(&rounds(two), &rounds(one), &bursts)
}

/// `true` if two rows cannot be distinguished: by their ratio within rounds, which changes of the
/// machine do not affect; with too few rounds for that, if their figures overlap or nearly do.
fn is_alike(measure: Measure, a: &Row<'_>, b: &Row<'_>) -> bool {
    if let Some(ratio) = ratio(measure, a, b).filter(|r| r.interval.is_some()) {
        return matches!(ratio.verdict(Better::More), Verdict::Equal | Verdict::TooCloseToCall);
    }
    let near = 1.0 + SAME_WITHIN;
    let spreads = a.spread(measure).zip(b.spread(measure));
    spreads.is_some_and(|(a, b)| a.low <= b.high * near && b.low <= a.high * near)
}

/// A ladder's contenders without the floor, and without those disqualified.
pub(super) fn ranked<'a>(data: Data<'_>, ladder: &Ladder<'a>) -> Vec<&'a str> {
    let competes = |name: &&str| data.run.competes(name) && !ladder.of(name).any(Row::is_wrong);
    ladder.contenders().into_iter().filter(competes).collect()
}
