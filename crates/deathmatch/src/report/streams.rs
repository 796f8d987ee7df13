//! What ran beside a ladder, what it carried, and what that did to the requests: a row for each
//! contender and step, beside its own figures of when it was alone.

use super::Data;
use super::measure::Measure;
use super::numbers::sensible;
use super::scale::step_words;
use super::series::{Ladder, Row};
use crate::sample::{BulkLoad, Sample};
use crate::stats::interval::median;

/// The table's note.
pub(super) const NOTE: &str = "Medians over rounds. Processor time holds the streams' share too. \
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

/// The table of a ladder; `None` where nothing ran beside it.
pub(super) fn table(data: Data<'_>, ladder: &Ladder<'_>) -> Option<Vec<Vec<String>>> {
    ladder.beside?;
    let alike =
        |l: &&Ladder<'_>| l.beside.is_none() && l.file == ladder.file && l.steps == ladder.steps;
    let alone = data.ladders.iter().find(alike);
    let rows = ladder.rows.iter().map(|row| {
        let quiet = alone.and_then(|alone| alone.at(row.contender, row.x));
        let title = data.run.title(row.contender).to_owned();
        let step = step_words(row.x, ladder.steps.words().2);
        [title, step].into_iter().chain(cells(row, quiet)).collect()
    });
    Some([HEAD.map(str::to_owned).to_vec()].into_iter().chain(rows).collect())
}

fn cells(row: &Row<'_>, quiet: Option<&Row<'_>>) -> [String; 8] {
    let each = |of: fn(&BulkLoad) -> u64| {
        shown(middle(row, |s| Some(of(s.load.bulk.as_ref()?) as f64 / s.load.seconds / 1e6)))
    };
    let all = |of: fn(&BulkLoad) -> u64| {
        row.samples.iter().filter_map(|s| s.load.bulk.as_ref()).map(of).sum::<u64>().to_string()
    };
    let p99 = |row: &Row<'_>| row.spread(Measure::P99).map(|spread| spread.middle);
    [
        each(|bulk| bulk.down_bytes),
        each(|bulk| bulk.up_bytes),
        all(|bulk| bulk.downloads + bulk.uploads),
        all(|bulk| bulk.failures),
        shown(p99(row)),
        shown(quiet.and_then(p99)),
        shown(peak_mib(row)),
        shown(quiet.and_then(peak_mib)),
    ]
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
    use crate::sample::Beside;

    #[test]
    fn streams_stand_beside_the_same_requests_alone() {
        let streams = Beside {
            file: "20m.bin".to_owned(),
            file_bytes: 20_000_000,
            downloads: 8,
            uploads: 0,
            bytes_per_s: Some(100e6),
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
}
