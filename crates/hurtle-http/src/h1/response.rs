//! Encodes a response head (RFC 9112 section 4): status line, Date, fields, framing and connection
//! fields. Prepared field lines are copied unchanged.

use http::{HeaderMap, StatusCode, header};

use crate::message::field_lines::number_field;
use crate::message::response::{
    Delimiter, Fields, Persistence, encode_fields, encode_interim_fields,
};

/// Appends a whole head to `out`. `date` is an IMF-fixdate (see
/// [`date::format`](crate::semantics::date::format)).
pub fn encode(
    out: &mut Vec<u8>,
    status: StatusCode,
    date: &[u8; 29],
    fields: &Fields,
    delimiter: Delimiter,
    persistence: Persistence,
) {
    status_line(status, out);
    encode_fields(out, date, fields);
    match delimiter {
        Delimiter::Given | Delimiter::Close => {}
        Delimiter::Chunked => out.extend_from_slice(b"Transfer-Encoding: chunked\r\n"),
        Delimiter::Length(n) => number_field(out, "Content-Length", n),
    }
    match persistence {
        Persistence::Implied => {}
        Persistence::KeepAlive => out.extend_from_slice(b"Connection: keep-alive\r\n"),
        Persistence::Close => out.extend_from_slice(b"Connection: close\r\n"),
        Persistence::Upgrade => out.extend_from_slice(b"Connection: upgrade\r\n"),
    }
    // RFC 9110 section 7.8: an application's 426 names protocols, too.
    let offers = matches!(fields, Fields::Map(map) if map.contains_key(header::UPGRADE));
    if offers && persistence != Persistence::Upgrade {
        out.extend_from_slice(b"Connection: upgrade\r\n");
    }
    out.extend_from_slice(b"\r\n");
}

/// Appends a status line.
pub fn status_line(status: StatusCode, out: &mut Vec<u8>) {
    if status == StatusCode::OK {
        out.extend_from_slice(b"HTTP/1.1 200 OK\r\n");
        return;
    }
    out.extend_from_slice(b"HTTP/1.1 ");
    out.extend_from_slice(status.as_str().as_bytes());
    out.push(b' ');
    out.extend_from_slice(status.canonical_reason().unwrap_or("").as_bytes());
    out.extend_from_slice(b"\r\n");
}

/// Appends an interim response (RFC 9110 section 15.2): fields without framing and connection
/// fields.
pub fn encode_interim(status: StatusCode, fields: &HeaderMap, out: &mut Vec<u8>) {
    status_line(status, out);
    encode_interim_fields(fields, out);
    out.extend_from_slice(b"\r\n");
}
