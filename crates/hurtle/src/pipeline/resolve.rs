//! The first step: the client, the site and the route of a request, looked up once.

use std::net::IpAddr;

use hurtle_http::request::RequestHead;
use hurtle_http::semantics::fields::list;
use hurtle_http::semantics::forwarded::{self, Family};
use hurtle_http::semantics::target::Target;
use ipnet::IpNet;

use super::Connection;
use super::worker::Worker;
use crate::config::MatchedRequest;
use crate::protocol::Protocol;
use crate::site::Resolved;

impl<T: Protocol> Connection<T> {
    /// Looks up the client and the site. `None`: no site has this name, or the target needs TLS.
    pub(super) fn resolve<'a>(
        &mut self,
        worker: &'a Worker,
        request: &'a RequestHead<'a>,
    ) -> Option<Resolved<'a>> {
        if !worker.trusted_proxies.is_empty() {
            let trusted = (&*worker.trusted_proxies, worker.forwarded_family);
            self.exchange.client = self.peer.map(|peer| client(request, peer, trusted));
            self.sent.share = worker.share(self.exchange.client);
        }
        if self.needs_tls(request) {
            return None;
        }
        let name = request.host.as_ref().map(|h| h.name);
        let (client, peer) = (self.exchange.client, self.peer);
        let matched = MatchedRequest { head: request, client, peer, is_tls: self.io.is_secure() };
        worker.sites.resolve(self.slot.listen(), name, matched)
    }

    /// Returns whether the target is an https URL on a channel without TLS (RFC 9110 section 7.4). A
    /// trusted proxy may have removed TLS.
    pub(super) fn needs_tls(&self, request: &RequestHead<'_>) -> bool {
        matches!(request.target, Target::Absolute { scheme, .. }
            if scheme.eq_ignore_ascii_case(b"https")
                && !self.io.is_secure()
                && self.trusted().is_none())
    }

    /// Returns the forwarding fields that are used, if the peer is a trusted proxy.
    #[inline]
    pub(super) fn trusted(&self) -> Option<Family> {
        let trusted = &self.worker.trusted_proxies;
        let is_trusted = !trusted.is_empty()
            && self.peer.is_some_and(|peer| trusted.iter().any(|network| network.contains(&peer)));
        is_trusted.then_some(self.worker.forwarded_family)
    }
}

/// Returns the client of a request that came from the trusted proxy `peer`, by the fields of the
/// proxies' family.
fn client(
    request: &RequestHead<'_>,
    peer: IpAddr,
    (trusted, family): (&[IpNet], Family),
) -> IpAddr {
    let trusts = |address: IpAddr| trusted.iter().any(|network| network.contains(&address));
    let named = |known: &'static [u8]| {
        let lines = request.fields.iter();
        let lines = lines.filter(|(name, _)| name.eq_ignore_ascii_case(known));
        lines.map(|(_, value)| value).collect::<Vec<_>>().join(&b", "[..])
    };
    match family {
        Family::XForwarded => {
            let chain = named(b"x-forwarded-for");
            let nodes: Vec<&[u8]> = list(&chain).collect();
            forwarded::client(peer, nodes.into_iter(), trusts)
        }
        Family::Forwarded => {
            let chain = named(b"forwarded");
            let nodes = forwarded::elements(&chain).map(|element| element.node);
            forwarded::client(peer, nodes, trusts)
        }
    }
}
