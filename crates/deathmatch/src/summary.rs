//! The summary of a run: comparisons with the reference, their statistics, and all figures as one
//! value for programs.

use std::collections::{BTreeMap, BTreeSet};

use serde::{Deserialize, Serialize};

use crate::report::{self, Limit, Measure, Pair, Ranking, Run, Standing, Verdict as ReportVerdict};
use crate::sample::{ConnectionUse, Handshakes, Mark, Offered, Sample, plan_round};
use crate::stats::{
    self, Better, Bursts, Fitness, Judged, Ratio, Rounds, Verdict, bursts, by_round, comparable,
    counts, is_disturbed, is_overload,
};

/// Figures compared at an offered rate: servers that carry it differ by cost.
const AT_A_RATE: [Measure; 2] = [Measure::CpuPerRequest, Measure::P99];

/// Figures compared in closed loops.
const AS_FAST_AS_POSSIBLE: [Measure; 2] = [Measure::Replies, Measure::CpuPerRequest];

/// A whole run's result, for programs.
#[derive(Clone, Debug, PartialEq, Serialize, Deserialize)]
pub struct Summary {
    /// Name of the plan that was run.
    pub plan: String,
    /// Seed of the order of contenders.
    pub seed: u64,
    /// Number of rounds that the plan asks for.
    pub rounds: u32,
    /// The contender that ratios refer to.
    pub reference: String,
    /// The contender that is not ranked.
    pub floor: String,
    /// Judgement on the reference beside the others, if it was the question.
    #[serde(default)]
    pub judged: Option<Judged>,
    /// Judgement on the machine by the reference against itself; `None` where it did not run twice.
    pub fitness: Option<Fitness>,
    /// The pair it is judged by.
    pub pairs: Vec<Pair>,
    /// Samples that other programs disturbed, and all that count.
    pub disturbed: (usize, usize),
    /// Rounds, from 0, that were measured again because the floor had moved.
    pub repeated_rounds: BTreeSet<u32>,
    /// Contenders that did not run, or not to the end, with reasons.
    pub absent: BTreeMap<String, String>,
    /// Brackets of all limits, by file, the best first.
    pub limits: Vec<Limit>,
    /// All works except overload, which `limits` contains.
    pub works: Vec<WorkSummary>,
}

/// All contenders at one work of the plan.
#[derive(Clone, Debug, PartialEq, Serialize, Deserialize)]
pub struct WorkSummary {
    /// Name of the work within the plan.
    pub work: String,
    /// Name of the file that is requested.
    pub file: String,
    /// The load that each contender was offered.
    pub offered: Offered,
    /// Special use of connections.
    #[serde(default)]
    pub over: Option<ConnectionUse>,
    /// Figures of the contenders by their names.
    pub contenders: BTreeMap<String, Figures>,
}

/// One contender at one work.
#[derive(Clone, Debug, Default, PartialEq, Serialize, Deserialize)]
pub struct Figures {
    /// Number of samples that the figures are made of.
    pub samples: usize,
    /// Number of rounds by mark.
    pub marks: BTreeMap<String, usize>,
    /// Handshakes of TLS, over all of these samples.
    #[serde(default)]
    pub handshakes: Handshakes,
    /// Medians over rounds, without samples that other programs disturbed unless all are;
    /// percentiles of all rounds' times together.
    pub medians: BTreeMap<Measure, f64>,
    /// Ratios to the reference with verdicts, from comparable samples; the floor has none.
    pub ratios: BTreeMap<Measure, Compared>,
}

/// A ratio to the reference.
#[derive(Clone, Debug, PartialEq, Serialize, Deserialize)]
pub struct Compared {
    /// The ratio, its interval, and each round's.
    pub ratio: Ratio,
    /// Verdict on the ratio, from its interval.
    pub verdict: ReportVerdict,
}

/// Summarises a run for programs.
pub fn summary(run: &Run, samples: &[Sample]) -> Summary {
    let pairs = report::pairs(run, samples);
    let moved = samples.iter().filter(|s| s.marks.contains(&Mark::FloorMoved));
    let absent = run.contenders.iter().filter_map(|c| Some((c.name.clone(), c.absent.clone()?)));
    Summary {
        plan: run.plan.clone(),
        seed: run.seed,
        rounds: run.rounds,
        reference: run.reference.clone(),
        floor: run.floor.clone(),
        judged: run.judged.clone(),
        fitness: report::verdict(&pairs),
        pairs,
        disturbed: report::disturbed(samples),
        repeated_rounds: moved.map(|s| plan_round(s.round)).collect(),
        absent: absent.collect(),
        limits: report::limits(run, samples),
        works: works(samples).into_iter().map(|work| work_summary(run, samples, work)).collect(),
    }
}

/// All comparisons of a run with its reference; the floor is not compared.
pub fn rankings(samples: &[Sample], reference: &str, floor: &str) -> Vec<Ranking> {
    let names: BTreeSet<&str> = samples.iter().map(|s| s.contender.as_str()).collect();
    let mut rankings = Vec::new();
    for work in works(samples) {
        for measure in compared_by(&work.offered) {
            let base = rounds(samples, reference, &work.work, *measure);
            let bursts = bursts(samples.iter().filter(|s| s.work == work.work));
            let rows: Vec<Standing> = names
                .iter()
                .filter(|name| **name != floor)
                .filter_map(|name| {
                    let figure = rounds(samples, name, &work.work, *measure);
                    let compared = compared(&figure, &base, &bursts, *measure, *name == reference)?;
                    Some(standing(name, &compared))
                })
                .collect();
            if rows.len() > 1 {
                rankings.push(Ranking { work: work.work.clone(), measure: *measure, rows });
            }
        }
    }
    rankings
}

/// A sample of each work at which contenders can be compared, in order of first appearance.
fn works(samples: &[Sample]) -> Vec<&Sample> {
    let mut seen = BTreeSet::new();
    let fit = samples.iter().filter(|s| counts(s) && !is_overload(s));
    fit.filter(|s| seen.insert(s.work.as_str())).collect()
}

fn compared_by(offered: &Offered) -> &'static [Measure] {
    match offered {
        Offered::Closed { .. } => &AS_FAST_AS_POSSIBLE,
        Offered::Open { .. } | Offered::Sessions { .. } => &AT_A_RATE,
    }
}

/// A contender's figure by round, from samples that may be compared by it.
fn rounds(samples: &[Sample], name: &str, work: &str, measure: Measure) -> Rounds {
    let its = samples.iter().filter(|s| s.contender == name && s.work == work);
    by_round(its.filter(|s| comparable(s, measure.kind())), |s| measure.of(s))
}

fn work_summary(run: &Run, samples: &[Sample], work: &Sample) -> WorkSummary {
    let mut its: BTreeMap<&str, Vec<&Sample>> = BTreeMap::new();
    for sample in samples.iter().filter(|s| s.work == work.work && counts(s)) {
        its.entry(&sample.contender).or_default().push(sample);
    }
    let bursts = bursts(samples.iter().filter(|s| s.work == work.work));
    let contenders = its.into_iter().map(|(name, its)| {
        let ratios = compared_by(&work.offered).iter().filter_map(|measure| {
            let of = |name: &str| rounds(samples, name, &work.work, *measure);
            let own = name == run.reference;
            let base = of(&run.reference);
            Some((*measure, compared(&of(name), &base, &bursts, *measure, own)?))
        });
        let ratios = ratios.filter(|_| name != run.floor).collect();
        (name.to_owned(), Figures { ratios, ..figures(&its) })
    });
    WorkSummary {
        work: work.work.clone(),
        file: work.file.clone(),
        offered: work.offered,
        over: work.over,
        contenders: contenders.collect(),
    }
}

/// The figures of a contender at a work, without `ratios`.
fn figures(samples: &[&Sample]) -> Figures {
    let mut figures = Figures { samples: samples.len(), ..Figures::default() };
    for mark in samples.iter().flat_map(|s| &s.marks) {
        // The name as written in the samples.
        let name = serde_json::to_value(mark).ok().and_then(|v| v.as_str().map(str::to_owned));
        *figures.marks.entry(name.unwrap_or_default()).or_default() += 1;
    }
    for Handshakes { full, resumed } in samples.iter().map(|s| s.load.handshakes) {
        figures.handshakes.full += full;
        figures.handshakes.resumed += resumed;
    }
    let mut fit: Vec<&Sample> = samples.iter().copied().filter(|s| !is_disturbed(s)).collect();
    if fit.is_empty() {
        fit = samples.to_vec();
    }
    let samples = fit;
    let times = stats::merged(samples.iter().copied(), |load| &load.response);
    for measure in Measure::ALL {
        let share = if measure == Measure::P50 { 0.5 } else { 0.99 };
        let mut values: Vec<f64> = samples.iter().filter_map(|s| measure.of(s)).collect();
        let median = match measure.is_time() {
            true => (times.count() > 0).then(|| times.quantile(share) as f64 / 1e6),
            false => stats::interval::median(&mut values),
        };
        figures.medians.extend(median.map(|median| (measure, median)));
    }
    figures
}

/// Verdict on a figure beside the reference's, at a work with these bursts; `None` where they share
/// no round.
fn compared(
    figure: &Rounds,
    base: &Rounds,
    bursts: &Bursts,
    measure: Measure,
    own: bool,
) -> Option<Compared> {
    let ratio = Ratio::within(figure, base, bursts)?;
    let better = if measure.more_is_better() { Better::More } else { Better::Less };
    let verdict = match ratio.verdict(better) {
        _ if own => ReportVerdict::Reference,
        Verdict::Faster => ReportVerdict::Better,
        Verdict::Slower => ReportVerdict::Worse,
        Verdict::Equal => ReportVerdict::Equal,
        Verdict::TooCloseToCall => ReportVerdict::TooClose,
    };
    Some(Compared { ratio, verdict })
}

fn standing(name: &str, compared: &Compared) -> Standing {
    let ratio = &compared.ratio;
    Standing {
        contender: name.to_owned(),
        ratio: ratio.median,
        interval: ratio.interval.map(|i| (i.low, i.high)),
        verdict: compared.verdict,
    }
}

#[cfg(test)]
mod tests {
    use super::*;
    use crate::report::invented;

    #[test]
    fn a_whole_run_is_one_value_for_programs() {
        let (run, samples) = invented::full::run();
        let found = summary(&run, &samples);
        let text = serde_json::to_string(&found).unwrap();
        assert_eq!(serde_json::from_str::<Summary>(&text).unwrap().works.len(), found.works.len());
        for part in ["\"verdict\":\"better\"", "\"cpu_per_request\"", "\"load_limited\":true"] {
            assert!(text.contains(part), "{part} is not in it");
        }
        assert_eq!(found.fitness, Some(Fitness::Fit));
        assert_eq!(found.repeated_rounds.into_iter().collect::<Vec<_>>(), [2]);
        assert!(found.absent.contains_key("mongrel") && found.absent.contains_key("swazoo"));
        let names: Vec<&str> = found.works.iter().map(|w| w.work.as_str()).collect();
        assert!(names.contains(&"10k.png at 5000/s, 10 calls a connection"), "{names:?}");
        assert!(!names.iter().any(|n| n.starts_with("floor") || n.contains("times what")));
        let closed = found.works.iter().find(|w| w.work.contains("as fast")).unwrap();
        let nginx = &closed.contenders["nginx"];
        assert_eq!(nginx.samples, 6, "the repeated round counts once");
        assert_eq!(nginx.ratios[&Measure::Replies].verdict, ReportVerdict::Reference);
        assert!(closed.contenders["floor"].ratios.is_empty(), "the floor is not compared");
        assert_eq!(closed.contenders["evil"].marks["wrong_bytes"], 6);
        let at_5k = found.works.iter().find(|w| w.work.contains("5000/s, 10 calls")).unwrap();
        let swift = &at_5k.contenders["swift"].ratios;
        assert!(!swift.contains_key(&Measure::P99), "the generator's lateness spoils times");
        assert!(swift.contains_key(&Measure::CpuPerRequest), "and times alone");
    }
}
