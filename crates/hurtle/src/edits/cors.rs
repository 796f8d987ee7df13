//! The fields by which a site lets scripts of other origins read its responses (Fetch standard,
//! "CORS protocol").

use http::{HeaderName, HeaderValue, StatusCode, header};
use hurtle_http::request::{Method, RequestHead};
use hurtle_http::semantics::fields::has_token;

use super::FieldEdits;
use crate::answer::Answer;
use crate::config::{Cors, CorsHeader};

/// The fields of responses. Those of upstreams and applications are removed.
const CORS: [HeaderName; 3] = [
    header::ACCESS_CONTROL_ALLOW_ORIGIN,
    header::ACCESS_CONTROL_ALLOW_CREDENTIALS,
    header::ACCESS_CONTROL_EXPOSE_HEADERS,
];

/// Edits the fields of a response to a request.
pub(crate) fn edit(fields: &mut dyn FieldEdits, cors: &Cors, request: &RequestHead<'_>) {
    CORS.iter().for_each(|name| fields.remove(name));
    let (allows_any, origin) = (cors.allows_any(), value(request, b"origin"));
    let allowed = match origin {
        _ if allows_any => Some(HeaderValue::from_static("*")),
        Some(origin) if cors.allows(origin) => HeaderValue::from_bytes(origin).ok(),
        _ => None,
    };
    if let Some(allowed) = allowed {
        fields.append(&header::ACCESS_CONTROL_ALLOW_ORIGIN, &allowed);
        if cors.credentials {
            let yes = HeaderValue::from_static("true");
            fields.append(&header::ACCESS_CONTROL_ALLOW_CREDENTIALS, &yes);
        }
        if !cors.expose.is_empty()
            && let Ok(names) = HeaderValue::try_from(joined(&cors.expose))
        {
            fields.append(&header::ACCESS_CONTROL_EXPOSE_HEADERS, &names);
        }
    }
    let mut varies = allows_any;
    fields.each(&mut |name, value| {
        varies |= name.eq_ignore_ascii_case(b"vary") && has_token(value, b"origin");
    });
    if !varies {
        fields.append(&header::VARY, &HeaderValue::from_static("Origin"));
    }
}

/// Answers a preflight (Fetch standard, "CORS-preflight request"). `None`: it is another request.
/// [`edit`] adds the fields that other responses have too.
pub(crate) fn preflight(request: &RequestHead<'_>, cors: &Cors) -> Option<Answer> {
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

fn joined<T: ToString>(names: &[T]) -> String {
    names.iter().map(ToString::to_string).collect::<Vec<_>>().join(", ")
}

/// Returns the value of a field in one line. A field in several lines has none: no browser sends
/// it.
fn value<'a>(request: &RequestHead<'a>, name: &[u8]) -> Option<&'a [u8]> {
    let mut values = request.fields.iter().filter(|(other, _)| other.eq_ignore_ascii_case(name));
    let (_, value) = values.next()?;
    values.next().is_none().then_some(value)
}
