//! Parses networks of client addresses.

use std::net::IpAddr;

use ipnet::IpNet;

use super::error::{ValueError, shown};

/// Bits of an IPv4-mapped address before those of the IPv4 address.
const MAPPED_PREFIX: u8 = 96;

/// Parses a network (`10.0.0.0/8`), or an address as a network of one.
pub(super) fn network(text: &str) -> Result<IpNet, ValueError> {
    if let Ok(address) = text.parse::<IpAddr>() {
        return Ok(IpNet::from(address.to_canonical()));
    }
    let Ok(network) = text.parse::<IpNet>() else {
        return Err(ValueError::new(format!("{} is not an address or a network", shown(text)))
            .hint("write \"10.0.0.0/8\", \"2001:db8::/32\" or a single address"));
    };
    // 10.1.2.3/8 is ambiguous: one address or all of 10.0.0.0/8.
    if network.trunc() != network {
        return Err(ValueError::new(format!("{} has bits beyond its prefix", shown(text)))
            .hint(format!("write \"{}\" or \"{}\"", network.trunc(), network.addr())));
    }
    Ok(canonical(network))
}

/// Returns an IPv4-mapped network (RFC 4291 section 2.5.5.2) as that of IPv4: clients are compared
/// by their addresses of IPv4.
fn canonical(network: IpNet) -> IpNet {
    let prefix = network.prefix_len().checked_sub(MAPPED_PREFIX);
    match (network.addr().to_canonical(), prefix) {
        (address @ IpAddr::V4(_), Some(prefix)) if !network.addr().is_ipv4() => {
            IpNet::new(address, prefix).unwrap_or(network)
        }
        _ => network,
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn networks_are_parsed_and_ambiguous_ones_are_refused() {
        let table = [
            ("IPv4", "10.0.0.0/8", Ok("10.0.0.0/8")),
            ("IPv6", "2001:db8::/32", Ok("2001:db8::/32")),
            ("an address", "192.0.2.1", Ok("192.0.2.1/32")),
            ("an IPv6 address", "::1", Ok("::1/128")),
            ("everything", "0.0.0.0/0", Ok("0.0.0.0/0")),
            ("an IPv4-mapped address", "::ffff:192.0.2.1", Ok("192.0.2.1/32")),
            ("an IPv4-mapped network", "::ffff:10.0.0.0/104", Ok("10.0.0.0/8")),
            ("all of IPv6", "::/0", Ok("::/0")),
            ("bits beyond the prefix", "10.1.2.3/8", Err("write \"10.0.0.0/8\" or \"10.1.2.3\"")),
            (
                "a prefix too long",
                "10.0.0.0/33",
                Err("write \"10.0.0.0/8\", \"2001:db8::/32\" or a single address"),
            ),
            (
                "a name",
                "localhost",
                Err("write \"10.0.0.0/8\", \"2001:db8::/32\" or a single address"),
            ),
        ];
        for (sentence, text, expected) in table {
            let found = network(text).map(|network| network.to_string());
            assert_eq!(
                found.map_err(|wrong| wrong.hint.unwrap_or_default()),
                expected.map(str::to_owned).map_err(str::to_owned),
                "{sentence}"
            );
        }
    }
}
