//! Encodes responses of applications, gateways and upstreams while they are sent.

use http::{HeaderValue, StatusCode, header};
use hurtle_http::message::response::Fields;
use hurtle_http::request::RequestHead;
use hurtle_http::semantics::accept::Coding;

use super::body::EncodedBody;
use super::policy::{Decision, Policy, ResponseFacts, name};
use super::{Effort, Encoder};
use crate::answer::{Answer, declared_len};
use crate::body::{Body, Stream};
use crate::edits::FieldEdits;

/// Encodes a response where the policy, the request and the response allow it, and edits its
/// fields.
pub(crate) fn encode(policy: &Policy, request: &RequestHead<'_>, answer: &mut Answer) {
    let Fields::Map(map) = &mut answer.fields else { return };
    // A file keeps its ranges and is sent without passing through memory.
    if matches!(answer.body, Body::File(_) | Body::Parts(_)) {
        return;
    }
    let is_head = request.method == hurtle_http::request::Method::Head;
    let mut facts = ResponseFacts::default();
    map.iter().for_each(|(name, value)| facts.take(name.as_str().as_bytes(), value.as_bytes()));
    facts.len = match &answer.body {
        Body::Bytes(bytes) => Some(bytes.len() as u64),
        Body::Stream(stream) => stream.exact_len(),
        // The response to HEAD describes the response to GET.
        Body::Empty if !is_head => Some(0),
        _ => None,
    };
    let fields = Fields::Map(std::mem::take(map));
    facts.len = facts.len.or_else(|| declared_len(&fields));
    let Fields::Map(mut fields) = fields else { return };
    let mut decision = facts.decide(policy, answer.status, accepted(request));
    if let Decision::Encode(coding) = decision {
        match encoded(std::mem::take(&mut answer.body), facts.len, coding) {
            Ok(body) => answer.body = body,
            Err(body) => (answer.body, decision) = (body, Decision::Vary),
        }
    }
    edit(&mut fields, &facts, decision);
    answer.fields = Fields::Map(fields);
}

/// Returns the codings that the client accepts. HTTP/1.0 has no chunked coding, so a body of
/// unknown length would end the connection.
fn accepted<'a>(request: &RequestHead<'a>) -> Option<&'a [u8]> {
    request.accept_encoding.filter(|_| !request.http10)
}

/// Returns the encoded body, or the body if there is no memory for an encoder. `len`: its length,
/// if it is known or declared.
fn encoded(body: Body, len: Option<u64>, coding: Coding) -> Result<Body, Body> {
    if matches!(body, Body::Empty) {
        return Ok(body);
    }
    let Ok(encoder) = Encoder::new(coding, Effort::Live) else { return Err(body) };
    Ok(Body::Stream(Stream::new(match body {
        Body::Bytes(bytes) => EncodedBody::of_bytes(bytes, encoder),
        Body::Stream(stream) => EncodedBody::of_stream(stream, len, encoder),
        other => return Err(other),
    })))
}

fn edit(fields: &mut dyn FieldEdits, facts: &ResponseFacts, decision: Decision) {
    if decision != Decision::Leave && !facts.varies {
        fields.append(&header::VARY, &HeaderValue::from_static("Accept-Encoding"));
    }
    let (Decision::Encode(_) | Decision::NotModified) = decision else { return };
    if let Some(tag) = facts.strong_tag.as_deref().and_then(weak) {
        fields.set(&header::ETAG, &tag);
    }
    if let Decision::Encode(coding) = decision {
        fields.remove(&header::CONTENT_LENGTH);
        fields.remove(&header::ACCEPT_RANGES);
        fields.set(&header::CONTENT_ENCODING, &HeaderValue::from_static(name(coding)));
    }
}

/// The encoded bytes differ from run to run of an encoder, so a strong tag becomes weak (RFC 9110
/// section 8.8.1).
fn weak(tag: &[u8]) -> Option<HeaderValue> {
    HeaderValue::from_bytes(&[b"W/", tag].concat()).ok()
}

/// Decides about an upstream's response whose body has this length, if it is known, and edits its
/// fields. Returns the coding to apply; `None`: the body is sent unchanged.
pub(crate) fn encode_upstream(
    policy: &Policy,
    request: &RequestHead<'_>,
    status: StatusCode,
    len: Option<u64>,
    fields: &mut dyn FieldEdits,
) -> Option<Coding> {
    let mut facts = ResponseFacts::default();
    facts.len = len;
    fields.each(&mut |name, value| facts.take(name, value));
    let decision = facts.decide(policy, status, accepted(request));
    edit(fields, &facts, decision);
    match decision {
        Decision::Encode(coding) => Some(coding),
        _ => None,
    }
}
