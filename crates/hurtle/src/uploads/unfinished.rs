//! A file that is being received and is invisible: unnamed where the system supports it, else under
//! a name that is never served. It is removed if it is dropped before it is committed. All
//! functions except drop block on the disk.

use std::io::IoSlice;
use std::os::fd::{AsFd, OwnedFd};
use std::sync::atomic::{AtomicU64, Ordering::Relaxed};
use std::time::{SystemTime, UNIX_EPOCH};

use bytes::Bytes;
use rustix::fs::{AtFlags, FlockOperation, Mode, OFlags};
use rustix::io::{Errno, retry_on_intr};
use xxhash_rust::xxh3::Xxh3;

use super::UploadRoot;
use super::commit::{self, Conditions};
use super::error::UploadError;
use super::name::Target;
use super::store::StoredUpload;
use crate::config::EtagSource;
use crate::disk::Disk;
use crate::files::UNFINISHED;
use crate::sys;

/// Maximum number of unsynced bytes with `fsync`, so that the final sync is short.
const UNSYNCED_BYTES_MAX: u64 = 8 << 20;

/// Readable and writable for all, as far as the umask of the process allows; never executable.
pub(super) const MODE: Mode = Mode::from_raw_mode(0o666);

/// Maximum number of attempts to find a free hidden name.
const NAMES_TRIED: usize = 8;

/// A file that is being received.
pub(super) struct Unfinished {
    /// `None` after it was committed or dropped.
    file: Option<HiddenFile>,
    pub(super) root: UploadRoot,
    pub(super) target: Target,
    /// Number of bytes in the file.
    pub(super) len: u64,
    /// Hash of the content, if the entity-tag is made from it and all bytes came with one request.
    pub(super) hash: Option<Box<Xxh3>>,
    unsynced: u64,
    disk: Disk,
}

/// The open file and its hidden name, if it has one.
pub(super) struct HiddenFile {
    pub(super) directory: OwnedFd,
    pub(super) file: OwnedFd,
    /// Removed on drop, unless the upload is resumable.
    pub(super) name: Option<Vec<u8>>,
    /// Set for a resumable upload, which outlives this request. It is declared after `file`: the
    /// lock must be released after the file is closed.
    pub(super) stored: Option<StoredUpload>,
}

impl Unfinished {
    /// Checks the preconditions and the free space, then creates a hidden file.
    pub(super) fn begin(
        root: &UploadRoot,
        disk: Disk,
        target: Target,
        conditions: &Conditions,
        len: Option<u64>,
    ) -> Result<Unfinished, UploadError> {
        let directory = open_directory(root, &target)?;
        commit::check(root, &directory, &target, conditions)?;
        has_room(&directory, root.free_bytes, len.unwrap_or(0))?;
        let hash = (root.etag == EtagSource::Content).then(|| Box::new(Xxh3::new()));
        let file = Some(HiddenFile::create(directory)?);
        Ok(Unfinished { file, root: root.clone(), target, len: 0, hash, unsynced: 0, disk })
    }

    /// Continues a file of `len` bytes.
    pub(super) fn resumed(
        root: &UploadRoot,
        disk: Disk,
        target: Target,
        hidden: HiddenFile,
        len: u64,
    ) -> Unfinished {
        let (file, root) = (Some(hidden), root.clone());
        Unfinished { file, root, target, len, hash: None, unsynced: 0, disk }
    }

    /// Appends a piece of the body.
    pub(super) fn write(mut self, piece: &[Bytes]) -> Result<Unfinished, UploadError> {
        let hidden = self.file.as_ref().ok_or(UploadError::DEFECT)?;
        let len = piece.iter().map(|bytes| bytes.len() as u64).sum();
        has_room(&hidden.directory, self.root.free_bytes, len)?;
        let written = piece.iter().filter(|bytes| !bytes.is_empty());
        let mut slices: Vec<IoSlice<'_>> = written.map(|bytes| IoSlice::new(bytes)).collect();
        let mut rest = &mut slices[..];
        while !rest.is_empty() {
            match retry_on_intr(|| rustix::io::writev(&hidden.file, rest))? {
                0 => return Err(UploadError::FULL),
                n => {
                    IoSlice::advance_slices(&mut rest, n);
                    self.len += n as u64;
                }
            }
        }
        if let Some(hash) = &mut self.hash {
            piece.iter().for_each(|bytes| hash.update(bytes));
        }
        self.unsynced += len;
        if self.root.fsync && self.unsynced >= UNSYNCED_BYTES_MAX {
            rustix::fs::fsync(&hidden.file)?;
            self.unsynced = 0;
        }
        Ok(self)
    }

    /// Number of bytes that survive what the settings promise: with `fsync`, a power failure.
    pub(super) fn kept_len(&self) -> u64 {
        if self.root.fsync { self.len - self.unsynced.min(self.len) } else { self.len }
    }

    /// The stored upload, if it is resumable.
    pub(super) fn stored(&mut self) -> Option<&mut StoredUpload> {
        self.file.as_mut().and_then(|hidden| hidden.stored.as_mut())
    }

    /// Writes the record of a resumable upload again.
    pub(super) fn record_anew(mut self) -> Result<Unfinished, UploadError> {
        let fsync = self.root.fsync;
        self.stored().ok_or(UploadError::DEFECT)?.write_record(fsync)?;
        Ok(self)
    }

    /// Syncs the file if `fsync` is set, and releases the upload before the client gets a response.
    /// Returns the length in bytes.
    pub(super) fn settle(mut self) -> Result<u64, UploadError> {
        if let (true, Some(hidden)) = (self.root.fsync, &self.file) {
            rustix::fs::fsync(&hidden.file)?;
        }
        drop(self.file.take());
        Ok(self.len)
    }

    /// Ends the work on a resumable upload. `is_over`: the upload is removed.
    pub(super) fn release(mut self, is_over: bool) {
        if let (true, Some(stored)) = (is_over, self.stored()) {
            stored.remove();
        }
        drop(self.file.take());
    }

    /// Another descriptor of the content.
    pub(super) fn content(&self) -> Result<OwnedFd, UploadError> {
        let hidden = self.file.as_ref().ok_or(UploadError::DEFECT)?;
        Ok(hidden.file.try_clone()?)
    }

    /// Takes the file to commit it.
    pub(super) fn take(&mut self) -> Result<HiddenFile, UploadError> {
        self.file.take().ok_or(UploadError::DEFECT)
    }
}

impl Drop for Unfinished {
    fn drop(&mut self) {
        // Closing a large file blocks while its blocks are freed, so a disk thread does it.
        if let Some(file) = self.file.take() {
            self.disk.discard(self.root.lane, file);
        }
    }
}

impl HiddenFile {
    fn create(directory: OwnedFd) -> Result<HiddenFile, UploadError> {
        let (file, name) = match sys::create_unnamed(directory.as_fd(), MODE) {
            Ok(file) => (file, None),
            Err(Errno::OPNOTSUPP) => {
                let (file, name) = create_named(&directory)?;
                (file, Some(name))
            }
            Err(e) => return Err(e.into()),
        };
        // The lock protects the file from `sweep`. On a file system without locks there is no such
        // protection.
        let _ = rustix::fs::flock(&file, FlockOperation::NonBlockingLockExclusive);
        Ok(HiddenFile { directory, file, name, stored: None })
    }

    /// The file of a resumable upload, to be published in `directory`.
    pub(super) fn stored(directory: OwnedFd, file: OwnedFd, stored: StoredUpload) -> HiddenFile {
        HiddenFile { directory, file, name: Some(stored.name()), stored: Some(stored) }
    }

    /// The directory that holds the hidden name.
    pub(super) fn store(&self) -> &OwnedFd {
        self.stored.as_ref().map_or(&self.directory, StoredUpload::store)
    }
}

impl Drop for HiddenFile {
    fn drop(&mut self) {
        if let (Some(name), None) = (self.name.take(), &self.stored) {
            // A file that cannot be removed now is removed at the next start.
            let _ = rustix::fs::unlinkat(&self.directory, &name[..], AtFlags::empty());
        }
    }
}

/// Opens the directory of a target, for creating names in it. For an object store it is the root:
/// its targets are not in the file system.
pub(super) fn open_directory(root: &UploadRoot, target: &Target) -> Result<OwnedFd, UploadError> {
    let flags = OFlags::DIRECTORY | OFlags::CLOEXEC | sys::PROBE;
    let directory = rustix::fs::open(&root.path, flags, Mode::empty())?;
    let path = &target.directory[..];
    let path = if path.is_empty() || root.is_spool { b"." } else { path };
    Ok(sys::open_beneath(directory.as_fd(), path, flags, root.follow)?)
}

/// Makes a unique hidden name.
pub(super) fn hidden_name() -> Vec<u8> {
    static NEXT: AtomicU64 = AtomicU64::new(0);
    let now = SystemTime::now().duration_since(UNIX_EPOCH).map_or(0, |now| now.as_nanos());
    let (process, number) = (std::process::id(), NEXT.fetch_add(1, Relaxed));
    [UNFINISHED, format!("{process:x}-{now:x}-{number:x}").as_bytes()].concat()
}

/// Creates a file with a hidden name, on systems without unnamed files.
pub(super) fn create_named(directory: &OwnedFd) -> Result<(OwnedFd, Vec<u8>), UploadError> {
    let flags = OFlags::CREATE | OFlags::EXCL | OFlags::WRONLY | OFlags::NOFOLLOW | OFlags::CLOEXEC;
    for _ in 0..NAMES_TRIED {
        let name = hidden_name();
        match rustix::fs::openat(directory, &name[..], flags, MODE) {
            Ok(file) => return Ok((file, name)),
            Err(Errno::EXIST) => {}
            Err(e) => return Err(e.into()),
        }
    }
    Err(UploadError::DEFECT)
}

/// Fails if `len` more bytes would leave less than `free_bytes` of free space.
pub(super) fn has_room(directory: &OwnedFd, free_bytes: u64, len: u64) -> Result<(), UploadError> {
    let stat = rustix::fs::fstatvfs(directory)?;
    let free = stat.f_bavail.saturating_mul(stat.f_frsize);
    if free < free_bytes.saturating_add(len) { Err(UploadError::FULL) } else { Ok(()) }
}
