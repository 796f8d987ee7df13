//! Certificates that a handshake gets for a name below a wildcard: clients accept no certificate
//! for `*.localhost`, nor one for `*.nas.lan` where the name has two labels more.

use std::sync::{Arc, Mutex, PoisonError};

use hashbrown::HashMap;
use rcgen::KeyPair;
use rustls::crypto::aws_lc_rs;
use rustls::pki_types::pem::PemObject;
use rustls::pki_types::{CertificateDer, PrivateKeyDer};
use rustls::sign::CertifiedKey;
use webpki::EndEntityCert;

use super::authority::Authority;
use super::{authorities, now};
use crate::config::{CertificateFiles, HostName};
use crate::tls::pem;

/// Certificates that are kept. Each takes about 2 KiB.
const CERTIFICATES_MAX: usize = 256;

/// Signs for names below the wildcards of a site, with the key of its certificate.
#[derive(Debug)]
pub(in crate::tls) struct OnDemand {
    wildcards: Vec<String>,
    authority: Authority,
    site: CertificateDer<'static>,
    key: KeyPair,
    /// End of the site's certificate, in seconds since 1970; the others have the same.
    until: u64,
    /// By name. A handshake with a known name takes the lock for one look-up.
    signed: Mutex<HashMap<String, Arc<CertifiedKey>>>,
}

impl OnDemand {
    /// Reads the authority of a site's certificate; `None` for a site without wildcards.
    ///
    /// # Errors
    /// The unusable file.
    pub(in crate::tls) fn load(
        dir: &std::path::Path,
        hosts: &[HostName],
        files: &CertificateFiles,
    ) -> Result<Option<OnDemand>, String> {
        let wildcards = hosts.iter().filter_map(|host| match host {
            HostName::Wildcard(suffix) => Some(format!(".{suffix}")),
            HostName::Exact(_) | HostName::AnyDomain(_) => None,
        });
        let wildcards: Vec<String> = wildcards.collect();
        if wildcards.is_empty() {
            return Ok(None);
        }
        let site = pem::certificates(&files.chain)?.swap_remove(0);
        let unusable = |e: &dyn std::fmt::Display| format!("{}: {e}", files.key.display());
        let pem = std::fs::read_to_string(&files.key).map_err(|e| unusable(&e))?;
        let key = KeyPair::from_pem(&pem).map_err(|e| unusable(&e))?;
        let known = authorities(dir, now()).map_err(|e| e.to_string())?;
        let authority = known.into_iter().find(|authority| authority.has_issued(&site, now()));
        let Some(authority) = authority else {
            return Err(unusable(&"no authority beside it has signed it"));
        };
        let until = pem::not_after(&site).map_or(0, |until| until.as_secs());
        let signed = Mutex::new(HashMap::new());
        Ok(Some(OnDemand { wildcards, authority, site, key, until, signed }))
    }

    /// Returns a certificate for the name of a handshake; `None`: the site's own is right.
    pub(in crate::tls) fn certificate(&self, name: &str) -> Option<Arc<CertifiedKey>> {
        let name = name.to_ascii_lowercase();
        let is_below = |wildcard: &String| name.ends_with(wildcard) && name.len() > wildcard.len();
        if !self.wildcards.iter().any(is_below) {
            return None;
        }
        let host = HostName::Exact(name.clone());
        let site = EndEntityCert::try_from(&self.site).ok()?;
        if pem::covers(&site, &host) {
            return None;
        }
        let mut signed = self.signed.lock().unwrap_or_else(PoisonError::into_inner);
        if let Some(known) = signed.get(&name) {
            return Some(Arc::clone(known));
        }
        let new = Arc::new(self.sign(host)?);
        // A client can choose any number of names.
        if signed.len() >= CERTIFICATES_MAX {
            signed.clear();
        }
        signed.insert(name, Arc::clone(&new));
        Some(new)
    }

    fn sign(&self, host: HostName) -> Option<CertifiedKey> {
        let certificate = self.authority.sign_key(&[host], &self.key, now(), self.until).ok()?;
        let key = PrivateKeyDer::from_pem_slice(self.key.serialize_pem().as_bytes()).ok()?;
        let chain = vec![certificate.der().clone()];
        CertifiedKey::from_der(chain, key, &aws_lc_rs::default_provider()).ok()
    }
}
