//! Request rate limits by the generic cell rate algorithm (GCRA, ITU-T I.371): a key stores the
//! time at which its allowance is whole again. Each request moves that time by one interval. A
//! request is refused if the time would then be further away than the burst allows.
//!
//! Workers share a table of keys in shards, each with a lock that is held for one look-up. A key is
//! a keyed hash and costs 16 bytes and its share of the hash table, at most 36 bytes. A table that
//! is full forgets whole allowances first, which changes nothing. Then it forgets a quarter of the
//! shard, the keys with the most allowance left. So a client that is refused is forgotten last.
//!
//! [`Allowance`] is the same for a store that several servers share.

use std::borrow::Cow;
use std::hash::{BuildHasher, Hasher, RandomState};
use std::net::IpAddr;
use std::sync::{Mutex, MutexGuard, PoisonError};

use aws_lc_rs::digest::{Context, SHA256};
use hashbrown::HashMap;
use http::{HeaderName, HeaderValue, StatusCode, header};
use hurtle_http::request::RequestHead;
use hurtle_http::semantics::target::{self, PathError};

use crate::answer::Answer;
use crate::config::{LimitKey, RateLimit};
use crate::transport::address_key;

/// Number of shards; a power of two.
const SHARDS: usize = 64;

/// Maximum number of keys in a shard: 262,144 in a table, about 9 MiB.
const SHARD_KEYS_MAX: usize = 4_096;

/// Number of keys in a shard before whole allowances are first removed.
const SHARD_KEYS_MIN: usize = 64;

const NS_PER_SEC: u64 = 1_000_000_000;

/// A rate limit and the allowance of each key.
#[derive(Debug)]
pub(crate) struct RateLimiter {
    config: RateLimit,
    /// The limit's place and settings: they distinguish its keys in a store from those of others.
    scope: String,
    /// Time in which the allowance of one request grows back, in nanoseconds.
    interval_ns: u64,
    /// Time in which the whole burst grows back, in nanoseconds.
    window_ns: u64,
    shards: Box<[Mutex<Shard>]>,
    /// Keyed, so that clients cannot choose keys that collide.
    hasher: RandomState,
}

#[derive(Debug)]
struct Shard {
    /// Time at which the allowance is whole again, in nanoseconds, by key.
    whole_ns: HashMap<u64, u64>,
    /// Size at which room is made.
    clear_at: usize,
}

/// A request's parts that a key may have.
#[derive(Clone, Copy, Debug)]
pub(crate) struct Requester<'a> {
    /// `None`: a unix socket.
    pub address: Option<IpAddr>,
    /// The path as sent.
    pub path: &'a [u8],
    /// Head of the request that is counted.
    pub head: &'a RequestHead<'a>,
}

/// The allowance of a request's key in a store. Servers with the same limit at the same place have
/// the same key.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(crate) struct Allowance {
    /// Half of a SHA-256, so that a client can neither choose keys that collide nor make long ones.
    pub key: [u8; 16],
    /// Time in which the allowance of one request grows back, in nanoseconds.
    pub interval_ns: u64,
    /// Time in which the whole burst grows back, in nanoseconds.
    pub window_ns: u64,
}

/// A request beyond the rate.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(crate) struct RateExceededError {
    /// Time until the next request is accepted, in nanoseconds; at least 1.
    pub wait_ns: u64,
}

impl RateLimiter {
    /// Creates a limiter whose keys all have the whole allowance. `place` is the name of the site
    /// and the path of the mount.
    pub(crate) fn new(config: &RateLimit, place: &str) -> RateLimiter {
        let key: Vec<String> = config.key.iter().map(ToString::to_string).collect();
        let scope = format!("{place}\n{} {} {}", config.requests, config.burst, key.join(" "));
        let period_ns = config.requests.period.secs() * NS_PER_SEC;
        let interval_ns = (period_ns / config.requests.count.max(1)).max(1);
        let window_ns = interval_ns.saturating_mul(config.burst.max(1));
        RateLimiter {
            config: config.clone(),
            scope,
            interval_ns,
            window_ns,
            shards: (0..SHARDS).map(|_| Mutex::default()).collect(),
            hasher: RandomState::new(),
        }
    }

    /// The limit as configured.
    pub(crate) fn config(&self) -> &RateLimit {
        &self.config
    }

    /// Returns the request's key. `None`: the key is the client's address, and it has none.
    pub(crate) fn key(&self, requester: &Requester<'_>) -> Option<u64> {
        let mut hasher = self.hasher.build_hasher();
        self.hash(&mut hasher, requester).then(|| hasher.finish())
    }

    /// Returns the allowance of the request's key in a store; `None`: as in `key`.
    pub(crate) fn shared(&self, requester: &Requester<'_>) -> Option<Allowance> {
        let mut digest = Digest(Context::new(&SHA256));
        hash_bytes(&mut digest, self.scope.as_bytes());
        if !self.hash(&mut digest, requester) {
            return None;
        }
        let digest = digest.0.finish();
        let key = *digest.as_ref().first_chunk()?;
        Some(Allowance { key, interval_ns: self.interval_ns, window_ns: self.window_ns })
    }

    /// Hashes the parts of the key. `false`: the request has no key.
    fn hash(&self, hasher: &mut impl Hasher, requester: &Requester<'_>) -> bool {
        if requester.address.is_none() && self.config.key == [LimitKey::Address] {
            return false;
        }
        for part in &self.config.key {
            match part {
                LimitKey::Address => hash_address(hasher, requester.address),
                LimitKey::Path => hash_bytes(hasher, &spelling(requester.path)),
                LimitKey::Header(name) => hash_field(hasher, name, requester),
            }
        }
        true
    }

    /// Takes one request from the allowance of a key.
    ///
    /// # Errors
    /// The allowance is used up; it stays as it is.
    pub(crate) fn take(&self, key: u64, now_ns: u64) -> Result<(), RateExceededError> {
        let mut shard = self.shard(key);
        let whole_ns = shard.whole_ns.get(&key).map_or(now_ns, |whole_ns| now_ns.max(*whole_ns));
        let next_ns = whole_ns.saturating_add(self.interval_ns);
        let wait_ns = next_ns.saturating_sub(now_ns).saturating_sub(self.window_ns);
        if wait_ns > 0 {
            return Err(RateExceededError { wait_ns });
        }
        if shard.whole_ns.insert(key, next_ns).is_none() {
            shard.make_room(now_ns);
        }
        Ok(())
    }

    /// Returns a taken request, because another limit refused it.
    pub(crate) fn put_back(&self, key: u64) {
        if let Some(whole_ns) = self.shard(key).whole_ns.get_mut(&key) {
            *whole_ns = whole_ns.saturating_sub(self.interval_ns);
        }
    }

    /// Returns the response to a request beyond the rate: 429 (RFC 6585 section 4) with Retry-After
    /// and the fields of draft-ietf-httpapi-ratelimit-headers.
    pub(crate) fn refusal(&self, error: RateExceededError) -> Answer {
        let why = format!("the limit is {}", self.config.requests);
        let answer = Answer::error(StatusCode::TOO_MANY_REQUESTS, Some(&why));
        let wait_secs = error.wait_ns.div_ceil(NS_PER_SEC);
        let window_secs = self.window_ns.div_ceil(NS_PER_SEC);
        let burst = self.config.burst;
        let policy = format!("\"default\";q={burst};w={window_secs}");
        let state = format!("\"default\";r=0;t={wait_secs}");
        let fields = [
            (header::RETRY_AFTER, wait_secs.to_string()),
            (HeaderName::from_static("ratelimit-policy"), policy),
            (HeaderName::from_static("ratelimit"), state),
        ];
        fields.into_iter().fold(answer, |answer, (name, value)| {
            match HeaderValue::try_from(value) {
                Ok(value) => answer.with(name, value),
                // Numbers and quotes are valid in a field value.
                Err(_) => answer,
            }
        })
    }

    fn shard(&self, key: u64) -> MutexGuard<'_, Shard> {
        let shard = (key >> 32) as usize % SHARDS;
        // Code under this lock cannot panic, so poisoning is harmless.
        self.shards[shard].lock().unwrap_or_else(PoisonError::into_inner)
    }
}

impl Default for Shard {
    fn default() -> Shard {
        Shard { whole_ns: HashMap::new(), clear_at: SHARD_KEYS_MIN }
    }
}

impl Shard {
    /// Removes keys if there are too many. The cost is amortised: each new key pays for a bounded
    /// number of checks.
    fn make_room(&mut self, now_ns: u64) {
        if self.whole_ns.len() < self.clear_at {
            return;
        }
        self.whole_ns.retain(|_, whole_ns| *whole_ns > now_ns);
        if self.whole_ns.len() >= SHARD_KEYS_MAX {
            let mut times: Vec<u64> = self.whole_ns.values().copied().collect();
            let mut excess = times.len() / 4;
            let (_, last_ns, _) = times.select_nth_unstable(excess);
            let last_ns = *last_ns;
            self.whole_ns.retain(|_, whole_ns| {
                let is_kept = *whole_ns > last_ns || excess == 0;
                excess -= usize::from(!is_kept);
                is_kept
            });
        }
        let len = self.whole_ns.len();
        self.whole_ns.shrink_to(2 * len);
        self.clear_at = (2 * len).clamp(SHARD_KEYS_MIN, SHARD_KEYS_MAX);
    }
}

/// A digest that is the same on every server.
struct Digest(Context);

impl Hasher for Digest {
    fn write(&mut self, bytes: &[u8]) {
        self.0.update(bytes);
    }

    /// The digest has more bytes.
    fn finish(&self) -> u64 {
        0
    }
}

/// Returns the one spelling of a path that stands for all which a server may read alike: decoded,
/// with encoded slashes as slashes, and without parameters of segments.
fn spelling(path: &[u8]) -> Cow<'_, [u8]> {
    let decoded = target::decoded(path).or_else(|_| {
        let mut decoded = Vec::new();
        target::decode(&target::with_plain_slashes(path), &mut decoded)?;
        Ok::<_, PathError>(decoded.into())
    });
    // A path that cannot be decoded is refused.
    let decoded = decoded.unwrap_or(path.into());
    match target::read_leniently(&decoded) {
        Ok(Some(other)) => other.into(),
        Ok(None) | Err(_) => decoded,
    }
}

/// Hashes bytes with their length, so that parts of a key do not run together.
fn hash_bytes(hasher: &mut impl Hasher, bytes: &[u8]) {
    hasher.write(&(bytes.len() as u64).to_be_bytes());
    hasher.write(bytes);
}

fn hash_address(hasher: &mut impl Hasher, address: Option<IpAddr>) {
    hasher.write(&address.map_or(0, address_key).to_be_bytes());
}

/// Hashes the values of a field. A request without the field counts under its client's address.
fn hash_field(hasher: &mut impl Hasher, name: &HeaderName, requester: &Requester<'_>) {
    let mut is_present = false;
    for value in requester.head.values(name.as_str().as_bytes()) {
        is_present = true;
        hash_bytes(hasher, &value);
    }
    hasher.write_u8(u8::from(is_present));
    if !is_present {
        hash_address(hasher, requester.address);
    }
}

#[cfg(test)]
mod tests {
    use super::*;
    use crate::config::Period;

    const START_NS: u64 = 1_000 * NS_PER_SEC;

    fn limiter(count: u64, period: Period, burst: u64) -> RateLimiter {
        RateLimiter::new(&RateLimit { burst, ..RateLimit::new(count, period) }, "")
    }

    #[test]
    fn a_burst_passes_and_then_the_rate() {
        let limiter = limiter(10, Period::Second, 20);
        for n in 0..20 {
            assert_eq!(limiter.take(1, START_NS), Ok(()), "{n}");
        }
        let wait_ns = NS_PER_SEC / 10;
        assert_eq!(limiter.take(1, START_NS), Err(RateExceededError { wait_ns }));
        assert_eq!(limiter.take(2, START_NS), Ok(()), "another key");
        assert!(limiter.take(1, START_NS + wait_ns - 1).is_err());
        assert_eq!(limiter.take(1, START_NS + wait_ns), Ok(()));
        assert!(limiter.take(1, START_NS + wait_ns).is_err());
        // A refused request costs nothing: in ten seconds of hammering, 100 pass.
        let (start_ns, mut passed) = (START_NS + wait_ns, 0);
        for ms in 1..=10_000 {
            passed += u32::from(limiter.take(1, start_ns + ms * 1_000_000).is_ok());
        }
        assert_eq!(passed, 100);
        let later_ns = start_ns + 60 * NS_PER_SEC;
        let burst = (0..30).filter(|_| limiter.take(1, later_ns).is_ok()).count();
        assert_eq!(burst, 20, "the allowance has a bound");
    }

    #[test]
    fn a_request_that_another_limit_refuses_is_put_back() {
        let limiter = limiter(1, Period::Hour, 1);
        assert_eq!(limiter.take(1, START_NS), Ok(()));
        limiter.put_back(1);
        assert_eq!(limiter.take(1, START_NS), Ok(()));
        assert!(limiter.take(1, START_NS).is_err());
    }

    #[test]
    fn a_refusal_says_when_to_come_back() {
        let limiter = limiter(30, Period::Minute, 5);
        (0..5).for_each(|_| limiter.take(1, START_NS).unwrap());
        let answer = limiter.refusal(limiter.take(1, START_NS).unwrap_err());
        assert_eq!(answer.status, 429);
        let hurtle_http::message::response::Fields::Map(fields) = answer.fields else {
            panic!("a map")
        };
        assert_eq!(fields["retry-after"], "2");
        assert_eq!(fields["ratelimit-policy"], "\"default\";q=5;w=10");
        assert_eq!(fields["ratelimit"], "\"default\";r=0;t=2");
    }

    #[test]
    fn the_table_is_bounded_and_forgets_a_refused_key_last() {
        let limiter = limiter(1, Period::Hour, 3);
        // One shard: the bits that choose it are 0.
        let key = |n: u64| (n & 0xffff_ffff) | (n >> 32 << 40);
        while limiter.take(key(0), START_NS).is_ok() {}
        for n in 1..20_000 {
            assert_eq!(limiter.take(key(n), START_NS), Ok(()), "a new key has its own allowance");
        }
        assert!(limiter.shard(key(0)).whole_ns.len() <= SHARD_KEYS_MAX);
        assert!(limiter.take(key(0), START_NS).is_err(), "the busy one is still known");
        // Whole allowances are removed, and their memory with them.
        let later_ns = START_NS + 4 * 3_600 * NS_PER_SEC;
        (0..4_096).for_each(|n| limiter.take(key(100_000 + n), later_ns).unwrap());
        assert!(limiter.shard(key(0)).whole_ns.len() <= SHARD_KEYS_MAX);
        assert!(!limiter.shard(key(0)).whole_ns.contains_key(&key(0)));
    }

    #[test]
    fn parts_of_a_request_make_its_key() {
        let head = |lines: &'static [u8]| {
            let joined = Box::leak(Box::default());
            let limits = hurtle_http::request::HeadLimits {
                head_bytes: 1 << 10,
                target_bytes: 1 << 10,
                fields: 9,
            };
            hurtle_http::h1::request::parse(lines, joined, &limits).unwrap()
        };
        let plain = head(b"GET / HTTP/1.1\r\nHost: a\r\n\r\n");
        let one = head(b"GET / HTTP/1.1\r\nHost: a\r\nX-Key: 1\r\n\r\n");
        let two = head(b"GET / HTTP/1.1\r\nHost: a\r\nx-key: 2\r\n\r\n");
        let address = |text: &str| Some(text.parse::<IpAddr>().unwrap());
        let key = |parts: &[LimitKey]| RateLimit {
            key: parts.to_vec(),
            ..RateLimit::new(1, Period::Second)
        };
        let field = LimitKey::Header(HeaderName::from_static("x-key"));
        let requester = |address, path: &'static [u8], head| Requester { address, path, head };
        let (a, b) = (address("192.0.2.1"), address("192.0.2.2"));
        let (v6, same_net) = (address("2001:db8::1"), address("2001:db8::2"));
        let rows = [
            (
                "addresses",
                key(&[LimitKey::Address]),
                (a, &b"/"[..], &one),
                (b, &b"/"[..], &one),
                false,
            ),
            ("a /64", key(&[LimitKey::Address]), (v6, b"/", &one), (same_net, b"/", &one), true),
            ("paths", key(&[LimitKey::Path]), (a, b"/x", &one), (a, b"/y", &one), false),
            (
                "one path, encoded",
                key(&[LimitKey::Path]),
                (a, b"/x", &one),
                (b, b"/%78", &one),
                true,
            ),
            ("fields", key(std::slice::from_ref(&field)), (a, b"/", &one), (a, b"/", &two), false),
            (
                "one field",
                key(std::slice::from_ref(&field)),
                (a, b"/", &one),
                (b, b"/", &one),
                true,
            ),
            (
                "no field: by address",
                key(std::slice::from_ref(&field)),
                (a, b"/", &plain),
                (b, b"/", &plain),
                false,
            ),
            (
                "both",
                key(&[LimitKey::Address, LimitKey::Path]),
                (a, b"/", &one),
                (a, b"/x", &one),
                false,
            ),
        ];
        for (sentence, config, one, other, same) in rows {
            let limiter = RateLimiter::new(&config, "");
            let key = |(address, path, head)| limiter.key(&requester(address, path, head));
            assert_eq!(key(one) == key(other), same, "{sentence}");
            let shared = |(address, path, head)| limiter.shared(&requester(address, path, head));
            assert_eq!(shared(one) == shared(other), same, "{sentence}, in a store");
            let again = RateLimiter::new(&config, "");
            let (address, path, head) = one;
            let again = again.shared(&requester(address, path, head));
            assert_eq!(shared(one), again, "{sentence}, at another server");
            let elsewhere = RateLimiter::new(&config, "example.org /b");
            let elsewhere = elsewhere.shared(&requester(address, path, head));
            assert_ne!(shared(one), elsewhere, "{sentence}, at another place");
        }
        let limiter = RateLimiter::new(&key(&[LimitKey::Address]), "");
        assert_eq!(limiter.key(&requester(None, b"/", &one)), None, "a unix socket");
        assert_eq!(limiter.shared(&requester(None, b"/", &one)), None, "likewise");
    }
}
