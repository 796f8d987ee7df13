//! Who a client has proved to be, for applications.

use std::sync::Arc;

use rustls::pki_types::CertificateDer;
use webpki::EndEntityCert;

/// `commonName` (RFC 5280 A.1), as it is encoded: 2.5.4.3.
const COMMON_NAME: &[u8] = &[0x55, 0x04, 0x03];

const SEQUENCE: u8 = 0x30;
const SET: u8 = 0x31;
const OBJECT_IDENTIFIER: u8 = 0x06;
const UTF8_STRING: u8 = 0x0c;
const PRINTABLE_STRING: u8 = 0x13;
const IA5_STRING: u8 = 0x16;

/// The certificate by which a client has proved who it is to one of the site's authorities: in the
/// request's extensions, where there is one (RFC 8446 4.4.2).
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct ClientCertificate(Arc<[CertificateDer<'static>]>);

impl ClientCertificate {
    /// Of a handshake's chain, the client's own first.
    pub(crate) fn new(chain: &[CertificateDer<'static>]) -> ClientCertificate {
        ClientCertificate(chain.into())
    }

    /// The certificate, in DER.
    pub fn der(&self) -> &[u8] {
        self.0.first().map_or(&[], |leaf| leaf)
    }

    /// The certificate and those the client sent with it, in DER.
    pub fn chain(&self) -> impl Iterator<Item = &[u8]> {
        self.0.iter().map(|certificate| &**certificate)
    }

    /// The DNS names it is for (`subjectAltName`, RFC 5280 4.2.1.6).
    pub fn dns_names(&self) -> Vec<String> {
        let Some(leaf) = self.parsed() else { return Vec::new() };
        leaf.valid_dns_names().map(str::to_owned).collect()
    }

    /// The first `commonName` of its subject, if there is one in UTF-8 or ASCII.
    pub fn common_name(&self) -> Option<String> {
        common_name(self.parsed()?.subject()).map(str::to_owned)
    }

    fn parsed(&self) -> Option<EndEntityCert<'_>> {
        EndEntityCert::try_from(self.0.first()?).ok()
    }
}

/// From the contents of a Name (RFC 5280 4.1.2.4): a sequence of sets of pairs of a type and a
/// value.
fn common_name(mut subject: &[u8]) -> Option<&str> {
    while !subject.is_empty() {
        let (set, rest) = element(subject, SET)?;
        subject = rest;
        let mut pairs = set;
        while !pairs.is_empty() {
            let (pair, rest) = element(pairs, SEQUENCE)?;
            pairs = rest;
            let (kind, value) = element(pair, OBJECT_IDENTIFIER)?;
            if kind == COMMON_NAME {
                let text = [UTF8_STRING, PRINTABLE_STRING, IA5_STRING];
                let tag = text.into_iter().find(|tag| value.first() == Some(tag))?;
                return std::str::from_utf8(element(value, tag)?.0).ok();
            }
        }
    }
    None
}

/// The contents of the element with this tag at the front, and what is behind it (X.690 8.1).
fn element(bytes: &[u8], tag: u8) -> Option<(&[u8], &[u8])> {
    let rest = bytes.strip_prefix(&[tag])?;
    let (len, rest) = match *rest {
        [len @ 0..=0x7f, ref rest @ ..] => (usize::from(len), rest),
        [0x81, len, ref rest @ ..] => (usize::from(len), rest),
        [0x82, high, low, ref rest @ ..] => (usize::from(u16::from_be_bytes([high, low])), rest),
        _ => return None,
    };
    rest.split_at_checked(len)
}

#[cfg(test)]
mod tests {
    use proptest::prelude::*;

    use super::*;

    #[test]
    fn the_common_name_is_found_among_other_attributes() {
        // C=DE, then CN=alice.
        let country = b"\x31\x0b\x30\x09\x06\x03\x55\x04\x06\x13\x02DE";
        let name = b"\x31\x0e\x30\x0c\x06\x03\x55\x04\x03\x0c\x05alice";
        assert_eq!(common_name(&[&country[..], name].concat()), Some("alice"));
        assert_eq!(common_name(country), None);
        assert_eq!(common_name(&name[..name.len() - 1]), None, "cut short");
    }

    proptest! {
        #[test]
        fn any_subject_is_read_or_not(subject in prop::collection::vec(any::<u8>(), 0..64)) {
            common_name(&subject);
        }
    }
}
