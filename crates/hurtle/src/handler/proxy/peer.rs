//! One upstream: connecting to it, its idle connections and its health.

use std::cell::{Cell, OnceCell, RefCell};
use std::collections::VecDeque;
use std::net::{SocketAddr, ToSocketAddrs as _};
use std::rc::Rc;
use std::sync::Arc;
use std::time::Duration;
use std::{fmt, io};

use hurtle_http::h1::response_head::ResponseError;
use xxhash_rust::xxh3::xxh3_64;

use super::link::Link;
use crate::config::Upstream;
use crate::disk::{Disk, Lane};
use crate::metrics::UpstreamMetrics;
use crate::transport::UpstreamSocket;
use crate::{clock, rt};

/// Most idle connections to one upstream in each worker.
const IDLE_MAX: usize = 64;

/// Longest time that an idle connection is kept, in milliseconds. It is shorter than the keep-alive
/// of common application servers (Node: 5 s). Otherwise the upstream may close the connection while
/// a request is sent that must not be repeated.
const IDLE_MS_MAX: u64 = 4_000;

/// Longest use of a resolved address, in milliseconds.
const NAMES_MS_MAX: u64 = 10_000;

/// Consecutive failures after which an upstream gets no requests, and for how long.
pub(super) const FAILS_MAX: u32 = 3;
pub(super) const DOWN_MS: u64 = 10_000;

/// An upstream.
#[derive(Debug)]
pub(super) struct Peer {
    upstream: Upstream,
    /// Host and port.
    pub(super) authority: String,
    /// Seed of its rendezvous hash.
    pub(super) seed: u64,
    /// Requests in flight from this worker.
    pub(super) in_flight: Cell<usize>,
    idle: RefCell<VecDeque<IdleConnection>>,
    /// `true` while a task closes expired idle connections.
    swept: Cell<bool>,
    fails: Cell<u32>,
    down_until_ms: Cell<u64>,
    /// Result of the health checks.
    healthy: Cell<bool>,
    addresses: RefCell<Vec<SocketAddr>>,
    looked_up_ms: Cell<u64>,
    disk: Disk,
    lane: Lane,
    metrics: OnceCell<Arc<UpstreamMetrics>>,
}

#[derive(Debug)]
struct IdleConnection {
    io: UpstreamSocket,
    since_ms: u64,
}

/// The reason for a missing response of an upstream.
#[derive(Debug)]
pub enum UpstreamError {
    /// The upstream's name cannot be resolved.
    Unresolved(String),
    /// The connection was refused.
    Refused(io::Error),
    /// The upstream closed the connection before the first byte of a response.
    Gone(Option<io::Error>),
    /// The upstream closed the connection within the response's head.
    Cut,
    /// The upstream did not read the request.
    NotRead(io::Error),
    /// The response is malformed.
    BadResponse(ResponseError),
    /// The upstream switched the protocol, although the request did not offer it.
    UnexpectedUpgrade,
}

impl fmt::Display for UpstreamError {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        match self {
            UpstreamError::Unresolved(why) => write!(f, "its name cannot be resolved: {why}"),
            UpstreamError::Refused(e) => write!(f, "cannot connect: {e}"),
            UpstreamError::Gone(None) => f.write_str("it closed the connection without a response"),
            UpstreamError::Gone(Some(e)) => write!(f, "no response: {e}"),
            UpstreamError::Cut => {
                f.write_str("it closed the connection within the response's head")
            }
            UpstreamError::NotRead(e) => write!(f, "it did not read the request: {e}"),
            UpstreamError::BadResponse(error) => write!(f, "its response is malformed: {error}"),
            UpstreamError::UnexpectedUpgrade => {
                f.write_str("it changed the protocol without a request")
            }
        }
    }
}

impl Peer {
    pub(super) fn new(upstream: Upstream, disk: Disk, lane: Lane) -> Peer {
        let (authority, addresses) = match &upstream {
            Upstream::Address(address) => (address.to_string(), vec![*address]),
            Upstream::Name(name, port) => (format!("{name}:{port}"), Vec::new()),
            Upstream::Unix(_) => ("localhost".to_owned(), Vec::new()),
        };
        Peer {
            seed: xxh3_64(upstream.to_string().as_bytes()),
            upstream,
            authority,
            in_flight: Cell::new(0),
            idle: RefCell::default(),
            swept: Cell::new(false),
            fails: Cell::new(0),
            down_until_ms: Cell::new(0),
            healthy: Cell::new(true),
            addresses: RefCell::new(addresses),
            looked_up_ms: Cell::new(0),
            disk,
            lane,
            metrics: OnceCell::new(),
        }
    }

    /// Sets the counters of its requests, once.
    pub(super) fn count_in(&self, metrics: impl FnOnce() -> Arc<UpstreamMetrics>) {
        self.metrics.get_or_init(metrics);
    }

    /// Returns the counters of its requests.
    pub(super) fn metrics(&self) -> &UpstreamMetrics {
        self.metrics.get_or_init(Arc::default)
    }

    /// Publishes its state; `alone`: there is no other upstream.
    pub(super) fn publish(&self, alone: bool, now_ms: u64) {
        let is_up = self.is_up(alone, now_ms);
        self.metrics().publish(is_up, self.in_flight.get(), self.idle.borrow().len());
    }

    /// Returns whether the upstream may get a request. An only upstream gets requests despite
    /// failures, because there is no alternative.
    pub(super) fn is_up(&self, alone: bool, now_ms: u64) -> bool {
        self.healthy.get() && (alone || self.down_until_ms.get() <= now_ms)
    }

    /// Records a response.
    pub(super) fn succeeded(&self) {
        self.fails.set(0);
    }

    /// Records a failure.
    pub(super) fn failed(&self, now_ms: u64) {
        let fails = self.fails.get().saturating_add(1);
        self.fails.set(fails);
        // After the pause, a single failure starts the next one.
        if fails >= FAILS_MAX {
            self.down_until_ms.set(now_ms + DOWN_MS);
        }
    }

    /// Sets the result of a health check; logs a change.
    pub(super) fn set_healthy(&self, healthy: bool, why: &str) {
        if self.healthy.replace(healthy) == healthy {
            return;
        }
        match healthy {
            true => tracing::info!("upstream {self} is healthy again"),
            false => tracing::warn!("upstream {self} is not healthy and gets no requests: {why}"),
        }
        self.fails.set(0);
        self.down_until_ms.set(0);
    }

    /// Resets the upstream's state after its application was restarted.
    pub(super) fn reset(&self) {
        self.idle.borrow_mut().clear();
        self.fails.set(0);
        self.down_until_ms.set(0);
        self.healthy.set(true);
    }

    /// Takes the most recently used idle connection that is still open.
    pub(super) fn idle(&self, now_ms: u64) -> Option<Link> {
        loop {
            let IdleConnection { mut io, since_ms } = self.idle.borrow_mut().pop_back()?;
            let fresh = now_ms.saturating_sub(since_ms) < IDLE_MS_MAX;
            // Unexpected bytes could be taken for the response to the next request.
            if fresh && io.is_quiet() {
                return Some(Link::new(io, true));
            }
        }
    }

    /// Keeps a connection whose last response was read to its end.
    pub(super) fn keep(self: &Rc<Peer>, io: UpstreamSocket) {
        let mut idle = self.idle.borrow_mut();
        if idle.len() >= IDLE_MAX {
            idle.pop_front();
        }
        idle.push_back(IdleConnection { io, since_ms: clock::now_ms() });
        if !self.swept.replace(true) {
            let peer = Rc::clone(self);
            rt::spawn(async move { peer.sweep().await });
        }
    }

    /// Closes all idle connections. If one was found closed, the rest probably are too.
    pub(super) fn close_idle(&self) {
        self.idle.borrow_mut().clear();
    }

    /// Closes expired idle connections until there are none.
    async fn sweep(&self) {
        let mut alarm = rt::Alarm::unset();
        while !self.idle.borrow().is_empty() {
            alarm.wait(Duration::from_millis(IDLE_MS_MAX / 4)).await;
            let now_ms = clock::now_ms();
            let aged = |idle: &IdleConnection| now_ms.saturating_sub(idle.since_ms) >= IDLE_MS_MAX;
            self.idle.borrow_mut().retain(|idle| !aged(idle));
        }
        self.swept.set(false);
    }

    /// Opens a new connection.
    pub(super) async fn connect(&self) -> Result<Link, UpstreamError> {
        self.metrics().count_connect();
        if let Upstream::Unix(path) = &self.upstream {
            let io = UpstreamSocket::connect_unix(path).await.map_err(UpstreamError::Refused)?;
            return Ok(Link::new(io, false));
        }
        self.look_up().await?;
        let addresses = self.addresses.borrow().clone();
        let mut refused = io::Error::from(io::ErrorKind::AddrNotAvailable);
        for address in addresses {
            match UpstreamSocket::connect(address).await {
                Ok(io) => return Ok(Link::new(io, false)),
                Err(e) => refused = e,
            }
        }
        Err(UpstreamError::Refused(refused))
    }

    /// Resolves the upstream's name if needed. Uses old addresses while the name service fails.
    async fn look_up(&self) -> Result<(), UpstreamError> {
        let Upstream::Name(name, port) = &self.upstream else { return Ok(()) };
        let known = !self.addresses.borrow().is_empty();
        let now_ms = clock::now_ms();
        if known && now_ms.saturating_sub(self.looked_up_ms.get()) < NAMES_MS_MAX {
            return Ok(());
        }
        let (name, port) = (name.clone(), *port);
        let job = move || (name.as_str(), port).to_socket_addrs().map(Iterator::collect);
        let found: Result<Vec<_>, String> = match self.disk.run(self.lane, job).await {
            Ok(found) => found.map_err(|e: io::Error| e.to_string()),
            Err(_) => Err("the look-up takes too long".to_owned()),
        };
        match found {
            Ok(addresses) if !addresses.is_empty() => {
                self.addresses.replace(addresses);
                self.looked_up_ms.set(now_ms);
                Ok(())
            }
            _ if known => Ok(()),
            Ok(_) => Err(UpstreamError::Unresolved("it has no address".to_owned())),
            Err(why) => Err(UpstreamError::Unresolved(why)),
        }
    }
}

impl fmt::Display for Peer {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        self.upstream.fmt(f)
    }
}
