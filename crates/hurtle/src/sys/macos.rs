//! macOS: `sendfile(2)` without its headers, the walk beneath a directory in steps, one listening
//! socket for all workers.

use std::ffi::CStr;
use std::io;
use std::net::{SocketAddr, TcpListener, UdpSocket};
use std::num::NonZeroU64;
use std::os::fd::{BorrowedFd, OwnedFd};

use nix::unistd::Gid;
use rustix::fs::{Mode, OFlags};
use rustix::net::SendFlags;
use rustix::process::Resource;
use rustix::time::ClockId;

use super::{TrustStore, beneath, bind, count, paging};

/// See the contract in `sys`.
pub const UDP_BUFFER_SETTING: &str = "kern.ipc.maxsockbuf";

/// See the contract in `sys`.
///
/// The system cannot open a name without opening the file. So a directory beneath the root has to
/// be readable, not only searchable. `open_beneath` refuses anything but a file or directory before
/// it is opened; a plain `openat` with these flags opens it, but does not block.
pub const PROBE: OFlags = OFlags::RDONLY.union(OFlags::NONBLOCK).union(OFlags::NOCTTY);

/// The clock of `coarse_ms`: the system has no coarse one.
pub(super) const COARSE: ClockId = ClockId::Monotonic;

/// See the contract in `sys`.
pub const NO_SIGNAL: SendFlags = SendFlags::empty();

/// `RLIMIT_DATA` does not count what `mmap` returns here.
pub const PROGRAM_MEMORY: (Resource, char) = (Resource::As, 'v');

/// See the contract in `sys`.
///
/// The headers that `sendfile(2)` takes go out in a packet of their own as well, and when the
/// socket has room for a part of them, the file may follow that part (XNU, `uipc_syscalls.c`).
pub fn send_head_and_file(
    socket: BorrowedFd<'_>,
    head: &[u8],
    file: BorrowedFd<'_>,
    offset: u64,
    len: usize,
) -> io::Result<usize> {
    count::head_then_file(socket, head, NO_SIGNAL, || send_file(socket, file, offset, len))
}

/// See the contract in `sys`.
pub fn send_file(
    socket: BorrowedFd<'_>,
    file: BorrowedFd<'_>,
    offset: u64,
    len: usize,
) -> io::Result<usize> {
    // 0 would mean all of the file.
    if len == 0 {
        return Ok(0);
    }
    let offset = i64::try_from(offset).map_err(|_| io::ErrorKind::InvalidInput)?;
    let len = i64::try_from(len).unwrap_or(i64::MAX);
    count::retry_sendfile(|| {
        nix::sys::sendfile::sendfile(file, socket, offset, Some(len), None, None)
    })
}

/// Not used here: nothing was measured on this system.
pub fn fill_segments(_socket: BorrowedFd<'_>, _on: bool) {}

/// See the contract in `sys`. The system has no reads of files that do not wait.
pub fn read_resident(_file: BorrowedFd<'_>, _buf: &mut [u8], _offset: u64) -> io::Result<usize> {
    Err(io::ErrorKind::Unsupported.into())
}

/// See the contract in `sys`.
pub fn page_in(file: BorrowedFd<'_>, offset: u64, len: usize) -> io::Result<usize> {
    paging::by_reading(file, offset, len)
}

/// See the contract in `sys`.
pub fn begin_reading(_file: BorrowedFd<'_>, _len: NonZeroU64) -> bool {
    false
}

/// See the contract in `sys`.
pub fn open_beneath(
    dir: BorrowedFd<'_>,
    path: &[u8],
    flags: OFlags,
    follow: bool,
) -> rustix::io::Result<OwnedFd> {
    beneath::open(dir, path, flags, follow)
}

/// See the contract in `sys`. The system has none.
pub fn create_unnamed(_dir: BorrowedFd<'_>, _mode: Mode) -> rustix::io::Result<OwnedFd> {
    Err(rustix::io::Errno::OPNOTSUPP)
}

/// See the contract in `sys`.
pub fn link_unnamed(
    _file: BorrowedFd<'_>,
    _dir: BorrowedFd<'_>,
    _name: &[u8],
) -> rustix::io::Result<()> {
    Err(rustix::io::Errno::OPNOTSUPP)
}

/// See the contract in `sys`. `SO_REUSEPORT` gives all connections to the socket bound last, so
/// the workers share one.
pub fn listen_tcp(addr: SocketAddr, backlog: u32, count: usize) -> io::Result<Vec<TcpListener>> {
    let listener = bind::single(addr, backlog)?;
    let mut listeners: Vec<_> =
        (1..count).map(|_| listener.try_clone()).collect::<io::Result<_>>()?;
    listeners.push(listener);
    Ok(listeners)
}

/// See the contract in `sys`. `SO_REUSEPORT` gives all datagrams to one socket.
pub fn bind_udp(addr: SocketAddr, _count: usize) -> io::Result<Vec<UdpSocket>> {
    Ok(vec![bind::single_datagrams(addr)?])
}

/// See the contract in `sys`. The system has no such call.
pub fn end_handshakes(_listener: BorrowedFd<'_>) -> bool {
    false
}

/// See the contract in `sys`. `setpriority(2)` is for whole processes here.
pub fn give_precedence() {}

/// See the contract in `sys`.
pub fn backlog_max() -> Option<u32> {
    None
}

/// See the contract in `sys`. nix offers none of the calls here, and keeping root's groups would be
/// worse than not starting.
pub fn init_groups(_user: &CStr, _group: Gid) -> io::Result<()> {
    let why = "root's groups cannot be given up here: let launchd start the server as its user";
    Err(io::Error::new(io::ErrorKind::Unsupported, why))
}

/// See the contract in `sys`.
pub fn adopt_orphans() -> io::Result<()> {
    Err(io::ErrorKind::Unsupported.into())
}

/// See the contract in `sys`.
pub fn children() -> io::Result<Vec<rustix::process::Pid>> {
    Err(io::ErrorKind::Unsupported.into())
}

/// See the contract in `sys`.
pub const TRUST_STORES: &[TrustStore] = &[TrustStore {
    directory: None,
    extension: "pem",
    add: &[
        "security",
        "add-trusted-cert",
        "-d",
        "-r",
        "trustRoot",
        "-k",
        "/Library/Keychains/System.keychain",
        "",
    ],
    remove: &["security", "remove-trusted-cert", "-d", ""],
}];
