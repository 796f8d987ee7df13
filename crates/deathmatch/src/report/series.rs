//! Samples become rows, one for each contender and piece of work, and rows become ladders, one for
//! each file and kind of load. Nothing here knows how a ladder is drawn.

use serde::{Deserialize, Serialize};

use crate::histogram::Times;
use crate::sample::{Mark, Offered, Sample};

/// Of the requests offered, the share that must be answered for a rate to count as carried.
const CARRIED_SHARE: f64 = 0.99;

/// Of the requests offered, the share that may fail.
pub(super) const ERROR_SHARE_MAX: f64 = 0.0001;

/// The 99th percentile, in milliseconds, up to which a carried rate counts as held.
pub(super) const HELD_P99_MS: f64 = 10.0;

/// What can be read off a sample.
#[derive(Clone, Copy, Debug, PartialEq, Eq, Serialize, Deserialize)]
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
    pub const ALL: [Measure; 13] = [
        Measure::Replies,
        Measure::Deviation,
        Measure::P50,
        Measure::P99,
        Measure::Errors,
        Measure::Cpu,
        Measure::CpuPerRequest,
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
            Measure::Runnable => ("Runnable threads", "threads", "runnable_threads"),
            Measure::LoadAverage => ("Load average", "over 1 min", "load_average"),
            Measure::Interrupts => ("Interrupts", "/s", "interrupts_per_s"),
            Measure::Switches => ("Context switches", "/s", "switches_per_s"),
            Measure::PagesFreed => ("Pages freed", "/s", "pages_freed_per_s"),
            Measure::Resident => ("Resident memory", "MiB", "resident_mib"),
        }
    }

    /// Whether more is better.
    pub fn more_is_better(self) -> bool {
        self == Measure::Replies
    }

    /// Its value in a sample; `None` where it was not measured.
    pub fn of(self, sample: &Sample) -> Option<f64> {
        let load = &sample.load;
        let server = sample.server.as_ref();
        let machine = sample.machine.as_ref();
        let value = match self {
            Measure::Replies => load.replies as f64 / load.seconds,
            Measure::Deviation => deviation(&load.replies_per_second)?,
            Measure::P50 => percentile_ms(&load.response, 0.5)?,
            Measure::P99 => percentile_ms(&load.response, 0.99)?,
            Measure::Errors => 100.0 * error_share(sample),
            Measure::Cpu => 100.0 * server?.cpu_s / load.seconds,
            Measure::CpuPerRequest => 1e6 * server?.cpu_s / load.replies as f64,
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

/// A value and how far rounds were apart.
#[derive(Clone, Copy, Debug, PartialEq)]
pub(super) struct Spread {
    /// The median over rounds; of a percentile, that of all rounds' times together.
    pub(super) middle: f64,
    /// The smallest round's.
    pub(super) low: f64,
    /// The largest round's.
    pub(super) high: f64,
}

/// All rounds of one contender at one piece of work.
#[derive(Clone, Debug)]
pub(super) struct Row<'a> {
    pub(super) contender: &'a str,
    pub(super) work: &'a str,
    /// Requests a second, or connections.
    pub(super) x: f64,
    pub(super) samples: Vec<&'a Sample>,
}

impl Row<'_> {
    /// A measure over the rounds; `None` where none has it.
    pub(super) fn spread(&self, measure: Measure) -> Option<Spread> {
        let mut values: Vec<f64> = self.samples.iter().filter_map(|s| measure.of(s)).collect();
        values.sort_by(f64::total_cmp);
        let (low, high) = (*values.first()?, *values.last()?);
        let merged = |share| percentile_ms(&self.response(), share);
        let middle = match measure {
            Measure::P50 => merged(0.5)?,
            Measure::P99 => merged(0.99)?,
            _ => median(&values)?,
        };
        Some(Spread { middle, low: low.min(middle), high: high.max(middle) })
    }

    /// A measure's middle.
    pub(super) fn middle(&self, measure: Measure) -> Option<f64> {
        self.spread(measure).map(|s| s.middle)
    }

    /// All rounds' response times.
    pub(super) fn response(&self) -> Times {
        self.merged(|s| &s.load.response)
    }

    /// All rounds' times of one kind.
    pub(super) fn merged(&self, which: impl Fn(&Sample) -> &Times) -> Times {
        let mut all = Times::default();
        self.samples.iter().for_each(|s| all.merge(which(s)));
        all
    }

    /// How many rounds bear a mark.
    pub(super) fn marked(&self, mark: Mark) -> usize {
        self.samples.iter().filter(|s| s.marks.contains(&mark)).count()
    }

    /// Whether the generator was the limit in at least half of the rounds.
    pub(super) fn limited(&self) -> bool {
        let limits = [Mark::GeneratorLate, Mark::GeneratorBusy];
        let by = |s: &&&Sample| limits.iter().any(|limit| s.marks.contains(limit));
        2 * self.samples.iter().filter(by).count() >= self.samples.len().max(1)
    }

    /// Whether a round brought wrong bytes: such a row ranks nowhere.
    pub(super) fn wrong(&self) -> bool {
        self.marked(Mark::WrongBytes) > 0
    }

    /// Requests that failed and requests offered, over all rounds.
    pub(super) fn failed(&self) -> (u64, u64) {
        let failed = self.samples.iter().map(|s| s.load.errors.total()).sum();
        (failed, self.samples.iter().map(|s| offered(s)).sum())
    }

    /// Whether more requests failed than may.
    pub(super) fn failing(&self) -> bool {
        let (failed, all) = self.failed();
        failed as f64 > ERROR_SHARE_MAX * all as f64
    }

    /// Whether what was offered was answered.
    pub(super) fn carried(&self) -> bool {
        let mut shares: Vec<f64> =
            self.samples.iter().map(|s| s.load.replies as f64 / offered(s).max(1) as f64).collect();
        shares.sort_by(f64::total_cmp);
        let enough = median(&shares).is_some_and(|share| share >= CARRIED_SHARE);
        enough && !self.failing() && !self.limited() && !self.wrong()
    }

    /// Whether it was answered in time, too.
    pub(super) fn held(&self) -> bool {
        self.carried() && self.middle(Measure::P99).is_some_and(|ms| ms <= HELD_P99_MS)
    }
}

/// What a ladder's steps are.
#[derive(Clone, Copy, Debug, PartialEq, Eq, PartialOrd, Ord)]
pub(super) enum Steps {
    /// Requests a second, evenly.
    Even,
    /// Requests a second, at random.
    Poisson,
    /// Requests a second, as so many connections of so many calls.
    Sessions,
    /// Connections that ask again at once.
    Connections,
}

impl Steps {
    /// (what the axis says, what the ladder is called, a step's unit in a sentence).
    pub(super) fn words(self) -> (&'static str, &'static str, &'static str) {
        match self {
            Steps::Even => ("offered requests/s", "open loop", "/s"),
            Steps::Poisson => ("offered requests/s", "open loop with random gaps", "/s"),
            Steps::Sessions => ("offered requests/s", "sessions as of httperf", "/s"),
            Steps::Connections => ("connections", "closed loop", " connections"),
        }
    }

    /// Whether steps are rates.
    pub(super) fn rates(self) -> bool {
        self != Steps::Connections
    }
}

/// One file asked for in one way, at steps.
#[derive(Clone, Debug)]
pub(super) struct Ladder<'a> {
    pub(super) file: &'a str,
    pub(super) steps: Steps,
    /// By contender as they first appear, then by step.
    pub(super) rows: Vec<Row<'a>>,
}

impl<'a> Ladder<'a> {
    /// A ladder's name.
    pub(super) fn title(&self) -> String {
        format!("{}, {}", self.file, self.steps.words().1)
    }

    /// Its contenders, as they first appear.
    pub(super) fn contenders(&self) -> Vec<&'a str> {
        distinct(self.rows.iter().map(|r| r.contender))
    }

    /// One contender's rows, by step.
    pub(super) fn of(&self, name: &str) -> impl Iterator<Item = &Row<'a>> {
        self.rows.iter().filter(move |r| r.contender == name)
    }

    /// Its steps, upward.
    pub(super) fn xs(&self) -> Vec<f64> {
        let mut xs: Vec<f64> = self.rows.iter().map(|r| r.x).collect();
        xs.sort_by(f64::total_cmp);
        xs.dedup();
        xs
    }

    /// The row of a contender at a step.
    pub(super) fn at(&self, name: &str, x: f64) -> Option<&Row<'a>> {
        self.of(name).find(|r| r.x == x)
    }

    /// The highest step that every contender carried; of connections, the highest all were given.
    pub(super) fn common(&self) -> Option<f64> {
        let names = self.contenders();
        let fits = |row: &Row<'_>| !self.steps.rates() || row.carried();
        let all = |x: &f64| names.iter().all(|name| self.at(name, *x).is_some_and(fits));
        self.xs().into_iter().rev().find(all)
    }
}

/// Sorts samples into ladders; those with nothing measured are left out.
pub(super) fn ladders(samples: &[Sample]) -> Vec<Ladder<'_>> {
    let mut ladders: Vec<Ladder<'_>> = Vec::new();
    for sample in samples.iter().filter(|s| s.load.seconds > 0.0) {
        let (steps, x) = step(&sample.offered);
        let same = |l: &Ladder<'_>| l.file == sample.file && l.steps == steps;
        let at = ladders.iter().position(same).unwrap_or_else(|| {
            ladders.push(Ladder { file: &sample.file, steps, rows: Vec::new() });
            ladders.len() - 1
        });
        let rows = &mut ladders[at].rows;
        match rows.iter_mut().find(|r| r.contender == sample.contender && r.work == sample.work) {
            Some(row) => row.samples.push(sample),
            None => rows.push(Row {
                contender: &sample.contender,
                work: &sample.work,
                x,
                samples: vec![sample],
            }),
        }
    }
    for ladder in &mut ladders {
        let order = ladder.contenders();
        let place = |row: &Row<'_>| order.iter().position(|name| *name == row.contender);
        ladder.rows.sort_by(|a, b| place(a).cmp(&place(b)).then(a.x.total_cmp(&b.x)));
    }
    ladders
}

/// What kind of step a sample is, and which.
fn step(offered: &Offered) -> (Steps, f64) {
    match *offered {
        Offered::Open { rate, poisson: false, .. } => (Steps::Even, rate),
        Offered::Open { rate, poisson: true, .. } => (Steps::Poisson, rate),
        Offered::Sessions { rate, calls } => (Steps::Sessions, rate * f64::from(calls)),
        Offered::Closed { connections } => (Steps::Connections, f64::from(connections)),
    }
}

/// Requests that a sample should have sent; a closed loop intends what it gets to send.
fn offered(sample: &Sample) -> u64 {
    let ended = sample.load.replies + sample.load.errors.total();
    if sample.load.intended == 0 { ended } else { sample.load.intended }
}

/// The share (0 to 1) of a sample's requests that failed.
fn error_share(sample: &Sample) -> f64 {
    sample.load.errors.total() as f64 / offered(sample).max(1) as f64
}

/// A percentile in milliseconds; `None` where nothing was answered.
fn percentile_ms(times: &Times, share: f64) -> Option<f64> {
    (times.count() > 0).then(|| times.quantile(share) as f64 / 1e6)
}

/// Standard deviation over whole seconds, in per cent of their average.
fn deviation(bins: &[u64]) -> Option<f64> {
    let count = bins.len() as f64;
    let mean = bins.iter().sum::<u64>() as f64 / count;
    let square = |bin: &u64| (*bin as f64 - mean).powi(2);
    let variance = bins.iter().map(square).sum::<f64>() / (count - 1.0);
    (bins.len() > 1 && mean > 0.0).then(|| 100.0 * variance.sqrt() / mean)
}

/// The median of sorted values.
fn median(sorted: &[f64]) -> Option<f64> {
    let half = sorted.len() / 2;
    let upper = *sorted.get(half)?;
    let even = sorted.len().is_multiple_of(2);
    Some(if even { (sorted[half - 1] + upper) / 2.0 } else { upper })
}

/// Each name once, in the order of first appearance.
fn distinct<'a>(names: impl Iterator<Item = &'a str>) -> Vec<&'a str> {
    let mut seen = Vec::new();
    for name in names {
        if !seen.contains(&name) {
            seen.push(name);
        }
    }
    seen
}
