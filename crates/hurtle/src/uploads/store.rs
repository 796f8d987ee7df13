//! Keeps unfinished resumable uploads in a directory beneath the root that is never served. Each
//! has two files under an unguessable name: its content and its `record`. The store survives
//! restarts, is limited in number and bytes, and is cleared of expired uploads. All functions here
//! block on the disk.

use std::os::fd::{AsFd, OwnedFd};
use std::path::Path;
use std::time::{SystemTime, UNIX_EPOCH};

use rustix::fs::{AtFlags, Dir, FileType, FlockOperation, Mode, OFlags, Stat};
use rustix::io::{Errno, retry_on_intr};

use super::commit;
use super::error::UploadError;
use super::lock::UploadLock;
use super::name::Target;
use super::record::Record;
use super::token::Token;
use super::unfinished::{HiddenFile, MODE, Unfinished, has_room, open_directory};
use super::{StoreLimits, UploadRoot};
use crate::disk::Disk;
use crate::sys;

/// Name of the directory. It has the prefix of all unfinished uploads (`files::UNFINISHED`).
pub(super) const DIRECTORY: &str = ".hurtle-upload-resumable";

/// Mode of the directory: only the server's user may enter it.
const PRIVATE: Mode = Mode::from_raw_mode(0o700);

/// Maximum size of a record, in bytes. A record holds a path, preconditions and a user name, all
/// from one request head.
const RECORD_BYTES_MAX: usize = 1 << 20;

/// Minimum age of a file without a record before it is removed, in seconds: a new upload has none
/// for a moment.
const ORPHAN_SECS_MAX: u64 = 60;

/// An open unfinished upload, locked for one request.
pub(super) struct StoredUpload {
    /// The directory of the store.
    store: OwnedFd,
    token: Token,
    pub(super) record: Record,
    pub(super) lock: UploadLock,
}

/// The number of uploads and the bytes reserved for them.
#[derive(Default)]
struct StoreUsage {
    uploads: u64,
    bytes: u64,
}

/// Creates an empty upload; `None` if a limit is reached or the store cannot be used.
pub(super) fn create(
    root: &UploadRoot,
    disk: Disk,
    token: &Token,
    record: Record,
    bounds: StoreLimits,
) -> Result<Option<Unfinished>, UploadError> {
    let target = Target::of(&record.rest, bounds.sidecars)?;
    if root.is_spool {
        make_directory(&root.path)?;
    }
    let directory = open_directory(root, &target)?;
    if !root.is_spool {
        commit::check(root, &directory, &target, &record.conditions)?;
    }
    has_room(&directory, root.free_bytes, record.length.unwrap_or(0))?;
    let Some(store) = open(root, true)? else { return Ok(None) };
    // A file cannot be renamed from one file system to another.
    if rustix::fs::fstat(&store)?.st_dev != rustix::fs::fstat(&directory)?.st_dev {
        return Ok(None);
    }
    // Creation is serialized, so that two requests do not take the last slot.
    let _lock = commit::lock(&store, b"")?;
    let usage = StoreUsage::take(&store, bounds, record.created)?;
    let bytes = record.length.unwrap_or(bounds.file_bytes);
    if usage.uploads >= bounds.uploads || usage.bytes.saturating_add(bytes) > bounds.bytes {
        return Ok(None);
    }
    let Ok(lock) = UploadLock::try_take(token) else { return Ok(None) };
    let flags = DATA.union(OFlags::CREATE).union(OFlags::EXCL);
    let file = rustix::fs::openat(&store, &token.data()[..], flags, MODE)?;
    let stored = StoredUpload { store, token: token.clone(), record, lock };
    lock_data(&file)?;
    if let Err(error) = stored.write_record(root.fsync) {
        stored.remove();
        return Err(error);
    }
    Ok(Some(Unfinished::resumed(
        root,
        disk,
        target,
        HiddenFile::stored(directory, file, stored),
        0,
    )))
}

/// Returns the record of an upload, if it belongs to this user.
pub(super) fn find_record(
    root: &UploadRoot,
    token: &Token,
    user: Option<&str>,
) -> Result<Record, UploadError> {
    let store = open(root, false)?.ok_or(UploadError::NO_UPLOAD)?;
    find_record_in(&store, token, user)
}

fn find_record_in(
    store: &OwnedFd,
    token: &Token,
    user: Option<&str>,
) -> Result<Record, UploadError> {
    let record = read_record(store, token)?.ok_or(UploadError::NO_UPLOAD)?;
    // Other users get the same response as for an upload that does not exist.
    if record.user.as_deref() != user {
        return Err(UploadError::NO_UPLOAD);
    }
    if record.left_secs(now_secs()) == 0 {
        remove(store, token);
        return Err(UploadError::NO_UPLOAD);
    }
    Ok(record)
}

/// Opens an upload to continue it.
pub(super) fn resume(
    root: &UploadRoot,
    disk: Disk,
    token: &Token,
    user: Option<&str>,
    lock: UploadLock,
    sidecars: bool,
) -> Result<Unfinished, UploadError> {
    let store = open(root, false)?.ok_or(UploadError::NO_UPLOAD)?;
    let record = find_record_in(&store, token, user)?;
    let file = match rustix::fs::openat(&store, &token.data()[..], DATA, Mode::empty()) {
        Err(Errno::NOENT) => return Err(UploadError::NO_UPLOAD),
        opened => opened?,
    };
    lock_data(&file)?;
    let stat = rustix::fs::fstat(&file)?;
    // The file has its final name already: the server stopped before it removed the record.
    // Appending would change a file that is served. (Or the upload was removed before it was
    // locked.)
    if stat.st_nlink != 1 {
        remove(&store, token);
        return Err(UploadError::NO_UPLOAD);
    }
    // The length is confirmed, and an interrupted request has not synced it.
    if root.fsync {
        rustix::fs::fsync(&file)?;
    }
    let target = Target::of(&record.rest, sidecars)?;
    let directory = open_directory(root, &target)?;
    let stored = StoredUpload { store, token: token.clone(), record, lock };
    let hidden = HiddenFile::stored(directory, file, stored);
    Ok(Unfinished::resumed(root, disk, target, hidden, len(&stat)))
}

/// Deletes an upload and its content.
pub(super) fn forget(root: &UploadRoot, token: &Token) -> Result<(), UploadError> {
    if let Some(store) = open(root, false)? {
        remove(&store, token);
    }
    Ok(())
}

/// Removes expired uploads from the store of a root; returns their number.
pub(super) fn expire(root: &OwnedFd) -> usize {
    let flags = STORE.union(OFlags::NOFOLLOW);
    let Ok(store) = rustix::fs::openat(root, DIRECTORY, flags, Mode::empty()) else { return 0 };
    clear(&store, now_secs()).unwrap_or(0)
}

impl StoredUpload {
    /// Writes the record atomically: after a crash the old or the new one is there.
    pub(super) fn write_record(&self, fsync: bool) -> Result<(), UploadError> {
        let (new, name) = (self.token.new_record(), self.token.record());
        let flags =
            OFlags::CREATE | OFlags::TRUNC | OFlags::WRONLY | OFlags::NOFOLLOW | OFlags::CLOEXEC;
        let file = rustix::fs::openat(&self.store, &new, flags, MODE)?;
        let text = self.record.to_text();
        let mut rest = text.as_bytes();
        while !rest.is_empty() {
            match retry_on_intr(|| rustix::io::write(&file, rest))? {
                0 => return Err(UploadError::FULL),
                n => rest = &rest[n..],
            }
        }
        if fsync {
            rustix::fs::fsync(&file)?;
        }
        rustix::fs::renameat(&self.store, &new, &self.store, &name)?;
        if fsync {
            rustix::fs::fsync(&self.store)?;
        }
        Ok(())
    }

    /// The directory that holds the content.
    pub(super) fn store(&self) -> &OwnedFd {
        &self.store
    }

    /// The name of the content in that directory.
    pub(super) fn name(&self) -> Vec<u8> {
        self.token.data()
    }

    pub(super) fn remove(&self) {
        remove(&self.store, &self.token);
    }
}

impl StoreUsage {
    /// Removes expired uploads, then counts the rest.
    fn take(
        store: &OwnedFd,
        bounds: StoreLimits,
        now_secs: u64,
    ) -> Result<StoreUsage, UploadError> {
        clear(store, now_secs)?;
        let mut usage = StoreUsage::default();
        for entry in Dir::read_from(store)? {
            let Some(token) = Token::parse(entry?.file_name().to_bytes()) else { continue };
            let has = match rustix::fs::statat(store, &token.data()[..], AtFlags::SYMLINK_NOFOLLOW)
            {
                Ok(stat) => len(&stat),
                Err(_) => continue,
            };
            let length = read_record(store, &token)?.and_then(|record| record.length);
            // An upload of unknown length may grow to the maximum size of a file.
            usage.bytes = usage.bytes.saturating_add(has.max(length.unwrap_or(bounds.file_bytes)));
            usage.uploads += 1;
        }
        Ok(usage)
    }
}

const STORE: OFlags = OFlags::RDONLY.union(OFlags::DIRECTORY).union(OFlags::CLOEXEC);

/// Content is only appended.
const DATA: OFlags =
    OFlags::RDWR.union(OFlags::APPEND).union(OFlags::NOFOLLOW).union(OFlags::CLOEXEC);

/// Opens the directory. `None` if it does not exist, or is not private to the server's user.
fn open(root: &UploadRoot, make: bool) -> Result<Option<OwnedFd>, UploadError> {
    let flags = OFlags::DIRECTORY | OFlags::CLOEXEC | sys::PROBE;
    let directory = match rustix::fs::open(&root.path, flags, Mode::empty()) {
        // It is made for the first upload.
        Err(Errno::NOENT) if root.is_spool => return Ok(None),
        opened => opened?,
    };
    if make {
        match rustix::fs::mkdirat(&directory, DIRECTORY, PRIVATE) {
            Ok(()) if root.fsync => commit::sync_directory(&directory)?,
            Ok(()) | Err(Errno::EXIST) => {}
            Err(e) => return Err(e.into()),
        }
    }
    let store = match rustix::fs::openat(
        &directory,
        DIRECTORY,
        STORE.union(OFlags::NOFOLLOW),
        Mode::empty(),
    ) {
        Ok(store) => store,
        Err(Errno::NOENT | Errno::LOOP | Errno::NOTDIR) => return Ok(None),
        Err(e) => return Err(e.into()),
    };
    let stat = rustix::fs::fstat(&store)?;
    // Another user who created the directory could read the tokens in it.
    let private = stat.st_uid == rustix::process::geteuid().as_raw() && stat.st_mode & 0o077 == 0;
    if !private {
        let path = root.path.display();
        tracing::warn!(
            "{path}: {DIRECTORY} is not private to the server's user, so uploads cannot be resumed"
        );
    }
    Ok(private.then_some(store))
}

/// Makes a directory, and those above it.
fn make_directory(path: &Path) -> rustix::io::Result<()> {
    let make = || match rustix::fs::mkdir(path, PRIVATE) {
        Err(Errno::EXIST) => Ok(()),
        made => made,
    };
    match (make(), path.parent()) {
        (Err(Errno::NOENT), Some(above)) => make_directory(above).and_then(|()| make()),
        (made, _) => made,
    }
}

/// Another process may work on the upload, such as one that is being replaced by this one.
fn lock_data(file: &OwnedFd) -> Result<(), UploadError> {
    match rustix::fs::flock(file, FlockOperation::NonBlockingLockExclusive) {
        Err(Errno::WOULDBLOCK) => Err(UploadError::ELSEWHERE),
        // On a file system without locks this check is skipped.
        _ => Ok(()),
    }
}

fn read_record(store: &OwnedFd, token: &Token) -> Result<Option<Record>, UploadError> {
    let flags = OFlags::RDONLY | OFlags::NOFOLLOW | OFlags::NONBLOCK | OFlags::CLOEXEC;
    let file = match rustix::fs::openat(store, token.record(), flags, Mode::empty()) {
        Err(Errno::NOENT) => return Ok(None),
        opened => opened?,
    };
    let mut text = Vec::new();
    let mut piece = [0; 4 << 10];
    while text.len() < RECORD_BYTES_MAX {
        match retry_on_intr(|| rustix::io::read(&file, &mut piece))? {
            0 => break,
            n => text.extend_from_slice(&piece[..n]),
        }
    }
    Ok(Record::parse(&text))
}

/// Removes expired uploads and orphaned files; returns the number of uploads. Locked uploads are
/// kept.
fn clear(store: &OwnedFd, now_secs: u64) -> Result<usize, UploadError> {
    let mut removed = 0;
    for entry in Dir::read_from(store)? {
        let entry = entry?;
        let name = entry.file_name();
        if matches!(name.to_bytes(), b"." | b"..") {
            continue;
        }
        let token = Token::of_record(name.to_bytes());
        match token.as_ref().map(|token| read_record(store, token)).transpose()?.flatten() {
            Some(record) if record.left_secs(now_secs) > 0 => {}
            Some(_) => {
                if let Some(token) = token.filter(|token| !is_held(store, token)) {
                    remove(store, &token);
                    removed += 1;
                }
            }
            None => clear_orphan(store, name, now_secs),
        }
    }
    Ok(removed)
}

/// Removes a file without a record, unless it is too new.
fn clear_orphan(store: &OwnedFd, name: &std::ffi::CStr, now_secs: u64) {
    if let Some(token) = Token::parse(name.to_bytes())
        && rustix::fs::statat(store, token.record(), AtFlags::SYMLINK_NOFOLLOW).is_ok()
    {
        return;
    }
    let Ok(stat) = rustix::fs::statat(store, name, AtFlags::SYMLINK_NOFOLLOW) else { return };
    let modified_secs = u64::try_from(stat.st_mtime).unwrap_or(0);
    let is_file = FileType::from_raw_mode(stat.st_mode) == FileType::RegularFile;
    if is_file && modified_secs.saturating_add(ORPHAN_SECS_MAX) < now_secs {
        let _ = rustix::fs::unlinkat(store, name, AtFlags::empty());
    }
}

fn is_held(store: &OwnedFd, token: &Token) -> bool {
    rustix::fs::openat(store, &token.data()[..], DATA, Mode::empty()).is_ok_and(|file| {
        let lock = FlockOperation::NonBlockingLockExclusive;
        rustix::fs::flock(file.as_fd(), lock) == Err(Errno::WOULDBLOCK)
    })
}

/// A file that cannot be removed now is removed after it has expired.
fn remove(store: &OwnedFd, token: &Token) {
    let _ = rustix::fs::unlinkat(store, &token.data()[..], AtFlags::empty());
    let _ = rustix::fs::unlinkat(store, token.record(), AtFlags::empty());
}

fn len(stat: &Stat) -> u64 {
    u64::try_from(stat.st_size).unwrap_or(0)
}

pub(super) fn now_secs() -> u64 {
    SystemTime::now().duration_since(UNIX_EPOCH).map_or(0, |now| now.as_secs())
}
