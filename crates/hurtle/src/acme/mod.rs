//! Getting certificates for the sites that want one, and renewing them (ACME, RFC 8555): for the
//! configured names only, as rarely as can be, and never twice because of a crash or another server
//! with the same storage. Handshakes and requests have no part in it: what is got is a file like
//! any other, which `tls` reads when it changes.

mod account;
mod http;
mod order;
mod plan;
mod storage;

use std::fs;
use std::io;
use std::path::{Path, PathBuf};
use std::time::{Duration, SystemTime, UNIX_EPOCH};

use crate::config::{self, ChallengeKind, Config, HostName};
use crate::rt;
use crate::semantics::date;
use crate::tls::Facts;
use account::Authority;
use storage::{Record, Storage};

/// All certificates are looked at this often, whatever is planned: clocks are set, files removed.
const LOOK_SECS: u64 = 60 * 60;

/// Another server is at it; it will not take longer than one attempt.
const LOCKED_SECS: u64 = 5;

/// One attempt with one authority, all waiting included.
const ATTEMPT_MAX: Duration = Duration::from_secs(5 * 60);

/// An authority may ask to be left alone this long.
const ADVICE_SECS_MAX: u64 = 7 * 24 * 60 * 60;

/// A certificate that was in use this long was no mistake, and to renew it is no further attempt.
const LASTED_SECS: u64 = 24 * 60 * 60;

/// An advice on renewal is asked for at most and at least this often.
const ADVICE_EVERY_SECS: (u64, u64) = (60, 24 * 60 * 60);

/// The same, where none can be had.
const NO_ADVICE_SECS: u64 = 6 * 60 * 60;

/// The certificates of a configuration that are got by themselves.
#[derive(Debug)]
pub struct Acme {
    jobs: Vec<Job>,
    authorities: Vec<Authority>,
    challenges: Vec<ChallengeKind>,
    storage: Storage,
}

/// A certificate.
#[derive(Debug)]
struct Job {
    /// The first of its names, and the file's.
    name: String,
    hosts: Vec<HostName>,
    names: Vec<String>,
    file: PathBuf,
    /// The log knows when its first certificate is asked for again.
    told: bool,
    /// The certificate that was there last, in DER.
    seen: Vec<u8>,
    /// When its authority would have it renewed, and when to ask again.
    advised: Option<(u64, u64)>,
    ask_again: u64,
}

impl Acme {
    /// Opens the storage and reads the authorities' files; `None` where nothing is to be got.
    ///
    /// # Errors
    /// With the file that cannot be used.
    pub fn load(config: &Config) -> io::Result<Option<Acme>> {
        let Some(acme) = &config.acme else { return Ok(None) };
        let told =
            |e: io::Error| io::Error::new(e.kind(), format!("{}: {e}", acme.storage.display()));
        let storage = Storage::open(&acme.storage).map_err(told)?;
        let authorities = acme.authorities.iter();
        let authorities = authorities.map(|authority| Authority::load(authority, acme));
        let sites = config.sites.iter().filter(|s| s.tls.as_ref().is_some_and(|t| t.automatic));
        Ok(Some(Acme {
            jobs: sites.map(|site| Job::new(site, acme)).collect(),
            authorities: authorities.collect::<io::Result<_>>()?,
            challenges: acme.challenges.clone(),
            storage,
        }))
    }

    /// The storage, which must be the server's user's.
    pub fn storage(&self) -> &Path {
        self.storage.dir()
    }

    /// Looks after the certificates, for ever.
    pub async fn run(mut self) {
        let mut jobs = std::mem::take(&mut self.jobs);
        loop {
            let mut next = now() + LOOK_SECS;
            for job in &mut jobs {
                next = next.min(self.tend(job).await);
            }
            rt::sleep(Duration::from_secs(next.saturating_sub(now()).max(1))).await;
        }
    }

    /// Does what is due for one certificate; when to look again.
    async fn tend(&mut self, job: &mut Job) -> u64 {
        self.tended(job).await.unwrap_or_else(|e| {
            tracing::error!("{}: {e}; no certificate can be got", job.name);
            now() + LOOK_SECS
        })
    }

    async fn tended(&mut self, job: &mut Job) -> io::Result<u64> {
        let record = self.storage.record(&job.name, &job.names)?;
        let facts = job.look();
        if facts.is_some() && job.ask_again <= now() {
            self.ask_advice(job, facts.as_ref(), &record).await;
        }
        let due = self.due(job, facts.as_ref(), &record);
        if due > now() {
            job.tell_of_waiting(facts.as_ref(), due);
            let ask = if facts.is_some() { job.ask_again } else { u64::MAX };
            return Ok(due.min(ask));
        }
        let Some(_lock) = self.storage.lock()? else { return Ok(now() + LOCKED_SECS) };
        // Another server may have been faster.
        let record = self.storage.record(&job.name, &job.names)?;
        let facts = job.look();
        if self.due(job, facts.as_ref(), &record) > now() {
            return Ok(now() + 1);
        }
        self.attempt(job, facts.as_ref(), record).await
    }

    /// When the next attempt is, if nothing else happens.
    fn due(&self, job: &Job, facts: Option<&Facts>, record: &Record) -> u64 {
        let wanted = match facts {
            Some(facts) if facts.lacks.is_empty() => {
                plan::renewal(facts.valid, job.advised, plan::lot(&facts.der))
            }
            _ => 0,
        };
        wanted.max(self.allowed(record))
    }

    /// From when on an authority may be asked again.
    fn allowed(&self, record: &Record) -> u64 {
        let next = |a: &Authority| record.trials.get(&a.directory).map_or(0, |trial| trial.next);
        self.authorities.iter().map(next).min().unwrap_or_default()
    }

    /// Asks one authority after the other. An attempt counts before it is made: a crash in the
    /// middle of it is one that failed.
    async fn attempt(
        &mut self,
        job: &mut Job,
        facts: Option<&Facts>,
        mut record: Record,
    ) -> io::Result<u64> {
        let was_lasting = facts.is_none_or(|facts| facts.valid.0 + LASTED_SECS < now());
        for authority in &mut self.authorities {
            let trial = record.trials.entry(authority.directory.clone()).or_default();
            if trial.next > now() {
                continue;
            }
            let lot = plan::lot(format!("{}{}", job.name, now()).as_bytes());
            trial.attempts += 1;
            trial.next = now() + plan::back_off(trial.attempts, lot);
            let attempts = trial.attempts;
            self.storage.keep_record(&job.name, &record)?;
            // Where one way does not lead here, the other may.
            let mut kinds = self.challenges.clone();
            kinds.rotate_left((attempts as usize - 1) % self.challenges.len().max(1));
            tracing::info!("{}: asking {} for a certificate", job.name, authority.directory);
            let wish = order::Wish {
                name: &job.name,
                names: &job.names,
                hosts: &job.hosts,
                kinds,
                replaces: facts
                    .filter(|_| record.issuer.as_ref() == Some(&authority.directory))
                    .and_then(|facts| facts.id.clone()),
            };
            let storage = &self.storage;
            let got =
                rt::timeout(ATTEMPT_MAX, order::obtain(authority, &wish, &mut record, storage));
            let got = got.await.unwrap_or_else(|| Err("it takes longer than 5 minutes".to_owned()));
            self.storage.keep_challenges(&[])?;
            match got {
                Ok(pem) => {
                    storage::keep_certificate(&job.file, &pem)?;
                    record.order = None;
                    record.issuer = Some(authority.directory.clone());
                    if was_lasting {
                        record.trials.remove(&authority.directory);
                    }
                    self.storage.keep_record(&job.name, &record)?;
                    tracing::info!("{}: got a certificate from {}", job.name, authority.directory);
                    return Ok(now() + 1);
                }
                Err(why) => {
                    authority.close();
                    let trial = record.trials.entry(authority.directory.clone()).or_default();
                    let advice = authority.advice().min(now() + ADVICE_SECS_MAX);
                    trial.next = trial.next.max(advice);
                    self.storage.keep_record(&job.name, &record)?;
                    tracing::warn!("{}: {}: {why}", job.name, authority.directory);
                }
            }
        }
        let next = self.allowed(&record);
        tracing::error!("{}", self.failed(job, facts, next));
        Ok(next)
    }

    /// What an administrator must know after an attempt in vain.
    fn failed(&self, job: &Job, facts: Option<&Facts>, next: u64) -> String {
        let meanwhile = match facts {
            Some(facts) => {
                format!("the one from before stays in use, valid until {}", when(facts.valid.1))
            }
            None => "handshakes for it are refused until then".to_owned(),
        };
        let record = self.storage.record_path(&job.name);
        format!(
            "{}: no certificate was issued; {meanwhile}. The next attempt is at {}; if the cause is \
             mended, stop the server, remove {} and start it for one at once",
            job.name,
            when(next),
            record.display()
        )
    }

    /// RFC 9773: when the authority would have its certificate renewed.
    async fn ask_advice(&mut self, job: &mut Job, facts: Option<&Facts>, record: &Record) {
        let issuer = record.issuer.as_ref();
        let authority = self.authorities.iter_mut().find(|a| Some(&a.directory) == issuer);
        let id = facts.and_then(|facts| facts.id.as_ref());
        let (Some(authority), Some(id)) = (authority, id) else {
            (job.advised, job.ask_again) = (None, now() + NO_ADVICE_SECS);
            return;
        };
        match rt::timeout(ATTEMPT_MAX, authority.renewal(id, &self.storage)).await {
            Some(Ok((window, in_secs))) => {
                let (least, most) = ADVICE_EVERY_SECS;
                (job.advised, job.ask_again) = (Some(window), now() + in_secs.clamp(least, most));
                tracing::debug!("{}: to be renewed from {}", job.name, when(window.0));
            }
            // RFC 9773 4.3: as if it gave none.
            Some(Err(why)) => {
                (job.advised, job.ask_again) = (None, now() + NO_ADVICE_SECS);
                tracing::debug!("{}: {}: no advice: {why}", job.name, authority.directory);
            }
            None => (job.advised, job.ask_again) = (None, now() + NO_ADVICE_SECS),
        }
    }
}

impl Job {
    fn new(site: &config::Site, acme: &config::Acme) -> Job {
        let names: Vec<String> = site.hosts.iter().map(ToString::to_string).collect();
        let name = names.first().cloned().unwrap_or_default();
        let file = acme.file(&name);
        Job {
            name,
            hosts: site.hosts.clone(),
            names,
            file,
            told: false,
            seen: Vec::new(),
            advised: None,
            ask_again: 0,
        }
    }

    /// After a restart, say, that came soon after an attempt in vain.
    fn tell_of_waiting(&mut self, facts: Option<&Facts>, due: u64) {
        if facts.is_none() && !std::mem::replace(&mut self.told, true) {
            let (name, due) = (&self.name, when(due));
            tracing::warn!("{name}: no certificate yet; the next attempt is at {due}");
        }
    }

    /// What is known of the certificate there is; `None`: there is none that can be used. What was
    /// advised of another, which this server or one beside it has replaced, is forgotten.
    fn look(&mut self) -> Option<Facts> {
        let bytes = fs::read(&self.file).ok()?;
        let facts = Facts::read(&bytes, &self.hosts);
        let facts = facts.inspect_err(|e| tracing::warn!("{}: {e}", self.file.display())).ok()?;
        if self.seen != facts.der {
            self.seen.clone_from(&facts.der);
            (self.advised, self.ask_again) = (None, 0);
        }
        Some(facts)
    }
}

/// Seconds since 1970.
fn now() -> u64 {
    SystemTime::now().duration_since(UNIX_EPOCH).unwrap_or_default().as_secs()
}

/// A time, for people.
fn when(secs: u64) -> String {
    String::from_utf8_lossy(&date::format(secs)).into_owned()
}
