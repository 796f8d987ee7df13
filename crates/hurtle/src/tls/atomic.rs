//! Atomic and durable replacement of files.

use std::fs::{self, File, OpenOptions};
use std::io::{self, Write};
use std::os::unix::fs::OpenOptionsExt;
use std::path::Path;

/// Writes `path` with this mode, atomically: it writes a temporary file beside it (extension
/// `.new`), syncs that and renames it. The caller holds a lock, so that there is one writer.
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
    file.write_all(bytes)?;
    file.sync_all()?;
    fs::rename(&new, path)?;
    // The rename is durable once the directory is synced.
    path.parent().map_or(Ok(()), |dir| File::open(dir)?.sync_all())
}
