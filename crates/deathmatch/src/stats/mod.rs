//! What samples say together. The round is the unit: contenders are compared within it, where the
//! weather was the same for all, and rounds with each other. Percentiles come from merged histograms.

pub mod bins;
pub mod interval;
pub mod ranks;
pub mod ratio;
pub mod shift;

pub use bins::Bins;
pub use interval::{Coverage, exact};
pub use ranks::{Rank, ranks};
pub use ratio::{Better, Fitness, Interval, Ratio, Rounds, Verdict, fitness};

use crate::histogram::Times;
use crate::sample::{Load, Sample};

/// Differences below this share are nobody's victory.
pub const MARGIN: f64 = 0.02;

/// How sure an interval must be.
pub const CONFIDENCE: f64 = 0.95;

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

/// A contender's figure in each round of one piece of work. Marked samples are left out; where a round
/// was repeated, the last one stands. Samples for which `figure` has no value above 0 are left out too:
/// a ratio has no use for them.
pub fn rounds<'a>(
    samples: impl IntoIterator<Item = &'a Sample>,
    contender: &str,
    work: &str,
    figure: impl Fn(&Sample) -> Option<f64>,
) -> Rounds {
    let mut rounds = Rounds::new();
    for sample in samples {
        if sample.contender != contender || sample.work != work || !sample.marks.is_empty() {
            continue;
        }
        if let Some(value) = figure(sample).filter(|value| value.is_finite() && *value > 0.0) {
            rounds.insert(sample.round, value);
        }
    }
    rounds
}

/// Right answers a second.
pub fn replies_per_second(sample: &Sample) -> Option<f64> {
    (sample.load.seconds > 0.0).then(|| sample.load.replies as f64 / sample.load.seconds)
}

/// Processor time the server used for each right answer, in microseconds.
pub fn cpu_us_per_reply(sample: &Sample) -> Option<f64> {
    let server = sample.server.as_ref()?;
    (sample.load.replies > 0).then(|| server.cpu_s * 1e6 / sample.load.replies as f64)
}
