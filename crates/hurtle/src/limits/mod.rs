//! Request rate limits and concurrency limits. All workers share them. `rate` has the algorithm and
//! its table of keys, `concurrency` the permits and their queue. The pipeline decides when a
//! request is checked.

pub(crate) mod concurrency;
pub(crate) mod rate;

use std::fmt;
use std::sync::Arc;

use hashbrown::HashMap;

use self::concurrency::ConcurrencyLimiter;
use self::rate::RateLimiter;
use crate::config::{
    self, Concurrency, Config, MountHandler, RateLimit, UpstreamQueue, UpstreamServer,
};

/// A site or mount that has limits.
#[derive(Clone, Debug, PartialEq, Eq, Hash)]
struct LimitedPlace {
    /// The name of the site.
    site: String,
    /// The name of the mount; `None`: the whole site.
    mount: Option<String>,
}

/// All limits of a configuration, by place; clones share them.
#[derive(Clone, Debug, Default)]
pub(crate) struct Limiters {
    rates: Arc<HashMap<(LimitedPlace, RateLimit), Arc<RateLimiter>>>,
    concurrency: Arc<HashMap<(LimitedPlace, Concurrency), Arc<ConcurrencyLimiter>>>,
    upstreams: Arc<HashMap<(String, Concurrency), Arc<ConcurrencyLimiter>>>,
}

/// The limits of a site or mount.
#[derive(Clone, Debug, Default)]
pub(crate) struct PlaceLimits {
    /// A request must meet all of them.
    pub rates: Vec<Arc<RateLimiter>>,
    /// Limit on requests at once; `None`: unlimited.
    pub concurrency: Option<Arc<ConcurrencyLimiter>>,
}

impl Limiters {
    /// Creates the limits of a configuration. A limit that `previous` has, at the same place, goes
    /// on with its counts.
    pub(crate) fn new(config: &Config, previous: Option<&Limiters>) -> Limiters {
        let (mut rates, mut concurrency) = (HashMap::new(), HashMap::new());
        let mut upstreams = HashMap::new();
        let mut add_rates = |place: LimitedPlace, limits: &[RateLimit]| {
            for limit in limits {
                let key = (place.clone(), limit.clone());
                let known = previous.and_then(|previous| previous.rates.get(&key));
                let new = || Arc::new(RateLimiter::new(limit, &place.to_string()));
                let limiter = known.cloned().unwrap_or_else(new);
                rates.insert(key, limiter);
            }
        };
        for site in &config.sites {
            add_rates(LimitedPlace::of_site(site), &site.limits.rates);
            for mount in &site.mounts {
                let place = LimitedPlace::of_mount(site, mount);
                add_rates(place.clone(), &mount.limits.rates);
                for (server, limit) in upstream_limits(mount) {
                    let key = (server.to_string(), limit);
                    let known = previous.and_then(|previous| previous.upstreams.get(&key));
                    upstreams.entry(key).or_insert_with(|| {
                        let new = || Arc::new(ConcurrencyLimiter::new(limit));
                        known.cloned().unwrap_or_else(new)
                    });
                }
                if let Some(limit) = mount.limits.concurrency {
                    let key = (place, limit);
                    let known = previous.and_then(|previous| previous.concurrency.get(&key));
                    let limiter =
                        known.cloned().unwrap_or_else(|| Arc::new(ConcurrencyLimiter::new(limit)));
                    concurrency.insert(key, limiter);
                }
            }
        }
        Limiters {
            rates: Arc::new(rates),
            concurrency: Arc::new(concurrency),
            upstreams: Arc::new(upstreams),
        }
    }

    /// Returns the limits of a whole site.
    pub(crate) fn of_site(&self, site: &config::Site) -> PlaceLimits {
        let rates = self.rates(&LimitedPlace::of_site(site), &site.limits.rates);
        PlaceLimits { rates, concurrency: None }
    }

    /// Returns the limits of a mount, without its site's.
    pub(crate) fn of_mount(&self, site: &config::Site, mount: &config::Mount) -> PlaceLimits {
        let place = LimitedPlace::of_mount(site, mount);
        let concurrency = mount.limits.concurrency.map(|limit| {
            let known = self.concurrency.get(&(place.clone(), limit));
            known.cloned().unwrap_or_else(|| Arc::new(ConcurrencyLimiter::new(limit)))
        });
        PlaceLimits { rates: self.rates(&place, &mount.limits.rates), concurrency }
    }

    /// Returns the limit of an upstream server; `None`: it has none. Mounts with the same server
    /// and equal limits share one.
    pub(crate) fn of_upstream(
        &self,
        server: &UpstreamServer,
        queue: &UpstreamQueue,
    ) -> Option<Arc<ConcurrencyLimiter>> {
        let limit = queue.limit(server)?;
        self.upstreams.get(&(server.to_string(), limit)).cloned()
    }

    fn rates(&self, place: &LimitedPlace, limits: &[RateLimit]) -> Vec<Arc<RateLimiter>> {
        let limiter = |limit: &RateLimit| {
            let known = self.rates.get(&(place.clone(), limit.clone()));
            // `hurtle explain` has no limiters, and refuses nothing.
            known.cloned().unwrap_or_else(|| Arc::new(RateLimiter::new(limit, &place.to_string())))
        };
        limits.iter().map(limiter).collect()
    }
}

impl LimitedPlace {
    fn of_site(site: &config::Site) -> LimitedPlace {
        LimitedPlace { site: site.name(), mount: None }
    }

    fn of_mount(site: &config::Site, mount: &config::Mount) -> LimitedPlace {
        LimitedPlace { mount: Some(mount.name()), ..LimitedPlace::of_site(site) }
    }
}

impl fmt::Display for LimitedPlace {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        write!(f, "{} {}", self.site, self.mount.as_deref().unwrap_or_default())
    }
}

/// The upstream servers of a mount that have a limit.
fn upstream_limits(mount: &config::Mount) -> impl Iterator<Item = (&UpstreamServer, Concurrency)> {
    let proxy = match &mount.handler {
        MountHandler::Proxy(proxy) => proxy.queue.as_ref().map(|queue| (proxy, queue)),
        _ => None,
    };
    proxy.into_iter().flat_map(|(proxy, queue)| {
        let limit = move |server| queue.limit(server).map(|limit| (server, limit));
        proxy.upstreams.iter().filter_map(limit)
    })
}

#[cfg(test)]
mod tests {
    use std::path::Path;

    use super::*;
    use crate::config::{Period, Site, Upstream};

    #[test]
    fn an_unchanged_limit_goes_on_after_a_reload() {
        let config = |count| {
            let mut site = Site { default: true, ..Site::new() };
            site.limits.rates = vec![RateLimit::new(count, Period::Second)];
            Config::new(vec![site])
        };
        let before = Limiters::new(&config(5), None);
        let limiter = |limiters: &Limiters, count| {
            let config = config(count);
            Arc::clone(&limiters.of_site(&config.sites[0]).rates[0])
        };
        let same = Limiters::new(&config(5), Some(&before));
        assert!(Arc::ptr_eq(&limiter(&before, 5), &limiter(&same, 5)));
        let other = Limiters::new(&config(6), Some(&before));
        assert!(!Arc::ptr_eq(&limiter(&before, 5), &limiter(&other, 6)));
    }
    #[test]
    fn an_upstream_has_one_limit_in_all_mounts_and_keeps_it_after_a_reload() {
        let config = |max: u64| {
            let proxy = format!("proxy = {{ url = \"http://a\", max_connections = {max} }}\n");
            let mount = |path: &str| format!("[[site.mount]]\npath = \"{path}\"\n{proxy}");
            let text = format!("[[site]]\n{}{}", mount("/"), mount("/b"));
            config::check(&text, Path::new("hurtle.toml")).unwrap()
        };
        let limiter = |limiters: &Limiters, max| {
            let upstream = Upstream::Name("a".to_owned(), 80);
            let server = UpstreamServer { max_connections: Some(max), ..upstream.into() };
            limiters.of_upstream(&server, &UpstreamQueue::default()).unwrap()
        };
        let before = Limiters::new(&config(5), None);
        assert_eq!(before.upstreams.len(), 1);
        let same = Limiters::new(&config(5), Some(&before));
        assert!(Arc::ptr_eq(&limiter(&before, 5), &limiter(&same, 5)));
        let other = Limiters::new(&config(6), Some(&before));
        assert!(!Arc::ptr_eq(&limiter(&before, 5), &limiter(&other, 6)));
    }
}
