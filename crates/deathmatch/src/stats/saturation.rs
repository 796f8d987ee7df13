//! The highest rate a server carries, over rounds. Each round has found a bracket by rates of its
//! own, and has one vote on every rate.

use std::collections::BTreeMap;

use serde::{Deserialize, Serialize};

use super::fit::{counts, is_missed_by_others, is_overload};
use crate::load::saturation::{RateVerdict, verdict};
use crate::sample::{Offered, Sample};

/// Bracket of the saturation rate, in requests a second.
#[derive(Clone, Copy, Debug, PartialEq, Serialize, Deserialize)]
pub struct Saturation {
    /// The highest rate carried; 0 if none was.
    pub low: f64,
    /// The lowest rate above it that was not carried; `None` if unknown.
    pub high: Option<f64>,
    /// `true` if it is unknown because the generator was the limit, or other programs ran each
    /// time; otherwise no higher rate was offered.
    pub load_limited: bool,
}

/// Verdicts on one rate, or on a round.
#[derive(Clone, Copy, Debug, Default)]
struct Votes {
    carried: u32,
    missed: u32,
    /// Missed, possibly by the generator.
    unknown: u32,
    /// Missed while other programs ran; without another vote that is not known.
    disturbed: u32,
}

/// The bracket of one contender's samples of one file; `None` without open loops at a rate. A rate
/// is carried in a round if it, or a higher one, was carried by most samples there; it is missed if
/// it, or a lower one, was. Over rounds the majority decides. A round that did not reach the rate,
/// or whose generator was the limit, has no vote. Work beside streams does not count, and neither
/// do slices: their cycles are no rounds of a search. So a wrong search in one round has no effect.
pub fn saturation<'a>(samples: impl IntoIterator<Item = &'a Sample>) -> Option<Saturation> {
    let mut rounds: BTreeMap<u32, BTreeMap<u64, Votes>> = BTreeMap::new();
    let is_of_search = |s: &Sample| s.beside.is_none() && s.slice.is_none();
    let speaks = |s: &&Sample| counts(s) && !is_overload(s) && is_of_search(s);
    for sample in samples.into_iter().filter(speaks) {
        let Offered::Open { rate, .. } = sample.offered else { continue };
        // Positive numbers are in the order of their bits.
        let votes = rounds.entry(sample.round).or_default().entry(rate.to_bits()).or_default();
        match verdict(sample) {
            _ if is_missed_by_others(sample) => votes.disturbed += 1,
            RateVerdict::Unknown => votes.unknown += 1,
            RateVerdict::Carried => votes.carried += 1,
            RateVerdict::Overloaded => votes.missed += 1,
        }
    }
    for votes in rounds.values_mut().flat_map(BTreeMap::values_mut) {
        if votes.carried + votes.missed + votes.unknown == 0 {
            votes.unknown = votes.disturbed;
        }
    }
    let brackets: Vec<Saturation> = rounds.values().map(of_a_round).collect();
    let mut rates: Vec<u64> = rounds.values().flat_map(BTreeMap::keys).copied().collect();
    rates.sort_unstable();
    rates.dedup();
    let rates: Vec<f64> = rates.into_iter().map(f64::from_bits).collect();
    over_rounds(&brackets, &rates)
}

/// The bracket of one round: most samples of a rate decide it, ties against the server.
fn of_a_round(rates: &BTreeMap<u64, Votes>) -> Saturation {
    let all = || rates.iter().map(|(bits, votes)| (f64::from_bits(*bits), votes));
    let most = |v: &Votes| 2 * v.carried > v.carried + v.missed + v.unknown;
    let low = all().filter(|(_, v)| most(v)).map(|(rate, _)| rate).fold(0.0, f64::max);
    let mut above = all().filter(|(rate, _)| *rate > low);
    let missed = |v: &Votes| v.missed > v.unknown;
    let high = above.clone().find(|(_, v)| missed(v)).map(|(rate, _)| rate);
    let load_limited = high.is_none() && above.any(|(_, v)| v.unknown > 0);
    Saturation { low, high, load_limited }
}

/// The bracket of all rounds; `None` without rounds.
fn over_rounds(rounds: &[Saturation], rates: &[f64]) -> Option<Saturation> {
    if rounds.is_empty() {
        return None;
    }
    let for_it = |rate: f64| rounds.iter().filter(|r| r.low >= rate).count();
    let against =
        |rate: f64| rounds.iter().filter(|r| r.high.is_some_and(|high| high <= rate)).count();
    let carried = |rate: &f64| for_it(*rate) > against(*rate);
    let low = rates.iter().copied().filter(carried).fold(0.0, f64::max);
    let missed = |rate: &f64| *rate > low && against(*rate) > 0 && !carried(rate);
    // A single round must not end a bracket that the generator's limit left open in most rounds.
    let open = rounds.iter().filter(|r| r.high.is_none()).count();
    let high = rates.iter().copied().find(missed).filter(|_| 2 * open <= rounds.len());
    let load_limited = high.is_none() && rounds.iter().any(|r| r.load_limited);
    Some(Saturation { low, high, load_limited })
}

impl Saturation {
    /// `true` if two cannot be distinguished: some rate may be the limit of both.
    pub fn overlaps(&self, other: &Saturation) -> bool {
        let below = |a: &Saturation, b: &Saturation| b.high.is_none_or(|high| a.low < high);
        below(self, other) && below(other, self)
    }
}

/// A place and its contenders.
#[derive(Clone, Debug, PartialEq, Eq, Serialize, Deserialize)]
pub struct Rank {
    /// The place, from 1; after a group of three the next is 4.
    pub place: usize,
    /// Contenders that hold it, by median, the best (the group's leader) first.
    pub contenders: Vec<String>,
}

/// Places as groups, the best first: each leader's group contains the following contenders whose
/// brackets overlap its own. All are compared with the leader alone, so a chain of near ties cannot
/// join two that differ.
pub fn places(brackets: &BTreeMap<String, Saturation>) -> Vec<Rank> {
    let mut order: Vec<(&String, &Saturation)> = brackets.iter().collect();
    let high = |s: &Saturation| s.high.unwrap_or(f64::INFINITY);
    order.sort_by(|(_, a), (_, b)| b.low.total_cmp(&a.low).then(high(b).total_cmp(&high(a))));
    let mut groups: Vec<Rank> = Vec::new();
    let mut leader: Option<&Saturation> = None;
    for (at, (name, bracket)) in order.into_iter().enumerate() {
        match groups.last_mut() {
            Some(group) if leader.is_some_and(|l| l.overlaps(bracket)) => {
                group.contenders.push(name.clone());
            }
            _ => {
                groups.push(Rank { place: at + 1, contenders: vec![name.clone()] });
                leader = Some(bracket);
            }
        }
    }
    groups
}

#[cfg(test)]
mod tests {
    use super::*;
    use crate::sample::{Load, Mark, Slice};

    /// Verdict on one sample at a rate.
    #[derive(Clone, Copy)]
    enum SampleVerdict {
        Ok,
        Slow,
        Busy,
        BusyOk,
        Late,
    }
    use SampleVerdict::{Busy, BusyOk, Late, Ok as Good, Slow};

    fn sample(round: u32, rate: f64, came: SampleVerdict) -> Sample {
        let mut load = Load { seconds: 1.0, intended: 100, replies: 100, ..Load::default() };
        load.response.record(if matches!(came, Slow | Busy) { 50_000_000 } else { 100_000 });
        let marks = match came {
            Busy | BusyOk => vec![Mark::GeneratorBusy],
            Late => vec![Mark::GeneratorLate],
            Good | Slow => Vec::new(),
        };
        Sample {
            plan: "p".into(),
            round,
            attempt: 0,
            trial: 0,
            probe: false,
            contender: "nginx".into(),
            work: format!("10k at {rate}/s over 50 connections"),
            file: "10k".into(),
            offered: Offered::Open { rate, poisson: false, connections: 50 },
            over: None,
            beside: None,
            cooling: None,
            idle: None,
            network: None,
            herd: None,
            slice: None,
            began_unix_s: 0.0,
            load,
            server: None,
            machine: None,
            marks,
        }
    }

    type Round<'a> = &'a [(f64, SampleVerdict)];

    #[test]
    fn every_round_has_one_vote_on_every_rate() {
        let usual: Round<'_> = &[(10e3, Good), (20e3, Slow), (12.5e3, Slow)];
        let high: Round<'_> = &[(10e3, Good), (20e3, Good), (40e3, Slow), (25e3, Slow)];
        let astray: Round<'_> =
            &[(10e3, Good), (20e3, Good), (40e3, Slow), (25e3, Good), (31.25e3, Slow)];
        let busy: Round<'_> = &[(10e3, Good), (20e3, Good), (40e3, Busy)];
        let unlucky: Round<'_> = &[(10e3, Slow), (5e3, Good), (6.25e3, Slow)];
        let found = |low, high, load_limited| Saturation { low, high, load_limited };
        let rows: [(&[Round<'_>], Saturation, &str); 13] = [
            (&[usual], found(10e3, Some(12.5e3), false), "one round's own bracket"),
            (&[usual, usual, astray], found(10e3, Some(12.5e3), false), "one round went astray up"),
            (&[high, high, unlucky], found(20e3, Some(25e3), false), "one went astray down"),
            (&[busy, busy], found(20e3, None, true), "the generator gave out"),
            (&[busy, busy, high], found(20e3, None, true), "in two rounds of three"),
            (&[busy, high, high], found(20e3, Some(25e3), false), "in one of three"),
            (&[&[(10e3, Good)]], found(10e3, None, false), "nobody asked for more"),
            (&[&[(10e3, Late), (20e3, Slow)]], found(10e3, Some(20e3), false), "late, yet carried"),
            (&[&[(10e3, BusyOk), (20e3, Busy)]], found(10e3, None, true), "busy, yet carried"),
            (&[&[(10e3, Good), (20e3, Slow), (20e3, Busy)]], found(10e3, None, true), "who knows"),
            (&[&[(1e3, Slow)]], found(0.0, Some(1e3), false), "none carried"),
            (
                &[&[(1e3, Good), (2e3, Good), (2e3, Slow), (2e3, Good)]],
                found(2e3, None, false),
                "two of three samples",
            ),
            (
                &[&[(1e3, Good), (2e3, Good), (2e3, Slow)]],
                found(1e3, Some(2e3), false),
                "one of two are not most",
            ),
        ];
        for (rounds, want, why) in rows {
            let samples = (0..).zip(rounds).flat_map(|(n, round)| {
                round.iter().map(move |(rate, came)| sample(n, *rate, *came))
            });
            let mut samples: Vec<Sample> = samples.collect();
            // None of these has a vote.
            samples.push(Sample { probe: true, ..sample(0, 500.0, Slow) });
            samples.push(Sample { marks: vec![Mark::FloorMoved], ..sample(0, 500.0, Slow) });
            let overload = "10k at 1.5 times what it carries".to_owned();
            samples.push(Sample { work: overload, ..sample(0, 900.0, Slow) });
            let slice = |n| Sample { slice: Some(Slice::default()), ..sample(n, 500.0, Good) };
            samples.extend((0..20).map(slice));
            assert_eq!(saturation(&samples), Some(want), "{why}");
        }
        assert_eq!(saturation(&[]), None);
        let closed = Offered::Closed { connections: 50 };
        assert_eq!(saturation(&[Sample { offered: closed, ..sample(0, 1e3, Good) }]), None);
    }

    #[test]
    fn brackets_that_overlap_share_a_place() {
        let bracket = |low, high| Saturation { low, high, load_limited: high.is_none() };
        let field = [
            ("a", bracket(64e3, None)),
            ("b", bracket(80e3, None)),
            ("c", bracket(50e3, Some(62.5e3))),
            ("d", bracket(62.5e3, Some(78e3))),
            ("e", bracket(40e3, Some(51e3))),
            ("f", bracket(32e3, Some(40e3))),
        ];
        let field = field.map(|(name, bracket)| (name.to_owned(), bracket)).into();
        let places: Vec<(usize, String)> =
            places(&field).into_iter().map(|r| (r.place, r.contenders.join(" "))).collect();
        let want = [(1, "b a"), (3, "d"), (4, "c e"), (6, "f")];
        assert_eq!(places, want.map(|(place, names)| (place, names.to_owned())));
    }
}
