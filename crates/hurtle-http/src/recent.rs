//! A table of recent values under a hash of their keys, for work that consecutive requests repeat.

use std::cell::RefCell;
use std::fmt;
use std::hash::{BuildHasher, Hash};
use std::rc::Rc;

use hashbrown::DefaultHashBuilder;

/// A direct-mapped table: a newer key replaces the one in its slot. A value is worth its memory
/// only if its key comes again, so callers insert one when [`repeats`](Self::repeats) says so.
pub struct RecentTable<V> {
    /// Empty until the first key comes.
    slots: RefCell<Vec<Slot<V>>>,
    len: usize,
    hasher: DefaultHashBuilder,
}

struct Slot<V> {
    /// The hash of the last key.
    hash: u64,
    value: Option<Rc<V>>,
}

impl<V> RecentTable<V> {
    /// Creates a table of `len` slots, at least one.
    pub fn new(len: usize) -> RecentTable<V> {
        RecentTable { slots: RefCell::default(), len, hasher: DefaultHashBuilder::default() }
    }

    /// Returns the hash of a key, seeded by this table.
    #[inline]
    pub fn hash(&self, key: impl Hash) -> u64 {
        self.hasher.hash_one(key)
    }

    /// Returns the value under a hash if `is` confirms its key.
    #[inline]
    pub fn find(&self, hash: u64, is: impl FnOnce(&V) -> bool) -> Option<Rc<V>> {
        let slots = self.slots.borrow();
        let slot = slots.get(hash as usize % self.len).filter(|slot| slot.hash == hash)?;
        slot.value.as_ref().filter(|value| is(value)).map(Rc::clone)
    }

    /// Records a key whose value was not found. Returns whether it was also the last key of its
    /// slot.
    pub fn repeats(&self, hash: u64) -> bool {
        let mut slots = self.slots.borrow_mut();
        if slots.is_empty() {
            slots.resize_with(self.len, || Slot { hash: 0, value: None });
        }
        let slot = &mut slots[hash as usize % self.len];
        let repeats = slot.hash == hash;
        if !repeats {
            *slot = Slot { hash, value: None };
        }
        repeats
    }

    /// Stores the value of a key that [`repeats`](Self::repeats).
    pub fn insert(&self, hash: u64, value: V) {
        if let Some(slot) = self.slots.borrow_mut().get_mut(hash as usize % self.len) {
            *slot = Slot { hash, value: Some(Rc::new(value)) };
        }
    }
}

impl<V> fmt::Debug for RecentTable<V> {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        f.debug_struct("RecentTable").field("slots", &self.len).finish_non_exhaustive()
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn a_value_stays_until_another_key_takes_its_slot() {
        let table = RecentTable::new(1);
        let (a, b) = (table.hash("a"), table.hash("b"));
        assert!(!table.repeats(a), "the first time");
        assert!(table.repeats(a), "the second time in a row");
        table.insert(a, "value of a");
        assert_eq!(table.find(a, |_| true).as_deref(), Some(&"value of a"));
        assert_eq!(table.find(a, |_| false), None, "another key with the same hash");
        assert_eq!(table.find(b, |_| true), None);
        assert!(!table.repeats(b), "another key");
        assert_eq!(table.find(a, |_| true), None, "its slot was taken");
    }
}
