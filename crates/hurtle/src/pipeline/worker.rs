//! The state that the connections of a worker share.

use std::cell::{Cell, RefCell};
use std::net::IpAddr;
use std::rc::Rc;
use std::sync::Arc;

use hurtle_http::request::HeadLimits;
use hurtle_http::request::section::SectionCache;
use ipnet::IpNet;

use super::balancers::Balancers;
use crate::config::{Limits, Schedule};
use crate::deadline::Deadlines;
use crate::files::Store;
use crate::handler::http_request::Buffers;
use crate::handler::proxy::cache::Shortcuts;
use crate::observe::WorkerLog;
use crate::rt::Bell;
use crate::site::Sites;
use crate::tls::Keyring;
use crate::transport::{Addresses, Meter, Sender};

/// A worker's thread: the number of its connections, and its state under the configuration in force.
#[derive(Debug)]
pub struct WorkerThread {
    current: RefCell<Rc<Worker>>,
    /// Connections open now.
    pub open: Cell<usize>,
    /// Rung whenever one has closed.
    pub closed: Bell,
}

/// The state that a worker's connections share under one configuration. Other workers share only
/// the pool behind `store` and `sender`, and the response caches in `sites`. A reload makes a new
/// one, which shares what does not depend on the configuration.
#[derive(Debug)]
pub struct Worker {
    /// The configured sites.
    pub sites: Sites,
    /// The file cache.
    pub store: Rc<Store>,
    /// Sends response bodies.
    pub sender: Sender,
    /// Certificates for TLS handshakes; shared with other workers, and read-only here.
    pub keyring: Option<Arc<Keyring>>,
    /// Proxies whose forwarding fields are trusted.
    pub trusted_proxies: Vec<IpNet>,
    /// Load balancers whose PROXY protocol header is trusted.
    pub balancers: Balancers,
    /// Decides when a connection that has answered reads again.
    pub schedule: Schedule,
    /// Bounds on clients.
    pub limits: Limits,
    /// Bounds on heads.
    pub head_limits: HeadLimits,
    /// Deadlines of connections.
    pub deadlines: Rc<Deadlines>,
    /// Rate limits of client addresses; `None`: unlimited.
    pub addresses: Option<Addresses>,
    /// The access log.
    pub log: Option<Rc<WorkerLog>>,
    /// Buffers that requests reuse.
    pub buffers: Rc<Buffers>,
    /// Recent targets that caches have answered.
    pub shortcuts: Shortcuts,
    /// Field sections parsed recently.
    pub sections: Rc<SectionCache>,
    /// `true` if another configuration is in force.
    pub is_replaced: Cell<bool>,
}

impl WorkerThread {
    /// Creates a thread's state without connections.
    pub fn new(worker: Worker) -> Rc<WorkerThread> {
        let current = RefCell::new(Rc::new(worker));
        Rc::new(WorkerThread { current, open: Cell::new(0), closed: Bell::default() })
    }

    /// Returns the state under the configuration in force.
    pub fn worker(&self) -> Rc<Worker> {
        Rc::clone(&self.current.borrow())
    }

    /// Puts another configuration in force, for new requests on open connections too.
    pub fn replace(&self, worker: Worker) {
        let before = self.current.replace(Rc::new(worker));
        before.is_replaced.set(true);
    }
}

impl Worker {
    /// Returns the shared rate limit of a client. A client without an address is local, and has no
    /// limit.
    pub fn share(&self, client: Option<IpAddr>) -> Option<Arc<Meter>> {
        let limited = self.addresses.as_ref().zip(client);
        limited.map(|(addresses, client)| addresses.meter(client))
    }
}

/// A slot among a worker's open connections, released when dropped.
#[derive(Debug)]
pub struct ConnectionSlot(Rc<WorkerThread>);

impl ConnectionSlot {
    /// Takes a slot; the caller checks that one is free.
    pub fn new(thread: &Rc<WorkerThread>) -> ConnectionSlot {
        thread.open.set(thread.open.get() + 1);
        ConnectionSlot(Rc::clone(thread))
    }

    /// Returns the worker's state under the configuration in force.
    pub fn worker(&self) -> Rc<Worker> {
        self.0.worker()
    }
}

impl Drop for ConnectionSlot {
    fn drop(&mut self) {
        let open = &self.0.open;
        open.set(open.get() - 1);
        if self.0.current.borrow().deadlines.is_draining() {
            self.0.closed.ring();
        }
    }
}
