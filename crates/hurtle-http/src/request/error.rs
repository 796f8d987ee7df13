//! Errors in a request, and the status of each.

use std::fmt;

use http::StatusCode;

/// A request that violates RFC 9112 or exceeds a limit. The connection must be closed afterwards:
/// its framing can no longer be trusted.
#[derive(Clone, Copy, Debug, PartialEq, Eq, Hash)]
#[allow(missing_docs)] // `Display` explains each variant.
pub enum ParseError {
    RequestLine,
    MethodTooLong,
    Version,
    VersionUnsupported,
    Target,
    TargetTooLong,
    BareLineFeed,
    FieldSyntax,
    HeadTooLarge,
    TooManyFields,
    HostMissing,
    HostTwice,
    HostSyntax,
    LengthSyntax,
    LengthTwice,
    LengthAndCoding,
    CodingNotChunked,
    CodingUnknown,
    CodingInHttp10,
    ExpectationUnknown,
    ChunkSize,
    ChunkExtensionsTooLong,
    ChunkEnd,
    TrailersTooLarge,
    BodyTooLarge,
    BodyTooSlow,
    BodyIncomplete,
    HeadTooSlow,
    NotTls,
}

impl ParseError {
    /// The status of the error response (RFC 9110 section 15.5; RFC 6585 for 431).
    pub fn status(self) -> StatusCode {
        match self {
            ParseError::VersionUnsupported => StatusCode::HTTP_VERSION_NOT_SUPPORTED,
            ParseError::TargetTooLong => StatusCode::URI_TOO_LONG,
            ParseError::HeadTooLarge | ParseError::TooManyFields | ParseError::TrailersTooLarge => {
                StatusCode::REQUEST_HEADER_FIELDS_TOO_LARGE
            }
            ParseError::MethodTooLong | ParseError::CodingUnknown => StatusCode::NOT_IMPLEMENTED,
            ParseError::ExpectationUnknown => StatusCode::EXPECTATION_FAILED,
            ParseError::BodyTooLarge => StatusCode::PAYLOAD_TOO_LARGE,
            ParseError::BodyTooSlow | ParseError::HeadTooSlow => StatusCode::REQUEST_TIMEOUT,
            _ => StatusCode::BAD_REQUEST,
        }
    }
}

impl fmt::Display for ParseError {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        f.write_str(match self {
            ParseError::RequestLine => "the request line is not `METHOD TARGET HTTP/1.1`",
            ParseError::MethodTooLong => "the method is longer than any known method",
            ParseError::Version => "the protocol version is malformed",
            ParseError::VersionUnsupported => "only HTTP/1.0 and HTTP/1.1 are supported",
            ParseError::Target => "the request target is malformed",
            ParseError::TargetTooLong => "the request target is too long",
            ParseError::BareLineFeed => "a line ends in LF alone; lines end in CRLF",
            ParseError::FieldSyntax => "a header field is malformed",
            ParseError::HeadTooLarge => "the request head is too large",
            ParseError::TooManyFields => "the request has too many header fields",
            ParseError::HostMissing => "an HTTP/1.1 request needs a Host field",
            ParseError::HostTwice => "the request has more than one Host field",
            ParseError::HostSyntax => "the Host field is malformed",
            ParseError::LengthSyntax => "Content-Length is not one decimal number",
            ParseError::LengthTwice => "the request has more than one Content-Length",
            ParseError::LengthAndCoding => {
                "Content-Length and Transfer-Encoding exclude each other"
            }
            ParseError::CodingNotChunked => "the last transfer coding must be chunked, once",
            ParseError::CodingUnknown => "no transfer coding except chunked is supported",
            ParseError::CodingInHttp10 => "HTTP/1.0 has no Transfer-Encoding",
            ParseError::ExpectationUnknown => "the only supported expectation is 100-continue",
            ParseError::ChunkSize => "a chunk size is malformed",
            ParseError::ChunkExtensionsTooLong => "the chunk extensions are too long",
            ParseError::ChunkEnd => "a chunk does not end where its size says",
            ParseError::TrailersTooLarge => "the trailer section is too large",
            ParseError::BodyTooLarge => "the request body is too large",
            ParseError::BodyTooSlow => "the request body arrived too slowly",
            ParseError::BodyIncomplete => "the request body ended early",
            ParseError::HeadTooSlow => "the request head arrived too slowly",
            ParseError::NotTls => {
                "this port requires HTTPS, but the request is plain HTTP: use https://"
            }
        })
    }
}

impl std::error::Error for ParseError {}
