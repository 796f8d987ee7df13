//! Listeners and accepting connections. Accepting pauses when descriptors run out, and clients
//! beyond a connection limit get a 503.

use std::cell::Cell;
use std::future::poll_fn;
use std::io;
use std::net::IpAddr;
use std::os::fd::{AsFd, BorrowedFd};
use std::os::unix::net as unix;
use std::path::Path;
use std::rc::Rc;
use std::task::{Context, Poll, ready};
use std::time::Duration;

use tokio::net::{TcpListener, UnixListener};

use super::admission::{AddressSlot, Admission};
use super::protocols::Protocols;
use crate::config::Listen;
use crate::files::store::is_out_of_descriptors;
use crate::metrics::LimitKind;
use crate::pipeline::worker::{ConnectionSlot, ListenerAddress, WorkerThread};
use crate::serve::{self, proxied, secure};
use crate::transport::{Fill, Input, Plain, Transport};
use crate::{rt, sys};

/// Ports tried for port 0 until one is free for UDP too.
const PORTS_TRIED: u32 = 20;

/// A bound socket that no worker has registered yet.
#[derive(Debug)]
pub enum Listener {
    /// A TCP listener.
    Tcp(std::net::TcpListener),
    /// A listener of a unix stream socket.
    Unix(unix::UnixListener),
}

impl Listener {
    /// Returns the unix socket; `None`: it is another one.
    pub(super) fn into_unix(self) -> Option<unix::UnixListener> {
        match self {
            Listener::Unix(socket) => Some(socket),
            Listener::Tcp(_) => None,
        }
    }

    /// Makes calls on it non-blocking.
    pub(super) fn set_nonblocking(&self) -> io::Result<()> {
        match self {
            Listener::Tcp(socket) => socket.set_nonblocking(true),
            Listener::Unix(socket) => socket.set_nonblocking(true),
        }
    }

    /// Duplicates the descriptor; both accept from the same socket.
    pub(super) fn try_clone(&self) -> io::Result<Listener> {
        Ok(match self {
            Listener::Tcp(socket) => Listener::Tcp(socket.try_clone()?),
            Listener::Unix(socket) => Listener::Unix(socket.try_clone()?),
        })
    }

    /// The descriptor of the socket.
    pub(super) fn as_fd(&self) -> BorrowedFd<'_> {
        match self {
            Listener::Tcp(socket) => socket.as_fd(),
            Listener::Unix(socket) => socket.as_fd(),
        }
    }

    /// The address that the socket reports; `None` for an unnamed unix socket.
    pub(super) fn own_address(&self) -> Option<Listen> {
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

/// A bound listener and its protocols.
#[derive(Debug)]
pub(super) struct BoundListener {
    pub(super) listener: Listener,
    /// The address as configured; its port may be 0.
    pub(super) configured: Listen,
    pub(super) protocols: Protocols,
}

impl BoundListener {
    /// Duplicates the descriptor; both accept from the same socket.
    pub(super) fn try_clone(&self) -> io::Result<BoundListener> {
        Ok(BoundListener {
            listener: self.listener.try_clone()?,
            configured: self.configured.clone(),
            protocols: self.protocols,
        })
    }
}

/// Binds an address for `count` workers; returns one listener for each.
///
/// `udp`: port 0 stands for a port whose UDP port, which HTTP/3 needs, is free too.
pub(super) fn bind(
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

/// Shares the listeners of another process among `count` workers: the first worker gets the first
/// one, and so on around. Each listener and each worker is served, however many there are.
pub(super) fn share(listeners: Vec<Listener>, count: usize) -> io::Result<Vec<Listener>> {
    let mut shared = listeners;
    let (len, mut next) = (shared.len(), 0);
    while len > 0 && shared.len() < count {
        shared.push(shared[next % len].try_clone()?);
        next += 1;
    }
    Ok(shared)
}

/// Binds a unix socket. A socket file on which a server accepts is in use; one without a server is
/// left over from a crash and is replaced.
///
/// `mode`: the mode of the file, set before a client can connect.
pub(super) fn bind_unix(
    path: &Path,
    backlog: u32,
    mode: Option<u32>,
) -> io::Result<unix::UnixListener> {
    let is_socket = std::fs::symlink_metadata(path)
        .is_ok_and(|m| std::os::unix::fs::FileTypeExt::is_socket(&m.file_type()));
    if is_socket {
        if unix::UnixStream::connect(path).is_ok() {
            return Err(io::ErrorKind::AddrInUse.into());
        }
        std::fs::remove_file(path)?;
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

/// A listener registered with a worker's event loop.
#[derive(Debug)]
pub(super) struct WorkerListener {
    socket: Socket,
    address: Rc<ListenerAddress>,
    /// A reload may change them for later connections.
    pub(super) protocols: Cell<Protocols>,
}

#[derive(Debug)]
enum Socket {
    Tcp(TcpListener),
    Unix(UnixListener),
}

impl WorkerListener {
    /// Registers a listener with this thread's event loop.
    pub(super) fn new(
        BoundListener { listener, configured, protocols }: BoundListener,
    ) -> io::Result<WorkerListener> {
        let port = listener.own_address().as_ref().and_then(Listen::port);
        let address = ListenerAddress::new(&configured, port);
        let socket = match listener {
            Listener::Tcp(socket) => {
                // Responses are written whole, so Nagle's algorithm would only delay their last
                // segment. Accepted sockets inherit the option; without it they are only slower.
                let _ = socket2::SockRef::from(&socket).set_tcp_nodelay(true);
                Socket::Tcp(TcpListener::from_std(socket)?)
            }
            Listener::Unix(socket) => Socket::Unix(UnixListener::from_std(socket)?),
        };
        Ok(WorkerListener { socket, address, protocols: Cell::new(protocols) })
    }

    /// Completes or refuses half-open connections before the listener is closed; see `sys`.
    pub(super) fn end_handshakes(&self) -> bool {
        match &self.socket {
            Socket::Tcp(listener) => sys::end_handshakes(listener.as_fd()),
            // Connecting to a unix socket has no handshake.
            Socket::Unix(_) => false,
        }
    }

    async fn accept(&self) -> io::Result<Accepted> {
        poll_fn(|cx| self.poll_accept(cx)).await
    }

    /// Accepts a queued connection without waiting; `None`: the queue is empty.
    async fn accept_queued(&self) -> Option<Accepted> {
        poll_fn(|cx| {
            Poll::Ready(match self.poll_accept(cx) {
                Poll::Ready(accepted) => accepted.ok(),
                Poll::Pending => None,
            })
        })
        .await
    }

    fn poll_accept(&self, cx: &mut Context<'_>) -> Poll<io::Result<Accepted>> {
        Poll::Ready(Ok(match &self.socket {
            Socket::Tcp(listener) => {
                let (stream, peer) = ready!(listener.poll_accept(cx))?;
                // On a dual-stack socket an IPv4 client has a mapped address; log the IPv4 one.
                (Plain::Tcp(stream), Some(peer.ip().to_canonical()))
            }
            Socket::Unix(listener) => (Plain::Unix(ready!(listener.poll_accept(cx))?.0), None),
        }))
    }
}

/// A connection and its client's address; `None` for a unix socket.
type Accepted = (Plain, Option<IpAddr>);

/// Pause of accepting when there are no descriptors: long enough not to spin, and short enough to
/// go unnoticed once one is free.
const PAUSE: Duration = Duration::from_millis(50);

/// Rejected connections at once that stay open until the client has read the 503; more are closed
/// at once.
const REJECTING_MAX: usize = 64;

/// Longest time for which such a connection stays open.
const REJECTING_TIME_MAX: Duration = Duration::from_millis(500);

/// The response to a client beyond a connection limit.
const UNAVAILABLE: &[u8] =
    b"HTTP/1.1 503 Service Unavailable\r\nServer: hurtle\r\nRetry-After: 1\r\n\
    Content-Length: 0\r\nConnection: close\r\n\r\n";

/// Accepts connections until it is dropped.
pub(super) async fn accept(
    listener: &WorkerListener,
    thread: &Rc<WorkerThread>,
    admission: &Rc<Admission>,
) {
    loop {
        match listener.accept().await {
            Ok(accepted) => admit(accepted, listener, thread, admission),
            Err(e) if is_out_of_descriptors(&e) => {
                // The connection stays in the kernel's queue until there is a descriptor for it.
                thread.worker().store.give_up_descriptors();
                rt::sleep(PAUSE).await;
            }
            // For example, the client has already disconnected; the listener still works.
            Err(e) => tracing::debug!("accept: {e}"),
        }
    }
}

/// Accepts the queued connections before a listener is closed, because closing resets them.
pub(super) async fn accept_rest(
    listener: &WorkerListener,
    thread: &Rc<WorkerThread>,
    admission: &Rc<Admission>,
) {
    while let Some(accepted) = listener.accept_queued().await {
        admit(accepted, listener, thread, admission);
    }
}

fn admit(
    (io, peer): Accepted,
    listener: &WorkerListener,
    thread: &Rc<WorkerThread>,
    admission: &Rc<Admission>,
) {
    let protocols = listener.protocols.get();
    if thread.open.get() >= admission.connections_max.get() {
        thread.metrics.hit(LimitKind::Connections);
        return reject(io, protocols, admission);
    }
    let slot = ConnectionSlot::new(thread, Rc::clone(&listener.address));
    match protocols.proxy {
        // The client's address is known after the PROXY protocol header only.
        true => rt::spawn(serve_proxied(io, peer, protocols, slot, Rc::clone(admission))),
        false => serve_connection((io, peer), Input::default(), protocols, slot, admission),
    }
}

/// Reads the PROXY protocol header of a connection, then serves it.
async fn serve_proxied(
    mut io: Plain,
    peer: Option<IpAddr>,
    protocols: Protocols,
    slot: ConnectionSlot,
    admission: Rc<Admission>,
) {
    if let Some(introduced) = proxied::introduce(&mut io, peer, &slot.worker()).await {
        serve_connection((io, introduced.client), introduced.input, protocols, slot, &admission);
    }
}

/// Serves a connection whose client address is known, unless that client has too many.
fn serve_connection(
    (io, client): Accepted,
    input: Input,
    protocols: Protocols,
    slot: ConnectionSlot,
    admission: &Rc<Admission>,
) {
    let Ok(counted) = admission.acquire(client) else {
        slot.metrics().hit(LimitKind::AddressConnections);
        return reject(io, protocols, admission);
    };
    match protocols.tls {
        true => run_counted(secure::run(io, input, client, slot), counted),
        false => run_counted(serve::run(io, input, client, slot), counted),
    }
}

/// Runs a connection, which is counted until its end.
fn run_counted(connection: impl Future<Output = ()> + 'static, slot: Option<AddressSlot>) {
    let Some(slot) = slot else { return rt::spawn(connection) };
    rt::spawn(async move {
        let _slot = slot;
        connection.await;
    });
}

/// Sends a 503 and waits briefly until the client has read it: closing a connection with unread
/// input resets it, and the response is lost.
fn reject(io: Plain, protocols: Protocols, admission: &Rc<Admission>) {
    // A client in a TLS handshake cannot read a response in clear.
    if protocols.tls {
        return;
    }
    io.say(UNAVAILABLE);
    if admission.rejecting.get() >= REJECTING_MAX {
        return;
    }
    admission.rejecting.set(admission.rejecting.get() + 1);
    let admission = Rc::clone(admission);
    rt::spawn(async move {
        let mut unread = Input::default();
        let gone = async {
            while matches!(poll_fn(|cx| io.poll_fill(cx, &mut unread, Fill::Head)).await, Ok(n) if n > 0)
            {
                unread.consume(unread.bytes().len());
            }
        };
        rt::timeout(REJECTING_TIME_MAX, gone).await;
        admission.rejecting.set(admission.rejecting.get() - 1);
    });
}
