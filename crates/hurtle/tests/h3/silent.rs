//! Clients that show that they receive packets at their address, begin handshakes and then are
//! silent.

use std::collections::{HashMap, HashSet};
use std::net::{SocketAddr, UdpSocket};
use std::num::NonZeroUsize;
use std::sync::Arc;
use std::sync::atomic::{AtomicBool, Ordering};
use std::thread;
use std::time::{Duration, Instant};

use quinn::crypto::rustls::QuicClientConfig;
use quinn_proto::{ClientConfig, Connection, DatagramEvent, EndpointConfig};

use crate::peer::{NAME, begin, endpoint, get, trusting, within_patience};
use crate::server::Server;

/// Handshakes that one worker has at once.
const HANDSHAKES_MAX: usize = 1_024;

/// Begins `count` handshakes from one port of `address`, and takes no packet of the server but
/// Retry. Returns how many were validated.
fn flood(server: &Server, address: [u8; 4], count: usize, stop: &AtomicBool) -> usize {
    let socket = UdpSocket::bind(SocketAddr::from((address, 0))).unwrap();
    socket.set_read_timeout(Some(Duration::from_millis(50))).unwrap();
    let tls = QuicClientConfig::try_from(trusting(server.roots(), &["h3"])).unwrap();
    let config = ClientConfig::new(Arc::new(tls));
    let mut client =
        quinn_proto::Endpoint::new(Arc::new(EndpointConfig::default()), None, true, None);
    let mut connections = HashMap::new();
    let mut validated = HashSet::new();
    for _ in 0..count {
        if stop.load(Ordering::Relaxed) {
            break;
        }
        let now = Instant::now();
        let (handle, mut connection) =
            client.connect(now, config.clone(), server.address, NAME).unwrap();
        send_first(&socket, &mut connection, server.address);
        connections.insert(handle, connection);
        let mut bytes = [0; 2_048];
        // Each datagram of the ClientHello gets a Retry packet; the second one is ignored.
        while !validated.contains(&handle) {
            let Some((len, from)) = receive_retry(&socket, &mut bytes) else { break };
            let mut out = Vec::new();
            let datagram = bytes[..len].into();
            let event = client.handle(Instant::now(), from, None, None, datagram, &mut out);
            let Some(DatagramEvent::ConnectionEvent(of, event)) = event else { continue };
            let Some(connection) = connections.get_mut(&of) else { continue };
            connection.handle_event(event);
            if validated.insert(of) {
                send_first(&socket, connection, server.address);
            }
        }
    }
    validated.len()
}

/// Waits for a Retry packet (RFC 9000 section 17.2.5), and skips the packets of handshakes. `None`:
/// the server did not ask for validation.
fn receive_retry(socket: &UdpSocket, bytes: &mut [u8]) -> Option<(usize, SocketAddr)> {
    let end = Instant::now() + Duration::from_millis(50);
    while Instant::now() < end {
        let received = socket.recv_from(bytes).ok()?;
        if bytes[0] & 0xf0 == 0xf0 {
            return Some(received);
        }
    }
    None
}

fn send_first(socket: &UdpSocket, connection: &mut Connection, to: SocketAddr) {
    let mut bytes = Vec::new();
    while let Some(transmit) = connection.poll_transmit(Instant::now(), 1, &mut bytes) {
        socket.send_to(&bytes[..transmit.size], to).unwrap();
        bytes.clear();
    }
}

/// One address must not shut others out.
#[test]
fn a_full_table_of_silent_handshakes_keeps_nobody_out() {
    let server = Server::with(&[("a.txt", "a")], |config| config.workers = NonZeroUsize::MIN);
    let go_on = AtomicBool::new(false);
    let count = HANDSHAKES_MAX + 200;
    let validated = flood(&server, [127, 0, 0, 2], count, &go_on);
    assert!(validated > HANDSHAKES_MAX, "the table is full: {validated} of {count} were validated");
    // The flood goes on while 200 clients of one address connect.
    let stop = AtomicBool::new(false);
    thread::scope(|scope| {
        scope.spawn(|| flood(&server, [127, 0, 0, 2], 20 * count, &stop));
        let connected = within_patience(async {
            let mut begun = Vec::new();
            for _ in 0..200 {
                let endpoint = endpoint(trusting(server.roots(), &["h3"]));
                begun.push((endpoint.connect(server.address, NAME).unwrap(), endpoint));
            }
            let mut connected = 0;
            for (connecting, _endpoint) in begun {
                connected += usize::from(connecting.await.is_ok());
            }
            connected
        });
        stop.store(true, Ordering::Relaxed);
        assert_eq!(connected, 200);
    });
    within_patience(async {
        let endpoint = endpoint(trusting(server.roots(), &["h3"]));
        let connection = endpoint.connect(server.address, NAME).unwrap().await.unwrap();
        assert_eq!(get(&mut begin(connection).await, "/a.txt").await.text(), "a");
    });
}
