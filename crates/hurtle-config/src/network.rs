//! Parses networks of client addresses.

use std::net::IpAddr;

use ipnet::IpNet;

use super::error::{ValueError, shown};

/// Parses a network (`10.0.0.0/8`), or an address as a network of one.
pub(super) fn network(text: &str) -> Result<IpNet, ValueError> {
    if let Ok(address) = text.parse::<IpAddr>() {
        return Ok(IpNet::from(address));
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
    Ok(network)
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
