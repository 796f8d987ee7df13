//! When this server last changed a file itself, so that what a worker knows from before is looked
//! up again: who has uploaded a file gets that file, whichever worker he asks.

use std::sync::Arc;
use std::sync::atomic::{AtomicU64, Ordering::Relaxed};

use crate::clock;

/// Shared by all workers; written only by uploads, so a server without them only reads it.
#[derive(Clone, Debug, Default)]
pub struct Changed(Arc<AtomicU64>);

impl Changed {
    /// A file is another one from now on.
    pub fn note(&self) {
        self.0.fetch_max(clock::now_ms(), Relaxed);
    }

    /// Whether what was looked up then may be another file by now: within one tick of the clock
    /// nobody knows what came first.
    pub fn is_since(&self, looked_up_ms: u64) -> bool {
        self.0.load(Relaxed) >= looked_up_ms
    }
}

/// What names of files begin with that are still being written: they are never served, listed or
/// uploaded under such a name.
pub const UNFINISHED: &[u8] = b".hurtle-upload-";

/// Whether a name is one of those, on a file system that knows no case too.
pub fn is_unfinished(name: &[u8]) -> bool {
    name.get(..UNFINISHED.len()).is_some_and(|begin| begin.eq_ignore_ascii_case(UNFINISHED))
}

/// RFC 8615's place is for everybody; other names with a dot are for publishing only where that is
/// said, and those of unfinished uploads never.
pub fn has_hidden_segment(path: &[u8], dotfiles: bool) -> bool {
    path.split(|&b| b == b'/')
        .any(|s| s.first() == Some(&b'.') && s != b".well-known" && (!dotfiles || is_unfinished(s)))
}
