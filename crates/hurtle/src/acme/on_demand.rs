//! Certificates on demand: serves the requests of handshakes for names that the configuration does
//! not have, and renews what was ordered for them. An operator's server decides about each name.

use std::cell::{Cell, RefCell};
use std::collections::BTreeSet;
use std::fs;
use std::rc::Rc;
use std::sync::Arc;
use std::time::Duration;

use hashbrown::HashMap;

use super::ask::{Asker, Verdict};
use super::{Acme, CHECK_SECS, Job, LOCKED_SECS, now};
use crate::config::{Config, HostName, Listen, OnDemand, RequestRate, Site};
use crate::rt::{self, Permits};
use crate::tls::{Automatic, NameRequest};

/// Orders at a time.
const ORDERS_MAX: usize = 4;

/// Time for which a refused name is remembered.
const REFUSED_SECS: u64 = 5 * 60;

/// Time for which a name is refused because the server to ask does not respond.
const UNDECIDED_SECS: u64 = 10;

/// Shortest time between two such lines in the log, because clients could flood it.
const LOG_SECS: u64 = 10;

/// Longest wait for an order of another server with the same storage.
const ORDERED_ELSEWHERE_SECS: u64 = 60;

/// Serves names on demand, on one thread.
#[derive(Debug)]
pub(super) struct NameOrders {
    automatic: Arc<Automatic>,
    sites: Vec<Site>,
    asker: Asker,
    /// Its storage is that of names on demand.
    acme: Acme,
    /// Idle copies of `acme`, which have an account.
    idle: RefCell<Vec<Acme>>,
    orders: Permits,
    /// Orders left, by the name of the site.
    allowances: RefCell<HashMap<String, Allowance>>,
    logged: Cell<u64>,
}

/// Orders that a site may make now (a token bucket).
#[derive(Clone, Copy, Debug)]
struct Allowance {
    left: f64,
    /// In seconds since 1970.
    at: u64,
}

/// Reason for which a name gets no certificate.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
enum Refusal {
    /// For this time, in seconds.
    For(u64),
    /// Over the rate of orders: the next handshake tries again.
    Now,
}

impl NameOrders {
    /// `None`: the configuration has no site with certificates on demand.
    pub(super) fn new(acme: &Acme, automatic: &Arc<Automatic>) -> Option<NameOrders> {
        if !acme.sites.iter().any(|site| on_demand(site).is_some()) {
            return None;
        }
        let open =
            || Ok::<_, String>((acme.on_demand().map_err(|e| e.to_string())?, Asker::new()?));
        let (acme_of_names, asker) =
            open().inspect_err(|e| tracing::error!("certificates on demand are off: {e}")).ok()?;
        Some(NameOrders {
            automatic: Arc::clone(automatic),
            sites: acme.sites.clone(),
            asker,
            acme: acme_of_names,
            idle: RefCell::default(),
            orders: Permits::new(ORDERS_MAX),
            allowances: RefCell::default(),
            logged: Cell::default(),
        })
    }

    /// Starts serving and renewing.
    pub(super) fn start(self) {
        let serving = Rc::new(self);
        let renewing = Rc::clone(&serving);
        rt::spawn(async move { renewing.renew_all().await });
        rt::spawn(async move {
            loop {
                let (request, until_served) = serving.automatic.next_request().await;
                let serving = Rc::clone(&serving);
                rt::spawn(async move {
                    serving.serve(&request).await;
                    drop(until_served);
                });
            }
        });
    }

    async fn serve(&self, request: &NameRequest) {
        if let Err(Refusal::For(secs)) = self.obtain(request).await {
            self.automatic.refuse(&request.name, secs);
        }
    }

    /// Loads or orders a certificate.
    async fn obtain(&self, request: &NameRequest) -> Result<(), Refusal> {
        let (name, settings) = (request.name.as_str(), &request.settings);
        let mut job = self.acme.job(name);
        if self.publish(&mut job, &request.site) {
            return Ok(());
        }
        let wait = self.acme.next_attempt(&job).saturating_sub(now());
        if wait > 0 && !self.is_ordered_elsewhere(name) {
            return Err(Refusal::For(wait.min(REFUSED_SECS)));
        }
        if self.allowance(&request.site, settings.rate) < 1.0 {
            self.log(&format!("{name}: no certificate: more orders than {}", settings.rate));
            return Err(Refusal::Now);
        }
        match self.asker.ask(&settings.ask, name).await {
            Verdict::Allowed => {}
            Verdict::Refused => {
                tracing::debug!("{name}: no certificate: {} refuses it", settings.ask);
                return Err(Refusal::For(REFUSED_SECS));
            }
            Verdict::Undecided(reason) => {
                self.log(&format!("{name}: no certificate: {}: {reason}", settings.ask));
                return Err(Refusal::For(UNDECIDED_SECS));
            }
        }
        // Meanwhile others may have used it up.
        if !self.take(&request.site, settings.rate) {
            return Err(Refusal::Now);
        }
        let end = now() + ORDERED_ELSEWHERE_SECS;
        loop {
            let wait = self.order(&mut job).await.saturating_sub(now());
            // Before the certificate is read, because it is written under the lock.
            let is_under_way = wait <= LOCKED_SECS || self.is_ordered_elsewhere(name);
            if self.publish(&mut job, &request.site) {
                return Ok(());
            }
            if !is_under_way || now() >= end {
                return Err(Refusal::For(wait.min(REFUSED_SECS)));
            }
            rt::sleep(Duration::from_secs(1)).await;
        }
    }

    /// `true`: another server with the same storage orders the certificate. It has recorded its
    /// attempt.
    fn is_ordered_elsewhere(&self, name: &str) -> bool {
        matches!(self.acme.storage.lock(name), Ok(None))
    }

    /// Has handshakes use the stored certificate; `false` if there is no usable one.
    fn publish(&self, job: &mut Job, site: &str) -> bool {
        let Some(current) = job.current() else { return false };
        let pem = fs::read(&job.file).unwrap_or_default();
        self.automatic.insert(&job.name, site, &pem, job.planned(&current))
    }

    /// Makes an attempt if one is due; returns when the next one is.
    async fn order(&self, job: &mut Job) -> u64 {
        let _permit = self.orders.take().await;
        let idle = self.idle.borrow_mut().pop();
        let mut acme = idle.unwrap_or_else(|| self.acme.copy());
        let next = acme.check(job).await;
        self.idle.borrow_mut().push(acme);
        next
    }

    /// Orders that a site may make now.
    fn allowance(&self, site: &str, rate: RequestRate) -> f64 {
        let (most, now) = (rate.count as f64, now());
        let mut allowances = self.allowances.borrow_mut();
        let full = Allowance { left: most, at: now };
        let allowance = allowances.entry(site.to_owned()).or_insert(full);
        let regained = now.saturating_sub(allowance.at) as f64 * most / rate.period.secs() as f64;
        *allowance = Allowance { left: (allowance.left + regained).min(most), at: now };
        allowance.left
    }

    fn take(&self, site: &str, rate: RequestRate) -> bool {
        let is_left = self.allowance(site, rate) >= 1.0;
        if let Some(allowance) = self.allowances.borrow_mut().get_mut(site).filter(|_| is_left) {
            allowance.left -= 1.0;
        }
        is_left
    }

    fn log(&self, line: &str) {
        if now() >= self.logged.get() + LOG_SECS {
            self.logged.set(now());
            tracing::warn!("{line}");
        }
    }

    /// Renews the stored certificates when they are due; never returns.
    async fn renew_all(&self) {
        let mut acme = self.acme.copy();
        let mut jobs: HashMap<String, Job> = HashMap::new();
        loop {
            let mut next = now() + CHECK_SECS;
            let stored = self.acme.storage.certificates();
            for name in &stored {
                let job = jobs.entry(name.clone()).or_insert_with(|| self.acme.job(name));
                next = next.min(self.renew(&mut acme, job).await);
                // Requests of handshakes come first.
                rt::give_way().await;
            }
            let stored: BTreeSet<String> = stored.into_iter().collect();
            jobs.retain(|name, _| stored.contains(name));
            rt::sleep(Duration::from_secs(next.saturating_sub(now()).max(1))).await;
        }
    }

    /// Renews a certificate if it is due, or drops it. Returns when to check it again.
    async fn renew(&self, acme: &mut Acme, job: &mut Job) -> u64 {
        let later = now() + CHECK_SECS;
        let asked = settings_of(&self.sites, &job.name);
        if asked.is_empty() {
            return later;
        }
        // A handshake orders another one in place of an unusable one.
        let Ok((Some(current), due)) = acme.plan(job).await else { return later };
        if due <= now() {
            match self.ask_each(&asked, &job.name).await {
                Verdict::Allowed => {
                    self.order(job).await;
                }
                Verdict::Refused => {
                    self.automatic.remove(&job.name);
                    acme.storage.remove(&job.name);
                    return later;
                }
                Verdict::Undecided(reason) => {
                    self.log(&format!("{}: its renewal waits: {reason}", job.name));
                    return later;
                }
            }
        }
        // This or another server may have replaced it.
        let renewed = job.current().unwrap_or(current);
        let pem = fs::read(&job.file).unwrap_or_default();
        self.automatic.replace(&job.name, &pem, job.planned(&renewed));
        job.due.clamp(now() + 1, later)
    }
}

impl NameOrders {
    /// Asks the servers of all sites that serve a name: it is refused if all refuse it.
    async fn ask_each(&self, asked: &[&OnDemand], name: &str) -> Verdict {
        let mut undecided = None;
        for settings in asked {
            match self.asker.ask(&settings.ask, name).await {
                Verdict::Allowed => return Verdict::Allowed,
                Verdict::Refused => tracing::info!("{name}: {} refuses it", settings.ask),
                Verdict::Undecided(reason) => {
                    undecided = Some(format!("{}: {reason}", settings.ask));
                }
            }
        }
        undecided.map_or(Verdict::Refused, Verdict::Undecided)
    }
}

fn on_demand(site: &Site) -> Option<&OnDemand> {
    site.tls.as_ref()?.on_demand()
}

/// Returns the settings of the sites that serve a name at any listener.
fn settings_of<'a>(sites: &'a [Site], name: &str) -> Vec<&'a OnDemand> {
    let listeners = sites.iter().flat_map(|site| &site.listen).map(Some);
    let serving = listeners.chain([None]).filter_map(|listen| site_of(sites, listen, name));
    let mut settings: Vec<&OnDemand> = Vec::new();
    for one in serving.filter_map(on_demand) {
        if !settings.contains(&one) {
            settings.push(one);
        }
    }
    settings
}

/// Returns the site that serves a name at a listener, as `site::names` chooses it: by an exact
/// name, the longest wildcard, or the default site; those of the listener precede those of all.
fn site_of<'a>(sites: &'a [Site], listen: Option<&Listen>, name: &str) -> Option<&'a Site> {
    let is_own = |site: &&Site| listen.is_some_and(|listen| site.listen.contains(listen));
    let of_all = sites.iter().filter(|site| site.listen.is_empty());
    let sites: Vec<&Site> = sites.iter().filter(is_own).chain(of_all).collect();
    let rank = |host: &HostName| match host {
        HostName::Exact(_) => (2, 0),
        HostName::Wildcard(suffix) => (1, suffix.len()),
        HostName::AnyDomain(prefix) => (0, prefix.len()),
    };
    let best = |site: &'a Site| {
        let matching = site.hosts.iter().filter(|host| host.matches(name.as_bytes()));
        Some((matching.map(rank).max()?, site))
    };
    // The last of the greatest is the first in this order.
    let named = sites.iter().rev().copied().filter_map(best).max_by_key(|(rank, _)| *rank);
    let default = || sites.iter().copied().find(|site| site.default);
    named.map(|(_, site)| site).or_else(default)
}

/// The sites whose names decide about those on demand.
pub(super) fn sites(config: &Config) -> Vec<Site> {
    let any = config.sites.iter().any(|site| on_demand(site).is_some());
    if any { config.sites.clone() } else { Vec::new() }
}

#[cfg(test)]
mod tests {
    use super::*;
    use crate::config::{CertificateSource, Tls};

    fn site(hosts: &[HostName], default: bool) -> Site {
        let config = Config::for_directory("/nonexistent".into());
        let mut site = config.sites[0].clone();
        (site.hosts, site.default) = (hosts.to_vec(), default);
        site
    }

    #[test]
    fn a_name_is_renewed_for_the_site_that_serves_it() {
        let exact = |name: &str| HostName::Exact(name.to_owned());
        let wildcard = |suffix: &str| HostName::Wildcard(suffix.to_owned());
        let sites = [
            site(&[], true),
            site(&[exact("a.test"), wildcard("b.test")], false),
            site(&[wildcard("c.b.test"), exact("d.b.test")], false),
        ];
        let table = [
            ("an exact name", "a.test", 1),
            ("a wildcard", "x.b.test", 1),
            ("a longer wildcard", "x.c.b.test", 2),
            ("an exact name before a wildcard", "d.b.test", 2),
            ("the wildcard's domain", "b.test", 0),
            ("a name that ends likewise", "ab.test", 0),
            ("another name", "x.test", 0),
        ];
        for (sentence, name, expected) in table {
            let found = site_of(&sites, None, name).map(|found| found.hosts.clone());
            assert_eq!(found.as_ref(), Some(&sites[expected].hosts), "{sentence}");
        }
    }

    /// Regression: the default of one listener hid that of another, whose names were never renewed.
    #[test]
    fn the_sites_of_each_listener_decide_about_a_name() {
        let at = |port: u16| Listen::Tcp(([127, 0, 0, 1], port).into());
        let on_demand = |site: Site, ask: &str| {
            let settings = OnDemand { ask: ask.to_owned(), ..OnDemand::default() };
            let source = CertificateSource::OnDemand(settings);
            Site { tls: Some(Tls { source, ..Tls::default() }), ..site }
        };
        let inner = Site { listen: vec![at(8081)], ..site(&[], true) };
        let public = on_demand(site(&[], true), "http://127.0.0.1:1/public");
        let own = on_demand(site(&[], true), "http://127.0.0.1:1/own");
        let own = Site { listen: vec![at(8443)], ..own };
        let asked = |sites: &[Site]| {
            let all = settings_of(sites, "shop.test").into_iter();
            all.map(|settings| settings.ask.clone()).collect::<Vec<_>>()
        };
        assert_eq!(asked(&[inner.clone(), public.clone()]), ["http://127.0.0.1:1/public"]);
        assert_eq!(asked(&[inner.clone(), public, own]).len(), 2, "both may want it");
        assert_eq!(asked(&[inner]), [""; 0]);
    }
}
