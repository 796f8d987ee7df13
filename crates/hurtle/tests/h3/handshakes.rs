//! Tests of the handshakes of HTTP/3, and of datagrams that begin none.

use std::collections::HashSet;
use std::net::UdpSocket;
use std::time::Duration;

use hurtle::config::{HostName, Listen};
use quinn::ConnectionError;

use crate::peer::{NAME, begin, endpoint, get, trusting, within_patience};
use crate::server::{Server, any_port};

/// Alerts of TLS as error codes of QUIC (RFC 9001 section 4.8).
const NO_APPLICATION_PROTOCOL: u64 = 0x100 + 120;
const UNRECOGNIZED_NAME: u64 = 0x100 + 112;

#[test]
fn a_handshake_fails_with_its_alert() {
    let server = Server::with(&[("a.txt", "a")], |config| config.sites[0].default = false);
    let rows = [
        ("another protocol", NAME, "h2", NO_APPLICATION_PROTOCOL),
        ("another name", "other.example", "h3", UNRECOGNIZED_NAME),
    ];
    for (why, name, alpn, expected) in rows {
        let failed = within_patience(async {
            let endpoint = endpoint(trusting(server.roots(), &[alpn]));
            endpoint.connect(server.address, name).unwrap().await.unwrap_err()
        });
        let ConnectionError::ConnectionClosed(close) = &failed else { panic!("{why}: {failed}") };
        assert_eq!(u64::from(close.error_code), expected, "{why}: {failed}");
    }
}

#[test]
fn a_name_selects_the_certificate_of_its_site() {
    let server = Server::with(&[("a.txt", "a")], |config| {
        let mut other = config.sites[0].clone();
        other.hosts = vec![HostName::Exact("other.example".to_owned())];
        other.default = false;
        config.sites.push(other);
    });
    // Both sites have the certificate of the first name.
    within_patience(async {
        let endpoint = endpoint(trusting(server.roots(), &["h3"]));
        let connection = endpoint.connect(server.address, NAME).unwrap().await.unwrap();
        assert_eq!(get(&mut begin(connection).await, "/a.txt").await.text(), "a");
        let failed = endpoint.connect(server.address, "other.example").unwrap().await.unwrap_err();
        assert!(failed.to_string().contains("invalid peer certificate"), "{failed}");
    });
}

/// Random bytes, and beginnings of packets with random rests.
#[test]
fn broken_datagrams_have_no_effect() {
    let server = Server::start(&[("a.txt", "a")]);
    let socket = UdpSocket::bind("127.0.0.1:0").unwrap();
    let beginnings: [&[u8]; 6] = [
        b"",
        b"\xc0\0\0\0\x01\x08abcdefgh\x08abcdefgh\0",
        b"\xc0\0\0\0\x01\xff",
        b"\xe0\0\0\0\x01\x08abcdefgh\0",
        b"\x40",
        b"\x80\0\0\0\0",
    ];
    let mut state = 0x9e37_79b9_7f4a_7c15_u64;
    for n in 0..3_000 {
        let mut datagram = beginnings[n % beginnings.len()].to_vec();
        let len = if n % 3 == 0 { 1_200 } else { n % 1_400 };
        while datagram.len() < len {
            state = state.wrapping_mul(6_364_136_223_846_793_005).wrapping_add(1);
            datagram.push((state >> 56) as u8);
        }
        socket.send_to(&datagram, server.address).unwrap();
    }
    server.talk(async |mut client| assert_eq!(get(&mut client, "/a.txt").await.text(), "a"));
}

/// Others have 300 of 28,000 UDP ports, so ten of these servers would have no HTTP/3.
#[test]
fn any_port_is_one_that_http3_can_have() {
    let others: Vec<_> = (0..300).map(|_| UdpSocket::bind("127.0.0.1:0").unwrap()).collect();
    let taken: HashSet<_> = others.iter().map(|socket| socket.local_addr().unwrap()).collect();
    let (_dir, _authority, config) = any_port();
    for _ in 0..1_000 {
        let server = hurtle::Server::bind(config.clone()).unwrap();
        let Listen::Tcp(address) = server.tls_addresses()[0] else { panic!("not a TCP address") };
        assert!(!taken.contains(&address), "{address}");
    }
}

/// RFC 9000 section 6: a client of another version learns which one the server has.
#[test]
fn another_version_is_negotiated() {
    let server = Server::start(&[("a.txt", "a")]);
    let socket = UdpSocket::bind("127.0.0.1:0").unwrap();
    socket.set_read_timeout(Some(Duration::from_secs(60))).unwrap();
    let mut datagram = b"\xc0\x1a\x2a\x3a\x4a\x08abcdefgh\x04stuv\0".to_vec();
    datagram.resize(1_200, 0);
    socket.send_to(&datagram, server.address).unwrap();
    let mut answer = [0; 1_500];
    let len = socket.recv(&mut answer).unwrap();
    assert_eq!(&answer[1..5], [0; 4], "version negotiation");
    assert!(answer[5..len].ends_with(&[0, 0, 0, 1]), "{:?}", &answer[..len]);
}

/// RFC 9000 section 8.1: while many handshakes are in flight, clients show that they receive
/// packets at their address. These clients never do, so most get a Retry packet and no state.
#[test]
fn a_flood_of_handshakes_is_answered_by_retry() {
    let server = Server::start(&[("a.txt", "a")]);
    let blocked = within_patience(async {
        let mut begun = Vec::new();
        for _ in 0..200 {
            let endpoint = endpoint(trusting(server.roots(), &["h3"]));
            begun.push((endpoint.connect(server.address, NAME).unwrap(), endpoint));
        }
        let mut done = 0;
        for (connecting, _endpoint) in begun {
            done += usize::from(connecting.await.is_ok());
        }
        done
    });
    assert_eq!(blocked, 200, "honest clients connect nevertheless");
    server.talk(async |mut client| assert_eq!(get(&mut client, "/a.txt").await.text(), "a"));
}
