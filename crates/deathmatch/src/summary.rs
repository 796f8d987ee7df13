//! From samples to what a report shows: who is compared with whom, by which figure, and what the
//! statistics say of it.

use std::collections::BTreeSet;

use crate::report::{Measure, Ranking, Standing, Verdict as Shown};
use crate::sample::{Offered, Sample};
use crate::stats::{self, Better, Ratio, Rounds, Verdict};

/// Figures compared under an offered rate: who carries it is told apart by what it costs.
const AT_A_RATE: [Measure; 2] = [Measure::CpuPerRequest, Measure::P99];

/// Figures compared where everybody goes as fast as he can.
const AS_FAST_AS_POSSIBLE: [Measure; 2] = [Measure::Replies, Measure::CpuPerRequest];

/// Every comparison of a run with its reference; the floor is no competitor.
pub fn rankings(samples: &[Sample], reference: &str, floor: &str) -> Vec<Ranking> {
    let names: BTreeSet<&str> = samples.iter().map(|s| s.contender.as_str()).collect();
    let mut seen = BTreeSet::new();
    let works = samples.iter().filter(|s| seen.insert(s.work.clone()));
    let mut rankings = Vec::new();
    for work in works {
        let measures = match work.offered {
            Offered::Closed { .. } => AS_FAST_AS_POSSIBLE,
            Offered::Open { .. } | Offered::Sessions { .. } => AT_A_RATE,
        };
        for measure in measures {
            let of = |name: &str| stats::rounds(samples, name, &work.work, |s| measure.of(s));
            let base = of(reference);
            let rows: Vec<Standing> = names
                .iter()
                .filter(|name| **name != floor)
                .filter_map(|name| standing(name, &of(name), &base, reference, measure))
                .collect();
            if rows.len() > 1 {
                rankings.push(Ranking { work: work.work.clone(), measure, rows });
            }
        }
    }
    rankings
}

fn standing(
    name: &str,
    figure: &Rounds,
    base: &Rounds,
    reference: &str,
    measure: Measure,
) -> Option<Standing> {
    let ratio = Ratio::of(figure, base)?;
    let better = if measure.more_is_better() { Better::More } else { Better::Less };
    let verdict = match ratio.verdict(better) {
        _ if name == reference => Shown::Reference,
        Verdict::Faster => Shown::Better,
        Verdict::Slower => Shown::Worse,
        Verdict::Equal => Shown::Equal,
        Verdict::TooCloseToCall => Shown::TooClose,
    };
    let (low, high) = ratio.interval.map_or(ratio.bootstrap, |i| (i.low, i.high));
    Some(Standing { contender: name.to_owned(), ratio: ratio.median, low, high, verdict })
}
