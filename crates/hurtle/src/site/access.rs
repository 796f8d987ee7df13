//! Access control by client address.

use std::net::IpAddr;

use crate::config::Access;

/// Returns whether a client may connect. A `deny` network wins unless the matching `allow` network
/// is narrower. A client without an address (unix socket) is local: only an `allow` list excludes
/// it.
#[inline]
pub(crate) fn admits(access: &Access, peer: Option<IpAddr>) -> bool {
    access.allow.is_empty() && access.deny.is_empty() || is_admitted(access, peer)
}

fn is_admitted(access: &Access, peer: Option<IpAddr>) -> bool {
    let Some(peer) = peer else { return access.allow.is_empty() };
    let narrowest = |nets: &[ipnet::IpNet]| {
        nets.iter().filter(|net| net.contains(&peer)).map(ipnet::IpNet::prefix_len).max()
    };
    match (narrowest(&access.allow), narrowest(&access.deny)) {
        (allow, Some(deny)) => allow.is_some_and(|allow| allow > deny),
        (Some(_), None) => true,
        (None, None) => access.allow.is_empty(),
    }
}
