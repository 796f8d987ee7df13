//! Challenges that an authority has given and will look for (RFC 8555 8): what shows it that a name
//! is this server's. They are in one file of the storage, written by whichever server has asked and
//! read by all that share it, since the authority may come to any of them.

use std::fs;
use std::path::{Path, PathBuf};
use std::sync::{Arc, Mutex, PoisonError, RwLock};

use base64::Engine as _;
use base64::prelude::BASE64_URL_SAFE_NO_PAD;
use rcgen::{CertificateParams, CustomExtension, KeyPair};
use rustls::ServerConfig;
use rustls::crypto::aws_lc_rs;
use rustls::pki_types::{PrivateKeyDer, UnixTime};
use rustls::server::{ClientHello, NoServerSessionStorage, ResolvesServerCert};
use rustls::sign::CertifiedKey;
use rustls::version::{TLS12, TLS13};
use serde::{Deserialize, Serialize};

use super::pem::Stamp;

/// The protocol that authorities ask for (RFC 8737 6.2).
pub const ALPN: &[u8] = b"acme-tls/1";

/// Where authorities ask in clear (RFC 8555 8.3).
pub const HTTP_PREFIX: &[u8] = b"/.well-known/acme-challenge/";

/// One name's.
#[derive(Clone, Debug, PartialEq, Eq, Serialize, Deserialize)]
pub struct Challenge {
    /// The name, in lower case.
    pub name: String,
    /// What it is asked for by.
    pub token: String,
    /// What is answered in clear: the key authorization (RFC 8555 8.1).
    pub answer: String,
    /// Its SHA-256, in base64url: what a certificate must hold.
    pub digest: String,
    /// When nobody will come any more, in seconds since 1970.
    pub until: u64,
}

/// Those of now.
#[derive(Debug)]
pub(super) struct Pending {
    path: PathBuf,
    seen: Mutex<Option<Stamp>>,
    /// Read only where an authority asks.
    challenges: RwLock<Vec<(Challenge, Option<Arc<ServerConfig>>)>>,
}

/// Where the challenges of all servers are that share this storage.
pub fn path(storage: &Path) -> PathBuf {
    // No site's record, whatever its name, is called that.
    storage.join("challenges.list")
}

impl Pending {
    pub(super) fn new(storage: &Path) -> Pending {
        let (seen, challenges) = (Mutex::default(), RwLock::default());
        Pending { path: path(storage), seen, challenges }
    }

    /// Reads the file, if it has changed.
    pub(super) fn look(&self) {
        let stamp = Stamp::of(&self.path);
        let mut seen = self.seen.lock().unwrap_or_else(PoisonError::into_inner);
        if *seen == stamp {
            return;
        }
        let text = fs::read(&self.path).unwrap_or_default();
        let found: Vec<Challenge> = serde_json::from_slice(&text).unwrap_or_default();
        let with_terms = |challenge: Challenge| {
            let made = terms(&challenge);
            let made = made.map_err(|e| tracing::warn!("{}: no challenge: {e}", challenge.name));
            (challenge, made.ok())
        };
        let found = found.into_iter().map(with_terms).collect();
        *self.challenges.write().unwrap_or_else(PoisonError::into_inner) = found;
        *seen = stamp;
    }

    /// What is answered for a token, if it was given for this name.
    pub(super) fn answer(&self, name: &[u8], token: &[u8]) -> Option<String> {
        let is_meant = |c: &Challenge| c.token.as_bytes() == token && c.name.as_bytes() == name;
        self.find(is_meant, |(challenge, _)| Some(challenge.answer.clone()))
    }

    /// What the handshake of an authority that asks for this name is done with.
    pub(super) fn terms(&self, name: &str) -> Option<Arc<ServerConfig>> {
        self.find(|c| c.name.eq_ignore_ascii_case(name), |(_, terms)| terms.clone())
    }

    fn find<T>(
        &self,
        is_meant: impl Fn(&Challenge) -> bool,
        give: impl Fn(&(Challenge, Option<Arc<ServerConfig>>)) -> Option<T>,
    ) -> Option<T> {
        let challenges = self.challenges.read().unwrap_or_else(PoisonError::into_inner);
        let now = UnixTime::now().as_secs();
        // The last one given counts.
        let found = challenges.iter().rev().find(|(c, _)| now < c.until && is_meant(c));
        found.and_then(give)
    }
}

/// RFC 8737 3: a certificate of its own signature, for the name alone, with the digest in it.
fn terms(challenge: &Challenge) -> Result<Arc<ServerConfig>, String> {
    let told = |e: rcgen::Error| e.to_string();
    let digest = BASE64_URL_SAFE_NO_PAD.decode(&challenge.digest).unwrap_or_default();
    if digest.len() != DIGEST_BYTES {
        return Err("its digest is none".to_owned());
    }
    let mut params = CertificateParams::new(vec![challenge.name.clone()]).map_err(told)?;
    params.custom_extensions = vec![CustomExtension::new_acme_identifier(&digest)];
    let key = KeyPair::generate().map_err(told)?;
    let signed = params.self_signed(&key).map_err(told)?;
    let provider = Arc::new(aws_lc_rs::default_provider());
    let private = PrivateKeyDer::try_from(key.serialize_der())?;
    let signer = provider.key_provider.load_private_key(private).map_err(|e| e.to_string())?;
    // Not looked into: what it holds is for the authority alone.
    let shown = Arc::new(CertifiedKey::new(vec![signed.der().clone()], signer));
    let mut config = ServerConfig::builder_with_provider(provider)
        .with_protocol_versions(&[&TLS13, &TLS12])
        .map_err(|e| e.to_string())?
        .with_no_client_auth()
        .with_cert_resolver(Arc::new(Shown(shown)));
    config.alpn_protocols = vec![ALPN.to_vec()];
    config.session_storage = Arc::new(NoServerSessionStorage {});
    config.send_tls13_tickets = 0;
    Ok(Arc::new(config))
}

/// Of a SHA-256.
const DIGEST_BYTES: usize = 32;

#[derive(Debug)]
struct Shown(Arc<CertifiedKey>);

impl ResolvesServerCert for Shown {
    fn resolve(&self, _: ClientHello<'_>) -> Option<Arc<CertifiedKey>> {
        Some(Arc::clone(&self.0))
    }
}
