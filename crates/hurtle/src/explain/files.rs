//! Explains what a path of files leads to.

use std::ffi::OsStr;
use std::fmt::Write;
use std::fs::File;
use std::io;
use std::os::unix::ffi::OsStrExt;
use std::path::Path;

use super::links;
use crate::files::Target;
use crate::handler::directory::spa::is_for_page;

/// Describes the result of a look-up of the path `rest`.
pub(super) fn describe_target(root: &Path, rest: &[u8], target: &Target) -> String {
    let in_root = |path: &[u8]| in_root(root, path);
    match target {
        Target::File { path, states } => {
            let mut text = in_root(path);
            let opened = File::open(&text);
            if opened.is_err_and(|e| e.kind() == io::ErrorKind::PermissionDenied) {
                text.push_str(", which this user may not read");
            }
            let original = states.first().map_or(0, |(_, state)| state.modified_ns);
            for (coding, state) in states.iter().skip(1) {
                let _ = write!(text, "; {coding:?} variant, {} bytes", state.len);
                if state.modified_ns < original {
                    text.push_str(", older by a rounding of its time");
                }
            }
            text
        }
        Target::Directory(path, _) => {
            format!("the directory {}, without an index file", in_root(path))
        }
        Target::SlashMissing => "a directory, requested without its trailing slash".to_owned(),
        Target::Missing => "no such file".to_owned(),
        Target::Outside => format!("{}; see `symlinks`", links::describe(root, rest)),
        Target::Denied => "a file this user may not read".to_owned(),
        Target::Status(status) => format!("nothing; try_files ends with {status}"),
    }
}

/// Describes which requests get the page of a single-page application instead.
pub(super) fn spa(page: &str, rest: &[u8]) -> String {
    let whose = match is_for_page(rest, None) {
        true => "a client that accepts HTML",
        // The name of a script or an image.
        false => "a client that names text/html in Accept",
    };
    format!("; {whose} gets {page} (spa), others 404")
}

/// The path of a file beneath a root.
pub(super) fn in_root(root: &Path, path: &[u8]) -> String {
    root.join(OsStr::from_bytes(path)).display().to_string()
}
