//! TLS to upstreams: makes the rustls configurations from the settings of proxies, and explains
//! failed handshakes. Sessions belong to `transport`.

use std::io;
use std::sync::Arc;

use rustls::client::danger::{HandshakeSignatureValid, ServerCertVerified, ServerCertVerifier};
use rustls::client::{WebPkiServerVerifier, verify_server_name};
use rustls::crypto::{CryptoProvider, aws_lc_rs, verify_tls12_signature, verify_tls13_signature};
use rustls::pki_types::{CertificateDer, PrivateKeyDer, ServerName, UnixTime};
use rustls::server::ParsedCertificate;
use rustls::version::{TLS12, TLS13};
use rustls::{
    CertificateError, ClientConfig, DigitallySignedStruct, Error, RootCertStore, SignatureScheme,
};

use super::pem;
use super::site_config::HTTP2;
use crate::config::{self, Auth, Config, MountHandler, UpstreamTls};

/// ALPN name of HTTP/1.1 (RFC 7301 section 6).
const HTTP11: &[u8] = b"http/1.1";

/// The rustls configurations of all proxies and authentication servers; clones share them, and with
/// them the sessions that can be resumed.
#[derive(Clone, Debug, Default)]
pub struct UpstreamConfigs(Vec<Arc<UpstreamConfig>>);

/// The configuration for connections to the upstreams of proxies with equal settings.
#[derive(Debug)]
pub struct UpstreamConfig {
    settings: UpstreamTls,
    files: Contents,
    config: Arc<ClientConfig>,
    /// The one that offers HTTP/2.
    http2: Arc<ClientConfig>,
}

/// Contents of the files that a configuration is made from.
#[derive(Debug, PartialEq, Eq)]
struct Contents {
    authorities: Vec<CertificateDer<'static>>,
    client: Option<(Vec<CertificateDer<'static>>, PrivateKeyDer<'static>)>,
}

impl UpstreamConfigs {
    /// Reads the files of all proxies and authentication servers with `https://`. A configuration
    /// whose settings and files are as in `previous` is shared with it. Logs a warning where
    /// nothing is verified.
    ///
    /// # Errors
    /// One line for each mount whose files are unusable.
    pub fn load(
        config: &Config,
        previous: Option<&UpstreamConfigs>,
    ) -> Result<UpstreamConfigs, Vec<String>> {
        let (mut configs, mut problems) = (UpstreamConfigs::default(), Vec::new());
        for (at, settings) in all_settings(config) {
            if settings.insecure_skip_verify {
                tracing::warn!(
                    "{at}: insecure_skip_verify: the certificates of upstreams are NOT verified"
                );
            }
            if configs.with(&settings).is_some() {
                continue;
            }
            match UpstreamConfig::load(&settings, previous) {
                Ok(loaded) => configs.0.push(loaded),
                Err(e) => problems.push(format!("{at}: {e}")),
            }
        }
        if problems.is_empty() { Ok(configs) } else { Err(problems) }
    }

    /// Returns the configuration for a proxy; `None` if none of its upstreams uses TLS.
    pub fn of(&self, proxy: &config::Proxy) -> Option<&Arc<UpstreamConfig>> {
        self.with(&settings(proxy)?)
    }

    /// Returns the configuration for a store; `None` if it does not use TLS.
    pub fn of_store(&self, store: &config::Store) -> Option<&Arc<UpstreamConfig>> {
        self.with(&store_settings(store)?)
    }

    /// Returns the configuration for an authentication server; `None` if it does not use TLS.
    pub fn of_server(&self, server: &config::ForwardAuth) -> Option<&Arc<UpstreamConfig>> {
        self.with(&server_settings(server)?)
    }

    fn with(&self, settings: &UpstreamTls) -> Option<&Arc<UpstreamConfig>> {
        self.0.iter().find(|config| config.settings == *settings)
    }
}

/// Every setting of TLS to upstreams and authentication servers, with its place.
fn all_settings(config: &Config) -> Vec<(String, UpstreamTls)> {
    let mut all = Vec::new();
    let store = config.store.as_ref().and_then(store_settings);
    all.extend(store.map(|settings| ("store".to_owned(), settings)));
    for site in &config.sites {
        if let Some(Auth::Forward(server)) = &site.auth {
            all.extend(server_settings(server).map(|settings| (site.name(), settings)));
        }
        for mount in &site.mounts {
            let at = || format!("{}, mount {}", site.name(), mount.name());
            if let Some(Auth::Forward(server)) = &mount.auth {
                all.extend(server_settings(server).map(|settings| (at(), settings)));
            }
            if let MountHandler::Proxy(proxy) = &mount.handler {
                all.extend(settings(proxy).map(|settings| (at(), settings)));
            }
        }
    }
    all
}

/// The settings of TLS to a store; `None`: it does not use TLS.
fn store_settings(store: &config::Store) -> Option<UpstreamTls> {
    store.tls.then(|| UpstreamTls { ca: store.ca.clone(), ..UpstreamTls::default() })
}

/// The settings of TLS to an authentication server; `None`: it does not use TLS.
fn server_settings(server: &config::ForwardAuth) -> Option<UpstreamTls> {
    server.upstream.tls.then(|| server.tls.clone().unwrap_or_default())
}

/// The settings of TLS to a proxy's upstreams; `None`: none uses it.
fn settings(proxy: &config::Proxy) -> Option<UpstreamTls> {
    let is_used = proxy.upstreams.iter().any(|server| server.tls);
    is_used.then(|| proxy.upstream_tls.clone().unwrap_or_default())
}

impl UpstreamConfig {
    fn load(
        settings: &UpstreamTls,
        previous: Option<&UpstreamConfigs>,
    ) -> Result<Arc<UpstreamConfig>, String> {
        let files = Contents::read(settings)?;
        if let Some(known) = previous.and_then(|configs| configs.with(settings))
            && known.files == files
        {
            return Ok(Arc::clone(known));
        }
        let provider = Arc::new(aws_lc_rs::default_provider());
        let verifier: Arc<dyn ServerCertVerifier> = match settings.insecure_skip_verify {
            true => Arc::new(NoVerifier(Arc::clone(&provider))),
            false => {
                let by_authority = verifier(&files.authorities, settings, Arc::clone(&provider))?;
                let pinned = settings.ca.as_ref().map(|_| files.authorities.clone());
                Arc::new(PinnedVerifier { pinned: pinned.unwrap_or_default(), by_authority })
            }
        };
        let builder = ClientConfig::builder_with_provider(provider)
            .with_protocol_versions(&[&TLS13, &TLS12])
            .map_err(|e| e.to_string())?
            .dangerous()
            .with_custom_certificate_verifier(verifier);
        let mut config = match (&files.client, &settings.client) {
            (Some((chain, key)), Some(named)) => {
                builder.with_client_auth_cert(chain.clone(), key.clone_key()).map_err(|e| {
                    let (chain, key) = (named.chain.display(), named.key.display());
                    format!("{chain}: cannot be used with the key in {key}: {e}")
                })?
            }
            _ => builder.with_no_client_auth(),
        };
        config.alpn_protocols = vec![HTTP11.to_vec()];
        let mut http2 = config.clone();
        http2.alpn_protocols = vec![HTTP2.to_vec()];
        let (settings, config, http2) = (settings.clone(), Arc::new(config), Arc::new(http2));
        Ok(Arc::new(UpstreamConfig { settings, files, config, http2 }))
    }

    /// Returns the configuration for rustls, which offers HTTP/2 alone or HTTP/1.1 alone.
    pub fn client(&self, is_http2: bool) -> &Arc<ClientConfig> {
        if is_http2 { &self.http2 } else { &self.config }
    }

    /// Returns the name to request and verify for an upstream whose URL has this host.
    ///
    /// # Errors
    /// The host is not a name that a certificate can have.
    pub fn server_name(&self, host: &str) -> Result<ServerName<'static>, String> {
        let name = self.settings.server_name.as_deref().unwrap_or(host);
        let name = name.trim_matches(['[', ']']);
        let parsed = ServerName::try_from(name.to_owned());
        parsed.map_err(|_| format!("no certificate can be for {name}; set server_name"))
    }
}

impl Contents {
    fn read(settings: &UpstreamTls) -> Result<Contents, String> {
        let authorities = match &settings.ca {
            Some(file) => pem::certificates(file)?,
            None if settings.insecure_skip_verify => Vec::new(),
            None => rustls_native_certs::load_native_certs().certs,
        };
        let client = settings.client.as_ref();
        let client = client.map(|named| {
            Ok::<_, String>((pem::certificates(&named.chain)?, pem::key(&named.key)?))
        });
        Ok(Contents { authorities, client: client.transpose()? })
    }
}

fn verifier(
    authorities: &[CertificateDer<'static>],
    settings: &UpstreamTls,
    provider: Arc<CryptoProvider>,
) -> Result<Arc<WebPkiServerVerifier>, String> {
    let mut roots = RootCertStore::empty();
    match &settings.ca {
        Some(file) => {
            for authority in authorities {
                let added = roots.add(authority.clone());
                added.map_err(|e| {
                    format!("{}: a certificate is unusable: {e}; remove it", file.display())
                })?;
            }
        }
        // A system may have some that rustls cannot read.
        None => drop(roots.add_parsable_certificates(authorities.iter().cloned())),
    }
    if roots.is_empty() {
        let hint = "install ca-certificates, or name the upstream's authority in upstream_tls.ca";
        return Err(format!("the system has no trusted authorities; {hint}"));
    }
    let builder = WebPkiServerVerifier::builder_with_provider(Arc::new(roots), provider);
    builder.build().map_err(|e| e.to_string())
}

/// Accepts a certificate that `ca` has itself, for its names and its time, and others by its
/// issuer. A self-signed certificate is often marked as an authority's (`openssl req -x509` does
/// so), which webpki refuses for a server.
#[derive(Debug)]
struct PinnedVerifier {
    pinned: Vec<CertificateDer<'static>>,
    by_authority: Arc<WebPkiServerVerifier>,
}

impl ServerCertVerifier for PinnedVerifier {
    fn verify_server_cert(
        &self,
        end_entity: &CertificateDer<'_>,
        intermediates: &[CertificateDer<'_>],
        server_name: &ServerName<'_>,
        ocsp_response: &[u8],
        now: UnixTime,
    ) -> Result<ServerCertVerified, Error> {
        if !self.pinned.contains(end_entity) {
            let by_authority = &self.by_authority;
            return by_authority.verify_server_cert(
                end_entity,
                intermediates,
                server_name,
                ocsp_response,
                now,
            );
        }
        verify_server_name(&ParsedCertificate::try_from(end_entity)?, server_name)?;
        if pem::not_before(end_entity).is_none_or(|from| now < from) {
            return Err(Error::InvalidCertificate(CertificateError::NotValidYet));
        }
        if pem::not_after(end_entity).is_none_or(|until| now > until) {
            return Err(Error::InvalidCertificate(CertificateError::Expired));
        }
        Ok(ServerCertVerified::assertion())
    }

    fn verify_tls12_signature(
        &self,
        message: &[u8],
        cert: &CertificateDer<'_>,
        dss: &DigitallySignedStruct,
    ) -> Result<HandshakeSignatureValid, Error> {
        self.by_authority.verify_tls12_signature(message, cert, dss)
    }

    fn verify_tls13_signature(
        &self,
        message: &[u8],
        cert: &CertificateDer<'_>,
        dss: &DigitallySignedStruct,
    ) -> Result<HandshakeSignatureValid, Error> {
        self.by_authority.verify_tls13_signature(message, cert, dss)
    }

    fn supported_verify_schemes(&self) -> Vec<SignatureScheme> {
        self.by_authority.supported_verify_schemes()
    }
}

/// Accepts any certificate, but still requires that the peer has its key.
#[derive(Debug)]
struct NoVerifier(Arc<CryptoProvider>);

impl ServerCertVerifier for NoVerifier {
    fn verify_server_cert(
        &self,
        _end_entity: &CertificateDer<'_>,
        _intermediates: &[CertificateDer<'_>],
        _server_name: &ServerName<'_>,
        _ocsp_response: &[u8],
        _now: UnixTime,
    ) -> Result<ServerCertVerified, Error> {
        Ok(ServerCertVerified::assertion())
    }

    fn verify_tls12_signature(
        &self,
        message: &[u8],
        cert: &CertificateDer<'_>,
        dss: &DigitallySignedStruct,
    ) -> Result<HandshakeSignatureValid, Error> {
        verify_tls12_signature(message, cert, dss, &self.0.signature_verification_algorithms)
    }

    fn verify_tls13_signature(
        &self,
        message: &[u8],
        cert: &CertificateDer<'_>,
        dss: &DigitallySignedStruct,
    ) -> Result<HandshakeSignatureValid, Error> {
        verify_tls13_signature(message, cert, dss, &self.0.signature_verification_algorithms)
    }

    fn supported_verify_schemes(&self) -> Vec<SignatureScheme> {
        self.0.signature_verification_algorithms.supported_schemes()
    }
}

/// Explains the error of a handshake with an upstream that was expected to have this name.
pub fn describe_failure(error: &io::Error, name: &ServerName<'_>) -> String {
    let tls = error.get_ref().and_then(|e| e.downcast_ref::<Error>());
    match tls {
        Some(Error::InvalidCertificate(wrong)) => match wrong {
            CertificateError::Expired | CertificateError::ExpiredContext { .. } => {
                "its certificate has expired".to_owned()
            }
            CertificateError::NotValidYet | CertificateError::NotValidYetContext { .. } => {
                "its certificate is not valid yet; is the clock right?".to_owned()
            }
            CertificateError::UnknownIssuer => {
                "the issuer of its certificate is unknown; name it in upstream_tls.ca".to_owned()
            }
            CertificateError::NotValidForName | CertificateError::NotValidForNameContext { .. } => {
                let name = name.to_str();
                format!("its certificate is not for {name}; set upstream_tls.server_name")
            }
            wrong => format!("its certificate is invalid: {wrong}"),
        },
        Some(Error::InvalidMessage(_)) => "it does not speak TLS".to_owned(),
        Some(Error::AlertReceived(alert)) => format!("it refused the handshake: {alert:?}"),
        Some(error) => error.to_string(),
        None if error.kind() == io::ErrorKind::UnexpectedEof => {
            "it closed the connection during the handshake".to_owned()
        }
        None => error.to_string(),
    }
}
