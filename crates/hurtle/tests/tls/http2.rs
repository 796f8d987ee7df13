//! HTTP/2 over TLS: client certificates, client policies, and records.

use std::collections::HashMap;
use std::io::Read;
use std::time::{Duration, Instant};

use crate::clients;
use crate::frames::*;
use crate::peer::{Choices, Options, Peer};
use crate::server::Secure;
use crate::support::client::PATIENCE;

/// Part of the body of a 421.
pub(crate) const MISDIRECTED: &str = "421 Misdirected Request";

pub(crate) fn connect(server: &Secure, name: &str, options: &Options) -> Wire<Peer> {
    let peer = Peer::connect(server.address, name, options).unwrap();
    assert_eq!(peer.session.alpn_protocol(), Some(&b"h2"[..]));
    Wire::over(peer, &[])
}

/// A window that limits no test, for streams and for the connection.
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

fn request(stream: u32, path: &str) -> Vec<u8> {
    request_to("a.test", stream, path)
}

fn request_to(authority: &str, stream: u32, path: &str) -> Vec<u8> {
    let fields =
        [(":method", "GET"), (":scheme", "https"), (":authority", authority), (":path", path)];
    frame(HEADERS, END_HEADERS | END_STREAM, stream, &block(&fields))
}

/// Sends a GET and returns the response's body.
#[track_caller]
pub(crate) fn get(wire: &mut Wire<Peer>, stream: u32, authority: &str, path: &str) -> String {
    wire.send(&request_to(authority, stream, path));
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
fn applications_get_the_client_certificate_also_after_resumption() {
    let server = clients::server();
    let alice = clients::knows(&server, "alice", &["h2"]);
    for resumed in [false, true] {
        let mut wire = connect(&server, "must.test", &alice);
        assert_eq!(wire.socket.is_resumed(), resumed);
        for stream in [1, 3] {
            let body = get(&mut wire, stream, "must.test", "/who");
            assert_eq!(body, "alice alice.clients 1 CN=alice");
        }
    }
}

#[test]
fn an_authority_with_another_client_policy_than_the_handshake_gets_421() {
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
        // On one connection, as by a browser that coalesces connections. The second time the file
        // is cached.
        for (stream, path) in [(1, "/a.txt"), (3, "/a.txt"), (5, "/who")] {
            let body = get(&mut wire, stream, authority, path);
            let is_misdirected = body.contains(MISDIRECTED);
            assert_eq!(is_misdirected, !is_its, "{authority}{path} by way of {name}: {body}");
        }
        assert_eq!(get(&mut wire, 7, name, "/a.txt"), "hello\n", "what {name} is for");
    }
}

#[test]
fn a_site_with_client_auth_does_not_accept_another_sites_ticket() {
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

/// Regression: a DATA frame of a full record's size and its header took two records.
#[test]
fn a_large_answer_comes_in_full_records() {
    const LARGE: usize = 1_000_000;
    let server = Secure::start(&[("large", &"x".repeat(LARGE))]);
    let mut wire = wide(&server);
    wire.send(&request(1, "/large"));
    let (mut records, mut bytes) = (0, 0);
    while bytes < LARGE {
        // RFC 8446 section 5.1: a type, a version, a length.
        let mut head = [0; 5];
        wire.socket.socket.read_exact(&mut head).unwrap();
        let len = usize::from(u16::from_be_bytes([head[3], head[4]]));
        wire.socket.socket.read_exact(&mut vec![0; len]).unwrap();
        (records, bytes) = (records + 1, bytes + len);
    }
    // 62 full ones, some before the response, and one for each turn that ends within a record.
    assert!(records <= 85, "{records} records for a million bytes");
}

/// Small frames are gathered and large ones are encrypted at once. Both wait for a client that
/// reads late, and must keep their order.
#[test]
fn concurrent_responses_of_all_sizes_arrive_complete_and_in_order() {
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
    // The client sends all requests before it reads; the large responses fill the socket.
    let all: Vec<u8> = streams
        .iter()
        .flat_map(|(stream, at)| request(*stream, &format!("/{}", names[*at])))
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

/// Bytes that wait behind a write that the socket has not taken were once encrypted twice.
#[test]
fn a_body_whose_window_opens_while_the_socket_is_full_arrives_whole() {
    /// More than two sockets hold.
    const LARGE: usize = 10 << 20;
    /// Some are worth a record of their own, and some are gathered.
    const STEPS: [usize; 2] = [17_000, 3_000];
    let body: String = (0..LARGE / 8).map(|n| format!("{n:07} ")).collect();
    let server = Secure::start(&[("large", &body), ("small", "s")]);
    let choices = Choices { alpn: &["h2"], ..Choices::default() };
    let options = Options::of(server.authority.roots(), &choices);
    let mut wire = connect(&server, "a.test", &options);
    let mut other = connect(&server, "a.test", &options);
    wire.send(&frame(WINDOW_UPDATE, 0, 0, &WIDE.to_be_bytes()));
    wire.send(&request(1, "/large"));
    let mut opened = 0;
    for (number, step) in STEPS.into_iter().cycle().enumerate() {
        if opened > LARGE {
            break;
        }
        opened += step;
        wire.send(&frame(WINDOW_UPDATE, 0, 1, &(step as u32).to_be_bytes()));
        // One worker serves both: when it has answered this one, it has seen that one's frame.
        let stream = 2 * number as u32 + 1;
        assert_eq!(get(&mut other, stream, "a.test", "/small"), "s");
    }
    let mut came = Vec::new();
    loop {
        let data = wire.next_of(DATA);
        let end = came.len() + data.payload.len();
        assert!(body.as_bytes().get(came.len()..end) == Some(&data.payload), "up to {end}");
        came.extend(data.payload);
        if data.flags & END_STREAM != 0 {
            break;
        }
    }
    assert_eq!(came.len(), LARGE);
}

#[test]
fn a_client_that_reads_nothing_is_closed() {
    let large = "x".repeat(20_000_000);
    let server = Secure::with(&[("large", &large)], |config, _, _| {
        config.limits.write_stall = Duration::from_millis(300);
    });
    let mut wire = wide(&server);
    for n in 0..20 {
        wire.send(&request(2 * n + 1, "/large"));
    }
    // Only the end of the connection shows it: the client cannot read anything else.
    let socket = socket2::SockRef::from(&wire.socket.socket);
    let begun = Instant::now();
    while socket.take_error().unwrap().is_none() {
        assert!(begun.elapsed() < PATIENCE, "it is still there");
        std::thread::yield_now();
    }
}

#[test]
fn every_response_has_hsts() {
    let server = Secure::with(&[("a.txt", "hello\n")], |config, _, _| {
        if let Some(tls) = &mut config.sites[0].tls {
            tls.hsts = Some("max-age=60".parse().unwrap());
        }
    });
    let mut wire = wide(&server);
    // Without a dynamic table the server writes every value in full, not in Huffman code.
    wire.send(&frame(SETTINGS, 0, 0, &[0, 1, 0, 0, 0, 0]));
    let table = [
        ("a file", "GET", "/a.txt"),
        ("a file that is known by now", "GET", "/a.txt"),
        ("nothing there", "GET", "/b.txt"),
        ("a method refused", "PUT", "/a.txt"),
        ("an unknown method", "BREW", "/a.txt"),
        ("what is possible", "OPTIONS", "/a.txt"),
        ("a path that is none", "GET", "/%zz"),
    ];
    for (n, (sentence, method, path)) in table.into_iter().enumerate() {
        let stream = 2 * n as u32 + 1;
        let fields =
            [(":method", method), (":scheme", "https"), (":authority", "a.test"), (":path", path)];
        wire.send(&frame(HEADERS, END_HEADERS | END_STREAM, stream, &block(&fields)));
        let head = wire.next_of(HEADERS);
        assert_eq!(head.stream, stream, "{sentence}");
        let has_hsts = head.payload.windows(10).any(|value| value == b"max-age=60");
        assert!(has_hsts, "{sentence}: {}", head.payload.escape_ascii());
    }
}
