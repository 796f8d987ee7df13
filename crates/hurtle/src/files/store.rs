//! Keeps the file cache current: looks up new paths, and repeats a look-up before an entry is older
//! than `revalidate`.

use std::cell::{Cell, RefCell};
use std::io;
use std::rc::Rc;
use std::sync::Arc;
use std::time::Duration;

use http::StatusCode;

use super::hashes::TagSource;
use super::{Cache, Changed, Entry, Key, Lookup, Outcome, Target, Watched, objects};
use crate::answer::Answer;
use crate::body::{OpenFile, WINDOW_BYTES};
use crate::clock;
use crate::compress::Compressor;
use crate::disk::{Disk, Failure};
use crate::metrics::WorkerMetrics;
use crate::rt::{self, Alarm};

/// Time between two releases of encodings that were not used meanwhile.
const RELEASE_EVERY: Duration = Duration::from_secs(1);

/// A root is trusted for this part of `revalidate` after it was opened.
const TRUSTED_PART: u64 = 8;

/// The files known to one worker.
#[derive(Debug)]
pub(crate) struct Store {
    cache: RefCell<Cache>,
    /// The disk threads for look-ups.
    pub disk: Disk,
    revalidate_ms: u64,
    /// Time of the last change by this server.
    changed: Changed,
    /// `None`: no directory is watched.
    watched: Option<Watched>,
    /// Look-ups of paths that were not cached.
    misses: Cell<u64>,
}

/// A look-up that failed.
#[derive(Debug)]
pub(crate) enum LookupError {
    /// The disk threads did not return a result.
    Pool(Failure),
    Disk(io::Error),
    /// The object store failed, which it has logged.
    Origin(hurtle_objects::Failure),
}

impl LookupError {
    /// Response in place of the file at `path`; failures that are not the client's are logged.
    pub(crate) fn answer(&self, path: &[u8]) -> Answer {
        let path = String::from_utf8_lossy(path);
        match self {
            LookupError::Pool(Failure::Busy) => {
                tracing::warn!("{path}: the disk is too slow; answered 503");
                Answer::error(StatusCode::SERVICE_UNAVAILABLE, None)
            }
            LookupError::Pool(Failure::Panicked) => {
                Answer::error(StatusCode::INTERNAL_SERVER_ERROR, None)
            }
            LookupError::Origin(failure) => Answer::error(objects::status(failure.kind), None),
            LookupError::Disk(e) if is_out_of_descriptors(e) => {
                tracing::warn!("{path}: out of file descriptors; answered 503");
                Answer::error(StatusCode::SERVICE_UNAVAILABLE, None)
            }
            LookupError::Disk(e) => {
                tracing::error!("{path}: {e}");
                Answer::error(StatusCode::INTERNAL_SERVER_ERROR, None)
            }
        }
    }
}

impl Store {
    /// Creates a store with an empty cache.
    pub(crate) fn new(
        cache: Cache,
        disk: Disk,
        revalidate_ms: u64,
        (changed, watched): (Changed, Option<Watched>),
    ) -> Rc<Store> {
        Rc::new(Store {
            cache: RefCell::new(cache),
            disk,
            revalidate_ms,
            changed,
            watched,
            misses: Cell::new(0),
        })
    }

    /// Returns an entry that needs no look-up. If it is about to expire, its look-up is repeated in
    /// the background, so that no request waits for it.
    pub(crate) fn fresh(self: &Rc<Store>, key: Key<'_>, now_ms: u64) -> Option<Rc<Entry>> {
        let cache = self.cache.borrow();
        let entry = cache.get(key)?;
        let age_ms = now_ms.saturating_sub(entry.checked_ms.get());
        let checked_ms = entry.checked_ms.get();
        if age_ms >= self.revalidate_ms || self.changed.is_since(checked_ms) {
            return None;
        }
        if age_ms >= self.revalidate_ms / 4 * 3 && !entry.refreshing.replace(true) {
            let (store, entry) = (Rc::clone(self), Rc::clone(entry));
            let (site, path) = (key.site, Box::<[u8]>::from(key.path));
            rt::spawn(async move {
                let key = Key { site, path: &path };
                // An error is reported once the entry has expired and a request waits for it.
                let _ = store.refresh(key, &entry, false).await;
            });
        }
        Some(Rc::clone(entry))
    }

    /// Repeats the look-up of a path. `None` if the entry is not current and must be found again.
    /// `sends` means that the start of the file will be sent next.
    ///
    /// # Errors
    /// The disk failed.
    pub(crate) async fn revalidated(
        &self,
        key: Key<'_>,
        sends: bool,
    ) -> Result<Option<Rc<Entry>>, LookupError> {
        let known = self.cache.borrow().get(key).map(Rc::clone);
        let Some(entry) = known else { return Ok(None) };
        // Most requests that come here are for files that are not known, and need less room.
        Ok(Box::pin(self.refresh(key, &entry, sends)).await?.then_some(entry))
    }

    /// `true` if the name still resolves to the same file. With `sends` the start of one that was
    /// not sent lately is in memory then.
    async fn refresh(
        &self,
        key: Key<'_>,
        entry: &Rc<Entry>,
        sends: bool,
    ) -> Result<bool, LookupError> {
        let started_ms = clock::now_ms();
        let file = entry.file_on_disk().filter(|file| sends && !file.is_warm(0, started_ms));
        let found = match file {
            Some(file) => self.probe_and_read(&entry.lookup, file).await,
            None => self.probe(&entry.lookup).await,
        };
        entry.refreshing.set(false);
        let is_same = self.settle(key, entry, started_ms, &found?);
        if let (Some(file), true) = (file, is_same) {
            file.set_warm(0, clock::now_ms());
        }
        Ok(is_same)
    }

    /// Resolves a path, and reads the start of the file that it led to before into memory, by one
    /// job: it waits for the disk in its turn.
    async fn probe_and_read(
        &self,
        lookup: &Arc<Lookup>,
        file: &Arc<OpenFile>,
    ) -> Result<Target, LookupError> {
        let (job, file, since_ms) = (Arc::clone(lookup), Arc::clone(file), self.trusted_since_ms());
        let find = move || {
            let found = job.probe_since(since_ms)?;
            file.read_ahead(0, WINDOW_BYTES.min(file.stamp.len))?;
            Ok(found)
        };
        let found = self.disk.run(lookup.lane, find).await;
        found.map_err(LookupError::Pool)?.map_err(LookupError::Disk)
    }

    /// Resolves a path without opening its file.
    ///
    /// # Errors
    /// The disk failed.
    pub(crate) async fn probe(&self, lookup: &Arc<Lookup>) -> Result<Target, LookupError> {
        if let Some(origin) = &lookup.origin {
            return Box::pin(objects::probe(lookup, origin)).await;
        }
        let job = Arc::clone(lookup);
        // Revalidation precedes other look-ups in the lane: those are for files not used recently
        // and may wait for the disk.
        let found = self.disk.run_next(lookup.lane, move || job.probe()).await;
        found.map_err(LookupError::Pool)?.map_err(LookupError::Disk)
    }

    /// Keeps an entry that still is as found, and removes another.
    fn settle(&self, key: Key<'_>, entry: &Entry, started_ms: u64, found: &Target) -> bool {
        let is_same = *found == entry.target && !entry.is_young;
        match is_same {
            true => entry.checked_ms.set(started_ms.max(entry.checked_ms.get())),
            false => self.cache.borrow_mut().remove(key),
        }
        is_same
    }

    /// Looks up a path that is not cached. `sends` means that the start of the file will be sent
    /// next.
    ///
    /// # Errors
    /// The disk failed.
    pub(crate) async fn find(
        &self,
        lookup: &Arc<Lookup>,
        sends: bool,
    ) -> Result<Outcome, LookupError> {
        self.misses.set(self.misses.get() + 1);
        if let Some(origin) = &lookup.origin {
            return Box::pin(objects::find(lookup, origin, &self.disk, sends)).await;
        }
        let ahead = if sends { WINDOW_BYTES } else { 0 };
        let found = self.find_and_read(lookup, ahead).await?;
        if let (Outcome::File { opened, .. }, Some(hashes)) = (&found, &lookup.hashes) {
            let pending = opened.iter().filter(|opened| opened.tag == TagSource::Pending);
            pending.for_each(|opened| hashes.begin(&self.disk, &opened.file));
        }
        if let Outcome::File { opened, .. } = &found
            && let ([one], true) = (&opened[..], sends)
        {
            one.file.set_warm(0, clock::now_ms());
        }
        Ok(found)
    }

    /// Roots that were opened since this time (of `clock::now_ms`) are trusted.
    fn trusted_since_ms(&self) -> u64 {
        match self.revalidate_ms / TRUSTED_PART {
            0 => clock::NEVER,
            trusted_ms => {
                let since_ms = clock::now_ms().saturating_sub(trusted_ms);
                since_ms.max(self.changed.first_current_ms())
            }
        }
    }

    async fn find_and_read(
        &self,
        lookup: &Arc<Lookup>,
        ahead: u64,
    ) -> Result<Outcome, LookupError> {
        let since_ms = self.trusted_since_ms();
        let job = Arc::clone(lookup);
        let found = self.disk.run(lookup.lane, move || job.find(ahead, since_ms)).await;
        match found.map_err(LookupError::Pool)? {
            Err(e) if is_out_of_descriptors(&e) => {
                self.give_up_descriptors();
                let job = Arc::clone(lookup);
                let again = self.disk.run(lookup.lane, move || job.find(ahead, since_ms));
                Box::pin(again).await.map_err(LookupError::Pool)?.map_err(LookupError::Disk)
            }
            found => found.map_err(LookupError::Disk),
        }
    }

    /// Publishes the size and the misses of the cache.
    pub(crate) fn publish(&self, metrics: &WorkerMetrics) {
        self.cache.borrow().publish(metrics);
        metrics.files.misses.set(self.misses.get());
    }

    /// Removes the entries of all sites but these.
    pub(crate) fn retain_sites(&self, keys: &[usize]) {
        self.cache.borrow_mut().retain_sites(|site| keys.contains(&site));
    }

    /// Releases memory for other encodings whenever one has found no room, as long as the worker
    /// runs.
    pub(crate) async fn share_memory(self: Rc<Store>, compressor: Compressor) {
        let mut alarm = Alarm::unset();
        let mut refused = 0;
        loop {
            alarm.wait(RELEASE_EVERY).await;
            let now = compressor.refused();
            if now != refused {
                refused = now;
                self.cache.borrow_mut().release_encodings();
            }
        }
    }

    /// Stores an entry, if the cache admits it.
    pub(crate) fn keep(&self, key: Key<'_>, entry: Entry) {
        let mut cache = self.cache.borrow_mut();
        let Some(entry) = cache.insert(key, entry) else { return };
        if let (Some(watched), Some(directory)) = (&self.watched, entry.directory())
            && !watched.has(&directory)
        {
            let watched = watched.clone();
            self.disk.begin(entry.lookup.lane, move || watched.add(directory));
        }
    }

    /// Closes cached files, when the process has no descriptors left.
    pub(crate) fn give_up_descriptors(&self) {
        self.cache.borrow_mut().give_up_descriptors();
    }
}

/// True if the error means that no descriptors are left.
pub(crate) fn is_out_of_descriptors(e: &io::Error) -> bool {
    matches!(
        rustix::io::Errno::from_io_error(e),
        Some(rustix::io::Errno::MFILE | rustix::io::Errno::NFILE)
    )
}
