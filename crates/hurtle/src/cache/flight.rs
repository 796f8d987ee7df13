//! Collapsed fetches: one request fetches a response, other requests for the same key wait for it.
//! If the fetch fails, those that wait get its status; if it is given up, they begin again.

use std::fmt;
use std::sync::Arc;

use http::StatusCode;

use super::live::{Live, Reader};
use super::{Cache, SLOT_BYTES, Stored, UNCACHEABLE_MS};
use crate::rt::oneshot;

/// The part of a request in a fetch.
#[derive(Debug)]
pub enum Join {
    /// It fetches.
    Lead(Flight),
    /// It waits for the fetch of another request. A closed channel: the fetch was given up.
    Wait(oneshot::Receiver<FetchResult>),
    /// The fetch has its head, and the body is arriving.
    Coming(Reader),
    /// The response that is arriving does not answer this request.
    Alone,
    /// The cache has changed since the look-up, which has to be repeated.
    Anew,
}

/// The result of a fetch.
#[derive(Debug)]
pub enum FetchResult {
    /// A response whose body is arriving.
    Coming(Reader),
    /// A stored response.
    Stored(Arc<Stored>),
    /// No response; the client gets this status.
    Failed(StatusCode),
    /// A response that other requests may not use.
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
    Coming(Arc<Live>),
}

/// The fetching request's claim to a key. Dropping it gives the fetch up.
pub struct Flight {
    cache: Arc<Cache>,
    key: Arc<[u8]>,
    id: u64,
}

impl Flight {
    pub(super) fn new(cache: Arc<Cache>, key: &[u8], id: u64) -> Flight {
        Flight { cache, key: key.into(), id }
    }

    pub(super) fn key(&self) -> &Arc<[u8]> {
        &self.key
    }

    /// The cache it belongs to.
    pub fn cache(&self) -> &Arc<Cache> {
        &self.cache
    }

    /// Gives a response whose head has arrived and may be stored to all requests that wait.
    pub fn begin(&self, live: &Arc<Live>) {
        let waiting = {
            let mut shard = self.cache.shard(&self.key);
            let Some(flying) = shard.flying(&self.key, self.id) else { return };
            let coming = State::Coming(Arc::clone(live));
            match std::mem::replace(&mut flying.state, coming) {
                State::Pending(waiting) => waiting,
                State::Coming(_) => Vec::new(),
            }
        };
        for sender in waiting {
            match live.reader() {
                Some(reader) => sender.send(FetchResult::Coming(reader)),
                None => sender.send(FetchResult::Released),
            }
        }
    }

    /// Ends the claim: no request can join the fetch any more.
    pub fn close(self) {
        drop(self);
    }

    /// Stores the complete response, unless its key was purged during the fetch, and gives it to
    /// all requests that wait.
    pub fn store(self, stored: &Arc<Stored>) {
        let charge = self.cache.reserve(SLOT_BYTES + self.key.len() as u64);
        let (flying, gone) = {
            let mut shard = self.cache.shard(&self.key);
            let flying = shard.land(&self.key, self.id);
            let gone = match (&flying, charge) {
                (Some(_), Some(charge)) => shard.insert(&self.key, Arc::clone(stored), charge),
                _ => Vec::new(),
            };
            (flying, gone)
        };
        drop(gone);
        notify(flying, || FetchResult::Stored(Arc::clone(stored)));
    }

    /// Marks the key as uncacheable for [`UNCACHEABLE_MS`] and releases the requests that wait: the
    /// response may not be stored, and the next one will be alike.
    pub fn refuse(self, now_ms: u64) {
        let charge = self.cache.reserve(SLOT_BYTES + self.key.len() as u64);
        let (flying, gone) = {
            let mut shard = self.cache.shard(&self.key);
            let flying = shard.land(&self.key, self.id);
            let gone = match (&flying, charge) {
                (Some(_), Some(charge)) => shard.refuse(&self.key, now_ms + UNCACHEABLE_MS, charge),
                _ => Vec::new(),
            };
            (flying, gone)
        };
        drop(gone);
        notify(flying, || FetchResult::Released);
    }

    /// Releases the requests that wait: the response is for one request only.
    pub fn release(self) {
        let flying = self.cache.shard(&self.key).land(&self.key, self.id);
        notify(flying, || FetchResult::Released);
    }

    /// Ends the fetch without a response.
    pub fn fail(self, status: StatusCode) {
        let flying = self.cache.shard(&self.key).land(&self.key, self.id);
        notify(flying, || FetchResult::Failed(status));
    }
}

fn notify(flying: Option<PendingFetch>, result: impl Fn() -> FetchResult) {
    if let Some(PendingFetch { state: State::Pending(waiting), .. }) = flying {
        waiting.into_iter().for_each(|sender| sender.send(result()));
    }
}

impl Drop for Flight {
    fn drop(&mut self) {
        let flying = self.cache.shard(&self.key).land(&self.key, self.id);
        drop(flying);
    }
}

impl fmt::Debug for Flight {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        f.debug_struct("Flight").field("id", &self.id).finish_non_exhaustive()
    }
}
