//! HTTP/3 (RFC 9114) over QUIC for the generator: quinn-proto for QUIC, `peer` for responses.
//! `multiplex` decides what is sent when. QPACK's dynamic table is not offered to servers and not
//! used.

mod connection;
mod frame;
mod peer;
mod qpack;
mod quic;

pub(super) use connection::Connection;
pub use connection::reach;
pub use qpack::request;
pub(super) use quic::config;
