//! Every key a configuration may hold: the one table from which unknown keys are found, ranges are
//! kept, examples in messages are taken and `docs/config.md` is written. A key is added here first;
//! `check*` reads it by its name.

use std::fmt;

use super::auth::AuthName;
use super::bounds::{
    BACKLOG_MAX, BYTES_MAX, COUNT_MAX, DISK_THREADS_MAX, HEAD_BYTES_MAX, HEAD_BYTES_MIN,
    HEAD_FIELDS_MAX, PROGRAMS_MAX, TIME_MS_MAX, TIMEOUT_MS_MIN, WORKERS_MAX,
};
use super::names::{FormatName, names};
use super::schema_acme::{ACME, AUTHORITY};
use super::schema_mount::{CACHE, MOUNT, UPLOADS};
use super::schema_tls::{PROXY_PROTOCOL, TLS};
use super::types::{EarlyHints, LogField, LogLevel, Schedule, Sendfile};
use super::units::{duration_text, size_text};

/// A table of a configuration and the keys it may hold.
#[derive(Debug)]
pub(super) struct Section {
    /// How its table is opened; empty for the top of the file.
    pub(super) header: &'static str,
    /// What it is for.
    pub(super) doc: &'static str,
    /// Its keys, in the order to show them.
    pub(super) keys: &'static [Key],
}

/// A key.
#[derive(Debug)]
pub(super) struct Key {
    pub(super) name: &'static str,
    pub(super) kind: Kind,
    pub(super) absent: Absent,
    /// A value as it is written in TOML.
    pub(super) example: &'static str,
    pub(super) doc: &'static str,
    /// It goes with one of these keys only; empty: with any.
    pub(super) with: &'static [&'static str],
}

/// What may be written as a value.
#[derive(Debug)]
pub(super) enum Kind {
    Flag,
    /// From, to.
    Integer(u64, u64),
    /// The same, or the word "auto".
    AutoOrInteger(u64, u64),
    /// Bytes, from, to.
    Size(u64, u64),
    /// Milliseconds, from, to.
    Time(u64, u64),
    Choice(fn() -> Vec<&'static str>),
    Choices(fn() -> Vec<&'static str>),
    Text(&'static str),
    /// A list of what the words say (in the plural), or one of it alone.
    List(&'static str),
    /// A table whose keys the operator chooses.
    Map(&'static str),
    /// A table with keys of its own, beneath its own header.
    Table(&'static Section),
    /// A list of such tables.
    Tables(&'static Section),
}

/// What holds when a key is not written.
#[derive(Debug)]
pub(super) enum Absent {
    /// The same as this TOML value.
    Is(&'static str),
    /// What the words say.
    Means(&'static str),
    /// A problem.
    Required,
}

/// What the keys about users go with.
pub(super) const AUTH: &[&str] = &["auth"];

use Absent::{Is, Means, Required};
use Kind::{
    AutoOrInteger, Choice, Choices, Flag, Integer, List, Map, Size, Table, Tables, Text, Time,
};

impl Section {
    /// The key of this name.
    pub(super) fn key(&self, name: &str) -> Option<&'static Key> {
        self.keys.iter().find(|key| key.name == name)
    }
}

impl Key {
    pub(super) const fn new(
        name: &'static str,
        kind: Kind,
        absent: Absent,
        example: &'static str,
        doc: &'static str,
    ) -> Key {
        Key { name, kind, absent, example, doc, with: &[] }
    }

    pub(super) const fn with(mut self, with: &'static [&'static str]) -> Key {
        self.with = with;
        self
    }
}

impl fmt::Display for Kind {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        match self {
            Flag => f.write_str("true or false"),
            Integer(least, COUNT_MAX) => write!(f, "an integer from {least}"),
            Integer(least, most) => write!(f, "an integer, {least} to {most}"),
            AutoOrInteger(least, most) => {
                write!(f, "\"auto\" or an integer, {least} to {most}")
            }
            Size(least, most) => {
                write!(f, "a size, {} to {}", size_text(*least), size_text(*most))
            }
            Time(least, most) => {
                write!(f, "a duration, {} to {}", time_text(*least), time_text(*most))
            }
            Choice(names) => f.write_str(&one_of(&names())),
            Choices(names) => write!(f, "a list of {}", quoted(&names()).join(", ")),
            Text(what) | Map(what) => f.write_str(what),
            List(of) => write!(f, "a list of {of}"),
            Table(section) | Tables(section) => write!(f, "{}", section.header),
        }
    }
}

/// Milliseconds as a person writes them.
pub(super) fn time_text(ms: u64) -> String {
    duration_text(std::time::Duration::from_millis(ms))
}

/// "a", "b" or "c".
pub(super) fn one_of(names: &[&str]) -> String {
    let quoted = quoted(names);
    match quoted.split_last() {
        Some((last, rest)) if !rest.is_empty() => format!("{} or {last}", rest.join(", ")),
        _ => quoted.concat(),
    }
}

fn quoted(names: &[&str]) -> Vec<String> {
    names.iter().map(|name| format!("\"{name}\"")).collect()
}

/// Every table, in the order to show them.
pub(super) static SECTIONS: [&Section; 15] = [
    &TOP,
    &PROXY_PROTOCOL,
    &ACME,
    &AUTHORITY,
    &SITE,
    &TLS,
    &MOUNT,
    &UPLOADS,
    &CACHE,
    &RULE,
    &HEADER,
    &ERRORS,
    &LIMITS,
    &ACCESS_LOG,
    &ERROR_LOG,
];

#[rustfmt::skip] // A paragraph a key.
pub(super) static TOP: Section = Section {
    header: "",
    doc: "Keys of the whole server stand at the top of the file, before the first `[table]`.",
    keys: &[
        Key::new("listen", List("addresses"), Is("\"127.0.0.1:8080\""),
            "[\"0.0.0.0:80\", \"[::]:80\", \"unix:/run/hurtle.sock\"]",
            "Where to listen: `address:port`, or `unix:` and the path of a socket. \
             Port 0 is any free one."),
        Key::new("listen_tls", List("addresses"), Means("none"), "[\"0.0.0.0:443\", \"[::]:443\"]",
            "Where to listen with TLS, for the sites that have certificates (`[site.tls]`); \
             `listen` is then none unless it is written."),
        Key::new("root", Text("a directory"), Means("see `[[site]]`"), "\"public\"",
            "Short for one site that serves one directory to every host name; \
             not together with `[[site]]`."),
        Key::new("listing", Flag, Is("false"), "true",
            "Whether directories without an index are listed.").with(&["root"]),
        Key::new("workers", AutoOrInteger(1, WORKERS_MAX), Is("\"auto\""), "2",
            "Threads that serve connections; `\"auto\"`: one for each processor the process may \
             use, container quotas included."),
        Key::new("backlog", Integer(1, BACKLOG_MAX), Is("4096"), "1024",
            "Connections the kernel may queue for each listener; its own bound \
             (`net.core.somaxconn` on Linux) also holds."),
        Key::new("sendfile", Choice(names::<Sendfile>), Is("\"auto\""), "\"off\"",
            "How file bodies leave: decided for each answer, all by `sendfile(2)`, or none. \
             `\"auto\"` is the fast one; the others are there to compare."),
        Key::new("schedule", Choice(names::<Schedule>), Is("\"wait\""), "\"yield\"",
            "When a connection that has answered reads again: once something has come, at once \
             (`\"eager\"`), or at once but behind every other that is ready. `\"wait\"` asks the \
             system for nothing in vain; the others are there to compare."),
        Key::new("disk_threads", Integer(1, DISK_THREADS_MAX), Is("16"), "8",
            "Threads that wait for disks, so that no connection does."),
        Key::new("revalidate", Time(0, TIME_MS_MAX), Is("\"1s\""), "\"250ms\"",
            "How long a cached file is trusted before its name is looked up again."),
        Key::new("cache_bytes", Size(0, BYTES_MAX), Is("\"64 MiB\""), "\"256 MiB\"",
            "Memory for cached file contents and heads, for the whole process."),
        Key::new("drain", Time(0, TIME_MS_MAX), Is("\"10s\""), "\"30s\"",
            "How long a stop waits for the answers in flight."),
        Key::new("user", Text("a user's name"), Means("stay as started"), "\"www-data\"",
            "User to become once the listeners are bound; only when started as root."),
        Key::new("group", Text("a group's name"), Means("the user's own"), "\"www-data\"",
            "Group to become.").with(&["user"]),
        Key::new("apps", Text("a directory"), Means("off"), "\"/srv/apps\"",
            "Start the applications whose directories are in this one, and mount them: each has an \
             `app.toml`; see [apps.md](apps.md). They come and go without a restart."),
        Key::new("trusted_proxies", List("networks"), Means("none"), "[\"10.0.0.0/8\", \"::1\"]",
            "Proxies in front of this server. From their addresses only, X-Forwarded-For and \
             Forwarded say who the client is: for logs, `allow` and `deny`, and upstreams."),
        Key::new("admin", Text("a path"), Means("off"), "\"/run/hurtle-admin.sock\"",
            "A unix socket on which the user who starts the server, and nobody else, may give orders: so far, to \
             forget what `cache` has kept (`hurtle purge`)."),
        Key::new("proxy_protocol", Table(&PROXY_PROTOCOL), Means("off"), "{ from = \"10.0.0.0/24\" }",
            "Listeners behind a load balancer that speaks the PROXY protocol."),
        Key::new("acme", Table(&ACME), Means("required where a certificate is `\"auto\"`"),
            "{ accept_terms = true }", "How such certificates are got."),
        Key::new("limits", Table(&LIMITS), Means("see there"), "{}",
            "Bounds on what a client may send, hold or delay."),
        Key::new("access_log", Table(&ACCESS_LOG), Means("off"), "{}", "Log of requests."),
        Key::new("error_log", Table(&ERROR_LOG), Means("`info` and above, to stderr"), "{}",
            "Log of the server's own events."),
        Key::new("site", Tables(&SITE), Means("see `root`"), "[]",
            "What is served under which host names."),
    ],
};

#[rustfmt::skip] // A paragraph a key.
pub(super) static SITE: Section = Section {
    header: "[[site]]",
    doc: "What is served under a set of host names. A request for a name that no site has goes to \
          the default site, or is answered 421 where there is none. Within a site, rules are tried \
          first, in order; then the mount with the longest matching path answers.",
    keys: &[
        Key::new("hosts", List("host names"), Means("none; a single site is then the default"),
            "[\"example.org\", \"*.example.org\"]",
            "Names it answers to, without port. `*.` in front stands for any number of labels, \
             `\"*\"` alone for every name no other site has."),
        Key::new("default", Flag, Means("true for a single site without `hosts`"), "true",
            "Whether it also answers every name no other site has; one site may."),
        Key::new("allow", List("networks"), Means("all"), "[\"10.0.0.0/8\", \"::1\"]",
            "Client addresses let in; all others get 403."),
        Key::new("deny", List("networks"), Means("none"), "\"10.6.6.0/24\"",
            "Client addresses refused with 403. Where both hold an address, the more specific \
             network wins."),
        Key::new("auth", Choice(names::<AuthName>), Means("none"), "\"none\"",
            "What clients must show: nothing, or a name and a password (HTTP Basic). Passwords are \
             checked against bcrypt hashes beside the event loops."),
        Key::new("users", Text("a file"), Means("required with `auth = \"basic\"`"),
            "\"users.htpasswd\"", "Names and hashes, a line of `htpasswd -nB NAME` for each; read \
             when the server starts.").with(AUTH),
        Key::new("realm", Text("a few words"), Is("\"hurtle\""), "\"staging\"",
            "What a browser says the password is for.").with(AUTH),
        Key::new("auth_cleartext", Flag, Is("false"), "true",
            "Whether passwords may come in clear over a network; otherwise every address listened \
             on must be a loopback one or a unix socket.").with(AUTH),
        Key::new("early_hints", Choice(names::<EarlyHints>), Is("\"h2\""), "\"always\"",
            "Who is told what an answer will need, in a 103 ahead of it: the links that \
             `[[site.header]]` sets on an upstream's answer, and what applications tell. Over HTTP/2 \
             only, over HTTP/1.1 too (some clients take the first answer for the last), or nobody; \
             what an upstream tells itself is passed on over both, unless `\"off\"`."),
        Key::new("rule", Tables(&RULE), Means("none"), "[]", "Redirects and rewrites."),
        Key::new("header", Tables(&HEADER), Means("none"), "[]", "Fields set and removed."),
        Key::new("errors", Table(&ERRORS), Means("the server's own"), "{}", "Error pages."),
        Key::new("tls", Table(&TLS), Means("in clear only"), "{}", "Certificates."),
        Key::new("mount", Tables(&MOUNT), Means("none"), "[]", "What answers beneath a path."),
    ],
};

#[rustfmt::skip] // A paragraph a key.
pub(super) static RULE: Section = Section {
    header: "[[site.rule]]",
    doc: "A redirect or a rewrite by path; one of the two. `{1}`, `{2}` stand for what the first \
          and second wildcard of `match` matched.",
    keys: &[
        Key::new("match", Text("a pattern"), Required, "\"/old/*\"",
            "Paths it holds for, compared decoded and without the query."),
        Key::new("redirect", Text("a URL or an absolute path"), Means("see `rewrite`"),
            "\"/new/{1}\"", "Answer with this Location."),
        Key::new("status", Integer(301, 308), Is("302"), "301",
            "Status of the redirect: 301, 302, 303, 307 or 308.").with(&["redirect"]),
        Key::new("rewrite", Text("an absolute path"), Means("see `redirect`"), "\"/app/{1}\"",
            "Go on as if this path had been asked for."),
    ],
};

#[rustfmt::skip] // A paragraph a key.
pub(super) static HEADER: Section = Section {
    header: "[[site.header]]",
    doc: "Fields of answers, by path; every rule that matches is applied, in order. Fields that \
          frame a message (Content-Length, Connection and the like) stay the server's.",
    keys: &[
        Key::new("match", Text("a pattern"), Is("\"**\""), "\"*.css\"",
            "Paths it holds for, compared decoded and without the query."),
        Key::new("set", Map("a table of names and values"), Is("{}"),
            "{ Cache-Control = \"max-age=3600\" }", "Fields set, replacing what was there."),
        Key::new("remove", List("field names"), Is("[]"), "[\"Server\"]", "Fields removed."),
    ],
};

#[rustfmt::skip] // A paragraph a key.
pub(super) static ERRORS: Section = Section {
    header: "[site.errors]",
    doc: "Pages for error statuses: `404 = \"/404.html\"`. The key is a status from 400 to 599, \
          the value a path of this site, answered with that status.",
    keys: &[],
};

#[rustfmt::skip] // A paragraph a key.
pub(super) static LIMITS: Section = Section {
    header: "[limits]",
    doc: "Bounds on what a client may send, hold or delay, and the status it gets beyond them.",
    keys: &[
        Key::new("head_bytes", Size(HEAD_BYTES_MIN, HEAD_BYTES_MAX), Is("\"32 KiB\""),
            "\"16 KiB\"", "Request line and fields together (431)."),
        Key::new("head_fields", Integer(1, HEAD_FIELDS_MAX), Is("100"), "64",
            "Field lines in a request head or trailer section (431)."),
        Key::new("target_bytes", Size(1, HEAD_BYTES_MAX), Is("\"8 KiB\""), "\"4 KiB\"",
            "Request target (414)."),
        Key::new("head_timeout", Time(TIMEOUT_MS_MIN, TIME_MS_MAX), Is("\"10s\""), "\"5s\"",
            "From a request's first byte to the end of its head (408)."),
        Key::new("handshake_timeout", Time(TIMEOUT_MS_MIN, TIME_MS_MAX), Is("\"10s\""), "\"5s\"",
            "From a connection's first byte to the end of its TLS handshake (closed silently)."),
        Key::new("idle_timeout", Time(TIMEOUT_MS_MIN, TIME_MS_MAX), Is("\"75s\""), "\"15s\"",
            "Between requests on one connection (closed silently)."),
        Key::new("body_bytes", Size(0, BYTES_MAX), Is("\"16 MiB\""), "\"1 MiB\"",
            "Request body to a built-in handler, and one without a length to `fastcgi` or `cgi` (413)."),
        Key::new("body_rate", Size(0, BYTES_MAX), Is("240"), "\"1 KiB\"",
            "Slowest request body accepted, in bytes a second (408); 0: any."),
        Key::new("body_grace", Time(0, TIME_MS_MAX), Is("\"5s\""), "\"10s\"",
            "How long a body may come slower than that."),
        Key::new("write_stall", Time(TIMEOUT_MS_MIN, TIME_MS_MAX), Is("\"60s\""), "\"30s\"",
            "How long queued bytes may make no progress (closed)."),
        Key::new("address_rate", Size(0, BYTES_MAX), Is("0"), "\"10 MiB\"",
            "The fastest one client address is sent anything, in bytes a second, all its \
             connections together (of IPv6, one /64); 0: any. Clients of a unix socket have no \
             address."),
        Key::new("programs", Integer(1, PROGRAMS_MAX), Is("32"), "8",
            "CGI programs that run at once, in the whole server (503)."),
        Key::new("requests_per_connection", Integer(1, COUNT_MAX), Means("unlimited"), "1000",
            "Requests on one connection."),
        Key::new("connections_per_address", Integer(1, COUNT_MAX), Means("unlimited"), "100",
            "Connections at once from one client address (503)."),
        Key::new("connections", Integer(1, COUNT_MAX),
            Means("what the limit on open files allows"), "10000", "Connections at once (503)."),
    ],
};

#[rustfmt::skip] // A paragraph a key.
pub(super) static ACCESS_LOG: Section = Section {
    header: "[access_log]",
    doc: "Log of requests, one line each; off unless this table is there (it may be empty).",
    keys: &[
        Key::new("format", Choice(names::<FormatName>), Is("\"combined\""), "\"json\"",
            "Apache's and nginx's combined format, a JSON object, or a short line for a person."),
        Key::new("fields", Choices(names::<LogField>), Means("all"),
            "[\"time\", \"status\", \"target\"]",
            "Members of the JSON object, in this order; for `format = \"json\"`."),
        Key::new("path", Text("a file, \"stdout\" or \"stderr\""), Is("\"stdout\""),
            "\"/var/log/hurtle/access.log\"",
            "Where lines go; a file is appended to, and reopened on SIGUSR1."),
    ],
};

#[rustfmt::skip] // A paragraph a key.
pub(super) static ERROR_LOG: Section = Section {
    header: "[error_log]",
    doc: "Log of the server's own events.",
    keys: &[
        Key::new("level", Choice(names::<LogLevel>), Is("\"info\""), "\"warn\"",
            "The least severe level written."),
        Key::new("path", Text("a file, \"stdout\" or \"stderr\""), Is("\"stderr\""),
            "\"/var/log/hurtle/error.log\"",
            "Where lines go; a file is appended to, and reopened on SIGUSR1."),
    ],
};
