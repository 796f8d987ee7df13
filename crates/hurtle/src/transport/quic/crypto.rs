//! TLS of a QUIC connection (RFC 9001) by rustls. The ClientHello selects the site's configuration,
//! as over TCP, so the session begins only when the ClientHello is complete.

use std::any::Any;
use std::cell::RefCell;
use std::fmt;
use std::io::Cursor;
use std::net::IpAddr;
use std::rc::Rc;
use std::sync::Arc;

use quinn_proto::crypto::rustls::QuicServerConfig;
use quinn_proto::crypto::{
    ExportKeyingMaterialError, HeaderKey, KeyPair, Keys, PacketKey, ServerConfig, Session,
    UnsupportedVersion,
};
use quinn_proto::transport_parameters::TransportParameters;
use quinn_proto::{ConnectionId, Side, TransportError, TransportErrorCode};
use rustls::HandshakeKind;
use rustls::quic::{KeyChange, Secrets, ServerConnection, Version};
use rustls::server::{Acceptor, ClientHello};

use super::super::handshake::Choice;
use crate::config::Listen;
use crate::tls::ClientCertificate;

/// Largest ClientHello, in bytes; rustls limits it too.
const HELLO_BYTES_MAX: usize = 64 << 10;

/// Largest payload of a TLS record (RFC 8446 section 5.1).
const RECORD_BYTES_MAX: usize = 16 << 10;

/// Alerts (RFC 8446 section 6).
const INTERNAL_ERROR: u8 = 80;
const UNRECOGNIZED_NAME: u8 = 112;

/// Selects the configuration for a ClientHello and the local address.
type Chooser = Rc<dyn Fn(&ClientHello<'_>, &LocalAddress) -> Choice>;

thread_local! {
    /// The worker's selection. `Session` must be `Send`, so it cannot hold the worker's state.
    static CHOOSER: RefCell<Option<Chooser>> = const { RefCell::new(None) };
}

/// Sets the selection of configurations for the connections of this thread.
pub(crate) fn set_chooser(chooser: impl Fn(&ClientHello<'_>, &LocalAddress) -> Choice + 'static) {
    CHOOSER.set(Some(Rc::new(chooser)));
}

/// The result of a handshake.
#[derive(Clone, Debug, Default)]
pub(crate) struct Negotiated {
    /// The server name that the client requested (RFC 6066 section 3).
    pub server_name: Option<String>,
    /// The number of the client authentication policy that the handshake met; 0: none.
    pub policy: u32,
    /// The version of TLS and the cipher suite, for the log.
    pub cipher: Option<(&'static str, &'static str)>,
    /// The client's certificate, if it was verified.
    pub client: Option<ClientCertificate>,
    /// The handshake resumed a session.
    pub is_resumed: bool,
}

/// The local end of a connection.
#[derive(Clone, Debug, Default)]
pub(crate) struct LocalAddress {
    /// The address of the listener, as configured.
    pub listen: Option<Arc<Listen>>,
    /// The address to which the client sends.
    pub ip: Option<IpAddr>,
}

/// Makes the sessions of connections to one local address.
pub(super) struct Handshakes {
    /// Has the keys of Initial packets, which are the same for all sites.
    pub(super) initial: Arc<QuicServerConfig>,
    pub(super) local: LocalAddress,
}

impl ServerConfig for Handshakes {
    fn initial_keys(&self, version: u32, id: &ConnectionId) -> Result<Keys, UnsupportedVersion> {
        self.initial.initial_keys(version, id)
    }

    fn retry_tag(&self, version: u32, id: &ConnectionId, packet: &[u8]) -> [u8; 16] {
        self.initial.retry_tag(version, id, packet)
    }

    fn start_session(
        self: Arc<Self>,
        version: u32,
        params: &TransportParameters,
    ) -> Box<dyn Session> {
        let mut encoded = Vec::new();
        params.write(&mut encoded);
        let state = CryptoState::Hello {
            acceptor: Box::default(),
            received: Vec::new(),
            params: encoded,
            local: self.local.clone(),
        };
        Box::new(TlsSession { initial: Arc::clone(&self.initial), version, state, secrets: None })
    }
}

/// The session of one connection.
struct TlsSession {
    initial: Arc<QuicServerConfig>,
    version: u32,
    state: CryptoState,
    /// The secrets of the next key update (RFC 9001 section 6).
    secrets: Option<Secrets>,
}

enum CryptoState {
    /// The ClientHello is incomplete.
    Hello {
        acceptor: Box<Acceptor>,
        /// The bytes so far.
        received: Vec<u8>,
        /// The server's transport parameters, encoded (RFC 9000 section 18).
        params: Vec<u8>,
        local: LocalAddress,
    },
    /// The configuration was selected.
    Chosen { session: Box<ServerConnection>, policy: u32, is_announced: bool },
}

impl TlsSession {
    /// Reads a part of the ClientHello. Begins the session when it is complete.
    fn read_hello(&mut self, bytes: &[u8]) -> Result<(), TransportError> {
        let CryptoState::Hello { acceptor, received, params, local } = &mut self.state else {
            return Ok(());
        };
        if received.len() + bytes.len() > HELLO_BYTES_MAX {
            return Err(alert(INTERNAL_ERROR, "the ClientHello is too large"));
        }
        received.extend_from_slice(bytes);
        for part in bytes.chunks(RECORD_BYTES_MAX) {
            // rustls parses a ClientHello of TLS records only (RFC 8446 section 5.1).
            let len = u16::try_from(part.len()).unwrap_or(0).to_be_bytes();
            let record = [&[22, 3, 1, len[0], len[1]], part].concat();
            let read = acceptor.read_tls(&mut &record[..]);
            if !read.is_ok_and(|read| read == record.len()) {
                return Err(alert(INTERNAL_ERROR, "the ClientHello is malformed"));
            }
            let accepted = match acceptor.accept() {
                Ok(Some(accepted)) => accepted,
                Ok(None) => continue,
                Err((error, _)) => return Err(violation(&error)),
            };
            let chooser = CHOOSER.with_borrow(Clone::clone);
            let choice = chooser.map(|choose| choose(&accepted.client_hello(), local));
            let (config, policy) = match choice {
                Some(Choice::Serve(config, policy)) => (config, policy),
                Some(Choice::NotIssued) => {
                    return Err(alert(INTERNAL_ERROR, "the certificate has not been issued yet"));
                }
                // RFC 6066 section 3: fatal, since clients would reject another site's certificate.
                Some(Choice::UnknownName | Choice::Validate(_)) | None => {
                    return Err(alert(
                        UNRECOGNIZED_NAME,
                        "no site with a certificate has the name",
                    ));
                }
            };
            let session = ServerConnection::new(config, Version::V1, std::mem::take(params));
            let session = session.map_err(|e| alert(INTERNAL_ERROR, &e.to_string()))?;
            let received = std::mem::take(received);
            let session = Box::new(session);
            self.state = CryptoState::Chosen { session, policy, is_announced: false };
            return self.read_message(&received).map(drop);
        }
        Ok(())
    }

    /// Reads messages after the selection.
    fn read_message(&mut self, bytes: &[u8]) -> Result<(), TransportError> {
        let CryptoState::Chosen { session, .. } = &mut self.state else { return Ok(()) };
        session.read_hs(bytes).map_err(|error| match session.alert() {
            Some(code) => alert(code.into(), &error.to_string()),
            None => violation(&error),
        })
    }

    fn session(&self) -> Option<&ServerConnection> {
        match &self.state {
            CryptoState::Hello { .. } => None,
            CryptoState::Chosen { session, .. } => Some(session),
        }
    }
}

fn alert(code: u8, reason: &str) -> TransportError {
    TransportError {
        code: TransportErrorCode::crypto(code),
        frame: None,
        reason: reason.to_owned(),
    }
}

fn violation(error: &rustls::Error) -> TransportError {
    TransportError {
        code: TransportErrorCode::PROTOCOL_VIOLATION,
        frame: None,
        reason: error.to_string(),
    }
}

impl Session for TlsSession {
    fn initial_keys(&self, id: &ConnectionId, _side: Side) -> Keys {
        // `Handshakes::initial_keys` has accepted the version.
        match self.initial.initial_keys(self.version, id) {
            Ok(keys) => keys,
            Err(UnsupportedVersion) => unreachable!("a version without keys begins no session"),
        }
    }

    /// Returns [`Negotiated`], once the handshake is complete.
    fn handshake_data(&self) -> Option<Box<dyn Any>> {
        let CryptoState::Chosen { session, policy, .. } = &self.state else { return None };
        if session.is_handshaking() {
            return None;
        }
        let suite = session.negotiated_cipher_suite();
        Some(Box::new(Negotiated {
            server_name: session.server_name().map(str::to_owned),
            policy: *policy,
            cipher: suite.map(|suite| ("TLSv1.3", suite.suite().as_str().unwrap_or("unknown"))),
            client: session.peer_certificates().map(ClientCertificate::new),
            is_resumed: session.handshake_kind() == Some(HandshakeKind::Resumed),
        }))
    }

    fn peer_identity(&self) -> Option<Box<dyn Any>> {
        None
    }

    /// Early data is off: it can be replayed (RFC 8446 section 8).
    fn early_crypto(&self) -> Option<(Box<dyn HeaderKey>, Box<dyn PacketKey>)> {
        None
    }

    fn early_data_accepted(&self) -> Option<bool> {
        None
    }

    fn is_handshaking(&self) -> bool {
        self.session().is_none_or(|session| session.is_handshaking())
    }

    fn read_handshake(&mut self, bytes: &[u8]) -> Result<bool, TransportError> {
        match self.state {
            CryptoState::Hello { .. } => self.read_hello(bytes)?,
            CryptoState::Chosen { .. } => self.read_message(bytes)?,
        }
        let CryptoState::Chosen { session, is_announced, .. } = &mut self.state else {
            return Ok(false);
        };
        let is_complete = !session.is_handshaking();
        Ok(is_complete && !std::mem::replace(is_announced, true))
    }

    fn transport_parameters(&self) -> Result<Option<TransportParameters>, TransportError> {
        let encoded = self.session().and_then(|session| session.quic_transport_parameters());
        let Some(encoded) = encoded else { return Ok(None) };
        Ok(Some(TransportParameters::read(Side::Server, &mut Cursor::new(encoded))?))
    }

    fn write_handshake(&mut self, out: &mut Vec<u8>) -> Option<Keys> {
        let CryptoState::Chosen { session, .. } = &mut self.state else { return None };
        let keys = match session.write_hs(out)? {
            KeyChange::Handshake { keys } => keys,
            KeyChange::OneRtt { keys, next } => {
                self.secrets = Some(next);
                keys
            }
        };
        Some(Keys {
            header: KeyPair {
                local: Box::new(keys.local.header),
                remote: Box::new(keys.remote.header),
            },
            packet: KeyPair {
                local: Box::new(keys.local.packet),
                remote: Box::new(keys.remote.packet),
            },
        })
    }

    fn next_1rtt_keys(&mut self) -> Option<KeyPair<Box<dyn PacketKey>>> {
        let keys = self.secrets.as_mut()?.next_packet_keys();
        Some(KeyPair { local: Box::new(keys.local), remote: Box::new(keys.remote) })
    }

    /// Clients get Retry packets, servers do not.
    fn is_valid_retry(&self, _id: &ConnectionId, _header: &[u8], _payload: &[u8]) -> bool {
        false
    }

    /// Always fails: HTTP/3 exports no keying material.
    fn export_keying_material(
        &self,
        _output: &mut [u8],
        _label: &[u8],
        _context: &[u8],
    ) -> Result<(), ExportKeyingMaterialError> {
        Err(ExportKeyingMaterialError)
    }
}

impl fmt::Debug for Handshakes {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        write!(f, "Handshakes at {:?}", self.local)
    }
}
