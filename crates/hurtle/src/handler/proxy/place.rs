//! A place among the requests in flight of an upstream.

use std::rc::Rc;

use super::peer::Peer;
use crate::rt::Permit;

/// The place of a request or a tunnel; it is free for another when this is dropped.
pub(super) struct Place {
    peer: Rc<Peer>,
    /// Held for its `Drop`.
    _permit: Option<Permit>,
}

impl Place {
    /// Takes a place at an upstream, with the permit of its limit.
    pub(super) fn new(peer: &Rc<Peer>, permit: Option<Permit>) -> Place {
        peer.in_flight.set(peer.in_flight.get() + 1);
        Place { peer: Rc::clone(peer), _permit: permit }
    }
}

impl Drop for Place {
    fn drop(&mut self) {
        self.peer.in_flight.set(self.peer.in_flight.get() - 1);
        if self.peer.is_http2() && self.peer.waiting.get() > 0 {
            self.peer.multiplexer.freed();
        }
    }
}
