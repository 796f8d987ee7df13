//! HTTP/3 listeners: UDP sockets beside the TLS listeners, one for each worker, and the admission
//! of connections. `transport::quic` has the protocol, `serve::h3` the connections.

use std::cell::Cell;
use std::io::{self, PipeWriter};
use std::net::{SocketAddr, UdpSocket};
use std::os::fd::OwnedFd;
use std::rc::Rc;
use std::sync::Arc;

use tokio::net::unix::pipe::Receiver;
use tokio::sync::watch;
use tokio::task::spawn_local;

use super::accepting::ListenerChanges;
use super::admission::Admission;
use super::handshakes::{HANDSHAKES_UNVALIDATED_MAX, Handshakes};
use super::listening::Listening;
use super::predecessor::Predecessor;
use super::protocols::Protocols;
use crate::config::{Config, Listen};
use crate::metrics::LimitKind;
use crate::pipeline::worker::{ConnectionSlot, ListenerAddress, WorkerThread};
use crate::rt::First;
use crate::serve::{h3, secure};
use crate::sys;
use crate::transport::quic::{
    self, BUFFER_BYTES, BufferSizes, Endpoint, Inbox, QuicSecret, Verdict,
};

/// A socket of one worker that is not registered yet.
#[derive(Debug)]
pub(crate) struct QuicListener {
    pub(crate) socket: UdpSocket,
    /// The address of the TLS listener, as configured.
    pub(crate) configured: Listen,
    inbox: Inbox,
}

/// The sockets of each worker.
pub(crate) type QuicListeners = Vec<Vec<QuicListener>>;

/// Binds the UDP ports of TLS listeners, or takes the sockets of another process. A port that is in
/// use only costs HTTP/3 at that address.
pub(crate) fn bind(
    config: &Config,
    listening: &[Listening],
    mut take: impl FnMut(&Listen) -> Vec<UdpSocket>,
) -> QuicListeners {
    let workers = config.workers.get();
    let mut listeners: QuicListeners = (0..workers).map(|_| Vec::new()).collect();
    for (configured, address) in wanted(config, listening) {
        let taken = take(configured);
        let sockets = match taken.is_empty() {
            false => Ok(taken),
            true => sys::bind_udp(address, workers),
        };
        let sockets = match sockets {
            Ok(sockets) => sockets,
            Err(e) => {
                tracing::warn!(
                    "no HTTP/3 on {address}: its UDP port cannot be bound: {e}; write http3 = false \
                     to do without"
                );
                continue;
            }
        };
        let inboxes = quic::inboxes(sockets.len());
        for (at, (socket, inbox)) in sockets.into_iter().zip(inboxes).enumerate() {
            let configured = configured.clone();
            listeners[at % workers].push(QuicListener { socket, configured, inbox });
        }
    }
    listeners
}

/// Returns the TLS listeners that also have a UDP port: the configured address and the actual one.
/// Datagrams have no PROXY protocol header, so a load balancer's listener has none.
pub(crate) fn wanted<'a>(
    config: &'a Config,
    listening: &'a [Listening],
) -> impl Iterator<Item = (&'a Listen, SocketAddr)> {
    let tls = listening.iter().filter(|open| open.tls && config.http3);
    tls.filter_map(|open| match open.actual {
        Listen::Tcp(address) => {
            let protocols = Protocols::on(config, &open.configured, true);
            (!protocols.proxy).then_some((&open.configured, address))
        }
        Listen::Unix(_) => None,
    })
}

/// Returns the configured addresses of these sockets.
pub(super) fn addresses(listeners: &QuicListeners) -> Vec<Listen> {
    listeners.iter().flatten().map(|listener| listener.configured.clone()).collect()
}

/// Returns the addresses whose sockets a reload opens.
pub(crate) fn opened(changes: &[ListenerChanges]) -> Vec<Listen> {
    let opened = changes.iter().flat_map(|worker| &worker.opened_quic);
    opened.map(|listener| listener.configured.clone()).collect()
}

/// Has responses over TCP tell clients about the UDP port (Alt-Svc, RFC 7838). `open`: the
/// addresses, as configured, with a UDP port.
pub(crate) fn announce(config: &mut Config, listening: &[Listening], open: &[Listen]) {
    let has_port = |at: &&Listening| at.tls && open.contains(&at.configured);
    let open: Vec<_> = listening.iter().filter(has_port).collect();
    config.announce_http3(|site| {
        let first = open.iter().find(|at| site.answers_at(&at.configured));
        first.and_then(|at| at.actual.port())
    });
}

/// The sign that endpoints of this process read the UDP sockets: a pipe that is closed once the
/// last one has ended. A process that gets the sockets waits for that, because datagrams of
/// connections that go on here must not be read there.
#[derive(Clone, Debug)]
pub(super) struct Lease {
    _pipe: Arc<PipeWriter>,
    serving: Serving,
}

/// Each worker that accepts HTTP/3 connections, and each connection, holds a receiver of it.
type Serving = watch::Sender<()>;

impl Lease {
    /// Makes a lease, and the end at which another process waits.
    ///
    /// # Errors
    /// The system refuses a pipe.
    pub(super) fn new() -> io::Result<(Lease, OwnedFd)> {
        let (reader, writer) = io::pipe()?;
        let lease = Lease { _pipe: Arc::new(writer), serving: watch::Sender::new(()) };
        Ok((lease, reader.into()))
    }
}

/// The UDP sockets of a server that has not started, and the means of their endpoints.
#[derive(Debug)]
pub(crate) struct QuicSockets {
    /// The sockets of each worker.
    pub(crate) listeners: QuicListeners,
    pub(crate) secret: QuicSecret,
    lease: Lease,
    /// The end of the lease for another process.
    pub(crate) released: OwnedFd,
    /// The lease of the process before, while it may read the sockets.
    previous: Option<OwnedFd>,
}

impl QuicSockets {
    /// Takes the secret and the lease of the process before.
    ///
    /// # Errors
    /// The system refuses a pipe or random bytes.
    pub(super) fn new(
        listeners: QuicListeners,
        before: &mut Predecessor,
    ) -> io::Result<QuicSockets> {
        let (lease, released) = Lease::new()?;
        let secret = before.quic_secret.take().map_or_else(QuicSecret::random, Ok)?;
        Ok(QuicSockets { listeners, secret, lease, released, previous: before.lease.take() })
    }

    /// Returns the sockets of each worker.
    ///
    /// # Errors
    /// The system refuses a descriptor.
    pub(super) fn of_workers(self) -> io::Result<Vec<QuicDuties>> {
        let QuicSockets { listeners, secret, lease, previous, .. } = self;
        let of_worker = |listeners| {
            let previous = previous.as_ref().map(OwnedFd::try_clone).transpose()?;
            Ok(QuicDuties { listeners, secret: secret.clone(), lease: lease.clone(), previous })
        };
        listeners.into_iter().map(of_worker).collect()
    }
}

/// The UDP sockets of one worker, and the means of its endpoints.
#[derive(Debug)]
pub(super) struct QuicDuties {
    pub(super) listeners: Vec<QuicListener>,
    pub(super) secret: QuicSecret,
    pub(super) lease: Lease,
    /// The lease of the process before, while it may read the sockets.
    pub(super) previous: Option<OwnedFd>,
}

/// Waits until the process before reads the sockets no more.
async fn released(previous: OwnedFd) -> io::Result<()> {
    Receiver::from_owned_fd(previous)?.readable().await
}

/// The open endpoints of a worker.
pub(super) struct QuicEndpoints {
    thread: Rc<WorkerThread>,
    admission: Rc<Admission>,
    secret: QuicSecret,
    /// `None`: no endpoint is opened any more.
    lease: Option<Lease>,
    serving: Serving,
    /// `None`: the worker accepts no more connections.
    accepts: Option<watch::Receiver<()>>,
    /// `true`: the process ends.
    is_leaving: Rc<Cell<bool>>,
    /// Present while the process before may read the sockets, for a process after this one.
    waits: Vec<Rc<Cell<Option<watch::Receiver<()>>>>>,
    handshakes: Handshakes,
    open: Vec<(Listen, Rc<Endpoint>)>,
    has_warned: bool,
}

impl QuicEndpoints {
    pub(super) fn new(
        thread: Rc<WorkerThread>,
        admission: Rc<Admission>,
        handshakes: Handshakes,
        secret: QuicSecret,
        lease: Lease,
    ) -> QuicEndpoints {
        let of = Rc::clone(&thread);
        quic::set_chooser(move |hello, local| secure::choose_quic(&of.worker(), hello, local));
        QuicEndpoints {
            thread,
            admission,
            secret,
            serving: lease.serving.clone(),
            accepts: Some(lease.serving.subscribe()),
            is_leaving: Rc::default(),
            waits: Vec::new(),
            lease: Some(lease),
            handshakes,
            open: Vec::new(),
            has_warned: false,
        }
    }

    fn settings(&self) -> io::Result<quic::Settings> {
        let worker = self.thread.worker();
        quic::Settings::new(&self.secret, worker.limits.idle_timeout, worker.http3_congestion)
    }

    /// Accepts the connections of a socket, once the process before has released it.
    ///
    /// # Errors
    /// The event loop does not take the socket.
    pub(super) fn open(
        &mut self,
        listener: QuicListener,
        previous: Option<OwnedFd>,
    ) -> io::Result<()> {
        let QuicListener { socket, configured, inbox } = listener;
        let port = socket.local_addr()?.port();
        let endpoint = Endpoint::new(socket, configured.clone(), inbox, self.settings()?)?;
        if !self.has_warned {
            self.has_warned = warn_about_buffers(endpoint.buffer_sizes());
        }
        self.open.push((configured.clone(), Rc::clone(&endpoint)));
        let admit = self.admit(ListenerAddress::new(&configured, Some(port)));
        let begin = self.begin();
        let (lease, is_leaving) = (self.lease.clone(), Rc::clone(&self.is_leaving));
        let serving = self.serving.clone();
        // A process after this one reads the socket only after this one has released it.
        let waits = Rc::new(Cell::new(None));
        if previous.is_some() {
            waits.set(Some(serving.subscribe()));
            self.waits.push(Rc::clone(&waits));
        }
        spawn_local(async move {
            let _lease = lease;
            if let Some(previous) = previous
                && let Err(e) = released(previous).await
            {
                tracing::warn!("cannot wait for the process before: {e}");
            }
            drop(waits.take());
            let mut outcome = endpoint.run(admit, begin).await;
            if outcome.is_ok() && is_leaving.get() {
                // Other endpoints may have connections, and until those have ended no other
                // process reads this socket.
                let refusal = crate::rt::race(endpoint.refuse(), serving.closed()).await;
                if let First::A(failed) = refusal {
                    outcome = failed;
                }
            }
            if let Err(e) = outcome {
                tracing::error!("HTTP/3 on {configured} has failed: {e}");
            }
        });
        Ok(())
    }

    /// Returns the decision on new connections to a listener.
    fn admit(
        &self,
        address: Rc<ListenerAddress>,
    ) -> impl FnMut(bool) -> Verdict<ConnectionSlot> + use<> {
        let (thread, admission) = (Rc::clone(&self.thread), Rc::clone(&self.admission));
        let handshakes = self.handshakes.clone();
        move |is_validated| {
            if handshakes.len() >= HANDSHAKES_UNVALIDATED_MAX && !is_validated {
                return Verdict::Retry;
            }
            let is_out_of_connections = thread.open.get() >= admission.connections_max.get();
            if is_out_of_connections {
                thread.metrics.hit(LimitKind::Connections);
            }
            if is_out_of_connections || handshakes.is_full() {
                // An address that a client invents must end nobody's handshake.
                if !is_validated && !handshakes.is_empty() {
                    return Verdict::Retry;
                }
                if !handshakes.evict() {
                    return Verdict::Refuse;
                }
            }
            Verdict::Accept(ConnectionSlot::new(&thread, Rc::clone(&address)))
        }
    }

    /// Returns what serves an accepted connection.
    fn begin(&self) -> impl FnMut(Rc<quic::Connection>, ConnectionSlot) + use<> {
        let admission = Rc::clone(&self.admission);
        let (handshakes, serving) = (self.handshakes.clone(), self.serving.clone());
        move |connection, slot| {
            connection.hold_while_handshaking(handshakes.begin(&connection));
            let admission = Rc::clone(&admission);
            // A client is counted once its address is known to be its own.
            let acquire = move |peer| admission.acquire(Some(peer)).ok();
            let served = serving.subscribe();
            crate::rt::spawn(async move {
                h3::run(connection, slot, acquire).await;
                drop(served);
            });
        }
    }

    /// Keeps the endpoints of these addresses, with the settings in force, and closes the others.
    /// `true`: it accepts connections.
    pub(super) fn retain(&mut self, kept: &[(Listen, bool)]) {
        let settings = self.settings();
        self.open.retain(|(configured, endpoint)| {
            let Some((_, serves)) = kept.iter().find(|(listen, _)| listen == configured) else {
                endpoint.close();
                return false;
            };
            endpoint.set_accepting(*serves);
            if let Ok(settings) = &settings {
                endpoint.set_settings(settings.clone());
            }
            true
        });
    }

    /// Accepts no more connections. The open ones are served to their end, and new ones are
    /// refused until those of all workers have ended. `is_shared`: a new process has the sockets.
    pub(super) fn close_all(&mut self, is_shared: bool) {
        (self.lease, self.accepts) = (None, None);
        if !is_shared {
            self.waits.drain(..).for_each(|waits| drop(waits.take()));
        }
        self.is_leaving.set(true);
        self.open.drain(..).for_each(|(_, endpoint)| endpoint.close());
    }

    /// Waits until the connections of all workers have ended, once all accept no more.
    pub(super) async fn all_ended(&self) {
        self.serving.closed().await;
    }
}

/// Logs that the system refuses large buffers; returns whether it does.
fn warn_about_buffers(sizes: BufferSizes) -> bool {
    let is_small = sizes.receive.min(sizes.send) < BUFFER_BYTES;
    if is_small {
        tracing::info!(
            "the system allows UDP buffers of {} KiB (receive) and {} KiB (send); downloads over \
             HTTP/3 are faster with {} KiB: set {}",
            sizes.receive >> 10,
            sizes.send >> 10,
            BUFFER_BYTES >> 10,
            sys::UDP_BUFFER_SETTING,
        );
    }
    is_small
}
