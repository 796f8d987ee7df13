//! A response that is being fetched: one request does, those for the same key wait for what comes of
//! it. Whoever fetches may fail or be called off; then those who wait are told, or begin anew.

use std::fmt;
use std::sync::Arc;

use http::StatusCode;

use super::live::{Live, Reader};
use super::{Cache, SLOT_BYTES, Stored, UNCACHEABLE_MS};
use crate::rt::{Teller, Told};

/// How somebody takes part in fetching.
#[derive(Debug)]
pub enum Join {
    /// He fetches.
    Lead(Flight),
    /// Somebody else does; this is told what comes. Nothing told: begin anew.
    Wait(Told<News>),
    /// The body is coming already.
    Coming(Reader),
    /// What is coming is not for this request.
    Alone,
    /// Something else is known by now: it is to be looked up again.
    Anew,
}

/// What came of fetching.
#[derive(Debug)]
pub enum News {
    /// A body that is still coming.
    Coming(Reader),
    /// It is stored.
    Stored(Arc<Stored>),
    /// Nothing: with this status.
    Failed(StatusCode),
    /// What came is not for others.
    Released,
}

/// Who waits for a response, or is already given it.
#[derive(Debug)]
pub(super) struct Flying {
    pub(super) id: u64,
    pub(super) state: State,
}

#[derive(Debug)]
pub(super) enum State {
    Asked(Vec<Teller<News>>),
    Coming(Arc<Live>),
}

/// The fetcher's hold on a key; dropped, it is given up.
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

    /// Whose it is.
    pub fn cache(&self) -> &Arc<Cache> {
        &self.cache
    }

    /// The head is there and may be stored, the body is coming: everybody gets it as it comes.
    pub fn begin(&self, live: &Arc<Live>) {
        let waiting = {
            let mut shard = self.cache.shard(&self.key);
            let Some(flying) = shard.flying(&self.key, self.id) else { return };
            let coming = State::Coming(Arc::clone(live));
            match std::mem::replace(&mut flying.state, coming) {
                State::Asked(waiting) => waiting,
                State::Coming(_) => Vec::new(),
            }
        };
        for teller in waiting {
            match live.reader() {
                Some(reader) => teller.tell(News::Coming(reader)),
                None => teller.tell(News::Released),
            }
        }
    }

    /// Nobody can join any more what is coming.
    pub fn close(self) {
        drop(self);
    }

    /// It is complete: it is stored, unless it was called off meanwhile, and those who wait have it.
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
        tell(flying, || News::Stored(Arc::clone(stored)));
    }

    /// What came may not be stored, and what comes next will not either: nobody waits for a while.
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
        tell(flying, || News::Released);
    }

    /// What came is for one request only.
    pub fn release(self) {
        let flying = self.cache.shard(&self.key).land(&self.key, self.id);
        tell(flying, || News::Released);
    }

    /// Nothing came.
    pub fn fail(self, status: StatusCode) {
        let flying = self.cache.shard(&self.key).land(&self.key, self.id);
        tell(flying, || News::Failed(status));
    }
}

fn tell(flying: Option<Flying>, news: impl Fn() -> News) {
    if let Some(Flying { state: State::Asked(waiting), .. }) = flying {
        waiting.into_iter().for_each(|teller| teller.tell(news()));
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
