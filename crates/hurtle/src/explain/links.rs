//! Names the symbolic link on the way to a file that leads out of its root.

use std::ffi::OsStr;
use std::os::unix::ffi::OsStrExt as _;
use std::path::Path;

/// Describes the first link of a path beneath `root` that leads elsewhere.
pub(super) fn describe(root: &Path, rest: &[u8]) -> String {
    let is_outside = |target: &Path| match root.canonicalize() {
        Ok(root) => !target.starts_with(root),
        Err(_) => true,
    };
    let mut path = root.to_owned();
    for name in rest.split(|byte| *byte == b'/') {
        path.push(OsStr::from_bytes(name));
        if path.is_symlink()
            && let Ok(target) = path.canonicalize()
            && is_outside(&target)
        {
            let (link, target) = (path.display(), target.display());
            return format!("the symbolic link {link} leads to {target}, out of the root");
        }
    }
    "a symbolic link that leads elsewhere".to_owned()
}
