//! The sockets of the generator: opening, sending, receiving with and without copying. `reader`
//! interprets the bytes.

use std::io;
use std::net::SocketAddr;
use std::os::fd::{AsFd, OwnedFd};
use std::path::Path;
use std::time::Duration;

use rustix::event::epoll::{self, CreateFlags, Event, EventData, EventFlags};
use rustix::event::{PollFd, PollFlags, poll};
use rustix::io::Errno;
use rustix::net::{
    AddressFamily, RecvFlags, SendFlags, SocketAddrUnix, SocketFlags, SocketType, connect, recv,
    send, socket_with, sockopt,
};
use rustix::process::{Resource, getrlimit};
use rustix::time::Timespec;

/// Bytes of one receive. A client that reads 8 KiB at a time limits the rows of large files itself
/// (3.5k instead of 9k responses of 1 MB a second here).
pub(super) const RECEIVE_BYTES: usize = 256 * 1024;

/// Bytes of a receive before a head whose body will be discarded: a usual head and little more.
pub(super) const HEAD_RECEIVE_BYTES: usize = 1024;

/// Events taken in one turn.
const EVENTS_MAX: usize = 256;

/// Descriptors left to the rest of the process.
const DESCRIPTORS_SPARE: u64 = 64;

/// Connections at once, whatever the descriptor limit allows.
const CONNECTIONS_MAX: u64 = 32_768;

/// Readiness of all connections. Edge-triggered, and registered once with both directions: a
/// connection costs one `epoll_ctl` in its life. A short read means that the socket was drained
/// (epoll(7), questions and answers 9).
pub(super) struct Poll {
    epoll: OwnedFd,
}

impl Poll {
    pub(super) fn new() -> io::Result<Poll> {
        Ok(Poll { epoll: epoll::create(CreateFlags::CLOEXEC)? })
    }

    pub(super) fn add(&self, socket: impl AsFd, token: u64) -> io::Result<()> {
        let flags = EventFlags::IN | EventFlags::OUT | EventFlags::RDHUP | EventFlags::ET;
        Ok(epoll::add(&self.epoll, socket, EventData::new_u64(token), flags)?)
    }

    /// Waits for an event, at most so long.
    pub(super) fn wait(&self, most: Duration) -> io::Result<()> {
        let most = Timespec::try_from(most).map_err(io::Error::other)?;
        // In nanoseconds: the timeout of epoll_wait(2) has milliseconds.
        match poll(&mut [PollFd::new(&self.epoll, PollFlags::IN)], Some(&most)) {
            Ok(_) | Err(Errno::INTR) => Ok(()),
            Err(e) => Err(e.into()),
        }
    }

    /// Fills in the ready events; never waits.
    pub(super) fn ready(&self, events: &mut [Event]) -> io::Result<usize> {
        match epoll::wait(&self.epoll, events, Some(&Timespec { tv_sec: 0, tv_nsec: 0 })) {
            Ok(count) => Ok(count),
            Err(Errno::INTR) => Ok(0),
            Err(e) => Err(e.into()),
        }
    }
}

/// Room for the events of one turn.
pub(super) fn no_events() -> Vec<Event> {
    vec![Event { flags: EventFlags::empty(), data: EventData::new_u64(0) }; EVENTS_MAX]
}

/// Result of opening a connection.
pub(super) enum OpenResult {
    /// Begun; an event reports the result.
    Begun(OwnedFd),
    /// The connection was refused.
    Refused,
}

/// Begins a connection. An error is the generator's own fault, not the server's.
pub(super) fn open(target: SocketAddr) -> io::Result<OpenResult> {
    let family = if target.is_ipv4() { AddressFamily::INET } else { AddressFamily::INET6 };
    let flags = SocketFlags::NONBLOCK | SocketFlags::CLOEXEC;
    let socket = socket_with(family, SocketType::STREAM, flags, None).map_err(own_fault)?;
    sockopt::set_tcp_nodelay(&socket, true)?;
    match connect(&socket, &target) {
        Ok(()) | Err(Errno::INPROGRESS | Errno::INTR) => Ok(OpenResult::Begun(socket)),
        Err(e @ (Errno::ADDRNOTAVAIL | Errno::NOBUFS | Errno::ACCESS | Errno::PERM)) => {
            Err(own_fault(e))
        }
        Err(_) => Ok(OpenResult::Refused),
    }
}

/// As `open`, to a unix domain socket.
pub(super) fn open_unix(path: &Path) -> io::Result<OpenResult> {
    let flags = SocketFlags::NONBLOCK | SocketFlags::CLOEXEC;
    let socket = socket_with(AddressFamily::UNIX, SocketType::STREAM, flags, None);
    let socket = socket.map_err(own_fault)?;
    match connect(&socket, &SocketAddrUnix::new(path)?) {
        Ok(()) => Ok(OpenResult::Begun(socket)),
        Err(e @ (Errno::ACCESS | Errno::PERM)) => Err(own_fault(e)),
        // A full backlog is EAGAIN, and no event says when it has room (unix(7)).
        Err(_) => Ok(OpenResult::Refused),
    }
}

/// `true` if the connection has been established.
pub(super) fn connected(socket: impl AsFd) -> bool {
    matches!(sockopt::socket_error(socket), Ok(Ok(())))
}

/// Result of a send or a receive.
pub(super) enum Transfer {
    /// So many bytes; 0 when receiving: the end.
    Bytes(usize),
    /// The socket is not ready.
    Blocked,
    /// The connection is lost.
    Broken,
}

/// Sends as much as the socket accepts.
pub(super) fn push(socket: impl AsFd, bytes: &[u8]) -> Transfer {
    moved(send(socket, bytes, SendFlags::NOSIGNAL))
}

/// Receives into the buffer.
pub(super) fn receive(socket: impl AsFd, into: &mut [u8]) -> Transfer {
    moved(recv(socket, into, RecvFlags::empty()).map(|(_, count)| count))
}

/// Receives and discards: with MSG_TRUNC the kernel drops TCP data without copying it (tcp(7)); the
/// buffer only gives the largest number.
pub(super) fn discard(socket: impl AsFd, up_to: &mut [u8]) -> Transfer {
    moved(recv(socket, up_to, RecvFlags::TRUNC).map(|(_, count)| count))
}

/// Connections that may be open at once.
pub(super) fn connections_max() -> usize {
    let soft = getrlimit(Resource::Nofile).current.unwrap_or(u64::MAX);
    let most = soft.saturating_sub(DESCRIPTORS_SPARE).clamp(1, CONNECTIONS_MAX);
    usize::try_from(most).unwrap_or(1)
}

fn moved(result: Result<usize, Errno>) -> Transfer {
    match result {
        Ok(count) => Transfer::Bytes(count),
        Err(Errno::AGAIN | Errno::INTR) => Transfer::Blocked,
        Err(_) => Transfer::Broken,
    }
}

fn own_fault(errno: Errno) -> io::Error {
    let hint = match errno {
        Errno::MFILE | Errno::NFILE => "raise the descriptor limit (ulimit -n)",
        Errno::ADDRNOTAVAIL => {
            "no local port is free: widen net.ipv4.ip_local_port_range or open fewer connections \
             a second"
        }
        _ => "look at the machine's limits",
    };
    let error = io::Error::from(errno);
    io::Error::new(error.kind(), format!("cannot open a connection: {error}; {hint}"))
}

#[cfg(test)]
mod tests {
    use std::io::Write as _;
    use std::net::{TcpListener, TcpStream};

    use super::*;

    #[test]
    fn discarded_bytes_never_reach_the_buffer() {
        let listener = TcpListener::bind("127.0.0.1:0").unwrap();
        let here = TcpStream::connect(listener.local_addr().unwrap()).unwrap();
        let (mut there, _) = listener.accept().unwrap();
        there.write_all(b"dropped kept").unwrap();
        let mut buffer = [0; 8];
        assert!(matches!(discard(&here, &mut buffer), Transfer::Bytes(8)));
        assert_eq!(buffer, [0; 8], "nothing was copied");
        assert!(matches!(receive(&here, &mut buffer), Transfer::Bytes(4)));
        assert_eq!(&buffer[..4], b"kept", "they are gone from the stream");
    }
}
