//! HTTP/2 over TLS for the generator. `peer` has the protocol; encryption and sockets are those of
//! HTTP/1.1. `multiplex` decides what is sent when.

mod connection;
mod frame;
mod hpack;
mod peer;

pub(super) use connection::Connection;
pub use hpack::{Fields, request};
