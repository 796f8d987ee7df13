//! The figures for a terminal.

use std::fmt;

use super::{Figures, Latency};
use crate::sample::Errors;

/// Requests whose figures are printed, at most.
const REQUESTS_MAX: usize = 20;

/// Width of the longest bar, in characters.
const BAR: usize = 30;

/// A number with thin separators between thousands, and digits that matter.
pub fn amount(value: f64) -> String {
    finer_amount(value, 0)
}

/// As `amount`, with so many decimal places more.
pub(super) fn finer_amount(value: f64, more: usize) -> String {
    let places = match value.abs() {
        v if v >= 100.0 || v == v.trunc() => more,
        v if v >= 10.0 => more + 1,
        _ => more + 2,
    };
    let text = format!("{value:.places$}");
    let (whole, rest) = text.split_at(text.find('.').unwrap_or(text.len()));
    let mut out = String::new();
    for (at, digit) in whole.chars().enumerate() {
        if at > 0 && (whole.len() - at).is_multiple_of(3) && digit.is_ascii_digit() {
            out.push(',');
        }
        out.push(digit);
    }
    out + rest
}

/// A time in the unit that suits it.
pub fn milliseconds(ms: f64) -> String {
    finer_milliseconds(ms, 0)
}

/// As `milliseconds`, with so many decimal places more.
pub(super) fn finer_milliseconds(ms: f64, more: usize) -> String {
    let (number, places, unit) = match ms {
        _ if ms >= 10_000.0 => (ms / 1e3, more + 1, "s"),
        _ if ms >= 1_000.0 => (ms / 1e3, more + 2, "s"),
        _ if ms >= 100.0 => (ms, more, "ms"),
        _ if ms >= 10.0 => (ms, more + 1, "ms"),
        _ if ms >= 1.0 => (ms, more + 2, "ms"),
        _ => (ms * 1e3, more, "us"),
    };
    format!("{number:.places$} {unit}")
}

fn bytes(count: f64) -> String {
    match count {
        _ if count >= 1e9 => format!("{:.2} GB", count / 1e9),
        _ if count >= 1e6 => format!("{:.1} MB", count / 1e6),
        _ if count >= 1e3 => format!("{:.1} kB", count / 1e3),
        _ => format!("{count:.0} B"),
    }
}

/// The percentiles in a line.
pub fn percentiles(its: &Latency) -> String {
    let ms = milliseconds;
    format!(
        "p50 {}   p90 {}   p99 {}   p99.9 {}   max {}",
        ms(its.p50_ms),
        ms(its.p90_ms),
        ms(its.p99_ms),
        ms(its.p99_9_ms),
        ms(its.max_ms)
    )
}

/// A histogram, a line for each bar.
pub fn bars(rows: &[(f64, u64)]) -> String {
    let most = rows.iter().map(|(_, count)| *count).max().unwrap_or(0).max(1);
    let line = |(upto, count): &(f64, u64)| {
        // Every count that is not 0 is seen.
        let length = (*count as f64 / most as f64 * BAR as f64).ceil() as usize;
        let text = format!(
            "{:>9}  {:<BAR$}  {}",
            milliseconds(*upto),
            "#".repeat(length),
            amount(*count as f64)
        );
        format!("  {}\n", text.trim_end())
    };
    rows.iter().map(line).collect()
}

/// Failures by kind, in words.
pub fn kinds(e: &Errors) -> Vec<(&'static str, u64)> {
    let all = [
        ("connection refused", e.refused),
        ("connection closed before the response", e.reset),
        ("no response in time", e.timeout),
        ("TLS failed", e.tls),
        ("HTTP/2, HTTP/3 or WebSocket stream or connection failed", e.http2),
        ("not an HTTP response", e.status),
        ("bytes after the response", e.bytes),
    ];
    all.into_iter().filter(|(_, count)| *count > 0).collect()
}

impl Figures {
    /// The figures of each of several requests, a line each.
    fn write_requests(&self, to: &mut fmt::Formatter<'_>) -> fmt::Result {
        if self.by_request.is_empty() {
            return Ok(());
        }
        writeln!(to, "\n  {:>11} {:>9} {:>9} {:>9}  request", "responses", "failed", "p50", "p99")?;
        for its in self.by_request.iter().take(REQUESTS_MAX) {
            let time = |of: fn(&Latency) -> f64| {
                its.latency.as_ref().map_or_else(|| "-".to_owned(), |its| milliseconds(of(its)))
            };
            let (p50, p99) = (time(|its| its.p50_ms), time(|its| its.p99_ms));
            let (responses, failed) = (amount(its.responses as f64), amount(its.failed as f64));
            writeln!(to, "  {responses:>11} {failed:>9} {p50:>9} {p99:>9}  {}", its.request)?;
        }
        match self.by_request.len().saturating_sub(REQUESTS_MAX) {
            0 => Ok(()),
            more => writeln!(to, "  and {more} more requests: --json and --html have all"),
        }
    }

    /// The offered load, in words.
    pub(super) fn offer(&self) -> String {
        let its = &self.offered;
        let (noun, arrivals) = match its.connections_each {
            Some(_) => ("visitor", "visits"),
            None => ("connection", "requests"),
        };
        let plural = if its.connections == 1 { "" } else { "s" };
        let mut text = format!("{} {noun}{plural}", amount(f64::from(its.connections)));
        let has_streams = matches!(self.protocol.as_str(), "HTTP/2" | "HTTP/3" | "gRPC");
        if has_streams && its.connections_each.is_none() {
            text += &format!(", {} stream(s) on each", its.streams);
        }
        match its.rate {
            Some(rate) => text += &format!(", {} {arrivals}/s offered", amount(rate)),
            None => text += &format!(", {}", pace(its.connections_each)),
        }
        text
    }
}

/// Name of what is counted: `connections_each` as in `Offer`.
pub fn counted(connections_each: Option<u32>) -> &'static str {
    if connections_each.is_some() { "steps" } else { "responses" }
}

/// The pace of a load without a rate: `connections_each` as in `Offer`. Visitors may pause.
pub fn pace(connections_each: Option<u32>) -> &'static str {
    match connections_each {
        Some(_) => "the next as soon as one leaves",
        None => "as fast as they go",
    }
}

impl fmt::Display for Figures {
    fn fmt(&self, to: &mut fmt::Formatter<'_>) -> fmt::Result {
        let count = |n: u64| amount(n as f64);
        writeln!(to, "{} {} over {} ({})", self.method, self.url, self.protocol, self.address)?;
        let early = if self.is_interrupted { ", interrupted" } else { "" };
        writeln!(to, "{} for {:.1} s{early}\n", self.offer(), self.seconds)?;
        let noun = self.offered.counted();
        writeln!(
            to,
            "  {} {noun}/s   {}/s   {} {noun}, {} failed",
            amount(self.responses_per_s),
            bytes(self.bytes_per_s),
            count(self.responses),
            count(self.failed)
        )?;
        if let Some(latency) = &self.latency {
            writeln!(to, "  {}", percentiles(latency))?;
        }
        if let Some(corrected) = &self.corrected_latency {
            writeln!(
                to,
                "  with the requests that stalls held back:\n  {}",
                percentiles(corrected)
            )?;
        }
        if self.unfinished > 0 {
            writeln!(to, "  {} requests were under way at the end", count(self.unfinished))?;
        }
        writeln!(to)?;
        for (status, number) in &self.statuses {
            writeln!(to, "  {status}: {}", count(*number))?;
        }
        for (kind, number) in kinds(&self.errors) {
            writeln!(to, "  {kind}: {}", count(number))?;
        }
        self.write_requests(to)?;
        write!(to, "\n{}", bars(&self.bars()))?;
        let its = &self.generator;
        write!(to, "\n  generator: busy {:.0} % of the time", its.busy_share * 100.0)?;
        if self.offered.rate.is_some() {
            let late = (milliseconds(its.lateness_p50_ms), milliseconds(its.lateness_p99_ms));
            write!(to, ", late by {} (p50), {} (p99)", late.0, late.1)?;
        }
        writeln!(to)?;
        for check in self.shown_checks() {
            let outcome = if check.is_passed { "passed" } else { "FAILED" };
            writeln!(to, "  {outcome}: {} ({})", check.name, check.found)?;
        }
        for warning in &self.warnings {
            writeln!(to, "  note: {warning}")?;
        }
        Ok(())
    }
}

#[cfg(test)]
mod tests {
    use super::*;
    use crate::figures::Offer;

    #[test]
    fn numbers_are_read_at_a_glance() {
        for (value, text) in [
            (0.0, "0"),
            (1.5, "1.50"),
            (12.34, "12.3"),
            (999.6, "1,000"),
            (1_234_567.0, "1,234,567"),
        ] {
            assert_eq!(amount(value), text);
        }
        for (ms, text) in
            [(0.012, "12 us"), (1.234, "1.23 ms"), (45.67, "45.7 ms"), (1_500.0, "1.50 s")]
        {
            assert_eq!(milliseconds(ms), text);
        }
        let rows = bars(&[(1.0, 1), (2.0, 1_000_000)]);
        let lines: Vec<usize> = rows.lines().map(|line| line.matches('#').count()).collect();
        assert_eq!(lines, [1, BAR], "a single response is seen");
    }

    /// Regression: visitors who pause were "as fast as they go".
    #[test]
    fn the_offer_is_one_of_connections_or_of_visitors() {
        for (connections, connections_each, rate, offer) in [
            (50, None, None, "50 connections, as fast as they go"),
            (1, None, Some(500.0), "1 connection, 500 requests/s offered"),
            (5, Some(6), None, "5 visitors, the next as soon as one leaves"),
            (5, Some(6), Some(2.5), "5 visitors, 2.50 visits/s offered"),
        ] {
            let offered = Offer { connections, connections_each, rate, ..Offer::default() };
            let figures = Figures { offered, ..Figures::default() };
            assert_eq!(figures.offer(), offer);
        }
    }
}
