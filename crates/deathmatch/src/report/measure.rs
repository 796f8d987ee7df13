//! Measures: their values in a sample, units and names.

use clap::ValueEnum;
use serde::{Deserialize, Serialize};

use crate::histogram::Times;
use crate::sample::Sample;
use crate::stats::{Bins, Kind};

/// A figure of a sample.
#[derive(Clone, Copy, Debug, PartialEq, Eq, PartialOrd, Ord, Serialize, Deserialize, ValueEnum)]
#[serde(rename_all = "snake_case")]
pub enum Measure {
    /// Right answers a second.
    Replies,
    /// Standard deviation of replies over whole seconds, in per cent of their average.
    Deviation,
    /// Median response time, in milliseconds.
    P50,
    /// 99th percentile of the response time, in milliseconds.
    P99,
    /// Failed requests, in per cent of those offered.
    Errors,
    /// Processor time of the server, in per cent of one processor.
    Cpu,
    /// Processor time of the server for each answer, in microseconds.
    CpuPerRequest,
    /// Processor time of the server's upstream for each answer, in microseconds.
    UpstreamCpuPerRequest,
    /// Threads of the server that run or wait for a processor, on average.
    Runnable,
    /// The machine's load average.
    LoadAverage,
    /// Hardware interrupts a second, of the machine.
    Interrupts,
    /// Context switches a second, of the machine.
    Switches,
    /// Pages freed a second, of the machine.
    PagesFreed,
    /// Resident memory of the server, in MiB.
    Resident,
}

impl Measure {
    /// All of them, in the order a table shows them.
    pub const ALL: [Measure; 14] = [
        Measure::Replies,
        Measure::Deviation,
        Measure::P50,
        Measure::P99,
        Measure::Errors,
        Measure::Cpu,
        Measure::CpuPerRequest,
        Measure::UpstreamCpuPerRequest,
        Measure::Runnable,
        Measure::LoadAverage,
        Measure::Interrupts,
        Measure::Switches,
        Measure::PagesFreed,
        Measure::Resident,
    ];

    /// (its title, its unit, its name in a table).
    pub(super) fn words(self) -> (&'static str, &'static str, &'static str) {
        match self {
            Measure::Replies => ("Replies", "replies/s", "replies_per_s"),
            Measure::Deviation => ("Unsteadiness", "% of the average", "deviation_percent"),
            Measure::P50 => ("Response time, p50", "ms", "p50_ms"),
            Measure::P99 => ("Response time, p99", "ms", "p99_ms"),
            Measure::Errors => ("Errors", "% of requests", "errors_percent"),
            Measure::Cpu => ("CPU", "% of one core", "cpu_percent"),
            Measure::CpuPerRequest => ("CPU per request", "µs", "cpu_us_per_request"),
            Measure::UpstreamCpuPerRequest => {
                ("CPU per request, the upstream's", "µs", "upstream_cpu_us_per_request")
            }
            Measure::Runnable => ("Runnable threads", "threads", "runnable_threads"),
            Measure::LoadAverage => ("Load average", "over 1 min", "load_average"),
            Measure::Interrupts => ("Interrupts", "/s", "interrupts_per_s"),
            Measure::Switches => ("Context switches", "/s", "switches_per_s"),
            Measure::PagesFreed => ("Pages freed", "/s", "pages_freed_per_s"),
            Measure::Resident => ("Resident memory", "MiB", "resident_mib"),
        }
    }

    /// Its title within a sentence.
    pub(super) fn in_a_sentence(self) -> String {
        let title = self.words().0;
        if title.starts_with("CPU") { title.to_owned() } else { title.to_lowercase() }
    }

    /// Kind of figure, which decides the samples that are compared by it.
    pub fn kind(self) -> Kind {
        match self {
            Measure::P50 | Measure::P99 => Kind::Time,
            Measure::Replies => Kind::Rate,
            _ => Kind::Cost,
        }
    }

    /// `true` for response times.
    pub fn is_time(self) -> bool {
        matches!(self, Measure::P50 | Measure::P99)
    }

    /// `true` if more is better.
    pub fn more_is_better(self) -> bool {
        self == Measure::Replies
    }

    /// Its value in a sample; `None` where it was not measured.
    pub fn of(self, sample: &Sample) -> Option<f64> {
        let load = &sample.load;
        let server = sample.server.as_ref();
        let machine = sample.machine.as_ref();
        let value = match self {
            Measure::Replies => load.throughput(),
            Measure::Deviation => deviation(&load.replies_per_second)?,
            Measure::P50 => percentile_ms(&load.response, 0.5)?,
            Measure::P99 => percentile_ms(&load.response, 0.99)?,
            Measure::Errors => 100.0 * error_share(sample),
            // Over the whole time between the looks: late requests are answered after the sample's
            // end.
            Measure::Cpu => 100.0 * server?.cpu_s / machine?.seconds,
            Measure::CpuPerRequest => 1e6 * server?.cpu_s / load.replies as f64,
            Measure::UpstreamCpuPerRequest => {
                let upstream_s = machine.map(|m| m.upstream_cpu_s).filter(|s| *s > 0.0)?;
                1e6 * upstream_s / load.replies as f64
            }
            Measure::Runnable => server?.runnable,
            Measure::Resident => server?.resident_bytes as f64 / f64::from(1 << 20),
            Measure::LoadAverage => machine?.load_1m,
            Measure::Interrupts => machine?.interrupts as f64 / machine?.seconds,
            Measure::Switches => machine?.switches as f64 / machine?.seconds,
            Measure::PagesFreed => machine?.pages_freed as f64 / machine?.seconds,
        };
        value.is_finite().then_some(value)
    }
}

/// Requests that a sample should have sent; in a closed loop those it sent.
pub(super) fn offered(sample: &Sample) -> u64 {
    let ended = sample.load.replies + sample.load.errors.total();
    if sample.load.intended == 0 { ended } else { sample.load.intended }
}

/// The share (0 to 1) of a sample's requests that failed.
fn error_share(sample: &Sample) -> f64 {
    sample.load.errors.total() as f64 / offered(sample).max(1) as f64
}

/// A percentile in milliseconds; `None` where nothing was answered.
pub(super) fn percentile_ms(times: &Times, share: f64) -> Option<f64> {
    (times.count() > 0).then(|| times.quantile(share) as f64 / 1e6)
}

/// Standard deviation over whole seconds, in per cent of their average.
fn deviation(seconds: &[u64]) -> Option<f64> {
    let bins = Bins::of(seconds);
    (bins.count > 1 && bins.mean > 0.0).then(|| 100.0 * bins.deviation / bins.mean)
}
