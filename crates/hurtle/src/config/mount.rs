//! Places for applications, which are mounted by a program and not written in a configuration.

use super::check_mount::mount_path;
use super::host::{HostEntry, host_entry};
use super::problem::Wrong;
use super::types::{Config, Site};

impl Config {
    /// The number of the site that answers to `host` (`*`: to every name no other site has), made
    /// if there is none, and `path` as mounts have it.
    ///
    /// # Errors
    /// What is wrong with `host` or `path`.
    pub fn place(&mut self, host: &str, path: &str) -> Result<(usize, String), String> {
        let told = |Wrong { what, hint }| match hint {
            None => what,
            Some(hint) => format!("{what}: {hint}"),
        };
        let entry = host_entry(host).map_err(told)?;
        let path = mount_path(path).map_err(told)?;
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
