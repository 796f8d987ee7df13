//! Rotation of a log file by size and age. It renames files, so only the log's thread calls it.

use std::fs::{self, File};
use std::io;
use std::path::{Path, PathBuf};
use std::time::SystemTime;

use crate::config::Rotation;

/// The size and the age of the open file of a log.
#[derive(Debug)]
pub(super) struct RotatedFile {
    path: PathBuf,
    rotation: Rotation,
    bytes: u64,
    begun: SystemTime,
}

impl RotatedFile {
    /// Examines an open file. `None`: it is not rotated, because it has no limit or is a device or a
    /// pipe.
    pub(super) fn of(file: &File, path: &Path, rotation: &Rotation) -> Option<RotatedFile> {
        if rotation.bytes.is_none() && rotation.age.is_none() {
            return None;
        }
        let metadata = file.metadata().ok().filter(fs::Metadata::is_file)?;
        // Some file systems do not know the time of a file's creation.
        let begun = metadata.created().unwrap_or_else(|_| SystemTime::now());
        let (path, rotation) = (path.to_owned(), rotation.clone());
        Some(RotatedFile { path, rotation, bytes: metadata.len(), begun })
    }

    /// Returns whether the file must be rotated before this many bytes are appended. An empty file is
    /// not.
    pub(super) fn is_due(&self, bytes: usize) -> bool {
        let Rotation { bytes: bytes_max, age: age_max, .. } = self.rotation;
        let is_full = bytes_max.is_some_and(|max| self.bytes.saturating_add(bytes as u64) > max);
        // A clock that was set back makes the age unknown.
        let age = self.begun.elapsed().unwrap_or_default();
        self.bytes > 0 && (is_full || age_max.is_some_and(|max| age >= max))
    }

    /// Counts bytes that were appended.
    pub(super) fn grew(&mut self, bytes: usize) {
        self.bytes = self.bytes.saturating_add(bytes as u64);
    }

    /// Renames the file and the older ones. The caller opens the name again.
    ///
    /// # Errors
    /// A file that cannot be renamed; the log goes on in the open file.
    pub(super) fn rotate(&self) -> io::Result<()> {
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
