//! What samples say together. The round is the unit: contenders are compared within it, where the
//! weather was the same for all, and rounds with each other. Percentiles come from merged histograms.

pub mod bins;
pub mod fit;
pub mod interval;
pub mod ratio;
pub mod saturation;
pub mod shift;

pub use bins::Bins;
pub use fit::{comparable, counts, generator_limited, is_overload};
pub use interval::{Coverage, exact};
pub use ratio::{Better, Fitness, Interval, Ratio, Rounds, Verdict, fitness, middle};
pub use saturation::{Rank, Saturation, saturation};
pub use shift::{Shift, shift};

use crate::histogram::Times;
use crate::sample::{Load, Sample};

/// Differences below this share are nobody's victory.
pub const MARGIN: f64 = 0.02;

/// How sure an interval must be.
pub const CONFIDENCE: f64 = 0.95;

/// How far a round's floor may be off the median of all before the round is repeated.
pub const FLOOR_OFF_MAX: f64 = 0.05;

/// The rounds whose floor is more than 5 % off its median: the machine was another one then.
pub fn restless(floor: &Rounds) -> Vec<u32> {
    let Some(median) = middle(floor) else {
        return Vec::new();
    };
    let off = |value: f64| (value / median).ln().abs() > (1.0 + FLOOR_OFF_MAX).ln();
    floor.iter().filter(|(_, value)| off(**value)).map(|(round, _)| *round).collect()
}

/// The times of several samples as of one: percentiles are never averaged.
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

/// A figure by round; where a round was repeated, its last sample stands. Samples for which `figure`
/// has no value above 0 are left out: a ratio has no use for them.
pub fn by_round<'a>(
    samples: impl IntoIterator<Item = &'a Sample>,
    figure: impl Fn(&Sample) -> Option<f64>,
) -> Rounds {
    let value = |sample: &Sample| figure(sample).filter(|v| v.is_finite() && *v > 0.0);
    samples.into_iter().filter_map(|sample| Some((sample.round, value(sample)?))).collect()
}

/// Right answers a second.
pub fn replies_per_second(sample: &Sample) -> Option<f64> {
    (sample.load.seconds > 0.0).then(|| sample.load.throughput())
}

/// Processor time the server used for each right answer, in microseconds.
pub fn cpu_us_per_reply(sample: &Sample) -> Option<f64> {
    let server = sample.server.as_ref()?;
    (sample.load.replies > 0).then(|| server.cpu_s * 1e6 / sample.load.replies as f64)
}
