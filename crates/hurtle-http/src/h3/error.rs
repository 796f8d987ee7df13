//! Error codes (RFC 9114 section 8.1, RFC 9204 section 6) and errors.

use std::fmt;

/// An error code of HTTP/3 or QPACK (RFC 9114 section 8.1, RFC 9204 section 6).
#[derive(Clone, Copy, PartialEq, Eq, Hash)]
pub struct Code(pub u64);

impl Code {
    /// An orderly end: H3_NO_ERROR.
    pub const NO_ERROR: Code = Code(0x100);
    /// The peer broke a rule without a code of its own.
    pub const GENERAL_PROTOCOL_ERROR: Code = Code(0x101);
    /// The server failed: H3_INTERNAL_ERROR (RFC 9114 section 8.1).
    pub const INTERNAL_ERROR: Code = Code(0x102);
    /// The peer opened a stream that it must not open.
    pub const STREAM_CREATION_ERROR: Code = Code(0x103);
    /// A stream that the connection needs was closed.
    pub const CLOSED_CRITICAL_STREAM: Code = Code(0x104);
    /// A frame that is not allowed in this state or on this stream.
    pub const FRAME_UNEXPECTED: Code = Code(0x105);
    /// A frame with an invalid layout or size.
    pub const FRAME_ERROR: Code = Code(0x106);
    /// The peer causes excessive load.
    pub const EXCESSIVE_LOAD: Code = Code(0x107);
    /// A stream ID or push ID is used incorrectly.
    pub const ID_ERROR: Code = Code(0x108);
    /// The payload of SETTINGS is invalid.
    pub const SETTINGS_ERROR: Code = Code(0x109);
    /// The control stream does not begin with SETTINGS.
    pub const MISSING_SETTINGS: Code = Code(0x10a);
    /// The request was not processed, so the client may repeat it.
    pub const REQUEST_REJECTED: Code = Code(0x10b);
    /// The request or its response is no longer needed.
    pub const REQUEST_CANCELLED: Code = Code(0x10c);
    /// The stream ended before the request was complete.
    pub const REQUEST_INCOMPLETE: Code = Code(0x10d);
    /// The request is malformed.
    pub const MESSAGE_ERROR: Code = Code(0x10e);
    /// A tunnel's connection failed.
    pub const CONNECT_ERROR: Code = Code(0x10f);
    /// The request needs HTTP/1.1.
    pub const VERSION_FALLBACK: Code = Code(0x110);
    /// A field section cannot be decoded.
    pub const QPACK_DECOMPRESSION_FAILED: Code = Code(0x200);
    /// An instruction on the encoder stream is invalid.
    pub const QPACK_ENCODER_STREAM_ERROR: Code = Code(0x201);
    /// An instruction on the decoder stream is invalid.
    pub const QPACK_DECODER_STREAM_ERROR: Code = Code(0x202);
}

/// Names of the codes from 0x100, in order.
const HTTP: [&str; 17] = [
    "H3_NO_ERROR",
    "H3_GENERAL_PROTOCOL_ERROR",
    "H3_INTERNAL_ERROR",
    "H3_STREAM_CREATION_ERROR",
    "H3_CLOSED_CRITICAL_STREAM",
    "H3_FRAME_UNEXPECTED",
    "H3_FRAME_ERROR",
    "H3_EXCESSIVE_LOAD",
    "H3_ID_ERROR",
    "H3_SETTINGS_ERROR",
    "H3_MISSING_SETTINGS",
    "H3_REQUEST_REJECTED",
    "H3_REQUEST_CANCELLED",
    "H3_REQUEST_INCOMPLETE",
    "H3_MESSAGE_ERROR",
    "H3_CONNECT_ERROR",
    "H3_VERSION_FALLBACK",
];

/// Names of the codes from 0x200, in order.
const QPACK: [&str; 3] =
    ["QPACK_DECOMPRESSION_FAILED", "QPACK_ENCODER_STREAM_ERROR", "QPACK_DECODER_STREAM_ERROR"];

impl fmt::Debug for Code {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        fmt::Display::fmt(self, f)
    }
}

impl fmt::Display for Code {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        let name = match self.0 {
            0x100..0x200 => HTTP.get(self.0 as usize - 0x100),
            0x200..0x300 => QPACK.get(self.0 as usize - 0x200),
            _ => None,
        };
        match name {
            Some(name) => f.write_str(name),
            None => write!(f, "error code {:#x}", self.0),
        }
    }
}

/// The part of a connection that an error ends.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum Scope {
    /// One stream (RFC 9114 section 8).
    Stream,
    /// The whole connection (RFC 9114 section 8).
    Connection,
}

/// A violation of RFC 9114 or RFC 9204, or of a limit.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub struct Error {
    /// The code for RESET_STREAM, STOP_SENDING or CONNECTION_CLOSE.
    pub code: Code,
    /// The part that ends.
    pub scope: Scope,
    /// The violation, for logs and the reason phrase of CONNECTION_CLOSE.
    pub reason: &'static str,
}

impl Error {
    pub(super) const fn stream(code: Code, reason: &'static str) -> Error {
        Error { code, scope: Scope::Stream, reason }
    }

    pub(super) const fn connection(code: Code, reason: &'static str) -> Error {
        Error { code, scope: Scope::Connection, reason }
    }
}

impl fmt::Display for Error {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        write!(f, "{}: {}", self.code, self.reason)
    }
}

impl std::error::Error for Error {}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn names_of_codes() {
        let rows = [
            (Code::NO_ERROR, "H3_NO_ERROR"),
            (Code::REQUEST_REJECTED, "H3_REQUEST_REJECTED"),
            (Code::VERSION_FALLBACK, "H3_VERSION_FALLBACK"),
            (Code::QPACK_DECODER_STREAM_ERROR, "QPACK_DECODER_STREAM_ERROR"),
            (Code(0x111), "error code 0x111"),
            (Code(0), "error code 0x0"),
        ];
        for (code, name) in rows {
            assert_eq!(code.to_string(), name);
        }
    }
}
