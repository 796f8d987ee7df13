//! TCP and UDP sockets to listen on. Each system's file decides how workers share them.

use std::io;
use std::net::{SocketAddr, TcpListener, UdpSocket};
use std::time::Duration;

use socket2::{Domain, Protocol, SockAddr, Socket, TcpKeepalive, Type};

/// TCP keep-alive: idle time before the first probe...
const PROBE_AFTER: Duration = Duration::from_secs(60);

/// ... the time between probes...
const PROBE_EACH: Duration = Duration::from_secs(10);

/// ... and the probes without an answer after which the connection is reset: a peer whose machine
/// vanished is noticed within a minute and a half (RFC 9293 3.8.4).
const PROBES: u32 = 3;

/// Binds `count` sockets to one address; the kernel balances between them once `share` was called
/// on each.
pub(super) fn balanced(
    addr: SocketAddr,
    backlog: u32,
    count: usize,
    share: fn(&Socket) -> io::Result<()>,
) -> io::Result<Vec<TcpListener>> {
    if count == 1 {
        return Ok(vec![single(addr, backlog)?]);
    }
    // A second server of the same user could share the address too, silently: one bind without
    // sharing finds that out. It also settles which port 0 stands for.
    let probe = bind(addr, |_| Ok(()))?;
    let addr = probe.local_addr()?.as_socket().unwrap_or(addr);
    drop(probe);
    (0..count).map(|_| listen(bind(addr, share)?, backlog)).collect()
}

/// Binds one socket to an address, not shared.
pub(super) fn single(addr: SocketAddr, backlog: u32) -> io::Result<TcpListener> {
    listen(bind(addr, |_| Ok(()))?, backlog)
}

fn listen(socket: Socket, backlog: u32) -> io::Result<TcpListener> {
    socket.listen(i32::try_from(backlog).unwrap_or(i32::MAX))?;
    Ok(socket.into())
}

fn bind(addr: SocketAddr, share: impl FnOnce(&Socket) -> io::Result<()>) -> io::Result<Socket> {
    let socket = Socket::new(Domain::for_address(addr), Type::STREAM, Some(Protocol::TCP))?;
    if addr.is_ipv6() {
        // `[::]` means IPv6 only, so that `0.0.0.0` can be listened on beside it.
        socket.set_only_v6(true)?;
    }
    socket.set_reuse_address(true)?;
    // Accepted sockets inherit it.
    let probes = TcpKeepalive::new().with_time(PROBE_AFTER).with_interval(PROBE_EACH);
    socket.set_tcp_keepalive(&probes.with_retries(PROBES))?;
    share(&socket)?;
    socket.set_nonblocking(true)?;
    socket.bind(&SockAddr::from(addr))?;
    Ok(socket)
}

/// Binds `count` UDP sockets to one address; the kernel balances between them once `share` was
/// called on each.
pub(super) fn balanced_datagrams(
    addr: SocketAddr,
    count: usize,
    share: fn(&Socket) -> io::Result<()>,
) -> io::Result<Vec<UdpSocket>> {
    let probe = single_datagrams(addr)?;
    if count == 1 {
        return Ok(vec![probe]);
    }
    // See `balanced`.
    let addr = probe.local_addr()?;
    drop(probe);
    (0..count).map(|_| Ok(bind_datagrams(addr, share)?.into())).collect()
}

/// Binds one UDP socket to an address, not shared.
pub(super) fn single_datagrams(addr: SocketAddr) -> io::Result<UdpSocket> {
    Ok(bind_datagrams(addr, |_| Ok(()))?.into())
}

fn bind_datagrams(
    addr: SocketAddr,
    share: impl FnOnce(&Socket) -> io::Result<()>,
) -> io::Result<Socket> {
    let socket = Socket::new(Domain::for_address(addr), Type::DGRAM, Some(Protocol::UDP))?;
    if addr.is_ipv6() {
        socket.set_only_v6(true)?;
    }
    share(&socket)?;
    socket.set_nonblocking(true)?;
    socket.bind(&SockAddr::from(addr))?;
    Ok(socket)
}
