//! The request line (RFC 9112 section 3) and its method.

use crate::request::method::{METHOD_BYTES_MAX, Method};
use crate::request::{ParseError, PartialLine};
use crate::semantics::set::TOKEN;

/// Length in bytes of the other parts of a request line: two spaces, the version, CRLF.
pub(super) const REQUEST_LINE_REST: usize = 2 + "HTTP/1.1".len() + 2;

/// A parsed request line.
pub(super) struct RequestLine<'a> {
    pub(super) method: Method<'a>,
    pub(super) raw_target: &'a [u8],
    pub(super) http10: bool,
}

/// Parses the request line, which must be complete: `method SP request-target SP HTTP-version` with
/// single spaces (RFC 9112 section 3). Also returns the rest of the head.
pub(super) fn request_line<'a>(
    head: &'a [u8],
    target_bytes_max: usize,
) -> Result<(RequestLine<'a>, &'a [u8]), ParseError> {
    let (method, rest) = head.split_at(TOKEN.span(head));
    let rest = match rest {
        [b' ', rest @ ..] if !method.is_empty() => rest,
        [b'\n', ..] => return Err(ParseError::BareLineFeed),
        _ => return Err(ParseError::RequestLine),
    };
    // RFC 9112 section 3: the method is longer than any that is implemented.
    if method.len() > METHOD_BYTES_MAX {
        return Err(ParseError::MethodTooLong);
    }
    let target_end = rest.iter().position(|&b| matches!(b, b' ' | b'\n'));
    let (raw_target, rest) = rest.split_at(target_end.ok_or(ParseError::RequestLine)?);
    if rest[0] == b'\n' {
        let ended = raw_target.ends_with(b"\r");
        return Err(if ended { ParseError::RequestLine } else { ParseError::BareLineFeed });
    }
    if raw_target.is_empty() {
        return Err(ParseError::RequestLine);
    }
    if raw_target.len() > target_bytes_max {
        return Err(ParseError::TargetTooLong);
    }
    let (http10, rest) = version(&rest[1..])?;
    Ok((RequestLine { method: Method::from_token(method), raw_target, http10 }, rest))
}

/// Reads the front of a malformed or incomplete head.
pub fn partial_line(head: &[u8]) -> PartialLine<'_> {
    let end = head.iter().position(|&b| b == b'\n').unwrap_or(head.len());
    let line = head[..end].strip_suffix(b"\r").unwrap_or(&head[..end]);
    let (method, rest) = line.split_at(TOKEN.span(line));
    match rest.strip_prefix(b" ") {
        Some(rest) if !method.is_empty() && method.len() <= METHOD_BYTES_MAX => {
            let end = rest.iter().position(|&b| b == b' ').unwrap_or(rest.len());
            let (target, version) = rest.split_at(end);
            PartialLine { method, target, is_http11: version == b" HTTP/1.1" }
        }
        _ => PartialLine { target: line, ..PartialLine::default() },
    }
}

/// True if the version is HTTP/1.0; also returns the rest after the line.
fn version(rest: &[u8]) -> Result<(bool, &[u8]), ParseError> {
    // Fast path: nearly all requests.
    if let Some(rest) = rest.strip_prefix(b"HTTP/1.1\r\n") {
        return Ok((false, rest));
    }
    let end = rest.iter().position(|&b| b == b'\n').ok_or(ParseError::RequestLine)?;
    let version = rest[..end].strip_suffix(b"\r").ok_or(ParseError::BareLineFeed)?;
    Ok((is_http10(version)?, &rest[end + 1..]))
}

/// RFC 9112 section 2.3: a higher minor version is treated as the highest known one.
fn is_http10(version: &[u8]) -> Result<bool, ParseError> {
    match version {
        b"HTTP/1.1" => Ok(false),
        b"HTTP/1.0" => Ok(true),
        [b'H', b'T', b'T', b'P', b'/', major, b'.', minor]
            if major.is_ascii_digit() && minor.is_ascii_digit() =>
        {
            if *major == b'1' {
                Ok(false)
            } else {
                Err(ParseError::VersionUnsupported)
            }
        }
        _ => Err(ParseError::Version),
    }
}
