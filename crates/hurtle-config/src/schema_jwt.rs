//! The keys of tokens (JSON Web Tokens), which sites and mounts share.

use super::bounds::LEEWAY_MS_MAX;
use super::schema::DefaultValue::{Toml, Words};
use super::schema::Kind::{List, Map, Text, Time};
use super::schema::{AUTH, Key};

pub(super) const JWKS: Key = Key::new(
    "jwks",
    Text("a file or URL"),
    Words("required with `auth = \"jwt\"`"),
    "\"https://login.example/keys\"",
    "Keys that verify tokens, as a JWK Set (RFC 7517): a file, read when the server starts and at a \
     reload, or an `https://` URL, fetched in the background. `http://` is for this machine only.",
)
.with(AUTH);

pub(super) const ISSUER: Key = Key::new(
    "issuer",
    List("issuers"),
    Toml("[]"),
    "\"https://login.example/\"",
    "Accepted values of the claim `iss`. Without them, every token that a key verifies is accepted.",
)
.with(AUTH);

pub(super) const AUDIENCE: Key = Key::new(
    "audience",
    List("audiences"),
    Toml("[]"),
    "\"https://api.example\"",
    "Accepted values of the claim `aud`. Without them, a token that has one is refused (RFC 7519 \
     section 4.1.3).",
)
.with(AUTH);

pub(super) const ALGORITHMS: Key = Key::new(
    "algorithms",
    List("names of RFC 7518 or RFC 8037"),
    Toml("[\"RS256\", \"ES256\", \"EdDSA\"]"),
    "\"ES256\"",
    "Accepted signature algorithms: RS256, RS384, RS512, PS256, PS384, PS512, ES256, ES384, EdDSA; with \
     keys in a file also HS256, HS384, HS512.",
)
.with(AUTH);

pub(super) const LEEWAY: Key = Key::new(
    "leeway",
    Time(0, LEEWAY_MS_MAX),
    Toml("\"1m\""),
    "\"5s\"",
    "Difference of clocks that is tolerated in `exp`, `nbf` and `iat`.",
)
.with(AUTH);

pub(super) const TOKEN_COOKIE: Key = Key::new(
    "token_cookie",
    Text("a cookie's name"),
    Words("none"),
    "\"session\"",
    "Cookie with the token of a request that has no bearer token in `Authorization`.",
)
.with(AUTH);

pub(super) const CLAIMS: Key = Key::new(
    "claims",
    Map("a table of claims and field names"),
    Toml("{}"),
    "{ sub = \"X-User\" }",
    "Request fields that get the values of claims. A client's own fields of these names are removed.",
)
.with(AUTH);
