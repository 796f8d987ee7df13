//! From a site's files to what rustls does a handshake with.

use std::sync::Arc;

use rustls::crypto::{CryptoProvider, aws_lc_rs};
use rustls::pki_types::{CertificateDer, UnixTime};
use rustls::server::{
    ClientHello, NoServerSessionStorage, ProducesTickets, ResolvesServerCert, WebPkiClientVerifier,
};
use rustls::sign::CertifiedKey;
use rustls::version::{TLS12, TLS13};
use rustls::{RootCertStore, ServerConfig, SignatureAlgorithm};

use super::{pem, staple};
use crate::config::{CertificateFiles, ClientAuth, HostName, Tls};

/// Protocols over TLS (RFC 7301), the preferred first.
const ALPN: &[&[u8]] = &[HTTP2, b"http/1.1"];

/// HTTP/2's name among them.
pub const HTTP2: &[u8] = b"h2";

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
        // Ciphers by this server's order, as some who test servers want it; all of them are good.
        config.ignore_client_order = true;
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
        let doubts = self.keys.keys.iter().zip(&self.files).flat_map(|(key, files)| {
            let doubts = key.bare.cert.first().map(|leaf| pem::doubts(leaf, hosts));
            let chain = files.chain.display();
            doubts.unwrap_or_default().into_iter().map(move |doubt| format!("{chain}: {doubt}"))
        });
        doubts.collect()
    }

    /// Why staples that are there are not sent.
    pub(super) fn unsent(&self) -> &[String] {
        &self.keys.unsent
    }

    /// Staples that are sent no more, since their time is over.
    pub(super) fn lapsed(&self) -> Vec<String> {
        let lapsed = self.keys.keys.iter().zip(&self.files).filter_map(|(key, files)| {
            let until = key.lapsed()?;
            Some(staple::lapsed(&files.chain, until))
        });
        lapsed.collect()
    }

    /// A line for each certificate.
    pub(super) fn describe(&self) -> Vec<String> {
        let lines = self.keys.keys.iter().zip(&self.files).map(|(key, files)| {
            let until = key.bare.cert.first().and_then(pem::expiry).map(pem::day);
            let until = until.unwrap_or_else(|| "?".to_owned());
            let kind = key.kind();
            let stapled = match &key.stapled {
                None => String::new(),
                Some((_, None)) => ", stapled".to_owned(),
                Some((_, Some(until))) => format!(", stapled until {}", pem::day(*until)),
            };
            format!("{}: {kind:?}, valid until {until}{stapled}", files.chain.display())
        });
        lines.collect()
    }
}

/// A site's certificates, in the order written.
#[derive(Debug)]
struct Keys {
    keys: Vec<Key>,
    /// Why staples that are there are not sent.
    unsent: Vec<String>,
}

/// A certificate and its key.
#[derive(Debug)]
struct Key {
    bare: Arc<CertifiedKey>,
    /// The same with its staple, and until when that is good; `None` within: for ever.
    stapled: Option<(Arc<CertifiedKey>, Option<UnixTime>)>,
}

impl Keys {
    fn read(files: &[CertificateFiles], provider: &CryptoProvider) -> Result<Keys, String> {
        let (mut keys, mut unsent) = (Vec::new(), Vec::new());
        for CertificateFiles { chain, key } in files {
            let certificates = pem::certificates(chain)?;
            let private = pem::key(key)?;
            let certified = CertifiedKey::from_der(certificates, private, provider);
            let bare = certified.map_err(|e| {
                let (chain, key) = (chain.display(), key.display());
                let what = format!("{chain}: cannot be used with the key in {key}: {e}");
                format!("{what}; put the key there that the certificate was made for")
            })?;
            // A certificate without its staple is as good to most; one with a bad one to none.
            let leaf = bare.cert.first();
            let staple = leaf.map_or(Ok(None), |leaf| staple::read(chain, leaf));
            let stapled = staple.unwrap_or_else(|why| {
                unsent.push(why);
                None
            });
            let stapled = stapled.map(|staple| {
                let key = CertifiedKey { ocsp: Some(staple.der), ..bare.clone() };
                (Arc::new(key), staple.until)
            });
            keys.push(Key { bare: Arc::new(bare), stapled });
        }
        Ok(Keys { keys, unsent })
    }
}

impl Key {
    fn kind(&self) -> SignatureAlgorithm {
        self.bare.key.algorithm()
    }

    /// Since when its staple is worth nothing.
    fn lapsed(&self) -> Option<UnixTime> {
        let (_, until) = self.stapled.as_ref()?;
        until.filter(|until| *until <= UnixTime::now())
    }

    /// What clients are shown now.
    fn shown(&self) -> Arc<CertifiedKey> {
        match &self.stapled {
            Some((stapled, _)) if self.lapsed().is_none() => Arc::clone(stapled),
            _ => Arc::clone(&self.bare),
        }
    }
}

impl ResolvesServerCert for Keys {
    fn resolve(&self, hello: ClientHello<'_>) -> Option<Arc<CertifiedKey>> {
        let understood =
            |key: &&Key| key.bare.key.choose_scheme(hello.signature_schemes()).is_some();
        let is_rsa = |key: &&Key| key.kind() == SignatureAlgorithm::RSA;
        let mut understood = self.keys.iter().filter(understood);
        let first = understood.next()?;
        // RSA costs a server an order of magnitude more.
        if !is_rsa(&first) {
            return Some(first.shown());
        }
        Some(understood.find(|key| !is_rsa(key)).unwrap_or(first).shown())
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
