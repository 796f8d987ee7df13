//! Time of the last upload. Entries that were looked up before it are looked up again, so that
//! every worker serves a new file at once.

use std::sync::Arc;
use std::sync::atomic::{AtomicU64, Ordering::Relaxed};

use crate::clock;

/// Time of the last change. All workers share it; only uploads write it.
#[derive(Clone, Debug, Default)]
pub(crate) struct Changed(Arc<AtomicU64>);

impl Changed {
    /// Records a change at the current time.
    pub(crate) fn note(&self) {
        self.0.fetch_max(clock::now_ms(), Relaxed);
    }

    /// True if a file may have changed since `looked_up_ms`. Within one tick of the clock the order
    /// is unknown, so an equal time counts as changed.
    pub(crate) fn is_since(&self, looked_up_ms: u64) -> bool {
        self.0.load(Relaxed) >= looked_up_ms
    }

    /// The first time at which a file that was looked up has not changed since.
    pub(super) fn first_current_ms(&self) -> u64 {
        self.0.load(Relaxed) + 1
    }
}

/// Prefix of files that are still being uploaded. Such names are never served, listed or accepted
/// for uploads.
pub(crate) const UNFINISHED: &[u8] = b".hurtle-upload-";

/// True if a name has the prefix, in any case: some file systems are case-insensitive.
pub(crate) fn is_unfinished(name: &[u8]) -> bool {
    name.get(..UNFINISHED.len()).is_some_and(|begin| begin.eq_ignore_ascii_case(UNFINISHED))
}

/// True if a path has a segment that must not be served. `.well-known` is public (RFC 8615). Other
/// names with a leading dot are served only with `dotfiles`, unfinished uploads never.
pub(crate) fn has_hidden_segment(path: &[u8], dotfiles: bool) -> bool {
    path.split(|&b| b == b'/')
        .any(|s| s.first() == Some(&b'.') && s != b".well-known" && (!dotfiles || is_unfinished(s)))
}
