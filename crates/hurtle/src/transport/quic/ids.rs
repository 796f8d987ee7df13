//! Connection IDs (RFC 9000 section 5.1) that name the endpoint of an address to which the
//! connection belongs, so that any endpoint can forward a datagram.
//!
//! An ID has 8 bytes: the number of the endpoint, masked; 4 random bytes that, with a secret, give
//! the mask; and 3 more random bytes. The mask keeps observers from reading the number. It is
//! simple enough for a packet filter of the kernel.

use std::time::Duration;

use quinn_proto::{ConnectionId, ConnectionIdGenerator, InvalidCid};

/// Length of a connection ID, in bytes.
pub(super) const ID_BYTES: usize = 8;

/// Most endpoints of one address, as one byte numbers them.
pub(super) const ENDPOINTS_MAX: usize = 256;

/// Random bytes that are read from the system at once.
const RANDOM_BYTES: usize = 64 * (ID_BYTES - 1);

/// First bit of a packet with a long header, which has no ID of ours at a known place (RFC 8999
/// section 5.1).
const LONG_HEADER: u8 = 0x80;

/// Makes the IDs of one endpoint's connections.
#[derive(Clone, Debug)]
pub(super) struct IdGenerator {
    number: u8,
    factor: u32,
    random: Vec<u8>,
}

impl IdGenerator {
    pub(super) fn new(number: usize, factor: u32) -> IdGenerator {
        IdGenerator { number: number as u8, factor, random: Vec::new() }
    }
}

impl ConnectionIdGenerator for IdGenerator {
    fn generate_cid(&mut self) -> ConnectionId {
        if self.random.len() < ID_BYTES - 1 {
            self.random.resize(RANDOM_BYTES, 0);
            getrandom::fill(&mut self.random).expect("the system has random bytes");
        }
        let mut id = [0; ID_BYTES];
        let rest = self.random.len() - (ID_BYTES - 1);
        id[1..].copy_from_slice(&self.random[rest..]);
        self.random.truncate(rest);
        id[0] = self.number ^ mask(&id, self.factor);
        ConnectionId::new(&id)
    }

    /// Other endpoints are numbered too, and their datagrams are forwarded before.
    fn validate(&self, id: &ConnectionId) -> Result<(), InvalidCid> {
        match <&[u8; ID_BYTES]>::try_from(&id[..]) {
            Ok(id) if id[0] ^ mask(id, self.factor) == self.number => Ok(()),
            _ => Err(InvalidCid),
        }
    }

    fn cid_len(&self) -> usize {
        ID_BYTES
    }

    fn cid_lifetime(&self) -> Option<Duration> {
        None
    }
}

fn mask(id: &[u8; ID_BYTES], factor: u32) -> u8 {
    let random = u32::from_be_bytes([id[1], id[2], id[3], id[4]]);
    (random.wrapping_mul(factor) >> 24) as u8
}

/// Returns the number of the endpoint to which a datagram belongs. `None`: the endpoint that has
/// received it.
pub(super) fn endpoint_of(datagram: &[u8], factor: u32) -> Option<usize> {
    if datagram.first()? & LONG_HEADER != 0 {
        return None;
    }
    let id: &[u8; ID_BYTES] = datagram.get(1..=ID_BYTES)?.try_into().ok()?;
    Some(usize::from(id[0] ^ mask(id, factor)))
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn an_id_names_its_endpoint() {
        for number in [0, 1, 7, 255] {
            let mut ids = IdGenerator::new(number, 0x9e37_79b1);
            for _ in 0..100 {
                let id = ids.generate_cid();
                assert!(ids.validate(&id).is_ok());
                let short = [&[0x40][..], &id, b"payload"].concat();
                assert_eq!(endpoint_of(&short, 0x9e37_79b1), Some(number));
            }
        }
    }

    #[test]
    fn datagrams_without_an_id_of_ours_stay_where_they_are() {
        let rows: [(&str, &[u8]); 3] = [
            ("empty", b""),
            ("a long header", b"\xc0\0\0\0\x01\x08abcdefgh"),
            ("too short", b"\x40abcdefg"),
        ];
        for (sentence, datagram) in rows {
            assert_eq!(endpoint_of(datagram, 3), None, "{sentence}");
        }
    }

    #[test]
    fn the_number_is_not_visible() {
        let mut ids = IdGenerator::new(3, 0x9e37_79b1);
        let first: std::collections::BTreeSet<u8> =
            (0..200).map(|_| ids.generate_cid()[0]).collect();
        assert!(first.len() > 50, "{first:?}");
    }
}
