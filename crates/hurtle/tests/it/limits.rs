//! Tests of limits on slow, silent and many clients.

use std::io::Read;
use std::num::NonZeroUsize;
use std::time::{Duration, Instant};

use hurtle::config::{Config, Sendfile};
use rustix::event::{PollFd, PollFlags};

use crate::support::Server;
use crate::support::client::PATIENCE;

/// A limit short enough to wait for.
const SHORT: Duration = Duration::from_millis(200);

/// Resolution of the server's clock. A limit may end this much early.
const CLOCK_GRAIN: Duration = Duration::from_millis(20);

/// Value of limits that are not under test.
const LONG: Duration = Duration::from_secs(60);

fn with_limits(change: impl FnOnce(&mut hurtle::config::Limits)) -> Server {
    Server::with(&[("a.txt", "a")], |config: &mut Config| change(&mut config.limits))
}

#[test]
fn a_silent_connection_is_closed_silently() {
    let server = with_limits(|l| (l.idle_timeout, l.head_timeout) = (SHORT, LONG));
    let begun = Instant::now();
    let mut client = server.connect();
    client.expect_end();
    assert!(begun.elapsed() + CLOCK_GRAIN >= SHORT, "not before its time");
    assert!(begun.elapsed() < PATIENCE, "nor long after it");

    let mut client = server.connect();
    assert_eq!(client.request("GET", "/a.txt").status, 200);
    client.expect_end();

    let mut client = server.connect();
    client.send("\r\n");
    client.expect_end();
}

#[test]
fn a_slow_head_is_answered_408() {
    let server = with_limits(|l| (l.idle_timeout, l.head_timeout) = (LONG, SHORT));
    for begun in ["G", "GET / HTTP/1.1\r\n", "GET / HTTP/1.1\r\nHost: a\r\n", "\r\nG"] {
        let mut client = server.connect();
        client.send(begun);
        let answer = client.response();
        assert_eq!(answer.status, 408, "{begun:?}");
        assert_eq!(answer.field("Connection"), Some("close"));
        client.expect_end();
    }
    let mut client = server.connect();
    client.send("GET /a.txt HTTP/1.1\r\nHost: a\r\n\r\nGET /a.t");
    assert_eq!(client.response().status, 200, "the whole one");
    assert_eq!(client.response().status, 408, "the one that was begun");
    client.expect_end();
}

#[test]
fn a_dripping_head_ends_in_time() {
    let server = with_limits(|l| l.head_timeout = SHORT);
    let begun = Instant::now();
    let mut client = server.connect();
    client.stream.set_read_timeout(Some(Duration::from_millis(20))).unwrap();
    let answer = loop {
        client.send("X");
        match client.try_answer("GET") {
            Ok(answer) => break answer,
            Err(_) => assert!(begun.elapsed() < PATIENCE, "each byte bought more time"),
        }
    };
    assert_eq!(answer.status, 408);
}

#[test]
fn a_slow_body_is_answered_408() {
    let server = with_limits(|l| (l.body_grace, l.body_rate) = (SHORT, 1 << 40));
    for framing in [
        "Content-Length: 10\r\n\r\n123",
        "Transfer-Encoding: chunked\r\n\r\n5\r\n123",
        // Calls of gRPC, which may pause, need HTTP/2.
        "Content-Type: application/grpc\r\nContent-Length: 10\r\n\r\n123",
    ] {
        let mut client = server.connect();
        client.send(format!("GET /a.txt HTTP/1.1\r\nHost: a\r\n{framing}"));
        assert_eq!(client.response().status, 408, "{framing:?}");
        client.expect_end();
    }
}

/// Regression: a socket's buffer accepts a few bytes long after its reader has stopped. That
/// counted as progress, and the client was kept for twice `write_stall`.
#[test]
fn a_client_that_reads_nothing_is_dropped_in_time() {
    const STALL: Duration = Duration::from_secs(2);
    for sendfile in [Sendfile::Auto, Sendfile::Off] {
        let server = Server::with(&[], |config| {
            (config.sendfile, config.limits.write_stall) = (sendfile, STALL);
        });
        server.dir.write("large", vec![b'x'; 64 << 20]);
        let mut client = server.connect();
        // The server may be stopped by full buffers before the client has read anything.
        let begun = Instant::now();
        client.send("GET /large HTTP/1.1\r\nHost: a\r\n\r\n");
        // After the response's first bytes the client reads nothing. It notices a reset without
        // reading.
        let mut first = [0; 15];
        client.stream.read_exact(&mut first).unwrap();
        assert_eq!(&first, b"HTTP/1.1 200 OK");
        let mut fds = [PollFd::new(&client.stream, PollFlags::empty())];
        let patience = PATIENCE.try_into().unwrap();
        assert_eq!(rustix::event::poll(&mut fds, Some(&patience)), Ok(1), "still open");
        let took = begun.elapsed();
        assert!(took + CLOCK_GRAIN >= STALL, "{sendfile:?}: cut early, after {took:?}");
        assert!(took < STALL * 7 / 4, "{sendfile:?}: cut late, after {took:?}");
    }
}

#[test]
fn requests_per_connection_are_limited() {
    let server = with_limits(|l| l.requests_per_connection = Some(3));
    let mut client = server.connect();
    for last in [false, false, true] {
        let answer = client.request("GET", "/a.txt");
        assert_eq!(answer.field("Connection"), last.then_some("close"));
    }
    client.expect_end();
}

#[test]
fn an_old_connection_closes_behind_a_response() {
    let server = with_limits(|l| l.connection_age = Some(Duration::from_millis(1)));
    let (mut client, begun) = (server.connect(), Instant::now());
    while client.request("GET", "/a.txt").field("Connection") != Some("close") {
        assert!(begun.elapsed() < PATIENCE, "it never closes");
    }
    client.expect_end();
}

#[test]
fn connections_are_limited() {
    let by_total = with_limits(|l| l.connections = Some(2));
    let by_address = with_limits(|l| l.connections_per_address = Some(2));
    for server in [by_total, by_address] {
        let mut first = server.connect();
        let mut second = server.connect();
        assert_eq!(first.request("GET", "/a.txt").status, 200);
        assert_eq!(second.request("GET", "/a.txt").status, 200);
        let mut third = server.connect();
        let full = third.response();
        assert_eq!((full.status, full.field("Retry-After")), (503, Some("1")));
        third.expect_end();

        drop(first);
        let begun = Instant::now();
        let mut admitted = false;
        while !admitted {
            assert!(begun.elapsed() < PATIENCE, "room is not made");
            let mut next = server.connect();
            next.send("GET /a.txt HTTP/1.1\r\nHost: a\r\n\r\n");
            admitted = next.try_answer("GET").is_ok_and(|answer| answer.status == 200);
        }
    }
}

#[test]
fn connections_of_an_address_are_counted_over_all_workers() {
    let server = Server::with(&[("a.txt", "a")], |config: &mut Config| {
        config.workers = NonZeroUsize::new(2).unwrap();
        config.limits.connections_per_address = Some(2);
    });
    let mut clients = [server.connect(), server.connect()];
    for client in &mut clients {
        assert_eq!(client.request("GET", "/a.txt").status, 200);
    }
    // The kernel spreads connections over the workers, so some of these reach either one.
    for _ in 0..16 {
        assert_eq!(server.connect().response().status, 503);
    }
}

#[test]
fn limits_as_configured() {
    let server = with_limits(|l| {
        (l.head_bytes, l.head_fields, l.target_bytes, l.body_bytes) = (500, 3, 50, 10);
    });
    let rows: &[(&str, String, u16)] = &[
        ("a head as large as allowed", format!("GET /a.txt HTTP/1.1\r\nHost: a\r\nX: {}\r\n\r\n", "x".repeat(463)), 200),
        ("one byte more", format!("GET /a.txt HTTP/1.1\r\nHost: a\r\nX: {}\r\n\r\n", "x".repeat(464)), 431),
        ("as many fields as allowed", "GET /a.txt HTTP/1.1\r\nHost: a\r\nX: y\r\nX: y\r\n\r\n".into(), 200),
        ("one more", "GET /a.txt HTTP/1.1\r\nHost: a\r\nX: y\r\nX: y\r\nX: y\r\n\r\n".into(), 431),
        ("a target as long as allowed", format!("GET /a.txt?{} HTTP/1.1\r\nHost: a\r\n\r\n", "x".repeat(43)), 200),
        ("one byte more", format!("GET /a.txt?{} HTTP/1.1\r\nHost: a\r\n\r\n", "x".repeat(44)), 414),
        ("a body as long as allowed", "GET /a.txt HTTP/1.1\r\nHost: a\r\nContent-Length: 10\r\n\r\n0123456789".into(), 200),
        ("one byte more", "GET /a.txt HTTP/1.1\r\nHost: a\r\nContent-Length: 11\r\n\r\n0123456789x".into(), 413),
        ("in chunks", "GET /a.txt HTTP/1.1\r\nHost: a\r\nTransfer-Encoding: chunked\r\n\r\n5\r\n01234\r\n6\r\n567890\r\n0\r\n\r\n".into(), 413),
    ];
    for (why, request, status) in rows {
        for piece in [1, 7, usize::MAX] {
            let mut client = server.connect();
            let pieces = vec![piece; request.len() / piece];
            client.send_split(request.as_bytes(), pieces);
            assert_eq!(client.response().status, *status, "{why}, in pieces of {piece}");
            if *status == 200 { client.expect_open() } else { client.expect_end() }
        }
    }
}
