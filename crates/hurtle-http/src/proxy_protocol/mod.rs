//! The PROXY protocol (HAProxy's proxy-protocol.txt, versions 1 and 2) as pure functions. A load
//! balancer sends this header before a client's first byte to name the client's address. The caller
//! decides which peers may send it and how long to wait for it.

mod encode;
mod v1;
mod v2;

pub use encode::{Version, encode};

use std::fmt;
use std::net::IpAddr;

/// Maximum size of a header, in bytes. Addresses take at most 232; the rest holds additional values
/// (TLVs), such as a client certificate.
pub const HEADER_BYTES_MAX: usize = 4 << 10;

/// A parsed header of version 1 or 2.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub struct Header {
    /// The client of this connection.
    pub client: Client,
    /// Length of the header in bytes. The client's bytes follow it.
    pub len: usize,
}

/// The client that a header names.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum Client {
    /// The peer of the socket itself: a health check of the balancer, or an unknown client.
    Peer,
    /// The client's address. An IPv4-mapped IPv6 address is converted to IPv4.
    Address(IpAddr),
    /// A client on a unix socket of the balancer; it has no address.
    Unix,
}

/// A malformed or missing header. The connection must be closed: nothing after it can be trusted.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
#[allow(missing_docs)] // `Display` explains each variant.
pub enum ProxyHeaderError {
    Missing,
    TooLarge,
    Line,
    Version,
    Command,
    Family,
    Length,
    Tlv,
    Checksum,
}

/// Parses the header at the front of `bytes`; `None` means that more bytes are needed. The first
/// result other than `None` does not depend on how the bytes were split.
///
/// # Errors
/// The bytes are not a header, or the specification requires its refusal.
pub fn parse(bytes: &[u8]) -> Result<Option<Header>, ProxyHeaderError> {
    let begins = |with: &[u8]| bytes.iter().zip(with).all(|(byte, expected)| byte == expected);
    match () {
        () if begins(v1::PREFIX) => v1::parse(bytes),
        () if begins(v2::SIGNATURE) => v2::parse(bytes),
        // Section 5: a receiver must not guess whether there is a header.
        () => Err(ProxyHeaderError::Missing),
    }
}

impl fmt::Display for ProxyHeaderError {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        f.write_str(match self {
            ProxyHeaderError::Missing => "no header: is the peer set to send one?",
            ProxyHeaderError::TooLarge => "the header is too large",
            ProxyHeaderError::Line => "the line is not a header of version 1",
            ProxyHeaderError::Version => "a version other than 1 and 2",
            ProxyHeaderError::Command => "a command other than LOCAL and PROXY",
            ProxyHeaderError::Family => "an unknown address family or protocol",
            ProxyHeaderError::Length => "the header is too short for its addresses",
            ProxyHeaderError::Tlv => "a value (TLV) after the addresses is malformed",
            ProxyHeaderError::Checksum => "the checksum is wrong",
        })
    }
}

impl std::error::Error for ProxyHeaderError {}

#[cfg(test)]
mod tests {
    use proptest::prelude::*;

    use super::*;

    /// Checks that every prefix gives `None` until the result of the whole is known.
    fn check_every_split(bytes: &[u8]) -> Result<Option<Header>, ProxyHeaderError> {
        let whole = parse(bytes);
        for end in 0..bytes.len() {
            match parse(&bytes[..end]) {
                Ok(None) => {}
                early => assert_eq!(early, whole, "{end} of {}", bytes.escape_ascii()),
            }
        }
        if let Ok(Some(header)) = whole {
            assert!(header.len <= bytes.len().min(HEADER_BYTES_MAX));
            assert_eq!(parse(&bytes[..header.len]), whole, "what follows plays no part");
            assert_eq!(parse(&bytes[..header.len - 1]), Ok(None), "it needs its last byte");
        }
        whole
    }

    proptest! {
        #[test]
        fn headers_that_are_made_are_parsed(four: [u8; 4], six: [u8; 16], is_six: bool) {
            let address = if is_six { IpAddr::from(six) } else { IpAddr::from(four) };
            for version in [Version::One, Version::Two] {
                for client in [Client::Address(address), Client::Peer, Client::Unix] {
                    let bytes = encode(version, client);
                    let expected = match client {
                        Client::Address(address) => Client::Address(address.to_canonical()),
                        Client::Peer | Client::Unix => Client::Peer,
                    };
                    let header = check_every_split(&bytes).unwrap().unwrap();
                    prop_assert_eq!(header, Header { client: expected, len: bytes.len() });
                }
            }
        }
    }

    #[test]
    fn bytes_that_are_no_header_are_refused_at_once() {
        for bytes in
            [&b"GET / HTTP/1.1\r\n"[..], b"\x16\x03\x01", b"PROXI", b"\r\n\r\nX", b"proxy "]
        {
            assert_eq!(
                check_every_split(bytes),
                Err(ProxyHeaderError::Missing),
                "{}",
                bytes.escape_ascii()
            );
        }
        assert_eq!(parse(b""), Ok(None));
    }

    /// Bytes that begin like a header.
    fn header_like() -> impl Strategy<Value = Vec<u8>> {
        let line = "(TCP4|TCP6|UNKNOWN|TCP)( [0-9.:a-f]{0,9}){0,5}[ \r\n]{0,3}";
        let line = line.prop_map(|rest| [v1::PREFIX, rest.as_bytes()].concat());
        let head = (0x1f..0x23u8, any::<u8>(), prop_oneof![0..60u16, any::<u16>()]);
        let binary = (head, prop::collection::vec(any::<u8>(), 0..80));
        let binary = binary.prop_map(|((command, family, len), block)| {
            let family =
                if len % 3 == 0 { family } else { [0x00, 0x11, 0x21, 0x31][len as usize % 4] };
            [v2::SIGNATURE, &[command, family], &len.to_be_bytes(), &block].concat()
        });
        prop_oneof![line, binary]
    }

    proptest! {
        #[test]
        fn splits_do_not_change_the_result(bytes in header_like(), after in any::<Vec<u8>>()) {
            let _ = check_every_split(&[bytes, after].concat());
        }

        #[test]
        fn any_bytes_are_read_or_refused(bytes in any::<Vec<u8>>()) {
            let _ = check_every_split(&bytes);
        }

        #[test]
        fn an_address_is_read_as_it_was_written(
            v4 in any::<(std::net::Ipv4Addr, std::net::Ipv4Addr)>(),
            v6 in any::<(std::net::Ipv6Addr, std::net::Ipv6Addr)>(),
            ports in any::<(u16, u16)>(),
            after in any::<Vec<u8>>(),
        ) {
            let (from, to) = ports;
            let ports = [from.to_be_bytes(), to.to_be_bytes()].concat();
            let binary = |family: u8, addresses: &[&[u8]]| {
                let block = [addresses.concat(), ports.clone()].concat();
                let len = (block.len() as u16).to_be_bytes();
                [v2::SIGNATURE, &[0x21, family], &len, &block].concat()
            };
            let headers: [(Vec<u8>, IpAddr); 4] = [
                (format!("PROXY TCP4 {} {} {from} {to}\r\n", v4.0, v4.1).into(), v4.0.into()),
                (format!("PROXY TCP6 {} {} {from} {to}\r\n", v6.0, v6.1).into(), v6.0.into()),
                (binary(0x11, &[&v4.0.octets(), &v4.1.octets()]), v4.0.into()),
                (binary(0x21, &[&v6.0.octets(), &v6.1.octets()]), v6.0.into()),
            ];
            for (header, address) in headers {
                let len = header.len();
                let client = Client::Address(address.to_canonical());
                let found = check_every_split(&[header, after.clone()].concat());
                prop_assert_eq!(found, Ok(Some(Header { client, len })));
            }
        }
    }
}
