//! HTTP/2 for the generator, over TLS or with prior knowledge (RFC 9113, 3.3). `peer` has the
//! protocol; encryption and sockets are those of HTTP/1.1. `multiplex` decides what is sent when.

mod connection;
mod frame;
mod hpack;
mod peer;
mod uploads;

pub(super) use connection::Connection;
pub use hpack::{Fields, request};
