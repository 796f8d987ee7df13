//! What a client can do wrong in a message, and the one place where each sin gets its status.

use std::fmt;

use http::StatusCode;

/// A violation of RFC 9112, or of a limit, by the peer. After any of them the connection's framing
/// can no longer be trusted, so it is closed.
#[derive(Clone, Copy, Debug, PartialEq, Eq, Hash)]
#[allow(missing_docs)]
pub enum Sin {
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

impl Sin {
    /// The status that tells the client (RFC 9110 15.5, RFC 6585 for 431).
    pub fn status(self) -> StatusCode {
        match self {
            Sin::VersionUnsupported => StatusCode::HTTP_VERSION_NOT_SUPPORTED,
            Sin::TargetTooLong => StatusCode::URI_TOO_LONG,
            Sin::HeadTooLarge | Sin::TooManyFields | Sin::TrailersTooLarge => {
                StatusCode::REQUEST_HEADER_FIELDS_TOO_LARGE
            }
            Sin::MethodTooLong | Sin::CodingUnknown => StatusCode::NOT_IMPLEMENTED,
            Sin::ExpectationUnknown => StatusCode::EXPECTATION_FAILED,
            Sin::BodyTooLarge => StatusCode::PAYLOAD_TOO_LARGE,
            Sin::BodyTooSlow | Sin::HeadTooSlow => StatusCode::REQUEST_TIMEOUT,
            _ => StatusCode::BAD_REQUEST,
        }
    }
}

impl fmt::Display for Sin {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        f.write_str(match self {
            Sin::RequestLine => "the request line is not `METHOD TARGET HTTP/1.1`",
            Sin::MethodTooLong => "the method is longer than any known",
            Sin::Version => "the protocol version is malformed",
            Sin::VersionUnsupported => "only HTTP/1.0 and HTTP/1.1 are spoken here",
            Sin::Target => "the request target is malformed",
            Sin::TargetTooLong => "the request target is too long",
            Sin::BareLineFeed => "a line ends in LF alone; lines end in CRLF",
            Sin::FieldSyntax => "a header field is malformed",
            Sin::HeadTooLarge => "the request head is too large",
            Sin::TooManyFields => "the request has too many header fields",
            Sin::HostMissing => "an HTTP/1.1 request needs a Host field",
            Sin::HostTwice => "the request has more than one Host field",
            Sin::HostSyntax => "the Host field is malformed",
            Sin::LengthSyntax => "Content-Length is not one decimal number",
            Sin::LengthTwice => "the request has more than one Content-Length",
            Sin::LengthAndCoding => "Content-Length and Transfer-Encoding exclude each other",
            Sin::CodingNotChunked => "the last transfer coding must be chunked, once",
            Sin::CodingUnknown => "no transfer coding but chunked is understood here",
            Sin::CodingInHttp10 => "HTTP/1.0 has no Transfer-Encoding",
            Sin::ExpectationUnknown => "the only expectation understood is 100-continue",
            Sin::ChunkSize => "a chunk size is malformed",
            Sin::ChunkExtensionsTooLong => "the chunk extensions are too long",
            Sin::ChunkEnd => "a chunk does not end where its size says",
            Sin::TrailersTooLarge => "the trailer section is too large",
            Sin::BodyTooLarge => "the request body is too large",
            Sin::BodyTooSlow => "the request body came too slowly",
            Sin::BodyIncomplete => "the request body ended early",
            Sin::HeadTooSlow => "the request head came too slowly",
            Sin::NotTls => "this port speaks HTTPS, and was asked in plain HTTP: use https://",
        })
    }
}

impl std::error::Error for Sin {}
