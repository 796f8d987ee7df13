//! Systems without watches of directories that have a descriptor.

use std::io;
use std::os::fd::{AsFd, OwnedFd};
use std::path::Path;

/// See the contract in `sys`.
pub fn watch() -> io::Result<OwnedFd> {
    Err(io::ErrorKind::Unsupported.into())
}

/// See the contract in `sys`.
pub fn watch_directory(_watch: impl AsFd, _directory: &Path) -> io::Result<()> {
    Err(io::ErrorKind::Unsupported.into())
}

/// See the contract in `sys`.
pub fn take_changes(_watch: impl AsFd) -> io::Result<bool> {
    Err(io::ErrorKind::Unsupported.into())
}
