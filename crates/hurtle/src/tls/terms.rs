//! From a site's files to what rustls does a handshake with.

use std::sync::Arc;

use rustls::crypto::{CryptoProvider, aws_lc_rs};
use rustls::pki_types::CertificateDer;
use rustls::server::{
    ClientHello, NoServerSessionStorage, ProducesTickets, ResolvesServerCert, WebPkiClientVerifier,
};
use rustls::sign::CertifiedKey;
use rustls::version::{TLS12, TLS13};
use rustls::{RootCertStore, ServerConfig, SignatureAlgorithm};

use super::pem;
use crate::config::{CertificateFiles, ClientAuth, HostName, Tls};

/// Protocols over TLS (RFC 7301), the preferred first.
const ALPN: &[&[u8]] = &[b"http/1.1"];

/// What was made of a site's files.
#[derive(Debug)]
pub(super) struct Made {
    pub(super) config: Arc<ServerConfig>,
    keys: Arc<Keys>,
    files: Vec<CertificateFiles>,
    authorities: Vec<CertificateDer<'static>>,
}

impl Made {
    /// Reads the files. Tickets from before resume as long as the same authorities are believed.
    ///
    /// # Errors
    /// Which file cannot be used, why, and what to do.
    pub(super) fn new(tls: &Tls, before: Option<&Made>) -> Result<Made, String> {
        let provider = Arc::new(aws_lc_rs::default_provider());
        let keys = Arc::new(Keys::read(&tls.certificates, &provider)?);
        let authorities = match &tls.client_auth {
            Some(auth) => pem::certificates(&auth.authorities)?,
            None => Vec::new(),
        };
        let builder = ServerConfig::builder_with_provider(Arc::clone(&provider))
            .with_protocol_versions(&[&TLS13, &TLS12])
            .map_err(|e| e.to_string())?;
        let builder = match &tls.client_auth {
            None => builder.with_no_client_auth(),
            Some(auth) => {
                builder.with_client_cert_verifier(verifier(auth, &authorities, provider)?)
            }
        };
        let mut config = builder.with_cert_resolver(Arc::clone(&keys) as _);
        config.alpn_protocols = ALPN.iter().map(|name| name.to_vec()).collect();
        // All that is needed to resume is in the ticket, so that any worker can; its key is new
        // every six hours. Each site has its own: what one has asked of a client is not what
        // another would have.
        config.ticketer = match before {
            Some(before) if before.authorities == authorities => {
                Arc::clone(&before.config.ticketer)
            }
            _ => ticketer()?,
        };
        config.session_storage = Arc::new(NoServerSessionStorage {});
        // RFC 8446 8: early data can be replayed.
        config.max_early_data_size = 0;
        let files = tls.certificates.clone();
        Ok(Made { config: Arc::new(config), keys, files, authorities })
    }

    /// What will trouble clients.
    pub(super) fn doubts(&self, hosts: &[HostName]) -> Vec<String> {
        let doubts = self.keys.0.iter().zip(&self.files).flat_map(|(key, files)| {
            let doubts = key.cert.first().map(|leaf| pem::doubts(leaf, hosts));
            let chain = files.chain.display();
            doubts.unwrap_or_default().into_iter().map(move |doubt| format!("{chain}: {doubt}"))
        });
        doubts.collect()
    }

    /// A line for each certificate.
    pub(super) fn describe(&self) -> Vec<String> {
        let lines = self.keys.0.iter().zip(&self.files).map(|(key, files)| {
            let until = key.cert.first().and_then(pem::expiry).map(pem::day);
            let until = until.unwrap_or_else(|| "?".to_owned());
            let kind = key.key.algorithm();
            format!("{}: {kind:?}, valid until {until}", files.chain.display())
        });
        lines.collect()
    }
}

/// A site's certificates, those cheapest to sign with first.
#[derive(Debug)]
struct Keys(Vec<Arc<CertifiedKey>>);

impl Keys {
    fn read(files: &[CertificateFiles], provider: &CryptoProvider) -> Result<Keys, String> {
        let mut keys = Vec::new();
        for CertificateFiles { chain, key } in files {
            let certificates = pem::certificates(chain)?;
            let private = pem::key(key)?;
            let certified = CertifiedKey::from_der(certificates, private, provider);
            keys.push(Arc::new(certified.map_err(|e| {
                let (chain, key) = (chain.display(), key.display());
                let what = format!("{chain}: cannot be used with the key in {key}: {e}");
                format!("{what}; put the key there that the certificate was made for")
            })?));
        }
        Ok(Keys(keys))
    }
}

impl ResolvesServerCert for Keys {
    fn resolve(&self, hello: ClientHello<'_>) -> Option<Arc<CertifiedKey>> {
        let understood =
            |key: &&Arc<CertifiedKey>| key.key.choose_scheme(hello.signature_schemes()).is_some();
        let rsa = |key: &&Arc<CertifiedKey>| key.key.algorithm() == SignatureAlgorithm::RSA;
        let mut understood = self.0.iter().filter(understood);
        let first = understood.next()?;
        // RSA costs a server an order of magnitude more.
        if !rsa(&first) {
            return Some(Arc::clone(first));
        }
        Some(Arc::clone(understood.find(|key| !rsa(key)).unwrap_or(first)))
    }
}

fn verifier(
    auth: &ClientAuth,
    authorities: &[CertificateDer<'static>],
    provider: Arc<CryptoProvider>,
) -> Result<Arc<dyn rustls::server::danger::ClientCertVerifier>, String> {
    let file = auth.authorities.display();
    let mut roots = RootCertStore::empty();
    for authority in authorities {
        let added = roots.add(authority.clone());
        added.map_err(|e| format!("{file}: one is no authority: {e}; take it out"))?;
    }
    let builder = WebPkiClientVerifier::builder_with_provider(Arc::new(roots), provider);
    let builder = if auth.required { builder } else { builder.allow_unauthenticated() };
    builder.build().map_err(|e| format!("{file}: {e}"))
}

fn ticketer() -> Result<Arc<dyn ProducesTickets>, String> {
    aws_lc_rs::Ticketer::new().map_err(|e| format!("no key for tickets: {e}"))
}
