//! A dynamic table (RFC 7541 section 2.3.2, RFC 9204 section 3.2), which takes no memory while it
//! is empty.

use std::collections::VecDeque;

use super::FIELD_OVERHEAD_BYTES;

/// A dynamic table. The newest entry is the first. `T` is the owner's note on an entry.
#[derive(Debug)]
pub(crate) struct Table<T> {
    /// Names and values, the oldest first.
    bytes: Vec<u8>,
    /// Bytes at the start of `bytes` whose entries were evicted.
    dead: usize,
    /// The position of `bytes[0]` since the table was empty.
    base: u32,
    entries: VecDeque<Entry<T>>,
    /// Size as defined by RFC 7541 section 4.1, in bytes.
    size: usize,
    size_max: usize,
}

#[derive(Debug)]
struct Entry<T> {
    /// The position of its name.
    at: u32,
    name_len: u32,
    value_len: u32,
    note: T,
}

impl<T> Entry<T> {
    fn len(&self) -> usize {
        self.name_len as usize + self.value_len as usize
    }
}

impl<T: Copy> Table<T> {
    pub(crate) fn new(size_max: usize) -> Table<T> {
        Table { bytes: Vec::new(), dead: 0, base: 0, entries: VecDeque::new(), size: 0, size_max }
    }

    pub(crate) fn size_max(&self) -> usize {
        self.size_max
    }

    pub(crate) fn len(&self) -> usize {
        self.entries.len()
    }

    /// An entry's name followed by its value, the name's length, and the note. 0 is the newest
    /// entry.
    pub(crate) fn get(&self, index: usize) -> Option<(&[u8], usize, T)> {
        let at = self.entries.len().checked_sub(index + 1)?;
        let entry = self.entries.get(at)?;
        let begin = entry.at.wrapping_sub(self.base) as usize;
        let both = self.bytes.get(begin..begin + entry.len())?;
        Some((both, entry.name_len as usize, entry.note))
    }

    /// The index of the newest entry whose note and index satisfy the conditions.
    pub(crate) fn find(
        &self,
        is_note: impl Fn(T) -> bool,
        is_index: impl Fn(usize) -> bool,
    ) -> Option<usize> {
        let (older, newer) = self.entries.as_slices();
        let mut index = 0;
        for entries in [newer, older] {
            for entry in entries.iter().rev() {
                if is_note(entry.note) && is_index(index) {
                    return Some(index);
                }
                index += 1;
            }
        }
        None
    }

    /// Adds an entry and evicts older ones. An entry larger than the table empties it (RFC 7541
    /// section 4.4).
    pub(crate) fn insert(&mut self, name: &[u8], value: &[u8], note: T) {
        let len = name.len() + value.len();
        let size = len + FIELD_OVERHEAD_BYTES;
        self.shrink(self.size_max.saturating_sub(size));
        if size > self.size_max {
            return;
        }
        if self.bytes.len() + len > self.bytes.capacity() {
            self.bytes.drain(..self.dead);
            self.base = self.base.wrapping_add(self.dead as u32);
            self.dead = 0;
            let room = (self.bytes.len() + len).next_power_of_two().max(256);
            self.bytes.reserve_exact(room - self.bytes.len());
        }
        let at = self.base.wrapping_add(self.bytes.len() as u32);
        self.bytes.extend_from_slice(name);
        self.bytes.extend_from_slice(value);
        let (name_len, value_len) = (name.len() as u32, value.len() as u32);
        self.entries.push_back(Entry { at, name_len, value_len, note });
        self.size += size;
    }

    /// Sets the maximum size and evicts older entries (RFC 7541 section 4.3).
    pub(crate) fn set_size_max(&mut self, size_max: usize) {
        self.size_max = size_max;
        self.shrink(size_max);
    }

    fn shrink(&mut self, size_max: usize) {
        while self.size > size_max
            && let Some(oldest) = self.entries.pop_front()
        {
            self.size -= oldest.len() + FIELD_OVERHEAD_BYTES;
            self.dead += oldest.len();
        }
        if self.entries.is_empty() {
            self.bytes.clear();
            self.dead = 0;
        }
    }
}

#[cfg(test)]
mod tests {
    use proptest::prelude::*;

    use super::*;

    proptest! {
        /// The table behaves like a list of strings.
        #[test]
        fn entries_leave_in_the_order_they_came(
            steps in prop::collection::vec((0_usize..120, 0_usize..200, 0_usize..20), 0..200),
        ) {
            let mut table = Table::new(1_000);
            let mut model: VecDeque<(Vec<u8>, Vec<u8>, usize)> = VecDeque::new();
            let mut size_max = 1_000;
            for (n, (name, value, resize)) in steps.into_iter().enumerate() {
                if resize == 0 {
                    size_max = name * 8;
                    table.set_size_max(size_max);
                } else {
                    let (name, value) = (vec![n as u8; name], vec![!n as u8; value]);
                    table.insert(&name, &value, n);
                    model.push_front((name, value, n));
                }
                let size = |entry: &(Vec<u8>, Vec<u8>, usize)| entry.0.len() + entry.1.len() + 32;
                if resize > 0 && model.front().map(size) > Some(size_max) {
                    model.clear();
                }
                while model.iter().map(size).sum::<usize>() > size_max {
                    model.pop_back();
                }
                for (at, (name, value, note)) in model.iter().enumerate() {
                    let both = [&name[..], value].concat();
                    prop_assert_eq!(table.get(at), Some((&both[..], name.len(), *note)));
                    prop_assert_eq!(table.find(|n| n == *note, |_| true), Some(at));
                }
                prop_assert_eq!(table.len(), model.len());
                prop_assert!(table.get(table.len()).is_none());
                prop_assert!(table.bytes.capacity() <= 1_024);
            }
        }
    }
}
