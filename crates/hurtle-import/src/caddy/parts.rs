//! The parts of a site that its directives make: mounts, rules and fields of responses.

use toml::Value;

use super::handlers::answer;
use super::hidden::ConfigFiles;
use super::matcher::Matcher;
use crate::mount::{Keys, Mount};
use crate::syntax::Directive;

/// The parts of a site that its directives make.
#[derive(Debug, Default)]
pub(super) struct Parts {
    pub(super) headers: Rules,
    pub(super) rules: Vec<Keys>,
    pub(super) mounts: Vec<Mount>,
    /// Requests of the mounts.
    pub(super) mounted: Vec<Matcher>,
    /// Keys of the site, such as its password.
    pub(super) keys: Keys,
    /// The mount for requests of missing files, before the files themselves are found.
    pub(super) missing: Option<String>,
    /// The directives `respond` with a status, which no page replaces in Caddy.
    pub(super) responses: Vec<(Directive, u16)>,
    /// `true`: peers may be proxies that name their client.
    pub(super) has_proxies: bool,
    /// `true`: it answers without TLS.
    pub(super) is_clear: bool,
    /// Files that no mount of files may serve.
    pub(super) config_files: ConfigFiles,
    /// The only host of the site; empty: several, or all.
    pub(super) host: String,
}

/// Header rules in the order in which they take effect.
#[derive(Clone, Debug, Default)]
pub(super) struct Rules {
    /// Those that Caddy applies before a request is handled.
    first: Vec<Keys>,
    /// Those that it applies when the response begins: the last one first.
    deferred: Vec<Keys>,
}

impl Rules {
    pub(super) fn add(&mut self, rules: Vec<Keys>, is_deferred: bool) {
        match is_deferred {
            true => drop(self.deferred.splice(..0, rules)),
            false => self.first.extend(rules),
        }
    }

    /// All rules, in order.
    pub(super) fn all(&self) -> Vec<Keys> {
        [self.first.as_slice(), &self.deferred].concat()
    }
}

impl Parts {
    pub(super) fn mount(&self, path: String, place: Keys, keys: Keys) -> Mount {
        Mount { path, place, keys, headers: std::collections::BTreeMap::new(), choice: None }
    }

    /// Adds a mount, unless it has the conditions of an earlier one, which gets its requests.
    pub(super) fn push(&mut self, mount: Mount) {
        let is_it = |known: &Mount| known.path == mount.path && known.place == mount.place;
        if mount.place.is_empty() || !self.mounts.iter().any(is_it) {
            self.mounts.push(mount);
        }
    }

    /// Adds a mount for these requests. One that keeps requests out does so in any case of the
    /// path, as Caddy compares them.
    pub(super) fn add(
        &mut self,
        requests: Option<&Matcher>,
        prefix: &str,
        keys: Keys,
    ) -> Result<(), String> {
        let path = if prefix.is_empty() { "/" } else { prefix };
        self.mounted.push(requests.cloned().unwrap_or_default());
        let refuses = |(name, value): &(String, Value)| match name.as_str() {
            "auth" | "abort" => true,
            "status" => value.as_integer().is_some_and(|status| status >= 400),
            _ => false,
        };
        let is_guard = keys.iter().any(refuses);
        let place = match requests {
            Some(matcher) if is_guard && prefix.is_empty() => matcher.in_any_case()?.key()?,
            Some(matcher) => matcher.key()?,
            None => Keys::new(),
        };
        let mount = self.mount(path.to_owned(), place, keys);
        self.push(mount);
        if let Some(matcher) = requests.filter(|_| is_guard && !prefix.is_empty()) {
            let place = matcher.in_any_case()?.key()?;
            let mount = self.mount("/".to_owned(), place, answer("", 403));
            self.mounts.push(mount);
        }
        Ok(())
    }
}
