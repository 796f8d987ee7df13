//! The keys of an issuer: read from a file, or fetched from a URL in the background. They are
//! shared by all workers and kept while the URL cannot be fetched.

use std::path::Path;
use std::sync::atomic::{AtomicBool, AtomicU64, Ordering};
use std::sync::{Arc, Mutex, PoisonError};
use std::time::{Duration, Instant};
use std::{fmt, io};

use super::fetch::Fetcher;
use crate::config::{JwksSource, KeySet, read_jwks};
use crate::rt::{Bell, Task, Threads, sleep};

/// Shortest time between two fetches for keys that a token names and the set lacks.
const WANTED_MIN: Duration = Duration::from_secs(60);

/// Times to the next fetch after the first failed one, the second and so on; the last one repeats.
const RETRY_SECS: [u64; 6] = [1, 2, 5, 10, 30, 60];

/// The keys of one file or URL. Dropping it ends the fetching.
#[derive(Debug)]
pub(super) struct KeySource {
    /// The bytes of the file; empty for a URL.
    bytes: Vec<u8>,
    shared: Arc<SharedKeys>,
    /// Fetches a URL; `None` for a file.
    task: Option<Task>,
}

struct SharedKeys {
    /// `None`: no fetch has succeeded yet.
    set: Mutex<Option<Arc<KeySet>>>,
    /// The number of sets so far. Workers copy the set when it changes.
    generation: AtomicU64,
    /// A token named a key that the set lacks.
    is_wanted: AtomicBool,
    bell: Bell,
}

impl fmt::Debug for SharedKeys {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        write!(f, "set {}", self.generation.load(Ordering::Relaxed))
    }
}

impl KeySource {
    /// Reads a file.
    ///
    /// # Errors
    /// The file is unreadable or no key set.
    pub(super) fn read(file: &Path) -> io::Result<KeySource> {
        let read = read_jwks(file).map_err(|e| io::Error::new(io::ErrorKind::InvalidData, e));
        let (set, bytes) = read?;
        Ok(KeySource { bytes, shared: Arc::new(SharedKeys::new(Some(set))), task: None })
    }

    /// Starts to fetch a URL.
    pub(super) fn fetch(url: &str, threads: &Threads) -> KeySource {
        let shared = Arc::new(SharedKeys::new(None));
        let task = threads.spawn(keep(Arc::clone(&shared), url.to_owned()));
        KeySource { bytes: Vec::new(), shared, task: Some(task) }
    }

    /// Returns whether both have the same keys of the same file, or fetch.
    pub(super) fn is_as(&self, other: &KeySource) -> bool {
        self.bytes == other.bytes && self.task.is_some() == other.task.is_some()
    }

    /// Returns the number of the current set.
    pub(super) fn generation(&self) -> u64 {
        self.shared.generation.load(Ordering::Acquire)
    }

    /// Returns the current set; `None`: no fetch has succeeded yet.
    pub(super) fn current(&self) -> Option<Arc<KeySet>> {
        self.shared.set.lock().unwrap_or_else(PoisonError::into_inner).clone()
    }

    /// Has the URL fetched, because a token names a key that the set lacks.
    pub(super) fn want_others(&self) {
        if self.task.is_some() && !self.shared.is_wanted.swap(true, Ordering::Relaxed) {
            self.shared.bell.ring();
        }
    }
}

impl SharedKeys {
    fn new(set: Option<KeySet>) -> SharedKeys {
        SharedKeys {
            set: Mutex::new(set.map(Arc::new)),
            generation: AtomicU64::new(1),
            is_wanted: AtomicBool::new(false),
            bell: Bell::default(),
        }
    }

    fn publish(&self, set: KeySet) {
        *self.set.lock().unwrap_or_else(PoisonError::into_inner) = Some(Arc::new(set));
        self.generation.fetch_add(1, Ordering::Release);
    }
}

/// Fetches a URL again and again.
async fn keep(shared: Arc<SharedKeys>, url: String) {
    let (mut fetcher, mut failures) = (None, 0);
    let mut wanted_at: Option<Instant> = None;
    loop {
        let lifetime = match fetch(&mut fetcher, &url).await {
            Ok((set, lifetime)) => {
                if failures > 0 || shared.generation.load(Ordering::Relaxed) == 1 {
                    tracing::info!("{url}: fetched the keys of tokens");
                }
                shared.publish(set);
                failures = 0;
                lifetime
            }
            Err(e) => {
                tracing::warn!("{url}: {e}; the keys of tokens stay as they are");
                failures += 1;
                Duration::from_secs(RETRY_SECS[(failures - 1).min(RETRY_SECS.len() - 1)])
            }
        };
        let due = Instant::now() + lifetime;
        while let Some(left) = due.checked_duration_since(Instant::now()).filter(|d| !d.is_zero()) {
            shared.bell.wait(Some(left)).await;
            if shared.is_wanted.load(Ordering::Relaxed) {
                let next = wanted_at.map_or_else(Instant::now, |at| at + WANTED_MIN).min(due);
                sleep(next.saturating_duration_since(Instant::now())).await;
                wanted_at = Some(Instant::now());
                break;
            }
        }
        shared.is_wanted.store(false, Ordering::Relaxed);
    }
}

/// Fetches once. The fetcher is made if there is none, because the system may have had no trusted
/// authorities at the start.
async fn fetch(fetcher: &mut Option<Fetcher>, url: &str) -> Result<(KeySet, Duration), String> {
    let fetcher = match fetcher {
        Some(fetcher) => fetcher,
        None => fetcher.insert(Fetcher::new(url)?),
    };
    fetcher.fetch().await
}

/// Makes or shares the keys of a source.
///
/// # Errors
/// A file is unreadable or no key set.
pub(super) fn open(
    source: &JwksSource,
    previous: Option<&Arc<KeySource>>,
    threads: &Threads,
) -> io::Result<Arc<KeySource>> {
    match (source, previous) {
        (JwksSource::Url(_), Some(known)) => Ok(Arc::clone(known)),
        (JwksSource::Url(url), None) => Ok(Arc::new(KeySource::fetch(url, threads))),
        (JwksSource::File(path), previous) => {
            let read = KeySource::read(path)?;
            let known = previous.filter(|known| known.is_as(&read));
            Ok(known.map_or_else(|| Arc::new(read), Arc::clone))
        }
    }
}
