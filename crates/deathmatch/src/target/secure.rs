//! TLS with a server of any certificate: verified with the machine's authorities, or not at all.

use std::fmt;
use std::io;
use std::net::{SocketAddr, TcpStream};
use std::sync::Arc;

use rustls::client::danger::{HandshakeSignatureValid, ServerCertVerified, ServerCertVerifier};
use rustls::crypto::aws_lc_rs;
use rustls::pki_types::{CertificateDer, ServerName, UnixTime};
use rustls::{
    ClientConfig, ClientConnection, DigitallySignedStruct, Error, RootCertStore, SignatureScheme,
};

use super::{CONNECT_WITHIN, Url};
use crate::load::{Tls, reach_http3};
use crate::tls::Protocol;

/// The reason for which a handshake failed.
#[derive(Debug)]
pub enum TlsError {
    /// The certificate is not accepted.
    Certificate(Error),
    /// The server does not speak HTTP/2.
    NoHttp2,
    /// The server does not speak TLS.
    NoTls,
    /// Another reason.
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
        mut stream: TcpStream,
        protocol: Protocol,
        insecure: bool,
    ) -> io::Result<Tls> {
        let failed = |why: TlsError| io::Error::other(format!("{self}: {why}"));
        let name = ServerName::try_from(self.host.clone())
            .map_err(|e| failed(TlsError::Other(e.to_string())))?;
        let config = config(protocol, insecure).map_err(|e| failed(TlsError::Other(e)))?;
        stream.set_read_timeout(Some(CONNECT_WITHIN))?;
        stream.set_write_timeout(Some(CONNECT_WITHIN))?;
        let mut session = ClientConnection::new(config.clone(), name.clone())
            .map_err(|e| failed(TlsError::Other(e.to_string())))?;
        while session.is_handshaking() {
            session.complete_io(&mut stream).map_err(|e| failed(cause(&e)))?;
        }
        if protocol == Protocol::Http2 && session.alpn_protocol() != Some(protocol.id()) {
            return Err(failed(TlsError::NoHttp2));
        }
        session.send_close_notify();
        // The server may have closed already.
        let _ = session.complete_io(&mut stream);
        Ok(Tls::with(config, name, protocol))
    }

    /// Completes a handshake of QUIC; returns the encryption of further connections.
    pub(super) fn shake_hands_over_quic(
        &self,
        address: SocketAddr,
        insecure: bool,
    ) -> io::Result<Tls> {
        let failed = |why: TlsError| io::Error::other(format!("{self}: {why}"));
        let name = ServerName::try_from(self.host.clone())
            .map_err(|e| failed(TlsError::Other(e.to_string())))?;
        let config = config(Protocol::Http3, insecure).map_err(|e| failed(TlsError::Other(e)))?;
        let tls = Tls::with(config, name, Protocol::Http3);
        match reach_http3(address, &tls, CONNECT_WITHIN) {
            Ok(()) => Ok(tls),
            Err(e) => Err(io::Error::new(e.kind(), format!("{self}: no HTTP/3 ({e})"))),
        }
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
        let mut roots = RootCertStore::empty();
        roots.add_parsable_certificates(rustls_native_certs::load_native_certs().certs);
        builder.with_root_certificates(roots).with_no_client_auth()
    };
    config.alpn_protocols = vec![protocol.id().to_vec()];
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
