//! The settings and secrets that all endpoints of a server share.

use std::fmt;
use std::sync::Arc;
use std::time::Duration;

use aws_lc_rs::{hkdf, hmac};
use quinn_proto::congestion::BbrConfig;
use quinn_proto::crypto::rustls::QuicServerConfig;
use quinn_proto::{EndpointConfig, IdleTimeout, ServerConfig, TransportConfig, VarInt};
use rustls::crypto::aws_lc_rs::default_provider;
use rustls::server::ResolvesServerCertUsingSni;
use rustls::version::TLS13;
use serde::{Deserialize, Serialize};

use super::crypto::{Handshakes, LocalAddress};
use super::ids::IdGenerator;
use crate::config::Congestion;

/// QUIC version 1 (RFC 9000), the only one.
const VERSIONS: [u32; 1] = [1];

/// Unread bytes of one request's body, and of all of a connection. While 15 requests wait with
/// unread bodies, a further one is read without delay.
const STREAM_WINDOW_BYTES: u32 = 256 << 10;
const CONNECTION_WINDOW_BYTES: u32 = 4 << 20;

/// Concurrent requests of a connection: the fewest that RFC 9114 section 6.1 recommends. The
/// library allocates memory for all of them at once.
const REQUESTS_MAX: u32 = 100;

/// Concurrent unidirectional streams of the client: three of HTTP/3, and some of unknown types
/// (RFC 9114 section 6.2.3).
const UNIDIRECTIONAL_MAX: u32 = 8;

/// Bytes that a connection buffers at first until they are acknowledged.
pub(super) const SEND_WINDOW_BYTES_MIN: u64 = 256 << 10;

/// Time for which a Retry token is valid.
const RETRY_LIFETIME: Duration = Duration::from_secs(10);

/// Secret of a server's endpoints: makes stateless reset tokens, Retry tokens and connection IDs
/// valid in all of them.
#[derive(Clone, Serialize, Deserialize)]
pub(crate) struct QuicSecret([u8; 32]);

/// The settings of the endpoints of a server.
#[derive(Clone)]
pub(crate) struct Settings {
    pub(super) server: ServerConfig,
    pub(super) initial: Arc<QuicServerConfig>,
    secret: QuicSecret,
}

impl QuicSecret {
    /// Makes a random secret.
    ///
    /// # Errors
    /// The system has no random bytes.
    pub(crate) fn random() -> std::io::Result<QuicSecret> {
        let mut secret = [0; 32];
        getrandom::fill(&mut secret).map_err(std::io::Error::other)?;
        Ok(QuicSecret(secret))
    }

    fn derive(&self, purpose: &[u8]) -> [u8; 32] {
        let key = hmac::Key::new(hmac::HMAC_SHA256, &self.0);
        let mut derived = [0; 32];
        derived.copy_from_slice(hmac::sign(&key, purpose).as_ref());
        derived
    }

    /// The factor of connection IDs (see `ids`); odd, so that each random part has its mask.
    pub(super) fn factor(&self) -> u32 {
        let derived = self.derive(b"connection id");
        u32::from_be_bytes([derived[0], derived[1], derived[2], derived[3]]) | 1
    }
}

impl fmt::Debug for QuicSecret {
    /// Keeps the secret out of logs.
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        f.write_str("QuicSecret")
    }
}

impl fmt::Debug for Settings {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        f.write_str("Settings")
    }
}

impl Settings {
    /// Makes the settings. A connection ends after `idle` without a packet.
    ///
    /// # Errors
    /// The cryptographic library lacks the cipher of Initial packets.
    pub(crate) fn new(
        secret: &QuicSecret,
        idle: Duration,
        congestion: Congestion,
    ) -> std::io::Result<Settings> {
        // Never used for a handshake: it has the cipher of Initial packets only.
        let config = rustls::ServerConfig::builder_with_provider(Arc::new(default_provider()))
            .with_protocol_versions(&[&TLS13])
            .map_err(std::io::Error::other)?
            .with_no_client_auth()
            .with_cert_resolver(Arc::new(ResolvesServerCertUsingSni::new()));
        let initial = QuicServerConfig::try_from(config).map_err(std::io::Error::other)?;
        let initial = Arc::new(initial);
        let crypto = Handshakes { initial: Arc::clone(&initial), local: LocalAddress::default() };
        let token_key =
            hkdf::Salt::new(hkdf::HKDF_SHA256, b"hurtle").extract(&secret.derive(b"retry token"));
        let mut server = ServerConfig::new(Arc::new(crypto), Arc::new(token_key));
        server.transport_config(Arc::new(transport(idle, congestion)));
        server.retry_token_lifetime(RETRY_LIFETIME);
        Ok(Settings { server, initial, secret: secret.clone() })
    }

    /// The configuration of one endpoint.
    pub(super) fn endpoint(&self, number: usize) -> EndpointConfig {
        let key = hmac::Key::new(hmac::HMAC_SHA256, &self.secret.derive(b"stateless reset"));
        let mut config = EndpointConfig::new(Arc::new(key));
        let ids = IdGenerator::new(number, self.factor());
        config.cid_generator(move || Box::new(ids.clone()));
        config.supported_versions(VERSIONS.to_vec());
        config
    }

    pub(super) fn factor(&self) -> u32 {
        self.secret.factor()
    }
}

fn transport(idle: Duration, congestion: Congestion) -> TransportConfig {
    let mut transport = TransportConfig::default();
    let idle_ms = u32::try_from(idle.as_millis()).unwrap_or(u32::MAX);
    transport
        .max_concurrent_bidi_streams(REQUESTS_MAX.into())
        .max_concurrent_uni_streams(UNIDIRECTIONAL_MAX.into())
        .max_idle_timeout(Some(IdleTimeout::from(VarInt::from_u32(idle_ms))))
        .stream_receive_window(STREAM_WINDOW_BYTES.into())
        .receive_window(CONNECTION_WINDOW_BYTES.into())
        .send_window(SEND_WINDOW_BYTES_MIN)
        // DATAGRAM frames (RFC 9221) are off.
        .datagram_receive_buffer_size(None);
    if congestion == Congestion::Bbr {
        transport.congestion_controller_factory(Arc::new(BbrConfig::default()));
    }
    transport
}
