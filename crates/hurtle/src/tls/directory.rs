//! Directories of keys that root creates for the user that the server becomes.

use std::fs::{self, DirBuilder, OpenOptions};
use std::io;
use std::os::unix::fs::{DirBuilderExt as _, MetadataExt as _, OpenOptionsExt as _};
use std::path::{self, Path, PathBuf};

use nix::unistd::{User, fchown};
use rustix::fs::OFlags;

/// Bits of a mode that permit the group and others to write.
const OTHERS_WRITE: u32 = 0o022;

/// Bit of a mode that permits only the owner of an entry of a directory, and of the directory, to
/// rename or remove that entry.
const STICKY: u32 = 0o1000;

/// Maximum number of links on the way to a directory.
const LINKS_MAX: u32 = 8;

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
    if owner != 0 || !(is_new || is_reached_through_root_only(dir, LINKS_MAX)?) {
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

/// `true`: no user but root can change where the path leads, and its end is no link. Links on the
/// way are root's. `/tmp` may be among the directories: in one with the sticky bit, root's entries
/// are only root's to rename.
fn is_reached_through_root_only(path: &Path, links_max: u32) -> io::Result<bool> {
    let path = path::absolute(path)?;
    let parts: Vec<&Path> = path.ancestors().collect();
    for part in parts.into_iter().rev() {
        let metadata = fs::symlink_metadata(part)?;
        let (mode, is_end) = (metadata.mode(), part == path);
        if metadata.uid() != 0 {
            return Ok(false);
        }
        if metadata.is_symlink() {
            if is_end || links_max == 0 {
                return Ok(false);
            }
            let target = part.with_file_name("").join(fs::read_link(part)?);
            let rest = path.strip_prefix(part).map_err(io::Error::other)?;
            return is_reached_through_root_only(&target.join(rest), links_max - 1);
        }
        if !is_end && mode & OTHERS_WRITE != 0 && mode & STICKY == 0 {
            return Ok(false);
        }
    }
    Ok(true)
}
