//! The parts of a site that the directives of a .htaccess file make.

use std::collections::BTreeMap;

use super::rewrite::Front;
use super::settings::Settings;
use crate::mount::{ErrorPages, Keys, Mount, put};
use crate::syntax::Directive;

/// The parts of the site.
#[derive(Debug, Default)]
pub(super) struct Parts<'d> {
    /// Rules of mod_rewrite.
    pub(super) rules: Vec<Keys>,
    /// Redirects of mod_alias.
    pub(super) redirects: Vec<Keys>,
    /// Mounts that refuse requests, of mod_rewrite and then of mod_alias.
    pub(super) refusals: Vec<Mount>,
    pub(super) headers: Vec<Keys>,
    pub(super) errors: ErrorPages,
    /// Mounts that error pages name.
    pub(super) named: Vec<Mount>,
    pub(super) front: Option<Front<'d>>,
    /// Endings with which files are found.
    pub(super) suffixes: Vec<(&'d Directive, String)>,
    /// Expressions of the paths of `redirects`.
    pub(super) redirected: Vec<String>,
    /// Expressions of paths that are redirected or refused; Apache finds an index by such a path,
    /// too.
    pub(super) met: Vec<(&'d Directive, String)>,
    /// Expressions of paths that are closed; rewrites are not for them.
    pub(super) closed: Vec<String>,
    /// `true`: requests are refused by more than their path.
    pub(super) has_conditional_refusal: bool,
    pub(super) settings: Settings,
    /// `true`: a proxy in front says which requests are of HTTPS.
    pub(super) is_forwarded: bool,
    /// Names of a site with a certificate.
    pub(super) secure_hosts: Vec<String>,
    /// `true`: other names lead to the first one of these.
    pub(super) is_default: bool,
}

impl Parts<'_> {
    /// Adds a mount of requests that get a status.
    pub(super) fn refuse(&mut self, place: Keys, status: u16) {
        self.refusals.push(refusal(place, status));
    }

    /// Makes it a site with a certificate for these names; `is_own`: redirects keep the name.
    pub(super) fn secure(&mut self, hosts: Vec<String>, is_own: bool) {
        for host in hosts {
            if !self.secure_hosts.contains(&host) {
                self.secure_hosts.push(host);
            }
        }
        self.is_default |= !is_own;
    }
}

/// A mount of requests that get a status.
pub(super) fn refusal(place: Keys, status: u16) -> Mount {
    let mut keys = Keys::new();
    put(&mut keys, "respond", "");
    put(&mut keys, "status", i64::from(status));
    mount(place, keys)
}

/// A mount of the whole site.
pub(super) fn mount(place: Keys, keys: Keys) -> Mount {
    Mount { path: "/".to_owned(), place, keys, headers: BTreeMap::new(), choice: None }
}

/// A mount that an error page names; its keys begin with the name.
pub(super) fn named(mut keys: Keys) -> Mount {
    let place = keys.drain(..1).collect();
    Mount { path: String::new(), place, keys, headers: BTreeMap::new(), choice: None }
}
