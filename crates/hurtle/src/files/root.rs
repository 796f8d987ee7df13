//! The root directory of a mount. Look-ups of new paths share one descriptor of it, and the names
//! of encoded variants in its directories, for a fraction of `revalidate`: to open and to close
//! them again for each cold file takes as long as to open the file. Only disk threads use it, so
//! its lock never blocks an event loop.

use std::collections::HashMap;
use std::fmt;
use std::io;
use std::ops::Deref;
use std::os::fd::{AsFd, BorrowedFd, OwnedFd};
use std::path::{Path, PathBuf};
use std::sync::{Arc, Mutex, MutexGuard, PoisonError};

use rustix::fs::{Mode, OFlags, Stat};
use rustix::io::Errno;

use super::sidecars::Names;
use crate::body::Stamp;
use crate::{clock, sys};

/// Directories whose names of variants are remembered with a root. Beyond this number all are
/// forgotten.
const DIRECTORIES_MAX: usize = 16_384;

/// The path of a root directory, and the root as it was last opened. Clones share it.
#[derive(Clone)]
pub(crate) struct Root(Arc<SharedRoot>);

struct SharedRoot {
    path: PathBuf,
    opened: Mutex<Option<Arc<OpenRoot>>>,
}

/// An open root directory.
#[derive(Debug)]
pub(super) struct OpenRoot {
    directory: OwnedFd,
    opened_ms: u64,
    /// Device and inode.
    identity: (u64, u64),
    /// The names of variants by directory, as they were found since the root was opened.
    names: Mutex<HashMap<Box<[u8]>, Names>>,
}

impl Root {
    /// A root that is not open yet.
    pub(crate) fn new(path: PathBuf) -> Root {
        Root(Arc::new(SharedRoot { path, opened: Mutex::default() }))
    }

    /// Opens the root again: it may be a link that a deployment changes.
    ///
    /// # Errors
    /// Those of opening it, with its path.
    pub(super) fn open(&self) -> io::Result<OpenRoot> {
        let flags = OFlags::DIRECTORY | OFlags::CLOEXEC | sys::PROBE;
        let opened_ms = clock::now_ms();
        let opened = || {
            let directory = rustix::fs::open(&self.0.path, flags, Mode::empty())?;
            let identity = identity(&rustix::fs::fstat(&directory)?);
            Ok(OpenRoot { directory, opened_ms, identity, names: Mutex::default() })
        };
        opened().map_err(|e: Errno| match e {
            // See `is_out_of_descriptors`.
            Errno::MFILE | Errno::NFILE => e.into(),
            _ => io::Error::new(e.kind(), format!("the root {}: {e}", self.0.path.display())),
        })
    }

    /// Returns the root as look-ups share it, opened at `since_ms` (of `clock::now_ms`) or later.
    ///
    /// # Errors
    /// See [`open`](Self::open).
    pub(super) fn opened_since(&self, since_ms: u64) -> io::Result<Arc<OpenRoot>> {
        if let Some(opened) = &*lock(&self.0.opened)
            && opened.opened_ms >= since_ms
        {
            return Ok(Arc::clone(opened));
        }
        let opened = Arc::new(self.open()?);
        *lock(&self.0.opened) = Some(Arc::clone(&opened));
        Ok(opened)
    }

    /// `true` if the path still leads to this directory.
    pub(super) fn leads_to(&self, opened: &OpenRoot) -> bool {
        rustix::fs::stat(&self.0.path).is_ok_and(|stat| identity(&stat) == opened.identity)
    }
}

impl OpenRoot {
    /// The names of variants in a directory, if they were found since the root was opened.
    pub(super) fn names(&self, directory: &[u8]) -> Option<Names> {
        lock(&self.names).get(directory).cloned()
    }

    /// Remembers the names of variants in a directory.
    pub(super) fn remember(&self, directory: &[u8], names: &Names) {
        let mut known = lock(&self.names);
        if known.len() >= DIRECTORIES_MAX {
            known.clear();
        }
        known.insert(directory.into(), names.clone());
    }
}

impl AsFd for OpenRoot {
    fn as_fd(&self) -> BorrowedFd<'_> {
        self.directory.as_fd()
    }
}

impl Deref for Root {
    type Target = Path;

    fn deref(&self) -> &Path {
        &self.0.path
    }
}

impl fmt::Debug for Root {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        self.0.path.fmt(f)
    }
}

fn identity(stat: &Stat) -> (u64, u64) {
    let Stamp { device, inode, .. } = Stamp::of(stat);
    (device, inode)
}

/// Nothing panics while these locks are held, so a poisoned one is consistent.
fn lock<T>(mutex: &Mutex<T>) -> MutexGuard<'_, T> {
    mutex.lock().unwrap_or_else(PoisonError::into_inner)
}
