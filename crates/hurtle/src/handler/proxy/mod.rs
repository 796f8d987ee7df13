//! A reverse proxy: load balancing, forwarding, retries, caching and health. `forward` handles one
//! request up to the response's head, `response` the head, `relay` yields the frames of the body,
//! and `tunnel_end` those of another protocol. `cache` handles requests to a mount with a cache.
//! `balance` chooses among upstreams, `queue` waits for one with room, `peer` is one upstream with
//! its idle connections, `multiplexer` its HTTP/2 connections, `standing` its failures,
//! `upstream_request` one request to it, `attempt_outcome` how an attempt ended, and `health` makes
//! health checks.

mod addresses;
mod attempt_log;
mod attempt_outcome;
mod balance;
mod body_encoder;
pub(crate) mod cache;
mod drained;
mod forward;
mod forward_auth;
mod framing;
mod gate;
mod handshake;
mod health;
mod hints;
mod link;
mod multiplexer;
mod path;
mod peer;
mod phase;
mod place;
mod queue;
mod relay;
mod request_body;
mod request_edits;
mod request_sender;
mod response;
mod retry;
mod standing;
mod translate;
mod tunnel_end;
mod upstream_body;
mod upstream_request;
mod web_call;

use std::cell::Cell;
use std::rc::Rc;
use std::sync::Arc;

use crate::cache::Cache;
use crate::config;
use crate::disk::{Disk, Lane};
use crate::metrics::WorkerMetrics;
use crate::rt;
use crate::tls::UpstreamConfig;

pub(crate) use balance::Key;
pub(crate) use drained::{UnknownUpstreamError, set_drained};
pub(crate) use forward_auth::ForwardAuth;
pub(crate) use gate::Availability;
pub(crate) use link::{Channel, RawHead, Source};
pub(crate) use peer::UpstreamError;
pub(crate) use phase::Phase;
pub(crate) use response::{UpstreamResponse, UpstreamTunnel};
pub(crate) use tunnel_end::TunnelEnd;
pub(crate) use upstream_body::{BodyCoding, RelayEnd, UpstreamBody};
pub(crate) use upstream_request::{ListenOutcome, UpstreamRequest};

use super::body_buffer::BodyBuffer;
use super::wait;
use balance::Sticky;
use gate::AvailabilityGate;
use peer::Peer;

/// Cost of a retry. The budget of a worker holds at most ten.
const RETRY_COST: u32 = 10;
const BUDGET_MAX: u32 = 10 * RETRY_COST;
/// Credit of each request: in the long run at most one retry for five requests, so that retries
/// never double the load of failing upstreams.
const REQUEST_WORTH: u32 = 2;

/// A group of upstreams, as seen by one worker.
#[derive(Debug)]
pub(crate) struct Proxy {
    config: config::Proxy,
    peers: Vec<Rc<Peer>>,
    /// Configuration of TLS to upstreams; `None`: none uses it.
    tls: Option<Arc<UpstreamConfig>>,
    cache: Option<Arc<Cache>>,
    /// Takes the bodies of requests.
    bodies: BodyBuffer,
    /// The authorities that an upstream may give itself.
    names: Vec<translate::Name>,
    /// Values of the cookie that names upstreams; `None`: no cookie does.
    sticky: Option<Sticky>,
    /// `true`: all weights are equal at all times.
    is_uniform: bool,
    /// `true`: an upstream has a limit of requests at once.
    is_limited: bool,
    /// `true`: requests to an upstream use HTTP/2.
    has_http2: bool,
    /// `true` if an upstream is reached over HTTP/1.1.
    has_http1: bool,
    /// Time of a slow start, in milliseconds; 0: there is none.
    slow_ms: u64,
    /// The next upstream in turn.
    turn: Cell<usize>,
    budget: Cell<u32>,
    /// Requests that wait for an upstream that accepts connections.
    held: Cell<usize>,
    /// The availability of an application that this server starts.
    gate: AvailabilityGate,
    /// `true` once health checks and the look-ups of names have begun.
    is_watched: Cell<bool>,
}

impl Proxy {
    /// A proxy as configured; names are resolved on a disk thread. `tls` is the configuration for
    /// `https://` upstreams, and `cache` stores responses.
    pub(crate) fn new(
        config: config::Proxy,
        disk: &Disk,
        lane: Lane,
        tls: Option<Arc<UpstreamConfig>>,
        cache: Option<Arc<Cache>>,
    ) -> Proxy {
        let version = config.send_proxy_protocol.map(|version| version.0);
        let peer = |server| Rc::new(Peer::new(server, version, tls.as_ref(), disk.clone(), lane));
        let balancing = &config.balancing;
        let sticky = balancing.cookie.as_ref();
        let slow_ms = balancing.slow_start.map_or(0, |time| time.as_millis() as u64);
        let mut weights = config.upstreams.windows(2);
        Proxy {
            bodies: BodyBuffer::new(disk, &config.buffer),
            names: translate::names(&config),
            sticky: sticky.map(|cookie| Sticky::new(cookie, &config.upstreams)),
            is_uniform: slow_ms == 0 && weights.all(|two| two[0].weight == two[1].weight),
            is_limited: config.queue.is_some(),
            has_http2: config.upstreams.iter().any(|server| server.http2),
            has_http1: config.upstreams.iter().any(|server| !server.http2),
            slow_ms,
            peers: config.upstreams.iter().cloned().map(peer).collect(),
            config,
            tls,
            cache,
            turn: Cell::new(0),
            budget: Cell::new(BUDGET_MAX),
            held: Cell::new(0),
            gate: AvailabilityGate::default(),
            is_watched: Cell::new(false),
        }
    }

    /// The proxy of the mount that has this name in the whole process: the bound of its kept bodies
    /// is the mount's.
    #[must_use]
    pub(crate) fn of_mount(self, mount: &str) -> Proxy {
        let bodies = self.bodies.clone().of_mount(&self.config.buffer, mount);
        Proxy { bodies, ..self }
    }

    /// Returns the configuration of the proxy.
    pub(crate) fn config(&self) -> &config::Proxy {
        &self.config
    }

    /// Returns whether this is the proxy of a configuration, with this configuration of TLS.
    pub(crate) fn is_as(&self, config: &config::Proxy, tls: Option<&Arc<UpstreamConfig>>) -> bool {
        self.config == *config && self.uses(tls)
    }

    /// Returns whether this is the configuration of TLS to the upstreams: it is another one after
    /// its files have changed.
    pub(crate) fn uses(&self, tls: Option<&Arc<UpstreamConfig>>) -> bool {
        self.tls.as_ref().map(Arc::as_ptr) == tls.map(Arc::as_ptr)
    }

    /// Returns the response cache, if any.
    pub(crate) fn cache(&self) -> Option<&Arc<Cache>> {
        self.cache.as_ref()
    }

    /// Starts to resolve names periodically, and the configured health checks, once; both run as
    /// long as this lives.
    pub(crate) fn watch(&self) {
        if self.is_watched.replace(true) {
            return;
        }
        let is_named = |peer: &&Rc<Peer>| matches!(peer.upstream(), config::Upstream::Name(..));
        for peer in self.peers.iter().filter(is_named) {
            rt::spawn(addresses::keep_resolved(Rc::downgrade(peer), self.config.resolve));
        }
        let Some(check) = &self.config.health else { return };
        for peer in &self.peers {
            let checker = health::HealthChecker::new(peer, check);
            rt::spawn(checker.run());
        }
    }

    /// Counts requests to its upstreams under this site and mount, and a name in place of their
    /// addresses, if there is one.
    pub(crate) fn count_in(
        &self,
        metrics: &WorkerMetrics,
        site: &str,
        mount: &str,
        name: Option<&str>,
    ) {
        for peer in &self.peers {
            let name = name.map_or_else(|| peer.to_string(), str::to_owned);
            peer.count_in(|| metrics.upstream(site, mount, &name));
        }
    }

    /// Publishes the state of its upstreams.
    pub(crate) fn publish(&self, now_ms: u64) {
        let (alone, is_open) = (self.peers.len() == 1, self.is_open());
        self.peers.iter().for_each(|peer| peer.publish(is_open, alone, now_ms));
    }

    /// Returns the upstream of this number.
    fn peer(&self, number: Option<usize>) -> Option<&Rc<Peer>> {
        self.peers.get(number?)
    }

    /// The Host field of a request without one.
    fn authority(&self) -> &str {
        self.peers.first().map_or("localhost", |peer| &peer.authority)
    }

    fn credit_request(&self) {
        self.budget.set((self.budget.get() + REQUEST_WORTH).min(BUDGET_MAX));
    }

    /// Charges the budget for a retry. Returns `false` if it is exhausted.
    fn charge_retry(&self) -> bool {
        let left = self.budget.get().checked_sub(RETRY_COST);
        self.budget.set(left.unwrap_or(self.budget.get()));
        left.is_some()
    }
}

#[cfg(test)]
mod tests {
    use std::num::NonZeroUsize;

    use super::*;
    use crate::config::Upstream;

    #[test]
    fn the_retry_budget_limits_retries() {
        let upstream = Upstream::Address(([127, 0, 0, 1], 1).into());
        let disk = Disk::start(NonZeroUsize::MIN).unwrap();
        let lane = disk.lane();
        let config = config::Proxy::new(vec![upstream.into()]);
        let proxy = Proxy::new(config, &disk, lane, None, None);
        let retries = (0..1_000).filter(|_| {
            proxy.credit_request();
            proxy.charge_retry()
        });
        let retries = retries.count();
        assert!((200..=210).contains(&retries), "{retries} retries of 1000 requests");
    }
}
