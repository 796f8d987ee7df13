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

    /// On a listener that somebody else has bound: as on the same address of the configuration's, or
    /// else on one with the same port.
    pub(super) fn on_inherited(config: &Config, bound: Option<&Listen>) -> Spoken {
        let among = |named: &[Listen]| match bound {
            Some(bound) if is_written(config, bound) => named.contains(bound),
            Some(bound) => is_among(bound, named),
            None => false,
        };
        let is_on = |on: &[Listen]| on.is_empty() || among(on);
        let proxy = config.proxy_protocol.as_ref().is_some_and(|proxied| is_on(&proxied.on));
        Spoken { tls: among(&config.listen_tls), proxy }
    }
}

/// Sees to it that the PROXY protocol is spoken wherever it was asked for: a listener that has got
/// another address since would take the balancer for the client.
///
/// # Errors
/// The address where nothing listens.
pub(super) fn check(config: &Config) -> io::Result<()> {
    all_listened_on(config, |named| is_written(config, named))
}

/// The same of listeners that somebody else has bound.
pub(super) fn check_inherited(config: &Config, bound: &[Listen]) -> io::Result<()> {
    all_listened_on(config, |named| is_among(named, bound))
}

fn all_listened_on(config: &Config, is_there: impl Fn(&Listen) -> bool) -> io::Result<()> {
    let mut named = config.proxy_protocol.iter().flat_map(|proxied| &proxied.on);
    match named.find(|named| !is_there(named)) {
        None => Ok(()),
        Some(missing) => {
            let what = format!("proxy_protocol.on: nothing listens on {missing}");
            let what = format!("{what}; write there what is listened on");
            Err(io::Error::new(io::ErrorKind::InvalidInput, what))
        }
    }
}

fn is_written(config: &Config, address: &Listen) -> bool {
    config.listen.contains(address) || config.listen_tls.contains(address)
}

/// Whether one of these is the address, or has its port.
fn is_among(address: &Listen, others: &[Listen]) -> bool {
    let has_port = |other: &Listen| other.port().is_some_and(|port| address.port() == Some(port));
    others.iter().any(|other| other == address || has_port(other))
}

#[cfg(test)]
mod tests {
    use super::*;
    use crate::config::ProxyProtocol;

    fn listen(address: &str) -> Listen {
        match address.strip_prefix("unix:") {
            Some(path) => Listen::Unix(path.into()),
            None => Listen::Tcp(address.parse().unwrap()),
        }
    }

    fn config(on: &[&str]) -> Config {
        let mut config = Config::for_directory("/srv".into());
        config.listen = vec![listen("127.0.0.1:80"), listen("unix:/run/h.sock")];
        config.listen_tls = vec![listen("127.0.0.1:443")];
        let on = on.iter().map(|address| listen(address)).collect();
        config.proxy_protocol = Some(ProxyProtocol { on, from: vec![] });
        config
    }

    #[test]
    fn an_inherited_listener_speaks_what_its_port_does_in_the_configuration() {
        let table: [(&str, &[&str], &str, (bool, bool)); 8] = [
            ("the same address", &["127.0.0.1:443"], "127.0.0.1:443", (true, true)),
            ("the same port", &["127.0.0.1:443"], "[::]:443", (true, true)),
            ("another port", &["127.0.0.1:443"], "127.0.0.1:80", (false, false)),
            ("the same port of another address", &["[::1]:80"], "127.0.0.1:80", (false, false)),
            ("all", &[], "127.0.0.1:80", (false, true)),
            ("all, unheard of", &[], "127.0.0.1:8080", (false, true)),
            ("a socket", &["unix:/run/h.sock"], "unix:/run/h.sock", (false, true)),
            ("another socket", &["unix:/run/h.sock"], "unix:/run/i.sock", (false, false)),
        ];
        for (sentence, on, bound, (tls, proxy)) in table {
            let found = Spoken::on_inherited(&config(on), Some(&listen(bound)));
            assert_eq!(found, Spoken { tls, proxy }, "{sentence}");
        }
    }

    #[test]
    fn wherever_it_was_asked_for_somebody_must_listen() {
        let table: [(&str, &[&str], &[&str], bool); 5] = [
            ("there", &["127.0.0.1:443"], &["127.0.0.1:80", "127.0.0.1:443"], true),
            ("there, of another address", &["127.0.0.1:443"], &["[::]:443"], true),
            ("moved", &["127.0.0.1:443"], &["127.0.0.1:8443"], false),
            ("one of two", &["127.0.0.1:443", "unix:/run/h.sock"], &["127.0.0.1:443"], false),
            ("all, whatever they are", &[], &["127.0.0.1:1"], true),
        ];
        for (sentence, on, bound, good) in table {
            let bound: Vec<Listen> = bound.iter().map(|address| listen(address)).collect();
            assert_eq!(check_inherited(&config(on), &bound).is_ok(), good, "{sentence}");
        }
    }

    #[test]
    fn an_address_of_the_configurations_own_must_be_the_same() {
        assert!(check(&config(&["127.0.0.1:443", "unix:/run/h.sock"])).is_ok());
        let e = check(&config(&["0.0.0.0:443"])).unwrap_err().to_string();
        assert!(e.contains("nothing listens on 0.0.0.0:443"), "{e}");
    }
}
