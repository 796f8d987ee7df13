//! The messages of a stream, as HTTP/2 (RFC 9113) and HTTP/3 (RFC 9114) share them: field sections
//! and their validation, the parts of a body, priorities of streams that are not open yet.

use std::fmt;

use bytes::Bytes;

pub(crate) mod fields;
pub(crate) mod priority;
pub(crate) mod section;

pub use fields::{FieldSection, Fields};

/// The next part of a message's body.
#[derive(Debug, PartialEq, Eq)]
pub enum Body {
    /// Bytes, at least one.
    Data(Bytes),
    /// The trailers; `End` follows.
    Trailers(FieldSection),
    /// The body is complete.
    End,
    /// Data has not arrived yet; `Event::Readable` follows.
    NotYet,
}

/// The stream is closed: reset, or answered.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub struct StreamClosed;

impl fmt::Display for StreamClosed {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        f.write_str("the stream is closed")
    }
}

impl std::error::Error for StreamClosed {}
