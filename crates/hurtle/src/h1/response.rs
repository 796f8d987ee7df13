//! A response head as bytes (RFC 9112 4): the status line, `Date`, the fields, and what the
//! connection needs. Fields made in advance are copied as they are.

use bytes::Bytes;
use http::{HeaderMap, HeaderName, StatusCode, header};

use super::fields::may_trail;
use crate::semantics::decimal;

/// The fields of an answer, without `Date` and what framing and connection add.
#[derive(Clone, Debug)]
pub enum Fields {
    /// Lines made in advance, each ended by CRLF, `Content-Length` among them.
    Ready(Bytes),
    /// The same, from another server: `Date` is among them, too, and says when they were made.
    Dated(Vec<u8>),
    /// From a handler or an application.
    Map(HeaderMap),
}

/// How a response's body is delimited, where `Fields::Ready` does not say.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum Delimiter {
    /// The fields say it already, or the status has no body (RFC 9110 6.4.1).
    Given,
    /// This many bytes.
    Length(u64),
    /// Chunks.
    Chunked,
    /// The end of the connection: for HTTP/1.0, which knows no chunks.
    Close,
}

/// What the connection says of itself.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum Persistence {
    /// HTTP/1.1's default: nothing is said.
    Implied,
    /// HTTP/1.0 asked for it, so it is confirmed.
    KeepAlive,
    /// This is the last answer.
    Close,
    /// Another protocol follows (RFC 9110 7.8).
    Upgrade,
}

/// The `Server` field's value.
pub const SERVER: &str = "hurtle";

/// Its line.
const SERVER_LINE: &[u8] = b"Server: hurtle\r\n";

/// Appends a whole head to `out`.
pub fn encode(
    out: &mut Vec<u8>,
    status: StatusCode,
    date: &[u8; 29],
    fields: &Fields,
    delimiter: Delimiter,
    persistence: Persistence,
) {
    status_line(status, out);
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

/// Appends an interim answer (RFC 9110 15.2): fields, and nothing of a body or of the connection.
pub fn encode_interim(status: StatusCode, fields: &HeaderMap, out: &mut Vec<u8>) {
    status_line(status, out);
    for (name, value) in fields {
        if !is_engines_own(name) {
            field(out, name.as_str(), value.as_bytes());
        }
    }
    out.extend_from_slice(b"\r\n");
}

/// Whether a field belongs to the connection and its framing: the engine alone writes those.
fn is_engines_own(name: &HeaderName) -> bool {
    matches!(
        name.as_str(),
        "connection" | "content-length" | "date" | "keep-alive" | "transfer-encoding"
    )
}

fn encode_map(map: &HeaderMap, out: &mut Vec<u8>) {
    let mut names_server = false;
    for (name, value) in map {
        names_server |= name == header::SERVER;
        if !is_engines_own(name) {
            field(out, name.as_str(), value.as_bytes());
        }
    }
    if !names_server {
        out.extend_from_slice(SERVER_LINE);
    }
}

/// Appends one field line. `http`'s types hold no CR or LF, so it stays one line.
pub fn field(out: &mut Vec<u8>, name: &str, value: &[u8]) {
    out.reserve(name.len() + value.len() + 4);
    // Nearly every answer has it.
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

/// Appends a trailer section's lines (RFC 9112 7.1.2), without the empty line behind them.
pub fn encode_trailers(trailers: &HeaderMap, out: &mut Vec<u8>) {
    for (name, value) in trailers {
        if may_trail(name) {
            field(out, name.as_str(), value.as_bytes());
        }
    }
}

/// Field names have no case, but old clients and people read `Content-Type` more easily.
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

/// The interim answer that asks for the body (RFC 9110 15.2.1).
pub const CONTINUE: &[u8] = b"HTTP/1.1 100 Continue\r\n\r\n";
