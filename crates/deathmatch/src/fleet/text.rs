//! The merged figures for a terminal.

use std::fmt;

use super::{Merged, rfc3339};
use crate::figures::{amount, milliseconds, pace, percentiles};

impl fmt::Display for Merged {
    fn fmt(&self, to: &mut fmt::Formatter<'_>) -> fmt::Result {
        let options = &self.options;
        writeln!(to, "{} {} over {}", options.method, options.url, options.protocol)?;
        let counted = self.counted();
        let (noun, arrivals) = self.nouns();
        let offered = match self.rate {
            Some(rate) => format!("{} {arrivals}/s offered", amount(rate)),
            None => pace(options.connections_each).to_owned(),
        };
        writeln!(
            to,
            "{}, {} on each, {offered}",
            number_of(self.generators.len() as u64, "generator"),
            number_of(u64::from(options.connections), noun)
        )?;
        writeln!(
            to,
            "all ran for {:.1} s from {}\n",
            self.common_seconds,
            rfc3339(self.common_from_unix_s)
        )?;
        writeln!(
            to,
            "  {} {counted}/s   {} {counted}, {} failed",
            amount(self.responses_per_s),
            amount(self.counts.responses as f64),
            amount(self.counts.failed as f64)
        )?;
        if let Some(latency) = &self.latency {
            writeln!(to, "  {}", percentiles(latency))?;
        }
        for (status, number) in &self.counts.statuses {
            writeln!(to, "  {status}: {}", amount(*number as f64))?;
        }
        if let Some(server) = &self.server {
            writeln!(
                to,
                "  server {} (process {}): {:.2} processors, {:.1} us per {}, {:.1} MB",
                server.host,
                server.pid,
                server.cpus,
                server.cpu_us_per_response,
                counted.trim_end_matches('s'),
                server.resident_bytes as f64 / 1e6
            )?;
        }
        writeln!(to)?;
        let width = self.generators.iter().map(|its| its.host.len()).max().unwrap_or(0).max(9);
        writeln!(
            to,
            "  {:<width$}  {:>12}  {:>9}  {:>9}  {:>9}  {:>5}",
            "generator",
            format!("{counted}/s"),
            "p99",
            "lateness",
            "start",
            "busy"
        )?;
        for its in &self.generators {
            writeln!(
                to,
                "  {:<width$}  {:>12}  {:>9}  {:>9}  {:>9}  {:>3.0} %",
                its.host,
                amount(its.responses_per_s),
                its.latency.as_ref().map_or("-".to_owned(), |own| milliseconds(own.p99_ms)),
                milliseconds(its.lateness_p99_ms),
                start(its.late_s),
                its.busy_share * 100.0
            )?;
        }
        for mark in self.marks() {
            writeln!(to, "  marked: {mark}")?;
        }
        for note in &self.notes {
            writeln!(to, "  note: {note}")?;
        }
        Ok(())
    }
}

/// A number of things, as in `1 generator` or `2 generators`.
pub(super) fn number_of(count: u64, noun: &str) -> String {
    format!("{} {noun}{}", amount(count as f64), if count == 1 { "" } else { "s" })
}

/// Delay of a start.
pub(super) fn start(late_s: f64) -> String {
    format!("+{}", milliseconds(late_s.max(0.0) * 1e3))
}
