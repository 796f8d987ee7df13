//! Version 2: a binary header, which may have remarks behind its addresses (section 2.2).

use std::net::{IpAddr, Ipv4Addr, Ipv6Addr};

use super::{Client, Flaw, HEADER_BYTES_MAX, Header};

/// What the header begins with.
pub(super) const SIGNATURE: &[u8] = b"\r\n\r\n\0\r\nQUIT\n";

/// Bytes before the addresses: the signature, version and command, family and protocol, length.
const FIXED_BYTES: usize = 16;

/// A unix socket's name, and its padding.
const UNIX_BYTES: usize = 108;

/// Section 2.2.3: the remark that holds the header's checksum.
const TYPE_CRC32C: u8 = 0x03;

#[derive(Clone, Copy, Debug, PartialEq, Eq)]
enum Family {
    /// The addresses, if there are some, say nothing.
    Unspecified,
    Inet,
    Inet6,
    Unix,
}

/// Reads a header whose signature is right, as far as it is here.
pub(super) fn parse(bytes: &[u8]) -> Result<Option<Header>, Flaw> {
    let mut fixed = bytes.iter().skip(SIGNATURE.len()).copied();
    let Some(command) = fixed.next() else { return Ok(None) };
    let is_local = is_local(command)?;
    let Some(family) = fixed.next() else { return Ok(None) };
    // Section 2.2: a LOCAL header's family is ignored, and so is all that follows.
    let family = if is_local { Family::Unspecified } else { Family::of(family)? };
    let (Some(high), Some(low)) = (fixed.next(), fixed.next()) else { return Ok(None) };
    let block_bytes = usize::from(u16::from_be_bytes([high, low]));
    let len = FIXED_BYTES + block_bytes;
    if len > HEADER_BYTES_MAX {
        return Err(Flaw::TooLarge);
    }
    if block_bytes < family.bytes() {
        return Err(Flaw::Length);
    }
    let Some(header) = bytes.get(..len) else { return Ok(None) };
    if family != Family::Unspecified {
        check_remarks(header, FIXED_BYTES + family.bytes())?;
    }
    let client = family.client(&header[FIXED_BYTES..]).ok_or(Flaw::Length)?;
    Ok(Some(Header { client, len }))
}

/// Whether a balancer speaks for itself.
fn is_local(version_and_command: u8) -> Result<bool, Flaw> {
    match (version_and_command >> 4, version_and_command & 0x0f) {
        (2, 0) => Ok(true),
        (2, 1) => Ok(false),
        (2, _) => Err(Flaw::Command),
        _ => Err(Flaw::Version),
    }
}

impl Family {
    fn of(family_and_protocol: u8) -> Result<Family, Flaw> {
        match (family_and_protocol >> 4, family_and_protocol & 0x0f) {
            (0..=3, 0) | (0, 1 | 2) => Ok(Family::Unspecified),
            // A stream, or a datagram: a balancer may have heard the client over QUIC.
            (1, 1 | 2) => Ok(Family::Inet),
            (2, 1 | 2) => Ok(Family::Inet6),
            (3, 1 | 2) => Ok(Family::Unix),
            _ => Err(Flaw::Family),
        }
    }

    /// What the addresses take, ports included.
    fn bytes(self) -> usize {
        match self {
            Family::Unspecified => 0,
            Family::Inet => 2 * 4 + 2 * 2,
            Family::Inet6 => 2 * 16 + 2 * 2,
            Family::Unix => 2 * UNIX_BYTES,
        }
    }

    /// The source, which comes first; `None`: it is not there.
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

/// Steps over the remarks (TLVs: type, length, value), which must fill the header, and checks the
/// checksum if one of them holds it (section 2.2.3: whoever can must).
fn check_remarks(header: &[u8], start: usize) -> Result<(), Flaw> {
    let (mut at, mut checksum) = (start, None);
    while at < header.len() {
        let [kind, high, low] = *header[at..].first_chunk::<3>().ok_or(Flaw::Remarks)?;
        at += 3;
        let end = at + usize::from(u16::from_be_bytes([high, low]));
        let value = header.get(at..end).ok_or(Flaw::Remarks)?;
        if kind == TYPE_CRC32C {
            let stored = <[u8; 4]>::try_from(value).map_err(|_| Flaw::Remarks)?;
            // Twice, it could not be right: each would have to know the other.
            if checksum.replace((at..end, u32::from_be_bytes(stored))).is_some() {
                return Err(Flaw::Remarks);
            }
        }
        at = end;
    }
    let Some((field, stored)) = checksum else { return Ok(()) };
    let zeroed = |(at, byte): (usize, &u8)| if field.contains(&at) { 0 } else { *byte };
    match crc32c(header.iter().enumerate().map(zeroed)) == stored {
        true => Ok(()),
        false => Err(Flaw::Checksum),
    }
}

/// RFC 3720 B.4 and RFC 4960, appendix B. Bit by bit: few balancers send one, and never more than
/// one a connection.
fn crc32c(bytes: impl Iterator<Item = u8>) -> u32 {
    /// Castagnoli's polynomial, its bits reversed.
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

    fn client(bytes: &[u8]) -> Result<Client, Flaw> {
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
        let table: [(&str, u8, u8, &[u8], Result<Client, Flaw>); 19] = [
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
            ("LOCAL with a family nobody knows", 0x20, 0xff, &[1], Ok(Client::Peer)),
            ("another command", 0x22, 0x11, INET, Err(Flaw::Command)),
            ("another version", 0x11, 0x11, INET, Err(Flaw::Version)),
            ("another family", 0x21, 0x41, INET, Err(Flaw::Family)),
            ("another protocol", 0x21, 0x13, INET, Err(Flaw::Family)),
            ("a byte too few", 0x21, 0x11, &INET[1..], Err(Flaw::Length)),
            ("IPv6 as long as IPv4", 0x21, 0x21, INET, Err(Flaw::Length)),
        ];
        for (sentence, command, family, block, expected) in table {
            assert_eq!(client(&header(command, family, &[block])), expected, "{sentence}");
        }
    }

    #[test]
    fn remarks_are_stepped_over_and_checked() {
        let good = Ok(Client::Address("192.0.2.1".parse().unwrap()));
        // Of INET with this one remark; computed by another implementation.
        const SUM: &[u8] = &[3, 0, 4, 0xD6, 0xC8, 0xC7, 0x5F];
        let table: [(&str, &[&[u8]], Result<Client, Flaw>); 9] = [
            ("one", &[&[4, 0, 2, 9, 9]], good),
            ("an empty one", &[&[4, 0, 0]], good),
            ("two, one of a kind nobody knows", &[&[4, 0, 0], &[0xEE, 0, 1, 7]], good),
            ("longer than the header", &[&[4, 0, 3, 9, 9]], Err(Flaw::Remarks)),
            ("a type and no length", &[&[4, 0]], Err(Flaw::Remarks)),
            ("a checksum", &[SUM], good),
            ("another header's checksum", &[SUM, &[4, 0, 0]], Err(Flaw::Checksum)),
            ("a checksum of three bytes", &[&[3, 0, 3, 1, 2, 3]], Err(Flaw::Remarks)),
            ("two checksums", &[SUM, SUM], Err(Flaw::Remarks)),
        ];
        for (sentence, remarks, expected) in table {
            let block = [&[INET][..], remarks].concat();
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
        // That there is one it cannot say.
        let kind = at - 3;
        for at in (FIXED_BYTES..bytes.len()).filter(|at| *at != kind) {
            let mut broken = bytes.clone();
            broken[at] ^= 0x10;
            assert!(parse(&broken).is_err(), "byte {at}");
        }
        // RFC 3720 B.4 has more; this is the customary one.
        assert_eq!(crc32c(b"123456789".iter().copied()), 0xE306_9283);
    }

    #[test]
    fn a_header_that_would_be_too_large_is_refused_before_it_comes() {
        let of = |len: usize| {
            let block = (len - FIXED_BYTES) as u16;
            [SIGNATURE, &[0x21, 0x11], &block.to_be_bytes()].concat()
        };
        assert_eq!(parse(&of(HEADER_BYTES_MAX)), Ok(None));
        assert_eq!(parse(&of(HEADER_BYTES_MAX + 1)), Err(Flaw::TooLarge));
    }
}
