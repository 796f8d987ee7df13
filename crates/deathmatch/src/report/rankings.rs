//! Ranks from intervals: a contender's rank is the range of places its interval leaves open, so
//! that contenders with overlapping intervals share ranks.

use super::Data;
use super::csv::marks;
use super::measure::Measure;
use super::numbers::sensible;
use super::run::{Ranking, Standing, Verdict};
use super::series::{Ladder, Row};

/// Remarks on contenders that are not ranked.
const FLOOR: &str = "a floor, not ranked";
const WRONG: &str = "wrong bytes: disqualified";
const DROPPED: &str = "not measured: it failed a lower rate";
pub(super) const FEW: &str = "too few rounds or cycles for an interval";
const LATE: &str = "the generator's lateness exceeds a tenth of the value";

#[derive(Clone, Debug, PartialEq)]
pub(super) struct RankedRow<'a> {
    pub(super) standing: &'a Standing,
    /// The best and the worst rank it may have; `None` where it is not ranked.
    pub(super) ranks: Option<(usize, usize)>,
    /// Its value; empty where there is none.
    pub(super) value: String,
    pub(super) remark: String,
    /// `true`: it has no rank, and could be the best.
    pub(super) is_open: bool,
}

/// Why a contender is not ranked.
#[derive(Debug)]
pub(super) struct Barred {
    pub(super) remark: String,
    /// `true`: it could be the best all the same.
    is_open: bool,
}

impl Barred {
    fn open(remark: impl Into<String>) -> Barred {
        Barred { remark: remark.into(), is_open: true }
    }

    fn out(remark: impl Into<String>) -> Barred {
        Barred { remark: remark.into(), is_open: false }
    }
}

/// A contender without a ratio.
pub(super) struct Unplaced<'a> {
    pub(super) name: &'a str,
    /// Its value; empty where there is none.
    pub(super) value: String,
    pub(super) barred: Barred,
}

/// Places of all contenders, the best first, then those not ranked. One alone has no rank.
pub(super) fn places<'a>(data: Data<'_>, ranking: &'a Ranking) -> Vec<RankedRow<'a>> {
    let barred = |s: &Standing| barred(data, ranking, s);
    let rows = || ranking.rows.iter().filter(|s| data.run.twin.as_ref() != Some(&s.contender));
    let ranked: Vec<&Standing> = rows().filter(|s| barred(s).is_none()).collect();
    let less = !ranking.measure.more_is_better();
    let ahead = |a: &Standing, b: &Standing| {
        let (a, b) = (ends(a), ends(b));
        if less { a.1 < b.0 } else { a.0 > b.1 }
    };
    let mut places: Vec<RankedRow<'a>> = rows()
        .map(|standing| {
            let reason = barred(standing);
            let better = ranked.iter().filter(|other| ahead(other, standing)).count();
            let worse = ranked.iter().filter(|other| ahead(standing, other)).count();
            let is_ranked = reason.is_none() && ranked.len() > 1;
            let ranks = is_ranked.then(|| (better + 1, ranked.len() - worse));
            let row = row(data, ranking, &standing.contender);
            let value = row.and_then(|r| r.middle(ranking.measure)).map(sensible);
            let is_open = reason.as_ref().is_some_and(|reason| reason.is_open);
            let remark = reason.map(|reason| reason.remark);
            let remark = remark.unwrap_or_else(|| verdict(standing, ranking.measure));
            RankedRow { standing, ranks, value: value.unwrap_or_default(), remark, is_open }
        })
        .collect();
    let key = |p: &RankedRow<'_>| if less { p.standing.ratio } else { -p.standing.ratio };
    places
        .sort_by(|a, b| a.ranks.is_none().cmp(&b.ranks.is_none()).then(key(a).total_cmp(&key(b))));
    places
}

/// The interval; of the reference, and where there is none, the ratio alone.
fn ends(standing: &Standing) -> (f64, f64) {
    standing.interval.unwrap_or((standing.ratio, standing.ratio))
}

/// `true` if a contender has no rank that could be the best.
pub(super) fn is_open(data: Data<'_>, ranking: &Ranking) -> bool {
    let mut unplaced = unplaced(data, ranking).filter(|u| data.run.competes(u.name));
    places(data, ranking).iter().any(|place| place.is_open) || unplaced.any(|u| u.barred.is_open)
}

/// Contenders that did a ranking's work and have no ratio, and those that failed lower rates and so
/// did not do it.
pub(super) fn unplaced<'d>(
    data: Data<'d>,
    ranking: &'d Ranking,
) -> impl Iterator<Item = Unplaced<'d>> {
    let x = |l: &Ladder<'_>| l.rows.iter().find(|r| r.work == ranking.work).map(|r| r.x);
    let dropped = ladder(data, ranking).and_then(|l| Some(l.dropped(x(l)?))).unwrap_or_default();
    let dropped = dropped.into_iter().filter(|name| data.run.competes(name));
    let dropped = dropped.map(|name| {
        let barred = Barred::out(DROPPED);
        Unplaced { name, value: String::new(), barred }
    });
    let rows = data.ladders.iter().flat_map(|l| &l.rows).filter(|r| r.work == ranking.work);
    let placed = |name: &str| ranking.rows.iter().any(|s| s.contender == name);
    rows.filter(move |row| !placed(row.contender))
        .map(move |row| {
            let barred = match () {
                () if data.run.is_floor(row.contender) => Barred::out(FLOOR),
                () if row.is_wrong() => Barred::out(WRONG),
                () if ranking.measure.is_time() && row.is_late() => Barred::open(LATE),
                () => match marks(row) {
                    marks if marks.is_empty() => Barred::open("shares no round with the reference"),
                    marks => Barred::open(marks),
                },
            };
            let value = row.middle(ranking.measure).map(sensible).unwrap_or_default();
            Unplaced { name: row.contender, value, barred }
        })
        .chain(dropped)
}

/// `true` for the rankings shown first: closed loops, the highest rate that all carried, and the
/// highest that half of them did.
pub(super) fn is_decisive(data: Data<'_>, ranking: &Ranking) -> bool {
    let Some(ladder) = ladder(data, ranking) else { return true };
    let mut rows = ladder.rows.iter().filter(|row| row.work == ranking.work);
    let steps = [ladder.common(), ladder.widely_carried()];
    !ladder.steps.are_rates() || rows.any(|row| steps.contains(&Some(row.x)))
}

/// Pairs of ranked neighbours whose intervals overlap.
pub(super) fn close_pairs(data: Data<'_>, ranking: &Ranking) -> Vec<(String, String)> {
    let places = places(data, ranking);
    let ranked: Vec<&RankedRow<'_>> = places.iter().filter(|p| p.ranks.is_some()).collect();
    let overlap = |a: (f64, f64), b: (f64, f64)| a.0 <= b.1 && b.0 <= a.1;
    let pairs = ranked.windows(2).filter(|w| overlap(ends(w[0].standing), ends(w[1].standing)));
    let title = |p: &RankedRow<'_>| data.run.title(&p.standing.contender).to_owned();
    pairs.map(|w| (title(w[0]), title(w[1]))).collect()
}

/// The rank as it is shown.
pub(super) fn rank_words(ranks: Option<(usize, usize)>) -> String {
    match ranks {
        None => "–".to_owned(),
        Some((best, worst)) if best == worst => best.to_string(),
        Some((best, worst)) => format!("{best}–{worst}"),
    }
}

/// Reason for which a contender is not ranked, if any.
fn barred(data: Data<'_>, ranking: &Ranking, standing: &Standing) -> Option<Barred> {
    if data.run.is_floor(&standing.contender) {
        return Some(Barred::out(FLOOR));
    }
    let (low, high) = ends(standing);
    if ![standing.ratio, low, high].iter().all(|v| v.is_finite()) {
        return Some(Barred::out("no figure"));
    }
    let row = row(data, ranking, &standing.contender)?;
    if row.is_wrong() {
        return Some(Barred::out(WRONG));
    }
    if row.is_disturbed() {
        return Some(Barred::open("disturbed by other programs in every round"));
    }
    let holds = row.holds_below_the_limit(ranking.measure);
    if row.is_limited() && !holds {
        return Some(Barred::open(match row.middle(Measure::Replies) {
            Some(rate) => format!("≥\u{202f}{}/s, load-limited", sensible(rate)),
            None => "load-limited".to_owned(),
        }));
    }
    if ranking.measure.is_time() && row.is_late() {
        return Some(Barred::open(LATE));
    }
    let ladder = ladder(data, ranking);
    let by_rate = ladder.is_some_and(|l| l.steps.are_rates());
    if by_rate {
        if ranking.measure != Measure::Replies && !row.is_carried() {
            return Some(Barred::out("did not carry the rate"));
        }
    } else if ranking.measure == Measure::CpuPerRequest
        && ladder.is_some()
        && !row.is_saturated()
        && !holds
    {
        return Some(Barred::open("not saturated"));
    }
    let few = standing.interval.is_none() && standing.verdict != Verdict::Reference;
    few.then(|| Barred::open(FEW))
}

/// The verdict in words.
fn verdict(standing: &Standing, measure: Measure) -> String {
    let apart = sensible(100.0 * (standing.ratio - 1.0).abs());
    let word = if standing.ratio < 1.0 { "less" } else { "more" };
    let word = match measure {
        Measure::P50 | Measure::P99 if standing.ratio < 1.0 => "sooner",
        Measure::P50 | Measure::P99 => "later",
        _ => word,
    };
    match standing.verdict {
        Verdict::Reference => "the reference".to_owned(),
        Verdict::Equal => "the same".to_owned(),
        Verdict::TooClose => "too close to call".to_owned(),
        Verdict::Worse | Verdict::Better if standing.ratio >= 2.0 => {
            let word = if standing.verdict == Verdict::Worse { "worse" } else { "better" };
            format!("{word}: {} times that", sensible(standing.ratio))
        }
        Verdict::Better => format!("better: {apart} % {word}"),
        Verdict::Worse => format!("worse: {apart} % {word}"),
    }
}

/// The ladder of a ranking.
fn ladder<'d>(data: Data<'d>, ranking: &Ranking) -> Option<&'d Ladder<'d>> {
    data.ladders.iter().find(|l| l.rows.iter().any(|r| r.work == ranking.work))
}

/// The row of a contender's standing.
fn row<'d>(data: Data<'d>, ranking: &Ranking, contender: &str) -> Option<&'d Row<'d>> {
    let rows = data.ladders.iter().flat_map(|l| &l.rows);
    rows.into_iter().find(|r| r.work == ranking.work && r.contender == contender)
}

#[cfg(test)]
mod tests {
    use super::*;
    use crate::report::beside::Beside;
    use crate::report::invented;
    use crate::report::series::ladders;
    use crate::sample::{Mark, Sample, Slice};

    type Shown = (String, Option<(usize, usize)>, String);

    /// (contender, ranks, remark) of a ranking by CPU, the best first.
    fn shown(samples: &[Sample], rows: &[(&str, f64, f64, f64)]) -> Vec<Shown> {
        let (run, _, _) = invented::run();
        let rows = rows.iter().map(|(name, ratio, low, high)| Standing {
            contender: (*name).to_owned(),
            ratio: *ratio,
            interval: Some((*low, *high)),
            verdict: if *name == "nginx" { Verdict::Reference } else { Verdict::Better },
        });
        let ranking = Ranking {
            work: "10k at 1000/s".to_owned(),
            measure: Measure::CpuPerRequest,
            rows: rows.collect(),
        };
        let (ladders, beside) = (ladders(samples), Beside::of(&run, samples));
        let places =
            places(Data { run: &run, ladders: &ladders, rankings: &[], beside: &beside }, &ranking);
        places.into_iter().map(|p| (p.standing.contender.clone(), p.ranks, p.remark)).collect()
    }

    #[test]
    fn intervals_that_overlap_share_ranks() {
        let rows = [("a", 0.5, 0.45, 0.55), ("b", 0.8, 0.7, 0.9), ("c", 0.85, 0.75, 0.95)];
        let all = [rows[2], ("nginx", 1.0, 1.0, 1.0), rows[0], rows[1]];
        let shown = shown(&[], &all);
        let ranks: Vec<String> = shown.iter().map(|(_, ranks, _)| rank_words(*ranks)).collect();
        assert_eq!(ranks, ["1", "2–3", "2–3", "4"]);
        assert_eq!(shown[3].2, "the reference");
    }

    #[test]
    fn no_interval_no_rank_and_no_bootstrap_in_its_place() {
        let (run, _, _) = invented::run();
        let sample = |name: &str, round| Sample {
            contender: name.into(),
            ..invented::sample(1, round, 1e3)
        };
        let samples: Vec<Sample> =
            (0..3).flat_map(|round| ["nginx", "hurtle"].map(|name| sample(name, round))).collect();
        let rankings = crate::summary::rankings(&samples, "nginx", "floor");
        let (ladders, beside) = (ladders(&samples), Beside::of(&run, &samples));
        let data = Data { run: &run, ladders: &ladders, rankings: &rankings, beside: &beside };
        let places = places(data, &rankings[0]);
        let hurtle = places.iter().find(|p| p.standing.contender == "hurtle").unwrap();
        assert_eq!((hurtle.ranks, hurtle.standing.interval), (None, None));
        assert_eq!(hurtle.remark, FEW);
    }

    #[test]
    fn few_cycles_of_slices_have_no_interval_as_in_the_duels_table() {
        // (cycles or rounds, whether they are slices, whether there is an interval)
        for (rounds, are_slices, has_interval) in
            [(11, false, true), (11, true, false), (12, true, false), (13, true, true)]
        {
            let of = |round| {
                ["nginx", "hurtle"].map(|name| Sample {
                    contender: name.into(),
                    slice: are_slices.then(|| Slice { burst: round / 4, ..Slice::default() }),
                    ..invented::sample(1, round, 1e3)
                })
            };
            let samples: Vec<Sample> = (0..rounds).flat_map(of).collect();
            let rankings = crate::summary::rankings(&samples, "nginx", "floor");
            let hurtle = rankings[0].rows.iter().find(|s| s.contender == "hurtle").unwrap();
            assert_eq!(hurtle.interval.is_some(), has_interval, "{rounds}, {are_slices}");
        }
    }

    #[test]
    fn incomparable_rows_have_no_rank() {
        type Change = fn(&mut Sample);
        let rows: [(Change, &str, &str); 4] = [
            (invented::give_out, "load-limited", "the generator gave out"),
            (|s| s.marks.push(Mark::WrongBytes), "wrong bytes", "other work was done"),
            (|s| s.load.replies /= 2, "did not carry the rate", "unequal load"),
            (|s| s.contender = "other".into(), "better", "nothing is known against it"),
        ];
        for (change, remark, why) in rows {
            let mut sample = invented::sample(1, 0, 1e3);
            change(&mut sample);
            let floor = ("floor", 0.3, 0.2, 0.4);
            let rows = [("hurtle", 0.5, 0.4, 0.6), ("nginx", 1.0, 1.0, 1.0), floor];
            let shown = shown(&[sample], &rows);
            let hurtle = shown.iter().find(|s| s.0 == "hurtle").unwrap();
            assert!(hurtle.2.contains(remark), "{why}: {hurtle:?}");
            assert_eq!(hurtle.1.is_some(), remark == "better", "{why}");
            assert_eq!(
                shown.iter().find(|s| s.0 == "floor").unwrap().1,
                None,
                "the floor has none"
            );
        }
    }
}
