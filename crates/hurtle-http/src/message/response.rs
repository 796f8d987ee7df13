//! The fields of a response, and the delimitation of its body.

use bytes::Bytes;
use http::{HeaderMap, HeaderName, header};

use super::field_lines::{date_line, field};

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
    /// The chunked coding of HTTP/1.1 (RFC 9112 section 7.1); other versions have frames.
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

/// The line of the `Server` field.
const SERVER_LINE: &[u8] = b"Server: hurtle\r\n";

/// Appends the field lines of a response, without those of framing and connection.
#[inline]
pub fn encode_fields(out: &mut Vec<u8>, date: &[u8; 29], fields: &Fields) {
    if !matches!(fields, Fields::Dated(_)) {
        date_line(out, date);
    }
    match fields {
        Fields::Ready(lines) => out.extend_from_slice(lines),
        Fields::Dated(lines) => out.extend_from_slice(lines),
        Fields::Map(map) => encode_map(map, out),
    }
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
