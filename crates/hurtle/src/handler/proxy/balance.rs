//! The choice of an upstream for a request.

use std::net::IpAddr;
use std::sync::OnceLock;

use aws_lc_rs::hmac;
use xxhash_rust::xxh3::{xxh3_64, xxh3_64_with_seed};

use super::super::request::RequestContext;
use super::Proxy;
use super::standing::WHOLE;
use crate::clock;
use crate::config::{Balance, StickyCookie, UpstreamServer};

/// Bytes of a cookie's value: enough that the values of two upstreams differ.
const TOKEN_BYTES: usize = 8;

/// The properties of a request that decide on its upstream.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(crate) enum Key {
    /// Any upstream may be chosen.
    Any,
    /// The hash of a property.
    Hash(u64),
    /// The number of the upstream that the client's cookie names; `None`: it names none.
    Sticky(Option<usize>),
}

/// Names upstreams to clients without their addresses.
#[derive(Debug)]
pub(super) struct Sticky {
    /// Name of the cookie.
    name: String,
    /// Its value for each upstream.
    tokens: Vec<String>,
}

impl Sticky {
    pub(super) fn new(cookie: &StickyCookie, servers: &[UpstreamServer]) -> Sticky {
        let key = match &cookie.secret {
            Some(secret) => hmac::Key::new(hmac::HMAC_SHA256, secret.as_bytes()),
            None => hmac::Key::new(hmac::HMAC_SHA256, run_secret()),
        };
        let token = |server: &UpstreamServer| {
            let tag = hmac::sign(&key, server.to_string().as_bytes());
            tag.as_ref().iter().take(TOKEN_BYTES).map(|byte| format!("{byte:02x}")).collect()
        };
        Sticky { name: cookie.name.clone(), tokens: servers.iter().map(token).collect() }
    }

    /// Returns the number of the upstream that a Cookie field names (RFC 6265 section 4.2.1).
    fn find(&self, field: &[u8]) -> Option<usize> {
        let mut pairs = field.split(|byte| *byte == b';').map(<[u8]>::trim_ascii);
        pairs.find_map(|pair| {
            let value = pair.strip_prefix(self.name.as_bytes())?.strip_prefix(b"=")?;
            self.tokens.iter().position(|token| token.as_bytes() == value)
        })
    }

    /// Returns the value of Set-Cookie for an upstream (RFC 6265 section 4.1).
    fn set_cookie(&self, number: usize, is_tls: bool) -> Option<String> {
        let (name, token) = (&self.name, self.tokens.get(number)?);
        let secure = if is_tls { "; Secure" } else { "" };
        Some(format!("{name}={token}; Path=/; HttpOnly; SameSite=Lax{secure}"))
    }
}

/// The random key of this run of the server, for cookies without a secret.
fn run_secret() -> &'static [u8] {
    static SECRET: OnceLock<[u8; 32]> = OnceLock::new();
    SECRET.get_or_init(|| {
        let mut bytes = [0; 32];
        // A system without randomness could not start TLS either; then the values can be guessed,
        // which discloses addresses but nothing else.
        let _ = getrandom::fill(&mut bytes);
        bytes
    })
}

impl Proxy {
    /// Returns the properties of a request that decide on its upstream.
    pub(super) fn key(&self, request: &RequestContext<'_>) -> Key {
        let balancing = &self.config().balancing;
        match balancing.method {
            Balance::RoundRobin | Balance::LeastConnections => Key::Any,
            Balance::HashPath => Key::Hash(xxh3_64(request.matched.path)),
            Balance::HashAddress => match request.client.address {
                Some(IpAddr::V4(client)) => Key::Hash(xxh3_64(&client.octets())),
                Some(IpAddr::V6(client)) => Key::Hash(xxh3_64(&client.octets())),
                None => Key::Any,
            },
            Balance::HashHeader => {
                let name = balancing.hash_header.as_deref().unwrap_or_default();
                let value = request.head.values(name.as_bytes()).next();
                value.map_or(Key::Any, |value| Key::Hash(xxh3_64(&value)))
            }
            Balance::Cookie => Key::Sticky(self.sticky.as_ref().and_then(|sticky| {
                let mut fields = request.head.fields.iter();
                fields.find_map(|(name, value)| match name.eq_ignore_ascii_case(b"cookie") {
                    true => sticky.find(value),
                    false => None,
                })
            })),
        }
    }

    /// Returns the value of Set-Cookie for the response of an upstream, if the client's cookie does
    /// not name that upstream.
    pub(super) fn sticky_cookie(
        &self,
        request: &RequestContext<'_>,
        number: Option<usize>,
    ) -> Option<String> {
        let sticky = self.sticky.as_ref()?;
        let number = number.filter(|number| self.key(request) != Key::Sticky(Some(*number)))?;
        sticky.set_cookie(number, request.client.is_tls)
    }

    /// Chooses an upstream that was not tried before; `None`: no upstream is available. Backups
    /// follow after all others, and ejected upstreams after those.
    pub(super) fn pick(&self, key: Key, tried: &[usize], now_ms: u64) -> Option<usize> {
        if let [only] = self.peers.as_slice() {
            return (tried.is_empty() && only.is_available()).then_some(0);
        }
        let is_ejected = |at: usize| self.peers[at].standing.is_ejected(now_ms);
        if let Key::Sticky(Some(at)) = key
            && !tried.contains(&at)
            && self.peers[at].is_available()
            && !is_ejected(at)
        {
            return Some(at);
        }
        let tiers = [(false, false), (true, false), (false, true), (true, true)];
        tiers.into_iter().find_map(|(backup, ejected)| {
            self.pick_among(key, now_ms, |at| {
                !tried.contains(&at)
                    && self.peers[at].is_available()
                    && self.config.upstreams[at].backup == backup
                    && is_ejected(at) == ejected
            })
        })
    }

    /// Returns whether an upstream besides `own` and those that were tried may get a request now.
    pub(super) fn has_other(&self, own: usize, tried: &[usize]) -> bool {
        let now_ms = clock::now_ms();
        self.peers.iter().enumerate().any(|(at, peer)| {
            at != own
                && !tried.contains(&at)
                && peer.is_available()
                && !peer.standing.is_ejected(now_ms)
        })
    }

    /// Chooses among the upstreams that `fit`, by the method.
    fn pick_among(&self, key: Key, now_ms: u64, fit: impl Fn(usize) -> bool) -> Option<usize> {
        let count = self.peers.len();
        let turn = self.turn.get();
        let in_turn = || (0..count).map(|step| (turn + step) % count).filter(|at| fit(*at));
        let load = |at: usize| self.peers[at].in_flight.get() as u64;
        let picked = match (self.config.balancing.method, key) {
            (_, Key::Hash(hash)) => self.highest_weight(in_turn(), hash, now_ms),
            (Balance::LeastConnections, _) if self.is_uniform => {
                // Equal upstreams take turns: `min_by_key` returns the first.
                in_turn().min_by_key(|at| load(*at))
            }
            (Balance::LeastConnections, _) => {
                let weight = |at: usize| self.weight(at, now_ms);
                let less = |a: usize, b: usize| (load(a) * weight(b)).cmp(&(load(b) * weight(a)));
                let least = in_turn().min_by(|a, b| less(*a, *b))?;
                let equals = in_turn().filter(|at| less(*at, least).is_eq());
                self.in_proportion(equals, now_ms)
            }
            _ if self.is_uniform => in_turn().next(),
            _ => self.in_proportion(in_turn(), now_ms),
        };
        if let Some(at) = picked {
            self.turn.set((at + 1) % count);
        }
        picked
    }

    /// An upstream's weight in thousandths: less during its slow start.
    fn weight(&self, at: usize, now_ms: u64) -> u64 {
        let weight = u64::from(self.config.upstreams[at].weight);
        match self.slow_ms {
            0 => weight * WHOLE,
            slow_ms => weight * self.peers[at].standing.share(slow_ms, now_ms),
        }
    }

    /// Smooth weighted round robin (nginx): each upstream gains its weight, and the one with the
    /// most is chosen and pays for all.
    fn in_proportion(&self, among: impl Iterator<Item = usize>, now_ms: u64) -> Option<usize> {
        let (mut total, mut best) = (0, None);
        for at in among {
            let weight = self.weight(at, now_ms) as i64;
            let credit = self.peers[at].credit.get().saturating_add(weight);
            self.peers[at].credit.set(credit);
            total += weight;
            if best.is_none_or(|best: usize| credit > self.peers[best].credit.get()) {
                best = Some(at);
            }
        }
        let credit = &self.peers[best?].credit;
        credit.set(credit.get().saturating_sub(total));
        best
    }

    /// Weighted rendezvous hashing (highest random weight; Thaler and Ravishankar, 1998). If an
    /// upstream fails, only its keys move, and they spread over the remaining upstreams by weight.
    fn highest_weight(
        &self,
        among: impl Iterator<Item = usize>,
        hash: u64,
        now_ms: u64,
    ) -> Option<usize> {
        let key = hash.to_le_bytes();
        let random = |at: usize| xxh3_64_with_seed(&key, self.peers[at].seed);
        if self.is_uniform {
            return among.max_by_key(|at| random(*at));
        }
        let score = |at: usize| {
            // Between 0 and 1, without the ends; 53 bits are exact.
            let unit = ((random(at) >> 11) as f64 + 0.5) / (1_u64 << 53) as f64;
            -(self.weight(at, now_ms) as f64) / unit.ln()
        };
        among.map(|at| (at, score(at))).max_by(|a, b| a.1.total_cmp(&b.1)).map(|(at, _)| at)
    }

    /// Ejects an upstream for a reason, unless too many are ejected or no other would be left.
    pub(super) fn eject(&self, number: usize, reason: &str, now_ms: u64) {
        let ejection = &self.config.balancing.ejection;
        let peer = &self.peers[number];
        if peer.standing.is_ejected(now_ms) {
            return;
        }
        let is_ejected = |at: &usize| self.peers[*at].standing.is_ejected(now_ms);
        let others = || (0..self.peers.len()).filter(|at| *at != number);
        let ejected = others().filter(is_ejected).count() + 1;
        let is_allowed = ejected * 100 <= ejection.max_percent as usize * self.peers.len();
        if is_allowed && others().any(|at| self.peers[at].is_available() && !is_ejected(&at)) {
            let time_ms = peer.standing.eject(ejection, now_ms).as_millis();
            tracing::warn!("upstream {peer} gets no requests for {time_ms} ms: {reason}");
        }
    }
}

#[cfg(test)]
mod tests {
    use std::num::NonZeroUsize;
    use std::time::Duration;

    use proptest::prelude::*;

    use super::*;
    use crate::config::{self, Balancing, Ejection, Upstream};
    use crate::disk::Disk;

    /// A time after the start of the clock, in milliseconds.
    const NOW_MS: u64 = 1_000_000;

    /// A proxy with upstreams of these weights; a negative one is a backup's.
    fn proxy(weights: &[i32], balancing: Balancing) -> Proxy {
        let server = |(at, weight): (usize, &i32)| UpstreamServer {
            weight: weight.unsigned_abs(),
            backup: *weight < 0,
            ..Upstream::Address(([127, 0, 0, 1], 1 + at as u16).into()).into()
        };
        let upstreams = weights.iter().enumerate().map(server).collect();
        let config = config::Proxy { balancing, ..config::Proxy::new(upstreams) };
        let disk = Disk::start(NonZeroUsize::MIN).unwrap();
        let lane = disk.lane();
        Proxy::new(config, &disk, lane, None, None)
    }

    fn by(method: Balance) -> Balancing {
        Balancing { method, ..Balancing::default() }
    }

    /// Records a failure, as a request does.
    fn fail(proxy: &Proxy, at: usize, now_ms: u64) {
        let ejection = &proxy.config.balancing.ejection;
        if let Some(reason) = proxy.peers[at].standing.failed(ejection, now_ms) {
            proxy.eject(at, &reason, now_ms);
        }
    }

    fn eject(proxy: &Proxy, at: usize, now_ms: u64) {
        (0..3).for_each(|_| fail(proxy, at, now_ms));
        assert!(proxy.peers[at].standing.is_ejected(now_ms));
    }

    fn picks(proxy: &Proxy, n: usize, now_ms: u64) -> Vec<usize> {
        (0..n).map(|_| proxy.pick(Key::Any, &[], now_ms).unwrap()).collect()
    }

    fn shares(picks: &[usize], count: usize) -> Vec<usize> {
        (0..count).map(|at| picks.iter().filter(|pick| **pick == at).count()).collect()
    }

    fn hash(n: u64) -> Key {
        Key::Hash(xxh3_64(&n.to_le_bytes()))
    }

    #[test]
    fn round_robin_skips_ejected_upstreams() {
        let proxy = proxy(&[1, 1, 1], Balancing::default());
        assert_eq!(picks(&proxy, 4, NOW_MS), [0, 1, 2, 0]);
        eject(&proxy, 1, NOW_MS);
        assert_eq!(picks(&proxy, 3, NOW_MS), [2, 0, 2]);
        let later = NOW_MS + 10_001;
        assert_eq!(proxy.pick(Key::Any, &[0, 2], later), Some(1), "the ejection is over");
        assert_eq!(proxy.pick(Key::Any, &[0, 1, 2], later), None);
    }

    #[test]
    fn the_only_upstream_gets_requests_despite_failures() {
        let proxy = proxy(&[1], Balancing::default());
        (0..10).for_each(|_| fail(&proxy, 0, NOW_MS));
        assert_eq!(proxy.pick(Key::Any, &[], NOW_MS), Some(0));
        assert!(!proxy.peers[0].standing.is_ejected(NOW_MS));
    }

    #[test]
    fn least_connections_picks_the_least_busy_upstream() {
        let even = proxy(&[1, 1, 1], by(Balance::LeastConnections));
        for (at, load) in [2, 1, 2].into_iter().enumerate() {
            even.peers[at].in_flight.set(load);
        }
        assert_eq!(even.pick(Key::Any, &[], NOW_MS), Some(1));
        assert_eq!(even.pick(Key::Any, &[1], NOW_MS), Some(2), "equals in turn");
        assert_eq!(even.pick(Key::Any, &[1], NOW_MS), Some(0));
        let weighted = proxy(&[1, 3], by(Balance::LeastConnections));
        assert_eq!(shares(&picks(&weighted, 8, NOW_MS), 2), [2, 6], "equals in proportion");
        for (loads, expected) in [([1, 2], 1), ([1, 4], 0), ([0, 1], 0)] {
            (0..2).for_each(|at| weighted.peers[at].in_flight.set(loads[at]));
            assert_eq!(weighted.pick(Key::Any, &[], NOW_MS), Some(expected), "{loads:?}");
        }
    }

    #[test]
    fn backups_are_used_only_while_all_others_are_down() {
        let proxy = proxy(&[1, 1, -1], Balancing::default());
        assert_eq!(picks(&proxy, 4, NOW_MS), [0, 1, 0, 1]);
        assert_eq!(proxy.pick(Key::Any, &[0, 1], NOW_MS), Some(2), "the others were tried");
        eject(&proxy, 0, NOW_MS);
        assert_eq!(picks(&proxy, 2, NOW_MS), [1, 1]);
        proxy.peers[1].set_healthy(false, "a test");
        assert_eq!(picks(&proxy, 2, NOW_MS), [2, 2]);
        proxy.peers[2].set_healthy(false, "a test");
        assert_eq!(picks(&proxy, 1, NOW_MS), [0], "rather an ejected one than none");
        proxy.peers[0].set_healthy(false, "a test");
        assert_eq!(proxy.pick(Key::Any, &[], NOW_MS), None);
    }

    #[test]
    fn ejections_double_until_the_upstream_has_served_as_long() {
        let proxy = proxy(&[1, 1], Balancing::default());
        let standing = &proxy.peers[0].standing;
        eject(&proxy, 0, NOW_MS);
        let mut now_ms = NOW_MS;
        for seconds in [10, 20, 40, 60, 60] {
            assert!(standing.is_ejected(now_ms + seconds * 1_000 - 1), "{seconds} s");
            now_ms += seconds * 1_000;
            assert!(!standing.is_ejected(now_ms), "{seconds} s");
            fail(&proxy, 0, now_ms);
        }
        standing.succeeded();
        eject(&proxy, 0, now_ms + 120_000);
        assert!(!standing.is_ejected(now_ms + 130_000), "as the first one");
        standing.reset();
        assert_eq!(standing.share(1_000, now_ms), WHOLE);
    }

    #[test]
    fn a_share_of_errors_ejects() {
        let ejection = Ejection {
            failures: 0,
            errors_percent: Some(50),
            min_requests: 10,
            ..Ejection::default()
        };
        let proxy = proxy(&[1, 1], Balancing { ejection, ..Balancing::default() });
        let ejection = &proxy.config.balancing.ejection;
        let count =
            |is_error, now_ms| proxy.peers[0].standing.count(is_error, ejection, now_ms).is_some();
        assert!((0..9).all(|_| !count(true, NOW_MS)), "too few requests");
        assert!(count(true, NOW_MS));
        let later = NOW_MS + 10_000;
        assert!((0..30).all(|n| !count(n % 3 == 0, later)), "a third, in another window");
        assert!((0..20).any(|_| count(true, later)));
    }

    #[test]
    fn at_most_the_given_share_is_ejected() {
        let ejection = Ejection { max_percent: 50, ..Ejection::default() };
        let proxy = proxy(&[1; 5], Balancing { ejection, ..Balancing::default() });
        for at in 0..5 {
            (0..9).for_each(|_| fail(&proxy, at, NOW_MS));
        }
        assert_eq!(shares(&picks(&proxy, 9, NOW_MS), 5), [0, 0, 3, 3, 3]);
    }

    #[test]
    fn slow_start_grows_the_share() {
        let slow_start = Some(Duration::from_secs(100));
        for method in [Balance::RoundRobin, Balance::LeastConnections, Balance::HashPath] {
            let proxy = proxy(&[1, 1], Balancing { slow_start, ..by(method) });
            eject(&proxy, 0, NOW_MS);
            let mut before = 0;
            for (seconds, expected) in [(10, 90), (60, 333), (120, 500)] {
                let at_ms = NOW_MS + seconds * 1_000;
                let pick = |n| match method {
                    Balance::HashPath => proxy.pick(hash(n), &[], at_ms).unwrap(),
                    _ => proxy.pick(Key::Any, &[], at_ms).unwrap(),
                };
                let share = (0..1_000).filter(|n| pick(*n) == 0).count();
                assert!(share.abs_diff(expected) < 60, "{method:?}, {seconds} s: {share}");
                assert!(share > before, "{method:?}, {seconds} s: {share}");
                before = share;
            }
        }
    }

    #[test]
    fn a_cookie_leads_to_its_upstream_without_naming_it() {
        let cookie = |secret: Option<&str>| Balancing {
            cookie: Some(StickyCookie { name: "s".into(), secret: secret.map(str::to_owned) }),
            ..by(Balance::Cookie)
        };
        let secret = Some("0123456789abcdef");
        let proxies = [secret, secret, None].map(|secret| proxy(&[1, 1, 1], cookie(secret)));
        let sticky = proxies.each_ref().map(|proxy| proxy.sticky.as_ref().unwrap());
        let set = sticky[0].set_cookie(2, true).unwrap();
        let (pair, rest) = set.split_once("; ").unwrap();
        assert_eq!(rest, "Path=/; HttpOnly; SameSite=Lax; Secure");
        assert_eq!(pair.len(), 2 + 2 * TOKEN_BYTES);
        for (sentence, field, expected) in [
            ("alone", pair.to_owned(), Some(2)),
            ("among others", format!("a=b; {pair};c=d"), Some(2)),
            ("of another name", format!("x{pair}"), None),
            ("cut short", pair[..9].to_owned(), None),
        ] {
            assert_eq!(sticky[0].find(field.as_bytes()), expected, "{sentence}");
        }
        assert_eq!(sticky[1].find(pair.as_bytes()), Some(2), "another server, the same secret");
        assert_eq!(sticky[2].find(pair.as_bytes()), None, "another secret");
        let key = Key::Sticky(Some(2));
        assert!((0..9).all(|_| proxies[0].pick(key, &[], NOW_MS) == Some(2)));
        eject(&proxies[0], 2, NOW_MS);
        assert_ne!(proxies[0].pick(key, &[], NOW_MS), Some(2));
    }

    fn weights() -> impl Strategy<Value = Vec<i32>> {
        prop::collection::vec(1..10_i32, 2..6)
    }

    proptest! {
        #[test]
        fn round_robin_follows_the_weights_exactly(weights in weights()) {
            let total: i32 = weights.iter().sum();
            let proxy = proxy(&weights, Balancing::default());
            let picks = picks(&proxy, 2 * total as usize, NOW_MS);
            let shares = shares(&picks, weights.len());
            for (share, weight) in shares.iter().zip(&weights) {
                prop_assert!(*share == 2 * *weight as usize, "{shares:?}");
            }
        }

        #[test]
        fn hashing_follows_the_weights_and_moves_only_the_keys_of_a_lost_upstream(
            weights in weights(), lost in any::<prop::sample::Index>(),
        ) {
            const KEYS: u64 = 2_000;
            let total: i32 = weights.iter().sum();
            let lost = lost.index(weights.len());
            let proxy = proxy(&weights, by(Balance::HashPath));
            let pick = |n| proxy.pick(hash(n), &[], NOW_MS).unwrap();
            let before: Vec<usize> = (0..KEYS).map(pick).collect();
            for (share, weight) in shares(&before, weights.len()).iter().zip(&weights) {
                let expected = KEYS as usize * *weight as usize / total as usize;
                // Four standard deviations are at most 90.
                prop_assert!(share.abs_diff(expected) < 120, "{share}, not {expected}");
            }
            eject(&proxy, lost, NOW_MS);
            for (n, before) in (0..KEYS).zip(before) {
                let after = pick(n);
                prop_assert!(after != lost && (before == lost || after == before));
            }
        }

        #[test]
        fn a_request_goes_to_an_upstream_that_works_if_there_is_one(
            weights in prop::collection::vec((1..4_i32, any::<bool>()), 2..6),
            method in prop::sample::select(vec![
                Balance::RoundRobin, Balance::LeastConnections, Balance::HashPath,
            ]),
            events in prop::collection::vec((0..6_usize, 0..4_u8, 0..20_000_u64), 1..200),
        ) {
            let mut weights: Vec<i32> =
                weights.into_iter().map(|(n, backup)| if backup { -n } else { n }).collect();
            weights[0] = weights[0].abs();
            let proxy = proxy(&weights, by(method));
            let mut now_ms = NOW_MS;
            for (n, (at, event, ms)) in events.into_iter().enumerate() {
                let (at, peer) = (at % weights.len(), &proxy.peers[at % weights.len()]);
                match event {
                    0 => now_ms += ms,
                    1 => (0..3).for_each(|_| fail(&proxy, at, now_ms)),
                    2 => peer.set_healthy(false, "a test"),
                    _ => peer.set_healthy(true, ""),
                }
                let key = if method == Balance::HashPath { hash(n as u64) } else { Key::Any };
                let healthy = |at: &usize| proxy.peers[*at].is_available();
                let fit = |at: &usize| {
                    healthy(at) && !proxy.peers[*at].standing.is_ejected(now_ms)
                };
                match proxy.pick(key, &[], now_ms) {
                    None => prop_assert!(!(0..weights.len()).any(|at| healthy(&at))),
                    Some(picked) => {
                        prop_assert!(healthy(&picked));
                        let any_fit = (0..weights.len()).any(|at| fit(&at));
                        prop_assert!(fit(&picked) || !any_fit, "an ejected one was picked");
                        let primary = (0..weights.len()).any(|at| fit(&at) && weights[at] > 0);
                        prop_assert!(!primary || weights[picked] > 0, "a backup was picked");
                    }
                }
            }
        }
    }
}
