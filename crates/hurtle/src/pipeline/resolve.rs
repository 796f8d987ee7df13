//! The step `resolve`: the client, the site and the route of a request, looked up once.

use std::net::IpAddr;

use hurtle_http::request::RequestHead;
use hurtle_http::semantics::fields::list;
use hurtle_http::semantics::forwarded::{self, Family};
use hurtle_http::semantics::target::Target;
use ipnet::IpNet;

use super::connection::Connection;
use super::exchange::Exchange;
use super::worker::Worker;
use crate::config::MatchedRequest;
use crate::protocol::Protocol;
use crate::site::Resolved;

/// A request and its route, under one configuration.
#[derive(Clone, Copy)]
pub(super) struct Routed<'a, 's> {
    pub(super) request: &'a RequestHead<'a>,
    pub(super) worker: &'a Worker,
    pub(super) resolved: &'a Resolved<'s>,
}

impl<'a, 's> Routed<'a, 's> {
    /// Returns the same request with other fields.
    pub(super) fn with<'b>(self, request: &'b RequestHead<'b>) -> Routed<'b, 's>
    where
        'a: 'b,
    {
        Routed { request, worker: self.worker, resolved: self.resolved }
    }
}

/// Looks up the client and the site. `None`: no site has this name, or the target needs TLS.
pub(super) fn resolve<'a, T: Protocol>(
    connection: &Connection<T>,
    exchange: &mut Exchange,
    worker: &'a Worker,
    request: &'a RequestHead<'a>,
) -> Option<Resolved<'a>> {
    let peer = connection.peer;
    if !worker.trusted_proxies.is_empty() {
        let (trusted, family) = (&worker.trusted_proxies, worker.forwarded_family);
        exchange.client = peer.map(|peer| client(request, peer, trusted, family));
        if exchange.client != peer {
            exchange.sent.share = worker.share(exchange.client);
        }
    }
    if needs_tls(connection, request) {
        return None;
    }
    let name = request.host.as_ref().map(|h| h.name);
    let matched = MatchedRequest {
        head: request,
        client: exchange.client,
        peer,
        is_tls: connection.io.is_secure(),
    };
    worker.sites.resolve(connection.slot.listen(), name, matched)
}

/// Returns whether the target is an https URL on a channel without TLS (RFC 9110 section 7.4). A
/// trusted proxy may have removed TLS.
pub(super) fn needs_tls<T: Protocol>(
    connection: &Connection<T>,
    request: &RequestHead<'_>,
) -> bool {
    matches!(request.target, Target::Absolute { scheme, .. }
        if scheme.eq_ignore_ascii_case(b"https")
            && !connection.io.is_secure()
            && connection.trusted().is_none())
}

/// Returns the client of a request that came from the trusted proxy `peer`, by the fields of the
/// proxies' family.
fn client(request: &RequestHead<'_>, peer: IpAddr, trusted: &[IpNet], family: Family) -> IpAddr {
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
