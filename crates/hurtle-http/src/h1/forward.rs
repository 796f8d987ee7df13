//! Encodes the heads that a proxy forwards in both directions, of the fields that
//! [`message::forward`](crate::message::forward) edits.

use std::ops::Range;

use super::response::status_line;
use crate::message::field_lines::{line, number_field};
use crate::message::forward::{self, ForwardParams, append, host_value, interim_fields};
use crate::message::response_head::ResponseHead;
use crate::request::RequestHead;
use crate::request::framing::BodyLength;

/// The parts of a forwarded request's head, as ranges of its text, for HTTP/2.
#[derive(Clone, Debug, Default)]
pub struct RequestParts {
    /// The method.
    pub method: Range<usize>,
    /// The path and the query.
    pub target: Range<usize>,
    /// The value of Host.
    pub authority: Range<usize>,
    /// The field lines without Host, and the empty line.
    pub fields: Range<usize>,
    /// The value of Upgrade.
    pub protocol: Option<Range<usize>>,
}

/// Appends a whole request head; returns its parts.
pub fn request(
    out: &mut Vec<u8>,
    request: &RequestHead<'_>,
    params: &ForwardParams<'_>,
) -> RequestParts {
    // RFC 8441 section 5: an extended CONNECT is the GET of HTTP/1.1 that asks for an upgrade.
    let method = if request.protocol.is_some() { b"GET" } else { request.method.as_bytes() };
    let method = append(out, |out| out.extend_from_slice(method));
    out.push(b' ');
    let target = append(out, |out| {
        out.extend_from_slice(params.path);
        if let Some(query) = params.query {
            out.push(b'?');
            out.extend_from_slice(query);
        }
    });
    out.extend_from_slice(b" HTTP/1.1\r\nHost: ");
    let host = append(out, |out| match params.edits.and_then(|edits| edits.host.as_ref()) {
        Some(host) => out.extend_from_slice(host),
        None => host_value(out, request, params),
    });
    out.extend_from_slice(b"\r\n");
    let (authority, start) = (host.clone(), out.len());
    let protocol = forward::request_fields(out, request, params, host, |out| {
        write_hop_fields(out, request, params)
    });
    out.extend_from_slice(b"\r\n");
    RequestParts { method, target, authority, fields: start..out.len(), protocol }
}

/// Appends the hop-by-hop fields and the framing fields for the upstream connection. Returns the
/// range of the protocol to switch to.
fn write_hop_fields(
    out: &mut Vec<u8>,
    request: &RequestHead<'_>,
    params: &ForwardParams<'_>,
) -> Option<Range<usize>> {
    match request.body {
        BodyLength::None => {
            // RFC 9110 section 8.6: methods that usually have a body announce an empty one.
            if matches!(request.method.as_bytes(), b"POST" | b"PUT" | b"PATCH") {
                out.extend_from_slice(b"Content-Length: 0\r\n");
            }
        }
        BodyLength::Exactly(len) => {
            number_field(out, "Content-Length", len);
        }
        BodyLength::Chunked => out.extend_from_slice(b"Transfer-Encoding: chunked\r\n"),
    }
    if request.expect_continue && request.body != BodyLength::None {
        out.extend_from_slice(b"Expect: 100-continue\r\n");
    }
    let mut upgrade = None;
    match params.upgrade {
        Some(protocol) => {
            out.extend_from_slice(b"Connection: Upgrade\r\nUpgrade: ");
            upgrade = Some(append(out, |out| out.extend_from_slice(protocol.as_bytes())));
            out.extend_from_slice(b"\r\n");
        }
        // RFC 9110 section 10.1.4: TE is hop-by-hop, so Connection must list it.
        None if request.te_trailers => {
            out.extend_from_slice(b"Connection: TE\r\nTE: trailers\r\n");
        }
        None => {}
    }
    if let Some(key) = params.websocket_key {
        line(out, b"Sec-WebSocket-Key", key.as_bytes());
    }
    upgrade
}

/// Appends an interim response (RFC 9110 section 15.2).
pub fn interim(out: &mut Vec<u8>, response: &ResponseHead<'_>) {
    status_line(response.status, out);
    interim_fields(out, response);
    out.extend_from_slice(b"\r\n");
}
