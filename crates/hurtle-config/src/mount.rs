//! The places of mounts in a site, and those of applications that a program mounts, which are not
//! in the configuration file.

use super::check_mount::mount_path;
use super::error::ValueError;
use super::host::{HostEntry, host_entry};
use super::types::{Config, Mount, Site};

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
        if self.sites[number].mounts.iter().any(|mount| mount.is_at(&path)) {
            return Err(format!("{path:?} is taken by another mount of this site"));
        }
        Ok((number, path))
    }
}

impl Mount {
    /// A name, which no other mount of the site has: its path and conditions, with `=` in front if
    /// it is exact. That of a mount without a path is the given one behind `@`.
    pub fn name(&self) -> String {
        if let Some(given) = &self.given_name {
            return format!("@{given}");
        }
        let exact = if self.exact { "= " } else { "" };
        match &self.matcher {
            Some(matcher) => format!("{exact}{} {matcher}", self.path),
            None => format!("{exact}{}", self.path),
        }
    }

    /// Returns whether it takes every path beneath its own.
    pub fn is_prefix(&self) -> bool {
        !self.exact && self.matcher.is_none() && self.given_name.is_none()
    }

    /// Returns whether a path is the mount's, conditions aside.
    pub(super) fn holds(&self, path: &str) -> bool {
        let rest = path.strip_prefix(self.path.trim_end_matches('/'));
        let is_beneath = rest.is_some_and(|rest| rest.is_empty() || rest.starts_with('/'));
        match self.given_name {
            Some(_) => false,
            None if self.exact => path == self.path,
            None => is_beneath,
        }
    }

    /// Returns the part of one of its paths that names a file in its directory.
    pub(super) fn rest<'p>(&self, path: &'p str) -> &'p str {
        match self.exact {
            true => path.rsplit('/').next().unwrap_or_default(),
            false => path.strip_prefix(self.path.trim_end_matches('/')).unwrap_or_default(),
        }
    }

    /// Returns whether it takes this path and every path beneath it.
    pub(super) fn is_at(&self, path: &str) -> bool {
        self.is_prefix() && self.path == path
    }
}

impl Site {
    /// Returns the mount of a path for requests of which nothing else is known.
    pub(super) fn mount_of(&self, path: &str) -> Option<&Mount> {
        let of_path = |mount: &&Mount| {
            let matcher = mount.matcher.as_ref();
            let matches = matcher.is_none_or(|matcher| matcher.matches(path.as_bytes(), None));
            mount.holds(path) && matches
        };
        let longest = self.longest_mount(path);
        let exact = self.mounts.iter().filter(of_path).find(|mount| mount.exact);
        let matched = || self.mounts.iter().filter(of_path).find(|mount| mount.matcher.is_some());
        exact.or(longest.filter(|mount| mount.is_final)).or_else(matched).or(longest)
    }

    /// Returns the mount without conditions that has the longest path.
    pub(super) fn longest_mount(&self, path: &str) -> Option<&Mount> {
        let prefixes = self.mounts.iter().filter(|mount| mount.is_prefix() && mount.holds(path));
        prefixes.max_by_key(|mount| mount.path.len())
    }
}
