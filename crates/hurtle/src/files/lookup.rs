//! Finding the file a path stands for, beneath its root. Everything here waits for the disk and
//! runs on the pool. Two steps: `probe` finds the name and says in what state it is, without
//! opening it (a FIFO or device is never opened); `open` opens what was found. A probe that says
//! the same as before is all a revalidation needs.

use std::ffi::OsStr;
use std::io;
use std::os::fd::{AsFd, OwnedFd};
use std::os::unix::ffi::OsStrExt;
use std::path::{Path, PathBuf};
use std::sync::Arc;

use bytes::Bytes;
use http::StatusCode;
use rustix::fs::{FileType, Mode, OFlags};
use rustix::io::Errno;

use crate::body::{OpenFile, Stamp};
use crate::config::{EtagSource, Symlinks};
use crate::disk::Lane;
use crate::semantics::accept::Coding;
use crate::sys;

/// Files up to this size are kept in memory and sent with their head in one call; larger ones go
/// by `sendfile(2)`, which is cheaper from about here on.
pub const MEMORY_BYTES_MAX: u64 = 16 << 10;

/// What to look for: made once for each path, kept to ask again.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct Lookup {
    /// The directory nothing is found above or beside of.
    pub root: PathBuf,
    /// What is tried, in order.
    pub tries: Vec<Try>,
    /// Names tried in a directory.
    pub index: Arc<[String]>,
    /// Which links are followed.
    pub symlinks: Symlinks,
    /// Whether encoded variants beside the file are looked for.
    pub sidecars: bool,
    /// Where entity-tags come from.
    pub etag: EtagSource,
    /// Where this root's jobs queue.
    pub lane: Lane,
    /// How fast one answer may send a file, in bytes a second; 0: as fast as it is taken.
    pub rate: u64,
    /// Files up to this size, in bytes, are read when they are opened.
    pub memory_bytes_max: u64,
}

/// One thing tried.
#[derive(Clone, Debug, PartialEq, Eq)]
pub enum Try {
    /// A path beneath the root, without a leading `/`; with a trailing one it must be a directory.
    Path(Vec<u8>),
    /// End with this status.
    Status(StatusCode),
}

/// What a probe found.
#[derive(Clone, Debug, PartialEq, Eq)]
pub enum Target {
    /// A regular file, and its encoded variants.
    File {
        /// Beneath the root.
        path: Vec<u8>,
        /// The file as it is, then its variants, best first.
        states: Vec<(Coding, Stamp)>,
    },
    /// A directory without an index, asked for with its slash.
    Directory(Vec<u8>, Stamp),
    /// A directory asked for without its slash.
    SlashMissing,
    /// Nothing there, or nothing that is served.
    Missing,
    /// There, but not for this user.
    Denied,
    /// `try_files` ended with a status.
    Status(StatusCode),
}

/// What was found, opened.
#[derive(Debug)]
pub enum Outcome {
    /// A file.
    File {
        /// Beneath the root.
        path: Vec<u8>,
        /// The file as it is first, then its variants, best first.
        opened: Vec<Opened>,
    },
    /// Anything else.
    Other(Target),
}

/// One representation's file.
#[derive(Debug)]
pub struct Opened {
    /// How it is encoded.
    pub coding: Coding,
    /// Open.
    pub file: Arc<OpenFile>,
    /// The whole of it, if it is small.
    pub content: Option<Bytes>,
    /// Hash of the contents, where the tag comes from them.
    pub hash: Option<u128>,
}

const SIDECARS: [(Coding, &[u8]); 3] =
    [(Coding::Br, b".br"), (Coding::Zstd, b".zst"), (Coding::Gzip, b".gz")];

/// A name may change while it is looked up; so often it is looked up again. A disk thread gives precedence
/// to others, so a busy writer can be faster than it many times.
const RACES_MAX: usize = 32;

impl Lookup {
    /// Finds the first try that exists.
    ///
    /// # Errors
    /// Of the disk; what a client can cause is a `Target`.
    pub fn probe(&self) -> io::Result<Target> {
        self.probe_in(&self.open_root()?)
    }

    /// Finds and opens. `ahead`: so much of the beginning will be sent next, in bytes, unless there
    /// are variants to choose from; it is read now, while this thread waits for the disk anyway.
    ///
    /// # Errors
    /// See `probe`.
    pub fn find(&self, ahead: u64) -> io::Result<Outcome> {
        for _ in 0..RACES_MAX {
            let root = self.open_root()?;
            let (path, states) = match self.probe_in(&root)? {
                Target::File { path, states } => (path, states),
                other => return Ok(Outcome::Other(other)),
            };
            match self.open_all(&root, &path, &states) {
                Ok(Some(opened)) => {
                    if let [Opened { file, content: None, .. }] = &opened[..] {
                        file.read_ahead(0, ahead.min(file.stamp.len))?;
                    }
                    return Ok(Outcome::File { path, opened });
                }
                Ok(None) => {}
                // The probe only named it; reading is another permission.
                Err(e) if e.kind() == io::ErrorKind::PermissionDenied => {
                    return Ok(Outcome::Other(Target::Denied));
                }
                Err(e) => return Err(e),
            }
        }
        Err(io::Error::other("the file kept changing while it was opened"))
    }

    /// Opens a directory a probe found, for reading its names.
    ///
    /// # Errors
    /// Of the disk.
    pub fn open_directory(&self, path: &[u8]) -> io::Result<OwnedFd> {
        let flags = OFlags::RDONLY | OFlags::DIRECTORY | OFlags::CLOEXEC;
        Ok(self.open(&self.open_root()?, path, flags)?)
    }

    /// The root is looked up each time too: it may be a link that moves with every deploy.
    fn open_root(&self) -> io::Result<OwnedFd> {
        let flags = OFlags::DIRECTORY | OFlags::CLOEXEC | sys::PROBE;
        rustix::fs::open(&self.root, flags, Mode::empty())
            .map_err(|e| io::Error::new(e.kind(), format!("the root {}: {e}", self.root.display())))
    }

    fn probe_in(&self, root: &OwnedFd) -> io::Result<Target> {
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

    fn probe_path(&self, root: &OwnedFd, path: &[u8]) -> io::Result<Target> {
        let wants_directory = path.is_empty() || path.ends_with(b"/");
        let name = path.strip_suffix(b"/").unwrap_or(path);
        match self.state(root, name)? {
            State::File(_) if wants_directory => Ok(Target::Missing),
            State::File(stamp) => self.file_target(root, name.to_vec(), stamp),
            State::Directory(_) if !wants_directory => Ok(Target::SlashMissing),
            State::Directory(stamp) => self.probe_index(root, path, stamp),
            State::Missing => Ok(Target::Missing),
            State::Denied => Ok(Target::Denied),
        }
    }

    fn probe_index(&self, root: &OwnedFd, directory: &[u8], stamp: Stamp) -> io::Result<Target> {
        for index in self.index.iter() {
            let name = [directory, index.as_bytes()].concat();
            match self.state(root, &name)? {
                State::File(stamp) => return self.file_target(root, name, stamp),
                State::Denied => return Ok(Target::Denied),
                State::Directory(_) | State::Missing => {}
            }
        }
        Ok(Target::Directory(directory.to_vec(), stamp))
    }

    fn file_target(&self, root: &OwnedFd, path: Vec<u8>, stamp: Stamp) -> io::Result<Target> {
        let mut states = vec![(Coding::Identity, stamp)];
        if self.sidecars {
            for (coding, suffix) in SIDECARS {
                let name = [&path[..], suffix].concat();
                // One older than its original was made from something else.
                if let State::File(side) = self.state(root, &name)?
                    && side.modified_ns >= stamp.modified_ns
                {
                    states.push((coding, side));
                }
            }
        }
        Ok(Target::File { path, states })
    }

    fn state(&self, root: &OwnedFd, path: &[u8]) -> io::Result<State> {
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

    /// `None`: the names have changed since the probe.
    fn open_all(
        &self,
        root: &OwnedFd,
        path: &[u8],
        states: &[(Coding, Stamp)],
    ) -> io::Result<Option<Vec<Opened>>> {
        let mut opened = Vec::with_capacity(states.len());
        for (coding, stamp) in states {
            let name = [path, suffix(*coding)].concat();
            let flags = OFlags::RDONLY | OFlags::NONBLOCK | OFlags::NOCTTY | OFlags::CLOEXEC;
            let fd = match self.open(root, &name, flags) {
                Ok(fd) => fd,
                // A variant that may not be read is no variant.
                Err(Errno::ACCESS) if *coding != Coding::Identity => continue,
                Err(Errno::NOENT) => return Ok(None),
                Err(e) => return Err(e.into()),
            };
            if Stamp::of(&rustix::fs::fstat(&fd)?) != *stamp {
                return Ok(None);
            }
            let file = Arc::new(OpenFile::new(fd, *stamp, self.lane).with_rate(self.rate));
            let Some(one) = self.read(*coding, file)? else { return Ok(None) };
            opened.push(one);
        }
        Ok(Some(opened))
    }

    /// Reads what is kept of a file; `None` if it was edited meanwhile.
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
        let hash = if hashes(self.etag, &file.stamp) { Some(hash(&file)?) } else { None };
        if !file.is_unchanged() {
            return Ok(None);
        }
        Ok(Some(Opened { coding, file, content, hash }))
    }

    fn open(&self, root: &OwnedFd, path: &[u8], flags: OFlags) -> rustix::io::Result<OwnedFd> {
        let path = if path.is_empty() { b"." } else { path };
        match self.symlinks {
            Symlinks::Never => sys::open_beneath(root.as_fd(), path, flags, false),
            Symlinks::Anywhere => rustix::fs::openat(root, path, flags, Mode::empty()),
            Symlinks::WithinRoot => match sys::open_beneath(root.as_fd(), path, flags, true) {
                // An absolute link: fine if it comes back, which only the names can tell.
                Err(Errno::XDEV) => self.open_canonical(root, path, flags),
                other => other,
            },
        }
    }

    /// Resolves all links by name, then opens what came out without following any.
    fn open_canonical(
        &self,
        root: &OwnedFd,
        path: &[u8],
        flags: OFlags,
    ) -> rustix::io::Result<OwnedFd> {
        let errno = |e: io::Error| Errno::from_io_error(&e).unwrap_or(Errno::IO);
        let canonical_root = self.root.canonicalize().map_err(errno)?;
        let canonical = canonical_root.join(Path::new(OsStr::from_bytes(path)));
        let canonical = canonical.canonicalize().map_err(errno)?;
        let beneath = canonical.strip_prefix(&canonical_root).map_err(|_| Errno::XDEV)?;
        let beneath = match beneath.as_os_str().as_bytes() {
            b"" => b".",
            other => other,
        };
        sys::open_beneath(root.as_fd(), beneath, flags, false)
    }
}

const DAY_SECS: u64 = 86_400;

/// 1980-01-01, the first day a zip archive can name.
const ZIP_EPOCH_SECS: u64 = 315_532_800;

/// Whether a tag comes from the contents. Reproducible builds give every file the same time, which
/// then tells nothing apart.
pub fn hashes(etag: EtagSource, stamp: &Stamp) -> bool {
    match etag {
        EtagSource::Off => false,
        EtagSource::Content => true,
        EtagSource::Auto => {
            let secs = stamp.modified_secs();
            let constant = |start: u64| (start..start + DAY_SECS).contains(&secs);
            constant(0) || constant(ZIP_EPOCH_SECS)
        }
    }
}

enum State {
    File(Stamp),
    Directory(Stamp),
    Missing,
    Denied,
}

impl State {
    /// What a name's failure means to a client; what it cannot cause stays an error.
    fn of_error(e: Errno) -> io::Result<State> {
        match e {
            Errno::NOENT
            | Errno::NOTDIR
            | Errno::NAMETOOLONG
            | Errno::LOOP
            | Errno::XDEV
            | Errno::INVAL
            | Errno::NXIO
            // A socket, where it can be named only by opening it.
            | Errno::OPNOTSUPP
            | Errno::ILSEQ => Ok(State::Missing),
            Errno::ACCESS | Errno::PERM => Ok(State::Denied),
            e => Err(e.into()),
        }
    }
}

fn suffix(coding: Coding) -> &'static [u8] {
    SIDECARS.iter().find(|(c, _)| *c == coding).map_or(b"", |(_, suffix)| suffix)
}

/// Reads from the beginning until `into` is full or the file ends.
fn read_full(file: &OpenFile, into: &mut [u8]) -> io::Result<usize> {
    let mut at = 0;
    while at < into.len() {
        match rustix::io::retry_on_intr(|| rustix::io::pread(file, &mut into[at..], at as u64))? {
            0 => break,
            n => at += n,
        }
    }
    Ok(at)
}

/// The hash that a tag is made of.
///
/// # Errors
/// Of the disk.
pub fn hash(file: &OpenFile) -> io::Result<u128> {
    let mut hasher = xxhash_rust::xxh3::Xxh3::new();
    let mut piece = vec![0; 128 << 10];
    let mut offset = 0;
    loop {
        match rustix::io::retry_on_intr(|| rustix::io::pread(file, &mut piece[..], offset))? {
            0 => return Ok(hasher.digest128()),
            n => {
                hasher.update(&piece[..n]);
                offset += n as u64;
            }
        }
    }
}
