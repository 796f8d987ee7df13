//! TLS with a server of any certificate: verified with the machine's authorities, or not at all.

use std::fmt;
use std::io::{self, Read, Write};
use std::net::SocketAddr;
use std::sync::Arc;

use rustls::client::danger::{HandshakeSignatureValid, ServerCertVerified, ServerCertVerifier};
use rustls::client::verify_server_name;
use rustls::client::{Resumption, WebPkiServerVerifier};
use rustls::crypto::aws_lc_rs;
use rustls::pki_types::{CertificateDer, ServerName, UnixTime};
use rustls::server::ParsedCertificate;
use rustls::{
    CertificateError, ClientConfig, ClientConnection, DigitallySignedStruct, Error, RootCertStore,
    SignatureScheme,
};

use super::{CONNECT_WITHIN, Url};
use crate::load::{Tls, reach_http3};
use crate::tls::{Protocol, Trust};

/// The reason for which a handshake failed.
#[derive(Debug)]
pub enum TlsError {
    /// The certificate is not accepted.
    Certificate(Error),
    /// The server does not speak HTTP/2.
    NoHttp2,
    /// The server does not speak TLS.
    NoTls,
    /// Another reason, in words for a message.
    Other(String),
}

impl fmt::Display for TlsError {
    fn fmt(&self, to: &mut fmt::Formatter<'_>) -> fmt::Result {
        match self {
            TlsError::Certificate(e) => write!(
                to,
                "its certificate is not accepted ({e}); --insecure accepts any, SSL_CERT_FILE names \
                 an authority"
            ),
            TlsError::NoHttp2 => write!(to, "it does not speak HTTP/2; leave --h2 out"),
            TlsError::NoTls => write!(to, "it does not speak TLS on this port; write http://"),
            TlsError::Other(why) => write!(to, "the TLS handshake failed: {why}"),
        }
    }
}

impl Url {
    /// Completes a handshake; returns the encryption of further connections.
    pub(super) fn shake_hands(
        &self,
        mut stream: impl Read + Write,
        protocol: Protocol,
        insecure: bool,
    ) -> io::Result<(Tls, Trust)> {
        let failed = |why: TlsError| io::Error::other(format!("{self}: {why}"));
        let name = ServerName::try_from(self.host.clone())
            .map_err(|e| failed(TlsError::Other(e.to_string())))?;
        let config = config(protocol, insecure).map_err(|e| failed(TlsError::Other(e)))?;
        let mut session = ClientConnection::new(config.clone(), name.clone())
            .map_err(|e| failed(TlsError::Other(e.to_string())))?;
        while session.is_handshaking() {
            session.complete_io(&mut stream).map_err(|e| failed(cause(&e)))?;
        }
        if protocol == Protocol::Http2 && session.alpn_protocol() != Some(protocol.id()) {
            return Err(failed(TlsError::NoHttp2));
        }
        let shown = session.peer_certificates().and_then(|all| all.first()).cloned();
        let shown = shown.ok_or_else(|| failed(TlsError::Other("no certificate".to_owned())))?;
        let trust = Trust::known(shown.into_owned(), name.clone(), &self.authority);
        session.send_close_notify();
        // The server may have closed already.
        let _ = session.complete_io(&mut stream);
        Ok((Tls::with(config, name, protocol), trust))
    }

    /// Completes a handshake of QUIC; returns the encryption of further connections.
    pub(super) fn shake_hands_over_quic(
        &self,
        address: SocketAddr,
        insecure: bool,
    ) -> io::Result<Tls> {
        let failed = |why: TlsError| io::Error::other(why.to_string());
        let name = ServerName::try_from(self.host.clone())
            .map_err(|e| failed(TlsError::Other(e.to_string())))?;
        let config = config(Protocol::Http3, insecure).map_err(|e| failed(TlsError::Other(e)))?;
        let tls = Tls::with(config, name, Protocol::Http3);
        match reach_http3(address, &tls, CONNECT_WITHIN) {
            Ok(()) => Ok(tls),
            Err(e) => Err(io::Error::other(no_http3(&e))),
        }
    }
}

/// Reason for which a server was not reached over QUIC.
fn no_http3(e: &io::Error) -> String {
    match e.kind() {
        io::ErrorKind::ConnectionRefused => {
            "nothing listens on this UDP port, so it has no HTTP/3; leave --h3 out".to_owned()
        }
        io::ErrorKind::TimedOut => format!(
            "no answer over QUIC within {} s, so it has no HTTP/3 or UDP is blocked; leave --h3 out",
            CONNECT_WITHIN.as_secs()
        ),
        _ => format!("no HTTP/3 ({e})"),
    }
}

fn config(protocol: Protocol, insecure: bool) -> Result<Arc<ClientConfig>, String> {
    let builder = ClientConfig::builder_with_provider(Arc::new(aws_lc_rs::default_provider()))
        .with_safe_default_protocol_versions()
        .map_err(|e| e.to_string())?;
    let mut config = if insecure {
        let any = Arc::new(AnyCertificate);
        builder.dangerous().with_custom_certificate_verifier(any).with_no_client_auth()
    } else {
        let verifier = Arc::new(KnownCertificates::of_this_machine()?);
        builder.dangerous().with_custom_certificate_verifier(verifier).with_no_client_auth()
    };
    config.alpn_protocols = vec![protocol.id().to_vec()];
    // All handshakes are alike, whichever connection came before.
    config.resumption = Resumption::disabled();
    Ok(Arc::new(config))
}

fn cause(e: &io::Error) -> TlsError {
    match e.get_ref().and_then(|inner| inner.downcast_ref::<Error>()) {
        Some(e @ Error::InvalidCertificate(_)) => TlsError::Certificate(e.clone()),
        Some(Error::InvalidMessage(_)) => TlsError::NoTls,
        Some(Error::AlertReceived(rustls::AlertDescription::NoApplicationProtocol)) => {
            TlsError::NoHttp2
        }
        Some(e) => TlsError::Other(e.to_string()),
        None if e.kind() == io::ErrorKind::UnexpectedEof => {
            TlsError::Other("the server closed the connection".to_owned())
        }
        None => TlsError::Other(e.to_string()),
    }
}

/// Accepts certificates of the machine's authorities, and a server's own certificate among them
/// even if it is marked as an authority's, as `openssl req -x509` marks it and curl's `--cacert`
/// takes it.
#[derive(Debug)]
struct KnownCertificates {
    authorities: Arc<WebPkiServerVerifier>,
    known: Vec<CertificateDer<'static>>,
}

impl KnownCertificates {
    /// Those of the system, or of `SSL_CERT_FILE` and `SSL_CERT_DIR`.
    fn of_this_machine() -> Result<KnownCertificates, String> {
        let known = rustls_native_certs::load_native_certs().certs;
        let mut roots = RootCertStore::empty();
        roots.add_parsable_certificates(known.iter().cloned());
        let provider = Arc::new(aws_lc_rs::default_provider());
        let authorities = WebPkiServerVerifier::builder_with_provider(Arc::new(roots), provider);
        let authorities = authorities.build().map_err(|_| {
            "this machine has no certificates of authorities; SSL_CERT_FILE names a file of them, \
             --insecure accepts any"
        })?;
        Ok(KnownCertificates { authorities, known })
    }
}

impl ServerCertVerifier for KnownCertificates {
    fn verify_server_cert(
        &self,
        own: &CertificateDer<'_>,
        between: &[CertificateDer<'_>],
        name: &ServerName<'_>,
        ocsp: &[u8],
        now: UnixTime,
    ) -> Result<ServerCertVerified, Error> {
        let verified = self.authorities.verify_server_cert(own, between, name, ocsp, now);
        match verified {
            // Its dates are valid: they are checked first.
            Err(e) if is_authority(&e) && self.known.contains(own) => {
                verify_server_name(&ParsedCertificate::try_from(own)?, name)?;
                Ok(ServerCertVerified::assertion())
            }
            Err(e) if is_authority(&e) => Err(CertificateError::UnknownIssuer.into()),
            verified => verified,
        }
    }

    fn verify_tls12_signature(
        &self,
        message: &[u8],
        own: &CertificateDer<'_>,
        signed: &DigitallySignedStruct,
    ) -> Result<HandshakeSignatureValid, Error> {
        self.authorities.verify_tls12_signature(message, own, signed)
    }

    fn verify_tls13_signature(
        &self,
        message: &[u8],
        own: &CertificateDer<'_>,
        signed: &DigitallySignedStruct,
    ) -> Result<HandshakeSignatureValid, Error> {
        self.authorities.verify_tls13_signature(message, own, signed)
    }

    fn supported_verify_schemes(&self) -> Vec<SignatureScheme> {
        self.authorities.supported_verify_schemes()
    }
}

/// `true` if a server's certificate was refused because it is marked as an authority's.
fn is_authority(e: &Error) -> bool {
    let Error::InvalidCertificate(CertificateError::Other(other)) = e else { return false };
    other.0.downcast_ref() == Some(&webpki::Error::CaUsedAsEndEntity)
}

/// Accepts every certificate.
#[derive(Debug)]
struct AnyCertificate;

impl ServerCertVerifier for AnyCertificate {
    fn verify_server_cert(
        &self,
        _: &CertificateDer<'_>,
        _: &[CertificateDer<'_>],
        _: &ServerName<'_>,
        _: &[u8],
        _: UnixTime,
    ) -> Result<ServerCertVerified, Error> {
        Ok(ServerCertVerified::assertion())
    }

    fn verify_tls12_signature(
        &self,
        _: &[u8],
        _: &CertificateDer<'_>,
        _: &DigitallySignedStruct,
    ) -> Result<HandshakeSignatureValid, Error> {
        Ok(HandshakeSignatureValid::assertion())
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
        aws_lc_rs::default_provider().signature_verification_algorithms.supported_schemes()
    }
}
