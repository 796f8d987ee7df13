//! Names of encoded variants, by directory. A look-up of a file also searches for its variants, and
//! a name that does not exist is expensive to search for on a disk. After some look-ups in a
//! directory its names are read once; later look-ups search only for variants that it has, until it
//! changes. All workers share this; only disk threads use it, so its lock never blocks an event
//! loop.

use std::collections::{HashMap, HashSet};
use std::io;
use std::os::fd::{AsFd, OwnedFd};
use std::sync::{Arc, Mutex, MutexGuard, PoisonError};
use std::time::{Duration, Instant};

use rustix::fs::{Dir, fstat};

use super::lookup::SIDECARS;
use crate::body::Stamp;

/// Directories that are remembered. Beyond this number all are forgotten.
const DIRECTORIES_MAX: usize = 1_024;

/// Look-ups in an unchanged directory before its names are read: reading takes as long as some
/// searches.
const SEARCHES_MIN: u32 = 16;

/// Names in a directory that is read, at most: this many take about 50 ms of a disk thread.
const NAMES_MAX: usize = 100_000;

/// Variants that are remembered of a directory, at most.
const SIDECARS_MAX: usize = 10_000;

/// Variants that are remembered of all directories, at most: about 10 MB. Beyond this number all
/// directories are forgotten.
const ALL_SIDECARS_MAX: usize = 100_000;

/// Time for which the names are trusted although the directory's times stay. Local file systems
/// change them with each name; some network file systems do not.
const TRUST_TIME_MAX: Duration = Duration::from_secs(60);

/// The names of variants in directories. Clones share them.
#[derive(Clone, Debug, Default)]
pub(crate) struct Sidecars(Arc<Mutex<HashMap<(u64, u64), Directory>>>);

#[derive(Debug)]
struct Directory {
    stamp: Stamp,
    state: SidecarState,
}

#[derive(Clone, Debug)]
enum SidecarState {
    /// The names are not known; with the number of look-ups since the directory changed.
    Searched(u32),
    /// A thread is reading the names.
    Reading,
    /// The names, in lower case, and the time at which they were read.
    Known(Names, Instant),
    /// There are more than `NAMES_MAX` or `SIDECARS_MAX`.
    TooMany,
}

/// The names of a directory's variants.
#[derive(Clone, Debug, PartialEq, Eq)]
pub(super) struct Names(Arc<HashSet<Vec<u8>>>);

impl Names {
    /// `true` if the directory has no variants.
    pub(super) fn is_empty(&self) -> bool {
        self.0.is_empty()
    }

    /// Returns whether the directory may have this name. It compares without case, because some
    /// file systems do.
    pub(super) fn may_have(&self, name: &[u8]) -> bool {
        // File systems differ in the names that they regard as equal beyond ASCII.
        !self.is_empty() && (!name.is_ascii() || self.0.contains(&name.to_ascii_lowercase()))
    }
}

impl Directory {
    /// Number of variants that are remembered.
    fn len(&self) -> usize {
        match &self.state {
            SidecarState::Known(names, _) => names.0.len(),
            SidecarState::Searched(_) | SidecarState::Reading | SidecarState::TooMany => 0,
        }
    }
}

impl Sidecars {
    /// Returns the names of a directory's variants; `None`: they are unknown, and must be searched
    /// for. `open` opens the directory for reading.
    ///
    /// # Errors
    /// The directory's state cannot be read.
    pub(super) fn names(
        &self,
        directory: impl AsFd,
        open: impl FnOnce() -> io::Result<OwnedFd>,
    ) -> io::Result<Option<Names>> {
        let stamp = Stamp::of(&fstat(directory)?);
        let state = self.begin(stamp);
        if let SidecarState::Known(names, _) = state {
            return Ok(Some(names));
        }
        if !matches!(state, SidecarState::Reading) {
            return Ok(None);
        }
        // An error is a reason to search by name: reading needs more permission than searching.
        let state = open().and_then(|opened| read(&opened, stamp)).unwrap_or(SidecarState::TooMany);
        let names =
            if let SidecarState::Known(names, _) = &state { Some(names.clone()) } else { None };
        self.insert(Directory { stamp, state });
        Ok(names)
    }

    /// Remembers a directory whose names were read.
    fn insert(&self, directory: Directory) {
        let mut directories = self.lock();
        let known = directories.values().map(Directory::len).sum::<usize>();
        if known + directory.len() > ALL_SIDECARS_MAX {
            directories.clear();
        }
        let Stamp { device, inode, .. } = directory.stamp;
        directories.insert((device, inode), directory);
    }

    /// Counts a look-up. Returns `Known`; `Reading` if the caller is to read the names; else
    /// `Searched`.
    fn begin(&self, stamp: Stamp) -> SidecarState {
        let mut directories = self.lock();
        if directories.len() >= DIRECTORIES_MAX
            && !directories.contains_key(&(stamp.device, stamp.inode))
        {
            directories.clear();
        }
        let new = || Directory { stamp, state: SidecarState::Searched(0) };
        let directory = directories.entry((stamp.device, stamp.inode)).or_insert_with(new);
        if directory.stamp != stamp {
            *directory = new();
        }
        match &mut directory.state {
            SidecarState::Known(_, read) if read.elapsed() > TRUST_TIME_MAX => {
                directory.state = SidecarState::Searched(1);
            }
            SidecarState::Known(..) => return directory.state.clone(),
            SidecarState::Searched(count) if *count < SEARCHES_MIN => *count += 1,
            SidecarState::Searched(_) if stamp.has_settled() => {
                directory.state = SidecarState::Reading;
                return SidecarState::Reading;
            }
            SidecarState::Searched(_) | SidecarState::Reading | SidecarState::TooMany => {}
        }
        SidecarState::Searched(0)
    }

    /// Nothing panics while the lock is held, so a poisoned lock is consistent.
    fn lock(&self) -> MutexGuard<'_, HashMap<(u64, u64), Directory>> {
        self.0.lock().unwrap_or_else(PoisonError::into_inner)
    }
}

/// Reads the names of a directory that had this stamp.
fn read(directory: &OwnedFd, stamp: Stamp) -> io::Result<SidecarState> {
    let read = Instant::now();
    let mut names = HashSet::new();
    for (count, entry) in Dir::read_from(directory)?.enumerate() {
        let entry = entry?;
        let name = entry.file_name().to_bytes();
        if SIDECARS.iter().any(|(_, suffix)| ends_with(name, suffix)) {
            names.insert(name.to_ascii_lowercase());
        }
        if count >= NAMES_MAX || names.len() > SIDECARS_MAX {
            return Ok(SidecarState::TooMany);
        }
    }
    match Stamp::of(&fstat(directory)?) == stamp {
        true => Ok(SidecarState::Known(Names(Arc::new(names)), read)),
        false => Ok(SidecarState::Searched(0)),
    }
}

/// Tools that copy files round times down to a second, or to two (FAT, zip).
const ROUNDING_NS: i128 = 2_000_000_000;

/// Returns whether an encoded variant is current: it is not older than the original, except by a
/// rounding of its time to whole seconds.
pub(super) fn is_variant_of(variant: &Stamp, original: &Stamp) -> bool {
    let older_ns = original.modified_ns - variant.modified_ns;
    let is_rounded = variant.modified_ns.rem_euclid(1_000_000_000) == 0;
    older_ns <= 0 || is_rounded && older_ns < ROUNDING_NS
}

/// Returns whether a name has this suffix, in any case.
fn ends_with(name: &[u8], suffix: &[u8]) -> bool {
    name.len().checked_sub(suffix.len()).is_some_and(|at| name[at..].eq_ignore_ascii_case(suffix))
}

#[cfg(test)]
mod tests {
    use std::fs::{self, File};

    use super::*;

    /// A directory that changed long ago, which is removed in the end.
    struct Folder(std::path::PathBuf);

    impl Folder {
        fn new(name: &str) -> Folder {
            let path = std::env::temp_dir().join(format!("sidecars-{}-{name}", std::process::id()));
            fs::create_dir_all(&path).unwrap();
            Folder(path)
        }

        fn names(&self, sidecars: &Sidecars) -> Option<Names> {
            let open = || Ok(File::open(&self.0)?.into());
            sidecars.names(File::open(&self.0).unwrap(), open).unwrap()
        }

        fn add(&self, name: &str) {
            fs::write(self.0.join(name), "").unwrap();
        }
    }

    impl Drop for Folder {
        fn drop(&mut self) {
            fs::remove_dir_all(&self.0).unwrap();
        }
    }

    fn of(names: &[&str]) -> Names {
        Names(Arc::new(names.iter().map(|name| name.as_bytes().to_vec()).collect()))
    }

    #[test]
    fn names_are_read_once_and_again_after_a_change() {
        let (folder, sidecars) = (Folder::new("read"), Sidecars::default());
        for name in ["a.js", "a.js.br", "B.CSS.GZ", "c.zst.txt"] {
            folder.add(name);
        }
        let read = || {
            let stamp = Stamp::of(&fstat(File::open(&folder.0).unwrap()).unwrap());
            read(&File::open(&folder.0).unwrap().into(), stamp).unwrap()
        };
        let SidecarState::Known(names, _) = read() else { panic!("few names") };
        assert_eq!(names, of(&["a.js.br", "b.css.gz"]));
        assert!(names.may_have(b"A.js.br") && names.may_have("\u{e9}.br".as_bytes()));
        assert!(!names.may_have(b"a.js.gz") && !of(&[]).may_have("\u{e9}.br".as_bytes()));
        for _ in 0..2 * SEARCHES_MIN {
            assert_eq!(folder.names(&sidecars), None, "it has changed just now");
        }
        // As if it had been read a moment ago.
        folder.add("d.js");
        let stamp = Stamp::of(&fstat(File::open(&folder.0).unwrap()).unwrap());
        sidecars.insert(Directory { stamp, state: read() });
        assert_eq!(folder.names(&sidecars), Some(of(&["a.js.br", "b.css.gz"])));
        folder.add("d.js.br");
        assert_eq!(folder.names(&sidecars), None, "it has changed");
    }

    #[test]
    fn names_are_read_after_some_searches_and_not_trusted_forever() {
        let sidecars = Sidecars::default();
        let settled = Stamp { device: 1, inode: 1, len: 0, modified_ns: 0, changed_ns: 0 };
        for _ in 0..SEARCHES_MIN {
            assert!(matches!(sidecars.begin(settled), SidecarState::Searched(_)));
        }
        assert!(matches!(sidecars.begin(settled), SidecarState::Reading), "this one reads");
        assert!(
            matches!(sidecars.begin(settled), SidecarState::Searched(_)),
            "the others do not wait"
        );
        let longer = TRUST_TIME_MAX + Duration::from_secs(1);
        if let Some(long_ago) = Instant::now().checked_sub(longer) {
            let state = SidecarState::Known(of(&["a.js.br"]), long_ago);
            sidecars.insert(Directory { stamp: settled, state });
            assert!(matches!(sidecars.begin(settled), SidecarState::Searched(_)));
        }
    }

    #[test]
    fn directories_are_forgotten_before_they_are_too_many() {
        let sidecars = Sidecars::default();
        let stamp = |inode| Stamp { device: 1, inode, len: 0, modified_ns: 0, changed_ns: 0 };
        for inode in 0..3 * DIRECTORIES_MAX as u64 {
            sidecars.begin(stamp(inode));
            assert!(sidecars.lock().len() <= DIRECTORIES_MAX);
        }
        let names = (0..SIDECARS_MAX).map(|n| n.to_string().into_bytes()).collect();
        let state = SidecarState::Known(Names(Arc::new(names)), Instant::now());
        for inode in 0..3 * (ALL_SIDECARS_MAX / SIDECARS_MAX) as u64 {
            sidecars.insert(Directory { stamp: stamp(inode), state: state.clone() });
            let known: usize = sidecars.lock().values().map(Directory::len).sum();
            assert!((SIDECARS_MAX..=ALL_SIDECARS_MAX).contains(&known), "{known}");
        }
    }
}
