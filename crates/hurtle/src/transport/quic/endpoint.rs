//! An endpoint: one UDP socket of a worker with the connections that it has accepted.

use std::cell::{Cell, RefCell};
use std::collections::HashMap;
use std::fmt;
use std::future::poll_fn;
use std::io;
use std::net::{IpAddr, SocketAddr, UdpSocket};
use std::rc::Rc;
use std::sync::Arc;
use std::task::{Context, Poll, Waker};
use std::time::Instant;

use quinn_proto::{ConnectionEvent, ConnectionHandle, DatagramEvent, EndpointEvent, Incoming};
use tokio::sync::mpsc;

use super::connection::Connection;
use super::crypto::{Handshakes, LocalAddress};
use super::ids::endpoint_of;
use super::inbox::{Datagram, Inbox, Peers};
use super::keys::Settings;
use super::socket::{BufferSizes, Socket};
use crate::config::Listen;

/// Calls of the kernel for datagrams, and forwarded datagrams, before other tasks run.
const RECEIVES_MAX: usize = 8;
const FORWARDED_MAX: usize = 64;

pub(crate) struct Endpoint {
    proto: RefCell<quinn_proto::Endpoint>,
    socket: RefCell<Socket>,
    local: SocketAddr,
    /// The address of the listener, as configured.
    listen: Arc<Listen>,
    peers: Peers,
    forwarded: RefCell<mpsc::Receiver<Datagram>>,
    factor: u32,
    settings: RefCell<Settings>,
    connections: RefCell<HashMap<ConnectionHandle, Rc<Connection>>>,
    /// Tasks that wait until the kernel has room for datagrams.
    blocked: RefCell<Vec<Waker>>,
    /// Connections that have received datagrams in the current turn.
    touched: RefCell<Vec<Rc<Connection>>>,
    /// Room for datagrams to be sent.
    pub(super) room: RefCell<Vec<u8>>,
    /// The endpoint's task, which is woken when a sender has to wait.
    task: RefCell<Waker>,
    is_accepting: Cell<bool>,
    is_closing: Cell<bool>,
}

/// The decision on a client that begins a connection.
#[derive(Debug)]
pub(crate) enum Verdict<T> {
    /// Begin the handshake. The value goes with the connection.
    Accept(T),
    /// Have the client show that it receives packets at its address (RFC 9000 section 8.1.2).
    Retry,
    /// Tell the client that the server has no room.
    Refuse,
}

impl Endpoint {
    /// Creates the endpoint of a bound socket on this thread's event loop. `listen`: its address as
    /// configured.
    ///
    /// # Errors
    /// The event loop does not take the socket.
    pub(crate) fn new(
        socket: UdpSocket,
        listen: Listen,
        inbox: Inbox,
        settings: Settings,
    ) -> io::Result<Rc<Endpoint>> {
        let socket = Socket::new(socket)?;
        let local = socket.local_address()?;
        let Inbox { peers, receiver } = inbox;
        let proto = quinn_proto::Endpoint::new(
            Arc::new(settings.endpoint(peers.number)),
            Some(Arc::new(settings.server.clone())),
            !socket.may_fragment(),
            None,
        );
        Ok(Rc::new(Endpoint {
            proto: RefCell::new(proto),
            socket: RefCell::new(socket),
            local,
            listen: Arc::new(listen),
            peers,
            forwarded: RefCell::new(receiver),
            factor: settings.factor(),
            settings: RefCell::new(settings),
            connections: RefCell::default(),
            blocked: RefCell::default(),
            touched: RefCell::default(),
            room: RefCell::default(),
            task: RefCell::new(Waker::noop().clone()),
            is_accepting: Cell::new(true),
            is_closing: Cell::new(false),
        }))
    }

    /// Returns the sizes of the socket's buffers.
    pub(crate) fn buffer_sizes(&self) -> BufferSizes {
        self.socket.borrow().buffer_sizes()
    }

    /// Puts other settings in force, for later connections.
    pub(crate) fn set_settings(&self, settings: Settings) {
        let server = Arc::new(settings.server.clone());
        self.proto.borrow_mut().set_server_config(Some(server));
        self.settings.replace(settings);
    }

    /// Accepts or refuses new connections from now on.
    pub(crate) fn set_accepting(&self, accepts: bool) {
        self.is_accepting.set(accepts);
    }

    /// Accepts no more connections. `run` returns when the open ones have ended.
    pub(crate) fn close(&self) {
        self.is_closing.set(true);
        self.task.borrow().wake_by_ref();
    }

    /// Receives datagrams. `admit` decides on a new connection; `begin` gets each accepted one.
    /// Returns after `close`, when all connections have ended.
    ///
    /// # Errors
    /// The socket fails.
    pub(crate) async fn run<T>(
        self: &Rc<Endpoint>,
        mut admit: impl FnMut(bool) -> Verdict<T>,
        mut begin: impl FnMut(Rc<Connection>, T),
    ) -> io::Result<()> {
        poll_fn(|cx| {
            let polled = self.poll(cx, &mut admit, &mut begin);
            for connection in self.touched.take() {
                connection.is_touched.set(false);
                connection.wake();
            }
            match polled {
                Err(e) => Poll::Ready(Err(e)),
                Ok(()) if self.is_closing.get() && self.connections.borrow().is_empty() => {
                    Poll::Ready(Ok(()))
                }
                Ok(()) => Poll::Pending,
            }
        })
        .await
    }

    /// Refuses connections, after `run` has returned. Ends only with an error of the socket.
    pub(crate) async fn refuse(self: &Rc<Endpoint>) -> io::Result<()> {
        poll_fn(|cx| match self.poll(cx, &mut |_| Verdict::Refuse, &mut |_, ()| {}) {
            Err(e) => Poll::Ready(Err(e)),
            Ok(()) => Poll::Pending,
        })
        .await
    }

    fn poll<T>(
        self: &Rc<Endpoint>,
        cx: &mut Context<'_>,
        admit: &mut impl FnMut(bool) -> Verdict<T>,
        begin: &mut impl FnMut(Rc<Connection>, T),
    ) -> io::Result<()> {
        self.task.borrow_mut().clone_from(cx.waker());
        self.poll_blocked(cx)?;
        let now = Instant::now();
        let mut has_more = true;
        for _ in 0..FORWARDED_MAX {
            let Poll::Ready(Some(datagram)) = self.forwarded.borrow_mut().poll_recv(cx) else {
                has_more = false;
                break;
            };
            self.handle(now, datagram, admit, begin);
        }
        if has_more {
            // The inbox wakes this task only after it was found empty.
            cx.waker().wake_by_ref();
        }
        for _ in 0..RECEIVES_MAX {
            let mut received = Vec::new();
            let count =
                self.socket.borrow_mut().poll_receive(cx, |datagram| received.push(datagram));
            let Poll::Ready(count) = count else { return Ok(()) };
            match count {
                Ok(_) => {}
                // An answer of ICMP to an earlier datagram.
                Err(e) if e.kind() == io::ErrorKind::ConnectionRefused => continue,
                Err(e) => return Err(e),
            }
            let now = Instant::now();
            for datagram in received {
                match endpoint_of(&datagram.bytes, self.factor) {
                    Some(other) if self.peers.is_other(other) => {
                        self.peers.forward(other, datagram);
                    }
                    _ => self.handle(now, datagram, admit, begin),
                }
            }
        }
        cx.waker().wake_by_ref();
        Ok(())
    }

    /// Wakes the tasks that wait for room once there is some.
    fn poll_blocked(&self, cx: &mut Context<'_>) -> io::Result<()> {
        while !self.blocked.borrow().is_empty() {
            match self.socket.borrow().poll_send_ready(cx) {
                Poll::Pending => return Ok(()),
                Poll::Ready(ready) => ready?,
            }
            self.blocked.take().into_iter().for_each(Waker::wake);
        }
        Ok(())
    }

    fn handle<T>(
        self: &Rc<Endpoint>,
        now: Instant,
        datagram: Datagram,
        admit: &mut impl FnMut(bool) -> Verdict<T>,
        begin: &mut impl FnMut(Rc<Connection>, T),
    ) {
        let Datagram { from, local, ecn, bytes } = datagram;
        let mut room = self.room.take();
        room.clear();
        let event = self.proto.borrow_mut().handle(now, from, local, ecn, bytes, &mut room);
        match event {
            None => {}
            Some(DatagramEvent::ConnectionEvent(handle, event)) => self.deliver(handle, event),
            Some(DatagramEvent::Response(transmit)) => self.respond(&transmit, &room),
            Some(DatagramEvent::NewConnection(incoming)) => {
                room.clear();
                self.decide(incoming, now, &mut room, admit, begin);
            }
        }
        self.room.replace(room);
    }

    fn deliver(&self, handle: ConnectionHandle, event: ConnectionEvent) {
        let Some(connection) = self.connections.borrow().get(&handle).cloned() else { return };
        connection.proto.borrow_mut().handle_event(event);
        self.touch(connection);
    }

    fn touch(&self, connection: Rc<Connection>) {
        if !connection.is_touched.replace(true) {
            self.touched.borrow_mut().push(connection);
        }
    }

    fn decide<T>(
        self: &Rc<Endpoint>,
        incoming: Incoming,
        now: Instant,
        room: &mut Vec<u8>,
        admit: &mut impl FnMut(bool) -> Verdict<T>,
        begin: &mut impl FnMut(Rc<Connection>, T),
    ) {
        let is_validated = incoming.remote_address_validated();
        let is_open = self.is_accepting.get() && !self.is_closing.get();
        let verdict = if is_open { admit(is_validated) } else { Verdict::Refuse };
        let mut proto = self.proto.borrow_mut();
        let response = match verdict {
            Verdict::Refuse => Some(proto.refuse(incoming, room)),
            Verdict::Retry => match proto.retry(incoming, room) {
                Ok(transmit) => Some(transmit),
                // The client has a token already.
                Err(error) => return proto.ignore(error.into_incoming()),
            },
            Verdict::Accept(admitted) => {
                let config = self.config_for(incoming.local_ip());
                match proto.accept(incoming, now, room, Some(config)) {
                    Ok((handle, connection)) => {
                        drop(proto);
                        let connection = Connection::new(Rc::clone(self), handle, connection);
                        self.connections.borrow_mut().insert(handle, Rc::clone(&connection));
                        return begin(connection, admitted);
                    }
                    Err(error) => error.response,
                }
            }
        };
        drop(proto);
        if let Some(transmit) = response {
            self.respond(&transmit, room);
        }
    }

    /// Returns the configuration of a connection to a local address.
    fn config_for(&self, ip: Option<IpAddr>) -> Arc<quinn_proto::ServerConfig> {
        let settings = self.settings.borrow();
        let bound = self.local.ip();
        let ip = ip.or_else(|| (!bound.is_unspecified()).then_some(bound));
        let local = LocalAddress { listen: Some(Arc::clone(&self.listen)), ip };
        let mut config = settings.server.clone();
        config.crypto = Arc::new(Handshakes { initial: Arc::clone(&settings.initial), local });
        Arc::new(config)
    }

    /// Sends a datagram that belongs to no connection; it is dropped if the kernel has no room.
    fn respond(&self, transmit: &quinn_proto::Transmit, bytes: &[u8]) {
        self.socket.borrow().try_send(transmit, bytes);
    }

    /// Sends datagrams of a connection. `false`: the kernel has no room; the task is woken later.
    pub(super) fn send(
        &self,
        cx: &Context<'_>,
        transmit: &quinn_proto::Transmit,
        bytes: &[u8],
    ) -> bool {
        if self.socket.borrow().try_send(transmit, bytes) {
            return true;
        }
        self.blocked.borrow_mut().push(cx.waker().clone());
        self.task.borrow().wake_by_ref();
        false
    }

    /// The number of datagrams of `size` bytes that one send may carry.
    pub(super) fn segments_max(&self, size: u16) -> usize {
        self.socket.borrow().segments_max(size)
    }

    /// Passes an event of a connection to the endpoint; returns the answer.
    pub(super) fn handle_event(
        &self,
        handle: ConnectionHandle,
        event: EndpointEvent,
    ) -> Option<ConnectionEvent> {
        if event.is_drained() {
            self.connections.borrow_mut().remove(&handle);
            if self.is_closing.get() {
                self.task.borrow().wake_by_ref();
            }
        }
        self.proto.borrow_mut().handle_event(handle, event)
    }
}

impl fmt::Debug for Endpoint {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        write!(f, "Endpoint {} at {}", self.peers.number, self.local)
    }
}
