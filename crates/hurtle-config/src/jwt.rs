//! Settings of tokens (JSON Web Tokens, RFC 7519) that clients must send. `jwks` reads their keys.

use std::fmt;
use std::path::PathBuf;
use std::time::Duration;

use http::uri::Uri;
use http::{HeaderName, header};
use jsonwebtoken::{Algorithm, AlgorithmFamily};
use serde::{Serialize, Serializer};

use super::auth::{REALM, copied_name, realm};
use super::error::{ValueError, shown};
use super::field::cookie_name;
use super::names::Named;
use super::print;
use super::reader::Reader;
use super::table::Table;
use super::value::Value;

/// The default difference of clocks.
const LEEWAY: Duration = Duration::from_secs(60);

/// The default algorithms: those that most issuers use, none with a shared secret.
const ALGORITHMS: [Algorithm; 3] = [Algorithm::RS256, Algorithm::ES256, Algorithm::EdDSA];

/// Tokens required of clients.
#[derive(Clone, Debug, PartialEq, Eq, Serialize)]
pub struct Jwt {
    /// Source of the keys of signatures.
    pub jwks: JwksSource,
    /// Accepted issuers; empty: any.
    pub issuer: Vec<String>,
    /// Accepted audiences; empty: a token must have none.
    pub audience: Vec<String>,
    /// Accepted algorithms; not empty.
    pub algorithms: Vec<Algorithm>,
    /// Tolerated difference of clocks.
    #[serde(serialize_with = "print::duration")]
    pub leeway: Duration,
    /// The cookie with the token of a request without Authorization.
    pub token_cookie: Option<String>,
    /// The realm sent to the client.
    pub realm: String,
    /// `true`: tokens may cross a network in clear.
    #[serde(rename = "auth_cleartext")]
    pub cleartext: bool,
    /// Claims, and the request fields that get their values.
    #[serde(serialize_with = "claim_fields")]
    pub claims: Vec<(String, HeaderName)>,
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

impl Jwt {
    /// Tokens verified by these keys, with defaults for all else.
    pub fn new(jwks: JwksSource) -> Jwt {
        Jwt {
            jwks,
            issuer: Vec::new(),
            audience: Vec::new(),
            algorithms: ALGORITHMS.to_vec(),
            leeway: LEEWAY,
            token_cookie: None,
            realm: REALM.to_owned(),
            cleartext: false,
            claims: Vec::new(),
        }
    }
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
    let mut jwt = Jwt::new(source.clone().unwrap_or(JwksSource::Url(String::new())));
    let texts = |value: &Value<'_>, reader: &mut Reader<'_>| {
        Some(value.list(reader, |item, reader| item.parse(reader, not_empty)))
    };
    table.set("issuer", reader, texts, &mut jwt.issuer);
    table.set("audience", reader, texts, &mut jwt.audience);
    table.set("leeway", reader, Value::duration, &mut jwt.leeway);
    table.set("realm", reader, |v, r| v.parse(r, realm), &mut jwt.realm);
    table.set("auth_cleartext", reader, Value::flag, &mut jwt.cleartext);
    let cookie = |v: &Value<'_>, r: &mut Reader<'_>| v.parse(r, cookie_name).map(Some);
    table.set("token_cookie", reader, cookie, &mut jwt.token_cookie);
    if let Some(value) = table.get("algorithms") {
        jwt.algorithms = algorithms(&value, source.as_ref(), reader);
    }
    table.set("claims", reader, |v, r| Some(claims(v, r)), &mut jwt.claims);
    if !jwt.cleartext {
        reader.needs_privacy.push((auth.spot.clone(), Vec::new()));
    }
    if let JwksSource::File(path) = source.as_ref()? {
        reader.jwks.push((written.spot, path.clone()));
    }
    Some(jwt)
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

fn algorithms(
    value: &Value<'_>,
    source: Option<&JwksSource>,
    reader: &mut Reader<'_>,
) -> Vec<Algorithm> {
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
        let algorithm: Algorithm = item.choice(reader)?;
        if algorithm.family() == AlgorithmFamily::Hmac && matches!(source, Some(JwksSource::Url(_)))
        {
            let name = algorithm.name();
            let wrong = ValueError::new(format!("the keys of {name} are secret, and a URL is not"));
            let hint = "have jwks name a file, or use a public-key algorithm such as \"RS256\"";
            item.report(reader, wrong.hint(hint));
        }
        Some(algorithm)
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
