//! Encodes a response head (RFC 9112 section 4): status line, Date, fields, framing and connection
//! fields. Prepared field lines are copied unchanged.

use bytes::Bytes;
use http::{HeaderMap, HeaderName, StatusCode, header};

use crate::request::fields::is_allowed_in_trailers;
use crate::semantics::decimal;

/// The fields of a response, without Date, framing and connection fields.
#[derive(Clone, Debug)]
pub enum Fields {
    /// Prepared lines, each ended by CRLF, including Content-Length.
    Ready(Bytes),
    /// Prepared lines from another server, including its Date.
    Dated(Vec<u8>),
    /// Fields from a handler or an application.
    Map(HeaderMap),
}

/// The delimitation of a body whose length `fields` does not state.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum Delimiter {
    /// The fields state the length, or the status has no body (RFC 9110 section 6.4.1).
    Given,
    /// A body of this many bytes.
    Length(u64),
    /// The chunked coding.
    Chunked,
    /// The end of the connection, for HTTP/1.0, which has no chunked coding.
    Close,
}

/// The persistence that a response announces.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum Persistence {
    /// The default of HTTP/1.1; no field is written.
    Implied,
    /// Confirms the keep-alive of an HTTP/1.0 client.
    KeepAlive,
    /// The connection closes after this response.
    Close,
    /// Another protocol follows (RFC 9110 section 7.8).
    Upgrade,
}

/// The value of the `Server` field.
pub const SERVER: &str = "hurtle";

/// The line of the `Server` field.
const SERVER_LINE: &[u8] = b"Server: hurtle\r\n";

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
    out.extend_from_slice(b"\r\n");
}

/// Appends the field lines of a response, without those of framing and connection.
#[inline]
pub fn encode_fields(out: &mut Vec<u8>, date: &[u8; 29], fields: &Fields) {
    if !matches!(fields, Fields::Dated(_)) {
        out.extend_from_slice(b"Date: ");
        out.extend_from_slice(date);
        out.extend_from_slice(b"\r\n");
    }
    match fields {
        Fields::Ready(lines) => out.extend_from_slice(lines),
        Fields::Dated(lines) => out.extend_from_slice(lines),
        Fields::Map(map) => encode_map(map, out),
    }
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

/// Appends the field lines of an interim response.
pub fn encode_interim_fields(fields: &HeaderMap, out: &mut Vec<u8>) {
    for (name, value) in fields {
        if !is_written_by_server(name) {
            field(out, name.as_str(), value.as_bytes());
        }
    }
}

/// True for fields that only the server itself writes: connection, framing and Date.
fn is_written_by_server(name: &HeaderName) -> bool {
    matches!(
        name.as_str(),
        "connection" | "content-length" | "date" | "keep-alive" | "transfer-encoding"
    )
}

fn encode_map(map: &HeaderMap, out: &mut Vec<u8>) {
    let mut names_server = false;
    for (name, value) in map {
        names_server |= name == header::SERVER;
        if !is_written_by_server(name) {
            field(out, name.as_str(), value.as_bytes());
        }
    }
    if !names_server {
        out.extend_from_slice(SERVER_LINE);
    }
}

/// Appends one field line. The types of `http` exclude CR and LF, so it stays one line.
pub fn field(out: &mut Vec<u8>, name: &str, value: &[u8]) {
    out.reserve(name.len() + value.len() + 4);
    // Fast path: nearly every response has this field.
    if name == header::CONTENT_TYPE.as_str() {
        out.extend_from_slice(b"Content-Type: ");
    } else {
        title_case(name, out);
        out.extend_from_slice(b": ");
    }
    out.extend_from_slice(value);
    out.extend_from_slice(b"\r\n");
}

/// Appends a field line whose value is a number.
#[inline(always)] // Its name is a constant, and costs a call where it is not known to be.
pub fn number_field(out: &mut Vec<u8>, name: &str, number: u64) {
    out.extend_from_slice(name.as_bytes());
    out.extend_from_slice(b": ");
    decimal::number(number, out);
    out.extend_from_slice(b"\r\n");
}

/// Appends the lines of a trailer section (RFC 9112 section 7.1.2), without the empty line.
pub fn encode_trailers(trailers: &HeaderMap, out: &mut Vec<u8>) {
    for (name, value) in trailers {
        if is_allowed_in_trailers(name) {
            field(out, name.as_str(), value.as_bytes());
        }
    }
}

/// Appends a field name in title case: names are case-insensitive, but old clients expect
/// `Content-Type`.
fn title_case(name: &str, out: &mut Vec<u8>) {
    let start = out.len();
    out.extend_from_slice(name.as_bytes());
    let mut upper = true;
    for byte in &mut out[start..] {
        if upper {
            byte.make_ascii_uppercase();
        }
        upper = *byte == b'-';
    }
}
