//! The schema of request rate limits and of CORS.

use super::bounds::{RATE_REQUESTS_MAX, TIME_MS_MAX};
use super::schema::DefaultValue::{Required, Toml, Words};
use super::schema::Kind::{Flag, Integer, List, Text, Time};
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

#[rustfmt::skip] // One paragraph for each key.
const CORS_KEYS: &[Key] = &[
    Key::new("origins", List("origins"), Required, "[\"https://app.example\"]",
        "Origins allowed, as browsers send them: `\"https://app.example\"`, \
         `\"https://*.app.example\"` for its subdomains, or `\"*\"` for all, which excludes \
         `credentials`."),
    Key::new("methods", List("methods"), Toml("[\"GET\", \"HEAD\", \"POST\"]"), "[\"PUT\"]",
        "Methods allowed."),
    Key::new("headers", List("field names"), Toml("[]"), "[\"Content-Type\", \"Authorization\"]",
        "Request fields allowed besides the safelisted ones; `\"*\"`: all."),
    Key::new("credentials", Flag, Toml("false"), "true", "Allow cookies and passwords."),
    Key::new("max_age", Time(0, TIME_MS_MAX), Toml("\"10m\""), "\"1h\"",
        "Time for which a browser may remember the answer to a preflight."),
    Key::new("expose", List("field names"), Toml("[]"), "[\"X-Total-Count\"]",
        "Response fields that scripts may read besides the safelisted ones."),
];

pub(super) static SITE_CORS: Section = Section {
    header: "[site.cors]",
    doc: "Cross-origin resource sharing (CORS) of the site; see [access.md](access.md).",
    keys: &[CORS_KEYS],
};

pub(super) static MOUNT_CORS: Section = Section {
    header: "[site.mount.cors]",
    doc: "Cross-origin resource sharing (CORS) of the mount, in place of the site's.",
    keys: &[CORS_KEYS],
};
