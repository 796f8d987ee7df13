//! The heads of another version's frames as the HTTP/1.1 heads they stand for, and back (RFC 9113
//! 8.3): so that one reader decides what a request is, and one writer what an answer says. Frames
//! themselves are `transport::http2`'s.

use std::sync::LazyLock;

use http::request::Parts;
use http::{HeaderMap, HeaderName, Method, StatusCode, header};
use memchr::memmem::Finder;

use super::fields;

/// Where an answer's body ends.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum Ends {
    /// After this many bytes.
    After(u64),
    /// With its last chunk.
    Chunked,
    /// When its writer says so.
    Open,
}

/// Appends a request's head. `has_body`: frames of a body follow it.
pub fn request(out: &mut Vec<u8>, head: &Parts, has_body: bool) {
    out.extend_from_slice(head.method.as_str().as_bytes());
    out.push(b' ');
    let authority = head.uri.authority().map(|authority| authority.as_str().as_bytes());
    match (head.uri.path_and_query(), authority) {
        // RFC 9113 8.5: it names whom to connect to, and nothing else.
        (_, Some(authority)) if head.method == Method::CONNECT => out.extend_from_slice(authority),
        (Some(target), _) => out.extend_from_slice(target.as_str().as_bytes()),
        (None, _) => out.push(b'/'),
    }
    out.extend_from_slice(b" HTTP/1.1\r\n");
    if let Some(authority) = authority {
        line(out, "host", authority);
    }
    let mut cookies: Vec<&[u8]> = Vec::new();
    for (name, value) in &head.headers {
        let value = value.as_bytes();
        match *name {
            // RFC 9113 8.3.1: one that says the same is superfluous. One that does not stays, and
            // its reader finds two.
            header::HOST if authority.is_some_and(|said| said.eq_ignore_ascii_case(value)) => {}
            header::COOKIE => cookies.push(value),
            _ => line(out, name.as_str(), value),
        }
    }
    if !cookies.is_empty() {
        // RFC 9113 8.2.3.
        line(out, "cookie", &cookies.join(&b"; "[..]));
    }
    if has_body && !head.headers.contains_key(header::CONTENT_LENGTH) {
        line(out, "transfer-encoding", b"chunked");
    }
    out.extend_from_slice(b"\r\n");
}

fn line(out: &mut Vec<u8>, name: &str, value: &[u8]) {
    out.extend_from_slice(name.as_bytes());
    out.extend_from_slice(b": ");
    out.extend_from_slice(value);
    out.extend_from_slice(b"\r\n");
}

/// What ends a head, with the end of the line before.
static EMPTY_LINE: LazyLock<Finder<'_>> = LazyLock::new(|| Finder::new(b"\r\n\r\n"));

/// Where the head at the front of these bytes ends, if it does.
pub fn end_of_head(bytes: &[u8]) -> Option<usize> {
    EMPTY_LINE.find(bytes).map(|at| at + 4)
}

/// Reads the whole head of an answer that this server has written; `None`: it has not.
pub fn answer(head: &[u8]) -> Option<(StatusCode, HeaderMap, Ends)> {
    let status = StatusCode::from_bytes(head.get(9..12)?).ok()?;
    let lines = &head[memchr::memchr(b'\n', head)? + 1..];
    let mut map = fields::map(lines);
    let length = map.get(header::CONTENT_LENGTH).and_then(|value| value.to_str().ok());
    let ends = match length.and_then(|length| length.parse().ok()) {
        Some(length) => Ends::After(length),
        None if map.contains_key(header::TRANSFER_ENCODING) => Ends::Chunked,
        None => Ends::Open,
    };
    // RFC 9113 8.2.2.
    for name in OF_A_CONNECTION {
        map.remove(name);
    }
    Some((status, map, ends))
}

const OF_A_CONNECTION: [HeaderName; 5] = [
    header::CONNECTION,
    header::TRANSFER_ENCODING,
    header::UPGRADE,
    HeaderName::from_static("keep-alive"),
    HeaderName::from_static("proxy-connection"),
];

#[cfg(test)]
mod tests {
    use http::Request;

    use super::*;
    use crate::h1::Sin;
    use crate::h1::framing::BodyLength;
    use crate::h1::head::HeadLimits;
    use crate::h1::request::{self as requests, Joined};

    const LIMITS: HeadLimits = HeadLimits { head_bytes: 8192, target_bytes: 999, fields: 50 };

    fn restated(method: &str, uri: &str, fields: &[(&str, &str)], has_body: bool) -> Vec<u8> {
        let mut request = Request::builder().method(method).uri(uri);
        for (name, value) in fields {
            request = request.header(*name, *value);
        }
        let (parts, ()) = request.body(()).unwrap().into_parts();
        let mut out = Vec::new();
        super::request(&mut out, &parts, has_body);
        out
    }

    #[test]
    fn requests_are_read_as_their_like() {
        let rows: &[(&str, &str, &str, &[(&str, &str)], &str)] = &[
            ("a GET", "GET", "http://a/x?q", &[], "GET /x?q HTTP/1.1\r\nhost: a\r\n\r\n"),
            (
                "a Host that says the same is left out",
                "GET",
                "http://a:8/",
                &[("host", "A:8"), ("accept", "*/*")],
                "GET / HTTP/1.1\r\nhost: a:8\r\naccept: */*\r\n\r\n",
            ),
            (
                "cookies are joined",
                "GET",
                "http://a/",
                &[("cookie", "a=1"), ("cookie", "b=2")],
                "GET / HTTP/1.1\r\nhost: a\r\ncookie: a=1; b=2\r\n\r\n",
            ),
            (
                "without an authority",
                "GET",
                "/",
                &[("host", "a")],
                "GET / HTTP/1.1\r\nhost: a\r\n\r\n",
            ),
            ("a tunnel", "CONNECT", "a:1", &[], "CONNECT a:1 HTTP/1.1\r\nhost: a:1\r\n\r\n"),
        ];
        for (why, method, uri, fields, expected) in rows {
            let head = restated(method, uri, fields, false);
            assert_eq!(String::from_utf8_lossy(&head), *expected, "{why}");
        }
    }

    #[test]
    fn what_is_contradictory_is_refused_by_the_one_reader() {
        let sin = |uri, fields, has_body| {
            let head = restated("POST", uri, fields, has_body);
            requests::parse(&head, &Joined::default(), &LIMITS).map(|request| request.body)
        };
        assert_eq!(sin("http://a/", &[("host", "b")], false), Err(Sin::HostTwice));
        assert_eq!(sin("/", &[], false), Err(Sin::HostMissing));
        assert_eq!(sin("http://u@a/", &[], false), Err(Sin::HostSyntax));
        let twice = &[("content-length", "1"), ("content-length", "1")];
        assert_eq!(sin("http://a/", twice, true), Err(Sin::LengthTwice));
        assert_eq!(sin("http://a/", &[], true), Ok(BodyLength::Chunked));
        assert_eq!(sin("http://a/", &[("content-length", "7")], true), Ok(BodyLength::Exactly(7)));
        assert_eq!(sin("http://a/", &[], false), Ok(BodyLength::None));
    }

    #[test]
    fn answers_lose_what_was_their_connections() {
        let head =
            b"HTTP/1.1 404 Not Found\r\nDate: x\r\nContent-Length: 5\r\nConnection: close\r\n\r\n";
        assert_eq!(end_of_head(head), Some(head.len()));
        let (status, fields, ends) = answer(head).unwrap();
        assert_eq!((status, ends), (StatusCode::NOT_FOUND, Ends::After(5)));
        assert_eq!(fields.keys().collect::<Vec<_>>(), ["date", "content-length"]);
        let chunked = answer(b"HTTP/1.1 200 OK\r\nTransfer-Encoding: chunked\r\n\r\n").unwrap();
        assert_eq!((chunked.1.len(), chunked.2), (0, Ends::Chunked));
    }
}
