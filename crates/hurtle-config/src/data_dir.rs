//! The directory for this user's data of applications.

use std::env;
use std::path::PathBuf;

/// Returns the directory of the XDG Base Directory Specification, or that of macOS; `None` without
/// a home.
pub(super) fn data_dir() -> Option<PathBuf> {
    let home = || env::var_os("HOME").map(PathBuf::from);
    if env::consts::OS == "macos" {
        return Some(home()?.join("Library/Application Support"));
    }
    let named = env::var_os("XDG_DATA_HOME").map(PathBuf::from).filter(|dir| dir.is_absolute());
    named.or_else(|| Some(home()?.join(".local/share")))
}
