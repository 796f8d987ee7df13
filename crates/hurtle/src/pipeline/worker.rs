//! The state that the connections of a worker share.

use std::cell::{Cell, RefCell};
use std::net::IpAddr;
use std::rc::Rc;
use std::sync::Arc;
use std::time::Duration;

use hurtle_http::request::HeadLimits;
use hurtle_http::request::section::SectionCache;
use hurtle_http::semantics::forwarded::Family;
use ipnet::IpNet;

use super::balancers::Balancers;
use super::limit_log::LimitLog;
use super::log_filter::LogFilter;
use crate::clock;
use crate::config::{Congestion, Limits, Listen, Schedule, Tracing};
use crate::deadline::Deadlines;
use crate::files::Store;
use crate::handler::http_request::Buffers;
use crate::handler::proxy::cache::Shortcuts;
use crate::metrics::{Activity, Counter, Protocol, WorkerMetrics};
use crate::observe::WorkerLog;
use crate::rt::Bell;
use crate::shared_store::SharedStore;
use crate::site::Sites;
use crate::tls::Keyring;
use crate::transport::{Addresses, Meter, Sender};

/// A worker's thread: the number of its connections, and its state under the configuration in
/// force.
#[derive(Debug)]
pub(crate) struct WorkerThread {
    current: RefCell<Rc<Worker>>,
    /// Number of client connections that are open now.
    pub open: Cell<usize>,
    /// Rung whenever one has closed.
    pub closed: Bell,
    /// Counters of the worker, shared with its states.
    pub metrics: Arc<WorkerMetrics>,
}

/// The state that a worker's connections share under one configuration. Other workers share only
/// the pool behind `store` and `sender`, and the response caches in `sites`. A reload makes a new
/// one, which shares what does not depend on the configuration.
#[derive(Debug)]
pub(crate) struct Worker {
    /// The sites of this configuration, with their handlers.
    pub sites: Sites,
    /// The file cache of the worker.
    pub store: Rc<Store>,
    /// Means of sending bodies: the disk threads and the configuration of `sendfile`.
    pub sender: Sender,
    /// Certificates for TLS handshakes; shared with other workers, and read-only here.
    pub keyring: Option<Arc<Keyring>>,
    /// Proxies whose forwarding fields are trusted.
    pub trusted_proxies: Vec<IpNet>,
    /// The fields in which those proxies describe the client.
    pub forwarded_family: Family,
    /// Load balancers whose PROXY protocol header is trusted.
    pub balancers: Balancers,
    /// The IDs that requests get.
    pub tracing: Tracing,
    /// Decides when a connection that has answered reads again.
    pub schedule: Schedule,
    /// Timeouts and sizes that bound what clients do.
    pub limits: Limits,
    /// Congestion control of HTTP/3.
    pub http3_congestion: Congestion,
    /// Bounds on the size of request heads, and on their number of fields.
    pub head_limits: HeadLimits,
    /// Timers of the connections' deadlines.
    pub deadlines: Rc<Deadlines>,
    /// The store that several servers share; `None`: there is none.
    pub shared_store: Option<Rc<SharedStore>>,
    /// Rate limits of client addresses; `None`: unlimited.
    pub addresses: Option<Addresses>,
    /// Counters of the worker, shared with its thread.
    pub metrics: Arc<WorkerMetrics>,
    /// The hottest paths and the requests in flight.
    pub activity: Rc<Activity>,
    /// The access log of this worker; `None`: no log is configured.
    pub log: Option<Rc<WorkerLog>>,
    /// Decides which requests it has.
    pub log_filter: LogFilter,
    /// Buffers that requests reuse.
    pub buffers: Rc<Buffers>,
    /// Recent targets that caches have answered.
    pub shortcuts: Shortcuts,
    /// Field sections parsed recently.
    pub sections: Rc<SectionCache>,
    /// `true` if another configuration is in force.
    pub is_replaced: Cell<bool>,
    /// Log lines about refused requests.
    pub limit_log: LimitLog,
}

impl WorkerThread {
    /// Creates a thread's state without connections.
    pub(crate) fn new(worker: Worker) -> Rc<WorkerThread> {
        let metrics = Arc::clone(&worker.metrics);
        let current = RefCell::new(Rc::new(worker));
        Rc::new(WorkerThread { current, open: Cell::new(0), closed: Bell::default(), metrics })
    }

    /// Returns the state under the configuration in force.
    pub(crate) fn worker(&self) -> Rc<Worker> {
        Rc::clone(&self.current.borrow())
    }

    /// Puts another configuration in force, for new requests on open connections too. Connections
    /// between requests and tunnels let go of the one before.
    pub(crate) fn replace(&self, worker: Worker) {
        let before = self.current.replace(Rc::new(worker));
        before.is_replaced.set(true);
        before.deadlines.wake_all();
    }
}

impl Worker {
    /// Returns the shared rate limit of a client. A client without an address is local, and has no
    /// limit.
    pub(crate) fn share(&self, client: Option<IpAddr>) -> Option<Arc<Meter>> {
        let limited = self.addresses.as_ref().zip(client);
        limited.map(|(addresses, client)| addresses.meter(client))
    }
}

/// A slot among a worker's open connections, released when dropped.
#[derive(Debug)]
pub(crate) struct ConnectionSlot {
    thread: Rc<WorkerThread>,
    /// The connection's protocol, once it is known.
    protocol: Cell<Option<Protocol>>,
    /// Open streams, if it is HTTP/2 or HTTP/3.
    streams: Cell<usize>,
    /// Time at which it was accepted.
    accepted_ms: u64,
    /// The longest `write_stall` of the places of its requests, in milliseconds, beside that of the
    /// limits.
    stall_ms: Cell<u32>,
    listener: Rc<ListenerAddress>,
}

/// The address of the listener of a connection.
#[derive(Debug, Default)]
pub(crate) struct ListenerAddress {
    /// As configured; `None`: there is no listener.
    pub configured: Option<Listen>,
    /// The actual port; `None`: a unix socket.
    pub port: Option<u16>,
}

impl ListenerAddress {
    /// Creates the address, which all connections of the listener share.
    pub(crate) fn new(configured: &Listen, port: Option<u16>) -> Rc<ListenerAddress> {
        Rc::new(ListenerAddress { configured: Some(configured.clone()), port })
    }
}

impl ConnectionSlot {
    /// Takes a slot; the caller checks that one is free.
    pub(crate) fn new(thread: &Rc<WorkerThread>, listener: Rc<ListenerAddress>) -> ConnectionSlot {
        thread.open.set(thread.open.get() + 1);
        thread.metrics.accepted.add(1);
        thread.metrics.open.add(1);
        ConnectionSlot {
            thread: Rc::clone(thread),
            protocol: Cell::new(None),
            streams: Cell::new(0),
            accepted_ms: clock::now_ms(),
            stall_ms: Cell::new(0),
            listener,
        }
    }

    /// Returns the port of the listener.
    pub(crate) fn port(&self) -> Option<u16> {
        self.listener.port
    }

    /// Returns the address of the listener, as configured.
    pub(crate) fn listen(&self) -> Option<&Listen> {
        self.listener.configured.as_ref()
    }

    /// Returns the worker's state under the configuration in force.
    pub(crate) fn worker(&self) -> Rc<Worker> {
        self.thread.worker()
    }

    /// Lets go of a replaced state: `worker` becomes the one under the configuration in force.
    #[inline]
    pub(crate) fn update(&self, worker: &mut Rc<Worker>) {
        if worker.is_replaced.get() {
            *worker = self.worker();
        }
    }

    /// Returns the worker's counters.
    pub(crate) fn metrics(&self) -> &WorkerMetrics {
        &self.thread.metrics
    }

    /// Counts the connection under its protocol.
    pub(crate) fn set_protocol(&self, protocol: Option<Protocol>) {
        let metrics = &self.thread.metrics;
        let gauge = |protocol| match protocol {
            Protocol::Http1 => &metrics.http1,
            Protocol::Http2 => &metrics.http2,
            Protocol::Http3 => &metrics.http3,
        };
        if let Some(before) = self.protocol.replace(protocol) {
            gauge(before).sub(1);
        }
        if let Some(protocol) = protocol {
            gauge(protocol).add(1);
        }
    }

    /// Returns the number of connections with a stream, of this one's protocol.
    fn active(&self) -> &Counter {
        match self.protocol.get() {
            Some(Protocol::Http3) => &self.thread.metrics.http3_active,
            _ => &self.thread.metrics.http2_active,
        }
    }

    /// Returns whether a request may follow this number of them on the connection.
    #[inline]
    pub(crate) fn may_follow(&self, served: u64, limits: &Limits) -> bool {
        let is_young = |age: Duration| {
            clock::now_ms().saturating_sub(self.accepted_ms) < age.as_millis() as u64
        };
        limits.requests_per_connection.is_none_or(|most| served < most)
            && limits.connection_age.is_none_or(is_young)
    }

    /// Returns the time for which the connection may make no progress, in milliseconds.
    pub(crate) fn write_stall_ms(&self, limits: &Limits) -> u64 {
        u64::from(self.stall_ms.get()).max(limits.write_stall.as_millis() as u64)
    }

    /// Lets the connection make no progress for as long as one of its requests may.
    pub(crate) fn extend_write_stall(&self, stall: Duration) {
        let stall_ms = u32::try_from(stall.as_millis()).unwrap_or(u32::MAX);
        self.stall_ms.set(self.stall_ms.get().max(stall_ms));
    }

    /// Counts a stream of the connection until the guard is dropped.
    pub(crate) fn open_stream(self: &Rc<Self>) -> StreamGuard {
        if self.streams.replace(self.streams.get() + 1) == 0 {
            self.active().add(1);
        }
        StreamGuard(Rc::clone(self))
    }
}

/// Counts a stream as open until it is dropped.
#[derive(Debug)]
pub(crate) struct StreamGuard(Rc<ConnectionSlot>);

impl Drop for StreamGuard {
    fn drop(&mut self) {
        let streams = &self.0.streams;
        streams.set(streams.get() - 1);
        if streams.get() == 0 {
            self.0.active().sub(1);
        }
    }
}

impl Drop for ConnectionSlot {
    fn drop(&mut self) {
        self.set_protocol(None);
        self.thread.metrics.open.sub(1);
        let open = &self.thread.open;
        open.set(open.get() - 1);
        if self.thread.current.borrow().deadlines.is_draining() {
            self.thread.closed.ring();
        }
    }
}
