//! The PROXY protocol (HAProxy's proxy-protocol.txt, versions 1 and 2) as pure functions: the header
//! that a balancer puts before a client's bytes to say who the client is. Which peers are believed,
//! and how long a header is waited for, is left to `serve`.

mod v1;
mod v2;

use std::fmt;
use std::net::IpAddr;

/// A header's size, in bytes. Addresses take 232 at most; the rest is a balancer's remarks (TLVs),
/// which may hold a client's certificate.
pub const HEADER_BYTES_MAX: usize = 4 << 10;

/// A header.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub struct Header {
    /// Whom the connection is made for.
    pub client: Client,
    /// Its bytes; what follows them is the client's.
    pub len: usize,
}

/// Whom a balancer has connected for.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum Client {
    /// Itself (a health check), or it does not say: who is at the other end of the socket.
    Peer,
    /// This address; an IPv4 one is never written as IPv6.
    Address(IpAddr),
    /// Somebody on a unix socket of the balancer's: no address.
    Unix,
}

/// What is wrong with bytes in a header's place. Nothing after it can be trusted, so the connection
/// is closed.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
#[allow(missing_docs)]
pub enum Flaw {
    Missing,
    TooLarge,
    Line,
    Version,
    Command,
    Family,
    Length,
    Remarks,
    Checksum,
}

/// Reads the header that `bytes` begin with; `None`: more of them are needed. However the bytes come
/// in pieces, the first answer that is not `None` is what the whole would have got.
///
/// # Errors
/// The bytes are no header, or one that the specification wants refused.
pub fn parse(bytes: &[u8]) -> Result<Option<Header>, Flaw> {
    let begins = |with: &[u8]| bytes.iter().zip(with).all(|(byte, expected)| byte == expected);
    match () {
        () if begins(v1::PREFIX) => v1::parse(bytes),
        () if begins(v2::SIGNATURE) => v2::parse(bytes),
        // Section 5: whether there is a header is never guessed.
        () => Err(Flaw::Missing),
    }
}

impl fmt::Display for Flaw {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        f.write_str(match self {
            Flaw::Missing => "no header: is the peer set to send one?",
            Flaw::TooLarge => "the header is too large",
            Flaw::Line => "the line is no header of version 1",
            Flaw::Version => "a version other than 1 and 2",
            Flaw::Command => "a command other than LOCAL and PROXY",
            Flaw::Family => "an unknown family of addresses or protocol",
            Flaw::Length => "the header is too short for its addresses",
            Flaw::Remarks => "what follows the addresses is broken",
            Flaw::Checksum => "the checksum is wrong",
        })
    }
}

impl std::error::Error for Flaw {}

#[cfg(test)]
mod tests {
    use proptest::prelude::*;

    use super::*;

    /// The same for every prefix: nothing, until what the whole gets.
    fn check_every_split(bytes: &[u8]) -> Result<Option<Header>, Flaw> {
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

    #[test]
    fn what_is_no_header_is_seen_at_once() {
        for bytes in
            [&b"GET / HTTP/1.1\r\n"[..], b"\x16\x03\x01", b"PROXI", b"\r\n\r\nX", b"proxy "]
        {
            assert_eq!(check_every_split(bytes), Err(Flaw::Missing), "{}", bytes.escape_ascii());
        }
        assert_eq!(parse(b""), Ok(None));
    }

    /// Bytes that look like a header for a while.
    fn almost() -> impl Strategy<Value = Vec<u8>> {
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
        fn any_split_gives_what_the_whole_does(bytes in almost(), after in any::<Vec<u8>>()) {
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
