//! Lists the names beneath a prefix, page by page up to a bound, and keeps recent listings.
//! Requests for the same listing wait for one.

use std::collections::HashMap;
use std::sync::atomic::{AtomicU64, Ordering::SeqCst};
use std::sync::{Arc, Mutex, PoisonError};
use std::time::Instant;

use object_store::list::PaginatedListOptions;
use object_store::path::Path;
use tokio::time::timeout;

use crate::error::failure_of;
use crate::origin::Shared;
use crate::{Failure, Kind, Listed, Listing};

/// Maximum number of names in a listing: ten responses of the store.
const NAMES_MAX: usize = 10_000;

/// Names in one response of the store.
const PAGE_NAMES: usize = 1_000;

/// Maximum number of listings that are kept.
const LISTINGS_MAX: usize = 64;

/// Maximum number of prefixes of which it is known that keys have them.
const PREFIXES_MAX: usize = 4_096;

#[derive(Debug, Default)]
pub(crate) struct Listings {
    known: Mutex<HashMap<String, Kept<Arc<Listing>>>>,
    prefixes: Mutex<HashMap<String, Kept<bool>>>,
    turn: tokio::sync::Mutex<()>,
    /// Number of times that they were forgotten.
    changes: AtomicU64,
}

#[derive(Clone, Debug)]
struct Kept<T> {
    value: T,
    /// `Listings::changes` before the store was asked.
    changes: u64,
    at: Instant,
}

impl Shared {
    pub(crate) async fn has_prefix(&self, prefix: &str) -> Result<bool, Failure> {
        let changes = self.listings.changes.load(SeqCst);
        if let Some(known) = self.kept(&self.listings.prefixes, prefix, changes) {
            return Ok(known);
        }
        let has_keys = self.has_keys(prefix).await;
        let has_keys = has_keys
            .inspect_err(|failure| tracing::error!("{}{prefix}: {failure}", self.settings.url))?;
        keep(&self.listings.prefixes, prefix, has_keys, changes, PREFIXES_MAX);
        Ok(has_keys)
    }

    async fn has_keys(&self, prefix: &str) -> Result<bool, Failure> {
        let Some(first) = self.page(prefix, None, 1, None).await? else { return Ok(false) };
        if first.has_names() || first.token.is_none() {
            return Ok(first.has_names());
        }
        // The first key is one that no URL reaches. All with its segment are one prefix here.
        let names = self.page(prefix, Some("/"), PAGE_NAMES, None).await?;
        Ok(names.is_some_and(|names| names.has_names()))
    }

    pub(crate) async fn list(&self, prefix: String) -> Result<Arc<Listing>, Failure> {
        // One that was read since this request came is new enough for it, even if an upload has
        // ended in the meantime.
        let came = self.listings.changes.load(SeqCst);
        if let Some(known) = self.kept(&self.listings.known, &prefix, came) {
            return Ok(known);
        }
        let _turn = self.listings.turn.lock().await;
        if let Some(known) = self.kept(&self.listings.known, &prefix, came) {
            return Ok(known);
        }
        let changes = self.listings.changes.load(SeqCst);
        let listing = match self.read(&prefix).await {
            Ok(listing) => Arc::new(listing),
            Err(failure) => {
                tracing::error!("{}{prefix}: {failure}", self.settings.url);
                return Err(failure);
            }
        };
        keep(&self.listings.known, &prefix, Arc::clone(&listing), changes, LISTINGS_MAX);
        Ok(listing)
    }

    async fn read(&self, prefix: &str) -> Result<Listing, Failure> {
        let mut listing = Listing::default();
        let mut token = None;
        loop {
            let Some(page) = self.page(prefix, Some("/"), PAGE_NAMES, token).await? else { break };
            for path in &page.common_prefixes {
                listing.add(path, None);
            }
            for meta in &page.objects {
                let secs = u64::try_from(meta.last_modified.timestamp()).unwrap_or(0);
                // An object with the name of the prefix only marks a directory.
                if meta.location.as_ref().len() > self.settings.url.prefix.len() + prefix.len() {
                    listing.add(&meta.location, Some((meta.size, secs)));
                }
            }
            token = page.token;
            if token.is_none() {
                break;
            }
            if listing.names.len() >= NAMES_MAX {
                listing.is_truncated = true;
                break;
            }
        }
        Ok(listing)
    }

    /// Requests one page. `None`: no key can have the prefix.
    async fn page(
        &self,
        prefix: &str,
        delimiter: Option<&'static str>,
        max_keys: usize,
        page_token: Option<String>,
    ) -> Result<Option<Page>, Failure> {
        let whole = format!("{}{prefix}", self.settings.url.prefix);
        let segments = whole.strip_suffix('/').unwrap_or(&whole);
        if Path::parse(segments).is_err() {
            return Ok(None);
        }
        let _permit = self.permit().await?;
        let options = PaginatedListOptions {
            delimiter: delimiter.map(Into::into),
            max_keys: Some(max_keys),
            page_token,
            ..PaginatedListOptions::default()
        };
        let prefix = Some(whole.as_str()).filter(|prefix| !prefix.is_empty());
        match timeout(self.settings.timeout, self.store()?.list_paginated(prefix, options)).await {
            Err(_) => Err(Failure::new(Kind::Timeout, "the store does not respond")),
            Ok(Err(error)) => Err(failure_of(&error)),
            Ok(Ok(found)) => Ok(Some(Page {
                objects: found.result.objects,
                common_prefixes: found.result.common_prefixes,
                token: found.page_token,
            })),
        }
    }

    /// Returns a value that was asked for behind so many changes, or later.
    fn kept<T: Clone>(
        &self,
        all: &Mutex<HashMap<String, Kept<T>>>,
        key: &str,
        changes: u64,
    ) -> Option<T> {
        let all = all.lock().unwrap_or_else(PoisonError::into_inner);
        let kept = all.get(key).filter(|kept| kept.changes >= changes)?;
        (kept.at.elapsed() < self.settings.revalidate).then(|| kept.value.clone())
    }

    /// Forgets what is known of the directories of a key, which has changed.
    pub(crate) fn forget_listings(&self) {
        self.listings.changes.fetch_add(1, SeqCst);
    }
}

struct Page {
    objects: Vec<object_store::ObjectMeta>,
    common_prefixes: Vec<Path>,
    token: Option<String>,
}

impl Page {
    fn has_names(&self) -> bool {
        !self.objects.is_empty() || !self.common_prefixes.is_empty()
    }
}

impl Listing {
    fn add(&mut self, path: &Path, file: Option<(u64, u64)>) {
        if let Some(name) = path.filename() {
            self.names.push(Listed { name: name.to_owned(), file });
        }
    }
}

/// Keeps a value; the oldest one leaves if there are too many.
fn keep<T>(all: &Mutex<HashMap<String, Kept<T>>>, key: &str, value: T, changes: u64, max: usize) {
    let mut all = all.lock().unwrap_or_else(PoisonError::into_inner);
    if all.len() >= max && !all.contains_key(key) {
        let oldest = all.iter().min_by_key(|(_, kept)| kept.at).map(|(key, _)| key.clone());
        oldest.and_then(|key| all.remove(&key));
    }
    all.insert(key.to_owned(), Kept { value, changes, at: Instant::now() });
}
