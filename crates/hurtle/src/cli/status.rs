//! `hurtle status`: the counters of a running server, for a person or as JSON.

use std::fmt::Write as _;
use std::io;

use clap::Args;
use serde_json::Value;

use super::ConfigProblems;
use super::admin::{self, AdminArgs};
use crate::metrics::UpstreamSnapshot;
use crate::metrics::units::{count, size, time};

/// Rows of the tables of paths and of requests in flight.
const ROWS_MAX: usize = 10;

/// The state of an upstream as the tables of `top` show it.
fn state(upstream: &Value) -> String {
    let parsed = serde_json::from_value::<UpstreamSnapshot>(upstream.clone());
    parsed.map_or("?", |upstream| upstream.state().name()).to_owned()
}

#[derive(Debug, Args)]
pub struct StatusArgs {
    #[command(flatten)]
    server: AdminArgs,
    /// Print JSON; docs/monitoring.md describes its keys.
    #[arg(long)]
    json: bool,
}

impl StatusArgs {
    /// Asks the server; returns the text to print, or its error.
    ///
    /// # Errors
    /// The configuration is wrong or names no admin socket.
    pub fn send(&self) -> Result<io::Result<String>, ConfigProblems> {
        let socket = self.server.socket()?;
        Ok(admin::send(&socket, "GET /status", "localhost").and_then(|reply| {
            if reply.status != 200 {
                return Err(io::Error::other(reply.text.trim_end().to_owned()));
            }
            if self.json {
                return Ok(reply.text);
            }
            let status = serde_json::from_str(&reply.text);
            Ok(table(&status.map_err(|e| io::Error::other(format!("not a status: {e}")))?))
        }))
    }
}

/// Writes the status for a person.
fn table(status: &Value) -> String {
    let mut out = String::new();
    let number = |path: &str| status.pointer(path).and_then(Value::as_f64).unwrap_or(0.0);
    let up = number("/time") - number("/process/start_time");
    let version = status["version"].as_str().unwrap_or("?");
    // Writing into a String cannot fail.
    let _ = writeln!(
        out,
        "hurtle {version}, process {}, up {}, {} workers, {} of processor time, {} of memory",
        number("/process/pid"),
        time(up),
        list(status, "/workers").len(),
        time(number("/process/cpu_seconds")),
        size(number("/process/resident_bytes")),
    );
    let connections = &status["connections"];
    let of = |name: &str| connections[name].as_u64().unwrap_or(0);
    let _ = writeln!(
        out,
        "connections: {} in HTTP/1.1 ({} idle), {} in HTTP/2 ({} idle), {} in HTTP/3 ({} idle), {} in handshakes, {} accepted",
        of("http1_active") + of("http1_idle"),
        of("http1_idle"),
        of("http2_active") + of("http2_idle"),
        of("http2_idle"),
        of("http3_active") + of("http3_idle"),
        of("http3_idle"),
        of("handshaking"),
        of("accepted"),
    );
    let _ = writeln!(
        out,
        "bytes: {} received, {} sent",
        size(number("/received_bytes")),
        size(number("/sent_bytes"))
    );
    let _ = writeln!(
        out,
        "file cache: {} hits, {} look-ups, {} files, {}",
        number("/file_cache/hits"),
        number("/file_cache/misses"),
        number("/file_cache/entries"),
        size(number("/file_cache/bytes")),
    );
    let reloads = &status["reloads"];
    let _ = writeln!(
        out,
        "reloads: {} succeeded, {} failed{}",
        reloads["succeeded"],
        reloads["failed"],
        if reloads["last_succeeded"] == false { ", the last one failed" } else { "" },
    );
    let limits = status["limits"].as_object().into_iter().flatten();
    let hit: Vec<String> = limits
        .filter(|(_, count)| count.as_u64() != Some(0))
        .map(|(name, count)| format!("{name} {count}"))
        .collect();
    if !hit.is_empty() {
        let _ = writeln!(out, "limits hit: {}", hit.join(", "));
    }
    routes(status, &mut out);
    paths(status, &mut out);
    slowest(status, &mut out);
    upstreams(status, &mut out);
    certificates(status, &mut out);
    out
}

fn routes(status: &Value, out: &mut String) {
    let mut rows = vec![
        ["SITE", "MOUNT", "2xx", "3xx", "4xx", "5xx", "MEAN", "P50", "P99", "SENT"]
            .map(str::to_owned),
    ];
    for route in list(status, "/routes") {
        let class = |class: &str| {
            let counts = list(route, "/requests").iter().filter(|of| of["status"] == class);
            counts.filter_map(|of| of["count"].as_u64()).sum::<u64>()
        };
        let count = route.pointer("/duration_seconds/count").and_then(Value::as_f64).unwrap_or(0.0);
        if count == 0.0 {
            continue;
        }
        let sum = |of: &str| route[of]["sum"].as_f64().unwrap_or(0.0);
        rows.push([
            name(&route["site"], "(no site)"),
            name(&route["mount"], "-"),
            class("2xx").to_string(),
            class("3xx").to_string(),
            class("4xx").to_string(),
            class("5xx").to_string(),
            time(sum("duration_seconds") / count),
            quantile(&route["duration_seconds"], 0.5),
            quantile(&route["duration_seconds"], 0.99),
            size(sum("response_bytes")),
        ]);
    }
    columns(&rows, out);
}

/// The hottest paths; their counts are estimates.
fn paths(status: &Value, out: &mut String) {
    let mut rows = vec![["HOTTEST PATH", "REQUESTS/S", "SAMPLES"].map(str::to_owned)];
    let seconds = status["paths"]["seconds"].as_f64().unwrap_or(0.0).max(1.0);
    for of in list(status, "/paths/hottest").iter().take(ROWS_MAX) {
        rows.push([
            format!("{}{}", name(&of["site"], "(no site)"), name(&of["path"], "?")),
            count(of["responses"].as_f64().unwrap_or(0.0) / seconds),
            of["samples"].to_string(),
        ]);
    }
    columns(&rows, out);
}

fn slowest(status: &Value, out: &mut String) {
    let mut rows = vec![["SLOWEST IN FLIGHT", "FOR", "STATE"].map(str::to_owned)];
    for of in list(status, "/in_flight/slowest").iter().take(ROWS_MAX) {
        let (site, path) = (name(&of["site"], "(no site)"), name(&of["path"], "?"));
        rows.push([
            format!("{} {site}{path}", name(&of["method"], "?")),
            time(of["seconds"].as_f64().unwrap_or(0.0)),
            if of["is_responding"] == true { "responding" } else { "waiting" }.to_owned(),
        ]);
    }
    columns(&rows, out);
}

fn upstreams(status: &Value, out: &mut String) {
    let mut rows = vec![
        [
            "UPSTREAM",
            "MOUNT",
            "STATE",
            "ANSWERED",
            "FAILED",
            "TIMED OUT",
            "P50",
            "P99",
            "IN FLIGHT",
        ]
        .map(str::to_owned),
    ];
    for of in list(status, "/upstreams") {
        let count = |outcome: &str| of["requests"][outcome].to_string();
        rows.push([
            name(&of["upstream"], "?"),
            format!("{}{}", name(&of["site"], ""), name(&of["mount"], "")),
            state(of),
            count("answered"),
            count("failed"),
            count("timed_out"),
            quantile(&of["response_seconds"], 0.5),
            quantile(&of["response_seconds"], 0.99),
            of["in_flight"].to_string(),
        ]);
    }
    columns(&rows, out);
}

fn certificates(status: &Value, out: &mut String) {
    let now = status["time"].as_f64().unwrap_or(0.0);
    let in_time = |of: &Value, past: &str| {
        of.as_f64().map(|at| if at < now { past.to_owned() } else { time(at - now) })
    };
    let mut rows = vec![["CERTIFICATE", "SOURCE", "EXPIRES IN", "RENEWED IN"].map(str::to_owned)];
    for of in list(status, "/tls/certificates") {
        let left = in_time(&of["not_after"], "expired").unwrap_or_else(|| "not issued".to_owned());
        let renewal = in_time(&of["renewal"], "now").unwrap_or_else(|| "-".to_owned());
        rows.push([name(&of["site"], "?"), name(&of["source"], "-"), left, renewal]);
    }
    columns(&rows, out);
}

fn list<'a>(value: &'a Value, path: &str) -> &'a [Value] {
    value.pointer(path).and_then(Value::as_array).map_or(&[], Vec::as_slice)
}

fn name(value: &Value, absent: &str) -> String {
    let text = value.as_str().filter(|text| !text.is_empty());
    text.unwrap_or(absent).to_owned()
}

/// Writes rows in columns, the first row as their heads, with an empty line before. Without other
/// rows it writes nothing.
fn columns<const N: usize>(rows: &[[String; N]], out: &mut String) {
    if rows.len() < 2 {
        return;
    }
    let widths: [usize; N] =
        std::array::from_fn(|at| rows.iter().map(|row| row[at].chars().count()).max().unwrap_or(0));
    out.push('\n');
    for row in rows {
        let mut line = String::new();
        for (cell, width) in row.iter().zip(widths) {
            let _ = write!(line, "{cell:width$}  ");
        }
        let _ = writeln!(out, "{}", line.trim_end());
    }
}

/// Bound of the bucket that holds a quantile, such as `<=5ms`.
fn quantile(of: &Value, quantile: f64) -> String {
    let counts: Vec<f64> = list(of, "/counts").iter().filter_map(Value::as_f64).collect();
    let total: f64 = counts.iter().sum();
    if total == 0.0 {
        return "-".to_owned();
    }
    let mut sum = 0.0;
    let at = counts.iter().position(|count| {
        sum += count;
        sum >= total * quantile
    });
    let bounds = list(of, "/bounds");
    match at.and_then(|at| bounds.get(at)).and_then(Value::as_f64) {
        Some(bound) => format!("<={}", time(bound)),
        None => {
            format!(">{}", time(bounds.last().and_then(Value::as_f64).unwrap_or(0.0)))
        }
    }
}

#[cfg(test)]
mod tests {
    use serde_json::json;

    use super::*;

    #[test]
    fn a_quantile_is_the_bound_of_its_bucket() {
        let of = json!({ "bounds": [0.001, 0.01], "counts": [98, 1, 1] });
        assert_eq!(quantile(&of, 0.5), "<=1ms");
        assert_eq!(quantile(&of, 0.99), "<=10ms");
        assert_eq!(quantile(&of, 1.0), ">10ms");
        assert_eq!(quantile(&json!({ "bounds": [1.0], "counts": [0, 0] }), 0.5), "-");
    }
}
