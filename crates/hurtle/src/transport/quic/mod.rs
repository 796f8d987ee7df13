//! QUIC (RFC 9000) over UDP sockets: `quinn_proto` has the protocol, `quinn_udp` the system calls.
//!
//! Each worker has an [`Endpoint`] for each address. Connections belong to the endpoint that
//! accepted them. A datagram that the kernel gives to another endpoint of the address, because the
//! client's address has changed, is forwarded by its connection ID (see `ids`). `protocol` turns
//! streams into requests; `serve` enforces deadlines.

mod connection;
mod crypto;
mod endpoint;
mod ids;
mod inbox;
mod keys;
mod socket;
mod streams;

pub(crate) use self::connection::Connection;
pub(crate) use self::crypto::{LocalAddress, Negotiated, set_chooser};
pub(crate) use self::endpoint::{Endpoint, Verdict};
pub(crate) use self::inbox::{Inbox, inboxes};
pub(crate) use self::keys::{QuicSecret, Settings};
pub(crate) use self::socket::{BUFFER_BYTES, BufferSizes};
pub(crate) use self::streams::ReadError;
pub(crate) use quinn_proto::{ConnectionError, Dir, Event, StreamEvent, StreamId, VarInt};
