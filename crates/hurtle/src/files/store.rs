//! Keeps what is known of files true: finds what is not known, and looks a name up again before it
//! has been believed for longer than `revalidate`.

use std::cell::RefCell;
use std::io;
use std::rc::Rc;
use std::sync::Arc;

use http::StatusCode;

use super::{Cache, Changed, Entry, Key, Lookup, Outcome};
use crate::answer::Answer;
use crate::body::WINDOW_BYTES;
use crate::disk::{Disk, Failure};
use crate::{clock, rt};

/// A worker's knowledge of files.
#[derive(Debug)]
pub struct Store {
    cache: RefCell<Cache>,
    /// Where names are looked up.
    pub disk: Disk,
    revalidate_ms: u64,
    /// When this server itself changed a file.
    changed: Changed,
}

/// Why a file could not be found out about.
#[derive(Debug)]
pub enum Trouble {
    /// The pool gave no result.
    Pool(Failure),
    /// The disk did not.
    Disk(io::Error),
}

impl Trouble {
    /// The answer in the place of the file at `path`; what the client cannot know is logged.
    pub fn answer(&self, path: &[u8]) -> Answer {
        let path = String::from_utf8_lossy(path);
        match self {
            Trouble::Pool(Failure::Busy) => {
                tracing::warn!("{path}: the disk is too slow; answered 503");
                Answer::error(StatusCode::SERVICE_UNAVAILABLE, None)
            }
            Trouble::Pool(Failure::Panicked) => {
                Answer::error(StatusCode::INTERNAL_SERVER_ERROR, None)
            }
            Trouble::Disk(e) if is_out_of_descriptors(e) => {
                tracing::warn!("{path}: out of file descriptors; answered 503");
                Answer::error(StatusCode::SERVICE_UNAVAILABLE, None)
            }
            Trouble::Disk(e) => {
                tracing::error!("{path}: {e}");
                Answer::error(StatusCode::INTERNAL_SERVER_ERROR, None)
            }
        }
    }
}

impl Store {
    /// An empty one.
    pub fn new(cache: Cache, disk: Disk, revalidate_ms: u64, changed: Changed) -> Rc<Store> {
        Rc::new(Store { cache: RefCell::new(cache), disk, revalidate_ms, changed })
    }

    /// What is known and may be believed without asking. When that will soon be over and the path
    /// is in demand, its name is looked up again beside the answering, so that nobody waits.
    pub fn fresh(self: &Rc<Store>, key: Key<'_>, now_ms: u64) -> Option<Rc<Entry>> {
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
                // Trouble shows when the entry has grown too old and somebody waits for it.
                let _ = store.refresh(key, &entry).await;
            });
        }
        Some(Rc::clone(entry))
    }

    /// What is known once its name has been looked up again; `None` if it must be found anew.
    ///
    /// # Errors
    /// When the disk gives no answer.
    pub async fn revalidated(&self, key: Key<'_>) -> Result<Option<Rc<Entry>>, Trouble> {
        let known = self.cache.borrow().get(key).map(Rc::clone);
        let Some(entry) = known else { return Ok(None) };
        Ok(self.refresh(key, &entry).await?.then_some(entry))
    }

    /// True: the name still stands for the same file.
    async fn refresh(&self, key: Key<'_>, entry: &Rc<Entry>) -> Result<bool, Trouble> {
        let started_ms = clock::now_ms();
        let lookup = Arc::clone(&entry.lookup);
        // Not behind the files that nobody has asked for lately: they may wait for the disk, this not.
        let found = self.disk.run_next(lookup.lane, move || lookup.probe()).await;
        entry.refreshing.set(false);
        let found = found.map_err(Trouble::Pool)?.map_err(Trouble::Disk)?;
        if found == entry.target && !entry.weak {
            entry.checked_ms.set(started_ms.max(entry.checked_ms.get()));
            return Ok(true);
        }
        self.cache.borrow_mut().remove(key);
        Ok(false)
    }

    /// Looks a path up from scratch. `sends`: the beginning of what is found will be sent next.
    ///
    /// # Errors
    /// When the disk gives no answer.
    pub async fn find(&self, lookup: &Arc<Lookup>, sends: bool) -> Result<Outcome, Trouble> {
        let ahead = if sends { WINDOW_BYTES } else { 0 };
        let found = self.find_and_read(lookup, ahead).await?;
        if let Outcome::File { opened, .. } = &found
            && let ([one], true) = (&opened[..], sends)
        {
            one.file.set_warm(0, clock::now_ms());
        }
        Ok(found)
    }

    async fn find_and_read(&self, lookup: &Arc<Lookup>, ahead: u64) -> Result<Outcome, Trouble> {
        let job = Arc::clone(lookup);
        let found = self.disk.run(lookup.lane, move || job.find(ahead)).await;
        match found.map_err(Trouble::Pool)? {
            Err(e) if is_out_of_descriptors(&e) => {
                self.give_up_descriptors();
                let job = Arc::clone(lookup);
                let again = self.disk.run(lookup.lane, move || job.find(ahead)).await;
                again.map_err(Trouble::Pool)?.map_err(Trouble::Disk)
            }
            found => found.map_err(Trouble::Disk),
        }
    }

    /// Keeps an entry.
    pub fn keep(&self, key: Key<'_>, entry: Rc<Entry>) {
        self.cache.borrow_mut().insert(key, entry);
    }

    /// Closes cached files, for when the process has run out of descriptors.
    pub fn give_up_descriptors(&self) {
        self.cache.borrow_mut().give_up_descriptors();
    }
}

/// Whether an error says that there are no descriptors left.
pub fn is_out_of_descriptors(e: &io::Error) -> bool {
    matches!(
        rustix::io::Errno::from_io_error(e),
        Some(rustix::io::Errno::MFILE | rustix::io::Errno::NFILE)
    )
}
