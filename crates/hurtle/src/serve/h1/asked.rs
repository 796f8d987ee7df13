//! What a request head says to the handlers, whatever protocol they think it is.

use std::net::IpAddr;

use ipnet::IpNet;

use crate::files::{FileQuery, Key};
use crate::h1::fields::pairs;
use crate::h1::request::{Method, Request};
use crate::handler::Ask;
use crate::semantics::conditional::Preconditions;
use crate::semantics::fields::list;
use crate::semantics::forwarded;
use crate::semantics::target::Target;

/// The path and the query, where the target has them.
pub(super) fn path_of<'a>(target: &Target<'a>) -> Option<(&'a [u8], Option<&'a [u8]>)> {
    match target {
        Target::Origin { path, query } | Target::Absolute { path, query, .. } => {
            Some((path, *query))
        }
        Target::Asterisk | Target::Authority(_) => None,
    }
}

/// What the operator is told of a request: its method and its path as they were sent. Not the query,
/// which may hold what is nobody's business.
pub(super) fn described(request: &Request<'_>) -> String {
    let path = path_of(&request.target).map_or(&b"*"[..], |(path, _)| path);
    format!("{} {}", request.method.as_bytes().escape_ascii(), path.escape_ascii())
}

/// A request as handlers see it.
pub(super) fn ask<'a>(
    request: &'a Request<'_>,
    site: usize,
    path: &'a [u8],
    query: Option<&'a [u8]>,
) -> Ask<'a> {
    Ask {
        get: request.method == Method::Get,
        key: Key { site, path },
        query,
        file: file_query(request),
        accept: request.accept,
    }
}

/// Who sent a request that came from `peer`, a proxy that is believed.
pub(super) fn client(request: &Request<'_>, peer: IpAddr, trusted: &[IpNet]) -> IpAddr {
    let trusts = |address: IpAddr| trusted.iter().any(|network| network.contains(&address));
    let named = |known: &'static [u8]| {
        let lines = pairs(request.field_lines);
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

/// Conditions, ranges, codings.
pub(super) fn file_query<'a>(request: &'a Request<'_>) -> FileQuery<'a> {
    FileQuery {
        preconditions: Preconditions {
            if_match: request.if_match,
            if_none_match: request.if_none_match,
            if_modified_since: request.if_modified_since,
            if_unmodified_since: request.if_unmodified_since,
            if_range: request.if_range,
        },
        // RFC 9110 14.2: Range means nothing but in GET.
        range: if request.method == Method::Get { request.range } else { None },
        accept_encoding: request.accept_encoding,
    }
}
