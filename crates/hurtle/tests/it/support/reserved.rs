//! Addresses that nothing else on this machine gets. A port that was bound and is free again is
//! given to the next program that asks for any port, and then a connection is no longer refused.

use std::net::SocketAddr;
use std::sync::{Mutex, PoisonError};

use socket2::{Domain, Socket, Type};

/// The sockets of the addresses, which this process holds until it ends.
static HELD: Mutex<Vec<Socket>> = Mutex::new(Vec::new());

/// Returns a loopback address at which nothing listens. A server that is told this port can listen
/// there (SO_REUSEADDR, socket(7)), and until one does, connections are refused.
pub(crate) fn reserved_address() -> SocketAddr {
    let socket = Socket::new(Domain::IPV4, Type::STREAM, None).unwrap();
    socket.set_reuse_address(true).unwrap();
    socket.bind(&SocketAddr::from(([127, 0, 0, 1], 0)).into()).unwrap();
    let address = socket.local_addr().unwrap().as_socket().unwrap();
    HELD.lock().unwrap_or_else(PoisonError::into_inner).push(socket);
    address
}
