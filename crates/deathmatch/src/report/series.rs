//! Samples become rows, one for each contender and work, and rows become ladders, one for each file
//! and kind of load. Drawing is left to others.

use super::measure::{Measure, offered, percentile_ms};
use crate::histogram::Times;
use crate::load::saturation::is_overwhelmed;
use crate::sample::{Beside, ConnectionUse, Errors, Mark, Network, Offered, Sample};
use crate::stats::{Kind, counts, generator_limited, is_disturbed, is_overload};

/// Share of the offered requests that must be answered for a rate to be carried.
const CARRIED_SHARE: f64 = 0.99;

/// Share of the offered requests that may fail.
pub(super) const ERROR_SHARE_MAX: f64 = 0.0001;

/// Largest p99, in milliseconds, at which a carried rate is held.
pub(super) const HELD_P99_MS: f64 = 10.0;

/// Largest lateness as a share of the response time, both as 99th percentiles.
const LATENESS_SHARE_MAX: f64 = 0.10;

/// Use of one processor, in per cent, from which a server is saturated.
const SATURATED_PERCENT: f64 = 97.0;

/// A value with its spread over rounds.
#[derive(Clone, Copy, Debug, PartialEq)]
pub(super) struct Spread {
    /// The median over rounds; for a percentile, that of all rounds' times together.
    pub(super) middle: f64,
    /// The smallest value of a round; of slices, the 10th percentile.
    pub(super) low: f64,
    /// The largest value of a round; of slices, the 90th percentile.
    pub(super) high: f64,
}

/// All rounds of one contender at one piece of work.
#[derive(Clone, Debug)]
pub(super) struct Row<'a> {
    pub(super) contender: &'a str,
    pub(super) work: &'a str,
    /// Requests a second, or connections.
    pub(super) x: f64,
    /// Without the disturbed ones, unless all are.
    pub(super) samples: Vec<&'a Sample>,
    /// Samples that were left out because other programs disturbed them.
    pub(super) left_out: usize,
    /// All rounds' response times.
    pub(super) response: Times,
}

impl Row<'_> {
    /// Leaves disturbed samples out, if others remain; then merges the response times.
    fn close(&mut self) {
        let disturbed = |sample: &&Sample| is_disturbed(sample);
        if !self.samples.iter().all(&disturbed) {
            let all = self.samples.len();
            self.samples.retain(|s| !disturbed(s));
            self.left_out = all - self.samples.len();
        }
        self.samples.iter().for_each(|s| self.response.merge(&s.load.response));
    }

    /// `true` if other programs disturbed every sample: its figures are flagged.
    pub(super) fn is_disturbed(&self) -> bool {
        self.samples.iter().any(|s| is_disturbed(s))
    }

    /// A measure over the rounds; `None` if no round has it.
    pub(super) fn spread(&self, measure: Measure) -> Option<Spread> {
        let mut values: Vec<f64> = self.samples.iter().filter_map(|s| measure.of(s)).collect();
        values.sort_by(f64::total_cmp);
        let (low, high) = (*values.first()?, *values.last()?);
        // One slice of hundreds says nothing about the server: the middle 80 % are shown.
        let (low, high) = match self.are_slices() {
            true => (values[values.len() / 10], values[values.len() - 1 - values.len() / 10]),
            false => (low, high),
        };
        let merged = |share| percentile_ms(&self.response, share);
        let middle = match measure {
            Measure::P50 => merged(0.5)?,
            Measure::P99 => merged(0.99)?,
            _ => median(&values)?,
        };
        Some(Spread { middle, low: low.min(middle), high: high.max(middle) })
    }

    pub(super) fn middle(&self, measure: Measure) -> Option<f64> {
        self.spread(measure).map(|s| s.middle)
    }

    /// All rounds' times of one kind.
    pub(super) fn merged(&self, which: impl Fn(&Sample) -> &Times) -> Times {
        let mut all = Times::default();
        self.samples.iter().for_each(|s| all.merge(which(s)));
        all
    }

    /// `true` for the slices of a duel.
    pub(super) fn are_slices(&self) -> bool {
        self.samples.iter().any(|s| s.slice.is_some())
    }

    /// `true` if a figure holds beside a generator at its limit and a server with idle time: the
    /// cost of a request in slices, which all had the same generator.
    pub(super) fn holds_below_the_limit(&self, measure: Measure) -> bool {
        self.are_slices() && measure.kind() == Kind::Cost
    }

    /// Number of rounds that bear a mark.
    pub(super) fn marked(&self, mark: Mark) -> usize {
        self.samples.iter().filter(|s| s.marks.contains(&mark)).count()
    }

    /// `true` if the generator was the limit in at least half of the rounds.
    pub(super) fn is_limited(&self) -> bool {
        let by = self.samples.iter().filter(|s| generator_limited(s)).count();
        2 * by >= self.samples.len().max(1)
    }

    /// `true` if the generator delayed requests by more than a tenth of their response time: then
    /// the percentile is not the server's.
    pub(super) fn is_late(&self) -> bool {
        let late = self.merged(|s| &s.load.lateness);
        let p99 = |times: &Times| times.quantile(0.99) as f64;
        late.count() > 0 && p99(&late) > LATENESS_SHARE_MAX * p99(&self.response)
    }

    /// Failures of all rounds, by kind.
    pub(super) fn errors(&self) -> Errors {
        let mut all = Errors::default();
        self.samples.iter().for_each(|s| all.add(&s.load.errors));
        all
    }

    /// `true` if a round had wrong bytes: such a row is not ranked.
    pub(super) fn is_wrong(&self) -> bool {
        self.marked(Mark::WrongBytes) > 0
    }

    /// Requests that failed and requests offered, over all rounds.
    pub(super) fn failed(&self) -> (u64, u64) {
        let failed = self.samples.iter().map(|s| s.load.errors.total()).sum();
        (failed, self.samples.iter().map(|s| offered(s)).sum())
    }

    /// `true` if more requests failed than may.
    pub(super) fn is_failing(&self) -> bool {
        let (failed, all) = self.failed();
        failed as f64 > ERROR_SHARE_MAX * all as f64
    }

    /// `true` if the offered requests were answered.
    pub(super) fn is_carried(&self) -> bool {
        let mut shares: Vec<f64> =
            self.samples.iter().map(|s| s.load.replies as f64 / offered(s).max(1) as f64).collect();
        shares.sort_by(f64::total_cmp);
        let enough = median(&shares).is_some_and(|share| share >= CARRIED_SHARE);
        let overwhelmed = self.samples.iter().filter(|s| is_overwhelmed(&s.load)).count();
        enough
            && 2 * overwhelmed < self.samples.len()
            && !self.is_failing()
            && !self.is_limited()
            && !self.is_wrong()
    }

    /// `true` if the server was the limit: only then do closed loops compare by processor time.
    pub(super) fn is_saturated(&self) -> bool {
        self.middle(Measure::Cpu).is_some_and(|percent| percent >= SATURATED_PERCENT)
    }

    /// `true` if the rate was carried with a short enough p99.
    pub(super) fn is_held(&self) -> bool {
        self.is_carried() && self.middle(Measure::P99).is_some_and(|ms| ms <= HELD_P99_MS)
    }
}

/// Kind of a ladder's steps.
#[derive(Clone, Copy, Debug, PartialEq, Eq, PartialOrd, Ord)]
pub(super) enum Steps {
    /// Requests a second, evenly.
    Even,
    /// Requests a second, at random.
    Poisson,
    /// Requests a second, as new connections with a number of calls each.
    Sessions,
    /// Connections that send the next request at once.
    Connections,
}

impl Steps {
    /// (axis label, ladder's name, unit of a step in a sentence).
    pub(super) fn words(self) -> (&'static str, &'static str, &'static str) {
        match self {
            Steps::Even => ("offered requests/s", "open loop", "/s"),
            Steps::Poisson => ("offered requests/s", "open loop with random gaps", "/s"),
            Steps::Sessions => ("offered requests/s", "sessions as of httperf", "/s"),
            Steps::Connections => ("connections", "closed loop", " connections"),
        }
    }

    /// `true` if steps are rates.
    pub(super) fn are_rates(self) -> bool {
        self != Steps::Connections
    }
}

/// One file requested in one way, at steps.
#[derive(Clone, Debug)]
pub(super) struct Ladder<'a> {
    pub(super) file: &'a str,
    pub(super) steps: Steps,
    /// Special use of connections.
    pub(super) over: Option<ConnectionUse>,
    /// The network; `None`: loopback.
    pub(super) network: Option<Network>,
    /// Streams beside the requests, if any.
    pub(super) beside: Option<&'a Beside>,
    /// By contender as they first appear, then by step.
    pub(super) rows: Vec<Row<'a>>,
}

impl<'a> Ladder<'a> {
    pub(super) fn title(&self) -> String {
        format!("{}, {}{}", self.file, self.steps.words().1, self.conditions())
    }

    /// Its connections, network and streams, each after a comma.
    pub(super) fn conditions(&self) -> String {
        let over = self.over.map(|over| format!(", {over}"));
        let network = self.network.map(|network| format!(", {network}"));
        let beside = self.beside.map(|beside| format!(", beside {beside}"));
        [over, network, beside].map(Option::unwrap_or_default).concat()
    }

    /// `true` if it has the file, the connections and the streams of another, at steps of this
    /// kind.
    pub(super) fn asks_as(&self, other: &Ladder<'_>, steps: Steps) -> bool {
        let alike = self.file == other.file && self.over == other.over;
        let alike = alike && self.network == other.network;
        alike && self.beside == other.beside && self.steps == steps
    }

    /// Its contenders, as they first appear.
    pub(super) fn contenders(&self) -> Vec<&'a str> {
        distinct(self.rows.iter().map(|r| r.contender))
    }

    /// One contender's rows, by step.
    pub(super) fn of(&self, name: &str) -> impl Iterator<Item = &Row<'a>> {
        self.rows.iter().filter(move |r| r.contender == name)
    }

    /// The steps of all rows, ascending, each once.
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

    /// The highest step carried by all contenders that carried any and sent the right bytes; of
    /// connections, the highest step of all.
    pub(super) fn common(&self) -> Option<f64> {
        let names = self.fit();
        let all =
            |x: &f64| names.iter().all(|name| self.at(name, *x).is_some_and(|r| self.fits(r)));
        self.xs().into_iter().rev().find(all).filter(|_| !names.is_empty())
    }

    /// The highest step carried by at least half of those, and by two. In a search for limits few
    /// steps are common to all.
    pub(super) fn widely_carried(&self) -> Option<f64> {
        let names = self.fit();
        let carried = |x: f64| self.carriers(x, &names);
        let enough = |x: &f64| carried(*x) >= 2 && 2 * carried(*x) >= names.len();
        self.xs().into_iter().rev().find(enough)
    }

    /// Number of the named contenders that carried a step.
    pub(super) fn carriers(&self, x: f64, names: &[&str]) -> usize {
        names.iter().filter(|name| self.at(name, x).is_some_and(|r| self.fits(r))).count()
    }

    /// Contenders that took no part at a step because they had already failed lower ones: the
    /// others there are a selection.
    pub(super) fn dropped(&self, x: f64) -> Vec<&'a str> {
        if !self.steps.are_rates() || self.rows.iter().all(|row| row.x != x) {
            return Vec::new();
        }
        let mut names = self.contenders();
        names.retain(|name| {
            let lower = || self.of(name).filter(|row| row.x < x);
            self.of(name).all(|row| row.x != x)
                && lower().next().is_some()
                && lower().last().is_some_and(|row| !row.is_held())
        });
        names
    }

    /// Contenders that carried any step, with the right bytes.
    fn fit(&self) -> Vec<&'a str> {
        let mut names = self.contenders();
        names.retain(|name| {
            !self.of(name).any(Row::is_wrong) && self.of(name).any(|r| self.fits(r))
        });
        names
    }

    fn fits(&self, row: &Row<'_>) -> bool {
        !self.steps.are_rates() || row.is_carried()
    }
}

/// Sorts samples into ladders, without empty ones, those that do not count, and overload.
pub(super) fn ladders<'a>(samples: impl IntoIterator<Item = &'a Sample>) -> Vec<Ladder<'a>> {
    let mut ladders: Vec<Ladder<'_>> = Vec::new();
    let measured = |s: &&Sample| s.load.seconds > 0.0 && counts(s) && !is_overload(s);
    for sample in samples.into_iter().filter(measured) {
        let (steps, x) = step(&sample.offered);
        let (over, beside) = (sample.over, sample.beside.as_ref());
        let network = sample.network.as_ref().map(|used| used.network);
        let same = |l: &Ladder<'_>| {
            let alike = l.file == sample.file && l.over == over && l.network == network;
            alike && l.steps == steps && l.beside == beside
        };
        let at = ladders.iter().position(same).unwrap_or_else(|| {
            let (file, rows) = (&*sample.file, Vec::new());
            ladders.push(Ladder { file, steps, over, network, beside, rows });
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
                left_out: 0,
                response: Times::default(),
            }),
        }
    }
    for ladder in &mut ladders {
        ladder.rows.iter_mut().for_each(Row::close);
        let order = ladder.contenders();
        let place = |row: &Row<'_>| order.iter().position(|name| *name == row.contender);
        ladder.rows.sort_by(|a, b| place(a).cmp(&place(b)).then(a.x.total_cmp(&b.x)));
    }
    ladders
}

/// Kind and value of a sample's step.
fn step(offered: &Offered) -> (Steps, f64) {
    match *offered {
        Offered::Open { rate, poisson: false, .. } => (Steps::Even, rate),
        Offered::Open { rate, poisson: true, .. } => (Steps::Poisson, rate),
        Offered::Sessions { rate, calls } => (Steps::Sessions, rate * f64::from(calls)),
        Offered::Closed { connections } => (Steps::Connections, f64::from(connections)),
    }
}

/// The median of sorted values.
fn median(sorted: &[f64]) -> Option<f64> {
    let half = sorted.len() / 2;
    let upper = *sorted.get(half)?;
    let even = sorted.len().is_multiple_of(2);
    Some(if even { (sorted[half - 1] + upper) / 2.0 } else { upper })
}

/// Each name once, in order of first appearance.
fn distinct<'a>(names: impl Iterator<Item = &'a str>) -> Vec<&'a str> {
    let mut seen = Vec::new();
    for name in names {
        if !seen.contains(&name) {
            seen.push(name);
        }
    }
    seen
}

#[cfg(test)]
mod tests {
    use super::*;
    use crate::report::invented;

    #[test]
    fn rounds_of_one_work_are_one_row() {
        let mut samples: Vec<Sample> =
            (0..3).map(|round| invented::sample(8, round, 1e3)).collect();
        for (sample, replies) in samples.iter_mut().zip([5_000, 4_000, 4_990]) {
            sample.load.replies = replies;
            sample.load.replies_per_second.clear();
        }
        samples.push(invented::sample(8, 0, 4e3));
        samples.push(invented::sample(0, 0, 1e3));
        let ladders = ladders(&samples);
        let [ladder] = &ladders[..] else { panic!("one file, one load: {ladders:?}") };
        assert_eq!(ladder.contenders(), ["nginx", "floor"], "as they first appear");
        assert_eq!(ladder.xs(), [1e3, 4e3], "connections a second times calls");
        let row = ladder.at("nginx", 1e3).unwrap();
        let spread = row.spread(Measure::Replies).unwrap();
        assert_eq!((spread.low, spread.middle, spread.high), (800.0, 998.0, 1_000.0));
        assert_eq!(row.response.count(), 6_000, "percentiles see every round's times");
        assert_eq!(ladder.common(), Some(1e3), "the highest that both were offered");
    }

    #[test]
    fn disturbed_samples_are_left_out_and_flagged_if_there_are_no_others() {
        let mut samples: Vec<Sample> =
            (0..3).map(|round| invented::sample(8, round, 1e3)).collect();
        samples[0].load.replies = 1;
        samples[0].marks.push(Mark::ForeignCpu);
        let all = ladders(&samples);
        let row = &all[0].rows[0];
        assert_eq!((row.samples.len(), row.left_out, row.is_disturbed()), (2, 1, false));
        assert_eq!(row.response.count(), 4_000, "nor do its times count");
        samples.iter_mut().for_each(|s| s.marks = vec![Mark::ForeignCpu]);
        let all = ladders(&samples);
        let row = &all[0].rows[0];
        assert_eq!((row.samples.len(), row.left_out, row.is_disturbed()), (3, 0, true));
    }

    #[test]
    fn a_contender_that_fails_a_lower_rate_is_missing_at_higher_ones() {
        let mut samples = vec![invented::sample(8, 0, 1e3), invented::sample(8, 0, 4e3)];
        let mut other = Sample { contender: "slow".into(), ..invented::sample(8, 0, 1e3) };
        other.load.replies /= 2;
        samples.push(other.clone());
        assert_eq!(ladders(&samples)[0].dropped(4e3), ["slow"]);
        assert!(ladders(&samples)[0].dropped(1e3).is_empty(), "it took part there");
        samples[2].load.replies *= 2;
        assert!(ladders(&samples)[0].dropped(4e3).is_empty(), "nobody asked it for more");
    }

    #[test]
    fn a_row_is_carried_held_limited_or_failing() {
        type Change = fn(&mut Sample);
        let busy: Change = invented::give_out;
        let errors: Change = |s| s.load.errors = Errors { reset: 5, ..Errors::default() };
        let one_error: Change = |s| {
            (s.load.intended, s.load.replies) = (100_000, 99_999);
            s.load.replies_per_second = vec![20_000; 5];
            s.load.errors = Errors { reset: 1, ..Errors::default() };
        };
        let behind: Change = |s| s.load.replies_per_second = vec![700; 5];
        let rows: [(Change, [bool; 4], &str); 9] = [
            (|_| (), [true, true, false, false], "all is well"),
            (|s| s.load.replies = 4_000, [false, false, false, false], "too few replies"),
            (behind, [false, false, false, false], "all came, but long after the end"),
            (|s| s.load.response.record(90_000_000), [true, true, false, false], "one late answer"),
            (
                |s| (0..100).for_each(|_| s.load.response.record(90_000_000)),
                [true, false, false, false],
                "many",
            ),
            (busy, [false, false, true, false], "nobody knows"),
            (
                |s| s.marks.push(Mark::GeneratorBusy),
                [true, true, false, false],
                "busy, but all came in time",
            ),
            (errors, [false, false, false, true], "0.1 % of errors"),
            (one_error, [true, true, false, false], "0.001 % of errors"),
        ];
        for (change, want, why) in rows {
            let mut sample = invented::sample(8, 0, 1e3);
            change(&mut sample);
            let samples = [sample];
            let ladders = ladders(&samples);
            let row = &ladders[0].rows[0];
            assert_eq!(
                [row.is_carried(), row.is_held(), row.is_limited(), row.is_failing()],
                want,
                "{why}"
            );
        }
    }

    #[test]
    fn an_unmeasured_value_is_not_zero() {
        let mut sample = invented::sample(8, 0, 1e3);
        (sample.server, sample.machine) = (None, None);
        sample.load.replies_per_second = vec![100];
        sample.load.response = Times::default();
        let samples = [sample];
        let row = &ladders(&samples)[0].rows[0];
        let missing: Vec<Measure> =
            Measure::ALL.into_iter().filter(|m| row.spread(*m).is_none()).collect();
        let there = [Measure::Replies, Measure::Errors];
        assert!(there.iter().all(|m| !missing.contains(m)));
        assert_eq!(missing.len(), Measure::ALL.len() - there.len());
    }

    #[test]
    fn loads_of_different_kinds_are_different_ladders() {
        let offered = [
            Offered::Open { rate: 1e3, poisson: false, connections: 50 },
            Offered::Open { rate: 2e3, poisson: false, connections: 50 },
            Offered::Open { rate: 1e3, poisson: true, connections: 50 },
            Offered::Closed { connections: 50 },
        ];
        let samples = offered.map(|offered| Sample {
            work: format!("{offered:?}"),
            offered,
            ..invented::sample(8, 0, 1e3)
        });
        let steps: Vec<Steps> = ladders(&samples).iter().map(|l| l.steps).collect();
        assert_eq!(steps, [Steps::Even, Steps::Poisson, Steps::Connections]);
    }
}
