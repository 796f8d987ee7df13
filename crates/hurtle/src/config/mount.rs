//! Mount points of applications that a program mounts; they are not in the configuration file.

use super::check_mount::mount_path;
use super::error::ValueError;
use super::host::{HostEntry, host_entry};
use super::types::{Config, Site};

impl Config {
    /// Finds or adds the site of `host` (`*`: the default site) and checks that `path` is free
    /// there. Returns the index of the site and the normalized path.
    ///
    /// # Errors
    /// The problem with `host` or `path`.
    pub fn reserve_mount(&mut self, host: &str, path: &str) -> Result<(usize, String), String> {
        let message = |ValueError { what, hint }| match hint {
            None => what,
            Some(hint) => format!("{what}: {hint}"),
        };
        let entry = host_entry(host).map_err(message)?;
        let path = mount_path(path).map_err(message)?;
        let found = self.sites.iter().position(|site| match &entry {
            HostEntry::Any => site.default,
            HostEntry::Name(name) => site.hosts.contains(name),
        });
        let number = found.unwrap_or_else(|| {
            self.sites.push(match entry {
                HostEntry::Any => Site { default: true, ..Site::new() },
                HostEntry::Name(name) => Site { hosts: vec![name], ..Site::new() },
            });
            self.sites.len() - 1
        });
        if self.sites[number].mounts.iter().any(|mount| mount.path == path) {
            return Err(format!("{path:?} is taken by another mount of this site"));
        }
        Ok((number, path))
    }
}
