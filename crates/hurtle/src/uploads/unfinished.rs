//! A file that is being uploaded and that nobody can see: without a name where the system knows
//! such files, else under a name that is never served. Dropped before it is committed, it is gone.
//! Everything but dropping waits for the disk.

use std::os::fd::{AsFd, OwnedFd};
use std::sync::atomic::{AtomicU64, Ordering::Relaxed};
use std::time::{SystemTime, UNIX_EPOCH};

use bytes::Bytes;
use rustix::fs::{AtFlags, FlockOperation, Mode, OFlags};
use rustix::io::{Errno, retry_on_intr};
use xxhash_rust::xxh3::Xxh3;

use super::Place;
use super::commit::{self, Conditions};
use super::name::Target;
use super::refusal::Refusal;
use super::store::Kept;
use crate::config::EtagSource;
use crate::disk::Disk;
use crate::files::UNFINISHED;
use crate::sys;

/// What may lie in the kernel's memory before it is written out, where that is waited for: so that
/// the last wait is short.
const UNSYNCED_BYTES_MAX: u64 = 8 << 20;

/// Readable for all and writable for the owner as far as the process's umask lets them; never
/// executable.
pub(super) const MODE: Mode = Mode::from_raw_mode(0o666);

/// Names tried for a file that has to have one.
const NAMES_TRIED: usize = 8;

/// A file on its way.
pub(super) struct Unfinished {
    /// `None` once it is committed or dropped.
    file: Option<Hidden>,
    pub(super) place: Place,
    pub(super) target: Target,
    /// Bytes in it.
    pub(super) len: u64,
    /// Of the bytes so far, where the tag comes from them and all came at once.
    pub(super) hash: Option<Box<Xxh3>>,
    unsynced: u64,
    disk: Disk,
}

/// The open file, and the name it has or had.
pub(super) struct Hidden {
    pub(super) directory: OwnedFd,
    pub(super) file: OwnedFd,
    /// Removed when this is dropped, unless it is kept.
    pub(super) name: Option<Vec<u8>>,
    /// It outlives this request, and is known by a name of its own. (Behind `file`: only when that
    /// is closed may another request have it.)
    pub(super) kept: Option<Kept>,
}

impl Unfinished {
    /// Opens the directory and makes a file in it, if the conditions hold and there is room.
    pub(super) fn begin(
        place: &Place,
        disk: Disk,
        target: Target,
        conditions: &Conditions,
        len: Option<u64>,
    ) -> Result<Unfinished, Refusal> {
        let directory = open_directory(place, &target)?;
        commit::check(place, &directory, &target, conditions)?;
        has_room(&directory, place.free_bytes, len.unwrap_or(0))?;
        let hash = (place.etag == EtagSource::Content).then(|| Box::new(Xxh3::new()));
        let file = Some(Hidden::create(directory)?);
        Ok(Unfinished { file, place: place.clone(), target, len: 0, hash, unsynced: 0, disk })
    }

    /// Goes on with a file of `len` bytes.
    pub(super) fn resumed(
        place: &Place,
        disk: Disk,
        target: Target,
        hidden: Hidden,
        len: u64,
    ) -> Unfinished {
        let (file, place) = (Some(hidden), place.clone());
        Unfinished { file, place, target, len, hash: None, unsynced: 0, disk }
    }

    /// Writes what came next.
    pub(super) fn write(mut self, piece: &[Bytes]) -> Result<Unfinished, Refusal> {
        let hidden = self.file.as_ref().ok_or(Refusal::DEFECT)?;
        let len = piece.iter().map(|bytes| bytes.len() as u64).sum();
        has_room(&hidden.directory, self.place.free_bytes, len)?;
        for bytes in piece {
            let mut rest = &bytes[..];
            while !rest.is_empty() {
                match retry_on_intr(|| rustix::io::write(&hidden.file, rest))? {
                    0 => return Err(Refusal::FULL),
                    n => {
                        rest = &rest[n..];
                        self.len += n as u64;
                    }
                }
            }
            if let Some(hash) = &mut self.hash {
                hash.update(bytes);
            }
        }
        self.unsynced += len;
        if self.place.fsync && self.unsynced >= UNSYNCED_BYTES_MAX {
            rustix::fs::fsync(&hidden.file)?;
            self.unsynced = 0;
        }
        Ok(self)
    }

    /// What is kept of it, if it outlives this request.
    pub(super) fn kept(&mut self) -> Option<&mut Kept> {
        self.file.as_mut().and_then(|hidden| hidden.kept.as_mut())
    }

    /// Writes down anew what is known of one that is kept.
    pub(super) fn record_anew(mut self) -> Result<Unfinished, Refusal> {
        let fsync = self.place.fsync;
        self.kept().ok_or(Refusal::DEFECT)?.write_record(fsync)?;
        Ok(self)
    }

    /// Has the disk have all of it, where that is waited for, and lets go of it: whoever is told of it
    /// finds it nobody's. Returns its length, in bytes.
    pub(super) fn settle(mut self) -> Result<u64, Refusal> {
        if let (true, Some(hidden)) = (self.place.fsync, &self.file) {
            rustix::fs::fsync(&hidden.file)?;
        }
        drop(self.file.take());
        Ok(self.len)
    }

    /// The file, to be committed.
    pub(super) fn take(&mut self) -> Result<Hidden, Refusal> {
        self.file.take().ok_or(Refusal::DEFECT)
    }
}

impl Drop for Unfinished {
    fn drop(&mut self) {
        // The blocks of a large file take the disk a while to free.
        if let Some(file) = self.file.take() {
            self.disk.discard(self.place.lane, file);
        }
    }
}

impl Hidden {
    fn create(directory: OwnedFd) -> Result<Hidden, Refusal> {
        let (file, name) = match sys::create_unnamed(directory.as_fd(), MODE) {
            Ok(file) => (file, None),
            Err(Errno::OPNOTSUPP) => {
                let (file, name) = create_named(&directory)?;
                (file, Some(name))
            }
            Err(e) => return Err(e.into()),
        };
        // Whoever sweeps leaves alone what is held. A file system without locks loses nothing but
        // that.
        let _ = rustix::fs::flock(&file, FlockOperation::NonBlockingLockExclusive);
        Ok(Hidden { directory, file, name, kept: None })
    }

    /// One that is kept, for a name in `directory`.
    pub(super) fn kept(directory: OwnedFd, file: OwnedFd, kept: Kept) -> Hidden {
        Hidden { directory, file, name: Some(kept.name()), kept: Some(kept) }
    }

    /// Where its hidden name is.
    pub(super) fn home(&self) -> &OwnedFd {
        self.kept.as_ref().map_or(&self.directory, Kept::home)
    }
}

impl Drop for Hidden {
    fn drop(&mut self) {
        if let (Some(name), None) = (self.name.take(), &self.kept) {
            // What cannot be removed now is swept at the next start.
            let _ = rustix::fs::unlinkat(&self.directory, &name[..], AtFlags::empty());
        }
    }
}

/// Opens a file's directory, for naming files in it.
pub(super) fn open_directory(place: &Place, target: &Target) -> Result<OwnedFd, Refusal> {
    let flags = OFlags::DIRECTORY | OFlags::CLOEXEC | sys::PROBE;
    let root = rustix::fs::open(&place.root, flags, Mode::empty())?;
    let path = if target.directory.is_empty() { b"." } else { &target.directory[..] };
    Ok(sys::open_beneath(root.as_fd(), path, flags, place.follow)?)
}

/// A name for a file that must not be seen.
pub(super) fn hidden_name() -> Vec<u8> {
    static NEXT: AtomicU64 = AtomicU64::new(0);
    let now = SystemTime::now().duration_since(UNIX_EPOCH).map_or(0, |now| now.as_nanos());
    let (process, number) = (std::process::id(), NEXT.fetch_add(1, Relaxed));
    [UNFINISHED, format!("{process:x}-{now:x}-{number:x}").as_bytes()].concat()
}

/// A file with such a name, for where there are none without.
pub(super) fn create_named(directory: &OwnedFd) -> Result<(OwnedFd, Vec<u8>), Refusal> {
    let flags = OFlags::CREATE | OFlags::EXCL | OFlags::WRONLY | OFlags::NOFOLLOW | OFlags::CLOEXEC;
    for _ in 0..NAMES_TRIED {
        let name = hidden_name();
        match rustix::fs::openat(directory, &name[..], flags, MODE) {
            Ok(file) => return Ok((file, name)),
            Err(Errno::EXIST) => {}
            Err(e) => return Err(e.into()),
        }
    }
    Err(Refusal::DEFECT)
}

/// Whether so many bytes more leave free what has to stay free.
pub(super) fn has_room(directory: &OwnedFd, free_bytes: u64, len: u64) -> Result<(), Refusal> {
    let stat = rustix::fs::fstatvfs(directory)?;
    let free = stat.f_bavail.saturating_mul(stat.f_frsize);
    if free < free_bytes.saturating_add(len) { Err(Refusal::FULL) } else { Ok(()) }
}
