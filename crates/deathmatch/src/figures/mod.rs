//! Figures of a load on one URL: counts, times, the course, and limits of the generator. As text
//! for a terminal (`text`), as a page (`page`), as JSON, and as a table.

mod carried;
mod checks;
pub(crate) mod page;
mod text;

use std::collections::BTreeMap;
use std::fmt::Write as _;
use std::fs;
use std::io;
use std::path::Path;

use serde::Serialize;

use carried::{carried, has_waited};
pub use checks::{Check, Condition, append_summary, checks, write_junit};
pub use text::{amount, bars, counted, kinds, milliseconds, pace, percentiles};

use crate::histogram::Times;
use crate::load::{Apart, Bin, InTime, Progress, Status};
use crate::sample::{Errors, Load};

/// Largest share of the time that the generator may work.
const BUSY_SHARE_MAX: f64 = 0.95;

/// Largest lateness as a share of the response time, both as 99th percentiles.
const LATENESS_SHARE_MAX: f64 = 0.10;

/// Largest share of visits that wait for a free visitor without a warning.
const WAITS_SHARE_MAX: f64 = 0.05;

/// Smallest share of the offered rate that a server carries if it keeps up.
pub(crate) const CARRIED_SHARE_MIN: f64 = 0.95;

/// Number of bars of the histogram.
const BARS: usize = 12;

/// The load that the generator offers, from the command line.
#[derive(Clone, Debug, Default, Serialize)]
pub struct Offer {
    /// Connections; of visits the visitors at once.
    pub connections: u32,
    /// Connections of each visitor over HTTP/1.1, at most; `None`: there are no visits.
    #[serde(skip_serializing_if = "Option::is_none")]
    pub connections_each: Option<u32>,
    /// Requests at once on each connection (HTTP/2).
    pub streams: u32,
    /// `true` if each request has a connection of its own.
    pub is_anew: bool,
    /// Requests a second of an open loop; `None` in a closed loop.
    pub rate: Option<f64>,
    /// Largest number of requests.
    pub requests_max: Option<u64>,
    /// Seconds of the load; `None`: until all requests are made.
    pub seconds_max: Option<f64>,
}

impl Offer {
    /// Name of what is counted.
    pub fn counted(&self) -> &'static str {
        counted(self.connections_each)
    }

    /// Seconds in which requests were offered; `None` if their number or the user ended that.
    fn time(&self, is_interrupted: bool, intended: u64) -> Option<f64> {
        let is_reached = self.requests_max.is_some_and(|most| intended >= most);
        self.seconds_max.filter(|_| !is_interrupted && !is_reached)
    }
}

/// Figures of a load.
#[derive(Clone, Debug, Default, Serialize)]
pub struct Figures {
    /// URL that the requests are for.
    pub url: String,
    /// Address at which the server was reached.
    pub address: String,
    /// Method of the requests.
    pub method: String,
    /// `HTTP/1.1` or `HTTP/2`, as requested.
    pub protocol: String,
    /// The load that was offered, whatever the server carried.
    pub offered: Offer,
    /// `true` if it was ended before its time.
    pub is_interrupted: bool,
    /// Seconds from the start to the end of the last request, or to the end of the offered time.
    pub seconds: f64,
    /// Requests that should have been sent; of visits their steps, likewise below.
    pub requests: u64,
    /// Complete responses of any status.
    pub responses: u64,
    /// Responses a second: those that ended within the offered time, over that time. Of a load by
    /// number, or an interrupted one, all over `seconds`.
    pub responses_per_s: f64,
    /// Bytes of these responses a second, heads included.
    pub bytes_per_s: f64,
    /// Requests without a response, and responses that state a failure.
    pub failed: u64,
    /// Requests under way when the load was interrupted.
    pub unfinished: u64,
    /// Bytes of responses, heads included.
    pub bytes: u64,
    /// Number of responses by status.
    pub statuses: BTreeMap<Status, u64>,
    /// The figures of each request, if the load has several.
    #[serde(skip_serializing_if = "Vec::is_empty")]
    pub by_request: Vec<RequestFigures>,
    /// Requests without a right response, by kind: `status` is a response that is not HTTP, `bytes`
    /// one with bytes behind it.
    pub errors: Errors,
    /// Response times, in an open loop from the intended start; those without a response in time
    /// count as the timeout. `None`: no request has a time.
    pub latency: Option<Latency>,
    /// In a closed loop, if requested: with the requests that a stall kept from being sent.
    pub corrected_latency: Option<Latency>,
    /// The response times as an HdrHistogram (V2, hexadecimal, nanoseconds).
    pub histogram: Times,
    /// Connections that the server accepted.
    pub connections: u64,
    /// Those in place of connections that the server closed.
    pub reconnections: u64,
    /// The generator's own figures.
    pub generator: Generator,
    /// Outcome of the conditions under which the load has failed.
    pub checks: Vec<Check>,
    /// Remarks on these figures, a sentence each.
    pub warnings: Vec<String>,
    /// The load over time, in successive parts.
    pub course: Vec<Part>,
}

/// Figures of one request of a load with several.
#[derive(Clone, Debug, Serialize)]
pub struct RequestFigures {
    /// Its method and path.
    pub request: String,
    /// Complete responses of any status.
    pub responses: u64,
    /// Requests without a response, and responses that state a failure.
    pub failed: u64,
    /// Response times of this request; `None`: it has none.
    pub latency: Option<Latency>,
}

/// Response times in milliseconds.
#[derive(Clone, Debug, Default, Serialize)]
#[allow(missing_docs, reason = "percentiles say what they are")]
pub struct Latency {
    pub mean_ms: f64,
    pub p50_ms: f64,
    pub p75_ms: f64,
    pub p90_ms: f64,
    pub p95_ms: f64,
    pub p99_ms: f64,
    pub p99_9_ms: f64,
    pub max_ms: f64,
}

/// The generator's own figures.
#[derive(Clone, Debug, Default, Serialize)]
pub struct Generator {
    /// Median of the delay of requests by the generator, in milliseconds; 0 in a closed loop.
    pub lateness_p50_ms: f64,
    /// 99th percentile of that delay, in milliseconds.
    pub lateness_p99_ms: f64,
    /// Longest delay, in milliseconds.
    pub lateness_max_ms: f64,
    /// Share of the time in which it worked; the rest it waited for the server.
    pub busy_share: f64,
    /// `true` if it may have limited the figures.
    pub is_limit: bool,
}

/// A part of the time.
#[derive(Clone, Debug, Default, Serialize)]
#[allow(missing_docs, reason = "as in `Figures`")]
pub struct Part {
    pub from_s: f64,
    pub seconds: f64,
    pub responses: u64,
    pub responses_per_s: f64,
    pub failed: u64,
    /// `None`: no request has a time.
    pub p50_ms: Option<f64>,
    pub p99_ms: Option<f64>,
    pub max_ms: Option<f64>,
}

/// A load, without its counts.
#[derive(Clone, Debug, Default)]
pub struct Described {
    /// URL that the requests are for.
    pub url: String,
    /// Address at which the server was reached.
    pub address: String,
    /// Method of the requests.
    pub method: String,
    /// Protocol as requested, which [`Figures::protocol`] shows.
    pub protocol: String,
    /// The load that was offered, whatever the server carried.
    pub offered: Offer,
    /// `true` if it was ended before its time.
    pub is_interrupted: bool,
    /// `true`: in a closed loop, also with the requests that a stall kept from being sent.
    pub corrects: bool,
    /// Conditions under which the load has failed.
    pub conditions: Vec<Condition>,
    /// The methods and paths of several requests, in their order; empty: there is one.
    pub requests: Vec<String>,
}

impl Figures {
    /// The figures of a load that has ended.
    pub fn of(described: Described, load: &Load, progress: &Progress) -> Figures {
        let Described {
            url,
            address,
            method,
            protocol,
            offered,
            is_interrupted,
            corrects,
            conditions,
            requests,
        } = described;
        let by_time = offered.time(is_interrupted, load.intended);
        let seconds = progress.seconds.max(by_time.unwrap_or(0.0));
        let offering_s = seconds.min(load.offering_s());
        let whole = InTime { replies: load.replies, bytes: load.bytes };
        let (counted, counted_s) = match by_time {
            Some(offered_s) => (progress.in_time, offered_s),
            None => (whole, seconds),
        };
        let bad = progress.bad_statuses();
        let answered = load.replies + load.errors.total();
        // Without keep-alive none is opened in place of another.
        let most = if offered.is_anew { u64::MAX } else { u64::from(offered.connections) };
        let is_closed = offered.rate.is_none();
        let mut figures = Figures {
            url,
            address,
            method,
            protocol,
            offered,
            is_interrupted,
            seconds,
            requests: load.intended,
            responses: load.replies,
            responses_per_s: per_second(counted.replies, counted_s),
            bytes_per_s: per_second(counted.bytes, counted_s),
            failed: load.errors.total() + bad,
            unfinished: load.intended - answered.min(load.intended),
            bytes: load.bytes,
            statuses: progress.statuses.clone(),
            by_request: requests
                .into_iter()
                .enumerate()
                .map(|(at, request)| RequestFigures::of(request, progress.apart.get(at)))
                .collect(),
            errors: load.errors,
            latency: Latency::of(&load.response),
            corrected_latency: (corrects && is_closed)
                .then(|| Latency::of(&load.response.corrected(load.response.quantile(0.5))))
                .flatten(),
            histogram: load.response.clone(),
            connections: progress.connections,
            reconnections: progress.connections.saturating_sub(most),
            generator: Generator::of(load, offering_s),
            checks: Vec::new(),
            warnings: Vec::new(),
            course: progress.course().iter().map(Part::of).collect(),
        };
        let fault = progress.fault.as_ref().map(|why| format!("The load ended early: {why}."));
        figures.warnings = fault.into_iter().chain(figures.warn(load)).collect();
        figures.checks = checks(&conditions, &figures);
        figures
    }

    fn shown_checks(&self) -> impl Iterator<Item = &Check> {
        self.checks.iter().filter(|check| check.is_asked || !check.is_passed)
    }

    /// `true` if every condition is passed.
    pub fn is_passed(&self) -> bool {
        self.checks.iter().all(|check| check.is_passed)
    }

    /// Writes one row for each part of the time.
    ///
    /// # Errors
    /// The file system's.
    pub fn write_csv(&self, file: &Path) -> io::Result<()> {
        let cell = |ms: &Option<f64>| ms.map_or_else(String::new, |ms| format!("{ms:.4}"));
        let mut table =
            "from_s,seconds,responses,responses_per_s,failed,p50_ms,p99_ms,max_ms\n".to_owned();
        for part in &self.course {
            let Part {
                from_s,
                seconds,
                responses,
                responses_per_s,
                failed,
                p50_ms,
                p99_ms,
                max_ms,
            } = part;
            // Writing to a string cannot fail.
            let _ = writeln!(
                table,
                "{from_s:.3},{seconds:.3},{responses},{responses_per_s:.1},{failed},{},{},{}",
                cell(p50_ms),
                cell(p99_ms),
                cell(max_ms)
            );
        }
        fs::write(file, table)
    }

    /// Writes the page.
    ///
    /// # Errors
    /// The file system's.
    pub fn write_html(&self, file: &Path) -> io::Result<()> {
        fs::write(file, page::page(self))
    }

    fn warn(&self, load: &Load) -> Vec<String> {
        let mut warnings = Vec::new();
        let busy = self.generator.busy_share;
        if busy > BUSY_SHARE_MAX {
            let text = format!(
                "The generator worked {:.0} % of the time, so it was the limit: the server may be faster \
                 than this.",
                busy * 100.0
            );
            warnings.push(text);
        }
        if self.latency.as_ref().is_some_and(|its| self.generator.is_late(its)) {
            let text = format!(
                "The generator sent one request in a hundred {} or more too late: the tail of the response \
                 times is partly its own. --cores gives it a processor; --sleep suits shared ones.",
                milliseconds(self.generator.lateness_p99_ms)
            );
            warnings.push(text);
        }
        let unanswered_per_s = self.unanswered() as f64 / self.seconds.max(1e-9);
        if let Some(rate) = self.offered.rate
            && !self.is_interrupted
            // The rate is that of visits, which have several steps.
            && self.offered.connections_each.is_none()
            && carried(&self.offered, load).is_some_and(|its| its.is_behind(rate, unanswered_per_s))
        {
            let text = format!(
                "The server did not carry {} requests a second: {}, which is in the response times.",
                amount(rate),
                match has_waited(load) {
                    true => "requests waited for a connection",
                    false => "its responses came ever later",
                }
            );
            warnings.push(text);
        }
        let visits = self.by_request.first().map_or(0, |first| first.responses + first.failed);
        if self.offered.rate.is_some()
            && self.offered.connections_each.is_some()
            && load.waits as f64 > WAITS_SHARE_MAX * visits as f64
        {
            let text = format!(
                "Visits waited until one of {} visitors had left, and that wait is in the response times: \
                 allow more at once with -c, unless the server is the limit.",
                amount(f64::from(self.offered.connections))
            );
            warnings.push(text);
        }
        let redirects = self.statuses.iter().filter(|(status, _)| status.is_redirect());
        let redirects: u64 = redirects.map(|(_, count)| count).sum();
        if redirects > 0 {
            let text = format!(
                "{} responses are redirects, which are not followed: request the page that they name.",
                amount(redirects as f64)
            );
            warnings.push(text);
        }
        if self.reconnections > 0 {
            let text = format!(
                "{} connections were opened in place of closed ones: connecting is in the response times.",
                amount(self.reconnections as f64)
            );
            warnings.push(text);
        }
        warnings.extend(self.missing_times());
        warnings
    }

    /// Requests that failed without a wait: refused, or lost with their connection.
    fn unanswered(&self) -> u64 {
        self.errors.total() - self.errors.timeout
    }

    /// Remarks on failed requests in the response times, and on those that are not.
    fn missing_times(&self) -> Vec<String> {
        let requests = |count: u64, be: [&str; 2]| match count {
            1 => format!("1 request {}", be[0]),
            _ => format!("{} requests {}", amount(count as f64), be[1]),
        };
        let timeouts = (self.errors.timeout > 0).then(|| {
            let requests = requests(
                self.errors.timeout,
                ["without a response in time is", "without a response in time are"],
            );
            format!("{requests} in the percentiles, as long as the timeout.")
        });
        let lost = (self.unanswered() > 0).then(|| {
            let requests = requests(self.unanswered(), ["that failed has", "that failed have"]);
            format!("{requests} no response time: the percentiles are those of the others.")
        });
        timeouts.into_iter().chain(lost).collect()
    }

    /// (longest time in milliseconds, count) of the bars of a histogram, whose widths grow by one
    /// factor.
    pub fn bars(&self) -> Vec<(f64, u64)> {
        bars_of(&self.histogram)
    }
}

/// As `Figures::bars`.
pub fn bars_of(times: &Times) -> Vec<(f64, u64)> {
    bars_of_steps(&times.steps(), times.count())
}

/// As `bars_of`, from the steps of a histogram and its count.
pub fn bars_of_steps(steps: &[(u64, f64)], count: u64) -> Vec<(f64, u64)> {
    let (Some(&(first, _)), Some(&(last, _))) = (steps.first(), steps.last()) else {
        return Vec::new();
    };
    let (low, high) = (first.max(1) as f64 * 0.99, last.max(1) as f64);
    let factor = (high / low).powf(1.0 / BARS as f64);
    let all = count as f64;
    let mut before = 0.0;
    (1..=BARS)
        .map(|at| {
            let upto = if at == BARS { high } else { low * factor.powi(at as i32) };
            let under = steps.iter().take_while(|(time, _)| *time as f64 <= upto).last();
            let share = under.map_or(0.0, |(_, share)| *share);
            let count = ((share - before) * all).round() as u64;
            before = share;
            (upto / 1e6, count)
        })
        .collect()
}

fn per_second(count: u64, seconds: f64) -> f64 {
    if seconds > 0.0 { count as f64 / seconds } else { 0.0 }
}

impl Latency {
    /// The percentiles of these times; `None` without any.
    pub fn of(times: &Times) -> Option<Latency> {
        let latency = || Latency::new(times.mean(), times.max(), |share| times.quantile(share));
        (times.count() > 0).then(latency)
    }

    /// Converts a mean, a maximum and quantiles, all in nanoseconds.
    pub fn new(mean_ns: f64, max_ns: u64, quantile_ns: impl Fn(f64) -> u64) -> Latency {
        let at = |share| quantile_ns(share) as f64 / 1e6;
        Latency {
            mean_ms: mean_ns / 1e6,
            p50_ms: at(0.5),
            p75_ms: at(0.75),
            p90_ms: at(0.9),
            p95_ms: at(0.95),
            p99_ms: at(0.99),
            p99_9_ms: at(0.999),
            max_ms: max_ns as f64 / 1e6,
        }
    }
}

impl RequestFigures {
    /// `None`: it was never made.
    fn of(request: String, apart: Option<&Apart>) -> RequestFigures {
        RequestFigures {
            request,
            responses: apart.map_or(0, |its| its.replies),
            failed: apart.map_or(0, |its| its.failed),
            latency: apart.and_then(|its| Latency::of(&its.response)),
        }
    }
}

impl Generator {
    /// `seconds`: the time in which requests begin; none counts as work after that.
    fn of(load: &Load, seconds: f64) -> Generator {
        let lateness = Latency::of(&load.lateness).unwrap_or_default();
        let busy_share = if seconds > 0.0 { load.busy_s / seconds } else { 0.0 };
        let generator = Generator {
            lateness_p50_ms: lateness.p50_ms,
            lateness_p99_ms: lateness.p99_ms,
            lateness_max_ms: lateness.max_ms,
            busy_share,
            is_limit: false,
        };
        let is_late = Latency::of(&load.response).is_some_and(|its| generator.is_late(&its));
        Generator { is_limit: busy_share > BUSY_SHARE_MAX || is_late, ..generator }
    }

    /// `true` if its lateness is more than a tenth of these response times.
    fn is_late(&self, response: &Latency) -> bool {
        self.lateness_p99_ms > LATENESS_SHARE_MAX * response.p99_ms
    }
}

impl Part {
    pub(crate) fn of(bin: &Bin) -> Part {
        let latency = Latency::of(&bin.response);
        let ms = |of: fn(&Latency) -> f64| latency.as_ref().map(of);
        Part {
            from_s: bin.from_s,
            seconds: bin.seconds,
            responses: bin.replies,
            responses_per_s: per_second(bin.replies, bin.seconds),
            failed: bin.failed,
            p50_ms: ms(|its| its.p50_ms),
            p99_ms: ms(|its| its.p99_ms),
            max_ms: ms(|its| its.max_ms),
        }
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn the_bars_of_a_histogram_have_every_time_once() {
        let mut times = Times::default();
        assert!(bars_of(&times).is_empty());
        (1..=1_000_u64).for_each(|n| times.record(n * n * 1_000));
        let bars = bars_of(&times);
        assert_eq!((bars.len(), bars.iter().map(|(_, n)| n).sum::<u64>()), (BARS, 1_000));
        assert!(bars.windows(2).all(|pair| pair[0].0 < pair[1].0), "{bars:?}");
        let mut one = Times::default();
        one.record(5_000_000);
        assert_eq!(bars_of(&one).iter().map(|(_, n)| n).sum::<u64>(), 1);
    }

    #[test]
    fn a_rate_is_not_carried_if_requests_waited_for_a_connection() {
        // 50 requests a second, each served in 600 ms: the last 30 end after the 10 s. Half of them
        // may take 3 s. A server that falls behind answers 40, each later than the one before.
        let steady = [vec![20], vec![50; 9]].concat();
        let mixed = [vec![25; 3], vec![50; 7]].concat();
        type Row = (fn(u64) -> u64, fn(u64) -> u64, Vec<u64>, bool, &'static str);
        let rows: [Row; 6] = [
            (|_| 600, |_| 0, steady.clone(), false, "did not carry"),
            (|_| 640, |_| 40, steady.clone(), false, "did not carry"),
            (|n| 10 + n % 2 * 2_990, |_| 0, mixed, false, "did not carry"),
            (|_| 1_600, |_| 1_000, steady.clone(), true, "requests waited for a connection"),
            // Connecting, or the time after which requests are given up, is no wait.
            (|_| 1_600, |_| 0, steady, false, "requests waited for a connection"),
            (|n| 600 + 5 * n, |_| 0, vec![40; 10], true, "its responses came ever later"),
        ];
        for (response_ms, wait_ms, replies_per_second, is_told, told) in rows {
            let mut load = Load { intended: 500, replies: 500, ..Load::default() };
            load.replies_per_second = replies_per_second;
            for n in 0..500 {
                load.response.record(response_ms(n) * 1_000_000);
                load.service.record(600_000_000);
                load.waited_s += wait_ms(n) as f64 / 1e3;
            }
            let rate = Some(50.0);
            let offered =
                Offer { connections: 100, rate, seconds_max: Some(10.0), ..Offer::default() };
            let described = Described { offered, ..Described::default() };
            let progress = Progress { seconds: 10.6, ..Progress::default() };
            let warnings = Figures::of(described, &load, &progress).warnings.concat();
            assert_eq!(warnings.contains(told), is_told, "{}: {warnings}", response_ms(0));
        }
    }

    #[test]
    fn a_generator_is_the_limit_of_the_time_in_which_requests_begin() {
        // Regression: of a load by number, the time after its last request counted, in which the
        // generator waits for responses. The seconds are those without end, and how many drain.
        for (seconds, draining_s, ended_s, is_limit) in [
            (10.0, 0.0, 10.0, true),
            (10.0, 0.0, 11.0, true),
            (1e6, 0.0, 11.0, false),
            (1e6, 1e6 - 10.0, 11.0, true),
            (1e6, 1e6 - 10.9, 11.0, false),
        ] {
            let load = Load { busy_s: 9.8, seconds, draining_s, ..Load::default() };
            let described = Described::default();
            let progress = Progress { seconds: ended_s, ..Progress::default() };
            let generator = Figures::of(described, &load, &progress).generator;
            assert_eq!(generator.is_limit, is_limit, "{seconds}, {ended_s} s: {generator:?}");
        }
    }

    #[test]
    fn visits_that_last_long_have_not_waited_for_a_visitor() {
        // 10 visits a second for 2 s; the last ones take 8 s more.
        for (waits, is_told) in [(0, false), (1, false), (10, true)] {
            let load = Load { intended: 20, replies: 20, waits, ..Load::default() };
            let (rate, connections_each) = (Some(10.0), Some(1));
            let offered =
                Offer { rate, connections_each, seconds_max: Some(2.0), ..Offer::default() };
            let requests = vec!["GET /".to_owned()];
            let described = Described { offered, requests, ..Described::default() };
            let apart = vec![Apart { replies: 20, ..Apart::default() }];
            let progress = Progress { seconds: 10.0, apart, ..Progress::default() };
            let warnings = Figures::of(described, &load, &progress).warnings.concat();
            assert_eq!(warnings.contains("Visits waited"), is_told, "{waits}: {warnings}");
        }
    }

    #[test]
    fn each_request_has_its_figures_though_it_was_never_made() {
        let requests = vec!["GET /a".to_owned(), "GET /b".to_owned()];
        let described = Described { requests, ..Described::default() };
        let apart = vec![Apart { replies: 3, ..Apart::default() }];
        let progress = Progress { apart, ..Progress::default() };
        let figures = Figures::of(described, &Load::default(), &progress);
        let responses: Vec<u64> = figures.by_request.iter().map(|its| its.responses).collect();
        assert_eq!(responses, [3, 0]);
    }

    /// Regression: of ten requests the last was not counted, and one of so few missing was much.
    #[test]
    fn a_low_rate_is_carried_by_a_server_that_responds_at_once() {
        let (by_time, by_number) = (Some(10.0), Some(10));
        let ten = [1; 10].to_vec();
        for (rate, seconds_max, requests_max, replies_per_second, is_told) in [
            (1.0, None, by_number, vec![1; 9], false),
            (1.0, by_time, None, ten.clone(), false),
            (0.5, by_time, None, [1, 0].repeat(5), false),
            (1.2, by_time, None, vec![2, 1, 1, 1, 1, 2, 1, 1, 1, 1], false),
            (2.0, None, by_number, vec![2, 2, 2, 2], false),
            (2.0, by_time, None, ten, true),
        ] {
            let replies = replies_per_second.iter().sum();
            let mut load = Load { intended: replies, replies, ..Load::default() };
            load.replies_per_second = replies_per_second;
            (0..replies).for_each(|_| load.response.record(1_000_000));
            let rate = Some(rate);
            let offered = Offer { rate, seconds_max, requests_max, ..Offer::default() };
            let described = Described { offered, ..Described::default() };
            let warnings = Figures::of(described, &load, &Progress::default()).warnings.concat();
            assert_eq!(warnings.contains("did not carry"), is_told, "{rate:?}: {warnings}");
        }
    }

    /// Regression: a response that took 9 s more halved the rate of the others.
    #[test]
    fn a_response_that_ends_late_does_not_lower_the_rate() {
        let in_time = InTime { replies: 1_000, bytes: 5_000 };
        let (by_time, by_number) = (Some(10.0), Some(1_001));
        let all = 1_001.0 / 19.0;
        for (requests_max, seconds_max, is_interrupted, rate, why) in [
            (None, by_time, false, 100.0, "by time"),
            (Some(5_000), by_time, false, 100.0, "by a number that is not reached"),
            (by_number, None, false, all, "by number"),
            (by_number, by_time, false, all, "by a number that is reached first"),
            (None, by_time, true, all, "interrupted"),
        ] {
            let load = Load { intended: 1_001, replies: 1_001, bytes: 5_005, ..Load::default() };
            let offered = Offer { requests_max, seconds_max, ..Offer::default() };
            let described = Described { offered, is_interrupted, ..Described::default() };
            let progress = Progress { seconds: 19.0, in_time, ..Progress::default() };
            let figures = Figures::of(described, &load, &progress);
            assert!((figures.responses_per_s - rate).abs() < 1e-9, "{why}: {figures:?}");
            assert!((figures.bytes_per_s - 5.0 * rate).abs() < 1e-9, "{why}: {figures:?}");
            assert_eq!((figures.seconds, figures.responses), (19.0, 1_001), "{why}");
        }
    }

    #[test]
    fn failed_requests_are_errors_and_statuses_from_400_on() {
        let mut load = Load { intended: 10, replies: 8, ..Load::default() };
        load.errors.reset = 1;
        (0..8).for_each(|_| load.response.record(1_000_000));
        let statuses = [(200, 4), (399, 1), (400, 1), (503, 2)];
        let statuses = statuses.map(|(status, count)| (Status::Http(status), count)).into();
        let progress = Progress { seconds: 2.0, statuses, connections: 7, ..Progress::default() };
        let offered = Offer { connections: 5, ..Offer::default() };
        let described = Described { offered, corrects: true, ..Described::default() };
        let figures = Figures::of(described, &load, &progress);
        assert_eq!((figures.failed, figures.unfinished), (4, 1), "{figures:?}");
        assert_eq!((figures.reconnections, figures.responses_per_s), (2, 4.0), "{figures:?}");
        assert!(figures.corrected_latency.is_some());
    }
}
