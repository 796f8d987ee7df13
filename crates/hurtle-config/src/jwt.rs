//! Settings of tokens (JSON Web Tokens, RFC 7519) that clients must send. `jwks` reads their keys.

use std::fmt;
use std::path::PathBuf;
use std::time::Duration;

use http::uri::Uri;
use http::{HeaderName, header};
use jsonwebtoken::{Algorithm, AlgorithmFamily};
use serde::{Serialize, Serializer};

use super::auth::{ProtectionSpace, copied_name};
use super::bounds::LEEWAY_MS_MAX;
use super::error::{ValueError, shown};
use super::field::cookie_name;
use super::names::Named;
use super::print;
use super::reader::Reader;
use super::schema::AUTH;
use super::schema::Kind::{List, Map, Text, Time};
use super::settings::settings;
use super::table::Table;
use super::value::Value;

/// The default algorithms: those that most issuers use, none with a shared secret.
const ALGORITHMS: [Algorithm; 3] = [Algorithm::RS256, Algorithm::ES256, Algorithm::EdDSA];

/// Tokens required of clients.
#[derive(Clone, Debug, PartialEq, Eq, Serialize)]
pub struct Jwt {
    /// Source of the keys of signatures.
    pub jwks: JwksSource,
    /// The tokens that are accepted, and the request fields that get their claims.
    #[serde(flatten)]
    pub rules: TokenRules,
    /// The realm, and whether tokens may cross a network in clear.
    #[serde(flatten)]
    pub space: ProtectionSpace,
}

settings! {
    /// The tokens that are accepted, and the request fields that get their claims.
    pub struct TokenRules: TOKEN_KEYS with AUTH {
        /// Accepted values of the claim `iss`. Without them, every token that
        /// a key verifies is accepted.
        issuer: Vec<String> = Vec::new(), List("issuers"), "\"https://login.example/\"",
            by |v, r| v.parse_list(r, not_empty);
        /// Accepted values of the claim `aud`. Without them, a token that has one is refused
        /// (RFC 7519 section 4.1.3).
        audience: Vec<String> = Vec::new(), List("audiences"), "\"https://api.example\"",
            by |v, r| v.parse_list(r, not_empty);
        /// Accepted signature algorithms: RS256, RS384, RS512, PS256, PS384, PS512, ES256, ES384,
        /// EdDSA; with keys in a file also HS256, HS384, HS512.
        algorithms: Vec<Algorithm> = ALGORITHMS.to_vec(), List("names of RFC 7518 or RFC 8037"),
            "\"ES256\"", by |v, r| Some(algorithms(v, r));
        /// Difference of clocks that is tolerated in `exp`, `nbf` and `iat`.
        #[serde(serialize_with = "print::duration")]
        leeway: Duration = Duration::from_secs(60), Time(0, LEEWAY_MS_MAX), "\"5s\"";
        /// Cookie with the token of a request that has no bearer token in `Authorization`.
        token_cookie: Option<String> = None, Text("a cookie's name"), "\"session\"",
            or "none", by |v, r| v.parse(r, cookie_name).map(Some);
        /// Request fields that get the values of claims. A client's own fields of
        /// these names are removed.
        #[serde(serialize_with = "claim_fields")]
        claims: Vec<(String, HeaderName)> = Vec::new(), Map("a table of claims and field names"),
            "{ sub = \"X-User\" }", by |v, r| Some(claims(v, r));
    }
}

/// The origin of keys.
#[derive(Clone, Debug, PartialEq, Eq, Hash)]
pub enum JwksSource {
    /// A file: absolute path.
    File(PathBuf),
    /// A URL: `https://`, or `http://` of this machine.
    Url(String),
}

impl fmt::Display for JwksSource {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        match self {
            JwksSource::File(path) => path.display().fmt(f),
            JwksSource::Url(url) => f.write_str(url),
        }
    }
}

impl Serialize for JwksSource {
    fn serialize<S: Serializer>(&self, out: S) -> Result<S::Ok, S::Error> {
        out.collect_str(self)
    }
}

impl Named for Algorithm {
    const NAMES: &'static [(&'static str, Self)] = &[
        ("RS256", Algorithm::RS256),
        ("RS384", Algorithm::RS384),
        ("RS512", Algorithm::RS512),
        ("PS256", Algorithm::PS256),
        ("PS384", Algorithm::PS384),
        ("PS512", Algorithm::PS512),
        ("ES256", Algorithm::ES256),
        ("ES384", Algorithm::ES384),
        ("EdDSA", Algorithm::EdDSA),
        ("HS256", Algorithm::HS256),
        ("HS384", Algorithm::HS384),
        ("HS512", Algorithm::HS512),
    ];
}

fn claim_fields<S: Serializer>(claims: &[(String, HeaderName)], out: S) -> Result<S::Ok, S::Error> {
    out.collect_map(claims.iter().map(|(claim, name)| (claim, name.as_str())))
}

/// Reads `jwks` and the keys that belong to it.
pub(super) fn jwt(table: &Table<'_>, auth: &Value<'_>, reader: &mut Reader<'_>) -> Option<Jwt> {
    let Some(written) = table.get("jwks") else {
        let wrong = ValueError::new("the keys that verify tokens are missing");
        let hint = "write jwks = and a file or the https:// URL of a JWK Set";
        reader.report_missing(&auth.spot, wrong.hint(hint));
        return None;
    };
    let source = source(&written, reader);
    // The other keys are checked even if this one is wrong.
    let (rules, space) = (TokenRules::read(table, reader), ProtectionSpace::read(table, reader));
    if !space.cleartext {
        reader.needs_privacy.push((auth.spot.clone(), Vec::new()));
    }
    let jwks = source?;
    match &jwks {
        JwksSource::File(path) => reader.jwks.push((written.spot, path.clone())),
        JwksSource::Url(_) => refuse_secrets(table, reader),
    }
    Some(Jwt { jwks, rules, space })
}

/// Reports algorithms whose keys are secret, beside a URL of keys.
fn refuse_secrets(table: &Table<'_>, reader: &mut Reader<'_>) {
    let Some(written) = table.get("algorithms") else { return };
    for item in written.items(reader) {
        let is_written = |(name, _): &&(&str, Algorithm)| item.as_text() == Some(*name);
        let known = Algorithm::NAMES.iter().find(is_written);
        if let Some((name, _)) = known.filter(|(_, of)| of.family() == AlgorithmFamily::Hmac) {
            let wrong = ValueError::new(format!("the keys of {name} are secret, and a URL is not"));
            let hint = "have jwks name a file, or use a public-key algorithm such as \"RS256\"";
            item.report(reader, wrong.hint(hint));
        }
    }
}

fn source(value: &Value<'_>, reader: &mut Reader<'_>) -> Option<JwksSource> {
    let text = value.text(reader)?;
    if !text.contains("://") {
        return value.path(reader).map(JwksSource::File);
    }
    match check_url(text) {
        Ok(()) => Some(JwksSource::Url(text.to_owned())),
        Err(wrong) => {
            value.report(reader, wrong);
            None
        }
    }
}

fn check_url(text: &str) -> Result<(), ValueError> {
    let hint = "write for example \"https://login.example/keys\"";
    let wrong = |what: &str| ValueError::new(format!("{} {what}", shown(text))).hint(hint);
    if text.contains('#') {
        return Err(wrong("has a fragment, which is not sent"));
    }
    let uri: Uri = text.parse().map_err(|_| wrong("is not a URL"))?;
    let (scheme, host) = (uri.scheme_str().unwrap_or_default(), uri.host().unwrap_or_default());
    if host.is_empty() || uri.authority().is_some_and(|authority| authority.as_str().contains('@'))
    {
        return Err(wrong("has no plain host"));
    }
    match scheme {
        "https" => Ok(()),
        "http" if is_this_machine(host) => Ok(()),
        "http" => Err(ValueError::new(format!(
            "{}: without TLS the keys can be replaced on their way",
            shown(text)
        ))
        .hint("write an https:// URL; http:// is for 127.0.0.1, [::1] and localhost")),
        _ => Err(wrong("is neither https:// nor http://")),
    }
}

fn is_this_machine(host: &str) -> bool {
    let host = host.trim_matches(['[', ']']);
    host == "localhost" || host.parse::<std::net::IpAddr>().is_ok_and(|ip| ip.is_loopback())
}

fn algorithms(value: &Value<'_>, reader: &mut Reader<'_>) -> Vec<Algorithm> {
    if value.is_empty_list() {
        let wrong = ValueError::new("without an algorithm no token can be accepted");
        value.report(reader, wrong.hint("name the issuer's, such as \"RS256\""));
    }
    value.list(reader, |item, reader| {
        if item.as_text().is_some_and(|text| text.eq_ignore_ascii_case("none")) {
            let wrong = ValueError::new("anybody can write a token without a signature");
            item.report(reader, wrong.hint("name the issuer's algorithm, such as \"RS256\""));
            return None;
        }
        item.choice(reader)
    })
}

fn claims(value: &Value<'_>, reader: &mut Reader<'_>) -> Vec<(String, HeaderName)> {
    let mut claims: Vec<(String, HeaderName)> = Vec::new();
    for (claim, spot, value) in value.pairs(reader) {
        if claim.is_empty() {
            reader.report(&spot, ValueError::new("a claim has a name").hint("such as sub"));
        }
        let Some(name) = value.parse(reader, claim_field) else { continue };
        if let Some((other, _)) = claims.iter().find(|(_, other)| *other == name) {
            let wrong = ValueError::new(format!("{name} is the field of {} already", shown(other)));
            value.report(reader, wrong.hint("give each claim a field of its own"));
        }
        claims.push((claim.to_owned(), name));
    }
    // The order in a file has no meaning; a reload compares.
    claims.sort_by(|a, b| a.0.cmp(&b.0));
    claims
}

fn claim_field(text: &str) -> Result<HeaderName, ValueError> {
    let name = copied_name(text)?;
    if name == header::AUTHORIZATION || name == header::COOKIE {
        let wrong = format!("{} holds the token or other credentials", shown(text));
        return Err(ValueError::new(wrong).hint("write another name, such as X-User"));
    }
    Ok(name)
}

fn not_empty(text: &str) -> Result<String, ValueError> {
    if text.is_empty() {
        return Err(ValueError::new("an empty name").hint("remove it"));
    }
    Ok(text.to_owned())
}
