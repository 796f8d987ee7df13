//! Makes headers for a server that expects them.

use std::net::IpAddr;

use super::{Client, v1, v2};

/// A version of the header.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum Version {
    /// A line of text (section 2.1).
    One,
    /// Binary (section 2.2).
    Two,
}

/// Returns the header that names a client. Its port and the address that it connected to are 0: a
/// proxy of requests does not know them. `Client::Unix` is written as `Client::Peer`, a connection
/// of the sender's own.
pub fn encode(version: Version, client: Client) -> Vec<u8> {
    let address = match client {
        Client::Address(address) => Some(address.to_canonical()),
        Client::Peer | Client::Unix => None,
    };
    match (version, address) {
        (Version::One, None) => b"PROXY UNKNOWN\r\n".to_vec(),
        (Version::One, Some(IpAddr::V4(address))) => {
            [v1::PREFIX, format!("TCP4 {address} 0.0.0.0 0 0\r\n").as_bytes()].concat()
        }
        (Version::One, Some(IpAddr::V6(address))) => {
            [v1::PREFIX, format!("TCP6 {address} :: 0 0\r\n").as_bytes()].concat()
        }
        // The command LOCAL, the family UNSPEC.
        (Version::Two, None) => binary(0, 0, &[]),
        (Version::Two, Some(IpAddr::V4(address))) => {
            binary(1, 0x11, &[&address.octets()[..], &[0; 8]].concat())
        }
        (Version::Two, Some(IpAddr::V6(address))) => {
            binary(1, 0x21, &[&address.octets()[..], &[0; 20]].concat())
        }
    }
}

/// A header of version 2 without values (TLVs).
fn binary(command: u8, family: u8, addresses: &[u8]) -> Vec<u8> {
    let len = addresses.len() as u8;
    [v2::SIGNATURE, &[0x20 | command, family, 0, len], addresses].concat()
}
