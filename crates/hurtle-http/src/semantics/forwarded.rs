//! The address of a client behind proxies (RFC 7239, X-Forwarded-For). The caller names the trusted
//! proxies; fields from any other peer are ignored.

use std::net::{IpAddr, SocketAddr};

use super::fields::list;

/// Returns the client's address: the last address in the chain that is not a trusted proxy. `chain`
/// holds the addresses that the proxies reported, nearest last. Addresses before an untrusted or
/// malformed one are ignored: a client could have invented them.
pub fn client<'a>(
    peer: IpAddr,
    chain: impl DoubleEndedIterator<Item = &'a [u8]>,
    trusts: impl Fn(IpAddr) -> bool,
) -> IpAddr {
    let mut client = peer;
    for node in chain.rev() {
        if !trusts(client) {
            break;
        }
        match address(node) {
            Some(address) => client = address,
            None => break,
        }
    }
    client
}

/// Returns the `for` parameters of a Forwarded field, in order (RFC 7239 section 4). An element
/// without `for` gives an empty value.
pub fn nodes(field: &[u8]) -> impl DoubleEndedIterator<Item = &[u8]> {
    let elements: Vec<&[u8]> = list(field).collect();
    elements.into_iter().map(|element| {
        let mut pairs = element.split(|&b| b == b';').map(<[u8]>::trim_ascii);
        let node = pairs.find(|pair| pair.len() > 4 && pair[..4].eq_ignore_ascii_case(b"for="));
        node.map_or(b"".as_slice(), |pair| &pair[4..])
    })
}

/// Parses an address with or without port, brackets and quotes: proxies write all of these.
fn address(node: &[u8]) -> Option<IpAddr> {
    let text = std::str::from_utf8(node).ok()?.trim_matches('"');
    let bare = text.strip_prefix('[').and_then(|t| t.strip_suffix(']')).unwrap_or(text);
    let parsed = bare.parse::<IpAddr>().ok();
    let parsed = parsed.or_else(|| text.parse::<SocketAddr>().ok().map(|socket| socket.ip()));
    parsed.map(|address| address.to_canonical())
}

#[cfg(test)]
mod tests {
    use super::*;

    fn found(chain: &str) -> String {
        let peer = IpAddr::from([10, 0, 0, 1]);
        let trusts = |ip: IpAddr| matches!(ip, IpAddr::V4(v4) if v4.octets()[0] == 10);
        let chain: Vec<&[u8]> = list(chain.as_bytes()).collect();
        client(peer, chain.into_iter(), trusts).to_string()
    }

    #[test]
    fn the_last_untrusted_address_is_the_client() {
        for (sentence, chain, expected) in [
            ("no proxies", "", "10.0.0.1"),
            ("one proxy", "192.0.2.7", "192.0.2.7"),
            ("two proxies", "192.0.2.7, 10.0.0.2", "192.0.2.7"),
            ("a client that makes up a past", "198.51.100.1, 192.0.2.7", "192.0.2.7"),
            ("all of them trusted", "10.0.0.3, 10.0.0.2", "10.0.0.3"),
            ("no address", "192.0.2.7, unknown", "10.0.0.1"),
            ("an obfuscated one", "_hidden", "10.0.0.1"),
            ("a port", "192.0.2.7:5000", "192.0.2.7"),
            ("IPv6", "2001:db8::7", "2001:db8::7"),
            ("IPv6 in brackets, with a port, quoted", "\"[2001:db8::7]:5000\"", "2001:db8::7"),
            ("IPv4 in IPv6", "::ffff:192.0.2.7", "192.0.2.7"),
        ] {
            assert_eq!(found(chain), expected, "{sentence}");
        }
    }

    #[test]
    fn nodes_of_the_standard_field() {
        let field = br#"for=192.0.2.7;proto=https, proto=http;For="[2001:db8::7]:1", host=a"#;
        let nodes: Vec<_> = nodes(field).map(<[u8]>::escape_ascii).map(|n| n.to_string()).collect();
        assert_eq!(nodes, ["192.0.2.7", r#"\"[2001:db8::7]:1\""#, ""]);
    }
}
