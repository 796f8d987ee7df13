//! The number of connections of each client address. `server::admission` counts them.

use std::net::IpAddr;
use std::sync::{Arc, Mutex, MutexGuard, PoisonError};

use hashbrown::HashMap;

use crate::transport::address_key;

/// A client address has as many connections as it may.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(crate) struct TooManyConnectionsError;

/// The number of connections of each client address, shared by all workers. An IPv6 /64 counts as
/// one address.
#[derive(Clone, Debug)]
pub(crate) struct AddressCounts {
    max: usize,
    counts: Arc<Mutex<HashMap<u128, usize>>>,
}

impl AddressCounts {
    /// Creates counts that allow `max` connections for each address.
    pub(crate) fn new(max: usize) -> AddressCounts {
        AddressCounts { max, counts: Arc::default() }
    }

    /// Returns these counts with another limit.
    pub(crate) fn with_max(&self, max: usize) -> AddressCounts {
        AddressCounts { max, counts: Arc::clone(&self.counts) }
    }

    pub(crate) fn acquire(&self, peer: IpAddr) -> Result<AddressSlot, TooManyConnectionsError> {
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
pub(crate) struct AddressSlot {
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
