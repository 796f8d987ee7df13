//! Rotation of a log file by size and age. It renames files, so only the log's thread calls it.
//!
//! After an upgrade two processes write to one file until the old one has ended. A lock on the file
//! makes one of them rotate it; the other finds that the name leads to another file, and opens
//! that.

use std::fs::{self, File, Metadata, TryLockError};
use std::io;
use std::os::unix::fs::MetadataExt;
use std::path::{Path, PathBuf};
use std::time::SystemTime;

use crate::config::Rotation;

/// The limits and the age of the open file of a log.
#[derive(Debug)]
pub(super) struct RotatedFile {
    path: PathBuf,
    rotation: Rotation,
    begun: SystemTime,
}

impl RotatedFile {
    /// Examines an open file. `None`: it is not rotated, because it has no limit or is a device or
    /// a pipe.
    pub(super) fn of(file: &File, path: &Path, rotation: &Rotation) -> Option<RotatedFile> {
        if rotation.bytes.is_none() && rotation.age.is_none() {
            return None;
        }
        let metadata = file.metadata().ok().filter(Metadata::is_file)?;
        // Some file systems do not know the time of a file's creation.
        let begun = metadata.created().unwrap_or_else(|_| SystemTime::now());
        let (path, rotation) = (path.to_owned(), rotation.clone());
        Some(RotatedFile { path, rotation, begun })
    }

    /// Returns whether the file must be rotated before this many bytes are appended. An empty file
    /// is not. Another process may have appended to it, so its size is read.
    pub(super) fn is_due(&self, file: &File, bytes: usize, now: SystemTime) -> bool {
        let size = file.metadata().map_or(0, |metadata| metadata.len());
        let Rotation { bytes: bytes_max, age: age_max, .. } = self.rotation;
        let is_full = bytes_max.is_some_and(|max| size.saturating_add(bytes as u64) > max);
        // A clock that was set back makes the age unknown.
        let age = now.duration_since(self.begun).unwrap_or_default();
        size > 0 && (is_full || age_max.is_some_and(|max| age >= max))
    }

    /// Renames the file and the older ones, unless another process does or has done so. Returns
    /// whether the caller must open the name again.
    ///
    /// # Errors
    /// A file that cannot be renamed; the log goes on in the open file.
    pub(super) fn rotate(&self, file: &File) -> io::Result<bool> {
        match file.try_lock() {
            Err(TryLockError::WouldBlock) => return Ok(false),
            // Some file systems have no locks.
            Ok(()) | Err(TryLockError::Error(_)) => {}
        }
        let rotated = self.rename(file);
        // Closing the file unlocks it, too.
        let _ = file.unlock();
        rotated.map(|()| true)
    }

    fn rename(&self, file: &File) -> io::Result<()> {
        let id = |metadata: Metadata| (metadata.dev(), metadata.ino());
        let is_named = fs::metadata(&self.path).map(id).ok() == file.metadata().map(id).ok();
        if !is_named {
            return Ok(());
        }
        for number in (1..self.rotation.keep.get()).rev() {
            match fs::rename(self.numbered(number), self.numbered(number + 1)) {
                Err(e) if e.kind() == io::ErrorKind::NotFound => {}
                renamed => renamed?,
            }
        }
        match fs::rename(&self.path, self.numbered(1)) {
            // Another program has renamed it already.
            Err(e) if e.kind() == io::ErrorKind::NotFound => Ok(()),
            renamed => renamed,
        }
    }

    fn numbered(&self, number: u32) -> PathBuf {
        let mut name = self.path.clone().into_os_string();
        name.push(format!(".{number}"));
        name.into()
    }
}
