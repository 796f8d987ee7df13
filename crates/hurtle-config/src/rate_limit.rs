//! Request rate limits and concurrency limits of sites and mounts. `hurtle::limits` enforces them.

use std::fmt;
use std::time::Duration;

use http::HeaderName;
use serde::{Serialize, Serializer};

use super::bounds::RATE_REQUESTS_MAX;
use super::error::{ValueError, shown};
use super::field::field_name;
use super::print;
use super::reader::Reader;
use super::table::Table;
use super::value::Value;

/// A limit on the rate of requests, for each value of a key.
#[derive(Clone, Debug, PartialEq, Eq, Hash, Serialize)]
pub struct RateLimit {
    /// The allowance of each key over time.
    pub requests: RequestRate,
    /// Requests accepted at once from a client that was idle; at least 1.
    pub burst: u64,
    /// The parts of the key, not empty: requests with equal parts share an allowance.
    #[serde(serialize_with = "print::texts")]
    pub key: Vec<LimitKey>,
}

/// A rate of requests, such as `10/s`.
#[derive(Clone, Copy, Debug, PartialEq, Eq, Hash)]
pub struct RequestRate {
    /// Requests in a period; at least 1.
    pub count: u64,
    /// The period in which they are allowed.
    pub period: Period,
}

/// The period of a rate.
#[derive(Clone, Copy, Debug, PartialEq, Eq, Hash)]
pub enum Period {
    /// One second, written `s`.
    Second,
    /// One minute, written `m`.
    Minute,
    /// One hour, written `h`.
    Hour,
}

/// A part of a rate limit's key.
#[derive(Clone, Debug, PartialEq, Eq, Hash)]
pub enum LimitKey {
    /// The client's address; an IPv6 /64 is one address.
    Address,
    /// The decoded path, without the query.
    Path,
    /// The value of this request field.
    Header(HeaderName),
}

/// A limit on the requests of a mount that are handled at once.
#[derive(Clone, Copy, Debug, PartialEq, Eq, Hash, Serialize)]
pub struct Concurrency {
    /// Requests at once, at least 1, over all workers.
    #[serde(rename = "concurrency")]
    pub max: u64,
    /// Requests that may wait.
    pub queue: u64,
    /// Longest wait in the queue; 503 after it.
    #[serde(serialize_with = "print::duration")]
    pub queue_timeout: Duration,
}

/// The limits of a site, which apply to all of its mounts.
#[derive(Clone, Debug, Default, PartialEq, Eq, Serialize)]
pub struct SiteLimits {
    /// Request rate limits; a request must meet all of them.
    #[serde(rename = "rate_limit", skip_serializing_if = "Vec::is_empty")]
    pub rates: Vec<RateLimit>,
}

/// The limits of a mount, in addition to its site's.
#[derive(Clone, Debug, Default, PartialEq, Eq, Serialize)]
pub struct MountLimits {
    /// Request rate limits; a request must meet all of them.
    #[serde(rename = "rate_limit", skip_serializing_if = "Vec::is_empty")]
    pub rates: Vec<RateLimit>,
    /// Limit on requests at once; `None`: unlimited.
    #[serde(flatten)]
    pub concurrency: Option<Concurrency>,
}

/// The default wait in the queue.
const QUEUE_TIMEOUT: Duration = Duration::from_secs(5);

impl RateLimit {
    /// A limit by the client's address, with a burst of one period.
    pub fn new(count: u64, period: Period) -> RateLimit {
        let requests = RequestRate { count, period };
        RateLimit { requests, burst: count, key: vec![LimitKey::Address] }
    }
}

impl Concurrency {
    /// A limit without a queue.
    pub fn new(max: u64) -> Concurrency {
        Concurrency { max, queue: 0, queue_timeout: QUEUE_TIMEOUT }
    }
}

impl Period {
    /// Its length in seconds.
    pub fn secs(self) -> u64 {
        match self {
            Period::Second => 1,
            Period::Minute => 60,
            Period::Hour => 3_600,
        }
    }
}

impl fmt::Display for RequestRate {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        let unit = match self.period {
            Period::Second => "s",
            Period::Minute => "m",
            Period::Hour => "h",
        };
        write!(f, "{}/{unit}", self.count)
    }
}

impl Serialize for RequestRate {
    fn serialize<S: Serializer>(&self, out: S) -> Result<S::Ok, S::Error> {
        out.collect_str(self)
    }
}

impl fmt::Display for LimitKey {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        match self {
            LimitKey::Address => f.write_str("address"),
            LimitKey::Path => f.write_str("path"),
            LimitKey::Header(name) => write!(f, "header:{name}"),
        }
    }
}

/// Reads the limits of a mount.
pub(super) fn mount_limits(table: &Table<'_>, reader: &mut Reader<'_>) -> MountLimits {
    let rates = rate_limits(table, reader);
    MountLimits { rates, concurrency: concurrency(table, reader) }
}

/// Reads the limits of a site.
pub(super) fn site_limits(table: &Table<'_>, reader: &mut Reader<'_>) -> SiteLimits {
    SiteLimits { rates: rate_limits(table, reader) }
}

fn rate_limits(table: &Table<'_>, reader: &mut Reader<'_>) -> Vec<RateLimit> {
    let Some(written) = table.get("rate_limit") else { return Vec::new() };
    let mut limits = Vec::new();
    for table in written.tables(reader) {
        let Some(limit) = rate_limit(&table, reader) else { continue };
        if limits.contains(&limit) {
            let wrong = ValueError::new("the same limit is written twice");
            reader.report(&table.spot, wrong.hint("remove one"));
        }
        limits.push(limit);
    }
    limits
}

fn rate_limit(table: &Table<'_>, reader: &mut Reader<'_>) -> Option<RateLimit> {
    let Some(written) = table.get("requests") else {
        let wrong = ValueError::new("requests is missing");
        reader.report_missing(&table.spot, wrong.hint("write for example requests = \"10/s\""));
        return None;
    };
    let requests = written.parse(reader, request_rate);
    let mut burst = requests.map_or(1, |rate| rate.count);
    table.set("burst", reader, Value::integer, &mut burst);
    let mut key = vec![LimitKey::Address];
    table.set("key", reader, |v, r| v.parse_list(r, limit_key), &mut key);
    if let Some(value) = table.get("key") {
        let repeated = key.iter().enumerate().find(|(i, part)| key[..*i].contains(part));
        if let Some((_, part)) = repeated {
            let wrong = ValueError::new(format!("{part} is written twice"));
            value.report(reader, wrong.hint("remove one"));
        }
        if value.is_empty_list() {
            let wrong = ValueError::new("the key has no parts");
            value.report(reader, wrong.hint("leave it out to limit each client address"));
        }
    }
    Some(RateLimit { requests: requests?, burst, key })
}

pub(super) fn request_rate(text: &str) -> Result<RequestRate, ValueError> {
    let wrong = |what: &str| {
        ValueError::new(format!("{} {what}", shown(text)))
            .hint("write a number and a period, such as \"10/s\", \"100/m\" or \"1000/h\"")
    };
    let Some((count, period)) = text.split_once('/') else {
        return Err(wrong("is not a rate of requests"));
    };
    let period = match period.trim() {
        "s" => Period::Second,
        "m" => Period::Minute,
        "h" => Period::Hour,
        _ => return Err(wrong("has an unknown period")),
    };
    let count = count.trim();
    if count.is_empty() || !count.bytes().all(|b| b.is_ascii_digit()) {
        return Err(wrong("is not a rate of requests"));
    }
    match count.parse() {
        Ok(0) => Err(ValueError::new("a rate of 0 would refuse every request")
            .hint("use deny = [\"0.0.0.0/0\", \"::/0\"] to close a path")),
        Ok(count) if count <= RATE_REQUESTS_MAX => Ok(RequestRate { count, period }),
        _ => Err(ValueError::new(format!("{} is too large", shown(text)))
            .hint(format!("write at most {RATE_REQUESTS_MAX}"))),
    }
}

fn limit_key(text: &str) -> Result<LimitKey, ValueError> {
    match text {
        "address" => Ok(LimitKey::Address),
        "path" => Ok(LimitKey::Path),
        _ => match text.strip_prefix("header:") {
            Some(name) => field_name(name).map(LimitKey::Header),
            None => Err(ValueError::new(format!("{} is not a part of a key", shown(text)))
                .hint("write \"address\", \"path\" or \"header:NAME\"")),
        },
    }
}

/// Reads `concurrency` of a mount, and the keys of its queue.
fn concurrency(table: &Table<'_>, reader: &mut Reader<'_>) -> Option<Concurrency> {
    let mut limit = Concurrency::new(table.get("concurrency")?.integer(reader)?);
    table.set("queue", reader, Value::integer, &mut limit.queue);
    table.set("queue_timeout", reader, Value::duration, &mut limit.queue_timeout);
    Some(limit)
}
