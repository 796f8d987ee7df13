//! What is kept: accounts, certificates with their keys, and for each certificate a record of what
//! was tried, so that neither a crash nor another server makes one attempt into two.

use std::collections::BTreeMap;
use std::fs::{self, DirBuilder, File, OpenOptions, TryLockError};
use std::io::{self, ErrorKind};
use std::os::unix::fs::{DirBuilderExt, OpenOptionsExt};
use std::path::{Path, PathBuf};

use serde::de::DeserializeOwned;
use serde::{Deserialize, Serialize};

use crate::tls::{self, Challenge};

/// For the server's user only.
const MODE: u32 = 0o600;

/// A directory that servers may share.
#[derive(Clone, Debug)]
pub(super) struct Storage(PathBuf);

/// Held while anything is asked of an authority: by one server at a time. It goes with the process.
#[derive(Debug)]
pub(super) struct Lock(#[allow(dead_code)] File);

/// What is known of a certificate beside itself.
#[derive(Clone, Debug, Default, PartialEq, Eq, Serialize, Deserialize)]
pub(super) struct Record {
    /// The names it is for; a record of others is void.
    pub(super) names: Vec<String>,
    /// The directory of the authority it is from.
    pub(super) issuer: Option<String>,
    /// What was tried in vain, by the authority's directory.
    #[serde(default)]
    pub(super) trials: BTreeMap<String, Trial>,
    /// An order that has been begun.
    pub(super) order: Option<Unfinished>,
}

/// Attempts with one authority.
#[derive(Clone, Debug, Default, PartialEq, Eq, Serialize, Deserialize)]
pub(super) struct Trial {
    /// Since the last one that made a certificate which lasted.
    pub(super) attempts: u32,
    /// The next one, not before this time, in seconds since 1970.
    pub(super) next: u64,
}

/// An order that has been begun.
#[derive(Clone, Debug, PartialEq, Eq, Serialize, Deserialize)]
pub(super) struct Unfinished {
    /// With this authority.
    pub(super) directory: String,
    /// Where it is.
    pub(super) url: String,
    /// The certificate's key, in PEM.
    pub(super) key: String,
}

impl Storage {
    /// Makes the directory, if there is none.
    pub(super) fn open(dir: &Path) -> io::Result<Storage> {
        let storage = Storage(dir.to_owned());
        // Those above it are anybody's to pass: the server's user, too.
        dir.parent().map_or(Ok(()), fs::create_dir_all)?;
        match DirBuilder::new().mode(0o700).create(dir) {
            Err(e) if e.kind() != ErrorKind::AlreadyExists => Err(e),
            _ => Ok(storage),
        }
    }

    /// The directory, for its owner to be set.
    pub(super) fn dir(&self) -> &Path {
        &self.0
    }

    /// The right to write here; `None`: another server has it.
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

    /// What is known of a certificate for these names.
    pub(super) fn record(&self, name: &str, names: &[String]) -> io::Result<Record> {
        let found: Option<Record> = read(&self.record_path(name))?;
        let fresh = || Record { names: names.to_vec(), ..Record::default() };
        Ok(found.filter(|record| record.names == names).unwrap_or_else(fresh))
    }

    pub(super) fn keep_record(&self, name: &str, record: &Record) -> io::Result<()> {
        write(&self.record_path(name), record)
    }

    /// Where it is, for people.
    pub(super) fn record_path(&self, name: &str) -> PathBuf {
        self.0.join(format!("{name}.json"))
    }

    /// The account with an authority.
    pub(super) fn account<T: DeserializeOwned>(&self, directory: &str) -> io::Result<Option<T>> {
        read(&self.account_path(directory))
    }

    pub(super) fn keep_account(&self, directory: &str, account: &impl Serialize) -> io::Result<()> {
        write(&self.account_path(directory), account)
    }

    /// The authority knows it no more.
    pub(super) fn forget_account(&self, directory: &str) -> io::Result<()> {
        fs::remove_file(self.account_path(directory))
    }

    /// What authorities will look for, for all servers that share this.
    pub(super) fn keep_challenges(&self, challenges: &[Challenge]) -> io::Result<()> {
        write(&tls::challenges_path(&self.0), &challenges)
    }

    /// An authority's name is its directory's URL, which may be longer than a file's.
    fn account_path(&self, directory: &str) -> PathBuf {
        let host = directory.split('/').nth(2).unwrap_or_default().replace(':', "_");
        let number = xxhash_rust::xxh3::xxh3_64(directory.as_bytes());
        self.0.join(format!("{host}-{number:016x}.account"))
    }
}

/// A file that no server can have written is as good as none.
fn read<T: DeserializeOwned>(path: &Path) -> io::Result<Option<T>> {
    match fs::read(path) {
        Ok(text) => Ok(serde_json::from_slice(&text)
            .inspect_err(|e| tracing::warn!("{}: {e}; begun anew", path.display()))
            .ok()),
        Err(e) if e.kind() == ErrorKind::NotFound => Ok(None),
        Err(e) => Err(io::Error::new(e.kind(), format!("{}: {e}", path.display()))),
    }
}

fn write(path: &Path, what: &impl Serialize) -> io::Result<()> {
    let text = serde_json::to_vec_pretty(what)?;
    let told = |e: io::Error| io::Error::new(e.kind(), format!("{}: {e}", path.display()));
    tls::replace(path, &text, MODE).map_err(told)
}

/// A certificate and its key, in PEM, in one file.
pub(super) fn keep_certificate(path: &Path, pem: &str) -> io::Result<()> {
    tls::replace(path, pem.as_bytes(), MODE)
}
