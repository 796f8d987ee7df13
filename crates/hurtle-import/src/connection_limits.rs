//! Translates `limit_conn`: connections of an address for the whole server, and requests at once of
//! a mount.

use std::collections::BTreeMap;

use super::block::Block;
use super::mount::{Keys, put};
use super::report::Report;
use super::syntax::Directive;

/// The requests that a zone of `limit_conn_zone` counts together.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(super) enum ConnectionKey {
    /// Those of a client address.
    Address,
    /// Those of a server.
    Server,
}

/// The keys of zones, by name.
pub(super) type ConnectionZones = BTreeMap<String, ConnectionKey>;

/// The difference of a limit of the whole server.
pub(super) const REMARK: &str = "connections are counted, over all sites: eleven requests at once on one connection of HTTP/2, such as GET /, \
     are one; nginx counts requests";

/// Reads the zones of `limit_conn_zone`, by their names.
pub(super) fn zones(directives: &[&Directive], report: &mut Report) -> ConnectionZones {
    let mut zones = ConnectionZones::new();
    for d in directives {
        let zone = d.args.iter().find_map(|arg| arg.strip_prefix("zone="));
        let name = zone.and_then(|zone| zone.split(':').next());
        let key = match d.arg(0) {
            "$binary_remote_addr" | "$remote_addr" => Some(ConnectionKey::Address),
            "$server_name" | "$host" | "$http_host" => Some(ConnectionKey::Server),
            _ => None,
        };
        match (name, key) {
            (Some(name), Some(key)) => drop(zones.insert(name.to_owned(), key)),
            _ => report.refuse(d, "a key is $binary_remote_addr, $remote_addr or $server_name"),
        }
    }
    zones
}

/// The limit of all servers by the address, and the directive, if each has one; the largest of
/// several.
pub(super) fn of_whole<'d>(
    block: &'d [Directive],
    zones: &ConnectionZones,
) -> Option<(u64, &'d Directive)> {
    let of = |block: &'d [Directive]| {
        let limits = block.iter().filter(|d| d.name == "limit_conn");
        let limits = limits.filter(|d| zones.get(d.arg(0)) == Some(&ConnectionKey::Address));
        limits
            .filter_map(|d| Some((d.arg(1).parse::<u64>().ok()?, d)))
            .max_by_key(|(most, _)| *most)
    };
    let servers = block.iter().filter(|d| d.name == "server");
    let all: Option<Vec<_>> =
        servers.map(|server| of(server.children()).or_else(|| of(block))).collect();
    all?.into_iter().max_by_key(|(most, _)| *most).filter(|(most, _)| *most > 0)
}

/// Adds `concurrency` for a limit of the server, and names what becomes of others.
pub(super) fn connection_limits(
    path: &str,
    block: &Block<'_>,
    zones: &ConnectionZones,
    keys: &mut Keys,
    report: &mut Report,
) {
    for d in block.get(|scope| &scope.limit_conns) {
        match (zones.get(d.arg(0)), d.arg(1).parse::<i64>()) {
            (Some(ConnectionKey::Server), Ok(most @ 1..=1_000_000)) => {
                put(keys, "concurrency", most);
                let text = "each mount counts its own requests, and answers 503 to more; nginx counts those of \
                            the whole server: GET / while others wait";
                report.remark(d, text);
            }
            (Some(ConnectionKey::Address), Ok(most)) => {
                let text = format!(
                    "hurtle limits connections of an address for the whole server, not requests of a location: {} \
                     at once of GET {path} pass; see [limits] connections_per_address and rate_limit",
                    most + 1
                );
                report.remark(d, &text);
            }
            (None, _) => report.refuse(d, "no limit_conn_zone has this zone"),
            (Some(_), _) => report.refuse(d, "write a number of connections"),
        }
    }
}
