//! Tests of forward authentication over `https://`: verification and client certificates.

use std::sync::Arc;

use rustls::crypto::aws_lc_rs;
use rustls::server::WebPkiClientVerifier;

use crate::log;
use crate::secure::{Authority, Secure, builder};
use crate::support::{GET, OK, Proxy, Upstream};

/// A server whose site asks the authentication server at this authority.
fn asking(auth: &Secure, tls: &str, to: &Upstream) -> Proxy {
    let port = auth.address.port();
    let keys = format!(
        "auth = 'forward'\nforward = 'https://localhost:{port}/verify'\n\
         copy_headers = ['Remote-User']\nforward_tls = {{ {tls} }}"
    );
    Proxy::of_site(&keys, &format!("proxy = 'http://{}'", to.address))
}

#[test]
fn an_authentication_server_is_verified_and_gets_the_client_certificate() {
    let authority = Authority::new("forward");
    let (chain, key) = authority.sign("auth.internal", |_| ());
    authority.sign("gateway", |_| ());
    let verifier = WebPkiClientVerifier::builder_with_provider(
        Arc::new(authority.roots.clone()),
        Arc::new(aws_lc_rs::default_provider()),
    );
    let demanding = builder().with_client_cert_verifier(verifier.build().unwrap());
    let auth = Secure::new(demanding.with_single_cert(vec![chain], key).unwrap());
    let upstream = Upstream::new();
    let (ca, own) = (authority.file("ca.pem"), authority.file("gateway.pem"));
    let tls = format!("ca = {ca}, server_name = 'auth.internal', certificate = {own}");
    let server = asking(&auth, &tls, &upstream);
    let mut client = server.send(GET);
    let mut checker = auth.accept();
    let asked = checker.head();
    assert!(asked.starts_with("GET /verify HTTP/1.1\r\n"), "{asked}");
    assert_eq!(checker.0.conn.server_name(), Some("auth.internal"));
    assert_eq!(checker.0.conn.peer_certificates().map(<[_]>::len), Some(1));
    checker.send("HTTP/1.1 200 OK\r\nContent-Length: 0\r\nRemote-User: anna\r\n\r\n");
    let (mut peer, head) = upstream.next_request();
    assert!(head.contains("Remote-User: anna"), "{head}");
    peer.send(OK);
    assert_eq!(client.answer().1, "ok");
    // The connection is used again, and a refusal passes through it.
    client.send(GET);
    checker.head();
    checker.send("HTTP/1.1 403 Forbidden\r\nContent-Length: 2\r\n\r\nno");
    let (head, body) = client.answer();
    assert!(head.starts_with("HTTP/1.1 403 ") && body == "no", "{head}{body}");
}

#[test]
fn a_request_is_refused_while_the_authentication_server_cannot_be_trusted() {
    log::begin();
    let (authority, stranger) = (Authority::new("forward-a"), Authority::new("forward-b"));
    let auth = Secure::new(stranger.server("localhost", |_| ()));
    let upstream = Upstream::new();
    let tls = format!("ca = {}", authority.file("ca.pem"));
    let server = asking(&auth, &tls, &upstream);
    let mut client = server.send(GET);
    auth.accept_broken();
    assert!(client.head().starts_with("HTTP/1.1 502 "));
    let lines = log::lines_with(&format!("localhost:{}", auth.address.port()));
    let reason = "the issuer of its certificate is unknown";
    assert!(lines.iter().any(|line| line.contains(reason)), "{lines:?}");
    upstream.expect_no_connection();
}
