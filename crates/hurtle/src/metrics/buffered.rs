//! Bodies that are kept for slow clients, of the whole process.

use std::sync::atomic::{AtomicU64, Ordering::Relaxed};

use serde::{Deserialize, Serialize};

/// Bytes in files.
static FILE_BYTES: AtomicU64 = AtomicU64::new(0);

/// Bodies that could not be kept.
static PASSED_ON: AtomicU64 = AtomicU64::new(0);

/// Bodies that are kept for slow clients.
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq, Serialize, Deserialize)]
#[serde(default)]
pub struct BufferedSnapshot {
    /// Bytes in files without names.
    pub file_bytes: u64,
    /// Bodies that a bound or the disk did not let be kept, so that they were passed on as they arrived.
    pub passed_on: u64,
}

/// Adds bytes to those in files, of which there may be `most`; `false`: there would be more.
pub fn add_file_bytes(bytes: u64, most: u64) -> bool {
    let fits = FILE_BYTES.fetch_add(bytes, Relaxed) + bytes <= most;
    if !fits {
        remove_file_bytes(bytes);
    }
    fits
}

/// Removes bytes that were added.
pub fn remove_file_bytes(bytes: u64) {
    FILE_BYTES.fetch_sub(bytes, Relaxed);
}

/// Counts a body that could not be kept.
pub fn count_passed_on() {
    PASSED_ON.fetch_add(1, Relaxed);
}

pub(super) fn read() -> BufferedSnapshot {
    BufferedSnapshot { file_bytes: FILE_BYTES.load(Relaxed), passed_on: PASSED_ON.load(Relaxed) }
}
