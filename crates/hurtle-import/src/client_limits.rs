//! Limits on clients that a place has of its own: the size of bodies, and the time without progress
//! of a response.

use toml::Value;

use super::block::Block;
use super::mount::{Keys, Site, put};
use super::path::{bytes, seconds};
use super::report::Report;
use super::scope::Scope;
use super::syntax::Directive;
use hurtle_config::size_text;

/// The keys of a mount.
pub(super) const KEYS: [&str; 2] = ["body_bytes", "write_stall"];

/// The largest value of `body_bytes`.
const LARGEST: u64 = 1 << 40;

impl Scope {
    pub(super) fn client_max_body_size(&mut self, d: &Directive, report: &mut Report) {
        match bytes(d.arg(0)) {
            Some(0) => self.body_bytes.set(Some(LARGEST)),
            Some(size) => self.body_bytes.set(Some(size)),
            None => report.refuse(d, "write a size, such as 20m"),
        }
    }

    /// Applies `send_timeout`.
    pub(super) fn client_send_timeout(&mut self, d: &Directive, report: &mut Report) {
        match seconds(d.arg(0)).filter(|seconds| *seconds > 0) {
            Some(seconds) => self.write_stall.set(Some(seconds)),
            None => report.refuse(d, "write a duration in seconds, such as 30s"),
        }
    }
}

/// Adds the limits of a mount.
pub(super) fn client_limits(block: &Block<'_>, keys: &mut Keys, report: &mut Report) {
    let is_of_application =
        |(key, _): &(String, Value)| matches!(key.as_str(), "proxy" | "fastcgi" | "uwsgi");
    match block.get(|scope| &scope.body_bytes) {
        Some(size) => put(keys, KEYS[0], size_text(*size)),
        None if keys.iter().any(is_of_application) => report.general(
            "nginx refuses bodies of more than 1 MiB without client_max_body_size; write \
             body_bytes = \"1 MiB\" in the site for the same limit"
                .to_owned(),
        ),
        None => {}
    }
    if let Some(seconds) = block.get(|scope| &scope.write_stall) {
        put(keys, KEYS[1], format!("{seconds}s"));
    }
}

/// Moves the limits that all mounts have to the site.
pub(super) fn lift(site: &mut Site) {
    for key in KEYS {
        let value = site.mounts.first().and_then(|mount| mount.key(key)).cloned();
        let Some(value) = value else { continue };
        if site.mounts.iter().all(|mount| mount.key(key) == Some(&value)) {
            site.mounts.iter_mut().for_each(|mount| mount.keys.retain(|(name, _)| name != key));
            put(&mut site.keys, key, value);
        }
    }
}
