//! The moment a file becomes visible or goes, and the conditions of it, checked and acted on under
//! one lock for each target. Everything here waits for the disk and runs on the pool.

use std::os::fd::{AsFd, OwnedFd};
use std::sync::{Mutex, MutexGuard, PoisonError};
use std::time::{SystemTime, UNIX_EPOCH};

use http::{HeaderMap, header};
use rustix::fs::{AtFlags, FileType, Mode, OFlags, Timespec, Timestamps, UTIME_OMIT};
use rustix::io::Errno;
use xxhash_rust::xxh3::xxh3_64;

use super::Place;
use super::name::Target;
use super::refusal::Refusal;
use super::unfinished::{Hidden, Unfinished, hidden_name, open_directory};
use crate::body::{OpenFile, Stamp};
use crate::config::EtagSource;
use crate::files::{self, Changed};
use crate::h1::fields::joined;
use crate::semantics::conditional::{self, Preconditions, Validators, Verdict};
use crate::semantics::etag::EntityTag;
use crate::sys;

/// Others than this process may change names too; so often it is looked again.
const RACES_MAX: usize = 8;

/// A request's conditions, kept for as long as its body comes.
#[derive(Clone, Debug, Default, PartialEq, Eq)]
pub(super) struct Conditions {
    pub(super) if_match: Option<Vec<u8>>,
    pub(super) if_none_match: Option<Vec<u8>>,
    pub(super) if_unmodified_since: Option<Vec<u8>>,
}

/// What a PUT came to.
#[derive(Debug)]
pub(super) struct Done {
    /// There was no such file before.
    pub(super) created: bool,
    /// The text of its entity-tag; `None`: the mount sends none.
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

    fn as_sent(&self) -> Preconditions<'_> {
        Preconditions {
            if_match: self.if_match.as_deref(),
            if_none_match: self.if_none_match.as_deref(),
            if_unmodified_since: self.if_unmodified_since.as_deref(),
            ..Preconditions::default()
        }
    }

    /// Whether the current tag decides anything.
    fn name_tags(&self) -> bool {
        self.if_match.is_some() || self.if_none_match.is_some()
    }
}

impl Unfinished {
    /// Gives the file its name, if the conditions still hold.
    pub(super) fn commit(
        mut self,
        conditions: &Conditions,
        changed: &Changed,
    ) -> Result<Done, Refusal> {
        let mut hidden = self.take()?;
        let named = self.name_if(&mut hidden, conditions, changed);
        if let Some(kept) = &hidden.kept
            && !named.as_ref().is_err_and(Refusal::may_pass)
        {
            kept.remove();
        }
        named
    }

    fn name_if(
        &self,
        hidden: &mut Hidden,
        conditions: &Conditions,
        changed: &Changed,
    ) -> Result<Done, Refusal> {
        let hash = self.content_hash(hidden)?;
        let _lock = lock(&hidden.directory, &self.target.name)?;
        for _ in 0..RACES_MAX {
            let old = check(&self.place, &hidden.directory, &self.target, conditions)?;
            set_time(&hidden.file, old.as_ref())?;
            if self.place.fsync {
                rustix::fs::fsync(&hidden.file)?;
            }
            match hidden.name_it(&self.target.name, old.is_some()) {
                // Somebody else has made a file of that name meanwhile.
                Err(Errno::EXIST) => continue,
                named => named?,
            }
            changed.note();
            if self.place.fsync {
                sync_directory(&hidden.directory)?;
            }
            let stamp = Stamp::of(&rustix::fs::fstat(&hidden.file)?);
            let tag = (self.place.etag != EtagSource::Off).then(|| files::entry::tag(&stamp, hash));
            return Ok(Done { created: old.is_none(), tag });
        }
        Err(Refusal::BUSY)
    }

    /// Of the contents, where the tag comes from them. Of what came before this request only the
    /// file itself knows.
    fn content_hash(&self, hidden: &Hidden) -> Result<Option<u128>, Refusal> {
        if self.place.etag != EtagSource::Content {
            return Ok(None);
        }
        if let Some(hash) = &self.hash {
            return Ok(Some(hash.digest128()));
        }
        let stamp = Stamp::of(&rustix::fs::fstat(&hidden.file)?);
        let file = OpenFile::new(hidden.file.try_clone()?, stamp, self.place.lane);
        Ok(Some(files::lookup::hash(&file)?))
    }
}

/// Removes a file, if the conditions hold.
pub(super) fn delete(
    place: &Place,
    target: &Target,
    conditions: &Conditions,
    changed: &Changed,
) -> Result<(), Refusal> {
    let directory = match open_directory(place, target) {
        Err(refusal) if refusal.is_no_directory() => return Err(Refusal::MISSING),
        other => other?,
    };
    let _lock = lock(&directory, &target.name)?;
    if check(place, &directory, target, conditions)?.is_none() {
        return Err(Refusal::MISSING);
    }
    rustix::fs::unlinkat(&directory, &target.name[..], AtFlags::empty())?;
    changed.note();
    if place.fsync {
        sync_directory(&directory)?;
    }
    Ok(())
}

/// Looks at what has the name now, and whether the conditions hold for it. What is there and is not
/// a file is refused.
pub(super) fn check(
    place: &Place,
    directory: &OwnedFd,
    target: &Target,
    conditions: &Conditions,
) -> Result<Option<Stamp>, Refusal> {
    let stat = match rustix::fs::statat(directory, &target.name[..], AtFlags::SYMLINK_NOFOLLOW) {
        Ok(stat) => Some(stat),
        Err(Errno::NOENT) => None,
        Err(e) => return Err(e.into()),
    };
    let Some(stat) = stat else {
        let verdict = conditional::evaluate_absent(&conditions.as_sent());
        return if verdict == Verdict::Proceed { Ok(None) } else { Err(Refusal::CONDITION) };
    };
    match FileType::from_raw_mode(stat.st_mode) {
        FileType::RegularFile => {}
        FileType::Directory => return Err(Refusal::DIRECTORY),
        FileType::Symlink => return Err(Refusal::LINK),
        _ => return Err(Refusal::SPECIAL),
    }
    let stamp = Stamp::of(&stat);
    let tag = match conditions.name_tags() {
        true => tag(place, directory, target, stamp)?,
        false => None,
    };
    let validators = Validators {
        etag: tag.as_ref().map(|tag| EntityTag { weak: false, opaque: tag.as_bytes() }),
        last_modified: Some(stamp.modified_secs()),
    };
    match conditional::evaluate(false, &conditions.as_sent(), &validators) {
        Verdict::Proceed => Ok(Some(stamp)),
        Verdict::NotModified | Verdict::Failed => Err(Refusal::CONDITION),
    }
}

/// The tag that a GET would show now.
fn tag(
    place: &Place,
    directory: &OwnedFd,
    target: &Target,
    stamp: Stamp,
) -> Result<Option<String>, Refusal> {
    if place.etag == EtagSource::Off {
        return Ok(None);
    }
    if !files::lookup::hashes(place.etag, &stamp) {
        return Ok(Some(files::entry::tag(&stamp, None)));
    }
    let flags = OFlags::RDONLY | OFlags::NOFOLLOW | OFlags::NONBLOCK | OFlags::CLOEXEC;
    let file = rustix::fs::openat(directory, &target.name[..], flags, Mode::empty())?;
    let hash = files::lookup::hash(&OpenFile::new(file, stamp, place.lane))?;
    Ok(Some(files::entry::tag(&stamp, Some(hash))))
}

impl Hidden {
    /// Moves the file to its name. `replace`: there is a file of that name, which is to go.
    fn name_it(&mut self, name: &[u8], replace: bool) -> rustix::io::Result<()> {
        match (self.name.take(), replace) {
            (None, false) => sys::link_unnamed(self.file.as_fd(), self.directory.as_fd(), name),
            (None, true) => {
                // No call replaces a name by a file without one; so it gets one first.
                let hidden = hidden_name();
                sys::link_unnamed(self.file.as_fd(), self.directory.as_fd(), &hidden)?;
                self.rename(hidden, name)
            }
            (Some(hidden), false) => self.link(hidden, name),
            (Some(hidden), true) => self.rename(hidden, name),
        }
    }

    fn rename(&mut self, hidden: Vec<u8>, name: &[u8]) -> rustix::io::Result<()> {
        let renamed = rustix::fs::renameat(self.home(), &hidden[..], &self.directory, name);
        if renamed.is_err() {
            self.name = Some(hidden);
        }
        renamed
    }

    fn link(&mut self, hidden: Vec<u8>, name: &[u8]) -> rustix::io::Result<()> {
        let flags = AtFlags::empty();
        match rustix::fs::linkat(self.home(), &hidden[..], &self.directory, name, flags) {
            // A file system without second names. Where another process makes the file in this
            // very moment, it is replaced.
            Err(Errno::PERM | Errno::OPNOTSUPP) => self.rename(hidden, name),
            linked => {
                // Its hidden name goes with `self`.
                self.name = Some(hidden);
                linked
            }
        }
    }
}

/// Sets the time that the tag is made of: later than the replaced file's, so that two files of one
/// size never have one tag, however coarse the kernel's clock.
fn set_time(file: &OwnedFd, old: Option<&Stamp>) -> Result<(), Refusal> {
    let now = SystemTime::now().duration_since(UNIX_EPOCH);
    let now_ns = now.map_or(0, |now| i128::try_from(now.as_nanos()).unwrap_or(0));
    let ns = old.map_or(now_ns, |old| now_ns.max(old.modified_ns + 1));
    let timespec = |ns: i128| Timespec {
        // Both halves fit for any time a file system can hold.
        tv_sec: ns.div_euclid(1_000_000_000) as _,
        tv_nsec: ns.rem_euclid(1_000_000_000) as _,
    };
    let times = Timestamps {
        last_access: Timespec { tv_sec: 0, tv_nsec: UTIME_OMIT as _ },
        last_modification: timespec(ns),
    };
    Ok(rustix::fs::futimens(file, &times)?)
}

/// Until this is done, a crash may take the name back.
fn sync_directory(directory: &OwnedFd) -> Result<(), Refusal> {
    let flags = OFlags::RDONLY | OFlags::DIRECTORY | OFlags::CLOEXEC;
    let directory = rustix::fs::openat(directory, c".", flags, Mode::empty())?;
    Ok(rustix::fs::fsync(&directory)?)
}

/// Locks of this process; a target always has the same one.
const LOCKS: usize = 64;
static LOCKED: [Mutex<()>; LOCKS] = [const { Mutex::new(()) }; LOCKS];

/// Holds a target's lock. Directories are told apart by what they are, not by the path they were
/// found at, and names without case, which not every file system knows.
pub(super) fn lock(directory: &OwnedFd, name: &[u8]) -> Result<MutexGuard<'static, ()>, Refusal> {
    let stat = rustix::fs::fstat(directory)?;
    let place = format!("{} {} ", stat.st_dev, stat.st_ino);
    let key = [place.as_bytes(), &name.to_ascii_lowercase()[..]].concat();
    let number = xxh3_64(&key) % LOCKS as u64;
    // It guards no data, so a panic under it leaves nothing half done.
    Ok(LOCKED[number as usize].lock().unwrap_or_else(PoisonError::into_inner))
}

#[cfg(test)]
mod tests {
    use std::fs;
    use std::path::PathBuf;

    use super::super::unfinished::create_named;
    use super::*;

    /// A directory of a test's own, removed at its end.
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

        /// A file with these contents and a hidden name, as where there are none without.
        fn named(&self, contents: &[u8]) -> Hidden {
            let (file, name) = create_named(&self.open()).unwrap();
            rustix::io::write(&file, contents).unwrap();
            Hidden { directory: self.open(), file, name: Some(name), kept: None }
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
    fn a_file_that_had_to_have_a_name_changes_it_or_goes() {
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
    fn a_new_file_is_never_as_old_as_the_one_it_replaces() {
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
