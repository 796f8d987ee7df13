//! The request line (RFC 9112 3), and the method in it.

use super::Sin;

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

/// Reads the request line of a head that has at least that, and returns it with what follows.
pub(super) fn first<'a>(
    head: &'a [u8],
    target_bytes_max: usize,
) -> Result<(Line<'a>, &'a [u8]), Sin> {
    let line_end = memchr::memchr(b'\n', head).ok_or(Sin::RequestLine)?;
    let line = head[..line_end].strip_suffix(b"\r").ok_or(Sin::BareLineFeed)?;
    Ok((request_line(line, target_bytes_max)?, &head[line_end + 1..]))
}

/// RFC 9112 3: `method SP request-target SP HTTP-version`, single spaces.
fn request_line<'a>(line: &'a [u8], target_bytes_max: usize) -> Result<Line<'a>, Sin> {
    let method_end = line.iter().position(|&b| b == b' ').ok_or(Sin::RequestLine)?;
    let method = &line[..method_end];
    if method.is_empty() || !method.iter().all(|&b| is_token(b)) {
        return Err(Sin::RequestLine);
    }
    // RFC 9112 3: longer than any that is implemented.
    if method.len() > METHOD_BYTES_MAX {
        return Err(Sin::MethodTooLong);
    }
    let rest = &line[method_end + 1..];
    let target_end = memchr::memchr(b' ', rest).ok_or(Sin::RequestLine)?;
    let (raw_target, version) = (&rest[..target_end], &rest[target_end + 1..]);
    if raw_target.is_empty() {
        return Err(Sin::RequestLine);
    }
    if raw_target.len() > target_bytes_max {
        return Err(Sin::TargetTooLong);
    }
    Ok(Line { method: Method::from_token(method), raw_target, http10: is_http10(version)? })
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

/// RFC 9110 5.6.2.
pub const fn is_token(byte: u8) -> bool {
    matches!(
        byte,
        b'!' | b'#'
            | b'$'
            | b'%'
            | b'&'
            | b'\''
            | b'*'
            | b'+'
            | b'-'
            | b'.'
            | b'^'
            | b'_'
            | b'`'
            | b'|'
            | b'~'
    ) || byte.is_ascii_alphanumeric()
}
