//! Streams, idle connections or reloads beside a ladder, their throughput and their effect on the
//! requests: a row for each contender and step, next to its figures without streams.

use super::Data;
use super::measure::Measure;
use super::numbers::sensible;
use super::scale::step_words;
use super::series::{Ladder, Row};
use crate::sample::{BulkLoad, DiskUse, Sample};
use crate::stats::interval::median;

pub(super) fn note(ladder: &Ladder<'_>) -> String {
    if is_slow(ladder) {
        return SLOW_NOTE.to_owned();
    }
    if is_quiet(ladder) {
        return QUIET_NOTE.to_owned();
    }
    if !is_cold(ladder) {
        return NOTE.to_owned();
    }
    let cooled = ladder.rows.iter().flat_map(|row| &row.samples).filter_map(|s| s.cooling.as_ref());
    let inodes = cooled.clone().all(|cooling| cooling.inodes);
    let disk = cooled.map(|cooling| &*cooling.disk).next().unwrap_or("the disk");
    let what = match inodes {
        true => "the kernel's cache of all files was dropped (drop_caches)",
        false => {
            "the files' contents were dropped from the page cache (posix_fadvise), but not their inodes"
        }
    };
    format!("{COLD_NOTE} Before each sample {what}; the disk is {disk}.")
}

const NOTE: &str = "Medians over rounds. Processor time holds the streams' share too. \
                               The peak of resident memory is that of all of a server's processes.";

const HEAD: [&str; 10] = [
    "",
    "at",
    "down, MB/s",
    "up, MB/s",
    "transfers",
    "failed",
    "p99, ms",
    "alone",
    "memory at most, MiB",
    "alone",
];

const QUIET_NOTE: &str = "Medians over rounds. Alone: the same requests without the idle connections or \
                          reloads. Failed: requests of all rounds. Memory for each idle connection is \
                          the growth of resident memory while they were opened; the kernel's memory \
                          for sockets is not in it.";

const QUIET_HEAD: [&str; 8] = [
    "",
    "at",
    "failed",
    "p99, ms",
    "alone",
    "memory at most, MiB",
    "alone",
    "for each idle connection, KB",
];

const SLOW_NOTE: &str = "Medians over rounds. Alone: the same requests without the slow readers. Failed: requests of \
                         all rounds. Memory for each slow reader is the growth of resident memory from before \
                         they were opened until the end of the requests; the kernel's memory for sockets is not \
                         in it. Closed: slow readers whose connections the server closed.";

const SLOW_HEAD: [&str; 10] = [
    "",
    "at",
    "failed",
    "p99, ms",
    "alone",
    "memory at most, MiB",
    "alone",
    "for each slow client, KB",
    "read or sent by each, KB/s",
    "closed",
];

const COLD_NOTE: &str = "Medians over rounds. Only the disk has the files that are downloaded, each at \
                         most once. Alone: the same requests without them; times: the one p99 over the \
                         other. Waited: the share of all processors' time, the generator's too, spent \
                         waiting for a disk. Where reads/s are limited the kernel holds a read back \
                         before the disk has it: neither its time nor the disk's busy time holds that \
                         wait.";

const COLD_HEAD: [&str; 12] = [
    "",
    "at",
    "cold, MB/s",
    "files/s",
    "failed",
    "p99, ms",
    "alone",
    "times",
    "reads/s",
    "a read, ms",
    "disk busy, %",
    "waited, %",
];

/// The table of a ladder; `None` without streams.
pub(super) fn table(data: Data<'_>, ladder: &Ladder<'_>) -> Option<Vec<Vec<String>>> {
    ladder.beside?;
    let alone = Ladder { beside: None, ..ladder.clone() };
    let alike = |l: &&Ladder<'_>| l.asks_as(&alone, ladder.steps);
    let alone = data.ladders.iter().find(alike);
    let rows = ladder.rows.iter().map(|row| {
        let quiet = alone.and_then(|alone| alone.at(row.contender, row.x));
        let title = data.run.title(row.contender).to_owned();
        let step = step_words(row.x, ladder.steps.words().2);
        let cells = match ladder {
            _ if is_slow(ladder) => slow_cells(row, quiet),
            _ if is_quiet(ladder) => quiet_cells(row, quiet).to_vec(),
            _ if is_cold(ladder) => cold_cells(row, quiet).to_vec(),
            _ => cells(row, quiet).to_vec(),
        };
        [title, step].into_iter().chain(cells).collect()
    });
    let head = match ladder {
        _ if is_slow(ladder) => &SLOW_HEAD[..],
        _ if is_quiet(ladder) => &QUIET_HEAD,
        _ if is_cold(ladder) => &COLD_HEAD,
        _ => &HEAD,
    };
    let head = head.iter().map(|&cell| cell.to_owned()).collect();
    Some([head].into_iter().chain(rows).collect())
}

fn is_cold(ladder: &Ladder<'_>) -> bool {
    ladder.beside.is_some_and(|beside| beside.cold.is_some())
}

/// `true` if idle connections or reloads are beside the requests, and no streams.
fn is_quiet(ladder: &Ladder<'_>) -> bool {
    ladder.beside.is_some_and(|beside| !beside.has_streams())
}

fn is_slow(ladder: &Ladder<'_>) -> bool {
    ladder.beside.is_some_and(|beside| beside.slow > 0)
}

fn slow_cells(row: &Row<'_>, quiet: Option<&Row<'_>>) -> Vec<String> {
    let each = |s: &Sample| {
        let bytes = s.load.slow?.bytes as f64;
        Some(bytes / f64::from(s.idle?.connections) / s.load.seconds / 1e3)
    };
    let closed: u64 = row.samples.iter().filter_map(|s| s.load.slow).map(|slow| slow.closed).sum();
    let more = [shown(middle(row, each)), closed.to_string()];
    quiet_cells(row, quiet).into_iter().chain(more).collect()
}

fn quiet_cells(row: &Row<'_>, quiet: Option<&Row<'_>>) -> [String; 6] {
    let per_connection = |s: &Sample| Some(s.idle?.bytes_per_connection() / 1e3);
    [
        row.errors().total().to_string(),
        shown(p99(row)),
        shown(quiet.and_then(p99)),
        shown(peak_mib(row)),
        shown(quiet.and_then(peak_mib)),
        shown(middle(row, per_connection)),
    ]
}

fn cold_cells(row: &Row<'_>, quiet: Option<&Row<'_>>) -> [String; 10] {
    let each = |of: fn(&BulkLoad) -> u64| {
        middle(row, |s| {
            let bulk = s.load.bulk.as_ref()?;
            let seconds = bulk.over_ns.map_or(s.load.seconds, |ns| ns as f64 / 1e9);
            Some(of(bulk) as f64 / seconds)
        })
    };
    let disk = |of: fn(&DiskUse, f64) -> f64| {
        shown(middle(row, |s| {
            let (cooling, machine) = (s.cooling.as_ref()?, s.machine.as_ref()?);
            let none = DiskUse::default();
            Some(of(machine.disks.get(&cooling.disk).unwrap_or(&none), machine.seconds))
        }))
    };
    let (busy, alone) = (p99(row), quiet.and_then(p99));
    [
        shown(each(|bulk| bulk.down_bytes).map(|bytes| bytes / 1e6)),
        shown(each(|bulk| bulk.downloads)),
        all(row, |bulk| bulk.failures),
        shown(busy),
        shown(alone),
        shown(busy.zip(alone).map(|(busy, alone)| busy / alone)),
        disk(|disk, seconds| disk.reads as f64 / seconds),
        disk(|disk, _| disk.await_ms),
        disk(|disk, _| disk.busy * 100.0),
        shown(middle(row, |s| Some(s.machine.as_ref()?.iowait * 100.0))),
    ]
}

fn cells(row: &Row<'_>, quiet: Option<&Row<'_>>) -> [String; 8] {
    let each = |of: fn(&BulkLoad) -> u64| {
        shown(middle(row, |s| Some(of(s.load.bulk.as_ref()?) as f64 / s.load.seconds / 1e6)))
    };
    [
        each(|bulk| bulk.down_bytes),
        each(|bulk| bulk.up_bytes),
        all(row, |bulk| bulk.downloads + bulk.uploads),
        all(row, |bulk| bulk.failures),
        shown(p99(row)),
        shown(quiet.and_then(p99)),
        shown(peak_mib(row)),
        shown(quiet.and_then(peak_mib)),
    ]
}

/// The sum over all of a row's rounds.
fn all(row: &Row<'_>, of: fn(&BulkLoad) -> u64) -> String {
    row.samples.iter().filter_map(|s| s.load.bulk.as_ref()).map(of).sum::<u64>().to_string()
}

fn p99(row: &Row<'_>) -> Option<f64> {
    row.middle(Measure::P99)
}

fn peak_mib(row: &Row<'_>) -> Option<f64> {
    let mib = |s: &Sample| Some(s.server.as_ref()?.peak_bytes as f64 / f64::from(1 << 20));
    middle(row, mib).filter(|mib| *mib > 0.0)
}

/// The median over a row's rounds.
fn middle(row: &Row<'_>, of: impl Fn(&Sample) -> Option<f64>) -> Option<f64> {
    let mut values: Vec<f64> = row.samples.iter().filter_map(|s| of(s)).collect();
    median(&mut values)
}

fn shown(value: Option<f64>) -> String {
    value.map_or_else(|| "–".to_owned(), sensible)
}

#[cfg(test)]
mod tests {
    use super::*;
    use crate::report::series::ladders;
    use crate::report::{beside, invented};
    use crate::sample::{Beside, Cold, Cooling, MachineUse};

    #[test]
    fn streams_stand_beside_the_same_requests_alone() {
        let streams = Beside {
            file: "20m.bin".to_owned(),
            file_bytes: 20_000_000,
            downloads: 8,
            uploads: 0,
            bytes_per_s: Some(100e6),
            cold: None,
            idle: 0,
            slow: 0,
            sends: false,
            reloads_per_s: None,
        };
        let mut both = Vec::new();
        for round in 0..3 {
            let mut alone = invented::sample(8, round, 1e3);
            let mut busy = alone.clone();
            (busy.work, busy.beside) = (format!("{}, beside", alone.work), Some(streams.clone()));
            let bytes = (100e6 * busy.load.seconds) as u64;
            busy.load.bulk = Some(BulkLoad {
                down_bytes: bytes,
                downloads: 7,
                failures: 1,
                ..BulkLoad::default()
            });
            for (sample, mib) in [(&mut alone, 10), (&mut busy, 14)] {
                sample.server.as_mut().unwrap().peak_bytes = mib << 20;
            }
            both.extend([alone, busy]);
        }
        let (run, _, rankings) = invented::run();
        let ladders = ladders(&both);
        let around = beside::Beside::of(&run, &both);
        let data = Data { run: &run, ladders: &ladders, rankings: &rankings, beside: &around };
        assert_eq!(ladders.len(), 2, "two works are two ladders, though at one rate");
        assert!(ladders[1].title().ends_with("beside 8 downloads of 20 MB at 100 MB/s"));
        assert_eq!(table(data, &ladders[0]), None, "nothing ran beside it");
        let rows = table(data, &ladders[1]).unwrap();
        let [_, _, down, up, transfers, failed, p99, quiet, peak, before] = &rows[1][..] else {
            panic!("{rows:?}");
        };
        let figures = [down, up, transfers, failed, peak, before].map(String::as_str);
        assert_eq!(figures, ["100", "0", "21", "3", "14.0", "10.0"]);
        assert_eq!(p99, quiet, "the same times were invented");
    }

    #[test]
    fn cold_files_are_shown_with_what_the_disk_did() {
        let beside = Beside {
            file: "cold/{}.bin".to_owned(),
            file_bytes: 10_000,
            downloads: 64,
            uploads: 0,
            bytes_per_s: None,
            cold: Some(Cold { files: 1000, bytes_max: 100_000, reads_per_s: Some(2000) }),
            idle: 0,
            slow: 0,
            sends: false,
            reloads_per_s: None,
        };
        let mut both = Vec::new();
        for round in 0..3 {
            let alone = invented::sample(8, round, 1e3);
            let mut cold = alone.clone();
            (cold.work, cold.beside) = (format!("{}, beside", alone.work), Some(beside.clone()));
            cold.cooling = Some(Cooling { disk: "vda".to_owned(), inodes: true });
            // All files were done after half a second, so the rate is that of this time.
            cold.load.bulk = Some(BulkLoad {
                down_bytes: 30_000_000,
                downloads: 1000,
                over_ns: Some(500_000_000),
                ..BulkLoad::default()
            });
            let disk = DiskUse { reads: 4000, read_bytes: 40_000_000, await_ms: 5.0, busy: 0.99 };
            let disks = [("vda".to_owned(), disk)].into();
            cold.machine =
                Some(MachineUse { seconds: 2.0, iowait: 0.4, disks, ..MachineUse::default() });
            both.extend([alone, cold]);
        }
        let (run, _, rankings) = invented::run();
        let ladders = ladders(&both);
        let around = beside::Beside::of(&run, &both);
        let data = Data { run: &run, ladders: &ladders, rankings: &rankings, beside: &around };
        let rows = table(data, &ladders[1]).unwrap();
        assert_eq!(rows[0].len(), rows[1].len(), "{rows:?}");
        let named: Vec<(&str, &str)> =
            rows[0].iter().zip(&rows[1]).map(|(head, cell)| (&**head, &**cell)).collect();
        for right in [
            ("cold, MB/s", "60.0"),
            ("files/s", "2\u{202f}000"),
            ("times", "1.00"),
            ("reads/s", "2\u{202f}000"),
            ("a read, ms", "5.00"),
            ("disk busy, %", "99.0"),
            ("waited, %", "40.0"),
        ] {
            assert!(named.contains(&right), "{right:?}: {named:?}");
        }
        assert!(note(&ladders[1]).ends_with("(drop_caches); the disk is vda."));
        assert_eq!(note(&ladders[0]), NOTE, "nothing was cold");
    }
}
