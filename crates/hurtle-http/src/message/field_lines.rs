//! Appends field lines, the form of fields that all versions share: HTTP/1.1 sends them as they
//! are, HTTP/2 and HTTP/3 encode each.

use http::{HeaderMap, header};

use crate::request::fields::is_allowed_in_trailers;
use crate::semantics::decimal;

/// The value of the `Server` field.
pub const SERVER: &str = "hurtle";

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

/// Appends a field line with the name as it is.
pub(crate) fn line(out: &mut Vec<u8>, name: &[u8], value: &[u8]) {
    out.extend_from_slice(name);
    out.extend_from_slice(b": ");
    out.extend_from_slice(value);
    out.extend_from_slice(b"\r\n");
}

/// Appends Date, an IMF-fixdate.
#[inline]
pub(crate) fn date_line(out: &mut Vec<u8>, date: &[u8; 29]) {
    out.extend_from_slice(b"Date: ");
    out.extend_from_slice(date);
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
