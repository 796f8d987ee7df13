//! Cross-origin resource sharing (CORS) of a site or mount.

use std::fmt;
use std::time::Duration;

use http::HeaderName;

use super::bounds::TIME_MS_MAX;
use super::error::{ValueError, shown};
use super::field::{any_field_name, field_name};
use super::print;
use super::reader::Reader;
use super::schema::DefaultValue::Required;
use super::schema::Kind::{Flag, List, Time};
use super::schema::{Key, Section};
use super::settings::{ALWAYS, settings};
use super::table::Table;

settings! {
    /// The requests of other origins that browsers may send, and the responses that they may read.
    #[derive(Eq)]
    pub struct Cors: CORS_KEYS with ALWAYS {
        /// Methods that scripts of these origins may use.
        methods: Vec<String> = ["GET", "HEAD", "POST"].map(str::to_owned).to_vec(), List("methods"),
            "[\"PUT\"]", by |v, r| v.parse_list(r, method);
        /// Request fields allowed besides the safelisted ones; `"*"`: all.
        #[serde(serialize_with = "print::texts")]
        headers: Vec<CorsHeader> = Vec::new(), List("field names"),
            "[\"Content-Type\", \"Authorization\"]", by |v, r| v.parse_list(r, header);
        /// Allow cookies and passwords.
        credentials: bool = false, Flag, "true";
        /// Time for which a browser may remember the answer to a preflight.
        #[serde(serialize_with = "print::duration")]
        max_age: Duration = Duration::from_secs(600), Time(0, TIME_MS_MAX), "\"1h\"";
        /// Response fields that scripts may read besides the safelisted ones.
        #[serde(serialize_with = "print::field_names")]
        expose: Vec<HeaderName> = Vec::new(), List("field names"), "[\"X-Total-Count\"]",
            by |v, r| v.parse_list(r, any_field_name);
    }
    beside {
        /// Origins allowed; not empty.
        #[serde(serialize_with = "print::texts")]
        origins: Vec<OriginPattern> = Vec::new();
    }
}

#[rustfmt::skip] // One paragraph for each key.
const ORIGINS: &[Key] = &[
    Key::new("origins", List("origins"), Required, "[\"https://app.example\"]",
        "Origins allowed, as browsers send them: `\"https://app.example\"`, \
         `\"https://*.app.example\"` for its subdomains, or `\"*\"` for all, which excludes \
         `credentials`."),
];

pub(super) static SITE_CORS: Section = Section {
    header: "[site.cors]",
    doc: "Cross-origin resource sharing (CORS) of the site; see [access.md](access.md).",
    keys: &[ORIGINS, CORS_KEYS],
};

pub(super) static MOUNT_CORS: Section = Section {
    header: "[site.mount.cors]",
    doc: "Cross-origin resource sharing (CORS) of the mount, in place of the site's.",
    keys: &[ORIGINS, CORS_KEYS],
};

/// An origin whose scripts are allowed.
#[derive(Clone, Debug, PartialEq, Eq)]
pub enum OriginPattern {
    /// Scripts of every origin (`*`).
    Any,
    /// This origin: a scheme, a host and an optional port, in lower case.
    Exact(String),
    /// The subdomains of a host, at any depth.
    Subdomains {
        /// The scheme with `://`.
        scheme: String,
        /// The host with its leading dot, and the port.
        suffix: String,
    },
}

/// An allowed request field.
#[derive(Clone, Debug, PartialEq, Eq)]
pub enum CorsHeader {
    /// Every request field (`*`).
    Any,
    /// The request field of this name.
    Name(HeaderName),
}

impl Cors {
    /// Allows these origins, with defaults for all else.
    pub fn new(origins: Vec<OriginPattern>) -> Cors {
        Cors { origins, ..Cors::default() }
    }

    /// Returns whether every origin is allowed.
    pub fn allows_any(&self) -> bool {
        self.origins.contains(&OriginPattern::Any)
    }

    /// Returns whether this origin is allowed, as a browser sends it.
    pub fn allows(&self, origin: &[u8]) -> bool {
        self.origins.iter().any(|pattern| pattern.matches(origin))
    }
}

impl OriginPattern {
    fn matches(&self, origin: &[u8]) -> bool {
        match self {
            OriginPattern::Any => true,
            OriginPattern::Exact(exact) => exact.as_bytes() == origin,
            OriginPattern::Subdomains { scheme, suffix } => {
                let host = origin.strip_prefix(scheme.as_bytes());
                let labels = host.and_then(|host| host.strip_suffix(suffix.as_bytes()));
                let is_label = |b: &u8| b.is_ascii_alphanumeric() || matches!(b, b'-' | b'.');
                labels.is_some_and(|labels| !labels.is_empty() && labels.iter().all(is_label))
            }
        }
    }
}

impl fmt::Display for OriginPattern {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        match self {
            OriginPattern::Any => f.write_str("*"),
            OriginPattern::Exact(origin) => f.write_str(origin),
            OriginPattern::Subdomains { scheme, suffix } => write!(f, "{scheme}*{suffix}"),
        }
    }
}

impl fmt::Display for CorsHeader {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        match self {
            CorsHeader::Any => f.write_str("*"),
            CorsHeader::Name(name) => write!(f, "{name}"),
        }
    }
}

/// Reads `cors` of a site or mount.
pub(super) fn cors(table: &Table<'_>, reader: &mut Reader<'_>) -> Option<Cors> {
    let table = table.get("cors")?.table(reader)?;
    let Some(origins) = table.get("origins") else {
        let wrong = ValueError::new("origins is missing");
        let hint = "write for example origins = [\"https://app.example\"]";
        reader.report_missing(&table.spot, wrong.hint(hint));
        return None;
    };
    let allowed = origins.list(reader, |item, reader| item.parse(reader, origin));
    let cors = Cors { origins: allowed, ..Cors::read(&table, reader) };
    if origins.is_empty_list() {
        let wrong = ValueError::new("no origin is allowed").hint("leave the whole table out");
        origins.report(reader, wrong);
    }
    if cors.allows_any() && cors.origins.len() > 1 {
        let wrong = ValueError::new("\"*\" allows every origin, so the others say nothing");
        origins.report(reader, wrong.hint("remove \"*\", or the others"));
    }
    if cors.allows_any() && cors.credentials {
        let wrong = ValueError::new("every site could read what a user sees when logged in");
        origins.report(reader, wrong.hint("list the origins, or remove credentials"));
    }
    Some(cors)
}

fn origin(text: &str) -> Result<OriginPattern, ValueError> {
    let wrong = |what: &str| ValueError::new(format!("{} {what}", shown(text)));
    let example = "write it as browsers send it, such as \"https://app.example\" or \
                   \"http://localhost:3000\"";
    if text == "*" {
        return Ok(OriginPattern::Any);
    }
    let lower = text.to_ascii_lowercase();
    let Some((scheme, host)) = lower.split_once("://") else {
        return Err(wrong("is not an origin").hint(example));
    };
    if let Some((_, path)) = host.split_once('/') {
        let hint = if path.is_empty() { "remove the / at its end" } else { example };
        return Err(wrong("has a path").hint(hint));
    }
    let default_port = match scheme {
        "https" => ":443",
        "http" => ":80",
        _ => "",
    };
    if !default_port.is_empty() && host.ends_with(default_port) {
        return Err(
            wrong("has the port that browsers leave out").hint(format!("remove {default_port}"))
        );
    }
    let (name, is_wildcard) = match host.strip_prefix("*.") {
        Some(name) => (name, true),
        None => (host, false),
    };
    let fits = |b: u8| b.is_ascii_alphanumeric() || matches!(b, b'-' | b'.' | b':' | b'[' | b']');
    let is_scheme = |b: u8| b.is_ascii_alphanumeric() || matches!(b, b'+' | b'-' | b'.');
    if name.is_empty() || !name.bytes().all(fits) || !scheme.bytes().all(is_scheme) {
        let hint = "\"*.\" may stand for subdomains, as in \"https://*.app.example\"";
        return Err(wrong("is not an origin").hint(hint));
    }
    Ok(match is_wildcard {
        true => {
            let (scheme, suffix) = (format!("{scheme}://"), format!(".{name}"));
            OriginPattern::Subdomains { scheme, suffix }
        }
        false => OriginPattern::Exact(lower),
    })
}

fn method(text: &str) -> Result<String, ValueError> {
    let wrong = |what: &str| ValueError::new(format!("{} {what}", shown(text)));
    if text.is_empty() || !text.bytes().all(|b| b.is_ascii_alphabetic() || b == b'-') {
        return Err(wrong("is not a method").hint("write for example \"PUT\""));
    }
    if text != text.to_ascii_uppercase() {
        return Err(wrong("is in lower case, and methods have a case")
            .hint(format!("write {}", shown(&text.to_ascii_uppercase()))));
    }
    // https://fetch.spec.whatwg.org/#forbidden-method
    if matches!(text, "CONNECT" | "TRACE" | "TRACK") {
        return Err(wrong("is a method that browsers send for no script").hint("remove it"));
    }
    Ok(text.to_owned())
}

fn header(text: &str) -> Result<CorsHeader, ValueError> {
    match text {
        "*" => Ok(CorsHeader::Any),
        _ => field_name(text).map(CorsHeader::Name),
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn origins_are_exact_or_subdomains() {
        let cors = |text| Cors::new(vec![origin(text).unwrap()]);
        let rows = [
            ("the same", "https://A.example", "https://a.example", true),
            ("another scheme", "https://a.example", "http://a.example", false),
            ("another port", "https://a.example", "https://a.example:8443", false),
            ("a suffix", "https://a.example", "https://a.example.evil", false),
            ("a prefix", "https://a.example", "https://evila.example", false),
            ("null", "https://a.example", "null", false),
            ("a subdomain", "https://*.a.example", "https://b.a.example", true),
            ("two labels", "https://*.a.example", "https://c.b.a.example", true),
            ("not the domain itself", "https://*.a.example", "https://a.example", false),
            ("an empty label", "https://*.a.example", "https://.a.example", false),
            ("a name that ends alike", "https://*.a.example", "https://evila.example", false),
            ("another host in front", "https://*.a.example", "https://evil/x.a.example", false),
            ("user information", "https://*.a.example", "https://evil@x.a.example", false),
            ("a port", "http://*.a.example:81", "http://b.a.example:81", true),
            ("any", "*", "null", true),
        ];
        for (sentence, pattern, sent, want) in rows {
            assert_eq!(cors(pattern).allows(sent.as_bytes()), want, "{sentence}");
        }
    }
}
