//! Listeners, and taking connections from them: never spinning when descriptors run out, turning
//! clients away with a word when there is no room.

use std::cell::{Cell, RefCell};
use std::future::poll_fn;
use std::io;
use std::net::IpAddr;
use std::os::fd::AsFd;
use std::os::unix::net as unix;
use std::path::Path;
use std::rc::Rc;
use std::task::{Context, Poll, ready};
use std::time::Duration;

use hashbrown::HashMap;
use tokio::net::{TcpListener, UnixListener};

use super::spoken::Spoken;
use crate::config::Listen;
use crate::files::store::is_out_of_descriptors;
use crate::serve::{self, Place, Worker, proxied, secure};
use crate::transport::{Input, Plain, Transport};
use crate::{rt, sys};

/// A bound socket, before a worker has taken it.
#[derive(Debug)]
pub enum Listener {
    /// TCP.
    Tcp(std::net::TcpListener),
    /// Unix.
    Unix(unix::UnixListener),
}

impl Listener {
    /// Makes calls on it return at once.
    pub(super) fn set_nonblocking(&self) -> io::Result<()> {
        match self {
            Listener::Tcp(socket) => socket.set_nonblocking(true),
            Listener::Unix(socket) => socket.set_nonblocking(true),
        }
    }

    /// Another descriptor of the same socket.
    pub(super) fn try_clone(&self) -> io::Result<Listener> {
        Ok(match self {
            Listener::Tcp(socket) => Listener::Tcp(socket.try_clone()?),
            Listener::Unix(socket) => Listener::Unix(socket.try_clone()?),
        })
    }

    /// What it says it is bound to.
    pub(super) fn own_address(&self) -> Option<Listen> {
        match self {
            Listener::Tcp(socket) => socket.local_addr().ok().map(Listen::Tcp),
            Listener::Unix(socket) => {
                Some(Listen::Unix(socket.local_addr().ok()?.as_pathname()?.to_owned()))
            }
        }
    }

    /// What it is bound to: `asked`, with the port a `0` stood for.
    pub fn address(&self, asked: &Listen) -> Listen {
        match self {
            Listener::Tcp(socket) => {
                socket.local_addr().map_or_else(|_| asked.clone(), Listen::Tcp)
            }
            Listener::Unix(_) => asked.clone(),
        }
    }
}

/// A bound socket and what is spoken on it.
#[derive(Debug)]
pub(super) struct Port {
    pub(super) listener: Listener,
    pub(super) spoken: Spoken,
}

impl Port {
    /// Another descriptor of the same socket.
    pub(super) fn try_clone(&self) -> io::Result<Port> {
        Ok(Port { listener: self.listener.try_clone()?, spoken: self.spoken })
    }
}

/// Binds an address for `count` workers.
pub(super) fn bind(listen: &Listen, backlog: u32, count: usize) -> io::Result<Vec<Listener>> {
    match listen {
        Listen::Tcp(addr) => {
            let sockets = sys::listen_tcp(*addr, backlog, count)?;
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

/// A socket file somebody answers on is in use; one nobody does is left from a crash.
///
/// `mode`: of the file, before anybody can connect.
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

/// A listener in a worker's event loop.
#[derive(Debug)]
pub(super) struct Accepting {
    socket: Socket,
    spoken: Spoken,
}

#[derive(Debug)]
enum Socket {
    Tcp(TcpListener),
    Unix(UnixListener),
}

impl Accepting {
    /// Takes a listener into this thread's event loop.
    pub(super) fn new(Port { listener, spoken }: Port) -> io::Result<Accepting> {
        let socket = match listener {
            Listener::Tcp(socket) => {
                // Answers are written whole, so waiting for more bytes to fill a segment would only
                // delay their tails. Accepted sockets have it from their listener; one that refuses
                // the option is as good, only slower.
                let _ = socket2::SockRef::from(&socket).set_tcp_nodelay(true);
                Socket::Tcp(TcpListener::from_std(socket)?)
            }
            Listener::Unix(socket) => Socket::Unix(UnixListener::from_std(socket)?),
        };
        Ok(Accepting { socket, spoken })
    }

    /// Before it is closed; see the contract in `sys`.
    pub(super) fn end_handshakes(&self) -> bool {
        match &self.socket {
            Socket::Tcp(listener) => sys::end_handshakes(listener.as_fd()),
            // A connection to a unix socket has no handshake.
            Socket::Unix(_) => false,
        }
    }

    async fn accept(&self) -> io::Result<Accepted> {
        poll_fn(|cx| self.poll_accept(cx)).await
    }

    /// Takes what is queued, without waiting; `None`: nothing is.
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
                // An IPv4 client of a dual-stack socket is still an IPv4 client.
                (Plain::Tcp(stream), Some(peer.ip().to_canonical()))
            }
            Socket::Unix(listener) => (Plain::Unix(ready!(listener.poll_accept(cx))?.0), None),
        }))
    }
}

/// A connection and its client's address, which a unix socket's has not.
type Accepted = (Plain, Option<IpAddr>);

/// Room for connections, of one worker.
#[derive(Debug)]
pub(super) struct Room {
    pub(super) connections_max: usize,
    pub(super) per_address_max: Option<usize>,
    by_address: RefCell<HashMap<IpAddr, usize>>,
    /// Clients being turned away.
    refusing: Cell<usize>,
}

/// How long accepting pauses when there are no descriptors: long enough not to spin, short enough
/// not to be noticed once one is free.
const PAUSE: Duration = Duration::from_millis(50);

/// Clients turned away at once that are given the time to read why; others are just closed.
const REFUSING_MAX: usize = 64;

/// That time.
const REFUSING_TIME_MAX: Duration = Duration::from_millis(500);

/// What a client reads when there is no room for it.
const FULL: &[u8] = b"HTTP/1.1 503 Service Unavailable\r\nServer: hurtle\r\nRetry-After: 1\r\n\
    Content-Length: 0\r\nConnection: close\r\n\r\n";

impl Room {
    pub(super) fn new(connections_max: usize, per_address_max: Option<usize>) -> Rc<Room> {
        let by_address = RefCell::default();
        Rc::new(Room { connections_max, per_address_max, by_address, refusing: Cell::new(0) })
    }

    /// Takes a place for this client; false if there is none.
    fn enter(&self, peer: Option<IpAddr>) -> bool {
        let (Some(max), Some(peer)) = (self.per_address_max, peer) else { return true };
        let mut by_address = self.by_address.borrow_mut();
        let count = by_address.entry(peer).or_insert(0);
        if *count >= max {
            return false;
        }
        *count += 1;
        true
    }

    fn leave(&self, peer: Option<IpAddr>) {
        let (Some(_), Some(peer)) = (self.per_address_max, peer) else { return };
        let mut by_address = self.by_address.borrow_mut();
        if let Some(count) = by_address.get_mut(&peer) {
            *count -= 1;
            if *count == 0 {
                by_address.remove(&peer);
            }
        }
    }
}

/// Accepts for as long as it is not dropped.
pub(super) async fn accept(listener: &Accepting, worker: &Rc<Worker>, room: &Rc<Room>) {
    loop {
        match listener.accept().await {
            Ok(accepted) => admit(accepted, listener.spoken, worker, room),
            Err(e) if is_out_of_descriptors(&e) => {
                // The connection stays queued in the kernel until there is a descriptor for it.
                worker.store.give_up_descriptors();
                rt::sleep(PAUSE).await;
            }
            // The client left before it was accepted, or the like; the next one is no worse off.
            Err(e) => tracing::debug!("accept: {e}"),
        }
    }
}

/// Before a listener is closed, what its queue holds is served: closing would reset it.
pub(super) async fn accept_rest(listener: &Accepting, worker: &Rc<Worker>, room: &Rc<Room>) {
    while let Some(accepted) = listener.accept_queued().await {
        admit(accepted, listener.spoken, worker, room);
    }
}

fn admit((io, peer): Accepted, spoken: Spoken, worker: &Rc<Worker>, room: &Rc<Room>) {
    if worker.open.get() >= room.connections_max {
        return turn_away(io, spoken, room);
    }
    let place = Place::new(worker);
    match spoken.proxy {
        // Whose place it takes is not known yet.
        true => rt::spawn(introduced(io, peer, spoken, place, Rc::clone(room))),
        false => seat((io, peer), Input::default(), spoken, place, room),
    }
}

/// Admits a connection once a balancer has said for whom it is.
async fn introduced(
    mut io: Plain,
    peer: Option<IpAddr>,
    spoken: Spoken,
    place: Place,
    room: Rc<Room>,
) {
    if let Some(introduced) = proxied::introduce(&mut io, peer, place.worker()).await {
        seat((io, introduced.client), introduced.input, spoken, place, &room);
    }
}

/// Serves a connection whose client is known, if there is room for this client.
fn seat((io, client): Accepted, input: Input, spoken: Spoken, place: Place, room: &Rc<Room>) {
    if !room.enter(client) {
        return turn_away(io, spoken, room);
    }
    match spoken.tls {
        true => keep(secure::run(io, input, client, place), client, room),
        false => keep(serve::run(io, input, client, place), client, room),
    }
}

/// Runs a connection, and gives its client's place up when it is over.
fn keep(connection: impl Future<Output = ()> + 'static, peer: Option<IpAddr>, room: &Rc<Room>) {
    if room.per_address_max.is_none() {
        return rt::spawn(connection);
    }
    let room = Rc::clone(room);
    rt::spawn(async move {
        connection.await;
        room.leave(peer);
    });
}

/// Says that there is no room, and waits a little for the client to have read it: closing with its
/// request unread would reset the connection, and the answer with it.
fn turn_away(io: Plain, spoken: Spoken, room: &Rc<Room>) {
    // What could be said in clear is noise to a client that speaks TLS.
    if spoken.tls {
        return;
    }
    io.say(FULL);
    if room.refusing.get() >= REFUSING_MAX {
        return;
    }
    room.refusing.set(room.refusing.get() + 1);
    let room = Rc::clone(room);
    rt::spawn(async move {
        let mut io = io;
        let mut unread = [0; 256];
        let gone = async {
            while matches!(poll_fn(|cx| io.poll_read(cx, &mut unread)).await, Ok(n) if n > 0) {}
        };
        rt::timeout(REFUSING_TIME_MAX, gone).await;
        room.refusing.set(room.refusing.get() - 1);
    });
}
