//! The paths of a site that lead elsewhere than the directory that holds them: other mounts,
//! deployed applications, and paths that rules change. An archive leaves these out, because a GET
//! of such a path has another response.

use std::sync::{Mutex, MutexGuard, PoisonError};

use crate::config::{self, Matcher};

/// The mounts and rules of a site.
#[derive(Debug, Default)]
pub(crate) struct Routes {
    /// Paths of the mounts of all beneath them; the root is empty.
    mounts: Vec<Vec<u8>>,
    /// Those of them that precede all conditions.
    finals: Vec<Vec<u8>>,
    /// Paths of mounts that have only one.
    exact: Vec<Vec<u8>>,
    /// Conditions of other mounts, with their paths.
    matched: Vec<(Vec<u8>, Matcher)>,
    /// Conditions of the rules.
    rules: Vec<Matcher>,
    /// Paths of applications. Only archives and deployments take the lock.
    apps: Mutex<AppPaths>,
}

/// Paths of a site's applications.
#[derive(Debug, Default)]
struct AppPaths {
    /// Those of the deployed ones.
    deployed: Vec<Vec<u8>>,
    /// Those of the ones that a program has mounted.
    mounted: Vec<Vec<u8>>,
}

/// A directory's URL path, decoded and with a trailing `/`.
#[derive(Clone, Debug)]
pub(crate) struct UrlDirectory {
    pub path: Vec<u8>,
    /// Length of its mount's path, in bytes; the root's is 0.
    pub mount_len: usize,
}

impl Routes {
    /// The routes of a site.
    pub(crate) fn new(site: &config::Site) -> Routes {
        let mut routes = Routes::default();
        for mount in site.mounts.iter().filter(|mount| mount.given_name.is_none()) {
            let path = mount.path.trim_end_matches('/').as_bytes().to_vec();
            match &mount.matcher {
                _ if mount.exact => routes.exact.push(mount.path.clone().into()),
                Some(matcher) => routes.matched.push((path, matcher.clone())),
                None => {
                    routes.finals.extend(mount.is_final.then(|| path.clone()));
                    routes.mounts.push(path);
                }
            }
        }
        routes.rules = site.rules.iter().map(|rule| rule.matcher.clone()).collect();
        routes
    }

    /// Replaces the paths of the deployed applications.
    pub(crate) fn deploy(&self, paths: Vec<Vec<u8>>) {
        self.apps().deployed = paths;
    }

    /// Adds the path of an application that a program mounts.
    pub(crate) fn mount(&self, path: &str) {
        self.apps().mounted.push(path.trim_end_matches('/').into());
    }

    /// Nothing panics while the lock is held, so a poisoned lock is consistent.
    fn apps(&self) -> MutexGuard<'_, AppPaths> {
        self.apps.lock().unwrap_or_else(PoisonError::into_inner)
    }

    /// True if the entry `name`, relative to the directory, is not the directory's own. A rule that
    /// also matches the directory applies to the tree as a whole.
    pub(crate) fn lead_elsewhere(&self, directory: &UrlDirectory, name: &[u8]) -> bool {
        let path = [&directory.path[..], name].concat();
        let is_nested = |mount: &Vec<u8>| mount.len() > directory.mount_len && holds(mount, &path);
        let with_slash = [&path[..], b"/"].concat();
        // Conditions that are not about the path may be met by some requests.
        let matches = |matcher: &Matcher| {
            let matches = matcher.may_match(&path) || matcher.may_match(&with_slash);
            matches && !matcher.may_match(&directory.path)
        };
        let longest = self.mounts.iter().filter(|mount| holds(mount, &path));
        let longest = longest.max_by_key(|mount| mount.len());
        let is_final = longest.is_some_and(|mount| self.finals.contains(mount));
        let mut matched = self.matched.iter().filter(|_| !is_final);
        let apps = self.apps();
        self.mounts.iter().any(is_nested)
            || self.exact.iter().any(|mount| *mount == path || *mount == with_slash)
            || matched.any(|(at, matcher)| holds(at, &path) && matches(matcher))
            || apps.deployed.iter().chain(&apps.mounted).any(is_nested)
            || self.rules.iter().any(matches)
    }
}

/// Returns whether a path is a mount's or beneath it.
pub(crate) fn holds(mount: &[u8], path: &[u8]) -> bool {
    path.strip_prefix(mount).is_some_and(|rest| rest.is_empty() || rest.starts_with(b"/"))
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn paths_that_lead_elsewhere() {
        let mounts =
            ["", "/pub", "/pub/private", "/pub/a/deep"].map(|path| path.as_bytes().to_vec());
        let rules = ["/pub/moved", "/pub/old/**", "*.php", "/pub/gone/"];
        let routes = Routes {
            mounts: mounts.into(),
            exact: vec![b"/pub/one".to_vec()],
            matched: vec![(b"/pub".to_vec(), Matcher::of_pattern("*.cgi"))],
            rules: rules.map(Matcher::of_pattern).into(),
            ..Routes::default()
        };
        routes.mount("/pub/mounted/");
        routes.deploy(vec![b"/pub/app".to_vec()]);
        let directory = UrlDirectory { path: b"/pub/".to_vec(), mount_len: b"/pub".len() };
        for name in [
            "private",
            "private/x",
            "a/deep",
            "a/deep/x",
            "app",
            "mounted",
            "mounted/x",
            "moved",
            "old/x",
            "old",
            "x.php",
            "a/x.php",
            "gone",
            "one",
            "a/x.cgi",
        ] {
            assert!(routes.lead_elsewhere(&directory, name.as_bytes()), "{name}");
        }
        for name in ["privately", "a", "a/x", "application", "x.html", "a/moved", "one/x"] {
            assert!(!routes.lead_elsewhere(&directory, name.as_bytes()), "{name}");
        }
        let routes = Routes { finals: vec![b"/pub".to_vec()], ..routes };
        assert!(!routes.lead_elsewhere(&directory, b"a/x.cgi"), "it precedes conditions");
        let old = UrlDirectory { path: b"/pub/old/".to_vec(), ..directory };
        assert!(!routes.lead_elsewhere(&old, b"x"), "the rule applies to the directory as well");
    }
}
