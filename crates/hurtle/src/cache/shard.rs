//! A part of a cache behind one lock: stored responses and fetches, by key. Removed responses are
//! returned, so that the caller drops them after the lock.

use std::hash::BuildHasher;
use std::sync::Arc;

use hashbrown::{DefaultHashBuilder, HashMap, HashTable};

use super::flight::{Join, PendingFetch, State, key_of};
use super::stored::SelectingField;
use super::{Charge, Flight, Found, Stored};
use crate::rt::oneshot;
use hurtle_http::request::RequestFields;

/// Maximum number of responses stored for one key; the newest stay.
pub(super) const VARIANTS_MAX: usize = 8;

/// Keys and their slots. Eviction is by second chance (the clock algorithm): a hand moves round the
/// slots and evicts one that was not used since its last visit.
#[derive(Debug)]
pub(super) struct Shard {
    hasher: DefaultHashBuilder,
    /// The position of each key's slot.
    index: HashTable<usize>,
    slots: Vec<Slot>,
    /// Responses in all slots.
    responses: usize,
    hand: usize,
    fetches: HashMap<Arc<[u8]>, PendingFetch>,
}

/// A key with its responses.
#[derive(Debug)]
pub(super) struct Slot {
    hash: u64,
    key: Arc<[u8]>,
    /// Newest first.
    variants: Vec<Arc<Stored>>,
    uncacheable_until_ms: u64,
    used: bool,
    _charge: Charge,
}

impl Slot {
    fn new(hash: u64, key: &Arc<[u8]>, charge: Charge) -> Slot {
        Slot {
            hash,
            key: Arc::clone(key),
            variants: Vec::new(),
            uncacheable_until_ms: 0,
            used: false,
            _charge: charge,
        }
    }

    /// Returns the number of responses.
    pub(super) fn count(&self) -> usize {
        self.variants.len()
    }
}

impl Shard {
    /// Creates an empty shard. `hasher` hashes its keys.
    pub(super) fn new(hasher: DefaultHashBuilder) -> Shard {
        let (slots, fetches) = (Vec::new(), HashMap::new());
        Shard { hasher, index: HashTable::new(), slots, responses: 0, hand: 0, fetches }
    }

    pub(super) fn find(
        &mut self,
        hash: u64,
        key: &[u8],
        fields: RequestFields<'_>,
        now_ms: u64,
    ) -> Found {
        let Some(at) = self.at(hash, key) else { return Found::default() };
        let slot = &mut self.slots[at];
        slot.used = true;
        let stored = slot.variants.iter().find(|stored| stored.head.answers(fields)).cloned();
        Found {
            varies: stored.is_none() && !slot.variants.is_empty(),
            uncacheable: now_ms < slot.uncacheable_until_ms,
            stored,
        }
    }

    /// Returns the number of responses.
    pub(super) fn count(&self) -> usize {
        self.responses
    }

    /// Returns the response stored for these selecting fields.
    pub(super) fn variant(&self, key: &[u8], selected: &[SelectingField]) -> Option<&Arc<Stored>> {
        let slot = &self.slots[self.at(self.hasher.hash_one(key), key)?];
        slot.variants.iter().find(|stored| stored.head.selected == selected)
    }

    /// Returns the complete responses with their keys; those of one key from the oldest to the
    /// newest.
    pub(super) fn complete(&self) -> Vec<(Arc<[u8]>, Arc<Stored>)> {
        let of = |slot: &Slot| {
            let complete = slot.variants.iter().rev().filter(|stored| stored.is_complete());
            complete.map(|stored| (Arc::clone(&slot.key), Arc::clone(stored))).collect::<Vec<_>>()
        };
        self.slots.iter().flat_map(of).collect()
    }

    pub(super) fn is_fetching(&self, name: &[u8]) -> bool {
        self.fetches.contains_key(name)
    }

    pub(super) fn join(
        &mut self,
        name: &[u8],
        fields: RequestFields<'_>,
        id: u64,
        flight: impl FnOnce() -> Flight,
    ) -> Join {
        match self.fetches.get_mut(name).map(|pending| &mut pending.state) {
            Some(State::Pending(waiting)) => {
                let (sender, receiver) = oneshot::channel();
                // Removes requests that no longer wait.
                waiting.retain(|sender: &oneshot::Sender<_>| !sender.is_closed());
                waiting.push(sender);
                Join::Wait(receiver)
            }
            Some(State::Arriving(live)) if live.head.answers(fields) => match live.reader() {
                Some(reader) => Join::Arriving(reader),
                None => Join::Bypass,
            },
            Some(State::Arriving(_)) => Join::Bypass,
            None => {
                let flight = flight();
                let pending = PendingFetch { id, state: State::Pending(Vec::new()) };
                self.fetches.insert(Arc::clone(flight.name()), pending);
                Join::Lead(flight)
            }
        }
    }

    /// Returns the fetch with this id. `None`: its key was purged.
    pub(super) fn fetch(&mut self, name: &[u8], id: u64) -> Option<&mut PendingFetch> {
        self.fetches.get_mut(name).filter(|pending| pending.id == id)
    }

    pub(super) fn end_fetch(&mut self, name: &[u8], id: u64) -> Option<PendingFetch> {
        self.fetch(name, id)?;
        self.fetches.remove(name)
    }

    /// Stores a response, which replaces the one for equal selecting fields. Returns removed
    /// responses.
    pub(super) fn insert(
        &mut self,
        key: &Arc<[u8]>,
        stored: Arc<Stored>,
        charge: Charge,
    ) -> Vec<Arc<Stored>> {
        let slot = self.slot(key, charge);
        slot.uncacheable_until_ms = 0;
        let same = |other: &Arc<Stored>| other.head.selected == stored.head.selected;
        let (mut removed, kept): (Vec<_>, Vec<_>) = slot.variants.drain(..).partition(same);
        slot.variants.push(stored);
        for other in kept {
            let full = slot.variants.len() == VARIANTS_MAX;
            if full { removed.push(other) } else { slot.variants.push(other) }
        }
        self.responses = self.responses + 1 - removed.len();
        removed
    }

    /// Marks a key as uncacheable for requests that no stored response answers. Returns the removed
    /// response, which is `outdated`.
    pub(super) fn refuse(
        &mut self,
        key: &Arc<[u8]>,
        until_ms: u64,
        outdated: Option<&Arc<Stored>>,
        charge: Charge,
    ) -> Vec<Arc<Stored>> {
        let slot = self.slot(key, charge);
        slot.uncacheable_until_ms = until_ms;
        let is_outdated = |stored: &mut Arc<Stored>| {
            outdated.is_some_and(|outdated| Arc::ptr_eq(stored, outdated))
        };
        let removed: Vec<_> = slot.variants.extract_if(.., is_outdated).collect();
        self.responses -= removed.len();
        removed
    }

    fn slot(&mut self, key: &Arc<[u8]>, charge: Charge) -> &mut Slot {
        let hash = self.hasher.hash_one(&**key);
        let at = self.at(hash, key).unwrap_or_else(|| {
            let at = self.slots.len();
            self.slots.push(Slot::new(hash, key, charge));
            self.index.insert_unique(hash, at, |at| self.slots[*at].hash);
            at
        });
        &mut self.slots[at]
    }

    /// Returns the position of a key's slot.
    fn at(&self, hash: u64, key: &[u8]) -> Option<usize> {
        self.index.find(hash, |at| *self.slots[*at].key == *key).copied()
    }

    pub(super) fn remove(&mut self, key: &[u8]) -> Option<Slot> {
        let at = self.at(self.hasher.hash_one(key), key);
        self.fetches.retain(|name, _| key_of(name) != key);
        at.map(|at| self.take(at))
    }

    pub(super) fn remove_all(&mut self, chosen: impl Fn(&[u8]) -> bool) -> Vec<Slot> {
        self.fetches.retain(|name, _| !chosen(key_of(name)));
        let mut removed = Vec::new();
        let mut at = 0;
        while at < self.slots.len() {
            if chosen(&self.slots[at].key) { removed.push(self.take(at)) } else { at += 1 }
        }
        removed
    }

    /// Evicts a slot that was not used since the last visit. Visits each slot at most once.
    pub(super) fn evict(&mut self, on_disk: bool) -> Option<Slot> {
        for _ in 0..self.slots.len() {
            self.hand = (self.hand + 1) % self.slots.len();
            let slot = &mut self.slots[self.hand];
            if on_disk && !slot.variants.iter().any(|stored| stored.is_on_disk()) {
                continue;
            }
            if !std::mem::take(&mut slot.used) {
                return Some(self.take(self.hand));
            }
        }
        None
    }

    /// Removes a slot; the last one takes its position.
    fn take(&mut self, at: usize) -> Slot {
        let last = self.slots.len() - 1;
        if let Ok(entry) = self.index.find_entry(self.slots[at].hash, |other| *other == at) {
            entry.remove();
        }
        if let Some(moved) = self.index.find_mut(self.slots[last].hash, |other| *other == last) {
            *moved = at;
        }
        let slot = self.slots.swap_remove(at);
        self.responses -= slot.count();
        slot
    }
}
