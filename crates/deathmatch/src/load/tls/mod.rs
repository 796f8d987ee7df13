//! TLS for the generator's connections: bytes in, bytes out, no sockets. It leaves out work that a
//! server cannot notice: certificates are compared and not verified (`verify` does that, before and
//! after), and one key share serves all handshakes.

mod known;
mod share;
mod tickets;

use std::io::{Read, Write};
use std::sync::Arc;

use rustls::client::{ClientConfig, Resumption, UnbufferedClientConnection};
use rustls::pki_types::ServerName;
use rustls::unbuffered::{ConnectionState, EncodeError, EncryptError, UnbufferedStatus};
use rustls::{ClientConnection, Error, HandshakeKind, StreamOwned};

use crate::tls::{Protocol, Trust, provider};

/// Largest plaintext of a record (RFC 8446, 5.1); a record adds less than `RECORD_MORE`.
const RECORD_BYTES: usize = 16 * 1024;
const RECORD_MORE: usize = 64;

/// Encryption of connections. It keeps the tickets, so that a run resumes sessions of the warm-up.
#[derive(Clone, Debug)]
pub struct Tls {
    config: Arc<ClientConfig>,
    name: ServerName<'static>,
    protocol: Protocol,
}

impl Tls {
    /// TLS 1.3 with X25519 and TLS_AES_128_GCM_SHA256, for a server with exactly this certificate.
    /// `stock`: handshakes are resumed once there are so many tickets, or never. No other
    /// `protocol` is offered.
    ///
    /// # Errors
    /// The library lacks them.
    pub fn new(trust: &Trust, stock: Option<usize>, protocol: Protocol) -> Result<Tls, Error> {
        let mut config = ClientConfig::builder_with_provider(provider(&share::OneShare))
            .with_protocol_versions(&[&rustls::version::TLS13])?
            .dangerous()
            .with_custom_certificate_verifier(Arc::new(known::ExpectedCertificate::new(trust)))
            .with_no_client_auth();
        config.alpn_protocols = vec![protocol.id().to_vec()];
        config.resumption = match stock {
            Some(first) => Resumption::store(Arc::new(tickets::Tickets::new(first))),
            None => Resumption::disabled(),
        };
        Ok(Tls { config: Arc::new(config), name: trust.name(), protocol })
    }

    /// A configuration of the caller's, which has verified what it wants to, for a server of this
    /// name.
    pub fn with(config: Arc<ClientConfig>, name: ServerName<'static>, protocol: Protocol) -> Tls {
        Tls { config, name, protocol }
    }

    /// Encrypts a connection outside of a load.
    ///
    /// # Errors
    /// The library cannot begin a handshake with this configuration.
    pub fn stream<S: Read + Write>(
        &self,
        socket: S,
    ) -> Result<StreamOwned<ClientConnection, S>, Error> {
        let session = ClientConnection::new(self.config.clone(), self.name.clone())?;
        Ok(StreamOwned::new(session, socket))
    }

    /// The encryption of a QUIC connection.
    pub(super) fn quic(&self) -> Result<quinn_proto::ClientConfig, String> {
        super::h3::config(&self.config)
    }

    /// The name of the server.
    pub(super) fn server_name(&self) -> String {
        self.name.to_str().into_owned()
    }
}

/// TLS state of one connection.
pub(super) struct Session {
    connection: UnbufferedClientConnection,
    protocol: Protocol,
    /// The handshake is complete.
    is_established: bool,
    /// Encrypted bytes to send.
    out: Vec<u8>,
    /// The beginning of an incomplete record.
    held: Vec<u8>,
}

impl Session {
    /// A new session; its hello waits to be sent.
    pub(super) fn new(tls: &Tls) -> Result<Session, Error> {
        let connection = UnbufferedClientConnection::new(tls.config.clone(), tls.name.clone())?;
        let (out, held) = (Vec::new(), Vec::new());
        let mut session =
            Session { connection, protocol: tls.protocol, is_established: false, out, held };
        session.open(&mut [], |_| {})?;
        Ok(session)
    }

    /// `true` if the handshake is complete.
    pub(super) fn is_established(&self) -> bool {
        self.is_established
    }

    /// `true` if the handshake was resumed; only meaningful once it is complete.
    pub(super) fn resumed(&self) -> bool {
        self.connection.handshake_kind() == Some(HandshakeKind::Resumed)
    }

    /// `true` if the server agreed to the connection's protocol. HTTP/1.1 needs no agreement.
    pub(super) fn agreed(&self) -> bool {
        let agreed = self.connection.alpn_protocol();
        self.protocol == Protocol::Http1 || agreed == Some(self.protocol.id())
    }

    /// Bytes that wait to be sent.
    pub(super) fn output(&mut self) -> &mut Vec<u8> {
        &mut self.out
    }

    /// Bytes kept back, to be read before those that follow.
    pub(super) fn held(&self) -> &[u8] {
        &self.held
    }

    /// Decrypts received bytes, after those kept back; `take` gets the plaintext.
    pub(super) fn open(
        &mut self,
        received: &mut [u8],
        mut take: impl FnMut(&[u8]),
    ) -> Result<(), Error> {
        let mut at = 0;
        let mut over = false;
        while !over {
            let UnbufferedStatus { mut discard, state } =
                self.connection.process_tls_records(&mut received[at..]);
            match state? {
                ConnectionState::ReadTraffic(mut traffic) => {
                    while let Some(record) = traffic.next_record() {
                        let record = record?;
                        discard += record.discard;
                        take(record.payload);
                    }
                }
                ConnectionState::EncodeTlsData(mut data) => encode(&mut self.out, |out| {
                    data.encode(out).map_err(|e| match e {
                        EncodeError::InsufficientSize(size) => Some(size.required_size),
                        EncodeError::AlreadyEncoded => None,
                    })
                })?,
                ConnectionState::TransmitTlsData(data) => data.done(),
                ConnectionState::PeerClosed => {}
                ConnectionState::WriteTraffic(_) => {
                    self.is_established = true;
                    over = true;
                }
                _ => over = true,
            }
            at += discard;
        }
        self.held.clear();
        self.held.extend_from_slice(&received[at..]);
        Ok(())
    }

    pub(super) fn seal(&mut self, bytes: &[u8]) -> Result<(), Error> {
        // All complete input was taken, so the library is ready to write.
        let UnbufferedStatus { state, .. } = self.connection.process_tls_records(&mut []);
        let ConnectionState::WriteTraffic(mut traffic) = state? else {
            return Err(Error::HandshakeNotComplete);
        };
        let out = &mut self.out;
        for piece in bytes.chunks(RECORD_BYTES) {
            encode(out, |out| {
                traffic.encrypt(piece, out).map_err(|e| match e {
                    EncryptError::InsufficientSize(size) => Some(size.required_size),
                    EncryptError::EncryptExhausted => None,
                })
            })?;
        }
        Ok(())
    }
}

/// Appends output to the buffer, which grows on demand.
fn encode(
    out: &mut Vec<u8>,
    mut write: impl FnMut(&mut [u8]) -> Result<usize, Option<usize>>,
) -> Result<(), Error> {
    let before = out.len();
    out.resize(before + RECORD_MORE, 0);
    let written = match write(&mut out[before..]) {
        Err(Some(required)) => {
            out.resize(before + required, 0);
            write(&mut out[before..])
        }
        written => written,
    };
    out.truncate(before + *written.as_ref().unwrap_or(&0));
    written.map(drop).map_err(|_| Error::EncryptError)
}
