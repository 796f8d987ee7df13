//! Folded tables: the load, the use of the server and of the machine, and failures by kind. A row
//! for each contender and step of a ladder.

use std::collections::BTreeMap;

use super::Data;
use super::measure::{Measure, percentile_ms};
use super::numbers::sensible;
use super::scale::step_words;
use super::series::{Ladder, Row};
use crate::sample::{DiskUse, Errors, MachineUse, Sample, ServerUse};
use crate::stats::Bins;

/// Ticks a sample must contain for its user and system time to be meaningful.
pub(super) const TICKS_MIN: f64 = 500.0;

/// The kernel's ticks of a second (`USER_HZ`).
pub(super) const TICKS_PER_S: f64 = 100.0;

/// Shares of the processors' time below this are not shown.
const SHARE_MIN: f64 = 0.0005;

/// A head and rows, as text.
pub(super) type Cells = Vec<Vec<String>>;

/// A folded table of a ladder: its heading and the function of its cells, which returns `None` for
/// rows without data.
pub(super) struct Detail {
    pub(super) heading: &'static str,
    pub(super) note: &'static str,
    head: &'static [&'static str],
    cells: fn(&Row<'_>) -> Option<Vec<String>>,
}

pub(super) const DETAILS: [Detail; 5] = [
    Detail {
        heading: "Load of server and generator",
        note: "Use of one processor by the server and by the generator; near 100 % the generator was \
               the limit. Lateness is the generator's own delay; service time excludes the time \
               a request waited to be sent.",
        head: &[
            "server, % of a core",
            "generator, % of a core",
            "late p99, ms",
            "response p50, ms",
            "response p99, ms",
            "p99.9, ms",
            "max, ms",
            "service p50, ms",
            "service p99, ms",
            "reads per response",
            "bytes per response",
        ],
        cells: load,
    },
    Detail {
        heading: "Handshakes",
        note: "TLS handshakes over all rounds. If each request has its own connection, a reply \
               includes the handshake, the request and the close: replies/s are handshakes/s. A \
               round with a handshake of the other kind is marked and not ranked.",
        head: &["full", "resumed", "resumed, %", "handshakes/s"],
        cells: handshakes,
    },
    Detail {
        heading: "Steadiness of the replies",
        note: "Over the whole seconds of all rounds together.",
        head: &["replies/s", "deviation", "least", "most", "seconds"],
        cells: bins,
    },
    Detail {
        heading: "Work of the server",
        note: "Switches are those of the server's own threads: voluntary ones it asked for by \
               waiting. User and system time come in ticks, and are shown only where a sample holds \
               at least 500 of them.",
        head: &[
            "CPU per request, µs",
            "user, % of it",
            "system, % of it",
            "voluntary switches a request",
            "involuntary",
            "runnable threads",
            "memory, MiB",
        ],
        cells: server,
    },
    Detail {
        heading: "Work of the machine beside it",
        note: "Rows of samples in which the host took processor time, other programs used it, or a \
               disk was used. The medians over rounds; in brackets the most.",
        head: &["steal, %", "iowait, %", "others, %", "disks"],
        cells: machine,
    },
];

/// The table of a ladder; `None` where it would be empty.
pub(super) fn table(data: Data<'_>, ladder: &Ladder<'_>, detail: &Detail) -> Option<Cells> {
    let head = ["", "at"].iter().chain(detail.head).map(|c| (*c).to_owned()).collect();
    let rows = ladder.rows.iter().filter_map(|row| {
        let cells = (detail.cells)(row)?;
        Some(row_labels(data, ladder, row).into_iter().chain(cells).collect())
    });
    let rows: Cells = [head].into_iter().chain(rows).collect();
    (rows.len() > 1).then_some(rows)
}

/// Failures by kind; `None` if nothing failed.
pub(super) fn errors(data: Data<'_>, ladder: &Ladder<'_>) -> Option<Cells> {
    let kinds: [(&str, fn(&Errors) -> u64); 7] = [
        ("refused", |e| e.refused),
        ("reset", |e| e.reset),
        ("timed out", |e| e.timeout),
        ("TLS", |e| e.tls),
        ("HTTP/2, HTTP/3", |e| e.http2),
        ("wrong status", |e| e.status),
        ("wrong bytes", |e| e.bytes),
    ];
    let head = ["", "at"].into_iter().chain(kinds.map(|k| k.0)).chain(["of all, %"]);
    let rows = ladder.rows.iter().filter(|row| row.errors().total() > 0).map(|row| {
        let errors = row.errors();
        let counts = kinds.map(|(_, of)| match of(&errors) {
            0 => "–".to_owned(),
            some => sensible(some as f64),
        });
        let (failed, all) = row.failed();
        let share = sensible(100.0 * failed as f64 / all.max(1) as f64);
        row_labels(data, ladder, row).into_iter().chain(counts).chain([share]).collect()
    });
    let rows: Cells = [head.map(str::to_owned).collect()].into_iter().chain(rows).collect();
    (rows.len() > 1).then_some(rows)
}

fn row_labels(data: Data<'_>, ladder: &Ladder<'_>, row: &Row<'_>) -> [String; 2] {
    [data.run.title(row.contender).to_owned(), step_words(row.x, ladder.steps.words().2)]
}

fn load(row: &Row<'_>) -> Option<Vec<String>> {
    let sum = |of: fn(&Sample) -> f64| row.samples.iter().map(|s| of(s)).sum::<f64>();
    let replies = sum(|s| s.load.replies as f64);
    let (late, service) = (row.merged(|s| &s.load.lateness), row.merged(|s| &s.load.service));
    let ms = |times, share| shown(percentile_ms(times, share));
    Some(vec![
        shown(row.middle(Measure::Cpu)),
        sensible(100.0 * sum(|s| s.load.busy_s) / sum(|s| s.load.offering_s())),
        ms(&late, 0.99),
        ms(&row.response, 0.5),
        ms(&row.response, 0.99),
        ms(&row.response, 0.999),
        ms(&row.response, 1.0),
        ms(&service, 0.5),
        ms(&service, 0.99),
        sensible(sum(|s| s.load.reads as f64) / replies),
        sensible(sum(|s| s.load.bytes as f64) / replies),
    ])
}

fn handshakes(row: &Row<'_>) -> Option<Vec<String>> {
    let sum = |of: fn(&Sample) -> f64| row.samples.iter().map(|s| of(s)).sum::<f64>();
    let full = sum(|s| s.load.handshakes.full as f64);
    let resumed = sum(|s| s.load.handshakes.resumed as f64);
    let all = full + resumed;
    let seconds = sum(|s| s.load.seconds);
    let cells = [full, resumed, 100.0 * resumed / all, all / seconds];
    (all > 0.0).then(|| cells.map(sensible).to_vec())
}

fn bins(row: &Row<'_>) -> Option<Vec<String>> {
    let seconds: Vec<u64> =
        row.samples.iter().flat_map(|s| &s.load.replies_per_second).copied().collect();
    let bins = Bins::of(&seconds);
    let figures = [bins.mean, bins.deviation, bins.min, bins.max, bins.count as f64];
    (bins.count > 1).then(|| figures.map(sensible).to_vec())
}

fn server(row: &Row<'_>) -> Option<Vec<String>> {
    let uses = || row.samples.iter().filter_map(|s| s.server.as_ref());
    uses().next()?;
    let replies = row.samples.iter().filter(|s| s.server.is_some()).map(|s| s.load.replies);
    let replies = replies.sum::<u64>() as f64;
    let each = |of: fn(&ServerUse) -> u64| sensible(uses().map(of).sum::<u64>() as f64 / replies);
    let split = split(uses());
    let [user, system] = [0, 1].map(|at| shown(split.map(|split| [split.0, split.1][at])));
    Some(vec![
        shown(row.middle(Measure::CpuPerRequest)),
        user,
        system,
        each(|u| u.voluntary_switches),
        each(|u| u.involuntary_switches),
        shown(row.middle(Measure::Runnable)),
        shown(row.middle(Measure::Resident)),
    ])
}

/// User and system time in per cent of both, over the samples with enough ticks; `None` without
/// such samples.
fn split<'a>(uses: impl Iterator<Item = &'a ServerUse>) -> Option<(f64, f64)> {
    let enough = |u: &&ServerUse| (u.user_s + u.system_s) * TICKS_PER_S >= TICKS_MIN;
    let sum = |(user, system), u: &ServerUse| (user + u.user_s, system + u.system_s);
    let (user, system): (f64, f64) = uses.filter(enough).fold((0.0, 0.0), sum);
    let both = user + system;
    (both > 0.0).then(|| (100.0 * user / both, 100.0 * system / both))
}

fn machine(row: &Row<'_>) -> Option<Vec<String>> {
    let uses: Vec<&MachineUse> = row.samples.iter().filter_map(|s| s.machine.as_ref()).collect();
    let mut disks: BTreeMap<&str, Vec<(f64, DiskUse)>> = BTreeMap::new();
    for machine in &uses {
        for (name, disk) in &machine.disks {
            disks.entry(name).or_default().push((machine.seconds, *disk));
        }
    }
    let shares: [fn(&MachineUse) -> f64; 3] = [|m| m.steal, |m| m.iowait, |m| m.foreign];
    let shares = shares.map(|of| uses.iter().map(|m| of(m)).collect::<Vec<f64>>());
    let most = |values: &[f64]| values.iter().copied().fold(0.0, f64::max);
    if disks.is_empty() && shares.iter().all(|values| most(values) < SHARE_MIN) {
        return None;
    }
    let words = |mut values: Vec<f64>| {
        let middle = crate::stats::interval::median(&mut values)?;
        Some(format!("{} ({})", sensible(100.0 * middle), sensible(100.0 * most(&values))))
    };
    let mut cells = shares.map(|values| words(values).unwrap_or_else(|| "–".to_owned())).to_vec();
    let disks: Vec<String> = disks.iter().map(|(name, uses)| disk(name, uses)).collect();
    cells.push(if disks.is_empty() { "–".to_owned() } else { disks.join("; ") });
    Some(cells)
}

/// One disk over all rounds in which it was used.
fn disk(name: &str, uses: &[(f64, DiskUse)]) -> String {
    let seconds: f64 = uses.iter().map(|(seconds, _)| seconds).sum();
    let reads: f64 = uses.iter().map(|(_, disk)| disk.reads as f64).sum();
    let bytes: f64 = uses.iter().map(|(_, disk)| disk.read_bytes as f64).sum();
    let waited: f64 = uses.iter().map(|(_, disk)| disk.await_ms * disk.reads as f64).sum();
    let busy: f64 = uses.iter().map(|(seconds, disk)| disk.busy * seconds).sum();
    format!(
        "{name}: {} reads/s, {} MB/s, await {} ms, {}\u{202f}% busy",
        sensible(reads / seconds),
        sensible(bytes / 1e6 / seconds),
        if reads > 0.0 { sensible(waited / reads) } else { "–".to_owned() },
        sensible(100.0 * busy / seconds),
    )
}

fn shown(value: Option<f64>) -> String {
    value.map_or_else(|| "–".to_owned(), sensible)
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn ticks_are_split_only_where_there_are_enough() {
        let sample = |user_s, system_s| ServerUse { user_s, system_s, ..ServerUse::default() };
        let rows = [
            (vec![sample(2.0, 2.9)], None, "490 ticks"),
            (vec![sample(1.25, 3.75)], Some((25.0, 75.0)), "500"),
            (vec![sample(2.0, 2.9), sample(2.0, 2.9)], None, "two samples do not make one"),
            (vec![sample(0.1, 0.1), sample(5.0, 5.0)], Some((50.0, 50.0)), "one holds enough"),
        ];
        for (uses, want, why) in rows {
            assert_eq!(split(uses.iter()), want, "{why}");
        }
    }

    #[test]
    fn a_disk_is_summarized_over_its_rounds() {
        let quiet = DiskUse { reads: 0, read_bytes: 0, await_ms: 0.0, busy: 0.0 };
        let busy = DiskUse { reads: 100, read_bytes: 10_000_000, await_ms: 4.0, busy: 0.5 };
        let words = disk("vda", &[(5.0, busy), (5.0, quiet)]).replace('\u{202f}', " ");
        assert_eq!(words, "vda: 10.0 reads/s, 1.00 MB/s, await 4.00 ms, 25.0 % busy");
    }
}
