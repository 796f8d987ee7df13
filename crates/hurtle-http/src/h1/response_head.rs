//! Parses an upstream's response head: its status line here, its fields as those of every version.

use std::sync::LazyLock;

use http::StatusCode;
use memchr::memmem::Finder;

use crate::message::response_head::{HEAD_BYTES_MAX, ResponseError, ResponseHead, read};

/// The empty line that ends a head, with the end of the line before it.
static END: LazyLock<Finder<'static>> = LazyLock::new(|| Finder::new(b"\r\n\r\n"));

/// Searches for the end of a head in bytes that arrive in pieces; one per head.
#[derive(Clone, Copy, Debug, Default)]
pub struct Scan {
    seen: usize,
    line: usize,
}

impl Scan {
    /// Continues the search in `buf`, which holds the whole head so far. Returns the head's length
    /// when it is complete. It may have lines that [`parse`] refuses.
    ///
    /// # Errors
    /// `buf` cannot become an HTTP/1 response.
    pub fn advance(&mut self, buf: &[u8]) -> Result<Option<usize>, ResponseError> {
        if !buf.starts_with(b"HTTP/1.") && !b"HTTP/1.".starts_with(buf) {
            return Err(ResponseError::StatusLine);
        }
        // Most heads arrive whole: one search is a third of one for each line.
        if self.seen == 0
            && let Some(at) = END.find(buf)
            && at + 4 <= HEAD_BYTES_MAX
        {
            return Ok(Some(at + 4));
        }
        while let Some(at) = memchr::memchr(b'\n', &buf[self.seen..]) {
            let lf = self.seen + at;
            if lf == 0 || buf[lf - 1] != b'\r' {
                return Err(ResponseError::BareLineFeed);
            }
            let end = lf + 1;
            if lf - 1 == self.line {
                return if end > HEAD_BYTES_MAX {
                    Err(ResponseError::HeadTooLarge)
                } else {
                    Ok(Some(end))
                };
            }
            self.seen = end;
            self.line = end;
        }
        self.seen = buf.len();
        if buf.len() >= HEAD_BYTES_MAX { Err(ResponseError::HeadTooLarge) } else { Ok(None) }
    }
}

/// Parses a complete head ([`Scan`] found its end).
///
/// # Errors
/// The first violation found; nothing is repaired.
pub fn parse(head: &[u8]) -> Result<ResponseHead<'_>, ResponseError> {
    let ((status, http10), field_lines) = match head.strip_prefix(b"HTTP/1.1 200 OK\r\n") {
        // Fast path: most responses.
        Some(rest) => ((StatusCode::OK, false), rest),
        None => {
            let line_end = memchr::memchr(b'\n', head).ok_or(ResponseError::StatusLine)?;
            let line = head[..line_end].strip_suffix(b"\r").ok_or(ResponseError::BareLineFeed)?;
            (status_line(line)?, &head[line_end + 1..])
        }
    };
    let (mut response, framing) = read(status, field_lines)?;
    framing.finish(&mut response, http10)?;
    Ok(response)
}

/// Parses `HTTP-version SP status-code SP [ reason-phrase ]` (RFC 9112 section 4). Many servers
/// omit the last space if there is no reason; that is unambiguous.
fn status_line(line: &[u8]) -> Result<(StatusCode, bool), ResponseError> {
    let [b'H', b'T', b'T', b'P', b'/', b'1', b'.', minor @ b'0'..=b'9', b' ', rest @ ..] = line
    else {
        return Err(ResponseError::StatusLine);
    };
    let (digits, reason) = rest.split_at_checked(3).ok_or(ResponseError::StatusLine)?;
    let reason_ok = match reason {
        [] => true,
        [b' ', text @ ..] => text.iter().all(|&b| matches!(b, b'\t' | b' '..=b'~' | 0x80..)),
        _ => false,
    };
    // RFC 9110 section 15 defines no class beyond 5, so the framing of such a status is unknown.
    let status = StatusCode::from_bytes(digits).ok().filter(|s| (100..600).contains(&s.as_u16()));
    match status {
        Some(status) if reason_ok => Ok((status, *minor == b'0')),
        _ => Err(ResponseError::StatusLine),
    }
}

#[cfg(test)]
mod tests {
    use super::*;
    use crate::message::response_head::{File, Length};
    use crate::request::BodyLength;
    use proptest::prelude::*;

    fn framed(fields: &str) -> Result<Length, ResponseError> {
        parse(format!("HTTP/1.1 200 OK\r\n{fields}\r\n").as_bytes()).map(|response| response.length)
    }

    #[test]
    fn bodies_end_by_their_framing() {
        use Length::{Framed, UntilClose};
        #[rustfmt::skip]
        let rows = [
            ("no field: the end of the connection", "", Ok(UntilClose)),
            ("a length", "Content-Length: 5\r\n", Ok(Framed(BodyLength::Exactly(5)))),
            ("none", "Content-Length: 0\r\n", Ok(Framed(BodyLength::None))),
            ("chunks", "Transfer-Encoding: chunked\r\n", Ok(Framed(BodyLength::Chunked))),
            ("both", "Content-Length: 5\r\nTransfer-Encoding: chunked\r\n", Err(ResponseError::LengthAndCoding)),
            ("both, though empty", "Transfer-Encoding: chunked\r\nContent-Length: 0\r\n", Err(ResponseError::LengthAndCoding)),
            ("two lengths that differ", "Content-Length: 5\r\nContent-Length: 6\r\n", Err(ResponseError::Length)),
            ("two that do not", "Content-Length: 5\r\nContent-Length: 5\r\n", Err(ResponseError::Length)),
            ("a list of lengths", "Content-Length: 5, 5\r\n", Err(ResponseError::Length)),
            ("a sign", "Content-Length: +5\r\n", Err(ResponseError::Length)),
            ("no number", "Content-Length: \r\n", Err(ResponseError::Length)),
            ("a coding without an end", "Transfer-Encoding: gzip\r\n", Err(ResponseError::Coding)),
            ("one before chunked", "Transfer-Encoding: gzip, chunked\r\n", Err(ResponseError::Coding)),
            ("chunked twice", "Transfer-Encoding: chunked, chunked\r\n", Err(ResponseError::Coding)),
            ("in two lines", "Transfer-Encoding: chunked\r\nTransfer-Encoding: chunked\r\n", Err(ResponseError::Coding)),
            ("identity", "Transfer-Encoding: identity\r\n", Err(ResponseError::Coding)),
            ("a space before the colon", "Content-Length : 5\r\n", Err(ResponseError::FieldSyntax)),
            ("a folded line", "X: a\r\n Content-Length: 5\r\n", Err(ResponseError::FieldSyntax)),
            ("a folded length", "Content-Length:\r\n 5\r\n", Err(ResponseError::Length)),
            ("a NUL", "X: a\0b\r\n", Err(ResponseError::FieldSyntax)),
            ("a CR in a value", "X: a\rContent-Length: 5\r\n", Err(ResponseError::FieldSyntax)),
            ("no name", ": 5\r\n", Err(ResponseError::FieldSyntax)),
        ];
        for (sentence, fields, expected) in rows {
            assert_eq!(framed(fields), expected, "{sentence}");
        }
        let http10 = b"HTTP/1.0 200 OK\r\nTransfer-Encoding: chunked\r\n\r\n";
        assert_eq!(parse(http10), Err(ResponseError::Coding), "HTTP/1.0 has no chunks");
    }

    #[test]
    fn status_lines() {
        for (sentence, line, expected) in [
            ("the usual", "HTTP/1.1 200 OK", Some(200)),
            ("no reason", "HTTP/1.1 204 ", Some(204)),
            ("nor its space", "HTTP/1.1 204", Some(204)),
            ("a reason of several words", "HTTP/1.1 404 Not Found", Some(404)),
            ("an unknown status of a class", "HTTP/1.1 599 x", Some(599)),
            ("HTTP/1.0", "HTTP/1.0 200 OK", Some(200)),
            ("another protocol", "ICY 200 OK", None),
            ("another version", "HTTP/2.0 200 OK", None),
            ("two spaces", "HTTP/1.1  200 OK", None),
            ("two digits", "HTTP/1.1 20 OK", None),
            ("four digits", "HTTP/1.1 2000 OK", None),
            ("no class", "HTTP/1.1 099 x", None),
            ("beyond the classes", "HTTP/1.1 600 x", None),
            ("a control byte in the reason", "HTTP/1.1 200 a\rb", None),
            ("HTTP/0.9", "hello", None),
        ] {
            let status = parse(format!("{line}\r\n\r\n").as_bytes()).map(|r| r.status.as_u16());
            assert_eq!(status.ok(), expected, "{sentence}");
        }
    }

    #[test]
    fn fields_a_proxy_needs() {
        let response = parse(
            b"HTTP/1.1 200 OK\r\nConnection: X-A\r\nconnection: close\r\nX-Sendfile: /a\r\n\
              X-Accel-Redirect: /b\r\nX-Sendfile: /c\r\n\r\n",
        )
        .unwrap();
        assert_eq!(response.connection, [b"X-A".as_slice(), b"close"]);
        assert!(!response.keep_alive);
        assert_eq!(response.file, Some(File::Accel(b"/b")), "the stricter name wins");
        assert!(parse(b"HTTP/1.1 200 OK\r\n\r\n").unwrap().keep_alive);
        assert!(!parse(b"HTTP/1.0 200 OK\r\n\r\n").unwrap().keep_alive);
    }

    fn stepped(bytes: &[u8], piece: usize) -> Result<Option<usize>, ResponseError> {
        let mut scan = Scan::default();
        let mut last = Ok(None);
        for end in (0..bytes.len()).step_by(piece).skip(1).chain([bytes.len()]) {
            last = scan.advance(&bytes[..end]);
            if last != Ok(None) {
                break;
            }
        }
        last
    }

    #[test]
    fn a_head_ends_at_its_empty_line() {
        let long = [b"HTTP/1.1 200 OK\r\nA: ".as_slice(), &b"b".repeat(HEAD_BYTES_MAX)].concat();
        for (sentence, bytes, expected) in [
            ("whole", b"HTTP/1.1 200 OK\r\nA: b\r\n\r\nHTTP".as_slice(), Ok(Some(25))),
            ("without its empty line", b"HTTP/1.1 200 OK\r\nA: b\r\n", Ok(None)),
            ("LF alone", b"HTTP/1.1 200 OK\n\n", Err(ResponseError::BareLineFeed)),
            ("an empty line first", b"\r\nHTTP/1.1 200 OK\r\n\r\n", Err(ResponseError::StatusLine)),
            ("HTTP/0.9", b"hello", Err(ResponseError::StatusLine)),
            ("without end", &long, Err(ResponseError::HeadTooLarge)),
        ] {
            for piece in [1, 2, 7, usize::MAX / 2] {
                assert_eq!(stepped(bytes, piece), expected, "{sentence}, by {piece}");
            }
        }
    }

    proptest! {
        /// An error may be found by the search, or only in the whole head.
        #[test]
        fn any_bytes_any_split(
            tail in proptest::collection::vec(prop_oneof![any::<u8>(), Just(b'\r'), Just(b'\n')], 0..60),
            piece in 1_usize..9,
        ) {
            let bytes = [b"HTTP/1.1 200 OK\r\n".as_slice(), &tail].concat();
            let read = |piece| match stepped(&bytes, piece) {
                Ok(Some(end)) => parse(&bytes[..end]).map(Some).map_err(drop),
                Ok(None) => Ok(None),
                Err(_) => Err(()),
            };
            prop_assert_eq!(read(piece), read(usize::MAX / 2));
        }
    }
}
