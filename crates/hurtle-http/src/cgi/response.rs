//! The head of a CGI response (RFC 3875 section 6): finds its end and parses its fields.

use std::fmt;

use http::{HeaderMap, HeaderName, HeaderValue, StatusCode, header};

use crate::request::fields::begins_as;

/// Maximum size of a head, in bytes. PHP's own limit for one line is smaller.
pub const HEAD_BYTES_MAX: usize = 64 << 10;

/// Maximum number of fields in a head.
const FIELDS_MAX: usize = 200;

/// A parsed response head.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct Head {
    /// A final status, 200 to 599.
    pub status: StatusCode,
    /// The fields for the client, without those that control the connection or the server.
    pub fields: HeaderMap,
    /// The field that names a file to send instead of the body: `ACCEL`, else `SENDFILE`.
    pub file: Option<(HeaderName, HeaderValue)>,
    /// `X-Accel-Buffering: no`: a slow client slows the application down.
    pub is_unbuffered: bool,
}

/// Response field that names a file by its URL path.
pub const ACCEL: HeaderName = HeaderName::from_static("x-accel-redirect");

/// Response field that names a file by its URL path or by its file-system path.
pub const SENDFILE: HeaderName = HeaderName::from_static("x-sendfile");

/// A head that the server cannot accept.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum CgiError {
    /// The head is longer than [`HEAD_BYTES_MAX`], or the output ends within it.
    Endless,
    /// A line is not a field, or Content-Length is not one decimal number.
    Line,
    /// The head holds too many fields (more than 200).
    Lines,
    /// The Status field is not a final status code.
    Status,
    /// None of Content-Type, Status and Location is present (RFC 3875 section 6.2).
    Empty,
}

impl fmt::Display for CgiError {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        f.write_str(match self {
            CgiError::Endless => "its head does not end",
            CgiError::Line => "its head holds a malformed field",
            CgiError::Lines => "its head holds too many fields",
            CgiError::Status => "its Status is not a final status code",
            CgiError::Empty => "its head has none of Content-Type, Status and Location",
        })
    }
}

/// Length of the head in bytes, including its empty line; `None` if `bytes` does not hold the end.
/// Lines end in LF or CRLF: RFC 3875 section 6.1.2 leaves the choice to the system.
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
    /// Parses a head, including its empty line.
    ///
    /// # Errors
    /// [`CgiError`] names the first defect found.
    pub fn parse(bytes: &[u8]) -> Result<Head, CgiError> {
        let mut status = None;
        let mut fields = HeaderMap::new();
        let (mut accel, mut sendfile, mut is_unbuffered) = (None, None, false);
        for line in bytes.split(|&b| b == b'\n') {
            let line = line.strip_suffix(b"\r").unwrap_or(line);
            if line.is_empty() {
                continue;
            }
            let colon = memchr::memchr(b':', line).ok_or(CgiError::Line)?;
            let (name, value) = (&line[..colon], line[colon + 1..].trim_ascii());
            if name.eq_ignore_ascii_case(b"status") {
                status = Some(read_status(value)?);
                continue;
            }
            let name = HeaderName::from_bytes(name).map_err(|_| CgiError::Line)?;
            let value = HeaderValue::from_bytes(value).map_err(|_| CgiError::Line)?;
            if fields.len() >= FIELDS_MAX {
                return Err(CgiError::Lines);
            }
            if name == "x-accel-buffering" {
                is_unbuffered = value.as_bytes().eq_ignore_ascii_case(b"no");
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
        // RFC 3875 sections 6.2.3 and 6.2.4: Location without Status is a redirect. A local path is
        // redirected by the client too, so that its access rules are checked.
        let status = match status {
            Some(status) => status,
            None if fields.contains_key(header::LOCATION) => StatusCode::FOUND,
            None if fields.contains_key(header::CONTENT_TYPE) || file.is_some() => StatusCode::OK,
            None => return Err(CgiError::Empty),
        };
        let mut lengths = fields.get_all(header::CONTENT_LENGTH).iter();
        if let (Some(length), more) = (lengths.next(), lengths.next()) {
            let digits = length.as_bytes().iter().all(u8::is_ascii_digit);
            if more.is_some() || !digits || length.is_empty() {
                return Err(CgiError::Line);
            }
        }
        Ok(Head { status, fields, file, is_unbuffered })
    }
}

/// Parses `404 Not Found`; the reason phrase is ignored.
fn read_status(value: &[u8]) -> Result<StatusCode, CgiError> {
    let (digits, rest) = value.split_at_checked(3).ok_or(CgiError::Status)?;
    if !rest.is_empty() && !rest.starts_with(b" ") {
        return Err(CgiError::Status);
    }
    let status = StatusCode::from_bytes(digits).map_err(|_| CgiError::Status)?;
    if status.is_informational() || status.as_u16() > 599 {
        Err(CgiError::Status)
    } else {
        Ok(status)
    }
}

/// True for fields of the connection and for fields that instruct a server. The client gets
/// neither.
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
    fn heads_are_parsed_or_refused() {
        let table: [(&str, &str, Result<u16, CgiError>); 15] = [
            ("a document", "Content-Type: text/html\n\n", Ok(200)),
            ("with CR LF", "Content-Type: text/html\r\n\r\n", Ok(200)),
            ("a status", "Status: 404 Not Found\r\nContent-Type: a/b\r\n\r\n", Ok(404)),
            ("a status alone", "status:204\n\n", Ok(204)),
            ("another place", "Location: https://example.org/\n\n", Ok(302)),
            ("another place here", "Location: /there\n\n", Ok(302)),
            ("another place with a status", "Status: 301\nLocation: /there\n\n", Ok(301)),
            ("nothing", "\n", Err(CgiError::Empty)),
            ("nothing that says what it is", "X-A: b\n\n", Err(CgiError::Empty)),
            ("no field", "Content-Type: a/b\nhello\n\n", Err(CgiError::Line)),
            ("a name that is none", "a b: c\n\n", Err(CgiError::Line)),
            ("an interim status", "Status: 100\n\n", Err(CgiError::Status)),
            ("a strange status", "Status: 2000\n\n", Err(CgiError::Status)),
            ("a status in words", "Status: OK\n\n", Err(CgiError::Status)),
            (
                "two lengths",
                "Status: 200\nContent-Length: 1\nContent-Length: 2\n\n",
                Err(CgiError::Line),
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
    fn server_fields_are_dropped_and_the_rest_keeps_its_order() {
        let text = "Status: 200\nSet-Cookie: a\nSet-Cookie: b\nConnection: close\n\
                    Transfer-Encoding: chunked\nX-Sendfile: /etc/passwd\nX_Accel_Redirect: /a\n\n";
        let head = Head::parse(text.as_bytes()).unwrap();
        assert_eq!(head.fields.len(), 2);
        let cookies: Vec<_> = head.fields.get_all("set-cookie").iter().collect();
        assert_eq!(cookies, ["a", "b"]);
    }
}
