//! Time limits of upstreams and applications.

use std::time::Duration;

use super::bounds::{TIME_MS_MAX, TIMEOUT_MS_MIN};
use super::print;
use super::schema::Kind::Time;
use super::schema_mount::{CONNECTED, EXTERNAL};
use super::settings::settings;

settings! {
    /// Time limits of connecting to an upstream or application.
    #[derive(Copy)]
    pub struct Connecting: CONNECTING with CONNECTED {
        /// Time limit of connecting to an upstream, name resolution included (504).
        #[serde(serialize_with = "print::duration")]
        timeout ("connect_timeout"): Duration = Duration::from_secs(5), Time(TIMEOUT_MS_MIN, TIME_MS_MAX), "\"1s\"";
        /// Time for which a request waits while no upstream accepts connections, such as during a
        /// restart, before it gets 502, 503 or 504. Each is tried again every 250 ms. Requests
        /// whose body was sent in part do not wait.
        #[serde(serialize_with = "print::duration")]
        retry_for: Duration = Duration::ZERO, Time(0, TIME_MS_MAX), "\"5s\"";
    }
}

settings! {
    /// Time limits of a request to an upstream or application.
    #[derive(Copy)]
    pub struct UpstreamTimeouts: UPSTREAM_TIMEOUTS with EXTERNAL {
        /// Longest time in which an upstream reads none of a request's bytes (504).
        #[serde(serialize_with = "print::duration")]
        send ("send_timeout"): Duration = Duration::from_secs(30), Time(TIMEOUT_MS_MIN, TIME_MS_MAX), "\"10s\"";
        /// Time from a request's last byte to the end of the response's head (504).
        #[serde(serialize_with = "print::duration")]
        first_byte ("first_byte_timeout"): Duration = Duration::from_secs(60), Time(TIMEOUT_MS_MIN, TIME_MS_MAX), "\"10s\"";
        /// Longest pause in a response's body (the connection is closed).
        #[serde(serialize_with = "print::duration")]
        read ("read_timeout"): Duration = Duration::from_secs(60), Time(TIMEOUT_MS_MIN, TIME_MS_MAX), "\"10m\"";
    }
}
