//! Revoked client certificates.

use std::fs;
use std::os::unix::fs::PermissionsExt;

use rustix::process::geteuid;
use rustls::SupportedProtocolVersion;
use rustls::version::{TLS12, TLS13};

use crate::child::{Child, eventually, hurtle};
use crate::peer::{Choices, Options, Peer};
use crate::server::{Authority, Pair, Secure, client_auth, sibling, tls};
use crate::support::Dir;

/// A client with this certificate.
fn client(
    of: &Authority,
    pair: Option<&Pair>,
    version: &'static SupportedProtocolVersion,
) -> Options {
    let choices = Choices { certificate: pair, versions: &[version], ..Choices::default() };
    Options::of(of.roots(), &choices)
}

/// Requests a file; returns the status, or the alert.
fn status(mut peer: Peer, host: &str) -> Result<u16, String> {
    peer.send(format!("GET /a.txt HTTP/1.1\r\nHost: {host}\r\n\r\n"));
    let mut head = [0; 64];
    match peer.read(&mut head) {
        Ok(len) if len > 12 => Ok(String::from_utf8_lossy(&head[9..12]).parse().unwrap()),
        Ok(len) => panic!("{len} bytes"),
        Err(e) => Err(e.to_string()),
    }
}

#[test]
fn revoked_clients_are_refused_in_the_handshake() {
    let (other, unlisted) = (Authority::new("another"), Authority::new("a third one"));
    let pairs =
        |authority: &Authority| (authority.issue_client("alice"), authority.issue_client("bob"));
    let ((ada, ben), (cleo, _)) = (pairs(&other), pairs(&unlisted));
    let mut own = None;
    let server = Secure::with(&[("a.txt", "hello\n")], |config, authority, dir| {
        let (alice, bob) = pairs(authority);
        let lists = [dir.path("../current.pem"), dir.path("../expired.pem")];
        fs::write(&lists[0], authority.revoke(&[&alice], false)).unwrap();
        fs::write(&lists[1], other.revoke(&[&ada], true)).unwrap();
        own = Some((alice, bob));
        for (name, required) in [("must.test", true), ("may.test", false)] {
            let mut tls = tls(authority.issue(name).write(dir, name));
            let mut clients = client_auth(authority, required, dir);
            let authorities = [authority.pem(), other.pem(), unlisted.pem()].concat();
            fs::write(&clients.authorities, authorities).unwrap();
            clients.revocation_lists = lists.to_vec();
            tls.client_auth = Some(clients);
            config.sites.push(sibling(config, name, Some(tls)));
        }
    });
    let (alice, bob) = own.unwrap();
    let rows = [
        ("a revoked certificate", Some(&alice), Err("CertificateRevoked")),
        ("another one of its authority", Some(&bob), Ok(200)),
        ("one that an expired list revokes", Some(&ada), Err("CertificateRevoked")),
        ("another one of that authority", Some(&ben), Ok(200)),
        ("one of an authority without a list", Some(&cleo), Ok(200)),
        ("no certificate", None, Ok(200)),
    ];
    for (sentence, pair, expected) in rows {
        for (host, version) in [
            ("may.test", &TLS13),
            ("may.test", &TLS12),
            ("must.test", &TLS13),
            ("must.test", &TLS12),
        ] {
            if pair.is_none() && host == "must.test" {
                continue;
            }
            let options = client(&server.authority, pair, version);
            let peer = Peer::connect(server.address, host, &options);
            let found = peer.map_err(|e| e.to_string()).and_then(|peer| status(peer, host));
            match (&found, expected) {
                (Ok(found), Ok(expected)) => assert_eq!(*found, expected, "{sentence}, {host}"),
                (Err(e), Err(alert)) => assert!(e.contains(alert), "{sentence}, {host}: {e}"),
                _ => panic!("{sentence}, {host}: {found:?}"),
            }
        }
    }
}

/// Writes a configuration with client authentication by lists in `revoked.pem`.
fn config(dir: &Dir) -> std::path::PathBuf {
    let user = if geteuid().is_root() { "user = \"nobody\"\n" } else { "" };
    let (path, root) = (dir.path("../revoked.toml"), dir.root());
    let text = format!(
        "listen_tls = \"127.0.0.1:0\"\nworkers = 1\n{user}[[site]]\nhosts = \"a.test\"\n\
         [site.tls]\ncertificate = \"a.pem\"\nkey = \"a.key\"\nclient_auth = \"required\"\n\
         client_ca = \"clients.pem\"\nclient_crl = \"revoked.pem\"\n[[site.mount]]\nfiles = {root:?}\n"
    );
    fs::write(&path, text).unwrap();
    path
}

/// A site with client authentication.
fn site() -> (Dir, Authority) {
    let (dir, authority) = (Dir::new(&[("a.txt", "hello\n")]), Authority::new("the test's"));
    let files = authority.issue("a.test").write(&dir, "a");
    // The server drops root before it reloads files.
    fs::set_permissions(files.key, fs::Permissions::from_mode(0o644)).unwrap();
    client_auth(&authority, true, &dir);
    (dir, authority)
}

#[test]
fn a_new_list_ends_the_sessions_of_revoked_clients() {
    let (dir, authority) = site();
    let list = dir.path("../revoked.pem");
    let (alice, bob) = (authority.issue_client("alice"), authority.issue_client("bob"));
    fs::write(&list, authority.revoke(&[], false)).unwrap();
    let server = Child::start(hurtle().arg("--config").arg(config(&dir)));
    let connect = |options: &Options| Peer::connect(server.address(), "a.test", options).unwrap();
    let clients: Vec<Options> =
        [&TLS13, &TLS12].map(|version| client(&authority, Some(&alice), version)).to_vec();
    let mut open = connect(&clients[0]);
    for options in &clients {
        assert_eq!(connect(options).get("/a.txt").status, 200);
        let mut resumed = connect(options);
        assert!(resumed.is_resumed());
        assert_eq!(resumed.get("/a.txt").status, 200);
    }
    let is_refused = |options: &Options| {
        let peer = Peer::connect(server.address(), "a.test", options);
        let found = peer.map_err(|e| e.to_string()).and_then(|peer| status(peer, "a.test"));
        found.is_err_and(|e| e.contains("CertificateRevoked"))
    };

    fs::write(&list, authority.revoke(&[&alice], false)).unwrap();
    for options in &clients {
        eventually("alice is refused", || is_refused(options));
    }
    assert_eq!(open.get("/a.txt").status, 200, "open connections continue");
    assert_eq!(connect(&client(&authority, Some(&bob), &TLS13)).get("/a.txt").status, 200);

    fs::write(&list, "nothing").unwrap();
    eventually("an error", || server.stderr().contains("no revocation list in it"));
    assert!(server.stderr().contains("stays in use"), "{}", server.stderr());
    assert!(is_refused(&clients[0]), "by the list before");

    fs::write(&list, authority.revoke(&[], true)).unwrap();
    eventually("a warning", || server.stderr().contains("expired on 01 Jan 2020"));
    eventually("alice is admitted again", || !is_refused(&clients[0]));
    assert_eq!(server.stderr().matches("expired on 01 Jan 2020").count(), 1, "it is given once");
}

#[test]
fn check_reports_lists_that_are_expired_or_unusable() {
    let (dir, authority) = site();
    let list = dir.path("../revoked.pem");
    let expired = authority.revoke(&[], true);
    let cut = expired.replacen("MI", "MA", 1);
    for (sentence, contents, is_usable, complaint) in [
        ("expired", Some(&*expired), true, "the revocation list expired on 01 Jan 2020"),
        ("a certificate", Some(authority.pem()), false, "no revocation list in it"),
        ("malformed", Some(&*cut), false, "a revocation list is unusable"),
        ("missing", None, false, "revoked.pem"),
    ] {
        match contents {
            Some(contents) => fs::write(&list, contents).unwrap(),
            None => fs::remove_file(&list).unwrap(),
        }
        let output = hurtle().args(["check", "--config"]).arg(config(&dir)).output().unwrap();
        let said = String::from_utf8([output.stdout, output.stderr].concat()).unwrap();
        assert_eq!(output.status.success(), is_usable, "{sentence}: {said}");
        assert!(said.contains(complaint), "{sentence}: {said}");
    }
}
