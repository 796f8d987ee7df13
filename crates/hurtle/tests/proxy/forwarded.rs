//! Tests of forwarding fields: their values, and the clients from which they are accepted.

use crate::support::{OK, Proxy, Upstream};

const LIES: &str = "GET /a%20b/../c?q=%20 HTTP/1.1\r\nHost: Example.org:81\r\nConnection: X-Mine, close\r\n\
                    X-Mine: 1\r\nX-Forwarded-For: 203.0.113.9\r\nX_Forwarded_For: 203.0.113.9\r\n\
                    Forwarded: for=203.0.113.9\r\nX-Real-IP: 203.0.113.9\r\n\
                    X-Forwarded-Proto: https\r\nX-Accel-Mapping: /=/\r\nX-Sendfile-Type: a\r\n\
                    Accept: */*\r\n\r\n";

#[test]
fn forwarding_fields_of_an_untrusted_peer_are_replaced() {
    let upstream = Upstream::new();
    let proxy = Proxy::to(&upstream);
    let _client = proxy.send(LIES);
    let (_, head) = upstream.next_request();
    assert_eq!(
        head,
        "GET /c?q=%20 HTTP/1.1\nHost: Example.org:81\nAccept: */*\nX-Forwarded-For: 127.0.0.1\n\
         X-Forwarded-Proto: http\nX-Forwarded-Host: Example.org:81\nX-Real-IP: 127.0.0.1\n\
         Forwarded: for=127.0.0.1;host=\"Example.org:81\";proto=http\nVia: 1.1 hurtle\n"
    );
}

/// The server keeps the Host field of a connection's last request; a changed Host must not match.
#[test]
fn each_request_of_a_connection_is_forwarded_with_its_own_host() {
    let upstream = Upstream::new();
    let proxy = Proxy::to(&upstream);
    let mut client = proxy.connect();
    let mut peer = None;
    for host in ["a", "a", "a", "a:81", "a:8", "ab:8", "ab", "a", "[::1]", "[::1]:81"] {
        client.send(format!("GET / HTTP/1.1\r\nHost: {host}\r\nX-Forwarded-Host: c\r\n\r\n"));
        let peer = peer.get_or_insert_with(|| upstream.accept());
        assert_eq!(
            peer.head(),
            format!(
                "GET / HTTP/1.1\nHost: {host}\nX-Forwarded-For: 127.0.0.1\n\
                 X-Forwarded-Proto: http\nX-Forwarded-Host: {host}\nX-Real-IP: 127.0.0.1\n\
                 Forwarded: for=127.0.0.1;host=\"{host}\";proto=http\nVia: 1.1 hurtle\n"
            )
        );
        peer.send(OK);
        client.answer();
    }
}

#[test]
fn forwarding_fields_of_a_trusted_proxy_are_extended() {
    let upstream = Upstream::new();
    let mount = format!("proxy = \"http://{}\"\ndeny = \"203.0.113.66\"", upstream.address);
    let proxy = Proxy::of("trusted_proxies = \"127.0.0.0/8\"", &mount);
    let mut client = proxy.send(LIES);
    let (mut peer, head) = upstream.next_request();
    assert!(head.contains("\nX-Forwarded-For: 203.0.113.9, 127.0.0.1\n"), "{head}");
    assert!(head.contains("\nX-Forwarded-Proto: https\n"), "{head}");
    assert!(head.contains("\nX-Real-IP: 203.0.113.9\n"), "{head}");
    let forwarded =
        "\nForwarded: for=203.0.113.9;host=\"Example.org:81\";proto=https, for=127.0.0.1\n";
    assert!(head.contains(forwarded), "{head}");
    assert!(!head.contains("X_Forwarded_For"), "{head}");
    peer.send(OK);
    client.answer();

    let from =
        |client: &str| format!("GET / HTTP/1.1\r\nHost: a\r\nX-Forwarded-For: {client}\r\n\r\n");
    let head = proxy.send(from("203.0.113.66")).head();
    assert!(head.starts_with("HTTP/1.1 403 "), "the address is also the one let in or not: {head}");
    let head = proxy.send(from("198.51.100.1, 203.0.113.66")).head();
    assert!(head.starts_with("HTTP/1.1 403 "), "whatever it claims came before: {head}");
}

/// A client of a proxy that sets X-Forwarded fields can send Forwarded through it, and the reverse.
#[test]
fn only_the_fields_that_the_trusted_proxies_set_are_used() {
    let chains = "X-Forwarded-For: 203.0.113.9\r\nX-Forwarded-Proto: https\r\n\
                  Forwarded: for=198.51.100.1;proto=http;host=evil.example\r\n";
    let rows = [
        ("", "203.0.113.9", "https", "a"),
        ("trusted_proxy_fields = 'x-forwarded'", "203.0.113.9", "https", "a"),
        ("trusted_proxy_fields = 'forwarded'", "198.51.100.1", "http", "evil.example"),
    ];
    for (key, client, scheme, host) in rows {
        let upstream = Upstream::new();
        let top = format!("trusted_proxies = '127.0.0.0/8'\n{key}\n");
        let denied = match client {
            "203.0.113.9" => "198.51.100.1",
            _ => "203.0.113.9",
        };
        let mount = format!("proxy = 'http://{}'\ndeny = '{denied}'", upstream.address);
        let proxy = Proxy::of(&top, &mount);
        let _client = proxy.send(format!("GET / HTTP/1.1\r\nHost: a\r\n{chains}\r\n"));
        let (_, head) = upstream.next_request();
        assert_eq!(
            head,
            format!(
                "GET / HTTP/1.1\nHost: a\nX-Forwarded-For: {client}, 127.0.0.1\n\
                 X-Forwarded-Proto: {scheme}\nX-Forwarded-Host: {host}\nX-Real-IP: {client}\n\
                 Forwarded: for={client};host=\"{host}\";proto={scheme}, for=127.0.0.1\n\
                 Via: 1.1 hurtle\n"
            ),
            "{key}"
        );
    }
}

#[test]
fn a_request_without_host_gets_the_upstreams() {
    let upstream = Upstream::new();
    let proxy = Proxy::to(&upstream);
    let _client = proxy.send("GET / HTTP/1.0\r\n\r\n");
    let (_, head) = upstream.next_request();
    assert!(head.starts_with(&format!("GET / HTTP/1.1\nHost: {}\n", upstream.address)), "{head}");
}

#[test]
fn a_target_with_a_host_of_its_own() {
    let upstream = Upstream::new();
    let proxy = Proxy::to(&upstream);
    let _client = proxy.send("GET http://b.example/x HTTP/1.1\r\nHost: a\r\n\r\n");
    let (_, head) = upstream.next_request();
    assert!(head.starts_with("GET /x HTTP/1.1\nHost: b.example\n"), "RFC 9112 3.2.2: {head}");
}

#[test]
fn trace_and_connect_are_not_forwarded() {
    let upstream = Upstream::new();
    let proxy = Proxy::to(&upstream);
    for (request, allow) in [
        ("TRACE / HTTP/1.1\r\nHost: a\r\n\r\n", "GET, HEAD, POST, PUT, PATCH, DELETE, OPTIONS"),
        ("CONNECT a:80 HTTP/1.1\r\nHost: a:80\r\n\r\n", "GET, HEAD, OPTIONS"),
        ("CONNECT / HTTP/1.1\r\nHost: a:80\r\n\r\n", "GET, HEAD, OPTIONS"),
    ] {
        let head = proxy.send(request).head();
        assert!(head.starts_with("HTTP/1.1 405 "), "{request}: {head}");
        assert!(head.contains(&format!("\nAllow: {allow}\n")), "{request}: {head}");
    }
    upstream.expect_no_connection();
}
