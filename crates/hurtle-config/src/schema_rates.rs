//! The schema of request rate limits.

use super::bounds::RATE_REQUESTS_MAX;
use super::schema::DefaultValue::{Required, Toml, Words};
use super::schema::Kind::{Integer, List, Text};
use super::schema::{Key, Section};

#[rustfmt::skip] // One paragraph for each key.
const RATE_LIMIT_KEYS: &[Key] = &[
    Key::new("requests", Text("a number per s, m or h"), Required, "\"10/s\"",
        "Rate of requests: a number per second (`s`), minute (`m`) or hour (`h`)."),
    Key::new("burst", Integer(1, RATE_REQUESTS_MAX), Words("the number in `requests`"), "20",
        "Requests accepted at once from a client that was idle. The allowance grows back at the \
         rate of `requests`."),
    Key::new("key", List("parts"), Toml("\"address\""), "[\"address\", \"path\"]",
        "Requests with an equal key share an allowance: `\"address\"`, the client's address (an \
         IPv6 /64 is one); `\"path\"`, the decoded path; `\"header:NAME\"`, the value of a request \
         field; or several of them."),
];

pub(super) static SITE_RATE_LIMIT: Section = Section {
    header: "[[site.rate_limit]]",
    doc: "Limit on the rate of requests (429), for the whole site; see [limits.md](limits.md). A \
          request must meet every limit of its site and its mount.",
    keys: &[RATE_LIMIT_KEYS],
};

pub(super) static MOUNT_RATE_LIMIT: Section = Section {
    header: "[[site.mount.rate_limit]]",
    doc: "Limit on the rate of requests (429) for one mount; see [limits.md](limits.md).",
    keys: &[RATE_LIMIT_KEYS],
};
