//! The protocols beneath HTTP on a listener, from the configuration, and checks of the listeners.

use std::io;

use crate::config::{Config, Listen, Site, is_exposed};

/// The protocols beneath HTTP on a listener.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(crate) struct Protocols {
    /// Connections are encrypted with TLS.
    pub(crate) tls: bool,
    /// Connections begin with a PROXY protocol header, before TLS.
    pub(crate) proxy: bool,
}

impl Protocols {
    /// The protocols of a configured address.
    pub(crate) fn on(config: &Config, listen: &Listen, tls: bool) -> Protocols {
        let is_on = |on: &[Listen]| on.is_empty() || on.contains(listen);
        let proxy = config.proxy_protocol.as_ref().is_some_and(|proxied| is_on(&proxied.on));
        Protocols { tls, proxy }
    }

    /// The protocols of an inherited listener: those of the same configured address, or else of a
    /// configured address with the same port.
    pub(crate) fn on_inherited(config: &Config, bound: Option<&Listen>) -> Protocols {
        let among = |named: &[Listen]| match bound {
            Some(bound) if is_configured(config, bound) => named.contains(bound),
            Some(bound) => is_among(bound, named),
            None => false,
        };
        let is_on = |on: &[Listen]| on.is_empty() || among(on);
        let proxy = config.proxy_protocol.as_ref().is_some_and(|proxied| is_on(&proxied.on));
        Protocols { tls: among(&config.listen_tls), proxy }
    }
}

/// Checks that no password or token crosses a network in clear, unless the configuration allows it.
///
/// # Errors
/// `clear`, the addresses without TLS, has one that other machines reach.
pub(crate) fn check_passwords(config: &Config, clear: &[Listen]) -> io::Result<()> {
    let is_open = |listen: &&Listen| is_exposed(listen) && config.needs_privacy(listen);
    let Some(listen) = clear.iter().find(is_open) else { return Ok(()) };
    let what = format!(
        "passwords and tokens would cross the network in clear to {listen}: listen with TLS, on \
         127.0.0.1 or a unix socket, or set auth_cleartext"
    );
    Err(io::Error::new(io::ErrorKind::InvalidInput, what))
}

/// Checks that no status page is open to everybody on a network: it discloses internals.
///
/// # Errors
/// There is such a page, and one of the addresses is one that other machines reach.
pub(crate) fn check_status_pages(config: &Config, addresses: &[Listen]) -> io::Result<()> {
    let mut exposed = addresses.iter().filter(|listen| is_exposed(listen));
    let page = exposed.find_map(|listen| Some((listen, config.public_status_page(listen)?)));
    let Some((listen, path)) = page else { return Ok(()) };
    let what = format!(
        "everybody who reaches {listen} could see the status page at {path}: write allow = or auth = \
         in its mount, or listen on 127.0.0.1 only"
    );
    Err(io::Error::new(io::ErrorKind::InvalidInput, what))
}

/// Checks that every address of `proxy_protocol.on` and of a site has a listener. Without this
/// check, a listener whose address was changed would take the load balancer for the client, and a
/// site would answer nowhere.
///
/// # Errors
/// The address without a listener.
pub(crate) fn check(config: &Config) -> io::Result<()> {
    check_addresses(config, |named| is_configured(config, named))?;
    for site in &config.sites {
        if let Some(missing) = site.listen.iter().find(|named| !is_configured(config, named)) {
            let remedy = "add it to listen or listen_tls, which --listen replaces";
            return Err(site_without_listener(site, missing, remedy));
        }
    }
    Ok(())
}

/// Does the same check for inherited listeners, which replace those of the configuration. A site
/// needs one of its addresses: one socket for all addresses of the system may stand for two.
///
/// # Errors
/// The address without a listener.
pub(crate) fn check_inherited(config: &Config, bound: &[Listen]) -> io::Result<()> {
    check_addresses(config, |named| is_among(named, bound))?;
    for site in &config.sites {
        // A site is found by exactly its address.
        let is_there = site.listen.iter().any(|named| bound.contains(named));
        if let Some(missing) = site.listen.first().filter(|_| !is_there) {
            let remedy =
                "inherited sockets replace listen and listen_tls, and none has this address";
            return Err(site_without_listener(site, missing, remedy));
        }
    }
    Ok(())
}

fn site_without_listener(site: &Site, missing: &Listen, remedy: &str) -> io::Error {
    let what = format!("site {}: nothing listens on {missing}; {remedy}", site.name());
    io::Error::new(io::ErrorKind::InvalidInput, what)
}

fn check_addresses(config: &Config, is_there: impl Fn(&Listen) -> bool) -> io::Result<()> {
    let mut named = config.proxy_protocol.iter().flat_map(|proxied| &proxied.on);
    match named.find(|named| !is_there(named)) {
        None => Ok(()),
        Some(missing) => {
            let what = format!("proxy_protocol.on: nothing listens on {missing}");
            let what = format!("{what}; write an address of listen or listen_tls");
            Err(io::Error::new(io::ErrorKind::InvalidInput, what))
        }
    }
}

fn is_configured(config: &Config, address: &Listen) -> bool {
    config.listen.contains(address) || config.listen_tls.contains(address)
}

/// `true` if `others` contains the address or one with the same port.
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
    fn an_inherited_listener_has_the_protocols_of_its_configured_port() {
        let table: [(&str, &[&str], &str, (bool, bool)); 8] = [
            ("the same address", &["127.0.0.1:443"], "127.0.0.1:443", (true, true)),
            ("the same port", &["127.0.0.1:443"], "[::]:443", (true, true)),
            ("another port", &["127.0.0.1:443"], "127.0.0.1:80", (false, false)),
            ("the same port of another address", &["[::1]:80"], "127.0.0.1:80", (false, false)),
            ("all", &[], "127.0.0.1:80", (false, true)),
            ("all, of an unknown address", &[], "127.0.0.1:8080", (false, true)),
            ("a socket", &["unix:/run/h.sock"], "unix:/run/h.sock", (false, true)),
            ("another socket", &["unix:/run/h.sock"], "unix:/run/i.sock", (false, false)),
        ];
        for (sentence, on, bound, (tls, proxy)) in table {
            let found = Protocols::on_inherited(&config(on), Some(&listen(bound)));
            assert_eq!(found, Protocols { tls, proxy }, "{sentence}");
        }
    }

    #[test]
    fn every_proxy_protocol_address_needs_a_listener() {
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
    fn a_configured_listener_needs_exactly_the_same_address() {
        assert!(check(&config(&["127.0.0.1:443", "unix:/run/h.sock"])).is_ok());
        let e = check(&config(&["0.0.0.0:443"])).unwrap_err().to_string();
        assert!(e.contains("nothing listens on 0.0.0.0:443"), "{e}");
    }

    /// Regression: such a site answered nowhere, without an error.
    #[test]
    fn a_site_needs_a_listener_with_its_address() {
        let mut config = config(&[]);
        for (address, good) in [("127.0.0.1:80", true), ("127.0.0.1:8080", false)] {
            config.sites[0].listen = vec![listen(address)];
            assert_eq!(check(&config).is_ok(), good, "{address}");
        }
    }

    /// Regression: the addresses of sites were not looked at.
    #[test]
    fn a_site_needs_an_inherited_listener_with_one_of_its_addresses() {
        let table: [(&str, &[&str], &str, bool); 5] = [
            ("there", &["127.0.0.1:80"], "127.0.0.1:80", true),
            ("a socket", &["unix:/run/h.sock"], "unix:/run/h.sock", true),
            ("one of two", &["0.0.0.0:80", "[::]:80"], "[::]:80", true),
            ("another port", &["127.0.0.1:443"], "127.0.0.1:80", false),
            ("the same port of another address", &["127.0.0.1:80"], "[::]:80", false),
        ];
        for (sentence, own, bound, good) in table {
            let mut config = config(&[]);
            config.sites[0].listen = own.iter().map(|address| listen(address)).collect();
            let checked = check_inherited(&config, &[listen(bound)]);
            assert_eq!(checked.is_ok(), good, "{sentence}: {checked:?}");
        }
    }
}
