//! Looks up objects of a store: asks the store about an object once for all who wait, repeats that
//! when the description is old, and goes on with the old one while the store does not respond.

use std::fmt;
use std::io;
use std::sync::atomic::{AtomicUsize, Ordering::Relaxed};
use std::sync::{Arc, Mutex, PoisonError};
use std::time::{Duration, Instant};

use object_store::path::Path;
use object_store::{Error, GetOptions, ObjectMeta};
use tokio::runtime::{Builder, Handle, Runtime};
use tokio::sync::{OnceCell, Semaphore, SemaphorePermit};
use tokio::time::timeout;

use crate::checksum::Md5;
use crate::connect::{Store, connect};
use crate::directory::{self, Directory};
use crate::error::failure_of;
use crate::index::{Evicted, Index};
use crate::listing::Listings;
use crate::partial::{Frames, Partial};
use crate::settings::{KEY_BYTES_MAX, Settings};
use crate::slot::{Ages, Body, Known, Meta, Slot};
use crate::upload::UPLOADS_MAX;
use crate::{Failure, Kind, Listing, Object, Version};

pub use crate::partial::Arrival;
pub use crate::upload::Put;

/// Requests to one store at once.
const REQUESTS_MAX: usize = 64;

/// Look-ups that wait for one store.
const WAITING_MAX: usize = 4096;

/// A request that sends a part may take this many times `timeout`.
const UPLOAD_TIMES: u32 = 6;

/// Threads that read and write files of caches.
const DISK_THREADS: usize = 4;

/// All stores of a process, and the thread that talks to them.
#[derive(Clone, Default)]
pub struct Origins(Arc<Mutex<Inner>>);

#[derive(Default)]
struct Inner {
    runtime: Option<Arc<Background>>,
    origins: Vec<Origin>,
}

/// Ends its tasks without waiting for them: the last handle may be dropped on any thread.
struct Background(Option<Runtime>);

impl Drop for Background {
    fn drop(&mut self) {
        if let Some(runtime) = self.0.take() {
            runtime.shutdown_background();
        }
    }
}

/// A store with its cache.
#[derive(Clone, Debug)]
pub struct Origin(Arc<Shared>);

pub(crate) struct Shared {
    pub(crate) settings: Settings,
    store: OnceCell<Arc<dyn Store>>,
    pub(crate) index: Index,
    pub(crate) directory: Directory,
    pub(crate) listings: Listings,
    /// The cache's directory has been read.
    ready: OnceCell<()>,
    requests: Semaphore,
    pub(crate) uploads: Arc<Semaphore>,
    waiting: AtomicUsize,
    started: Instant,
    handle: Handle,
    /// Ended with the last origin.
    _runtime: Arc<Background>,
}

impl Origins {
    /// Checks that the settings make a client.
    ///
    /// # Errors
    /// The reason why they make none.
    pub fn check(settings: &Settings) -> Result<(), String> {
        connect(settings).map(drop)
    }

    /// Returns the store of these settings; mounts with equal settings share it.
    ///
    /// # Errors
    /// The system refuses a thread.
    pub fn origin(&self, settings: &Settings) -> Result<Origin, String> {
        let mut inner = self.lock();
        if let Some(known) = inner.origins.iter().find(|known| known.0.settings == *settings) {
            return Ok(known.clone());
        }
        let runtime = match &inner.runtime {
            Some(runtime) => Arc::clone(runtime),
            None => Arc::new(Background(Some(start().map_err(|error| error.to_string())?))),
        };
        let Some(handle) = runtime.0.as_ref().map(|runtime| runtime.handle().clone()) else {
            return Err("the thread of object stores has ended".to_owned());
        };
        inner.runtime = Some(Arc::clone(&runtime));
        let origin = Origin(Arc::new(Shared {
            store: OnceCell::new(),
            index: Index::new(settings.cache_bytes),
            directory: Directory::new(settings),
            listings: Listings::default(),
            ready: OnceCell::new(),
            requests: Semaphore::new(REQUESTS_MAX),
            uploads: Arc::new(Semaphore::new(UPLOADS_MAX)),
            waiting: AtomicUsize::new(0),
            started: Instant::now(),
            settings: settings.clone(),
            handle,
            _runtime: runtime,
        }));
        inner.origins.push(origin.clone());
        Ok(origin)
    }

    /// Forgets the stores that no mount uses.
    pub fn retain_used(&self) {
        self.lock().origins.retain(|origin| Arc::strong_count(&origin.0) > 1);
    }

    fn lock(&self) -> std::sync::MutexGuard<'_, Inner> {
        self.0.lock().unwrap_or_else(PoisonError::into_inner)
    }
}

impl fmt::Debug for Origins {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        f.debug_list().entries(&self.lock().origins).finish()
    }
}

impl fmt::Debug for Shared {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        write!(f, "{}", self.settings.url)
    }
}

fn start() -> io::Result<Runtime> {
    Builder::new_multi_thread()
        .worker_threads(1)
        .max_blocking_threads(DISK_THREADS)
        .thread_name("objects")
        .enable_all()
        .build()
}

impl Origin {
    /// The settings.
    pub fn settings(&self) -> &Settings {
        &self.0.settings
    }

    /// Opens an object; `None`: there is none. `whole`: all of it will be sent next, so it is
    /// requested at once; otherwise bytes are requested when they are read.
    ///
    /// # Errors
    /// The store does not say, or the cache's disk failed.
    pub async fn open(&self, key: String, whole: bool) -> Result<Option<Object>, Failure> {
        self.run(|shared| async move { shared.open(&key, whole).await }).await
    }

    /// Returns the version of an object; `None`: there is none.
    ///
    /// # Errors
    /// The store does not say.
    pub async fn check(&self, key: String) -> Result<Option<Version>, Failure> {
        self.run(|shared| async move {
            let Some(location) = shared.location(&key) else { return Ok(None) };
            let (_, known) = shared.look_up(&location, false).await?;
            Ok(known.map(|meta| meta.version))
        })
        .await
    }

    /// Returns the version of an object of which all bytes are in the cache.
    pub async fn cached(&self, key: String) -> Option<Version> {
        let found = self.run(|shared| async move {
            let Some(location) = shared.location(&key) else { return Ok(None) };
            let slot = shared.index.find(shared.id(&location));
            Ok(slot.and_then(|slot| match (slot.known(), slot.body()) {
                (Known::Present(meta), Body::Whole) => Some(meta.version),
                _ => None,
            }))
        });
        found.await.unwrap_or_default()
    }

    /// `true` if keys begin with this prefix, which is empty or ends in `/`.
    ///
    /// # Errors
    /// The store does not say.
    pub async fn has_prefix(&self, prefix: String) -> Result<bool, Failure> {
        self.run(|shared| async move { shared.has_prefix(&prefix).await }).await
    }

    /// Lists the names beneath a prefix, which is empty or ends in `/`.
    ///
    /// # Errors
    /// The store does not list them.
    pub async fn list(&self, prefix: String) -> Result<Arc<Listing>, Failure> {
        self.run(|shared| async move { shared.list(prefix).await }).await
    }

    pub(crate) fn shared(&self) -> &Arc<Shared> {
        &self.0
    }

    /// Runs a task on the thread of object stores, to its end even if nobody waits any longer.
    pub(crate) async fn run<T, F>(&self, task: impl FnOnce(Arc<Shared>) -> F) -> Result<T, Failure>
    where
        T: Send + 'static,
        F: Future<Output = Result<T, Failure>> + Send + 'static,
    {
        let waiting = Waiting::begin(&self.0)?;
        let task = task(Arc::clone(&self.0));
        let shared = Arc::clone(&self.0);
        let ran = self.0.handle.spawn(async move {
            let _waiting = waiting;
            shared.ready().await?;
            task.await
        });
        ran.await.unwrap_or_else(|error| Err(Failure::new(Kind::Internal, error.to_string())))
    }
}

/// Counts a waiting look-up.
struct Waiting(Arc<Shared>);

impl Waiting {
    fn begin(shared: &Arc<Shared>) -> Result<Waiting, Failure> {
        let waiting = Waiting(Arc::clone(shared));
        match shared.waiting.fetch_add(1, Relaxed) {
            WAITING_MAX.. => Err(Failure::new(Kind::Busy, "too many requests wait for the store")),
            _ => Ok(waiting),
        }
    }
}

impl Drop for Waiting {
    fn drop(&mut self) {
        self.0.waiting.fetch_sub(1, Relaxed);
    }
}

impl Shared {
    /// Makes the client and reads the cache's directory, once.
    pub(crate) async fn ready(self: &Arc<Self>) -> Result<(), Failure> {
        let scan = async || {
            let this = Arc::clone(self);
            // It reads the certificates of authorities.
            let connect = move || connect(&this.settings).map_err(io::Error::other);
            let connected = self.store.get_or_try_init(|| self.blocking(connect)).await;
            connected.inspect_err(|failure| tracing::error!("{}: {failure}", self.settings.url))?;
            let this = Arc::clone(self);
            let found = self.blocking(move || this.directory.scan()).await.map_err(|failure| {
                let directory = self.settings.cache_dir.display();
                let failure = Failure::new(failure.kind, format!("{directory}: {failure}"));
                tracing::error!("{}: {failure}", self.settings.url);
                failure
            })?;
            self.remove(self.index.restore(found)).await;
            Ok(())
        };
        self.ready.get_or_try_init(scan).await.copied()
    }

    async fn open(self: &Arc<Self>, key: &str, whole: bool) -> Result<Option<Object>, Failure> {
        let Some(location) = self.location(key) else { return Ok(None) };
        let (slot, Some(meta)) = self.look_up(&location, whole).await? else { return Ok(None) };
        let version = meta.version;
        if let Body::Whole = slot.body() {
            let (this, id) = (Arc::clone(self), slot.id);
            match self.blocking(move || this.directory.open(id, &version)).await {
                Ok(Some(file)) => {
                    return Ok(Some(Object { version, file: Some(file.into()), arrival: None }));
                }
                Ok(None) => {}
                Err(failure) => self.log(&location, &failure),
            }
            // The file is gone or unreadable: the object is fetched again.
            slot.set_body(&version, Body::Absent);
            self.index.empty(&slot);
        }
        let partial = match slot.body() {
            Body::Partial(partial) => partial,
            Body::Absent | Body::Whole => self.partial(&location, &slot, meta),
        };
        let arrival = Arrival { partial: Arc::clone(&partial), shared: Arc::clone(self) };
        Ok(Some(Object { version, file: partial.descriptor(), arrival: Some(arrival) }))
    }

    fn partial(&self, location: &Path, slot: &Arc<Slot>, meta: Meta) -> Arc<Partial> {
        let partial = Arc::new(Partial::new(meta, location.clone(), slot));
        slot.set_body(&partial.meta.version, Body::Partial(Arc::clone(&partial)));
        partial
    }

    /// Returns the description of an object, which is at most `revalidate` old if the store
    /// responds.
    async fn look_up(
        self: &Arc<Self>,
        location: &Path,
        whole: bool,
    ) -> Result<(Arc<Slot>, Option<Meta>), Failure> {
        let Settings { revalidate, stale, .. } = self.settings;
        let ages = Ages { revalidate, stale };
        let slot = self.index.slot(self.id(location));
        let begun = Instant::now();
        let known = match slot.fresh(ages) {
            Some(known) => known,
            None => {
                let _turn = slot.turn.lock().await;
                match (slot.fresh(ages), slot.failed_since(begun)) {
                    (Some(known), _) => known,
                    (None, Some(failure)) => return Err(failure),
                    (None, None) => self.ask(location, &slot, ages, whole).await?,
                }
            }
        };
        let meta = match known {
            Known::Present(meta) => Some(meta),
            Known::Missing | Known::Unknown => None,
        };
        Ok((slot, meta))
    }

    /// Asks the store about an object; with `whole` also for its bytes, if none are here.
    async fn ask(
        self: &Arc<Self>,
        location: &Path,
        slot: &Arc<Slot>,
        ages: Ages,
        whole: bool,
    ) -> Result<Known, Failure> {
        let fetches = whole && slot.known() == Known::Unknown;
        let options = GetOptions { head: !fetches, ..GetOptions::default() };
        let changes = slot.changes();
        let result = match self.permit().await {
            Ok(_permit) => self.get(location, options).await,
            Err(failure) => Err(failure),
        };
        match result {
            Ok(found) => {
                let (known, frames) = match found {
                    Some((meta, frames)) => (Known::Present(meta), Some(frames)),
                    None => (Known::Missing, None),
                };
                let old = slot.describe(known.clone(), changes);
                if let Body::Absent = slot.body() {
                    self.index.empty(slot);
                }
                if let Some(old) = old {
                    self.remove(vec![(slot.id, old)]).await;
                }
                if let (true, Some(frames), Known::Present(meta)) = (fetches, frames, &known) {
                    let partial = self.partial(location, slot, meta.clone());
                    Arrival { partial, shared: Arc::clone(self) }.begin_with(frames);
                }
                Ok(known)
            }
            Err(failure) => {
                let known = slot.fail(&failure, self.started, ages);
                match &known {
                    Some(_) => tracing::warn!(
                        "{}{location}: {failure}; the cache's copy is used",
                        self.bucket()
                    ),
                    None => self.log(location, &failure),
                }
                known.ok_or(failure)
            }
        }
    }

    /// The client.
    pub(crate) fn store(&self) -> Result<&Arc<dyn Store>, Failure> {
        let unready = || Failure::new(Kind::Internal, "the store is used before it is ready");
        self.store.get().ok_or_else(unready)
    }

    /// Requests an object or its description. `None`: there is none.
    pub(crate) async fn get(
        &self,
        location: &Path,
        options: GetOptions,
    ) -> Result<Option<(Meta, Frames)>, Failure> {
        let result =
            match timeout(self.settings.timeout, self.store()?.get_opts(location, options)).await {
                Err(_) => return Err(Failure::new(Kind::Timeout, "the store does not respond")),
                Ok(Err(Error::NotFound { .. })) => return Ok(None),
                Ok(Err(error)) => return Err(failure_of(&error)),
                Ok(Ok(result)) => result,
            };
        let meta = describe(&result.meta, result.extensions.get::<Md5>().copied());
        Ok(Some((meta, result.into_stream())))
    }

    /// Waits for one of `REQUESTS_MAX` requests.
    pub(crate) async fn permit(&self) -> Result<SemaphorePermit<'_>, Failure> {
        match timeout(self.settings.timeout, self.requests.acquire()).await {
            Ok(Ok(permit)) => Ok(permit),
            _ => Err(Failure::new(Kind::Busy, "too many requests wait for the store")),
        }
    }

    /// Time limit of a request that sends a part.
    pub(crate) fn upload_timeout(&self) -> Duration {
        self.settings.timeout * UPLOAD_TIMES
    }

    /// The key of a path beneath the prefix. `None`: no object can have it.
    pub(crate) fn location(&self, key: &str) -> Option<Path> {
        let whole = format!("{}{key}", self.settings.url.prefix);
        let is_short = whole.len() <= KEY_BYTES_MAX;
        Path::parse(&whole).ok().filter(|path| is_short && path.as_ref() == whole)
    }

    pub(crate) fn id(&self, location: &Path) -> u128 {
        directory::hash(&[location.as_ref().as_bytes()])
    }

    pub(crate) fn bucket(&self) -> String {
        let url = self.settings.url.to_string();
        url[..url.len() - self.settings.url.prefix.len()].to_owned()
    }

    pub(crate) fn log(&self, location: &Path, failure: &Failure) {
        let bucket = self.bucket();
        match failure.kind {
            Kind::Changed => tracing::info!("{bucket}{location}: {failure}"),
            Kind::Denied | Kind::Busy => tracing::warn!("{bucket}{location}: {failure}"),
            _ => tracing::error!("{bucket}{location}: {failure}"),
        }
    }

    pub(crate) fn spawn(&self, task: impl Future<Output = ()> + Send + 'static) {
        drop(self.handle.spawn(task));
    }

    /// Runs a job that blocks on the disk.
    pub(crate) async fn blocking<T: Send + 'static>(
        &self,
        job: impl FnOnce() -> io::Result<T> + Send + 'static,
    ) -> Result<T, Failure> {
        match self.handle.spawn_blocking(job).await {
            Ok(Ok(value)) => Ok(value),
            Ok(Err(error)) => Err(Failure::new(Kind::Internal, format!("in the cache: {error}"))),
            Err(error) => Err(Failure::new(Kind::Internal, error.to_string())),
        }
    }

    /// Removes files of the cache.
    pub(crate) async fn remove(self: &Arc<Self>, files: Evicted) {
        if files.is_empty() {
            return;
        }
        let this = Arc::clone(self);
        // Nothing depends on it.
        let _ = self
            .blocking(move || {
                files.iter().for_each(|(id, version)| this.directory.remove(*id, version));
                Ok(())
            })
            .await;
    }
}

/// The description in a response of the store.
pub(crate) fn describe(meta: &ObjectMeta, md5: Option<Md5>) -> Meta {
    let secs = u64::try_from(meta.last_modified.timestamp()).unwrap_or(0);
    let (len, etag) = (meta.size, meta.e_tag.clone());
    let tag = etag.as_deref().unwrap_or_default();
    let hash = directory::hash(&[tag.as_bytes(), &len.to_le_bytes(), &secs.to_le_bytes()]);
    let generation = meta.version.clone();
    Meta { version: Version { hash, len, modified_secs: secs }, etag, generation, md5 }
}
