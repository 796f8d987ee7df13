//! The operator's fields of requests to upstreams (`request_fields`).

use base64::Engine as _;
use base64::engine::general_purpose::STANDARD;
use http::{StatusCode, header};
use hurtle_http::h1::forward::RequestEdits;

use super::super::HandlerError;
use super::super::request::RequestContext;
use super::Proxy;
use crate::answer::Answer;
use crate::config::{Piece, Template, Variable};
use crate::tls::ClientCertificate;

impl Proxy {
    /// Returns the edits of a request whose encoded path is `path`.
    ///
    /// # Errors
    /// The response: 400 if a value would end its line.
    pub(super) fn edits(
        &self,
        request: &RequestContext<'_>,
        path: &[u8],
        certificate: Option<&ClientCertificate>,
    ) -> Result<Option<RequestEdits>, HandlerError> {
        let Some(fields) = &self.config().request_fields else { return Ok(None) };
        let removed = fields.own_names().cloned().collect();
        let mut edits = RequestEdits { removed, ..RequestEdits::default() };
        for (name, template) in fields.set.iter().chain(&fields.add) {
            let value = filled(template, request, (path, certificate));
            if value.iter().any(|b| matches!(b, b'\r' | b'\n' | 0)) {
                let why = format!("the value of {name} would have several lines");
                let answer = Answer::error(StatusCode::BAD_REQUEST, Some(&why));
                return Err(HandlerError::Answer(Box::new(answer)));
            }
            match value.trim_ascii() {
                b"" => {}
                value if *name == header::HOST => edits.host = Some(value.to_vec()),
                value => {
                    for part in [name.as_str().as_bytes(), b": ", value, b"\r\n"] {
                        edits.lines.extend_from_slice(part);
                    }
                }
            }
        }
        Ok(Some(edits))
    }
}

/// Returns a template's value for a request.
fn filled(
    template: &Template,
    request: &RequestContext<'_>,
    (path, certificate): (&[u8], Option<&ClientCertificate>),
) -> Vec<u8> {
    let mut out = Vec::new();
    for piece in template.pieces() {
        match piece {
            Piece::Text(text) => out.extend_from_slice(text.as_bytes()),
            Piece::Variable(variable) => fill(variable, request, (path, certificate), &mut out),
        }
    }
    out
}

fn fill(
    variable: &Variable,
    request: &RequestContext<'_>,
    (path, certificate): (&[u8], Option<&ClientCertificate>),
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
            let named = request.head.fields.iter();
            let named = named.filter(|(n, _)| n.eq_ignore_ascii_case(name.as_str().as_bytes()));
            for (number, (_, value)) in named.enumerate() {
                if number > 0 {
                    out.extend_from_slice(b", ");
                }
                out.extend_from_slice(value);
            }
        }
    }
}
