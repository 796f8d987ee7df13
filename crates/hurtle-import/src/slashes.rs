//! Redirects to paths that end with a slash.

use super::block::{Block, Target};
use super::kind::{HandlerKind, Kind};
use super::modifier::Modifier;
use super::mount::{Keys, put};
use super::mounts::Mounts;
use super::redirect::own_path;
use super::report::Report;

impl Mounts<'_, '_> {
    /// Redirects to the locations of applications that end with a slash, for their paths without
    /// it.
    pub(super) fn slashes(&self, paths: &[(Modifier, &str)]) -> Vec<Keys> {
        let is_free = |bare: &str| paths.iter().all(|(_, path)| *path != bare);
        let bare = self.placed.iter().filter_map(|placed| {
            let bare = placed.path.strip_suffix('/').filter(|bare| !bare.is_empty())?;
            let mount = self.site.mounts.iter().find(|mount| mount.is_of(placed.path, false))?;
            let is_application =
                ["proxy", "fastcgi", "uwsgi"].iter().any(|key| mount.key(key).is_some());
            let is_plain = |b: u8| b.is_ascii_alphanumeric() || b"/._~-".contains(&b);
            (is_application && is_free(bare) && bare.bytes().all(is_plain)).then_some(bare)
        });
        bare.map(|bare| {
            let mut keys = Keys::new();
            put(&mut keys, "match", bare);
            put(&mut keys, "redirect", format!("{bare}/"));
            put(&mut keys, "status", 301);
            keys
        })
        .collect()
    }
}

/// The rule of a location that only redirects its path to one with a slash at its end, to which a
/// mount would append more. `only_to`: no other path.
pub(super) fn slash_redirect(
    block: &Block<'_>,
    path: &str,
    only_to: Option<&str>,
    report: &mut Report,
) -> Option<Keys> {
    let d = block.first(&[Kind::Handler(HandlerKind::Return)])?;
    let (status @ ("301" | "302" | "303" | "307" | "308"), to) = (d.arg(0), own_path(d.arg(1))?)
    else {
        return None;
    };
    let is_plain = |b: u8| b.is_ascii_alphanumeric() || b"/._~-".contains(&b);
    if only_to.is_some_and(|only| only != to) {
        return None;
    }
    if !to.ends_with('/') || !to.bytes().chain(path.bytes()).all(is_plain) {
        return None;
    }
    block.take(Kind::Handler(HandlerKind::Return));
    let mut keys = Keys::new();
    put(&mut keys, "match", path);
    put(&mut keys, "redirect", format!("{to}?"));
    put(&mut keys, "status", status.parse::<i64>().ok()?);
    block.finish(Target::Answer, report);
    Some(keys)
}
