//! Parses an upstream's response head in one pass. Like `request` it refuses what two parsers could
//! frame differently: the second parser is the client's. The field lines of a response over HTTP/2
//! are parsed alike.

use std::fmt;

use http::StatusCode;

use super::field::{Field, FieldIndex};
use super::lines::{self, FieldLine};
use crate::request::ParseError;
use crate::request::fields::{begins_as, is_same};
use crate::request::framing::{BodyLength, Framing};
use crate::semantics::fields;

/// Maximum size of a response head, in bytes.
pub const HEAD_BYTES_MAX: usize = 64 << 10;

/// Maximum number of field lines.
pub const FIELDS_MAX: usize = 200;

/// A response head from an upstream.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct ResponseHead<'a> {
    /// The status, 100 to 599.
    pub status: StatusCode,
    /// The delimitation of the body. Responses to HEAD and some statuses have no body regardless.
    pub length: Length,
    /// The value of Content-Length, even if there is no body.
    pub content_length: Option<u64>,
    /// True if the connection may be reused.
    pub keep_alive: bool,
    /// The values of Connection, one per line.
    pub connection: Vec<&'a [u8]>,
    /// The value of Upgrade; `None` if there are two lines.
    pub upgrade: Option<&'a [u8]>,
    /// The file to send instead of the body, from X-Accel-Redirect, else X-Sendfile.
    pub file: Option<File<'a>>,
    /// `X-Accel-Buffering: no`: a slow client slows the upstream down.
    pub is_unbuffered: bool,
    /// The field lines, each ended by CRLF, and the empty line.
    pub field_lines: &'a [u8],
    /// Offsets of the fields for the client, as far as their names tell.
    public: FieldIndex,
}

/// The end of a response body.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum Length {
    /// The framing fields determine it.
    Framed(BodyLength),
    /// The end of the stream (RFC 9113 section 8.1).
    Frames,
    /// The end of the connection (RFC 9112 section 6.3, item 8).
    UntilClose,
}

/// A file named by an upstream.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum File<'a> {
    /// X-Accel-Redirect: a URL path.
    Accel(&'a [u8]),
    /// X-Sendfile: a URL path or a file-system path.
    Sendfile(&'a [u8]),
}

/// A malformed response head.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
#[allow(missing_docs)] // `Display` explains each variant.
pub enum ResponseError {
    StatusLine,
    BareLineFeed,
    FieldSyntax,
    HeadTooLarge,
    TooManyFields,
    Length,
    LengthAndCoding,
    Coding,
}

impl fmt::Display for ResponseError {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        f.write_str(match self {
            ResponseError::StatusLine => "its first line is not `HTTP/1.1 STATUS REASON`",
            ResponseError::BareLineFeed => "a line of its head ends in LF alone",
            ResponseError::FieldSyntax => "a header field is malformed",
            ResponseError::HeadTooLarge => "its head is too large",
            ResponseError::TooManyFields => "it has too many header fields",
            ResponseError::Length => "Content-Length is not one decimal number, written once",
            ResponseError::LengthAndCoding => "it has both Content-Length and Transfer-Encoding",
            ResponseError::Coding => "its transfer coding is not chunked, once, in HTTP/1.1",
        })
    }
}

impl std::error::Error for ResponseError {}

/// Searches for the end of a head in bytes that arrive in pieces; one per head.
#[derive(Clone, Copy, Debug, Default)]
pub struct Scan {
    seen: usize,
    line: usize,
}

impl Scan {
    /// Continues the search in `buf`, which holds the whole head so far. Returns the head's length
    /// when it is complete.
    ///
    /// # Errors
    /// `buf` cannot become an HTTP/1 response.
    pub fn advance(&mut self, buf: &[u8]) -> Result<Option<usize>, ResponseError> {
        if !buf.starts_with(b"HTTP/1.") && !b"HTTP/1.".starts_with(buf) {
            return Err(ResponseError::StatusLine);
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

/// Parses the field lines of a response over HTTP/2, each ended by CRLF, and the empty line.
/// `is_end`: neither a body nor trailers follow.
///
/// # Errors
/// The first violation found; nothing is repaired.
pub fn parse_lines(
    status: StatusCode,
    field_lines: &[u8],
    is_end: bool,
) -> Result<ResponseHead<'_>, ResponseError> {
    let (mut response, framing) = read(status, field_lines)?;
    response.content_length = framing.framing.length();
    response.length = if is_end { Length::Framed(BodyLength::None) } else { Length::Frames };
    response.keep_alive = true;
    Ok(response)
}

/// Reads the field lines. The framing is still to be decided.
fn read(
    status: StatusCode,
    field_lines: &[u8],
) -> Result<(ResponseHead<'_>, FieldState), ResponseError> {
    let mut response = ResponseHead {
        status,
        length: Length::UntilClose,
        content_length: None,
        keep_alive: false,
        connection: Vec::new(),
        upgrade: None,
        file: None,
        is_unbuffered: false,
        field_lines,
        public: FieldIndex::default(),
    };
    let mut seen = FieldState::default();
    let (mut rest, mut count) = (field_lines, 0);
    while let Some(FieldLine { name, value, rest: behind }) =
        lines::next(rest).map_err(to_response_error)?
    {
        count += 1;
        if count > FIELDS_MAX {
            return Err(ResponseError::TooManyFields);
        }
        let range = (field_lines.len() - rest.len(), field_lines.len() - behind.len());
        if !seen.field(&mut response, name, value)? && !response.public.push(range, name) {
            return Err(ResponseError::HeadTooLarge);
        }
        rest = behind;
    }
    Ok((response, seen))
}

impl<'a> ResponseHead<'a> {
    /// The fields for the client, except those that `connection` lists.
    pub(super) fn public(&self) -> impl Iterator<Item = Field<'a>> {
        self.public.fields(self.field_lines)
    }
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

#[derive(Default)]
struct FieldState {
    framing: Framing,
    close: bool,
    keep_alive: bool,
    upgrades: usize,
}

impl FieldState {
    /// Stores a field. `true` means that the client does not get it. Spellings of framing fields
    /// with `_` are withheld too, but do not frame the message.
    fn field<'a>(
        &mut self,
        response: &mut ResponseHead<'a>,
        name: &[u8],
        value: &'a [u8],
    ) -> Result<bool, ResponseError> {
        let is = |known: &str| is_same(name, known.as_bytes());
        let private = match name.len() {
            2 => is("te"),
            7 if is("upgrade") => {
                self.upgrades += 1;
                response.upgrade = Some(value).filter(|_| self.upgrades == 1);
                true
            }
            10 if is("connection") => {
                self.close |= fields::has_token(value, b"close");
                self.keep_alive |= fields::has_token(value, b"keep-alive");
                response.connection.push(value);
                true
            }
            10 if is("x-sendfile") => {
                if !matches!(response.file, Some(File::Accel(_))) {
                    response.file = Some(File::Sendfile(value));
                }
                true
            }
            10 => is("keep-alive"),
            14 if is("content-length") => {
                if !name.contains(&b'_') {
                    self.framing.content_length(value).map_err(to_response_error)?;
                }
                true
            }
            16 if is("x-accel-redirect") => {
                response.file = Some(File::Accel(value));
                true
            }
            16 => is("proxy-connection"),
            17 if is("transfer-encoding") => {
                if !name.contains(&b'_') {
                    self.framing.transfer_encoding(value).map_err(to_response_error)?;
                }
                true
            }
            17 if is("x-accel-buffering") => {
                response.is_unbuffered = value.eq_ignore_ascii_case(b"no");
                true
            }
            18 => is("proxy-authenticate"),
            _ => false,
        };
        let hidden = begins_as(name, b"x-")
            && (begins_as(name, b"x-accel-") || begins_as(name, b"x-sendfile"));
        Ok(private || hidden)
    }

    fn finish(self, response: &mut ResponseHead<'_>, http10: bool) -> Result<(), ResponseError> {
        response.content_length = self.framing.length();
        let framed = self.framing.is_present();
        let length = self.framing.finish(http10).map_err(to_response_error)?;
        response.length = if framed { Length::Framed(length) } else { Length::UntilClose };
        // RFC 9112 section 9.3.
        response.keep_alive = !self.close && (!http10 || self.keep_alive);
        Ok(())
    }
}

fn to_response_error(error: ParseError) -> ResponseError {
    match error {
        ParseError::LengthSyntax | ParseError::LengthTwice | ParseError::BodyTooLarge => {
            ResponseError::Length
        }
        ParseError::LengthAndCoding => ResponseError::LengthAndCoding,
        ParseError::FieldSyntax => ResponseError::FieldSyntax,
        ParseError::BareLineFeed => ResponseError::BareLineFeed,
        _ => ResponseError::Coding,
    }
}

#[cfg(test)]
mod tests {
    use super::*;
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
        #[test]
        fn any_bytes_any_split(
            tail in proptest::collection::vec(prop_oneof![any::<u8>(), Just(b'\r'), Just(b'\n')], 0..60),
            piece in 1_usize..9,
        ) {
            let bytes = [b"HTTP/1.1 200 OK\r\n".as_slice(), &tail].concat();
            prop_assert_eq!(stepped(&bytes, piece), stepped(&bytes, usize::MAX / 2));
            if let Ok(Some(end)) = stepped(&bytes, 1) {
                // Asserts only that no input causes a panic.
                let _ = parse(&bytes[..end]);
            }
        }
    }
}
