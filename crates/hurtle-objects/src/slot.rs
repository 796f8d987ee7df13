//! The state of one object: its version as the store last described it, and its bytes in the cache.

use std::sync::{Arc, Mutex, MutexGuard, PoisonError};
use std::time::{Duration, Instant};

use crate::checksum::Md5;
use crate::partial::Partial;
use crate::{Failure, Kind, Version};

/// Pause between two attempts to revalidate an object while the store does not respond.
const RETRY: Duration = Duration::from_secs(5);

#[derive(Debug)]
pub(crate) struct Slot {
    /// The hash of its key.
    pub(crate) id: u128,
    /// Held by the task that asks the store; the others wait for its result.
    pub(crate) turn: tokio::sync::Mutex<()>,
    state: Mutex<SlotState>,
}

#[derive(Debug)]
struct SlotState {
    known: Known,
    body: Body,
    /// Time of the store's last description; `None`: the cache is from an earlier process.
    checked: Option<Instant>,
    /// The store does not respond; it is asked again after this time.
    retry_at: Option<Instant>,
    failed: Option<(Instant, Failure)>,
    /// Number of times that it was expired.
    changes: u64,
    /// `true`: it was expired or denied since the last description, which holds no more.
    has_changed: bool,
}

/// The state of an object in the store.
#[derive(Clone, Debug, PartialEq, Eq)]
pub(crate) enum Known {
    Unknown,
    Missing,
    /// It is this one.
    Present(Meta),
}

/// The description of an object.
#[derive(Clone, Debug, PartialEq, Eq)]
pub(crate) struct Meta {
    pub(crate) version: Version,
    /// The entity-tag of the store; `None`: the description is from the cache's directory.
    pub(crate) etag: Option<String>,
    /// The generation of an object of Google, or the version of one in a bucket with versions.
    pub(crate) generation: Option<String>,
    pub(crate) md5: Option<Md5>,
}

/// The bytes of an object in the cache.
#[derive(Clone, Debug)]
pub(crate) enum Body {
    Absent,
    Partial(Arc<Partial>),
    /// The whole object is in a file.
    Whole,
}

/// Ages by which a description is used.
#[derive(Clone, Copy, Debug)]
pub(crate) struct Ages {
    pub(crate) revalidate: Duration,
    pub(crate) stale: Duration,
}

impl SlotState {
    fn evict(&mut self) -> Option<Version> {
        let body = std::mem::replace(&mut self.body, Body::Absent);
        match (&self.known, body) {
            (Known::Present(meta), Body::Whole) => Some(meta.version),
            _ => None,
        }
    }
}

impl Slot {
    /// An object of which nothing is known.
    pub(crate) fn new(id: u128) -> Slot {
        Slot::with(id, Known::Unknown, Body::Absent)
    }

    /// An object that an earlier process has stored.
    pub(crate) fn stored(id: u128, version: Version) -> Slot {
        Slot::with(
            id,
            Known::Present(Meta { version, etag: None, generation: None, md5: None }),
            Body::Whole,
        )
    }

    fn with(id: u128, known: Known, body: Body) -> Slot {
        let state = SlotState {
            known,
            body,
            checked: None,
            retry_at: None,
            failed: None,
            changes: 0,
            has_changed: false,
        };
        Slot { id, turn: tokio::sync::Mutex::default(), state: Mutex::new(state) }
    }

    /// Returns the description if the store need not be asked.
    pub(crate) fn fresh(&self, ages: Ages) -> Option<Known> {
        let (state, now) = (self.lock(), Instant::now());
        let is_young = state.checked.is_some_and(|at| now - at < ages.revalidate);
        let is_waiting = state.retry_at.is_some_and(|at| now < at);
        (state.known != Known::Unknown && (is_young || is_waiting)).then(|| state.known.clone())
    }

    pub(crate) fn known(&self) -> Known {
        self.lock().known.clone()
    }

    pub(crate) fn body(&self) -> Body {
        self.lock().body.clone()
    }

    /// Returns the failure of an attempt that ended after `since`.
    pub(crate) fn failed_since(&self, since: Instant) -> Option<Failure> {
        self.lock().failed.as_ref().filter(|(at, _)| *at >= since).map(|(_, why)| why.clone())
    }

    /// Returns the number of times that the object was expired.
    pub(crate) fn changes(&self) -> u64 {
        self.lock().changes
    }

    /// Stores a new description; returns the version whose file is no longer used. `changes`: those
    /// before the store was asked. If there were more since, it is asked again by the next request.
    pub(crate) fn describe(&self, known: Known, changes: u64) -> Option<Version> {
        let mut state = self.lock();
        let is_same = match (&state.known, &known) {
            (Known::Present(old), Known::Present(new)) => old.version == new.version,
            (old, new) => old == new,
        };
        let old = match (&state.known, &state.body) {
            (Known::Present(meta), Body::Whole) if !is_same => Some(meta.version),
            _ => None,
        };
        if !is_same {
            state.body = Body::Absent;
        }
        state.known = known;
        let is_newest = state.changes == changes;
        state.checked = is_newest.then(Instant::now);
        state.has_changed &= !is_newest;
        (state.retry_at, state.failed) = (None, None);
        old
    }

    /// Notes a failure. Returns the description if it may be used meanwhile: the store did not
    /// respond, and the object has not changed since.
    pub(crate) fn fail(&self, failure: &Failure, started: Instant, ages: Ages) -> Option<Known> {
        let (mut state, now) = (self.lock(), Instant::now());
        state.failed = Some((now, failure.clone()));
        let checked = state.checked.unwrap_or(started);
        state.has_changed |= failure.kind == Kind::Denied;
        let is_silent = matches!(failure.kind, Kind::Store | Kind::Timeout | Kind::Busy);
        if !is_silent || state.has_changed {
            return None;
        }
        if state.known == Known::Unknown || now - checked >= ages.revalidate + ages.stale {
            return None;
        }
        state.retry_at = Some(now + RETRY);
        Some(state.known.clone())
    }

    /// Replaces the body if the object still is this version.
    pub(crate) fn set_body(&self, version: &Version, body: Body) -> bool {
        let mut state = self.lock();
        let is_current = matches!(&state.known, Known::Present(meta) if meta.version == *version);
        if is_current {
            state.body = body;
        }
        is_current
    }

    /// Has the store asked again by the next request, because the object has changed. Returns the
    /// version whose file is to be removed: a later start must not find it.
    pub(crate) fn expire(&self) -> Option<Version> {
        let mut state = self.lock();
        let old = state.evict();
        state.changes += 1;
        state.has_changed = true;
        (state.checked, state.retry_at) = (None, None);
        (state.known, state.body) = (Known::Unknown, Body::Absent);
        old
    }

    /// Forgets the bytes. Returns the version whose file is to be removed.
    pub(crate) fn evict(&self) -> Option<Version> {
        self.lock().evict()
    }

    /// `true` if bytes are arriving, or are being sent before all have arrived.
    pub(crate) fn is_busy(&self) -> bool {
        matches!(&self.lock().body, Body::Partial(partial) if Arc::strong_count(partial) > 1)
    }

    fn lock(&self) -> MutexGuard<'_, SlotState> {
        // Nothing panics while the lock is held, so a poisoned lock is consistent.
        self.state.lock().unwrap_or_else(PoisonError::into_inner)
    }
}
