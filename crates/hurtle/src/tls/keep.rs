//! Files that are there whole or not at all, whenever the power fails.

use std::fs::{self, File, OpenOptions};
use std::io::{self, Write};
use std::os::unix::fs::OpenOptionsExt;
use std::path::Path;

/// Writes a file of its own beside `path` (`.new` in place of its extension), then gives it that
/// name. One writer at a time: the caller holds a lock.
///
/// # Errors
/// The system's; what was there before is as it was.
pub fn replace(path: &Path, bytes: &[u8], mode: u32) -> io::Result<()> {
    let new = path.with_extension("new");
    // Left from a crash, it may be readable by others.
    match fs::remove_file(&new) {
        Err(e) if e.kind() != io::ErrorKind::NotFound => return Err(e),
        _ => {}
    }
    let mut file: File = OpenOptions::new().write(true).create_new(true).mode(mode).open(&new)?;
    file.write_all(bytes)?;
    file.sync_all()?;
    fs::rename(&new, path)?;
    // The new name lasts once its directory does.
    path.parent().map_or(Ok(()), |dir| File::open(dir)?.sync_all())
}
