//! Limits on clients: the `[limits]` table.

use std::time::Duration;

use super::bounds::{
    BYTES_MAX, COUNT_MAX, HEAD_BYTES_MAX, HEAD_BYTES_MIN, HEAD_FIELDS_MAX, PROGRAMS_MAX,
    TIME_MS_MAX, TIMEOUT_MS_MIN,
};
use super::print;
use super::schema::Kind::{Integer, Size, Time};
use super::settings::settings;

settings! {
    /// Limits on what a client may send, hold or delay. The response status of each is in
    /// parentheses.
    pub struct Limits: LIMITS "[limits]" {
        /// Size of the request line and fields together (431).
        #[serde(serialize_with = "print::memory_size")]
        head_bytes: usize = 32 << 10, Size(HEAD_BYTES_MIN, HEAD_BYTES_MAX), "\"16 KiB\"";
        /// Field lines in a request head or trailer section (431).
        head_fields: usize = 100, Integer(1, HEAD_FIELDS_MAX), "64";
        /// Size of the request target (414).
        #[serde(serialize_with = "print::memory_size")]
        target_bytes: usize = 8 << 10, Size(1, HEAD_BYTES_MAX), "\"4 KiB\"";
        /// Time from a request's first byte to the end of its head (408).
        #[serde(serialize_with = "print::duration")]
        head_timeout: Duration = Duration::from_secs(10), Time(TIMEOUT_MS_MIN, TIME_MS_MAX), "\"5s\"";
        /// Time from a connection's first byte to the end of its TLS handshake (closed without a
        /// response).
        #[serde(serialize_with = "print::duration")]
        handshake_timeout: Duration = Duration::from_secs(10), Time(TIMEOUT_MS_MIN, TIME_MS_MAX), "\"5s\"";
        /// Time between requests on one connection (closed without a response).
        #[serde(serialize_with = "print::duration")]
        idle_timeout: Duration = Duration::from_secs(75), Time(TIMEOUT_MS_MIN, TIME_MS_MAX), "\"15s\"";
        /// Size of a request body to a built-in handler, and of one without a length to
        /// `fastcgi`, `uwsgi` or `cgi` (413).
        #[serde(serialize_with = "print::size")]
        body_bytes: u64 = 16 << 20, Size(0, BYTES_MAX), "\"1 MiB\"";
        /// Lowest rate of a request body, in bytes a second (408), also not met by one that pauses
        /// for a minute, or `body_grace` if that is longer; 0: any.
        #[serde(serialize_with = "print::size")]
        body_rate: u64 = 240, Size(0, BYTES_MAX), "\"1 KiB\"";
        /// Time during which a body may be slower than `body_rate`.
        #[serde(serialize_with = "print::duration")]
        body_grace: Duration = Duration::from_secs(5), Time(0, TIME_MS_MAX), "\"10s\"";
        /// Time that queued response bytes may make no progress (closed).
        #[serde(serialize_with = "print::duration")]
        write_stall: Duration = Duration::from_secs(60), Time(TIMEOUT_MS_MIN, TIME_MS_MAX), "\"30s\"";
        /// Highest rate to one client address over all its connections, in bytes a second; an
        /// IPv6 /64 counts as one address. 0: unlimited. Clients of a unix socket have no
        /// address and no limit.
        #[serde(serialize_with = "print::size")]
        address_rate: u64 = 0, Size(0, BYTES_MAX), "\"10 MiB\"";
        /// CGI programs that run at once in the whole server (503).
        programs: usize = 32, Integer(1, PROGRAMS_MAX), "8";
        /// Requests on one connection.
        requests_per_connection: Option<u64> = None, Integer(1, COUNT_MAX), "1000", or "unlimited";
        /// Age from which a connection closes behind the response to its next request, so that its
        /// client connects anew, perhaps to another server of several.
        #[serde(serialize_with = "print::optional_duration")]
        connection_age: Option<Duration> = None, Time(TIMEOUT_MS_MIN, TIME_MS_MAX), "\"1h\"",
            or "unlimited";
        /// Connections at once from one client address (503); an IPv6 /64 counts as one.
        connections_per_address: Option<usize> = None, Integer(1, COUNT_MAX), "100", or "unlimited";
        /// Connections at once (503).
        connections: Option<usize> = None, Integer(1, COUNT_MAX), "10000",
            or "what the limit on open files allows";
    }
}
