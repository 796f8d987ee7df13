//! What handshakes are done with: each site's certificates from their files, read again when those
//! change, and what its clients must show. Sessions themselves are `transport`'s.

mod client;
pub mod local;
mod pem;
mod staple;
mod terms;

use std::sync::{Arc, Mutex, PoisonError, RwLock};

use rustls::ServerConfig;

use crate::config::{self, Config};

pub use client::ClientCertificate;
use pem::Stamp;
use terms::Made;

pub use terms::HTTP2;

/// Every site's terms, by the site's number.
#[derive(Debug)]
pub struct Keyring {
    sites: Vec<Option<Entry>>,
}

/// A site's terms, those of now and what is known of their files.
#[derive(Debug)]
struct Entry {
    name: String,
    policy: u32,
    site: config::Site,
    /// Read at each handshake, beside whose arithmetic the lock is nothing; written by one thread.
    terms: RwLock<Arc<ServerConfig>>,
    files: Mutex<Files>,
}

#[derive(Debug)]
struct Files {
    made: Made,
    /// What the files were when they were last read, or given up.
    seen: Vec<Option<Stamp>>,
    /// Files that could not be used once: they may have been in the middle of a change.
    suspect: Option<Vec<Option<Stamp>>>,
    /// The log knows which staples have lapsed.
    told_of_lapsed: bool,
}

impl Keyring {
    /// Reads every certificate of a configuration; `None` if it has none. What is only doubtful (a
    /// certificate that has expired, or is not for the site's names) is logged.
    ///
    /// # Errors
    /// Why files cannot be used, a line each.
    pub fn load(config: &Config) -> Result<Option<Keyring>, Vec<String>> {
        let policies = policies(&config.sites);
        let (mut sites, mut problems) = (Vec::new(), Vec::new());
        for (number, (site, policy)) in config.sites.iter().zip(policies).enumerate() {
            let entry = site.tls.as_ref().map(|tls| Entry::load(site, tls, number, policy));
            sites.push(entry.transpose().unwrap_or_else(|e| {
                problems.push(e);
                None
            }));
        }
        match problems.is_empty() {
            true => Ok(sites.iter().any(Option::is_some).then_some(Keyring { sites })),
            false => Err(problems),
        }
    }

    /// What a handshake for a site is done with, and the number of its client policy.
    pub fn terms(&self, site: usize) -> Option<(Arc<ServerConfig>, u32)> {
        let entry = self.sites.get(site)?.as_ref()?;
        // A poisoned lock holds what it held before: an `Arc` is stored whole.
        let terms = entry.terms.read().unwrap_or_else(PoisonError::into_inner);
        Some((Arc::clone(&terms), entry.policy))
    }

    /// What a site's certificates are, for people.
    pub fn describe(&self, site: usize) -> Vec<String> {
        let Some(Some(entry)) = self.sites.get(site) else { return Vec::new() };
        entry.files.lock().unwrap_or_else(PoisonError::into_inner).made.describe()
    }

    /// Looks at every file, and reads again those of sites where one has changed.
    pub fn look(&self) {
        self.sites.iter().flatten().for_each(Entry::look);
    }
}

impl Entry {
    fn load(
        site: &config::Site,
        tls: &config::Tls,
        number: usize,
        policy: u32,
    ) -> Result<Entry, String> {
        let name = site.hosts.first().map_or(format!("site {number}"), ToString::to_string);
        // Before they are read: a change in between is seen at the first look.
        let seen = stamps(tls);
        let made = Made::new(tls, None).map_err(|e| format!("{name}: {e}"))?;
        for doubt in made.doubts(&site.hosts).iter().chain(made.unsent()) {
            tracing::warn!("{name}: {doubt}");
        }
        let terms = RwLock::new(Arc::clone(&made.config));
        let files = Mutex::new(Files { made, seen, suspect: None, told_of_lapsed: false });
        Ok(Entry { name, policy, site: site.clone(), terms, files })
    }

    fn look(&self) {
        let Some(tls) = &self.site.tls else { return };
        let mut files = self.files.lock().unwrap_or_else(PoisonError::into_inner);
        let stamps = stamps(tls);
        if stamps == files.seen {
            return files.tell_of_lapsed(&self.name);
        }
        match self.renewed(tls, &files.made) {
            Ok(made) => {
                let mut terms = self.terms.write().unwrap_or_else(PoisonError::into_inner);
                *terms = Arc::clone(&made.config);
                tracing::info!("{}: new certificate, {}", self.name, made.describe().join("; "));
                made.unsent().iter().for_each(|why| tracing::warn!("{}: {why}", self.name));
                *files = Files { made, seen: stamps, suspect: None, told_of_lapsed: false };
            }
            // Certificate and key are two files, and one is always the first to change.
            Err(_) if files.suspect.as_ref() != Some(&stamps) => files.suspect = Some(stamps),
            Err(e) => {
                let name = &self.name;
                tracing::error!("{name}: {e}; the certificate from before stays in use until then");
                files.seen = stamps;
            }
        }
    }

    /// New terms; not with doubts that there are none about those of now.
    fn renewed(&self, tls: &config::Tls, old: &Made) -> Result<Made, String> {
        let made = Made::new(tls, Some(old))?;
        match made.doubts(&self.site.hosts).into_iter().next() {
            Some(doubt) if old.doubts(&self.site.hosts).is_empty() => Err(doubt),
            _ => Ok(made),
        }
    }
}

impl Files {
    fn tell_of_lapsed(&mut self, name: &str) {
        let lapsed = if self.told_of_lapsed { Vec::new() } else { self.made.lapsed() };
        for why in &lapsed {
            tracing::warn!("{name}: {why}");
            self.told_of_lapsed = true;
        }
    }
}

/// Of all files of a site.
fn stamps(tls: &config::Tls) -> Vec<Option<Stamp>> {
    let files = tls.certificates.iter().flat_map(|files| [&files.chain, &files.key]);
    let authorities = tls.client_auth.iter().map(|auth| &auth.authorities);
    let staples = tls.certificates.iter().map(|files| Stamp::of(&staple::path(&files.chain)));
    files.chain(authorities).map(|path| Stamp::of(path)).chain(staples).collect()
}

/// The number of each site's way to authenticate clients: 0 is none, and those that ask for the
/// same of the same authorities have the same.
pub fn policies(sites: &[config::Site]) -> Vec<u32> {
    let mut known: Vec<Option<&config::ClientAuth>> = vec![None];
    let mut numbers = Vec::new();
    for site in sites {
        let auth = site.tls.as_ref().and_then(|tls| tls.client_auth.as_ref());
        let at = known.iter().position(|other| *other == auth).unwrap_or_else(|| {
            known.push(auth);
            known.len() - 1
        });
        numbers.push(u32::try_from(at).unwrap_or(u32::MAX));
    }
    numbers
}
