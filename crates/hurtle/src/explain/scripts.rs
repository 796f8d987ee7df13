//! Describes the script of a path.

use std::io;
use std::path::Path;

use super::files::in_root;
use super::links;
use crate::files::{Found, ScriptTarget};

/// Describes the result of finding a script; `None`: the application has no files.
pub(super) fn describe(
    found: Option<&io::Result<Found>>,
    scripts_root: Option<&Path>,
    rest: &[u8],
) -> String {
    match found {
        None => "decided by the application".to_owned(),
        Some(Ok(Found::Script(ScriptTarget { root, file, info }))) => {
            let file = in_root(root, file);
            let info = String::from_utf8_lossy(info);
            if info.is_empty() { file } else { format!("{file}, PATH_INFO {info}") }
        }
        Some(Ok(Found::Other)) => "not a script: served as a file".to_owned(),
        Some(Ok(Found::SlashMissing)) => {
            "a directory, requested without its trailing slash: redirected".to_owned()
        }
        Some(Ok(Found::Missing)) => "no such script: 404 Not Found".to_owned(),
        Some(Ok(Found::Outside)) => {
            format!(
                "{}: 404 Not Found; see `symlinks`",
                links::describe(scripts_root.unwrap_or(Path::new("/")), rest)
            )
        }
        Some(Ok(Found::Denied)) => "a file this user may not read: 403 Forbidden".to_owned(),
        Some(Err(e)) => format!("the look-up failed: {e}"),
    }
}
