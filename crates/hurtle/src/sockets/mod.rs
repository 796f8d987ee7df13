//! Sockets that listen: bound, or received from another process. `activation` has those of the
//! service manager, `descriptors` sends and receives them.

pub(crate) mod activation;
pub(crate) mod descriptors;

use std::io;
use std::net::Ipv6Addr;
use std::os::fd::{AsFd, BorrowedFd};
use std::os::unix::net as unix;
use std::path::Path;

use rustix::io::Errno;

use crate::config::Listen;
use crate::sys;

/// Ports tried for port 0 until one is free for UDP too.
const PORTS_TRIED: u32 = 20;

/// A bound socket that no worker has registered yet.
#[derive(Debug)]
pub enum Listener {
    /// A listener of a TCP address.
    Tcp(std::net::TcpListener),
    /// A listener of a unix stream socket.
    Unix(unix::UnixListener),
}

impl Listener {
    /// Makes calls on it non-blocking.
    fn set_nonblocking(&self) -> io::Result<()> {
        match self {
            Listener::Tcp(socket) => socket.set_nonblocking(true),
            Listener::Unix(socket) => socket.set_nonblocking(true),
        }
    }

    /// Duplicates the descriptor; both accept from the same socket.
    pub(crate) fn try_clone(&self) -> io::Result<Listener> {
        Ok(match self {
            Listener::Tcp(socket) => Listener::Tcp(socket.try_clone()?),
            Listener::Unix(socket) => Listener::Unix(socket.try_clone()?),
        })
    }

    /// The descriptor of the socket.
    pub(crate) fn as_fd(&self) -> BorrowedFd<'_> {
        match self {
            Listener::Tcp(socket) => socket.as_fd(),
            Listener::Unix(socket) => socket.as_fd(),
        }
    }

    /// The address that the socket reports; `None` for an unnamed unix socket.
    pub(crate) fn own_address(&self) -> Option<Listen> {
        match self {
            Listener::Tcp(socket) => socket.local_addr().ok().map(Listen::Tcp),
            Listener::Unix(socket) => {
                Some(Listen::Unix(socket.local_addr().ok()?.as_pathname()?.to_owned()))
            }
        }
    }

    /// The bound address: `configured`, with the actual port in place of port 0.
    pub fn address(&self, configured: &Listen) -> Listen {
        match self {
            Listener::Tcp(socket) => {
                socket.local_addr().map_or_else(|_| configured.clone(), Listen::Tcp)
            }
            Listener::Unix(_) => configured.clone(),
        }
    }
}

/// Returns whether the system does not have this address: Linux with `ipv6.disable=1` has none of
/// IPv6, and with the sysctl `disable_ipv6=1` the unspecified one only.
pub(crate) fn is_missing(address: Ipv6Addr) -> bool {
    let bound = std::net::TcpListener::bind((address, 0));
    let errno = bound.err().and_then(|error| Errno::from_io_error(&error));
    matches!(errno, Some(Errno::AFNOSUPPORT | Errno::ADDRNOTAVAIL))
}

/// Binds an address for `count` workers; returns one listener for each.
///
/// `udp`: port 0 stands for a port whose UDP port, which HTTP/3 needs, is free too.
pub(crate) fn bind(
    listen: &Listen,
    backlog: u32,
    count: usize,
    udp: bool,
) -> io::Result<Vec<Listener>> {
    match listen {
        Listen::Tcp(addr) => {
            let mut sockets = sys::listen_tcp(*addr, backlog, count)?;
            let mut tries = if udp && addr.port() == 0 { PORTS_TRIED } else { 0 };
            while tries > 0 && sys::bind_udp(sockets[0].local_addr()?, 1).is_err() {
                sockets = sys::listen_tcp(*addr, backlog, count)?;
                tries -= 1;
            }
            Ok(sockets.into_iter().map(Listener::Tcp).collect())
        }
        Listen::Unix(path) => {
            let socket = bind_unix(path, backlog, None)?;
            socket.set_nonblocking(true)?;
            let mut sockets = Vec::with_capacity(count);
            for _ in 1..count {
                sockets.push(Listener::Unix(socket.try_clone()?));
            }
            sockets.push(Listener::Unix(socket));
            Ok(sockets)
        }
    }
}

/// Sets the backlog of listeners of another process, whose configuration may have had another.
pub(crate) fn set_backlog(listeners: &[Listener], backlog: u32) -> io::Result<()> {
    let backlog = i32::try_from(backlog).unwrap_or(i32::MAX);
    let set = |listener: &Listener| Ok(rustix::net::listen(listener.as_fd(), backlog)?);
    listeners.iter().try_for_each(set)
}

/// Shares the listeners of another process among `count` workers: the first worker gets the first
/// one, and so on around. Each listener and each worker is served, however many there are.
pub(crate) fn share(listeners: Vec<Listener>, count: usize) -> io::Result<Vec<Listener>> {
    let mut shared = listeners;
    let (len, mut next) = (shared.len(), 0);
    while len > 0 && shared.len() < count {
        shared.push(shared[next % len].try_clone()?);
        next += 1;
    }
    Ok(shared)
}

/// `true`: the path is that of a unix socket.
fn is_socket(path: &Path) -> bool {
    std::fs::symlink_metadata(path)
        .is_ok_and(|m| std::os::unix::fs::FileTypeExt::is_socket(&m.file_type()))
}

/// Binds a unix socket. A socket file on which a server accepts is in use; one to which connections
/// are refused is left over from a crash and is replaced.
///
/// `mode`: the mode of the file, set before a client can connect.
pub(crate) fn bind_unix(
    path: &Path,
    backlog: u32,
    mode: Option<u32>,
) -> io::Result<unix::UnixListener> {
    if is_socket(path) {
        let client = socket2::Socket::new(socket2::Domain::UNIX, socket2::Type::STREAM, None)?;
        client.set_nonblocking(true)?;
        match client.connect(&socket2::SockAddr::unix(path)?) {
            Err(e) if e.kind() == io::ErrorKind::ConnectionRefused => std::fs::remove_file(path)?,
            // Its server has removed it meanwhile.
            Err(e) if e.kind() == io::ErrorKind::NotFound => {}
            // A full queue, a socket of another type, or one that this user may not use.
            Ok(()) | Err(_) => return Err(io::ErrorKind::AddrInUse.into()),
        }
    }
    let socket = socket2::Socket::new(socket2::Domain::UNIX, socket2::Type::STREAM, None)?;
    socket.bind(&socket2::SockAddr::unix(path)?)?;
    if let Some(mode) = mode {
        let mode = std::os::unix::fs::PermissionsExt::from_mode(mode);
        std::fs::set_permissions(path, mode)?;
    }
    socket.listen(i32::try_from(backlog).unwrap_or(i32::MAX))?;
    Ok(socket.into())
}
