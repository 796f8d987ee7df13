//! Host names and the numbers of their sites, for all listeners or for one.

use std::cmp::Reverse;

use hashbrown::HashMap;
use hurtle_http::semantics::host;

use crate::config::{self, HostName, Listen};

/// The names on every listener.
#[derive(Debug)]
pub(super) struct NamesByListener {
    /// The names of the sites for every listener.
    everywhere: Names,
    /// The names on each listener that a site names, by its configured address.
    at: Vec<(Listen, Names)>,
}

/// Host names of sites.
#[derive(Debug, Default)]
pub(super) struct Names {
    exact: HashMap<Vec<u8>, usize>,
    /// Names with wildcards, in the order in which they are tried: the longest suffix, then the
    /// longest prefix.
    wildcards: Vec<(HostName, usize)>,
    default: Option<usize>,
}

impl NamesByListener {
    pub(super) fn new(sites: &[config::Site]) -> NamesByListener {
        let mut at: Vec<(Listen, Names)> = Vec::new();
        for listen in sites.iter().flat_map(|site| &site.listen) {
            if !at.iter().any(|(known, _)| known == listen) {
                at.push((listen.clone(), Names::new(sites, Some(listen))));
            }
        }
        NamesByListener { everywhere: Names::new(sites, None), at }
    }

    /// Returns the names on a listener.
    #[inline]
    pub(super) fn at(&self, listen: Option<&Listen>) -> &Names {
        match (&self.at[..], listen) {
            ([], _) | (_, None) => &self.everywhere,
            (at, Some(listen)) => {
                let found = at.iter().find(|(known, _)| known == listen);
                found.map_or(&self.everywhere, |(_, names)| names)
            }
        }
    }
}

impl Names {
    /// Collects the names of the sites for every listener, and of those for `listen`, which precede
    /// them.
    fn new(sites: &[config::Site], listen: Option<&Listen>) -> Names {
        let mut names = Names::default();
        let of_listener = |site: &config::Site| listen.is_some_and(|at| site.listen.contains(at));
        let numbered = || sites.iter().enumerate();
        let own = numbered().filter(|(_, site)| of_listener(site));
        for (number, site) in own.chain(numbered().filter(|(_, site)| site.listen.is_empty())) {
            for name in &site.hosts {
                match name {
                    HostName::Exact(name) => {
                        names.exact.entry(name.clone().into_bytes()).or_insert(number);
                    }
                    wildcard => names.wildcards.push((wildcard.clone(), number)),
                }
            }
            names.default = names.default.or(site.default.then_some(number));
        }
        // Stable: the first site of a name stays the first.
        names.wildcards.sort_by_key(|(name, _)| match name {
            HostName::AnyDomain(prefix) => (true, Reverse(prefix.len())),
            HostName::Exact(name) | HostName::Wildcard(name) => (false, Reverse(name.len())),
        });
        names
    }

    /// Returns the number of the site of a host name.
    pub(super) fn find(&self, name: Option<&[u8]>) -> Option<usize> {
        if self.exact.is_empty() && self.wildcards.is_empty() {
            return self.default;
        }
        name.and_then(|name| self.match_host(name)).or(self.default)
    }

    fn match_host(&self, name: &[u8]) -> Option<usize> {
        let mut normal = Vec::with_capacity(name.len());
        host::normalize_address(name, &mut normal);
        if let Some(number) = self.exact.get(&normal) {
            return Some(*number);
        }
        let matching = self.wildcards.iter().find(|(name, _)| name.matches(&normal));
        matching.map(|(_, number)| *number)
    }
}
