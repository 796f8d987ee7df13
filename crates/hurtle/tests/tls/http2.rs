//! HTTP/2 over TLS: who the client is, and for whom the connection is, are its matter as they are
//! HTTP/1.1's; and how it is written.

use std::collections::HashMap;
use std::io::Read;
use std::time::{Duration, Instant};

use crate::clients;
use crate::frames::*;
use crate::peer::{Choices, Options, Peer};
use crate::server::Secure;
use crate::support::client::PATIENCE;

/// What is answered to the wrong one, and says so.
const MISDIRECTED: &str = "421 Misdirected Request";

fn connect(server: &Secure, name: &str, options: &Options) -> Wire<Peer> {
    let peer = Peer::connect(server.address, name, options).unwrap();
    assert_eq!(peer.session.alpn_protocol(), Some(&b"h2"[..]));
    Wire::over(peer, &[])
}

/// A window that is nobody's limit, for streams and for the connection.
const WIDE: u32 = 1 << 30;

fn wide(server: &Secure) -> Wire<Peer> {
    let choices = Choices { alpn: &["h2"], ..Choices::default() };
    let options = Options::of(server.authority.roots(), &choices);
    let mut wire = connect(server, "a.test", &options);
    wire.send(&frame(
        SETTINGS,
        0,
        0,
        &[&INITIAL_WINDOW_SIZE.to_be_bytes()[..], &WIDE.to_be_bytes()].concat(),
    ));
    wire.send(&frame(WINDOW_UPDATE, 0, 0, &WIDE.to_be_bytes()));
    wire
}

fn asked(stream: u32, path: &str) -> Vec<u8> {
    asked_of("a.test", stream, path)
}

fn asked_of(authority: &str, stream: u32, path: &str) -> Vec<u8> {
    let fields =
        [(":method", "GET"), (":scheme", "https"), (":authority", authority), (":path", path)];
    frame(HEADERS, END_HEADERS | END_STREAM, stream, &block(&fields))
}

/// A GET of `https`, and the body that is answered.
#[track_caller]
fn get(wire: &mut Wire<Peer>, stream: u32, authority: &str, path: &str) -> String {
    wire.send(&asked_of(authority, stream, path));
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
    let mut wire = wide(&server);
    wire.send(&asked(1, "/large"));
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

/// Small frames are gathered, large ones encrypted as they come, and both wait for a peer who reads
/// late: nothing may overtake anything.
#[test]
fn answers_of_all_sizes_at_once_come_whole_and_in_order() {
    const SIZES: [usize; 9] = [0, 1, 4_000, 4_096, 10_240, 16_384, 16_393, 70_000, 3_000_000];
    let of = |size: usize| -> String {
        (0..size / 8 + 1).map(|n| format!("{n:07} ")).collect::<String>()[..size].to_owned()
    };
    let names: Vec<String> = SIZES.iter().map(ToString::to_string).collect();
    let bodies = SIZES.map(of);
    let tree: Vec<_> =
        names.iter().map(String::as_str).zip(bodies.iter().map(String::as_str)).collect();
    let server = Secure::start(&tree);
    let mut wire = wide(&server);
    let streams: Vec<(u32, usize)> =
        (0..45).map(|n| (2 * n + 1, n as usize % SIZES.len())).collect();
    // All are asked for before anything is read; the large ones fill the socket.
    let all: Vec<u8> = streams
        .iter()
        .flat_map(|(stream, at)| asked(*stream, &format!("/{}", names[*at])))
        .collect();
    wire.send(&all);
    let mut came: HashMap<u32, Vec<u8>> = HashMap::new();
    let mut open = streams.len();
    while open > 0 {
        let frame = wire.next().unwrap();
        assert!(frame.kind != RST_STREAM && frame.kind != GOAWAY, "{frame:?}");
        if frame.kind == DATA {
            came.entry(frame.stream).or_default().extend(&frame.payload);
        }
        let ends = [DATA, HEADERS].contains(&frame.kind) && frame.flags & END_STREAM != 0;
        open -= usize::from(ends);
    }
    for (stream, at) in streams {
        let body = came.remove(&stream).unwrap_or_default();
        assert!(body == bodies[at].as_bytes(), "stream {stream}, of {} bytes", SIZES[at]);
    }
}

#[test]
fn who_reads_nothing_is_closed() {
    let large = "x".repeat(20_000_000);
    let server = Secure::with(&[("large", &large)], |config, _, _| {
        config.limits.write_stall = Duration::from_millis(300);
    });
    let mut wire = wide(&server);
    for n in 0..20 {
        wire.send(&asked(2 * n + 1, "/large"));
    }
    // It says so by ending: nothing else could be read.
    let socket = socket2::SockRef::from(&wire.socket.socket);
    let begun = Instant::now();
    while socket.take_error().unwrap().is_none() {
        assert!(begun.elapsed() < PATIENCE, "it is still there");
        std::thread::yield_now();
    }
}
