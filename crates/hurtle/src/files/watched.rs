//! Watches the directories of cached files, where the configuration says so. After any change in
//! one, all workers look up their entries again before they send them. What is not watched is
//! looked up again after `revalidate`, as without a watch.

use std::ffi::OsStr;
use std::io::{self, PipeReader, PipeWriter};
use std::os::fd::OwnedFd;
use std::os::unix::ffi::OsStrExt;
use std::path::Path;
use std::sync::{Arc, Mutex, MutexGuard, PoisonError, Weak};

use hashbrown::HashSet;
use rustix::event::{PollFd, PollFlags, poll};
use rustix::io::Errno;

use super::Changed;
use crate::sys;

/// Directories that are watched, at most.
const DIRECTORIES_MAX: usize = 1_024;

/// The watched directories; clones share them.
#[derive(Clone, Debug)]
pub(crate) struct Watched(Arc<SharedWatch>);

#[derive(Debug)]
struct SharedWatch {
    watch: OwnedFd,
    /// Paths of the watched directories.
    directories: Mutex<HashSet<Vec<u8>>>,
    changed: Changed,
    /// Closed with the last clone, which ends the reader of changes.
    _open: PipeWriter,
}

/// Reads the changes of watched directories, on a thread of its own.
#[derive(Debug)]
pub(crate) struct ChangeReader {
    watch: OwnedFd,
    end: PipeReader,
    shared: Weak<SharedWatch>,
}

impl Watched {
    /// Creates a watch of no directory, and the reader of its changes.
    ///
    /// # Errors
    /// The system has no such watch, or has no more.
    pub(crate) fn new(changed: &Changed) -> io::Result<(Watched, ChangeReader)> {
        let watch = sys::watch()?;
        let (end, open) = io::pipe()?;
        let reads = watch.try_clone()?;
        let (directories, changed) = (Mutex::default(), changed.clone());
        let shared = Arc::new(SharedWatch { watch, directories, changed, _open: open });
        let reader = ChangeReader { watch: reads, end, shared: Arc::downgrade(&shared) };
        Ok((Watched(shared), reader))
    }

    /// Returns whether `add` has nothing to do for a directory. Never waits: `false` while another
    /// thread adds one.
    pub(super) fn has(&self, directory: &[u8]) -> bool {
        self.0.directories.try_lock().is_ok_and(|directories| is_done(&directories, directory))
    }

    /// Watches a directory, if not too many are watched. Blocks on the disk.
    pub(super) fn add(&self, directory: Vec<u8>) {
        let SharedWatch { watch, changed, .. } = &*self.0;
        let mut directories = self.0.directories();
        if is_done(&directories, &directory) {
            return;
        }
        let path = Path::new(OsStr::from_bytes(&directory));
        match sys::watch_directory(watch, path) {
            Ok(()) => {
                directories.insert(directory);
                // It may have changed before it was watched.
                changed.note();
            }
            Err(error) => tracing::debug!("{} is not watched: {error}", path.display()),
        }
    }
}

fn is_done(watched: &HashSet<Vec<u8>>, directory: &[u8]) -> bool {
    watched.contains(directory) || watched.len() >= DIRECTORIES_MAX
}

impl SharedWatch {
    /// Nothing panics while the lock is held, so a poisoned lock is consistent.
    fn directories(&self) -> MutexGuard<'_, HashSet<Vec<u8>>> {
        self.directories.lock().unwrap_or_else(PoisonError::into_inner)
    }
}

impl ChangeReader {
    /// Notes changes until the watch is dropped. Blocks.
    ///
    /// # Errors
    /// The system cannot report changes any more.
    pub(crate) fn run(self) -> io::Result<()> {
        loop {
            let mut ready =
                [PollFd::new(&self.watch, PollFlags::IN), PollFd::new(&self.end, PollFlags::IN)];
            match poll(&mut ready, None) {
                Err(Errno::INTR) => continue,
                polled => polled?,
            };
            let Some(shared) = self.shared.upgrade() else { return Ok(()) };
            if !sys::take_changes(&self.watch)? {
                // A directory was removed or renamed, and its path may lead to another one.
                shared.directories().clear();
            }
            shared.changed.note();
        }
    }
}
