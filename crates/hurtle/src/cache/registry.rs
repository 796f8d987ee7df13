//! The caches of a server: each is made by the worker that comes first, and found by the others.

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
    /// None yet; each will hold so many descriptors at most.
    pub fn new(files_max: u64) -> Caches {
        Caches { all: Arc::default(), files_max }
    }

    /// The cache of a proxy; mounts that are configured alike share one. `None`: it has none.
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

    /// Forgets, in all of them, every key that is chosen; how many responses there were.
    pub fn purge(&self, chosen: impl Fn(&[u8]) -> bool) -> usize {
        let all = self.all.lock().unwrap_or_else(PoisonError::into_inner);
        all.iter().map(|(_, cache)| cache.purge(&chosen)).sum()
    }
}
