//! Fields that a site adds to each of its responses, errors included: those of CORS, and the preset of
//! security headers.

use http::{HeaderMap, HeaderName, HeaderValue, StatusCode, header};
use hurtle_http::h1::forward::{self, HeaderEdits};
use hurtle_http::h1::response::{Fields, field};
use hurtle_http::h1::response_head::ResponseHead;
use hurtle_http::request::fields::pairs;
use hurtle_http::request::{Method, RequestHead};
use hurtle_http::semantics::fields::has_token;

use crate::answer::Answer;
use crate::config::{Cors, CorsHeader};
use crate::site::{Resolved, Site};

/// The preset of `security_headers`. A response that has a field keeps its own value.
const SECURITY: [(HeaderName, HeaderValue); 4] = [
    (header::X_CONTENT_TYPE_OPTIONS, HeaderValue::from_static("nosniff")),
    (header::REFERRER_POLICY, HeaderValue::from_static("strict-origin-when-cross-origin")),
    (header::X_FRAME_OPTIONS, HeaderValue::from_static("SAMEORIGIN")),
    (
        HeaderName::from_static("cross-origin-opener-policy"),
        HeaderValue::from_static("same-origin"),
    ),
];

/// The CORS fields of responses. Those of upstreams and applications are removed.
const CORS: [HeaderName; 3] = [
    header::ACCESS_CONTROL_ALLOW_ORIGIN,
    header::ACCESS_CONTROL_ALLOW_CREDENTIALS,
    header::ACCESS_CONTROL_EXPOSE_HEADERS,
];

/// The fields that are added to the response of one request.
#[derive(Debug, Default)]
pub(crate) struct Additions {
    /// `true`: the site decides about CORS.
    has_cors: bool,
    cors: Vec<(HeaderName, HeaderValue)>,
    /// `true`: the response depends on the request's Origin.
    varies: bool,
    has_security: bool,
}

impl Additions {
    /// Returns the fields to add to the response of a request. `None`: none.
    pub(crate) fn of(request: &RequestHead<'_>, resolved: &Resolved<'_>) -> Option<Box<Additions>> {
        let mut additions =
            Additions { has_security: resolved.site.has_security(), ..Additions::default() };
        if let Some(cors) = resolved.cors() {
            additions.has_cors = true;
            additions.varies = !cors.allows_any();
            additions.cors = cors_fields(cors, value(request, b"origin"));
        }
        (additions.has_cors || additions.has_security).then(|| Box::new(additions))
    }

    /// Returns the fields to add to a response that gates let pass at once: no script of another
    /// origin asked for it. `None`: none.
    pub(crate) fn of_known(site: &Site) -> Option<Box<Additions>> {
        let has_security = site.has_security();
        has_security.then(|| Box::new(Additions { has_security, ..Additions::default() }))
    }

    /// Adds the fields to a response of this server or of an application.
    pub(crate) fn add(&self, fields: &mut Fields) {
        match fields {
            Fields::Map(map) => self.add_to_map(map),
            Fields::Ready(lines) => *lines = self.edited(lines).into(),
            Fields::Dated(lines) => *lines = self.edited(lines),
        }
    }

    fn add_to_map(&self, map: &mut HeaderMap) {
        if self.has_cors {
            for name in &CORS {
                map.remove(name);
            }
        }
        for (name, value) in &self.cors {
            map.insert(name.clone(), value.clone());
        }
        let names_origin = |value: &HeaderValue| has_token(value.as_bytes(), b"origin");
        if self.varies && !map.get_all(header::VARY).iter().any(names_origin) {
            map.append(header::VARY, HeaderValue::from_static("Origin"));
        }
        for (name, value) in self.security() {
            map.entry(name).or_insert(value);
        }
    }

    fn edited(&self, lines: &[u8]) -> Vec<u8> {
        let has = |name: &HeaderName| {
            pairs(lines).any(|(other, _)| other.eq_ignore_ascii_case(name.as_str().as_bytes()))
        };
        let removed = if self.has_cors { &CORS[..] } else { &[] };
        forward::edit_lines(lines, b"", removed, &self.lines(has))
    }

    /// Returns the header rules of a response that is forwarded, with these fields added.
    pub(super) fn edits<T>(
        &self,
        reply: &ResponseHead<'_>,
        edits: &HeaderEdits<'_>,
        encode: impl FnOnce(&HeaderEdits<'_>) -> T,
    ) -> T {
        let is_cors = |name: &[u8]| {
            self.has_cors && CORS.iter().any(|n| n.as_str().as_bytes().eq_ignore_ascii_case(name))
        };
        let removes = |name: &[u8]| is_cors(name) || (edits.removes)(name);
        let mut set = Vec::new();
        for (name, value) in pairs(&edits.set).filter(|(name, _)| !is_cors(name)) {
            for part in [name, b": ", value, b"\r\n"] {
                set.extend_from_slice(part);
            }
        }
        let mut sent: Vec<&[u8]> = pairs(&edits.set).map(|(name, _)| name).collect();
        forward::each_for_client(reply, |name, _| {
            if !(edits.removes)(name) {
                sent.push(name);
            }
        });
        let has = |name: &HeaderName| {
            sent.iter().any(|other| other.eq_ignore_ascii_case(name.as_str().as_bytes()))
        };
        set.extend(self.lines(has));
        encode(&HeaderEdits { removes: &removes, set })
    }

    /// Returns the lines to add to a response that `has` some fields.
    fn lines(&self, has: impl Fn(&HeaderName) -> bool) -> Vec<u8> {
        let mut lines = Vec::new();
        for (name, value) in &self.cors {
            field(&mut lines, name.as_str(), value.as_bytes());
        }
        if self.varies {
            field(&mut lines, "Vary", b"Origin");
        }
        for (name, value) in self.security().filter(|(name, _)| !has(name)) {
            field(&mut lines, name.as_str(), value.as_bytes());
        }
        lines
    }

    fn security(&self) -> impl Iterator<Item = (HeaderName, HeaderValue)> {
        SECURITY.into_iter().filter(|_| self.has_security)
    }
}

/// Answers a preflight (Fetch standard, "CORS-preflight request"). `None`: it is another request.
/// `Additions` adds the fields that other responses have too.
pub(super) fn preflight(request: &RequestHead<'_>, cors: &Cors) -> Option<Answer> {
    if request.method != Method::Options {
        return None;
    }
    let origin = value(request, b"origin")?;
    value(request, b"access-control-request-method")?;
    let vary = "Access-Control-Request-Method, Access-Control-Request-Headers";
    let mut answer =
        Answer::empty(StatusCode::NO_CONTENT).with(header::VARY, HeaderValue::from_static(vary));
    if !cors.allows(origin) {
        return Some(answer);
    }
    let requested = value(request, b"access-control-request-headers");
    let headers = match cors.headers.contains(&CorsHeader::Any) {
        true => requested.map(<[u8]>::to_vec),
        false => Some(joined(&cors.headers).into_bytes()).filter(|names| !names.is_empty()),
    };
    let fields = [
        (header::ACCESS_CONTROL_ALLOW_METHODS, Some(cors.methods.join(", ").into_bytes())),
        (header::ACCESS_CONTROL_ALLOW_HEADERS, headers),
        (header::ACCESS_CONTROL_MAX_AGE, Some(cors.max_age.as_secs().to_string().into_bytes())),
    ];
    for (name, value) in fields {
        if let Some(value) = value.and_then(|value| HeaderValue::try_from(value).ok()) {
            answer = answer.with(name, value);
        }
    }
    Some(answer)
}

/// Returns the fields of a response to a request of this origin.
fn cors_fields(cors: &Cors, origin: Option<&[u8]>) -> Vec<(HeaderName, HeaderValue)> {
    let allowed = match (cors.allows_any(), origin) {
        (true, _) => Some(HeaderValue::from_static("*")),
        (false, Some(origin)) if cors.allows(origin) => HeaderValue::from_bytes(origin).ok(),
        (false, _) => None,
    };
    let Some(allowed) = allowed else { return Vec::new() };
    let mut fields = vec![(header::ACCESS_CONTROL_ALLOW_ORIGIN, allowed)];
    if cors.credentials {
        let yes = HeaderValue::from_static("true");
        fields.push((header::ACCESS_CONTROL_ALLOW_CREDENTIALS, yes));
    }
    if !cors.expose.is_empty()
        && let Ok(names) = HeaderValue::try_from(joined(&cors.expose))
    {
        fields.push((header::ACCESS_CONTROL_EXPOSE_HEADERS, names));
    }
    fields
}

fn joined<T: ToString>(names: &[T]) -> String {
    names.iter().map(ToString::to_string).collect::<Vec<_>>().join(", ")
}

/// Returns the value of a field in one line. A field in several lines has none: no browser sends it.
fn value<'a>(request: &RequestHead<'a>, name: &[u8]) -> Option<&'a [u8]> {
    let mut values = request.fields.iter().filter(|(other, _)| other.eq_ignore_ascii_case(name));
    let (_, value) = values.next()?;
    values.next().is_none().then_some(value)
}
