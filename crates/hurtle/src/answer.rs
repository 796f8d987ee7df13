//! A response as data: returned by every handler, sent by every protocol.

use std::fmt;
use std::task::Context;

use bytes::Bytes;
use http::{HeaderMap, HeaderName, HeaderValue, StatusCode, header};
use hurtle_http::message::field_lines::field;
use hurtle_http::message::response::Fields;
use hurtle_http::semantics::grpc::{self, GrpcStatus};

use crate::body::{Body, TruncatedError};

/// A response, before its site and the connection add their own fields.
#[derive(Debug)]
pub(crate) struct Answer {
    /// A final status, not 1xx.
    pub status: StatusCode,
    /// All fields but Date and Connection; a map also has no framing fields.
    pub fields: Fields,
    /// The body for GET; the connection does not send it for HEAD.
    pub body: Body,
    /// The edits that the response still needs; `pipeline::finish` makes them.
    pub needs: Needs,
}

/// The error of a service that is part of this server, which responds with this status.
#[derive(Clone, Copy, Debug)]
pub(crate) struct OwnError(pub StatusCode);

impl fmt::Display for OwnError {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        self.0.fmt(f)
    }
}

impl std::error::Error for OwnError {}

/// The edits that a response needs before it is sent.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(crate) enum Needs {
    /// Those of its site. It is a response of this server, whose Vary they leave.
    OwnEdits,
    /// Those of its site. It is a response of an upstream.
    Edits,
    /// Those of its site, and a content-coding if the mount's policy allows one.
    EditsAndCoding,
    /// CORS, which depends on the request. The lines of a known file have the other edits.
    Cors,
    /// The response is finished: it is sent as it is.
    Nothing,
}

impl Answer {
    /// A response of this server with these fields.
    pub(crate) fn new(status: StatusCode, fields: Fields, body: Body) -> Answer {
        Answer { status, fields, body, needs: Needs::OwnEdits }
    }

    /// A response with the ready field lines of a file.
    pub(crate) fn ready(status: StatusCode, fields: Bytes, body: Body) -> Answer {
        Answer { status, fields: Fields::Ready(fields), body, needs: Needs::Cors }
    }

    /// A response with a body in memory.
    pub(crate) fn bytes(
        status: StatusCode,
        media_type: HeaderValue,
        body: impl Into<Bytes>,
    ) -> Answer {
        let mut fields = HeaderMap::with_capacity(4);
        fields.insert(header::CONTENT_TYPE, media_type);
        Answer::new(status, Fields::Map(fields), Body::Bytes(body.into()))
    }

    /// A response without fields and body.
    pub(crate) fn empty(status: StatusCode) -> Answer {
        Answer::new(status, Fields::Map(HeaderMap::new()), Body::Empty)
    }

    /// A plain-text error response: the status in words, and the reason `why`, if there is one.
    pub(crate) fn error(status: StatusCode, why: Option<&str>) -> Answer {
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

    /// The response to a call of this media type (gRPC or gRPC-Web) with the status and the text of
    /// an error response: its head has all that trailers would have.
    pub(crate) fn grpc(error: &Answer, media_type: &[u8]) -> Answer {
        let name = error.status.canonical_reason().unwrap_or("Error");
        let text = match &error.body {
            Body::Bytes(text) => std::str::from_utf8(text).unwrap_or(name).trim_ascii_end(),
            _ => name,
        };
        let mut answer = Answer::empty(StatusCode::OK);
        let known = match &error.fields {
            Fields::Map(map) => map.get(GRPC_STATUS),
            _ => None,
        };
        if let Fields::Map(map) = &mut answer.fields {
            *map = grpc_fields(GrpcStatus::of(error.status), text);
            if let Some(known) = known {
                map.insert(GRPC_STATUS, known.clone());
            }
            if let Ok(media_type) = HeaderValue::from_bytes(media_type) {
                map.insert(header::CONTENT_TYPE, media_type);
            }
        }
        answer
    }

    /// 405 with Allow (RFC 9110 15.5.6), or 501 if the method is not `known`.
    pub(crate) fn method_refused(known: bool) -> Answer {
        if !known {
            return Answer::error(StatusCode::NOT_IMPLEMENTED, None);
        }
        Answer::error(StatusCode::METHOD_NOT_ALLOWED, None)
            .with(header::ALLOW, HeaderValue::from_static(ALLOW))
    }

    /// 405 to a TRACE that an upstream or application would answer: it would show the client the
    /// fields that are added on the way (RFC 9110 9.3.8). All other methods are passed on.
    pub(crate) fn trace_refused() -> Answer {
        Answer::error(StatusCode::METHOD_NOT_ALLOWED, None)
            .with(header::ALLOW, HeaderValue::from_static(ALLOW_PASSED_ON))
    }

    /// The response to OPTIONS: 204 with Allow.
    pub(crate) fn options() -> Answer {
        Answer::empty(StatusCode::NO_CONTENT).with(header::ALLOW, HeaderValue::from_static(ALLOW))
    }

    /// The response to OPTIONS of a server that would pass it on.
    pub(crate) fn options_passed_on() -> Answer {
        Answer::empty(StatusCode::NO_CONTENT)
            .with(header::ALLOW, HeaderValue::from_static(ALLOW_PASSED_ON))
    }

    /// A redirect to `location`; 500 if that is no valid field value.
    pub(crate) fn redirect(status: StatusCode, location: &str) -> Answer {
        match HeaderValue::from_str(location) {
            Ok(value) => Answer::error(status, None).with(header::LOCATION, value),
            Err(_) => Answer::error(StatusCode::INTERNAL_SERVER_ERROR, None),
        }
    }

    /// Polls the first frame of a streamed body, whose prepared field lines have no length. If it
    /// is the whole body, the body becomes bytes; if it failed, the response becomes an error,
    /// since no head was sent yet: that of the upstream's failure, otherwise 500.
    pub(crate) fn begin_body(&mut self, cx: &mut Context<'_>) {
        let Answer { fields, body: Body::Stream(stream), .. } = self else { return };
        match stream.whole(cx, || declared_len(fields)) {
            None => {}
            Some(Ok(whole)) => {
                let len = whole.len().to_string();
                match fields {
                    Fields::Ready(lines) => {
                        let mut with_len = lines.to_vec();
                        field(&mut with_len, "Content-Length", len.as_bytes());
                        *lines = with_len.into();
                    }
                    Fields::Dated(lines) => field(lines, "Content-Length", len.as_bytes()),
                    Fields::Map(_) => {}
                }
                self.body = Body::Bytes(whole);
            }
            Some(Err(error)) => {
                tracing::error!("an answer's body failed before its first byte: {error}");
                let truncated = error.downcast_ref::<TruncatedError>();
                let status =
                    truncated.map_or(StatusCode::INTERNAL_SERVER_ERROR, |error| error.status);
                *self = Answer::error(status, None);
            }
        }
    }

    /// Sets a field. No effect on prepared field lines.
    #[must_use]
    pub(crate) fn with(mut self, name: HeaderName, value: HeaderValue) -> Answer {
        if let Fields::Map(map) = &mut self.fields {
            map.insert(name, value);
        }
        self
    }
}

/// The field with the status of a gRPC call. An error response has it if the call has another
/// status than its HTTP status says.
pub(crate) const GRPC_STATUS: HeaderName = HeaderName::from_static("grpc-status");

/// Returns the fields that end a gRPC call with an error: its trailers.
pub(crate) fn grpc_fields(status: GrpcStatus, text: &str) -> HeaderMap {
    let mut fields = HeaderMap::with_capacity(4);
    fields.insert(GRPC_STATUS, HeaderValue::from(u16::from(status.0)));
    if let Ok(message) = HeaderValue::from_str(&grpc::message(text)) {
        fields.insert(HeaderName::from_static("grpc-message"), message);
    }
    fields
}

/// The methods of the built-in handlers.
const ALLOW: &str = "GET, HEAD, OPTIONS";

/// The standard methods that are passed on (RFC 9110 9.3, RFC 5789).
const ALLOW_PASSED_ON: &str = "GET, HEAD, POST, PUT, PATCH, DELETE, OPTIONS";

/// Retry-After of a 503.
const RETRY_AFTER_SECS: &str = "1";

/// Returns true if a response with this status has no body (RFC 9110 6.4.1).
pub(crate) fn is_bodiless(status: StatusCode) -> bool {
    status == StatusCode::NO_CONTENT
        || status == StatusCode::NOT_MODIFIED
        || status.is_informational()
}

/// The Content-Length that the maker of the fields set.
pub(crate) fn declared_len(fields: &Fields) -> Option<u64> {
    let Fields::Map(map) = fields else { return None };
    map.get(header::CONTENT_LENGTH)?.to_str().ok()?.parse().ok()
}
