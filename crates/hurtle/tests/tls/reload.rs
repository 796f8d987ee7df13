//! Reloaded and unusable certificates; the server runs as a process of its own.

use std::fs;
use std::io::Write as _;
use std::net::TcpStream;
use std::os::unix::fs::PermissionsExt;
use std::time::{Duration, SystemTime};

use rustix::process::{Signal, geteuid};

use crate::child::{Child, eventually, hurtle};
use crate::peer::{Options, Peer};
use crate::server::{Authority, Pair};
use crate::support::Dir;

struct Running {
    child: Child,
    dir: Dir,
    authority: Authority,
}

impl Running {
    /// Starts a server with this certificate for `a.test`.
    fn with(issue: impl FnOnce(&Authority) -> Pair) -> Running {
        Running::of("\"a.test\"", issue)
    }

    /// Starts a server with a certificate for a site of these `hosts`, in TOML.
    fn of(hosts: &str, issue: impl FnOnce(&Authority) -> Pair) -> Running {
        let (dir, authority) = (Dir::new(&[("a.txt", "hello\n")]), Authority::new("the test's"));
        issue(&authority).write(&dir, "a");
        if geteuid().is_root() {
            // The server drops root before it reloads files.
            let key = dir.path("../a.key");
            fs::set_permissions(key, fs::Permissions::from_mode(0o644)).unwrap();
        }
        let child = Child::start(hurtle().arg("--config").arg(config_of(&dir, hosts)));
        Running { child, dir, authority }
    }

    fn shown(&self) -> Vec<u8> {
        let options = Options::trusting(self.authority.roots());
        let mut peer = Peer::connect(self.child.address(), "a.test", &options).unwrap();
        assert_eq!(peer.get("/a.txt").body, b"hello\n");
        peer.certificate()
    }

    /// Makes a change after which the server must keep the previous certificate.
    fn stays_with(&self, what: &str, change: impl FnOnce(), complaint: &str) {
        let before = self.shown();
        change();
        eventually(what, || self.child.stderr().contains(complaint));
        let log = self.child.stderr();
        assert!(log.contains("stays in use"), "{what}: {log}");
        assert_eq!(self.shown(), before, "{what}");
    }
}

fn config(dir: &Dir) -> std::path::PathBuf {
    config_of(dir, "\"a.test\"")
}

fn config_of(dir: &Dir, hosts: &str) -> std::path::PathBuf {
    let user = if geteuid().is_root() { "user = \"nobody\"\n" } else { "" };
    let path = dir.path("../tls.toml");
    let root = dir.root();
    let text = format!(
        "listen_tls = \"127.0.0.1:0\"\nworkers = 1\n{user}[[site]]\nhosts = {hosts}\n\
         [site.tls]\ncertificate = \"a.pem\"\nkey = \"a.key\"\n[[site.mount]]\nfiles = {root:?}\n"
    );
    fs::write(&path, text).unwrap();
    path
}

#[test]
fn a_new_certificate_is_loaded_and_open_connections_continue() {
    let running = Running::with(|authority| authority.issue("a.test"));
    let before = running.shown();
    let options = Options::trusting(running.authority.roots());
    let mut open = Peer::connect(running.child.address(), "a.test", &options).unwrap();
    let new = running.authority.issue("a.test");
    new.write(&running.dir, "a");
    eventually("the new certificate is in use", || running.shown() != before);
    assert_eq!(running.shown(), new.der().0[0].to_vec());
    assert_eq!(open.get("/a.txt").status, 200);
    assert!(running.child.stderr().contains("new files"), "{}", running.child.stderr());
}

#[test]
fn unusable_files_are_not_loaded_and_the_log_gives_the_reason() {
    let running = Running::with(|authority| authority.issue("a.test"));
    let (dir, authority) = (&running.dir, &running.authority);
    let files = crate::authority::files(dir, "a");
    let write = |path: &std::path::Path, text: &str| fs::write(path, text).unwrap();
    let other = authority.issue("a.test");
    running.stays_with(
        "another's key",
        || write(&files.key, &other.key),
        "put the key there that the certificate was made for",
    );
    running.stays_with("no PEM", || write(&files.chain, "hello"), "no certificate in it");
    let (cut, _) = other.chain.split_once("-----END").unwrap();
    running.stays_with("cut short", || write(&files.chain, cut), "a section without its END line");
    running.stays_with(
        "expired",
        || drop(authority.issue_expired("a.test").write(dir, "a")),
        "expired on 01 Jan 2020; renew it",
    );
    running.stays_with(
        "for another name",
        || drop(authority.issue("b.test").write(dir, "a")),
        "is not for a.test; get one that names it",
    );
    running.stays_with("gone", || fs::remove_file(&files.chain).unwrap(), "put the file there");
    let before = running.shown();
    authority.issue("a.test").write(dir, "a");
    eventually("a valid certificate is loaded", || running.shown() != before);
}

/// Regression: it was never loaded.
#[test]
fn a_certificate_that_is_not_valid_yet_is_loaded_once_it_is() {
    let running = Running::with(|authority| authority.issue("a.test"));
    let before = running.shown();
    let from = SystemTime::now() + Duration::from_secs(4);
    let new = running.authority.issue_from("a.test", from);
    new.write(&running.dir, "a");
    eventually("the new certificate is in use", || running.shown() != before);
    assert_eq!(running.shown(), new.der().0[0].to_vec());
}

/// Regression: one that clients warn of was replaced by any other.
#[test]
fn a_certificate_for_some_of_the_names_is_not_replaced_by_a_worse_one() {
    let hosts = "[\"a.test\", \"www.a.test\"]";
    let running = Running::of(hosts, |authority| authority.issue("a.test"));
    let (dir, authority) = (&running.dir, &running.authority);
    running.stays_with(
        "expired",
        || drop(authority.issue_expired("a.test").write(dir, "a")),
        "expired on 01 Jan 2020; renew it",
    );
    running.stays_with(
        "for the other name alone",
        || drop(authority.issue("www.a.test").write(dir, "a")),
        "is not for a.test; get one that names it",
    );
    let before = running.shown();
    authority.issue("a.test").write(dir, "a");
    eventually("one as before is loaded", || running.shown() != before);
}

#[test]
fn an_unreadable_key_is_not_loaded() {
    let running = Running::with(|authority| authority.issue("a.test"));
    let key = crate::authority::files(&running.dir, "a").key;
    running.stays_with(
        "unreadable",
        || fs::set_permissions(&key, fs::Permissions::from_mode(0o0)).unwrap(),
        "let the server's user read it",
    );
}

#[test]
fn a_start_warns_of_an_expired_certificate_and_fails_without_its_key() {
    let running = Running::with(|authority| authority.issue_expired("b.test"));
    let log = running.child.stderr();
    assert!(log.contains("expired on 01 Jan 2020") && log.contains("not for a.test"), "{log}");
    let other = running.authority.issue("a.test");
    fs::write(crate::authority::files(&running.dir, "a").key, other.key).unwrap();
    for command in [&["check", "--config"][..], &["--config"]] {
        let mut child = Child::spawn(hurtle().args(command).arg(config(&running.dir)));
        assert!(!child.wait().success());
        assert!(child.stderr().contains("put the key there"), "{}", child.stderr());
    }
}

#[test]
fn a_handshake_before_sigterm_is_completed_and_its_request_answered() {
    let running = Running::with(|authority| authority.issue("a.test"));
    let options = Options::trusting(running.authority.roots());
    let mut peer = Peer::begin(running.child.address(), "a.test", &options);
    peer.session.write_tls(&mut peer.socket).unwrap();
    // The server has sent its part of the handshake.
    peer.session.read_tls(&mut peer.socket).unwrap();
    running.child.signal(Signal::TERM);
    let address = running.child.address();
    eventually("new connections are refused", || TcpStream::connect(address).is_err());
    // The request is sent with the client's Finished, since a stopping server does not wait for a
    // first request.
    peer.session.writer().write_all(b"GET /a.txt HTTP/1.1\r\nHost: a.test\r\n\r\n").unwrap();
    peer.session.process_new_packets().unwrap();
    while peer.session.is_handshaking() {
        peer.session.complete_io(&mut peer.socket).unwrap();
    }
    peer.send("");
    let answer = peer.answer();
    assert_eq!(answer.body, b"hello\n");
    assert!(answer.head.contains("Connection: close"));
    drop(peer);
    let mut child = running.child;
    assert!(child.wait().success());
}
