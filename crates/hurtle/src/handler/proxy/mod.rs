//! A reverse proxy: load balancing, forwarding, retries, caching and health. `forward` handles one
//! request up to the response's head, `response` the head, and `cache` requests to a mount with a
//! cache. `peer` is one upstream with its idle connections, `upstream_request` one request to it, and
//! `health` makes health checks.

pub mod cache;
mod exchange;
mod forward;
mod framing;
mod gate;
mod health;
mod hints;
mod link;
mod peer;
mod request_sender;
mod response;
mod upstream_request;

use std::cell::Cell;
use std::net::IpAddr;
use std::rc::Rc;
use std::sync::Arc;

use xxhash_rust::xxh3::xxh3_64_with_seed;

use crate::cache::Cache;
use crate::config::{self, Balance};
use crate::disk::{Disk, Lane};
use crate::metrics::WorkerMetrics;
use crate::rt;

pub use exchange::{UpstreamExchange, UpstreamResponse, UpstreamTunnel};
pub use forward::log_failure;
pub use framing::Framing;
pub use gate::Availability;
pub use link::{Link, Source};
pub use peer::UpstreamError;
pub use upstream_request::{ListenOutcome, Phase, UpstreamLog, UpstreamRequest};

use super::wait;
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
pub struct Proxy {
    config: config::Proxy,
    peers: Vec<Rc<Peer>>,
    cache: Option<Arc<Cache>>,
    /// The next upstream in turn.
    turn: Cell<usize>,
    budget: Cell<u32>,
    /// The availability of an application that this server starts.
    gate: AvailabilityGate,
    /// `true` if health checks run.
    is_watched: Cell<bool>,
}

/// Properties of a request that a balance method may use.
#[derive(Clone, Copy, Debug)]
pub struct Key<'a> {
    /// The client's address.
    pub client: Option<IpAddr>,
    /// The request's path.
    pub path: &'a [u8],
}

impl Proxy {
    /// A proxy as configured; names are resolved on a disk thread. `cache` stores responses.
    pub fn new(
        config: config::Proxy,
        (disk, lane): (&Disk, Lane),
        cache: Option<Arc<Cache>>,
    ) -> Proxy {
        let peer = |upstream| Rc::new(Peer::new(upstream, disk.clone(), lane));
        Proxy {
            peers: config.upstreams.iter().cloned().map(peer).collect(),
            config,
            cache,
            turn: Cell::new(0),
            budget: Cell::new(BUDGET_MAX),
            gate: AvailabilityGate::default(),
            is_watched: Cell::new(false),
        }
    }

    /// Returns the configuration.
    pub fn config(&self) -> &config::Proxy {
        &self.config
    }

    /// Returns the response cache, if any.
    pub fn cache(&self) -> Option<&Arc<Cache>> {
        self.cache.as_ref()
    }

    /// Starts the configured health checks, once; they run as long as this lives.
    pub fn watch(&self) {
        let Some(check) = &self.config.health else { return };
        if self.is_watched.replace(true) {
            return;
        }
        for peer in &self.peers {
            let checker = health::HealthChecker::new(peer, &check.path, check.interval);
            rt::spawn(checker.run());
        }
    }

    /// Counts requests to its upstreams under this site and mount.
    pub fn count_in(&self, metrics: &WorkerMetrics, site: &str, mount: &str) {
        for peer in &self.peers {
            peer.count_in(|| metrics.upstream(site, mount, &peer.to_string()));
        }
    }

    /// Publishes the state of its upstreams.
    pub fn publish(&self, now_ms: u64) {
        let alone = self.peers.len() == 1;
        self.peers.iter().for_each(|peer| peer.publish(alone, now_ms));
    }

    /// The Host field of a request without one.
    fn authority(&self) -> &str {
        self.peers.first().map_or("localhost", |peer| &peer.authority)
    }

    /// Chooses an upstream that was not tried before; `None`: no upstream is available.
    fn pick(&self, key: Key<'_>, tried: &[usize], now_ms: u64) -> Option<usize> {
        if let [only] = self.peers.as_slice() {
            return (tried.is_empty() && only.is_up(true, now_ms)).then_some(0);
        }
        let fit = |at: &usize| !tried.contains(at) && self.peers[*at].is_up(false, now_ms);
        let count = self.peers.len();
        let turn = self.turn.get();
        let mut in_turn = (0..count).map(|step| (turn + step) % count).filter(fit);
        let picked = match self.config.balance {
            Balance::RoundRobin => in_turn.next(),
            // Equal upstreams take turns: `min_by_key` returns the first.
            Balance::LeastConnections => in_turn.min_by_key(|at| self.peers[*at].in_flight.get()),
            Balance::HashPath => self.highest_weight(in_turn, key.path),
            Balance::HashAddress => match key.client {
                Some(IpAddr::V4(client)) => self.highest_weight(in_turn, &client.octets()),
                Some(IpAddr::V6(client)) => self.highest_weight(in_turn, &client.octets()),
                None => in_turn.next(),
            },
        };
        if let Some(at) = picked {
            self.turn.set((at + 1) % count);
        }
        picked
    }

    /// Rendezvous hashing (highest random weight; Thaler and Ravishankar, 1998). If an upstream
    /// fails, only its keys move, and they spread evenly over the remaining upstreams.
    fn highest_weight(&self, among: impl Iterator<Item = usize>, key: &[u8]) -> Option<usize> {
        among.max_by_key(|at| xxh3_64_with_seed(key, self.peers[*at].seed))
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

    fn proxy(count: u16, balance: Balance) -> Proxy {
        let upstream = |port| Upstream::Address(([127, 0, 0, 1], port).into());
        let upstreams = (1..=count).map(upstream).collect();
        let config = config::Proxy { balance, ..config::Proxy::new(upstreams) };
        let disk = Disk::start(NonZeroUsize::MIN).unwrap();
        let lane = disk.lane();
        Proxy::new(config, (&disk, lane), None)
    }

    fn key(path: &[u8]) -> Key<'_> {
        Key { client: Some([192, 0, 2, path.len() as u8].into()), path }
    }

    fn fail(proxy: &Proxy, at: usize, now_ms: u64) {
        for _ in 0..peer::FAILS_MAX {
            proxy.peers[at].failed(now_ms);
        }
    }

    #[test]
    fn round_robin_skips_failed_upstreams() {
        let proxy = proxy(3, Balance::RoundRobin);
        let picks = |n| -> Vec<_> { (0..n).map(|_| proxy.pick(key(b"/"), &[], 0)).collect() };
        assert_eq!(picks(4), [Some(0), Some(1), Some(2), Some(0)]);
        fail(&proxy, 1, 0);
        assert_eq!(picks(3), [Some(2), Some(0), Some(2)]);
        let later = peer::DOWN_MS + 1;
        assert_eq!(
            proxy.pick(key(b"/"), &[0, 2], later),
            Some(1),
            "it is tried again after the pause"
        );
        assert_eq!(proxy.pick(key(b"/"), &[0, 1, 2], later), None);
    }

    #[test]
    fn the_only_upstream_gets_requests_despite_failures() {
        let proxy = proxy(1, Balance::RoundRobin);
        fail(&proxy, 0, 0);
        assert_eq!(proxy.pick(key(b"/"), &[], 0), Some(0));
    }

    #[test]
    fn least_connections_picks_the_least_busy_upstream() {
        let proxy = proxy(3, Balance::LeastConnections);
        proxy.peers[0].in_flight.set(2);
        proxy.peers[1].in_flight.set(1);
        proxy.peers[2].in_flight.set(2);
        assert_eq!(proxy.pick(key(b"/"), &[], 0), Some(1));
        assert_eq!(proxy.pick(key(b"/"), &[1], 0), Some(2), "equals in turn");
        assert_eq!(proxy.pick(key(b"/"), &[1], 0), Some(0));
    }

    #[test]
    fn a_hash_moves_only_the_keys_of_a_failed_upstream() {
        for balance in [Balance::HashPath, Balance::HashAddress] {
            let proxy = proxy(4, balance);
            let paths: Vec<Vec<u8>> = (1..200).map(|n| vec![b'a'; n]).collect();
            let picks = |now_ms| -> Vec<_> {
                paths.iter().map(|path| proxy.pick(key(path), &[], now_ms).unwrap()).collect()
            };
            let before = picks(0);
            assert_eq!(before, picks(0), "the same each time");
            for at in 0..4 {
                let share = before.iter().filter(|pick| **pick == at).count();
                assert!((20..90).contains(&share), "{balance:?}: {at} has {share} of 199");
            }
            fail(&proxy, 2, 0);
            for (before, after) in before.iter().zip(picks(0)) {
                assert!(*before == 2 || *before == after, "{before} became {after}");
            }
        }
    }

    #[test]
    fn the_retry_budget_limits_retries() {
        let proxy = proxy(2, Balance::RoundRobin);
        let retries = (0..1_000).filter(|_| {
            proxy.credit_request();
            proxy.charge_retry()
        });
        let retries = retries.count();
        assert!((200..=210).contains(&retries), "{retries} retries of 1000 requests");
    }
}
