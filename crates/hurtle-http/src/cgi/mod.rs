//! CGI/1.1 (RFC 3875) as pure functions: the variables of a request, and the head of a response.
//! FastCGI applications receive the same variables and send the same heads.

pub mod response;
pub mod variables;

pub use response::{ACCEL, CgiError, HEAD_BYTES_MAX, Head, SENDFILE, head_end};
pub use variables::{RequestInfo, Script, Variables};
