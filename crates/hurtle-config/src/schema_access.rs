//! The keys of authentication that have a reader of their own. Sites and mounts share them.

use super::auth::AuthName;
use super::names::names;
use super::schema::DefaultValue::{self, Words};
use super::schema::Kind::{Choice, Table, Text};
use super::schema::{AUTH, Key};
use super::schema_tls::FORWARD_TLS as FORWARD_TLS_TABLE;

/// The key that requires authentication.
#[rustfmt::skip] // One paragraph for each key.
pub(super) const fn auth_key(absent: DefaultValue) -> Key {
    Key::new("auth", Choice(names::<AuthName>), absent, "\"none\"",
        "Authentication required of clients: none, a name and a password (HTTP Basic), the \
         decision of another server (`\"forward\"`), or a signed token (`\"jwt\"`); see [access.md](access.md). Passwords are \
         checked against bcrypt hashes on threads of their own.")
}

#[rustfmt::skip] // One paragraph for each key.
pub(super) const USERS: &[Key] = &[
    Key::new("users", Text("a file"), Words("required with `auth = \"basic\"`"), "\"users.htpasswd\"",
        "Names and password hashes, one line of `htpasswd -nB NAME` for each user; read when \
         the server starts and at a reload.").with(AUTH),
];

#[rustfmt::skip] // One paragraph for each key.
pub(super) const FORWARD: &[Key] = &[
    Key::new("forward", Text("a URL"), Words("required with `auth = \"forward\"`"),
        "\"http://127.0.0.1:4180/verify\"",
        "Server that decides about each request: an `http://` or `https://` URL, or `unix:` and the path of a socket \
         (asked for `/`). 2xx lets the request pass; 401, 403 and redirects are sent to the client; all \
         else is 502 or 504.").with(AUTH),
];

#[rustfmt::skip] // One paragraph for each key.
pub(super) const FORWARD_TLS: &[Key] = &[
    Key::new("forward_tls", Table(&FORWARD_TLS_TABLE), Words("verified by the system's authorities"),
        "{ ca = \"ca.pem\" }", "TLS settings of an `https://` server.").with(AUTH),
];

#[rustfmt::skip] // One paragraph for each key.
pub(super) const JWKS: &[Key] = &[
    Key::new("jwks", Text("a file or URL"), Words("required with `auth = \"jwt\"`"),
        "\"https://login.example/keys\"",
        "Keys that verify tokens, as a JWK Set (RFC 7517): a file, read when the server starts and at a \
         reload, or an `https://` URL, fetched in the background. `http://` is for this machine only.").with(AUTH),
];
