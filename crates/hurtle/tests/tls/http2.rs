//! HTTP/2 over TLS: who the client is, and for whom the connection is, are its matter as they are
//! HTTP/1.1's; and how it is written.

use std::io::Read;

use crate::clients;
use crate::frames::*;
use crate::peer::{Choices, Options, Peer};
use crate::server::Secure;

/// What is answered to the wrong one, and says so.
const MISDIRECTED: &str = "421 Misdirected Request";

fn connect(server: &Secure, name: &str, options: &Options) -> Wire<Peer> {
    let peer = Peer::connect(server.address, name, options).unwrap();
    assert_eq!(peer.session.alpn_protocol(), Some(&b"h2"[..]));
    Wire::over(peer, &[])
}

/// A GET of `https`, and the body that is answered.
#[track_caller]
fn get(wire: &mut Wire<Peer>, stream: u32, authority: &str, path: &str) -> String {
    let fields =
        [(":method", "GET"), (":scheme", "https"), (":authority", authority), (":path", path)];
    wire.send(&frame(HEADERS, END_HEADERS | END_STREAM, stream, &block(&fields)));
    let head = wire.next_of(HEADERS);
    assert_eq!(head.stream, stream);
    let mut body = Vec::new();
    loop {
        let data = wire.next_of(DATA);
        body.extend(&data.payload);
        if data.flags & END_STREAM != 0 {
            return String::from_utf8(body).unwrap();
        }
    }
}

#[test]
fn applications_learn_who_the_client_is_resumed_or_not() {
    let server = clients::server();
    let alice = clients::knows(&server, "alice", &["h2"]);
    for resumed in [false, true] {
        let mut wire = connect(&server, "must.test", &alice);
        assert_eq!(wire.socket.is_resumed(), resumed);
        for stream in [1, 3] {
            let body = get(&mut wire, stream, "must.test", "/who");
            assert_eq!(body, "alice alice.clients 1");
        }
    }
}

#[test]
fn an_authority_of_another_policy_than_the_handshakes_is_misdirected() {
    let server = clients::server();
    let alice = clients::knows(&server, "alice", &["h2"]);
    for (name, authority, is_its) in [
        ("a.test", "a.test", true),
        ("a.test", "must.test", false),
        ("a.test", "MUST.test.", false),
        ("a.test", "may.test", false),
        ("may.test", "must.test", false),
        ("must.test", "may.test", false),
        ("must.test", "a.test", false),
        ("must.test", "must.test", true),
    ] {
        let mut wire = connect(&server, name, &alice);
        // One after another, as by a browser that takes two sites for one; the second time the file
        // is known.
        for (stream, path) in [(1, "/a.txt"), (3, "/a.txt"), (5, "/who")] {
            let body = get(&mut wire, stream, authority, path);
            let is_misdirected = body.contains(MISDIRECTED);
            assert_eq!(is_misdirected, !is_its, "{authority}{path} by way of {name}: {body}");
        }
        assert_eq!(get(&mut wire, 7, name, "/a.txt"), "hello\n", "what {name} is for");
    }
}

#[test]
fn a_ticket_is_worth_nothing_where_clients_prove_themselves() {
    let server = clients::server();
    let alice = clients::knows(&server, "alice", &["h2"]).offering_every_ticket_to_everybody();
    let at = |name: &str| {
        let mut wire = connect(&server, name, &alice);
        assert_eq!(get(&mut wire, 1, name, "/a.txt"), "hello\n", "{name}");
        wire.socket.is_resumed()
    };
    assert!(!at("a.test"));
    assert!(at("a.test"), "the ticket is good");
    assert!(!at("must.test"), "a.test's ticket");
    assert!(at("must.test"));
    assert!(!at("may.test"), "must.test's ticket");
    assert!(!at("a.test"));
}

/// A DATA frame's head made it longer than a record, and each frame came in two.
#[test]
fn a_large_answer_comes_in_full_records() {
    const LARGE: usize = 1_000_000;
    let server = Secure::start(&[("large", &"x".repeat(LARGE))]);
    let choices = Choices { alpn: &["h2"], ..Choices::default() };
    let mut wire = connect(&server, "a.test", &Options::of(server.authority.roots(), &choices));
    let wide = (1_u32 << 24).to_be_bytes();
    let asked =
        [(":method", "GET"), (":scheme", "https"), (":authority", "a.test"), (":path", "/large")];
    wire.send(&frame(SETTINGS, 0, 0, &[&[0, 4][..], &wide].concat()));
    wire.send(&frame(WINDOW_UPDATE, 0, 0, &wide));
    wire.send(&frame(HEADERS, END_HEADERS | END_STREAM, 1, &block(&asked)));
    let (mut records, mut bytes) = (0, 0);
    while bytes < LARGE {
        // RFC 8446 5.1: a kind, a version, a length.
        let mut head = [0; 5];
        wire.socket.socket.read_exact(&mut head).unwrap();
        let len = usize::from(u16::from_be_bytes([head[3], head[4]]));
        wire.socket.socket.read_exact(&mut vec![0; len]).unwrap();
        (records, bytes) = (records + 1, bytes + len);
    }
    // 62 full ones, a few for what came before, and one for each turn that ends within one.
    assert!(records <= 85, "{records} records for a million bytes");
}
