//! Bodies that are kept for slow clients, of the whole process.

use std::collections::BTreeMap;
use std::sync::atomic::{AtomicU64, Ordering::Relaxed};
use std::sync::{Arc, Mutex, PoisonError};

use serde::{Deserialize, Serialize};

/// Bytes in files without names, of all mounts.
static FILE_BYTES: AtomicU64 = AtomicU64::new(0);

/// Those of each mount that has a bound, which successive configurations share.
static MOUNTS: Mutex<BTreeMap<String, MountBytes>> = Mutex::new(BTreeMap::new());

/// Bodies that could not be kept.
static PASSED_ON: AtomicU64 = AtomicU64::new(0);

/// Bodies that are kept for slow clients.
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq, Serialize, Deserialize)]
#[serde(default)]
pub struct BufferedSnapshot {
    /// Bytes in files without names.
    pub file_bytes: u64,
    /// Bodies that a bound or the disk did not let be kept, so that they were passed on as they
    /// arrived.
    pub passed_on: u64,
}

/// Bytes in files of one mount, in all workers.
#[derive(Clone, Debug, Default)]
pub struct MountBytes(Arc<AtomicU64>);

impl MountBytes {
    /// Adds bytes, of which there may be `most`; `false`: there would be more.
    pub fn add(&self, bytes: u64, most: u64) -> bool {
        add(&self.0, bytes, most)
    }

    /// Removes bytes that were added.
    pub fn remove(&self, bytes: u64) {
        self.0.fetch_sub(bytes, Relaxed);
    }
}

/// Returns the bytes of the mount with this name.
pub fn mount_bytes(mount: &str) -> MountBytes {
    let mut mounts = MOUNTS.lock().unwrap_or_else(PoisonError::into_inner);
    mounts.entry(mount.to_owned()).or_default().clone()
}

/// Adds bytes to those in files, of which there may be `most`; `false`: there would be more.
pub fn add_file_bytes(bytes: u64, most: u64) -> bool {
    add(&FILE_BYTES, bytes, most)
}

fn add(count: &AtomicU64, bytes: u64, most: u64) -> bool {
    let fits = count.fetch_add(bytes, Relaxed) + bytes <= most;
    if !fits {
        count.fetch_sub(bytes, Relaxed);
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
