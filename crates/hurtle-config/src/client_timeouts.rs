//! Timeouts of clients that a site sets for its requests, and each of its mounts in place of it.

use std::time::Duration;

use serde::Serialize;

use super::bounds::{BYTES_MAX, TIME_MS_MAX, TIMEOUT_MS_MIN};
use super::print;
use super::reader::Reader;
use super::schema::DefaultValue::Words;
use super::schema::Key;
use super::schema::Kind::{Size, Time};
use super::table::Table;

const THE_SITES: &str = "the site's, else that of `[limits]`";

pub(super) const BODY_RATE: Key = Key::new(
    "body_rate",
    Size(0, BYTES_MAX),
    Words(THE_SITES),
    "\"1 KiB\"",
    "Lowest rate of a request body, in bytes a second (408); 0: any.",
);

pub(super) const BODY_GRACE: Key = Key::new(
    "body_grace",
    Time(0, TIME_MS_MAX),
    Words(THE_SITES),
    "\"10s\"",
    "Time during which a body may be slower than `body_rate`.",
);

pub(super) const WRITE_STALL: Key = Key::new(
    "write_stall",
    Time(TIMEOUT_MS_MIN, TIME_MS_MAX),
    Words(THE_SITES),
    "\"5m\"",
    "Time that queued response bytes may make no progress (closed). A connection of HTTP/2 or HTTP/3 \
     on which nothing makes progress has the longest such time of the requests that it had.",
);

/// Timeouts of clients; `None`: that of the site, or of `[limits]`.
#[derive(Clone, Debug, Default, PartialEq, Eq, Serialize)]
pub struct ClientTimeouts {
    /// Lowest rate of a request body after `body_grace`, in bytes a second (408); 0: any.
    #[serde(serialize_with = "print::optional_size")]
    pub body_rate: Option<u64>,
    /// Time during which a request body may be slower than `body_rate`.
    #[serde(serialize_with = "print::optional_duration")]
    pub body_grace: Option<Duration>,
    /// Time that queued response bytes may make no progress (closed).
    #[serde(serialize_with = "print::optional_duration")]
    pub write_stall: Option<Duration>,
}

impl ClientTimeouts {
    /// Returns those that are set here or in `other`; the ones here are first. `None`: none is.
    pub fn or(&self, other: &ClientTimeouts) -> Option<ClientTimeouts> {
        let both = ClientTimeouts {
            body_rate: self.body_rate.or(other.body_rate),
            body_grace: self.body_grace.or(other.body_grace),
            write_stall: self.write_stall.or(other.write_stall),
        };
        (both != ClientTimeouts::default()).then_some(both)
    }
}

/// Reads the timeouts of a site or a mount.
pub(super) fn client_timeouts(table: &Table<'_>, reader: &mut Reader<'_>) -> ClientTimeouts {
    let mut timeouts = ClientTimeouts::default();
    let ClientTimeouts { body_rate, body_grace, write_stall } = &mut timeouts;
    table.set("body_rate", reader, |v, r| v.size(r).map(Some), body_rate);
    table.set("body_grace", reader, |v, r| v.duration(r).map(Some), body_grace);
    table.set("write_stall", reader, |v, r| v.duration(r).map(Some), write_stall);
    timeouts
}
