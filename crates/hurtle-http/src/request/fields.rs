//! The fields of a request in the form of their protocol version, their conversion to a
//! `HeaderMap`, and the fields that are allowed in a trailer section.

use bytes::Bytes;
use http::{HeaderMap, HeaderName, HeaderValue, header};

use super::field_class::{FieldClass, classify};
use crate::semantics::set::TOKEN;
use crate::stream::{self, FieldSection};

/// The fields of a request, borrowed from the input.
#[derive(Clone, Copy, Debug)]
pub enum RequestFields<'a> {
    /// Field lines of HTTP/1.1, each ended by CRLF, and the empty line.
    Lines(&'a [u8]),
    /// A field section of HTTP/2 or HTTP/3.
    Section(&'a FieldSection),
}

impl Default for RequestFields<'_> {
    fn default() -> Self {
        RequestFields::NONE
    }
}

impl<'a> RequestFields<'a> {
    /// A list without fields, for heads that have none.
    pub const NONE: RequestFields<'static> = RequestFields::Lines(b"");

    /// Iterates over names and values, in order. Names can have any case.
    pub fn iter(self) -> Pairs<'a> {
        match self {
            RequestFields::Lines(lines) => Pairs::Lines(lines),
            RequestFields::Section(section) => Pairs::Section(section.iter()),
        }
    }

    /// Copies the fields to field lines, each ended by CRLF.
    pub fn to_lines(self) -> Vec<u8> {
        let RequestFields::Section(section) = self else { return self.bytes().to_vec() };
        let mut lines = Vec::new();
        for (name, value) in section.iter() {
            for part in [name, b": ", value, b"\r\n"] {
                lines.extend_from_slice(part);
            }
        }
        lines
    }

    /// The bytes that store the fields; [`RequestFields::read`] takes a copy of them.
    pub fn bytes(self) -> &'a [u8] {
        match self {
            RequestFields::Lines(lines) => lines,
            RequestFields::Section(section) => section.as_bytes(),
        }
    }

    /// Adds the `count` fields to an empty map, whose values share `copy`. `copy` must equal
    /// [`RequestFields::bytes`].
    pub fn read(self, copy: &Bytes, count: usize, map: &mut HeaderMap) {
        match self {
            RequestFields::Lines(_) => read(copy, count, map),
            RequestFields::Section(_) => {
                map.reserve(count);
                for (name, value) in stream::Fields::of(copy) {
                    append(copy, name, value, map);
                }
            }
        }
    }
}

/// Iterates over the names and values of [`RequestFields`].
#[derive(Clone, Debug)]
pub enum Pairs<'a> {
    /// The remaining field lines.
    Lines(&'a [u8]),
    /// The remaining fields of a section.
    Section(stream::Fields<'a>),
}

impl<'a> Iterator for Pairs<'a> {
    type Item = (&'a [u8], &'a [u8]);

    #[inline]
    fn next(&mut self) -> Option<Self::Item> {
        match self {
            Pairs::Lines(rest) => next_pair(rest),
            Pairs::Section(fields) => fields.next(),
        }
    }
}

/// Converts checked field lines (from `request` or `chunked`), each ended by CRLF, to a map. The
/// values share one copy of the lines.
pub fn map(lines: &[u8]) -> HeaderMap {
    let mut map = HeaderMap::new();
    let count = memchr::memchr_iter(b'\n', lines).count();
    read(&Bytes::copy_from_slice(lines), count, &mut map);
    map
}

/// Adds `count` field lines to an empty map without copying them.
pub fn read(lines: &Bytes, count: usize, map: &mut HeaderMap) {
    map.reserve(count);
    for (name, value) in shared(lines, count) {
        map.append(name, value);
    }
}

/// Iterates over `count` field lines without copying the values.
pub fn shared(lines: &Bytes, count: usize) -> impl Iterator<Item = (HeaderName, HeaderValue)> {
    pairs(lines).take(count).filter_map(|(name, value)| {
        let value = HeaderValue::from_maybe_shared(lines.slice_ref(value));
        HeaderName::from_bytes(name).ok().zip(value.ok())
    })
}

/// Iterates over names and values of checked field lines, each ended by CRLF.
pub fn pairs(lines: &[u8]) -> impl Iterator<Item = (&[u8], &[u8])> {
    let mut rest = lines;
    std::iter::from_fn(move || next_pair(&mut rest))
}

#[inline]
fn next_pair<'a>(rest: &mut &'a [u8]) -> Option<(&'a [u8], &'a [u8])> {
    let (name, value) = rest.split_at(TOKEN.span(rest));
    // After the last field comes the empty line or the end.
    let value = value.strip_prefix(b":")?;
    let end = memchr::memchr(b'\n', value)?;
    *rest = &value[end + 1..];
    Some((name, value[..end].trim_ascii()))
}

fn append(copy: &Bytes, name: &[u8], value: &[u8], map: &mut HeaderMap) {
    let value = HeaderValue::from_maybe_shared(copy.slice_ref(value));
    if let (Ok(name), Ok(value)) = (HeaderName::from_bytes(name), value) {
        map.append(name, value);
    }
}

/// Joins the values of all lines of a field with commas (RFC 9110 section 5.3); `None` if the field
/// is absent.
pub fn joined(fields: &HeaderMap, name: HeaderName) -> Option<Vec<u8>> {
    let lines: Vec<&[u8]> = fields.get_all(name).iter().map(HeaderValue::as_bytes).collect();
    (!lines.is_empty()).then(|| lines.join(&b", "[..]))
}

/// True if CGI-like programs read both names as the same field: they do not distinguish `_` from
/// `-`, and PHP not `.` from these. A filtered field must not pass under such a name.
#[inline]
pub fn is_same(name: &[u8], known: &[u8]) -> bool {
    // The comparison has no early exit: finding the first difference costs more than it saves.
    name.len() == known.len()
        && name.iter().zip(known).fold(0, |differ, (&a, &b)| differ | (plain(a) ^ plain(b))) == 0
}

/// The character that stands for this one where names are compared.
#[inline]
fn plain(byte: u8) -> u8 {
    if matches!(byte, b'_' | b'.') { b'-' } else { byte.to_ascii_lowercase() }
}

/// True if a name starts with `known`, compared as in [`is_same`].
#[inline]
pub fn begins_as(name: &[u8], known: &[u8]) -> bool {
    name.split_at_checked(known.len()).is_some_and(|(head, _)| is_same(head, known))
}

/// Fields that RFC 9110 section 6.5.1 excludes from trailers: they frame, route, authenticate or
/// control a message, or describe its content. Merging them into the header is dangerous.
const NOT_IN_TRAILERS: [HeaderName; 24] = [
    header::AGE,
    header::AUTHORIZATION,
    header::CACHE_CONTROL,
    header::CONNECTION,
    header::CONTENT_ENCODING,
    header::CONTENT_LENGTH,
    header::CONTENT_RANGE,
    header::CONTENT_TYPE,
    header::COOKIE,
    header::DATE,
    header::EXPECT,
    header::EXPIRES,
    header::HOST,
    header::LOCATION,
    header::MAX_FORWARDS,
    header::PROXY_AUTHORIZATION,
    header::RANGE,
    header::RETRY_AFTER,
    header::SET_COOKIE,
    header::TE,
    header::TRAILER,
    header::TRANSFER_ENCODING,
    header::UPGRADE,
    header::VARY,
];

/// True if a field is allowed in a trailer section (RFC 9110 section 6.5.1).
pub fn is_allowed_in_trailers(name: &HeaderName) -> bool {
    let text = name.as_str().as_bytes();
    !NOT_IN_TRAILERS.iter().any(|barred| is_same(text, barred.as_str().as_bytes()))
        && !begins_as(text, b"if-")
}

/// True if a client may send a field in a trailer section: it may also send it in the head, and
/// this server does not write it itself. An upstream can merge trailers into the head (RFC 9110
/// section 6.5.2).
pub fn is_allowed_in_request_trailers(name: &HeaderName) -> bool {
    let text = name.as_str().as_bytes();
    is_allowed_in_trailers(name)
        && matches!(classify(text), FieldClass::Pass)
        && !is_same(text, b"via")
        && !is_same(text, b"remote-user")
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn lines_become_a_map() {
        let map = map(b"Host: a\r\nX-Two: 1\r\nx-two:  2 \t\r\nEmpty:\r\nLatin: \xe9\r\n\r\n");
        assert_eq!(map["host"], "a");
        assert_eq!(map.get_all("x-two").iter().collect::<Vec<_>>(), ["1", "2"], "in order");
        assert_eq!(map["empty"], "");
        assert_eq!(map["latin"].as_bytes(), b"\xe9", "bytes beyond ASCII stay");
        assert_eq!(map.len(), 5);
    }

    #[test]
    fn trailers() {
        for (name, want) in [
            ("x-checksum", true),
            ("etag", true),
            ("server-timing", true),
            ("grpc-status", true),
            ("content-length", false),
            ("transfer-encoding", false),
            ("host", false),
            ("if-match", false),
            ("set-cookie", false),
            ("content_length", false),
            ("if_match", false),
        ] {
            assert_eq!(is_allowed_in_trailers(&HeaderName::from_static(name)), want, "{name}");
        }
    }

    #[test]
    fn request_trailers_carry_nothing_that_the_head_may_not() {
        for (name, want) in [
            ("x-checksum", true),
            ("grpc-status", true),
            ("content-length", false),
            ("x-forwarded-for", false),
            ("x_forwarded_for", false),
            ("x-forwarded-anything", false),
            ("x-real-ip", false),
            ("forwarded", false),
            ("via", false),
            ("proxy", false),
            ("proxy-connection", false),
            ("x-accel-redirect", false),
            ("x_sendfile_type", false),
            ("keep-alive", false),
            ("http2-settings", false),
            ("remote-user", false),
            ("remote_user", false),
        ] {
            let name = HeaderName::from_static(name);
            assert_eq!(is_allowed_in_request_trailers(&name), want, "{name}");
        }
    }
}
