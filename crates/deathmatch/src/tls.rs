//! The certificate of a run, the same for every server, and TLS clients for it: TLS 1.3, one suite
//! and one group, so that all servers do the same cryptography.

mod known;

use std::fs;
use std::io::{self, Read, Write};
use std::net::{SocketAddr, TcpStream};
use std::path::{Path, PathBuf};
use std::sync::Arc;
use std::time::Duration;

use rustls::crypto::aws_lc_rs::{self, cipher_suite, kx_group};
use rustls::crypto::{CryptoProvider, SupportedKxGroup};
use rustls::pki_types::pem::PemObject;
use rustls::pki_types::{CertificateDer, ServerName};
use rustls::{AlertDescription, ClientConfig, ClientConnection, RootCertStore, StreamOwned};

/// The certificate's only name, and the server name clients send (SNI).
pub const NAME: &str = "localhost";

const CERTIFICATE: &str = "certificate.pem";
const KEY: &str = "key.pem";

/// A version of HTTP, as agreed on by ALPN (RFC 7301).
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq)]
pub enum Protocol {
    /// HTTP/1.1.
    #[default]
    Http1,
    Http2,
    /// HTTP/3, over QUIC.
    Http3,
}

impl Protocol {
    /// Its name in ALPN.
    pub fn id(self) -> &'static [u8] {
        match self {
            Protocol::Http1 => b"http/1.1",
            Protocol::Http2 => b"h2",
            Protocol::Http3 => b"h3",
        }
    }
}

/// A run's certificate and key, ECDSA over P-256, signed by itself.
#[derive(Clone, Debug)]
pub struct Identity {
    /// The certificate's file (PEM).
    pub certificate: PathBuf,
    /// The key's file (PEM, PKCS #8). It is readable for all users, since servers become other
    /// users; only this run trusts it.
    pub key: PathBuf,
    /// Trust anchors of clients.
    pub trust: Trust,
}

/// The certificate a server must have.
#[derive(Clone, Debug)]
pub struct Trust {
    certificate: CertificateDer<'static>,
    name: ServerName<'static>,
    /// As in the Host field.
    authority: String,
    /// `true` if it is compared with the certificate alone, which others have verified.
    is_known: bool,
}

impl Identity {
    /// Paths of the files in this folder.
    pub fn files(folder: &Path) -> (PathBuf, PathBuf) {
        (folder.join(CERTIFICATE), folder.join(KEY))
    }

    /// The certificate in this folder, made if there is none.
    ///
    /// # Errors
    /// The file system's; an existing file that is not a certificate.
    pub fn within(folder: &Path) -> io::Result<Identity> {
        let folder = std::path::absolute(folder)?;
        let (certificate, key) = Identity::files(&folder);
        if !certificate.exists() {
            let certified =
                rcgen::generate_simple_self_signed([NAME.to_owned()]).map_err(io::Error::other)?;
            fs::create_dir_all(&folder)?;
            fs::write(&key, certified.signing_key.serialize_pem())?;
            fs::write(&certificate, certified.cert.pem())?;
        }
        let der = CertificateDer::from_pem_file(&certificate);
        let der = der.map_err(|e| io::Error::other(format!("{}: {e}", certificate.display())))?;
        let (name, authority) = (name(), NAME.to_owned());
        let trust = Trust { certificate: der, name, authority, is_known: false };
        Ok(Identity { certificate, key, trust })
    }
}

impl Trust {
    /// Trust in the certificate that a server of this name has shown, and that was verified.
    pub fn known(
        certificate: CertificateDer<'static>,
        name: ServerName<'static>,
        authority: &str,
    ) -> Trust {
        Trust { certificate, name, authority: authority.to_owned(), is_known: true }
    }

    /// The server name that clients send.
    pub fn name(&self) -> ServerName<'static> {
        self.name.clone()
    }

    /// The authority of its URLs.
    pub fn authority(&self) -> &str {
        &self.authority
    }

    /// Returns the certificate that servers present.
    pub fn certificate(&self) -> &CertificateDer<'static> {
        &self.certificate
    }

    /// Configuration of a client that checks everything and resumes nothing; it offers these
    /// protocols (ALPN, RFC 7301).
    ///
    /// # Errors
    /// A certificate that cannot be trusted.
    pub fn checking(&self, protocols: &[&[u8]]) -> Result<Arc<ClientConfig>, rustls::Error> {
        let provider = provider(kx_group::X25519);
        let builder = ClientConfig::builder_with_provider(provider.clone())
            .with_protocol_versions(&[&rustls::version::TLS13])?;
        let mut config = if self.is_known {
            let verifier = known::KnownCertificate::new(&self.certificate, provider);
            let builder = builder.dangerous().with_custom_certificate_verifier(Arc::new(verifier));
            builder.with_no_client_auth()
        } else {
            let mut roots = RootCertStore::empty();
            roots.add(self.certificate.clone())?;
            builder.with_root_certificates(roots).with_no_client_auth()
        };
        config.alpn_protocols = protocols.iter().map(|name| name.to_vec()).collect();
        config.resumption = rustls::client::Resumption::disabled();
        Ok(Arc::new(config))
    }
}

/// A blocking connection, in clear text or encrypted.
#[derive(Debug)]
pub enum Stream {
    Plain(TcpStream),
    /// The first byte sent starts the handshake.
    Tls(Box<StreamOwned<ClientConnection, TcpStream>>),
}

impl Stream {
    /// Returns the TCP connection beneath TLS, to set its options.
    pub fn socket(&self) -> &TcpStream {
        match self {
            Stream::Plain(socket) => socket,
            Stream::Tls(stream) => &stream.sock,
        }
    }

    /// Connects within this time; each read and write may take as long. Offers HTTP/1.1.
    ///
    /// # Errors
    /// The network's.
    pub fn connect(
        addr: SocketAddr,
        trust: Option<&Trust>,
        within: Duration,
    ) -> io::Result<Stream> {
        let stream = TcpStream::connect_timeout(&addr, within)?;
        stream.set_nodelay(true)?;
        stream.set_read_timeout(Some(within))?;
        stream.set_write_timeout(Some(within))?;
        let Some(trust) = trust else { return Ok(Stream::Plain(stream)) };
        let config = trust.checking(&[b"http/1.1"]).map_err(io::Error::other)?;
        let session = ClientConnection::new(config, trust.name()).map_err(io::Error::other)?;
        Ok(Stream::Tls(Box::new(StreamOwned::new(session, stream))))
    }
}

impl Read for Stream {
    fn read(&mut self, into: &mut [u8]) -> io::Result<usize> {
        match self {
            Stream::Plain(stream) => stream.read(into),
            Stream::Tls(stream) => match stream.read(into).map_err(describe_error) {
                // A missing close_notify is accepted, since the response's length is checked.
                Err(e) if e.kind() == io::ErrorKind::UnexpectedEof => Ok(0),
                read => read,
            },
        }
    }
}

impl Write for Stream {
    fn write(&mut self, bytes: &[u8]) -> io::Result<usize> {
        match self {
            Stream::Plain(stream) => stream.write(bytes),
            Stream::Tls(stream) => stream.write(bytes).map_err(describe_error),
        }
    }

    fn flush(&mut self) -> io::Result<()> {
        match self {
            Stream::Plain(stream) => stream.flush(),
            Stream::Tls(stream) => stream.flush().map_err(describe_error),
        }
    }
}

/// An error of TLS as an I/O error.
fn describe_error(e: io::Error) -> io::Error {
    match e.get_ref().and_then(|inner| inner.downcast_ref::<rustls::Error>()) {
        Some(rustls::Error::InvalidMessage(_)) => {
            io::Error::new(e.kind(), "it does not speak TLS on this port")
        }
        Some(rustls::Error::AlertReceived(AlertDescription::ProtocolVersion)) => {
            io::Error::new(e.kind(), "it does not speak TLS 1.3, with which servers are compared")
        }
        Some(inner) => io::Error::new(e.kind(), format!("TLS: {inner}")),
        None => e,
    }
}

/// The server name of the run's certificate.
fn name() -> ServerName<'static> {
    ServerName::try_from(NAME).expect("it is a DNS name")
}

/// TLS_AES_128_GCM_SHA256, and one group.
pub fn provider(group: &'static dyn SupportedKxGroup) -> Arc<CryptoProvider> {
    Arc::new(CryptoProvider {
        cipher_suites: vec![cipher_suite::TLS13_AES_128_GCM_SHA256],
        kx_groups: vec![group],
        ..aws_lc_rs::default_provider()
    })
}
