//! The socket files of a server that is stopping. While it finishes its requests, the next one may
//! have put its own in their place, which must stay.

use std::fs;
use std::os::unix::fs::MetadataExt as _;
use std::path::{Path, PathBuf};

use crate::config::{Config, Listen};

/// Paths of sockets, each with the attributes that another file in its place would not have.
#[derive(Debug, Default)]
pub(super) struct SocketFiles(Vec<(PathBuf, Attributes)>);

/// Device and inode, and the time of the creation, because inodes are used again.
type Attributes = (u64, u64, (i64, i64));

impl SocketFiles {
    /// The files of a server that still listens.
    pub(super) fn of(config: &Config) -> SocketFiles {
        let monitored = config.metrics.iter().flat_map(|metrics| &metrics.listen);
        let listening = config.listen.iter().chain(&config.listen_tls).chain(monitored);
        let paths = listening.filter_map(|listen| match listen {
            Listen::Unix(path) => Some(path),
            Listen::Tcp(_) => None,
        });
        let files = paths.chain(&config.admin);
        SocketFiles(files.filter_map(|path| Some((path.clone(), attributes(path)?))).collect())
    }

    /// Removes those that are still the same.
    pub(super) fn remove(self) {
        let same = self.0.iter().filter(|(path, before)| attributes(path) == Some(*before));
        for (path, _) in same {
            // The server's user may not write in the directory; the next start replaces the file.
            let _ = fs::remove_file(path);
        }
    }
}

fn attributes(path: &Path) -> Option<Attributes> {
    let metadata = fs::symlink_metadata(path).ok()?;
    Some((metadata.dev(), metadata.ino(), (metadata.mtime(), metadata.mtime_nsec())))
}
