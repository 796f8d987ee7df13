//! The schema of `[limits]`, of request rate limits and of CORS.

use super::bounds::{
    BYTES_MAX, COUNT_MAX, HEAD_BYTES_MAX, HEAD_BYTES_MIN, HEAD_FIELDS_MAX, PROGRAMS_MAX,
    RATE_REQUESTS_MAX, TIME_MS_MAX, TIMEOUT_MS_MIN,
};
use super::schema::DefaultValue::{Required, Toml, Words};
use super::schema::Kind::{Flag, Integer, List, Size, Text, Time};
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
    keys: RATE_LIMIT_KEYS,
};

pub(super) static MOUNT_RATE_LIMIT: Section = Section {
    header: "[[site.mount.rate_limit]]",
    doc: "Limit on the rate of requests (429) for one mount; see [limits.md](limits.md).",
    keys: RATE_LIMIT_KEYS,
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
    keys: CORS_KEYS,
};

pub(super) static MOUNT_CORS: Section = Section {
    header: "[site.mount.cors]",
    doc: "Cross-origin resource sharing (CORS) of the mount, in place of the site's.",
    keys: CORS_KEYS,
};

#[rustfmt::skip] // One paragraph for each key.
pub(super) static LIMITS: Section = Section {
    header: "[limits]",
    doc: "Limits on what a client may send, hold or delay. The response status of each is in \
          parentheses.",
    keys: &[
        Key::new("head_bytes", Size(HEAD_BYTES_MIN, HEAD_BYTES_MAX), Toml("\"32 KiB\""),
            "\"16 KiB\"", "Size of the request line and fields together (431)."),
        Key::new("head_fields", Integer(1, HEAD_FIELDS_MAX), Toml("100"), "64",
            "Field lines in a request head or trailer section (431)."),
        Key::new("target_bytes", Size(1, HEAD_BYTES_MAX), Toml("\"8 KiB\""), "\"4 KiB\"",
            "Size of the request target (414)."),
        Key::new("head_timeout", Time(TIMEOUT_MS_MIN, TIME_MS_MAX), Toml("\"10s\""), "\"5s\"",
            "Time from a request's first byte to the end of its head (408)."),
        Key::new("handshake_timeout", Time(TIMEOUT_MS_MIN, TIME_MS_MAX), Toml("\"10s\""), "\"5s\"",
            "Time from a connection's first byte to the end of its TLS handshake (closed without a \
             response)."),
        Key::new("idle_timeout", Time(TIMEOUT_MS_MIN, TIME_MS_MAX), Toml("\"75s\""), "\"15s\"",
            "Time between requests on one connection (closed without a response)."),
        Key::new("body_bytes", Size(0, BYTES_MAX), Toml("\"16 MiB\""), "\"1 MiB\"",
            "Size of a request body to a built-in handler, and of one without a length to \
             `fastcgi` or `cgi` (413)."),
        Key::new("body_rate", Size(0, BYTES_MAX), Toml("240"), "\"1 KiB\"",
            "Lowest rate of a request body, in bytes a second (408), also not met by one that pauses \
             for a minute, or `body_grace` if that is longer; 0: any."),
        Key::new("body_grace", Time(0, TIME_MS_MAX), Toml("\"5s\""), "\"10s\"",
            "Time during which a body may be slower than `body_rate`."),
        Key::new("write_stall", Time(TIMEOUT_MS_MIN, TIME_MS_MAX), Toml("\"60s\""), "\"30s\"",
            "Time that queued response bytes may make no progress (closed)."),
        Key::new("address_rate", Size(0, BYTES_MAX), Toml("0"), "\"10 MiB\"",
            "Highest rate to one client address over all its connections, in bytes a second; an \
             IPv6 /64 counts as one address. 0: unlimited. Clients of a unix socket have no \
             address and no limit."),
        Key::new("programs", Integer(1, PROGRAMS_MAX), Toml("32"), "8",
            "CGI programs that run at once in the whole server (503)."),
        Key::new("requests_per_connection", Integer(1, COUNT_MAX), Words("unlimited"), "1000",
            "Requests on one connection."),
        Key::new("connections_per_address", Integer(1, COUNT_MAX), Words("unlimited"), "100",
            "Connections at once from one client address (503); an IPv6 /64 counts as one."),
        Key::new("connections", Integer(1, COUNT_MAX),
            Words("what the limit on open files allows"), "10000", "Connections at once (503)."),
    ],
};
