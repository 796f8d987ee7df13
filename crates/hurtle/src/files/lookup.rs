//! Finds the file of a path beneath a root. All functions here block on the disk and run on the
//! disk threads. `probe` resolves the name without opening the file. `find` opens it: a FIFO does
//! not block, and neither it nor a device is read. To revalidate an entry, it is enough that a
//! probe gives the same result.

use std::ffi::OsStr;
use std::io;
use std::ops::Deref;
use std::os::fd::{AsFd, BorrowedFd, OwnedFd};
use std::os::unix::ffi::OsStrExt;
use std::path::Path;
use std::sync::Arc;

use bytes::Bytes;
use http::StatusCode;
use hurtle_http::semantics::accept::Coding;
use hurtle_objects::Origin;
use rustix::fs::{FileType, Mode, OFlags};
use rustix::io::Errno;

use super::hashes::{Hashes, TagSource};
use super::objects::Arriving;
use super::outside::log_outside;
use super::root::{OpenRoot, Root};
use super::sidecars::Sidecars;
use crate::body::{OpenFile, Stamp};
use crate::config::{EtagSource, Symlinks};
use crate::disk::Lane;
use crate::sys;

/// Maximum size of a file that is kept in memory and sent with its head in one call, in bytes.
/// Above it `sendfile(2)` is cheaper.
pub(crate) const MEMORY_BYTES_MAX: u64 = 16 << 10;

/// A look-up of one path, kept for revalidation.
#[derive(Clone, Debug)]
pub(crate) struct Lookup {
    /// The rules for all paths beneath its root.
    pub rules: Arc<LookupRules>,
    /// The candidates, in order.
    pub tries: Vec<Try>,
}

/// Rules for the look-ups of all paths beneath a root.
#[derive(Clone, Debug)]
pub(crate) struct LookupRules {
    /// The root directory; nothing outside of it is found.
    pub root: Root,
    /// The store whose objects are found, in place of files (`files::objects`).
    pub origin: Option<Origin>,
    /// Index names that are tried in a directory.
    pub index: Vec<String>,
    /// `false`: names of directories lead to nothing.
    pub finds_directories: bool,
    /// The policy for symbolic links.
    pub symlinks: Symlinks,
    /// Finds encoded variants beside the file; `None`: they are not used.
    pub sidecars: Option<Sidecars>,
    /// `true`: the variants of a file that is missing are found, too.
    pub finds_variants_alone: bool,
    /// The source of entity-tags.
    pub etag: EtagSource,
    /// Hashes of files with a time that was set; `None`: no program sets the times of these files.
    pub hashes: Option<Hashes>,
    /// The lane of this root's jobs on the disk threads.
    pub lane: Lane,
    /// Maximum rate of one response, in bytes per second; 0 means unlimited.
    pub rate: u64,
    /// Maximum size of a file that is read when it is opened, in bytes.
    pub memory_bytes_max: u64,
}

/// A candidate of a look-up.
#[derive(Clone, Debug, PartialEq, Eq)]
pub(crate) enum Try {
    /// A path beneath the root, without a leading `/`. With a trailing `/` it must be a directory.
    Path(Vec<u8>),
    /// Ends the look-up with this status.
    Status(StatusCode),
}

/// Result of a probe.
#[derive(Clone, Debug, PartialEq, Eq)]
pub(crate) enum Target {
    /// A regular file and its encoded variants.
    File {
        /// Path relative to the root.
        path: Vec<u8>,
        /// The states of the unencoded file, if there is one, and of its variants, best first.
        states: Vec<(Coding, Stamp)>,
    },
    /// A directory without an index, requested with a trailing slash.
    Directory(Vec<u8>, Stamp),
    /// A directory requested without a trailing slash.
    SlashMissing,
    /// There is no such file, or it is of a kind that is not served.
    Missing,
    /// A symbolic link leads out of the root to a place that the configuration does not name.
    Outside,
    /// The server has no permission.
    Denied,
    /// `try_files` ended with a status.
    Status(StatusCode),
}

/// Result of a look-up that opens the file.
#[derive(Debug)]
pub(crate) enum Outcome {
    File {
        /// Path relative to the root.
        path: Vec<u8>,
        /// The unencoded file first, if there is one, then its variants, best first.
        opened: Vec<Opened>,
    },
    /// A result without an open file; never `Target::File`.
    Other(Target),
}

/// The open file of one representation.
#[derive(Debug)]
pub(crate) struct Opened {
    pub coding: Coding,
    pub file: Arc<OpenFile>,
    /// The content, if the file is small.
    pub content: Option<Bytes>,
    /// The source of the entity-tag.
    pub tag: TagSource,
    /// The bytes of an object while not all of them have arrived.
    pub arrival: Option<Arriving>,
}

/// The names of encoded variants end in these.
pub(super) const SIDECARS: [(Coding, &[u8]); 3] =
    [(Coding::Br, b".br"), (Coding::Zstd, b".zst"), (Coding::Gzip, b".gz")];

/// Flags by which a file is opened: a FIFO does not block, and a terminal does not become this
/// process's.
const OPEN: OFlags =
    OFlags::RDONLY.union(OFlags::NONBLOCK).union(OFlags::NOCTTY).union(OFlags::CLOEXEC);

/// Maximum number of attempts if the name changes during a look-up. Disk threads have low priority,
/// so a busy writer can win many times.
const RACES_MAX: usize = 32;

impl Deref for Lookup {
    type Target = LookupRules;

    fn deref(&self) -> &LookupRules {
        &self.rules
    }
}

impl Lookup {
    /// Resolves the first candidate that exists.
    ///
    /// # Errors
    /// The disk failed. Errors that a client can cause are variants of [`Target`].
    pub(crate) fn probe(&self) -> io::Result<Target> {
        self.probe_in(&self.root.open()?)
    }

    /// As `probe`. A root that was opened at `since_ms` (of `clock::now_ms`) or later is trusted.
    ///
    /// # Errors
    /// The disk failed, or the root cannot be opened (see [`probe`](Self::probe)).
    pub(crate) fn probe_since(&self, since_ms: u64) -> io::Result<Target> {
        self.probe_in(&*self.root.opened_since(since_ms)?)
    }

    /// Resolves and opens the file. `ahead` is the number of bytes that will be sent next; they are
    /// read ahead now, unless there are variants. A root that was opened at `since_ms` (of
    /// `clock::now_ms`) or later is trusted for the files beneath it.
    ///
    /// # Errors
    /// See [`probe`](Self::probe).
    pub(crate) fn find(&self, ahead: u64, since_ms: u64) -> io::Result<Outcome> {
        let root = self.root.opened_since(since_ms)?;
        match self.find_in(&root, ahead) {
            Ok(Some(file @ Outcome::File { .. })) => return Ok(file),
            Ok(Some(other)) if self.root.leads_to(&root) => return Ok(other),
            // Another attempt tells.
            _ => {}
        }
        for _ in 0..RACES_MAX {
            if let Some(found) = self.find_in(&self.root.open()?, ahead)? {
                return Ok(found);
            }
        }
        Err(io::Error::other("the file kept changing while it was opened"))
    }

    /// `None` if the names changed meanwhile.
    fn find_in(&self, root: &OpenRoot, ahead: u64) -> io::Result<Option<Outcome>> {
        let (target, identity) = match self.open_named(root)? {
            Some((path, fd, stamp)) => (self.file_target(root, path, stamp)?, Some(fd)),
            None => (self.probe_in(root)?, None),
        };
        let (path, states) = match target {
            Target::File { path, states } => (path, states),
            other => return Ok(Some(Outcome::Other(other))),
        };
        match self.open_all(root, &path, &states, identity) {
            Ok(Some(opened)) => {
                if let [Opened { file, content: None, .. }] = &opened[..] {
                    file.read_ahead(0, ahead.min(file.stamp.len))?;
                }
                Ok(Some(Outcome::File { path, opened }))
            }
            Ok(None) => Ok(None),
            // Probing needs less permission than reading.
            Err(e) if e.kind() == io::ErrorKind::PermissionDenied => {
                Ok(Some(Outcome::Other(Target::Denied)))
            }
            Err(e) => Err(e),
        }
    }

    /// Opens a directory that a probe found, for reading its names.
    ///
    /// # Errors
    /// The disk failed.
    pub(crate) fn open_directory(&self, path: &[u8]) -> io::Result<OwnedFd> {
        let flags = OFlags::RDONLY | OFlags::DIRECTORY | OFlags::CLOEXEC;
        Ok(self.open(&self.root.open()?, path, flags)?)
    }

    /// Opens the file that the only candidate names, which most requests are for. `None`: a probe
    /// tells what the name is. A FIFO does not block, and a device is not read.
    fn open_named(&self, root: &OpenRoot) -> io::Result<Option<(Vec<u8>, OwnedFd, Stamp)>> {
        let [Try::Path(path)] = &self.tries[..] else { return Ok(None) };
        if path.is_empty() || path.ends_with(b"/") {
            return Ok(None);
        }
        let Ok(fd) = self.open(root, path, OPEN) else { return Ok(None) };
        let stat = rustix::fs::fstat(&fd)?;
        let is_file = FileType::from_raw_mode(stat.st_mode) == FileType::RegularFile;
        Ok(is_file.then(|| (path.clone(), fd, Stamp::of(&stat))))
    }

    fn probe_in(&self, root: &OpenRoot) -> io::Result<Target> {
        for attempt in &self.tries {
            let found = match attempt {
                Try::Status(status) => return Ok(Target::Status(*status)),
                Try::Path(path) => self.probe_path(root, path)?,
            };
            if !matches!(found, Target::Missing) {
                return Ok(found);
            }
        }
        Ok(Target::Missing)
    }

    fn probe_path(&self, root: &OpenRoot, path: &[u8]) -> io::Result<Target> {
        let wants_directory = path.is_empty() || path.ends_with(b"/");
        let name = path.strip_suffix(b"/").unwrap_or(path);
        match self.state(root, name)? {
            State::File(_) if wants_directory => Ok(Target::Missing),
            State::File(stamp) => self.file_target(root, name.to_vec(), stamp),
            State::Directory(_) if !self.finds_directories => Ok(Target::Missing),
            State::Directory(_) if !wants_directory => Ok(Target::SlashMissing),
            State::Directory(stamp) => self.probe_index(root, path, stamp),
            State::Missing if wants_directory => Ok(Target::Missing),
            State::Missing => self.variants_alone(root, name),
            State::Outside => Ok(Target::Outside),
            State::Denied => Ok(Target::Denied),
        }
    }

    fn probe_index(&self, root: &OpenRoot, directory: &[u8], stamp: Stamp) -> io::Result<Target> {
        for index in &self.index {
            let name = [directory, index.as_bytes()].concat();
            match self.state(root, &name)? {
                State::File(stamp) => return self.file_target(root, name, stamp),
                State::Denied => return Ok(Target::Denied),
                State::Missing => match self.variants_alone(root, &name)? {
                    Target::Missing => {}
                    found => return Ok(found),
                },
                State::Directory(_) | State::Outside => {}
            }
        }
        Ok(Target::Directory(directory.to_vec(), stamp))
    }

    pub(super) fn state(&self, root: &OpenRoot, path: &[u8]) -> io::Result<State> {
        let flags = OFlags::CLOEXEC | sys::PROBE;
        let fd = match self.open(root, path, flags) {
            Ok(fd) => fd,
            Err(e) => return State::of_error(e),
        };
        let stat = rustix::fs::fstat(&fd)?;
        Ok(match FileType::from_raw_mode(stat.st_mode) {
            FileType::RegularFile => State::File(Stamp::of(&stat)),
            FileType::Directory => State::Directory(Stamp::of(&stat)),
            _ => State::Missing,
        })
    }

    /// `None` if the names have changed since the probe.
    fn open_all(
        &self,
        root: &OpenRoot,
        path: &[u8],
        states: &[(Coding, Stamp)],
        mut identity: Option<OwnedFd>,
    ) -> io::Result<Option<Vec<Opened>>> {
        let mut opened = Vec::with_capacity(states.len());
        for (coding, stamp) in states {
            if let Some(fd) = identity.take_if(|_| *coding == Coding::Identity) {
                let file = Arc::new(OpenFile::new(fd, *stamp, self.lane).with_rate(self.rate));
                let Some(one) = self.read(*coding, file)? else { return Ok(None) };
                opened.push(one);
                continue;
            }
            let name = [path, suffix(*coding)].concat();
            let fd = match self.open(root, &name, OPEN) {
                Ok(fd) => fd,
                // An unreadable variant of a file is ignored.
                Err(Errno::ACCESS) if *coding != states[0].0 => continue,
                Err(Errno::NOENT) => return Ok(None),
                Err(e) => return Err(e.into()),
            };
            let now = Stamp::of(&rustix::fs::fstat(&fd)?);
            // A busy log has grown since the probe, each time; a variant is older than it by then.
            let has_grown = states.len() == 1 && stamp.has_grown_to(&now);
            if now != *stamp && !has_grown {
                return Ok(None);
            }
            let file = Arc::new(OpenFile::new(fd, now, self.lane).with_rate(self.rate));
            let Some(one) = self.read(*coding, file)? else { return Ok(None) };
            opened.push(one);
        }
        Ok(Some(opened))
    }

    /// Reads the content and computes the hash, if required; `None` if the file was edited
    /// meanwhile.
    fn read(&self, coding: Coding, file: Arc<OpenFile>) -> io::Result<Option<Opened>> {
        let len = file.stamp.len;
        let content = if len <= self.memory_bytes_max {
            let mut content = vec![0; len as usize];
            if read_full(&file, &mut content)? < content.len() {
                return Ok(None);
            }
            Some(Bytes::from(content))
        } else {
            None
        };
        let tag = TagSource::of(self.etag, self.hashes.as_ref(), &file, content.as_ref())?;
        let is_read = content.is_some() || tag.hash().is_some();
        if is_read && !file.is_intact() {
            return Ok(None);
        }
        Ok(Some(Opened { coding, file, content, tag, arrival: None }))
    }

    pub(super) fn open(
        &self,
        root: &OpenRoot,
        path: &[u8],
        flags: OFlags,
    ) -> rustix::io::Result<OwnedFd> {
        let path = if path.is_empty() { b"." } else { path };
        match &self.symlinks {
            Symlinks::Never => sys::open_beneath(root.as_fd(), path, flags, false),
            Symlinks::Anywhere => rustix::fs::openat(root.as_fd(), path, flags, Mode::empty()),
            Symlinks::WithinRoot | Symlinks::Into(_) => {
                match sys::open_beneath(root.as_fd(), path, flags, true) {
                    // An absolute link is allowed if it leads back beneath the root, which only
                    // resolving its name can tell.
                    Err(Errno::XDEV) => self.open_canonical(root, path, flags, true),
                    other => other,
                }
            }
        }
    }

    /// Returns whether a name that may be a link leads to a file or directory that is served.
    pub(super) fn serves(&self, root: &OpenRoot, path: &[u8]) -> bool {
        let (flags, follows) = (OFlags::CLOEXEC | sys::PROBE, self.symlinks != Symlinks::Never);
        if self.symlinks == Symlinks::Anywhere {
            return true;
        }
        match sys::open_beneath(root.as_fd(), path, flags, follows) {
            Err(Errno::XDEV) if follows => self.open_canonical(root, path, flags, false).is_ok(),
            opened => opened.is_ok(),
        }
    }

    /// Resolves all links by name, then opens the result without following links. `logs`: a link
    /// that leads out is logged.
    fn open_canonical(
        &self,
        root: &OpenRoot,
        path: &[u8],
        flags: OFlags,
        logs: bool,
    ) -> rustix::io::Result<OwnedFd> {
        let errno = |e: io::Error| Errno::from_io_error(&e).unwrap_or(Errno::IO);
        let canonical_root = self.root.canonicalize().map_err(errno)?;
        let canonical = canonical_root.join(Path::new(OsStr::from_bytes(path)));
        let canonical = canonical.canonicalize().map_err(errno)?;
        if let Ok(beneath) = canonical.strip_prefix(&canonical_root) {
            return open_real(root.as_fd(), beneath, flags);
        }
        for directory in self.symlinks.directories() {
            let Ok(directory) = directory.canonicalize() else { continue };
            let Ok(beneath) = canonical.strip_prefix(&directory) else { continue };
            let within = OFlags::DIRECTORY | OFlags::CLOEXEC | sys::PROBE;
            let opened = rustix::fs::open(&directory, within, Mode::empty())?;
            return open_real(opened.as_fd(), beneath, flags);
        }
        if logs {
            log_outside(&self.root, path, &canonical);
        }
        Err(Errno::XDEV)
    }
}

/// Opens a path that has no links.
fn open_real(directory: BorrowedFd<'_>, path: &Path, flags: OFlags) -> rustix::io::Result<OwnedFd> {
    let path = match path.as_os_str().as_bytes() {
        b"" => b".",
        other => other,
    };
    sys::open_beneath(directory, path, flags, false)
}

/// The kind of a name, if it is served.
pub(super) enum State {
    File(Stamp),
    Directory(Stamp),
    Missing,
    /// A link leads out.
    Outside,
    Denied,
}

impl State {
    /// Maps an error to its meaning for a client. Errors that a client cannot cause are returned.
    fn of_error(e: Errno) -> io::Result<State> {
        match e {
            Errno::NOENT
            | Errno::NOTDIR
            | Errno::NAMETOOLONG
            | Errno::LOOP
            | Errno::INVAL
            | Errno::NXIO
            // A socket, on systems that can name it only by opening it.
            | Errno::OPNOTSUPP
            | Errno::ILSEQ => Ok(State::Missing),
            Errno::XDEV => Ok(State::Outside),
            Errno::ACCESS | Errno::PERM => Ok(State::Denied),
            e => Err(e.into()),
        }
    }
}

/// The last segment of a path.
pub(super) fn base_name(path: &[u8]) -> &[u8] {
    path.rsplit(|b| *b == b'/').next().unwrap_or_default()
}

fn suffix(coding: Coding) -> &'static [u8] {
    SIDECARS.iter().find(|(c, _)| *c == coding).map_or(b"", |(_, suffix)| suffix)
}

/// Reads from the start of the file until `into` is full or the file ends.
pub(super) fn read_full(file: &OpenFile, into: &mut [u8]) -> io::Result<usize> {
    let mut at = 0;
    while at < into.len() {
        match rustix::io::retry_on_intr(|| rustix::io::pread(file, &mut into[at..], at as u64))? {
            0 => break,
            n => at += n,
        }
    }
    Ok(at)
}
