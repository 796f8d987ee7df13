//! The files of a cache. A whole object is `KEY-VERSION`, both hashes in hexadecimal: no name can
//! be chosen by a client, and a file says which version it holds. Its length and time are the
//! object's. An unfinished one ends in `.part`; those that a process has left are removed. All
//! functions block on the disk.

use std::fs::{self, DirBuilder, File, OpenOptions};
use std::io;
use std::os::unix::fs::{DirBuilderExt as _, OpenOptionsExt as _};
use std::path::{Path, PathBuf};
use std::sync::atomic::{AtomicU64, Ordering::Relaxed};
use std::time::{Duration, SystemTime};

use aws_lc_rs::digest::{SHA256, digest};

use crate::Version;
use crate::settings::Settings;

/// The first half of a SHA-256 hash.
pub(crate) fn hash(parts: &[&[u8]]) -> u128 {
    let mut text = Vec::new();
    for part in parts {
        text.extend((part.len() as u64).to_le_bytes());
        text.extend_from_slice(part);
    }
    let hash = digest(&SHA256, &text);
    hash.as_ref().iter().take(16).fold(0, |number, byte| number << 8 | u128::from(*byte))
}

/// Files of unfinished objects that this process has created. Two stores may share a directory.
static PARTS: AtomicU64 = AtomicU64::new(0);

/// The directory of one store's objects.
#[derive(Debug)]
pub(crate) struct Directory {
    path: PathBuf,
}

impl Directory {
    pub(crate) fn new(settings: &Settings) -> Directory {
        let endpoint = settings.endpoint.as_deref().unwrap_or_default();
        let account = settings.account.as_deref().unwrap_or_default();
        let url = settings.url.to_string();
        let name = hash(&[url.as_bytes(), endpoint.as_bytes(), account.as_bytes()]);
        Directory { path: settings.cache_dir.join(format!("{name:032x}")) }
    }

    /// Removes unfinished files, and lists the whole ones, oldest first.
    pub(crate) fn scan(&self) -> io::Result<Vec<(u128, Version)>> {
        let mut found = Vec::new();
        let entries = match fs::read_dir(&self.path) {
            Err(error) if error.kind() == io::ErrorKind::NotFound => return Ok(Vec::new()),
            entries => entries?,
        };
        for entry in entries {
            let entry = entry?;
            let name = entry.file_name();
            let metadata = entry.metadata();
            match (name.to_str().and_then(parse), metadata) {
                (Some((key, hash)), Ok(metadata)) if metadata.is_file() => {
                    let (len, modified) = (metadata.len(), secs(metadata.modified()?));
                    let used = metadata.accessed().unwrap_or(SystemTime::UNIX_EPOCH);
                    found.push((used, key, Version { hash, len, modified_secs: modified }));
                }
                _ if name.to_str().is_some_and(|name| name.ends_with(PART)) => {
                    remove_abandoned(&entry.path());
                }
                _ => {}
            }
        }
        found.sort_by_key(|(used, ..)| *used);
        Ok(found.into_iter().map(|(_, key, version)| (key, version)).collect())
    }

    /// Opens a whole object. `None`: its file is gone, or is not as the version says.
    pub(crate) fn open(&self, key: u128, version: &Version) -> io::Result<Option<File>> {
        let file = match File::open(self.name(key, version)) {
            Err(error) if error.kind() == io::ErrorKind::NotFound => return Ok(None),
            opened => opened?,
        };
        let metadata = file.metadata()?;
        let is_same =
            metadata.len() == version.len && secs(metadata.modified()?) == version.modified_secs;
        Ok(is_same.then_some(file))
    }

    /// Creates the file of an unfinished object.
    pub(crate) fn create_part(&self) -> io::Result<(PathBuf, File)> {
        DirBuilder::new().recursive(true).mode(0o700).create(&self.path)?;
        let number = PARTS.fetch_add(1, Relaxed);
        let path = self.path.join(format!("{}-{number}{PART}", std::process::id()));
        let file =
            OpenOptions::new().read(true).write(true).create_new(true).mode(0o600).open(&path)?;
        // Held as long as the process lives, so that another one does not take it for abandoned.
        file.lock()?;
        Ok((path, file))
    }

    /// Gives an unfinished file its name, after all its bytes are on the disk.
    pub(crate) fn publish(
        &self,
        path: &Path,
        file: &File,
        key: u128,
        version: &Version,
    ) -> io::Result<()> {
        file.set_modified(SystemTime::UNIX_EPOCH + Duration::from_secs(version.modified_secs))?;
        // The name must not reach the disk before the bytes.
        file.sync_all()?;
        fs::rename(path, self.name(key, version))
    }

    /// Removes a whole object; one that is gone already is as good.
    pub(crate) fn remove(&self, key: u128, version: &Version) {
        let _ = fs::remove_file(self.name(key, version));
    }

    fn name(&self, key: u128, version: &Version) -> PathBuf {
        self.path.join(format!("{key:032x}-{:032x}", version.hash))
    }
}

/// Removes an unfinished file unless a process still works on it.
fn remove_abandoned(path: &Path) {
    if File::open(path).is_ok_and(|file| file.try_lock().is_ok()) {
        let _ = fs::remove_file(path);
    }
}

const PART: &str = ".part";

fn parse(name: &str) -> Option<(u128, u128)> {
    let (key, hash) = name.split_once('-')?;
    let parse = |text: &str| match text.len() {
        32 => u128::from_str_radix(text, 16).ok(),
        _ => None,
    };
    Some((parse(key)?, parse(hash)?))
}

fn secs(time: SystemTime) -> u64 {
    time.duration_since(SystemTime::UNIX_EPOCH).unwrap_or_default().as_secs()
}
