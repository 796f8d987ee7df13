//! HTTP/1.1 messages (RFC 9112) as pure functions: parses and encodes heads, framing and the
//! chunked coding. The caller moves the bytes.

pub mod chunked;
pub mod forward;
pub mod head;
mod line;
pub mod request;
pub mod response;
pub mod response_head;

pub use self::line::partial_line;
pub use crate::request::ParseError;
