//! Opens a path beneath a directory one name at a time, for systems whose kernel cannot be told to
//! stay beneath it. No name is opened through a link: links are read, and their targets are walked
//! like the rest of the path, so a tree that changes meanwhile can misdirect but never lead out.

use std::os::fd::{AsFd, BorrowedFd, OwnedFd};

use rustix::fs::{AtFlags, FileType, Mode, OFlags};
use rustix::io::{Errno, Result, retry_on_intr};

use super::PROBE;

/// Links read in one walk: as many as Linux follows. A name that becomes a link between the look at
/// it and its opening counts as one more, which bounds the walk.
const LINKS_MAX: usize = 40;

/// Length of a path, as on Linux (`PATH_MAX` less its NUL); with `LINKS_MAX`, the bound of the
/// walk.
const PATH_BYTES_MAX: usize = 4095;

/// `open_beneath` of the contract in `sys`. Holds one descriptor for each directory it is below
/// `dir` until it returns.
///
/// Anything but a file or directory is `ENXIO`: not every system can name it without opening it,
/// and opening it may wake a device.
///
/// # Errors
/// Those of the kernel's own walk, except that `..` needs no permission on the directory it leaves.
pub fn open(dir: BorrowedFd<'_>, path: &[u8], flags: OFlags, follow: bool) -> Result<OwnedFd> {
    if path.len() > PATH_BYTES_MAX {
        return Err(Errno::NAMETOOLONG);
    }
    let mut below = Below { dir, entered: Vec::new() };
    let mut links_left = if follow { LINKS_MAX } else { 0 };
    let mut rest = relative(path.to_vec())?;
    loop {
        let (name, tail) = split_first(&rest);
        let is_last = tail.iter().all(|b| *b == b'/');
        let must_be_directory = !tail.is_empty();
        let found = match name {
            b".." => {
                below.entered.pop().ok_or(Errno::XDEV)?;
                below.open_if_last(is_last, flags)?
            }
            b"." => below.open_if_last(is_last, flags)?,
            name if is_last => below.open_last(name, flags, must_be_directory)?,
            name => below.enter(name)?,
        };
        if matches!(found, Found::Link(_) | Found::Changed) {
            links_left = links_left.checked_sub(1).ok_or(Errno::LOOP)?;
        }
        rest = match found {
            Found::Opened(fd) => return Ok(fd),
            Found::Entered => tail.to_vec(),
            Found::Link(target) => relative([&target, tail].concat())?,
            Found::Changed => rest,
        };
    }
}

/// The position of the walk: the directory it may not leave, and those entered since, each in the
/// one before it. `..` returns to the one before, even if a directory was moved meanwhile.
struct Below<'a> {
    dir: BorrowedFd<'a>,
    entered: Vec<OwnedFd>,
}

/// The kind of a name.
enum Found {
    /// The last name of the path, opened.
    Opened(OwnedFd),
    /// A directory, which is now the current one.
    Entered,
    /// A link and its target.
    Link(Vec<u8>),
    /// The name changed between the check and the opening.
    Changed,
}

impl Below<'_> {
    fn current(&self) -> BorrowedFd<'_> {
        self.entered.last().map_or(self.dir, AsFd::as_fd)
    }

    fn open_if_last(&self, is_last: bool, flags: OFlags) -> Result<Found> {
        if !is_last {
            return Ok(Found::Entered);
        }
        openat(self.current(), b".", flags).map(Found::Opened)
    }

    fn open_last(&self, name: &[u8], flags: OFlags, must_be_directory: bool) -> Result<Found> {
        let kind = self.kind(name)?;
        let flags = if must_be_directory { flags | OFlags::DIRECTORY } else { flags };
        match kind {
            FileType::Symlink => self.read_link(name),
            FileType::RegularFile | FileType::Directory => {
                or_changed(openat(self.current(), name, flags).map(Found::Opened), kind)
            }
            _ if flags.contains(OFlags::DIRECTORY) => Err(Errno::NOTDIR),
            _ => Err(Errno::NXIO),
        }
    }

    fn enter(&mut self, name: &[u8]) -> Result<Found> {
        let kind = self.kind(name)?;
        match kind {
            FileType::Symlink => self.read_link(name),
            FileType::Directory => {
                let flags = PROBE | OFlags::DIRECTORY | OFlags::CLOEXEC;
                let entered = openat(self.current(), name, flags).map(|fd| {
                    self.entered.push(fd);
                    Found::Entered
                });
                or_changed(entered, kind)
            }
            _ => Err(Errno::NOTDIR),
        }
    }

    /// The type of a name, checked before opening: the errors of opening a link differ between
    /// systems.
    fn kind(&self, name: &[u8]) -> Result<FileType> {
        let stat = rustix::fs::statat(self.current(), name, AtFlags::SYMLINK_NOFOLLOW)?;
        Ok(FileType::from_raw_mode(stat.st_mode))
    }

    fn read_link(&self, name: &[u8]) -> Result<Found> {
        match rustix::fs::readlinkat(self.current(), name, Vec::new()) {
            Ok(target) => Ok(Found::Link(target.into_bytes())),
            // It is no longer a link.
            Err(Errno::INVAL) => Ok(Found::Changed),
            Err(e) => Err(e),
        }
    }
}

/// Opens one name, never through a link.
fn openat(dir: BorrowedFd<'_>, name: &[u8], flags: OFlags) -> Result<OwnedFd> {
    retry_on_intr(|| rustix::fs::openat(dir, name, flags | OFlags::NOFOLLOW, Mode::empty()))
}

/// A name that became a link after the check fails with `ELOOP` (FreeBSD: `EMLINK`), or with
/// `ENOTDIR` if a directory was required.
fn or_changed(opened: Result<Found>, kind: FileType) -> Result<Found> {
    match opened {
        Err(Errno::LOOP | Errno::MLINK) => Ok(Found::Changed),
        Err(Errno::NOTDIR) if kind == FileType::Directory => Ok(Found::Changed),
        other => other,
    }
}

/// A relative path; an absolute one leads out, even if it would come back.
fn relative(path: Vec<u8>) -> Result<Vec<u8>> {
    match path.first() {
        None => Err(Errno::NOENT),
        Some(b'/') => Err(Errno::XDEV),
        Some(_) => Ok(path),
    }
}

/// Splits off the first name; the rest begins at the `/` after it. Leading slashes are skipped.
fn split_first(path: &[u8]) -> (&[u8], &[u8]) {
    let start = path.iter().position(|b| *b != b'/').unwrap_or(path.len());
    let path = &path[start..];
    path.split_at(path.iter().position(|b| *b == b'/').unwrap_or(path.len()))
}
