//! The schema of a proxy's upstreams: their servers and their ejection.

use super::bounds::{CONCURRENCY_MAX, TIME_MS_MAX, TIMEOUT_MS_MIN};
use super::schema::DefaultValue::{Required, Toml, Words};
use super::schema::Kind::{Flag, Integer, Text, Time};
use super::schema::{Key, Section};

/// Highest weight of an upstream.
const WEIGHT_MAX: u64 = 1_000;

/// Highest number of failures or requests that an ejection waits for.
const EVENTS_MAX: u64 = 1_000_000;

#[rustfmt::skip] // One paragraph for each key.
pub(super) static UPSTREAM: Section = Section {
    header: "[[site.mount.proxy]]",
    doc: "An upstream with settings of its own. In the list of `proxy` such tables stand beside URLs: \
          `proxy = [\"http://10.0.0.1:80\", { url = \"http://10.0.0.2:80\", weight = 3 }]`.",
    keys: &[
        Key::new("url", Text("a URL, or `unix:` and a path"), Required, "\"http://10.0.0.2:80\"",
            "Its address, as in `proxy`."),
        Key::new("weight", Integer(1, WEIGHT_MAX), Toml("1"), "3",
            "Its share of the requests (or of the clients, paths and values that are hashed), \
             relative to the weights of the others."),
        Key::new("backup", Flag, Toml("false"), "true",
            "Use it only while none of the others is available."),
        Key::new("max_connections", Integer(1, CONCURRENCY_MAX), Words("unlimited"), "20",
            "Most requests to it at once, over all workers and all \
             mounts that give it this limit. Idle connections and health checks do not count. More requests \
             go to other upstreams or wait, see `upstream_queue`."),
    ],
};

#[rustfmt::skip] // One paragraph for each key.
pub(super) static EJECTION: Section = Section {
    header: "[site.mount.ejection]",
    doc: "Ejection of upstreams that fail: they get no requests for a while. The last usable upstream \
          is never ejected. Each worker decides by itself.",
    keys: &[
        Key::new("failures", Integer(0, EVENTS_MAX), Toml("3"), "10",
            "Failures in a row that eject an upstream: no connection, no response, a malformed \
             response, a timeout; 0: none do."),
        Key::new("errors_percent", Integer(1, 100), Words("off"), "50",
            "Share of failures and 5xx responses within `window` that ejects an upstream."),
        Key::new("window", Time(TIMEOUT_MS_MIN, TIME_MS_MAX), Toml("\"10s\""), "\"1m\"",
            "Time in which `errors_percent` counts failures and 5xx responses."),
        Key::new("min_requests", Integer(1, EVENTS_MAX), Toml("20"), "100",
            "Least number of an upstream's requests within `window`; below it `errors_percent` does \
             not count."),
        Key::new("time", Time(TIMEOUT_MS_MIN, TIME_MS_MAX), Toml("\"10s\""), "\"5s\"",
            "Time of the first ejection. It doubles with each further one, until the upstream has \
             served for as long as it was ejected."),
        Key::new("max_time", Time(TIMEOUT_MS_MIN, TIME_MS_MAX), Words("1m, or `time` if longer"),
            "\"10m\"", "Time of the longest ejection."),
        Key::new("max_percent", Integer(0, 100), Toml("100"), "50",
            "Share of the upstreams that may be ejected at the same time."),
    ],
};
