//! Load balancers that may name the client of a connection (PROXY protocol).

use std::cell::Cell;
use std::net::IpAddr;

use ipnet::IpNet;

use crate::config::ProxyProtocol;

/// Minimum interval between log lines about closed connections, in milliseconds. It bounds the log,
/// because peers can open any number of connections.
const LOG_EVERY_MS: u64 = 10_000;

/// Addresses whose PROXY protocol header is trusted.
#[derive(Debug, Default)]
pub(crate) struct Balancers {
    from: Vec<IpNet>,
    /// Time of the next permitted log line, in milliseconds.
    next_log_ms: Cell<u64>,
}

impl Balancers {
    /// Reads the trusted addresses from the configuration.
    pub(crate) fn new(config: Option<&ProxyProtocol>) -> Balancers {
        let from = config.map(|config| config.from.clone()).unwrap_or_default();
        Balancers { from, next_log_ms: Cell::new(0) }
    }

    /// Returns whether this peer is trusted. Peers on a unix socket are: its permissions protect
    /// it.
    pub(crate) fn has(&self, peer: Option<IpAddr>) -> bool {
        peer.is_none_or(|peer| self.from.iter().any(|network| network.contains(&peer)))
    }

    /// Returns whether to log a closed connection now.
    pub(crate) fn may_log(&self, now_ms: u64) -> bool {
        let may_log = now_ms >= self.next_log_ms.get();
        if may_log {
            self.next_log_ms.set(now_ms + LOG_EVERY_MS);
        }
        may_log
    }
}
