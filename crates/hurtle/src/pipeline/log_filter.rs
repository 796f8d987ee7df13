//! Decides which requests have a line in the access log.

use std::borrow::Cow;
use std::net::IpAddr;

use hurtle_http::request::RequestHead;
use hurtle_http::semantics::target::decoded;

use crate::config::{Config, MatchedRequest, Matcher};
use crate::metrics::RouteMetrics;

/// The conditions of the access log, and the sites and mounts that say otherwise.
#[derive(Debug, Default)]
pub(crate) struct LogFilter {
    matcher: Option<Matcher>,
    places: Vec<Place>,
}

/// A site, or a mount, that says whether its requests are logged.
#[derive(Debug)]
struct Place {
    site: String,
    /// `None`: the whole site.
    mount: Option<String>,
    is_logged: bool,
}

impl LogFilter {
    /// Collects the conditions of a configuration.
    pub(crate) fn new(config: &Config) -> LogFilter {
        let matcher = config.access_log.as_ref().and_then(|log| log.matcher.clone());
        let mut places = Vec::new();
        for site in &config.sites {
            let mut add = |mount, is_logged: Option<bool>| {
                let site = site.name();
                places.extend(is_logged.map(|is_logged| Place { site, mount, is_logged }));
            };
            // A mount precedes its site.
            for mount in &site.mounts {
                add(Some(mount.name()), mount.policy.access_log);
            }
            add(None, site.policy.access_log);
        }
        LogFilter { matcher, places }
    }

    /// Returns whether a request of this route is logged. One that could not be parsed is, because
    /// it meets no condition. `client`, `peer`, `is_tls`: see [`MatchedRequest`].
    pub(crate) fn admits(
        &self,
        route: &RouteMetrics,
        request: Option<&RequestHead<'_>>,
        client: Option<IpAddr>,
        peer: Option<IpAddr>,
        is_tls: bool,
    ) -> bool {
        let is_of = |place: &&Place| {
            route.site() == Some(&place.site)
                && place.mount.as_deref().is_none_or(|mount| route.mount() == Some(mount))
        };
        if self.places.iter().find(is_of).is_some_and(|place| !place.is_logged) {
            return false;
        }
        let (Some(matcher), Some(head)) = (&self.matcher, request) else { return true };
        let sent = head.target.path_and_query().map_or(&b"*"[..], |(path, _)| path);
        let path = decoded(sent).unwrap_or(Cow::Borrowed(sent));
        matcher.matches(&path, Some(&MatchedRequest { head, client, peer, is_tls }))
    }
}
