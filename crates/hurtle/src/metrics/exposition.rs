//! Writes a snapshot in the OpenMetrics text format 1.0, the Prometheus text format 0.0.4, or the
//! protobuf format (`protobuf`).
//! `FAMILIES` has every metric; docs/monitoring.md and the dashboard are checked against it.
//!
//! Written here and not by a crate: `prometheus-client` counts by atomic read-modify-writes, and
//! looks labels up under a lock. The format itself is a page.

use std::fmt::{Display, Write as _};

use super::protobuf::Message;
use super::snapshot::{Distribution, Snapshot};
use super::{counters, families, server_families};

/// The format of an exposition.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum Format {
    /// OpenMetrics 1.0.
    OpenMetrics,
    /// Prometheus 0.0.4.
    Prometheus,
    /// Messages of protobuf, which carry native histograms.
    Protobuf,
}

impl Format {
    /// Chooses by the request's Accept field: the format with the highest weight of those that it
    /// names, and the first of them. Without a name it is the Prometheus text.
    pub fn accepted(accept: &[u8]) -> Format {
        let mut chosen = (0.0, Format::Prometheus);
        for range in String::from_utf8_lossy(accept).to_ascii_lowercase().split(',') {
            let mut parts = range.split(';').map(str::trim);
            let format = match parts.next() {
                Some("application/openmetrics-text") => Format::OpenMetrics,
                Some("application/vnd.google.protobuf")
                    if range.contains("metricfamily") && range.contains("delimited") =>
                {
                    Format::Protobuf
                }
                Some("text/plain") => Format::Prometheus,
                _ => continue,
            };
            let weight = parts.find_map(|part| part.strip_prefix("q=")?.parse().ok());
            let weight = weight.unwrap_or(1.0);
            if weight > chosen.0 {
                chosen = (weight, format);
            }
        }
        chosen.1
    }

    /// Returns the value of Content-Type.
    pub fn content_type(self) -> &'static str {
        match self {
            Format::OpenMetrics => "application/openmetrics-text; version=1.0.0; charset=utf-8",
            Format::Prometheus => "text/plain; version=0.0.4; charset=utf-8",
            Format::Protobuf => {
                "application/vnd.google.protobuf; proto=io.prometheus.client.MetricFamily; \
                 encoding=delimited"
            }
        }
    }
}

/// The type of a metric.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum Kind {
    /// It only grows; its samples are named with `_total`.
    Counter,
    /// A value that rises and falls.
    Gauge,
    /// Buckets, a sum and a count.
    Histogram,
    /// Constant labels; its samples are named with `_info`.
    Info,
}

/// A metric with all of its samples.
#[derive(Debug)]
pub struct Family {
    /// The name, without `_total` or `_info`.
    pub name: &'static str,
    /// The type in the exposition formats.
    pub kind: Kind,
    /// The unit, which the name ends in; empty: none.
    pub unit: &'static str,
    /// The labels, for the documentation.
    pub labels: &'static [&'static str],
    /// The description, written as HELP.
    pub help: &'static str,
    pub(super) write: fn(&mut Samples<'_>, &Snapshot),
}

impl Family {
    /// Returns the name of its samples; a histogram has three, with this beginning.
    pub fn sample_name(&self) -> String {
        let suffix = match self.kind {
            Kind::Counter => "_total",
            Kind::Info => "_info",
            Kind::Gauge | Kind::Histogram => "",
        };
        format!("{}{suffix}", self.name)
    }

    /// Returns the name of its type.
    pub fn kind_name(&self) -> &'static str {
        match self.kind {
            Kind::Counter => "counter",
            Kind::Gauge => "gauge",
            Kind::Histogram => "histogram",
            Kind::Info => "info",
        }
    }
}

/// Writes the samples of one metric.
pub(super) struct Samples<'a> {
    name: String,
    kind: Kind,
    has_samples: bool,
    out: Sink<'a>,
}

/// The form of samples.
enum Sink<'a> {
    Text(&'a mut String),
    Protobuf(Message),
}

pub(super) type Labels<'a> = &'a [(&'static str, &'a dyn Display)];

impl Samples<'_> {
    pub(super) fn put(&mut self, labels: Labels<'_>, value: impl Display) {
        self.has_samples = true;
        match &mut self.out {
            Sink::Text(_) => self.line("", labels, None, value),
            Sink::Protobuf(message) => {
                // Every value is displayed as a decimal number.
                let value = value.to_string().parse().unwrap_or(f64::NAN);
                message.value(self.kind, labels, value);
            }
        }
    }

    pub(super) fn histogram(&mut self, labels: Labels<'_>, of: &Distribution) {
        self.has_samples = true;
        if let Sink::Protobuf(message) = &mut self.out {
            return message.histogram(labels, of);
        }
        let mut sum = 0;
        for (at, count) in of.counts.iter().enumerate() {
            sum += count;
            match of.bounds.get(at) {
                Some(bound) => self.line("_bucket", labels, Some(&float(*bound)), sum),
                None => self.line("_bucket", labels, Some(&"+Inf"), sum),
            }
        }
        self.line("_sum", labels, None, of.sum);
        self.line("_count", labels, None, sum);
    }

    fn line(
        &mut self,
        suffix: &str,
        labels: Labels<'_>,
        bound: Option<&dyn Display>,
        value: impl Display,
    ) {
        let Sink::Text(out) = &mut self.out else { return };
        // Writing into a String cannot fail.
        let _ = write!(out, "{}{suffix}", self.name);
        let bound = bound.map(|bound| ("le", bound));
        let mut opening = '{';
        for (name, value) in labels.iter().copied().chain(bound) {
            let _ = write!(out, "{opening}{name}=\"");
            escape(&value.to_string(), out);
            out.push('"');
            opening = ',';
        }
        let _ = match opening {
            '{' => writeln!(out, " {value}"),
            _ => writeln!(out, "}} {value}"),
        };
    }
}

/// OpenMetrics wants the bounds of buckets as floating point numbers.
fn float(value: f64) -> String {
    format!("{value:?}")
}

/// Escapes a label's value.
fn escape(text: &str, out: &mut String) {
    for letter in text.chars() {
        match letter {
            '\\' => out.push_str("\\\\"),
            '"' => out.push_str("\\\""),
            '\n' => out.push_str("\\n"),
            letter => out.push(letter),
        }
    }
}

/// Writes the metrics of a snapshot in a format.
pub fn encode(snapshot: &Snapshot, format: Format) -> Vec<u8> {
    match format {
        Format::Protobuf => messages(snapshot),
        Format::OpenMetrics => text(snapshot, true).into_bytes(),
        Format::Prometheus => text(snapshot, false).into_bytes(),
    }
}

fn messages(snapshot: &Snapshot) -> Vec<u8> {
    let mut out = Vec::with_capacity(16 << 10);
    for family in FAMILIES.iter().flat_map(|group| group.iter()) {
        let mut samples = Samples {
            name: String::new(),
            kind: family.kind,
            has_samples: false,
            out: Sink::Protobuf(Message::family(family)),
        };
        (family.write)(&mut samples, snapshot);
        if let Sink::Protobuf(message) = samples.out {
            message.finish(samples.has_samples, &mut out);
        }
    }
    out
}

fn text(snapshot: &Snapshot, is_open: bool) -> String {
    let mut out = String::with_capacity(16 << 10);
    for family in FAMILIES.iter().flat_map(|group| group.iter()) {
        // The older format has no infos, and names a counter as its samples.
        let (name, kind) = match family.kind {
            _ if is_open => (family.name.to_owned(), family.kind_name()),
            Kind::Info => (family.sample_name(), "gauge"),
            _ => (family.sample_name(), family.kind_name()),
        };
        let _ = writeln!(out, "# HELP {name} {}", family.help);
        let _ = writeln!(out, "# TYPE {name} {kind}");
        if is_open && !family.unit.is_empty() {
            let _ = writeln!(out, "# UNIT {name} {}", family.unit);
        }
        let mut samples = Samples {
            name: family.sample_name(),
            kind: family.kind,
            has_samples: false,
            out: Sink::Text(&mut out),
        };
        (family.write)(&mut samples, snapshot);
    }
    if is_open {
        out.push_str("# EOF\n");
    }
    out
}

/// Every metric, by group.
pub static FAMILIES: [&[Family]; 5] = [
    &families::REQUESTS,
    counters::FILE_CACHE,
    &server_families::SERVER,
    counters::STORE,
    &server_families::PROCESS,
];
