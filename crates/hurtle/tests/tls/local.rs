//! `hurtle DIR --tls`: HTTPS on this machine without configuration.

use std::fs;
use std::io::Write;
use std::net::TcpStream;
use std::os::unix::fs::PermissionsExt;
use std::process::Command;

use rustix::process::Signal;
use rustls::RootCertStore;
use rustls::pki_types::CertificateDer;
use rustls::pki_types::pem::PemObject;

use crate::child::{Child, eventually, hurtle};
use crate::peer::{Options, Peer, field};
use crate::support::{Client, Dir};

pub(crate) fn serve(dir: &Dir) -> Child {
    let mut command = hurtle();
    command.env("XDG_DATA_HOME", dir.path("../data")).env("HOME", dir.path("../home"));
    command.arg(dir.root()).args(["--tls", "--listen", "127.0.0.1:0", "--workers", "1"]);
    Child::start(&mut command)
}

#[test]
fn a_directory_is_served_over_https_and_its_authority_can_be_trusted() {
    let dir = Dir::new(&[("a.txt", "hello\n")]);
    let child = serve(&dir);
    let authority = dir.path("../data/hurtle/authority.pem");
    assert!(child.stdout().contains(&authority.display().to_string()), "{}", child.stdout());
    let key = authority.with_extension("key");
    assert_eq!(fs::metadata(key).unwrap().permissions().mode() & 0o777, 0o600);
    let mut roots = RootCertStore::empty();
    roots.add(CertificateDer::from_pem_file(&authority).unwrap()).unwrap();
    let options = Options::trusting(roots);
    for name in ["localhost", "127.0.0.1"] {
        let mut peer = Peer::connect(child.address(), name, &options).unwrap();
        assert_eq!(peer.get_of(name, "/a.txt").body, b"hello\n");
    }
    drop(child);
    let before = fs::read(&authority).unwrap();
    let child = serve(&dir);
    assert_eq!(fs::read(&authority).unwrap(), before, "it is made once");
    let mut peer = Peer::connect(child.address(), "localhost", &options).unwrap();
    assert_eq!(peer.get_of("localhost", "/a.txt").status, 200);
}

#[test]
fn openssl_verifies_the_certificate() {
    let dir = Dir::new(&[("a.txt", "hello\n")]);
    let child = serve(&dir);
    let authority = dir.path("../data/hurtle/authority.pem");
    for version in ["-tls1_2", "-tls1_3"] {
        let address = child.address().to_string();
        let mut client = Command::new("openssl");
        client.args(["s_client", version, "-connect", &address, "-servername", "localhost"]);
        client.args(["-verify_return_error", "-verify_hostname", "localhost", "-CAfile"]);
        client.arg(&authority).stdin(std::process::Stdio::null());
        // Not installed.
        let Ok(output) = client.output() else { return };
        let said = String::from_utf8_lossy(&output.stdout);
        assert!(said.contains("Verify return code: 0 (ok)"), "{version}: {said}");
    }
}

#[test]
fn a_stopping_server_completes_a_handshake_and_answers_its_request() {
    let dir = Dir::new(&[("a.txt", "hello\n")]);
    let mut child = serve(&dir);
    let mut roots = RootCertStore::empty();
    let authority = dir.path("../data/hurtle/authority.pem");
    roots.add(CertificateDer::from_pem_file(authority).unwrap()).unwrap();
    let options = Options::trusting(roots);
    let mut peer = Peer::begin(child.address(), "localhost", &options);
    let mut hello = Vec::new();
    peer.session.write_tls(&mut hello).unwrap();
    let (begun, rest) = hello.split_at(hello.len() / 2);
    peer.socket.write_all(begun).unwrap();
    // A client that has sent nothing is closed.
    let mut silent = Client::connect(child.address());
    // The server has read the half ClientHello once it has answered a later client.
    let mut other = Peer::connect(child.address(), "localhost", &options).unwrap();
    assert_eq!(other.get_of("localhost", "/a.txt").status, 200);
    child.signal(Signal::TERM);
    assert_eq!(other.rest(), (vec![], true), "between requests");
    silent.expect_end();
    eventually("new connections are refused", || TcpStream::connect(child.address()).is_err());
    peer.socket.write_all(rest).unwrap();
    while peer.session.is_handshaking() {
        peer.session.complete_io(&mut peer.socket).unwrap();
    }
    let answer = peer.get_of("localhost", "/a.txt");
    assert_eq!((answer.status, &answer.body[..]), (200, &b"hello\n"[..]));
    assert_eq!(field(&answer.head, "Connection"), Some("close"));
    assert_eq!(peer.rest(), (vec![], true));
    assert_eq!(child.wait().code(), Some(0));
}
