//! The state that the connections of a worker share.

use std::cell::Cell;
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

/// The state that a worker's connections share. Other workers share only the pool behind `store`
/// and `sender`, and the response caches in `sites`.
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
    /// Connections open now.
    pub open: Cell<usize>,
    /// Rung whenever one has closed.
    pub closed: Bell,
    /// Rate limits of client addresses; `None`: unlimited.
    pub addresses: Option<Addresses>,
    /// The access log.
    pub log: Option<WorkerLog>,
    /// Buffers that requests reuse.
    pub buffers: Buffers,
    /// Recent targets that caches have answered.
    pub shortcuts: Shortcuts,
    /// Field sections parsed recently.
    pub sections: SectionCache,
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
pub struct ConnectionSlot(Rc<Worker>);

impl ConnectionSlot {
    /// Takes a slot; the caller checks that one is free.
    pub fn new(worker: &Rc<Worker>) -> ConnectionSlot {
        worker.open.set(worker.open.get() + 1);
        ConnectionSlot(Rc::clone(worker))
    }

    /// Returns the slot's worker.
    pub fn worker(&self) -> &Worker {
        &self.0
    }

    /// Returns the slot's worker as a shared reference.
    pub fn shared_worker(&self) -> &Rc<Worker> {
        &self.0
    }
}

impl Drop for ConnectionSlot {
    fn drop(&mut self) {
        let open = &self.0.open;
        open.set(open.get() - 1);
        if self.0.deadlines.is_draining() {
            self.0.closed.ring();
        }
    }
}
