//! The figures of an interval as texts in groups and tables, which `hurtle top` draws in a terminal
//! and a status page as HTML.

use super::rates::{CLASSES, LaneRates, Latency, Rates, RouteRates, SortKey};
use super::rates::{UpstreamRates, WorkerRates};
use super::snapshot::{ConnectionSnapshot, UpstreamState};
use super::units::{count, latency, percent, size, time};
use super::{HotPath, InFlightSnapshot, PathsSnapshot, SlowestRequest};

/// Rows of the tables of paths and of requests in flight.
const PATHS_SHOWN: usize = 10;
const REQUESTS_SHOWN: usize = 10;

/// The figures of an interval as texts.
#[derive(Clone, Debug, Default, PartialEq, Eq)]
pub struct Report {
    /// Figures of the whole server.
    pub groups: Vec<Group>,
    /// Figures of its parts.
    pub tables: Vec<Table>,
}

/// Figures that belong together.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct Group {
    /// The heading of the group.
    pub name: &'static str,
    /// Its figures with their names.
    pub figures: Vec<(String, Text)>,
}

/// A table. Its first column is text; the others are figures.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct Table {
    /// The heading of the table.
    pub name: &'static str,
    /// The heads of its columns.
    pub heads: Vec<&'static str>,
    /// The column that the rows are sorted by.
    pub sorted_by: Option<usize>,
    /// Its rows, each as long as `heads`.
    pub rows: Vec<Vec<Text>>,
}

/// A text and its emphasis.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct Text {
    /// The text without emphasis.
    pub text: String,
    /// The emphasis, shown as a colour where there are colours.
    pub tone: Tone,
}

/// The emphasis of a text.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum Tone {
    Plain,
    /// Zero, or nothing to show.
    Faint,
    /// A fault.
    Bad,
}

impl Report {
    /// Formats figures whose rows of mounts are sorted by `sorted`.
    pub fn new(rates: &Rates, sorted: SortKey) -> Report {
        let mut groups = vec![
            server(rates),
            traffic(rates),
            latencies(rates),
            classes(rates),
            connections(&rates.connections),
            file_cache(rates),
        ];
        groups.extend(response_cache(rates));
        groups.push(reloads(rates));
        groups.extend(limits(rates));
        let tables = [
            mounts(rates, sorted),
            paths(&rates.paths),
            slowest(&rates.in_flight),
            upstreams(rates),
            disk(rates),
            workers(rates),
        ];
        let tables = tables.into_iter().filter(|table| !table.rows.is_empty());
        Report { groups, tables: tables.collect() }
    }
}

fn plain(text: impl Into<String>) -> Text {
    Text { text: text.into(), tone: Tone::Plain }
}

/// A figure that is faint if it is zero.
fn figure(number: f64, text: fn(f64) -> String) -> Text {
    let text = text(number);
    let tone = if matches!(text.as_str(), "0" | "0 B") { Tone::Faint } else { Tone::Plain };
    Text { text, tone }
}

/// A number of events that should not be.
fn fault(number: f64) -> Text {
    let text = count(number);
    let tone = if text == "0" { Tone::Faint } else { Tone::Bad };
    Text { text, tone }
}

fn optional(number: Option<f64>, text: fn(f64) -> String) -> Text {
    match number {
        Some(number) => plain(text(number)),
        None => Text { text: "-".to_owned(), tone: Tone::Faint },
    }
}

fn whole(number: u64) -> Text {
    figure(number as f64, |number| format!("{number:.0}"))
}

fn group<const N: usize>(name: &'static str, figures: [(&str, Text); N]) -> Group {
    Group { name, figures: figures.map(|(name, text)| (name.to_owned(), text)).into() }
}

fn server(rates: &Rates) -> Group {
    let over = if rates.is_since_start { "since the start" } else { "interval" };
    group(
        "server",
        [
            ("version", plain(rates.version.clone())),
            ("process", plain(rates.pid.to_string())),
            ("up", plain(time(rates.up))),
            ("processor", plain(percent(rates.cpu))),
            ("memory", optional(rates.resident_bytes.map(|bytes| bytes as f64), size)),
            (over, plain(time(rates.seconds))),
        ],
    )
}

fn traffic(rates: &Rates) -> Group {
    group(
        "traffic",
        [
            ("requests/s", figure(rates.total.requests, count)),
            ("sent/s", figure(rates.total.sent, size)),
            ("received/s", figure(rates.received, size)),
            ("connections/s", figure(rates.accepted, count)),
        ],
    )
}

fn latencies(rates: &Rates) -> Group {
    let Latency { p50, p90, p99 } = rates.total.latency;
    let of = |at| optional(at, latency);
    group("latency", [("p50", of(p50)), ("p90", of(p90)), ("p99", of(p99))])
}

fn classes(rates: &Rates) -> Group {
    let of = |at: usize| {
        let number = rates.total.classes[at];
        (format!("{}/s", CLASSES[at]), if at == 4 { fault(number) } else { figure(number, count) })
    };
    Group { name: "status", figures: (1..CLASSES.len()).map(of).collect() }
}

fn connections(open: &ConnectionSnapshot) -> Group {
    group(
        "connections",
        [
            ("h1 active", whole(open.http1_active)),
            ("h1 idle", whole(open.http1_idle)),
            ("h2 active", whole(open.http2_active)),
            ("h2 idle", whole(open.http2_idle)),
            ("h3 active", whole(open.http3_active)),
            ("h3 idle", whole(open.http3_idle)),
            ("handshakes", whole(open.handshaking)),
            ("other", whole(open.other)),
        ],
    )
}

fn file_cache(rates: &Rates) -> Group {
    let cache = &rates.file_cache;
    group(
        "file cache",
        [
            ("hits/s", figure(cache.hits, count)),
            ("look-ups/s", figure(cache.misses, count)),
            ("hit rate", optional(cache.hit_share(), percent)),
            ("files", whole(cache.entries)),
            ("memory", figure(cache.bytes as f64, size)),
        ],
    )
}

/// The response caches; `None`: they have not been used.
fn response_cache(rates: &Rates) -> Option<Group> {
    let cache = &rates.response_cache;
    if cache.entries == 0 && rates.cache_results.is_empty() {
        return None;
    }
    let results = rates.cache_results.iter();
    let mut figures: Vec<_> =
        results.map(|(name, rate)| (format!("{name}/s"), figure(*rate, count))).collect();
    figures.push(("responses".to_owned(), whole(cache.entries)));
    figures.push(("memory".to_owned(), figure(cache.memory_bytes as f64, size)));
    figures.push(("disk".to_owned(), figure(cache.disk_bytes as f64, size)));
    Some(Group { name: "cache", figures })
}

fn reloads(rates: &Rates) -> Group {
    let reloads = &rates.reloads;
    let failed = match reloads.last_succeeded {
        true => whole(reloads.failed),
        false => fault(reloads.failed as f64),
    };
    let last = if reloads.last_succeeded { plain("ok") } else { bad("failed") };
    let succeeded = whole(reloads.succeeded);
    group("reloads", [("succeeded", succeeded), ("failed", failed), ("last", last)])
}

fn bad(text: &str) -> Text {
    Text { text: text.to_owned(), tone: Tone::Bad }
}

/// The limits that clients have hit; `None`: none.
fn limits(rates: &Rates) -> Option<Group> {
    let hit = rates.limits.iter().filter(|(_, _, total)| *total > 0);
    let figures: Vec<_> = hit
        .map(|(name, new, total)| {
            let tone = if *new > 0 { Tone::Bad } else { Tone::Plain };
            (name.to_string(), Text { text: total.to_string(), tone })
        })
        .collect();
    (!figures.is_empty()).then_some(Group { name: "limits hit", figures })
}

fn mounts(rates: &Rates, sorted: SortKey) -> Table {
    let row = |route: &RouteRates| {
        vec![
            plain(format!("{}{}", name(&route.site, "(no site)"), name(&route.mount, " -"))),
            figure(route.requests, count),
            figure(route.classes[3], count),
            fault(route.classes[4]),
            optional(route.latency.p50, latency),
            optional(route.latency.p99, latency),
            figure(route.sent, size),
        ]
    };
    let column = match sorted {
        SortKey::Requests => 1,
        SortKey::Errors => 2,
        SortKey::Latency => 5,
        SortKey::Bytes => 6,
    };
    Table {
        name: "mounts",
        heads: vec!["mount", "requests/s", "4xx/s", "5xx/s", "p50", "p99", "sent/s"],
        sorted_by: Some(column),
        rows: rates.routes.iter().map(row).collect(),
    }
}

/// The hottest paths. The column of samples tells how sure the estimates are.
fn paths(paths: &PathsSnapshot) -> Table {
    let row = |of: &HotPath| {
        vec![
            plain(format!("{}{}", name(&of.site, "(no site)"), of.path)),
            figure(of.responses as f64 / paths.seconds.max(1.0), count),
            plain(percent(of.responses as f64 / paths.responses.max(1) as f64)),
            whole(of.samples),
        ]
    };
    Table {
        name: "hottest paths",
        heads: vec!["hottest path", "requests/s", "share", "samples"],
        sorted_by: None,
        rows: paths.hottest.iter().take(PATHS_SHOWN).map(row).collect(),
    }
}

fn slowest(in_flight: &InFlightSnapshot) -> Table {
    let row = |of: &SlowestRequest| {
        vec![
            plain(format!("{} {}{}", of.method, name(&of.site, "(no site)"), of.path)),
            plain(time(of.seconds)),
            plain(if of.is_responding { "responding" } else { "waiting" }),
        ]
    };
    Table {
        name: "in flight",
        heads: vec!["slowest in flight", "for", "state"],
        sorted_by: None,
        rows: in_flight.slowest.iter().take(REQUESTS_SHOWN).map(row).collect(),
    }
}

fn upstreams(rates: &Rates) -> Table {
    let row = |of: &UpstreamRates| {
        vec![
            plain(format!("{} {}{}", of.upstream, of.site, of.mount)),
            match of.state {
                UpstreamState::Down => bad(of.state.name()),
                state => plain(state.name()),
            },
            figure(of.answered, count),
            fault(of.failed),
            optional(of.latency.p50, latency),
            optional(of.latency.p99, latency),
            whole(of.in_flight),
            whole(of.idle),
        ]
    };
    let heads = ["upstream", "state", "answers/s", "failed/s", "p50", "p99", "active", "idle"];
    Table {
        name: "upstreams",
        heads: heads.to_vec(),
        sorted_by: None,
        rows: rates.upstreams.iter().map(row).collect(),
    }
}

fn disk(rates: &Rates) -> Table {
    let row = |lane: &LaneRates| {
        vec![
            plain(lane.lane.clone()),
            whole(lane.queued),
            whole(lane.running),
            figure(lane.jobs, count),
            optional(lane.wait, latency),
            fault(lane.rejected),
        ]
    };
    Table {
        name: "disk",
        heads: vec!["lane", "queued", "running", "jobs/s", "mean wait", "refused/s"],
        sorted_by: None,
        rows: rates.disk.iter().map(row).collect(),
    }
}

fn workers(rates: &Rates) -> Table {
    let row = |of: &WorkerRates| {
        vec![
            plain(of.worker.to_string()),
            whole(of.connections),
            optional(of.lag, |lag| format!("<={}", latency(lag))),
        ]
    };
    Table {
        name: "workers",
        heads: vec!["worker", "connections", "loop lag"],
        sorted_by: None,
        rows: rates.workers.iter().map(row).collect(),
    }
}

fn name<'a>(text: &'a str, absent: &'a str) -> &'a str {
    if text.is_empty() { absent } else { text }
}
