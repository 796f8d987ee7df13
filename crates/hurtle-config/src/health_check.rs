//! Reads the health checks of upstreams.

use std::fmt;
use std::time::Duration;

use serde::Serialize;
use toml::de::DeValue;

use super::error::{ValueError, shown};
use super::print;
use super::reader::Reader;
use super::table::Table;
use super::target::url_path;
use super::value::Value;

/// Periodic requests that learn whether an upstream works.
#[derive(Clone, Debug, PartialEq, Eq, Serialize)]
pub struct HealthCheck {
    /// The path and query that checks ask for.
    #[serde(rename = "health")]
    pub path: String,
    /// Time between two requests to one upstream.
    #[serde(rename = "health_interval", serialize_with = "print::duration")]
    pub interval: Duration,
    /// Host of the requests; `None`: the upstream's own.
    #[serde(rename = "health_host")]
    pub host: Option<String>,
    /// Statuses of an upstream that works.
    #[serde(rename = "health_status", serialize_with = "print::texts")]
    pub statuses: Vec<StatusRange>,
    /// Failed checks in a row that make an upstream unhealthy.
    #[serde(rename = "health_fails")]
    pub fails: u32,
    /// Successful checks in a row that make it healthy again.
    #[serde(rename = "health_passes")]
    pub passes: u32,
}

/// A status, or all with one first digit.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub struct StatusRange {
    /// Its lowest status, inclusive.
    pub first: u16,
    /// Its highest status, inclusive.
    pub last: u16,
}

impl StatusRange {
    /// All statuses with this first digit.
    const fn class(digit: u16) -> StatusRange {
        StatusRange { first: digit * 100, last: digit * 100 + 99 }
    }
}

impl StatusRange {
    /// Returns whether it has this status.
    pub fn contains(self, status: u16) -> bool {
        (self.first..=self.last).contains(&status)
    }
}

impl fmt::Display for StatusRange {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        match self.first == self.last {
            true => write!(f, "{}", self.first),
            false => write!(f, "{}xx", self.first / 100),
        }
    }
}

impl HealthCheck {
    /// Requests of this path with default settings.
    pub fn new(path: String) -> HealthCheck {
        HealthCheck {
            path,
            interval: Duration::from_secs(5),
            host: None,
            statuses: vec![StatusRange::class(2), StatusRange::class(3)],
            fails: 2,
            passes: 1,
        }
    }

    /// Returns whether an upstream that answers with this status works.
    pub fn accepts(&self, status: u16) -> bool {
        self.statuses.iter().any(|range| range.contains(status))
    }
}

/// Reads the health checks of a mount; `None`: there are none.
pub(super) fn health_check(table: &Table<'_>, reader: &mut Reader<'_>) -> Option<HealthCheck> {
    let path = table.get("health").and_then(|value| value.parse(reader, url_path));
    let mut check = HealthCheck::new(String::new());
    let c = &mut check;
    table.set("health_interval", reader, Value::duration, &mut c.interval);
    table.set("health_host", reader, |v, r| v.parse(r, host).map(Some), &mut c.host);
    table.set("health_status", reader, statuses, &mut c.statuses);
    table.set("health_fails", reader, Value::integer, &mut c.fails);
    table.set("health_passes", reader, Value::integer, &mut c.passes);
    path.map(|path| HealthCheck { path, ..check })
}

/// Parses the value of a Host field.
fn host(text: &str) -> Result<String, ValueError> {
    match hurtle_http::semantics::host::parse(text.as_bytes()) {
        Ok(host) if !host.name.is_empty() => Ok(text.to_owned()),
        _ => Err(ValueError::new(format!("{} is not a host name", shown(text)))
            .hint("write for example \"app.example.org\"")),
    }
}

/// Reads the statuses of `retry_status`.
pub(super) fn error_statuses(
    value: &Value<'_>,
    reader: &mut Reader<'_>,
) -> Option<Vec<StatusRange>> {
    if value.is_empty_list() {
        return Some(Vec::new());
    }
    let ranges = statuses(value, reader)?;
    if ranges.iter().any(|range| range.first < 400) {
        let wrong = ValueError::new("a status that is no error");
        value.report(reader, wrong.hint("write statuses from 400 on, such as 503 or \"5xx\""));
    }
    Some(ranges)
}

fn statuses(value: &Value<'_>, reader: &mut Reader<'_>) -> Option<Vec<StatusRange>> {
    // A single number, as of every other status.
    if let DeValue::Integer(number) = value.toml {
        let range = status(number.as_str());
        return range.map(|range| vec![range]).map_err(|wrong| value.report(reader, wrong)).ok();
    }
    let ranges = value.list(reader, |item, reader| match item.toml {
        DeValue::Integer(number) => {
            status(number.as_str()).map_err(|wrong| item.report(reader, wrong)).ok()
        }
        _ => item.parse(reader, status),
    });
    if value.is_empty_list() {
        let wrong = ValueError::new("no status, so no upstream would be healthy");
        value.report(reader, wrong.hint("write for example 200 or \"2xx\""));
    }
    Some(ranges)
}

fn status(text: &str) -> Result<StatusRange, ValueError> {
    let class = text.strip_suffix("xx").and_then(|digit| digit.parse().ok());
    match (class, text.parse()) {
        (Some(digit @ 2..=5), _) => Ok(StatusRange::class(digit)),
        (None, Ok(status @ 200..=599)) => Ok(StatusRange { first: status, last: status }),
        _ => Err(ValueError::new(format!("{} is not a final status", shown(text)))
            .hint("write for example 200 or \"2xx\"")),
    }
}
