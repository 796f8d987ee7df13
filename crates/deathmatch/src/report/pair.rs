//! The reference against itself: the machine cannot show differences smaller than this one.

use serde::{Deserialize, Serialize};

use super::measure::Measure;
use super::numbers::round;
use super::rankings::FEW;
use super::run::Run;
use crate::sample::{Offered, Sample};
use crate::stats::{Fitness, MARGIN, Ratio, bursts, by_round, comparable, fitness};

/// Measures by which the pair is judged in closed loops.
const JUDGED_BY: &[Measure] = &[Measure::Replies, Measure::CpuPerRequest];

/// Measures at a given rate, at which all answer as many requests.
const JUDGED_BY_AT_A_RATE: &[Measure] = &[Measure::CpuPerRequest];

/// The twin's ratio to the reference at one work.
#[derive(Clone, Debug, PartialEq, Serialize, Deserialize)]
pub struct Pair {
    /// Name of the work, as in the samples.
    pub work: String,
    /// The measure by which both are compared.
    pub measure: Measure,
    /// The twin's figure over the reference's.
    pub ratio: Ratio,
    /// Judgement on the machine.
    pub fitness: Fitness,
}

/// The pair at each closed loop or, in a run without any, at each rate; none if the run has no
/// twin.
pub fn pairs(run: &Run, samples: &[Sample]) -> Vec<Pair> {
    let Some(twin) = run.second() else { return Vec::new() };
    let is_closed = |s: &&Sample| matches!(s.offered, Offered::Closed { .. });
    let its = || samples.iter().filter(|s| s.contender == twin && !s.probe);
    let has_closed = its().any(|s| is_closed(&s));
    let judged_by = if has_closed { JUDGED_BY } else { JUDGED_BY_AT_A_RATE };
    let mut works: Vec<&str> = Vec::new();
    for sample in its().filter(|s| !has_closed || is_closed(s)) {
        if !works.contains(&sample.work.as_str()) {
            works.push(&sample.work);
        }
    }
    let of = |work: &str, measure: Measure| {
        let rounds = |name: &str| {
            let its = samples.iter().filter(|s| s.contender == name && s.work == work);
            by_round(its.filter(|s| comparable(s, measure.kind())), |s| measure.of(s))
        };
        let bursts = bursts(samples.iter().filter(|s| s.work == work));
        let ratio = Ratio::within(&rounds(twin), &rounds(&run.reference), &bursts)?;
        Some(Pair { work: work.to_owned(), measure, fitness: fitness(&ratio), ratio })
    };
    works
        .into_iter()
        .flat_map(|work| judged_by.iter().filter_map(move |measure| of(work, *measure)))
        .collect()
}

/// The worst of them; `None` without pairs.
pub fn verdict(pairs: &[Pair]) -> Option<Fitness> {
    pairs.iter().map(|pair| pair.fitness).max()
}

/// Judgement on the machine in a few words, with the widest of the pairs that decide it.
pub(super) fn short(run: &Run, pairs: &[Pair]) -> String {
    let Some(fitness) = verdict(pairs) else {
        return "unknown: no contender ran twice, so the smallest difference that it can show is not \
                known."
            .to_owned();
    };
    let width = |pair: &&Pair| pair.ratio.interval.map_or(f64::MAX, |i| (i.high / i.low).ln());
    let deciding = pairs.iter().filter(|pair| pair.fitness == fitness);
    let widest = deciding.max_by(|a, b| width(a).total_cmp(&width(b)));
    let seen = widest.map(|pair| {
        let (measure, work) = (pair.measure.in_a_sentence(), &pair.work);
        let name = run.title(&run.reference);
        format!("{name} against itself: {} in {measure} ({work})", ends(&pair.ratio))
    });
    let word = match fitness {
        Fitness::Fit => "fit",
        Fitness::Coarse => "coarse: small differences are not reliable",
        Fitness::Unfit => "unfit: no small difference means anything",
    };
    format!("{word}. {}.", seen.unwrap_or_default())
}

fn ends(ratio: &Ratio) -> String {
    match ratio.interval {
        Some(i) => format!("{} ({}–{})", three(ratio.median), three(i.low), three(i.high)),
        None => format!("{} ({FEW})", three(ratio.median)),
    }
}

/// Judgement on the machine, as a sentence; `None` where the run has no twin.
pub(super) fn sentence(run: &Run, pairs: &[Pair]) -> Option<String> {
    run.second()?;
    let name = run.title(&run.reference);
    let Some(verdict) = verdict(pairs) else {
        return Some(format!(
            "{name} should have run a second time, to show the smallest difference this machine can \
             measure; there is no pair to compare, so that is unknown."
        ));
    };
    let seen = pairs.iter().map(|pair| {
        format!("{} {} ({})", pair.measure.in_a_sentence(), ends(&pair.ratio), pair.work)
    });
    let margin = round(100.0 * MARGIN);
    let means = match verdict {
        Fitness::Fit => format!(
            "fit: the two are equal within {margin}\u{202f}%, so differences beyond that are real"
        ),
        Fitness::Coarse => format!(
            "coarse: the two look equal, but not surely within {margin}\u{202f}%, so small \
             differences of this run are not reliable"
        ),
        Fitness::Unfit => format!(
            "unfit: the same server is more than {margin}\u{202f}% apart from itself, so no small \
             difference of this run means anything"
        ),
    };
    let seen: Vec<String> = seen.collect();
    Some(format!(
        "{name} ran a second time against itself; {}. The machine was {means}.",
        seen.join("; ")
    ))
}

/// A ratio with three decimal places.
fn three(ratio: f64) -> String {
    format!("{ratio:.3}")
}

#[cfg(test)]
mod tests {
    use super::*;
    use crate::report::invented;

    #[test]
    fn the_same_server_twice_judges_the_machine() {
        let (mut run, all, _) = invented::run();
        run.twin = Some("twin".into());
        let closed = |s: &&Sample| s.contender == "nginx" && s.work.contains("connections");
        let mut one: Vec<Sample> = all.iter().filter(closed).take(1).cloned().collect();
        one[0].marks.clear();
        // The reference's replies, and multiples of them for the twin, in each of six rounds.
        let with = |factors: [f64; 6], offered: Offered| -> Vec<Sample> {
            let twin = |(round, factor): (u32, f64)| {
                let mut pair = [one[0].clone(), one[0].clone()];
                pair.iter_mut().for_each(|sample| sample.offered = offered);
                pair[1].contender = "twin".into();
                pair[1].load.replies = (pair[0].load.replies as f64 * factor) as u64;
                pair.map(|sample| Sample { round, ..sample })
            };
            (0..).zip(factors).flat_map(twin).collect()
        };
        let rows = [
            ([1.0, 1.001, 0.999, 1.002, 1.0, 1.001], Some(Fitness::Fit), "was fit"),
            ([1.0, 1.05, 0.95, 1.002, 1.0, 1.001], Some(Fitness::Coarse), "was coarse"),
            ([1.04; 6], Some(Fitness::Unfit), "was unfit"),
        ];
        for (factors, want, words) in rows {
            // By replies and processor time; by processor time alone if all answer as many
            // requests.
            let open = Offered::Open { rate: 1_000.0, poisson: false, connections: 50 };
            for (offered, measures) in [(one[0].offered, 2), (open, 1)] {
                let pairs = pairs(&run, &with(factors, offered));
                assert_eq!((pairs.len(), verdict(&pairs)), (measures, want), "{factors:?}");
                assert!(sentence(&run, &pairs).unwrap().contains(words), "{factors:?}");
            }
        }
        // A wide pair that is only coarse, and a narrow one that decides.
        let mut both = with([1.0, 1.3, 0.7, 1.002, 1.0, 1.001], one[0].offered);
        let narrow = with([1.04; 6], one[0].offered);
        both.extend(narrow.into_iter().map(|s| Sample { work: "narrow".into(), ..s }));
        let said = short(&run, &pairs(&run, &both));
        assert!(said.starts_with("unfit") && said.contains("(narrow)"), "{said}");
        assert!(sentence(&run, &[]).unwrap().contains("that is unknown"));
        run.twin = None;
        let samples = with([1.0; 6], one[0].offered);
        assert_eq!((pairs(&run, &samples), sentence(&run, &[])), (Vec::new(), None));
    }
}
