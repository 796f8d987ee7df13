//! The choice among the upstreams of a proxy: method, sticky cookie, slow start and ejection.

use std::fmt::Write as _;
use std::time::Duration;

use http::HeaderName;
use serde::Serialize;

use super::bounds::{TIME_MS_MAX, TIMEOUT_MS_MIN};
use super::error::{ValueError, shown};
use super::field::cookie_name;
use super::names::Named as _;
use super::print;
use super::reader::Reader;
use super::schema::Kind::{Integer, Time};
use super::settings::settings;
use super::table::Table;
use super::units::duration_text;
use super::value::Value;

/// Least length of a cookie's secret, in bytes.
const SECRET_BYTES_MIN: usize = 16;

/// Highest number of failures or requests that an ejection waits for.
const EVENTS_MAX: u64 = 1_000_000;

/// `cookie` unless it is written.
const COOKIE: &str = "hurtle_upstream";

/// The choice of an upstream for each request.
#[derive(Clone, Debug, Default, PartialEq, Eq, Serialize)]
pub struct Balancing {
    /// Method by which an upstream is chosen.
    #[serde(rename = "balance")]
    pub method: Balance,
    /// Name of the field that is hashed, in lower case; set with `Balance::HashHeader` only.
    pub hash_header: Option<String>,
    /// The cookie; set with `Balance::Cookie` only.
    #[serde(flatten)]
    pub cookie: Option<StickyCookie>,
    /// Time in which the share of an upstream that has come back grows to its weight; `None`: it
    /// has its whole share at once.
    #[serde(serialize_with = "print::optional_duration")]
    pub slow_start: Option<Duration>,
    /// Ejection of upstreams that fail.
    pub ejection: Ejection,
}

/// Method of load balancing, as configured.
#[derive(Clone, Copy, Debug, PartialEq, Eq, Default)]
pub enum Balance {
    /// Each in turn, as often as its weight says.
    #[default]
    RoundRobin,
    /// The one with the fewest requests in flight for its weight.
    LeastConnections,
    /// By a hash of the client's address; another one if that one is down.
    HashAddress,
    /// By a hash of the path.
    HashPath,
    /// By a hash of a header field.
    HashHeader,
    /// The one that the client's cookie names.
    Cookie,
}

/// The cookie that names the upstream of a client.
#[derive(Clone, Debug, PartialEq, Eq, Serialize)]
pub struct StickyCookie {
    /// Name of the cookie.
    #[serde(rename = "cookie")]
    pub name: String,
    /// Key of its values; `None`: a random one for each run of the server.
    #[serde(rename = "cookie_secret")]
    pub secret: Option<String>,
}

settings! {
    /// Ejection of upstreams that fail: they get no requests for a while. The last usable upstream
    /// is never ejected. Each worker decides by itself.
    pub struct Ejection: EJECTION "[site.mount.ejection]" {
        /// Failures in a row that eject an upstream: no connection, no response, a malformed
        /// response, a timeout; 0: none do.
        failures: u32 = 3, Integer(0, EVENTS_MAX), "10";
        /// Share of failures and 5xx responses within `window` that ejects an upstream.
        errors_percent: Option<u32> = None, Integer(1, 100), "50", or "off";
        /// Time in which `errors_percent` counts failures and 5xx responses.
        #[serde(serialize_with = "print::duration")]
        window: Duration = Duration::from_secs(10), Time(TIMEOUT_MS_MIN, TIME_MS_MAX), "\"1m\"";
        /// Least number of an upstream's requests within `window`; below it `errors_percent` does
        /// not count.
        min_requests: u32 = 20, Integer(1, EVENTS_MAX), "100";
        /// Time of the first ejection. It doubles with each further one, until the upstream has
        /// served for as long as it was ejected.
        #[serde(serialize_with = "print::duration")]
        time: Duration = Duration::from_secs(10), Time(TIMEOUT_MS_MIN, TIME_MS_MAX), "\"5s\"";
        /// Time of the longest ejection.
        #[serde(serialize_with = "print::duration")]
        max_time: Duration = Duration::from_secs(60), Time(TIMEOUT_MS_MIN, TIME_MS_MAX), "\"10m\"",
            or "1m, or `time` if longer";
        /// Share of the upstreams that may be ejected at the same time.
        max_percent: u32 = 100, Integer(0, 100), "50";
    }
}

impl Balancing {
    /// Describes the choice in one line.
    pub fn describe(&self) -> String {
        let mut text = self.method.name().to_owned();
        // A `String` takes any text.
        let _ = match (&self.hash_header, &self.cookie) {
            (Some(name), _) => write!(text, " of {name}"),
            (_, Some(cookie)) => write!(text, " {}", cookie.name),
            _ => Ok(()),
        };
        let Ejection { failures, errors_percent, window, time, .. } = &self.ejection;
        if let Some(slow_start) = self.slow_start {
            let _ = write!(text, "; slow start of {}", duration_text(slow_start));
        }
        let time = duration_text(*time);
        if *failures > 0 {
            let _ = write!(text, "; ejected for {time} after {failures} failures in a row");
        }
        if let Some(percent) = errors_percent {
            let window = duration_text(*window);
            let _ = write!(text, "; ejected for {time} after {percent} % errors in {window}");
        }
        text
    }
}

/// Reads the keys of a mount that choose among its upstreams.
pub(super) fn balancing(table: &Table<'_>, reader: &mut Reader<'_>) -> Balancing {
    let mut balancing = Balancing::default();
    let b = &mut balancing;
    table.set("balance", reader, Value::choice, &mut b.method);
    b.hash_header = header(table, b.method, reader);
    b.cookie = cookie(table, b.method, reader);
    table.set("slow_start", reader, |v, r| v.duration(r).map(Some), &mut b.slow_start);
    if let Some(table) = table.get("ejection").and_then(|value| value.table(reader)) {
        b.ejection = ejection(&table, reader);
    }
    balancing
}

fn header(table: &Table<'_>, method: Balance, reader: &mut Reader<'_>) -> Option<String> {
    let written = table.get("hash_header");
    if method != Balance::HashHeader {
        goes_with(written.as_ref(), Balance::HashHeader, reader);
        return None;
    }
    let Some(written) = written else {
        let wrong = ValueError::new("hash_header is missing");
        let hint = "write for example hash_header = \"X-Tenant\"";
        reader.report_missing(&table.spot, wrong.hint(hint));
        return None;
    };
    let name = |text: &str| match HeaderName::from_bytes(text.as_bytes()) {
        Ok(name) => Ok(name.as_str().to_owned()),
        Err(_) => Err(ValueError::new(format!("{} is not a field name", shown(text)))
            .hint("letters, digits and -, such as X-Tenant")),
    };
    written.parse(reader, name)
}

fn cookie(table: &Table<'_>, method: Balance, reader: &mut Reader<'_>) -> Option<StickyCookie> {
    let (name, secret) = (table.get("cookie"), table.get("cookie_secret"));
    if method != Balance::Cookie {
        goes_with(name.as_ref(), Balance::Cookie, reader);
        goes_with(secret.as_ref(), Balance::Cookie, reader);
        return None;
    }
    let long = |text: &str| match text.len() < SECRET_BYTES_MIN {
        true => Err(ValueError::new(format!("the secret has fewer than {SECRET_BYTES_MIN} bytes"))
            .hint("write the output of: openssl rand -hex 16")),
        false => Ok(text.to_owned()),
    };
    let name = name.and_then(|value| value.parse(reader, cookie_name));
    let secret = secret.and_then(|value| value.parse(reader, long));
    Some(StickyCookie { name: name.unwrap_or_else(|| COOKIE.to_owned()), secret })
}

/// Reports a key that needs another method.
fn goes_with(written: Option<&Value<'_>>, method: Balance, reader: &mut Reader<'_>) {
    if let Some(written) = written {
        let wrong = ValueError::new(format!("goes with balance = \"{}\" only", method.name()));
        written.report(reader, wrong.hint("remove it"));
    }
}

fn ejection(table: &Table<'_>, reader: &mut Reader<'_>) -> Ejection {
    let mut ejection = Ejection::read(table, reader);
    let e = &mut ejection;
    if table.get("max_time").is_none() {
        e.max_time = e.max_time.max(e.time);
    }
    if let Some(written) = table.get("max_time").filter(|_| e.max_time < e.time) {
        let wrong = ValueError::new("shorter than time, the first ejection");
        written.report(reader, wrong.hint(format!("write {} or more", duration_text(e.time))));
    }
    ejection
}
