//! The limits on connections: of one worker in all, and of each client address over all workers.
//! Also the shares of the process's descriptors.

use std::cell::{Cell, RefCell};
use std::net::IpAddr;
use std::rc::Rc;
use std::sync::{Arc, Mutex, MutexGuard, PoisonError};

use hashbrown::HashMap;
use rustix::process::{Resource, Rlimit, getrlimit, setrlimit};

use super::share;
use crate::config::Config;
use crate::transport::address_key;

/// Share of the process's descriptors that cached files may use: one in this many.
const CACHED_FILES_SHARE: usize = 4;

/// Share of the process's descriptors that each response cache may use: one in this many.
const CACHED_BODIES_SHARE: u64 = 16;

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

/// A client address has as many connections as it may.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(super) struct TooManyConnectionsError;

/// The number of connections of each client address, shared by all workers. An IPv6 /64 counts as
/// one address.
#[derive(Clone, Debug)]
pub(super) struct AddressCounts {
    max: usize,
    counts: Arc<Mutex<HashMap<u128, usize>>>,
}

impl AddressCounts {
    /// Creates counts that allow `max` connections for each address.
    pub(super) fn new(max: usize) -> AddressCounts {
        AddressCounts { max, counts: Arc::default() }
    }

    /// Returns these counts with another limit.
    pub(super) fn with_max(&self, max: usize) -> AddressCounts {
        AddressCounts { max, counts: Arc::clone(&self.counts) }
    }

    fn acquire(&self, peer: IpAddr) -> Result<AddressSlot, TooManyConnectionsError> {
        let key = address_key(peer);
        let mut counts = self.lock();
        let count = counts.entry(key).or_insert(0);
        if *count >= self.max {
            return Err(TooManyConnectionsError);
        }
        *count += 1;
        drop(counts);
        Ok(AddressSlot { counts: self.clone(), key })
    }

    /// Locks the counts, for a few instructions.
    fn lock(&self) -> MutexGuard<'_, HashMap<u128, usize>> {
        self.counts.lock().unwrap_or_else(PoisonError::into_inner)
    }
}

/// One counted connection of an address.
#[derive(Debug)]
pub(super) struct AddressSlot {
    counts: AddressCounts,
    key: u128,
}

impl Drop for AddressSlot {
    fn drop(&mut self) {
        let mut counts = self.counts.lock();
        if let Some(count) = counts.get_mut(&self.key) {
            *count -= 1;
            if *count == 0 {
                counts.remove(&self.key);
            }
        }
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

fn descriptors() -> usize {
    usize::try_from(descriptor_limit()).unwrap_or(usize::MAX)
}

/// Returns the number of descriptors that cached files may use.
pub(super) fn cached_descriptors() -> usize {
    descriptors() / CACHED_FILES_SHARE
}

/// Returns the number of descriptors that each response cache may use.
pub(super) fn cached_bodies() -> u64 {
    (descriptor_limit() / CACHED_BODIES_SHARE).max(1)
}

/// Raises the soft limit of descriptors to the hard limit; ignores a failure.
pub(super) fn raise_descriptor_limit() {
    let limit = getrlimit(Resource::Nofile);
    let raised = Rlimit { current: limit.maximum, maximum: limit.maximum };
    let _ = setrlimit(Resource::Nofile, raised);
}

/// Limit of descriptors of the process.
fn descriptor_limit() -> u64 {
    getrlimit(Resource::Nofile).current.unwrap_or(u64::MAX)
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
