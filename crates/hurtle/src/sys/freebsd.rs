//! FreeBSD: `sendfile(2)` with headers, `O_RESOLVE_BENEATH`, `O_PATH`, `SO_REUSEPORT_LB`.

use std::ffi::CStr;
use std::io;
use std::net::{SocketAddr, TcpListener, UdpSocket};
use std::num::NonZeroU64;
use std::os::fd::{BorrowedFd, OwnedFd};

use nix::sys::sendfile::{SfFlags, sendfile};
use nix::unistd::Gid;
use rustix::fs::{Mode, OFlags};
use rustix::io::{Errno, retry_on_intr};
use rustix::net::SendFlags;
use rustix::process::Resource;
use rustix::time::ClockId;
use socket2::Socket;

use super::{TrustStore, beneath, bind, count, paging};

/// See the contract in `sys`.
pub const UDP_BUFFER_SETTING: &str = "kern.ipc.maxsockbuf";

/// See the contract in `sys`.
pub const PROBE: OFlags = OFlags::PATH;

/// A clock for `coarse_ms`: read without asking the timer, as of the last tick.
pub(super) const COARSE: ClockId = ClockId::MonotonicCoarse;

/// See the contract in `sys`.
pub const NO_SIGNAL: SendFlags = SendFlags::NOSIGNAL;

/// `RLIMIT_DATA` does not count what `mmap` returns here.
pub const PROGRAM_MEMORY: (Resource, char) = (Resource::As, 'v');

/// Pages read ahead beyond what the file system does by itself.
const READAHEAD_PAGES: u16 = 0;

/// See the contract in `sys`.
pub fn send_head_and_file(
    socket: BorrowedFd<'_>,
    head: &[u8],
    file: BorrowedFd<'_>,
    offset: u64,
    len: usize,
) -> io::Result<usize> {
    match send(socket, &[head], file, offset, len)? {
        // The file has no bytes there, so the call did not send the head either.
        0 => Ok(retry_on_intr(|| rustix::net::send(socket, head, NO_SIGNAL))?),
        sent => Ok(sent),
    }
}

/// See the contract in `sys`.
pub fn send_file(
    socket: BorrowedFd<'_>,
    file: BorrowedFd<'_>,
    offset: u64,
    len: usize,
) -> io::Result<usize> {
    send(socket, &[], file, offset, len)
}

/// Calls `sendfile(2)`. Headers count in the result, not in `len`.
fn send(
    socket: BorrowedFd<'_>,
    headers: &[&[u8]],
    file: BorrowedFd<'_>,
    offset: u64,
    len: usize,
) -> io::Result<usize> {
    // 0 would mean all of the file.
    if len == 0 {
        return Ok(0);
    }
    let offset = i64::try_from(offset).map_err(|_| io::ErrorKind::InvalidInput)?;
    let headers = (!headers.is_empty()).then_some(headers);
    let flags = SfFlags::empty();
    count::retry_sendfile(|| {
        sendfile(file, socket, offset, Some(len), headers, None, flags, READAHEAD_PAGES)
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

/// See the contract in `sys`. The kernel stays beneath but cannot be told to refuse links.
pub fn open_beneath(
    dir: BorrowedFd<'_>,
    path: &[u8],
    flags: OFlags,
    follow: bool,
) -> rustix::io::Result<OwnedFd> {
    if !follow {
        return beneath::open(dir, path, flags, follow);
    }
    let flags = flags | OFlags::RESOLVE_BENEATH;
    match retry_on_intr(|| rustix::fs::openat(dir, path, flags, Mode::empty())) {
        Err(Errno::NOTCAPABLE) => Err(Errno::XDEV),
        other => other,
    }
}

/// See the contract in `sys`. The system has none.
pub fn create_unnamed(_dir: BorrowedFd<'_>, _mode: Mode) -> rustix::io::Result<OwnedFd> {
    Err(Errno::OPNOTSUPP)
}

/// See the contract in `sys`.
pub fn link_unnamed(
    _file: BorrowedFd<'_>,
    _dir: BorrowedFd<'_>,
    _name: &[u8],
) -> rustix::io::Result<()> {
    Err(Errno::OPNOTSUPP)
}

/// See the contract in `sys`. Every worker has a socket of its own and the kernel spreads
/// connections over them; plain `SO_REUSEPORT` would give all to the one bound last.
pub fn listen_tcp(addr: SocketAddr, backlog: u32, count: usize) -> io::Result<Vec<TcpListener>> {
    bind::balanced(addr, backlog, count, |socket: &Socket| socket.set_reuse_port_lb(true))
}

/// See the contract in `sys`. The kernel spreads clients over the sockets by their addresses.
pub fn bind_udp(addr: SocketAddr, count: usize) -> io::Result<Vec<UdpSocket>> {
    bind::balanced_datagrams(addr, count, |socket: &Socket| socket.set_reuse_port_lb(true))
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

/// See the contract in `sys`.
pub fn init_groups(user: &CStr, group: Gid) -> io::Result<()> {
    Ok(nix::unistd::initgroups(user, group)?)
}

/// See the contract in `sys`.
pub fn adopt_orphans() -> io::Result<()> {
    Ok(rustix::process::set_reaper_status(true)?)
}

/// See the contract in `sys`: every descendant.
pub fn children() -> io::Result<Vec<rustix::process::Pid>> {
    let descendants = rustix::process::get_reaper_pids(None)?;
    Ok(descendants.iter().map(|descendant| descendant.pid).collect())
}

/// See the contract in `sys`.
pub const TRUST_STORES: &[TrustStore] = &[TrustStore {
    directory: Some("/usr/local/etc/ssl/certs"),
    extension: "pem",
    add: &["certctl", "rehash"],
    remove: &["certctl", "rehash"],
}];
