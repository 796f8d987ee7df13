//! Sites of one listener: other content for the same name at other addresses, in clear and over
//! TLS, in each protocol.

use std::fs;
use std::io::Write as _;
use std::net::{SocketAddr, TcpStream};
use std::sync::Arc;

use rustix::process::Signal;
use rustls::pki_types::ServerName;
use rustls::{ClientConnection, RootCertStore, StreamOwned};

use crate::child::{Child, eventually, hurtle};
use crate::frames::{self, DATA, Wire};
use crate::h3_peer;
use crate::support::{Client, Dir};

/// The addresses of the child that begin with `prefix`, such as `https://127.0.0.2`.
fn address(child: &Child, prefix: &str) -> SocketAddr {
    let stdout = child.stdout();
    let line = stdout.lines().map(str::trim).find(|line| line.starts_with(prefix)).unwrap();
    line.split_once("://").unwrap().1.trim_end_matches('/').parse().unwrap()
}

/// Sends a request for a host over HTTP/1.1 in clear; returns the body, or the status of an error.
fn get(address: SocketAddr, host: &str) -> String {
    let mut client = Client::connect(address);
    client.send(format!("GET / HTTP/1.1\r\nHost: {host}\r\n\r\n"));
    let response = client.response();
    match response.status {
        200 => response.text().to_owned(),
        status => status.to_string(),
    }
}

fn site(listen: &str, keys: &str, text: &str) -> String {
    let listen = if listen.is_empty() { String::new() } else { format!("listen = '{listen}'\n") };
    format!("[[site]]\n{listen}{keys}[[site.mount]]\nrespond = '{text}'\n")
}

const TWO: &str = "workers = 1\nlisten = ['127.0.0.1:0', '127.0.0.2:0']\n";

#[test]
fn a_request_reaches_the_site_of_its_listener() {
    let dir = Dir::new(&[("index.html", "home\n")]);
    let sites = [
        site("", "default = true\n", "any"),
        site("", "hosts = ['a.test', '*.b.test']\n", "a"),
        site("127.0.0.2:0", "", "any of two"),
        site("127.0.0.2:0", "hosts = 'a.test'\n", "a of two"),
        site("127.0.0.2:0", "hosts = '*.b.test'\n", "b of two"),
        site("127.0.0.1:0", "hosts = 'one.test'\n", "of one"),
    ];
    let config = dir.path("../hurtle.toml");
    fs::write(&config, format!("{TWO}{}", sites.concat())).unwrap();
    let child = Child::start(hurtle().arg("--config").arg(&config));
    let (one, two) = (address(&child, "http://127.0.0.1"), address(&child, "http://127.0.0.2"));
    let rows = [
        ("a name of every listener", "a.test", "a", "a of two"),
        ("a pattern of names", "x.b.test", "a", "b of two"),
        ("the default", "other.test", "any", "any of two"),
        ("a name of one listener", "one.test", "of one", "any of two"),
    ];
    for (sentence, host, at_one, at_two) in rows {
        assert_eq!(get(one, host), at_one, "{sentence}");
        assert_eq!(get(two, host), at_two, "{sentence}");
    }
    // A connection outlives a reload, which may change the sites of its listener.
    let mut open = Client::connect(two);
    fs::write(&config, format!("{TWO}{}", sites[1..4].concat())).unwrap();
    child.signal(Signal::HUP);
    eventually("the reload is done", || get(one, "other.test") == "421");
    open.send("GET / HTTP/1.1\r\nHost: a.test\r\n\r\n");
    assert_eq!(open.response().text(), "a of two");
}

#[test]
fn every_protocol_and_the_handshake_know_the_listener() {
    let dir = Dir::new(&[("index.html", "home\n")]);
    let name = h3_peer::NAME;
    let pairs = ["one", "two"].map(|listener| {
        let pair = rcgen::generate_simple_self_signed([name.to_owned()]).unwrap();
        dir.write(format!("../{listener}.pem"), pair.cert.pem());
        dir.write(format!("../{listener}.key"), pair.signing_key.serialize_pem());
        pair.cert.der().clone()
    });
    let of = |listener: &str| {
        format!(
            "tls = {{ certificate = '{listener}.pem', key = '{listener}.key', redirect = false }}\n"
        )
    };
    let config = dir.path("../hurtle.toml");
    let text = format!(
        "{TWO}listen_tls = ['127.0.0.1:0', '127.0.0.2:0']\n{}{}",
        site("", &format!("hosts = '{name}'\n{}", of("one")), "one"),
        site("127.0.0.2:0", &format!("hosts = '{name}'\n{}", of("two")), "two"),
    );
    fs::write(&config, text).unwrap();
    let child = Child::start(hurtle().arg("--config").arg(config));
    eventually("it says all addresses", || child.stdout().contains("https://127.0.0.2"));
    for (listener, certificate) in ["one", "two"].iter().zip(&pairs) {
        let host = if *listener == "one" { "127.0.0.1" } else { "127.0.0.2" };
        let clear = address(&child, &format!("http://{host}"));
        assert_eq!(get(clear, name), *listener, "HTTP/1.1");
        assert_eq!(
            body_over_h2(Wire::begin(clear, &[]), "http", name),
            *listener,
            "HTTP/2 in clear"
        );

        // Only the certificate of this listener is trusted.
        let mut roots = RootCertStore::empty();
        roots.add(certificate.clone()).unwrap();
        let secure = address(&child, &format!("https://{host}"));
        let connected = |alpn: &[&str]| {
            let config = Arc::new(h3_peer::trusting(roots.clone(), alpn));
            let tls = ClientConnection::new(config, ServerName::try_from(name).unwrap()).unwrap();
            StreamOwned::new(tls, TcpStream::connect(secure).unwrap())
        };
        let wire = Wire::over(connected(&["h2"]), &[]);
        assert_eq!(body_over_h2(wire, "https", name), *listener, "HTTP/2 over TLS");
        let mut stream = connected(&["http/1.1"]);
        write!(stream, "GET / HTTP/1.1\r\nHost: {name}\r\nConnection: close\r\n\r\n").unwrap();
        let mut text = String::new();
        let _ = std::io::Read::read_to_string(&mut stream, &mut text);
        assert!(text.ends_with(&format!("\r\n\r\n{listener}")), "HTTP/1.1 over TLS: {text}");
        let alt = format!("alt-svc: h3=\":{}\"", secure.port());
        assert!(text.to_lowercase().contains(&alt), "the port of this listener: {text}");
        let body = h3_peer::talk(secure, roots, async |mut client| {
            h3_peer::get(&mut client, "/").await.text().to_owned()
        });
        assert_eq!(body, *listener, "HTTP/3");
    }
}

fn body_over_h2<S: std::io::Read + std::io::Write>(
    mut wire: Wire<S>,
    scheme: &str,
    name: &str,
) -> String {
    let fields = [(":method", "GET"), (":scheme", scheme), (":path", "/"), (":authority", name)];
    let flags = frames::END_HEADERS | frames::END_STREAM;
    wire.send(&frames::frame(frames::HEADERS, flags, 1, &frames::block(&fields)));
    String::from_utf8(wire.next_of(DATA).payload).unwrap()
}

#[test]
fn check_and_explain_know_the_listeners() {
    let dir = Dir::new(&[("index.html", "home\n")]);
    let config = dir.path("../hurtle.toml");
    let listen = "listen = [':8080', '127.0.0.1:8081']\nlisten_tls = '127.0.0.1:8443'\n";
    let tls = "tls = { certificate = 'gone.pem', key = 'gone.pem' }\n";
    let open = site("", "hosts = 'a.test'\n", "open");
    let run = |arguments: &[&str]| {
        let output = hurtle().args(arguments).arg("--config").arg(&config).output().unwrap();
        String::from_utf8([output.stdout, output.stderr].concat()).unwrap()
    };
    let rows = [
        (
            "an address without a listener",
            site("127.0.0.1:9", "", "x"),
            "site[1].listen: nothing listens on 127.0.0.1:9; add it to listen or listen_tls",
        ),
        (
            "a certificate for a listener in clear",
            site("127.0.0.1:8081", &format!("hosts = 'b.test'\n{tls}"), "x"),
            "site[1].listen: the site has a certificate, but listens in clear only",
        ),
        (
            "TLS without a certificate",
            site("127.0.0.1:8443", "", "x"),
            "site[1].listen: the site listens with TLS only, but has no certificate",
        ),
        (
            "a name twice on a listener",
            [site(":8080", "hosts = 'a.test'\n", "x"), site(":8080", "hosts = 'a.test'\n", "y")]
                .concat(),
            "site[2].hosts: the name is already taken by site[1]",
        ),
        (
            "two sites without names on a listener",
            [site("127.0.0.1:8081", "", "x"), site("127.0.0.1:8081", "", "y")].concat(),
            "site[1] is already the default site",
        ),
        (
            "a password in clear to other machines",
            site(":8080", "auth = 'basic'\nusers = 'u'\n", "x"),
            "passwords and tokens would cross the network in clear to 0.0.0.0:8080",
        ),
    ];
    for (sentence, sites, want) in rows {
        fs::write(&config, format!("{listen}{open}{sites}")).unwrap();
        let said = run(&["check"]);
        assert!(said.contains(want), "{sentence}: {said}");
    }

    let users = "auth = 'basic'\nusers = 'users'\n";
    dir.write("../users", "u:$2y$05$abcdefghijklmnopqrstuuKzmA3Qzjvtsv7BUqUYbA4ei8mOuMGVC\n");
    let inner = site("127.0.0.1:8081", &format!("hosts = 'a.test'\n{users}"), "inner");
    let listen = "listen = [':8080', '127.0.0.1:8081']\n";
    fs::write(&config, format!("{listen}{open}{inner}")).unwrap();
    assert!(
        run(&["check"]).starts_with("ok"),
        "a password on a loopback address: {}",
        run(&["check"])
    );
    let rows: [(&str, &[&str], bool); 4] = [
        ("no listener", &["/", "--host", "a.test"], false),
        ("a listener", &["/", "--host", "a.test", "--listen", "127.0.0.1:8081"], true),
        ("the port of a URL", &["http://a.test:8081/"], true),
        ("another port of a URL", &["http://a.test:8080/"], false),
    ];
    for (sentence, arguments, is_inner) in rows {
        let said = run(&[&["explain"], arguments].concat());
        assert_eq!(said.contains("listener 127.0.0.1:8081"), is_inner, "{sentence}: {said}");
        assert_eq!(said.contains("password"), is_inner, "{sentence}: {said}");
    }
}
