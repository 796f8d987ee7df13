//! The caches of a server. The first worker that needs a cache creates it; the others share it.

use std::sync::atomic::{AtomicU64, Ordering::Relaxed};
use std::sync::{Arc, Mutex, PoisonError};

use super::Cache;
use crate::config;
use crate::disk::Disk;
use crate::metrics::CacheSnapshot;

/// All caches; clones share them.
#[derive(Clone, Debug)]
pub(crate) struct Caches {
    all: Arc<Mutex<Vec<(config::Proxy, Arc<Cache>)>>>,
    /// Evictions of caches that a reload has removed.
    former_evictions: Arc<AtomicU64>,
    files_max: u64,
}

impl Caches {
    /// Creates an empty registry. `files_max` limits the open descriptors of each cache.
    pub(crate) fn new(files_max: u64) -> Caches {
        Caches { all: Arc::default(), former_evictions: Arc::default(), files_max }
    }

    /// Returns the cache of a proxy; mounts with equal configurations share it. `None`: it has
    /// none.
    pub(crate) fn of(&self, proxy: &config::Proxy, disk: &Disk) -> Option<Arc<Cache>> {
        let config = proxy.cache.as_ref()?;
        let mut all = self.all.lock().unwrap_or_else(PoisonError::into_inner);
        if let Some((_, cache)) = all.iter().find(|(other, _)| other == proxy) {
            return Some(Arc::clone(cache));
        }
        let cache = Arc::new(Cache::new(config, disk, self.files_max));
        all.push((proxy.clone(), Arc::clone(&cache)));
        Some(cache)
    }

    /// Returns every cache with its proxy.
    pub(crate) fn all(&self) -> Vec<(config::Proxy, Arc<Cache>)> {
        self.all.lock().unwrap_or_else(PoisonError::into_inner).clone()
    }

    /// Adds up the sizes of all caches.
    pub(crate) fn snapshot(&self) -> CacheSnapshot {
        let all = self.all();
        let evictions = self.former_evictions.load(Relaxed);
        let mut snapshot = CacheSnapshot { evictions, ..CacheSnapshot::default() };
        all.iter().for_each(|(_, cache)| cache.add_to(&mut snapshot));
        snapshot
    }

    /// Removes the caches that no proxy uses.
    pub(crate) fn retain_used(&self) {
        let mut all = self.all.lock().unwrap_or_else(PoisonError::into_inner);
        all.retain(|(_, cache)| {
            let is_used = Arc::strong_count(cache) > 1;
            if !is_used {
                self.former_evictions.fetch_add(cache.evictions(), Relaxed);
            }
            is_used
        });
    }

    /// Removes every key that `chosen` selects from all caches. Returns the number of removed
    /// responses.
    pub(crate) fn purge(&self, chosen: impl Fn(&[u8]) -> bool) -> usize {
        let all = self.all.lock().unwrap_or_else(PoisonError::into_inner);
        all.iter().map(|(_, cache)| cache.purge(&chosen)).sum()
    }
}
