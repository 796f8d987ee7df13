//! An upstream's response head: one pass from bytes to what a proxy has to know. As strict as
//! `request`: what two readers could frame differently is refused, since the second reader here is
//! the client.

use std::fmt;

use http::StatusCode;

use super::Sin;
use super::field::{Field, Places};
use super::fields::{begins_as, is_same};
use super::framing::{BodyLength, Framing};
use super::lines::{self, Field as Line};
use crate::semantics::fields;

/// A whole response head, in bytes.
pub const HEAD_BYTES_MAX: usize = 64 << 10;

/// Field lines in one.
pub const FIELDS_MAX: usize = 200;

/// A response head from an upstream.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct Reply<'a> {
    /// Its status; 100 to 599.
    pub status: StatusCode,
    /// Where its body ends, if it has one: HEAD and some statuses have none whatever it says.
    pub length: Length,
    /// The Content-Length field, said of a body that may not be there.
    pub content_length: Option<u64>,
    /// Whether the connection may be used again.
    pub keep_alive: bool,
    /// Values of Connection, one a line.
    pub connection: Vec<&'a [u8]>,
    /// Upgrade; two lines of it are as good as none.
    pub upgrade: Option<&'a [u8]>,
    /// The file it wants sent in its place: X-Accel-Redirect, else X-Sendfile.
    pub file: Option<File<'a>>,
    /// The field lines, each ended by CRLF, with the empty line.
    pub field_lines: &'a [u8],
    /// Where those are that its client may get, as far as their names tell.
    public: Places,
}

/// Where a response's body ends.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum Length {
    /// As its fields say.
    Framed(BodyLength),
    /// At the end of the connection (RFC 9112 6.3, item 8).
    UntilClose,
}

/// A file named by an upstream.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum File<'a> {
    /// X-Accel-Redirect: a URL path.
    Accel(&'a [u8]),
    /// X-Sendfile: a URL path, or a path of the file system.
    Sendfile(&'a [u8]),
}

/// What an upstream can do wrong in a response head.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
#[allow(missing_docs)]
pub enum Flaw {
    StatusLine,
    BareLineFeed,
    FieldSyntax,
    HeadTooLarge,
    TooManyFields,
    Length,
    LengthAndCoding,
    Coding,
}

impl fmt::Display for Flaw {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        f.write_str(match self {
            Flaw::StatusLine => "its first line is not `HTTP/1.1 STATUS REASON`",
            Flaw::BareLineFeed => "a line of its head ends in LF alone",
            Flaw::FieldSyntax => "a header field is malformed",
            Flaw::HeadTooLarge => "its head is too large",
            Flaw::TooManyFields => "it has too many header fields",
            Flaw::Length => "Content-Length is not one decimal number, written once",
            Flaw::LengthAndCoding => "it has both Content-Length and Transfer-Encoding",
            Flaw::Coding => "its transfer coding is not chunked, once, in HTTP/1.1",
        })
    }
}

impl std::error::Error for Flaw {}

/// Looks for the end of a head in bytes that come piece by piece; one per head.
#[derive(Clone, Copy, Debug, Default)]
pub struct Scan {
    seen: usize,
    line: usize,
}

impl Scan {
    /// Looks at what `buf` (the whole head so far) has got since the last call; the head's length
    /// once it is whole.
    ///
    /// # Errors
    /// What is no HTTP/1 response, as soon as that shows.
    pub fn advance(&mut self, buf: &[u8]) -> Result<Option<usize>, Flaw> {
        if !buf.starts_with(b"HTTP/1.") && !b"HTTP/1.".starts_with(buf) {
            return Err(Flaw::StatusLine);
        }
        while let Some(at) = memchr::memchr(b'\n', &buf[self.seen..]) {
            let lf = self.seen + at;
            if lf == 0 || buf[lf - 1] != b'\r' {
                return Err(Flaw::BareLineFeed);
            }
            let end = lf + 1;
            if lf - 1 == self.line {
                return if end > HEAD_BYTES_MAX { Err(Flaw::HeadTooLarge) } else { Ok(Some(end)) };
            }
            self.seen = end;
            self.line = end;
        }
        self.seen = buf.len();
        if buf.len() >= HEAD_BYTES_MAX { Err(Flaw::HeadTooLarge) } else { Ok(None) }
    }
}

/// Reads a whole head (`Scan` found its end).
///
/// # Errors
/// The first flaw found; nothing is repaired.
#[inline]
pub fn parse(head: &[u8]) -> Result<Reply<'_>, Flaw> {
    let ((status, http10), field_lines) = match head.strip_prefix(b"HTTP/1.1 200 OK\r\n") {
        // Most are.
        Some(rest) => ((StatusCode::OK, false), rest),
        None => {
            let line_end = memchr::memchr(b'\n', head).ok_or(Flaw::StatusLine)?;
            let line = head[..line_end].strip_suffix(b"\r").ok_or(Flaw::BareLineFeed)?;
            (status_line(line)?, &head[line_end + 1..])
        }
    };
    let mut reply = Reply {
        status,
        length: Length::UntilClose,
        content_length: None,
        keep_alive: false,
        connection: Vec::new(),
        upgrade: None,
        file: None,
        field_lines,
        public: Places::default(),
    };
    let mut seen = Seen::default();
    let (mut rest, mut count) = (field_lines, 0);
    while let Some(Line { name, value, rest: behind }) = lines::next(rest).map_err(flaw)? {
        count += 1;
        if count > FIELDS_MAX {
            return Err(Flaw::TooManyFields);
        }
        let place = (field_lines.len() - rest.len(), field_lines.len() - behind.len());
        if !seen.field(&mut reply, name, value)? && !reply.public.note(place, name) {
            return Err(Flaw::HeadTooLarge);
        }
        rest = behind;
    }
    seen.finish(&mut reply, http10)?;
    Ok(reply)
}

impl<'a> Reply<'a> {
    /// The fields that are the client's business, unless `connection` names them.
    pub(super) fn public(&self) -> impl Iterator<Item = Field<'a>> {
        self.public.fields(self.field_lines)
    }
}

/// RFC 9112 4: `HTTP-version SP status-code SP [ reason-phrase ]`; the last space is often left out
/// where there is no reason, and can be misread by nobody.
fn status_line(line: &[u8]) -> Result<(StatusCode, bool), Flaw> {
    let [b'H', b'T', b'T', b'P', b'/', b'1', b'.', minor @ b'0'..=b'9', b' ', rest @ ..] = line
    else {
        return Err(Flaw::StatusLine);
    };
    let (digits, reason) = rest.split_at_checked(3).ok_or(Flaw::StatusLine)?;
    let reason_ok = match reason {
        [] => true,
        [b' ', text @ ..] => text.iter().all(|&b| matches!(b, b'\t' | b' '..=b'~' | 0x80..)),
        _ => false,
    };
    // RFC 9110 15: no class beyond 5 is defined, and how an unknown one is framed is anyone's guess.
    let status = StatusCode::from_bytes(digits).ok().filter(|s| (100..600).contains(&s.as_u16()));
    match status {
        Some(status) if reason_ok => Ok((status, *minor == b'0')),
        _ => Err(Flaw::StatusLine),
    }
}

#[derive(Default)]
struct Seen {
    framing: Framing,
    close: bool,
    keep_alive: bool,
    upgrades: usize,
}

impl Seen {
    /// Takes a field; whether it is only this server's business. Those that frame a message are, in
    /// whatever spelling, but frame it in their own alone.
    fn field<'a>(
        &mut self,
        reply: &mut Reply<'a>,
        name: &[u8],
        value: &'a [u8],
    ) -> Result<bool, Flaw> {
        let is = |known: &str| is_same(name, known.as_bytes());
        let private = match name.len() {
            2 => is("te"),
            7 if is("upgrade") => {
                self.upgrades += 1;
                reply.upgrade = Some(value).filter(|_| self.upgrades == 1);
                true
            }
            10 if is("connection") => {
                self.close |= fields::has_token(value, b"close");
                self.keep_alive |= fields::has_token(value, b"keep-alive");
                reply.connection.push(value);
                true
            }
            10 if is("x-sendfile") => {
                if !matches!(reply.file, Some(File::Accel(_))) {
                    reply.file = Some(File::Sendfile(value));
                }
                true
            }
            10 => is("keep-alive"),
            14 if is("content-length") => {
                if !name.contains(&b'_') {
                    self.framing.content_length(value).map_err(flaw)?;
                }
                true
            }
            16 if is("x-accel-redirect") => {
                reply.file = Some(File::Accel(value));
                true
            }
            16 => is("proxy-connection"),
            17 if is("transfer-encoding") => {
                if !name.contains(&b'_') {
                    self.framing.transfer_encoding(value).map_err(flaw)?;
                }
                true
            }
            18 => is("proxy-authenticate"),
            _ => false,
        };
        let hidden = begins_as(name, b"x-")
            && (begins_as(name, b"x-accel-") || begins_as(name, b"x-sendfile"));
        Ok(private || hidden)
    }

    fn finish(self, reply: &mut Reply<'_>, http10: bool) -> Result<(), Flaw> {
        reply.content_length = self.framing.length();
        let framed = self.framing.is_said();
        let length = self.framing.finish(http10).map_err(flaw)?;
        reply.length = if framed { Length::Framed(length) } else { Length::UntilClose };
        // RFC 9112 9.3, as of requests.
        reply.keep_alive = !self.close && (!http10 || self.keep_alive);
        Ok(())
    }
}

fn flaw(sin: Sin) -> Flaw {
    match sin {
        Sin::LengthSyntax | Sin::LengthTwice => Flaw::Length,
        Sin::LengthAndCoding => Flaw::LengthAndCoding,
        Sin::FieldSyntax => Flaw::FieldSyntax,
        Sin::BareLineFeed => Flaw::BareLineFeed,
        _ => Flaw::Coding,
    }
}

#[cfg(test)]
mod tests {
    use super::*;
    use proptest::prelude::*;

    fn framed(fields: &str) -> Result<Length, Flaw> {
        parse(format!("HTTP/1.1 200 OK\r\n{fields}\r\n").as_bytes()).map(|reply| reply.length)
    }

    #[test]
    fn where_bodies_end() {
        use Length::{Framed, UntilClose};
        #[rustfmt::skip]
        let rows = [
            ("no field: the end of the connection", "", Ok(UntilClose)),
            ("a length", "Content-Length: 5\r\n", Ok(Framed(BodyLength::Exactly(5)))),
            ("none", "Content-Length: 0\r\n", Ok(Framed(BodyLength::None))),
            ("chunks", "Transfer-Encoding: chunked\r\n", Ok(Framed(BodyLength::Chunked))),
            ("both", "Content-Length: 5\r\nTransfer-Encoding: chunked\r\n", Err(Flaw::LengthAndCoding)),
            ("both, though empty", "Transfer-Encoding: chunked\r\nContent-Length: 0\r\n", Err(Flaw::LengthAndCoding)),
            ("two lengths that differ", "Content-Length: 5\r\nContent-Length: 6\r\n", Err(Flaw::Length)),
            ("two that do not", "Content-Length: 5\r\nContent-Length: 5\r\n", Err(Flaw::Length)),
            ("a list of lengths", "Content-Length: 5, 5\r\n", Err(Flaw::Length)),
            ("a sign", "Content-Length: +5\r\n", Err(Flaw::Length)),
            ("no number", "Content-Length: \r\n", Err(Flaw::Length)),
            ("a coding without an end", "Transfer-Encoding: gzip\r\n", Err(Flaw::Coding)),
            ("one before chunked", "Transfer-Encoding: gzip, chunked\r\n", Err(Flaw::Coding)),
            ("chunked twice", "Transfer-Encoding: chunked, chunked\r\n", Err(Flaw::Coding)),
            ("in two lines", "Transfer-Encoding: chunked\r\nTransfer-Encoding: chunked\r\n", Err(Flaw::Coding)),
            ("identity", "Transfer-Encoding: identity\r\n", Err(Flaw::Coding)),
            ("a space before the colon", "Content-Length : 5\r\n", Err(Flaw::FieldSyntax)),
            ("a folded line", "X: a\r\n Content-Length: 5\r\n", Err(Flaw::FieldSyntax)),
            ("a folded length", "Content-Length:\r\n 5\r\n", Err(Flaw::Length)),
            ("a NUL", "X: a\0b\r\n", Err(Flaw::FieldSyntax)),
            ("a CR in a value", "X: a\rContent-Length: 5\r\n", Err(Flaw::FieldSyntax)),
            ("no name", ": 5\r\n", Err(Flaw::FieldSyntax)),
        ];
        for (sentence, fields, expected) in rows {
            assert_eq!(framed(fields), expected, "{sentence}");
        }
        let http10 = b"HTTP/1.0 200 OK\r\nTransfer-Encoding: chunked\r\n\r\n";
        assert_eq!(parse(http10), Err(Flaw::Coding), "HTTP/1.0 has no chunks");
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
    fn what_a_proxy_asks() {
        let reply = parse(
            b"HTTP/1.1 200 OK\r\nConnection: X-A\r\nconnection: close\r\nX-Sendfile: /a\r\n\
              X-Accel-Redirect: /b\r\nX-Sendfile: /c\r\n\r\n",
        )
        .unwrap();
        assert_eq!(reply.connection, [b"X-A".as_slice(), b"close"]);
        assert!(!reply.keep_alive);
        assert_eq!(reply.file, Some(File::Accel(b"/b")), "the stricter name wins");
        assert!(parse(b"HTTP/1.1 200 OK\r\n\r\n").unwrap().keep_alive);
        assert!(!parse(b"HTTP/1.0 200 OK\r\n\r\n").unwrap().keep_alive);
    }

    fn stepped(bytes: &[u8], piece: usize) -> Result<Option<usize>, Flaw> {
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
            ("LF alone", b"HTTP/1.1 200 OK\n\n", Err(Flaw::BareLineFeed)),
            ("an empty line first", b"\r\nHTTP/1.1 200 OK\r\n\r\n", Err(Flaw::StatusLine)),
            ("HTTP/0.9", b"hello", Err(Flaw::StatusLine)),
            ("without end", &long, Err(Flaw::HeadTooLarge)),
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
                // Only that it does not panic: what it says, the tables say.
                let _ = parse(&bytes[..end]);
            }
        }
    }
}
