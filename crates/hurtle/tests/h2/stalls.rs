//! Tests of clients that stall: each deadline of HTTP/1.1, and those of windows.

use std::time::Duration;

use crate::support::Server;
use crate::wire::*;

const SOON: Duration = Duration::from_millis(300);

#[test]
fn a_window_that_stays_closed_resets_the_stream() {
    let large = "x".repeat(2_000_000);
    let files = [("large", &*large), ("a.txt", "a")];
    let of_server = Server::with(&files, |config| config.limits.write_stall = SOON);
    let of_mount = Server::with(&files, |config| {
        config.sites[0].mounts[0].policy.timeouts.write_stall = Some(SOON);
    });
    // An initial window of 0, and one that is used up.
    for (server, window) in [(&of_server, 0), (&of_server, 65_535), (&of_mount, 0)] {
        let mut wire = Wire::begin(server.address, &[(4, window)]);
        wire.send(&get(1, "/large"));
        let reset = wire.next_of(RST_STREAM);
        assert_eq!(reset.stream, 1, "a window of {window}");
        wire.expect_open();
    }
}

/// Regression: frames other than DATA, also replies to PING, counted as progress.
#[test]
fn a_window_of_the_connection_that_stays_closed_resets_the_stream_whatever_else_is_sent() {
    let large = "x".repeat(2_000_000);
    let files = [("large", &*large), ("a.txt", "a")];
    let server = Server::with(&files, |config| config.limits.write_stall = SOON);
    let mut wire = Wire::begin(server.address, &[(4, 0x7fff_ffff)]);
    wire.send(&get(1, "/large"));
    for stream in (3..2_000_001).step_by(2) {
        let head = request("HEAD", "/a.txt");
        wire.send(&frame(HEADERS, END_HEADERS | END_STREAM, stream, &head));
        loop {
            match wire.next() {
                Some(reset) if reset.kind == RST_STREAM => return assert_eq!(reset.stream, 1),
                Some(answer) if answer.stream == stream => break,
                Some(_) => {}
                None => panic!("the connection has ended"),
            }
        }
    }
    panic!("it was not reset");
}

#[test]
fn a_client_that_reads_nothing_is_closed_in_time() {
    const STALL: Duration = Duration::from_secs(2);
    let large = "x".repeat(20_000_000);
    let server = Server::with(&[("large", &large)], |config| config.limits.write_stall = STALL);
    let open = 0x7fff_ffff;
    let mut wire = Wire::begin(server.address, &[(4, open)]);
    wire.send(&frame(WINDOW_UPDATE, 0, 0, &(open - 65_535).to_be_bytes()));
    for n in 0..20 {
        wire.send(&get(2 * n + 1, "/large"));
    }
    // The connection is closed; the client could not read anything else.
    let socket = socket2::SockRef::from(&wire.socket);
    let begun = std::time::Instant::now();
    while socket.take_error().unwrap().is_none() {
        assert!(begun.elapsed() < crate::support::client::PATIENCE, "it is still there");
        std::thread::yield_now();
    }
    let took = begun.elapsed();
    assert!(took < STALL * 7 / 4, "cut late, after {took:?}");
}

#[test]
fn an_idle_connection_ends_gracefully() {
    let server = Server::with(&[("a.txt", "a")], |config| config.limits.idle_timeout = SOON);
    let mut wire = Wire::begin(server.address, &[]);
    wire.send(&get(1, "/a.txt"));
    assert_eq!(wire.next_of(DATA).payload, b"a");
    assert_eq!(wire.end(), Some(0));
}

#[test]
fn an_incomplete_head_ends_the_connection() {
    let server = Server::with(&[("a.txt", "a")], |config| config.limits.head_timeout = SOON);
    let block = request("GET", "/a.txt");
    let rows = [
        ("half a frame", frame(PING, 0, 0, b"12345678")[..12].to_vec()),
        ("a block without its end", frame(HEADERS, END_STREAM, 1, &block)),
    ];
    for (why, bytes) in rows {
        let mut wire = Wire::begin(server.address, &[]);
        wire.send(&bytes);
        assert_eq!(wire.end(), Some(ENHANCE_YOUR_CALM), "{why}");
    }
    let mut wire = Wire::connect(server.address);
    wire.send(&PREFACE[..20]);
    assert_eq!(wire.end(), None, "a preface that is never whole");
}

#[test]
fn a_stalled_body_is_answered() {
    let server = Server::with(&[("a.txt", "a")], |config| config.limits.body_grace = SOON);
    let mut wire = Wire::begin(server.address, &[]);
    wire.send(&frame(HEADERS, END_HEADERS, 1, &request("GET", "/a.txt")));
    let answer = wire.next_of(HEADERS);
    // 408 is not in HPACK's static table.
    assert!(answer.payload.windows(3).any(|text| text == b"408") || answer.payload[0] == 0x48);
    wire.expect_open();
}
