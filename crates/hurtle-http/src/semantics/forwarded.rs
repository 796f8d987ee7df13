//! The client behind proxies (RFC 7239, X-Forwarded-For). The caller names the trusted proxies and
//! the family of fields that they set; fields from any other peer are ignored.

use std::net::{IpAddr, SocketAddr};

use super::fields::list;

/// The fields in which trusted proxies describe the client. The other family is ignored: most
/// proxies forward it as the client sent it.
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq)]
pub enum Family {
    /// X-Forwarded-For, X-Forwarded-Proto, X-Forwarded-Host and other X-Forwarded fields.
    #[default]
    XForwarded,
    /// Forwarded (RFC 7239).
    Forwarded,
}

/// An element of Forwarded: the description of one request by the proxy that received it (RFC 7239
/// section 4).
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq)]
pub struct Element<'a> {
    /// `for`, perhaps quoted; empty if the element has none.
    pub node: &'a [u8],
    /// `proto`: the scheme, without quotes.
    pub proto: Option<&'a [u8]>,
    /// `host`: the host and port, without quotes.
    pub host: Option<&'a [u8]>,
}

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

/// Returns the elements of a Forwarded field, in order.
pub fn elements(field: &[u8]) -> impl DoubleEndedIterator<Item = Element<'_>> {
    let elements: Vec<&[u8]> = list(field).collect();
    elements.into_iter().map(|text| {
        let mut element = Element::default();
        for pair in text.split(|&b| b == b';').map(<[u8]>::trim_ascii) {
            let Some(equals) = pair.iter().position(|&b| b == b'=') else { continue };
            let (name, value) = (&pair[..equals], &pair[equals + 1..]);
            match name.to_ascii_lowercase().as_slice() {
                b"for" => element.node = value,
                b"proto" => element.proto = Some(unquoted(value)),
                b"host" => element.host = Some(unquoted(value)),
                _ => {}
            }
        }
        element
    })
}

/// Returns a parameter's value without quotes. Neither a scheme nor a host has a quoted pair.
fn unquoted(value: &[u8]) -> &[u8] {
    value.strip_prefix(b"\"").and_then(|rest| rest.strip_suffix(b"\"")).unwrap_or(value)
}

/// Parses an address with or without port, brackets and quotes: proxies write all of these.
pub fn address(node: &[u8]) -> Option<IpAddr> {
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
    fn elements_of_the_standard_field() {
        let field = br#"for=192.0.2.7;proto=https, Host="a:81";Proto=http;By=x;For="[2001:db8::7]:1", secret"#;
        let found: Vec<_> = elements(field).collect();
        let first = Element { node: b"192.0.2.7", proto: Some(b"https"), host: None };
        let node = br#""[2001:db8::7]:1""#.as_slice();
        let second = Element { node, proto: Some(b"http"), host: Some(b"a:81") };
        assert_eq!(found, [first, second, Element::default()]);
    }
}
