//! Accepts exactly one certificate.

use rustls::client::danger::{HandshakeSignatureValid, ServerCertVerified, ServerCertVerifier};
use rustls::crypto::aws_lc_rs::kx_group;
use rustls::pki_types::{CertificateDer, ServerName, UnixTime};
use rustls::{CertificateError, DigitallySignedStruct, Error, SignatureScheme};

use crate::tls::{Trust, provider};

/// The certificate a server must have. Its possession of the key is not verified: verifying a
/// signature costs the generator more than making it costs the server.
#[derive(Debug)]
pub(super) struct ExpectedCertificate(CertificateDer<'static>);

impl ExpectedCertificate {
    pub(super) fn new(trust: &Trust) -> ExpectedCertificate {
        ExpectedCertificate(trust.certificate().clone())
    }
}

impl ServerCertVerifier for ExpectedCertificate {
    fn verify_server_cert(
        &self,
        certificate: &CertificateDer<'_>,
        _: &[CertificateDer<'_>],
        _: &ServerName<'_>,
        _: &[u8],
        _: UnixTime,
    ) -> Result<ServerCertVerified, Error> {
        match *certificate == self.0 {
            true => Ok(ServerCertVerified::assertion()),
            false => Err(CertificateError::UnknownIssuer.into()),
        }
    }

    fn verify_tls12_signature(
        &self,
        _: &[u8],
        _: &CertificateDer<'_>,
        _: &DigitallySignedStruct,
    ) -> Result<HandshakeSignatureValid, Error> {
        Err(Error::General("only TLS 1.3 is spoken".to_owned()))
    }

    fn verify_tls13_signature(
        &self,
        _: &[u8],
        _: &CertificateDer<'_>,
        _: &DigitallySignedStruct,
    ) -> Result<HandshakeSignatureValid, Error> {
        Ok(HandshakeSignatureValid::assertion())
    }

    fn supported_verify_schemes(&self) -> Vec<SignatureScheme> {
        // The certificate of a URL may have any key.
        provider(kx_group::X25519).signature_verification_algorithms.supported_schemes()
    }
}
