//! The ACME storage: a directory with accounts, certificates with their keys, and a record for each
//! certificate. The record counts attempts across restarts and servers.

use std::collections::BTreeMap;
use std::fs::{self, DirBuilder, File, OpenOptions, TryLockError};
use std::io::{self, ErrorKind};
use std::os::unix::fs::{DirBuilderExt, OpenOptionsExt};
use std::path::{Path, PathBuf};

use serde::de::DeserializeOwned;
use serde::{Deserialize, Serialize};

use crate::config;
use crate::tls::{self, Challenge};

/// Only the server's user can read the files.
const MODE: u32 = 0o600;

/// The storage directory; servers can share it.
#[derive(Clone, Debug)]
pub(super) struct Storage(PathBuf);

/// The storage's lock: one server at a time sends requests to authorities. The end of the process
/// releases it.
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
        let storage = Storage(dir.to_owned());
        // The server's user must be able to pass its parents, so they get the default mode.
        dir.parent().map_or(Ok(()), fs::create_dir_all)?;
        match DirBuilder::new().mode(0o700).create(dir) {
            Err(e) if e.kind() != ErrorKind::AlreadyExists => Err(e),
            _ => Ok(storage),
        }
    }

    /// The directory.
    pub(super) fn dir(&self) -> &Path {
        &self.0
    }

    /// Takes the lock; `None` if another server holds it.
    pub(super) fn lock(&self) -> io::Result<Option<Lock>> {
        let mut options = OpenOptions::new();
        options.create(true).truncate(false).write(true).mode(MODE);
        let file = options.open(self.0.join("lock"))?;
        match file.try_lock() {
            Ok(()) => Ok(Some(Lock(file))),
            Err(TryLockError::WouldBlock) => Ok(None),
            Err(TryLockError::Error(e)) => Err(e),
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
        self.0.join(format!("{}.json", config::file_stem(name)))
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

    /// Writes the pending challenges, for all servers that share the storage.
    pub(super) fn write_challenges(&self, challenges: &[Challenge]) -> io::Result<()> {
        write(&tls::challenges_path(&self.0), &challenges)
    }

    /// Path of an account. The directory URL can be longer than a file name, so this has its hash.
    fn account_path(&self, directory: &str) -> PathBuf {
        let host = directory.split('/').nth(2).unwrap_or_default().replace(':', "_");
        let number = xxhash_rust::xxh3::xxh3_64(directory.as_bytes());
        self.0.join(format!("{host}-{number:016x}.account"))
    }
}

/// Reads a JSON file; `None` if it does not exist or is malformed.
fn read<T: DeserializeOwned>(path: &Path) -> io::Result<Option<T>> {
    match fs::read(path) {
        Ok(text) => Ok(serde_json::from_slice(&text)
            .inspect_err(|e| tracing::warn!("{}: {e}; ignored", path.display()))
            .ok()),
        Err(e) if e.kind() == ErrorKind::NotFound => Ok(None),
        Err(e) => Err(io::Error::new(e.kind(), format!("{}: {e}", path.display()))),
    }
}

fn write(path: &Path, what: &impl Serialize) -> io::Result<()> {
    let text = serde_json::to_vec_pretty(what)?;
    let with_path = |e: io::Error| io::Error::new(e.kind(), format!("{}: {e}", path.display()));
    tls::write_atomically(path, &text, MODE).map_err(with_path)
}

/// Writes a certificate and its key, in PEM, to one file.
pub(super) fn write_certificate(path: &Path, pem: &str) -> io::Result<()> {
    tls::write_atomically(path, pem.as_bytes(), MODE)
}
