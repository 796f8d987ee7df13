//! Client certificates, and requests without one.

use std::io::{BufRead, BufReader, Write as _};
use std::net::TcpListener;
use std::path::Path;
use std::time::{Duration, Instant};

use axum::Router;
use axum::extract::Request;
use axum::routing::get;
use hurtle::ClientCertificate;
use hurtle::config::check;

use crate::peer::{Choices, Options, Peer};
use crate::server::{Authority, Secure, client_auth, sibling, tls};
use crate::support::Client;
use crate::support::client::PATIENCE;

/// `a.test` has no client authentication, `must.test` requires it, `may.test` has it optional.
pub(crate) fn server() -> Secure {
    let who = get(|request: Request| async move {
        match request.extensions().get::<ClientCertificate>() {
            Some(client) => {
                let name = client.common_name().unwrap_or_default();
                let subject = client.subject().unwrap_or_default();
                let names = client.dns_names().join(",");
                format!("{name} {names} {} {subject}", client.chain().count())
            }
            None => "nobody".to_owned(),
        }
    });
    let app = Router::new().route("/", who);
    Secure::mounted(
        &[("a.txt", "hello\n")],
        |config, authority, dir| {
            for (name, required) in [("must.test", true), ("may.test", false)] {
                let mut tls = tls(authority.issue(name).write(dir, name));
                tls.client_auth = Some(client_auth(authority, required, dir));
                let site = sibling(config, name, Some(tls));
                config.sites.push(site);
            }
        },
        |server| {
            let server = server.mount("must.test", "/who", app.clone()).unwrap();
            server.mount("may.test", "/who", app).unwrap()
        },
    )
}

fn known(server: &Secure, name: &str) -> Options {
    knows(server, name, &[])
}

/// A client with a certificate for this name that offers these protocols.
pub(crate) fn knows(server: &Secure, name: &str, alpn: &[&str]) -> Options {
    let pair = server.authority.issue_client(name);
    let choices = Choices { certificate: Some(&pair), alpn, ..Choices::default() };
    Options::of(server.authority.roots(), &choices)
}

#[test]
fn applications_get_the_client_certificate_also_after_resumption() {
    let server = server();
    let alice = known(&server, "alice");
    for (host, options, resumed, expected) in [
        ("must.test", &alice, false, "alice alice.clients 1 CN=alice"),
        ("must.test", &alice, true, "alice alice.clients 1 CN=alice"),
        ("may.test", &alice, false, "alice alice.clients 1 CN=alice"),
        ("may.test", &server.options(), false, "nobody"),
    ] {
        let mut peer = Peer::connect(server.address, host, options).unwrap();
        assert_eq!(peer.is_resumed(), resumed, "{host}");
        let answer = peer.get_of(host, "/who");
        assert_eq!(String::from_utf8(answer.body).unwrap(), expected, "{host}");
    }
}

/// A session that is resumed has the certificate of its first handshake, which nothing checked.
#[test]
fn a_session_ends_with_the_certificate_of_its_client() {
    let server = server();
    let pair = server.authority.issue_client_for("alice", Duration::from_secs(6));
    let choices = Choices { certificate: Some(&pair), alpn: &[], ..Choices::default() };
    let alice = Options::of(server.authority.roots(), &choices);
    let begun = Instant::now();
    let mut resumed = 0;
    loop {
        let mut peer = Peer::connect(server.address, "must.test", &alice).unwrap();
        let is_resumed = peer.is_resumed();
        let asked = peer.write_all(b"GET /a.txt HTTP/1.1\r\nHost: must.test\r\n\r\n");
        let answered = asked.and_then(|()| peer.read(&mut [0]));
        if !matches!(answered, Ok(1)) {
            assert!(is_resumed, "a new handshake has a certificate that is valid");
            break;
        }
        resumed += u32::from(is_resumed);
        assert!(begun.elapsed() < PATIENCE, "it still goes on");
    }
    assert!(resumed > 0, "sessions are resumed before");
    // A refused session gets no new tickets, so that the client shows its certificate again.
    let is_over = (0..20).any(|_| {
        let peer = Peer::connect(server.address, "must.test", &alice);
        peer.map_or(true, |peer| !peer.is_resumed())
    });
    assert!(is_over, "it goes on to resume");
}

#[test]
fn upstreams_get_the_subject_of_the_certificate() {
    let upstream = TcpListener::bind("127.0.0.1:0").unwrap();
    let address = upstream.local_addr().unwrap();
    let server = Secure::mounted(
        &[],
        |config, authority, dir| {
            let mut tls = tls(authority.issue("may.test").write(dir, "may.test"));
            tls.client_auth = Some(client_auth(authority, false, dir));
            let mut site = sibling(config, "may.test", Some(tls));
            let text = format!(
                "[[site]]\n[[site.mount]]\nproxy = \"http://{address}\"\n\
                 request_fields = {{ set = {{ X-Subject = \"{{tls.client.subject}}\" }} }}\n"
            );
            let written = check(&text, Path::new("/nowhere/hurtle.toml")).unwrap();
            site.mounts = written.sites[0].mounts.clone();
            config.sites.push(site);
        },
        |server| server,
    );
    for (options, expected) in
        [(known(&server, "alice"), Some("x-subject: cn=alice")), (server.options(), None)]
    {
        let mut peer = Peer::connect(server.address, "may.test", &options).unwrap();
        peer.send("GET / HTTP/1.1\r\nHost: may.test\r\nX-Subject: CN=mallory\r\n\r\n");
        let (stream, _) = upstream.accept().unwrap();
        let lines = BufReader::new(&stream).lines().map_while(Result::ok);
        let head: Vec<String> = lines.take_while(|line| !line.is_empty()).collect();
        let found = head.iter().map(|line| line.to_lowercase());
        let found: Vec<String> = found.filter(|line| line.starts_with("x-subject")).collect();
        assert_eq!(found.first().map(String::as_str), expected);
        assert!(found.len() < 2, "{found:?}");
    }
}

#[test]
fn clients_without_a_valid_certificate_are_refused() {
    let server = server();
    let stranger = Authority::new("another").issue_client("mallory");
    let choices = Choices { certificate: Some(&stranger), ..Choices::default() };
    let mallory = Options::of(server.authority.roots(), &choices);
    let table = [
        ("must.test", server.options(), "CertificateRequired"),
        ("must.test", mallory.clone(), "UnknownCA"),
        ("may.test", mallory, "UnknownCA"),
    ];
    for (host, options, alert) in table {
        // In TLS 1.3 the client's handshake ends before the server checks the certificate.
        let asked = Peer::connect(server.address, host, &options).and_then(|mut peer| {
            peer.send(format!("GET /a.txt HTTP/1.1\r\nHost: {host}\r\n\r\n"));
            peer.read(&mut [0; 64])
        });
        let e = asked.unwrap_err().to_string();
        assert!(e.contains(alert), "{host}: {e}");
    }
}

#[test]
fn a_host_with_another_client_policy_than_the_handshake_gets_421() {
    let server = server();
    let alice = known(&server, "alice");
    for (name, host, status) in [
        ("a.test", "a.test", 200),
        ("a.test", "must.test", 421),
        ("a.test", "MUST.test.", 421),
        ("a.test", "may.test", 421),
        ("may.test", "must.test", 421),
        ("must.test", "may.test", 421),
        ("must.test", "a.test", 421),
        ("must.test", "must.test", 200),
    ] {
        let mut peer = Peer::connect(server.address, name, &alice).unwrap();
        for path in ["/a.txt", "/a.txt"] {
            assert_eq!(peer.get_of(host, path).status, status, "{host} by way of {name}");
        }
        if status == 421 {
            assert_eq!(peer.get_of(host, "/who").status, 421, "an application, {host} by {name}");
        }
    }
    let in_clear = Client::connect(server.clear).request("GET", "/a.txt\nHost: must.test");
    assert_eq!(in_clear.status, 421, "plain HTTP has no client certificate");
}
