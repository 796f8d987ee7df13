//! The certificate of a client, as applications see it.

use std::sync::Arc;

use rustls::pki_types::{CertificateDer, UnixTime};
use webpki::EndEntityCert;

use super::der::{
    Der, IA5_STRING, OBJECT_IDENTIFIER, PRINTABLE_STRING, SEQUENCE, SET, UTF8_STRING,
};
use super::pem::not_after;
use super::subject;

/// DER of the object identifier `commonName`, 2.5.4.3 (RFC 5280 appendix A.1).
const COMMON_NAME: &[u8] = &[0x55, 0x04, 0x03];

/// A verified client certificate (RFC 8446 section 4.4.2), issued by one of the site's client
/// authorities. A request's extensions hold it if the client sent one.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct ClientCertificate(Arc<[CertificateDer<'static>]>);

impl ClientCertificate {
    /// Takes the chain of a handshake, the client's certificate first.
    pub(crate) fn new(chain: &[CertificateDer<'static>]) -> ClientCertificate {
        ClientCertificate(chain.into())
    }

    /// The certificate, in DER.
    pub fn der(&self) -> &[u8] {
        self.0.first().map_or(&[], |leaf| leaf)
    }

    /// The certificate and the intermediates that the client sent, in DER.
    pub fn chain(&self) -> impl Iterator<Item = &[u8]> {
        self.0.iter().map(|certificate| &**certificate)
    }

    /// The DNS names of the certificate (`subjectAltName`, RFC 5280 section 4.2.1.6).
    pub fn dns_names(&self) -> Vec<String> {
        let Some(leaf) = self.parsed() else { return Vec::new() };
        leaf.valid_dns_names().map(str::to_owned).collect()
    }

    /// The first `commonName` of the subject; `None` without one in UTF-8 or ASCII.
    pub fn common_name(&self) -> Option<String> {
        common_name(self.parsed()?.subject()).map(str::to_owned)
    }

    /// The subject as text (RFC 4514), such as `CN=anna,O=Example`; `None`: it is malformed or has
    /// control characters.
    pub fn subject(&self) -> Option<String> {
        subject::text(self.parsed()?.subject())
    }

    /// `true` if the certificate's validity has ended. A resumed session has the certificate of its
    /// first handshake (RFC 8446 section 4.6.1).
    pub(crate) fn is_expired(&self) -> bool {
        let until = self.0.first().and_then(not_after);
        until.is_some_and(|until| until.as_secs() < UnixTime::now().as_secs())
    }

    fn parsed(&self) -> Option<EndEntityCert<'_>> {
        EndEntityCert::try_from(self.0.first()?).ok()
    }
}

/// Finds the `commonName` in the contents of a Name (RFC 5280 section 4.1.2.4).
pub(super) fn common_name(subject: &[u8]) -> Option<&str> {
    let mut sets = Der(subject);
    while !sets.0.is_empty() {
        let mut attributes = sets.enter(SET)?;
        while !attributes.0.is_empty() {
            let mut attribute = attributes.enter(SEQUENCE)?;
            if attribute.take(OBJECT_IDENTIFIER)? == COMMON_NAME {
                let text = [UTF8_STRING, PRINTABLE_STRING, IA5_STRING];
                let value = text.into_iter().find_map(|tag| attribute.take(tag))?;
                return std::str::from_utf8(value).ok();
            }
        }
    }
    None
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
        fn no_subject_causes_a_panic(subject in prop::collection::vec(any::<u8>(), 0..64)) {
            common_name(&subject);
        }
    }
}
