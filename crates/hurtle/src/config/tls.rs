//! What a site says of TLS: its certificates, who its clients must be, how they are led to it.

use std::path::PathBuf;

use http::HeaderValue;

/// A site's TLS.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct Tls {
    /// At least one; clients get the first they understand, ECDSA before RSA.
    pub certificates: Vec<CertificateFiles>,
    /// Whether the server gets its certificate itself (ACME): there is one, which need not be there
    /// yet.
    pub automatic: bool,
    /// Whether clients are asked for certificates; `None`: they are not.
    pub client_auth: Option<ClientAuth>,
    /// Whether requests in clear are redirected to HTTPS, by the site's first name that is no
    /// pattern, of which there is then one.
    pub redirect: bool,
    /// Strict-Transport-Security of the site's answers (RFC 6797); only with `redirect`.
    pub hsts: Option<HeaderValue>,
}

/// Where a certificate is.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct CertificateFiles {
    /// PEM: the certificate, then those between it and its root.
    pub chain: PathBuf,
    /// PEM: its private key; may be the same file.
    pub key: PathBuf,
}

/// What clients are asked for.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct ClientAuth {
    /// Whether a client without a certificate is turned away.
    pub required: bool,
    /// PEM: the authorities whose certificates are believed.
    pub authorities: PathBuf,
}

/// The written forms of client authentication.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(super) enum ClientAuthMode {
    Off,
    Optional,
    Required,
}
