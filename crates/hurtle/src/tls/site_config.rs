//! Makes a site's rustls configuration from its files.

use std::sync::Arc;

use ::aws_lc_rs::digest::{Context, SHA256};
use rustls::crypto::{CryptoProvider, aws_lc_rs};
use rustls::pki_types::CertificateDer;
use rustls::server::{
    ClientHello, NoServerSessionStorage, ResolvesServerCert, WebPkiClientVerifier,
};
use rustls::sign::CertifiedKey;
use rustls::version::{TLS12, TLS13};
use rustls::{RootCertStore, ServerConfig, SignatureAlgorithm};

use super::derived_keys::DerivedKeys;
use super::local::OnDemand;
use super::revocation::RevocationList;
use super::tickets::{PolicyDigest, TicketKeys, Ticketer};
use super::{Automatic, Handshakes, Validity, pem};
use crate::config::{CertificateFiles, ClientAuth, HostName, Site, Tls};

/// ALPN protocols (RFC 7301), the preferred one first.
const ALPN: &[&[u8]] = &[HTTP2, b"http/1.1"];

/// ALPN name of HTTP/2.
pub const HTTP2: &[u8] = b"h2";

/// ALPN name of HTTP/3 (RFC 9114 section 3.1).
pub const HTTP3: &[u8] = b"h3";

/// Bytes of early data that a handshake skips (RFC 8446 section 4.2.10). Most servers let clients
/// send 16 KiB. rustls buffers up to 18 KiB, tries to decrypt all of it again after each read, and
/// counts the bytes of every try.
const SKIPPED_BYTES_MAX: u32 = 4 << 20;

/// Time before the expiry of a certificate at which the operator is warned.
const EXPIRING_SECS: u64 = 14 * 24 * 60 * 60;

/// A site's configuration, and the contents of the files it was made from.
#[derive(Debug)]
pub(super) struct SiteConfig {
    /// For handshakes over TCP.
    pub(super) config: Arc<ServerConfig>,
    /// For handshakes of QUIC.
    pub(super) quic: Arc<ServerConfig>,
    resolver: Arc<CertificateResolver>,
    files: Vec<CertificateFiles>,
    /// Lists of revoked client certificates.
    revocation_lists: Vec<RevocationList>,
    /// Digest of the client policy: a session holds for this one only.
    policy: PolicyDigest,
    ticketer: Arc<Ticketer>,
}

impl SiteConfig {
    /// Reads the files of the site of this name. The new configuration accepts tickets of the
    /// `previous` one if the client policy is the same. `automatic`: it has certificates on demand.
    ///
    /// # Errors
    /// The unusable file, the reason, and what to do.
    pub(super) fn load(
        name: &str,
        site: &Site,
        tls: &Tls,
        previous: Option<&SiteConfig>,
        automatic: Option<&Arc<Automatic>>,
    ) -> Result<SiteConfig, String> {
        let provider = Arc::new(aws_lc_rs::default_provider());
        let on_demand = match (tls.local_authority(), tls.certificates.first()) {
            (Some(dir), Some(files)) => OnDemand::load(dir, &site.hosts, files)?,
            _ => None,
        };
        let keys = certified_keys(&tls.certificates, &provider)?;
        let resolver =
            Arc::new(CertificateResolver { keys, on_demand, automatic: automatic.cloned() });
        let authorities = match &tls.client_auth {
            Some(auth) => pem::certificates(&auth.authorities)?,
            None => Vec::new(),
        };
        let lists = tls.client_auth.iter().flat_map(|auth| &auth.revocation_lists);
        let revocation_lists = RevocationList::load(&lists.cloned().collect::<Vec<_>>())?;
        let builder = ServerConfig::builder_with_provider(Arc::clone(&provider))
            .with_protocol_versions(&[&TLS13, &TLS12])
            .map_err(|e| e.to_string())?;
        let builder = match &tls.client_auth {
            None => builder.with_no_client_auth(),
            Some(auth) => builder.with_client_cert_verifier(verifier(
                auth,
                &authorities,
                &revocation_lists,
                provider,
            )?),
        };
        let mut config = builder.with_cert_resolver(Arc::clone(&resolver) as _);
        // TLS scanners recommend the server's order. All of its cipher suites are strong.
        config.ignore_client_order = true;
        config.alpn_protocols = ALPN.iter().map(|name| name.to_vec()).collect();
        // The ticket has the whole session, so any worker can resume it. Each site has its own key,
        // since sites can differ in `client_auth`.
        let policy = policy_digest(tls, &authorities, &revocation_lists);
        let known = previous.filter(|previous| previous.policy == policy);
        let known = known.map(|previous| &previous.ticketer).filter(|known| !known.is_derived());
        let ticketer = match (&tls.ticket_secret, known) {
            (Some(secret), _) => {
                Arc::new(Ticketer::derived(DerivedKeys::read(secret, name, policy)?))
            }
            (None, Some(known)) => Arc::clone(known),
            (None, None) => Arc::new(Ticketer::new()?),
        };
        config.ticketer = Arc::clone(&ticketer) as _;
        config.session_storage = Arc::new(NoServerSessionStorage {});
        // Early data can be replayed (RFC 8446 section 8). With a ticketer rustls neither accepts
        // it nor allows it in tickets: this is only how much it skips.
        config.max_early_data_size = SKIPPED_BYTES_MAX;
        let mut quic = config.clone();
        quic.alpn_protocols = vec![HTTP3.to_vec()];
        // RFC 9001 section 4.6.1: QUIC has other limits of early data; 0 turns it off.
        quic.max_early_data_size = 0;
        let files = tls.certificates.clone();
        let (config, quic) = (Arc::new(config), Arc::new(quic));
        Ok(SiteConfig { config, quic, resolver, files, revocation_lists, policy, ticketer })
    }

    /// The configurations for new handshakes.
    pub(super) fn handshakes(&self) -> Handshakes {
        Handshakes { tcp: Arc::clone(&self.config), quic: Arc::clone(&self.quic) }
    }

    /// The random keys of session tickets, for another process; `site` is the name of the site.
    /// `None`: the keys are derived.
    pub(super) fn ticket_keys(&self, site: &str) -> Option<TicketKeys> {
        self.ticketer.export(site.to_owned(), self.policy)
    }

    /// Uses the ticket keys of another process if its client policy is the same.
    pub(super) fn adopt_ticket_keys(&self, keys: &TicketKeys) {
        if keys.policy == self.policy {
            self.ticketer.adopt(keys);
        }
    }

    /// Describes why clients will reject the certificates.
    pub(super) fn warnings(&self, hosts: &[HostName]) -> Vec<String> {
        let warnings = self.resolver.keys.iter().zip(&self.files).flat_map(|(key, files)| {
            let warnings = key.cert.first().map(|leaf| pem::warnings(leaf, hosts));
            let chain = files.chain.display();
            warnings.unwrap_or_default().into_iter().map(move |why| format!("{chain}: {why}"))
        });
        warnings.collect()
    }

    /// Describes the lists of revoked client certificates that are out of date at `now`, in seconds
    /// since 1970.
    pub(super) fn expired_lists(&self, now: u64) -> Vec<String> {
        self.revocation_lists.iter().filter_map(|list| list.warning(now)).collect()
    }

    /// Returns the validity period of each certificate.
    pub(super) fn validities(&self) -> Vec<Validity> {
        let leaves = self.resolver.keys.iter().filter_map(|key| key.cert.first());
        leaves.filter_map(Validity::of).collect()
    }

    /// Describes the certificates that expire within `EXPIRING_SECS`; `now` is in seconds since
    /// 1970.
    pub(super) fn expiring(&self, now: u64) -> Vec<String> {
        let describe = |(key, files): (&Arc<CertifiedKey>, &CertificateFiles)| {
            let until = key.cert.first().and_then(pem::not_after)?;
            let is_soon = (now..now + EXPIRING_SECS).contains(&until.as_secs());
            let (chain, day) = (files.chain.display(), pem::day(until));
            is_soon.then(|| format!("{chain}: the certificate expires on {day}; renew it"))
        };
        self.resolver.keys.iter().zip(&self.files).filter_map(describe).collect()
    }

    /// Returns the validity period of the first certificate.
    pub(super) fn validity(&self) -> Option<Validity> {
        Validity::of(self.resolver.keys.first()?.cert.first()?)
    }

    /// Describes the certificates and the revocation lists, one line each.
    pub(super) fn describe(&self) -> Vec<String> {
        let lines = self.resolver.keys.iter().zip(&self.files).map(|(key, files)| {
            let until = key.cert.first().and_then(pem::not_after).map(pem::day);
            let until = until.unwrap_or_else(|| "?".to_owned());
            let kind = key.key.algorithm();
            format!("{}: {kind:?}, valid until {until}", files.chain.display())
        });
        lines.chain(self.revocation_lists.iter().map(RevocationList::describe)).collect()
    }
}

/// A site's certificates and keys, in the order written.
#[derive(Debug)]
struct CertificateResolver {
    keys: Vec<Arc<CertifiedKey>>,
    /// Local certificates for names below a wildcard.
    on_demand: Option<OnDemand>,
    /// ACME certificates, by name.
    automatic: Option<Arc<Automatic>>,
}

fn certified_keys(
    files: &[CertificateFiles],
    provider: &CryptoProvider,
) -> Result<Vec<Arc<CertifiedKey>>, String> {
    let read = |CertificateFiles { chain, key }: &CertificateFiles| {
        let certified = CertifiedKey::from_der(pem::certificates(chain)?, pem::key(key)?, provider);
        certified.map(Arc::new).map_err(|e| {
            let (chain, key) = (chain.display(), key.display());
            let what = format!("{chain}: cannot be used with the key in {key}: {e}");
            format!("{what}; put the key there that the certificate was made for")
        })
    };
    files.iter().map(read).collect()
}

impl ResolvesServerCert for CertificateResolver {
    fn resolve(&self, hello: ClientHello<'_>) -> Option<Arc<CertifiedKey>> {
        let is_usable =
            |key: &&Arc<CertifiedKey>| key.key.choose_scheme(hello.signature_schemes()).is_some();
        let is_rsa = |key: &&Arc<CertifiedKey>| key.key.algorithm() == SignatureAlgorithm::RSA;
        if let Some(automatic) = &self.automatic {
            return automatic.certificate(hello.server_name()?).filter(|key| is_usable(&key));
        }
        // An RSA signature costs the server an order of magnitude more.
        let usable = || self.keys.iter().filter(is_usable);
        let on_demand = self.on_demand.as_ref().zip(hello.server_name());
        let on_demand = on_demand.and_then(|(signer, name)| signer.certificate(name));
        if let Some(signed) = on_demand.filter(|key| is_usable(&key)) {
            return Some(signed);
        }
        usable().find(|key| !is_rsa(key)).or_else(|| usable().next()).cloned()
    }
}

/// Digests what a client's certificate is checked by. A resumed session is not checked again, so it
/// must not outlive a stricter policy.
fn policy_digest(
    tls: &Tls,
    authorities: &[CertificateDer<'static>],
    lists: &[RevocationList],
) -> PolicyDigest {
    let mut context = Context::new(&SHA256);
    context.update(&[u8::from(tls.client_auth.as_ref().is_some_and(|auth| auth.required))]);
    for authority in authorities {
        context.update(&(authority.len() as u64).to_be_bytes());
        context.update(authority);
    }
    if !lists.is_empty() {
        // It is the length of no authority, so the lists are told apart from authorities.
        context.update(&u64::MAX.to_be_bytes());
    }
    for list in lists {
        context.update(&(list.der.len() as u64).to_be_bytes());
        context.update(&list.der);
    }
    let mut digest = PolicyDigest::default();
    digest.copy_from_slice(context.finish().as_ref());
    digest
}

fn verifier(
    auth: &ClientAuth,
    authorities: &[CertificateDer<'static>],
    lists: &[RevocationList],
    provider: Arc<CryptoProvider>,
) -> Result<Arc<dyn rustls::server::danger::ClientCertVerifier>, String> {
    let file = auth.authorities.display();
    let mut roots = RootCertStore::empty();
    for authority in authorities {
        let added = roots.add(authority.clone());
        added.map_err(|e| format!("{file}: a certificate is unusable: {e}; remove it"))?;
    }
    let builder = WebPkiClientVerifier::builder_with_provider(Arc::new(roots), provider);
    // Authorities without a list have revoked nothing that is known here. An expired list is used
    // like any other, because an error of its authority must not refuse all clients.
    let builder = builder
        .with_crls(lists.iter().map(|list| list.der.clone()))
        .allow_unknown_revocation_status();
    let builder = if auth.required { builder } else { builder.allow_unauthenticated() };
    builder.build().map_err(|e| format!("{file}: {e}"))
}
