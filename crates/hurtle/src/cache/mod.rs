//! The store of a response cache (RFC 9111): stored responses, fetches in progress, and the bounds
//! on both. `semantics::caching` decides which responses may be stored and used; `handler::proxy`
//! fetches them.
//!
//! One cache serves all workers, so that an object is fetched once. Its keys are spread over
//! shards. The lock of a shard is held during a look-up, never during a wait.

mod charge;
mod flight;
mod live;
mod parts;
mod pattern;
mod record;
mod registry;
mod shard;
mod status;
mod stored;
mod write;

use std::fmt;
use std::hash::BuildHasher;
use std::path::PathBuf;
use std::sync::atomic::{AtomicU64, AtomicUsize, Ordering::Relaxed};
use std::sync::{Arc, Mutex, MutexGuard, PoisonError};

use hashbrown::DefaultHashBuilder;
use hurtle_http::request::RequestFields;
use hurtle_http::semantics::caching::Heuristics;

use crate::config;
use crate::disk::{Disk, Lane};
use crate::metrics::CacheSnapshot;

pub(crate) use charge::Charge;
pub(crate) use flight::{FetchResult, Flight, Join, range_fetch_name};
pub(crate) use live::{Live, Reader};
pub(crate) use parts::Parts;
pub(crate) use pattern::KeyPattern;
pub(crate) use record::{ReceivedBody, Record};
pub(crate) use registry::Caches;
pub(crate) use status::{CacheStatus, MissReason};
pub(crate) use stored::{Content, Head, Kept, Stored};
pub(crate) use write::ArrivedPart;

use charge::Space;
use shard::Shard;

/// Number of shards of a cache, each with its own lock.
const SHARDS: usize = 16;

/// Time that a key is marked uncacheable after a response that may not be stored, in milliseconds.
/// Meanwhile its requests are forwarded without waiting for each other.
pub(crate) const UNCACHEABLE_MS: u64 = 30_000;

/// Memory charged for a key in addition to its length, in bytes. It makes the bound on bytes also
/// bound the number of keys.
const SLOT_BYTES: u64 = 256;

/// Divisor of the cache's memory that gives the maximum size of a body in memory.
const OBJECT_SHARE: u64 = 4;

/// Maximum size of a body that stays in memory although the cache has a disk, in bytes. Up to this
/// size, sending from memory is cheaper than `sendfile`.
const DISK_FROM_BYTES: usize = 64 << 10;

/// One mount's cache, shared by all workers.
pub(crate) struct Cache {
    shards: [Mutex<Shard>; SHARDS],
    /// Has a random seed, so that clients cannot choose keys that collide.
    hasher: DefaultHashBuilder,
    memory: Arc<Space>,
    disk_bytes: Arc<Space>,
    /// Descriptors of bodies on disk.
    files: Arc<Space>,
    /// The directory for large bodies.
    directory: Option<PathBuf>,
    object_bytes_max: u64,
    heuristics: Heuristics,
    disk: Disk,
    lane: Lane,
    /// The next shard to evict from.
    hand: AtomicUsize,
    flights: AtomicU64,
    evictions: AtomicU64,
}

/// The result of a look-up.
#[derive(Debug, Default)]
pub(crate) struct Found {
    /// A stored response for this request, fresh or stale.
    pub stored: Option<Arc<Stored>>,
    /// Only variants for other requests are stored (Vary).
    pub varies: bool,
    /// A response that may not be stored arrived less than [`UNCACHEABLE_MS`] ago.
    pub uncacheable: bool,
}

impl Found {
    fn equals(&self, other: &Found) -> bool {
        let stored = |found: &Found| found.stored.as_ref().map(Arc::as_ptr);
        stored(self) == stored(other) && self.uncacheable == other.uncacheable
    }
}

/// A bounded space of a cache.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
enum Room {
    Memory,
    Disk,
    Files,
}

impl Cache {
    /// Creates an empty cache. `files_max` limits its open descriptors.
    pub(crate) fn new(config: &config::ResponseCache, disk: &Disk, files_max: u64) -> Cache {
        let object_bytes_max = config.max_object.min(config.memory / OBJECT_SHARE);
        let hasher = DefaultHashBuilder::default();
        Cache {
            shards: std::array::from_fn(|_| Mutex::new(Shard::new(hasher.clone()))),
            hasher,
            memory: Space::new(config.memory),
            disk_bytes: Space::new(config.disk.as_ref().map_or(0, |disk| disk.bytes_max)),
            files: Space::new(files_max),
            directory: config.disk.as_ref().map(|disk| disk.directory.clone()),
            object_bytes_max,
            heuristics: Heuristics {
                lifetimes: config.lifetimes.clone(),
                percent: config.heuristic_percent,
            },
            disk: disk.clone(),
            lane: disk.lane(),
            hand: AtomicUsize::new(0),
            flights: AtomicU64::new(0),
            evictions: AtomicU64::new(0),
        }
    }

    /// Returns the maximum size of a stored body, in bytes.
    pub(crate) fn object_bytes_max(&self) -> u64 {
        self.object_bytes_max
    }

    /// Returns the lifetimes of responses that give none.
    pub(crate) fn heuristics(&self) -> &Heuristics {
        &self.heuristics
    }

    /// Looks up the response for a key and a request's fields.
    pub(crate) fn find(&self, key: &[u8], fields: RequestFields<'_>, now_ms: u64) -> Found {
        self.find_hashed(self.hash(key), key, fields, now_ms)
    }

    /// Looks up the response as `find` does, for a key whose hash is known.
    pub(crate) fn find_hashed(
        &self,
        hash: u64,
        key: &[u8],
        fields: RequestFields<'_>,
        now_ms: u64,
    ) -> Found {
        self.shard_of(hash).find(hash, key, fields, now_ms)
    }

    /// Returns the hash of a key.
    pub(crate) fn hash(&self, key: &[u8]) -> u64 {
        self.hasher.hash_one(key)
    }

    /// Joins the fetch of a missing response, or starts one. `name` is the key, or the result of
    /// [`range_fetch_name`]. `found` is the result of the preceding look-up; returns
    /// [`Join::Retry`] if it has changed since.
    pub(crate) fn join(
        self: &Arc<Self>,
        name: &[u8],
        fields: RequestFields<'_>,
        now_ms: u64,
        found: &Found,
    ) -> Join {
        let id = self.flights.fetch_add(1, Relaxed);
        let flight = || Flight::new(Arc::clone(self), name, id);
        let key = flight::key_of(name);
        let hash = self.hash(key);
        let mut shard = self.shard_of(hash);
        match shard.is_fetching(name) || shard.find(hash, key, fields, now_ms).equals(found) {
            true => shard.join(name, fields, id, flight),
            false => Join::Retry,
        }
    }

    /// Removes a key whose target may have changed (RFC 9111 section 4.4). The response of a fetch
    /// in progress is not stored.
    pub(crate) fn invalidate(&self, key: &[u8]) {
        let removed = self.shard(key).remove(key);
        drop(removed);
    }

    /// Removes every key that `chosen` selects. Returns the number of removed responses.
    pub(crate) fn purge(&self, chosen: impl Fn(&[u8]) -> bool) -> usize {
        let purged = self.shards.iter().map(|shard| {
            // The responses are dropped after the lock is released.
            let removed = lock(shard).remove_all(&chosen);
            removed.iter().map(shard::Slot::count).sum::<usize>()
        });
        purged.sum()
    }

    /// Returns the bytes of memory and of the disk in use.
    pub(crate) fn used(&self) -> (u64, u64) {
        (self.memory.used(), self.disk_bytes.used())
    }

    /// Returns the number of responses that were evicted.
    pub(crate) fn evictions(&self) -> u64 {
        self.evictions.load(Relaxed)
    }

    /// Adds its size to a snapshot. Locks each shard for a moment.
    pub(crate) fn add_to(&self, all: &mut CacheSnapshot) {
        let (memory, disk) = self.used();
        all.entries += self.shards.iter().map(|shard| lock(shard).count() as u64).sum::<u64>();
        all.memory_bytes += memory;
        all.disk_bytes += disk;
        all.evictions += self.evictions();
    }

    fn shard(&self, key: &[u8]) -> MutexGuard<'_, Shard> {
        self.shard_of(self.hash(key))
    }

    /// Selects a shard by other bits of the hash than the shard's own table uses.
    fn shard_of(&self, hash: u64) -> MutexGuard<'_, Shard> {
        lock(&self.shards[(hash >> 32) as usize % SHARDS])
    }

    /// Reserves memory, evicting responses if needed. `None`: there is not enough.
    pub(crate) fn reserve(&self, bytes: u64) -> Option<Charge> {
        self.room(Room::Memory, bytes)
    }

    /// Enlarges a charge to this amount. Returns `false` if there is not enough memory.
    fn covers(&self, charge: &mut Charge, bytes: u64) -> bool {
        let missing = bytes.saturating_sub(charge.amount());
        missing == 0 || self.room(Room::Memory, missing).map(|more| charge.merge(more)).is_some()
    }

    fn room(&self, room: Room, amount: u64) -> Option<Charge> {
        let space = match room {
            Room::Memory => &self.memory,
            Room::Disk => &self.disk_bytes,
            Room::Files => &self.files,
        };
        let charge = space.charge(amount)?;
        while space.is_exceeded() {
            if !self.evict(room) {
                return None;
            }
        }
        Some(charge)
    }

    /// Evicts a key that was not used recently. Returns `false` if there is none.
    fn evict(&self, room: Room) -> bool {
        let on_disk = room != Room::Memory;
        // Two rounds: the first one may only clear marks of use.
        for _ in 0..2 * SHARDS {
            let at = self.hand.fetch_add(1, Relaxed) % SHARDS;
            let removed = lock(&self.shards[at]).evict(on_disk);
            if removed.is_some() {
                self.evictions.fetch_add(1, Relaxed);
                return true;
            }
        }
        false
    }
}

fn lock(shard: &Mutex<Shard>) -> MutexGuard<'_, Shard> {
    // A panic cannot leave a shard inconsistent, so poisoning is ignored.
    shard.lock().unwrap_or_else(PoisonError::into_inner)
}

impl fmt::Debug for Cache {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        f.debug_struct("Cache").field("used", &self.used()).finish_non_exhaustive()
    }
}

#[cfg(test)]
mod tests {
    use std::num::NonZeroUsize;

    use http::StatusCode;

    use super::*;
    use hurtle_http::semantics::caching::Freshness;

    fn cache(memory: u64) -> Arc<Cache> {
        let config = config::ResponseCache { memory, ..config::ResponseCache::default() };
        Arc::new(Cache::new(&config, &Disk::start(NonZeroUsize::MIN).unwrap(), 1))
    }

    fn store(cache: &Arc<Cache>, key: &[u8], len: usize) {
        let freshness =
            Freshness { lifetime: 60, while_revalidating: 0, if_error: 0, strict: false };
        let head = Head {
            status: StatusCode::OK,
            lines: "A: b\r\n".into(),
            freshness,
            age_ms: 0,
            received_ms: 0,
            selected: Vec::new(),
        };
        let found = cache.find(key, RequestFields::NONE, 0);
        let Join::Lead(flight) = cache.join(key, RequestFields::NONE, 0, &found) else { return };
        let Some((room, body)) = cache.reserve(head.cost()).zip(cache.reserve(len as u64)) else {
            return;
        };
        let content = Content::new(Kept::Bytes(body.of(vec![0; len].into())), None);
        flight.store(&Arc::new(Stored::new(head, content, room)));
    }

    /// The number of stored responses in the metrics.
    fn entries(cache: &Cache) -> u64 {
        let mut snapshot = CacheSnapshot::default();
        cache.add_to(&mut snapshot);
        snapshot.entries
    }

    #[test]
    fn memory_is_bounded_under_concurrent_stores_and_released_by_a_purge() {
        const MEMORY: u64 = 200_000;
        let cache = cache(MEMORY);
        std::thread::scope(|scope| {
            for thread in 0..4_usize {
                let cache = &cache;
                scope.spawn(move || {
                    for n in 0..2_000_usize {
                        let key = (n * 7 + thread) % 300;
                        store(cache, key.to_string().as_bytes(), (n * 37 + thread) % 9_000);
                        cache.find(key.to_string().as_bytes(), RequestFields::NONE, 0);
                    }
                });
            }
        });
        let (used, _) = cache.used();
        assert!((1..=MEMORY).contains(&used), "{used}");
        let counted = entries(&cache);
        let purged = cache.purge(|_| true) as u64;
        assert!(purged > 10 && purged == counted, "{purged} of {counted}");
        assert_eq!((cache.used(), entries(&cache)), ((0, 0), 0));
    }

    #[test]
    fn a_response_stored_since_the_look_up_is_not_fetched_again() {
        let cache = cache(100_000);
        let missing = cache.find(b"a", RequestFields::NONE, 0);
        store(&cache, b"a", 5);
        assert!(matches!(cache.join(b"a", RequestFields::NONE, 0, &missing), Join::Retry));
        let known = cache.find(b"a", RequestFields::NONE, 0);
        assert!(
            matches!(cache.join(b"a", RequestFields::NONE, 0, &known), Join::Lead(_)),
            "the look-up is current"
        );
    }

    #[test]
    fn a_response_in_use_is_not_evicted() {
        let cache = cache(100_000);
        for n in 0..1_000 {
            store(&cache, n.to_string().as_bytes(), 5_000);
            assert!(
                n == 0 || cache.find(b"0", RequestFields::NONE, 0).stored.is_some(),
                "evicted after {n}"
            );
        }
    }

    #[test]
    fn a_refused_key_stays_uncacheable_for_its_time() {
        let cache = cache(100_000);
        let nothing = Found::default();
        let Join::Lead(flight) = cache.join(b"a", RequestFields::NONE, 0, &nothing) else {
            panic!("another request leads the fetch")
        };
        flight.refuse(1_000, None);
        assert_eq!(entries(&cache), 0, "there is a key, and no response");
        let joined = cache.join(b"a", RequestFields::NONE, 1_000, &nothing);
        assert!(matches!(joined, Join::Retry), "the look-up is outdated: {joined:?}");
        assert!(cache.find(b"a", RequestFields::NONE, 1_000 + UNCACHEABLE_MS - 1).uncacheable);
        assert!(!cache.find(b"a", RequestFields::NONE, 1_000 + UNCACHEABLE_MS).uncacheable);
    }
}
