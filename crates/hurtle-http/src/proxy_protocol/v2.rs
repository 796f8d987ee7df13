//! Version 2 of the header: binary, with optional values (TLVs) after the addresses (section 2.2).

use std::net::{IpAddr, Ipv4Addr, Ipv6Addr};

use super::{Client, HEADER_BYTES_MAX, Header, ProxyHeaderError};

/// First bytes of the header.
pub(super) const SIGNATURE: &[u8] = b"\r\n\r\n\0\r\nQUIT\n";

/// Size in bytes of the part before the addresses: signature, version and command, family and
/// protocol, length.
const FIXED_BYTES: usize = 16;

/// Size in bytes of a unix socket's name with its padding.
const UNIX_BYTES: usize = 108;

/// Type of the value that holds the header's checksum (section 2.2.3).
const TYPE_CRC32C: u8 = 0x03;

#[derive(Clone, Copy, Debug, PartialEq, Eq)]
enum Family {
    /// The client is unknown; addresses are ignored.
    Unspecified,
    Inet,
    Inet6,
    Unix,
}

/// Parses a header whose signature has been checked; `None` means that more bytes are needed.
pub(super) fn parse(bytes: &[u8]) -> Result<Option<Header>, ProxyHeaderError> {
    let mut fixed = bytes.iter().skip(SIGNATURE.len()).copied();
    let Some(command) = fixed.next() else { return Ok(None) };
    let is_local = is_local(command)?;
    let Some(family) = fixed.next() else { return Ok(None) };
    // Section 2.2: family and content of a LOCAL header are ignored.
    let family = if is_local { Family::Unspecified } else { Family::of(family)? };
    let (Some(high), Some(low)) = (fixed.next(), fixed.next()) else { return Ok(None) };
    let block_bytes = usize::from(u16::from_be_bytes([high, low]));
    let len = FIXED_BYTES + block_bytes;
    if len > HEADER_BYTES_MAX {
        return Err(ProxyHeaderError::TooLarge);
    }
    if block_bytes < family.bytes() {
        return Err(ProxyHeaderError::Length);
    }
    let Some(header) = bytes.get(..len) else { return Ok(None) };
    if family != Family::Unspecified {
        check_tlvs(header, FIXED_BYTES + family.bytes())?;
    }
    let client = family.client(&header[FIXED_BYTES..]).ok_or(ProxyHeaderError::Length)?;
    Ok(Some(Header { client, len }))
}

/// True if the balancer opened the connection for itself (LOCAL), false for PROXY.
fn is_local(version_and_command: u8) -> Result<bool, ProxyHeaderError> {
    match (version_and_command >> 4, version_and_command & 0x0f) {
        (2, 0) => Ok(true),
        (2, 1) => Ok(false),
        (2, _) => Err(ProxyHeaderError::Command),
        _ => Err(ProxyHeaderError::Version),
    }
}

impl Family {
    fn of(family_and_protocol: u8) -> Result<Family, ProxyHeaderError> {
        match (family_and_protocol >> 4, family_and_protocol & 0x0f) {
            (0..=3, 0) | (0, 1 | 2) => Ok(Family::Unspecified),
            // Streams and datagrams: a balancer may have received the client's bytes over QUIC.
            (1, 1 | 2) => Ok(Family::Inet),
            (2, 1 | 2) => Ok(Family::Inet6),
            (3, 1 | 2) => Ok(Family::Unix),
            _ => Err(ProxyHeaderError::Family),
        }
    }

    /// Size of both addresses in bytes, including ports.
    fn bytes(self) -> usize {
        match self {
            Family::Unspecified => 0,
            Family::Inet => 2 * 4 + 2 * 2,
            Family::Inet6 => 2 * 16 + 2 * 2,
            Family::Unix => 2 * UNIX_BYTES,
        }
    }

    /// Reads the source address, which is first; `None` if the block is too short.
    fn client(self, block: &[u8]) -> Option<Client> {
        let address = match self {
            Family::Unspecified => return Some(Client::Peer),
            Family::Unix => return Some(Client::Unix),
            Family::Inet => IpAddr::V4(Ipv4Addr::from(*block.first_chunk::<4>()?)),
            Family::Inet6 => IpAddr::V6(Ipv6Addr::from(*block.first_chunk::<16>()?)),
        };
        Some(Client::Address(address.to_canonical()))
    }
}

/// Checks that the values (TLVs: type, length, value) fill the header exactly, and verifies the
/// checksum if one of them holds it (section 2.2.3).
fn check_tlvs(header: &[u8], start: usize) -> Result<(), ProxyHeaderError> {
    let (mut at, mut checksum) = (start, None);
    while at < header.len() {
        let [kind, high, low] = *header[at..].first_chunk::<3>().ok_or(ProxyHeaderError::Tlv)?;
        at += 3;
        let end = at + usize::from(u16::from_be_bytes([high, low]));
        let value = header.get(at..end).ok_or(ProxyHeaderError::Tlv)?;
        if kind == TYPE_CRC32C {
            let stored = <[u8; 4]>::try_from(value).map_err(|_| ProxyHeaderError::Tlv)?;
            // Two checksums cannot both be right: each covers the other.
            if checksum.replace((at..end, u32::from_be_bytes(stored))).is_some() {
                return Err(ProxyHeaderError::Tlv);
            }
        }
        at = end;
    }
    let Some((field, stored)) = checksum else { return Ok(()) };
    let zeroed = |(at, byte): (usize, &u8)| if field.contains(&at) { 0 } else { *byte };
    match crc32c(header.iter().enumerate().map(zeroed)) == stored {
        true => Ok(()),
        false => Err(ProxyHeaderError::Checksum),
    }
}

/// CRC-32C (RFC 3720 appendix B.4; RFC 4960 appendix B), bit by bit. A table is not worth its size:
/// few balancers send a checksum, and only once per connection.
fn crc32c(bytes: impl Iterator<Item = u8>) -> u32 {
    /// Castagnoli's polynomial, bits reversed.
    const POLYNOMIAL: u32 = 0x82F6_3B78;
    !bytes.fold(!0, |crc, byte| {
        (0..8).fold(crc ^ u32::from(byte), |crc, _| (crc >> 1) ^ ((crc & 1) * POLYNOMIAL))
    })
}

#[cfg(test)]
mod tests {
    use super::*;

    const INET: &[u8] = &[192, 0, 2, 1, 192, 0, 2, 2, 220, 4, 1, 187];

    fn header(command: u8, family: u8, block: &[&[u8]]) -> Vec<u8> {
        let block = block.concat();
        let len = u16::try_from(block.len()).unwrap().to_be_bytes();
        [SIGNATURE, &[command, family], &len, &block].concat()
    }

    fn client(bytes: &[u8]) -> Result<Client, ProxyHeaderError> {
        parse(bytes).map(|header| {
            let header = header.expect("a whole header");
            assert_eq!(header.len, bytes.len());
            header.client
        })
    }

    #[test]
    fn families_and_commands_are_told_apart() {
        let four = Ok(Client::Address("192.0.2.1".parse().unwrap()));
        let six = [&"2001:db8::1".parse::<Ipv6Addr>().unwrap().octets()[..], &[0; 20]].concat();
        let mapped = [&"::ffff:192.0.2.1".parse::<Ipv6Addr>().unwrap().octets()[..], &[0; 20]];
        let (mapped, unix) = (mapped.concat(), vec![b'/'; 216]);
        let six_is = Ok(Client::Address("2001:db8::1".parse().unwrap()));
        let table: [(&str, u8, u8, &[u8], Result<Client, ProxyHeaderError>); 19] = [
            ("TCP over IPv4", 0x21, 0x11, INET, four),
            ("UDP over IPv4", 0x21, 0x12, INET, four),
            ("TCP over IPv6", 0x21, 0x21, &six, six_is),
            ("UDP over IPv6", 0x21, 0x22, &six, six_is),
            ("IPv4 in IPv6 is IPv4", 0x21, 0x21, &mapped, four),
            ("a unix stream", 0x21, 0x31, &unix, Ok(Client::Unix)),
            ("unix datagrams", 0x21, 0x32, &unix, Ok(Client::Unix)),
            ("unspecified", 0x21, 0x00, &[], Ok(Client::Peer)),
            ("unspecified, with something", 0x21, 0x00, INET, Ok(Client::Peer)),
            ("an unspecified protocol", 0x21, 0x10, INET, Ok(Client::Peer)),
            ("LOCAL", 0x20, 0x00, &[], Ok(Client::Peer)),
            ("LOCAL with addresses", 0x20, 0x11, INET, Ok(Client::Peer)),
            ("LOCAL with an unknown family", 0x20, 0xff, &[1], Ok(Client::Peer)),
            ("another command", 0x22, 0x11, INET, Err(ProxyHeaderError::Command)),
            ("another version", 0x11, 0x11, INET, Err(ProxyHeaderError::Version)),
            ("another family", 0x21, 0x41, INET, Err(ProxyHeaderError::Family)),
            ("another protocol", 0x21, 0x13, INET, Err(ProxyHeaderError::Family)),
            ("a byte too few", 0x21, 0x11, &INET[1..], Err(ProxyHeaderError::Length)),
            ("IPv6 as long as IPv4", 0x21, 0x21, INET, Err(ProxyHeaderError::Length)),
        ];
        for (sentence, command, family, block, expected) in table {
            assert_eq!(client(&header(command, family, &[block])), expected, "{sentence}");
        }
    }

    #[test]
    fn tlvs_are_skipped_and_checked() {
        let good = Ok(Client::Address("192.0.2.1".parse().unwrap()));
        // Checksum of INET with this one value, computed by another implementation.
        const SUM: &[u8] = &[3, 0, 4, 0xD6, 0xC8, 0xC7, 0x5F];
        let table: [(&str, &[&[u8]], Result<Client, ProxyHeaderError>); 9] = [
            ("one", &[&[4, 0, 2, 9, 9]], good),
            ("an empty one", &[&[4, 0, 0]], good),
            ("two, one of an unknown type", &[&[4, 0, 0], &[0xEE, 0, 1, 7]], good),
            ("longer than the header", &[&[4, 0, 3, 9, 9]], Err(ProxyHeaderError::Tlv)),
            ("a type and no length", &[&[4, 0]], Err(ProxyHeaderError::Tlv)),
            ("a checksum", &[SUM], good),
            ("another header's checksum", &[SUM, &[4, 0, 0]], Err(ProxyHeaderError::Checksum)),
            ("a checksum of three bytes", &[&[3, 0, 3, 1, 2, 3]], Err(ProxyHeaderError::Tlv)),
            ("two checksums", &[SUM, SUM], Err(ProxyHeaderError::Tlv)),
        ];
        for (sentence, tlvs, expected) in table {
            let block = [&[INET][..], tlvs].concat();
            assert_eq!(client(&header(0x21, 0x11, &block)), expected, "{sentence}");
        }
    }

    #[test]
    fn a_checksum_notices_every_byte() {
        let mut bytes = header(0x21, 0x11, &[INET, &[4, 0, 2, 9, 9], &[3, 0, 4, 0, 0, 0, 0]]);
        let sum = crc32c(bytes.iter().copied()).to_be_bytes();
        let at = bytes.len() - sum.len();
        bytes[at..].copy_from_slice(&sum);
        assert!(client(&bytes).is_ok());
        // A changed type byte hides the checksum, so that byte is not covered.
        let kind = at - 3;
        for at in (FIXED_BYTES..bytes.len()).filter(|at| *at != kind) {
            let mut broken = bytes.clone();
            broken[at] ^= 0x10;
            assert!(parse(&broken).is_err(), "byte {at}");
        }
        // The customary check value of CRC-32C; RFC 3720 appendix B.4 has more.
        assert_eq!(crc32c(b"123456789".iter().copied()), 0xE306_9283);
    }

    #[test]
    fn a_header_that_announces_too_many_bytes_is_refused_early() {
        let of = |len: usize| {
            let block = (len - FIXED_BYTES) as u16;
            [SIGNATURE, &[0x21, 0x11], &block.to_be_bytes()].concat()
        };
        assert_eq!(parse(&of(HEADER_BYTES_MAX)), Ok(None));
        assert_eq!(parse(&of(HEADER_BYTES_MAX + 1)), Err(ProxyHeaderError::TooLarge));
    }
}
