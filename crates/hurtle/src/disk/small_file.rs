//! Reads a small file, on a disk thread.

use std::fs::{self, File};
use std::io::{self, Read as _};
use std::path::Path;

/// Reads a file of at most so many bytes. `None`: there is nothing at this path; `Some(None)`: it
/// is no file, or is larger.
///
/// # Errors
/// It cannot be read.
pub(crate) fn read_small(path: &Path, bytes_max: u64) -> io::Result<Option<Option<Vec<u8>>>> {
    let metadata = match fs::metadata(path) {
        Ok(metadata) => metadata,
        Err(e) if matches!(e.kind(), io::ErrorKind::NotFound | io::ErrorKind::NotADirectory) => {
            return Ok(None);
        }
        Err(e) => return Err(e),
    };
    // Opening a pipe would wait for its other end.
    if !metadata.is_file() || metadata.len() > bytes_max {
        return Ok(Some(None));
    }
    let mut bytes = Vec::new();
    match File::open(path) {
        Ok(file) => file.take(bytes_max).read_to_end(&mut bytes)?,
        Err(e) if e.kind() == io::ErrorKind::NotFound => return Ok(None),
        Err(e) => return Err(e),
    };
    Ok(Some(Some(bytes)))
}
