//! What the bytes of RFC 9110 and 9111 mean, as pure functions from bytes to values: no socket, no clock, no
//! file system. RFC 9112's framing is `h1`'s; acting on what is decided here is `files`' and
//! `serve`'s.

pub mod accept; // Accept-Encoding and Accept: which variant a client prefers
pub mod caching; // RFC 9111: what may be stored, and how long it is good
pub mod conditional; // the five preconditions and If-Range: whether to send, whether a part will do
pub mod date; // HTTP-date, written and read
pub mod decimal; // numbers and addresses, written
pub mod etag; // entity-tags and lists of them
pub mod fields; // comma lists and tokens
pub mod forwarded; // who a request is from when proxies brought it
pub mod glob; // path patterns of rules
pub mod host; // the Host field
pub mod media; // media types by file-name extension
pub mod priority; // Priority: what is sent first
pub mod range; // Range: which bytes are asked for
pub mod set; // sets of bytes, and how far they reach
pub mod structured; // Integers and Booleans of structured fields
pub mod target; // the request target, and the path it names
