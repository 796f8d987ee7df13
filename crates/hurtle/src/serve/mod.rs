//! One connection, from its first byte to its last: the protocols, and what they share.

pub mod deadline;
pub mod h1;
pub mod h2;
pub mod proxied;
pub mod secure;
pub mod shortcuts;

use std::cell::{Cell, RefCell};
use std::net::IpAddr;
use std::rc::Rc;
use std::sync::Arc;

use bytes::BytesMut;
use http::HeaderMap;
use ipnet::IpNet;

use crate::config::{Limits, Schedule};
use crate::files::Store;
use crate::h1::head::HeadLimits;
use crate::h1::section::Sections;
use crate::observe::WorkerLog;
use crate::rt::Bell;
use crate::site::Sites;
use crate::tls::Keyring;
use crate::transport::{Addresses, Input, Meter, Plain, Sender};
use deadline::Deadlines;
use proxied::Balancers;
use shortcuts::Shortcuts;

/// What a worker's connections share. Nothing in it is shared with another worker's but the pool
/// behind `store` and `sender`, and what `sites` keep of upstreams' answers.
#[derive(Debug)]
pub struct Worker {
    /// Who answers.
    pub sites: Sites,
    /// What is known of files.
    pub store: Rc<Store>,
    /// How bodies leave.
    pub sender: Sender,
    /// What handshakes are done with; shared, and only read here.
    pub keyring: Option<Arc<Keyring>>,
    /// Proxies that are believed in whom they name as the client.
    pub trusted_proxies: Vec<IpNet>,
    /// Who may say for whom a connection is made.
    pub balancers: Balancers,
    /// When a connection that has answered reads again.
    pub schedule: Schedule,
    /// Bounds on clients.
    pub limits: Limits,
    /// Bounds on heads.
    pub head_limits: HeadLimits,
    /// When connections are given up.
    pub deadlines: Rc<Deadlines>,
    /// Connections open now.
    pub open: Cell<usize>,
    /// Rung whenever one has closed.
    pub closed: Bell,
    /// What each client address is sent a second; `None`: as much as it takes.
    pub addresses: Option<Addresses>,
    /// A line for each request.
    pub log: Option<WorkerLog>,
    /// An empty map, with the room that another request's or answer's fields had.
    pub spare_fields: RefCell<HeaderMap>,
    /// The same of field lines.
    pub spare_lines: RefCell<Vec<u8>>,
    /// To what caches have answered lately.
    pub shortcuts: Shortcuts,
    /// What was read of requests lately.
    pub sections: Sections,
    /// Room for what is copied of a request for its application.
    pub spare_copy: RefCell<BytesMut>,
}

impl Worker {
    /// What all that goes to this client is held to; one without an address is local, and has no
    /// limit.
    pub fn share(&self, client: Option<IpAddr>) -> Option<Arc<Meter>> {
        let limited = self.addresses.as_ref().zip(client);
        limited.map(|(addresses, client)| addresses.meter(client))
    }
}

/// Serves a connection in clear to its end, whatever version of HTTP it speaks; `input` is what was
/// read of it already.
pub async fn run(io: Plain, input: Input, peer: Option<IpAddr>, place: Place) {
    let place = Rc::new(place);
    let connection = h1::Connection::new(io, input, peer, Rc::clone(&place));
    if let Some((io, early)) = connection.run().await {
        Box::pin(h2::run(io, early, peer, place)).await;
    }
}

/// A place among a worker's open connections, free again when dropped.
#[derive(Debug)]
pub struct Place(Rc<Worker>);

impl Place {
    /// Takes one; whether there is one is the caller's to know.
    pub fn new(worker: &Rc<Worker>) -> Place {
        worker.open.set(worker.open.get() + 1);
        Place(Rc::clone(worker))
    }

    /// Whose it is.
    pub fn worker(&self) -> &Worker {
        &self.0
    }
}

impl Drop for Place {
    fn drop(&mut self) {
        let open = &self.0.open;
        open.set(open.get() - 1);
        if self.0.deadlines.is_draining() {
            self.0.closed.ring();
        }
    }
}
