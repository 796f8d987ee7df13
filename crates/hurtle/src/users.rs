//! The users and groups of the system: the server's process becomes one, and gives it directories.

use std::fs::{self, DirBuilder, OpenOptions};
use std::io;
use std::os::unix::fs::{DirBuilderExt as _, MetadataExt as _, OpenOptionsExt as _};
use std::path::Path;

use nix::unistd::{Gid, Group, User, fchown};
use rustix::fs::OFlags;
use rustix::process::geteuid;

use crate::config::Config;
use crate::sys;

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

/// Bits of a mode that permit the group and others to write.
const OTHERS_WRITE: u32 = 0o022;

/// Creates a directory with this mode, and those above it, for the user that this process will
/// become; does nothing if it stays as it is. An existing directory of root becomes that user's
/// only if no user but root can change where its path leads, because a link may have led to it
/// (CVE-2016-1247); for any other a warning is logged.
///
/// # Errors
/// The system's.
pub(crate) fn create_directory(dir: &Path, mode: u32, config: &Config) -> io::Result<()> {
    let Some(user) = next_user(config)? else { return Ok(()) };
    dir.parent().map_or(Ok(()), fs::create_dir_all)?;
    let is_new = match DirBuilder::new().mode(mode).create(dir) {
        Ok(()) => true,
        Err(e) if e.kind() == io::ErrorKind::AlreadyExists => false,
        Err(e) => return Err(e),
    };
    let owner = fs::metadata(dir)?.uid();
    if owner == user.uid.as_raw() {
        return Ok(());
    }
    if owner != 0 || !(is_new || is_reached_through_root_only(dir)?) {
        let (name, dir) = (user.name, dir.display());
        tracing::warn!(
            "{dir} belongs to another user (uid {owner}); if {name} cannot write there: chown \
             {name} {dir}"
        );
        return Ok(());
    }
    let flags = OFlags::DIRECTORY | OFlags::NOFOLLOW;
    let opened = OpenOptions::new().read(true).custom_flags(flags.bits() as i32).open(dir)?;
    match opened.metadata()?.uid() {
        0 => Ok(fchown(&opened, Some(user.uid), None)?),
        _ => Err(io::Error::other("its owner changed meanwhile")),
    }
}

/// `true`: the path has no links, and only root can write in the directories above its end.
fn is_reached_through_root_only(path: &Path) -> io::Result<bool> {
    if fs::canonicalize(path)? != path {
        return Ok(false);
    }
    for above in path.ancestors().skip(1) {
        let metadata = fs::metadata(above)?;
        if metadata.uid() != 0 || metadata.mode() & OTHERS_WRITE != 0 {
            return Ok(false);
        }
    }
    Ok(true)
}
