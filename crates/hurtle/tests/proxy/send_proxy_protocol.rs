//! The PROXY protocol's header on connections to upstreams (HAProxy's proxy-protocol.txt).

use std::io::{Read, Write};
use std::sync::Arc;
use std::thread;

use rustls::{ServerConnection, StreamOwned};

use crate::client::{Client, PATIENCE};
use crate::secure::Authority;
use crate::support::{OK, Proxy, Upstream};

const V1: &[u8] = b"PROXY TCP4 203.0.113.9 0.0.0.0 0 0\r\n";

/// Reads as many bytes as are expected.
#[track_caller]
fn expect(peer: &mut impl Read, expected: &[u8], why: &str) {
    let mut bytes = vec![0; expected.len()];
    peer.read_exact(&mut bytes).unwrap();
    assert_eq!(bytes.escape_ascii().to_string(), expected.escape_ascii().to_string(), "{why}");
}

fn request(fields: &str) -> String {
    format!("GET / HTTP/1.1\r\nHost: a\r\n{fields}\r\n")
}

#[test]
fn each_request_has_a_connection_that_names_its_client() {
    let named = "X-Forwarded-For: 203.0.113.9\r\n";
    let six = "X-Forwarded-For: 2001:db8::7\r\n";
    let v2 = |family: u8, addresses: &[u8]| {
        [b"\r\n\r\n\0\r\nQUIT\n\x21", &[family, 0, addresses.len() as u8][..], addresses].concat()
    };
    let six_bytes = [0x20, 1, 0x0d, 0xb8, 0, 0, 0, 0, 0, 0, 0, 0, 0, 0, 0, 7];
    #[rustfmt::skip]
    let rows = [
        ("the peer", "v1", "", b"PROXY TCP4 127.0.0.1 0.0.0.0 0 0\r\n".to_vec()),
        ("a client of a trusted proxy", "v1", named, V1.to_vec()),
        ("IPv6", "v1", six, b"PROXY TCP6 2001:db8::7 :: 0 0\r\n".to_vec()),
        ("in binary", "v2", named, v2(0x11, &[&[203, 0, 113, 9][..], &[0; 8]].concat())),
        ("IPv6 in binary", "v2", six, v2(0x21, &[&six_bytes[..], &[0; 20]].concat())),
    ];
    for (why, version, fields, expected) in rows {
        let upstream = Upstream::new();
        let mount =
            format!("proxy = \"http://{}\"\nsend_proxy_protocol = \"{version}\"", upstream.address);
        let proxy = Proxy::of("trusted_proxies = \"127.0.0.1\"", &mount);
        let mut client = proxy.connect();
        for _ in 0..2 {
            client.send(request(fields));
            let mut peer = upstream.accept();
            expect(&mut peer.stream, &expected, why);
            assert!(peer.head().starts_with("GET / HTTP/1.1\n"), "{why}");
            peer.send(OK);
            assert_eq!(client.answer().1, "ok", "{why}");
            // The upstream would keep the connection, and the server does not.
            assert_eq!(peer.stream.read(&mut [0]).unwrap(), 0, "{why}");
        }
    }
}

/// Regression: a fetch for the cache named no client, so the upstream took this server for it.
#[test]
fn a_fetch_for_the_cache_names_its_client() {
    let upstream = Upstream::new();
    let mount = format!(
        "proxy = \"http://{}\"\nsend_proxy_protocol = \"v1\"\ncache = {{}}",
        upstream.address
    );
    let proxy = Proxy::of("trusted_proxies = \"127.0.0.1\"", &mount);
    let mut client = proxy.send(request("X-Forwarded-For: 203.0.113.9\r\n"));
    let mut peer = upstream.accept();
    expect(&mut peer.stream, V1, "a fetch");
    assert!(peer.head().starts_with("GET / HTTP/1.1\n"));
    peer.send(OK);
    assert_eq!(client.answer().1, "ok");
}

#[test]
fn the_header_is_sent_before_tls() {
    let authority = Authority::new("proxied-upstream");
    let config = Arc::new(authority.server("localhost", |_| {}));
    let upstream = Upstream::new();
    let port = upstream.address.port();
    let upstream = thread::spawn(move || {
        let Client { mut stream, .. } = upstream.accept();
        expect(&mut stream, V1, "before TLS");
        stream.set_read_timeout(Some(PATIENCE)).unwrap();
        let mut peer = StreamOwned::new(ServerConnection::new(config).unwrap(), stream);
        expect(&mut peer, b"GET / HTTP/1.1\r\n", "within TLS");
        peer.write_all(OK.as_bytes()).unwrap();
        let _ = peer.read_to_end(&mut Vec::new());
    });
    let mount = format!(
        "proxy = \"https://localhost:{port}\"\nsend_proxy_protocol = \"v1\"\n\
         upstream_tls = {{ ca = {} }}",
        authority.file("ca.pem")
    );
    let proxy = Proxy::of("trusted_proxies = \"127.0.0.1\"", &mount);
    let mut client = proxy.send(request("X-Forwarded-For: 203.0.113.9\r\n"));
    assert_eq!(client.answer().1, "ok");
    drop((client, proxy));
    upstream.join().unwrap();
}

#[test]
fn a_health_check_is_the_servers_own() {
    let upstream = Upstream::new();
    let mount = format!(
        "proxy = \"http://{}\"\nsend_proxy_protocol = \"v1\"\nhealth = \"/up\"\nhealth_interval = \"1ms\"",
        upstream.address
    );
    let _proxy = Proxy::of("", &mount);
    let mut peer = upstream.accept();
    expect(&mut peer.stream, b"PROXY UNKNOWN\r\n", "a health check");
    assert!(peer.head().starts_with("GET /up HTTP/1.1\n"));
}
