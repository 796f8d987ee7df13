//! The upstream that a request was assigned to, which counts it.

use std::rc::Rc;

use super::peer::Peer;
use crate::rt::Permit;

/// The upstream that has a request or a tunnel, which counts among its requests in flight.
pub(super) struct AssignedPeer {
    pub(super) number: usize,
    pub(super) peer: Rc<Peer>,
    /// `None`: the request has ended.
    place: Option<Place>,
}

/// A place among the requests of an upstream.
struct Place {
    peer: Rc<Peer>,
    /// Held for its `Drop`.
    _permit: Option<Permit>,
}

impl AssignedPeer {
    pub(super) fn new(number: usize, peer: &Rc<Peer>, permit: Option<Permit>) -> AssignedPeer {
        peer.in_flight.set(peer.in_flight.get() + 1);
        let place = Place { peer: Rc::clone(peer), _permit: permit };
        AssignedPeer { number, peer: Rc::clone(peer), place: Some(place) }
    }

    /// Makes the place free for another request.
    pub(super) fn leave(&mut self) {
        self.place = None;
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
