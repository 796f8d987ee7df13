//! An ACME certificate with its key in one PEM file: what its renewal depends on.

use rustls::crypto::aws_lc_rs;
use rustls::pki_types::pem::PemObject;
use rustls::pki_types::{CertificateDer, PrivateKeyDer};
use rustls::sign::CertifiedKey;
use webpki::EndEntityCert;

use super::der::{BOOLEAN, Der, OBJECT_IDENTIFIER, OCTET_STRING, SEQUENCE};
use super::pem;
use crate::config::HostName;

/// The validity period of a certificate (RFC 5280 section 4.1.2.5), in seconds since 1970.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub struct Validity {
    /// `notBefore`.
    pub from: u64,
    /// `notAfter`.
    pub until: u64,
}

impl Validity {
    pub(super) fn of(leaf: &CertificateDer<'_>) -> Option<Validity> {
        let (from, until) = (pem::not_before(leaf)?, pem::not_after(leaf)?);
        Some(Validity { from: from.as_secs(), until: until.as_secs() })
    }
}

/// The identifier of a certificate for its authority's renewal information (RFC 9773 section 4.1).
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct CertificateId {
    /// The identifier of the issuer's key.
    pub issuer_key: Vec<u8>,
    /// The serial number, as in the certificate's DER.
    pub serial: Vec<u8>,
}

/// A certificate whose file also has its key.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct IssuedCertificate {
    pub valid: Validity,
    /// `None`: it does not name its issuer's key.
    pub id: Option<CertificateId>,
    /// Names of the site that the certificate lacks.
    pub missing_names: Vec<String>,
    /// The certificate, in DER.
    pub der: Vec<u8>,
}

impl IssuedCertificate {
    /// Reads the contents of the file.
    ///
    /// # Errors
    /// Why the server cannot use it.
    pub fn read(bytes: &[u8], hosts: &[HostName]) -> Result<IssuedCertificate, String> {
        IssuedCertificate::read_with_key(bytes, hosts).map(|(issued, _)| issued)
    }

    /// Reads them, and makes the certificate of handshakes.
    ///
    /// # Errors
    /// Why the server cannot use it.
    pub(super) fn read_with_key(
        bytes: &[u8],
        hosts: &[HostName],
    ) -> Result<(IssuedCertificate, CertifiedKey), String> {
        let chain: Result<Vec<_>, _> = CertificateDer::pem_slice_iter(bytes).collect();
        let chain =
            chain.map_err(|e| format!("its certificates cannot be read: {}", pem::reason(&e)))?;
        let key = PrivateKeyDer::from_pem_slice(bytes);
        let key = key.map_err(|e| format!("its key cannot be read: {}", pem::reason(&e)))?;
        let leaf = chain.first().cloned().ok_or("it contains no certificate")?;
        let certified = CertifiedKey::from_der(chain, key, &aws_lc_rs::default_provider())
            .map_err(|e| format!("certificate and key do not belong together: {e}"))?;
        let parsed = EndEntityCert::try_from(&leaf);
        let parsed = parsed.map_err(|e| format!("it is not a server certificate: {e}"))?;
        let valid = Validity::of(&leaf).ok_or("its validity period cannot be read")?;
        let id = issuer_key(&leaf).map(|issuer_key| CertificateId {
            issuer_key: issuer_key.to_vec(),
            serial: parsed.serial().to_vec(),
        });
        let missing = hosts.iter().filter(|host| !pem::covers(&parsed, host));
        let issued = IssuedCertificate {
            valid,
            id,
            missing_names: missing.map(ToString::to_string).collect(),
            der: leaf.to_vec(),
        };
        Ok((issued, certified))
    }
}

/// Tag of a key identifier, `[0]` (RFC 5280 section 4.2.1.1).
const KEY_IDENTIFIER: u8 = 0x80;
/// Tag of a certificate's extensions, `[3]` (RFC 5280 section 4.1).
const EXTENSIONS: u8 = 0xa3;
/// DER of the object identifier `id-ce-authorityKeyIdentifier`.
const AUTHORITY_KEY: &[u8] = &[0x55, 0x1d, 0x23];

/// Finds the key identifier of a certificate's issuer (RFC 5280 section 4.2.1.1).
fn issuer_key(der: &[u8]) -> Option<&[u8]> {
    let mut fields = Der(der).enter(SEQUENCE)?.enter(SEQUENCE)?;
    let mut extensions = loop {
        match fields.enter(EXTENSIONS) {
            Some(mut within) => break within.enter(SEQUENCE)?,
            None => drop(fields.skip()?),
        }
    };
    loop {
        let mut extension = extensions.enter(SEQUENCE)?;
        let kind = extension.take(OBJECT_IDENTIFIER)?;
        let _critical = extension.take(BOOLEAN);
        let value = extension.take(OCTET_STRING)?;
        if kind == AUTHORITY_KEY {
            return Der(value).enter(SEQUENCE)?.take(KEY_IDENTIFIER);
        }
    }
}

#[cfg(test)]
mod tests {
    use rcgen::{BasicConstraints, CertificateParams, IsCa, Issuer, KeyPair};

    use super::*;

    #[test]
    fn identifier_names_and_lifetime_are_read() {
        let mut authority = CertificateParams::default();
        authority.is_ca = IsCa::Ca(BasicConstraints::Unconstrained);
        let issuer_key = KeyPair::generate().unwrap();
        let key_identifier = authority.key_identifier(&issuer_key);
        let issuer = Issuer::new(authority, issuer_key);
        let mut params = CertificateParams::new(vec!["a.test".to_owned()]).unwrap();
        params.use_authority_key_identifier_extension = true;
        params.serial_number = Some(vec![0x87, 1].into());
        let key = KeyPair::generate().unwrap();
        let signed = params.signed_by(&key, &issuer).unwrap();
        let host = |name: &str| HostName::Exact(name.to_owned());
        let text = key.serialize_pem() + &signed.pem();
        let issued =
            IssuedCertificate::read(text.as_bytes(), &[host("a.test"), host("b.test")]).unwrap();
        // DER puts a zero before a serial number whose first bit is set; the identifier includes
        // it.
        let id = CertificateId { issuer_key: key_identifier, serial: vec![0, 0x87, 1] };
        assert_eq!(issued.id, Some(id));
        assert_eq!(issued.missing_names, ["b.test"]);
        assert!(issued.valid.from < issued.valid.until);
        let other = KeyPair::generate().unwrap().serialize_pem() + &signed.pem();
        assert!(IssuedCertificate::read(other.as_bytes(), &[]).unwrap_err().contains("together"));
    }
}
