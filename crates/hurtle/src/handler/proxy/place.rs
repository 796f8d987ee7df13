//! A place among the requests in flight of an upstream.

use std::rc::{Rc, Weak};

use super::peer::Peer;
use crate::rt::Permit;

/// The place of a request or a tunnel; it is free for another when this is dropped. A tunnel may
/// last longer than the configuration of its upstream, whose health checks end with that.
pub(super) struct Place {
    peer: Weak<Peer>,
    /// Held for its `Drop`.
    _permit: Option<Permit>,
}

impl Place {
    /// Takes a place at an upstream, with the permit of its limit.
    pub(super) fn new(peer: &Rc<Peer>, permit: Option<Permit>) -> Place {
        peer.in_flight.set(peer.in_flight.get() + 1);
        Place { peer: Rc::downgrade(peer), _permit: permit }
    }
}

impl Drop for Place {
    fn drop(&mut self) {
        let Some(peer) = self.peer.upgrade() else { return };
        peer.in_flight.set(peer.in_flight.get() - 1);
        if peer.is_http2() && peer.waiting.get() > 0 {
            peer.multiplexer.freed();
        }
    }
}
