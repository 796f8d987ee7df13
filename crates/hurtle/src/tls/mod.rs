//! TLS configuration: loads each site's certificates, reloads changed files, and makes the rustls
//! configurations for handshakes, `upstream` those with upstreams, `outgoing` those of the server
//! itself. Sessions belong to `transport`.

mod atomic;
mod automatic;
mod certificate;
mod challenges;
mod client;
mod der;
mod derived_keys;
mod directory;
pub mod local;
mod outgoing;
mod pem;
mod revocation;
mod site_config;
mod subject;
mod tickets;
mod upstream;

use std::path::Path;
use std::sync::{Arc, Mutex, PoisonError, RwLock};

use rustls::ServerConfig;
use rustls::pki_types::UnixTime;

use crate::config::{self, CertificateSource, Config, HostName};
use crate::metrics::CertificateSnapshot;
use crate::rt::oneshot;
use crate::sys;

pub use atomic::write_atomically;
use automatic::Demand;
pub use automatic::{Automatic, NameRequest, Serving};
pub use certificate::{CertificateId, IssuedCertificate, Validity};
use challenges::PendingChallenges;
pub use challenges::{ALPN, Challenge, HTTP_PREFIX, path as challenges_path};
pub use client::ClientCertificate;
pub use directory::create_directory_for;
pub use outgoing::{outgoing, trusting_nobody};
use pem::FileStamp;
use site_config::SiteConfig;
pub use site_config::{HTTP2, HTTP3};
pub use tickets::TicketKeys;
pub use upstream::{UpstreamConfig, UpstreamConfigs, describe_failure};

/// Time after which rejected files are tried again.
const REJECTED_RETRY_SECS: u64 = 10;

/// Time to the next attempt after a failed renewal of a local certificate.
const RENEWAL_RETRY_SECS: u64 = 60 * 60;

/// TLS configuration of every site, by the site's number.
#[derive(Debug)]
pub struct Keyring {
    sites: Vec<Option<Arc<Entry>>>,
    /// Pending ACME challenges; `None` without `[acme]`.
    challenges: Option<PendingChallenges>,
    automatic: Arc<Automatic>,
}

/// A site's configuration for a new handshake.
#[derive(Debug)]
pub enum SiteTls {
    /// The rustls configuration, and the number of the site's client policy (see `policy`).
    Ready(Arc<ServerConfig>, u32),
    /// The settings and the policy of the site; the receiver gets `true` when the certificate,
    /// which is being ordered or loaded, is there.
    Sought(Arc<ServerConfig>, u32, oneshot::Receiver<bool>),
    /// The site's ACME certificate has not been issued yet.
    NotIssued,
}

/// One site: its current configuration and the state of its files.
#[derive(Debug)]
struct Entry {
    name: String,
    policy: u32,
    site: config::Site,
    /// The certificates on demand of all sites; `None`: this site has none.
    automatic: Option<Arc<Automatic>>,
    /// Read at each handshake, which costs far more than the lock; one thread writes it. `None`:
    /// the certificate has not been issued yet.
    current: RwLock<Option<Handshakes>>,
    files: Mutex<Files>,
}

/// The rustls configurations for new handshakes.
#[derive(Clone, Debug)]
struct Handshakes {
    tcp: Arc<ServerConfig>,
    quic: Arc<ServerConfig>,
}

#[derive(Debug)]
struct Files {
    /// `None`: the certificate has not been issued yet.
    loaded: Option<SiteConfig>,
    /// Stamps of the files that were loaded or rejected last.
    seen: Vec<Option<FileStamp>>,
    /// The files that were rejected last; `None`: those in use are the last ones.
    rejected: Option<Rejected>,
    /// Stamps of files that failed to load once: another file may be about to change.
    suspect: Option<Vec<Option<FileStamp>>>,
    renewal: Renewal,
    /// Warnings about expired revocation lists that are in the log.
    expired_lists: Vec<String>,
}

/// Files that are not used.
#[derive(Debug)]
struct Rejected {
    why: String,
    /// Time at which they are tried again, in seconds since 1970: the new certificate may be valid
    /// by then, or the previous one invalid.
    retry: u64,
}

/// State of the renewal of a local certificate.
#[derive(Debug, Default)]
struct Renewal {
    /// Earliest time of the next attempt, in seconds since 1970.
    from: u64,
    /// The file is lost or unusable.
    is_lost: bool,
}

impl Keyring {
    /// Loads all certificates of a configuration; `None` if it has none. Logs a warning for a
    /// certificate that has expired or lacks one of the site's names. Sites that are as they were
    /// in `previous`, the keyring of the configuration before, are shared with it; others of the
    /// same name accept its tickets.
    ///
    /// # Errors
    /// One line for each site whose files are unusable.
    pub fn load(
        config: &Config,
        previous: Option<&Keyring>,
    ) -> Result<Option<Keyring>, Vec<String>> {
        let (mut sites, mut problems) = (Vec::new(), Vec::new());
        let automatic = previous.map(|previous| Arc::clone(&previous.automatic));
        let automatic = automatic.unwrap_or_default();
        for site in &config.sites {
            let known = previous.and_then(|keyring| keyring.entry(&site.name()));
            let entry = site.tls.as_ref().map(|tls| match known {
                Some(known) if known.site.tls == site.tls && known.site.hosts == site.hosts => {
                    Ok(Arc::clone(known))
                }
                known => {
                    let known = known.map(|known| &**known);
                    Entry::load(site, tls, known, &automatic).map(Arc::new)
                }
            });
            sites.push(entry.transpose().unwrap_or_else(|e| {
                problems.push(e);
                None
            }));
        }
        if !problems.is_empty() {
            return Err(problems);
        }
        if sites.iter().all(Option::is_none) {
            return Ok(None);
        }
        // Only root can make the kernel load its TLS module, so this comes before `user`.
        sys::offers_tls();
        let challenges = config.acme.as_ref().map(|acme| PendingChallenges::new(&acme.storage));
        Ok(Some(Keyring { sites, challenges, automatic }))
    }

    /// State that is shared with the thread of ACME certificates.
    pub fn automatic(&self) -> Arc<Automatic> {
        Arc::clone(&self.automatic)
    }

    fn entry(&self, name: &str) -> Option<&Arc<Entry>> {
        self.sites.iter().flatten().find(|entry| entry.name == name)
    }

    /// Configuration for a handshake with a site; `None` for a site without certificates, or
    /// without one for the client's server name.
    pub fn site(&self, number: usize, name: Option<&str>) -> Option<SiteTls> {
        self.handshake(number, name, |handshakes| &handshakes.tcp)
    }

    /// Configuration for a handshake of QUIC with a site, likewise.
    pub fn quic_site(&self, number: usize, name: Option<&str>) -> Option<SiteTls> {
        self.handshake(number, name, |handshakes| &handshakes.quic)
    }

    fn handshake(
        &self,
        number: usize,
        name: Option<&str>,
        of: fn(&Handshakes) -> &Arc<ServerConfig>,
    ) -> Option<SiteTls> {
        let entry = self.sites.get(number)?.as_ref()?;
        // A poisoned lock still holds a whole value.
        let current = entry.current.read().unwrap_or_else(PoisonError::into_inner);
        let Some(current) = &*current else { return Some(SiteTls::NotIssued) };
        let (config, policy) = (Arc::clone(of(current)), entry.policy);
        let Some(settings) = entry.site.tls.as_ref().and_then(config::Tls::on_demand) else {
            return Some(SiteTls::Ready(config, policy));
        };
        match self.automatic.demand(name?, &entry.name, settings) {
            Demand::Ready => Some(SiteTls::Ready(config, policy)),
            Demand::Sought(receiver) => Some(SiteTls::Sought(config, policy, receiver)),
            Demand::Refused => None,
        }
    }

    /// Configuration for a tls-alpn-01 validation of this name (RFC 8737); `None` if no such
    /// challenge is pending.
    pub fn challenge_config(&self, name: &str) -> Option<Arc<ServerConfig>> {
        self.challenges.as_ref()?.config(name)
    }

    /// Response body for an http-01 validation (RFC 8555 section 8.3) of `host`, in lower case;
    /// `None` if no such challenge is pending.
    pub fn challenge_answer(&self, host: &[u8], path: &[u8]) -> Option<String> {
        self.challenges.as_ref()?.answer(host, path.strip_prefix(HTTP_PREFIX)?)
    }

    /// Returns the expiry and the next renewal of each certificate.
    pub fn snapshot(&self) -> Vec<CertificateSnapshot> {
        self.sites.iter().flatten().flat_map(|entry| entry.snapshot(&self.automatic)).collect()
    }

    /// Describes the certificates that clients reject, now or soon if no one replaces them, and
    /// expired revocation lists.
    pub fn warnings(&self) -> Vec<String> {
        self.sites.iter().flatten().flat_map(|entry| entry.warnings()).collect()
    }

    /// The keys of all sites' session tickets, for another process.
    pub fn ticket_keys(&self) -> Vec<TicketKeys> {
        let keys = |entry: &Arc<Entry>| {
            let files = entry.files.lock().unwrap_or_else(PoisonError::into_inner);
            files.loaded.as_ref()?.ticket_keys(&entry.name)
        };
        self.sites.iter().flatten().filter_map(keys).collect()
    }

    /// Uses the ticket keys of another process for the sites of the same name and client policy.
    pub fn adopt_ticket_keys(&self, keys: &[TicketKeys]) {
        for keys in keys {
            let Some(entry) = self.entry(&keys.site) else { continue };
            let files = entry.files.lock().unwrap_or_else(PoisonError::into_inner);
            if let Some(loaded) = &files.loaded {
                loaded.adopt_ticket_keys(keys);
            }
        }
    }

    /// Describes a site's certificates, one line each.
    pub fn describe(&self, site: usize) -> Vec<String> {
        let Some(Some(entry)) = self.sites.get(site) else { return Vec::new() };
        let files = entry.files.lock().unwrap_or_else(PoisonError::into_inner);
        match &files.loaded {
            Some(_) if entry.automatic.is_some() => {
                vec!["certificates on demand, one for each name that clients ask for".to_owned()]
            }
            Some(loaded) => loaded.describe(),
            None if entry.authority().is_some() => {
                vec!["no certificate yet: the local authority signs one at a start".to_owned()]
            }
            None => vec!["no certificate yet: a running server orders one".to_owned()],
        }
    }

    /// Renews the local certificates that are about to end, checks all files and reloads the sites
    /// whose files have changed.
    pub fn reload_changed(&self) {
        self.sites.iter().flatten().for_each(|entry| entry.renew());
        self.challenges.iter().for_each(PendingChallenges::reload);
        self.sites.iter().flatten().for_each(|entry| entry.reload());
    }
}

impl Entry {
    fn load(
        site: &config::Site,
        tls: &config::Tls,
        previous: Option<&Entry>,
        automatic: &Arc<Automatic>,
    ) -> Result<Entry, String> {
        let automatic = tls.on_demand().map(|_| Arc::clone(automatic));
        let (name, policy) = (site.name(), policy(site));
        let previous = previous.map(|entry| entry.files.lock());
        let previous = previous.map(|files| files.unwrap_or_else(PoisonError::into_inner));
        let previous = previous.as_ref().and_then(|files| files.loaded.as_ref());
        // Before the files are read, so that the next check finds a change during the read.
        let seen = stamps(tls);
        let loaded = match SiteConfig::load(&name, site, tls, previous, automatic.as_ref()) {
            Ok(loaded) => Some(loaded),
            // ACME or a start of the server replaces it.
            Err(e) if !tls.certificates.is_empty() && tls.source != CertificateSource::Files => {
                if tls.certificates.iter().any(|files| files.chain.exists()) {
                    tracing::error!("{name}: {e}; or wait for a new one");
                }
                None
            }
            Err(e) => return Err(format!("{name}: {e}")),
        };
        for warning in loaded.iter().flat_map(|loaded| loaded.warnings(&names(site, tls))) {
            tracing::warn!("{name}: {warning}");
        }
        let current = RwLock::new(loaded.as_ref().map(SiteConfig::handshakes));
        let mut files = Files {
            loaded,
            seen,
            rejected: None,
            suspect: None,
            renewal: Renewal::default(),
            expired_lists: Vec::new(),
        };
        files.warn_of_expired_lists(&name);
        let files = Mutex::new(files);
        Ok(Entry { name, policy, site: site.clone(), automatic, current, files })
    }

    fn reload(&self) {
        let Some(tls) = &self.site.tls else { return };
        let mut files = self.files.lock().unwrap_or_else(PoisonError::into_inner);
        let stamps = stamps(tls);
        let now = UnixTime::now().as_secs();
        // A later time was set before the clock was set back.
        let is_due = |retry: u64| retry <= now || retry > now + REJECTED_RETRY_SECS;
        let is_retried = files.rejected.as_ref().is_some_and(|rejected| is_due(rejected.retry));
        if stamps == files.seen && !is_retried {
            return files.warn_of_expired_lists(&self.name);
        }
        match self.replacement(tls, files.loaded.as_ref()) {
            Ok(loaded) => {
                let mut current = self.current.write().unwrap_or_else(PoisonError::into_inner);
                *current = Some(loaded.handshakes());
                tracing::info!("{}: new files, {}", self.name, loaded.describe().join("; "));
                *files = Files {
                    loaded: Some(loaded),
                    seen: stamps,
                    suspect: None,
                    renewal: Renewal::default(),
                    expired_lists: Vec::new(),
                    rejected: None,
                };
                files.warn_of_expired_lists(&self.name);
            }
            // Certificate and key are two files, which change one after the other.
            Err(_) if stamps != files.seen && files.suspect.as_ref() != Some(&stamps) => {
                files.suspect = Some(stamps);
            }
            Err(why) => {
                let is_known = files.rejected.as_ref().is_some_and(|known| known.why == why);
                if stamps != files.seen || !is_known {
                    tracing::error!("{}: {why}; what was loaded before stays in use", self.name);
                }
                files.rejected = Some(Rejected { why, retry: now + REJECTED_RETRY_SECS });
                files.seen = stamps;
                files.renewal.is_lost = true;
            }
        }
    }

    /// Loads the changed files. It is an error that clients would reject the new certificate where
    /// they accept the previous one: now, or for a name.
    fn replacement(
        &self,
        tls: &config::Tls,
        previous: Option<&SiteConfig>,
    ) -> Result<SiteConfig, String> {
        let loaded =
            SiteConfig::load(&self.name, &self.site, tls, previous, self.automatic.as_ref())?;
        let Some(previous) = previous else { return Ok(loaded) };
        let loss = |hosts: &[HostName]| {
            let is_accepted = previous.warnings(hosts).is_empty();
            loaded.warnings(hosts).into_iter().next().filter(|_| is_accepted)
        };
        let names = names(&self.site, tls);
        let of_names = || names.iter().find_map(|name| loss(std::slice::from_ref(name)));
        loss(&[]).or_else(of_names).map_or(Ok(loaded), Err)
    }

    fn snapshot(&self, automatic: &Automatic) -> Vec<CertificateSnapshot> {
        let Some(tls) = &self.site.tls else { return Vec::new() };
        let files = self.files.lock().unwrap_or_else(PoisonError::into_inner);
        let mut of_first = None;
        let (source, renewal) = match &tls.source {
            CertificateSource::OnDemand(_) => {
                let of_site = automatic.figures(&self.name);
                of_first = of_site.valid;
                ("on-demand", of_site.renewal)
            }
            CertificateSource::Files => ("files", None),
            CertificateSource::Automatic => {
                let file = tls.certificates.first();
                ("acme", file.and_then(|files| automatic.renewal(&files.chain)))
            }
            CertificateSource::Local(_) => ("local", Some(files.local_renewal())),
        };
        let valid = files.loaded.as_ref().map(SiteConfig::validities).unwrap_or_default();
        let mut valid: Vec<_> = valid.into_iter().map(Some).collect();
        if valid.is_empty() {
            // Not issued yet, or on demand.
            valid.push(of_first);
        }
        let of = |(number, valid): (_, Option<Validity>)| {
            let (site, source) = (self.name.clone(), source.into());
            let (not_before, not_after) = (valid.map(|it| it.from), valid.map(|it| it.until));
            CertificateSnapshot { site, number, source, not_before, not_after, renewal }
        };
        valid.into_iter().enumerate().map(of).collect()
    }

    fn warnings(&self) -> Vec<String> {
        let Some(tls) = &self.site.tls else { return Vec::new() };
        let files = self.files.lock().unwrap_or_else(PoisonError::into_inner);
        let Some(loaded) = &files.loaded else { return Vec::new() };
        let warnings = match tls.source {
            CertificateSource::Files => {
                let mut warnings = loaded.warnings(&self.site.hosts);
                warnings.extend(loaded.expiring(UnixTime::now().as_secs()));
                warnings
            }
            // The server replaces a certificate that lacks names, or that expires soon.
            _ => loaded.warnings(&[]),
        };
        let warnings = warnings.into_iter().chain(loaded.expired_lists(UnixTime::now().as_secs()));
        warnings.map(|warning| format!("{}: {warning}", self.name)).collect()
    }

    /// The directory of the local authority of the site.
    fn authority(&self) -> Option<&Path> {
        self.site.tls.as_ref().and_then(config::Tls::local_authority)
    }

    /// Replaces a local certificate when it is due; the next check of the files loads the new one.
    fn renew(&self) {
        let Some(dir) = self.authority() else { return };
        let mut files = self.files.lock().unwrap_or_else(PoisonError::into_inner);
        let now = UnixTime::now().as_secs();
        if now < files.local_renewal() {
            return;
        }
        files.renewal = Renewal { from: now + RENEWAL_RETRY_SECS, is_lost: false };
        match local::prepare_for(dir, std::slice::from_ref(&self.site.hosts)) {
            Ok(prepared) => prepared.created.iter().for_each(|new| tracing::warn!("{new}")),
            Err(e) => {
                tracing::error!("{}: {e}; its certificate cannot be renewed", self.name);
            }
        }
    }
}

impl Files {
    /// Logs a warning for each revocation list that has expired since the last call.
    fn warn_of_expired_lists(&mut self, site: &str) {
        let now = UnixTime::now().as_secs();
        let expired = self.loaded.as_ref().map(|loaded| loaded.expired_lists(now));
        let expired = expired.unwrap_or_default();
        for warning in expired.iter().filter(|warning| !self.expired_lists.contains(warning)) {
            tracing::warn!("{site}: {warning}");
        }
        self.expired_lists = expired;
    }

    /// Time at which a local certificate is replaced, in seconds since 1970.
    fn local_renewal(&self) -> u64 {
        let loaded = self.loaded.as_ref().filter(|_| !self.renewal.is_lost);
        let due = loaded.and_then(SiteConfig::validity).map_or(0, local::renewal);
        // A later time was set before the clock was set back.
        let is_sane = self.renewal.from <= UnixTime::now().as_secs() + RENEWAL_RETRY_SECS;
        if is_sane { due.max(self.renewal.from) } else { due }
    }
}

/// The names that the certificates of a site must have.
fn names(site: &config::Site, tls: &config::Tls) -> Vec<HostName> {
    match tls.local_authority() {
        Some(_) => local::subjects(&site.hosts),
        None => site.hosts.clone(),
    }
}

/// Stamps of all files of a site.
fn stamps(tls: &config::Tls) -> Vec<Option<FileStamp>> {
    let files = tls.certificates.iter().flat_map(|files| [&files.chain, &files.key]);
    let clients = tls
        .client_auth
        .iter()
        .flat_map(|auth| std::iter::once(&auth.authorities).chain(&auth.revocation_lists));
    let secret = &tls.ticket_secret;
    files.chain(clients).chain(secret).map(|path| FileStamp::of(path)).collect()
}

/// The client policies of all configurations so far. A connection outlives the configuration of its
/// handshake, so a number must never get another meaning.
static POLICIES: Mutex<Vec<config::ClientAuth>> = Mutex::new(Vec::new());

/// Returns the number of a site's client policy: 0 without client certificates, else the same
/// number for the same `client_auth`, also after a reload.
pub fn policy(site: &config::Site) -> u32 {
    let Some(auth) = site.tls.as_ref().and_then(|tls| tls.client_auth.as_ref()) else { return 0 };
    let mut known = POLICIES.lock().unwrap_or_else(PoisonError::into_inner);
    let at = known.iter().position(|other| other == auth).unwrap_or_else(|| {
        known.push(auth.clone());
        known.len() - 1
    });
    u32::try_from(at + 1).unwrap_or(u32::MAX)
}
