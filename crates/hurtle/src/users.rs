//! The users and groups of the system: the server's process becomes one, gives it files, and opens
//! none as root through links of others.

use std::fs::{self, File};
use std::io;
use std::os::fd::AsFd as _;
use std::os::unix::ffi::OsStrExt as _;
use std::os::unix::fs::MetadataExt as _;
use std::path::{self, Component, Path, PathBuf};

use nix::unistd::{Gid, Group, User};
use rustix::fs::{AtFlags, CWD, FileType, Mode, OFlags, fstat, openat, statat};
use rustix::io::Errno;
use rustix::process::geteuid;

use crate::config::Config;
use crate::sys;

/// Bits of a mode that permit the group and others to write.
const OTHERS_WRITE: u32 = 0o022;

/// Bit of a mode that permits only the owner of an entry of a directory, and of the directory, to
/// rename or remove that entry.
const STICKY: u32 = 0o1000;

/// Maximum number of links on the way to a file.
const LINKS_MAX: u32 = 8;

/// Gives up root for good: groups first, because only root may change them.
pub(crate) fn switch_user(name: &str, group: Option<&str>) -> io::Result<()> {
    use nix::unistd::{setgid, setuid};
    let (user, group) = account(name, group)?;
    if !geteuid().is_root() {
        if user.uid.as_raw() == geteuid().as_raw() {
            return Ok(());
        }
        return Err(io::Error::other(format!("only root can switch to the user {name}")));
    }
    sys::init_groups(&std::ffi::CString::new(name)?, group)?;
    setgid(group)?;
    setuid(user.uid)?;
    Ok(())
}

/// Looks up a user, and its group or another one.
///
/// # Errors
/// There is no such user or group.
pub(crate) fn account(name: &str, group: Option<&str>) -> io::Result<(User, Gid)> {
    let missing = |what: &str, name: &str| io::Error::other(format!("there is no {what} {name}"));
    let user = User::from_name(name)?.ok_or_else(|| missing("user", name))?;
    let gid = match group {
        None => user.gid,
        Some(group) => Group::from_name(group)?.ok_or_else(|| missing("group", group))?.gid,
    };
    Ok((user, gid))
}

/// Returns the user that this process will become; `None`: it stays as it is, or there is no such
/// user, which `switch_user` reports.
///
/// # Errors
/// The system's.
pub(crate) fn next_user(config: &Config) -> io::Result<Option<User>> {
    let name = config.user.as_ref().filter(|_| geteuid().is_root());
    Ok(name.map(|name| User::from_name(name)).transpose()?.flatten())
}

/// Opens a file as root, which follows no link that another user can place: such a link may lead to
/// a file of root (CVE-2016-1247). `path` is absolute.
///
/// # Errors
/// The system's; `PermissionDenied` for such a link, symbolic or not.
pub(crate) fn open_as_root(path: &Path, flags: OFlags, mode: u32) -> io::Result<File> {
    let refused = |what: &str| {
        let wrong = format!("{what} that another user can place, so root does not write there");
        io::Error::new(io::ErrorKind::PermissionDenied, wrong)
    };
    let mode = Mode::from_raw_mode(mode as _);
    let mut path = path.to_owned();
    for _ in 0..=LINKS_MAX {
        match open_without_links(&path, flags, mode) {
            // FreeBSD has another error for a link at the end.
            Err(Errno::LOOP | Errno::MLINK) => match Lead::of(&path)? {
                Lead::Link(next) => path = next,
                Lead::Descriptor => return Ok(openat(CWD, &path, flags, mode)?.into()),
                _ => return Err(refused("it is behind a link")),
            },
            Err(e) => return Err(e.into()),
            Ok((file, true)) => return Ok(file),
            Ok((file, false)) if is_led_by_root(&path)? => return Ok(file),
            Ok(_) => return Err(refused("it is a file with another name, by a link")),
        }
    }
    Err(Errno::LOOP.into())
}

/// Opens a file, or fails with `LOOP` or `MLINK` if its name or a directory above it is a link.
/// Returns whether it has this name alone.
fn open_without_links(path: &Path, flags: OFlags, mode: Mode) -> rustix::io::Result<(File, bool)> {
    let directory = OFlags::DIRECTORY | OFlags::CLOEXEC | sys::PROBE;
    let (Some(parent), Some(name)) = (path.parent(), path.file_name()) else {
        return Err(Errno::ISDIR);
    };
    let mut above = openat(CWD, "/", directory, Mode::empty())?;
    let parent = parent.strip_prefix("/").unwrap_or(parent).as_os_str().as_bytes();
    if !parent.is_empty() {
        above = sys::open_beneath(above.as_fd(), parent, directory, false)?;
    }
    let file = File::from(openat(&above, name, flags | OFlags::NOFOLLOW, mode)?);
    let opened = fstat(&file)?;
    // One look at the name: with the number of links of the open file, a name that is removed just
    // after the opening would go unseen.
    let named = statat(&above, name, AtFlags::SYMLINK_NOFOLLOW)?;
    let is_it = (opened.st_dev, opened.st_ino) == (named.st_dev, named.st_ino);
    let is_file = FileType::from_raw_mode(opened.st_mode) == FileType::RegularFile;
    Ok((file, !is_file || is_it && named.st_nlink == 1))
}

/// Returns whether no user but root can change what a path names. Links on the way are root's.
/// `/tmp` may be among the directories: in one with the sticky bit, root's entries are only root's
/// to rename.
///
/// # Errors
/// The path cannot be followed.
pub(crate) fn is_led_by_root(path: &Path) -> io::Result<bool> {
    let mut path = path.to_owned();
    for _ in 0..=LINKS_MAX {
        match Lead::of(&path)? {
            Lead::Link(next) => path = next,
            Lead::OtherLink => return Ok(false),
            Lead::Descriptor => return Ok(true),
            Lead::End(is_roots) => return Ok(is_roots),
        }
    }
    Ok(false)
}

/// The next step along a path.
enum Lead {
    /// To a link that only root can place: the path that it stands for.
    Link(PathBuf),
    /// To an open file of a process (`/proc/self/fd/1`): the link leads there, although its text
    /// may be no path at all.
    Descriptor,
    /// To a link that another user can place.
    OtherLink,
    /// To its end, without links. `true`: only root can change what it names.
    End(bool),
}

impl Lead {
    fn of(path: &Path) -> io::Result<Lead> {
        let path = path::absolute(path)?;
        let parts: Vec<&Path> = path.ancestors().collect();
        // Only root can change what was passed; others can place entries in the directory above.
        let (mut is_roots, mut is_shared) = (true, false);
        for part in parts.into_iter().rev() {
            let is_end = part == path;
            let metadata = match fs::symlink_metadata(part) {
                Err(e) if is_end && e.kind() == io::ErrorKind::NotFound => {
                    return Ok(Lead::End(is_roots && !is_shared));
                }
                metadata => metadata?,
            };
            let (is_of_root, mode) = (metadata.uid() == 0, metadata.mode());
            if metadata.is_symlink() {
                if !is_roots || !is_of_root {
                    return Ok(Lead::OtherLink);
                }
                let target = target(part)?;
                if is_end && leads_elsewhere(part, &target) {
                    return Ok(Lead::Descriptor);
                }
                let rest = path.strip_prefix(part).map_err(io::Error::other)?;
                // An empty rest would add a slash, which only a directory may have.
                return Ok(Lead::Link(if is_end { target } else { target.join(rest) }));
            }
            is_roots &= is_of_root || is_end && !is_shared;
            is_roots &= is_end || mode & OTHERS_WRITE == 0 || mode & STICKY != 0;
            is_shared = mode & OTHERS_WRITE != 0;
        }
        Ok(Lead::End(is_roots))
    }
}

/// Returns the path that a link stands for. The directories above the link are no links, so `..`
/// takes a name away.
fn target(link: &Path) -> io::Result<PathBuf> {
    let mut path = link.parent().unwrap_or(link).to_owned();
    for part in fs::read_link(link)?.components() {
        match part {
            Component::ParentDir if path.ends_with("..") => path.push(part),
            Component::ParentDir => drop(path.pop()),
            part => path.push(part),
        }
    }
    Ok(path)
}

/// Returns whether the system leads a link to another file than its text does.
fn leads_elsewhere(link: &Path, target: &Path) -> bool {
    let identity = |path: &Path| fs::metadata(path).ok().map(|file| (file.dev(), file.ino()));
    identity(link).is_some_and(|file| identity(target) != Some(file))
}
