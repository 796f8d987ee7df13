//! Requests that wait while no upstream accepts connections (`retry_for`).

use std::net::{SocketAddr, TcpListener};
use std::sync::mpsc;
use std::thread;

use crate::reserved::reserved_address;
use crate::support::{LAST_OK, Proxy, Upstream};

/// A server with another mount, `/other`.
fn server(addresses: &[SocketAddr], keys: &str) -> Proxy {
    Proxy::with(addresses, &format!("{keys}{OTHER}"))
}

const OTHER: &str = "\n[[site.mount]]\npath = '/other'\nrespond = 'other'\n";

/// Gives the only worker time to try the requests that it has: others are answered meanwhile.
fn let_it_try(proxy: &Proxy) {
    for _ in 0..20 {
        let mut client = proxy.send("GET /other HTTP/1.1\r\nHost: a\r\n\r\n");
        assert_eq!(client.answer().1, "other");
    }
}

#[test]
fn a_request_waits_until_its_upstream_accepts_connections() {
    for (sentence, keys, request) in [
        ("a GET", "", "GET / HTTP/1.1\r\nHost: a\r\n\r\n"),
        ("with a cache", "cache = {}", "GET / HTTP/1.1\r\nHost: a\r\n\r\n"),
        ("with a body", "", "POST / HTTP/1.1\r\nHost: a\r\nContent-Length: 2\r\n\r\nhi"),
        ("with a limit of requests", "upstream_queue = 9", "GET / HTTP/1.1\r\nHost: a\r\n\r\n"),
    ] {
        let address = reserved_address();
        let upstream = match keys {
            "upstream_queue = 9" => {
                format!("[{{ url = 'http://{address}', max_connections = 1 }}]")
            }
            _ => format!("'http://{address}'"),
        };
        let proxy = Proxy::of("", &format!("proxy = {upstream}\nretry_for = '1h'\n{keys}{OTHER}"));
        let mut client = proxy.send(request);
        let_it_try(&proxy);
        let upstream = Upstream::of(TcpListener::bind(address).unwrap());
        let (mut peer, head) = upstream.next_request();
        assert!(head.contains("\nHost: a\n"), "{sentence}: {head}");
        peer.send(LAST_OK);
        assert_eq!(client.answer().1, "ok", "{sentence}");
    }
}

#[test]
fn a_request_waits_no_longer_than_the_time() {
    let rows = [
        ("no time", "", "GET / HTTP/1.1\r\nHost: a\r\n\r\n"),
        ("a short time", "retry_for = '300ms'", "GET / HTTP/1.1\r\nHost: a\r\n\r\n"),
        ("several upstreams", "retry_for = '300ms'", "GET /2 HTTP/1.1\r\nHost: a\r\n\r\n"),
        ("a cache", "retry_for = '300ms'\ncache = {}", "GET / HTTP/1.1\r\nHost: a\r\n\r\n"),
    ];
    for (sentence, keys, request) in rows {
        let proxy = server(&[reserved_address(), reserved_address()], keys);
        let head = proxy.send(request).answer().0;
        assert!(head.starts_with("HTTP/1.1 502 "), "{sentence}: {head}");
    }
}

#[test]
fn a_request_that_an_upstream_may_have_got_does_not_wait() {
    let post = "POST / HTTP/1.1\r\nHost: a\r\nContent-Length: 2\r\n\r\nhi";
    let get = "GET / HTTP/1.1\r\nHost: a\r\n\r\n";
    // Regression: requests that may be sent twice came again and again for the whole time.
    for (sentence, keys, request) in
        [("a POST", "", post), ("a GET", "", get), ("a cache", "cache = {}", get)]
    {
        let upstream = Upstream::new();
        let keys = format!("retry_for = '1h'\n{keys}");
        let proxy = server(&[upstream.address], &keys);
        let mut client = proxy.send(request);
        let (peer, _) = upstream.next_request();
        drop(peer);
        let head = client.answer().0;
        assert!(head.starts_with("HTTP/1.1 502 "), "{sentence}: {head}");
        upstream.expect_no_connection();
    }
}

#[test]
fn a_client_that_resets_ends_its_wait() {
    let address = reserved_address();
    let proxy = server(&[address], "retry_for = '1h'");
    for _ in 0..3 {
        let client = proxy.send("GET /gone HTTP/1.1\r\nHost: a\r\n\r\n");
        let_it_try(&proxy);
        client.reset();
    }
    let mut client = proxy.send("GET /there HTTP/1.1\r\nHost: a\r\n\r\n");
    let_it_try(&proxy);
    let upstream = Upstream::of(TcpListener::bind(address).unwrap());
    let (sender, heads) = mpsc::channel();
    thread::spawn(move || {
        let (mut peer, head) = upstream.next_request();
        peer.send(LAST_OK);
        sender.send(head).unwrap();
    });
    assert_eq!(client.answer().1, "ok");
    assert!(heads.recv().unwrap().starts_with("GET /there "));
}
