//! Linux: `sendfile(2)`, `MSG_MORE`, `openat2(2)`, `RWF_NOWAIT`, `SO_REUSEPORT`.

use std::ffi::CStr;
use std::fs;
use std::io::{self, IoSliceMut};
use std::net::{SocketAddr, TcpListener, UdpSocket};
use std::num::NonZeroU64;
use std::os::fd::{AsFd, AsRawFd, BorrowedFd, OwnedFd};
use std::sync::LazyLock;

use nix::unistd::Gid;
use rustix::fs::{Advice, AtFlags, CWD, FileType, Mode, OFlags, ResolveFlags, makedev};
use rustix::io::{Errno, ReadWriteFlags, retry_on_intr};
use rustix::net::SendFlags;
use rustix::process::{Pid, Resource, getpid, set_child_subreaper};
use rustix::time::ClockId;
use socket2::{SockFilter, SockRef, Socket};

use super::{TrustStore, beneath, bind, count, paging};

/// See the contract in `sys`.
pub const UDP_BUFFER_SETTING: &str = "net.core.rmem_max and net.core.wmem_max";

/// See the contract in `sys`.
pub const PROBE: OFlags = OFlags::PATH;

/// A clock for `coarse_ms`: read without asking the timer, as of the last tick.
pub(super) const COARSE: ClockId = ClockId::MonotonicCoarse;

/// See the contract in `sys`.
pub const NO_SIGNAL: SendFlags = SendFlags::NOSIGNAL;

/// Counts private writable memory only, and not the files that a program maps.
pub const PROGRAM_MEMORY: (Resource, char) = (Resource::Data, 'd');

/// See the contract in `sys`.
pub fn send_head_and_file(
    socket: BorrowedFd<'_>,
    head: &[u8],
    file: BorrowedFd<'_>,
    offset: u64,
    len: usize,
) -> io::Result<usize> {
    let flags = if len > 0 { SendFlags::MORE } else { SendFlags::empty() } | NO_SIGNAL;
    count::head_then_file(socket, head, flags, || send_file(socket, file, offset, len))
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

/// See the contract in `sys` (`TCP_CORK`). Without it, an acknowledgement between two calls sends a
/// segment that the next call could have filled: over loopback every second one.
pub fn fill_segments(socket: BorrowedFd<'_>, on: bool) {
    // A socket that refuses the option works, only slower.
    let _ = rustix::net::sockopt::set_tcp_cork(socket, on);
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
        // The file system has no non-blocking reads.
        Err(Errno::OPNOTSUPP | Errno::NOSYS | Errno::INVAL) if is_in_memory(file) => {
            Ok(retry_on_intr(|| rustix::io::pread(file, &mut *bufs[0], offset))?)
        }
        Err(Errno::OPNOTSUPP | Errno::NOSYS | Errno::INVAL) => {
            Err(io::ErrorKind::Unsupported.into())
        }
        Err(e) => Err(e.into()),
    }
}

/// Returns whether the file system has no disk beneath, and waits for one no more than any memory
/// of this process does: only while swapping.
fn is_in_memory(file: BorrowedFd<'_>) -> bool {
    /// Types of tmpfs and ramfs (linux/magic.h).
    const IN_MEMORY: [i128; 2] = [0x0102_1994, 0x8584_58f6];
    // The integer's size and sign differ between architectures.
    rustix::fs::fstatfs(file).is_ok_and(|stat| IN_MEMORY.contains(&i128::from(stat.f_type)))
}

/// See the contract in `sys`. Bytes sent to `/dev/null` are paged in, and not copied.
pub fn page_in(file: BorrowedFd<'_>, offset: u64, len: usize) -> io::Result<usize> {
    static NOWHERE: LazyLock<Option<OwnedFd>> = LazyLock::new(open_nowhere);
    let Some(nowhere) = &*NOWHERE else { return paging::by_reading(file, offset, len) };
    match send_file(nowhere.as_fd(), file, offset, len) {
        // Not all file systems support it.
        Err(e) if e.kind() == io::ErrorKind::InvalidInput => paging::by_reading(file, offset, len),
        sent => sent,
    }
}

/// See the contract in `sys`.
pub fn begin_reading(file: BorrowedFd<'_>, len: NonZeroU64) -> bool {
    rustix::fs::fadvise(file, 0, Some(len), Advice::WillNeed).is_ok()
}

/// `/dev/null`, opened; `None` if that name is another kind of file.
fn open_nowhere() -> Option<OwnedFd> {
    let flags = OFlags::WRONLY | OFlags::NOFOLLOW | OFlags::CLOEXEC;
    let device = rustix::fs::open("/dev/null", flags, Mode::empty()).ok()?;
    let stat = rustix::fs::fstat(&device).ok()?;
    let is_it = FileType::from_raw_mode(stat.st_mode) == FileType::CharacterDevice
        && stat.st_rdev == makedev(1, 3);
    is_it.then_some(device)
}

/// See the contract in `sys`.
pub fn open_beneath(
    dir: BorrowedFd<'_>,
    path: &[u8],
    flags: OFlags,
    follow: bool,
) -> rustix::io::Result<OwnedFd> {
    if !*OPENAT2_IS_OFFERED {
        return beneath::open(dir, path, flags, follow);
    }
    let mut resolve = ResolveFlags::BENEATH | ResolveFlags::NO_MAGICLINKS;
    if !follow {
        resolve |= ResolveFlags::NO_SYMLINKS;
    }
    for _ in 0..OPENAT2_TRIES {
        match rustix::fs::openat2(dir, path, flags, Mode::empty(), resolve) {
            Err(Errno::AGAIN | Errno::INTR) => {}
            other => return other,
        }
    }
    beneath::open(dir, path, flags, follow)
}

/// Retries on `EAGAIN`: a rename or mount may have raced with a `..` (openat2(2)).
const OPENAT2_TRIES: usize = 3;

/// Returns true if `openat2(2)` can be used: not before Linux 5.6 (`ENOSYS`), nor in many sandboxes
/// (`ENOSYS`, `EPERM` or another error). Opening a file can fail with `EPERM` too, so flags that do
/// not exist are tried, once: the kernel refuses them with `EINVAL`, a sandbox with another error.
static OPENAT2_IS_OFFERED: LazyLock<bool> = LazyLock::new(|| {
    let no_such_flags = ResolveFlags::from_bits_retain(u64::MAX);
    let answer = rustix::fs::openat2(CWD, ".", PROBE, Mode::empty(), no_such_flags);
    answer.is_err_and(|e| e == Errno::INVAL)
});

/// See the contract in `sys`.
pub fn create_unnamed(dir: BorrowedFd<'_>, mode: Mode) -> rustix::io::Result<OwnedFd> {
    let flags = OFlags::TMPFILE | OFlags::RDWR | OFlags::CLOEXEC;
    match rustix::fs::openat(dir, c".", flags, mode) {
        // The error of a kernel or file system that does not know the flag (open(2)).
        Err(Errno::ISDIR | Errno::NOENT | Errno::INVAL) => Err(Errno::OPNOTSUPP),
        other => other,
    }
}

/// See the contract in `sys`.
pub fn link_unnamed(
    file: BorrowedFd<'_>,
    dir: BorrowedFd<'_>,
    name: &[u8],
) -> rustix::io::Result<()> {
    match rustix::fs::linkat(file, c"", dir, name, AtFlags::EMPTY_PATH) {
        // Before Linux 6.10 that needs CAP_DAC_READ_SEARCH; /proc works without (open(2)).
        Err(Errno::NOENT) => {
            let path = format!("/proc/self/fd/{}", file.as_raw_fd());
            rustix::fs::linkat(CWD, path, dir, name, AtFlags::SYMLINK_FOLLOW)
        }
        other => other,
    }
}

/// See the contract in `sys`. Every worker has a socket of its own and the kernel spreads
/// connections over them (`SO_REUSEPORT`).
pub fn listen_tcp(addr: SocketAddr, backlog: u32, count: usize) -> io::Result<Vec<TcpListener>> {
    bind::balanced(addr, backlog, count, |socket: &Socket| socket.set_reuse_port(true))
}

/// See the contract in `sys`. The kernel spreads clients over the sockets by their addresses.
pub fn bind_udp(addr: SocketAddr, count: usize) -> io::Result<Vec<UdpSocket>> {
    bind::balanced_datagrams(addr, count, |socket: &Socket| socket.set_reuse_port(true))
}

/// See the contract in `sys`. A packet filter: closing a listener resets every connection on it
/// that was not accepted, and under load one more comes between the last accept and the close.
pub fn end_handshakes(listener: BorrowedFd<'_>) -> bool {
    const LOAD_BYTE: u16 = 0x30;
    const JUMP_IF_SET: u16 = 0x45;
    const RETURN: u16 = 0x06;
    /// The offset of the flags in a TCP header, and the SYN flag (RFC 9293 3.1).
    const FLAGS_AT: u32 = 13;
    const SYN: u32 = 0x02;
    let drop_syn = [
        SockFilter::new(LOAD_BYTE, 0, 0, FLAGS_AT),
        SockFilter::new(JUMP_IF_SET, 0, 1, SYN),
        SockFilter::new(RETURN, 0, 0, 0),
        SockFilter::new(RETURN, 0, 0, u32::MAX),
    ];
    // A sandbox may forbid it.
    SockRef::from(&listener).attach_filter(&drop_syn).is_ok()
}

/// See the contract in `sys`: each thread has a nice value of its own (setpriority(2)). If setting
/// it is refused, priorities stay as they were.
pub fn give_precedence() {
    let thread = Some(rustix::thread::gettid());
    let own = rustix::process::getpriority_process(thread).unwrap_or(0);
    let _ = rustix::process::setpriority_process(thread, own + NICER_BY);
}

/// Added to a nice value, of which the kernel makes at most 19: a tenth of the share that the
/// process's other threads have where both want all of a processor.
const NICER_BY: i32 = 10;

/// See the contract in `sys`.
pub fn backlog_max() -> Option<u32> {
    fs::read_to_string("/proc/sys/net/core/somaxconn").ok()?.trim().parse().ok()
}

/// See the contract in `sys`.
pub fn init_groups(user: &CStr, group: Gid) -> io::Result<()> {
    Ok(nix::unistd::initgroups(user, group)?)
}

/// See the contract in `sys`.
pub fn adopt_orphans() -> io::Result<()> {
    Ok(set_child_subreaper(Some(getpid()))?)
}

/// See the contract in `sys`. `/proc/PID/task/TID/children` would be faster, but not every kernel
/// has it.
pub fn children() -> io::Result<Vec<Pid>> {
    let own = getpid().to_string();
    let is_child = |pid: &Pid| {
        // After the name, which may hold any byte: the state, then the parent (proc(5)).
        let stat = fs::read(format!("/proc/{pid}/stat")).unwrap_or_default();
        let stat = String::from_utf8_lossy(&stat);
        let rest = stat.rsplit_once(')').map_or("", |(_, rest)| rest);
        rest.split_whitespace().nth(1) == Some(&own)
    };
    let names =
        fs::read_dir("/proc")?.filter_map(|entry| entry.ok()?.file_name().into_string().ok());
    let pids = names.filter_map(|name| Pid::from_raw(name.parse().ok()?));
    Ok(pids.filter(is_child).collect())
}

/// See the contract in `sys`.
pub const TRUST_STORES: &[TrustStore] = &[
    // Debian, Ubuntu, Alpine.
    TrustStore {
        directory: Some("/usr/local/share/ca-certificates"),
        extension: "crt",
        add: &["update-ca-certificates"],
        remove: &["update-ca-certificates", "--fresh"],
    },
    // Fedora and its relatives.
    TrustStore {
        directory: Some("/etc/pki/ca-trust/source/anchors"),
        extension: "pem",
        add: &["update-ca-trust", "extract"],
        remove: &["update-ca-trust", "extract"],
    },
    // openSUSE.
    TrustStore {
        directory: Some("/etc/pki/trust/anchors"),
        extension: "pem",
        add: &["update-ca-certificates"],
        remove: &["update-ca-certificates"],
    },
    // Arch Linux.
    TrustStore {
        directory: Some("/etc/ca-certificates/trust-source/anchors"),
        extension: "crt",
        add: &["trust", "extract-compat"],
        remove: &["trust", "extract-compat"],
    },
];
