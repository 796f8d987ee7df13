//! What handshakes are done with: each site's certificates from their files, read again when those
//! change, and what its clients must show. Sessions themselves are `transport`'s.

mod client;
mod der;
mod facts;
mod keep;
pub mod local;
mod pem;
mod pending;
mod staple;
mod terms;

use std::sync::{Arc, Mutex, PoisonError, RwLock};

use rustls::ServerConfig;

use crate::config::{self, Config};
use crate::sys;

pub use client::ClientCertificate;
pub use facts::Facts;
pub use keep::replace;
use pem::Stamp;
use pending::Pending;
pub use pending::{ALPN, Challenge, HTTP_PREFIX, path as challenges_path};
use terms::Made;

pub use terms::HTTP2;

/// Every site's terms, by the site's number.
#[derive(Debug)]
pub struct Keyring {
    sites: Vec<Option<Entry>>,
    /// What authorities will look for; `None`: no certificate is got here.
    pending: Option<Pending>,
}

/// What a site's handshakes are done with.
#[derive(Debug)]
pub enum Terms {
    /// These, and the number of its client policy.
    Ready(Arc<ServerConfig>, u32),
    /// Its certificate has not been issued yet.
    NotYet,
}

/// A site's terms, those of now and what is known of their files.
#[derive(Debug)]
struct Entry {
    name: String,
    policy: u32,
    site: config::Site,
    /// Read at each handshake, beside whose arithmetic the lock is nothing; written by one thread.
    /// `None`: its certificate has not been issued yet.
    terms: RwLock<Option<Arc<ServerConfig>>>,
    files: Mutex<Files>,
}

#[derive(Debug)]
struct Files {
    /// `None`: see `terms`.
    made: Option<Made>,
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
            true => {
                let pending = config.acme.as_ref().map(|acme| Pending::new(&acme.storage));
                let is_needed = sites.iter().any(Option::is_some);
                if is_needed {
                    // Now, since the kernel may load it for root alone.
                    sys::offers_tls();
                }
                Ok(is_needed.then_some(Keyring { sites, pending }))
            }
            false => Err(problems),
        }
    }

    /// What a handshake for a site is done with; `None`: it has no certificate, and will have none.
    pub fn terms(&self, site: usize) -> Option<Terms> {
        let entry = self.sites.get(site)?.as_ref()?;
        // A poisoned lock holds what it held before: an `Arc` is stored whole.
        let terms = entry.terms.read().unwrap_or_else(PoisonError::into_inner);
        Some(match &*terms {
            Some(terms) => Terms::Ready(Arc::clone(terms), entry.policy),
            None => Terms::NotYet,
        })
    }

    /// What an authority is shown that wants to know whether this name is the server's (RFC 8737);
    /// `None`: none was told to look.
    pub fn challenge_terms(&self, name: &str) -> Option<Arc<ServerConfig>> {
        self.pending.as_ref()?.terms(name)
    }

    /// The answer to an authority that asks for this path of this host (RFC 8555 8.3), in lower
    /// case; `None`: none was told to.
    pub fn challenge_answer(&self, host: &[u8], path: &[u8]) -> Option<String> {
        self.pending.as_ref()?.answer(host, path.strip_prefix(HTTP_PREFIX)?)
    }

    /// What a site's certificates are, for people.
    pub fn describe(&self, site: usize) -> Vec<String> {
        let Some(Some(entry)) = self.sites.get(site) else { return Vec::new() };
        let files = entry.files.lock().unwrap_or_else(PoisonError::into_inner);
        match &files.made {
            Some(made) => made.describe(),
            None => vec!["no certificate yet: one is asked for when the server runs".to_owned()],
        }
    }

    /// Looks at every file, and reads again those of sites where one has changed.
    pub fn look(&self) {
        self.pending.iter().for_each(Pending::look);
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
        let made = match Made::new(tls, None) {
            Ok(made) => Some(made),
            // Whoever gets certificates gets another.
            Err(e) if tls.automatic => {
                if seen.iter().any(Option::is_some) {
                    tracing::error!("{name}: {e}; or wait for a new one");
                }
                None
            }
            Err(e) => return Err(format!("{name}: {e}")),
        };
        if let Some(made) = &made {
            for doubt in made.doubts(&site.hosts).iter().chain(made.unsent()) {
                tracing::warn!("{name}: {doubt}");
            }
        }
        let terms = RwLock::new(made.as_ref().map(|made| Arc::clone(&made.config)));
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
        match self.renewed(tls, files.made.as_ref()) {
            Ok(made) => {
                let mut terms = self.terms.write().unwrap_or_else(PoisonError::into_inner);
                *terms = Some(Arc::clone(&made.config));
                tracing::info!("{}: new certificate, {}", self.name, made.describe().join("; "));
                made.unsent().iter().for_each(|why| tracing::warn!("{}: {why}", self.name));
                *files =
                    Files { made: Some(made), seen: stamps, suspect: None, told_of_lapsed: false };
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
    fn renewed(&self, tls: &config::Tls, old: Option<&Made>) -> Result<Made, String> {
        let made = Made::new(tls, old)?;
        match (made.doubts(&self.site.hosts).into_iter().next(), old) {
            (Some(doubt), Some(old)) if old.doubts(&self.site.hosts).is_empty() => Err(doubt),
            _ => Ok(made),
        }
    }
}

impl Files {
    fn tell_of_lapsed(&mut self, name: &str) {
        let lapsed = self.made.as_ref().filter(|_| !self.told_of_lapsed).map(Made::lapsed);
        for why in &lapsed.unwrap_or_default() {
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
