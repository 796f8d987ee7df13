//! The head of a CGI answer (RFC 3875 6): where it ends, and what it says in HTTP's terms.

use std::fmt;

use http::{HeaderMap, HeaderName, HeaderValue, StatusCode, header};

use crate::h1::fields::begins_as;

/// A longer head is refused; PHP's own limit for one line is less.
pub const HEAD_BYTES_MAX: usize = 64 << 10;

/// The same of its lines.
const FIELDS_MAX: usize = 200;

/// What an answer says before its body.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct Head {
    /// Final.
    pub status: StatusCode,
    /// Without what is the connection's, or the server's to say.
    pub fields: HeaderMap,
    /// The field that names the file to be sent in the answer's place: `ACCEL`, else `SENDFILE`.
    pub file: Option<(HeaderName, HeaderValue)>,
}

/// What an application names a file by: a URL path,
pub const ACCEL: HeaderName = HeaderName::from_static("x-accel-redirect");

/// or a URL path, or a path of the file system.
pub const SENDFILE: HeaderName = HeaderName::from_static("x-sendfile");

/// What makes bytes no head.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum Flaw {
    /// It does not end.
    Endless,
    /// A line that is no field.
    Line,
    /// Too many of them.
    Lines,
    /// A Status that is none.
    Status,
    /// Neither a type nor a status nor another place (RFC 3875 6.2).
    Empty,
}

impl fmt::Display for Flaw {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        f.write_str(match self {
            Flaw::Endless => "its head does not end",
            Flaw::Line => "its head holds a line that is no field",
            Flaw::Lines => "its head holds too many lines",
            Flaw::Status => "its Status is none",
            Flaw::Empty => "its head says neither Content-Type nor Status nor Location",
        })
    }
}

/// Where the head ends, the empty line included, if it does in `bytes`. Lines end in LF, or CR LF
/// (RFC 3875 6.1.2 leaves it to the system, and programs do as they like).
pub fn head_end(bytes: &[u8]) -> Option<usize> {
    let mut from = 0;
    loop {
        let end = from + memchr::memchr(b'\n', &bytes[from..])?;
        if matches!(&bytes[from..end], b"" | b"\r") {
            return Some(end + 1);
        }
        from = end + 1;
    }
}

impl Head {
    /// Reads a head, its empty line included.
    ///
    /// # Errors
    /// See `Flaw`.
    pub fn parse(bytes: &[u8]) -> Result<Head, Flaw> {
        let mut status = None;
        let mut fields = HeaderMap::new();
        let (mut accel, mut sendfile) = (None, None);
        for line in bytes.split(|&b| b == b'\n') {
            let line = line.strip_suffix(b"\r").unwrap_or(line);
            if line.is_empty() {
                continue;
            }
            let colon = memchr::memchr(b':', line).ok_or(Flaw::Line)?;
            let (name, value) = (&line[..colon], line[colon + 1..].trim_ascii());
            if name.eq_ignore_ascii_case(b"status") {
                status = Some(read_status(value)?);
                continue;
            }
            let name = HeaderName::from_bytes(name).map_err(|_| Flaw::Line)?;
            let value = HeaderValue::from_bytes(value).map_err(|_| Flaw::Line)?;
            if fields.len() >= FIELDS_MAX {
                return Err(Flaw::Lines);
            }
            if name == ACCEL {
                accel = Some((name, value));
            } else if name == SENDFILE {
                sendfile = Some((name, value));
            } else if !is_for_the_server(&name) {
                fields.append(name, value);
            }
        }
        let file = accel.or(sendfile);
        // RFC 3875 6.2.3 and 6.2.4: another place without a status is a redirect. So is one on this
        // server: whether it may be had is asked as for any other.
        let status = match status {
            Some(status) => status,
            None if fields.contains_key(header::LOCATION) => StatusCode::FOUND,
            None if fields.contains_key(header::CONTENT_TYPE) || file.is_some() => StatusCode::OK,
            None => return Err(Flaw::Empty),
        };
        let mut lengths = fields.get_all(header::CONTENT_LENGTH).iter();
        if let (Some(length), more) = (lengths.next(), lengths.next()) {
            let digits = length.as_bytes().iter().all(u8::is_ascii_digit);
            if more.is_some() || !digits || length.is_empty() {
                return Err(Flaw::Line);
            }
        }
        Ok(Head { status, fields, file })
    }
}

/// `404 Not Found`; the words are anybody's.
fn read_status(value: &[u8]) -> Result<StatusCode, Flaw> {
    let (digits, rest) = value.split_at_checked(3).ok_or(Flaw::Status)?;
    if !rest.is_empty() && !rest.starts_with(b" ") {
        return Err(Flaw::Status);
    }
    let status = StatusCode::from_bytes(digits).map_err(|_| Flaw::Status)?;
    if status.is_informational() || status.as_u16() > 599 { Err(Flaw::Status) } else { Ok(status) }
}

/// Fields of the connection, and those that servers take for orders: neither is for the client.
fn is_for_the_server(name: &HeaderName) -> bool {
    let text = name.as_str();
    *name == header::CONNECTION
        || *name == header::TRANSFER_ENCODING
        || *name == header::TE
        || *name == header::TRAILER
        || *name == header::UPGRADE
        || matches!(text, "keep-alive" | "proxy-connection")
        || begins_as(text.as_bytes(), b"x-accel-")
        || begins_as(text.as_bytes(), b"x-sendfile")
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn heads_are_read_and_what_is_none_is_told() {
        let table: [(&str, &str, Result<u16, Flaw>); 15] = [
            ("a document", "Content-Type: text/html\n\n", Ok(200)),
            ("with CR LF", "Content-Type: text/html\r\n\r\n", Ok(200)),
            ("a status", "Status: 404 Not Found\r\nContent-Type: a/b\r\n\r\n", Ok(404)),
            ("a status alone", "status:204\n\n", Ok(204)),
            ("another place", "Location: https://example.org/\n\n", Ok(302)),
            ("another place here", "Location: /there\n\n", Ok(302)),
            ("another place with a status", "Status: 301\nLocation: /there\n\n", Ok(301)),
            ("nothing", "\n", Err(Flaw::Empty)),
            ("nothing that says what it is", "X-A: b\n\n", Err(Flaw::Empty)),
            ("no field", "Content-Type: a/b\nhello\n\n", Err(Flaw::Line)),
            ("a name that is none", "a b: c\n\n", Err(Flaw::Line)),
            ("an interim status", "Status: 100\n\n", Err(Flaw::Status)),
            ("a strange status", "Status: 2000\n\n", Err(Flaw::Status)),
            ("a status in words", "Status: OK\n\n", Err(Flaw::Status)),
            (
                "two lengths",
                "Status: 200\nContent-Length: 1\nContent-Length: 2\n\n",
                Err(Flaw::Line),
            ),
        ];
        for (sentence, text, expected) in table {
            assert_eq!(head_end(text.as_bytes()), Some(text.len()), "{sentence}");
            let status = Head::parse(text.as_bytes()).map(|head| head.status.as_u16());
            assert_eq!(status, expected, "{sentence}");
        }
    }

    #[test]
    fn a_head_ends_at_its_empty_line_only() {
        for text in ["", "A: b", "A: b\n", "A: b\r\n", "A: b\r\n\r"] {
            assert_eq!(head_end(text.as_bytes()), None, "{text:?}");
        }
        assert_eq!(head_end(b"A: b\n\nC: d\n\n"), Some(6));
    }

    #[test]
    fn what_is_the_servers_stays_here_and_the_rest_is_kept_in_order() {
        let text = "Status: 200\nSet-Cookie: a\nSet-Cookie: b\nConnection: close\n\
                    Transfer-Encoding: chunked\nX-Sendfile: /etc/passwd\nX_Accel_Redirect: /a\n\n";
        let head = Head::parse(text.as_bytes()).unwrap();
        assert_eq!(head.fields.len(), 2);
        let cookies: Vec<_> = head.fields.get_all("set-cookie").iter().collect();
        assert_eq!(cookies, ["a", "b"]);
    }
}
