//! Load balancers that may name the client of a connection (PROXY protocol).

use std::cell::Cell;
use std::net::IpAddr;

use ipnet::IpNet;

use crate::config::ProxyProtocol;

/// Minimum interval between log lines about closed connections, in milliseconds. It bounds the log,
/// because peers can open any number of connections.
const TOLD_EVERY_MS: u64 = 10_000;

/// Addresses whose PROXY protocol header is trusted.
#[derive(Debug, Default)]
pub struct Balancers {
    from: Vec<IpNet>,
    /// Time of the next permitted log line, in milliseconds.
    told_until_ms: Cell<u64>,
}

impl Balancers {
    /// Reads the trusted addresses from the configuration.
    pub fn new(config: Option<&ProxyProtocol>) -> Balancers {
        let from = config.map(|config| config.from.clone()).unwrap_or_default();
        Balancers { from, told_until_ms: Cell::new(0) }
    }

    /// Returns whether this peer is trusted. Peers on a unix socket are: its permissions protect
    /// it.
    pub fn has(&self, peer: Option<IpAddr>) -> bool {
        peer.is_none_or(|peer| self.from.iter().any(|network| network.contains(&peer)))
    }

    /// Returns whether to log a closed connection now.
    pub fn is_told(&self, now_ms: u64) -> bool {
        let is_told = now_ms >= self.told_until_ms.get();
        if is_told {
            self.told_until_ms.set(now_ms + TOLD_EVERY_MS);
        }
        is_told
    }
}
