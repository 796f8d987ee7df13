//! The keys of forward authentication, which sites and mounts share.

use super::bounds::{TIME_MS_MAX, TIMEOUT_MS_MIN};
use super::schema::DefaultValue::{Toml, Words};
use super::schema::Kind::{List, Table, Text, Time};
use super::schema::{AUTH, Key};
use super::schema_tls::FORWARD_TLS as FORWARD_TLS_TABLE;

pub(super) const FORWARD: Key = Key::new(
    "forward",
    Text("a URL"),
    Words("required with `auth = \"forward\"`"),
    "\"http://127.0.0.1:4180/verify\"",
    "Server that decides about each request: an `http://` or `https://` URL, or `unix:` and the path of a socket \
     (asked for `/`). 2xx lets the request pass; 401, 403 and redirects are sent to the client; all \
     else is 502 or 504.",
)
.with(AUTH);

pub(super) const COPY_HEADERS: Key = Key::new(
    "copy_headers",
    List("field names"),
    Toml("[]"),
    "[\"Remote-User\", \"Remote-Groups\"]",
    "Fields of the server's 2xx that the request gets. A client's own fields of these names are \
     removed.",
)
.with(AUTH);

pub(super) const AUTH_TIMEOUT: Key = Key::new(
    "auth_timeout",
    Time(TIMEOUT_MS_MIN, TIME_MS_MAX),
    Toml("\"10s\""),
    "\"2s\"",
    "Time limit of the server's decision (504).",
)
.with(AUTH);

pub(super) const FORWARD_TLS: Key = Key::new(
    "forward_tls",
    Table(&FORWARD_TLS_TABLE),
    Words("verified by the system's authorities"),
    "{ ca = \"ca.pem\" }",
    "TLS settings of an `https://` server.",
)
.with(AUTH);
