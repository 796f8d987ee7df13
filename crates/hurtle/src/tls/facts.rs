//! What can be known of a certificate that the server got itself, kept in one file with its key:
//! enough to tell whether it serves, and when another is needed.

use rustls::crypto::aws_lc_rs;
use rustls::pki_types::pem::PemObject;
use rustls::pki_types::{CertificateDer, PrivateKeyDer};
use rustls::sign::CertifiedKey;
use webpki::EndEntityCert;

use super::der::Der;
use super::pem;
use crate::config::HostName;

/// A certificate and its key that belong together.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct Facts {
    /// From when to when it is valid, in seconds since 1970.
    pub valid: (u64, u64),
    /// The key identifier of its issuer and its serial number (RFC 9773 4.1), where it has both.
    pub id: Option<(Vec<u8>, Vec<u8>)>,
    /// The names of the site that it is not for.
    pub lacks: Vec<String>,
    /// The certificate itself, in DER.
    pub der: Vec<u8>,
}

impl Facts {
    /// Reads a file's contents.
    ///
    /// # Errors
    /// Why it cannot be served with.
    pub fn read(bytes: &[u8], hosts: &[HostName]) -> Result<Facts, String> {
        let chain: Result<Vec<_>, _> = CertificateDer::pem_slice_iter(bytes).collect();
        let chain = chain.map_err(|e| format!("its certificates cannot be read: {e:?}"))?;
        let key = PrivateKeyDer::from_pem_slice(bytes);
        let key = key.map_err(|e| format!("its key cannot be read: {e:?}"))?;
        let leaf = chain.first().cloned().ok_or("there is no certificate in it")?;
        CertifiedKey::from_der(chain, key, &aws_lc_rs::default_provider())
            .map_err(|e| format!("certificate and key do not go together: {e}"))?;
        let parsed = EndEntityCert::try_from(&leaf);
        let parsed = parsed.map_err(|e| format!("it is no server's certificate: {e}"))?;
        let valid = pem::beginning(&leaf).zip(pem::expiry(&leaf));
        let (from, until) = valid.ok_or("its time cannot be read")?;
        let id = issuer_key(&leaf).map(|issuer| (issuer.to_vec(), parsed.serial().to_vec()));
        let lacks = hosts.iter().filter(|host| !pem::covers(&parsed, host));
        Ok(Facts {
            valid: (from.as_secs(), until.as_secs()),
            id,
            lacks: lacks.map(ToString::to_string).collect(),
            der: leaf.to_vec(),
        })
    }
}

const SEQUENCE: u8 = 0x30;
const OBJECT_IDENTIFIER: u8 = 0x06;
const BOOLEAN: u8 = 0x01;
const OCTET_STRING: u8 = 0x04;
/// `[0]`, a key identifier (RFC 5280 4.2.1.1).
const KEY_IDENTIFIER: u8 = 0x80;
/// `[3]`, the extensions of a certificate (RFC 5280 4.1).
const EXTENSIONS: u8 = 0xa3;
/// id-ce-authorityKeyIdentifier.
const AUTHORITY_KEY: &[u8] = &[0x55, 0x1d, 0x23];

/// The key identifier of a certificate's issuer (RFC 5280 4.2.1.1).
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
    fn what_is_needed_is_found() {
        let mut authority = CertificateParams::default();
        authority.is_ca = IsCa::Ca(BasicConstraints::Unconstrained);
        let issuer_key = KeyPair::generate().unwrap();
        let own = authority.key_identifier(&issuer_key);
        let issuer = Issuer::new(authority, issuer_key);
        let mut params = CertificateParams::new(vec!["a.test".to_owned()]).unwrap();
        params.use_authority_key_identifier_extension = true;
        params.serial_number = Some(vec![0x87, 1].into());
        let key = KeyPair::generate().unwrap();
        let signed = params.signed_by(&key, &issuer).unwrap();
        let host = |name: &str| HostName::Exact(name.to_owned());
        let text = key.serialize_pem() + &signed.pem();
        let facts = Facts::read(text.as_bytes(), &[host("a.test"), host("b.test")]).unwrap();
        // A number whose first bit is set begins with a zero, which is part of its name.
        assert_eq!(facts.id, Some((own, vec![0, 0x87, 1])));
        assert_eq!(facts.lacks, ["b.test"]);
        assert!(facts.valid.0 < facts.valid.1);
        let other = KeyPair::generate().unwrap().serialize_pem() + &signed.pem();
        assert!(Facts::read(other.as_bytes(), &[]).unwrap_err().contains("together"));
    }
}
