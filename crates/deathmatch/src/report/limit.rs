//! The highest rate each contender carries of each file, and its behaviour at 1.5 times that.

use std::collections::BTreeMap;

use serde::{Deserialize, Serialize};

use super::measure::{Measure, offered, percentile_ms};
use super::numbers::{round, sensible};
use super::pair::{pairs, verdict};
use super::run::Run;
use crate::sample::{Mark, Offered, Sample};
use crate::stats::saturation::places;
use crate::stats::{
    Fitness, Saturation, by_round, counts, is_overload, merged, middle, saturation,
};

/// The limit of one contender.
#[derive(Clone, Debug, PartialEq, Serialize, Deserialize)]
pub struct Limit {
    /// Name of the file that was requested.
    pub file: String,
    /// Name of the contender, as in the samples.
    pub contender: String,
    /// Its place, shared by contenders whose brackets overlap the leader's; `None` for contenders
    /// that are not ranked: the floor, the twin, disqualified ones, and all on an unfit machine,
    /// since a bracket has no interval that would contain its drift.
    pub place: Option<usize>,
    /// Bracket of its limit.
    pub bracket: Saturation,
    /// Its behaviour beyond the bracket, if that was measured.
    pub overload: Option<Overload>,
    /// `true` if a response was wrong.
    pub wrong: bool,
}

/// Behaviour at 1.5 times the rate carried.
#[derive(Clone, Copy, Debug, PartialEq, Serialize, Deserialize)]
pub struct Overload {
    /// Offered requests a second; the median over rounds.
    pub offered: f64,
    /// Right answers a second; likewise.
    pub replies: f64,
    /// Their 99th percentile in milliseconds, over all rounds; `None` without replies.
    pub p99_ms: Option<f64>,
    /// Requests that failed, in per cent.
    pub errors_percent: f64,
}

/// Limits by file, the best first; only files for which a limit was found.
pub fn limits(run: &Run, samples: &[Sample]) -> Vec<Limit> {
    let mut files: Vec<&str> = Vec::new();
    for sample in samples {
        if !files.contains(&sample.file.as_str()) {
            files.push(&sample.file);
        }
    }
    let is_unfit = verdict(&pairs(run, samples)) == Some(Fitness::Unfit);
    let limits = files.into_iter().flat_map(|file| of_file(run, samples, file));
    limits.map(|limit| Limit { place: limit.place.filter(|_| !is_unfit), ..limit }).collect()
}

fn of_file(run: &Run, samples: &[Sample], file: &str) -> Vec<Limit> {
    let mut its: BTreeMap<&str, Vec<&Sample>> = BTreeMap::new();
    for sample in samples.iter().filter(|s| s.file == file && counts(s)) {
        its.entry(&sample.contender).or_default().push(sample);
    }
    let mut limits: Vec<Limit> = its
        .into_iter()
        .filter_map(|(name, samples)| {
            Some(Limit {
                file: file.to_owned(),
                contender: name.to_owned(),
                place: None,
                bracket: saturation(samples.iter().copied())?,
                overload: overload(&samples),
                wrong: samples.iter().any(|s| s.marks.contains(&Mark::WrongBytes)),
            })
        })
        .collect();
    // Without any failure the rates were given, and no limit was searched.
    if limits.iter().all(|l| l.bracket.high.is_none() && !l.bracket.load_limited) {
        return Vec::new();
    }
    let ranked = limits.iter().filter(|l| run.competes(&l.contender) && !l.wrong);
    let ranked = places(&ranked.map(|l| (l.contender.clone(), l.bracket)).collect());
    for rank in &ranked {
        for limit in limits.iter_mut().filter(|l| rank.contenders.contains(&l.contender)) {
            limit.place = Some(rank.place);
        }
    }
    let high = |l: &Limit| l.bracket.high.unwrap_or(f64::INFINITY);
    limits.sort_by(|a, b| {
        let (a_low, b_low) = (a.bracket.low, b.bracket.low);
        a.wrong.cmp(&b.wrong).then(b_low.total_cmp(&a_low)).then(high(b).total_cmp(&high(a)))
    });
    limits
}

/// From one contender's samples; `None` if it was not overloaded.
fn overload(samples: &[&Sample]) -> Option<Overload> {
    let over: Vec<&Sample> = samples.iter().copied().filter(|s| is_overload(s)).collect();
    let rate = |sample: &Sample| match sample.offered {
        Offered::Open { rate, .. } => Some(rate),
        Offered::Sessions { rate, calls } => Some(rate * f64::from(calls)),
        Offered::Closed { .. } => None,
    };
    let failed: u64 = over.iter().map(|s| s.load.errors.total()).sum();
    let all: u64 = over.iter().map(|s| offered(s)).sum();
    let over = || over.iter().copied();
    Some(Overload {
        offered: middle(&by_round(over(), rate))?,
        replies: middle(&by_round(over(), |s| Measure::Replies.of(s))).unwrap_or_default(),
        p99_ms: percentile_ms(&merged(over(), |load| &load.response), 0.99),
        errors_percent: 100.0 * failed as f64 / all.max(1) as f64,
    })
}

/// A bracket in words: `12 500–15 625/s`.
pub(super) fn words(bracket: &Saturation) -> String {
    let limited = if bracket.load_limited { ", load-limited" } else { "" };
    match (bracket.low, bracket.high) {
        (0.0, Some(high)) => format!("<\u{202f}{}/s", rate(high)),
        (0.0, None) => "unknown".to_owned(),
        (low, None) => format!("≥\u{202f}{}/s{limited}", rate(low)),
        (low, Some(high)) => format!("{}–{}/s", rate(low), rate(high)),
    }
}

/// An offered rate; whole if it is large.
pub(super) fn rate(value: f64) -> String {
    if value >= 1e3 { round(value.round()) } else { sensible(value) }
}

#[cfg(test)]
mod tests {
    use super::*;
    use crate::report::invented;

    #[test]
    fn a_bracket_has_words() {
        let bracket = |low, high, load_limited| Saturation { low, high, load_limited };
        let rows = [
            (bracket(12_500.0, Some(15_625.0), false), "12 500–15 625/s"),
            (bracket(64e3, None, true), "≥ 64 000/s, load-limited"),
            (bracket(5e3, None, false), "≥ 5 000/s"),
            (bracket(0.0, Some(312.5), false), "< 312/s"),
            (bracket(0.0, None, true), "unknown"),
        ];
        for (bracket, want) in rows {
            assert_eq!(words(&bracket).replace('\u{202f}', " "), want);
        }
    }

    #[test]
    fn an_unfit_machine_ranks_no_bracket() {
        let (run, mut samples) = invented::full::run();
        assert!(limits(&run, &samples).iter().any(|l| l.place.is_some()));
        let twin = run.twin.clone().unwrap();
        for sample in samples.iter_mut().filter(|s| s.contender == twin) {
            sample.load.replies = sample.load.replies * 11 / 10;
            sample.load.replies_per_second.iter_mut().for_each(|n| *n = *n * 11 / 10);
        }
        let limits = limits(&run, &samples);
        assert!(!limits.is_empty() && limits.iter().all(|l| l.place.is_none()));
    }

    #[test]
    fn a_rate_that_every_contender_carries_is_no_limit() {
        let (run, samples) = invented::full::run();
        let easy = |s: &&Sample| s.work == "10k.png at 10000/s over 50 connections";
        let fast = |s: &&Sample| ["hurtle", "nginx"].contains(&s.contender.as_str());
        let samples: Vec<Sample> = samples.iter().filter(easy).filter(fast).cloned().collect();
        assert!(samples.len() > 10 && limits(&run, &samples).is_empty());
    }

    #[test]
    fn the_full_run_has_a_limit_for_every_contender() {
        let (run, samples) = invented::full::run();
        let limits = limits(&run, &samples);
        let of = |name: &str| limits.iter().find(|l| l.contender == name).unwrap();
        assert!(of("hurtle").bracket.low > of("nginx").bracket.low);
        assert!(of("hurtle").place < of("nginx").place);
        for name in ["floor", "nginx-again", "evil"] {
            assert_eq!(of(name).place, None, "{name} is no competitor, or disqualified");
        }
        assert!(of("evil").wrong);
        assert!(of("floor").bracket.load_limited, "faster than the generator");
        let over = of("apache-event").overload.unwrap();
        assert!(over.offered > 1.4 * of("apache-event").bracket.low, "{over:?}");
        assert!(over.replies < over.offered && over.errors_percent > 0.0, "{over:?}");
        let inets = of("inets");
        assert!(inets.bracket.low == 0.0 && inets.overload.is_none(), "44 ms are always too late");
        assert!(inets.place.is_some(), "it is last, but it competes");
        assert!(of("mochiweb").bracket.low < 5e3, "searched downward");
    }
}
