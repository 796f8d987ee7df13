//! Herds before caches: requests that reach the upstream, and the time until all connections have
//! the object.

use super::Data;
use super::measure::percentile_ms;
use super::numbers::sensible;
use super::overview::DISTURBED;
use super::series::Row;
use crate::histogram::Times;
use crate::sample::HerdUse;

/// Heading of the table.
pub(super) const HEADING: &str = "Herds";

/// Note of the table.
pub(super) const NOTE: &str = "All connections request the same object at once, which the cache does not have. Upstream: \
     requests of a herd that reach it, on average. Complete: milliseconds until all connections have the object.";

const HEAD: [&str; 7] =
    ["", "connections", "herds", "upstream", "complete, p50", "p90", "failed requests"];

/// A row for each contender and number of connections; `None` without herds.
pub(super) fn table(data: Data<'_>) -> Option<Vec<Vec<String>>> {
    let rows = data.ladders.iter().flat_map(|ladder| &ladder.rows);
    let rows: Vec<Vec<String>> = rows.filter_map(|row| cells(data, row)).collect();
    if rows.is_empty() {
        return None;
    }
    Some([HEAD.map(str::to_owned).to_vec()].into_iter().chain(rows).collect())
}

fn cells(data: Data<'_>, row: &Row<'_>) -> Option<Vec<String>> {
    let all: Vec<&HerdUse> = row.samples.iter().filter_map(|s| s.herd.as_ref()).collect();
    let herds: u64 = all.iter().map(|herd| herd.herds).sum();
    if herds == 0 {
        return None;
    }
    let upstream: u64 = all.iter().map(|herd| herd.upstream_requests).sum();
    let mut complete = Times::default();
    all.iter().for_each(|herd| complete.merge(&herd.complete));
    let flag = if row.is_disturbed() { DISTURBED } else { "" };
    let ms =
        |share| percentile_ms(&complete, share).map_or("–".to_owned(), |ms| sensible(ms) + flag);
    Some(vec![
        data.run.title(row.contender).to_owned(),
        row.x.to_string(),
        herds.to_string(),
        sensible(upstream as f64 / herds as f64),
        ms(0.5),
        ms(0.9),
        row.errors().total().to_string(),
    ])
}

#[cfg(test)]
mod tests {
    use super::*;
    use crate::report::series::ladders;
    use crate::report::{beside, invented};
    use crate::sample::{ConnectionUse, Offered};

    #[test]
    fn herds_of_all_rounds_are_counted() {
        let mut samples = Vec::new();
        for round in 0..2 {
            let mut sample = invented::sample(8, round, 1e3);
            sample.offered = Offered::Closed { connections: 50 };
            sample.over = Some(ConnectionUse::Herd);
            let mut complete = Times::default();
            (0..10).for_each(|_| complete.record(250_000_000));
            sample.herd = Some(HerdUse { herds: 10, upstream_requests: 25, complete });
            samples.push(sample);
        }
        let (run, _, rankings) = invented::run();
        let ladders = ladders(&samples);
        let around = beside::Beside::of(&run, &samples);
        let data = Data { run: &run, ladders: &ladders, rankings: &rankings, beside: &around };
        let rows = table(data).unwrap();
        assert_eq!(rows[1][1..4], ["50", "20", "2.50"], "{rows:?}");
        assert!(rows[1][4].starts_with("25"), "{rows:?}");
    }
}
