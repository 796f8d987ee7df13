//! Which client addresses are let in.

use std::net::IpAddr;

use crate::config::Access;

/// A refused network beats an admitted one unless the admitted one is the narrower. A client
/// without an address (a unix socket) is local: only an `allow` list keeps it out.
#[inline]
pub(super) fn admits(access: &Access, peer: Option<IpAddr>) -> bool {
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
