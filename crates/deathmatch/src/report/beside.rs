//! Facts beside the ladders: the brackets of saturation, the floor probes, the repeated rounds, and
//! the reference's pair.

use std::collections::BTreeMap;

use super::limit::{Limit, limits};
use super::measure::Measure;
use super::numbers::sensible;
use super::pair::{Pair, pairs};
use super::run::Run;
use crate::sample::{Mark, Sample};
use crate::stats::{counts, restless};

/// All of it.
#[derive(Clone, Debug, Default)]
pub(super) struct Beside<'a> {
    pub(super) limits: Vec<Limit>,
    pub(super) pairs: Vec<Pair>,
    pub(super) looks: Vec<&'a Sample>,
    /// Rounds, from 0, with the number of samples set aside.
    pub(super) repeated: BTreeMap<u32, usize>,
    /// Contenders in the order in which they get colours: contenders that are ahead, and whose
    /// lines are close for longest, get the most different ones.
    pub(super) order: Vec<String>,
    /// Rounds, from 0, that count although their floor was too far off.
    pub(super) restless: Vec<u32>,
    /// Samples that other programs disturbed, and all that count.
    pub(super) disturbed: (usize, usize),
}

impl<'a> Beside<'a> {
    pub(super) fn of(run: &Run, samples: &'a [Sample]) -> Beside<'a> {
        let looks: Vec<&Sample> =
            samples.iter().filter(|s| s.probe && s.load.seconds > 0.0).collect();
        let mut repeated = BTreeMap::new();
        for sample in samples.iter().filter(|s| s.marks.contains(&Mark::FloorMoved) && !s.probe) {
            *repeated.entry(sample.round).or_default() += 1;
        }
        let limits = limits(run, samples);
        Beside {
            order: order(run, &limits),
            limits,
            pairs: pairs(run, samples),
            restless: restless_rounds(&looks),
            looks,
            repeated,
            disturbed: disturbed(samples),
        }
    }
}

/// Number of samples that other programs disturbed, and of all that count.
pub fn disturbed(samples: &[Sample]) -> (usize, usize) {
    let counted = || samples.iter().filter(|s| counts(s));
    (counted().filter(|s| s.marks.contains(&Mark::ForeignCpu)).count(), counted().count())
}

/// Their share, as a sentence; `None` without samples.
pub(super) fn disturbed_words((disturbed, all): (usize, usize)) -> Option<String> {
    let percent = 100.0 * disturbed as f64 / all as f64;
    match (disturbed, all) {
        (_, 0) => None,
        (0, _) => Some(format!("Other programs disturbed none of the {all} samples.")),
        _ => Some(format!(
            "Other programs disturbed {disturbed} of {all} samples ({} %): they are left out, or \
             marked * where a row has no other.",
            sensible(percent)
        )),
    }
}

/// The reference, then contenders by limits, then in the run's order.
fn order(run: &Run, limits: &[Limit]) -> Vec<String> {
    let found = limits.iter().map(|l| &l.contender);
    let all =
        [&run.reference].into_iter().chain(found).chain(run.contenders.iter().map(|c| &c.name));
    let mut order: Vec<String> = Vec::new();
    for name in all.filter(|name| run.competes(name)) {
        if !order.contains(name) && run.contenders.iter().any(|c| c.name == *name) {
            order.push(name.clone());
        }
    }
    order
}

/// Rounds that count and whose floor was too far off, by the mean of the probes before and after
/// each, as the run decides which round to repeat.
fn restless_rounds(looks: &[&Sample]) -> Vec<u32> {
    let mut by_round: BTreeMap<u32, Vec<f64>> = BTreeMap::new();
    for sample in looks.iter().filter(|s| !s.marks.contains(&Mark::FloorMoved)) {
        by_round.entry(sample.round).or_default().extend(Measure::Replies.of(sample));
    }
    let mean = |values: Vec<f64>| values.iter().sum::<f64>() / values.len().max(1) as f64;
    restless(&by_round.into_iter().map(|(round, values)| (round, mean(values))).collect())
}
