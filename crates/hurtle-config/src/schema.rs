//! The schema: every key of a configuration with its type, range, default, example and description.
//! Unknown keys are found by it, values are checked against it, and `docs/config.md` is written
//! from it. A new key is added here first; `check*` reads it by its name.

use std::fmt;

use super::archive::ARCHIVE;
use super::auth::{FORWARD_KEYS, SPACE};
use super::balance::EJECTION;
use super::bounds::{BYTES_MAX, COUNT_MAX};
use super::check_matcher::MATCH;
use super::client_timeouts::CLIENT_TIMEOUTS;
use super::config::TOP;
use super::cors::{MOUNT_CORS, SITE_CORS};
use super::dictionary::DICTIONARY;
use super::error_page::{ERRORS, MOUNT_ERRORS};
use super::jwt::TOKEN_KEYS;
use super::limits::LIMITS;
use super::monitoring::{METRICS, TRACING};
use super::names::names;
use super::objects::OBJECT_STORE;
use super::on_demand::ON_DEMAND;
use super::request_fields::REQUEST_FIELDS;
use super::response_cache::CACHE;
use super::rotation::{ACCESS_LOG, ERROR_LOG};
use super::schema_access::{FORWARD, FORWARD_TLS, JWKS, USERS, auth_key};
use super::schema_acme::{ACME, AUTHORITY};
use super::schema_compress::COMPRESS;
use super::schema_mount::MOUNT;
use super::schema_proxy::UPSTREAM;
use super::schema_rates::{MOUNT_RATE_LIMIT, SITE_RATE_LIMIT};
use super::schema_tls::{self, PROXY_PROTOCOL, TLS, UPSTREAM_TLS};
use super::site_defaults::DEFAULTS;
use super::types::{EarlyHints, HEADER_KEYS};
use super::units::{duration_text, size_text};
use super::uploads::UPLOADS;
use super::wasm::WASM;

/// A table of a configuration and the keys it may hold.
#[derive(Debug)]
pub(super) struct Section {
    /// Header of the table in TOML; empty for the top of the file.
    pub(super) header: &'static str,
    pub(super) doc: &'static str,
    /// Its keys in groups, in the order of the documentation.
    pub(super) keys: &'static [&'static [Key]],
}

/// A key of a table.
#[derive(Debug)]
pub(super) struct Key {
    pub(super) name: &'static str,
    pub(super) kind: Kind,
    pub(super) absent: DefaultValue,
    /// An example value in TOML.
    pub(super) example: &'static str,
    pub(super) doc: &'static str,
    /// Keys of which one must also be set; empty: none is needed.
    pub(super) with: &'static [&'static str],
}

/// The type and range of a value.
#[derive(Debug)]
pub(super) enum Kind {
    Flag,
    /// An integer between two bounds, inclusive.
    Integer(u64, u64),
    /// Like `Integer`, or `true`.
    TrueOrInteger(u64, u64),
    /// Like `Integer`, or the word "auto".
    AutoOrInteger(u64, u64),
    /// A size between two bounds, in bytes.
    Size(u64, u64),
    /// A duration between two bounds, in milliseconds.
    Time(u64, u64),
    Choice(fn() -> Vec<&'static str>),
    Choices(fn() -> Vec<&'static str>),
    Text(&'static str),
    /// A list of the described items (a plural), or a single item.
    List(&'static str),
    /// A table whose keys the operator chooses.
    Map(&'static str),
    /// A table with a section of its own.
    Table(&'static Section),
    /// A list of such tables.
    Tables(&'static Section),
}

/// The default of a key that is not set.
#[derive(Debug)]
pub(super) enum DefaultValue {
    /// This TOML value.
    Toml(&'static str),
    /// The TOML value that this function returns.
    Of(fn() -> String),
    /// The effect described in words.
    Words(&'static str),
    /// None: a missing key is a problem.
    Required,
}

/// Keys that the settings of users need.
pub(super) const AUTH: &[&str] = &["auth"];

use DefaultValue::{Required, Toml, Words};
use Kind::{
    AutoOrInteger, Choice, Choices, Flag, Integer, List, Map, Size, Table, Tables, Text, Time,
    TrueOrInteger,
};

impl Section {
    /// Finds a key by its name.
    pub(super) fn key(&self, name: &str) -> Option<&'static Key> {
        self.keys().find(|key| key.name == name)
    }

    /// Its keys, in the order of the documentation.
    pub(super) fn keys(&self) -> impl Iterator<Item = &'static Key> + Clone + use<> {
        self.keys.iter().copied().flatten()
    }
}

impl Key {
    pub(super) const fn new(
        name: &'static str,
        kind: Kind,
        absent: DefaultValue,
        example: &'static str,
        doc: &'static str,
    ) -> Key {
        Key { name, kind, absent, example, doc, with: &[] }
    }

    /// The TOML value of the default; `None`: it has none.
    pub(super) fn default_value(&self) -> Option<String> {
        match self.absent {
            Toml(value) => Some(value.to_owned()),
            DefaultValue::Of(value) => Some(value()),
            Words(_) | Required => None,
        }
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
            TrueOrInteger(least, most) => write!(f, "true, or an integer, {least} to {most}"),
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

/// Prints milliseconds as a duration.
pub(super) fn time_text(ms: u64) -> String {
    duration_text(std::time::Duration::from_millis(ms))
}

/// Joins names as `"a", "b" or "c"`.
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

/// Every table, in the order of the documentation.
pub(super) static SECTIONS: &[&Section] = &[
    &TOP,
    &METRICS,
    &TRACING,
    &PROXY_PROTOCOL,
    &ACME,
    &AUTHORITY,
    &DEFAULTS,
    &SITE,
    &TLS,
    &ON_DEMAND,
    &SITE_RATE_LIMIT,
    &SITE_CORS,
    &MOUNT,
    &MATCH,
    &MOUNT_RATE_LIMIT,
    &MOUNT_CORS,
    &ARCHIVE,
    &DICTIONARY,
    &UPLOADS,
    &OBJECT_STORE,
    &WASM,
    &UPSTREAM,
    &REQUEST_FIELDS,
    &EJECTION,
    &UPSTREAM_TLS,
    &schema_tls::FORWARD_TLS,
    &CACHE,
    &COMPRESS,
    &RULE,
    &HEADER,
    &ERRORS,
    &MOUNT_ERRORS,
    &LIMITS,
    &ACCESS_LOG,
    &ERROR_LOG,
];

#[rustfmt::skip] // One paragraph for each key.
pub(super) static SITE: Section = Section {
    header: "[[site]]",
    doc: "Content for a set of host names. A request for a name that no site has goes to the \
          default site; without one it is answered 421. Within a site, the rules are tried first, \
          in order; then a mount handles the request: one with exactly this path, else the first with a \
          `match` that it meets, else the one with the longest matching path.",
    keys: &[&[
        Key::new("hosts", List("host names"), Words("none; a single site is then the default"),
            "[\"example.org\", \"*.example.org\"]",
            "Host names of the site, without a port. A leading `*.` stands for any number of \
             labels, `.*` at the end for any domain, and `\"*\"` alone for every name that no other site has."),
        Key::new("listen", List("addresses"), Words("every listener"), "[\"127.0.0.1:8081\"]",
            "Addresses of `listen` and `listen_tls` on which the site answers, written as there. On them it \
             precedes sites without this key; each address may have sites and a default of its own."),
        Key::new("default", Flag, Words("true for a single site without `hosts`, or one with `listen`"), "true",
            "Serve every name that no other site has; at most one site of a listener may."),
        Key::new("allow", List("networks"), Words("all"), "[\"10.0.0.0/8\", \"::1\"]",
            "Client addresses admitted; all others get 403."),
        Key::new("deny", List("networks"), Words("none"), "\"10.6.6.0/24\"",
            "Client addresses refused with 403. Where `allow` and `deny` both contain an address, \
             the more specific network wins."),
        auth_key(Words("none")),
    ], USERS, SPACE, FORWARD, FORWARD_KEYS, FORWARD_TLS, JWKS, TOKEN_KEYS, &[
        Key::new("early_hints", Choice(names::<EarlyHints>), Toml("\"h2\""), "\"always\"",
            "Clients that get 103 Early Hints: the Link fields that `[[site.header]]` sets on an \
             upstream's response, and the hints of applications. `\"h2\"`: over HTTP/2 only; \
             `\"always\"`: over HTTP/1.1 too, where some clients take the 103 for the final \
             response. Hints of an upstream are forwarded over both unless `\"off\"`."),
        Key::new("rate_limit", Tables(&SITE_RATE_LIMIT), Words("unlimited"), "[]",
            "Limits on the rate of requests (429)."),
        Key::new("body_bytes", Size(0, BYTES_MAX), Words("no limit but those of `[limits]`"), "\"1 MiB\"",
            "Size of a request body to any handler, proxies and programs included (413). A body without a \
             length is cut there; its upstream sees an incomplete request."),
    ], CLIENT_TIMEOUTS, &[
        Key::new("access_log", Flag, Words("true if there is an `[access_log]`"), "false",
            "Log these requests in the access log, if there is one."),
        Key::new("cors", Table(&SITE_CORS), Words("off"), "{ origins = \"*\" }",
            "Access by scripts of other origins."),
        Key::new("security_headers", Flag, Toml("false"), "true",
            "Add a preset of security headers to every response that does not have them; see \
             [access.md](access.md)."),
        Key::new("compress", Flag, Words("files only"), "false",
            "Compress the responses of the site's mounts. Without this key files are compressed, \
             except where `uploads` change them, and nothing else; see [compression.md](compression.md) \
             for the risk."),
        Key::new("rule", Tables(&RULE), Words("none"), "[]", "Redirects and rewrites by path."),
        Key::new("header", Tables(&HEADER), Words("none"),
            "[]", "Response fields to set and remove."),
        Key::new("errors", Table(&ERRORS), Words("the server's own"), "{}", "Error pages."),
        Key::new("maintenance", Text("a file"), Words("none"), "\"/srv/shop/maintenance.html\"",
            "While this file exists, every request gets 503 with its contents, or with the error page of 503 if \
             it is empty. It is looked up once a second; see [routing.md](routing.md#maintenance)."),
        Key::new("tls", Table(&TLS), Words("in clear only"), "{}", "Certificates."),
        Key::new("mount", Tables(&MOUNT), Words("none"), "[]", "The handler of a path."),
    ]],
};

#[rustfmt::skip] // One paragraph for each key.
pub(super) static RULE: Section = Section {
    header: "[[site.rule]]",
    doc: "A redirect or a rewrite. `{1}` and `{2}` stand for the text that the first and second wildcard \
          of `match` matched, or the groups of its regular expression; `{name}` is a group with a name.",
    keys: &[&[
        Key::new("match", Table(&MATCH), Required, "\"/old/*\"",
            "Requests it applies to: a pattern of paths, such as `\"/old/*\"`, or a table of conditions, see \
             `[site.mount.match]`."),
        Key::new("redirect", Text("a URL or an absolute path"), Words("see `rewrite`"),
            "\"/new/{1}\"",
            "Redirect to this Location. Without a `?` it gets the query of the request; `{query}` stands for it, \
             as in `\"/new?page={1}&{query}\"`, and `\"/new?\"` has none. `{scheme}`, `{host}`, `{request.host}` and \
             `{uri}` are parts of the request."),
        Key::new("status", Integer(301, 308), Toml("302"), "301",
            "Status of the redirect: 301, 302, 303, 307 or 308.").with(&["redirect"]),
        Key::new("rewrite", Text("an absolute path"), Words("see `redirect`"), "\"/app/{1}\"",
            "Continue as if this path had been requested; with a `?`, as if with this query, too: \
             `\"/index.php?page={1}&{query}\"`."),
    ]],
};

#[rustfmt::skip] // One paragraph for each key.
pub(super) static HEADER: Section = Section {
    header: "[[site.header]]",
    doc: "Fields of responses, by path. Every matching rule is applied, in order; those of a mount \
          (`[[site.mount.header]]`) after those of its site. Only the server sets fields that frame a message (Content-Length, Connection and the like).",
    keys: &[&[
        Key::new("match", Table(&MATCH), Toml("\"**\""), "\"*.css\"",
            "Paths it applies to, compared decoded and without the query: a pattern, a list of patterns, or a \
             table with `path`, `regex` and `not`, see `[site.mount.match]`."),
        Key::new("types", List("media types"), Words("all"), "[\"text/html\", \"image/*\"]",
            "Responses it applies to, by their Content-Type: `type/subtype`, `type/*` or `*+suffix`."),
        Key::new("set", Map("a table of names and values"), Toml("{}"),
            "{ Cache-Control = \"max-age=3600\" }", "Fields to set; they replace existing ones."),
    ], HEADER_KEYS],
};
