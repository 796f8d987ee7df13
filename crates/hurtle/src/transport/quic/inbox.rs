//! Datagrams that one endpoint of an address forwards to another, over bounded channels.

use std::net::{IpAddr, SocketAddr};
use std::sync::Arc;

use bytes::BytesMut;
use quinn_proto::EcnCodepoint;
use tokio::sync::mpsc;

use super::ids::ENDPOINTS_MAX;

/// Datagrams that wait for an endpoint; more are dropped, as a full socket buffer does.
const WAITING_MAX: usize = 256;

/// A datagram as a socket has received it.
#[derive(Debug)]
pub(super) struct Datagram {
    pub(super) from: SocketAddr,
    pub(super) local: Option<IpAddr>,
    pub(super) ecn: Option<EcnCodepoint>,
    pub(super) bytes: BytesMut,
}

/// The number of an endpoint among those of its address, and the means to reach the others.
#[derive(Clone, Debug)]
pub(crate) struct Peers {
    pub(super) number: usize,
    all: Arc<[mpsc::Sender<Datagram>]>,
}

/// The datagrams that other endpoints forward to one.
#[derive(Debug)]
pub(crate) struct Inbox {
    pub(super) peers: Peers,
    pub(super) receiver: mpsc::Receiver<Datagram>,
}

/// Connects `count` endpoints of one address.
pub(crate) fn inboxes(count: usize) -> Vec<Inbox> {
    let count = count.min(ENDPOINTS_MAX);
    let (all, receivers): (Vec<_>, Vec<_>) = (0..count).map(|_| mpsc::channel(WAITING_MAX)).unzip();
    let all: Arc<[_]> = all.into();
    let inbox =
        |(number, receiver)| Inbox { peers: Peers { number, all: Arc::clone(&all) }, receiver };
    receivers.into_iter().enumerate().map(inbox).collect()
}

impl Peers {
    /// `true` if `number` is another endpoint of the address.
    pub(super) fn is_other(&self, number: usize) -> bool {
        number != self.number && number < self.all.len()
    }

    /// Forwards a datagram. It is dropped if the other endpoint has too many or is closed.
    pub(super) fn forward(&self, number: usize, datagram: Datagram) {
        if let Some(other) = self.all.get(number) {
            let _ = other.try_send(datagram);
        }
    }
}
