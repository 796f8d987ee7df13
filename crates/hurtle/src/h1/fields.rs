//! Field lines as a map for those who want one (applications), and which fields may stand in a
//! trailer section.

use bytes::Bytes;
use http::{HeaderMap, HeaderName, HeaderValue, header};

use super::line::TOKEN;

/// Reads field lines, each ended by CRLF, that were checked before (`request`, `chunked`). One copy
/// is made of all of them; the values share it.
pub fn map(lines: &[u8]) -> HeaderMap {
    let mut map = HeaderMap::new();
    let count = memchr::memchr_iter(b'\n', lines).count();
    read(&Bytes::copy_from_slice(lines), count, &mut map);
    map
}

/// The same without a copy, of so many lines, into a map that is empty, but may have room.
pub fn read(lines: &Bytes, count: usize, map: &mut HeaderMap) {
    map.reserve(count);
    for (name, value) in shared(lines, count) {
        map.append(name, value);
    }
}

/// The same one after the other.
pub fn shared(lines: &Bytes, count: usize) -> impl Iterator<Item = (HeaderName, HeaderValue)> {
    pairs(lines).take(count).filter_map(|(name, value)| {
        let value = HeaderValue::from_maybe_shared(lines.slice_ref(value));
        HeaderName::from_bytes(name).ok().zip(value.ok())
    })
}

/// Names and values of field lines, each ended by CRLF, that were checked before.
pub fn pairs(lines: &[u8]) -> impl Iterator<Item = (&[u8], &[u8])> {
    let mut rest = lines;
    std::iter::from_fn(move || {
        let (name, value) = rest.split_at(TOKEN.span(rest));
        // What follows the last one is the empty line, or nothing.
        let value = value.strip_prefix(b":")?;
        let end = memchr::memchr(b'\n', value)?;
        rest = &value[end + 1..];
        Some((name, value[..end].trim_ascii()))
    })
}

/// The lines of a field as one value, as conditions are read; `None`: there is none.
pub fn joined(fields: &HeaderMap, name: HeaderName) -> Option<Vec<u8>> {
    let lines: Vec<&[u8]> = fields.get_all(name).iter().map(HeaderValue::as_bytes).collect();
    (!lines.is_empty()).then(|| lines.join(&b", "[..]))
}

/// Whether two names are one to a CGI-like reader, to whom `_` and `-` are the same: a field that is
/// not let through must not come under such another name. `known` is in lower case, with `-`.
#[inline]
pub fn is_same(name: &[u8], known: &[u8]) -> bool {
    let plain = |b: u8| if b == b'_' { b'-' } else { b.to_ascii_lowercase() };
    // All of them, since where the first one differs is seldom worth a way out of the loop.
    name.len() == known.len()
        && name.iter().zip(known).fold(0, |differ, (&a, &b)| differ | (plain(a) ^ b)) == 0
}

/// Whether a name begins so, in the same sense.
#[inline]
pub fn begins_as(name: &[u8], known: &[u8]) -> bool {
    name.split_at_checked(known.len()).is_some_and(|(head, _)| is_same(head, known))
}

/// RFC 9110 6.5.1: fields that frame, route, authenticate or control a message, or say how its
/// content is to be read, are of no use behind it, and dangerous to whoever merges them.
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

/// Whether a field may stand in a trailer section.
pub fn may_trail(name: &HeaderName) -> bool {
    !NOT_IN_TRAILERS.contains(name) && !name.as_str().starts_with("if-")
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
        ] {
            assert_eq!(may_trail(&HeaderName::from_static(name)), want, "{name}");
        }
    }
}
