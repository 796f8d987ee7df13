//! The counters of one worker.

use std::sync::{Arc, Mutex, MutexGuard, PoisonError};

use super::activity::Published;
use super::counter::Counter;
use super::counters::{FileCacheCounters, StoreCounters};
use super::{Histogram, RouteMetrics, UpstreamMetrics};

/// A TLS version and whether the session was resumed.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum TlsVersion {
    Tls12,
    Tls13,
}

/// Names of the versions.
pub(super) const TLS_VERSIONS: [&str; 2] = ["1.2", "1.3"];

/// The reason of a failed TLS handshake.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum HandshakeFailure {
    /// The client closed the connection, or it broke.
    Closed,
    /// It did not complete in time.
    TimedOut,
    /// The client sent plain HTTP.
    PlainHttp,
    /// The requested name belongs to no site with a certificate.
    UnknownName,
    /// A message or certificate was not acceptable.
    Rejected,
}

/// Names of the reasons.
pub(super) const HANDSHAKE_FAILURES: [&str; 5] =
    ["closed", "timed_out", "plain_http", "unknown_name", "rejected"];

/// A limit that a client has hit.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum LimitKind {
    /// Open connections of the server (503).
    Connections,
    /// Open connections of a client address (503).
    AddressConnections,
    /// Size of a request's head (431, 414).
    Head,
    /// Time of a request's head (408).
    HeadTime,
    /// Size of a request's body (413).
    Body,
    /// Rate of a request's body (408).
    BodyTime,
    /// Time in which a client reads none of a response (the connection is closed).
    SendTime,
    /// Time of a PROXY protocol header (the connection is closed).
    ProxyHeaderTime,
    /// Open streams of an HTTP/2 connection (REFUSED_STREAM).
    Streams,
    /// Control frames, resets and small frames of an HTTP/2 connection (ENHANCE_YOUR_CALM).
    Frames,
    /// Resets and small frames of an HTTP/3 connection (H3_EXCESSIVE_LOAD).
    Http3Frames,
    /// Rate of requests (429).
    RequestRate,
    /// Requests at a time, and the queue for them (503).
    Concurrency,
}

/// Names of the limits.
pub(super) const LIMITS: [&str; 13] = [
    "connections",
    "connections_per_address",
    "head_size",
    "head_time",
    "body_size",
    "body_time",
    "send_time",
    "proxy_header_time",
    "http2_streams",
    "http2_frames",
    "http3_frames",
    "request_rate",
    "concurrency",
];

/// The counters of one worker. Only its thread writes them.
#[derive(Debug)]
pub struct WorkerMetrics {
    /// Connections that were accepted.
    pub accepted: Counter,
    /// Connections that are open.
    pub open: Counter,
    /// Open connections that perform a TLS handshake.
    pub handshaking: Counter,
    /// Open connections of HTTP/2.
    pub http2: Counter,
    /// Open connections of HTTP/2 with a stream.
    pub http2_active: Counter,
    /// Open connections of HTTP/3.
    pub http3: Counter,
    /// Open connections of HTTP/3 with a stream.
    pub http3_active: Counter,
    /// Open connections of HTTP/1.1.
    pub http1: Counter,
    /// Open connections of HTTP/1.1 that wait for a request.
    pub http1_idle: Counter,
    /// Bytes received from clients, without those of TLS.
    pub received: Counter,
    /// Bytes of the responses of mounts that a reload has removed.
    sent_by_former_routes: Counter,
    /// Handshakes by version, and whether the session was resumed.
    pub handshakes: [[Counter; 2]; TLS_VERSIONS.len()],
    /// Failed handshakes by the reasons in `HANDSHAKE_FAILURES`.
    pub handshake_failures: [Counter; HANDSHAKE_FAILURES.len()],
    /// Counters of the worker's file cache.
    pub files: FileCacheCounters,
    /// Limits that clients have hit.
    pub limits: [Counter; LIMITS.len()],
    /// The store that several servers share.
    pub store: StoreCounters,
    /// Time of its decisions that were in time.
    pub store_latency: Histogram,
    /// Delay of a timer of the event loop.
    pub lag: Histogram,
    /// Requests without a site.
    pub unrouted: Arc<RouteMetrics>,
    /// The hottest paths and the slowest requests in flight, up to a second old.
    published: Mutex<Published>,
    routes: Mutex<Vec<Arc<RouteMetrics>>>,
    upstreams: Mutex<Vec<Arc<UpstreamMetrics>>>,
}

impl Default for WorkerMetrics {
    fn default() -> WorkerMetrics {
        let unrouted = Arc::new(RouteMetrics::new("", ""));
        WorkerMetrics {
            accepted: Counter::default(),
            open: Counter::default(),
            handshaking: Counter::default(),
            http2: Counter::default(),
            http2_active: Counter::default(),
            http3: Counter::default(),
            http3_active: Counter::default(),
            http1: Counter::default(),
            http1_idle: Counter::default(),
            received: Counter::default(),
            sent_by_former_routes: Counter::default(),
            handshakes: Default::default(),
            handshake_failures: Default::default(),
            files: FileCacheCounters::default(),
            limits: Default::default(),
            store: StoreCounters::default(),
            store_latency: Histogram::default(),
            lag: Histogram::default(),
            published: Mutex::default(),
            routes: Mutex::new(vec![Arc::clone(&unrouted)]),
            unrouted,
            upstreams: Mutex::default(),
        }
    }
}

impl WorkerMetrics {
    /// Returns the counters of a mount. A mount of the same site and path has the same counters
    /// under every configuration.
    pub fn route(&self, site: &str, mount: &str) -> Arc<RouteMetrics> {
        let mut routes = lock(&self.routes);
        if let Some(known) = routes.iter().find(|r| r.site == site && r.mount == mount) {
            return Arc::clone(known);
        }
        let route = Arc::new(RouteMetrics::new(site, mount));
        routes.push(Arc::clone(&route));
        route
    }

    /// Returns the counters of an upstream of a mount, likewise.
    pub fn upstream(&self, site: &str, mount: &str, upstream: &str) -> Arc<UpstreamMetrics> {
        let mut upstreams = lock(&self.upstreams);
        let same = |known: &&Arc<UpstreamMetrics>| {
            known.site == site && known.mount == mount && known.upstream == upstream
        };
        if let Some(known) = upstreams.iter().find(same) {
            return Arc::clone(known);
        }
        let new = Arc::new(UpstreamMetrics::new(site, mount, upstream));
        upstreams.push(Arc::clone(&new));
        new
    }

    /// Forgets the mounts and upstreams that nothing uses any more.
    pub fn retain_used(&self) {
        lock(&self.routes).retain(|route| {
            let is_used = Arc::strong_count(route) > 1;
            if !is_used {
                self.sent_by_former_routes.add(route.sent_bytes());
            }
            is_used
        });
        lock(&self.upstreams).retain(|upstream| Arc::strong_count(upstream) > 1);
    }

    /// Returns the bytes of all response bodies, also those of mounts that are gone.
    pub(super) fn sent_bytes(&self) -> u64 {
        let routes = lock(&self.routes);
        let sent: u64 = routes.iter().map(|route| route.sent_bytes()).sum();
        sent + self.sent_by_former_routes.get()
    }

    /// Counts a limit that a client has hit.
    pub fn hit(&self, limit: LimitKind) {
        self.limits[limit as usize].add(1);
    }

    /// Publishes the worker's activity, unless a reader copies the one before just now.
    pub(super) fn publish(&self, activity: Published) {
        if let Ok(mut published) = self.published.try_lock() {
            *published = activity;
        }
    }

    /// Returns the worker's activity.
    pub(super) fn published(&self) -> Published {
        self.published.lock().unwrap_or_else(PoisonError::into_inner).clone()
    }

    pub(super) fn routes(&self) -> Vec<Arc<RouteMetrics>> {
        lock(&self.routes).clone()
    }

    pub(super) fn upstreams(&self) -> Vec<Arc<UpstreamMetrics>> {
        lock(&self.upstreams).clone()
    }
}

/// Locks a list, for a few instructions.
fn lock<T>(list: &Mutex<Vec<T>>) -> MutexGuard<'_, Vec<T>> {
    list.lock().unwrap_or_else(PoisonError::into_inner)
}
