//! Unfinished uploads that may be resumed: a directory beneath the root that is never served, with
//! two files for each, its bytes and its `record`, under a name that nobody guesses. It outlives the
//! server, is bounded in number and in bytes, and is cleared of what has grown too old. Everything
//! here waits for the disk.

use std::os::fd::{AsFd, OwnedFd};
use std::time::{SystemTime, UNIX_EPOCH};

use rustix::fs::{AtFlags, Dir, FileType, FlockOperation, Mode, OFlags, Stat};
use rustix::io::{Errno, retry_on_intr};

use super::claim::Claim;
use super::commit;
use super::name::Target;
use super::record::Record;
use super::refusal::Refusal;
use super::token::Token;
use super::unfinished::{Hidden, MODE, Unfinished, has_room, open_directory};
use super::{Bounds, Place};
use crate::disk::Disk;
use crate::sys;

/// The directory. It begins like every name of an unfinished upload (`files::UNFINISHED`).
pub(super) const DIRECTORY: &str = ".hurtle-upload-resumable";

/// Nobody else's business.
const PRIVATE: Mode = Mode::from_raw_mode(0o700);

/// A record is a path, a few conditions and a user: all of it came in a request's head.
const RECORD_BYTES_MAX: usize = 1 << 20;

/// A file without a record is left alone for so long: it may be one that is just being made.
const ORPHAN_SECS_MAX: u64 = 60;

/// An unfinished upload, open, and nobody else's meanwhile.
pub(super) struct Kept {
    /// The directory.
    home: OwnedFd,
    token: Token,
    pub(super) record: Record,
    pub(super) claim: Claim,
}

/// What may not be surpassed, and what there is.
#[derive(Default)]
struct Census {
    uploads: u64,
    bytes: u64,
}

/// Makes an empty upload; `None`: there is no room for one more that could be resumed, or no place.
pub(super) fn create(
    place: &Place,
    disk: Disk,
    token: &Token,
    record: Record,
    bounds: Bounds,
) -> Result<Option<Unfinished>, Refusal> {
    let target = Target::of(&record.rest, bounds.sidecars)?;
    let directory = open_directory(place, &target)?;
    commit::check(place, &directory, &target, &record.conditions)?;
    has_room(&directory, place.free_bytes, record.length.unwrap_or(0))?;
    let Some(home) = open(place, true)? else { return Ok(None) };
    // A file cannot be moved from one file system to another in one step.
    if rustix::fs::fstat(&home)?.st_dev != rustix::fs::fstat(&directory)?.st_dev {
        return Ok(None);
    }
    // One at a time counts, so that two do not take the last place.
    let _lock = commit::lock(&home, b"")?;
    let census = Census::take(&home, bounds, record.created)?;
    let bytes = record.length.unwrap_or(bounds.file_bytes);
    if census.uploads >= bounds.uploads || census.bytes.saturating_add(bytes) > bounds.bytes {
        return Ok(None);
    }
    let Ok(claim) = Claim::try_take(token) else { return Ok(None) };
    let flags = DATA.union(OFlags::CREATE).union(OFlags::EXCL);
    let file = rustix::fs::openat(&home, &token.data()[..], flags, MODE)?;
    let kept = Kept { home, token: token.clone(), record, claim };
    lock_data(&file)?;
    if let Err(refusal) = kept.write_record(place.fsync) {
        kept.remove();
        return Err(refusal);
    }
    Ok(Some(Unfinished::resumed(place, disk, target, Hidden::kept(directory, file, kept), 0)))
}

/// What is known of an upload, if this user may know it.
pub(super) fn look(place: &Place, token: &Token, user: Option<&str>) -> Result<Record, Refusal> {
    let home = open(place, false)?.ok_or(Refusal::NO_UPLOAD)?;
    look_in(&home, token, user)
}

fn look_in(home: &OwnedFd, token: &Token, user: Option<&str>) -> Result<Record, Refusal> {
    let record = read_record(home, token)?.ok_or(Refusal::NO_UPLOAD)?;
    // Whoever it is not for learns nothing, not even that it is there.
    if record.user.as_deref() != user {
        return Err(Refusal::NO_UPLOAD);
    }
    if record.left_secs(now_secs()) == 0 {
        remove(home, token);
        return Err(Refusal::NO_UPLOAD);
    }
    Ok(record)
}

/// Opens an upload to go on with it.
pub(super) fn resume(
    place: &Place,
    disk: Disk,
    token: &Token,
    user: Option<&str>,
    claim: Claim,
    sidecars: bool,
) -> Result<Unfinished, Refusal> {
    let home = open(place, false)?.ok_or(Refusal::NO_UPLOAD)?;
    let record = look_in(&home, token, user)?;
    let file = match rustix::fs::openat(&home, &token.data()[..], DATA, Mode::empty()) {
        Err(Errno::NOENT) => return Err(Refusal::NO_UPLOAD),
        opened => opened?,
    };
    lock_data(&file)?;
    let stat = rustix::fs::fstat(&file)?;
    // It has its name already: a crash came before it was forgotten here. A byte more would go into
    // a file that is served. (Or it was removed before the lock was there.)
    if stat.st_nlink != 1 {
        remove(&home, token);
        return Err(Refusal::NO_UPLOAD);
    }
    let target = Target::of(&record.rest, sidecars)?;
    let directory = open_directory(place, &target)?;
    let kept = Kept { home, token: token.clone(), record, claim };
    let hidden = Hidden::kept(directory, file, kept);
    Ok(Unfinished::resumed(place, disk, target, hidden, len(&stat)))
}

/// Forgets an upload and its bytes.
pub(super) fn forget(place: &Place, token: &Token) -> Result<(), Refusal> {
    if let Some(home) = open(place, false)? {
        remove(&home, token);
    }
    Ok(())
}

/// Removes from a root's store, if it has one, what has grown too old; returns how many.
pub(super) fn expire(root: &OwnedFd) -> usize {
    let flags = HOME.union(OFlags::NOFOLLOW);
    let Ok(home) = rustix::fs::openat(root, DIRECTORY, flags, Mode::empty()) else { return 0 };
    clear(&home, now_secs()).unwrap_or(0)
}

impl Kept {
    /// Writes what is known of it, so that a crash leaves what was known before or this.
    pub(super) fn write_record(&self, fsync: bool) -> Result<(), Refusal> {
        let (new, name) = (self.token.new_record(), self.token.record());
        let flags =
            OFlags::CREATE | OFlags::TRUNC | OFlags::WRONLY | OFlags::NOFOLLOW | OFlags::CLOEXEC;
        let file = rustix::fs::openat(&self.home, &new, flags, MODE)?;
        let text = self.record.to_text();
        let mut rest = text.as_bytes();
        while !rest.is_empty() {
            match retry_on_intr(|| rustix::io::write(&file, rest))? {
                0 => return Err(Refusal::FULL),
                n => rest = &rest[n..],
            }
        }
        if fsync {
            rustix::fs::fsync(&file)?;
        }
        rustix::fs::renameat(&self.home, &new, &self.home, &name)?;
        if fsync {
            rustix::fs::fsync(&self.home)?;
        }
        Ok(())
    }

    /// Where its bytes have their name.
    pub(super) fn home(&self) -> &OwnedFd {
        &self.home
    }

    /// That name.
    pub(super) fn name(&self) -> Vec<u8> {
        self.token.data()
    }

    /// Forgets it.
    pub(super) fn remove(&self) {
        remove(&self.home, &self.token);
    }
}

impl Census {
    /// Counts what there is, after what has grown too old is gone.
    fn take(home: &OwnedFd, bounds: Bounds, now_secs: u64) -> Result<Census, Refusal> {
        clear(home, now_secs)?;
        let mut census = Census::default();
        for entry in Dir::read_from(home)? {
            let Some(token) = Token::parse(entry?.file_name().to_bytes()) else { continue };
            let has = match rustix::fs::statat(home, &token.data()[..], AtFlags::SYMLINK_NOFOLLOW) {
                Ok(stat) => len(&stat),
                Err(_) => continue,
            };
            let length = read_record(home, &token)?.and_then(|record| record.length);
            // One whose length nobody has said may become as large as any.
            census.bytes =
                census.bytes.saturating_add(has.max(length.unwrap_or(bounds.file_bytes)));
            census.uploads += 1;
        }
        Ok(census)
    }
}

const HOME: OFlags = OFlags::RDONLY.union(OFlags::DIRECTORY).union(OFlags::CLOEXEC);

/// Bytes are only ever appended.
const DATA: OFlags =
    OFlags::RDWR.union(OFlags::APPEND).union(OFlags::NOFOLLOW).union(OFlags::CLOEXEC);

/// Opens the directory; `None`: there is none, or, where it is to be made, none that is private.
fn open(place: &Place, make: bool) -> Result<Option<OwnedFd>, Refusal> {
    let flags = OFlags::DIRECTORY | OFlags::CLOEXEC | sys::PROBE;
    let root = rustix::fs::open(&place.root, flags, Mode::empty())?;
    if make {
        match rustix::fs::mkdirat(&root, DIRECTORY, PRIVATE) {
            Ok(()) | Err(Errno::EXIST) => {}
            Err(e) => return Err(e.into()),
        }
    }
    let home =
        match rustix::fs::openat(&root, DIRECTORY, HOME.union(OFlags::NOFOLLOW), Mode::empty()) {
            Ok(home) => home,
            Err(Errno::NOENT | Errno::LOOP | Errno::NOTDIR) => return Ok(None),
            Err(e) => return Err(e.into()),
        };
    let stat = rustix::fs::fstat(&home)?;
    // Made by somebody else who can reach into it, it would be no secret.
    let private = stat.st_uid == rustix::process::geteuid().as_raw() && stat.st_mode & 0o077 == 0;
    if !private {
        let root = place.root.display();
        tracing::warn!("{root}: {DIRECTORY} is not this user's alone, so no upload can be resumed");
    }
    Ok(private.then_some(home))
}

/// Another process may be at work on it: one that is about to end, say, while this one takes over.
fn lock_data(file: &OwnedFd) -> Result<(), Refusal> {
    match rustix::fs::flock(file, FlockOperation::NonBlockingLockExclusive) {
        Err(Errno::WOULDBLOCK) => Err(Refusal::ELSEWHERE),
        // A file system without locks loses nothing but that.
        _ => Ok(()),
    }
}

fn read_record(home: &OwnedFd, token: &Token) -> Result<Option<Record>, Refusal> {
    let flags = OFlags::RDONLY | OFlags::NOFOLLOW | OFlags::NONBLOCK | OFlags::CLOEXEC;
    let file = match rustix::fs::openat(home, token.record(), flags, Mode::empty()) {
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

/// Removes the uploads that have grown too old and the files that belong to none; returns how many
/// uploads. What somebody is at work on is left.
fn clear(home: &OwnedFd, now_secs: u64) -> Result<usize, Refusal> {
    let mut removed = 0;
    for entry in Dir::read_from(home)? {
        let entry = entry?;
        let name = entry.file_name();
        if matches!(name.to_bytes(), b"." | b"..") {
            continue;
        }
        let token = Token::of_record(name.to_bytes());
        match token.as_ref().map(|token| read_record(home, token)).transpose()?.flatten() {
            Some(record) if record.left_secs(now_secs) > 0 => {}
            Some(_) => {
                if let Some(token) = token.filter(|token| !is_held(home, token)) {
                    remove(home, &token);
                    removed += 1;
                }
            }
            None => clear_orphan(home, name, now_secs),
        }
    }
    Ok(removed)
}

/// Removes a file that has no record, unless it is too young to tell.
fn clear_orphan(home: &OwnedFd, name: &std::ffi::CStr, now_secs: u64) {
    if let Some(token) = Token::parse(name.to_bytes())
        && rustix::fs::statat(home, token.record(), AtFlags::SYMLINK_NOFOLLOW).is_ok()
    {
        return;
    }
    let Ok(stat) = rustix::fs::statat(home, name, AtFlags::SYMLINK_NOFOLLOW) else { return };
    let modified_secs = u64::try_from(stat.st_mtime).unwrap_or(0);
    let is_file = FileType::from_raw_mode(stat.st_mode) == FileType::RegularFile;
    if is_file && modified_secs.saturating_add(ORPHAN_SECS_MAX) < now_secs {
        let _ = rustix::fs::unlinkat(home, name, AtFlags::empty());
    }
}

fn is_held(home: &OwnedFd, token: &Token) -> bool {
    rustix::fs::openat(home, &token.data()[..], DATA, Mode::empty()).is_ok_and(|file| {
        let lock = FlockOperation::NonBlockingLockExclusive;
        rustix::fs::flock(file.as_fd(), lock) == Err(Errno::WOULDBLOCK)
    })
}

/// What cannot be removed now is at the latest when it has grown too old.
fn remove(home: &OwnedFd, token: &Token) {
    let _ = rustix::fs::unlinkat(home, &token.data()[..], AtFlags::empty());
    let _ = rustix::fs::unlinkat(home, token.record(), AtFlags::empty());
}

fn len(stat: &Stat) -> u64 {
    u64::try_from(stat.st_size).unwrap_or(0)
}

pub(super) fn now_secs() -> u64 {
    SystemTime::now().duration_since(UNIX_EPOCH).map_or(0, |now| now.as_secs())
}
