//! The certificate of a run, the same for every server, and what it takes to speak TLS with one that
//! has it: TLS 1.3, one suite and one group, so that all servers do the same arithmetic.

use std::fs;
use std::io;
use std::path::{Path, PathBuf};
use std::sync::Arc;

use rustls::crypto::aws_lc_rs::{self, cipher_suite, kx_group};
use rustls::crypto::{CryptoProvider, SupportedKxGroup};
use rustls::pki_types::pem::PemObject;
use rustls::pki_types::{CertificateDer, ServerName};
use rustls::{ClientConfig, RootCertStore};

/// The only name the certificate is for, and the one servers are asked for (SNI).
pub const NAME: &str = "localhost";

const CERTIFICATE: &str = "certificate.pem";
const KEY: &str = "key.pem";

/// A run's certificate and key, ECDSA over P-256, signed by itself.
#[derive(Clone, Debug)]
pub struct Identity {
    /// The certificate's file (PEM).
    pub certificate: PathBuf,
    /// The key's (PEM, PKCS #8). Everybody may read it, for servers become other users; nobody but this
    /// run trusts it.
    pub key: PathBuf,
    /// What clients need.
    pub trust: Trust,
}

/// The certificate a server must have.
#[derive(Clone, Debug)]
pub struct Trust {
    certificate: CertificateDer<'static>,
}

impl Identity {
    /// The one in this folder, which is made with it where there is none.
    ///
    /// # Errors
    /// The file system's; a file that is there and no certificate.
    pub fn within(folder: &Path) -> io::Result<Identity> {
        let folder = std::path::absolute(folder)?;
        let (certificate, key) = (folder.join(CERTIFICATE), folder.join(KEY));
        if !certificate.exists() {
            let made =
                rcgen::generate_simple_self_signed([NAME.to_owned()]).map_err(io::Error::other)?;
            fs::create_dir_all(&folder)?;
            fs::write(&key, made.signing_key.serialize_pem())?;
            fs::write(&certificate, made.cert.pem())?;
        }
        let der = CertificateDer::from_pem_file(&certificate);
        let der = der.map_err(|e| io::Error::other(format!("{}: {e}", certificate.display())))?;
        Ok(Identity { certificate, key, trust: Trust { certificate: der } })
    }
}

impl Trust {
    /// The certificate.
    pub fn certificate(&self) -> &CertificateDer<'static> {
        &self.certificate
    }

    /// What a client speaks TLS with that checks all there is to check and resumes nothing; it offers
    /// these protocols (ALPN, RFC 7301).
    ///
    /// # Errors
    /// A certificate that cannot be trusted.
    pub fn checking(&self, protocols: &[&[u8]]) -> Result<Arc<ClientConfig>, rustls::Error> {
        let mut roots = RootCertStore::empty();
        roots.add(self.certificate.clone())?;
        let mut config = ClientConfig::builder_with_provider(provider(kx_group::X25519))
            .with_protocol_versions(&[&rustls::version::TLS13])?
            .with_root_certificates(roots)
            .with_no_client_auth();
        config.alpn_protocols = protocols.iter().map(|name| name.to_vec()).collect();
        config.resumption = rustls::client::Resumption::disabled();
        Ok(Arc::new(config))
    }
}

/// The name servers are asked for.
pub fn name() -> ServerName<'static> {
    ServerName::try_from(NAME).expect("it is a DNS name")
}

/// TLS_AES_128_GCM_SHA256, and one group.
pub fn provider(group: &'static dyn SupportedKxGroup) -> Arc<CryptoProvider> {
    Arc::new(CryptoProvider {
        cipher_suites: vec![cipher_suite::TLS13_AES_128_GCM_SHA256],
        kx_groups: vec![group],
        ..aws_lc_rs::default_provider()
    })
}
