//! Reads the health checks of upstreams.

use std::fmt;
use std::time::Duration;

use toml::de::DeValue;

use super::bounds::{CHECKS_MAX, TIME_MS_MAX, TIMEOUT_MS_MIN};
use super::error::{ValueError, shown};
use super::print;
use super::reader::Reader;
use super::schema::Kind::{Integer, List, Text, Time};
use super::schema_mount::HEALTH;
use super::settings::settings;
use super::table::Table;
use super::target::url_path;
use super::value::Value;

settings! {
    /// Periodic requests that learn whether an upstream works.
    #[derive(Eq)]
    pub struct HealthCheck: HEALTH_KEYS with HEALTH {
        /// Time between two health checks, from each worker.
        #[serde(serialize_with = "print::duration")]
        interval ("health_interval"): Duration = Duration::from_secs(5), Time(TIMEOUT_MS_MIN, TIME_MS_MAX), "\"1s\"";
        /// Host of the health checks.
        host ("health_host"): Option<String> = None, Text("a host name"), "\"app.example.org\"",
            or "see `health`; the upstream's own", by |v, r| v.parse(r, host).map(Some);
        /// Statuses of an upstream that works: numbers, or `"2xx"` for all with that first digit.
        #[serde(serialize_with = "print::texts")]
        statuses ("health_status"): Vec<StatusRange> = vec![StatusRange::class(2), StatusRange::class(3)],
            List("statuses"), "[200, \"3xx\"]", by statuses;
        /// Failed health checks in a row after which an upstream gets no requests.
        fails ("health_fails"): u32 = 2, Integer(1, CHECKS_MAX), "3";
        /// Passed health checks in a row after which it gets requests again.
        passes ("health_passes"): u32 = 1, Integer(1, CHECKS_MAX), "2";
    }
    beside {
        /// The path and query that checks ask for.
        #[serde(rename = "health")]
        path: String = String::new();
    }
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
        HealthCheck { path, ..HealthCheck::default() }
    }

    /// Returns whether an upstream that answers with this status works.
    pub fn accepts(&self, status: u16) -> bool {
        self.statuses.iter().any(|range| range.contains(status))
    }
}

/// Reads the health checks of a mount; `None`: there are none.
pub(super) fn health_check(table: &Table<'_>, reader: &mut Reader<'_>) -> Option<HealthCheck> {
    let path = table.get("health").and_then(|value| value.parse(reader, url_path));
    let check = HealthCheck::read(table, reader);
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
