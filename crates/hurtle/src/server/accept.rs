//! Listeners and accepting connections. Accepting pauses when descriptors run out, and clients
//! beyond a connection limit get a 503.

use std::cell::Cell;
use std::future::poll_fn;
use std::io;
use std::net::IpAddr;
use std::os::fd::AsFd as _;
use std::rc::Rc;
use std::task::{Context, Poll, ready};
use std::time::Duration;

use tokio::net::{TcpListener, UnixListener};
use tokio::task::unconstrained;

use super::admission::Admission;
use super::protocols::Protocols;
use crate::config::Listen;
use crate::files::store::is_out_of_descriptors;
use crate::metrics::LimitKind;
use crate::pipeline::worker::{ConnectionSlot, ListenerAddress, WorkerThread};
use crate::serve::{self, proxied, secure};
use crate::services::address_counts::AddressSlot;
use crate::sockets::Listener;
use crate::transport::{Fill, Input, Plain, Transport};
use crate::{rt, sys};

/// A bound listener and its protocols.
#[derive(Debug)]
pub(crate) struct BoundListener {
    pub(crate) listener: Listener,
    /// The address as configured; its port may be 0.
    pub(crate) configured: Listen,
    pub(crate) protocols: Protocols,
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
        // Its turn would end before a long queue does.
        let accepting = unconstrained(poll_fn(|cx| {
            Poll::Ready(match self.poll_accept(cx) {
                Poll::Ready(accepted) => accepted.ok(),
                Poll::Pending => None,
            })
        }));
        accepting.await
    }

    fn poll_accept(&self, cx: &mut Context<'_>) -> Poll<io::Result<Accepted>> {
        Poll::Ready(Ok(match &self.socket {
            Socket::Tcp(listener) => {
                let (stream, peer) = ready!(listener.poll_accept(cx))?;
                // On a dual-stack socket an IPv4 client has a mapped address; log the IPv4 one.
                Accepted { io: Plain::Tcp(stream), peer: Some(peer.ip().to_canonical()) }
            }
            Socket::Unix(listener) => {
                let (stream, _) = ready!(listener.poll_accept(cx))?;
                Accepted { io: Plain::Unix(stream), peer: None }
            }
        }))
    }
}

/// An accepted connection, before any limit is checked.
struct Accepted {
    io: Plain,
    /// The address of the other end; `None` for a unix socket.
    peer: Option<IpAddr>,
}

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
    Accepted { io, peer }: Accepted,
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
        false => serve_connection(io, peer, Input::default(), protocols, slot, admission),
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
        let proxied::Introduced { client, input } = introduced;
        serve_connection(io, client, input, protocols, slot, &admission);
    }
}

/// Serves a connection whose client address is known, unless that client has too many.
fn serve_connection(
    io: Plain,
    client: Option<IpAddr>,
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
