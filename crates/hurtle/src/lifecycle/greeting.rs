//! The lines for the person at the terminal: what is served, and the URLs that open it.

use std::collections::BTreeSet;
use std::io::{self, Write as _};
use std::net::{IpAddr, SocketAddr};
use std::path::PathBuf;

use nix::ifaddrs::getifaddrs;
use nix::net::if_::InterfaceFlags;

use crate::config::Listen;
use crate::server::listening::BoundAddresses;

/// Most URLs for one address; machines with containers have hundreds of interfaces.
const URLS_MAX: usize = 8;

/// Prints what is served and the addresses. With `for_people`, an address that stands for all of
/// this machine's becomes the URLs that this machine and others can open.
pub(super) fn print(bound: &BoundAddresses, roots: &[PathBuf], for_people: bool) -> io::Result<()> {
    let mut out = io::stdout();
    let what = match roots {
        [root] => format!("{}", root.display()),
        [] => "the configuration".to_owned(),
        roots => format!("{} directories", roots.len()),
    };
    writeln!(out, "hurtle serves {what}")?;
    let interfaces = if for_people { interface_addresses() } else { vec![] };
    for (scheme, addresses) in [("http", &bound.clear), ("https", &bound.tls)] {
        for address in addresses {
            match address {
                Listen::Tcp(address) => {
                    for address in reachable(*address, &interfaces) {
                        writeln!(out, "  {scheme}://{address}/")?;
                    }
                }
                Listen::Unix(path) => writeln!(out, "  unix:{}", path.display())?,
            }
        }
    }
    out.flush()
}

/// The addresses that reach a listener: its own, or of the interfaces if it listens on all.
fn reachable(listener: SocketAddr, interfaces: &[IpAddr]) -> Vec<SocketAddr> {
    if !listener.ip().is_unspecified() || interfaces.is_empty() {
        return vec![listener];
    }
    let is_same_family = |ip: &&IpAddr| ip.is_ipv4() == listener.is_ipv4();
    let reached = interfaces.iter().filter(is_same_family).take(URLS_MAX);
    reached.map(|ip| SocketAddr::new(*ip, listener.port())).collect()
}

/// The addresses of the interfaces that are up, this machine's own first. Link-local addresses need
/// a zone, which no browser takes.
fn interface_addresses() -> Vec<IpAddr> {
    let up = InterfaceFlags::IFF_UP | InterfaceFlags::IFF_RUNNING;
    let addresses = getifaddrs().into_iter().flatten().filter_map(|interface| {
        let address = interface.address.filter(|_| interface.flags.contains(up))?;
        let v4 = address.as_sockaddr_in().map(|address| IpAddr::V4(address.ip()));
        v4.or_else(|| address.as_sockaddr_in6().map(|address| IpAddr::V6(address.ip())))
    });
    let is_link_local = |ip: &IpAddr| match ip {
        IpAddr::V4(ip) => ip.is_link_local(),
        IpAddr::V6(ip) => ip.is_unicast_link_local(),
    };
    let found: BTreeSet<(bool, IpAddr)> =
        addresses.filter(|ip| !is_link_local(ip)).map(|ip| (!ip.is_loopback(), ip)).collect();
    found.into_iter().map(|(_, ip)| ip).collect()
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn an_address_for_all_becomes_those_that_others_can_open() {
        let address = |text: &str| text.parse::<SocketAddr>().unwrap();
        let interfaces =
            ["127.0.0.1", "192.0.2.7", "::1", "2001:db8::7"].map(|ip| ip.parse().unwrap());
        let many: Vec<IpAddr> = (0..100).map(|n| IpAddr::from([192, 0, 2, n])).collect();
        #[rustfmt::skip]
        let table: [(&str, &str, &[IpAddr], &[&str]); 4] = [
            ("one address", "192.0.2.7:80", &interfaces, &["192.0.2.7:80"]),
            ("every IPv4 address", "0.0.0.0:80", &interfaces, &["127.0.0.1:80", "192.0.2.7:80"]),
            ("every IPv6 address", "[::]:80", &interfaces, &["[::1]:80", "[2001:db8::7]:80"]),
            ("interfaces that the system does not tell", "0.0.0.0:80", &[], &["0.0.0.0:80"]),
        ];
        for (sentence, listener, interfaces, expected) in table {
            let expected: Vec<SocketAddr> = expected.iter().map(|text| address(text)).collect();
            assert_eq!(reachable(address(listener), interfaces), expected, "{sentence}");
        }
        assert_eq!(reachable(address("0.0.0.0:80"), &many).len(), URLS_MAX);
    }
}
