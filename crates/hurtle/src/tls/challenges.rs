//! Pending ACME challenges (RFC 8555 section 8). They are in one file of the ACME storage. The
//! server that orders a certificate writes it; all servers with that storage read it, since the
//! authority can connect to any of them.

use std::fs;
use std::net::IpAddr;
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

use super::pem::FileStamp;
use crate::config;

/// ALPN protocol of tls-alpn-01 validations (RFC 8737 section 6.2).
pub const ALPN: &[u8] = b"acme-tls/1";

/// Path prefix of http-01 validations (RFC 8555 section 8.3).
pub const HTTP_PREFIX: &[u8] = b"/.well-known/acme-challenge/";

/// The challenge for one name.
#[derive(Clone, Debug, PartialEq, Eq, Serialize, Deserialize)]
pub struct Challenge {
    /// The name, in lower case, or the address; an IPv6 address in its brackets.
    pub name: String,
    /// Token that the authority has chosen.
    pub token: String,
    /// Response of http-01: the key authorization (RFC 8555 section 8.1).
    pub answer: String,
    /// SHA-256 of the key authorization, in base64url, for the certificate of tls-alpn-01.
    pub digest: String,
    /// Expiry, in seconds since 1970.
    pub until: u64,
}

/// The challenges in the file, each with its configuration for tls-alpn-01.
#[derive(Debug)]
pub(super) struct PendingChallenges {
    path: PathBuf,
    seen: Mutex<Option<FileStamp>>,
    challenges: RwLock<Vec<(Challenge, Option<Arc<ServerConfig>>)>>,
}

/// Path of the file with the challenges of all servers that share this storage.
pub fn path(storage: &Path) -> PathBuf {
    // Records of sites end in `.json`, accounts in `.account`, certificates in `.pem`.
    storage.join("challenges.list")
}

impl PendingChallenges {
    pub(super) fn new(storage: &Path) -> PendingChallenges {
        let (seen, challenges) = (Mutex::default(), RwLock::default());
        let pending = PendingChallenges { path: path(storage), seen, challenges };
        // The authority may ask just after a reload.
        pending.reload();
        pending
    }

    /// Reads the file if it has changed.
    pub(super) fn reload(&self) {
        let stamp = FileStamp::of(&self.path);
        let mut seen = self.seen.lock().unwrap_or_else(PoisonError::into_inner);
        if *seen == stamp {
            return;
        }
        let text = fs::read(&self.path).unwrap_or_default();
        let found: Vec<Challenge> = serde_json::from_slice(&text).unwrap_or_default();
        let with_config = |challenge: Challenge| {
            let config = config(&challenge).inspect_err(|e| {
                tracing::warn!("{}: no tls-alpn-01 challenge: {e}", challenge.name);
            });
            (challenge, config.ok())
        };
        let found = found.into_iter().map(with_config).collect();
        *self.challenges.write().unwrap_or_else(PoisonError::into_inner) = found;
        *seen = stamp;
    }

    /// Response body of http-01 for this token and name.
    pub(super) fn answer(&self, name: &[u8], token: &[u8]) -> Option<String> {
        let matches = |c: &Challenge| c.token.as_bytes() == token && c.name.as_bytes() == name;
        self.find(matches, |(challenge, _)| Some(challenge.answer.clone()))
    }

    /// Configuration of tls-alpn-01 for this name.
    pub(super) fn config(&self, name: &str) -> Option<Arc<ServerConfig>> {
        let matches = |c: &Challenge| match config::address(&c.name) {
            Some(address) => reverse_name(address).eq_ignore_ascii_case(name),
            None => c.name.eq_ignore_ascii_case(name),
        };
        self.find(matches, |(_, config)| config.clone())
    }

    fn find<T>(
        &self,
        matches: impl Fn(&Challenge) -> bool,
        get: impl Fn(&(Challenge, Option<Arc<ServerConfig>>)) -> Option<T>,
    ) -> Option<T> {
        let challenges = self.challenges.read().unwrap_or_else(PoisonError::into_inner);
        let now = UnixTime::now().as_secs();
        // The newest one counts.
        let found = challenges.iter().rev().find(|(c, _)| now < c.until && matches(c));
        found.and_then(get)
    }
}

/// The server name of a validation of an address (RFC 8738 section 6): its name in the reverse DNS.
fn reverse_name(address: IpAddr) -> String {
    match address {
        IpAddr::V4(address) => {
            let [a, b, c, d] = address.octets();
            format!("{d}.{c}.{b}.{a}.in-addr.arpa")
        }
        IpAddr::V6(address) => {
            let digits = format!("{:032x}", address.to_bits());
            let labels = digits.chars().rev().flat_map(|digit| [digit, '.']);
            labels.chain("ip6.arpa".chars()).collect()
        }
    }
}

/// Makes the self-signed certificate for the name, with the digest in it (RFC 8737 section 3).
fn config(challenge: &Challenge) -> Result<Arc<ServerConfig>, String> {
    let digest = BASE64_URL_SAFE_NO_PAD.decode(&challenge.digest).unwrap_or_default();
    if digest.len() != DIGEST_BYTES {
        return Err("its digest is not a SHA-256 in base64url".to_owned());
    }
    let mut params =
        CertificateParams::new(vec![challenge.name.trim_matches(['[', ']']).to_owned()])
            .map_err(|e| e.to_string())?;
    params.custom_extensions = vec![CustomExtension::new_acme_identifier(&digest)];
    let key = KeyPair::generate().map_err(|e| e.to_string())?;
    let signed = params.self_signed(&key).map_err(|e| e.to_string())?;
    let provider = Arc::new(aws_lc_rs::default_provider());
    let private = PrivateKeyDer::try_from(key.serialize_der())?;
    let signer = provider.key_provider.load_private_key(private).map_err(|e| e.to_string())?;
    // `CertifiedKey::from_der` would reject the critical extension.
    let certificate = Arc::new(CertifiedKey::new(vec![signed.der().clone()], signer));
    let mut config = ServerConfig::builder_with_provider(provider)
        .with_protocol_versions(&[&TLS13, &TLS12])
        .map_err(|e| e.to_string())?
        .with_no_client_auth()
        .with_cert_resolver(Arc::new(ChallengeCertificate(certificate)));
    config.alpn_protocols = vec![ALPN.to_vec()];
    config.session_storage = Arc::new(NoServerSessionStorage {});
    config.send_tls13_tickets = 0;
    Ok(Arc::new(config))
}

/// Size of a SHA-256.
const DIGEST_BYTES: usize = 32;

#[derive(Debug)]
struct ChallengeCertificate(Arc<CertifiedKey>);

impl ResolvesServerCert for ChallengeCertificate {
    fn resolve(&self, _: ClientHello<'_>) -> Option<Arc<CertifiedKey>> {
        Some(Arc::clone(&self.0))
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn names_of_addresses_in_the_reverse_dns() {
        let v6 = "1.0.0.0.0.0.0.0.0.0.0.0.0.0.0.0.0.0.0.0.0.0.0.0.8.b.d.0.1.0.0.2.ip6.arpa";
        for (address, name) in [("192.0.2.1", "1.2.0.192.in-addr.arpa"), ("2001:db8::1", v6)] {
            assert_eq!(reverse_name(address.parse().expect("an address")), name);
        }
    }
}
