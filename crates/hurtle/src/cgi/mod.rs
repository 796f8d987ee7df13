//! CGI/1.1 (RFC 3875) as pure functions: a request as variables, and the head of an answer. FastCGI
//! applications get and give the same.

pub mod reply;
pub mod variables;

pub use reply::{ACCEL, Flaw, HEAD_BYTES_MAX, Head, SENDFILE, head_end};
pub use variables::{Asked, Script, Variables};
