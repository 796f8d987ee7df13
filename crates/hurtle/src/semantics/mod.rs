//! What the bytes of RFC 9110 mean, as pure functions from bytes to values: no socket, no clock, no
//! file system. RFC 9112's framing is `h1`'s; acting on what is decided here is `files`' and
//! `serve`'s.

pub mod date; // HTTP-date, written and read
pub mod fields; // comma lists and tokens
