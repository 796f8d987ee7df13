//! A test authority and its certificates.

use std::fs;
use std::path::PathBuf;
use std::time::{Duration, SystemTime};

use hurtle::config::CertificateFiles;
use rcgen::{
    BasicConstraints, CertificateParams, CertificateRevocationListParams, DnType,
    ExtendedKeyUsagePurpose, IsCa, Issuer, KeyIdMethod, KeyPair, KeyUsagePurpose, PKCS_RSA_SHA256,
    RevokedCertParams, RsaKeySize, SerialNumber, date_time_ymd,
};
use rustls::RootCertStore;
use rustls::pki_types::{CertificateDer, PrivateKeyDer, PrivatePkcs8KeyDer};
use webpki::EndEntityCert;

use crate::support::Dir;

pub(crate) struct Authority {
    issuer: Issuer<'static, KeyPair>,
    certificate: CertificateDer<'static>,
    pem: String,
}

/// A certificate and its key, in PEM.
pub(crate) struct Pair {
    pub(crate) chain: String,
    pub(crate) key: String,
}

impl Authority {
    pub(crate) fn new(name: &str) -> Authority {
        let mut params = CertificateParams::default();
        params.distinguished_name.push(DnType::CommonName, name);
        params.is_ca = IsCa::Ca(BasicConstraints::Unconstrained);
        params.key_usages = vec![KeyUsagePurpose::KeyCertSign, KeyUsagePurpose::CrlSign];
        let key = KeyPair::generate().unwrap();
        let signed = params.self_signed(&key).unwrap();
        let certificate = signed.der().clone();
        Authority { issuer: Issuer::new(params, key), certificate, pem: signed.pem() }
    }

    /// Issues a server certificate for this name.
    pub(crate) fn issue(&self, name: &str) -> Pair {
        self.sign(name, &KeyPair::generate().unwrap(), |_| ())
    }

    /// Like `issue`, with an RSA key.
    pub(crate) fn issue_rsa(&self, name: &str) -> Pair {
        let key = KeyPair::generate_rsa_for(&PKCS_RSA_SHA256, RsaKeySize::_2048).unwrap();
        self.sign(name, &key, |_| ())
    }

    /// Like `issue`, but expired.
    pub(crate) fn issue_expired(&self, name: &str) -> Pair {
        self.sign(name, &KeyPair::generate().unwrap(), |params| {
            params.not_before = date_time_ymd(2019, 1, 1);
            params.not_after = date_time_ymd(2020, 1, 1);
        })
    }

    /// Like `issue`, valid from this time on.
    #[allow(dead_code)]
    pub(crate) fn issue_from(&self, name: &str, from: SystemTime) -> Pair {
        let change = |params: &mut CertificateParams| params.not_before = from.into();
        self.sign(name, &KeyPair::generate().unwrap(), change)
    }

    /// Like `issue`, with this many days until the expiry.
    #[allow(dead_code)]
    pub(crate) fn issue_for_days(&self, name: &str, days: u64) -> Pair {
        let until = SystemTime::now() + Duration::from_secs(days * 24 * 60 * 60);
        let change = |params: &mut CertificateParams| params.not_after = until.into();
        self.sign(name, &KeyPair::generate().unwrap(), change)
    }

    /// Issues a client certificate.
    pub(crate) fn issue_client(&self, name: &str) -> Pair {
        self.sign(&format!("{name}.clients"), &KeyPair::generate().unwrap(), |params| {
            params.extended_key_usages = vec![ExtendedKeyUsagePurpose::ClientAuth];
            params.distinguished_name.push(DnType::CommonName, name);
        })
    }

    /// Like `issue_client`, until the end of this time.
    #[allow(dead_code)]
    pub(crate) fn issue_client_for(&self, name: &str, time: Duration) -> Pair {
        let until = SystemTime::now() + time;
        self.sign(&format!("{name}.clients"), &KeyPair::generate().unwrap(), |params| {
            params.extended_key_usages = vec![ExtendedKeyUsagePurpose::ClientAuth];
            params.not_after = until.into();
        })
    }

    /// Revokes these certificates: returns a list of them in PEM. `is_expired`: the next one is
    /// due.
    #[allow(dead_code)]
    pub(crate) fn revoke(&self, revoked: &[&Pair], is_expired: bool) -> String {
        let long_ago = date_time_ymd(2019, 1, 1);
        let serial = |pair: &&Pair| {
            let (chain, _) = pair.der();
            SerialNumber::from_slice(EndEntityCert::try_from(&chain[0]).unwrap().serial())
        };
        let entry = |pair| RevokedCertParams {
            serial_number: serial(pair),
            revocation_time: long_ago,
            reason_code: None,
            invalidity_date: None,
        };
        let list = CertificateRevocationListParams {
            this_update: long_ago,
            next_update: date_time_ymd(if is_expired { 2020 } else { 2999 }, 1, 1),
            crl_number: SerialNumber::from(1),
            issuing_distribution_point: None,
            revoked_certs: revoked.iter().map(entry).collect(),
            key_identifier_method: KeyIdMethod::Sha256,
        };
        list.signed_by(&self.issuer).unwrap().pem().unwrap()
    }

    fn sign(&self, name: &str, key: &KeyPair, change: impl FnOnce(&mut CertificateParams)) -> Pair {
        let mut params = CertificateParams::new(vec![name.to_owned()]).unwrap();
        params.extended_key_usages = vec![ExtendedKeyUsagePurpose::ServerAuth];
        params.use_authority_key_identifier_extension = true;
        change(&mut params);
        let signed = params.signed_by(key, &self.issuer).unwrap();
        Pair { chain: signed.pem(), key: key.serialize_pem() }
    }

    /// A store that trusts the authority.
    pub(crate) fn roots(&self) -> RootCertStore {
        let mut roots = RootCertStore::empty();
        roots.add(self.certificate.clone()).unwrap();
        roots
    }

    pub(crate) fn pem(&self) -> &str {
        &self.pem
    }
}

impl Pair {
    /// The chain and the key for rustls.
    pub(crate) fn der(&self) -> (Vec<CertificateDer<'static>>, PrivateKeyDer<'static>) {
        use rustls::pki_types::pem::PemObject;
        let chain = CertificateDer::pem_slice_iter(self.chain.as_bytes());
        let key = PrivatePkcs8KeyDer::from_pem_slice(self.key.as_bytes()).unwrap();
        (chain.map(Result::unwrap).collect(), key.into())
    }

    /// Writes both to files with this name.
    pub(crate) fn write(&self, dir: &Dir, name: &str) -> CertificateFiles {
        let files = files(dir, name);
        fs::write(&files.chain, &self.chain).unwrap();
        fs::write(&files.key, &self.key).unwrap();
        files
    }
}

/// Paths of a certificate and its key, beside the served directory.
pub(crate) fn files(dir: &Dir, name: &str) -> CertificateFiles {
    let path = |kind: &str| -> PathBuf { dir.path(format!("../{name}.{kind}")) };
    CertificateFiles { chain: path("pem"), key: path("key") }
}
