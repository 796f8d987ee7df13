//! Orders and renews certificates for sites with `certificate = "auto"` (ACME, RFC 8555). It orders
//! configured names only. A crash, or another server with the same storage, causes no second order.
//! It runs apart from handshakes and requests: it writes files, and `tls` reads them when they
//! change.

mod account;
mod ask;
mod attempt;
mod dns;
pub(crate) mod hook;
mod http;
mod on_demand;
mod order;
mod plan;
mod propagation;
pub(crate) mod resolvers;
mod storage;

use std::fs;
use std::io;
use std::path::PathBuf;
use std::sync::{Arc, LazyLock};
use std::time::{Duration, SystemTime, UNIX_EPOCH};

use crate::config::{self, ChallengeKind, Config, DnsHook, HostName};
use crate::rt::{self, Permits};
use crate::tls::{Automatic, IssuedCertificate};
use account::Authority;
use attempt::Attempt;
use hurtle_http::semantics::date;
use on_demand::NameOrders;
pub(crate) use storage::STORAGE_MODE;
use storage::{Record, Storage, Trial};

/// All certificates are checked this often: a clock can be set, a file can be removed.
const CHECK_SECS: u64 = 60 * 60;

/// Delay before the next try to lock a storage that another server has locked.
const LOCKED_SECS: u64 = 5;

/// Time limit of one attempt with one authority, without the time of a DNS hook.
const ATTEMPT_MAX: Duration = Duration::from_secs(5 * 60);

/// Limit of an authority's `Retry-After`.
const RETRY_AFTER_SECS_MAX: u64 = 7 * 24 * 60 * 60;

/// Shortest and longest time between two requests for renewal information (RFC 9773).
const RENEWAL_INFO_SECS: (u64, u64) = (60, 24 * 60 * 60);

/// Time to the next request after a failed one.
const RENEWAL_INFO_RETRY_SECS: u64 = 6 * 60 * 60;

/// Attempts with a DNS hook take turns, because its process serves one at a time. The wait for a
/// turn is no part of an attempt.
static HOOK_TURN: LazyLock<Permits> = LazyLock::new(|| Permits::new(1));

/// The ACME certificates of a configuration.
#[derive(Debug)]
pub(crate) struct Acme {
    jobs: Vec<Job>,
    authorities: Vec<Authority>,
    challenges: Vec<ChallengeKind>,
    dns: Option<DnsHook>,
    storage: Storage,
    /// Sites whose names decide about certificates on demand; none if no site has them.
    sites: Vec<config::Site>,
}

/// The state of one certificate of a site: its names, its file, and its next attempt.
#[derive(Debug)]
struct Job {
    /// The name of its files, mostly the first of its names.
    name: String,
    hosts: Vec<HostName>,
    names: Vec<String>,
    file: PathBuf,
    /// The time of the next attempt was logged.
    has_logged_wait: bool,
    /// Hash of the certificate of the last check.
    seen: u64,
    /// Renewal window that the authority suggests, and when to fetch it again.
    window: Option<(u64, u64)>,
    window_due: u64,
    /// Time of the next attempt.
    due: u64,
}

/// Returns the authorities' files that cannot be used, with reasons.
pub(crate) fn problems(config: &Config) -> Vec<String> {
    let Some(acme) = &config.acme else { return Vec::new() };
    let unusable = |authority| Authority::load(authority, acme).err().map(|e| e.to_string());
    acme.authorities.iter().filter_map(unusable).collect()
}

impl Acme {
    /// Opens the storage and reads the authorities' files; `None` without `[acme]`.
    ///
    /// # Errors
    /// The unusable file and the reason.
    pub(crate) fn load(config: &Config) -> io::Result<Option<Acme>> {
        let Some(acme) = &config.acme else { return Ok(None) };
        let storage = Storage::open(&acme.storage);
        let storage = storage
            .map_err(|e| io::Error::new(e.kind(), format!("{}: {e}", acme.storage.display())))?;
        let authorities = acme.authorities.iter();
        let authorities = authorities.map(|authority| Authority::load(authority, acme));
        let is_automatic =
            |site: &config::Site| site.tls.as_ref().is_some_and(config::Tls::is_automatic);
        let sites = config.sites.iter().enumerate().filter(|(_, site)| is_automatic(site));
        let job = |(at, site): (usize, &config::Site)| {
            let name = config::certificate_name(&config.sites, at);
            let file = acme.file(&name);
            Job::new(name, site.hosts.clone(), file)
        };
        Ok(Some(Acme {
            jobs: sites.map(job).collect(),
            authorities: authorities.collect::<io::Result<_>>()?,
            challenges: acme.challenges.clone(),
            dns: acme.dns.clone(),
            storage,
            sites: on_demand::sites(config),
        }))
    }

    /// A copy for names on demand, with their storage.
    fn on_demand(&self) -> io::Result<Acme> {
        Ok(Acme { storage: self.storage.on_demand()?, ..self.copy() })
    }

    /// A copy without certificates, for orders at the same time.
    fn copy(&self) -> Acme {
        Acme {
            jobs: Vec::new(),
            authorities: self.authorities.iter().map(Authority::copy).collect(),
            challenges: self.challenges.clone(),
            dns: self.dns.clone(),
            storage: self.storage.clone(),
            sites: Vec::new(),
        }
    }

    /// The certificate of a name on demand.
    fn job(&self, name: &str) -> Job {
        let hosts = vec![HostName::Exact(name.to_owned())];
        Job::new(name.to_owned(), hosts, self.storage.certificate_path(name))
    }

    /// Earliest time of an attempt, by the attempts that failed.
    fn next_attempt(&self, job: &Job) -> u64 {
        let record = self.storage.record(&job.name, &job.names);
        record.map_or(0, |record| self.allowed(&record))
    }

    /// Keeps the certificates valid; never returns.
    pub(crate) async fn run(mut self, automatic: &Arc<Automatic>) {
        automatic.reset();
        if let Some(names) = NameOrders::new(&self, automatic) {
            names.start();
        }
        let mut jobs = std::mem::take(&mut self.jobs);
        loop {
            let mut next = now() + CHECK_SECS;
            for job in &mut jobs {
                next = next.min(self.check(job).await);
                automatic.set_renewal(&job.file, job.due);
            }
            rt::sleep(Duration::from_secs(next.saturating_sub(now()).max(1))).await;
        }
    }

    /// Does what is due for one certificate; returns when to check it again.
    async fn check(&mut self, job: &mut Job) -> u64 {
        self.try_check(job).await.unwrap_or_else(|e| {
            tracing::error!("{}: {e}; no certificate can be ordered", job.name);
            now() + CHECK_SECS
        })
    }

    /// Reads the current certificate, and when the next attempt is.
    async fn plan(&mut self, job: &mut Job) -> io::Result<(Option<IssuedCertificate>, u64)> {
        let record = self.storage.record(&job.name, &job.names)?;
        let current = job.current();
        if current.is_some() && job.window_due <= now() {
            self.update_window(job, current.as_ref(), &record).await;
        }
        job.due = self.due(job, current.as_ref(), &record);
        Ok((current, job.due))
    }

    async fn try_check(&mut self, job: &mut Job) -> io::Result<u64> {
        let (current, due) = self.plan(job).await?;
        if due > now() {
            job.log_wait(current.as_ref(), due);
            let refresh = if current.is_some() { job.window_due } else { u64::MAX };
            return Ok(due.min(refresh));
        }
        let Some(_lock) = self.storage.lock(&job.name)? else { return Ok(now() + LOCKED_SECS) };
        // Another server may have renewed it before this one had the lock.
        let record = self.storage.record(&job.name, &job.names)?;
        let current = job.current();
        if self.due(job, current.as_ref(), &record) > now() {
            return Ok(now() + 1);
        }
        // After a failure this is the time of the next attempt.
        job.due = self.attempt(job, current.as_ref(), record).await?;
        Ok(job.due)
    }

    /// Time of the next attempt.
    fn due(&self, job: &Job, current: Option<&IssuedCertificate>, record: &Record) -> u64 {
        let wanted = match current {
            Some(current) if current.missing_names.is_empty() => job.planned(current),
            _ => 0,
        };
        wanted.max(self.allowed(record))
    }

    /// Earliest time at which the record allows an attempt with some authority.
    fn allowed(&self, record: &Record) -> u64 {
        let next = |a: &Authority| record.trials.get(&a.directory).map_or(0, not_before);
        self.authorities.iter().map(next).min().unwrap_or_default()
    }

    /// Orders from one authority after the other until one issues. An attempt is recorded before it
    /// starts, so that a crash counts as a failure. Returns when to check again.
    async fn attempt(
        &mut self,
        job: &mut Job,
        current: Option<&IssuedCertificate>,
        mut record: Record,
    ) -> io::Result<u64> {
        let _turn = match self.dns.is_some() && self.challenges.contains(&ChallengeKind::Dns01) {
            true => Some(HOOK_TURN.take().await),
            false => None,
        };
        let limit = attempt_limit(self.dns.as_ref(), job.names.len());
        let has_lasted = current.is_none_or(|current| plan::has_lasted(current.valid, now()));
        for authority in &mut self.authorities {
            let trial = record.trials.entry(authority.directory.clone()).or_default();
            if not_before(trial) > now() {
                continue;
            }
            let random = plan::fraction_of(format!("{}{}", job.name, now()).as_bytes());
            let before = trial.clone();
            trial.attempts += 1;
            trial.next = now() + plan::back_off(trial.attempts, random);
            let attempts = trial.attempts;
            self.storage.write_record(&job.name, &record)?;
            let of = (&*job.name, &*job.names);
            let mut attempt = Attempt::recorded(&self.storage, of, &authority.directory, before);
            // Each attempt begins with another kind of challenge.
            let mut kinds = self.challenges.clone();
            kinds.rotate_left((attempts as usize - 1) % self.challenges.len().max(1));
            tracing::info!("{}: ordering a certificate from {}", job.name, authority.directory);
            let request = order::CertificateRequest {
                name: &job.name,
                names: &job.names,
                hosts: &job.hosts,
                kinds,
                dns: self.dns.as_ref(),
                replaces: current
                    .filter(|_| record.issuer.as_ref() == Some(&authority.directory))
                    .and_then(|current| current.id.clone()),
            };
            let storage = &self.storage;
            let issued =
                rt::timeout(limit, order::obtain(authority, &request, &mut record, storage));
            let late = || format!("no certificate within {} minutes", limit.as_secs() / 60);
            let issued = issued.await.unwrap_or_else(|| Err(late()));
            attempt.has_ended = true;
            self.storage.remove_challenges(&job.names).await?;
            match issued {
                Ok(pem) => {
                    storage::write_certificate(&job.file, &pem)?;
                    record.order = None;
                    record.issuer = Some(authority.directory.clone());
                    if has_lasted {
                        record.trials.remove(&authority.directory);
                    }
                    self.storage.write_record(&job.name, &record)?;
                    tracing::info!("{}: got a certificate from {}", job.name, authority.directory);
                    return Ok(now() + 1);
                }
                Err(reason) => {
                    authority.close();
                    let trial = record.trials.entry(authority.directory.clone()).or_default();
                    let allowed = authority.take_retry_after().min(now() + RETRY_AFTER_SECS_MAX);
                    trial.next = not_before(trial).max(allowed);
                    self.storage.write_record(&job.name, &record)?;
                    tracing::warn!("{}: {}: {reason}", job.name, authority.directory);
                }
            }
        }
        let next = self.allowed(&record);
        tracing::error!("{}", self.failure(job, current, next));
        Ok(next)
    }

    /// Describes a failed attempt: what is in use now, when the next attempt is, what to do.
    fn failure(&self, job: &Job, current: Option<&IssuedCertificate>, next: u64) -> String {
        let meanwhile = match current {
            Some(current) => {
                format!(
                    "the previous one stays in use, valid until {}",
                    format_time(current.valid.until)
                )
            }
            None => "handshakes for it are refused until then".to_owned(),
        };
        let record = self.storage.record_path(&job.name);
        format!(
            "{}: no certificate was issued; {meanwhile}. The next attempt is at {}. To retry at once \
             after you fixed the cause, stop the server, remove {} and start it",
            job.name,
            format_time(next),
            record.display()
        )
    }

    /// Fetches the renewal window from the authority that issued the certificate (RFC 9773).
    async fn update_window(
        &mut self,
        job: &mut Job,
        current: Option<&IssuedCertificate>,
        record: &Record,
    ) {
        let issuer = record.issuer.as_ref();
        let authority = self.authorities.iter_mut().find(|a| Some(&a.directory) == issuer);
        let id = current.and_then(|current| current.id.as_ref());
        let (Some(authority), Some(id)) = (authority, id) else {
            (job.window, job.window_due) = (None, now() + RENEWAL_INFO_RETRY_SECS);
            return;
        };
        match rt::timeout(ATTEMPT_MAX, authority.renewal(id, &self.storage)).await {
            Some(Ok((window, in_secs))) => {
                let (least, most) = RENEWAL_INFO_SECS;
                (job.window, job.window_due) = (Some(window), now() + in_secs.clamp(least, most));
                tracing::debug!("{}: renewal window from {}", job.name, format_time(window.0));
            }
            // RFC 9773 section 4.3: renew as without a window.
            Some(Err(reason)) => {
                (job.window, job.window_due) = (None, now() + RENEWAL_INFO_RETRY_SECS);
                tracing::debug!(
                    "{}: {}: no renewal information: {reason}",
                    job.name,
                    authority.directory
                );
            }
            None => (job.window, job.window_due) = (None, now() + RENEWAL_INFO_RETRY_SECS),
        }
    }
}

impl Job {
    fn new(name: String, hosts: Vec<HostName>, file: PathBuf) -> Job {
        let names: Vec<String> = hosts.iter().map(ToString::to_string).collect();
        Job {
            name,
            hosts,
            names,
            file,
            has_logged_wait: false,
            seen: 0,
            window: None,
            window_due: 0,
            due: 0,
        }
    }

    /// Time of the renewal of the current certificate.
    fn planned(&self, current: &IssuedCertificate) -> u64 {
        plan::renewal(current.valid, self.window, plan::fraction_of(&current.der))
    }

    /// Logs once when the first certificate will be ordered.
    fn log_wait(&mut self, current: Option<&IssuedCertificate>, due: u64) {
        if current.is_none() && !std::mem::replace(&mut self.has_logged_wait, true) {
            let (name, due) = (&self.name, format_time(due));
            tracing::warn!("{name}: no certificate yet; the next attempt is at {due}");
        }
    }

    /// Reads the current certificate; `None` if there is no usable one. Forgets the renewal window
    /// of a certificate that this or another server has replaced.
    fn current(&mut self) -> Option<IssuedCertificate> {
        let bytes = fs::read(&self.file).ok()?;
        let current = IssuedCertificate::read(&bytes, &self.hosts);
        let current =
            current.inspect_err(|e| tracing::warn!("{}: {e}", self.file.display())).ok()?;
        let hash = xxhash_rust::xxh3::xxh3_64(&current.der);
        if std::mem::replace(&mut self.seen, hash) != hash {
            (self.window, self.window_due) = (None, 0);
        }
        Some(current)
    }
}

/// Time limit of an attempt. For each name a hook writes a record, the servers get it, and the hook
/// removes it.
fn attempt_limit(dns: Option<&DnsHook>, names: usize) -> Duration {
    let steps = u32::try_from(3 * names).unwrap_or(u32::MAX);
    ATTEMPT_MAX + dns.map(|hook| hook.timeout.saturating_mul(steps)).unwrap_or_default()
}

/// Earliest time at which an authority may be tried again. A time later than any that is ever
/// written was written before the clock was set back.
fn not_before(trial: &Trial) -> u64 {
    if trial.next > now() + RETRY_AFTER_SECS_MAX { 0 } else { trial.next }
}

/// Seconds since 1970.
fn now() -> u64 {
    SystemTime::now().duration_since(UNIX_EPOCH).unwrap_or_default().as_secs()
}

fn format_time(secs: u64) -> String {
    String::from_utf8_lossy(&date::format(secs)).into_owned()
}
