//! Mounts of paths that no client reaches, or that have no files.

use super::block::{Block, Target};
use super::client_limits::client_limits;
use super::guard::guard;
use super::location::{Context, fields};
use super::mount::{Keys, Mount, put};
use super::path::mount_path;
use super::report::Report;
use super::syntax::Directive;

/// A mount that admits nobody.
pub(super) fn closed(block: &Block<'_>, path: &str, report: &mut Report) -> Mount {
    block.get(|scope| &scope.access);
    let mut keys = Keys::new();
    put(&mut keys, "respond", "");
    put(&mut keys, "status", 403);
    client_limits(block, &mut keys, report);
    let headers = fields(block);
    block.finish(Target::Closed, report);
    let path = mount_path(path);
    Mount { path, place: Keys::new(), keys, headers, choice: None }
}

/// The mount of a path that no client reaches: `internal`, and nothing leads to it.
pub(super) fn unreachable(block: &Block<'_>, path: &str, report: &mut Report) -> Mount {
    let mut keys = Keys::new();
    put(&mut keys, "respond", "");
    put(&mut keys, "status", 404);
    client_limits(block, &mut keys, report);
    let headers = fields(block);
    block.finish(Target::Closed, report);
    Mount { path: String::new(), place: Keys::new(), keys, headers, choice: None }.at_exactly(path)
}

/// The mount of an expression of files without a root; `None`: its guard was refused.
pub(super) fn without_root(
    at: &Directive,
    block: &Block<'_>,
    context: &Context<'_>,
    report: &mut Report,
) -> Option<Mount> {
    let mount = missing(at, "/", block, context, report)?;
    let text = "the location has no root: each request of its paths is 404, and nginx looks for files in its own directory \
                html";
    report.remark(at, text);
    Some(mount)
}

/// The mount of a path without a root for which a rewrite is, unless no text is behind the path;
/// `None`: its guard was refused.
pub(super) fn behind_rewrite(
    at: &Directive,
    path: &str,
    block: &Block<'_>,
    context: &Context<'_>,
    report: &mut Report,
) -> Option<Mount> {
    let mount = missing(at, path, block, context, report)?;
    let text = format!(
        "the location has no root: where its rewrite does not match, it is 404, and nginx looks for files in its \
         own directory html: GET {path}"
    );
    report.remark(at, &text);
    Some(mount)
}

fn missing(
    at: &Directive,
    path: &str,
    block: &Block<'_>,
    context: &Context<'_>,
    report: &mut Report,
) -> Option<Mount> {
    let mut keys = Keys::new();
    put(&mut keys, "respond", "");
    put(&mut keys, "status", 404);
    guard(at, block, context, &mut keys, report)?;
    client_limits(block, &mut keys, report);
    let headers = fields(block);
    block.finish(Target::Files, report);
    Some(Mount { path: mount_path(path), place: Keys::new(), keys, headers, choice: None })
}
