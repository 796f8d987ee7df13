//! The upstream that a request was assigned to, which counts it.

use std::rc::Rc;

use super::peer::Peer;
use crate::rt::Permit;

/// The upstream that has a request or a tunnel, which counts among its requests in flight.
pub(super) struct AssignedPeer {
    pub(super) number: usize,
    pub(super) peer: Rc<Peer>,
    /// Its place among the upstream's requests; held for its `Drop`.
    _permit: Option<Permit>,
}

impl AssignedPeer {
    pub(super) fn new(number: usize, peer: &Rc<Peer>, permit: Option<Permit>) -> AssignedPeer {
        peer.in_flight.set(peer.in_flight.get() + 1);
        AssignedPeer { number, peer: Rc::clone(peer), _permit: permit }
    }
}

impl Drop for AssignedPeer {
    fn drop(&mut self) {
        self.peer.in_flight.set(self.peer.in_flight.get() - 1);
        if self.peer.is_http2() && self.peer.waiting.get() > 0 {
            self.peer.multiplexer.freed();
        }
    }
}
