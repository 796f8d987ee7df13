//! Handshakes: version, certificate, protocol, resumption, deadline.

use std::io::ErrorKind;
use std::time::Duration;

use hurtle::config::HostName;
use rustls::SignatureScheme;
use rustls::version::{TLS12, TLS13};

use crate::peer::{Choices, Options, Peer};
use crate::server::{Secure, client_auth, sibling, tls};

#[test]
fn both_versions_are_spoken_and_resumed_by_tickets() {
    let server = Secure::start(&[("a.txt", "hello\n")]);
    for version in [&TLS12, &TLS13] {
        let versions = &[version][..];
        let choices = Choices { versions, alpn: &["http/1.1"], ..Choices::default() };
        let options = Options::of(server.authority.roots(), &choices);
        let mut first = Peer::connect(server.address, "a.test", &options).unwrap();
        assert_eq!(first.session.protocol_version(), Some(version.version));
        assert_eq!(first.session.alpn_protocol(), Some(&b"http/1.1"[..]));
        assert_eq!(first.get("/a.txt").body, b"hello\n");
        assert!(!first.is_resumed());
        let mut second = Peer::connect(server.address, "a.test", &options).unwrap();
        assert!(second.is_resumed(), "{version:?}");
        assert_eq!(second.get("/a.txt").body, b"hello\n");
    }
}

#[test]
fn the_server_chooses_the_cipher() {
    let server = Secure::start(&[]);
    for version in [&TLS12, &TLS13] {
        let agreed = |reversed_suites| {
            let choices = Choices { versions: &[version], reversed_suites, ..Choices::default() };
            let options = Options::of(server.authority.roots(), &choices);
            let peer = Peer::connect(server.address, "a.test", &options).unwrap();
            peer.session.negotiated_cipher_suite().unwrap()
        };
        assert_eq!(agreed(true), agreed(false), "{version:?}");
    }
}

#[test]
fn any_worker_resumes_sessions_of_another() {
    let server = Secure::with(&[("a.txt", "hello\n")], |config, _, _| {
        config.workers = 4.try_into().unwrap();
    });
    let options = server.options();
    Peer::connect(server.address, "a.test", &options).unwrap().get("/a.txt");
    for _ in 0..16 {
        let mut peer = Peer::connect(server.address, "a.test", &options).unwrap();
        assert!(peer.is_resumed());
        peer.get("/a.txt");
    }
}

#[test]
fn alpn_selects_a_protocol_or_fails() {
    let server = Secure::start(&[("a.txt", "")]);
    let table: &[(&str, &[&str], Result<Option<&str>, &str>)] = &[
        ("none is offered", &[], Ok(None)),
        ("one of two is known", &["h3", "http/1.1"], Ok(Some("http/1.1"))),
        ("HTTP/2 is preferred", &["http/1.1", "h2"], Ok(Some("h2"))),
        ("RFC 7301 3.2: none is known", &["spdy/1"], Err("NoApplicationProtocol")),
    ];
    for (sentence, alpn, expected) in table {
        let choices = Choices { alpn, ..Choices::default() };
        let options = Options::of(server.authority.roots(), &choices);
        match (Peer::connect(server.address, "a.test", &options), expected) {
            (Ok(peer), Ok(protocol)) => {
                assert_eq!(peer.session.alpn_protocol(), protocol.map(str::as_bytes), "{sentence}");
            }
            (Err(e), Err(alert)) => assert!(e.to_string().contains(alert), "{sentence}: {e}"),
            (found, _) => panic!("{sentence}: {:?}", found.err()),
        }
    }
}

#[test]
fn the_server_name_selects_the_certificate() {
    let server = Secure::with(&[("a.txt", "")], |config, authority, dir| {
        let b = sibling(config, "b.test", Some(tls(authority.issue("b.test").write(dir, "b"))));
        let mut wild = sibling(config, "", Some(tls(authority.issue("*.w.test").write(dir, "w"))));
        wild.hosts = vec![HostName::Wildcard("w.test".to_owned())];
        let clear = sibling(config, "clear.test", None);
        config.sites[0].default = false;
        config.sites.extend([b, wild, clear]);
    });
    // The client verifies that the certificate has the name.
    for name in ["a.test", "b.test", "x.w.test"] {
        Peer::connect(server.address, name, &server.options()).unwrap();
    }
    for name in ["clear.test", "unknown.test"] {
        let refused = Peer::connect(server.address, name, &server.options());
        let e = refused.err().unwrap().to_string();
        assert!(e.contains("UnrecognisedName"), "{name}: {e}");
    }
}

#[test]
fn clients_get_a_kind_of_key_they_support_and_ecdsa_before_rsa() {
    let server = Secure::with(&[("a.txt", "")], |config, authority, dir| {
        let rsa = authority.issue_rsa("a.test").write(dir, "rsa");
        if let Some(tls) = &mut config.sites[0].tls {
            tls.certificates.insert(0, rsa);
        }
    });
    let mut seen = Vec::new();
    for versions in [&[&TLS12][..], &[&TLS13]] {
        let choices = Choices { versions, ..Choices::default() };
        let options = Options::of(server.authority.roots(), &choices);
        seen.push(Peer::connect(server.address, "a.test", &options).unwrap().certificate());
    }
    assert_eq!(seen[0], seen[1]);
    assert_eq!(seen[0], server_leaf(&server, "a"), "ECDSA, though RSA was written first");
    let rsa = [SignatureScheme::RSA_PSS_SHA256];
    let choices = Choices { schemes: Some(&rsa), ..Choices::default() };
    let options = Options::of(server.authority.roots(), &choices);
    let shown = Peer::connect(server.address, "a.test", &options).unwrap().certificate();
    assert_eq!(shown, server_leaf(&server, "rsa"));
}

fn server_leaf(server: &Secure, name: &str) -> Vec<u8> {
    use rustls::pki_types::CertificateDer;
    use rustls::pki_types::pem::PemObject;
    let files = crate::authority::files(&server.dir, name);
    CertificateDer::from_pem_file(files.chain).unwrap().to_vec()
}

#[test]
fn another_site_does_not_accept_a_ticket() {
    let server = Secure::with(&[("a.txt", "")], |config, authority, dir| {
        let open = tls(authority.issue("b.test").write(dir, "b"));
        let mut closed = tls(authority.issue("c.test").write(dir, "c"));
        closed.client_auth = Some(client_auth(authority, false, dir));
        let (open, closed) =
            (sibling(config, "b.test", Some(open)), sibling(config, "c.test", Some(closed)));
        config.sites.extend([open, closed]);
    });
    let options = server.options().offering_every_ticket_to_everybody();
    let at = |name: &str| {
        let mut peer = Peer::connect(server.address, name, &options).unwrap();
        assert_eq!(peer.get_of(name, "/a.txt").status, 200);
        peer.is_resumed()
    };
    assert!(!at("b.test"));
    assert!(at("b.test"), "the ticket is good");
    assert!(!at("c.test"), "b.test's ticket where clients are asked for certificates");
    assert!(at("c.test"));
    assert!(!at("b.test"), "and the other way round");
}

#[test]
fn a_client_that_stalls_in_the_handshake_is_closed() {
    let server = Secure::with(&[("a.txt", "")], |config, _, _| {
        config.limits.handshake_timeout = Duration::from_millis(200);
    });
    let mut begun = Peer::begin(server.address, "a.test", &server.options());
    let mut hello = Vec::new();
    begun.session.write_tls(&mut hello).unwrap();
    let table: [(&str, &[u8]); 4] = [
        ("nothing", b""),
        ("one byte", &hello[..1]),
        ("half a ClientHello", &hello[..hello.len() / 2]),
        ("a ClientHello and no more", &hello),
    ];
    for (sentence, bytes) in table {
        let mut client = crate::support::Client::connect(server.address);
        client.send(bytes);
        let mut all = Vec::new();
        let ended = std::io::Read::read_to_end(&mut client.stream, &mut all);
        let closed = match &ended {
            Ok(_) => true,
            Err(e) => e.kind() == ErrorKind::ConnectionReset,
        };
        assert!(closed, "{sentence}: {ended:?}");
    }
    assert_eq!(server.connect().get("/a.txt").status, 200, "others are served");
}
