//! Collapsed fetches: one request fetches a response, other requests for the same key wait for it.
//! If the fetch fails, the waiting requests get its status. If it is abandoned, they start over.

use std::fmt;
use std::sync::Arc;

use http::StatusCode;

use super::live::{Live, Reader};
use super::{Cache, Head, SLOT_BYTES, Stored, UNCACHEABLE_MS};
use crate::rt::oneshot;

/// The role of a request in a fetch.
#[derive(Debug)]
pub(crate) enum Join {
    /// The request runs the fetch.
    Lead(Flight),
    /// The request waits for another request's fetch. The channel closes if the fetch is abandoned.
    Wait(oneshot::Receiver<FetchResult>),
    /// The fetch has its head, and the body is arriving.
    Arriving(Reader),
    /// The request cannot use the arriving response: it does not match (Vary), or its beginning was
    /// dropped.
    Bypass,
    /// The cache has changed since the look-up; the caller must repeat the look-up.
    Retry,
}

/// The result of a fetch.
#[derive(Debug)]
pub(crate) enum FetchResult {
    /// A response whose body is arriving.
    Arriving(Reader),
    Stored(Arc<Stored>),
    /// The fetch failed; the client gets a stale response or this status. `None`: the upstream
    /// sent an error, which is for none but the client that gets no stale response.
    Failed(Option<StatusCode>),
    /// The fetch has no response for this request.
    Released,
}

/// A fetch and the requests that wait for it.
#[derive(Debug)]
pub(super) struct PendingFetch {
    pub(super) id: u64,
    pub(super) state: State,
}

#[derive(Debug)]
pub(super) enum State {
    /// Requests that wait for the head.
    Pending(Vec<oneshot::Sender<FetchResult>>),
    Arriving(Arc<Live>),
}

/// The claim of the fetching request to a key. Dropping it abandons the fetch.
pub(crate) struct Flight {
    cache: Arc<Cache>,
    key: Arc<[u8]>,
    /// The key, or for a range the result of [`range_fetch_name`].
    name: Arc<[u8]>,
    id: u64,
}

/// Separates a key from the range of a fetch. No target or field value contains it.
const NAME_SEPARATOR: u8 = 0;

/// Returns the name of the fetch of a range: requests for the same range share it.
pub(crate) fn range_fetch_name(key: &[u8], range: &[u8], if_range: Option<&[u8]>) -> Vec<u8> {
    let separator = &[NAME_SEPARATOR];
    [key, separator, range, separator, if_range.unwrap_or_default()].concat()
}

/// Returns the key in the name of a fetch.
pub(super) fn key_of(name: &[u8]) -> &[u8] {
    let end = name.iter().position(|byte| *byte == NAME_SEPARATOR);
    &name[..end.unwrap_or(name.len())]
}

impl Flight {
    /// Claims the fetch with this name, which begins with its key.
    pub(super) fn new(cache: Arc<Cache>, name: &[u8], id: u64) -> Flight {
        let key = key_of(name);
        let name: Arc<[u8]> = name.into();
        let key = if key.len() == name.len() { Arc::clone(&name) } else { key.into() };
        Flight { cache, key, name, id }
    }

    pub(super) fn name(&self) -> &Arc<[u8]> {
        &self.name
    }

    /// Returns the cache of the key.
    pub(crate) fn cache(&self) -> &Arc<Cache> {
        &self.cache
    }

    /// Passes a storable response, whose head has arrived, to all waiting requests.
    pub(crate) fn begin(&self, live: &Arc<Live>) {
        let waiting = {
            let mut shard = self.cache.shard(&self.key);
            let Some(pending) = shard.fetch(&self.name, self.id) else { return };
            let arriving = State::Arriving(Arc::clone(live));
            match std::mem::replace(&mut pending.state, arriving) {
                State::Pending(waiting) => waiting,
                State::Arriving(_) => Vec::new(),
            }
        };
        for sender in waiting {
            match live.reader() {
                Some(reader) => sender.send(FetchResult::Arriving(reader)),
                None => sender.send(FetchResult::Released),
            }
        }
    }

    /// Stores the complete response and passes it to all waiting requests. It is not stored if its
    /// key was purged during the fetch.
    pub(crate) fn store(self, stored: &Arc<Stored>) {
        let charge = self.cache.reserve(SLOT_BYTES + self.key.len() as u64);
        let (pending, removed) = {
            let mut shard = self.cache.shard(&self.key);
            let pending = shard.end_fetch(&self.name, self.id);
            let removed = match (&pending, charge) {
                (Some(_), Some(charge)) => shard.insert(&self.key, Arc::clone(stored), charge),
                _ => Vec::new(),
            };
            (pending, removed)
        };
        drop(removed);
        notify(pending, || FetchResult::Stored(Arc::clone(stored)));
    }

    /// Stores a response in place of `old`, the one that the look-up for its request fields has
    /// found. `Err`: the stored response has changed meanwhile; the claim is returned.
    ///
    /// # Errors
    /// Another response was stored, or `old` was evicted.
    pub(crate) fn replace(
        self,
        old: Option<&Arc<Stored>>,
        new: &Arc<Stored>,
    ) -> Result<(), Flight> {
        let charge = self.cache.reserve(SLOT_BYTES + self.key.len() as u64);
        let replaced = {
            let mut shard = self.cache.shard(&self.key);
            let current = shard.variant(&self.key, &new.head.selected);
            let is_current = current.map(Arc::as_ptr) == old.map(Arc::as_ptr);
            is_current.then(|| match (shard.end_fetch(&self.name, self.id), charge) {
                (Some(_), Some(charge)) => shard.insert(&self.key, Arc::clone(new), charge),
                _ => Vec::new(),
            })
        };
        let Some(removed) = replaced else { return Err(self) };
        drop(removed);
        Ok(())
    }

    /// Returns the stored response for the same request fields as this head.
    pub(crate) fn current(&self, head: &Head) -> Option<Arc<Stored>> {
        self.cache.shard(&self.key).variant(&self.key, &head.selected).cloned()
    }

    /// Marks the key as uncacheable for [`UNCACHEABLE_MS`] and releases the waiting requests. Used
    /// if the response may not be stored, since the next one is probably similar. `stale`: the
    /// stored response that the request was to validate. It is removed unless it is fresh, because
    /// any client can ask to validate that.
    pub(crate) fn refuse(self, now_ms: u64, stale: Option<&Arc<Stored>>) {
        let outdated = stale.filter(|stored| !stored.head.is_fresh(now_ms));
        let charge = self.cache.reserve(SLOT_BYTES + self.key.len() as u64);
        let (pending, removed) = {
            let mut shard = self.cache.shard(&self.key);
            let pending = shard.end_fetch(&self.name, self.id);
            let removed = match (&pending, charge) {
                (Some(_), Some(charge)) => {
                    shard.refuse(&self.key, now_ms + UNCACHEABLE_MS, outdated, charge)
                }
                _ => Vec::new(),
            };
            (pending, removed)
        };
        drop(removed);
        notify(pending, || FetchResult::Released);
    }

    /// Releases the waiting requests: the response belongs to one request only.
    pub(crate) fn release(self) {
        let pending = self.cache.shard(&self.key).end_fetch(&self.name, self.id);
        notify(pending, || FetchResult::Released);
    }

    /// Ends the fetch without a response; `status` as in `FetchResult::Failed`.
    pub(crate) fn fail(self, status: Option<StatusCode>) {
        let pending = self.cache.shard(&self.key).end_fetch(&self.name, self.id);
        notify(pending, || FetchResult::Failed(status));
    }
}

fn notify(pending: Option<PendingFetch>, result: impl Fn() -> FetchResult) {
    if let Some(PendingFetch { state: State::Pending(waiting), .. }) = pending {
        waiting.into_iter().for_each(|sender| sender.send(result()));
    }
}

impl Drop for Flight {
    fn drop(&mut self) {
        let pending = self.cache.shard(&self.key).end_fetch(&self.name, self.id);
        drop(pending);
    }
}

impl fmt::Debug for Flight {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        f.debug_struct("Flight").field("id", &self.id).finish_non_exhaustive()
    }
}
