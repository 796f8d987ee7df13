//! The caches of a server. The first worker that needs a cache creates it, the others find it.

use std::sync::{Arc, Mutex, PoisonError};

use super::Cache;
use crate::config;
use crate::disk::Disk;

/// All caches; clones share them.
#[derive(Clone, Debug)]
pub struct Caches {
    all: Arc<Mutex<Vec<(config::Proxy, Arc<Cache>)>>>,
    files_max: u64,
}

impl Caches {
    /// An empty registry. `files_max`: descriptors that each cache may hold.
    pub fn new(files_max: u64) -> Caches {
        Caches { all: Arc::default(), files_max }
    }

    /// The cache of a proxy, shared by mounts with equal configurations. `None`: it has none.
    pub fn of(&self, proxy: &config::Proxy, disk: &Disk) -> Option<Arc<Cache>> {
        let config = proxy.cache.as_ref()?;
        let mut all = self.all.lock().unwrap_or_else(PoisonError::into_inner);
        if let Some((_, cache)) = all.iter().find(|(other, _)| other == proxy) {
            return Some(Arc::clone(cache));
        }
        let cache = Arc::new(Cache::new(config, disk, self.files_max));
        all.push((proxy.clone(), Arc::clone(&cache)));
        Some(cache)
    }

    /// Removes the caches that no proxy has any more.
    pub fn retain_used(&self) {
        let mut all = self.all.lock().unwrap_or_else(PoisonError::into_inner);
        all.retain(|(_, cache)| Arc::strong_count(cache) > 1);
    }

    /// Removes every chosen key from all caches. Returns the number of responses removed.
    pub fn purge(&self, chosen: impl Fn(&[u8]) -> bool) -> usize {
        let all = self.all.lock().unwrap_or_else(PoisonError::into_inner);
        all.iter().map(|(_, cache)| cache.purge(&chosen)).sum()
    }
}
