//! The store of a response cache (RFC 9111): stored responses, fetches under way, and the bounds on
//! both. `semantics::caching` decides which responses may be stored and used; `serve` fetches them.
//!
//! One cache serves all workers, so that an object is fetched once. Its keys are spread over
//! shards, each with a lock that is held for a look-up and never while anything is waited for.

mod charge;
mod flight;
mod live;
mod registry;
mod shard;
mod stored;
mod write;

use std::fmt;
use std::hash::BuildHasher;
use std::path::PathBuf;
use std::sync::atomic::{AtomicU64, AtomicUsize, Ordering::Relaxed};
use std::sync::{Arc, Mutex, MutexGuard, PoisonError};

use hashbrown::DefaultHashBuilder;
use hurtle_http::request::RequestFields;

use crate::config;
use crate::disk::{Disk, Lane};

pub use charge::Charge;
pub use flight::{FetchResult, Flight, Join};
pub use live::{Live, Reader};
pub use registry::Caches;
pub use stored::{Content, Head, Kept, Stored};

use charge::Space;
use shard::Shard;

/// Number of parts of a cache, each with its own lock.
const SHARDS: usize = 16;

/// How long a key is marked uncacheable after a response that must not be stored, in milliseconds.
/// Requests for it are forwarded without waiting for each other.
pub const UNCACHEABLE_MS: u64 = 30_000;

/// Memory of a key beside its own bytes. The bound on bytes thus bounds the number of keys.
const SLOT_BYTES: u64 = 256;

/// A body in memory takes at most this fraction of all memory: a quarter.
const OBJECT_SHARE: u64 = 4;

/// Larger bodies go to the disk, if there is one, in bytes: below, sending from memory is cheaper
/// than
/// `sendfile`.
const DISK_FROM_BYTES: usize = 64 << 10;

/// One mount's cache, shared by all workers.
pub struct Cache {
    shards: [Mutex<Shard>; SHARDS],
    /// Seeded at random, so that clients cannot choose keys that collide.
    hasher: DefaultHashBuilder,
    memory: Arc<Space>,
    disk_bytes: Arc<Space>,
    /// Descriptors of bodies on disk.
    files: Arc<Space>,
    /// The directory for large bodies.
    directory: Option<PathBuf>,
    object_bytes_max: u64,
    heuristic_percent: u64,
    disk: Disk,
    lane: Lane,
    /// The next shard to evict from.
    hand: AtomicUsize,
    flights: AtomicU64,
}

/// The result of a look-up.
#[derive(Debug, Default)]
pub struct Found {
    /// A stored response for this request, fresh or stale.
    pub stored: Option<Arc<Stored>>,
    /// Only variants for other requests are stored (Vary).
    pub varies: bool,
    /// The last response was not to be stored, less than [`UNCACHEABLE_MS`] ago.
    pub uncacheable: bool,
}

impl Found {
    fn is_as(&self, other: &Found) -> bool {
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
    /// An empty cache. `files_max`: descriptors it may hold.
    pub fn new(config: &config::ResponseCache, disk: &Disk, files_max: u64) -> Cache {
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
            heuristic_percent: config.heuristic_percent,
            disk: disk.clone(),
            lane: disk.lane(),
            hand: AtomicUsize::new(0),
            flights: AtomicU64::new(0),
        }
    }

    /// The largest body that is stored, in bytes.
    pub fn object_bytes_max(&self) -> u64 {
        self.object_bytes_max
    }

    /// The part of the time since Last-Modified that a response without a lifetime is fresh; 0:
    /// none.
    pub fn heuristic_percent(&self) -> u64 {
        self.heuristic_percent
    }

    /// Looks a request up: its key and its fields.
    pub fn find(&self, key: &[u8], fields: RequestFields<'_>, now_ms: u64) -> Found {
        self.find_hashed(self.hash(key), key, fields, now_ms)
    }

    /// The same, for a key whose hash is known.
    pub fn find_hashed(
        &self,
        hash: u64,
        key: &[u8],
        fields: RequestFields<'_>,
        now_ms: u64,
    ) -> Found {
        self.shard_of(hash).find(hash, key, fields, now_ms)
    }

    /// A key's hash.
    pub fn hash(&self, key: &[u8]) -> u64 {
        self.hasher.hash_one(key)
    }

    /// Joins the fetch of a missing response, or starts it. `found`: the result of the look-up
    /// before; [`Join::Anew`] if it has changed since.
    pub fn join(
        self: &Arc<Self>,
        key: &[u8],
        fields: RequestFields<'_>,
        now_ms: u64,
        found: &Found,
    ) -> Join {
        let id = self.flights.fetch_add(1, Relaxed);
        let flight = || Flight::new(Arc::clone(self), key, id);
        let hash = self.hash(key);
        let mut shard = self.shard_of(hash);
        match shard.is_flying(key) || shard.find(hash, key, fields, now_ms).is_as(found) {
            true => shard.join(key, fields, id, flight),
            false => Join::Anew,
        }
    }

    /// Removes a key whose target may have changed (RFC 9111 4.4). A fetch under way is not stored.
    pub fn invalidate(&self, key: &[u8]) {
        let gone = self.shard(key).remove(key);
        drop(gone);
    }

    /// Removes every chosen key. Returns the number of responses removed.
    pub fn purge(&self, chosen: impl Fn(&[u8]) -> bool) -> usize {
        let purged = self.shards.iter().map(|shard| {
            // The responses are dropped after the lock is released.
            let gone = lock(shard).remove_all(&chosen);
            gone.iter().map(shard::Slot::count).sum::<usize>()
        });
        purged.sum()
    }

    /// Bytes of memory and of the disk in use.
    pub fn used(&self) -> (u64, u64) {
        (self.memory.used(), self.disk_bytes.used())
    }

    fn shard(&self, key: &[u8]) -> MutexGuard<'_, Shard> {
        self.shard_of(self.hash(key))
    }

    /// Selects a shard by other bits of the hash than the shard's own table uses.
    fn shard_of(&self, hash: u64) -> MutexGuard<'_, Shard> {
        lock(&self.shards[(hash >> 32) as usize % SHARDS])
    }

    /// Reserves memory, evicting responses if needed. `None`: there is not enough.
    pub fn reserve(&self, bytes: u64) -> Option<Charge> {
        self.room(Room::Memory, bytes)
    }

    /// Enlarges a charge to this much. `false`: there is no room.
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

    /// Evicts a key that was not used lately. `false`: there is none.
    fn evict(&self, room: Room) -> bool {
        let on_disk = room != Room::Memory;
        // Two rounds: the first one may only clear marks of use.
        for _ in 0..2 * SHARDS {
            let at = self.hand.fetch_add(1, Relaxed) % SHARDS;
            let gone = lock(&self.shards[at]).evict(on_disk);
            if gone.is_some() {
                return true;
            }
        }
        false
    }
}

fn lock(shard: &Mutex<Shard>) -> MutexGuard<'_, Shard> {
    // No panic can leave a shard half changed.
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
            came_ms: 0,
            selected: Vec::new(),
        };
        let found = cache.find(key, RequestFields::NONE, 0);
        let Join::Lead(flight) = cache.join(key, RequestFields::NONE, 0, &found) else { return };
        let Some((room, body)) = cache.reserve(head.cost()).zip(cache.reserve(len as u64)) else {
            return;
        };
        let content = Content::new(Kept::Bytes(vec![0; len].into()), vec![body]);
        flight.store(&Arc::new(Stored::new(head, content, room)));
    }

    #[test]
    fn memory_is_bounded_whoever_fills_it_and_all_of_it_comes_back() {
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
        assert!(cache.purge(|_| true) > 10);
        assert_eq!(cache.used(), (0, 0));
    }

    #[test]
    fn what_was_missing_and_is_there_by_now_is_not_fetched_again() {
        let cache = cache(100_000);
        let missing = cache.find(b"a", RequestFields::NONE, 0);
        store(&cache, b"a", 5);
        assert!(matches!(cache.join(b"a", RequestFields::NONE, 0, &missing), Join::Anew));
        let known = cache.find(b"a", RequestFields::NONE, 0);
        assert!(
            matches!(cache.join(b"a", RequestFields::NONE, 0, &known), Join::Lead(_)),
            "it is asked about"
        );
    }

    #[test]
    fn what_is_asked_for_stays() {
        let cache = cache(100_000);
        for n in 0..1_000 {
            store(&cache, n.to_string().as_bytes(), 5_000);
            assert!(
                n == 0 || cache.find(b"0", RequestFields::NONE, 0).stored.is_some(),
                "gone after {n}"
            );
        }
    }

    #[test]
    fn what_is_refused_is_remembered_for_a_while() {
        let cache = cache(100_000);
        let nothing = Found::default();
        let Join::Lead(flight) = cache.join(b"a", RequestFields::NONE, 0, &nothing) else {
            panic!("not alone")
        };
        flight.refuse(1_000);
        let joined = cache.join(b"a", RequestFields::NONE, 1_000, &nothing);
        assert!(matches!(joined, Join::Anew), "it is known by now: {joined:?}");
        assert!(cache.find(b"a", RequestFields::NONE, 1_000 + UNCACHEABLE_MS - 1).uncacheable);
        assert!(!cache.find(b"a", RequestFields::NONE, 1_000 + UNCACHEABLE_MS).uncacheable);
    }
}
