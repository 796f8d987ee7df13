//! The ACME storage: a directory with accounts, certificates with their keys, and a record for each
//! certificate. The record counts attempts across restarts and servers.

use std::collections::BTreeMap;
use std::fs::{self, DirBuilder, File, OpenOptions, TryLockError};
use std::io::{self, ErrorKind};
use std::os::unix::fs::{DirBuilderExt, OpenOptionsExt};
use std::path::{Path, PathBuf};
use std::time::Duration;

use serde::de::DeserializeOwned;
use serde::{Deserialize, Serialize};

use crate::config;
use crate::rt;
use crate::tls::{self, Challenge};

/// Mode of the directory: only the server's user can use it.
pub(crate) const STORAGE_MODE: u32 = 0o700;

/// Only the server's user can read the files.
const MODE: u32 = 0o600;

/// Name of the directory for names on demand.
const ON_DEMAND: &str = "on-demand";

/// File-name extension of a certificate with its key.
const CERTIFICATE: &str = "pem";

/// Delay before the next try to lock a file that is locked for a moment.
const LOCKED: Duration = Duration::from_millis(20);

/// The storage directory; servers can share it.
#[derive(Clone, Debug)]
pub(super) struct Storage {
    dir: PathBuf,
    /// Directory of certificates and records: `dir`, or one in it for names on demand.
    own: PathBuf,
}

/// A lock. The end of the process releases it.
#[derive(Debug)]
pub(super) struct Lock(#[allow(dead_code)] File);

/// State of one certificate.
#[derive(Clone, Debug, Default, PartialEq, Eq, Serialize, Deserialize)]
pub(super) struct Record {
    /// The certificate's names; a record with other names is ignored.
    pub(super) names: Vec<String>,
    /// Directory URL of the authority that issued it.
    pub(super) issuer: Option<String>,
    /// Attempts, by the directory URL of the authority.
    #[serde(default)]
    pub(super) trials: BTreeMap<String, Trial>,
    /// The order in progress.
    pub(super) order: Option<OpenOrder>,
}

/// Attempts with one authority.
#[derive(Clone, Debug, Default, PartialEq, Eq, Serialize, Deserialize)]
pub(super) struct Trial {
    /// Attempts since the last certificate that was in use for `LASTED_SECS`.
    pub(super) attempts: u32,
    /// Earliest time of the next attempt, in seconds since 1970.
    pub(super) next: u64,
}

/// An order in progress.
#[derive(Clone, Debug, PartialEq, Eq, Serialize, Deserialize)]
pub(super) struct OpenOrder {
    /// Directory URL of the authority.
    pub(super) directory: String,
    /// URL of the order.
    pub(super) url: String,
    /// The certificate's key, in PEM.
    pub(super) key: String,
}

impl Storage {
    /// Creates the directory if it does not exist.
    pub(super) fn open(dir: &Path) -> io::Result<Storage> {
        let storage = Storage { dir: dir.to_owned(), own: dir.to_owned() };
        // The server's user must be able to pass its parents, so they get the default mode.
        dir.parent().map_or(Ok(()), fs::create_dir_all)?;
        create(dir)?;
        Ok(storage)
    }

    /// The part of the storage for names on demand. Creates the directory if it does not exist.
    pub(super) fn on_demand(&self) -> io::Result<Storage> {
        let own = self.dir.join(ON_DEMAND);
        create(&own).map_err(|e| with_path(&own, &e))?;
        Ok(Storage { dir: self.dir.clone(), own })
    }

    /// Takes the lock of orders: one server at a time orders the certificates of sites, and each
    /// name on demand. `None`: another server holds it.
    pub(super) fn lock(&self, name: &str) -> io::Result<Option<Lock>> {
        match self.is_on_demand() {
            true => try_lock(&self.own.join(format!("{name}.lock"))),
            false => try_lock(&self.dir.join("lock")),
        }
    }

    /// Takes the lock of the creation of accounts; waits for it.
    pub(super) async fn lock_accounts(&self) -> io::Result<Lock> {
        lock(&self.dir.join("accounts.lock")).await
    }

    fn is_on_demand(&self) -> bool {
        self.own != self.dir
    }

    /// Path of the certificate of a name on demand.
    pub(super) fn certificate_path(&self, name: &str) -> PathBuf {
        self.own.join(format!("{name}.{CERTIFICATE}"))
    }

    /// Names of the stored certificates.
    pub(super) fn certificates(&self) -> Vec<String> {
        let entries = fs::read_dir(&self.own).into_iter().flatten().flatten();
        let files = entries.filter_map(|entry| entry.file_name().into_string().ok());
        let extension = format!(".{CERTIFICATE}");
        files.filter_map(|file| file.strip_suffix(&extension).map(str::to_owned)).collect()
    }

    /// Removes the files of a name on demand.
    pub(super) fn remove(&self, name: &str) {
        for extension in [CERTIFICATE, "json", "lock"] {
            // One that stays is refused again at the next check.
            let _ = fs::remove_file(self.own.join(format!("{name}.{extension}")));
        }
    }

    /// Reads the record of a certificate with these names; a new one if there is none.
    pub(super) fn record(&self, name: &str, names: &[String]) -> io::Result<Record> {
        let found: Option<Record> = read(&self.record_path(name))?;
        let fresh = || Record { names: names.to_vec(), ..Record::default() };
        Ok(found.filter(|record| record.names == names).unwrap_or_else(fresh))
    }

    pub(super) fn write_record(&self, name: &str, record: &Record) -> io::Result<()> {
        write(&self.record_path(name), record)
    }

    /// Path of a certificate's record.
    pub(super) fn record_path(&self, name: &str) -> PathBuf {
        self.own.join(format!("{}.json", config::file_stem(name)))
    }

    /// Reads the account with an authority.
    pub(super) fn account<T: DeserializeOwned>(&self, directory: &str) -> io::Result<Option<T>> {
        read(&self.account_path(directory))
    }

    pub(super) fn write_account(
        &self,
        directory: &str,
        account: &impl Serialize,
    ) -> io::Result<()> {
        write(&self.account_path(directory), account)
    }

    /// Removes the account with an authority.
    pub(super) fn remove_account(&self, directory: &str) -> io::Result<()> {
        fs::remove_file(self.account_path(directory))
    }

    /// Adds pending challenges, for all servers that share the storage. Each name has those of its
    /// last order.
    pub(super) async fn add_challenges(&self, challenges: &[Challenge]) -> io::Result<()> {
        let names: Vec<String> = challenges.iter().map(|of| of.name.clone()).collect();
        self.change_challenges(&names, challenges).await
    }

    /// Removes the challenges of these names.
    pub(super) async fn remove_challenges(&self, names: &[String]) -> io::Result<()> {
        self.change_challenges(names, &[]).await
    }

    async fn change_challenges(&self, names: &[String], added: &[Challenge]) -> io::Result<()> {
        let _lock = lock(&self.dir.join("challenges.lock")).await?;
        let path = tls::challenges_path(&self.dir);
        let mut pending: Vec<Challenge> = read(&path)?.unwrap_or_default();
        // A server that was killed leaves some behind.
        pending.retain(|of| super::now() < of.until && !names.contains(&of.name));
        pending.extend_from_slice(added);
        write(&path, &pending)
    }

    /// Path of an account. The directory URL can be longer than a file name, so this has its hash.
    pub(super) fn account_path(&self, directory: &str) -> PathBuf {
        let host = directory.split('/').nth(2).unwrap_or_default().replace(':', "_");
        let number = xxhash_rust::xxh3::xxh3_64(directory.as_bytes());
        self.dir.join(format!("{host}-{number:016x}.account"))
    }
}

fn create(dir: &Path) -> io::Result<()> {
    match DirBuilder::new().mode(STORAGE_MODE).create(dir) {
        Err(e) if e.kind() != ErrorKind::AlreadyExists => Err(e),
        _ => Ok(()),
    }
}

fn try_lock(path: &Path) -> io::Result<Option<Lock>> {
    let mut options = OpenOptions::new();
    options.create(true).truncate(false).write(true).mode(MODE);
    let file = options.open(path).map_err(|e| with_path(path, &e))?;
    match file.try_lock() {
        Ok(()) => Ok(Some(Lock(file))),
        Err(TryLockError::WouldBlock) => Ok(None),
        Err(TryLockError::Error(e)) => Err(with_path(path, &e)),
    }
}

/// Takes a lock that others hold for a short time.
async fn lock(path: &Path) -> io::Result<Lock> {
    loop {
        if let Some(lock) = try_lock(path)? {
            return Ok(lock);
        }
        rt::sleep(LOCKED).await;
    }
}

fn with_path(path: &Path, e: &io::Error) -> io::Error {
    io::Error::new(e.kind(), format!("{}: {e}", path.display()))
}

/// Reads a JSON file; `None` if it does not exist or is malformed.
fn read<T: DeserializeOwned>(path: &Path) -> io::Result<Option<T>> {
    match fs::read(path) {
        Ok(text) => Ok(serde_json::from_slice(&text)
            .inspect_err(|e| tracing::warn!("{}: {e}; ignored", path.display()))
            .ok()),
        Err(e) if e.kind() == ErrorKind::NotFound => Ok(None),
        Err(e) => Err(with_path(path, &e)),
    }
}

fn write(path: &Path, what: &impl Serialize) -> io::Result<()> {
    let text = serde_json::to_vec_pretty(what)?;
    tls::write_atomically(path, &text, MODE).map_err(|e| with_path(path, &e))
}

/// Writes a certificate and its key, in PEM, to one file.
pub(super) fn write_certificate(path: &Path, pem: &str) -> io::Result<()> {
    tls::write_atomically(path, pem.as_bytes(), MODE)
}
