//! Times of pages, for each contender and network: the versions of HTTP beside each other.

use super::Data;
use super::measure::percentile_ms;
use super::numbers::sensible;
use super::overview::DISTURBED;
use super::series::{Ladder, Row};
use crate::sample::{ConnectionUse, Sample, Version};

/// Heading of the table.
pub(super) const HEADING: &str = "Time until a page is complete";

const NOTE: &str = "Milliseconds from a connection's first packet to the last byte of the page's last file, of all \
     pages of all rounds. HTTP/3 and HTTP/2 request all files at once; HTTP/1.1 requests one after the other, on one \
     connection, where a browser opens six. The congestion control of QUIC is the server's own.";

const VERSIONS: [Version; 3] = [Version::Http3, Version::Http2, Version::Http1];

const HEAD: [&str; 10] = [
    "",
    "network",
    "pages",
    "HTTP/3, p50",
    "p90",
    "HTTP/2, p50",
    "p90",
    "HTTP/1.1, p50",
    "p90",
    "HTTP/3 to HTTP/2, p50",
];

/// The table's note, with what was lost.
pub(super) fn note(data: Data<'_>) -> String {
    let rows = data.ladders.iter().filter(|l| version(l).is_some()).flat_map(|l| &l.rows);
    let samples: Vec<&Sample> = rows.flat_map(|row| row.samples.iter().copied()).collect();
    let used = || samples.iter().filter_map(|s| s.network.as_ref());
    let (packets, lost): (u64, u64) =
        (used().map(|n| n.packets).sum(), used().map(|n| n.lost).sum());
    let mut controls: Vec<&str> = used().map(|n| n.congestion.as_str()).collect();
    controls.sort_unstable();
    controls.dedup();
    if packets == 0 {
        return NOTE.to_owned();
    }
    let controls = controls.join(", ");
    format!("{NOTE} That of TCP at the servers: {controls}. {lost} of {packets} packets were lost.")
}

/// A row for each contender, number of visitors and network; `None` without pages.
pub(super) fn table(data: Data<'_>) -> Option<Vec<Vec<String>>> {
    let ladders: Vec<&Ladder<'_>> = data.ladders.iter().filter(|l| version(l).is_some()).collect();
    let mut rows: Vec<Vec<String>> = Vec::new();
    for (at, ladder) in ladders.iter().enumerate() {
        for row in &ladder.rows {
            let alike = |other: &&&Ladder<'_>| {
                pages(other) == pages(ladder)
                    && other.file == ladder.file
                    && other.network == ladder.network
            };
            let find = |l: &'_ &Ladder<'_>| l.at(row.contender, row.x).is_some();
            if ladders[..at].iter().filter(alike).any(find) {
                continue;
            }
            let its = |version_of| {
                let ladder = ladders.iter().filter(alike).find(|l| version(l) == Some(version_of));
                ladder.and_then(|ladder| ladder.at(row.contender, row.x))
            };
            rows.push(cells(data, ladder, row, VERSIONS.map(its)));
        }
    }
    if rows.is_empty() {
        return None;
    }
    Some([HEAD.map(str::to_owned).to_vec()].into_iter().chain(rows).collect())
}

fn cells(
    data: Data<'_>,
    ladder: &Ladder<'_>,
    row: &Row<'_>,
    its: [Option<&Row<'_>>; 3],
) -> Vec<String> {
    let network = ladder.network.map_or_else(|| "loopback".to_owned(), |n| n.to_string());
    let pages = |row: &Row<'_>| row.samples.iter().map(|s| s.load.replies).sum::<u64>().to_string();
    let counts = its.map(|row| row.map_or_else(|| "–".to_owned(), pages));
    let at = |row: Option<&Row<'_>>, share| percentile_ms(&row?.response, share);
    let shown = |row: Option<&Row<'_>>, share| {
        let flag = if row.is_some_and(Row::is_disturbed) { DISTURBED } else { "" };
        at(row, share).map_or_else(|| "–".to_owned(), |ms| sensible(ms) + flag)
    };
    let ratio = at(its[0], 0.5).zip(at(its[1], 0.5)).map(|(three, two)| three / two);
    let mut cells = vec![data.run.title(row.contender).to_owned(), network, counts.join(" / ")];
    cells.extend(its.iter().flat_map(|row| [shown(*row, 0.5), shown(*row, 0.9)]));
    cells.push(ratio.map_or_else(|| "–".to_owned(), sensible));
    cells
}

fn version(ladder: &Ladder<'_>) -> Option<Version> {
    pages(ladder).and(ladder.over).map(ConnectionUse::version)
}

/// Files of a page; `None` if the ladder has no pages.
fn pages(ladder: &Ladder<'_>) -> Option<u32> {
    match ladder.over {
        Some(ConnectionUse::Page { files, .. }) => Some(files),
        _ => None,
    }
}

#[cfg(test)]
mod tests {
    use super::*;
    use crate::histogram::Times;
    use crate::report::series::ladders;
    use crate::report::{beside, invented};
    use crate::sample::{Network, NetworkUse, Offered};

    #[test]
    fn versions_stand_beside_each_other() {
        let mut samples = Vec::new();
        for (version, ms) in [(Version::Http3, 800), (Version::Http2, 1000), (Version::Http1, 4000)]
        {
            for delay_ms in [20, 100] {
                let mut sample = invented::sample(8, 0, 1e3);
                sample.work = format!("{version} {delay_ms}");
                sample.offered = Offered::Closed { connections: 5 };
                sample.over = Some(ConnectionUse::Page { version, files: 20 });
                let network = Network { loss: 0.03, delay_ms };
                let congestion = "cubic".to_owned();
                sample.network = Some(NetworkUse { network, congestion, packets: 100, lost: 3 });
                sample.load.replies = 10;
                sample.load.response = Times::default();
                (0..10).for_each(|_| sample.load.response.record(ms * 1_000_000));
                samples.push(sample);
            }
        }
        let (run, _, rankings) = invented::run();
        let ladders = ladders(&samples);
        assert_eq!(ladders.len(), 6, "each version and network is a ladder");
        let around = beside::Beside::of(&run, &samples);
        let data = Data { run: &run, ladders: &ladders, rankings: &rankings, beside: &around };
        let rows = table(data).unwrap();
        assert_eq!(rows.len(), 3, "a head and two networks: {rows:?}");
        assert!(rows.iter().all(|row| row.len() == HEAD.len()), "{rows:?}");
        assert_eq!(rows[1][1..3], ["3 % loss, 20 ms each way", "10 / 10 / 10"]);
        let ms = |cell: &String| cell.replace('\u{202f}', "").parse::<f64>().unwrap();
        for (at, right) in [(3, 800.0), (4, 800.0), (5, 1000.0), (7, 4000.0), (9, 0.8)] {
            let is = ms(&rows[2][at]);
            assert!((is / right - 1.0).abs() < 0.01, "column {at}: {is}, not {right}");
        }
        let note = note(data);
        assert!(note.ends_with("servers: cubic. 18 of 600 packets were lost."), "{note}");
        let text = crate::report::terminal::table(data);
        assert!(text.contains(HEADING), "{text}");
    }
}
