//! What a worker knows of files: bounded in bytes and descriptors, evicted by second chance.
//! One per worker, so nothing here is locked.

use std::collections::VecDeque;
use std::rc::Rc;

use hashbrown::{Equivalent, HashMap};

use super::Entry;

/// A path as it was asked for, in a site. Several spellings of one path are several entries:
/// that saves decoding on every request.
#[derive(Clone, Copy, Debug, PartialEq, Eq, Hash)]
pub struct Key<'a> {
    /// The site's number.
    pub site: usize,
    /// The target's path, as sent.
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

/// The cache of one worker.
#[derive(Debug)]
pub struct Cache {
    entries: HashMap<Rc<OwnedKey>, Rc<Entry>>,
    /// In the order of entering; the oldest is looked at first.
    order: VecDeque<Rc<OwnedKey>>,
    bytes: usize,
    descriptors: usize,
    bytes_max: usize,
    descriptors_max: usize,
}

impl Equivalent<Rc<OwnedKey>> for Key<'_> {
    fn equivalent(&self, key: &Rc<OwnedKey>) -> bool {
        self.equivalent(&**key)
    }
}

impl Cache {
    /// An empty one that holds at most this much.
    pub fn new(bytes_max: usize, descriptors_max: usize) -> Cache {
        Cache {
            entries: HashMap::new(),
            order: VecDeque::new(),
            bytes: 0,
            descriptors: 0,
            bytes_max,
            descriptors_max,
        }
    }

    /// What is known, however old.
    pub fn get(&self, key: Key<'_>) -> Option<&Rc<Entry>> {
        let entry = self.entries.get(&key)?;
        entry.used.set(true);
        Some(entry)
    }

    /// Enters or replaces; makes room first. What does not fit at all is not kept.
    pub fn insert(&mut self, key: Key<'_>, entry: Rc<Entry>) {
        self.remove(key);
        let (bytes, descriptors) = (entry.cost() + key.path.len(), entry.descriptors());
        while self.bytes + bytes > self.bytes_max
            || self.descriptors + descriptors > self.descriptors_max
        {
            if !self.evict_one() {
                return;
            }
        }
        let owned = Rc::new(OwnedKey { site: key.site, path: key.path.into() });
        self.bytes += bytes;
        self.descriptors += descriptors;
        self.order.push_back(Rc::clone(&owned));
        self.entries.insert(owned, entry);
    }

    /// Forgets a path.
    pub fn remove(&mut self, key: Key<'_>) {
        if let Some((owned, entry)) = self.entries.remove_entry(&key) {
            self.bytes -= entry.cost() + owned.path.len();
            self.descriptors -= entry.descriptors();
            self.order.retain(|k| !Rc::ptr_eq(k, &owned));
        }
    }

    /// Gives up half of the descriptors, for when the process has run out of them.
    pub fn give_up_descriptors(&mut self) {
        let target = self.descriptors / 2;
        while self.descriptors > target && self.evict_one() {}
    }

    /// Evicts the oldest entry not used since it was last looked at; false if there is none.
    fn evict_one(&mut self) -> bool {
        while let Some(key) = self.order.pop_front() {
            let Some(entry) = self.entries.get(&key) else { continue };
            if entry.used.replace(false) {
                self.order.push_back(key);
                continue;
            }
            self.bytes -= entry.cost() + key.path.len();
            self.descriptors -= entry.descriptors();
            self.entries.remove(&key);
            return true;
        }
        false
    }
}
