//! TLS settings of a site: certificates, client authentication, redirect and HSTS.

use std::path::PathBuf;

use http::HeaderValue;

/// A site's TLS; by default without a certificate, a redirect or a client policy.
#[derive(Clone, Debug, Default, PartialEq, Eq)]
pub struct Tls {
    /// At least one; a client gets the first it supports, ECDSA before RSA.
    pub certificates: Vec<CertificateFiles>,
    /// `true`: the certificate is automatic (ACME). `certificates` then has one entry, whose file
    /// may not exist yet.
    pub automatic: bool,
    /// Client authentication by certificate; `None`: off.
    pub client_auth: Option<ClientAuth>,
    /// `true`: requests in clear are redirected to HTTPS at the site's first name without a
    /// wildcard, which then exists.
    pub redirect: bool,
    /// Strict-Transport-Security of the site's answers (RFC 6797); only with `redirect`.
    pub hsts: Option<HeaderValue>,
    /// File with the secret from which ticket keys are derived; `None`: they are random.
    pub ticket_secret: Option<PathBuf>,
}

/// Files of a certificate.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct CertificateFiles {
    /// PEM file of the certificate and its intermediates.
    pub chain: PathBuf,
    /// PEM file of the private key; may be the same file.
    pub key: PathBuf,
}

/// Client authentication by certificate.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct ClientAuth {
    /// `true`: a client without a certificate is refused.
    pub required: bool,
    /// PEM file of the trusted authorities.
    pub authorities: PathBuf,
}

/// The values of `client_auth`.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(super) enum ClientAuthMode {
    Off,
    Optional,
    Required,
}
