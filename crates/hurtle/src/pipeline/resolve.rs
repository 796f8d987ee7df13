//! The first step: the client, the site and the route of a request, looked up once.

use std::net::IpAddr;

use hurtle_http::request::RequestHead;
use hurtle_http::semantics::fields::list;
use hurtle_http::semantics::forwarded;
use hurtle_http::semantics::target::Target;
use ipnet::IpNet;

use super::Exchange;
use super::worker::Worker;
use crate::protocol::Protocol;
use crate::site::Resolved;

impl<T: Protocol> Exchange<T> {
    /// Looks up the client and the site. `None`: no site has this name.
    pub(super) fn resolve<'a>(
        &mut self,
        worker: &'a Worker,
        request: &RequestHead<'a>,
    ) -> Option<Resolved<'a>> {
        if !worker.trusted_proxies.is_empty() {
            self.client = self.peer.map(|peer| client(request, peer, &worker.trusted_proxies));
            self.sent.share = worker.share(self.client);
        }
        let name = request.host.as_ref().map(|h| h.name);
        let resolved = worker.sites.resolve(name, path_of(&request.target), self.client);
        if self.io.is_secure() {
            self.hsts = resolved.as_ref().and_then(|resolved| resolved.site.hsts()).cloned();
        }
        resolved
    }

    /// Returns whether the peer is a trusted proxy.
    #[inline]
    pub(super) fn trusts_peer(&self) -> bool {
        let trusted = &self.worker.trusted_proxies;
        !trusted.is_empty()
            && self.peer.is_some_and(|peer| trusted.iter().any(|network| network.contains(&peer)))
    }
}

/// Returns the path and the query, if the target has them.
pub(super) fn path_of<'a>(target: &Target<'a>) -> Option<(&'a [u8], Option<&'a [u8]>)> {
    match target {
        Target::Origin { path, query } | Target::Absolute { path, query, .. } => {
            Some((path, *query))
        }
        Target::Asterisk | Target::Authority(_) => None,
    }
}

/// Returns the client of a request that came from the trusted proxy `peer`.
pub(super) fn client(request: &RequestHead<'_>, peer: IpAddr, trusted: &[IpNet]) -> IpAddr {
    let trusts = |address: IpAddr| trusted.iter().any(|network| network.contains(&address));
    let named = |known: &'static [u8]| {
        let lines = request.fields.iter();
        let lines = lines.filter(|(name, _)| name.eq_ignore_ascii_case(known));
        lines.map(|(_, value)| value).collect::<Vec<_>>().join(&b", "[..])
    };
    let chain = named(b"x-forwarded-for");
    if !chain.is_empty() {
        let nodes: Vec<&[u8]> = list(&chain).collect();
        return forwarded::client(peer, nodes.into_iter(), trusts);
    }
    let chain = named(b"forwarded");
    forwarded::client(peer, forwarded::nodes(&chain), trusts)
}
