//! The result of a duel at each work: ratios between neighbouring slices of all cycles.

use std::collections::{BTreeMap, BTreeSet};

use serde::{Deserialize, Serialize};

use super::cycles::bursts;
use super::fit::{Kind, comparable, generator_limited};
use super::interval::median;
use super::ratio::{Ratio, Rounds};
use super::regimes::Regimes;
use super::{by_round, cpu_us_per_reply, failed_share, replies_per_second, wake_ups_per_reply};
use crate::sample::{Mark, Offered, Sample};

/// Width of an interval of replies a second, as a multiple of the precision: they depend on all of
/// the machine, processor time on one processor.
const REPLIES_WIDER: f64 = 2.0;

/// A duel at one work.
#[derive(Clone, Debug, Default, PartialEq, Serialize, Deserialize)]
pub struct Duel {
    /// Name of the work within the plan.
    pub work: String,
    /// The contender that ratios refer to.
    pub reference: String,
    /// `true` in a closed loop, whose replies a second are compared.
    #[serde(default)]
    pub is_closed: bool,
    /// Cycles, in which each contender had a slice.
    pub cycles: usize,
    /// Seconds of slices in all.
    pub seconds: f64,
    /// Largest half width of an interval of processor time that was asked for, as a share.
    pub precision: f64,
    /// `true` if every interval is as narrow as that (of replies a second, twice that); otherwise
    /// the budget ended first.
    pub precise: bool,
    /// Share of slices, from 0 to 1, beside which other programs used more than 1 % of the machine.
    pub disturbed: f64,
    /// Share of slices, from 0 to 1, that are left out because another hardware thread of the
    /// server's core was busy.
    #[serde(default)]
    pub shared_core: f64,
    /// Standings by the contenders' names.
    pub contenders: BTreeMap<String, Standing>,
}

/// One contender of a duel.
#[derive(Clone, Debug, Default, PartialEq, Serialize, Deserialize)]
pub struct Standing {
    /// Median of the processor time of a request, in microseconds; `None` for a server elsewhere.
    pub cpu_us: Option<f64>,
    /// Median of the replies a second.
    pub replies_per_s: Option<f64>,
    /// Median of the times a request woke a thread of the server; `None` for a server elsewhere.
    pub wake_ups: Option<f64>,
    /// Median of the instructions of a request; `None` where perf cannot count them.
    pub instructions: Option<f64>,
    /// Median of the processor's cycles of a request likewise.
    pub cycles: Option<f64>,
    /// Ratio of the processor time of a request to the reference's; the reference has none.
    pub cpu: Option<Ratio>,
    /// Ratio of the replies a second likewise, in a closed loop.
    pub replies: Option<Ratio>,
    /// The two values of the ratio of processor time, if it has two regimes.
    pub regimes: Option<Regimes>,
    /// The generator was the limit in most slices of a closed loop: the replies a second are at
    /// least these.
    pub load_limited: bool,
    /// Largest share of a processor (0 to 1) that it used without load between two slices; median.
    pub idle_cpu: Option<f64>,
    /// Failed requests, of all slices.
    pub errors: u64,
    /// Share of all requests that they are, from 0 to 1.
    #[serde(default)]
    pub failed_share: f64,
    /// Reason for which no slice of it is compared with the reference's, as in `the slices of nginx
    /// are marked: Little's law`.
    #[serde(default)]
    pub not_compared: Option<String>,
}

/// The duels of these samples, by work in order of appearance.
pub fn duels(samples: &[Sample], reference: &str, precision: f64) -> Vec<Duel> {
    let mut works: Vec<(&str, Vec<&Sample>)> = Vec::new();
    for sample in samples.iter().filter(|s| s.slice.is_some()) {
        match works.iter_mut().find(|(work, _)| *work == sample.work) {
            Some((_, its)) => its.push(sample),
            None => works.push((&sample.work, vec![sample])),
        }
    }
    works.into_iter().map(|(work, its)| duel(work, &its, reference, precision)).collect()
}

/// `true` if every interval of these slices of one work is narrow enough.
pub fn is_precise(slices: &[&Sample], reference: &str, precision: f64) -> bool {
    let names: BTreeSet<&str> = slices.iter().map(|s| s.contender.as_str()).collect();
    names.into_iter().filter(|name| *name != reference).all(|name| {
        let pair = Pair::of(slices, name, reference);
        let narrow = |ratio: &Option<Ratio>, most: f64| {
            ratio.as_ref().is_none_or(|r| r.precision().is_some_and(|half| half <= most))
        };
        (pair.cpu.is_some() || pair.replies.is_some())
            && narrow(&pair.cpu, precision)
            && narrow(&pair.replies, REPLIES_WIDER * precision)
    })
}

/// The ratios of one contender.
struct Pair {
    cpu: Option<Ratio>,
    replies: Option<Ratio>,
}

impl Pair {
    fn of(slices: &[&Sample], name: &str, reference: &str) -> Pair {
        let bursts = bursts(slices.iter().copied());
        let ratio = |figure: fn(&Sample) -> Option<f64>| {
            let of = |name| rounds(slices, name, figure);
            Ratio::within(&of(name), &of(reference), &bursts)
        };
        let is_closed = is_closed(slices);
        Pair {
            cpu: ratio(cpu_us_per_reply),
            replies: is_closed.then(|| ratio(replies_per_second)).flatten(),
        }
    }
}

fn is_closed(slices: &[&Sample]) -> bool {
    slices.iter().all(|s| matches!(s.offered, Offered::Closed { .. }))
}

/// A figure of a contender by cycle. A generator at its limit spoils the comparison of rates, which
/// the standing says; the processor time of a request is comparable all the same.
fn rounds(slices: &[&Sample], name: &str, figure: fn(&Sample) -> Option<f64>) -> Rounds {
    let its = slices.iter().copied().filter(|s| s.contender == name);
    by_round(its.filter(|s| comparable(s, Kind::Cost)), figure)
}

fn duel(work: &str, slices: &[&Sample], reference: &str, precision: f64) -> Duel {
    let cycles: BTreeSet<u32> = slices.iter().map(|s| s.round).collect();
    let names: BTreeSet<&str> = slices.iter().map(|s| s.contender.as_str()).collect();
    let share = |mark| {
        let marked = slices.iter().filter(|s| s.marks.contains(&mark)).count();
        marked as f64 / slices.len().max(1) as f64
    };
    let standings =
        names.iter().copied().map(|name| (name.to_owned(), standing(slices, name, reference)));
    Duel {
        work: work.to_owned(),
        reference: reference.to_owned(),
        is_closed: is_closed(slices),
        cycles: cycles.len(),
        seconds: slices.iter().map(|s| s.load.seconds).sum(),
        precision,
        precise: names.len() > 1 && is_precise(slices, reference, precision),
        disturbed: share(Mark::ForeignCpu),
        shared_core: share(Mark::SharedCore),
        contenders: standings.collect(),
    }
}

fn standing(slices: &[&Sample], name: &str, reference: &str) -> Standing {
    let own: Vec<&Sample> = slices.iter().copied().filter(|s| s.contender == name).collect();
    let middle = |figure: fn(&Sample) -> Option<f64>| {
        median(&mut own.iter().filter_map(|s| figure(s)).collect::<Vec<_>>())
    };
    let pair = (name != reference).then(|| Pair::of(slices, name, reference));
    let not_compared = pair.as_ref().and_then(|_| not_compared(slices, name, reference));
    let (cpu, replies) = pair.map_or((None, None), |pair| (pair.cpu, pair.replies));
    // At an offered rate there is no limit to find.
    let is_closed = |s: &Sample| matches!(s.offered, Offered::Closed { .. });
    let limited = own.iter().filter(|s| is_closed(s) && generator_limited(s)).count();
    Standing {
        cpu_us: middle(cpu_us_per_reply),
        replies_per_s: middle(replies_per_second),
        wake_ups: middle(wake_ups_per_reply),
        instructions: middle(|s| s.slice?.instructions),
        cycles: middle(|s| s.slice?.cycles),
        regimes: cpu.as_ref().and_then(Ratio::regimes),
        cpu,
        replies,
        load_limited: limited * 2 >= own.len().max(1),
        idle_cpu: middle(|s| s.slice?.idle_cpu),
        errors: own.iter().map(|s| s.load.errors.total()).sum(),
        failed_share: failed_share(own),
        not_compared,
    }
}

/// Reason for which no cycle has slices of both that may be compared; `None`: one has.
fn not_compared(slices: &[&Sample], name: &str, reference: &str) -> Option<String> {
    let cycles = |name: &str| -> BTreeSet<u32> {
        let its = slices.iter().filter(|s| s.contender == name);
        its.filter(|s| comparable(s, Kind::Cost)).map(|s| s.round).collect()
    };
    if let Some(name) = [reference, name].into_iter().find(|name| cycles(name).is_empty()) {
        let its = slices.iter().filter(|s| s.contender == name);
        let marks: BTreeSet<String> = its.flat_map(|s| &s.marks).map(Mark::to_string).collect();
        let marks: Vec<String> = marks.into_iter().collect();
        return Some(match marks.is_empty() {
            true => format!("{name} has no slice"),
            false => format!("the slices of {name} are marked: {}", marks.join(", ")),
        });
    }
    let has_none = cycles(name).is_disjoint(&cycles(reference));
    has_none.then(|| "in each cycle the slice of one of them is marked".to_owned())
}
