//! The operator's fields of requests to upstreams and applications (`request_fields`): their
//! values.

use base64::Engine as _;
use base64::engine::general_purpose::STANDARD;
use http::{HeaderMap, HeaderName, StatusCode, header};
use hurtle_http::semantics::target::encode_path;

use super::HandlerError;
use super::request::RequestContext;
use crate::answer::Answer;
use crate::config::{Piece, RequestFields, Template, Variable};
use crate::tls::ClientCertificate;

/// Returns the fields that a request gets, in order; an empty value is none. `path`: the encoded
/// path for the upstream.
///
/// # Errors
/// The response: 400 if a value would end its line.
pub(super) fn values<'f>(
    fields: &'f RequestFields,
    request: &RequestContext<'_>,
    path: &[u8],
    certificate: Option<&ClientCertificate>,
) -> Result<Vec<(&'f HeaderName, Vec<u8>)>, HandlerError> {
    let mut values = Vec::new();
    for (name, template) in fields.set.iter().chain(&fields.add) {
        let value = filled(template, request, path, certificate);
        if value.iter().any(|b| matches!(b, b'\r' | b'\n' | 0)) {
            let why = format!("the value of {name} would have several lines");
            let answer = Answer::error(StatusCode::BAD_REQUEST, Some(&why));
            return Err(HandlerError::Answer(Box::new(answer)));
        }
        let value = value.trim_ascii();
        if !value.is_empty() {
            values.push((name, value.to_vec()));
        }
    }
    Ok(values)
}

/// Returns the fields that an application gets, and removes those of the client that they replace.
///
/// # Errors
/// See `values`.
pub(super) fn for_application<'f>(
    client: &mut HeaderMap,
    fields: &'f RequestFields,
    request: &RequestContext<'_>,
    certificate: Option<&ClientCertificate>,
) -> Result<Vec<(&'f HeaderName, Vec<u8>)>, HandlerError> {
    let path = encode_path(request.matched.path);
    let values = values(fields, request, path.as_bytes(), certificate)?;
    let hosts = values.iter().map(|(name, _)| *name).filter(|name| **name == header::HOST);
    fields.own_names().chain(hosts).for_each(|name| drop(client.remove(name)));
    Ok(values)
}

/// Returns a template's value for a request.
fn filled(
    template: &Template,
    request: &RequestContext<'_>,
    path: &[u8],
    certificate: Option<&ClientCertificate>,
) -> Vec<u8> {
    let mut out = Vec::new();
    for piece in template.pieces() {
        match piece {
            Piece::Text(text) => out.extend_from_slice(text.as_bytes()),
            Piece::Variable(variable) => fill(variable, request, path, certificate, &mut out),
        }
    }
    out
}

fn fill(
    variable: &Variable,
    request: &RequestContext<'_>,
    path: &[u8],
    certificate: Option<&ClientCertificate>,
    out: &mut Vec<u8>,
) {
    match variable {
        Variable::Host => {
            out.extend_from_slice(request.head.host.map_or(&b""[..], |host| host.name));
        }
        Variable::Scheme => {
            out.extend_from_slice(if request.client.is_tls { b"https" } else { b"http" });
        }
        Variable::Client => {
            out.extend(request.client.address.map(|ip| ip.to_string()).unwrap_or_default().bytes());
        }
        Variable::Path => out.extend_from_slice(path),
        Variable::Query => out.extend_from_slice(request.matched.query.unwrap_or_default()),
        Variable::Uri => {
            let (path, query) = request.target;
            out.extend_from_slice(path);
            query.into_iter().for_each(|query| out.extend([b"?", query].concat()));
        }
        Variable::Method => out.extend_from_slice(request.head.method_text()),
        Variable::ServerPort => {
            out.extend(
                request.client.port.map(|port| port.to_string()).unwrap_or_default().bytes(),
            );
        }
        Variable::TlsClientSubject => {
            let subject = certificate.and_then(ClientCertificate::subject);
            out.extend(subject.unwrap_or_default().bytes());
        }
        // RFC 9440 section 2.1: a byte sequence of RFC 8941.
        Variable::TlsClientCertificate => {
            let encoded = certificate.map(|of| format!(":{}:", STANDARD.encode(of.der())));
            out.extend(encoded.unwrap_or_default().bytes());
        }
        Variable::Request(name) => {
            let values = request.head.values(name.as_str().as_bytes());
            for (number, value) in values.enumerate() {
                if number > 0 {
                    out.extend_from_slice(b", ");
                }
                out.extend_from_slice(&value);
            }
        }
    }
}
