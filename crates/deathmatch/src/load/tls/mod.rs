//! TLS for the generator's connections: bytes in, bytes out, no sockets. It does what a client must,
//! and no arithmetic that changes nothing for the server: certificates are compared and not verified
//! (`verify` does that, before and after), and one key share serves all handshakes.

mod known;
mod share;
mod tickets;

use std::sync::Arc;

use rustls::client::{ClientConfig, Resumption, UnbufferedClientConnection};
use rustls::unbuffered::{ConnectionState, EncodeError, EncryptError, UnbufferedStatus};
use rustls::{Error, HandshakeKind};

use crate::tls::{Trust, name, provider};

/// The most that goes out in one record (RFC 8446, 5.1); what a record adds to it is less than
/// `RECORD_MORE`.
const RECORD_BYTES: usize = 16 * 1024;
const RECORD_MORE: usize = 64;

/// How connections are encrypted. Tickets are kept as long as it is, so that a run resumes what the
/// warm-up began.
#[derive(Clone, Debug)]
pub struct Tls {
    config: Arc<ClientConfig>,
    http2: bool,
}

impl Tls {
    /// TLS 1.3 with X25519 and TLS_AES_128_GCM_SHA256, with a server that has exactly this certificate.
    /// `stock`: handshakes are resumed once so many tickets were had, else never; `http2`: nothing else
    /// will be spoken.
    ///
    /// # Errors
    /// That the library does not have them.
    pub fn new(trust: &Trust, stock: Option<usize>, http2: bool) -> Result<Tls, Error> {
        let mut config = ClientConfig::builder_with_provider(provider(&share::OneShare))
            .with_protocol_versions(&[&rustls::version::TLS13])?
            .dangerous()
            .with_custom_certificate_verifier(Arc::new(known::Known::new(trust)))
            .with_no_client_auth();
        config.alpn_protocols = vec![if http2 { b"h2".to_vec() } else { b"http/1.1".to_vec() }];
        config.resumption = match stock {
            Some(first) => Resumption::store(Arc::new(tickets::Tickets::new(first))),
            None => Resumption::disabled(),
        };
        Ok(Tls { config: Arc::new(config), http2 })
    }
}

/// One connection's.
pub(super) struct Session {
    connection: UnbufferedClientConnection,
    http2: bool,
    /// The handshake is over.
    stands: bool,
    /// Encrypted, and not yet sent.
    out: Vec<u8>,
    /// The beginning of a record of which the rest has not come.
    held: Vec<u8>,
}

impl Session {
    /// Begun; the hello waits to be sent.
    pub(super) fn new(tls: &Tls) -> Result<Session, Error> {
        let connection = UnbufferedClientConnection::new(tls.config.clone(), name())?;
        let (out, held) = (Vec::new(), Vec::new());
        let mut session = Session { connection, http2: tls.http2, stands: false, out, held };
        session.open(&mut [], |_| {})?;
        Ok(session)
    }

    /// Whether the handshake is over.
    pub(super) fn stands(&self) -> bool {
        self.stands
    }

    /// Whether the handshake was resumed; only meaningful once it is over.
    pub(super) fn resumed(&self) -> bool {
        self.connection.handshake_kind() == Some(HandshakeKind::Resumed)
    }

    /// Whether the server agreed to what this connection is for. HTTP/1.1 needs no agreement.
    pub(super) fn agreed(&self) -> bool {
        !self.http2 || self.connection.alpn_protocol() == Some(b"h2")
    }

    /// What waits to be sent.
    pub(super) fn out(&mut self) -> &mut Vec<u8> {
        &mut self.out
    }

    /// What was held back, to stand before what comes next.
    pub(super) fn held(&self) -> &[u8] {
        &self.held
    }

    /// These bytes came, what was held before them; `take` is given what they say.
    pub(super) fn open(
        &mut self,
        came: &mut [u8],
        mut take: impl FnMut(&[u8]),
    ) -> Result<(), Error> {
        let mut at = 0;
        let mut over = false;
        while !over {
            let UnbufferedStatus { mut discard, state } =
                self.connection.process_tls_records(&mut came[at..]);
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
                    self.stands = true;
                    over = true;
                }
                _ => over = true,
            }
            at += discard;
        }
        self.held.clear();
        self.held.extend_from_slice(&came[at..]);
        Ok(())
    }

    /// Encrypts.
    pub(super) fn seal(&mut self, bytes: &[u8]) -> Result<(), Error> {
        // Whatever came whole was taken, so that it stands ready to write.
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

/// Appends what is written into the room behind, of which there is more if it is asked for.
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
