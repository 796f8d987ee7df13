//! Fitness of samples for comparisons.

use crate::load::saturation::{RateVerdict, verdict};
use crate::sample::{Mark, Offered, Sample};

/// Suffix of the name of a work whose rate is a multiple of the rate that each contender carries:
/// it differs from contender to contender and from round to round.
pub const OVERLOAD: &str = " times what it carries";

/// `true` if a sample counts: it is no floor probe, and its round was not repeated.
pub fn counts(sample: &Sample) -> bool {
    !sample.probe && !sample.marks.contains(&Mark::FloorMoved)
}

/// `true` if a sample's contender was offered more than it carries, on purpose: it is not compared,
/// since the rate differs between contenders.
pub fn is_overload(sample: &Sample) -> bool {
    sample.work.ends_with(OVERLOAD)
}

/// `true` if the generator, not the server, may have been the limit: it had no time left in a
/// closed loop, or it was late or busy at a rate that was missed. A rate carried all the same
/// counts, as in the search.
pub fn generator_limited(sample: &Sample) -> bool {
    match sample.offered {
        Offered::Closed { .. } => sample.marks.contains(&Mark::GeneratorBusy),
        Offered::Open { .. } | Offered::Sessions { .. } => verdict(sample) == RateVerdict::Unknown,
    }
}

/// `true` if other programs ran beside a sample and its neighbours had them not: it is left out.
/// The neighbours of a slice had them too, and the estimate leaves out the outermost fifths.
pub fn is_disturbed(sample: &Sample) -> bool {
    sample.slice.is_none() && sample.marks.contains(&Mark::ForeignCpu)
}

/// `true` if a rate was missed while other programs ran, so that it is no server's fault.
pub fn is_missed_by_others(sample: &Sample) -> bool {
    is_disturbed(sample) && verdict(sample) == RateVerdict::Overloaded
}

/// Kind of a figure, by the marks that spoil it.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum Kind {
    /// A response time, of which less is better.
    Time,
    /// Replies a second, of which more is better.
    Rate,
    /// Processor time of a request, and all else.
    Cost,
}

/// `true` if a sample may be compared with others of its work by a figure of this kind. The
/// generator's lateness affects times alone, unless it missed the rate. A generator at its limit
/// does not change the cost of a slice's requests.
pub fn comparable(sample: &Sample, kind: Kind) -> bool {
    let is_cost = kind == Kind::Cost && sample.slice.is_some();
    let spoils = |mark: &Mark| match mark {
        Mark::GeneratorLate => kind == Kind::Time,
        Mark::GeneratorBusy => !is_cost,
        Mark::ForeignCpu => is_disturbed(sample),
        _ => true,
    };
    let rate_missed = matches!(sample.offered, Offered::Closed { .. }) || generator_limited(sample);
    let late = sample.marks.contains(&Mark::GeneratorLate) && rate_missed && !is_cost;
    counts(sample) && !is_overload(sample) && !late && !sample.marks.iter().any(spoils)
}

#[cfg(test)]
pub(super) mod tests {
    use super::*;
    use crate::sample::{Load, Slice};

    pub(crate) fn sample(marks: &[Mark], p99_ms: u64) -> Sample {
        let mut load = Load { seconds: 1.0, intended: 1, replies: 1, ..Load::default() };
        load.response.record(p99_ms * 1_000_000);
        Sample {
            plan: "p".into(),
            round: 0,
            attempt: 0,
            trial: 0,
            probe: false,
            contender: "nginx".into(),
            work: "10k at 1000/s".into(),
            file: "10k".into(),
            offered: Offered::Open { rate: 1_000.0, poisson: false, connections: 50 },
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
            marks: marks.to_vec(),
        }
    }

    #[test]
    fn a_mark_excludes_the_measures_it_concerns() {
        let (late, busy) = (Mark::GeneratorLate, Mark::GeneratorBusy);
        let open = |marks: &[Mark], p99_ms| sample(marks, p99_ms);
        let named = |work: &str| Sample { work: work.into(), ..sample(&[], 1) };
        let closed = Sample { offered: Offered::Closed { connections: 50 }, ..sample(&[late], 1) };
        let slice = |sample: Sample| Sample { slice: Some(Slice::default()), ..sample };
        let full = Sample { offered: Offered::Closed { connections: 50 }, ..sample(&[busy], 1) };
        // (counts, by time, by cost, limited by the generator)
        let rows = [
            (open(&[], 1), [true, true, true, false], "nothing against it"),
            (open(&[late], 1), [true, false, true, false], "late, but all came in time"),
            (open(&[late], 20), [true, false, false, true], "late, and the rate was missed"),
            (open(&[], 20), [true, true, true, false], "the server missed it"),
            (open(&[busy], 1), [true, false, false, false], "no time left, yet carried"),
            (open(&[busy], 20), [true, false, false, true], "no time left, and missed"),
            (open(&[Mark::ForeignCpu], 1), [true, false, false, false], "a neighbour"),
            (
                slice(open(&[Mark::ForeignCpu], 1)),
                [true, true, true, false],
                "a neighbour of a whole cycle",
            ),
            (
                slice(open(&[Mark::SharedCore], 1)),
                [true, false, false, false],
                "the server had half of a core",
            ),
            (full.clone(), [true, false, false, true], "no time left in a closed loop"),
            (slice(full.clone()), [true, false, true, true], "a request costs the same"),
            (open(&[Mark::FloorMoved], 1), [false; 4], "another machine"),
            (Sample { probe: true, ..open(&[], 1) }, [false; 4], "a look at the floor"),
            (named("10k at 1.5 times what it carries"), [true, false, false, false], "overload"),
            (closed, [true, false, false, false], "a closed loop is never late"),
        ];
        for (sample, want, why) in rows {
            let (by_time, else_) =
                (comparable(&sample, Kind::Time), comparable(&sample, Kind::Cost));
            let found = [counts(&sample), by_time, else_, generator_limited(&sample)];
            assert_eq!(found, want, "{why}");
        }
        assert!(!comparable(&slice(full), Kind::Rate), "the rate is the generator's");
    }
}
