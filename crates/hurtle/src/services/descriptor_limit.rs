//! The limit of the process's descriptors, and the shares of it.

use rustix::process::{Resource, Rlimit, getrlimit, setrlimit};

/// Largest soft limit that macOS permits (setrlimit(2)).
const OPEN_MAX: u64 = 10_240;

/// Share of the process's descriptors that cached files may use: one in this many.
const CACHED_FILES_SHARE: usize = 4;

/// Share of the process's descriptors that each response cache may use: one in this many.
const CACHED_BODIES_SHARE: u64 = 16;

/// Returns the limit of descriptors of the process.
pub(crate) fn descriptors() -> usize {
    usize::try_from(descriptor_limit()).unwrap_or(usize::MAX)
}

/// Returns the number of descriptors that cached files may use.
pub(crate) fn cached_descriptors() -> usize {
    descriptors() / CACHED_FILES_SHARE
}

/// Returns the number of descriptors that each response cache may use.
pub(super) fn cached_bodies() -> u64 {
    (descriptor_limit() / CACHED_BODIES_SHARE).max(1)
}

/// Raises the soft limit of descriptors to the hard limit, or to `OPEN_MAX` where the system
/// refuses an unlimited one; ignores a failure.
pub(crate) fn raise_descriptor_limit() {
    let limit = getrlimit(Resource::Nofile);
    let raise = |current| setrlimit(Resource::Nofile, Rlimit { current, ..limit });
    if raise(limit.maximum).is_err() && limit.current.is_some_and(|current| current < OPEN_MAX) {
        let _ = raise(limit.maximum.map_or(Some(OPEN_MAX), |most| Some(most.min(OPEN_MAX))));
    }
}

/// Limit of descriptors of the process.
fn descriptor_limit() -> u64 {
    getrlimit(Resource::Nofile).current.unwrap_or(u64::MAX)
}
