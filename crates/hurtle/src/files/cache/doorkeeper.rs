//! Remembers which keys were seen lately, in one small table.

/// Keys that the cache has room for, for each that is remembered. The fewer are remembered, the
/// more hits there are where popularity is stable, and the fewer where it changes.
const PART: usize = 2;

/// Slots of the largest table: 256 KiB.
const SLOTS_MAX: usize = 1 << 16;

/// A table of the keys that were seen last, by their hashes. Another key may take a key's place.
#[derive(Debug)]
pub(super) struct Doorkeeper {
    /// The upper halves of hashes, at the places that their lower halves name; 0: none.
    seen: Box<[u32]>,
}

impl Doorkeeper {
    /// Creates a table for a cache with room for this many keys.
    pub(super) fn new(keys: usize) -> Doorkeeper {
        let slots = (keys / PART).clamp(1, SLOTS_MAX).next_power_of_two();
        Doorkeeper { seen: vec![0; slots].into_boxed_slice() }
    }

    /// Returns whether the key with this hash was seen lately, and remembers it.
    pub(super) fn admits(&mut self, hash: u64) -> bool {
        let (place, mark) = (hash as usize & (self.seen.len() - 1), (hash >> 32) as u32);
        std::mem::replace(&mut self.seen[place], mark) == mark
    }
}
