//! Atomic and durable replacement of files.

use std::fs::{self, File, OpenOptions};
use std::io::{self, Write};
use std::os::unix::fs::{MetadataExt, OpenOptionsExt, fchown};
use std::path::Path;

use rustix::process::geteuid;

/// Writes `path` with this mode, atomically: it writes a temporary file beside it (extension
/// `.new`), syncs that and renames it. The caller holds a lock, so that there is one writer. A file
/// that root writes into another user's directory is that user's.
///
/// # Errors
/// An I/O error; the previous file is unchanged.
pub fn write_atomically(path: &Path, bytes: &[u8], mode: u32) -> io::Result<()> {
    let new = path.with_extension("new");
    // A crash may have left one with another mode.
    match fs::remove_file(&new) {
        Err(e) if e.kind() != io::ErrorKind::NotFound => return Err(e),
        _ => {}
    }
    let mut file: File = OpenOptions::new().write(true).create_new(true).mode(mode).open(&new)?;
    give_to_owner(&file, path)?;
    file.write_all(bytes)?;
    file.sync_all()?;
    fs::rename(&new, path)?;
    // The rename is durable once the directory is synced.
    path.parent().map_or(Ok(()), |dir| File::open(dir)?.sync_all())
}

/// Gives an open file of root to the owner of the directory of `path`, because the server may
/// become that user. Does nothing for other users, nor for a file with another name elsewhere,
/// which that user may have linked here.
///
/// # Errors
/// The system refuses it.
pub(super) fn give_to_owner(file: &File, path: &Path) -> io::Result<()> {
    let metadata = file.metadata()?;
    if !geteuid().is_root() || metadata.uid() != 0 || metadata.nlink() != 1 {
        return Ok(());
    }
    let directory = path.parent().map(fs::metadata).transpose()?;
    match directory.map(|directory| directory.uid()).filter(|owner| *owner != 0) {
        Some(owner) => fchown(file, Some(owner), None),
        None => Ok(()),
    }
}
