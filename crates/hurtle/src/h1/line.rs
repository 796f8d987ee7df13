//! The request line (RFC 9112 3), and the method in it.

use super::Sin;
use crate::semantics::set::Set;

/// The longest method that is looked at; longer ones are no method anybody registered.
pub const METHOD_BYTES_MAX: usize = 32;

/// What a request line has beside method and target: two spaces, the version, CRLF.
pub(super) const REQUEST_LINE_REST: usize = 2 + "HTTP/1.1".len() + 2;

/// A request's method; case matters (RFC 9110 9.1).
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
#[allow(missing_docs)]
pub enum Method<'a> {
    Get,
    Head,
    Options,
    /// Any other token.
    Other(&'a [u8]),
}

impl<'a> Method<'a> {
    fn from_token(token: &'a [u8]) -> Self {
        match token {
            b"GET" => Method::Get,
            b"HEAD" => Method::Head,
            b"OPTIONS" => Method::Options,
            other => Method::Other(other),
        }
    }

    /// As it was sent.
    pub fn as_bytes(&self) -> &'a [u8] {
        match self {
            Method::Get => b"GET",
            Method::Head => b"HEAD",
            Method::Options => b"OPTIONS",
            Method::Other(token) => token,
        }
    }

    /// Whether RFC 9110 or RFC 5789 defines it: 405 where it is not allowed, else 501.
    pub fn is_known(&self) -> bool {
        !matches!(self, Method::Other(token) if !matches!(
            *token, b"POST" | b"PUT" | b"DELETE" | b"PATCH" | b"CONNECT" | b"TRACE"))
    }
}

/// What a request line says.
pub(super) struct Line<'a> {
    pub(super) method: Method<'a>,
    pub(super) raw_target: &'a [u8],
    pub(super) http10: bool,
}

/// Reads the request line of a head that has at least that, and returns it with what follows: RFC
/// 9112 3, `method SP request-target SP HTTP-version`, single spaces.
pub(super) fn first<'a>(
    head: &'a [u8],
    target_bytes_max: usize,
) -> Result<(Line<'a>, &'a [u8]), Sin> {
    let (method, rest) = head.split_at(TOKEN.span(head));
    let rest = match rest {
        [b' ', rest @ ..] if !method.is_empty() => rest,
        [b'\n', ..] => return Err(Sin::BareLineFeed),
        _ => return Err(Sin::RequestLine),
    };
    // RFC 9112 3: longer than any that is implemented.
    if method.len() > METHOD_BYTES_MAX {
        return Err(Sin::MethodTooLong);
    }
    let target_end = rest.iter().position(|&b| matches!(b, b' ' | b'\n'));
    let (raw_target, rest) = rest.split_at(target_end.ok_or(Sin::RequestLine)?);
    if rest[0] == b'\n' {
        let ended = raw_target.ends_with(b"\r");
        return Err(if ended { Sin::RequestLine } else { Sin::BareLineFeed });
    }
    if raw_target.is_empty() {
        return Err(Sin::RequestLine);
    }
    if raw_target.len() > target_bytes_max {
        return Err(Sin::TargetTooLong);
    }
    let (http10, rest) = version(&rest[1..])?;
    Ok((Line { method: Method::from_token(method), raw_target, http10 }, rest))
}

/// Whether the rest of a line says that it is HTTP/1.0, and what follows the line.
fn version(rest: &[u8]) -> Result<(bool, &[u8]), Sin> {
    // Nearly all do.
    if let Some(rest) = rest.strip_prefix(b"HTTP/1.1\r\n") {
        return Ok((false, rest));
    }
    let end = rest.iter().position(|&b| b == b'\n').ok_or(Sin::RequestLine)?;
    let version = rest[..end].strip_suffix(b"\r").ok_or(Sin::BareLineFeed)?;
    Ok((is_http10(version)?, &rest[end + 1..]))
}

/// RFC 9112 2.3: a higher minor version is read as the highest one known.
fn is_http10(version: &[u8]) -> Result<bool, Sin> {
    match version {
        b"HTTP/1.1" => Ok(false),
        b"HTTP/1.0" => Ok(true),
        [b'H', b'T', b'T', b'P', b'/', major, b'.', minor]
            if major.is_ascii_digit() && minor.is_ascii_digit() =>
        {
            if *major == b'1' {
                Ok(false)
            } else {
                Err(Sin::VersionUnsupported)
            }
        }
        _ => Err(Sin::Version),
    }
}

/// What tokens are made of (RFC 9110 5.6.2).
pub(super) static TOKEN: Set = Set::alphanumeric_and(b"!#$%&'*+-.^_`|~");

/// Whether a token may hold it.
pub fn is_token(byte: u8) -> bool {
    TOKEN.holds(byte)
}
