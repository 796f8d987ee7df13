//! The limit of the process's descriptors, and the shares of it.

use rustix::process::{Resource, Rlimit, getrlimit, setrlimit};

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

/// Raises the soft limit of descriptors to the hard limit; ignores a failure.
pub(crate) fn raise_descriptor_limit() {
    let limit = getrlimit(Resource::Nofile);
    let raised = Rlimit { current: limit.maximum, maximum: limit.maximum };
    let _ = setrlimit(Resource::Nofile, raised);
}

/// Limit of descriptors of the process.
fn descriptor_limit() -> u64 {
    getrlimit(Resource::Nofile).current.unwrap_or(u64::MAX)
}
