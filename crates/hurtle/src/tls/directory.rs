//! Directories of keys that root creates for the user that the server becomes.

use std::fs::{self, DirBuilder, OpenOptions};
use std::io;
use std::os::unix::fs::{DirBuilderExt as _, MetadataExt as _, OpenOptionsExt as _};
use std::path::{Path, PathBuf};

use nix::unistd::{User, fchown};
use rustix::fs::OFlags;

use crate::users::is_led_by_root;

/// Creates a directory with this mode, and those above it, for the user that this process of root
/// will become. An existing directory of root becomes that user's only if no user but root can
/// change where its path leads, because a link may have led to it (CVE-2016-1247); for any other a
/// warning is logged.
///
/// # Errors
/// The system's.
pub fn create_directory_for(user: &User, dir: &Path, mode: u32) -> io::Result<()> {
    // A slash at the end would lead through a link.
    let created = create(user, &dir.components().collect::<PathBuf>(), mode);
    created.map_err(|e| io::Error::new(e.kind(), format!("{}: {e}", dir.display())))
}

fn create(user: &User, dir: &Path, mode: u32) -> io::Result<()> {
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
    if owner != 0 || !(is_new || !dir.is_symlink() && is_led_by_root(dir)?) {
        let (name, dir) = (&user.name, dir.display());
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
