//! The certificate of a run, the same for every server, and what it takes to speak TLS with one that
//! has it: TLS 1.3, one suite and one group, so that all servers do the same arithmetic.

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
use rustls::{ClientConfig, ClientConnection, RootCertStore, StreamOwned};

/// The only name the certificate is for, and the one servers are asked for (SNI).
pub const NAME: &str = "localhost";

const CERTIFICATE: &str = "certificate.pem";
const KEY: &str = "key.pem";

/// A run's certificate and key, ECDSA over P-256, signed by itself.
#[derive(Clone, Debug)]
pub struct Identity {
    /// The certificate's file (PEM).
    pub certificate: PathBuf,
    /// The key's (PEM, PKCS #8). Everybody may read it, for servers become other users; nobody but this
    /// run trusts it.
    pub key: PathBuf,
    /// What clients need.
    pub trust: Trust,
}

/// The certificate a server must have.
#[derive(Clone, Debug)]
pub struct Trust {
    certificate: CertificateDer<'static>,
}

impl Identity {
    /// The files of one in this folder.
    pub fn files(folder: &Path) -> (PathBuf, PathBuf) {
        (folder.join(CERTIFICATE), folder.join(KEY))
    }

    /// The one in this folder, which is made with it where there is none.
    ///
    /// # Errors
    /// The file system's; a file that is there and no certificate.
    pub fn within(folder: &Path) -> io::Result<Identity> {
        let folder = std::path::absolute(folder)?;
        let (certificate, key) = Identity::files(&folder);
        if !certificate.exists() {
            let made =
                rcgen::generate_simple_self_signed([NAME.to_owned()]).map_err(io::Error::other)?;
            fs::create_dir_all(&folder)?;
            fs::write(&key, made.signing_key.serialize_pem())?;
            fs::write(&certificate, made.cert.pem())?;
        }
        let der = CertificateDer::from_pem_file(&certificate);
        let der = der.map_err(|e| io::Error::other(format!("{}: {e}", certificate.display())))?;
        Ok(Identity { certificate, key, trust: Trust { certificate: der } })
    }
}

impl Trust {
    /// The certificate.
    pub fn certificate(&self) -> &CertificateDer<'static> {
        &self.certificate
    }

    /// What a client speaks TLS with that checks all there is to check and resumes nothing; it offers
    /// these protocols (ALPN, RFC 7301).
    ///
    /// # Errors
    /// A certificate that cannot be trusted.
    pub fn checking(&self, protocols: &[&[u8]]) -> Result<Arc<ClientConfig>, rustls::Error> {
        let mut roots = RootCertStore::empty();
        roots.add(self.certificate.clone())?;
        let mut config = ClientConfig::builder_with_provider(provider(kx_group::X25519))
            .with_protocol_versions(&[&rustls::version::TLS13])?
            .with_root_certificates(roots)
            .with_no_client_auth();
        config.alpn_protocols = protocols.iter().map(|name| name.to_vec()).collect();
        config.resumption = rustls::client::Resumption::disabled();
        Ok(Arc::new(config))
    }
}

/// A connection that is waited for, in clear or encrypted.
#[derive(Debug)]
pub enum Stream {
    /// In clear.
    Plain(TcpStream),
    /// The handshake is done with the first byte that is sent.
    Tls(Box<StreamOwned<ClientConnection, TcpStream>>),
}

impl Stream {
    /// Connects, within this time; each read and write may take as long. HTTP/1.1 is what will be spoken.
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
        let session = ClientConnection::new(config, name()).map_err(io::Error::other)?;
        Ok(Stream::Tls(Box::new(StreamOwned::new(session, stream))))
    }
}

impl Read for Stream {
    fn read(&mut self, into: &mut [u8]) -> io::Result<usize> {
        match self {
            Stream::Plain(stream) => stream.read(into),
            Stream::Tls(stream) => match stream.read(into).map_err(said) {
                // Without a close_notify, which an answer's length makes up for.
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
            Stream::Tls(stream) => stream.write(bytes).map_err(said),
        }
    }

    fn flush(&mut self) -> io::Result<()> {
        match self {
            Stream::Plain(stream) => stream.flush(),
            Stream::Tls(stream) => stream.flush().map_err(said),
        }
    }
}

/// An error of TLS, as one.
fn said(e: io::Error) -> io::Error {
    match e.get_ref().and_then(|inner| inner.downcast_ref::<rustls::Error>()) {
        Some(rustls::Error::InvalidMessage(_)) => {
            io::Error::new(e.kind(), "it does not speak TLS on this port")
        }
        Some(inner) => io::Error::new(e.kind(), format!("TLS: {inner}")),
        None => e,
    }
}

/// The name servers are asked for.
pub fn name() -> ServerName<'static> {
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
