//! Systems without timer descriptors.

use std::io;
use std::os::fd::{AsFd, OwnedFd};
use std::time::Duration;

/// See the contract in `sys`.
pub fn timer() -> io::Result<OwnedFd> {
    Err(io::ErrorKind::Unsupported.into())
}

/// See the contract in `sys`.
pub fn set_timer(_timer: impl AsFd, _time: Duration) -> io::Result<()> {
    Err(io::ErrorKind::Unsupported.into())
}
