//! Orders and renewals that succeed.

use std::fs;
use std::io::{Read, Write};
use std::net::TcpStream;
use std::os::unix::fs::PermissionsExt;

use rustix::process::Signal;

use crate::pebble::{EAB_KEY, Net, PebbleOptions};
use crate::peer::{Choices, Options, Peer};
use crate::subscriber::{Setup, authority};

#[test]
fn each_challenge_obtains_a_certificate_which_is_used_without_a_restart() {
    for challenge in ["tls-alpn-01", "http-01"] {
        let Some(net) = Net::new() else { return };
        let pebble = net.pebble(0, &PebbleOptions { bad_nonces: 20, ..PebbleOptions::default() });
        let hosts = &["a.test", "b.test"];
        let server = Setup { hosts, challenge, ..Setup::new(&net) }.start(&net, 0);
        let shown = server.served("a.test", &pebble.roots());
        assert_eq!(shown, server.served("b.test", &pebble.roots()), "one for both, {challenge}");
        assert_eq!(pebble.orders(), 1, "{challenge}");
        let log = server.child.stderr();
        assert!(log.contains("a.test: got a certificate from"), "{challenge}: {log}");
        for entry in fs::read_dir(&server.storage).unwrap().map(Result::unwrap) {
            let mode = entry.metadata().unwrap().permissions().mode() & 0o777;
            let expected = if entry.metadata().unwrap().is_dir() { 0o700 } else { 0o600 };
            assert_eq!(mode, expected, "{:?}", entry.file_name());
        }
    }
}

#[test]
fn an_address_gets_a_certificate_which_clients_without_a_name_are_shown() {
    for challenge in ["tls-alpn-01", "http-01"] {
        let Some(net) = Net::new() else { return };
        let pebble = net.pebble(0, &PebbleOptions::default());
        let address = net.address.to_string();
        let hosts = &["a.test", &address[..]];
        let server = Setup { hosts, challenge, ..Setup::new(&net) }.start(&net, 0);
        let shown = server.served("a.test", &pebble.roots());
        assert_eq!(server.served(&address, &pebble.roots()), shown, "{challenge}");
        assert_eq!(pebble.orders(), 1, "{challenge}");
    }
}

#[test]
fn requests_without_a_pending_challenge_are_answered_as_any_other() {
    let Some(net) = Net::new() else { return };
    let pebble = net.pebble(0, &PebbleOptions::default());
    let server = Setup::new(&net).start(&net, 0);
    server.served("a.test", &pebble.roots());
    let choices = Choices { alpn: &["acme-tls/1"], ..Choices::default() };
    let refused = Peer::connect(server.tls, "a.test", &Options::of(pebble.roots(), &choices));
    let refused = refused.err().unwrap().to_string();
    assert!(refused.contains("NoApplicationProtocol"), "{refused}");
    let mut socket = TcpStream::connect(server.clear).unwrap();
    let request = "GET /.well-known/acme-challenge/x HTTP/1.0\r\nHost: a.test\r\n\r\n";
    socket.write_all(request.as_bytes()).unwrap();
    let mut answer = String::new();
    socket.read_to_string(&mut answer).unwrap();
    assert!(answer.starts_with("HTTP/1.1 308 "), "{answer}");
    assert!(
        server.refusal("c.test").contains("UnrecognisedName"),
        "only configured names are served"
    );
}

#[test]
fn the_second_authority_issues_with_an_external_account_if_the_first_is_down() {
    let Some(net) = Net::new() else { return };
    let pebble = net.pebble(1, &PebbleOptions { binding: true, ..PebbleOptions::default() });
    fs::write(net.dir.path("../eab.key"), format!("{EAB_KEY}\n")).unwrap();
    let bound = format!("{}\neab_id = \"kid-1\"\neab_key = \"eab.key\"", authority(&net, 1));
    let authorities = vec![authority(&net, 0), bound];
    let server = Setup { authorities, ..Setup::new(&net) }.start(&net, 0);
    server.served("a.test", &pebble.roots());
    let log = server.child.stderr();
    assert!(log.contains(&format!("{}: ", net.directory(0))), "{log}");
    assert!(log.contains("Connection refused"), "the log has the first authority's error: {log}");
    assert!(log.contains(&format!("got a certificate from {}", net.directory(1))), "{log}");
}

#[test]
fn two_servers_with_one_storage_order_one_certificate() {
    let Some(net) = Net::new() else { return };
    let pebble = net.pebble(0, &PebbleOptions::default());
    // The authority connects to the first server, whichever server has ordered.
    let terms = Setup { challenge: "http-01", ..Setup::new(&net) };
    let other = Setup { ports: (6002, 6001), challenge: "http-01", ..Setup::new(&net) };
    let (second, first) = (other.start(&net, 2), terms.start(&net, 1));
    let shown = first.served("a.test", &pebble.roots());
    assert_eq!(second.served("a.test", &pebble.roots()), shown);
    assert_eq!(pebble.orders(), 1);
}

#[test]
fn a_certificate_is_renewed_when_the_authority_advises_it() {
    let Some(net) = Net::new() else { return };
    let pebble = net.pebble(0, &PebbleOptions::default());
    let mut server = Setup::new(&net).start(&net, 0);
    let before = server.served("a.test", &pebble.roots());
    let pem = fs::read_to_string(server.storage.join("a.test.pem")).unwrap();
    pebble.advise_renewal(&pem);
    server.child.signal(Signal::TERM);
    server.child.wait();
    let server = Setup::new(&net).start(&net, 0);
    server.eventually("another", || server.served("a.test", &pebble.roots()) != before);
    assert_eq!(pebble.orders(), 2);
    let attempts = &server.record("a.test")["trials"][net.directory(0)]["attempts"];
    assert_eq!(attempts, 1, "renewing a certificate of less than a day counts as an attempt");
}
