//! Request rate limits and concurrency limits. All workers share them. `rate` has the algorithm and
//! its table of keys, `concurrency` the permits and their queue. The pipeline decides when a request
//! is checked.

pub mod concurrency;
pub mod rate;

use std::sync::Arc;

use hashbrown::HashMap;

use self::concurrency::ConcurrencyLimiter;
use self::rate::RateLimiter;
use crate::config::{self, Concurrency, Config, RateLimit};

/// A site by its name, and a mount of it by its path; `None`: the whole site.
type Place = (String, Option<String>);

/// All limits of a configuration, by place; clones share them.
#[derive(Clone, Debug, Default)]
pub struct Limiters {
    rates: Arc<HashMap<(Place, RateLimit), Arc<RateLimiter>>>,
    concurrency: Arc<HashMap<(Place, Concurrency), Arc<ConcurrencyLimiter>>>,
}

/// The limits of a site or mount.
#[derive(Clone, Debug, Default)]
pub struct PlaceLimits {
    /// A request must meet all of them.
    pub rates: Vec<Arc<RateLimiter>>,
    /// `None`: unlimited.
    pub concurrency: Option<Arc<ConcurrencyLimiter>>,
}

impl Limiters {
    /// Creates the limits of a configuration. A limit that `previous` has, at the same place, goes on
    /// with its counts.
    pub fn new(config: &Config, previous: Option<&Limiters>) -> Limiters {
        let (mut rates, mut concurrency) = (HashMap::new(), HashMap::new());
        let mut add_rates = |place: Place, limits: &[RateLimit]| {
            for limit in limits {
                let key = (place.clone(), limit.clone());
                let known = previous.and_then(|previous| previous.rates.get(&key));
                let limiter = known.cloned().unwrap_or_else(|| Arc::new(RateLimiter::new(limit)));
                rates.insert(key, limiter);
            }
        };
        for site in &config.sites {
            add_rates((site.name(), None), &site.limits.rates);
            for mount in &site.mounts {
                let place = (site.name(), Some(mount.path.clone()));
                add_rates(place.clone(), &mount.limits.rates);
                if let Some(limit) = mount.limits.concurrency {
                    let key = (place, limit);
                    let known = previous.and_then(|previous| previous.concurrency.get(&key));
                    let limiter =
                        known.cloned().unwrap_or_else(|| Arc::new(ConcurrencyLimiter::new(limit)));
                    concurrency.insert(key, limiter);
                }
            }
        }
        Limiters { rates: Arc::new(rates), concurrency: Arc::new(concurrency) }
    }

    /// Returns the limits of a whole site.
    pub fn of_site(&self, site: &config::Site) -> PlaceLimits {
        let rates = self.rates(&(site.name(), None), &site.limits.rates);
        PlaceLimits { rates, concurrency: None }
    }

    /// Returns the limits of a mount, without its site's.
    pub fn of_mount(&self, site: &config::Site, mount: &config::Mount) -> PlaceLimits {
        let place = (site.name(), Some(mount.path.clone()));
        let concurrency = mount.limits.concurrency.map(|limit| {
            let known = self.concurrency.get(&(place.clone(), limit));
            known.cloned().unwrap_or_else(|| Arc::new(ConcurrencyLimiter::new(limit)))
        });
        PlaceLimits { rates: self.rates(&place, &mount.limits.rates), concurrency }
    }

    fn rates(&self, place: &Place, limits: &[RateLimit]) -> Vec<Arc<RateLimiter>> {
        let limiter = |limit: &RateLimit| {
            let known = self.rates.get(&(place.clone(), limit.clone()));
            // `hurtle explain` has no limiters, and refuses nothing.
            known.cloned().unwrap_or_else(|| Arc::new(RateLimiter::new(limit)))
        };
        limits.iter().map(limiter).collect()
    }
}

impl PlaceLimits {
    /// Returns whether there is no limit.
    pub fn is_empty(&self) -> bool {
        self.rates.is_empty() && self.concurrency.is_none()
    }
}

#[cfg(test)]
mod tests {
    use super::*;
    use crate::config::{Period, Site};

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
}
