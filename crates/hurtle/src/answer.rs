//! An answer as data: what every handler returns and every protocol sends.

use std::task::Context;

use bytes::Bytes;
use http::{HeaderMap, HeaderName, HeaderValue, StatusCode, header};

use crate::body::Body;
use crate::h1::response::Fields;

/// A response, before the connection adds what is its own.
#[derive(Debug)]
pub struct Answer {
    /// Final.
    pub status: StatusCode,
    /// Without Date, Connection and, in a map, what frames the body.
    pub fields: Fields,
    /// As for GET; the engine leaves it out for HEAD.
    pub body: Body,
}

impl Answer {
    /// With field lines made in advance.
    pub fn ready(status: StatusCode, fields: Bytes, body: Body) -> Answer {
        Answer { status, fields: Fields::Ready(fields), body }
    }

    /// With a body in memory.
    pub fn bytes(status: StatusCode, media_type: HeaderValue, body: impl Into<Bytes>) -> Answer {
        let mut fields = HeaderMap::with_capacity(4);
        fields.insert(header::CONTENT_TYPE, media_type);
        Answer { status, fields: Fields::Map(fields), body: Body::Bytes(body.into()) }
    }

    /// With nothing but its status.
    pub fn empty(status: StatusCode) -> Answer {
        Answer { status, fields: Fields::Map(HeaderMap::new()), body: Body::Empty }
    }

    /// The plain answer to what went wrong: the status in words, and why if that helps.
    pub fn error(status: StatusCode, why: Option<&str>) -> Answer {
        let name = status.canonical_reason().unwrap_or("Error");
        let text = match why {
            None => format!("{} {name}\n", status.as_str()),
            Some(why) => format!("{} {name}: {why}\n", status.as_str()),
        };
        let plain = HeaderValue::from_static("text/plain; charset=utf-8");
        let answer = Answer::bytes(status, plain, text);
        match status {
            StatusCode::SERVICE_UNAVAILABLE => {
                answer.with(header::RETRY_AFTER, HeaderValue::from_static(RETRY_AFTER_SECS))
            }
            _ => answer,
        }
    }

    /// 405 (RFC 9110 15.5.6), or 501 if nobody knows the method.
    pub fn method_refused(known: bool) -> Answer {
        if !known {
            return Answer::error(StatusCode::NOT_IMPLEMENTED, None);
        }
        Answer::error(StatusCode::METHOD_NOT_ALLOWED, None)
            .with(header::ALLOW, HeaderValue::from_static(ALLOW))
    }

    /// The answer to OPTIONS.
    pub fn options() -> Answer {
        Answer::empty(StatusCode::NO_CONTENT).with(header::ALLOW, HeaderValue::from_static(ALLOW))
    }

    /// A redirect. A location that cannot stand in a field is the server's fault.
    pub fn redirect(status: StatusCode, location: &str) -> Answer {
        match HeaderValue::from_str(location) {
            Ok(value) => Answer::error(status, None).with(header::LOCATION, value),
            Err(_) => Answer::error(StatusCode::INTERNAL_SERVER_ERROR, None),
        }
    }

    /// Looks at the first of a body that comes frame by frame. If that is all there is, the body is
    /// bytes as any other; if it failed, nothing has been promised yet, and the answer is a 500.
    pub fn begin_body(&mut self, cx: &mut Context<'_>) {
        let Answer { fields, body: Body::Stream(stream), .. } = self else { return };
        match stream.whole(cx, || declared_len(fields)) {
            None => {}
            Some(Ok(whole)) => self.body = Body::Bytes(whole),
            Some(Err(error)) => {
                tracing::error!("an answer's body failed before its first byte: {error}");
                *self = Answer::error(StatusCode::INTERNAL_SERVER_ERROR, None);
            }
        }
    }

    /// Sets a field; only an answer with a map of fields has use for it.
    #[must_use]
    pub fn with(mut self, name: HeaderName, value: HeaderValue) -> Answer {
        if let Fields::Map(map) = &mut self.fields {
            map.insert(name, value);
        }
        self
    }
}

/// What the built-in handlers answer to.
const ALLOW: &str = "GET, HEAD, OPTIONS";

/// When a client turned away for lack of room may try again.
const RETRY_AFTER_SECS: &str = "1";

/// Whether an answer with this status has no body, whatever was asked (RFC 9110 6.4.1).
pub fn is_bodiless(status: StatusCode) -> bool {
    status == StatusCode::NO_CONTENT
        || status == StatusCode::NOT_MODIFIED
        || status.is_informational()
}

/// The length that whoever made the fields wrote himself.
pub fn declared_len(fields: &Fields) -> Option<u64> {
    let Fields::Map(map) = fields else { return None };
    map.get(header::CONTENT_LENGTH)?.to_str().ok()?.parse().ok()
}
