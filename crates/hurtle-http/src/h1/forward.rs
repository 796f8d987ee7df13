//! Encodes the heads that a proxy forwards in both directions, of the fields that
//! [`message::forward`](crate::message::forward) edits.

use super::response::status_line;
use crate::message::field_lines::line;
use crate::message::forward::{
    self, ForwardParams, append, content_fields, interim_fields, upstream_authority,
    upstream_method, upstream_target,
};
use crate::message::response_head::ResponseHead;
use crate::request::RequestHead;
use crate::request::framing::BodyLength;

/// Appends a whole request head.
pub fn request(out: &mut Vec<u8>, request: &RequestHead<'_>, params: &ForwardParams<'_>) {
    out.extend_from_slice(upstream_method(request));
    out.push(b' ');
    upstream_target(out, params);
    out.extend_from_slice(b" HTTP/1.1\r\nHost: ");
    let host = append(out, |out| upstream_authority(out, request, params));
    out.extend_from_slice(b"\r\n");
    forward::request_fields(out, request, params, host, |out| {
        write_hop_fields(out, request, params);
    });
    out.extend_from_slice(b"\r\n");
}

/// Appends the hop-by-hop fields and the framing fields for the upstream connection.
fn write_hop_fields(out: &mut Vec<u8>, request: &RequestHead<'_>, params: &ForwardParams<'_>) {
    if request.body == BodyLength::Chunked {
        out.extend_from_slice(b"Transfer-Encoding: chunked\r\n");
    }
    content_fields(out, request);
    match params.upgrade {
        Some(protocol) => {
            out.extend_from_slice(b"Connection: Upgrade\r\n");
            line(out, b"Upgrade", protocol.as_bytes());
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
}

/// Appends an interim response (RFC 9110 section 15.2).
pub fn interim(out: &mut Vec<u8>, response: &ResponseHead<'_>) {
    status_line(response.status, out);
    interim_fields(out, response);
    out.extend_from_slice(b"\r\n");
}
