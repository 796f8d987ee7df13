//! A reverse proxy's upstreams: which of them gets a request, and what is known of their health.
//! `peer` is one of them with its idle connections, `errand` one request on its way, `health` asks
//! how they are. Reading the client, and writing to it, is the engine's.

mod errand;
mod gate;
mod health;
mod link;
mod peer;
mod pump;
mod wait;

use std::cell::Cell;
use std::net::IpAddr;
use std::rc::Rc;
use std::sync::Arc;

use xxhash_rust::xxh3::xxh3_64_with_seed;

use crate::cache::Cache;
use crate::config::{self, Balance};
use crate::disk::{Disk, Lane};
use crate::rt;

pub use errand::{Errand, Heard, Phase};
pub use gate::Standing;
pub use link::{Link, Source};
pub use peer::Fault;
pub use wait::{NEVER, Waits};

use gate::Gate;
use peer::Peer;

/// A retry costs this much of the budget; it is what a worker may have saved for ten of them.
const RETRY_COST: u32 = 10;
const BUDGET_MAX: u32 = 10 * RETRY_COST;
/// What each request adds: at most one retry for five requests, in the long run, so that a retry
/// never doubles the load of upstreams that are failing under it.
const REQUEST_WORTH: u32 = 2;

/// Servers behind this one, as one worker knows them.
#[derive(Debug)]
pub struct Proxy {
    config: config::Proxy,
    peers: Vec<Rc<Peer>>,
    cache: Option<Arc<Cache>>,
    /// Whose turn it is.
    turn: Cell<usize>,
    budget: Cell<u32>,
    /// Whether they are there, where that is known from elsewhere.
    gate: Gate,
}

/// What a request is told from others by, where the balance asks for it.
#[derive(Clone, Copy, Debug)]
pub struct Key<'a> {
    /// Who sent it.
    pub client: Option<IpAddr>,
    /// Its path.
    pub path: &'a [u8],
}

impl Proxy {
    /// As configured; names are looked up on the pool. `cache`: where answers are kept.
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
            gate: Gate::default(),
        }
    }

    /// What was configured.
    pub fn config(&self) -> &config::Proxy {
        &self.config
    }

    /// Where answers are kept, if they are.
    pub fn cache(&self) -> Option<&Arc<Cache>> {
        self.cache.as_ref()
    }

    /// Begins to ask the upstreams how they are, if that is configured, for as long as this lives.
    pub fn watch(&self) {
        let Some(path) = &self.config.health else { return };
        for peer in &self.peers {
            let question = health::Question::new(peer, path, self.config.health_interval);
            rt::spawn(question.keep_asking());
        }
    }

    /// The Host of a request without one.
    fn authority(&self) -> &str {
        self.peers.first().map_or("localhost", |peer| &peer.authority)
    }

    /// The upstream for a request, none of those tried before; `None`: there is none that is well.
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
            // Among equals, the one whose turn it is: `min_by_key` keeps the first.
            Balance::LeastConnections => in_turn.min_by_key(|at| self.peers[*at].in_flight.get()),
            Balance::HashPath => self.heaviest(in_turn, key.path),
            Balance::HashAddress => match key.client {
                Some(IpAddr::V4(client)) => self.heaviest(in_turn, &client.octets()),
                Some(IpAddr::V6(client)) => self.heaviest(in_turn, &client.octets()),
                None => in_turn.next(),
            },
        };
        if let Some(at) = picked {
            self.turn.set((at + 1) % count);
        }
        picked
    }

    /// Highest random weight (Thaler and Ravishankar, 1998): without an upstream only its own keys
    /// move, evenly to the others.
    fn heaviest(&self, among: impl Iterator<Item = usize>, key: &[u8]) -> Option<usize> {
        among.max_by_key(|at| xxh3_64_with_seed(key, self.peers[*at].seed))
    }

    fn credit(&self) {
        self.budget.set((self.budget.get() + REQUEST_WORTH).min(BUDGET_MAX));
    }

    /// Whether a retry can be afforded; it is paid for.
    fn afford(&self) -> bool {
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
    fn each_in_turn_but_those_that_fail() {
        let proxy = proxy(3, Balance::RoundRobin);
        let picks = |n| -> Vec<_> { (0..n).map(|_| proxy.pick(key(b"/"), &[], 0)).collect() };
        assert_eq!(picks(4), [Some(0), Some(1), Some(2), Some(0)]);
        fail(&proxy, 1, 0);
        assert_eq!(picks(3), [Some(2), Some(0), Some(2)]);
        let later = peer::DOWN_MS + 1;
        assert_eq!(proxy.pick(key(b"/"), &[0, 2], later), Some(1), "it has its chance again");
        assert_eq!(proxy.pick(key(b"/"), &[0, 1, 2], later), None);
    }

    #[test]
    fn the_only_one_is_asked_however_often_it_failed() {
        let proxy = proxy(1, Balance::RoundRobin);
        fail(&proxy, 0, 0);
        assert_eq!(proxy.pick(key(b"/"), &[], 0), Some(0));
    }

    #[test]
    fn the_least_busy() {
        let proxy = proxy(3, Balance::LeastConnections);
        proxy.peers[0].in_flight.set(2);
        proxy.peers[1].in_flight.set(1);
        proxy.peers[2].in_flight.set(2);
        assert_eq!(proxy.pick(key(b"/"), &[], 0), Some(1));
        assert_eq!(proxy.pick(key(b"/"), &[1], 0), Some(2), "equals in turn");
        assert_eq!(proxy.pick(key(b"/"), &[1], 0), Some(0));
    }

    #[test]
    fn a_key_stays_and_only_the_lost_ones_keys_move() {
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
    fn retries_are_few_where_everything_fails() {
        let proxy = proxy(2, Balance::RoundRobin);
        let retries = (0..1_000).filter(|_| {
            proxy.credit();
            proxy.afford()
        });
        let retries = retries.count();
        assert!((200..=210).contains(&retries), "{retries} retries of 1000 requests");
    }
}
