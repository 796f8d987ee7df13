//! One server's cache: a number of objects of equal size, of which the least recently used one goes
//! first.

use std::collections::HashMap;
use std::hash::{BuildHasherDefault, Hasher};

use super::random::mix;

const NONE: u32 = u32::MAX;

#[derive(Default)]
pub(super) struct Cache {
    slots: HashMap<u32, u32, BuildHasherDefault<Mixed>>,
    entries: Vec<Entry>,
    /// Most and least recently used slots; meaningless while there are no entries.
    first: u32,
    last: u32,
}

struct Entry {
    object: u32,
    before: u32,
    after: u32,
}

impl Cache {
    /// Looks an object up and stores it if it is not there, in a cache of `max` objects, at least 1.
    /// Returns `true` for a hit.
    pub(super) fn request(&mut self, object: u32, max: usize) -> bool {
        if let Some(&slot) = self.slots.get(&object) {
            self.unlink(slot);
            self.link_first(slot);
            return true;
        }
        let slot = if self.entries.len() < max {
            self.entries.push(Entry { object, before: NONE, after: NONE });
            self.entries.len() as u32 - 1
        } else {
            let slot = self.last;
            self.unlink(slot);
            self.slots.remove(&self.entries[slot as usize].object);
            self.entries[slot as usize].object = object;
            slot
        };
        self.slots.insert(object, slot);
        self.link_first(slot);
        false
    }

    pub(super) fn clear(&mut self) {
        *self = Cache::default();
    }

    /// The stored objects.
    pub(super) fn objects(&self) -> impl Iterator<Item = u32> {
        self.entries.iter().map(|entry| entry.object)
    }

    fn unlink(&mut self, slot: u32) {
        let Entry { before, after, .. } = self.entries[slot as usize];
        match before {
            NONE => self.first = after,
            before => self.entries[before as usize].after = after,
        }
        match after {
            NONE => self.last = before,
            after => self.entries[after as usize].before = before,
        }
    }

    fn link_first(&mut self, slot: u32) {
        let is_only = self.slots.len() == 1;
        let after = if is_only { NONE } else { self.first };
        self.entries[slot as usize].before = NONE;
        self.entries[slot as usize].after = after;
        match after {
            NONE => self.last = slot,
            after => self.entries[after as usize].before = slot,
        }
        self.first = slot;
    }
}

/// A hasher for one `u32`.
#[derive(Default)]
struct Mixed(u64);

impl Hasher for Mixed {
    fn write(&mut self, bytes: &[u8]) {
        for &byte in bytes {
            self.0 = mix(self.0 << 8 ^ u64::from(byte));
        }
    }

    fn write_u32(&mut self, number: u32) {
        self.0 = mix(u64::from(number) + 1);
    }

    fn finish(&self) -> u64 {
        self.0
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn the_least_recently_used_object_goes_first() {
        let mut cache = Cache::default();
        // Each object, and whether it is a hit.
        let rows = [
            (1, false),
            (1, true),
            (2, false),
            (3, false),
            (1, true),
            (4, false), // in place of 2
            (3, true),
            (1, true),
            (2, false), // in place of 4
            (4, false), // in place of 3
            (1, true),
            (3, false), // in place of 2
        ];
        for (at, (object, hit)) in rows.into_iter().enumerate() {
            assert_eq!(cache.request(object, 3), hit, "row {at}");
        }
        let mut stored: Vec<u32> = cache.objects().collect();
        stored.sort_unstable();
        assert_eq!(stored, [1, 3, 4]);
        cache.clear();
        assert!(!cache.request(1, 3));
        assert!(cache.request(1, 1));
        assert!(!cache.request(2, 1));
        assert!(!cache.request(1, 1));
    }
}
