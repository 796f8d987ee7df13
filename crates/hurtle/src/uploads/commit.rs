//! Publishes or deletes a file. Conditions are checked and acted on under one lock per target. All
//! functions here block on the disk and run on the disk threads.

use std::os::fd::{AsFd, OwnedFd};
use std::sync::{Mutex, MutexGuard, PoisonError};
use std::time::{SystemTime, UNIX_EPOCH};

use http::{HeaderMap, header};
use hurtle_http::request::fields::joined;
use hurtle_http::semantics::conditional::{self, Preconditions, Validators, Verdict};
use hurtle_http::semantics::etag::EntityTag;
use rustix::fs::{AtFlags, FileType, Mode, OFlags, Timespec, Timestamps, UTIME_OMIT};
use rustix::io::Errno;
use xxhash_rust::xxh3::xxh3_64;

use super::UploadRoot;
use super::error::UploadError;
use super::name::Target;
use super::unfinished::{HiddenFile, Unfinished, hidden_name, open_directory};
use crate::body::{OpenFile, Stamp};
use crate::config::EtagSource;
use crate::files::{self, Changed};
use crate::sys;

/// Maximum number of attempts if other processes change the name.
const RACES_MAX: usize = 8;

/// The preconditions of a request, kept while its body is received.
#[derive(Clone, Debug, Default, PartialEq, Eq)]
pub(super) struct Conditions {
    pub(super) if_match: Option<Vec<u8>>,
    pub(super) if_none_match: Option<Vec<u8>>,
    pub(super) if_unmodified_since: Option<Vec<u8>>,
}

/// Result of a PUT.
#[derive(Clone, Debug)]
pub(super) struct Committed {
    /// True if the file did not exist before.
    pub(super) created: bool,
    /// The opaque part of the entity-tag; `None` if the mount sends none.
    pub(super) tag: Option<String>,
}

impl Conditions {
    pub(super) fn of(fields: &HeaderMap) -> Conditions {
        Conditions {
            if_match: joined(fields, header::IF_MATCH),
            if_none_match: joined(fields, header::IF_NONE_MATCH),
            if_unmodified_since: joined(fields, header::IF_UNMODIFIED_SINCE),
        }
    }

    pub(super) fn as_sent(&self) -> Preconditions<'_> {
        Preconditions {
            if_match: self.if_match.as_deref(),
            if_none_match: self.if_none_match.as_deref(),
            if_unmodified_since: self.if_unmodified_since.as_deref(),
            ..Preconditions::default()
        }
    }

    /// True if a precondition depends on the current entity-tag.
    fn name_tags(&self) -> bool {
        self.if_match.is_some() || self.if_none_match.is_some()
    }
}

impl Unfinished {
    /// Publishes the file under its name, if the preconditions still hold.
    pub(super) fn commit(
        mut self,
        conditions: &Conditions,
        changed: &Changed,
    ) -> Result<Committed, UploadError> {
        let mut hidden = self.take()?;
        let named = self.name_if(&mut hidden, conditions, changed);
        if let Some(stored) = &hidden.stored
            && !named.as_ref().is_err_and(UploadError::is_temporary)
        {
            stored.remove();
        }
        named
    }

    fn name_if(
        &self,
        hidden: &mut HiddenFile,
        conditions: &Conditions,
        changed: &Changed,
    ) -> Result<Committed, UploadError> {
        let hash = self.content_hash(hidden)?;
        let _lock = lock(&hidden.directory, &self.target.name)?;
        for _ in 0..RACES_MAX {
            let old = check(&self.root, &hidden.directory, &self.target, conditions)?;
            set_time(&hidden.file, old.as_ref())?;
            if self.root.fsync {
                rustix::fs::fsync(&hidden.file)?;
            }
            match hidden.name_it(&self.target.name, old.is_some()) {
                // Another process has created a file of that name in the meantime.
                Err(Errno::EXIST) => continue,
                named => named?,
            }
            changed.note();
            if self.root.fsync {
                sync_directory(&hidden.directory)?;
            }
            let stamp = Stamp::of(&rustix::fs::fstat(&hidden.file)?);
            let tag = (self.root.etag != EtagSource::Off).then(|| files::tag::tag(&stamp, hash));
            return Ok(Committed { created: old.is_none(), tag });
        }
        Err(UploadError::BUSY)
    }

    /// Hash of the content, if the entity-tag is made from it. For a resumed upload the whole file
    /// is read: parts of it came with earlier requests.
    fn content_hash(&self, hidden: &HiddenFile) -> Result<Option<u128>, UploadError> {
        if self.root.etag != EtagSource::Content {
            return Ok(None);
        }
        if let Some(hash) = &self.hash {
            return Ok(Some(hash.digest128()));
        }
        let stamp = Stamp::of(&rustix::fs::fstat(&hidden.file)?);
        let file = OpenFile::new(hidden.file.try_clone()?, stamp, self.root.lane);
        Ok(Some(files::hashes::hash(&file)?))
    }
}

/// Deletes a file, if the preconditions hold.
pub(super) fn delete(
    root: &UploadRoot,
    target: &Target,
    conditions: &Conditions,
    changed: &Changed,
) -> Result<(), UploadError> {
    let directory = match open_directory(root, target) {
        Err(error) if error.is_no_directory() => return Err(UploadError::MISSING),
        other => other?,
    };
    let _lock = lock(&directory, &target.name)?;
    if check(root, &directory, target, conditions)?.is_none() {
        return Err(UploadError::MISSING);
    }
    rustix::fs::unlinkat(&directory, &target.name[..], AtFlags::empty())?;
    changed.note();
    if root.fsync {
        sync_directory(&directory)?;
    }
    Ok(())
}

/// Checks the preconditions against the file that has the name now, and returns its state. Anything
/// but a regular file is refused.
pub(super) fn check(
    root: &UploadRoot,
    directory: &OwnedFd,
    target: &Target,
    conditions: &Conditions,
) -> Result<Option<Stamp>, UploadError> {
    let stat = match rustix::fs::statat(directory, &target.name[..], AtFlags::SYMLINK_NOFOLLOW) {
        Ok(stat) => Some(stat),
        Err(Errno::NOENT) => None,
        Err(e) => return Err(e.into()),
    };
    let Some(stat) = stat else {
        let verdict = conditional::evaluate_absent(&conditions.as_sent());
        return if verdict == Verdict::Proceed { Ok(None) } else { Err(UploadError::CONDITION) };
    };
    match FileType::from_raw_mode(stat.st_mode) {
        FileType::RegularFile => {}
        FileType::Directory => return Err(UploadError::DIRECTORY),
        FileType::Symlink => return Err(UploadError::LINK),
        _ => return Err(UploadError::SPECIAL),
    }
    let stamp = Stamp::of(&stat);
    let tag = match conditions.name_tags() {
        true => tag(root, directory, target, stamp)?,
        false => None,
    };
    let validators = Validators {
        etag: tag.as_ref().map(|tag| EntityTag { weak: false, opaque: tag.as_bytes() }),
        last_modified: Some(stamp.modified_secs()),
    };
    match conditional::evaluate(false, &conditions.as_sent(), &validators) {
        Verdict::Proceed => Ok(Some(stamp)),
        Verdict::NotModified | Verdict::Failed => Err(UploadError::CONDITION),
    }
}

/// The entity-tag that a GET would return now.
fn tag(
    root: &UploadRoot,
    directory: &OwnedFd,
    target: &Target,
    stamp: Stamp,
) -> Result<Option<String>, UploadError> {
    if root.etag == EtagSource::Off {
        return Ok(None);
    }
    if !files::hashes::hashes(root.etag, &stamp) {
        return Ok(Some(files::tag::tag(&stamp, None)));
    }
    let flags = OFlags::RDONLY | OFlags::NOFOLLOW | OFlags::NONBLOCK | OFlags::CLOEXEC;
    let file = rustix::fs::openat(directory, &target.name[..], flags, Mode::empty())?;
    let hash = files::hashes::hash(&OpenFile::new(file, stamp, root.lane))?;
    Ok(Some(files::tag::tag(&stamp, Some(hash))))
}

impl HiddenFile {
    /// Moves the file to its name. `replace` means that the name exists and is to be replaced.
    fn name_it(&mut self, name: &[u8], replace: bool) -> rustix::io::Result<()> {
        match (self.name.take(), replace) {
            (None, false) => sys::link_unnamed(self.file.as_fd(), self.directory.as_fd(), name),
            (None, true) => {
                // A system call that replaces a name with an unnamed file is missing, so it gets a
                // temporary name first.
                let hidden = hidden_name();
                sys::link_unnamed(self.file.as_fd(), self.directory.as_fd(), &hidden)?;
                self.rename(hidden, name)
            }
            (Some(hidden), false) => self.link(hidden, name),
            (Some(hidden), true) => self.rename(hidden, name),
        }
    }

    fn rename(&mut self, hidden: Vec<u8>, name: &[u8]) -> rustix::io::Result<()> {
        let renamed = rustix::fs::renameat(self.store(), &hidden[..], &self.directory, name);
        if renamed.is_err() {
            self.name = Some(hidden);
        }
        renamed
    }

    fn link(&mut self, hidden: Vec<u8>, name: &[u8]) -> rustix::io::Result<()> {
        let flags = AtFlags::empty();
        match rustix::fs::linkat(self.store(), &hidden[..], &self.directory, name, flags) {
            // The file system has no hard links. A file that another process creates at this moment
            // is replaced.
            Err(Errno::PERM | Errno::OPNOTSUPP) => self.rename(hidden, name),
            linked => {
                // The hidden name is removed when `self` is dropped.
                self.name = Some(hidden);
                linked
            }
        }
    }
}

/// Sets the modification time, which the entity-tag is made of. It is later than that of the
/// replaced file, so that their tags differ even with equal sizes and a coarse clock.
fn set_time(file: &OwnedFd, old: Option<&Stamp>) -> Result<(), UploadError> {
    let now = SystemTime::now().duration_since(UNIX_EPOCH);
    let now_ns = now.map_or(0, |now| i128::try_from(now.as_nanos()).unwrap_or(0));
    let ns = old.map_or(now_ns, |old| now_ns.max(old.modified_ns + 1));
    let timespec = |ns: i128| Timespec {
        // Both parts fit for any time that a file system can store.
        tv_sec: ns.div_euclid(1_000_000_000) as _,
        tv_nsec: ns.rem_euclid(1_000_000_000) as _,
    };
    let times = Timestamps {
        last_access: Timespec { tv_sec: 0, tv_nsec: UTIME_OMIT as _ },
        last_modification: timespec(ns),
    };
    Ok(rustix::fs::futimens(file, &times)?)
}

/// Syncs the directory. Before that a crash may undo the change of the name.
pub(super) fn sync_directory(directory: &OwnedFd) -> Result<(), UploadError> {
    let flags = OFlags::RDONLY | OFlags::DIRECTORY | OFlags::CLOEXEC;
    let directory = rustix::fs::openat(directory, c".", flags, Mode::empty())?;
    Ok(rustix::fs::fsync(&directory)?)
}

/// Number of locks in this process. A target always maps to the same one.
const LOCKS: usize = 64;
static LOCKED: [Mutex<()>; LOCKS] = [const { Mutex::new(()) }; LOCKS];

/// Locks a target. Directories are identified by device and inode, not by path. Names are compared
/// in lower case, since some file systems are case-insensitive.
pub(super) fn lock(
    directory: &OwnedFd,
    name: &[u8],
) -> Result<MutexGuard<'static, ()>, UploadError> {
    let stat = rustix::fs::fstat(directory)?;
    let file_id = format!("{} {} ", stat.st_dev, stat.st_ino);
    let key = [file_id.as_bytes(), &name.to_ascii_lowercase()[..]].concat();
    let number = xxh3_64(&key) % LOCKS as u64;
    // The lock guards no data, so a panic leaves nothing inconsistent.
    Ok(LOCKED[number as usize].lock().unwrap_or_else(PoisonError::into_inner))
}

#[cfg(test)]
mod tests {
    use std::fs;
    use std::path::PathBuf;

    use super::super::unfinished::create_named;
    use super::*;

    /// A temporary directory, removed at the end of a test.
    struct Scratch(PathBuf);

    impl Scratch {
        fn new(name: &str) -> Scratch {
            let dir = format!("hurtle-commit-{}-{name}", std::process::id());
            let dir = std::env::temp_dir().join(dir);
            fs::create_dir_all(&dir).unwrap();
            Scratch(dir)
        }

        fn open(&self) -> OwnedFd {
            fs::File::open(&self.0).unwrap().into()
        }

        /// Creates a file with a hidden name, as on systems without unnamed files.
        fn named(&self, contents: &[u8]) -> HiddenFile {
            let (file, name) = create_named(&self.open()).unwrap();
            rustix::io::write(&file, contents).unwrap();
            HiddenFile { directory: self.open(), file, name: Some(name), stored: None }
        }

        fn contents(&self) -> Vec<(String, Vec<u8>)> {
            let entries = fs::read_dir(&self.0).unwrap().map(Result::unwrap);
            let read = |e: fs::DirEntry| {
                (e.file_name().into_string().unwrap(), fs::read(e.path()).unwrap())
            };
            entries.map(read).collect()
        }
    }

    impl Drop for Scratch {
        fn drop(&mut self) {
            let _ = fs::remove_dir_all(&self.0);
        }
    }

    #[test]
    fn a_named_hidden_file_is_renamed_or_removed() {
        let scratch = Scratch::new("named");
        let abandoned = scratch.named(b"half");
        assert!(files::is_unfinished(scratch.contents()[0].0.as_bytes()), "never served");
        drop(abandoned);
        assert_eq!(scratch.contents(), []);

        scratch.named(b"one").name_it(b"a", false).unwrap();
        assert_eq!(scratch.contents(), [("a".to_owned(), b"one".to_vec())]);
        assert_eq!(scratch.named(b"no").name_it(b"a", false), Err(Errno::EXIST));
        assert_eq!(scratch.contents(), [("a".to_owned(), b"one".to_vec())], "nothing replaced");
        scratch.named(b"two").name_it(b"a", true).unwrap();
        assert_eq!(scratch.contents(), [("a".to_owned(), b"two".to_vec())]);
        fs::create_dir(scratch.0.join("d")).unwrap();
        assert!(scratch.named(b"no").name_it(b"d", true).is_err());
        assert_eq!(fs::read_dir(&scratch.0).unwrap().count(), 2, "a failure leaves nothing");
    }

    #[test]
    fn a_new_file_is_newer_than_the_replaced_one() {
        let scratch = Scratch::new("time");
        let hidden = scratch.named(b"x");
        set_time(&hidden.file, None).unwrap();
        let mut stamp = Stamp::of(&rustix::fs::fstat(&hidden.file).unwrap());
        stamp.modified_ns += 3_600_000_000_000;
        set_time(&hidden.file, Some(&stamp)).unwrap();
        let later = Stamp::of(&rustix::fs::fstat(&hidden.file).unwrap());
        assert!(later.modified_ns > stamp.modified_ns, "though the clock says less");
    }
}
