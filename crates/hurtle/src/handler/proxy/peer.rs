//! One upstream: connecting to it, its idle connections and its health checks' result.
//! `multiplexer` holds its HTTP/2 connections.

use std::cell::{Cell, OnceCell, RefCell};
use std::collections::VecDeque;
use std::net::{IpAddr, SocketAddr};
use std::rc::Rc;
use std::sync::Arc;
use std::sync::atomic::Ordering;
use std::time::Duration;
use std::{fmt, io};

use hurtle_http::message::response_head::ResponseError;
use hurtle_http::proxy_protocol::{self, Version};
use rustls::pki_types::ServerName;
use xxhash_rust::xxh3::xxh3_64;

use super::addresses::{Addresses, time_for_one};
use super::drained::{self, Drained};
use super::forward::INTERIM_MAX;
use super::link::{Channel, Link};
use super::multiplexer::Multiplexer;
use super::standing::Standing;
use crate::config::{Upstream, UpstreamServer};
use crate::disk::{Disk, Lane};
use crate::limits::concurrency::ConcurrencyLimiter;
use crate::metrics::UpstreamMetrics;
use crate::protocol::h2::StreamError;
use crate::tls::UpstreamConfig;
use crate::transport::{ConnectError, UpstreamSocket};
use crate::{clock, rt};

/// Most idle connections to one upstream in each worker.
const IDLE_MAX: usize = 64;

/// Longest time that an idle connection is kept, in milliseconds. It is shorter than the keep-alive
/// of common application servers (Node: 5 s). Otherwise the upstream may close the connection while
/// a request is sent that must not be repeated.
const IDLE_MS_MAX: u64 = 4_000;

#[derive(Debug)]
pub(super) struct Peer {
    server: UpstreamServer,
    /// Configuration of TLS and the name to verify; `None`: in clear.
    tls: Option<Secured>,
    /// The PROXY protocol that it expects; `None`: none.
    version: Option<Version>,
    /// Host and port, the Host of requests that have none.
    pub(super) authority: String,
    /// Seed of its rendezvous hash.
    pub(super) seed: u64,
    /// Requests in flight from this worker.
    pub(super) in_flight: Cell<usize>,
    /// The limit of its requests at once, of all workers; unset: there is none.
    pub(super) limiter: OnceCell<Arc<ConcurrencyLimiter>>,
    /// Requests of this worker that wait for it.
    pub(super) waiting: Cell<usize>,
    idle: RefCell<VecDeque<IdleConnection>>,
    pub(super) multiplexer: Multiplexer,
    /// `true` while a task closes expired idle connections.
    swept: Cell<bool>,
    /// Failures, ejection and slow start.
    pub(super) standing: Standing,
    /// Credit in weighted round robin.
    pub(super) credit: Cell<i64>,
    /// Result of the health checks.
    healthy: Cell<bool>,
    /// `true`: an operator has drained it.
    drained: Drained,
    pub(super) addresses: Addresses,
    metrics: OnceCell<Arc<UpstreamMetrics>>,
}

/// Configuration of TLS, and the name to verify or the reason why there is none.
type Secured = (Arc<UpstreamConfig>, Result<ServerName<'static>, String>);

#[derive(Debug)]
struct IdleConnection {
    io: UpstreamSocket,
    since_ms: u64,
}

/// The reason for a missing response of an upstream.
#[derive(Debug)]
pub(crate) enum UpstreamError {
    /// The upstream's name cannot be resolved.
    Unresolved(String),
    /// The connection was refused.
    Refused(io::Error),
    /// The TLS handshake failed.
    Handshake(String),
    /// The upstream closed the connection before the first byte of a response.
    Gone(Option<io::Error>),
    /// The upstream closed the connection within the response's head.
    Cut,
    /// The upstream did not read the request.
    NotRead(io::Error),
    /// The upstream sent interim responses without end.
    TooManyInterim,
    /// The response is malformed.
    BadResponse(ResponseError),
    /// The upstream has not processed the request (RFC 9113 section 8.7).
    Unprocessed,
    /// The upstream ended the stream.
    Stream(StreamError),
    /// Too many requests wait for a stream.
    Busy,
    /// The body of the client's request is malformed.
    BadRequest,
    /// The buffered body of the client's request cannot be read.
    LostBody(String),
    /// The upstream switched the protocol, although the request did not offer it.
    UnexpectedUpgrade,
    /// The upstream takes no other protocol on a stream (RFC 8441 section 3), and HTTP/1.1 is
    /// impossible for this reason.
    NoConnectProtocol(String),
}

impl fmt::Display for UpstreamError {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        match self {
            UpstreamError::Unresolved(why) => write!(f, "its name cannot be resolved: {why}"),
            UpstreamError::Refused(e) => write!(f, "cannot connect: {e}"),
            UpstreamError::Handshake(why) => write!(f, "TLS handshake failed: {why}"),
            UpstreamError::Gone(None) => f.write_str("it closed the connection without a response"),
            UpstreamError::Gone(Some(e)) => write!(f, "no response: {e}"),
            UpstreamError::Cut => {
                f.write_str("it closed the connection within the response's head")
            }
            UpstreamError::TooManyInterim => {
                write!(f, "it sent more than {INTERIM_MAX} interim responses")
            }
            UpstreamError::NotRead(e) => write!(f, "it did not read the request: {e}"),
            UpstreamError::BadResponse(error) => write!(f, "its response is malformed: {error}"),
            UpstreamError::Unprocessed => StreamError::Unprocessed.fmt(f),
            UpstreamError::Stream(error) => error.fmt(f),
            UpstreamError::Busy => f.write_str("too many requests wait for a stream"),
            UpstreamError::BadRequest => f.write_str("the request's body is no base64"),
            UpstreamError::LostBody(why) => {
                write!(f, "the request's body cannot be read from its file: {why}")
            }
            UpstreamError::UnexpectedUpgrade => {
                f.write_str("it changed the protocol without a request")
            }
            UpstreamError::NoConnectProtocol(why) => write!(
                f,
                "it takes no WebSocket over HTTP/2 (SETTINGS_ENABLE_CONNECT_PROTOCOL, RFC 8441), \
                 and {why}"
            ),
        }
    }
}

impl From<ConnectError> for UpstreamError {
    fn from(error: ConnectError) -> UpstreamError {
        match error {
            ConnectError::Refused(e) => UpstreamError::Refused(e),
            ConnectError::Handshake(why) => UpstreamError::Handshake(why),
        }
    }
}

impl Peer {
    /// An upstream that expects this version of the PROXY protocol; `tls` is the configuration of
    /// those with `https://`.
    pub(super) fn new(
        server: UpstreamServer,
        version: Option<Version>,
        tls: Option<&Arc<UpstreamConfig>>,
        disk: Disk,
        lane: Lane,
    ) -> Peer {
        let host = match &server.upstream {
            Upstream::Address(address) => address.ip().to_string(),
            Upstream::Name(name, _) => name.clone(),
            Upstream::Unix(_) => "localhost".to_owned(),
        };
        let tls = tls.filter(|_| server.tls);
        let tls = tls.map(|config| (Arc::clone(config), config.server_name(&host)));
        let addresses = Addresses::new(&server.upstream, disk, lane);
        let authority = match &server.upstream {
            Upstream::Address(address) => address.to_string(),
            Upstream::Name(name, port) => format!("{name}:{port}"),
            Upstream::Unix(_) => "localhost".to_owned(),
        };
        Peer {
            seed: xxh3_64(server.to_string().as_bytes()),
            tls,
            authority,
            in_flight: Cell::new(0),
            limiter: OnceCell::new(),
            waiting: Cell::new(0),
            idle: RefCell::default(),
            multiplexer: Multiplexer::default(),
            swept: Cell::new(false),
            standing: Standing::default(),
            credit: Cell::new(0),
            healthy: Cell::new(true),
            drained: drained::state_of(server.to_string()),
            server,
            version,
            addresses,
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

    /// Publishes its state; `is_open`: its application runs; `alone`: there is no other upstream.
    pub(super) fn publish(&self, is_open: bool, alone: bool, now_ms: u64) {
        let is_ejected = !alone && self.standing.is_ejected(now_ms);
        let is_up = is_open && self.is_available() && !is_ejected;
        let (in_flight, waiting) = (self.in_flight.get(), self.waiting.get());
        let idle = self.idle.borrow().len() + self.multiplexer.idle();
        self.metrics().publish(is_up, in_flight, idle, waiting);
    }

    /// Returns the configured address.
    pub(super) fn upstream(&self) -> &Upstream {
        &self.server.upstream
    }

    /// Returns whether requests to it use HTTP/2.
    pub(super) fn is_http2(&self) -> bool {
        self.server.http2
    }

    /// Returns whether connections to it use TLS.
    pub(super) fn is_tls(&self) -> bool {
        self.server.tls
    }

    /// Returns whether it may get requests: health checks succeed, or none are made, and it is not
    /// drained.
    pub(super) fn is_available(&self) -> bool {
        self.healthy.get() && !self.drained.load(Ordering::Relaxed)
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
        self.standing.reset();
        if healthy {
            self.standing.came_back(clock::now_ms());
        }
    }

    /// Resets the upstream's state after its application was restarted.
    pub(super) fn reset(&self) {
        self.close_idle();
        self.multiplexer.retire();
        self.standing.reset();
        self.healthy.set(true);
    }

    /// Takes the most recently used idle connection that is still open.
    pub(super) fn idle(&self, now_ms: u64) -> Option<Link> {
        loop {
            let IdleConnection { mut io, since_ms } = self.idle.borrow_mut().pop_back()?;
            let fresh = now_ms.saturating_sub(since_ms) < IDLE_MS_MAX;
            // Unexpected bytes could be taken for the response to the next request.
            if fresh && io.is_quiet() {
                return Some(Link::new(io, true, self.addresses.generation()));
            }
        }
    }

    /// Keeps a connection whose last response was read to its end, unless the upstream's addresses
    /// have changed since it was opened.
    pub(super) fn keep(self: &Rc<Peer>, Link { channel, generation, .. }: Link) {
        let Channel::Socket(io) = channel else { return };
        // The header of the PROXY protocol at its beginning names one client.
        if generation != self.addresses.generation() || self.version.is_some() {
            return;
        }
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

    /// Opens a new connection for this client; `None`: for the server itself. `within_ms` is
    /// divided among the addresses that are tried.
    pub(super) async fn connect(
        &self,
        client: Option<IpAddr>,
        within_ms: u64,
    ) -> Result<Link, UpstreamError> {
        self.connect_with(self.server.http2, client, within_ms).await
    }

    /// Opens a connection for HTTP/1.1 to an upstream over HTTP/2 that takes no other protocol on a
    /// stream. In clear, an upstream cannot choose between the two.
    ///
    /// # Errors
    /// The upstream does not offer HTTP/1.1, or there is no connection.
    pub(super) async fn connect_http1(&self, within_ms: u64) -> Result<Link, UpstreamError> {
        if !self.server.tls {
            let why = "its scheme allows no HTTP/1.1; use http:// for the mount of the WebSocket";
            return Err(UpstreamError::NoConnectProtocol(why.to_owned()));
        }
        self.connect_with(false, None, within_ms).await.map_err(|error| match error {
            UpstreamError::Handshake(why) => {
                UpstreamError::NoConnectProtocol(format!("no HTTP/1.1 instead: {why}"))
            }
            error => error,
        })
    }

    async fn connect_with(
        &self,
        is_http2: bool,
        client: Option<IpAddr>,
        within_ms: u64,
    ) -> Result<Link, UpstreamError> {
        let first = self.first_bytes(client);
        self.metrics().count_connect();
        let due_ms = clock::now_ms().saturating_add(within_ms);
        let generation = self.addresses.generation();
        if let Upstream::Unix(path) = &self.server.upstream {
            let io = UpstreamSocket::connect_unix(path, &first).await?;
            return Ok(Link::new(io, false, generation));
        }
        self.look_up().await?;
        let generation = self.addresses.generation();
        let addresses = self.addresses.in_turn(clock::now_ms());
        let mut failed = UpstreamError::Refused(io::ErrorKind::AddrNotAvailable.into());
        for (tried, address) in addresses.iter().enumerate() {
            let left = addresses.len() - tried;
            let connecting = self.connect_to(*address, &first, is_http2);
            let connected = match left {
                // The caller has the deadline.
                1 => connecting.await,
                _ => match rt::timeout(time_for_one(left, due_ms), connecting).await {
                    Some(connected) => connected,
                    None => Err(UpstreamError::Refused(io::ErrorKind::TimedOut.into())),
                },
            };
            self.addresses.record(*address, connected.is_ok(), clock::now_ms());
            match connected {
                Ok(io) => return Ok(Link::new(io, false, generation)),
                Err(e) => failed = e,
            }
        }
        self.addresses.request_update();
        Err(failed)
    }

    /// Returns the header of the PROXY protocol, if the upstream expects one.
    fn first_bytes(&self, client: Option<IpAddr>) -> Vec<u8> {
        let client = client.map_or(proxy_protocol::Client::Peer, proxy_protocol::Client::Address);
        self.version.map(|version| proxy_protocol::encode(version, client)).unwrap_or_default()
    }

    async fn connect_to(
        &self,
        address: SocketAddr,
        first: &[u8],
        is_http2: bool,
    ) -> Result<UpstreamSocket, UpstreamError> {
        if !self.server.tls {
            return Ok(UpstreamSocket::connect(address, first).await?);
        }
        let Some((config, name)) = &self.tls else {
            return Err(UpstreamError::Handshake("TLS is not configured".to_owned()));
        };
        let name = name.as_ref().map_err(|why| UpstreamError::Handshake(why.clone()))?;
        let protocol = (config.client(is_http2), is_http2);
        Ok(UpstreamSocket::connect_tls((address, first), protocol, name).await?)
    }
}

impl fmt::Display for Peer {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        self.server.fmt(f)
    }
}
