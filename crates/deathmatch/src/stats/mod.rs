//! Statistics of all samples. The round is the unit: contenders are compared within it, when the
//! machine was in the same state for all, and rounds with each other. Percentiles come from merged
//! histograms.

pub mod bins;
pub mod cycles;
pub mod duel;
pub mod fit;
pub mod interval;
pub mod judgement;
pub mod ratio;
pub mod regimes;
pub mod saturation;
pub mod shared_core;
pub mod shift;

pub use bins::Bins;
pub use cycles::{BURSTS_MIN, Bursts, CYCLES_MIN, LOOKS_MAX, bursts};
pub use duel::{Duel, Standing, duels};
pub use fit::{Kind, comparable, counts, generator_limited, is_disturbed, is_overload};
pub use interval::{Coverage, exact};
pub use judgement::{Judged, Judgement, NotJudged, factors, percent};
pub use ratio::{Better, Fitness, Interval, Ratio, Rounds, Verdict, fitness, middle};
pub use regimes::Regimes;
pub use saturation::{Rank, Saturation, saturation};
pub use shift::{SIDE_MAX, Shift, shift, shift_p};

use crate::histogram::Times;
use crate::sample::{Load, Mark, Sample};

/// Smaller differences than this share do not count.
pub const MARGIN: f64 = 0.02;

/// Confidence of an interval.
pub const CONFIDENCE: f64 = 0.95;

/// Largest increase of the share of failed requests that is no regression.
pub const FAILED_GROWN_MAX: f64 = 0.0001;

/// Largest deviation of a round's floor from the median of all; beyond it the round is repeated.
pub const FLOOR_OFF_MAX: f64 = 0.05;

/// The rounds whose floor is more than 5 % off its median: the machine's state was different then.
pub fn restless(floor: &Rounds) -> Vec<u32> {
    let Some(median) = middle(floor) else {
        return Vec::new();
    };
    let off = |value: f64| (value / median).ln().abs() > (1.0 + FLOOR_OFF_MAX).ln();
    floor.iter().filter(|(_, value)| off(**value)).map(|(round, _)| *round).collect()
}

/// Merges the times of several samples: percentiles are never averaged.
pub fn merged<'a>(
    samples: impl IntoIterator<Item = &'a Sample>,
    times: impl Fn(&Load) -> &Times,
) -> Times {
    let mut all = Times::default();
    for sample in samples {
        all.merge(times(&sample.load));
    }
    all
}

/// A figure by round; of a repeated round, its last sample. Samples whose figure is not above 0 are
/// left out, since a ratio needs positive values.
pub fn by_round<'a>(
    samples: impl IntoIterator<Item = &'a Sample>,
    figure: impl Fn(&Sample) -> Option<f64>,
) -> Rounds {
    let value = |sample: &Sample| figure(sample).filter(|v| v.is_finite() && *v > 0.0);
    samples.into_iter().filter_map(|sample| Some((sample.round, value(sample)?))).collect()
}

/// Share of requests that failed; 1 for wrong bytes without a count.
pub fn failed_share<'a>(samples: impl IntoIterator<Item = &'a Sample>) -> f64 {
    let (mut failed, mut all) = (0, 0);
    for sample in samples {
        let errors = sample.load.errors.total();
        let wrong = sample.marks.contains(&Mark::WrongBytes);
        failed += if wrong && errors == 0 { sample.load.replies } else { errors };
        all += sample.load.replies + errors;
    }
    if all == 0 { 0.0 } else { failed as f64 / all as f64 }
}

/// Right answers a second.
pub fn replies_per_second(sample: &Sample) -> Option<f64> {
    (sample.load.seconds > 0.0).then(|| sample.load.throughput())
}

/// Times that the server's threads went to sleep, and so were woken, for each right response.
pub fn wake_ups_per_reply(sample: &Sample) -> Option<f64> {
    let server = sample.server.as_ref()?;
    let replies = sample.load.replies;
    (replies > 0).then(|| server.voluntary_switches as f64 / replies as f64)
}

/// Processor time of the server for each right response, in microseconds.
pub fn cpu_us_per_reply(sample: &Sample) -> Option<f64> {
    let server = sample.server.as_ref()?;
    (sample.load.replies > 0).then(|| server.cpu_s * 1e6 / sample.load.replies as f64)
}
