//! Tests of floods: frames that cost a client little and a server much end their connection, and
//! other connections are served.

use crate::support::Server;
use crate::wire::*;

/// Frames sent of each kind, more than any legitimate client sends.
const FLOOD: usize = 20_000;

#[test]
fn floods_end_their_connection_with_the_code_for_it() {
    let open = frame(HEADERS, END_HEADERS, 1, &request("POST", "/a.txt"));
    let unfinished = frame(HEADERS, END_STREAM, 1, &request("GET", "/a.txt"));
    let rows: Vec<(&str, Vec<u8>, Vec<u8>)> = vec![
        ("PING", vec![], frame(PING, 0, 0, b"12345678")),
        ("SETTINGS", vec![], frame(SETTINGS, 0, 0, &[0, 4, 0, 1, 0, 0])),
        ("PRIORITY", vec![], frame(PRIORITY, 0, 1, &[0, 0, 0, 3, 7])),
        ("frames of unknown types", vec![], frame(77, 0, 0, b"?")),
        ("WINDOW_UPDATE", vec![], frame(WINDOW_UPDATE, 0, 0, &[0, 0, 0, 1])),
        ("empty DATA", open, frame(DATA, 0, 1, b"")),
        ("CONTINUATION", unfinished, frame(CONTINUATION, 0, 1, &field("a", "b"))),
    ];
    let server = Server::start(&[("a.txt", "a")]);
    for (why, begun, each) in rows {
        let mut wire = Wire::begin(server.address, &[]);
        wire.send(&begun);
        for _ in 0..FLOOD / 100 {
            wire.send(&each.repeat(100));
        }
        assert_eq!(wire.end(), Some(ENHANCE_YOUR_CALM), "{why}");
        assert_eq!(server.get("/a.txt").text(), "a", "{why}");
    }
}

#[test]
fn streams_that_are_reset_as_they_are_opened_end_the_connection() {
    let server = Server::start(&[("a.txt", "a")]);
    for path in ["/a.txt", "/none"] {
        let mut wire = Wire::begin(server.address, &[]);
        for n in 0..FLOOD as u32 {
            let stream = 2 * n + 1;
            wire.send(&[get(stream, path), frame(RST_STREAM, 0, stream, &[0, 0, 0, 8])].concat());
        }
        assert_eq!(wire.end(), Some(ENHANCE_YOUR_CALM), "{path}");
        assert_eq!(server.get("/a.txt").text(), "a");
    }
}

#[test]
fn streams_that_make_the_server_reset_them_end_the_connection() {
    let server = Server::start(&[("a.txt", "a")]);
    let mut wire = Wire::begin(server.address, &[]);
    let malformed = block(&[(":method", "GET"), (":scheme", "http"), (":path", "/"), ("te", "x")]);
    for n in 0..FLOOD as u32 {
        wire.send(&frame(HEADERS, END_HEADERS | END_STREAM, 2 * n + 1, &malformed));
    }
    assert_eq!(wire.end(), Some(ENHANCE_YOUR_CALM));
}

#[test]
fn a_head_beyond_the_limit_is_refused() {
    let server = Server::with(&[("a.txt", "a")], |config| config.limits.head_bytes = 4_096);
    let long = field("a", &"x".repeat(100));
    // A head beyond the limit gets 431. A much larger one is not decoded, and ends the connection.
    let mut wire = Wire::begin(server.address, &[]);
    let head = [request("GET", "/a.txt"), long.repeat(60)].concat();
    wire.send(&frame(HEADERS, END_HEADERS | END_STREAM, 1, &head));
    assert_eq!(wire.next_of(HEADERS).stream, 1);
    assert_eq!(wire.next_of(DATA).stream, 1);
    // Regression: with content, which a HEAD has not (RFC 9110 section 9.3.2).
    let head = [request("HEAD", "/a.txt"), long.repeat(60)].concat();
    wire.send(&frame(HEADERS, END_HEADERS | END_STREAM, 3, &head));
    let refused = wire.next_of(HEADERS);
    assert_eq!((refused.stream, refused.flags & END_STREAM), (3, END_STREAM));
    wire.expect_open();
    let mut wire = Wire::begin(server.address, &[]);
    wire.send(&frame(HEADERS, END_STREAM, 1, &[request("GET", "/"), long.repeat(100)].concat()));
    for _ in 0..FLOOD / 100 {
        wire.send(&frame(CONTINUATION, 0, 1, &long.repeat(100)));
    }
    assert!(wire.end().is_some());
    assert_eq!(server.get("/a.txt").text(), "a");
}
