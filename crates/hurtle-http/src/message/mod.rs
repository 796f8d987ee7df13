//! Messages in a form that no version of HTTP owns: the field lines of responses and of forwarded
//! requests, and the edits of a server and a proxy. [`h1`](crate::h1), [`h2`](crate::h2) and
//! [`h3`](crate::h3) encode and decode them.

mod field;
pub mod field_lines;
pub mod forward;
pub mod forwarded_headers;
mod forwarding_fields;
pub mod keep;
pub(crate) mod lines;
pub mod response;
pub mod response_head;
pub mod upstream_head;
