//! Memory of idle connections.

use std::env;

use rustix::process::{Resource, Rlimit, getrlimit, setrlimit};
use rustls::RootCertStore;
use rustls::pki_types::CertificateDer;
use rustls::pki_types::pem::PemObject;

use crate::child::Child;
use crate::frames::*;
use crate::local::serve;
use crate::peer::{Choices, Options, Peer};
use crate::support::Dir;

/// Number of idle connections, and the number with `HURTLE_TEST_FULL=1`: handshakes are slow in a
/// build without optimisation.
const CROWD: usize = 500;
const CROWD_FULL: usize = 10_000;

/// Memory limit for each connection: HTTP/1.1 with keep-alive, and HTTP/2.
const IDLE_BYTES_MAX: u64 = 13 << 10;
const IDLE_HTTP2_BYTES_MAX: u64 = 16 << 10;

#[test]
fn idle_connections_cost_little() {
    let crowd = if env::var_os("HURTLE_TEST_FULL").is_some() { CROWD_FULL } else { CROWD };
    let limit = getrlimit(Resource::Nofile);
    setrlimit(Resource::Nofile, Rlimit { current: limit.maximum, maximum: limit.maximum }).unwrap();
    for (alpn, most) in [("http/1.1", IDLE_BYTES_MAX), ("h2", IDLE_HTTP2_BYTES_MAX)] {
        let dir = Dir::new(&[("a.txt", "hello\n")]);
        let child = serve(&dir);
        let mut roots = RootCertStore::empty();
        let authority = dir.path("../data/hurtle/authority.pem");
        roots.add(CertificateDer::from_pem_file(authority).unwrap()).unwrap();
        let choices = Choices { alpn: &[alpn], ..Choices::default() };
        let options = Options::of(roots, &choices);
        // Caches and tables grow before the measurement.
        let _first: Vec<_> = (0..50).map(|_| idle(&child, &options)).collect();
        let before_kib = child.resident_kib();
        let _idle: Vec<_> = (0..crowd).map(|_| idle(&child, &options)).collect();
        let each = child.resident_kib().saturating_sub(before_kib) * 1024 / crowd as u64;
        println!("{each} bytes for each of {crowd} idle connections over TLS, {alpn}");
        assert!(each <= most, "{alpn}: {each} bytes for each idle connection");
    }
}

/// Opens a connection and sends one request. Returns only the socket, to save memory.
fn idle(child: &Child, options: &Options) -> std::net::TcpStream {
    let peer = Peer::connect(child.address(), "localhost", options).unwrap();
    if peer.session.alpn_protocol() != Some(b"h2") {
        let mut peer = peer;
        assert_eq!(peer.get_of("localhost", "/a.txt").status, 200);
        return peer.socket;
    }
    let mut wire = Wire::over(peer, &[]);
    let asked = [
        (":method", "GET"),
        (":scheme", "https"),
        (":authority", "localhost"),
        (":path", "/a.txt"),
    ];
    wire.send(&frame(HEADERS, END_HEADERS | END_STREAM, 1, &block(&asked)));
    assert_eq!(wire.next_of(DATA).payload, b"hello\n");
    wire.socket.socket
}
