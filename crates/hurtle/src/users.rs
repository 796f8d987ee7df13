//! The users and groups of the system: the server's process becomes one, and gives it files.

use std::io;

use nix::unistd::{Gid, Group, User};
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
