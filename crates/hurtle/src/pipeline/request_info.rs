//! Conversions from a request head to the types that handlers use.

use std::net::IpAddr;

use hurtle_http::request::{Method, RequestHead};
use hurtle_http::semantics::conditional::Preconditions;
use hurtle_http::semantics::fields::list;
use hurtle_http::semantics::forwarded;
use hurtle_http::semantics::target::Target;
use ipnet::IpNet;

use crate::files::{FileQuery, Key};
use crate::handler::HandlerRequest;

/// Returns the path and the query, if the target has them.
pub(super) fn path_of<'a>(target: &Target<'a>) -> Option<(&'a [u8], Option<&'a [u8]>)> {
    match target {
        Target::Origin { path, query } | Target::Absolute { path, query, .. } => {
            Some((path, *query))
        }
        Target::Asterisk | Target::Authority(_) => None,
    }
}

/// Formats a request for the log: its method and path as sent. The query is omitted, because it may
/// hold secrets.
pub(super) fn described(request: &RequestHead<'_>) -> String {
    let path = path_of(&request.target).map_or(&b"*"[..], |(path, _)| path);
    format!("{} {}", request.method.as_bytes().escape_ascii(), path.escape_ascii())
}

/// Builds the handler's view of a request.
pub(super) fn ask<'a>(
    request: &'a RequestHead<'_>,
    site: usize,
    path: &'a [u8],
    query: Option<&'a [u8]>,
) -> HandlerRequest<'a> {
    HandlerRequest {
        get: request.method == Method::Get,
        key: Key { site, path },
        query,
        file: file_query(request),
        accept: request.accept,
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

/// Collects preconditions, the range, and accepted codings.
pub(super) fn file_query<'a>(request: &'a RequestHead<'_>) -> FileQuery<'a> {
    FileQuery {
        preconditions: Preconditions {
            if_match: request.if_match,
            if_none_match: request.if_none_match,
            if_modified_since: request.if_modified_since,
            if_unmodified_since: request.if_unmodified_since,
            if_range: request.if_range,
        },
        // RFC 9110 section 14.2: Range applies to GET only.
        range: if request.method == Method::Get { request.range } else { None },
        accept_encoding: request.accept_encoding,
    }
}
