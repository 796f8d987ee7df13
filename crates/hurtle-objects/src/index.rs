//! The objects of a cache, least recently used first, within bounds: bytes on the disk, unfinished
//! objects (each has an open file), and descriptions without bytes.

use std::collections::{BTreeMap, HashMap};
use std::sync::{Arc, Mutex, MutexGuard, PoisonError};

use crate::slot::Slot;
use crate::{Failure, Kind, Version};

/// Maximum number of descriptions without bytes. They are apart, so that requests for names that do
/// not exist evict no bytes.
const BARE_MAX: usize = 16_384;

/// Maximum number of unfinished objects that nobody reads.
const PARTIAL_MAX: usize = 256;

/// Bytes that an object takes at least: a block of the disk, and its place in memory.
const OBJECT_BYTES_MIN: u64 = 4096;

/// The objects of a cache.
#[derive(Debug)]
pub(crate) struct Index {
    inner: Mutex<IndexEntries>,
    bytes_max: u64,
}

#[derive(Debug, Default)]
struct IndexEntries {
    bare: Lru,
    partial: Lru,
    whole: Lru,
    ticks: u64,
}

#[derive(Debug, Default)]
struct Lru {
    slots: HashMap<u128, Held>,
    order: BTreeMap<u64, u128>,
    bytes: u64,
}

#[derive(Clone, Debug)]
struct Held {
    slot: Arc<Slot>,
    tick: u64,
    bytes: u64,
}

/// Files to remove.
pub(crate) type Evicted = Vec<(u128, Version)>;

impl Index {
    pub(crate) fn new(bytes_max: u64) -> Index {
        Index { inner: Mutex::default(), bytes_max }
    }

    /// Adds what an earlier process has stored, oldest first. Returns what has no room.
    pub(crate) fn restore(&self, found: Vec<(u128, Version)>) -> Evicted {
        let (mut inner, mut evicted) = (self.lock(), Vec::new());
        for (id, version) in found {
            let slot = Arc::new(Slot::stored(id, version));
            if inner.whole.slots.contains_key(&id) {
                // Two versions: a process ended between storing one and removing the other.
                evicted.push((id, version));
                continue;
            }
            let held = Held { slot, tick: inner.tick(), bytes: version.len.max(OBJECT_BYTES_MIN) };
            inner.whole.insert(id, held);
        }
        while inner.bytes() > self.bytes_max && inner.evict_oldest(&mut evicted) {}
        evicted
    }

    /// Returns the slot of a key, and counts it as used.
    pub(crate) fn slot(&self, id: u128) -> Arc<Slot> {
        let mut inner = self.lock();
        let tick = inner.tick();
        let IndexEntries { bare, partial, whole, .. } = &mut *inner;
        for list in [whole, partial, &mut *bare] {
            if let Some(slot) = list.touch(id, tick) {
                return slot;
            }
        }
        let slot = Arc::new(Slot::new(id));
        bare.insert(id, Held { slot: Arc::clone(&slot), tick, bytes: 0 });
        if bare.slots.len() > BARE_MAX
            && let Some(forgotten) = bare.pop()
        {
            // An unfinished body and its slot hold each other.
            forgotten.slot.evict();
        }
        slot
    }

    /// Returns the slot of a key if there is one.
    pub(crate) fn find(&self, id: u128) -> Option<Arc<Slot>> {
        let inner = self.lock();
        let lists = [&inner.whole, &inner.partial, &inner.bare];
        lists.iter().find_map(|list| list.slots.get(&id)).map(|held| Arc::clone(&held.slot))
    }

    /// Reserves bytes for an unfinished object.
    pub(crate) fn reserve(&self, slot: &Arc<Slot>, bytes: u64) -> Result<Evicted, Failure> {
        let (mut inner, mut evicted) = (self.lock(), Vec::new());
        let added = bytes.max(OBJECT_BYTES_MIN);
        let is_new = !inner.partial.slots.contains_key(&slot.id);
        if is_new && inner.partial.slots.len() >= PARTIAL_MAX && !inner.evict_partial(&mut evicted)
        {
            return Err(Failure::new(Kind::Busy, "too many objects arrive at once"));
        }
        while inner.bytes() + added > self.bytes_max {
            if !inner.evict_oldest(&mut evicted) {
                let text = "the cache has no room: raise cache_bytes";
                return Err(Failure::new(Kind::Full, text));
            }
        }
        let bytes = inner.bytes_of(slot.id) + added;
        let tick = inner.tick();
        inner.remove(slot.id);
        inner.partial.insert(slot.id, Held { slot: Arc::clone(slot), tick, bytes });
        Ok(evicted)
    }

    /// Gives back bytes that were reserved for a part of an unfinished object, and did not come.
    pub(crate) fn release(&self, slot: &Arc<Slot>, bytes: u64) {
        let mut inner = self.lock();
        let own =
            inner.partial.slots.get(&slot.id).is_some_and(|held| Arc::ptr_eq(&held.slot, slot));
        if own && let Some(held) = inner.partial.remove(slot.id) {
            let bytes = held.bytes.saturating_sub(bytes.max(OBJECT_BYTES_MIN));
            inner.partial.insert(slot.id, Held { bytes, ..held });
        }
    }

    /// Has the store asked again about an object by the next request, because it has changed. Its
    /// bytes are forgotten; returns the file that is to be removed.
    pub(crate) fn expire(&self, slot: &Arc<Slot>) -> Evicted {
        let old = slot.expire();
        self.empty(slot);
        old.map(|version| (slot.id, version)).into_iter().collect()
    }

    /// Notes that an object is whole.
    pub(crate) fn complete(&self, slot: &Arc<Slot>, len: u64) {
        let mut inner = self.lock();
        let tick = inner.tick();
        inner.remove(slot.id);
        let bytes = len.max(OBJECT_BYTES_MIN);
        inner.whole.insert(slot.id, Held { slot: Arc::clone(slot), tick, bytes });
    }

    /// Notes that the bytes of an object are gone.
    pub(crate) fn empty(&self, slot: &Arc<Slot>) {
        let mut inner = self.lock();
        let tick = inner.tick();
        inner.remove(slot.id);
        inner.bare.insert(slot.id, Held { slot: Arc::clone(slot), tick, bytes: 0 });
    }

    fn lock(&self) -> MutexGuard<'_, IndexEntries> {
        self.inner.lock().unwrap_or_else(PoisonError::into_inner)
    }
}

impl Drop for Index {
    /// Frees unfinished bodies, which hold their slots. Whole ones stay in their files.
    fn drop(&mut self) {
        let inner = self.lock();
        let unfinished = inner.bare.slots.values().chain(inner.partial.slots.values());
        for held in unfinished {
            held.slot.evict();
        }
    }
}

impl IndexEntries {
    fn tick(&mut self) -> u64 {
        self.ticks += 1;
        self.ticks
    }

    fn bytes(&self) -> u64 {
        self.partial.bytes + self.whole.bytes
    }

    fn bytes_of(&self, id: u128) -> u64 {
        self.partial.slots.get(&id).map_or(0, |held| held.bytes)
    }

    fn remove(&mut self, id: u128) {
        for list in [&mut self.bare, &mut self.partial, &mut self.whole] {
            list.remove(id);
        }
    }

    /// Evicts the object that was not used for longest; `false`: all are in use.
    fn evict_oldest(&mut self, evicted: &mut Evicted) -> bool {
        let whole = self.whole.order.first_key_value().map(|(tick, _)| *tick);
        let partial = self.partial.idle().map(|held| held.tick);
        match (whole, partial) {
            (None, None) => false,
            (Some(whole), partial) if partial.is_none_or(|partial| whole < partial) => {
                let Some(held) = self.whole.pop() else { return false };
                evicted.extend(held.slot.evict().map(|version| (held.slot.id, version)));
                true
            }
            _ => self.evict_partial(evicted),
        }
    }

    fn evict_partial(&mut self, evicted: &mut Evicted) -> bool {
        let Some(held) = self.partial.idle().cloned() else { return false };
        self.partial.remove(held.slot.id);
        evicted.extend(held.slot.evict().map(|version| (held.slot.id, version)));
        true
    }
}

impl Lru {
    fn insert(&mut self, id: u128, held: Held) {
        self.bytes += held.bytes;
        self.order.insert(held.tick, id);
        self.slots.insert(id, held);
    }

    fn touch(&mut self, id: u128, tick: u64) -> Option<Arc<Slot>> {
        let held = self.slots.get_mut(&id)?;
        self.order.remove(&held.tick);
        held.tick = tick;
        self.order.insert(tick, id);
        Some(Arc::clone(&held.slot))
    }

    fn remove(&mut self, id: u128) -> Option<Held> {
        let held = self.slots.remove(&id)?;
        self.order.remove(&held.tick);
        self.bytes -= held.bytes;
        Some(held)
    }

    fn pop(&mut self) -> Option<Held> {
        let id = *self.order.first_key_value()?.1;
        self.remove(id)
    }

    /// The object that was not used for longest and is not in use now. There are at most
    /// `PARTIAL_MAX` to search where some are.
    fn idle(&self) -> Option<&Held> {
        let mut held = self.order.values().filter_map(|id| self.slots.get(id));
        held.find(|held| !held.slot.is_busy())
    }
}

#[cfg(test)]
mod tests {
    use std::sync::Weak;
    use std::time::Duration;

    use object_store::path::Path;

    use super::*;
    use crate::partial::Partial;
    use crate::slot::{Ages, Body, Known, Meta};

    /// Opens an unfinished object.
    fn open(index: &Index, id: u128) -> Weak<Partial> {
        let version = Version { hash: 1, len: 1, modified_secs: 1 };
        let meta = Meta { version, etag: None, generation: None, md5: None };
        let slot = index.slot(id);
        slot.describe(Known::Present(meta.clone()), slot.changes());
        let partial = Arc::new(Partial::new(meta, Path::from("a"), &slot));
        let weak = Arc::downgrade(&partial);
        assert!(slot.set_body(&version, Body::Partial(partial)));
        weak
    }

    #[test]
    fn an_unfinished_object_that_is_forgotten_is_freed() {
        let index = Index::new(1 << 20);
        let first = open(&index, 0);
        assert!(first.upgrade().is_some());
        (1..=BARE_MAX as u128).for_each(|id| drop(index.slot(id)));
        assert!(first.upgrade().is_none(), "others have taken its place");
        let last = open(&index, 0);
        drop(index);
        assert!(last.upgrade().is_none(), "the cache has ended");
    }

    /// Regression: a description that the store had given before an upload was used after it.
    #[test]
    fn a_description_from_before_a_change_is_not_fresh() {
        let ages = Ages { revalidate: Duration::from_secs(60), stale: Duration::from_secs(60) };
        let slot = Index::new(1 << 20).slot(0);
        for (has_changed, is_fresh) in [(false, true), (true, false)] {
            let changes = slot.changes();
            if has_changed {
                slot.expire();
            }
            slot.describe(Known::Missing, changes);
            assert_eq!(slot.fresh(ages).is_some(), is_fresh, "changed: {has_changed}");
        }
    }
}
