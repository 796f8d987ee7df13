//! Lists the entries of an archive, in steps. All functions here block on the disk and run on the
//! disk threads.

use std::os::fd::OwnedFd;
use std::sync::Arc;

use rustix::fs::{Access, AtFlags, Dir, DirEntry, FileType, OFlags, accessat, statat};
use rustix::io::Errno;

use super::{ArchiveError, ArchiveRequest, Entry, Reservation, Source};
use crate::body::Stamp;
use crate::config;
use crate::files::Routes;
use crate::files::listing::{Kind, NAME_BYTES_MAX, visible};
use crate::files::lookup::State;
use crate::files::root::OpenRoot;

/// Names that one step looks at.
const STEP_NAMES: usize = 1_000;

/// Directories within each other, at most.
const DEPTH_MAX: usize = 64;

/// Longest path in an archive, in bytes, as on Linux (`PATH_MAX` less its NUL).
const PATH_BYTES_MAX: usize = 4_095;

/// A walk through a directory and all beneath it.
pub(super) struct Walk {
    request: ArchiveRequest,
    limits: config::Archive,
    routes: Arc<Routes>,
    /// The root of the look-up; `None` before the first step.
    root: Option<OpenRoot>,
    /// Paths of directories that are not yet open, relative to the archived one.
    pending: Vec<Vec<u8>>,
    current: Option<Current>,
    entries: Vec<Entry>,
    bytes: u64,
    reservation: Reservation,
}

/// The result of a step.
pub(super) enum Step {
    /// There is more to list.
    More(Box<Walk>),
    /// All entries are listed.
    Done(Box<Source>),
}

/// The directory that is being read.
struct Current {
    /// Its path relative to the archived one; empty, or with a trailing `/`.
    path: Vec<u8>,
    directory: OwnedFd,
    names: Dir,
}

impl Walk {
    pub(super) fn new(
        request: ArchiveRequest,
        limits: config::Archive,
        routes: Arc<Routes>,
    ) -> Box<Walk> {
        Box::new(Walk {
            request,
            limits,
            routes,
            root: None,
            pending: vec![Vec::new()],
            current: None,
            entries: Vec::new(),
            bytes: 0,
            reservation: Reservation::default(),
        })
    }

    /// Looks at the next names.
    ///
    /// # Errors
    /// The archived directory cannot be read, or a limit is exceeded.
    pub(super) fn step(mut self: Box<Walk>) -> Result<Step, ArchiveError> {
        if self.root.is_none() {
            self.root = Some(self.request.lookup.root.open()?);
        }
        for _ in 0..STEP_NAMES {
            let Some(current) = &mut self.current else {
                let Some(path) = self.pending.pop() else { return self.finish() };
                self.enter(path)?;
                continue;
            };
            match current.names.next() {
                None => self.current = None,
                Some(name) => self.visit(&name?)?,
            }
        }
        Ok(Step::More(self))
    }

    fn finish(mut self) -> Result<Step, ArchiveError> {
        self.entries.sort_unstable_by(|a, b| a.path.cmp(&b.path));
        let root = self.root.ok_or(Errno::BADF)?;
        let source = Source::new(self.request, root, self.entries, self.reservation);
        Ok(Step::Done(Box::new(source)))
    }

    /// Opens a directory, relative to the archived one, and adds its entry.
    fn enter(&mut self, path: Vec<u8>) -> Result<(), ArchiveError> {
        let is_top = path.is_empty();
        let slashed = if is_top { Vec::new() } else { [&path[..], b"/"].concat() };
        let flags = OFlags::RDONLY | OFlags::DIRECTORY | OFlags::CLOEXEC;
        let opened = match self.open(&slashed, flags) {
            // A GET of the directory is refused as well.
            Err(_) if !is_top => return Ok(()),
            opened => opened?,
        };
        let modified = rustix::fs::fstat(&opened)?.st_mtime;
        let entry =
            Entry { path: path.into(), kind: Kind::Directory, size: 0, modified, inode: 0, crc: 0 };
        self.add(entry)?;
        if !is_top && self.has_index(&slashed)? {
            return Ok(());
        }
        let names = Dir::read_from(&opened)?;
        self.current = Some(Current { path: slashed, directory: opened, names });
        Ok(())
    }

    /// Adds the index file of a directory, if it has one. Such a directory has no listing, so its
    /// other names stay unknown.
    fn has_index(&mut self, directory: &[u8]) -> Result<bool, ArchiveError> {
        let rules = Arc::clone(&self.request.lookup.rules);
        for index in &rules.index {
            let path = [directory, index.as_bytes()].concat();
            match self.state(&path)? {
                State::File(stamp) => {
                    if !self.leads_elsewhere(&path) {
                        self.add_readable(path, &stamp)?;
                    }
                    return Ok(true);
                }
                State::Denied => return Ok(true),
                State::Directory(_) | State::Missing | State::Outside => {}
            }
        }
        Ok(false)
    }

    fn visit(&mut self, found: &DirEntry) -> Result<(), ArchiveError> {
        let name = found.file_name();
        let Some(Current { path, directory, .. }) = &self.current else { return Ok(()) };
        if !visible(name.to_bytes(), self.request.dotfiles) || name.count_bytes() > NAME_BYTES_MAX {
            return Ok(());
        }
        let path = [&path[..], name.to_bytes()].concat();
        if self.leads_elsewhere(&path) {
            return Ok(());
        }
        // A link to a file is followed as for a GET. A link to a directory is left out.
        let Ok(stat) = statat(directory, name, AtFlags::SYMLINK_NOFOLLOW) else { return Ok(()) };
        match FileType::from_raw_mode(stat.st_mode) {
            FileType::Directory if path.iter().filter(|b| **b == b'/').count() >= DEPTH_MAX => {
                Err(ArchiveError::Depth)
            }
            FileType::Directory => {
                let names = self.entries.len() + self.pending.len();
                if names as u64 >= self.limits.entries {
                    return Err(ArchiveError::Entries(self.limits.entries));
                }
                self.pending.push(path);
                Ok(())
            }
            FileType::RegularFile => {
                let denied = accessat(directory, name, Access::READ_OK, AtFlags::EACCESS);
                match denied {
                    Err(Errno::ACCESS) => Ok(()),
                    _ => self.add_file(path, &Stamp::of(&stat)),
                }
            }
            FileType::Symlink => match self.state(&path)? {
                State::File(stamp) => self.add_readable(path, &stamp),
                _ => Ok(()),
            },
            _ => Ok(()),
        }
    }

    /// Adds a file that the server may read; others are left out.
    fn add_readable(&mut self, path: Vec<u8>, stamp: &Stamp) -> Result<(), ArchiveError> {
        let flags = OFlags::RDONLY | OFlags::NONBLOCK | OFlags::NOCTTY | OFlags::CLOEXEC;
        match self.open(&path, flags) {
            Ok(_) => self.add_file(path, stamp),
            Err(_) => Ok(()),
        }
    }

    fn add_file(&mut self, path: Vec<u8>, stamp: &Stamp) -> Result<(), ArchiveError> {
        self.bytes = self.bytes.saturating_add(stamp.len);
        if self.bytes > self.limits.bytes {
            return Err(ArchiveError::Bytes(self.limits.bytes));
        }
        let modified = i64::try_from(stamp.modified_ns.div_euclid(1_000_000_000)).unwrap_or(0);
        self.add(Entry {
            path: path.into(),
            kind: Kind::File,
            size: stamp.len,
            modified,
            inode: stamp.inode,
            crc: 0,
        })
    }

    fn add(&mut self, entry: Entry) -> Result<(), ArchiveError> {
        if self.entries.len() as u64 >= self.limits.entries {
            return Err(ArchiveError::Entries(self.limits.entries));
        }
        if self.request.name.len() + 1 + entry.path.len() > PATH_BYTES_MAX {
            return Err(ArchiveError::Depth);
        }
        if !self.reservation.add(&entry.path) {
            return Err(ArchiveError::Busy);
        }
        self.entries.push(entry);
        Ok(())
    }

    fn leads_elsewhere(&self, path: &[u8]) -> bool {
        self.request.urls.iter().any(|url| self.routes.lead_elsewhere(url, path))
    }

    fn state(&self, path: &[u8]) -> Result<State, ArchiveError> {
        let root = self.root.as_ref().ok_or(Errno::BADF)?;
        Ok(self.request.lookup.state(root, &[&self.request.path[..], path].concat())?)
    }

    fn open(&self, path: &[u8], flags: OFlags) -> Result<OwnedFd, Errno> {
        let root = self.root.as_ref().ok_or(Errno::BADF)?;
        let path = [&self.request.path[..], path].concat();
        self.request.lookup.open(root, &path, flags)
    }
}
