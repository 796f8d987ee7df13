//! Mounts that require client certificates, in a site that asks for one without requiring it.

use std::fmt::Write as _;
use std::io::Read as _;
use std::path::Path;

use hurtle::config::{Config, check};

use crate::child::{hurtle, write_config};
use crate::clients::knows;
use crate::http2;
use crate::peer::{Options, Peer};
use crate::server::{Authority, Secure, client_auth, sibling, tls};
use crate::support::{Client, Dir};

/// Part of the body of the refusal.
const REFUSED: &str = "a client certificate is required";

/// `may.test` has mounts that require a certificate; `redirected.test`, too, and redirects requests
/// in clear.
fn server() -> Secure {
    let tree = [("a.txt", "hello\n"), ("b.txt", "hello\n"), ("members/a.txt", "secret\n")];
    Secure::with(&tree, |config, authority, dir| {
        let mounts = mounts(dir);
        for name in ["may.test", "redirected.test"] {
            let mut tls = tls(authority.issue(name).write(dir, name));
            tls.client_auth = Some(client_auth(authority, false, dir));
            tls.redirect = name == "redirected.test";
            let mut site = sibling(config, name, Some(tls));
            site.mounts.clone_from(&mounts.sites[0].mounts);
            config.sites.push(site);
        }
    })
}

/// A configuration with the mounts of both sites.
fn mounts(dir: &Dir) -> Config {
    let root = dir.root();
    let text = format!(
        "listen_tls = \"127.0.0.1:0\"\n[[site]]\n\
         tls = {{ certificate = \"c.pem\", client_auth = \"optional\", client_ca = \"a.pem\" }}\n\
         [[site.mount]]\nfiles = {root:?}\nindex = []\notherwise = \"app\"\n\
         [[site.mount]]\npath = \"/members\"\nfiles = {root:?}\nclient_auth = \"required\"\n\
         cors = {{ origins = \"https://b.test\" }}\n\
         [[site.mount]]\nname = \"app\"\nrespond = \"the application\"\nclient_auth = \"required\"\n"
    );
    check(&text, Path::new("/nowhere/hurtle.toml")).unwrap()
}

/// A sentence, the name of the handshake, the host, the path, the status without a certificate and
/// the status with one.
const TABLE: &[(&str, &str, &str, &str, u16, u16)] = &[
    ("an open mount", "may.test", "may.test", "/b.txt", 200, 200),
    ("a mount that requires a certificate", "may.test", "may.test", "/members/a.txt", 403, 200),
    ("a file that is not there", "may.test", "may.test", "/members/none", 403, 404),
    ("a mount that gets requests without a file", "may.test", "may.test", "/none", 403, 200),
    ("another site of the same policy", "redirected.test", "may.test", "/members/a.txt", 403, 200),
    ("a handshake without a policy", "a.test", "may.test", "/members/a.txt", 421, 421),
];

/// A client without a certificate, and one with.
fn clients(server: &Secure, alpn: &[&str]) -> (Options, Options) {
    let choices = crate::peer::Choices { alpn, ..Default::default() };
    (Options::of(server.authority.roots(), &choices), knows(server, "alice", alpn))
}

#[test]
fn a_mount_refuses_clients_without_a_certificate() {
    let server = server();
    let (anybody, alice) = clients(&server, &[]);
    for (sentence, name, host, path, without, with) in TABLE {
        // The file becomes known by the request before. The second connection of alice is resumed.
        for (options, status) in [(&alice, with), (&anybody, without), (&alice, with)] {
            let mut peer = Peer::connect(server.address, name, options).unwrap();
            for _ in 0..2 {
                let answer = peer.get_of(host, path);
                assert_eq!(answer.status, *status, "{sentence}: {}", answer.head);
                let body = String::from_utf8(answer.body).unwrap();
                assert_eq!(body.contains(REFUSED), *status == 403, "{sentence}: {body}");
            }
        }
    }
}

#[test]
fn a_mount_refuses_clients_of_http2_without_a_certificate() {
    let server = server();
    let (anybody, alice) = clients(&server, &["h2"]);
    for (sentence, name, host, path, without, with) in TABLE {
        for (options, status) in [(&alice, with), (&anybody, without), (&alice, with)] {
            let mut wire = http2::connect(&server, name, options);
            for stream in [1, 3] {
                let body = http2::get(&mut wire, stream, host, path);
                assert_eq!(body.contains(REFUSED), *status == 403, "{sentence}: {body}");
                let is_misdirected = body.contains(http2::MISDIRECTED);
                assert_eq!(is_misdirected, *status == 421, "{sentence}: {body}");
            }
        }
    }
}

#[test]
fn requests_in_clear_have_no_certificate() {
    let server = server();
    for (sentence, host, path, status) in [
        ("without a redirect", "may.test", "/members/a.txt", 403),
        ("an open mount, by the site's policy", "may.test", "/b.txt", 421),
        ("with a redirect", "redirected.test", "/members/a.txt", 308),
    ] {
        let request = format!("{path}\nHost: {host}");
        let answer = Client::connect(server.clear).request("GET", &request);
        assert_eq!(answer.status, status, "{sentence}");
    }
}

#[test]
fn preflights_need_no_certificate() {
    let server = server();
    let (anybody, _) = clients(&server, &[]);
    let preflight = "Origin: https://b.test\r\nAccess-Control-Request-Method: GET\r\n";
    for (sentence, method, fields, status) in [
        ("a preflight", "OPTIONS", preflight, "204"),
        ("another request of its method", "OPTIONS", "Origin: https://b.test\r\n", "403"),
        ("the request", "GET", preflight, "403"),
    ] {
        let mut peer = Peer::connect(server.address, "may.test", &anybody).unwrap();
        let target = "/members/a.txt HTTP/1.1\r\nHost: may.test";
        peer.send(format!("{method} {target}\r\n{fields}\r\n"));
        let mut head = [0; 12];
        peer.read_exact(&mut head).unwrap();
        assert_eq!(&head[9..], status.as_bytes(), "{sentence}");
    }
}

#[test]
fn explain_names_the_requirement() {
    let dir = Dir::new(&[("a.txt", "a"), ("members/a.txt", "a")]);
    let authority = Authority::new("ours");
    let files = authority.issue("localhost").write(&dir, "localhost");
    let clients = client_auth(&authority, false, &dir).authorities;
    let mut text = format!(
        "listen_tls = '127.0.0.1:0'\n[[site]]\nhosts = 'localhost'\n[site.tls]\n\
         certificate = {:?}\nkey = {:?}\nclient_auth = 'optional'\nclient_ca = {clients:?}\n",
        files.chain, files.key
    );
    for (path, key) in [("/", ""), ("/members", "client_auth = 'required'\n")] {
        write!(text, "[[site.mount]]\npath = '{path}'\n{key}files = '{{root}}'\n").unwrap();
    }
    let config = write_config(&dir, &text);
    for (path, is_required) in [("/a.txt", false), ("/members/a.txt", true)] {
        let mut command = hurtle();
        command.args(["explain", path, "--host", "localhost", "--config"]).arg(&config);
        let said = String::from_utf8(command.output().unwrap().stdout).unwrap();
        let is_said = said.contains("requires a client certificate, else 403");
        assert_eq!(is_said, is_required, "{said}");
    }
}
