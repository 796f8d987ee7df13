//! A request's method (RFC 9110 section 9.1).

/// Maximum length of a method in bytes. All registered methods are shorter.
pub const METHOD_BYTES_MAX: usize = 32;

/// A request method, case-sensitive (RFC 9110 section 9.1).
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum Method<'a> {
    /// GET (RFC 9110 section 9.3.1).
    Get,
    /// HEAD (RFC 9110 section 9.3.2).
    Head,
    /// OPTIONS (RFC 9110 section 9.3.7).
    Options,
    /// Any other token.
    Other(&'a [u8]),
}

impl<'a> Method<'a> {
    /// Returns the method of a token (RFC 9110 section 9.1).
    pub fn from_token(token: &'a [u8]) -> Self {
        match token {
            b"GET" => Method::Get,
            b"HEAD" => Method::Head,
            b"OPTIONS" => Method::Options,
            other => Method::Other(other),
        }
    }

    /// The method as sent.
    pub fn as_bytes(&self) -> &'a [u8] {
        match self {
            Method::Get => b"GET",
            Method::Head => b"HEAD",
            Method::Options => b"OPTIONS",
            Method::Other(token) => token,
        }
    }

    /// True if RFC 9110 or RFC 5789 defines the method. If it is not allowed the status is 405,
    /// else 501.
    pub fn is_known(&self) -> bool {
        !matches!(self, Method::Other(token) if !matches!(
            *token, b"POST" | b"PUT" | b"DELETE" | b"PATCH" | b"CONNECT" | b"TRACE"))
    }
}
