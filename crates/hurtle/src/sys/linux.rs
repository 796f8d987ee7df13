//! Linux: `sendfile(2)`, `MSG_MORE`, `openat2(2)`, `RWF_NOWAIT`, `SO_REUSEPORT`.

use std::ffi::CStr;
use std::io::{self, IoSliceMut};
use std::net::{SocketAddr, TcpListener};
use std::os::fd::{BorrowedFd, OwnedFd};

use nix::unistd::Gid;
use rustix::fs::{Mode, OFlags, ResolveFlags};
use rustix::io::{Errno, ReadWriteFlags, retry_on_intr};
use rustix::net::SendFlags;
use socket2::{Domain, Protocol, SockAddr, Socket, Type};

/// See the contract in `sys`.
pub const PROBE: OFlags = OFlags::PATH;

/// See the contract in `sys`.
pub fn send_head_and_file(
    socket: BorrowedFd<'_>,
    head: &[u8],
    file: BorrowedFd<'_>,
    offset: u64,
    len: usize,
) -> io::Result<usize> {
    let flags = if len > 0 { SendFlags::MORE } else { SendFlags::empty() } | SendFlags::NOSIGNAL;
    let sent = retry_on_intr(|| rustix::net::send(socket, head, flags))?;
    if sent < head.len() || len == 0 {
        return Ok(sent);
    }
    match send_file(socket, file, offset, len) {
        Ok(n) => Ok(sent + n),
        Err(e) if e.kind() == io::ErrorKind::WouldBlock => Ok(sent),
        Err(e) => Err(e),
    }
}

/// See the contract in `sys`.
pub fn send_file(
    socket: BorrowedFd<'_>,
    file: BorrowedFd<'_>,
    offset: u64,
    len: usize,
) -> io::Result<usize> {
    // Linux returns the bytes moved when it stops early, and fails only if there were none.
    Ok(retry_on_intr(|| rustix::fs::sendfile(socket, file, Some(&mut offset.clone()), len))?)
}

/// See the contract in `sys`.
///
/// Neither `mincore` nor `cachestat` is asked: as an unprivileged user on files it does not own,
/// the first reports every page resident and the second is refused.
pub fn read_resident(file: BorrowedFd<'_>, buf: &mut [u8], offset: u64) -> io::Result<usize> {
    let mut bufs = [IoSliceMut::new(buf)];
    let read =
        retry_on_intr(|| rustix::io::preadv2(file, &mut bufs, offset, ReadWriteFlags::NOWAIT));
    match read {
        Ok(n) => Ok(n),
        // The file system has no non-blocking reads: as good as not resident.
        Err(Errno::OPNOTSUPP | Errno::NOSYS | Errno::INVAL) => {
            Err(io::ErrorKind::WouldBlock.into())
        }
        Err(e) => Err(e.into()),
    }
}

/// See the contract in `sys`. `ENOSYS` and `EPERM` (a sandbox) are the caller's to fall back on.
pub fn open_beneath(
    dir: BorrowedFd<'_>,
    path: &[u8],
    flags: OFlags,
    follow: bool,
) -> rustix::io::Result<OwnedFd> {
    let mut resolve = ResolveFlags::BENEATH | ResolveFlags::NO_MAGICLINKS;
    if !follow {
        resolve |= ResolveFlags::NO_SYMLINKS;
    }
    // EAGAIN: a rename or mount raced with the walk (openat2(2)); three tries, then report it.
    for _ in 0..2 {
        match rustix::fs::openat2(dir, path, flags, Mode::empty(), resolve) {
            Err(Errno::AGAIN | Errno::INTR) => {}
            other => return other,
        }
    }
    rustix::fs::openat2(dir, path, flags, Mode::empty(), resolve)
}

/// See the contract in `sys`.
pub fn coarse_ms() -> u64 {
    let t = rustix::time::clock_gettime(rustix::time::ClockId::MonotonicCoarse);
    // Since boot, so never negative.
    t.tv_sec as u64 * 1_000 + t.tv_nsec as u64 / 1_000_000
}

/// See the contract in `sys`. Every worker has a socket of its own and the kernel spreads
/// connections over them (`SO_REUSEPORT`).
pub fn listen_tcp(addr: SocketAddr, backlog: u32, count: usize) -> io::Result<Vec<TcpListener>> {
    // With SO_REUSEPORT a second server of the same user would bind silently: one bind without it
    // finds that out. The probe also settles which port 0 stands for.
    let probe = bind(addr, false)?;
    let addr = probe.local_addr()?.as_socket().unwrap_or(addr);
    drop(probe);
    let mut listeners = Vec::with_capacity(count);
    for _ in 0..count {
        let socket = bind(addr, count > 1)?;
        socket.listen(i32::try_from(backlog).unwrap_or(i32::MAX))?;
        listeners.push(socket.into());
    }
    Ok(listeners)
}

fn bind(addr: SocketAddr, shared: bool) -> io::Result<Socket> {
    let socket = Socket::new(Domain::for_address(addr), Type::STREAM, Some(Protocol::TCP))?;
    if addr.is_ipv6() {
        // `[::]` means IPv6 only, so that `0.0.0.0` can be listened on beside it.
        socket.set_only_v6(true)?;
    }
    socket.set_reuse_address(true)?;
    socket.set_reuse_port(shared)?;
    socket.set_nonblocking(true)?;
    socket.bind(&SockAddr::from(addr))?;
    Ok(socket)
}

/// See the contract in `sys`.
pub fn backlog_max() -> Option<u32> {
    std::fs::read_to_string("/proc/sys/net/core/somaxconn").ok()?.trim().parse().ok()
}

/// See the contract in `sys`.
pub fn init_groups(user: &CStr, group: Gid) -> io::Result<()> {
    Ok(nix::unistd::initgroups(user, group)?)
}
