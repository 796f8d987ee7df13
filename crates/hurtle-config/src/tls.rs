//! TLS settings of a site: certificates, client authentication, redirect and HSTS.

use std::path::{Path, PathBuf};

use http::HeaderValue;

use super::on_demand::OnDemand;

/// A site's TLS; by default without a certificate, a redirect or a client policy.
#[derive(Clone, Debug, Default, PartialEq, Eq)]
pub struct Tls {
    /// At least one; a client gets the first it supports, ECDSA before RSA.
    pub certificates: Vec<CertificateFiles>,
    /// Source of the certificates.
    pub source: CertificateSource,
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

/// Source of the certificates of a site.
#[derive(Clone, Debug, Default, PartialEq, Eq)]
pub enum CertificateSource {
    /// Files of the operator.
    #[default]
    Files,
    /// ACME. There is one certificate, whose file may not exist yet.
    Automatic,
    /// ACME, by the handshakes for each name. There are no files.
    OnDemand(OnDemand),
    /// The local authority in this directory. There is one certificate, whose file may not exist
    /// yet.
    Local(PathBuf),
}

impl Tls {
    /// `true`: there is one certificate by ACME, for the names in `hosts`.
    pub fn is_automatic(&self) -> bool {
        self.source == CertificateSource::Automatic
    }

    /// Settings of certificates by ACME that handshakes order; `None`: another source.
    pub fn on_demand(&self) -> Option<&OnDemand> {
        match &self.source {
            CertificateSource::OnDemand(on_demand) => Some(on_demand),
            _ => None,
        }
    }

    /// `true`: certificates by ACME.
    pub fn uses_acme(&self) -> bool {
        self.is_automatic() || self.on_demand().is_some()
    }

    /// The directory of the local authority that signs the certificate; `None`: another source.
    pub fn local_authority(&self) -> Option<&Path> {
        match &self.source {
            CertificateSource::Local(directory) => Some(directory),
            _ => None,
        }
    }
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
    /// PEM files with lists of revoked certificates (RFC 5280 section 5).
    pub revocation_lists: Vec<PathBuf>,
}

/// Client authentication by certificate of a mount, in a site that asks for certificates.
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq)]
pub enum MountClientAuth {
    /// The site's own requirement applies.
    #[default]
    None,
    /// A request on a connection without a client certificate is refused (403).
    Required,
}

impl MountClientAuth {
    /// `true`: the mount has no requirement of its own.
    pub(super) fn is_none(&self) -> bool {
        *self == MountClientAuth::None
    }
}

/// The values of `client_auth` of a site.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(super) enum ClientAuthMode {
    Off,
    Optional,
    Required,
}
