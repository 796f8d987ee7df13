//! All goes well.

use std::fs;
use std::io::{Read, Write};
use std::net::TcpStream;
use std::os::unix::fs::PermissionsExt;

use rustix::process::Signal;

use crate::pebble::{EAB_KEY, Manner, Net};
use crate::peer::{Choices, Options, Peer};
use crate::subscriber::{Terms, authority};

#[test]
fn a_certificate_is_got_by_each_challenge_and_shown_without_a_restart() {
    for challenge in ["tls-alpn-01", "http-01"] {
        let Some(net) = Net::new() else { return };
        let pebble = net.pebble(0, &Manner { bad_nonces: 20, ..Manner::default() });
        let hosts = &["a.test", "b.test"];
        let server = Terms { hosts, challenge, ..Terms::new(&net) }.start(&net, 0);
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
fn who_was_not_told_to_ask_is_answered_as_anybody() {
    let Some(net) = Net::new() else { return };
    let pebble = net.pebble(0, &Manner::default());
    let server = Terms::new(&net).start(&net, 0);
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
    assert!(server.refusal("c.test").contains("UnrecognisedName"), "no name but those written");
}

#[test]
fn an_account_made_elsewhere_is_used_and_the_second_authority_serves_where_the_first_is_down() {
    let Some(net) = Net::new() else { return };
    let pebble = net.pebble(1, &Manner { binding: true, ..Manner::default() });
    fs::write(net.dir.path("../eab.key"), format!("{EAB_KEY}\n")).unwrap();
    let bound = format!("{}\neab_id = \"kid-1\"\neab_key = \"eab.key\"", authority(&net, 1));
    let authorities = vec![authority(&net, 0), bound];
    let server = Terms { authorities, ..Terms::new(&net) }.start(&net, 0);
    server.served("a.test", &pebble.roots());
    let log = server.child.stderr();
    assert!(log.contains(&format!("{}: ", net.directory(0))), "{log}");
    assert!(log.contains("Connection refused"), "it says why the first did not serve: {log}");
    assert!(log.contains(&format!("got a certificate from {}", net.directory(1))), "{log}");
}

#[test]
fn two_servers_with_one_storage_get_one_certificate() {
    let Some(net) = Net::new() else { return };
    let pebble = net.pebble(0, &Manner::default());
    // The authority comes to the first, whichever has asked.
    let terms = Terms { challenge: "http-01", ..Terms::new(&net) };
    let other = Terms { ports: (6002, 6001), challenge: "http-01", ..Terms::new(&net) };
    let (second, first) = (other.start(&net, 2), terms.start(&net, 1));
    let shown = first.served("a.test", &pebble.roots());
    assert_eq!(second.served("a.test", &pebble.roots()), shown);
    assert_eq!(pebble.orders(), 1);
}

#[test]
fn what_the_authority_would_have_renewed_is_renewed() {
    let Some(net) = Net::new() else { return };
    let pebble = net.pebble(0, &Manner::default());
    let mut server = Terms::new(&net).start(&net, 0);
    let before = server.served("a.test", &pebble.roots());
    let pem = fs::read_to_string(server.storage.join("a.test.pem")).unwrap();
    pebble.advise_renewal(&pem);
    server.child.signal(Signal::TERM);
    server.child.wait();
    let server = Terms::new(&net).start(&net, 0);
    server.eventually("another", || server.served("a.test", &pebble.roots()) != before);
    assert_eq!(pebble.orders(), 2);
    let attempts = &server.record("a.test")["trials"][net.directory(0)]["attempts"];
    assert_eq!(attempts, 1, "to renew what was not a day in use counts");
}
