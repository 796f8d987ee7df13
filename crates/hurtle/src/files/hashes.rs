//! Hashes of files whose times do not tell their versions apart. Archives, package managers, images
//! of containers and `rsync -a` set modification times, so two versions of a file can have the same
//! one. The change time cannot be set: it selects the hash, which is the entity-tag. All workers
//! share the hashes.

use std::collections::{HashMap, HashSet};
use std::io;
use std::sync::{Arc, Mutex, MutexGuard, PoisonError};

use bytes::Bytes;
use xxhash_rust::xxh3::{Xxh3, xxh3_128};

use super::times::has_own_time;
use crate::body::{OpenFile, Stamp};
use crate::config::EtagSource;
use crate::disk::Disk;

/// Size of the largest file that is hashed when it is opened, in bytes. Larger ones are hashed in
/// the background.
pub(crate) const AT_ONCE_BYTES_MAX: u64 = 1 << 20;

/// Files that are hashed in the background at a time.
const TURNS_MAX: usize = 1;

/// Hashes that are remembered, about 2 MB. Beyond this number all are forgotten.
const KNOWN_MAX: usize = 16_384;

/// Bytes of a job on the disk threads.
const PIECE_BYTES: usize = 1 << 20;

/// Seconds of a day.
const DAY_SECS: u64 = 86_400;

/// The first time of a zip archive (1980-01-01), in seconds since 1970.
const ZIP_EPOCH_SECS: u64 = 315_532_800;

/// Hashes of files by their states. Clones share them.
#[derive(Clone, Debug, Default)]
pub(crate) struct Hashes(Arc<Mutex<HashState>>);

#[derive(Debug, Default)]
struct HashState {
    known: HashMap<Stamp, u128>,
    /// Files that are being hashed in the background.
    turns: HashSet<Stamp>,
}

/// Source of a file's entity-tag.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(crate) enum TagSource {
    /// Size and modification time.
    Times,
    /// The content, which has this hash.
    Hash(u128),
    /// The content, whose hash is not known yet.
    Pending,
}

impl TagSource {
    /// The hash, if it is known.
    pub(crate) fn hash(self) -> Option<u128> {
        if let TagSource::Hash(hash) = self { Some(hash) } else { None }
    }

    /// Determines the source for a file that was opened. Blocks on the disk. `content`: its bytes,
    /// if they were read. `known`: `None` if files are never given a time that is not that of the
    /// edit.
    ///
    /// # Errors
    /// The file cannot be read.
    pub(super) fn of(
        etag: EtagSource,
        known: Option<&Hashes>,
        file: &OpenFile,
        content: Option<&Bytes>,
    ) -> io::Result<TagSource> {
        let compute = || match content {
            Some(content) => Ok(xxh3_128(content)),
            None => hash(file),
        };
        let Some(known) = known.filter(|_| etag != EtagSource::Off) else {
            return match hashes(etag, &file.stamp) {
                true => Ok(TagSource::Hash(compute()?)),
                false => Ok(TagSource::Times),
            };
        };
        if etag == EtagSource::Auto && has_own_time(&file.stamp) {
            return Ok(TagSource::Times);
        }
        if let Some(hash) = known.get(&file.stamp) {
            return Ok(TagSource::Hash(hash));
        }
        if file.stamp.len > AT_ONCE_BYTES_MAX {
            return Ok(TagSource::Pending);
        }
        let hash = compute()?;
        known.remember(file, hash);
        Ok(TagSource::Hash(hash))
    }
}

impl Hashes {
    fn get(&self, stamp: &Stamp) -> Option<u128> {
        self.lock().known.get(stamp).copied()
    }

    /// Remembers the hash of a file that was not changed while it was read. A change just now may
    /// be followed by another with the same time.
    fn remember(&self, file: &OpenFile, hash: u128) {
        if !file.stamp.has_settled() || !file.is_unchanged() {
            return;
        }
        let mut state = self.lock();
        if state.known.len() >= KNOWN_MAX {
            state.known.clear();
        }
        state.known.insert(file.stamp, hash);
    }

    /// Hashes a large file in the background, unless that has begun or another one is hashed. A
    /// repeated look-up finds the result, or begins again.
    pub(crate) fn begin(&self, disk: &Disk, file: &Arc<OpenFile>) {
        if let Some(turn) = Turn::take(self, file.stamp) {
            let file = Arc::clone(file);
            let hashing = Hashing { turn, file, hasher: Box::new(Xxh3::new()), offset: 0 };
            hashing.begin(disk);
        }
    }

    /// Nothing panics while the lock is held, so a poisoned lock is consistent.
    fn lock(&self) -> MutexGuard<'_, HashState> {
        self.0.lock().unwrap_or_else(PoisonError::into_inner)
    }
}

/// A file's turn to be hashed in the background, until it is dropped.
struct Turn {
    hashes: Hashes,
    stamp: Stamp,
}

impl Turn {
    fn take(hashes: &Hashes, stamp: Stamp) -> Option<Turn> {
        let mut state = hashes.lock();
        // One that changed just now may change again, so its hash would be forgotten.
        let is_free = state.turns.len() < TURNS_MAX && !state.known.contains_key(&stamp);
        let begins = is_free && stamp.has_settled() && state.turns.insert(stamp);
        begins.then(|| Turn { hashes: hashes.clone(), stamp })
    }
}

impl Drop for Turn {
    fn drop(&mut self) {
        self.hashes.lock().turns.remove(&self.stamp);
    }
}

/// A file that is being hashed.
struct Hashing {
    turn: Turn,
    file: Arc<OpenFile>,
    hasher: Box<Xxh3>,
    /// Bytes that were hashed.
    offset: u64,
}

impl Hashing {
    /// Queues a job for the next piece, behind all others of the file's lane. It ends early if the
    /// lane is full, or if the file cannot be read or is shorter.
    fn begin(self, disk: &Disk) {
        let (lane, again) = (self.file.lane, disk.clone());
        disk.begin(lane, move || {
            if let Some(hashing) = self.step() {
                hashing.begin(&again);
            }
        });
    }

    /// Hashes a piece. `None`: the file is hashed, or cannot be.
    fn step(mut self) -> Option<Hashing> {
        let left = self.file.stamp.len - self.offset;
        let mut piece = vec![0; PIECE_BYTES.min(usize::try_from(left).unwrap_or(PIECE_BYTES))];
        let read = || rustix::io::pread(&self.file, &mut piece[..], self.offset);
        let len = rustix::io::retry_on_intr(read).ok().filter(|len| *len > 0)?;
        self.hasher.update(&piece[..len]);
        self.offset += len as u64;
        if self.offset < self.file.stamp.len {
            return Some(self);
        }
        self.turn.hashes.remember(&self.file, self.hasher.digest128());
        None
    }
}

/// True if the entity-tag is made from the content. Reproducible builds give all files the same
/// time, so the time does not identify a version.
pub(crate) fn hashes(etag: EtagSource, stamp: &Stamp) -> bool {
    match etag {
        EtagSource::Off => false,
        EtagSource::Content => true,
        EtagSource::Auto => {
            let secs = stamp.modified_secs();
            let constant = |start: u64| (start..start + DAY_SECS).contains(&secs);
            constant(0) || constant(ZIP_EPOCH_SECS)
        }
    }
}

/// Computes the hash of a file for its entity-tag, over the bytes that it had when it was opened.
///
/// # Errors
/// Those of reading: the disk failed, or another machine that has the file.
pub(crate) fn hash(file: &OpenFile) -> io::Result<u128> {
    let mut hasher = Xxh3::new();
    let mut piece = vec![0; 128 << 10];
    let mut offset = 0;
    loop {
        let len = piece.len().min(usize::try_from(file.stamp.len - offset).unwrap_or(usize::MAX));
        let into = &mut piece[..len];
        match rustix::io::retry_on_intr(|| rustix::io::pread(file, &mut *into, offset))? {
            0 => return Ok(hasher.digest128()),
            n => {
                hasher.update(&into[..n]);
                offset += n as u64;
            }
        }
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn hashes_and_turns_are_bounded() {
        let hashes = Hashes::default();
        let stamp = |inode| Stamp { inode, ..Stamp::default() };
        let turns: Vec<_> = (0..10).filter_map(|n| Turn::take(&hashes, stamp(n))).collect();
        assert_eq!(turns.len(), TURNS_MAX);
        drop(turns);
        let turn = Turn::take(&hashes, stamp(1));
        assert!(turn.is_some(), "turns end");
        assert!(Turn::take(&hashes, stamp(1)).is_none(), "a file is hashed once");
    }
}
