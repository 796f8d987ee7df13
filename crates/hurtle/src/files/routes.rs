//! The paths of a site that lead elsewhere than the directory that holds them: other mounts, deployed
//! applications, and paths that rules change. An archive leaves these out, because a GET of such a
//! path has another response.

use std::sync::{Mutex, PoisonError};

use hurtle_http::semantics::glob;

/// The mounts and rules of a site.
#[derive(Debug, Default)]
pub struct Routes {
    /// Paths of the configured mounts; the root is empty.
    mounts: Vec<Vec<u8>>,
    /// Patterns of the rules.
    rules: Vec<String>,
    /// Paths of the deployed applications. Only archives and deployments take the lock.
    deployed: Mutex<Vec<Vec<u8>>>,
}

/// A directory's URL path, decoded and with a trailing `/`.
#[derive(Clone, Debug)]
pub struct UrlDirectory {
    /// The path.
    pub path: Vec<u8>,
    /// Length of its mount's path, in bytes; the root's is 0.
    pub mount_len: usize,
}

impl Routes {
    /// Routes of a site with these mounts and patterns of rules.
    pub fn new(mounts: Vec<Vec<u8>>, rules: Vec<String>) -> Routes {
        Routes { mounts, rules, deployed: Mutex::default() }
    }

    /// Replaces the paths of the deployed applications.
    pub fn deploy(&self, paths: Vec<Vec<u8>>) {
        *self.deployed.lock().unwrap_or_else(PoisonError::into_inner) = paths;
    }

    /// True if the entry `name`, relative to the directory, is not the directory's own. A rule that
    /// also matches the directory applies to the tree as a whole.
    pub fn lead_elsewhere(&self, directory: &UrlDirectory, name: &[u8]) -> bool {
        let path = [&directory.path[..], name].concat();
        let is_nested = |mount: &Vec<u8>| mount.len() > directory.mount_len && holds(mount, &path);
        let with_slash = [&path[..], b"/"].concat();
        self.mounts.iter().any(is_nested)
            || self.deployed.lock().unwrap_or_else(PoisonError::into_inner).iter().any(is_nested)
            || self.rules.iter().any(|rule| {
                let matches = glob::matches(rule, &path) || glob::matches(rule, &with_slash);
                matches && !glob::matches(rule, &directory.path)
            })
    }
}

/// Returns whether a path is a mount's or beneath it.
pub fn holds(mount: &[u8], path: &[u8]) -> bool {
    path.strip_prefix(mount).is_some_and(|rest| rest.is_empty() || rest.starts_with(b"/"))
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn paths_that_lead_elsewhere() {
        let mounts =
            ["", "/pub", "/pub/private", "/pub/a/deep"].map(|path| path.as_bytes().to_vec());
        let rules = ["/pub/moved", "/pub/old/**", "*.php", "/pub/gone/"].map(String::from);
        let routes = Routes::new(mounts.into(), rules.into());
        routes.deploy(vec![b"/pub/app".to_vec()]);
        let directory = UrlDirectory { path: b"/pub/".to_vec(), mount_len: b"/pub".len() };
        for name in [
            "private",
            "private/x",
            "a/deep",
            "a/deep/x",
            "app",
            "moved",
            "old/x",
            "old",
            "x.php",
            "a/x.php",
            "gone",
        ] {
            assert!(routes.lead_elsewhere(&directory, name.as_bytes()), "{name}");
        }
        for name in ["privately", "a", "a/x", "application", "x.html", "a/moved"] {
            assert!(!routes.lead_elsewhere(&directory, name.as_bytes()), "{name}");
        }
        let old = UrlDirectory { path: b"/pub/old/".to_vec(), ..directory };
        assert!(!routes.lead_elsewhere(&old, b"x"), "the rule applies to the directory as well");
    }
}
