//! Serves a connection from its first byte to its last: HTTP/1.1, HTTP/2, HTTP/3, TLS, the
//! PROXY protocol.

mod answer;
pub(crate) mod h1;
pub(crate) mod h2;
pub(crate) mod h3;
mod multiplexed;
pub(crate) mod proxied;
pub(crate) mod secure;

use std::net::IpAddr;
use std::rc::Rc;

use crate::metrics::Protocol;
use crate::pipeline::Connection;
use crate::pipeline::worker::ConnectionSlot;
use crate::protocol::h1::H1;
use crate::transport::{Input, Transport};

/// Maximum time to read from a closed connection, so that its peer can read the response, and
/// maximum silence meanwhile, in milliseconds (RFC 9112 section 9.6).
const LINGER_MS_MAX: u64 = 30_000;
const LINGER_SILENCE_MS_MAX: u64 = 2_000;

/// Serves a cleartext connection to its end, with HTTP/1.1 or HTTP/2. `input` holds the bytes that
/// were already read.
pub(crate) async fn run<T: Transport>(
    io: T,
    input: Input,
    peer: Option<IpAddr>,
    slot: ConnectionSlot,
) {
    let slot = Rc::new(slot);
    slot.set_protocol(Some(Protocol::Http1));
    let connection = Connection::new(H1(io), input, peer, Rc::clone(&slot));
    if let Some((io, early)) = connection.run().await {
        Box::pin(h2::run(io, early, peer, slot)).await;
    }
}
