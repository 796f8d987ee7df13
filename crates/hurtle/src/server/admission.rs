//! The limits on connections of one worker.

use std::cell::{Cell, RefCell};
use std::net::IpAddr;
use std::rc::Rc;

use super::share;
use crate::config::Config;
use crate::services::address_counts::{AddressCounts, AddressSlot, TooManyConnectionsError};
use crate::services::descriptor_limit::{cached_descriptors, descriptors};

/// Descriptors reserved for listeners, logs, disk jobs and event loops, unless the limit is too
/// low.
const DESCRIPTORS_RESERVED: usize = 64;

/// The connection limits of one worker.
#[derive(Debug)]
pub(super) struct Admission {
    pub(super) connections_max: Cell<usize>,
    /// `None`: an address may have any number of connections.
    by_address: RefCell<Option<AddressCounts>>,
    /// Connections that are being rejected with a 503.
    pub(super) rejecting: Cell<usize>,
}

impl Admission {
    pub(super) fn new(connections_max: usize, by_address: Option<AddressCounts>) -> Rc<Admission> {
        Rc::new(Admission {
            connections_max: Cell::new(connections_max),
            by_address: RefCell::new(by_address),
            rejecting: Cell::new(0),
        })
    }

    /// Puts other limits in force, for later connections.
    pub(super) fn set_limits(&self, connections_max: usize, by_address: Option<AddressCounts>) {
        self.connections_max.set(connections_max);
        self.by_address.replace(by_address);
    }

    /// Counts a connection of this client until the slot is dropped.
    ///
    /// # Errors
    /// The client has as many connections as it may.
    pub(super) fn acquire(
        &self,
        peer: Option<IpAddr>,
    ) -> Result<Option<AddressSlot>, TooManyConnectionsError> {
        let by_address = self.by_address.borrow();
        let Some((counts, peer)) = by_address.as_ref().zip(peer) else { return Ok(None) };
        counts.acquire(peer).map(Some)
    }
}

/// Returns the number of connections that one worker accepts.
pub(super) fn connections_max(config: &Config) -> usize {
    let cached = cached_descriptors();
    let connections = config.limits.connections.unwrap_or(
        descriptors()
            .saturating_sub(cached)
            .saturating_sub(DESCRIPTORS_RESERVED.min(cached))
            .max(1),
    );
    share(connections, config.workers)
}

#[cfg(test)]
mod tests {
    use std::net::Ipv4Addr;

    use super::*;

    #[test]
    fn workers_share_the_count_of_an_address() {
        let counts = AddressCounts::new(2);
        let workers = [Admission::new(9, Some(counts.clone())), Admission::new(9, Some(counts))];
        let peer = Some(IpAddr::from(Ipv4Addr::LOCALHOST));
        let other = Some(IpAddr::from([192, 0, 2, 1]));
        let first = workers[0].acquire(peer).unwrap();
        let _second = workers[1].acquire(peer).unwrap();
        assert_eq!(workers[0].acquire(peer).unwrap_err(), TooManyConnectionsError);
        assert_eq!(workers[1].acquire(peer).unwrap_err(), TooManyConnectionsError);
        assert!(workers[1].acquire(other).is_ok(), "another address");
        assert!(workers[1].acquire(None).is_ok_and(|slot| slot.is_none()), "a unix socket");
        drop(first);
        assert!(workers[1].acquire(peer).is_ok(), "a connection has ended");
    }
}
