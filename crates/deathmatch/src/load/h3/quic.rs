//! The generator's settings of QUIC, and its datagrams.

use std::io::{self, IoSliceMut};
use std::net::{Ipv4Addr, Ipv6Addr, SocketAddr, UdpSocket};
use std::sync::Arc;
use std::time::Duration;

use quinn_proto::crypto::rustls::QuicClientConfig;
use quinn_proto::{ClientConfig, TransportConfig, VarInt};
use quinn_udp::{RecvMeta, UdpSockRef, UdpSocketState};

/// Flow-control window of a stream, as over HTTP/2; the connection's is four times as large.
const WINDOW_BYTES: u32 = 16 * 1024 * 1024;

/// Time without packets after which a connection is given up. Servers have shorter ones.
const IDLE_MAX: Duration = Duration::from_secs(120);

/// Wanted receive buffer of a socket; the kernel may allow less (net.core.rmem_max).
const RECEIVE_BUFFER_BYTES: usize = 4 * 1024 * 1024;

/// Most bytes of one receive of the kernel: a train of equal datagrams (GRO).
const TRAIN_BYTES: usize = 64 * 1024;

/// Datagrams of one send: far fewer than fit into the 64 KiB that a send may have.
const TRAIN_DATAGRAMS_MAX: usize = 10;

/// Receives of one call.
const TRAINS_MAX: usize = 4;

/// QUIC with this encryption.
pub(in crate::load) fn config(tls: &Arc<rustls::ClientConfig>) -> Result<ClientConfig, String> {
    let crypto = QuicClientConfig::try_from(tls.clone()).map_err(|e| e.to_string())?;
    let mut transport = TransportConfig::default();
    transport.stream_receive_window(VarInt::from_u32(WINDOW_BYTES));
    transport.receive_window(VarInt::from_u32(4 * WINDOW_BYTES));
    transport.max_idle_timeout(IDLE_MAX.try_into().ok());
    // RFC 9114, 6.1: servers do not open such streams.
    transport.max_concurrent_bidi_streams(VarInt::from_u32(0));
    let mut config = ClientConfig::new(Arc::new(crypto));
    config.transport_config(Arc::new(transport));
    Ok(config)
}

/// A socket of one connection.
#[derive(Debug)]
pub(super) struct Datagrams {
    pub(super) socket: UdpSocket,
    state: UdpSocketState,
}

impl Datagrams {
    /// Connects a socket, so that the kernel reports a port on which nothing listens.
    pub(super) fn open(target: SocketAddr) -> io::Result<Datagrams> {
        let any = match target {
            SocketAddr::V4(_) => SocketAddr::from((Ipv4Addr::UNSPECIFIED, 0)),
            SocketAddr::V6(_) => SocketAddr::from((Ipv6Addr::UNSPECIFIED, 0)),
        };
        let socket = UdpSocket::bind(any)?;
        socket.connect(target)?;
        let state = UdpSocketState::new(UdpSockRef::from(&socket))?;
        // A smaller buffer only costs repeated packets.
        let _ = state.set_recv_buffer_size(UdpSockRef::from(&socket), RECEIVE_BUFFER_BYTES);
        Ok(Datagrams { socket, state })
    }

    /// Most datagrams of one send (GSO).
    pub(super) fn sent_max(&self) -> usize {
        self.state.max_gso_segments().min(TRAIN_DATAGRAMS_MAX)
    }

    /// Sends. A datagram that the kernel has no room for is lost, as in the network.
    pub(super) fn send(&self, transmit: &quinn_proto::Transmit, bytes: &[u8]) -> io::Result<()> {
        let ecn = transmit.ecn.and_then(|ecn| quinn_udp::EcnCodepoint::from_bits(ecn as u8));
        let transmit = quinn_udp::Transmit {
            destination: transmit.destination,
            ecn,
            contents: &bytes[..transmit.size],
            segment_size: transmit.segment_size,
            src_ip: None,
        };
        match self.state.try_send(UdpSockRef::from(&self.socket), &transmit) {
            Err(e) if e.kind() == io::ErrorKind::WouldBlock => Ok(()),
            sent => sent,
        }
    }

    /// Receives datagrams into the buffer; `take` gets each with its ECN bits. `false`: there were
    /// none.
    pub(super) fn receive(
        &self,
        buffer: &mut [u8],
        mut take: impl FnMut(&[u8], Option<quinn_proto::EcnCodepoint>),
    ) -> io::Result<bool> {
        let mut metas = [RecvMeta::default(); TRAINS_MAX];
        let mut trains = buffer.chunks_exact_mut(TRAIN_BYTES);
        let mut slices: [IoSliceMut<'_>; TRAINS_MAX] =
            std::array::from_fn(|_| IoSliceMut::new(trains.next().unwrap_or_default()));
        let socket = UdpSockRef::from(&self.socket);
        let count = match self.state.recv(socket, &mut slices, &mut metas) {
            Ok(count) => count,
            Err(e) if e.kind() == io::ErrorKind::WouldBlock => return Ok(false),
            Err(e) => return Err(e),
        };
        for (meta, train) in metas.iter().zip(&slices).take(count) {
            let ecn = meta.ecn.and_then(|ecn| quinn_proto::EcnCodepoint::from_bits(ecn as u8));
            for datagram in train[..meta.len].chunks(meta.stride.max(1)) {
                take(datagram, ecn);
            }
        }
        Ok(true)
    }
}
