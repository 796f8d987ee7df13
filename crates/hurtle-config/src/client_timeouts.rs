//! Timeouts of clients that a site sets for its requests, and each of its mounts in place of it.

use std::time::Duration;

use super::bounds::{BYTES_MAX, TIME_MS_MAX, TIMEOUT_MS_MIN};
use super::print;
use super::schema::Kind::{Size, Time};
use super::settings::{ALWAYS, settings};

settings! {
    /// Timeouts of clients; `None`: that of the site, or of `[limits]`.
    pub struct ClientTimeouts: CLIENT_TIMEOUTS with ALWAYS {
        /// Lowest rate of a request body, in bytes a second (408); 0: any.
        #[serde(serialize_with = "print::optional_size")]
        body_rate: Option<u64> = None, Size(0, BYTES_MAX), "\"1 KiB\"",
            or "in a mount that of the site, else that of `[limits]`";
        /// Time during which a body may be slower than `body_rate`.
        #[serde(serialize_with = "print::optional_duration")]
        body_grace: Option<Duration> = None, Time(0, TIME_MS_MAX), "\"10s\"",
            or "in a mount that of the site, else that of `[limits]`";
        /// Time that queued response bytes may make no progress (closed). A connection of HTTP/2 or
        /// HTTP/3 on which nothing makes progress has the longest such time of the
        /// requests that it had.
        #[serde(serialize_with = "print::optional_duration")]
        write_stall: Option<Duration> = None, Time(TIMEOUT_MS_MIN, TIME_MS_MAX), "\"5m\"",
            or "in a mount that of the site, else that of `[limits]`";
    }
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
