//! The table that Yaws published about its sendfile in 2008, for a run with servers that send files
//! in two ways: user and system time, milliseconds and bytes, for every file and contender, and
//! Yaws' own rows.

use super::Data;
use super::details::{TICKS_MIN, TICKS_PER_S};
use super::measure::Measure;
use super::numbers::sensible;
use super::series::{Ladder, Row, Steps};
use crate::stats::{Ratio, by_round};

/// Heading of the table.
pub(super) const HEADING: &str = "Sendfile and copying, in the form of Yaws' table of 2008";

/// Note of the table.
pub(super) const NOTE: &str = "A closed loop. CPU is counted in nanoseconds, median over rounds; user and system time in ticks, \
     so they stand only where a row's rounds together hold 500 of them. “Against copying” is the \
     median of the rounds' ratios to the same server with sendfile off. Milliseconds are those \
     between two answers, as ab counts them, not what one client waits.";

/// Heading of Yaws' own rows.
pub(super) const SEED_HEADING: &str = "Yaws in 2008, from its own figures";

/// Note of Yaws' rows, with the differences to today.
pub(super) const SEED_NOTE: &str = "Its processor shares times its milliseconds, as if they were shares of one processor (the \
     comparison does not depend on that). Three of its four rows ran at 116 MB/s, which is what a \
     gigabit network carries, so its time told of the network; here it is loopback, time tells of \
     the server's processor, and the kernel does the client's receiving in the server's send call.";

/// Suffix of a contender that copies.
const COPY: &str = "-copy";

const HEAD: [&str; 9] = [
    "",
    "file",
    "user, µs a request",
    "system, µs",
    "CPU, µs",
    "against copying",
    "ms a request",
    "MB/s",
    "",
];

/// The seed's rows: (file, bytes, sendfile, ms a request, user %, system %). With sendfile each
/// comes after the same without.
const SEED: [(&str, f64, bool, f64, f64, f64); 4] = [
    ("64 KB", 65_536.0, false, 0.567, 33.0, 28.0),
    ("64 KB", 65_536.0, true, 0.928, 22.0, 17.0),
    ("256 KB", 262_144.0, false, 2.255, 16.0, 27.0),
    ("256 KB", 262_144.0, true, 2.251, 8.0, 16.0),
];

/// Every file's rows; `None` unless a closed loop requested more than one file and a server sent it
/// in two ways.
pub(super) fn table(data: Data<'_>) -> Option<Vec<Vec<String>>> {
    let closed = |l: &&Ladder<'_>| {
        l.steps == Steps::Connections
            && l.beside.is_none()
            && l.rows.iter().any(|r| copying(l, r).is_some())
    };
    let ladders: Vec<&Ladder<'_>> = data.ladders.iter().filter(closed).collect();
    if ladders.len() < 2 {
        return None;
    }
    let rows = ladders.iter().flat_map(|ladder| {
        let mut rows: Vec<&Row<'_>> = ladder.rows.iter().collect();
        // In the plan's order, so that the two ways of a server are neighbours.
        rows.sort_by_key(|r| data.run.contenders.iter().position(|c| c.name == r.contender));
        rows.into_iter().map(move |row| cells(data, ladder, row))
    });
    Some([HEAD.map(str::to_owned).to_vec()].into_iter().chain(rows).collect())
}

/// The seed's table in the same columns.
pub(super) fn seed() -> Vec<Vec<String>> {
    let mut rows = vec![HEAD[..8].iter().map(|cell| (*cell).to_owned()).collect::<Vec<_>>()];
    let mut copying_us = f64::NAN;
    for (file, bytes, sendfile, ms, user, system) in SEED {
        let [user, system] = [user, system].map(|percent| percent / 100.0 * ms * 1e3);
        let title = if sendfile { "Yaws (sendfile)" } else { "Yaws (copying)" };
        if !sendfile {
            copying_us = user + system;
        }
        let against = sendfile.then(|| percent_off((user + system) / copying_us));
        let figures = [user, system, user + system].map(sensible);
        let rest = [against.unwrap_or_default(), format!("{ms}"), sensible(bytes / ms / 1e3)];
        let words = [title.to_owned(), file.to_owned()];
        rows.push(words.into_iter().chain(figures).chain(rest).collect());
    }
    rows
}

fn cells(data: Data<'_>, ladder: &Ladder<'_>, row: &Row<'_>) -> Vec<String> {
    let (user, system) = user_and_system_us(row).unzip();
    let against = copying(ladder, row).and_then(|base| {
        let cpu =
            |row: &Row<'_>| by_round(row.samples.iter().copied(), |s| Measure::CpuPerRequest.of(s));
        Some(percent_off(Ratio::of(&cpu(row), &cpu(base))?.median))
    });
    let replies = row.middle(Measure::Replies).filter(|replies| *replies > 0.0);
    let remark = match () {
        () if row.is_wrong() => "wrong bytes",
        () if row.is_limited() => "load-limited",
        () => "",
    };
    vec![
        data.run.title(row.contender).to_owned(),
        file(ladder, row),
        shown(user),
        shown(system),
        shown(row.middle(Measure::CpuPerRequest)),
        against.unwrap_or_default(),
        shown(replies.map(|replies| 1e3 / replies)),
        shown(megabytes_per_s(row)),
        remark.to_owned(),
    ]
}

/// The file, with the connections if their number varies.
fn file(ladder: &Ladder<'_>, row: &Row<'_>) -> String {
    match ladder.xs().len() {
        1 => ladder.file.to_owned(),
        _ => format!("{}, {} connections", ladder.file, row.x),
    }
}

/// The row of this server with sendfile off; `None` for that row itself.
fn copying<'l, 'a>(ladder: &'l Ladder<'a>, row: &Row<'_>) -> Option<&'l Row<'a>> {
    let server = row.contender.strip_suffix("-sendfile").unwrap_or(row.contender);
    ladder.at(&format!("{server}{COPY}"), row.x)
}

/// Over all rounds; `None` if they contain too few ticks.
fn user_and_system_us(row: &Row<'_>) -> Option<(f64, f64)> {
    let used = || row.samples.iter().filter_map(|s| s.server.as_ref());
    let (user, system): (f64, f64) =
        (used().map(|u| u.user_s).sum(), used().map(|u| u.system_s).sum());
    let replies: u64 = row.samples.iter().map(|s| s.load.replies).sum();
    let enough = (user + system) * TICKS_PER_S >= TICKS_MIN && replies > 0;
    enough.then(|| (user * 1e6 / replies as f64, system * 1e6 / replies as f64))
}

fn megabytes_per_s(row: &Row<'_>) -> Option<f64> {
    let rates =
        by_round(row.samples.iter().copied(), |s| Some(s.load.bytes as f64 / s.load.seconds / 1e6));
    crate::stats::middle(&rates)
}

/// A ratio as a difference: `−44 %`.
fn percent_off(ratio: f64) -> String {
    let percent = (100.0 * (ratio - 1.0)).round();
    let sign = if percent < 0.0 { "−" } else { "+" };
    format!("{sign}{}\u{202f}%", percent.abs())
}

fn shown(value: Option<f64>) -> String {
    value.map_or_else(|| "–".to_owned(), sensible)
}

#[cfg(test)]
mod tests {
    use super::*;
    use crate::report::series::ladders;
    use crate::report::{Contender, beside, invented};
    use crate::sample::{Offered, Sample};

    /// Six rounds of two seconds, each with this processor time for a thousand responses.
    fn rows(name: &str, file: &str, cpu_s: f64) -> Vec<Sample> {
        let sample = |round| {
            let mut sample = invented::sample(8, round, 1e3);
            (sample.contender, sample.file) = (name.to_owned(), file.to_owned());
            sample.work = format!("{file}, 50 connections, as fast as they go");
            sample.offered = Offered::Closed { connections: 50 };
            (sample.load.seconds, sample.load.replies, sample.load.bytes) =
                (2.0, 1_000, 64_000_000);
            sample.load.replies_per_second = vec![500, 500];
            let server = sample.server.as_mut().unwrap();
            (server.cpu_s, server.user_s, server.system_s) = (cpu_s, cpu_s * 0.25, cpu_s * 0.75);
            sample
        };
        (0..6).map(sample).collect()
    }

    fn table_of(samples: &[Sample]) -> Option<Vec<Vec<String>>> {
        let (mut run, _, rankings) = invented::run();
        let listed = ["nginx", "nginx-copy", "nginx-sendfile", "yaws"];
        run.contenders =
            listed.map(|name| Contender { name: name.into(), ..Contender::default() }).to_vec();
        let ladders = ladders(samples);
        let around = beside::Beside::of(&run, samples);
        table(Data { run: &run, ladders: &ladders, rankings: &rankings, beside: &around })
    }

    #[test]
    fn each_way_of_sending_has_a_row_with_its_cost_and_time() {
        let mut samples = Vec::new();
        for file in ["64k.bin", "256k.bin"] {
            for (name, cpu_s) in
                [("yaws", 2.0), ("nginx-copy", 2.0), ("nginx", 1.0), ("nginx-sendfile", 0.5)]
            {
                samples.extend(rows(name, file, cpu_s));
            }
        }
        let table = table_of(&samples).unwrap();
        assert_eq!(table.len(), 1 + 2 * 4, "a head, and four rows of each file");
        let wanted = [
            ("nginx", "64k.bin", "250", "750", "1\u{202f}000", "−50\u{202f}%", "half of copying"),
            ("nginx-copy", "64k.bin", "500", "1\u{202f}500", "2\u{202f}000", "", "copying itself"),
            ("nginx-sendfile", "64k.bin", "–", "–", "500", "−75\u{202f}%", "300 ticks are too few"),
            ("yaws", "64k.bin", "500", "1\u{202f}500", "2\u{202f}000", "", "who has one way only"),
            ("nginx", "256k.bin", "250", "750", "1\u{202f}000", "−50\u{202f}%", "the next file"),
        ];
        for (row, (title, file, user, system, cpu, against, why)) in table[1..].iter().zip(wanted) {
            let want = [title, file, user, system, cpu, against, "2.00", "32.0", ""];
            assert_eq!(row, &want.map(str::to_owned), "{why}");
        }
    }

    #[test]
    fn a_run_that_does_not_ask_it_has_no_such_table() {
        let two = |name: &str| [rows(name, "64k.bin", 1.0), rows(name, "256k.bin", 1.0)].concat();
        let (nginx, copy) = (two("nginx"), two("nginx-copy"));
        assert_eq!(table_of(&nginx), None, "nobody has two ways");
        let one_file = [&nginx[..6], &copy[..6]].concat();
        assert_eq!(table_of(&one_file), None, "one file says nothing of sizes");
        assert!(table_of(&[nginx, copy].concat()).is_some(), "both");
    }

    #[test]
    fn the_seeds_own_rows_are_normalised_to_a_request() {
        let rows = seed();
        let column = |at: usize| rows[1..].iter().map(|row| row[at].as_str()).collect::<Vec<_>>();
        assert_eq!(column(4), ["346", "362", "970", "540"], "processor time a request");
        assert_eq!(column(5), ["", "+5\u{202f}%", "", "−44\u{202f}%"], "what sendfile changed");
        assert_eq!(column(6), ["0.567", "0.928", "2.255", "2.251"], "as it was printed");
        assert_eq!(column(7), ["116", "70.6", "116", "116"], "the network's share in it");
    }
}
