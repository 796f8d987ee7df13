//! What is spoken on a listener beneath HTTP, as its configuration has it.

use std::io;

use crate::config::{Config, Listen};

/// What is spoken on a listener, beneath HTTP.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(super) struct Spoken {
    /// TLS.
    pub(super) tls: bool,
    /// The PROXY protocol, before it.
    pub(super) proxy: bool,
}

impl Spoken {
    /// On an address of the configuration's.
    pub(super) fn on(config: &Config, listen: &Listen, tls: bool) -> Spoken {
        let is_on = |on: &[Listen]| on.is_empty() || on.contains(listen);
        let proxy = config.proxy_protocol.as_ref().is_some_and(|proxied| is_on(&proxied.on));
        Spoken { tls, proxy }
    }

    /// On a listener that somebody else has bound: as on the configuration's address with its port.
    pub(super) fn on_inherited(config: &Config, bound: Option<&Listen>) -> Spoken {
        let among = |named: &[Listen]| bound.is_some_and(|bound| is_among(bound, named));
        let is_on = |on: &[Listen]| on.is_empty() || among(on);
        let proxy = config.proxy_protocol.as_ref().is_some_and(|proxied| is_on(&proxied.on));
        Spoken { tls: among(&config.listen_tls), proxy }
    }
}

/// Sees to it that the PROXY protocol is spoken wherever it was asked for: a listener that has got
/// another address since would take whoever connects for the client.
///
/// # Errors
/// The address where nothing listens.
pub(super) fn check(config: &Config, bound: &[Listen]) -> io::Result<()> {
    let named = config.proxy_protocol.iter().flat_map(|proxied| &proxied.on);
    match named.into_iter().find(|named| !is_among(named, bound)) {
        None => Ok(()),
        Some(missing) => Err(io::Error::new(
            io::ErrorKind::InvalidInput,
            format!(
                "proxy_protocol.on: nothing listens on {missing}; write there what is listened on"
            ),
        )),
    }
}

/// Whether one of these is the address, or has its port.
fn is_among(address: &Listen, others: &[Listen]) -> bool {
    let has_port = |other: &Listen| other.port().is_some_and(|port| address.port() == Some(port));
    others.iter().any(|other| other == address || has_port(other))
}
