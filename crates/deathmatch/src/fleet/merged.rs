//! The figures of all generators as one, with the reasons for which they may not hold.

use std::fs;
use std::io;
use std::path::Path;

use serde::Serialize;

use super::{Collected, Counts, Generated, Options, Watched, page};
use crate::figures::{CARRIED_SHARE_MIN, Latency, counted};

/// Largest difference between intended starts, delay of a start, missing time at an end, error of a
/// clock, and step of a clock, in seconds.
const SKEW_S_MAX: f64 = 0.1;

/// Largest number of slots of the course; more seconds are joined.
const SLOTS_MAX: usize = 600;

/// Figures of a load from many machines.
#[derive(Clone, Debug, Default, Serialize)]
pub struct Merged {
    /// Options of the first generator.
    pub options: Options,
    /// Requests a second that all together offered; `None` in a closed loop.
    pub rate: Option<f64>,
    /// `true` if a mark is on any of them.
    pub is_marked: bool,
    /// Start of the time in which all ran, in seconds since 1970.
    pub common_from_unix_s: f64,
    /// Its length in seconds; 0 if they did not all run at once.
    pub common_seconds: f64,
    /// Responses a second in that time, of all together.
    pub responses_per_s: f64,
    /// Sums over all generators and all of their time.
    #[serde(flatten)]
    pub counts: Counts,
    /// Response times of all requests; `None` without any.
    pub latency: Option<Latency>,
    /// Figures of each generator for itself.
    pub generators: Vec<Generator>,
    /// The watched server in the time in which all ran.
    pub server: Option<Server>,
    /// Remarks that are no marks.
    pub notes: Vec<String>,
    /// The course of all generators together.
    pub course: Vec<Slot>,
}

/// The part of one generator in the load.
#[derive(Clone, Debug, Default, Serialize)]
#[allow(missing_docs, reason = "as in `Generated`")]
pub struct Generator {
    pub file: String,
    pub host: String,
    pub rate: Option<f64>,
    pub started_unix_s: f64,
    pub seconds: f64,
    /// Seconds from the intended start to the start.
    pub late_s: f64,
    /// In the time in which all ran.
    pub responses_per_s: f64,
    pub responses: u64,
    pub failed: u64,
    /// Its response times; `None` without any.
    pub latency: Option<Latency>,
    pub lateness_p99_ms: f64,
    pub busy_share: f64,
    /// Reasons for which its figures may not hold.
    pub marks: Vec<Mark>,
}

/// A reason for which figures may not hold.
#[derive(Clone, Debug, PartialEq, Serialize)]
pub struct Mark {
    /// Kind of the reason, for programs.
    pub kind: MarkKind,
    /// The reason in words, for people.
    pub text: String,
}

/// A kind of mark.
#[derive(Clone, Copy, Debug, PartialEq, Eq, Serialize)]
#[serde(rename_all = "snake_case")]
pub enum MarkKind {
    /// Its start was intended at another time than the others'.
    Skewed,
    /// It started after its intended time.
    Late,
    /// It ended before its intended time.
    Early,
    /// Its clock was wrong, or was set during the load.
    Clock,
    /// The generator limited the figures.
    Limit,
    /// Its options are not the first one's.
    Options,
}

/// Use of the watched server in the common time.
#[derive(Clone, Debug, Default, Serialize)]
pub struct Server {
    /// Name of its machine.
    pub host: String,
    /// Number of its process on that machine.
    pub pid: u32,
    /// Seconds of the common time that were watched.
    pub seconds: f64,
    /// Processors that it used, on average.
    pub cpus: f64,
    /// Processor time per response, in microseconds.
    pub cpu_us_per_response: f64,
    /// Largest resident memory, in bytes.
    pub resident_bytes: u64,
    /// Share of the machine (0 to 1) that other programs used.
    pub foreign: f64,
    /// Share of the machine (0 to 1) that its host took.
    pub steal: f64,
}

/// A part of the course of all.
#[derive(Clone, Debug, Default, PartialEq, Serialize)]
pub struct Slot {
    /// Seconds since the first start.
    pub from_s: f64,
    /// Generators that ran in all of it.
    pub generators: usize,
    /// Responses a second of all together.
    pub responses_per_s: f64,
    /// Failed requests; those of a second that lies partly outside count in proportion.
    pub failed: f64,
    /// The longest 99th percentile of a generator, in milliseconds; `None` without a response.
    pub p99_ms_max: Option<f64>,
    /// Processors that the server used; `None` if it was not watched.
    pub server_cpus: Option<f64>,
}

impl Merged {
    /// Merges the files of at least one generator.
    pub fn of(collected: &Collected) -> Merged {
        let all: Vec<&Generated> = collected.generated.iter().map(|(_, its)| its).collect();
        let Some(first) = all.first() else { return Merged::default() };
        let mut counts = Counts::default();
        all.iter().for_each(|its| counts.add(&its.counts));
        let from = all.iter().map(|its| its.started_unix_s).fold(f64::MIN, f64::max);
        let until = all.iter().map(|its| its.active_until()).fold(f64::MAX, f64::min);
        let common_seconds = (until - from).max(0.0);
        let within = |its: &Generated| match common_seconds > 0.0 {
            true => responses(its, from, until) / common_seconds,
            false => 0.0,
        };
        let intended = median(all.iter().map(|its| its.start_intended_unix_s));
        let generators: Vec<Generator> = collected
            .generated
            .iter()
            .map(|(file, its)| Generator {
                file: file.display().to_string(),
                host: its.host.clone(),
                rate: its.rate,
                started_unix_s: its.started_unix_s,
                seconds: its.ended_unix_s - its.started_unix_s,
                late_s: its.started_unix_s - its.start_intended_unix_s,
                responses_per_s: within(its),
                responses: its.counts.responses,
                failed: its.counts.failed,
                latency: its.counts.histogram.latency(),
                lateness_p99_ms: its.lateness_p99_ms,
                busy_share: its.busy_share,
                marks: marks(its, first, intended),
            })
            .collect();
        let responses_per_s = generators.iter().map(|its| its.responses_per_s).sum();
        let rates: Option<Vec<f64>> = all.iter().map(|its| its.rate).collect();
        let mut merged = Merged {
            options: first.options.clone(),
            rate: rates.map(|rates| rates.iter().sum()),
            is_marked: generators.iter().any(|its| !its.marks.is_empty()) || common_seconds == 0.0,
            common_from_unix_s: from,
            common_seconds,
            responses_per_s,
            latency: counts.histogram.latency(),
            counts,
            generators,
            server: server(&collected.watched, from, until, responses_per_s),
            notes: Vec::new(),
            course: course(&all, &collected.watched),
        };
        let carried = carried(&merged, &all, until);
        merged.notes = notes(&merged, &all, carried, !collected.watched.is_empty());
        merged
    }

    /// Name of one of what each generator has, and of what it offers.
    pub(super) fn nouns(&self) -> (&'static str, &'static str) {
        match self.options.connections_each {
            Some(_) => ("visitor", "visits"),
            None => ("connection", "requests"),
        }
    }

    /// Name of what is counted.
    pub(super) fn counted(&self) -> &'static str {
        counted(self.options.connections_each)
    }

    /// Writes `report.html` and `merged.json` into a folder, which is created.
    ///
    /// # Errors
    /// The file system's.
    pub fn write(&self, folder: &Path) -> io::Result<()> {
        fs::create_dir_all(folder)?;
        fs::write(folder.join("merged.json"), serde_json::to_string_pretty(self)? + "\n")?;
        fs::write(folder.join("report.html"), page::page(self))
    }

    /// All marks, each with its generator's name.
    pub fn marks(&self) -> Vec<String> {
        let mut all = Vec::new();
        if self.common_seconds == 0.0 {
            all.push("There was no time in which all generators ran.".to_owned());
        }
        for its in &self.generators {
            let texts = its.marks.iter().map(|mark| &mark.text);
            all.extend(texts.map(|text| format!("{} ({}): {text}", its.host, its.file)));
        }
        all
    }
}

fn marks(its: &Generated, first: &Generated, intended: f64) -> Vec<Mark> {
    let mut marks = Vec::new();
    let mut mark = |kind, text| marks.push(Mark { kind, text });
    let skew = its.start_intended_unix_s - intended;
    if skew.abs() > SKEW_S_MAX {
        let which = if skew > 0.0 { "after" } else { "before" };
        let text =
            format!("its start was intended {:.1} s {which} the others', by its clock", skew.abs());
        mark(MarkKind::Skewed, text);
    }
    let late = its.started_unix_s - its.start_intended_unix_s;
    if late > SKEW_S_MAX {
        mark(MarkKind::Late, format!("it started {late:.1} s late"));
    }
    let missing = its.end_intended_unix_s.map_or(0.0, |end| end - its.ended_unix_s);
    if its.is_interrupted || missing > SKEW_S_MAX && its.options.requests.is_none() {
        mark(MarkKind::Early, format!("it was ended {:.1} s early", missing.max(0.0)));
    }
    if let Some(error) = its.clock.error_s.filter(|error| *error > SKEW_S_MAX) {
        mark(MarkKind::Clock, format!("its clock may be off by {error:.1} s"));
    }
    if its.clock.step_s.abs() > SKEW_S_MAX {
        let step = its.clock.step_s;
        mark(MarkKind::Clock, format!("its clock was set by {step:+.1} s during the load"));
    }
    if its.is_limit {
        let text = format!(
            "it was itself a limit: busy {:.0} % of the time, p99 of its lateness {:.2} ms",
            its.busy_share * 100.0,
            its.lateness_p99_ms
        );
        mark(MarkKind::Limit, text);
    }
    let different = differences(&its.options, &first.options);
    if !different.is_empty() {
        mark(MarkKind::Options, format!("other options than the first: {}", different.join(", ")));
    }
    if its.rate.is_some() != first.rate.is_some() {
        let text = "one of it and the first has a rate (-r), the other has none";
        mark(MarkKind::Options, text.to_owned());
    }
    marks
}

/// Options in which the two differ, as in `connections 50 instead of 100`.
fn differences(its: &Options, first: &Options) -> Vec<String> {
    let fields = |options: &Options| match serde_json::to_value(options) {
        Ok(serde_json::Value::Object(fields)) => fields,
        _ => serde_json::Map::new(),
    };
    let (its, first) = (fields(its), fields(first));
    let different = its.iter().filter(|(name, value)| first.get(*name) != Some(value));
    different
        .map(|(name, value)| {
            let other = first.get(name).cloned().unwrap_or_default();
            format!("{} {value} instead of {other}", name.trim_end_matches("_s"))
        })
        .collect()
}

/// Responses a second from when the first ones can have come. Half of the time is left out at most:
/// response times are long, too, where the server is overloaded.
fn carried(merged: &Merged, all: &[&Generated], until: f64) -> f64 {
    let first_s = merged.latency.as_ref().map_or(0.0, |its| its.p50_ms / 1e3);
    let left_out = if first_s <= merged.common_seconds / 2.0 { first_s } else { 0.0 };
    let from = merged.common_from_unix_s + left_out;
    all.iter().map(|its| responses(its, from, until)).sum::<f64>() / (until - from)
}

fn notes(merged: &Merged, all: &[&Generated], carried: f64, is_watched: bool) -> Vec<String> {
    let mut notes = Vec::new();
    let unknown = all.iter().filter(|its| its.clock.is_synchronized != Some(true)).count();
    if unknown > 0 && all.len() > 1 {
        notes.push(format!(
            "{unknown} of {} machines could not say that their clocks are synchronized: starts that \
             look equal may not be.",
            all.len()
        ));
    }
    if is_watched && merged.server.is_none() {
        let text = "The server was not watched in the time in which all ran: the clocks differ, or the \
                    watch was started too late.";
        notes.push(text.to_owned());
    }
    // The rate of visits is not one of responses.
    let rate = merged.rate.filter(|_| merged.options.connections_each.is_none());
    if rate.is_some_and(|rate| carried < CARRIED_SHARE_MIN * rate) && merged.common_seconds >= 1.0 {
        notes.push("The server did not carry the offered rate.".to_owned());
    }
    notes
}

fn median(values: impl Iterator<Item = f64>) -> f64 {
    let mut values: Vec<f64> = values.collect();
    values.sort_by(f64::total_cmp);
    values.get(values.len().saturating_sub(1) / 2).copied().unwrap_or(0.0)
}

/// Seconds that two times have in common.
fn overlap(a: f64, b: f64, c: f64, d: f64) -> f64 {
    (b.min(d) - a.max(c)).max(0.0)
}

/// Responses of a generator between two moments; a second that is only partly between them counts
/// in proportion.
fn responses(its: &Generated, from: f64, until: f64) -> f64 {
    shared(its, from, until, |second| second.responses as f64)
}

fn shared(its: &Generated, from: f64, until: f64, count: fn(&super::Second) -> f64) -> f64 {
    let part = |second: &super::Second| {
        let start = its.started_unix_s + second.from_s;
        let share = overlap(start, start + second.seconds, from, until) / second.seconds;
        if second.seconds > 0.0 { count(second) * share } else { 0.0 }
    };
    its.seconds.iter().map(part).sum()
}

fn server(watched: &[Watched], from: f64, until: f64, per_s: f64) -> Option<Server> {
    let mut server = Server::default();
    let (mut cpu_s, mut foreign, mut steal) = (0.0, 0.0, 0.0);
    for line in watched {
        let seconds = line.machine.seconds;
        let shared = overlap(line.unix_s - seconds, line.unix_s, from, until);
        if shared <= 0.0 || seconds <= 0.0 {
            continue;
        }
        (server.host, server.pid) = (line.host.clone(), line.pid);
        server.seconds += shared;
        server.resident_bytes = server.resident_bytes.max(line.server.resident_bytes);
        cpu_s += line.server.cpu_s * shared / seconds;
        foreign += line.machine.foreign * shared;
        steal += line.machine.steal * shared;
    }
    let seconds = Some(server.seconds).filter(|seconds| *seconds > 0.0)?;
    server.cpus = cpu_s / seconds;
    server.cpu_us_per_response = if per_s > 0.0 { server.cpus / per_s * 1e6 } else { 0.0 };
    (server.foreign, server.steal) = (foreign / seconds, steal / seconds);
    Some(server)
}

fn course(all: &[&Generated], watched: &[Watched]) -> Vec<Slot> {
    let start = all.iter().map(|its| its.started_unix_s).fold(f64::MAX, f64::min);
    let end = all.iter().map(|its| its.active_until()).fold(f64::MIN, f64::max);
    let seconds = (end - start).max(0.0);
    let width = (seconds / SLOTS_MAX as f64).ceil().max(1.0);
    // A rest of less than half a slot has no slot of its own.
    let slots = ((seconds / width).round() as usize).clamp(1, SLOTS_MAX);
    (0..slots)
        .map(|at| {
            let from_s = at as f64 * width;
            let (from, until) = (start + from_s, (start + from_s + width).min(end));
            let length = (until - from).max(1e-9);
            let slack = SKEW_S_MAX;
            let runs = |its: &&&Generated| {
                its.started_unix_s <= from + slack && its.active_until() + slack >= until
            };
            let p99 = all.iter().flat_map(|its| {
                its.seconds.iter().filter(move |second| {
                    let start = its.started_unix_s + second.from_s;
                    overlap(start, start + second.seconds, from, until) > second.seconds / 2.0
                })
            });
            let cpu = watched.iter().filter_map(|line| {
                let seconds = line.machine.seconds;
                let shared = overlap(line.unix_s - seconds, line.unix_s, from, until);
                (shared > 0.0).then(|| (shared, line.server.cpu_s * shared / seconds))
            });
            let (watched_s, cpu_s) = cpu.fold((0.0, 0.0), |sum, it| (sum.0 + it.0, sum.1 + it.1));
            Slot {
                from_s,
                generators: all.iter().filter(runs).count(),
                responses_per_s: all.iter().map(|its| responses(its, from, until)).sum::<f64>()
                    / length,
                failed: all.iter().map(|its| shared(its, from, until, |s| s.failed as f64)).sum(),
                p99_ms_max: p99.filter_map(|second| second.p99_ms).reduce(f64::max),
                server_cpus: (watched_s > 0.0).then(|| cpu_s / watched_s),
            }
        })
        .collect()
}

#[cfg(test)]
mod tests {
    use std::path::PathBuf;

    use super::*;
    use crate::fleet::{Clock, Second};

    /// A generator that got 100 responses in each of ten seconds.
    fn steady(host: &str, start: f64) -> (PathBuf, Generated) {
        let mut counts = Counts { requests: 1000, responses: 1000, ..Counts::default() };
        counts.histogram.record(2_000_000, 1000);
        let second = |at: u32| Second {
            from_s: f64::from(at),
            seconds: 1.0,
            responses: 100,
            p99_ms: Some(2.0),
            ..Second::default()
        };
        let its = Generated {
            host: host.to_owned(),
            rate: Some(100.0),
            options: Options { duration_s: Some(10.0), ..Options::default() },
            clock: Clock { is_synchronized: Some(true), ..Clock::default() },
            start_intended_unix_s: start,
            started_unix_s: start,
            end_intended_unix_s: Some(start + 10.0),
            ended_unix_s: start + 10.0,
            counts,
            seconds: (0..10).map(second).collect(),
            ..Generated::default()
        };
        (PathBuf::from(format!("{host}.json")), its)
    }

    fn fleet() -> Collected {
        let generated = ["a", "b", "c", "d"].map(|host| steady(host, 1000.0)).to_vec();
        Collected { generated, watched: Vec::new() }
    }

    #[test]
    fn a_load_without_responses_has_no_response_times() {
        let mut all = fleet();
        for (_, its) in &mut all.generated {
            its.counts = Counts { requests: 1000, ..Counts::default() };
            its.seconds.clear();
        }
        let merged = Merged::of(&all);
        assert!(merged.latency.is_none() && merged.generators[0].latency.is_none());
        let text = merged.to_string();
        assert!(!text.contains("p50") && !text.contains("0.0 ms  "), "{text}");
        let page = page::page(&merged);
        assert!(!page.contains("median") && !page.contains("Response times"), "{page}");
    }

    #[test]
    fn equal_generators_have_the_sum_of_their_rates_and_no_mark() {
        let mut all = fleet();
        let line = |second: u32| {
            let mut line = Watched { unix_s: 1000.0 + f64::from(second), ..Watched::default() };
            line.server.cpu_s = if second > 10 { 0.0 } else { 0.2 };
            line.machine.seconds = 1.0;
            line
        };
        all.watched = (1..=15).map(line).collect();
        let merged = Merged::of(&all);
        assert!(!merged.is_marked && merged.marks().is_empty(), "{:?}", merged.marks());
        assert_eq!((merged.common_seconds, merged.counts.responses), (10.0, 4000));
        assert!((merged.responses_per_s - 400.0).abs() < 1e-6, "{merged:?}");
        assert_eq!((merged.rate, merged.counts.histogram.count()), (Some(400.0), 4000));
        let server = merged.server.unwrap();
        assert!((server.cpu_us_per_response - 500.0).abs() < 1e-6, "{server:?}");
        assert_eq!(merged.course.len(), 10);
        for slot in &merged.course {
            assert_eq!(slot.generators, 4, "{slot:?}");
            assert!((slot.responses_per_s - 400.0).abs() < 1e-6, "{slot:?}");
            assert!((slot.server_cpus.unwrap() - 0.2).abs() < 1e-6, "{slot:?}");
        }
        assert!(merged.notes.is_empty(), "{:?}", merged.notes);
    }

    #[test]
    fn each_fault_has_its_mark_on_its_generator_alone() {
        type Fault = fn(&mut Generated);
        let rows: [(MarkKind, &str, Fault); 9] = [
            (MarkKind::Skewed, "3.0 s after", |its| {
                its.start_intended_unix_s += 3.0;
                its.started_unix_s += 3.0;
                its.end_intended_unix_s = Some(1013.0);
                its.ended_unix_s += 3.0;
            }),
            (MarkKind::Late, "1.5 s late", |its| {
                its.started_unix_s += 1.5;
                its.ended_unix_s += 1.5;
            }),
            (MarkKind::Early, "4.0 s early", |its| its.ended_unix_s -= 4.0),
            (MarkKind::Early, "0.0 s early", |its| its.is_interrupted = true),
            (MarkKind::Clock, "off by 0.5 s", |its| its.clock.error_s = Some(0.5)),
            (MarkKind::Clock, "set by -0.2 s", |its| its.clock.step_s = -0.2),
            (MarkKind::Limit, "a limit", |its| its.is_limit = true),
            (MarkKind::Options, "connections 7 instead of 0", |its| its.options.connections = 7),
            (MarkKind::Options, "-r", |its| its.rate = None),
        ];
        for (kind, words, fault) in rows {
            let mut all = fleet();
            fault(&mut all.generated[2].1);
            let merged = Merged::of(&all);
            assert!(merged.is_marked, "{words}");
            for (at, its) in merged.generators.iter().enumerate() {
                let kinds: Vec<MarkKind> = its.marks.iter().map(|mark| mark.kind).collect();
                assert_eq!(kinds, if at == 2 { vec![kind] } else { Vec::new() }, "{words}");
            }
            let text = merged.marks().join("\n");
            assert!(text.contains(words) && text.contains("c (c.json)"), "{words}: {text}");
        }
    }

    #[test]
    fn a_rate_is_carried_though_the_first_responses_take_their_time() {
        // Responses take 600 ms: the first second has 40 of 100, and 60 end after the time.
        for (lost, is_told) in [(0, false), (20, true)] {
            let mut all = fleet();
            for (_, its) in &mut all.generated {
                its.counts.histogram = Default::default();
                its.counts.histogram.record(600_000_000, 1000);
                its.seconds.iter_mut().for_each(|second| second.responses -= lost);
                its.seconds[0].responses = 40;
            }
            let notes = Merged::of(&all).notes.concat();
            assert_eq!(notes.contains("did not carry"), is_told, "{lost} a second: {notes}");
        }
    }

    #[test]
    fn a_load_of_visits_is_called_so() {
        let mut all = fleet();
        for (_, its) in &mut all.generated {
            // A tenth of the responses that requests at that rate would have.
            its.rate = Some(1_000.0);
            (its.options.connections, its.options.connections_each) = (5, Some(6));
        }
        let merged = Merged::of(&all);
        assert!(!merged.notes.concat().contains("did not carry"), "{:?}", merged.notes);
        let (text, page) = (merged.to_string(), page::page(&merged));
        for said in [&text, &page] {
            assert!(said.contains("5 visitors on each, "), "{said}");
            assert!(said.contains("visits/s offered") && !said.contains("requests/s"), "{said}");
        }
        all.generated.iter_mut().for_each(|(_, its)| its.rate = None);
        let text = Merged::of(&all).to_string();
        assert!(text.contains("5 visitors on each, the next as soon as one leaves"), "{text}");
    }

    /// Regression: seconds that were not watched had 0 processors on the page.
    #[test]
    fn a_page_says_what_was_not_watched_and_counts_in_words() {
        let mut all = fleet();
        all.generated.truncate(1);
        all.generated[0].1.options.connections = 1;
        let line = |second: u32| {
            let mut line = Watched { unix_s: 1000.0 + f64::from(second), ..Watched::default() };
            line.server.cpu_s = 0.2;
            line.machine.seconds = 1.0;
            line
        };
        all.watched = (1..=5).map(line).collect();
        let merged = Merged::of(&all);
        let page = page::page(&merged);
        assert!(page.contains("4 s: 0.20 processors"), "{page}");
        assert!(page.contains("5 s: not watched") && !page.contains("0.00 processors"), "{page}");
        for said in [&page, &merged.to_string()] {
            assert!(said.contains("1 generator, 1 connection on each"), "{said}");
            assert!(!said.contains("1 generators"), "{said}");
        }
    }

    #[test]
    fn throughput_is_that_of_the_time_in_which_all_ran() {
        let mut all = fleet();
        let late = &mut all.generated[3].1;
        (late.started_unix_s, late.ended_unix_s) = (1004.5, 1014.5);
        let merged = Merged::of(&all);
        assert_eq!((merged.common_from_unix_s, merged.common_seconds), (1004.5, 5.5));
        assert!((merged.responses_per_s - 400.0).abs() < 1e-6, "{merged:?}");
        let running: Vec<usize> = merged.course.iter().map(|slot| slot.generators).collect();
        assert_eq!(running[..6], [3, 3, 3, 3, 3, 4], "{running:?}");
        let (_, apart) = &mut all.generated[3];
        (apart.started_unix_s, apart.ended_unix_s) = (1020.0, 1030.0);
        let merged = Merged::of(&all);
        assert_eq!((merged.responses_per_s, merged.is_marked), (0.0, true));
        assert!(merged.marks()[0].contains("no time"), "{:?}", merged.marks());
    }
}
