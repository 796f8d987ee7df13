//! Log files of a server that gives up root: it creates them as root and later opens them as
//! another user. Only files that this process has just created change their owner. An existing one
//! never does, because a link may have led to it (CVE-2016-1247).

use std::fs::Metadata;
use std::io;
use std::os::unix::fs::MetadataExt as _;
use std::path::{Path, PathBuf};

use nix::unistd::{Gid, Group, Uid, User, fchown};
use rustix::fs::{Access, AtFlags, CWD, OFlags, accessat};
use rustix::io::Errno;
use rustix::process::geteuid;

use crate::config::{Config, LogTarget, Rotation};
use crate::observe::LOG_MODE;
use crate::users::{account, open_as_root};

/// Error of a FIFO that nobody reads, which a log waits for.
const FIFO_ERROR: i32 = Errno::NXIO.raw_os_error();

/// Bits of a mode that permit writing: to the owner, the group, and others.
const WRITE_BITS: [u32; 3] = [0o200, 0o020, 0o002];

/// Creates the missing log files of a configuration, if this process will give up root.
pub(crate) fn create(config: &Config) {
    let Some(user) = config.user.as_deref().filter(|_| geteuid().is_root()) else { return };
    // `switch_user` reports a user that does not exist.
    let Ok((user, group)) = account(user, config.group.as_deref()) else { return };
    for (path, _) in files(config) {
        // A file that exists, or that cannot be created, is for the log to open.
        let _ = create_owned(path, user.uid, group);
    }
}

fn create_owned(path: &Path, user: Uid, group: Gid) -> io::Result<()> {
    let flags = OFlags::WRONLY | OFlags::APPEND | OFlags::CLOEXEC;
    let file = open_as_root(path, flags | OFlags::CREATE | OFlags::EXCL, LOG_MODE)?;
    Ok(fchown(&file, Some(user), Some(group))?)
}

/// Returns a problem for each log that this process could not open. A configuration with `user` is
/// for a start by root, so it is checked by root only.
pub(crate) fn problems(config: &Config) -> Vec<String> {
    if config.user.is_some() && !geteuid().is_root() {
        return vec![];
    }
    let problem = |(path, _): (&PathBuf, _)| {
        if geteuid().is_root() && path.exists() {
            let flags = OFlags::WRONLY | OFlags::APPEND | OFlags::CLOEXEC;
            let opened = open_as_root(path, flags | OFlags::NONBLOCK | OFlags::NOCTTY, 0);
            let refused = opened.err().filter(|e| e.raw_os_error() != Some(FIFO_ERROR))?;
            return Some(format!("cannot open the log {}: {refused}", path.display()));
        }
        let needed = if path.exists() { path } else { path.parent().unwrap_or(path) };
        let refused = accessat(CWD, needed, Access::WRITE_OK, AtFlags::EACCESS).err()?;
        Some(format!("cannot open the log {}: {}", path.display(), io::Error::from(refused)))
    };
    files(config).filter_map(problem).collect()
}

/// Returns warnings about logs that cannot be opened again or rotated once root is given up.
pub(crate) fn warnings(config: &Config) -> Vec<String> {
    let Some(name) = &config.user else { return vec![] };
    let Ok((user, group)) = account(name, config.group.as_deref()) else { return vec![] };
    let can_write = |path: &Path| {
        // One that this user does not see is unknown.
        path.metadata().map_or(true, |metadata| can_write(&metadata, &user, group))
    };
    let mut warnings = Vec::new();
    for (path, rotation) in files(config) {
        if !can_write(path) {
            warnings.push(format!(
                "{0}: {name} cannot open it again on SIGUSR1, after a rotation or an upgrade: \
                 chown {name} {0}",
                path.display()
            ));
        }
        let directory = path.parent().unwrap_or(path);
        let is_rotated = rotation.bytes.is_some() || rotation.age.is_some();
        if is_rotated && !can_write(directory) {
            warnings.push(format!(
                "{}: {name} cannot rotate it, because {name} cannot write in its directory: \
                 chown {name} {}",
                path.display(),
                directory.display()
            ));
        }
    }
    warnings
}

/// The log files of a configuration.
fn files(config: &Config) -> impl Iterator<Item = (&PathBuf, &Rotation)> {
    let access = config.access_log.as_ref().map(|log| (&log.to, &log.rotation));
    let logs = access.into_iter().chain([(&config.error_log.to, &config.error_log.rotation)]);
    logs.filter_map(|(target, rotation)| match target {
        LogTarget::File(path) => Some((path, rotation)),
        LogTarget::Stdout | LogTarget::Stderr => None,
    })
}

/// `true`: the mode of a file permits a user to write it.
fn can_write(metadata: &Metadata, user: &User, group: Gid) -> bool {
    let of = Gid::from_raw(metadata.gid());
    let is_member = || {
        let found = Group::from_gid(of).ok().flatten();
        of == group || found.is_some_and(|found| found.mem.contains(&user.name))
    };
    let [owner, members, others] = WRITE_BITS;
    let bit = match metadata.uid() == user.uid.as_raw() {
        true => owner,
        false if is_member() => members,
        false => others,
    };
    user.uid.is_root() || metadata.mode() & bit != 0
}

#[cfg(test)]
mod tests {
    use std::env::temp_dir;
    use std::fs;
    use std::os::unix::fs::PermissionsExt as _;

    use super::*;
    use crate::config;

    #[test]
    fn check_warns_of_a_log_that_another_user_cannot_write() {
        let dir = temp_dir().join(format!("hurtle-{}-log-files", std::process::id()));
        fs::create_dir_all(&dir).unwrap();
        let log = dir.join("access.log");
        fs::write(&log, "").unwrap();
        let text = |more: &str| {
            format!("user = 'nobody'\nroot = '/'\n[access_log]\npath = {log:?}\n{more}")
        };
        let rotated = "rotate_bytes = '1 MiB'\n";
        #[rustfmt::skip]
        let rows = [
            ("both are open to all", 0o777, 0o666, rotated, vec![]),
            ("a file of another user", 0o755, 0o640, "", vec!["cannot open it again"]),
            ("a directory of another user", 0o755, 0o666, rotated, vec!["cannot rotate it"]),
            ("another program rotates", 0o755, 0o666, "", vec![]),
        ];
        for (sentence, directory_mode, mode, more, expected) in rows {
            fs::set_permissions(&dir, fs::Permissions::from_mode(directory_mode)).unwrap();
            fs::set_permissions(&log, fs::Permissions::from_mode(mode)).unwrap();
            let config = config::check(&text(more), Path::new("hurtle.toml")).unwrap();
            let found = warnings(&config);
            assert_eq!(found.len(), expected.len(), "{sentence}: {found:?}");
            for (found, expected) in found.iter().zip(expected) {
                assert!(found.contains(expected), "{sentence}: {found}");
            }
        }
        fs::remove_dir_all(&dir).unwrap();
    }
}
