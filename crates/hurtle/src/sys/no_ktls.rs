//! Systems without kernel TLS: FreeBSD's is not used, macOS has none.

use std::io;
use std::os::fd::BorrowedFd;

use super::TlsKeys;

/// See the contract in `sys`.
pub fn offers_tls() -> bool {
    false
}

/// See the contract in `sys`.
pub fn encrypt_sent(_socket: BorrowedFd<'_>, _keys: &TlsKeys) -> io::Result<()> {
    Err(io::ErrorKind::Unsupported.into())
}

/// See the contract in `sys`.
pub fn send_record(_socket: BorrowedFd<'_>, _kind: u8, _bytes: &[u8]) -> io::Result<()> {
    Err(io::ErrorKind::Unsupported.into())
}
