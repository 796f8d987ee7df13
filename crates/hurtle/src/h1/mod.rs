//! HTTP/1.1 messages (RFC 9112) as pure functions: bytes to values and values to bytes.
//! No socket, clock or file is known here; `serve` moves the bytes.

pub mod chunked;
pub mod error;
pub mod field;
pub mod fields;
pub mod forward;
pub mod framing;
pub mod head;
pub mod keep;
pub mod line;
mod lines;
pub mod reply;
pub mod request;
pub mod response;
pub mod restate;
pub mod section;
pub mod way;

pub use error::Sin;
