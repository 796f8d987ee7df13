//! An object that is received in chunks, each with one request for all who wait for it. Its file
//! has its full length from the start; bytes that have not arrived are holes that nobody reads.

use std::collections::{HashMap, HashSet};
use std::fs::File;
use std::io;
use std::ops::Range;
use std::os::fd::{AsFd as _, OwnedFd};
use std::os::unix::fs::FileExt as _;
use std::path::PathBuf;
use std::sync::{Arc, Mutex, MutexGuard, OnceLock, PoisonError};

use bytes::Bytes;
use futures_util::stream::BoxStream;
use futures_util::{FutureExt as _, StreamExt as _};
use md5::{Digest as _, Md5 as Hasher};
use object_store::path::Path;
use object_store::{GetOptions, GetRange};
use tokio::sync::watch;
use tokio::time::timeout;

use crate::checksum::Md5;
use crate::directory::Directory;
use crate::error::failure_of;
use crate::origin::Shared;
use crate::slot::{Body, Meta, Slot};
use crate::{Failure, Kind};

/// Bytes of an object that are fetched with one request.
pub(crate) const CHUNK_BYTES: u64 = 4 << 20;

/// Bytes that are written to the disk, or read from it, at once.
const PIECE_BYTES: u64 = 256 << 10;

/// The bytes of a response of the store.
pub(crate) type Frames = BoxStream<'static, object_store::Result<Bytes>>;

/// An object of which not all bytes have arrived.
#[derive(Debug)]
pub(crate) struct Partial {
    pub(crate) meta: Meta,
    pub(crate) location: Path,
    pub(crate) slot: Arc<Slot>,
    file: OnceLock<PartFile>,
    chunks: Mutex<Chunks>,
}

/// A file that is removed unless it gets the object's name.
#[derive(Debug)]
struct PartFile {
    path: PathBuf,
    file: Arc<File>,
}

impl Drop for PartFile {
    fn drop(&mut self) {
        // After `publish` there is nothing of this name.
        let _ = std::fs::remove_file(&self.path);
    }
}

#[derive(Debug, Default)]
struct Chunks {
    done: HashSet<u64>,
    arriving: HashMap<u64, watch::Receiver<Progress>>,
    /// Its bytes are wrong, or their rest is gone: nobody may read on.
    broken: Option<Failure>,
}

/// The progress of a chunk.
#[derive(Clone, Debug)]
enum Progress {
    /// This many of its bytes have arrived.
    Arrived(u64),
    Done,
    Failed(Failure),
}

/// Access to the bytes of an object while they arrive.
#[derive(Clone, Debug)]
pub struct Arrival {
    pub(crate) partial: Arc<Partial>,
    pub(crate) shared: Arc<Shared>,
}

impl Partial {
    pub(crate) fn new(meta: Meta, location: Path, slot: &Arc<Slot>) -> Partial {
        let (file, chunks) = (OnceLock::new(), Mutex::default());
        Partial { meta, location, slot: Arc::clone(slot), file, chunks }
    }

    /// Returns a descriptor of its file, if there is one.
    pub(crate) fn descriptor(&self) -> Option<OwnedFd> {
        self.file.get()?.file.as_fd().try_clone_to_owned().ok()
    }

    fn len(&self) -> u64 {
        self.meta.version.len
    }

    /// The bytes of a chunk.
    fn range(&self, chunk: u64) -> Range<u64> {
        let start = chunk * CHUNK_BYTES;
        start..self.len().min(start + CHUNK_BYTES)
    }

    /// Number of chunks; an empty object has one.
    fn count(&self) -> u64 {
        self.len().div_ceil(CHUNK_BYTES).max(1)
    }

    /// `true` if no chunk has arrived, and none arrives.
    fn has_nothing(&self) -> bool {
        let chunks = self.lock();
        chunks.done.is_empty() && chunks.arriving.is_empty()
    }

    fn lock(&self) -> MutexGuard<'_, Chunks> {
        self.chunks.lock().unwrap_or_else(PoisonError::into_inner)
    }

    /// Its file; blocks on the disk the first time.
    fn file(&self, directory: &Directory) -> io::Result<Arc<File>> {
        if let Some(part) = self.file.get() {
            return Ok(Arc::clone(&part.file));
        }
        let (path, file) = directory.create_part()?;
        let part = PartFile { path, file: Arc::new(file) };
        part.file.set_len(self.len())?;
        // Two chunks may begin at once; one then uses the other's file.
        Ok(Arc::clone(&self.file.get_or_init(|| part).file))
    }
}

impl Arrival {
    /// `true` if all bytes of a range have arrived.
    pub fn has(&self, range: Range<u64>) -> bool {
        let chunks = self.partial.lock();
        let mut wanted = range.start / CHUNK_BYTES..range.end.div_ceil(CHUNK_BYTES);
        wanted.all(|chunk| chunks.done.contains(&chunk))
    }

    /// Waits for the first bytes of a range and reads them: at least one, at most 256 KiB.
    ///
    /// # Errors
    /// They do not arrive.
    pub async fn read(&self, range: Range<u64>) -> Result<Bytes, Failure> {
        let arrived = self.wait(&range).await?;
        let end = range.end.min(arrived).min(range.start + PIECE_BYTES);
        let (this, start) = (self.clone(), range.start);
        self.shared
            .blocking(move || {
                let file = this.partial.file(&this.shared.directory)?;
                // At most `PIECE_BYTES`.
                let mut bytes = vec![0; (end - start) as usize];
                file.read_exact_at(&mut bytes, start)?;
                Ok(Bytes::from(bytes))
            })
            .await
    }

    /// Waits for the first byte of a range; returns the end of the bytes that have arrived.
    async fn wait(&self, range: &Range<u64>) -> Result<u64, Failure> {
        let chunk = range.start / CHUNK_BYTES;
        let bytes = self.partial.range(chunk);
        let mut progress = {
            let mut chunks = self.partial.lock();
            // The next chunk arrives while this one is sent.
            if bytes.end < range.end {
                drop(self.begin(&mut chunks, chunk + 1, None)?);
            }
            match self.begin(&mut chunks, chunk, None)? {
                Some(progress) => progress,
                None => return Ok(bytes.end),
            }
        };
        let is_here = |progress: &Progress| match progress {
            Progress::Arrived(len) => bytes.start + len > range.start,
            Progress::Done | Progress::Failed(_) => true,
        };
        let lost = || Failure::new(Kind::Internal, "a fetch ended without a result");
        let progress = progress.wait_for(is_here).await.map_err(|_| lost())?.clone();
        match progress {
            Progress::Arrived(len) => Ok(bytes.start + len),
            Progress::Done => Ok(bytes.end),
            Progress::Failed(failure) => Err(failure),
        }
    }

    /// Begins the fetch of the first chunk from a response that has begun.
    pub(crate) fn begin_with(&self, frames: Frames) {
        // A new object is not broken.
        let _ = self.begin(&mut self.partial.lock(), 0, Some(frames));
    }

    /// Joins or begins the fetch of a chunk; `None`: it has arrived.
    fn begin(
        &self,
        chunks: &mut Chunks,
        chunk: u64,
        frames: Option<Frames>,
    ) -> Result<Option<watch::Receiver<Progress>>, Failure> {
        if let Some(failure) = &chunks.broken {
            return Err(failure.clone());
        }
        if chunks.done.contains(&chunk) {
            return Ok(None);
        }
        if let Some(arriving) = chunks.arriving.get(&chunk) {
            return Ok(Some(arriving.clone()));
        }
        let (sender, receiver) = watch::channel(Progress::Arrived(0));
        chunks.arriving.insert(chunk, receiver.clone());
        let this = self.clone();
        self.shared.spawn(async move { this.fetch(chunk, frames, &sender).await });
        Ok(Some(receiver))
    }

    async fn fetch(&self, chunk: u64, frames: Option<Frames>, progress: &watch::Sender<Progress>) {
        let result = self.receive(chunk, frames, progress).await;
        let is_whole = {
            let mut chunks = self.partial.lock();
            chunks.arriving.remove(&chunk);
            match &result {
                Ok(()) => drop(chunks.done.insert(chunk)),
                Err(failure) if is_final(failure) => chunks.broken = Some(failure.clone()),
                Err(_) => {}
            }
            result.is_ok() && chunks.done.len() as u64 == self.partial.count()
        };
        if let Err(failure) = &result {
            self.shared.log(&self.partial.location, failure);
            if is_final(failure) {
                self.shared.remove(self.shared.index.expire(&self.partial.slot)).await;
            }
        }
        let has_failed = result.is_err();
        // The receivers may be gone.
        let _ = progress.send(result.map_or_else(Progress::Failed, |()| Progress::Done));
        if is_whole {
            if let Err(failure) = self.finish().await {
                self.partial.lock().broken = Some(failure.clone());
                self.shared.log(&self.partial.location, &failure);
                self.shared.remove(self.shared.index.expire(&self.partial.slot)).await;
            }
        } else if has_failed && self.partial.has_nothing() {
            // The slot would keep the file open.
            self.partial.slot.set_body(&self.partial.meta.version, Body::Absent);
            self.shared.index.empty(&self.partial.slot);
        }
    }

    /// Receives a chunk into the file.
    async fn receive(
        &self,
        chunk: u64,
        frames: Option<Frames>,
        progress: &watch::Sender<Progress>,
    ) -> Result<(), Failure> {
        let (partial, shared) = (&self.partial, &self.shared);
        let range = partial.range(chunk);
        let len = range.end - range.start;
        let evicted = shared.index.reserve(&partial.slot, len)?;
        shared.remove(evicted).await;
        let received = self.receive_reserved(range, frames, progress).await;
        if received.is_err() {
            // The next attempt reserves them again.
            shared.index.release(&partial.slot, len);
        }
        received
    }

    async fn receive_reserved(
        &self,
        range: Range<u64>,
        frames: Option<Frames>,
        progress: &watch::Sender<Progress>,
    ) -> Result<(), Failure> {
        let (partial, shared) = (&self.partial, &self.shared);
        let len = range.end - range.start;
        let mut frames = match frames {
            Some(frames) => frames,
            None => self.request(&range).await?,
        };
        let is_checked = shared.settings.checksums && partial.count() == 1;
        let expected = partial.meta.md5.filter(|_| is_checked);
        let mut hasher = expected.map(|_| Hasher::new());
        let mut arrived = 0;
        while arrived < len || len == 0 {
            let batch = self.next_batch(&mut frames, len - arrived).await?;
            let batch_len: u64 = batch.iter().map(|bytes| bytes.len() as u64).sum();
            if batch_len == 0 && len > 0 {
                return Err(Failure::new(Kind::Corrupt, "the response is shorter than the object"));
            }
            let (this, offset) = (self.clone(), range.start + arrived);
            hasher = shared.blocking(move || this.write(&batch, offset, hasher)).await?;
            arrived += batch_len;
            if let (true, Some(Md5(expected)), Some(hasher)) = (arrived == len, expected, &hasher)
                && hasher.clone().finalize()[..] != expected
            {
                return Err(Failure::new(Kind::Corrupt, "the bytes differ from the checksum"));
            }
            if arrived == len {
                break;
            }
            let _ = progress.send(Progress::Arrived(arrived));
        }
        Ok(())
    }

    async fn request(&self, range: &Range<u64>) -> Result<Frames, Failure> {
        let partial = &self.partial;
        let _permit = self.shared.permit().await?;
        let options = GetOptions {
            if_match: partial.meta.etag.clone(),
            range: (partial.count() > 1).then(|| GetRange::Bounded(range.clone())),
            ..GetOptions::default()
        };
        let result = self.shared.get(&partial.location, options).await?;
        let changed = || Failure::new(Kind::Changed, "the object was replaced meanwhile");
        let Some((meta, frames)) = result else { return Err(changed()) };
        if meta.version != partial.meta.version {
            return Err(changed());
        }
        Ok(frames)
    }

    /// Receives at least one frame unless the response ends, and all that are there, up to
    /// `PIECE_BYTES` and `len_max` in total.
    async fn next_batch(&self, frames: &mut Frames, len_max: u64) -> Result<Vec<Bytes>, Failure> {
        let (mut batch, mut len) = (Vec::new(), 0);
        while len < PIECE_BYTES.min(len_max) {
            let next = match len {
                0 => match timeout(self.shared.settings.timeout, frames.next()).await {
                    Ok(next) => next,
                    Err(_) => {
                        return Err(Failure::new(Kind::Timeout, "the response does not go on"));
                    }
                },
                _ => match frames.next().now_or_never() {
                    Some(next) => next,
                    None => break,
                },
            };
            let Some(frame) = next else { break };
            let mut frame = frame.map_err(|error| failure_of(&error))?;
            // A response for the whole object is read up to the end of the chunk.
            frame.truncate(usize::try_from(len_max - len).unwrap_or(usize::MAX));
            len += frame.len() as u64;
            batch.push(frame);
        }
        Ok(batch)
    }

    fn write(
        &self,
        batch: &[Bytes],
        mut offset: u64,
        mut hasher: Option<Hasher>,
    ) -> io::Result<Option<Hasher>> {
        let file = self.partial.file(&self.shared.directory)?;
        for bytes in batch {
            file.write_all_at(bytes, offset)?;
            offset += bytes.len() as u64;
            if let Some(hasher) = &mut hasher {
                hasher.update(bytes);
            }
        }
        Ok(hasher)
    }

    /// Stores the object, all of whose bytes have arrived.
    async fn finish(&self) -> Result<(), Failure> {
        let (partial, shared) = (&self.partial, &self.shared);
        let this = self.clone();
        let is_good = shared
            .blocking(move || {
                let Some(part) = this.partial.file.get() else { return Ok(false) };
                let Meta { version, md5, .. } = &this.partial.meta;
                let checks = this.shared.settings.checksums && this.partial.count() > 1;
                if let Some(Md5(expected)) = md5.filter(|_| checks)
                    && hash(&part.file, version.len)? != expected
                {
                    return Ok(false);
                }
                let (directory, key) = (&this.shared.directory, this.partial.slot.id);
                directory.publish(&part.path, &part.file, key, version)?;
                Ok(true)
            })
            .await?;
        if !is_good {
            return Err(Failure::new(Kind::Corrupt, "the bytes differ from the checksum"));
        }
        if partial.slot.set_body(&partial.meta.version, Body::Whole) {
            shared.index.complete(&partial.slot, partial.len());
        } else {
            // Replaced meanwhile.
            shared.remove(vec![(partial.slot.id, partial.meta.version)]).await;
        }
        Ok(())
    }
}

/// True if another attempt cannot continue the object.
fn is_final(failure: &Failure) -> bool {
    matches!(failure.kind, Kind::Changed | Kind::Corrupt)
}

fn hash(file: &File, len: u64) -> io::Result<[u8; 16]> {
    let mut hasher = Hasher::new();
    let mut piece = vec![0; PIECE_BYTES as usize];
    let mut offset = 0;
    while offset < len {
        let wanted = usize::try_from(len - offset).unwrap_or(usize::MAX).min(piece.len());
        file.read_exact_at(&mut piece[..wanted], offset)?;
        hasher.update(&piece[..wanted]);
        offset += wanted as u64;
    }
    Ok(hasher.finalize().into())
}
