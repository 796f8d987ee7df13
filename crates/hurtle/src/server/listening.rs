//! The addresses that a server listens on: as configured, and with the actual port in place of
//! port 0.

use std::path::PathBuf;

use crate::config::Listen;

/// An address that the server listens on.
#[derive(Clone, Debug, PartialEq, Eq)]
pub(crate) struct Listening {
    /// As configured; its port may be 0.
    pub(crate) configured: Listen,
    /// With the actual port.
    pub(crate) actual: Listen,
    pub(crate) tls: bool,
}

/// Addresses that a server listens on, with the actual port in place of port 0.
#[derive(Clone, Debug, Default)]
pub(crate) struct BoundAddresses {
    pub(crate) clear: Vec<Listen>,
    pub(crate) tls: Vec<Listen>,
}

/// The addresses of a running server.
#[derive(Debug)]
pub(crate) struct OpenAddresses {
    pub(crate) listening: Vec<Listening>,
    /// The addresses, as configured, that also have a UDP port.
    pub(crate) quic: Vec<Listen>,
    /// `true`: the listeners are inherited, so they stay.
    pub(crate) inherited: bool,
}

impl BoundAddresses {
    pub(super) fn of(listening: &[Listening]) -> BoundAddresses {
        let at = |tls| {
            let listening = listening.iter().filter(move |open| open.tls == tls);
            let actual = listening.map(|open| open.actual.clone());
            // An inherited unix socket may have no name.
            actual.filter(|listen| *listen != Listen::Unix(PathBuf::new())).collect()
        };
        BoundAddresses { clear: at(false), tls: at(true) }
    }

    /// Returns all of them.
    pub(super) fn all(&self) -> Vec<Listen> {
        [&self.clear[..], &self.tls].concat()
    }
}
