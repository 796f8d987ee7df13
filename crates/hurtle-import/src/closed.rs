//! Mounts of paths that no client reaches.

use super::block::{Block, Target};
use super::client_limits::client_limits;
use super::location::fields;
use super::mount::{Keys, Mount, put};
use super::path::mount_path;
use super::report::Report;

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
