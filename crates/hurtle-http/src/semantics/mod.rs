//! HTTP semantics (RFC 9110, RFC 9111) as pure functions from bytes to values: no socket, no clock,
//! no file system. Message framing is in [`h1`](crate::h1).

pub mod accept; // Accept-Encoding and Accept: content negotiation
pub mod cache_control; // cache directives: Cache-Control, CDN-Cache-Control
pub mod caching; // RFC 9111: storage and freshness of responses
pub mod conditional; // preconditions and If-Range
pub mod date; // HTTP-date
pub mod decimal; // numbers and addresses as text
pub mod etag; // entity-tags and lists of them
pub mod fields; // comma-separated lists and tokens
pub mod forwarded; // the client's address behind proxies
pub mod glob; // path patterns of rules
pub mod grpc; // calls of gRPC and their statuses
mod heuristics; // lifetimes of responses that give none
pub mod host; // the Host field
pub mod media; // media types by file-name extension
pub mod multipart; // multipart/form-data: the parts of a form
pub mod priority; // Priority: urgency of responses
pub mod range; // Range: parts of a representation
pub mod set; // sets of bytes
pub mod structured; // structured fields: Integers, Booleans, Dictionaries
pub mod target; // the request target and its decoded path
pub mod trace_context; // W3C Trace Context, and request IDs
