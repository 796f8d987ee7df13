//! Systems without a sandbox that a program can put itself into.

use std::io;
use std::path::PathBuf;

/// See the contract in `sys`.
pub fn restrict_files(_readable: &[PathBuf], _writable: &[PathBuf]) -> io::Result<()> {
    Err(io::ErrorKind::Unsupported.into())
}

/// See the contract in `sys`.
pub fn restrict_calls() -> io::Result<()> {
    Err(io::ErrorKind::Unsupported.into())
}
