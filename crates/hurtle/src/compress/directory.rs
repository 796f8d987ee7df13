//! Encoded files on disk, so that they survive a restart. A file's name is the identity of what it
//! was made from, and it ends in a hash of its bytes. Everything here blocks on the disk and runs
//! on the encoder threads.

use std::fs::{self, DirBuilder, File, OpenOptions};
use std::io::{self, Read, Write};
use std::os::unix::fs::{DirBuilderExt, MetadataExt, OpenOptionsExt};
use std::path::{Path, PathBuf};
use std::sync::atomic::{AtomicBool, AtomicU64, Ordering::Relaxed};
use std::time::SystemTime;

use bytes::Bytes;
use xxhash_rust::xxh3::xxh3_128;

use super::EncodedFile;
use super::files::Identity;
use super::policy::name;
use crate::body::Stamp;
use crate::config::CompressDirectory;

/// Part of the names: the encoders' versions and levels. A change makes older files stale.
const VERSION: &str = "v1";

/// Prefix of a file that is being written.
const UNFINISHED: &str = ".new-";

/// Bytes of the hash at the end of a file.
const HASH_BYTES: usize = 16;

/// Files that a sweep looks at. More are left for the next one.
const FILES_MAX: usize = 100_000;

/// A directory of encoded files.
#[derive(Debug)]
pub(super) struct Directory {
    path: PathBuf,
    bytes_max: u64,
    /// Space of the files, as far as it is known.
    bytes: AtomicU64,
    /// The first problem was logged.
    has_complained: AtomicBool,
}

impl Directory {
    pub(super) fn new(config: &CompressDirectory) -> Directory {
        Directory {
            path: config.path.clone(),
            bytes_max: config.bytes_max,
            bytes: AtomicU64::new(0),
            has_complained: AtomicBool::new(false),
        }
    }

    /// Reads the encoding of a file. `None`: there is none, or it is damaged.
    pub(super) fn load(&self, identity: &Identity) -> Option<EncodedFile> {
        self.check().ok()?;
        let mut bytes = Vec::new();
        let limit = identity.stamp.len + HASH_BYTES as u64;
        let file = File::open(self.path.join(file_name(identity))).ok()?;
        file.take(limit).read_to_end(&mut bytes).ok()?;
        let at = bytes.len().checked_sub(HASH_BYTES)?;
        let written = u128::from_le_bytes(bytes[at..].try_into().ok()?);
        bytes.truncate(at);
        let hash = xxh3_128(&bytes);
        (hash == written).then(|| EncodedFile { bytes: Bytes::from(bytes), hash })
    }

    /// Writes the encoding of a file; the first failure is logged.
    pub(super) fn store(&self, identity: &Identity, made: &EncodedFile) {
        match self.write(identity, made) {
            Ok(()) => {
                let bytes = self.bytes.fetch_add(size(made), Relaxed) + size(made);
                if bytes > self.bytes_max {
                    self.sweep();
                }
            }
            Err(e) => self.complain(&e),
        }
    }

    fn write(&self, identity: &Identity, made: &EncodedFile) -> io::Result<()> {
        self.check()?;
        if size(made) > self.bytes_max {
            return Ok(());
        }
        let name = file_name(identity);
        let new = self.path.join(format!("{UNFINISHED}{name}"));
        let mut options = OpenOptions::new();
        options.write(true).create_new(true).mode(0o600);
        // One that a crash left behind.
        let _ = fs::remove_file(&new);
        let mut file = options.open(&new)?;
        let written = file
            .write_all(&made.bytes)
            .and_then(|()| file.write_all(&made.hash.to_le_bytes()))
            .and_then(|()| fs::rename(&new, self.path.join(name)));
        if written.is_err() {
            let _ = fs::remove_file(&new);
        }
        written
    }

    /// Creates the directory if it is missing. Another user could put foreign bytes into one that
    /// is writable for others.
    fn check(&self) -> io::Result<()> {
        let metadata = match fs::metadata(&self.path) {
            Ok(metadata) => metadata,
            Err(e) if e.kind() == io::ErrorKind::NotFound => {
                DirBuilder::new().recursive(true).mode(0o700).create(&self.path)?;
                fs::metadata(&self.path)?
            }
            Err(e) => return Err(e),
        };
        let user = rustix::process::geteuid().as_raw();
        if metadata.uid() != user || metadata.mode() & 0o022 != 0 {
            let what = "it must belong to the server's user and be writable for that user only";
            return Err(io::Error::new(io::ErrorKind::PermissionDenied, what));
        }
        Ok(())
    }

    /// Removes stale files, and the oldest ones until three quarters of the space are used at most.
    pub(super) fn sweep(&self) {
        if let Err(e) = self.check().and_then(|()| self.try_sweep()) {
            self.complain(&e);
        }
    }

    fn try_sweep(&self) -> io::Result<()> {
        let mut files: Vec<(SystemTime, u64, PathBuf, String)> = Vec::new();
        for entry in fs::read_dir(&self.path)?.take(FILES_MAX) {
            let entry = entry?;
            let name = entry.file_name().to_string_lossy().into_owned();
            if !is_ours(&name) {
                continue;
            }
            let Ok(metadata) = entry.metadata() else { continue };
            if name.starts_with(UNFINISHED) || !name.contains(&format!(".{VERSION}.")) {
                let _ = fs::remove_file(entry.path());
                continue;
            }
            let modified = metadata.modified().unwrap_or(SystemTime::UNIX_EPOCH);
            files.push((modified, metadata.len(), entry.path(), name));
        }
        files.sort();
        // A later file for the same inode and coding replaces an earlier one.
        let mut seen = std::collections::HashSet::new();
        let mut kept = 0;
        for (_, len, path, name) in files.into_iter().rev() {
            let is_newest = source(&name).is_none_or(|source| seen.insert(source));
            let is_within =
                kept + len <= self.bytes_max / 4 * 3 || (kept == 0 && len <= self.bytes_max);
            if is_newest && is_within {
                kept += len;
            } else {
                let _ = fs::remove_file(path);
            }
        }
        self.bytes.store(kept, Relaxed);
        Ok(())
    }

    fn complain(&self, e: &io::Error) {
        if !self.has_complained.swap(true, Relaxed) {
            let path = shown(&self.path);
            tracing::warn!("compress.directory {path}: {e}; compressed files are in memory only");
        }
    }
}

fn shown(path: &Path) -> String {
    path.display().to_string()
}

fn size(made: &EncodedFile) -> u64 {
    made.bytes.len() as u64 + HASH_BYTES as u64
}

/// The state of the file, then the version and the coding, then the state of the dictionary.
fn file_name(Identity { stamp, coding, dictionary }: &Identity) -> String {
    let dictionary =
        dictionary.as_ref().map_or(String::new(), |other| format!("-{}", state(other)));
    format!("{}.{VERSION}.{}{dictionary}", state(stamp), name(*coding))
}

/// Device, inode, length and times in hexadecimal.
fn state(stamp: &Stamp) -> String {
    let Stamp { device, inode, len, modified_ns, changed_ns } = stamp;
    format!("{device:x}-{inode:x}-{len:x}-{modified_ns:x}-{changed_ns:x}")
}

/// Returns whether a name is one of `file_name`, of any version, or an unfinished one.
fn is_ours(name: &str) -> bool {
    let name = name.strip_prefix(UNFINISHED).unwrap_or(name);
    let mut parts = name.split('.');
    let (numbers, version) = (parts.next().unwrap_or(""), parts.next().unwrap_or(""));
    let is_hex = |part: &str| part.bytes().all(|b| b.is_ascii_hexdigit());
    numbers.matches('-').count() >= 4 && numbers.split('-').all(is_hex) && version.starts_with('v')
}

/// Device, inode and coding of a name.
fn source(name: &str) -> Option<(String, String)> {
    let (numbers, coding) = name.split_once('.')?;
    let mut parts = numbers.splitn(3, '-');
    let file = format!("{}-{}", parts.next()?, parts.next()?);
    Some((file, coding.to_owned()))
}

#[cfg(test)]
mod tests {
    use std::os::unix::fs::PermissionsExt;

    use hurtle_http::semantics::accept::Coding;

    use super::*;

    struct Temporary(PathBuf);

    impl Drop for Temporary {
        fn drop(&mut self) {
            let _ = fs::remove_dir_all(&self.0);
        }
    }

    fn directory(name: &str, bytes_max: u64) -> (Directory, Temporary) {
        let path = std::env::temp_dir().join(format!("hurtle-{name}-{}", std::process::id()));
        let _ = fs::remove_dir_all(&path);
        let config = CompressDirectory { path: path.clone(), bytes_max };
        (Directory::new(&config), Temporary(path))
    }

    fn identity(inode: u64, modified_ns: i128) -> Identity {
        let stamp = Stamp { device: 1, inode, len: 1 << 20, modified_ns, changed_ns: 7 };
        Identity { stamp, coding: Coding::Br, dictionary: None }
    }

    fn made(len: usize) -> EncodedFile {
        let bytes = Bytes::from(vec![b'x'; len]);
        EncodedFile { hash: xxh3_128(&bytes), bytes }
    }

    fn names(directory: &Directory) -> usize {
        fs::read_dir(&directory.path).unwrap().count()
    }

    #[test]
    fn an_encoding_is_found_again_unless_it_is_damaged() {
        let (directory, _removed) = directory("compress-found", 1 << 20);
        directory.store(&identity(1, 1), &made(1_000));
        let mode = fs::metadata(&directory.path).unwrap().permissions().mode();
        assert_eq!(mode & 0o777, 0o700);
        assert_eq!(directory.load(&identity(1, 1)).unwrap().bytes, made(1_000).bytes);
        assert!(directory.load(&identity(1, 2)).is_none(), "a changed file");
        let path = directory.path.join(file_name(&identity(1, 1)));
        fs::write(&path, b"xxxx").unwrap();
        assert!(directory.load(&identity(1, 1)).is_none(), "too short for a hash");
        fs::write(&path, vec![b'x'; 1_016]).unwrap();
        assert!(directory.load(&identity(1, 1)).is_none(), "a wrong hash");
    }

    #[test]
    fn a_sweep_removes_stale_files_and_bounds_the_space() {
        let (directory, _removed) = directory("compress-bound", 10_000);
        for inode in 0..50 {
            directory.store(&identity(inode, 1), &made(1_000));
            let entries = fs::read_dir(&directory.path).unwrap();
            let sizes = entries.map(|entry| entry.unwrap().metadata().unwrap().len());
            assert!(sizes.sum::<u64>() <= 10_000, "after file {inode}");
        }
        directory.store(&identity(49, 2), &made(100));
        fs::write(directory.path.join(".new-1-2-3-4-5.v1.br"), b"").unwrap();
        fs::write(directory.path.join("1-2-3-4-5.v0.br"), b"").unwrap();
        fs::write(directory.path.join("README"), b"").unwrap();
        let before = names(&directory);
        directory.sweep();
        assert!(names(&directory) <= before - 3, "an unfinished, an old and a replaced one");
        assert!(directory.path.join("README").exists(), "foreign files stay");
        assert!(directory.load(&identity(49, 2)).is_some());
    }

    #[test]
    fn a_directory_that_others_can_write_to_is_not_used() {
        let (directory, _removed) = directory("compress-open", 1 << 20);
        fs::create_dir_all(&directory.path).unwrap();
        fs::set_permissions(&directory.path, fs::Permissions::from_mode(0o777)).unwrap();
        directory.store(&identity(1, 1), &made(10));
        assert_eq!(names(&directory), 0);
        fs::set_permissions(&directory.path, fs::Permissions::from_mode(0o755)).unwrap();
        directory.store(&identity(1, 1), &made(10));
        assert_eq!(names(&directory), 1);
    }
}
