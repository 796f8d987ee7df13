//! Encoded files: each file is encoded once for each coding, on threads of low priority, and kept
//! in memory within a bound. A file is known by its stamp, so a changed file is another one.
//!
//! Entries of the file caches hold the encodings that they serve. Those are evicted once no entry
//! holds them; under pressure each worker releases entries that were not used lately.

use std::collections::{HashMap, VecDeque};
use std::io;
use std::num::NonZeroUsize;
use std::sync::atomic::{AtomicU64, Ordering::Relaxed};
use std::sync::{Arc, Mutex, MutexGuard, OnceLock, PoisonError};
use std::thread;

use bytes::Bytes;
use hurtle_http::semantics::accept::Coding;
use xxhash_rust::xxh3::xxh3_128;

use super::dictionary::{self, Dictionary, DictionaryHash, Hashes};
use super::directory::Directory;
use super::live::LiveEncoders;
use super::{CODINGS, Effort, Encoder};
use crate::body::{OpenFile, Stamp, Stream};
use crate::config::Compress;
use crate::disk::{Disk, Lane};
use crate::rt;

/// Files that wait to be encoded. At this limit a file stays unencoded until a later request.
const WAITING_MAX: usize = 64;

/// Encoder threads: one for this many processors, and at least one.
const PROCESSORS_PER_THREAD: usize = 4;

/// Threads that encode while files are sent: one for this many processors, and at least one.
const PROCESSORS_PER_LIVE_THREAD: usize = 2;

/// Memory that an encoding takes beside its bytes, and one that is not worth it takes at all.
const OVERHEAD_BYTES: u64 = 512;

/// Encodings that are looked at for eviction at once, so that the lock is held for microseconds.
const LOOKED_AT_MAX: usize = 256;

/// Bytes read from a file at once.
const READ_BYTES: usize = 128 << 10;

/// An encoding must save at least one in this many bytes, or it is not used.
const WORTH_ONE_IN: usize = 10;

/// The encoded files of the process; clones share them.
#[derive(Clone, Debug, Default)]
pub(crate) struct Compressor(Option<Arc<SharedFiles>>);

#[derive(Debug)]
struct SharedFiles {
    threads: Disk,
    lane: Lane,
    live: LiveEncoders,
    bytes_max: u64,
    directory: Option<Directory>,
    state: Mutex<FilesState>,
    /// Counts the encodings that found no room.
    refused: AtomicU64,
    hashes: Hashes,
}

#[derive(Debug, Default)]
struct FilesState {
    known: HashMap<Identity, Arc<Encoding>>,
    /// In order of insertion; eviction starts with the oldest.
    order: VecDeque<Identity>,
    /// Memory of all that is known, in bytes.
    bytes: u64,
    /// Jobs that wait or run.
    waiting: usize,
}

/// A file in a state, in a coding, encoded with a dictionary or without.
#[derive(Clone, Copy, Debug, PartialEq, Eq, Hash)]
pub(super) struct Identity {
    pub(super) stamp: Stamp,
    pub(super) coding: Coding,
    pub(super) dictionary: Option<Stamp>,
}

/// The encoding of a file, which may still be in work.
#[derive(Debug, Default)]
pub(crate) struct Encoding(OnceLock<EncodingResult>);

/// The end of an encoding.
#[derive(Clone, Debug)]
pub(crate) enum EncodingResult {
    /// The file is sent encoded.
    Made(EncodedFile),
    /// It is not worth it, or it failed: the file is sent as it is.
    Refused,
    /// There was no memory for it; it may be tried again.
    NoRoom,
    /// It is larger than all the memory for them: it is made while it is sent.
    TooLarge,
}

/// A file in a content-coding, in memory.
#[derive(Clone, Debug)]
pub(crate) struct EncodedFile {
    /// The file in the content-coding.
    pub bytes: Bytes,
    /// Hash of the bytes, for the entity-tag: another version of an encoder may give other bytes.
    pub hash: u128,
}

impl Encoding {
    /// Returns the result; `None`: the file is still being encoded.
    pub(crate) fn result(&self) -> Option<&EncodingResult> {
        self.0.get()
    }
}

impl Compressor {
    /// Starts the threads. Those of `disk` read what is encoded while it is sent.
    ///
    /// # Errors
    /// The system refuses a thread.
    pub(crate) fn start(config: &Compress, disk: &Disk) -> io::Result<Compressor> {
        if config.cache_bytes == 0 {
            return Ok(Compressor(None));
        }
        let processors = thread::available_parallelism().map_or(1, NonZeroUsize::get);
        let count = NonZeroUsize::new(processors / PROCESSORS_PER_THREAD);
        let threads = Disk::start_wholly_shared(count.unwrap_or(NonZeroUsize::MIN), "compress")?;
        let lane = threads.lane();
        let live_count = NonZeroUsize::new(processors / PROCESSORS_PER_LIVE_THREAD);
        let shared = Arc::new(SharedFiles {
            lane,
            live: LiveEncoders::start(live_count.unwrap_or(NonZeroUsize::MIN), disk.clone())?,
            bytes_max: config.cache_bytes,
            directory: config.disk.as_ref().map(Directory::new),
            state: Mutex::default(),
            refused: AtomicU64::new(0),
            hashes: Hashes::default(),
            threads: threads.clone(),
        });
        if shared.directory.is_some() {
            let shared = Arc::downgrade(&shared);
            threads.begin(lane, move || {
                if let Some(directory) =
                    shared.upgrade().as_ref().and_then(|s| s.directory.as_ref())
                {
                    directory.sweep();
                }
            });
        }
        Ok(Compressor(Some(shared)))
    }

    /// Returns the encoding of a file, and begins it if it is not known. `None`: nothing is encoded
    /// here, or too much waits.
    pub(crate) fn encoding(&self, file: &Arc<OpenFile>, coding: Coding) -> Option<Arc<Encoding>> {
        let identity = Identity { stamp: file.stamp, coding, dictionary: None };
        self.known_or_begun(file, identity, None)
    }

    /// As `encoding`, in `dcz` for clients that have this dictionary.
    pub(crate) fn encoding_with(
        &self,
        file: &Arc<OpenFile>,
        dictionary: Dictionary,
    ) -> Option<Arc<Encoding>> {
        let stamp = file.stamp;
        let identity = Identity { stamp, coding: Coding::Dcz, dictionary: Some(dictionary.stamp) };
        self.known_or_begun(file, identity, Some(dictionary))
    }

    fn known_or_begun(
        &self,
        file: &Arc<OpenFile>,
        identity: Identity,
        dictionary: Option<Dictionary>,
    ) -> Option<Arc<Encoding>> {
        let shared = self.0.as_ref()?;
        let mut state = shared.lock();
        if let Some(known) = state.known.get(&identity) {
            return Some(Arc::clone(known));
        }
        if state.waiting >= WAITING_MAX {
            return None;
        }
        // Most text shrinks to less than half.
        if !state.make_room(OVERHEAD_BYTES + file.stamp.len / 2, shared.bytes_max) {
            shared.refused.fetch_add(1, Relaxed);
            return None;
        }
        let encoding = Arc::new(Encoding::default());
        state.known.insert(identity, Arc::clone(&encoding));
        state.order.push_back(identity);
        state.bytes += OVERHEAD_BYTES;
        state.waiting += 1;
        drop(state);
        let (shared_too, file) = (Arc::clone(shared), Arc::clone(file));
        let job = Job { shared: shared_too, identity, dictionary, encoding: Arc::clone(&encoding) };
        shared.threads.begin(shared.lane, move || job.run(&file));
        Some(encoding)
    }

    /// Returns a body that encodes a file while it is sent. `content`: its bytes, if they are in
    /// memory. `None`: nothing is encoded here, or too many responses are.
    pub(crate) fn live(
        &self,
        file: &Arc<OpenFile>,
        content: Option<&Bytes>,
        coding: Coding,
    ) -> Option<Stream> {
        self.0.as_ref()?.live.body(file, content, coding)
    }

    /// Runs a job on a thread that encodes, after those that wait. If too many wait it is dropped.
    pub(crate) fn begin(&self, job: impl FnOnce() + Send + 'static) {
        if let Some(shared) = &self.0 {
            shared.threads.begin(shared.lane, job);
        }
    }

    /// Returns the SHA-256 of a file in a state; `load` reads it unless the hash is known.
    ///
    /// # Errors
    /// Those of `load`.
    pub(crate) fn hash(
        &self,
        stamp: Stamp,
        load: impl FnOnce() -> io::Result<Vec<u8>>,
    ) -> io::Result<DictionaryHash> {
        match &self.0 {
            Some(shared) => shared.hashes.of(stamp, load),
            None => Err(io::ErrorKind::Unsupported.into()),
        }
    }

    /// Number of encodings that found no room so far: it grows while the memory is held by entries
    /// of file caches.
    pub(crate) fn refused(&self) -> u64 {
        self.0.as_ref().map_or(0, |shared| shared.refused.load(Relaxed))
    }
}

impl SharedFiles {
    /// Nothing panics while the lock is held, so a poisoned lock is consistent.
    fn lock(&self) -> MutexGuard<'_, FilesState> {
        self.state.lock().unwrap_or_else(PoisonError::into_inner)
    }
}

impl FilesState {
    /// Evicts the oldest encodings that nobody holds, until this many bytes fit. Returns `false` if
    /// they do not.
    fn make_room(&mut self, bytes: u64, bytes_max: u64) -> bool {
        for _ in 0..self.order.len().min(LOOKED_AT_MAX) {
            if self.bytes + bytes <= bytes_max {
                break;
            }
            let Some(identity) = self.order.pop_front() else { break };
            match self.known.get(&identity) {
                Some(known) if Arc::strong_count(known) > 1 => self.order.push_back(identity),
                Some(known) => {
                    self.bytes -= cost(known.result());
                    self.known.remove(&identity);
                }
                None => {}
            }
        }
        self.bytes + bytes <= bytes_max
    }
}

impl FilesState {
    /// A difference that is larger than the file in another coding is not used.
    fn gains(&self, identity: &Identity, made: &EncodedFile) -> bool {
        let is_smaller = |coding: &Coding| {
            let other = Identity { coding: *coding, dictionary: None, ..*identity };
            match self.known.get(&other).and_then(|known| known.result()) {
                Some(EncodingResult::Made(other)) => other.bytes.len() <= made.bytes.len(),
                _ => false,
            }
        };
        identity.dictionary.is_none() || !CODINGS.iter().any(is_smaller)
    }
}

fn cost(result: Option<&EncodingResult>) -> u64 {
    let bytes = match result {
        Some(EncodingResult::Made(file)) => file.bytes.len() as u64,
        _ => 0,
    };
    OVERHEAD_BYTES + bytes
}

/// The encoding of a file on a thread. However it ends, the encoding has a result.
struct Job {
    shared: Arc<SharedFiles>,
    identity: Identity,
    dictionary: Option<Dictionary>,
    encoding: Arc<Encoding>,
}

impl Job {
    fn run(mut self, file: &OpenFile) {
        let dictionary = self.dictionary.take();
        let Job { shared, identity, encoding, .. } = &self;
        let made = rt::catch(|| shared.find_or_encode(identity, file, dictionary))
            .unwrap_or_else(|panic| Err(io::Error::other(format!("panicked: {panic}"))));
        let made = made.unwrap_or_else(|error| {
            tracing::debug!("a file was not compressed: {error}");
            None
        });
        let mut state = shared.lock();
        let result = match made {
            None => EncodingResult::Refused,
            Some(made) if !state.gains(identity, &made) => EncodingResult::Refused,
            Some(made) if OVERHEAD_BYTES + made.bytes.len() as u64 > shared.bytes_max => {
                EncodingResult::TooLarge
            }
            Some(made) => {
                let bytes = made.bytes.len() as u64;
                if state.make_room(bytes, shared.bytes_max) {
                    state.bytes += bytes;
                    EncodingResult::Made(made)
                } else {
                    shared.refused.fetch_add(1, Relaxed);
                    state.known.remove(identity);
                    state.order.retain(|other| other != identity);
                    state.bytes -= OVERHEAD_BYTES;
                    EncodingResult::NoRoom
                }
            }
        };
        // Set while the lock is held: the cost of what is known follows from it.
        let _ = encoding.0.set(result);
    }
}

impl Drop for Job {
    fn drop(&mut self) {
        self.shared.lock().waiting -= 1;
        // A job that the pool has dropped.
        let _ = self.encoding.0.set(EncodingResult::Refused);
    }
}

impl SharedFiles {
    fn find_or_encode(
        &self,
        identity: &Identity,
        file: &OpenFile,
        dictionary: Option<Dictionary>,
    ) -> io::Result<Option<EncodedFile>> {
        let coding = identity.coding;
        let Some(directory) = &self.directory else { return encode(coding, file, dictionary) };
        let head = dictionary.as_ref().map(|known| dictionary::head(&known.hash));
        if let Some(known) = directory.load(identity)
            && known.bytes.starts_with(&head.unwrap_or_default())
        {
            return Ok(Some(known));
        }
        let made = encode(coding, file, dictionary)?;
        if let Some(made) = &made {
            directory.store(identity, made);
        }
        Ok(made)
    }
}

/// Encodes a file. `None`: it gains too little, or it changed meanwhile.
fn encode(
    coding: Coding,
    file: &OpenFile,
    dictionary: Option<Dictionary>,
) -> io::Result<Option<EncodedFile>> {
    let len = file.stamp.len;
    // It was replaced while it waited, so no request will need it.
    if file.is_nameless() {
        return Ok(None);
    }
    let worth = usize::try_from(len).unwrap_or(usize::MAX);
    let worth = worth - worth / WORTH_ONE_IN;
    let (head, content) = match dictionary {
        None => Default::default(),
        Some(dictionary) => (dictionary::head(&dictionary.hash), dictionary.content()?),
    };
    let mut encoder = match coding {
        Coding::Dcz => Encoder::with_dictionary(&content, len, head)?,
        coding => Encoder::new(coding, Effort::Stored(len))?,
    };
    let (mut piece, mut coded, mut offset) = (vec![0; READ_BYTES], Vec::new(), 0_u64);
    while offset < len {
        let most = READ_BYTES.min(usize::try_from(len - offset).unwrap_or(READ_BYTES));
        let read =
            rustix::io::retry_on_intr(|| rustix::io::pread(file, &mut piece[..most], offset))?;
        if read == 0 {
            return Ok(None);
        }
        offset += read as u64;
        encoder.write(&piece[..read], &mut coded)?;
        if coded.len() > worth {
            return Ok(None);
        }
    }
    encoder.finish(&mut coded)?;
    if coded.len() > worth || !file.is_unchanged() {
        return Ok(None);
    }
    coded.shrink_to_fit();
    let hash = xxh3_128(&coded);
    Ok(Some(EncodedFile { bytes: coded.into(), hash }))
}
