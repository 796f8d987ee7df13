//! Tests with curl, in clear text and over TLS.

use std::process::Command;

use hurtle::config::{CertificateFiles, Listen, Tls};
use rcgen::{CertificateParams, KeyPair};

use crate::support::{Dir, Server, reserved_address};

fn curl(arguments: &[&str]) -> String {
    let said = ["--silent", "--show-error", "--max-time", "10", "--insecure"];
    let said = Command::new("curl").args(said).args(arguments).output().unwrap();
    assert!(said.status.success(), "{}", String::from_utf8_lossy(&said.stderr));
    String::from_utf8(said.stdout).unwrap()
}

/// Makes curl print the version and the status after the body.
const TOLD: &[&str] = &["--write-out", "%{http_version} %{http_code}"];

#[test]
fn in_clear_by_prior_knowledge_and_not_by_upgrade() {
    let server = Server::start(&[("a.txt", "hello ")]);
    let url = format!("http://{}/a.txt", server.address);
    assert_eq!(curl(&[&["--http2-prior-knowledge", &url], TOLD].concat()), "hello 2 200");
    // RFC 9113 3.1: the upgrade to h2c is obsolete.
    assert_eq!(curl(&[&["--http2", &url], TOLD].concat()), "hello 1.1 200");
}

#[test]
fn over_tls_by_alpn() {
    let dir = Dir::new(&[("a.txt", "hello ")]);
    let key = KeyPair::generate().unwrap();
    let certificate = CertificateParams::new(vec!["localhost".to_owned()]).unwrap();
    let certificate = certificate.self_signed(&key).unwrap();
    std::fs::write(dir.path("../a.pem"), certificate.pem()).unwrap();
    std::fs::write(dir.path("../a.key"), key.serialize_pem()).unwrap();
    let (chain, key) = (dir.path("../a.pem"), dir.path("../a.key"));
    let large: Vec<u8> = (0..2_000_000_u32).map(|i| b'a' + (i % 23) as u8).collect();
    dir.write("large", &large);
    let port = std::sync::Mutex::new(Listen::Tcp(reserved_address()));
    let server = Server::of(dir, |config| {
        config.listen_tls = vec![port.lock().unwrap().clone()];
        let certificates = vec![CertificateFiles { chain, key }];
        let tls = Tls { certificates, ..Tls::default() };
        config.sites[0].tls = Some(tls);
    });
    let port = port.lock().unwrap().port().unwrap();
    let url = format!("https://127.0.0.1:{port}/a.txt");
    assert_eq!(curl(&[&["--http2", &url], TOLD].concat()), "hello 2 200");
    assert_eq!(curl(&[&["--http1.1", &url], TOLD].concat()), "hello 1.1 200");
    let url = format!("https://127.0.0.1:{port}/large");
    assert!(curl(&["--http2", &url]).as_bytes() == large);
    drop(server);
}
