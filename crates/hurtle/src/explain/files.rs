//! Explains what a path of files leads to.

use std::ffi::OsStr;
use std::fmt::Write;
use std::fs::File;
use std::io;
use std::os::unix::ffi::OsStrExt;
use std::path::Path;

use hurtle_http::semantics::accept::Coding;

use super::{Answered, compression, line, links, objects};
use crate::edits::ResponseEdits;
use crate::files::Target;
use crate::handler::directory::Directory;
use crate::handler::directory::spa::is_for_page;
use crate::handler::request::MatchedPath;

/// Describes what a directory has at a path. `edits` are those of its mount, and `reads` means that
/// the method is GET or HEAD.
pub(super) async fn describe(
    out: &mut String,
    directory: &Directory,
    matched: &MatchedPath<'_>,
    edits: &ResponseEdits,
    reads: bool,
) -> Answered {
    let (found, hands_on) = match reads && matched.is_without_slash() {
        // It is redirected before anything is looked up.
        true => (SLASH_MISSING.to_owned(), false),
        false => find(directory, matched.rest).await,
    };
    line(out, "found", &found);
    if let (true, Some(name)) = (hands_on, directory.otherwise()) {
        line(out, "otherwise", &format!(" the mount with the name {name:?}"));
        return Answered::Otherwise;
    }
    line(out, "compress", &compression::of_files(directory, matched));
    if let Some(what) = compression::dictionary(edits, directory, matched) {
        line(out, "", &what);
    }
    Answered::Here
}

/// Looks the path `rest` up. Returns the result, and whether the request is handed on.
async fn find(directory: &Directory, rest: &[u8]) -> (String, bool) {
    let Some(lookup) = directory.lookup(rest) else {
        return ("a hidden name".to_owned(), directory.otherwise().is_some());
    };
    if let Some(origin) = &lookup.origin {
        return (objects::describe(&lookup, origin).await, false);
    }
    match lookup.probe() {
        Ok(target) => {
            let found = describe_target(&lookup.root, rest, &target);
            let page = directory.page_for(&target).map(|page| spa(page, rest));
            (found + &page.unwrap_or_default(), directory.hands_on(&target))
        }
        Err(e) => (format!("the look-up failed: {e}"), false),
    }
}

const SLASH_MISSING: &str = "a directory, requested without its trailing slash";

/// Describes the result of a look-up of the path `rest`.
fn describe_target(root: &Path, rest: &[u8], target: &Target) -> String {
    let in_root = |path: &[u8]| in_root(root, path);
    match target {
        Target::File { path, states } => {
            let mut text = in_root(path);
            let opened = File::open(&text);
            if opened.is_err_and(|e| e.kind() == io::ErrorKind::PermissionDenied) {
                text.push_str(", which this user may not read");
            }
            let (original, variants) = match states.as_slice() {
                [(Coding::Identity, state), variants @ ..] => (state.modified_ns, variants),
                alone => {
                    text.push_str(", which is missing");
                    (0, alone)
                }
            };
            for (coding, state) in variants {
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
        Target::SlashMissing => SLASH_MISSING.to_owned(),
        Target::Missing => "no such file".to_owned(),
        Target::Outside => format!("{}; see `symlinks`", links::describe(root, rest)),
        Target::Denied => "a file this user may not read".to_owned(),
        Target::Status(status) => format!("nothing; try_files ends with {status}"),
    }
}

/// Describes which requests get the page of a single-page application instead.
fn spa(page: &str, rest: &[u8]) -> String {
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
