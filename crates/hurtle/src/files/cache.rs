//! The file cache of one worker, bounded in bytes and descriptors. It evicts by second chance and
//! needs no locks. While it is full, only files that were requested lately get in, so that files
//! which are requested once displace none (the doorkeeper of TinyLFU, Einziger et al. 2017).

mod doorkeeper;

use std::collections::VecDeque;
use std::hash::BuildHasher as _;
use std::rc::Rc;

use hashbrown::{Equivalent, HashMap};

use self::doorkeeper::Doorkeeper;
use super::Entry;
use crate::metrics::WorkerMetrics;

/// A requested path in a site. Each encoding of a path has its own entry, which saves decoding it
/// for each request.
#[derive(Clone, Copy, Debug, PartialEq, Eq, Hash)]
pub(crate) struct Key<'a> {
    /// The number of the site, or of its internal files (`site::Sites::keys`).
    pub site: usize,
    /// The path of the request target, as sent.
    pub path: &'a [u8],
}

#[derive(Debug, PartialEq, Eq, Hash)]
struct OwnedKey {
    site: usize,
    path: Box<[u8]>,
}

impl Equivalent<OwnedKey> for Key<'_> {
    fn equivalent(&self, key: &OwnedKey) -> bool {
        self.site == key.site && *self.path == *key.path
    }
}

type Entries = HashMap<Rc<OwnedKey>, Rc<Entry>>;

/// The cache of one worker.
#[derive(Debug)]
pub(crate) struct Cache {
    entries: Entries,
    /// Keys in order of insertion; eviction starts with the oldest. Keys of removed entries stay
    /// until half of them are such.
    order: VecDeque<Rc<OwnedKey>>,
    bytes: usize,
    descriptors: usize,
    bytes_max: usize,
    descriptors_max: usize,
    evictions: u64,
    doorkeeper: Doorkeeper,
}

impl Equivalent<Rc<OwnedKey>> for Key<'_> {
    fn equivalent(&self, key: &Rc<OwnedKey>) -> bool {
        self.equivalent(&**key)
    }
}

impl Cache {
    /// Creates an empty cache with these limits.
    pub(crate) fn new(bytes_max: usize, descriptors_max: usize) -> Cache {
        Cache {
            entries: HashMap::new(),
            order: VecDeque::new(),
            bytes: 0,
            descriptors: 0,
            bytes_max,
            descriptors_max,
            evictions: 0,
            doorkeeper: Doorkeeper::new(descriptors_max),
        }
    }

    pub(super) fn publish(&self, metrics: &WorkerMetrics) {
        metrics.files.evictions.set(self.evictions);
        metrics.files.entries.set(self.entries.len() as u64);
        metrics.files.bytes.set(self.bytes as u64);
        metrics.files.descriptors.set(self.descriptors as u64);
    }

    /// Returns an entry of any age.
    pub(crate) fn get(&self, key: Key<'_>) -> Option<&Rc<Entry>> {
        let entry = self.entries.get(&key)?;
        entry.used.set(true);
        Some(entry)
    }

    /// Inserts or replaces an entry, after evicting others, and returns it. `None`: it is larger
    /// than the cache, or would displace another and was not requested lately.
    pub(crate) fn insert(&mut self, key: Key<'_>, entry: Entry) -> Option<&Rc<Entry>> {
        self.remove(key);
        let (bytes, descriptors) = (entry.cost() + key.path.len(), entry.descriptors());
        let is_full = self.bytes + bytes > self.bytes_max
            || self.descriptors + descriptors > self.descriptors_max;
        if is_full && !self.doorkeeper.admits(self.entries.hasher().hash_one(key)) {
            return None;
        }
        while self.bytes + bytes > self.bytes_max
            || self.descriptors + descriptors > self.descriptors_max
        {
            if !self.evict_one() {
                return None;
            }
        }
        let owned = Rc::new(OwnedKey { site: key.site, path: key.path.into() });
        self.bytes += bytes;
        self.descriptors += descriptors;
        self.order.push_back(Rc::clone(&owned));
        Some(self.entries.entry(owned).insert(Rc::new(entry)).into_mut())
    }

    /// Removes the entry of a path.
    pub(crate) fn remove(&mut self, key: Key<'_>) {
        if let Some((owned, entry)) = self.entries.remove_entry(&key) {
            self.bytes -= entry.cost() + owned.path.len();
            self.descriptors -= entry.descriptors();
            if self.order.len() > 2 * self.entries.len() {
                self.forget_removed();
            }
        }
    }

    /// Removes the keys of removed entries from the order.
    fn forget_removed(&mut self) {
        let entries = &self.entries;
        self.order.retain(|key| current(entries, key).is_some());
    }

    /// Removes the entries of sites that `keeps` refuses.
    pub(crate) fn retain_sites(&mut self, keeps: impl Fn(usize) -> bool) {
        let (bytes, descriptors) = (&mut self.bytes, &mut self.descriptors);
        self.entries.retain(|key, entry| {
            let stays = keeps(key.site);
            if !stays {
                *bytes -= entry.cost() + key.path.len();
                *descriptors -= entry.descriptors();
            }
            stays
        });
        self.forget_removed();
    }

    /// Evicts entries that hold encodings and were not used since the last pass.
    pub(crate) fn release_encodings(&mut self) {
        let (bytes, descriptors) = (&mut self.bytes, &mut self.descriptors);
        self.entries.retain(|key, entry| {
            let holds = entry.made.as_ref().is_some_and(|made| made.is_held());
            let stays = !holds || entry.used.replace(false);
            if !stays {
                *bytes -= entry.cost() + key.path.len();
                *descriptors -= entry.descriptors();
            }
            stays
        });
        self.forget_removed();
    }

    /// Evicts entries with half of the descriptors, when the process has none left.
    pub(crate) fn give_up_descriptors(&mut self) {
        let target = self.descriptors / 2;
        while self.descriptors > target && self.evict_one() {}
    }

    /// Evicts the oldest entry that was not used since the last pass; `false` if the cache is
    /// empty.
    fn evict_one(&mut self) -> bool {
        while let Some(key) = self.order.pop_front() {
            let Some(entry) = current(&self.entries, &key) else { continue };
            if entry.used.replace(false) {
                self.order.push_back(key);
                continue;
            }
            self.bytes -= entry.cost() + key.path.len();
            self.descriptors -= entry.descriptors();
            self.entries.remove(&key);
            self.evictions += 1;
            return true;
        }
        false
    }
}

/// Returns the entry that was inserted with this very key.
fn current<'a>(entries: &'a Entries, key: &Rc<OwnedKey>) -> Option<&'a Rc<Entry>> {
    let (kept, entry) = entries.get_key_value(key)?;
    Rc::ptr_eq(kept, key).then_some(entry)
}
