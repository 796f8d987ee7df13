//! Facts beside the ladders: the brackets of saturation, the floor probes, the repeated rounds, and
//! the reference's pair.

use std::collections::BTreeMap;

use super::limit::{Limit, limits};
use super::measure::Measure;
use super::numbers::sensible;
use super::pair::{Pair, pairs};
use super::run::Run;
use crate::sample::{Mark, Sample, plan_round};
use crate::stats::{counts, restless};

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
    /// Samples that other programs disturbed.
    pub(super) disturbed: Disturbed,
}

/// Samples beside which other programs ran, of all that count.
#[derive(Clone, Copy, Debug, Default)]
pub(super) struct Disturbed {
    turns: (usize, usize),
    slices: (usize, usize),
}

impl<'a> Beside<'a> {
    pub(super) fn of(run: &Run, samples: &'a [Sample]) -> Beside<'a> {
        let looks: Vec<&Sample> =
            samples.iter().filter(|s| s.probe && s.load.seconds > 0.0).collect();
        let mut repeated = BTreeMap::new();
        for sample in samples.iter().filter(|s| s.marks.contains(&Mark::FloorMoved) && !s.probe) {
            *repeated.entry(plan_round(sample.round)).or_default() += 1;
        }
        let limits = limits(run, samples);
        Beside {
            order: order(run, &limits),
            limits,
            pairs: pairs(run, samples),
            restless: restless_rounds(&looks),
            looks,
            repeated,
            disturbed: Disturbed {
                turns: disturbed(samples.iter().filter(|s| s.slice.is_none())),
                slices: disturbed(samples.iter().filter(|s| s.slice.is_some())),
            },
        }
    }
}

/// Number of samples that other programs disturbed, and of all that count.
pub fn disturbed<'a>(samples: impl IntoIterator<Item = &'a Sample>) -> (usize, usize) {
    let counted: Vec<&Sample> = samples.into_iter().filter(|s| counts(s)).collect();
    (counted.iter().filter(|s| s.marks.contains(&Mark::ForeignCpu)).count(), counted.len())
}

impl Disturbed {
    /// Their share of all, from 0 to 1.
    pub(super) fn share(self) -> f64 {
        let (some, all) = (self.turns.0 + self.slices.0, self.turns.1 + self.slices.1);
        some as f64 / all.max(1) as f64
    }

    /// Their number and use, a sentence for each kind.
    pub(super) fn words(self) -> Vec<String> {
        let words = |(some, all): (usize, usize), what: &str, use_: &str| match (some, all) {
            (_, 0) => None,
            (0, _) => Some(format!("Other programs disturbed none of the {all} {what}.")),
            _ => {
                let percent = sensible(100.0 * some as f64 / all as f64);
                Some(format!(
                    "Other programs ran beside {some} of {all} {what} ({percent} %): {use_}"
                ))
            }
        };
        let left_out = "they are left out, or marked * where a row has no other.";
        let counted = "they count, since all contenders of a cycle had them.";
        let turns = words(self.turns, "samples", left_out);
        turns.into_iter().chain(words(self.slices, "slices", counted)).collect()
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

#[cfg(test)]
mod tests {
    use super::*;
    use crate::report::invented;
    use crate::sample::TURNS_FROM;

    /// Regression: turns at a work that others do in slices told of a round 10,003 beside round 3.
    #[test]
    fn a_repeated_round_is_told_once() {
        let (run, mut samples) = invented::full::run();
        let plainly = Beside::of(&run, &samples).repeated;
        let marked = samples.iter().find(|s| s.marks.contains(&Mark::FloorMoved) && !s.probe);
        let mut turn = marked.unwrap().clone();
        turn.round += TURNS_FROM;
        samples.push(turn);
        let repeated = Beside::of(&run, &samples).repeated;
        assert_eq!(plainly.keys().collect::<Vec<_>>(), [&2]);
        assert_eq!(repeated, BTreeMap::from([(2, plainly[&2] + 1)]));
        let rounds = crate::summary::summary(&run, &samples).repeated_rounds;
        assert_eq!(rounds.into_iter().collect::<Vec<_>>(), [2]);
    }
}
