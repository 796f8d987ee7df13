//! Requests that an upstream has not processed are sent again (RFC 9113 sections 6.8 and 8.7).

use std::net::TcpStream;

use crate::library::{call, framed};
use crate::support::{OK, Proxy, Upstream};
use crate::wire::*;

/// Accepts a connection of the proxy and sends SETTINGS.
pub(crate) fn accept(upstream: &Upstream) -> Wire<TcpStream> {
    let mut client = upstream.accept();
    assert_eq!(client.take(PREFACE.len()), PREFACE);
    let mut wire = Wire { socket: client.stream, unread: Vec::new() };
    wire.send(&frame(SETTINGS, 0, 0, &[]));
    wire.send(&frame(SETTINGS, ACK, 0, &[]));
    wire
}

/// The frames of a small response.
pub(crate) fn ok(stream: u32) -> Vec<u8> {
    let head = block(&[(":status", "200"), ("grpc-status", "0")]);
    [frame(HEADERS, END_HEADERS, stream, &head), frame(DATA, END_STREAM, stream, b"ok")].concat()
}

pub(crate) fn proxy(upstream: &Upstream) -> Proxy {
    Proxy::of("", &format!("proxy = \"h2c://{}\"\n", upstream.address))
}

#[test]
fn a_call_is_sent_again_with_its_body() {
    let refused = [0, 0, 0, 7];
    let rows: [(&str, Vec<u8>); 3] = [
        ("REFUSED_STREAM", frame(RST_STREAM, 0, 1, &refused)),
        ("GOAWAY", frame(GOAWAY, 0, 0, &[0; 8])),
        ("GOAWAY with an error", frame(GOAWAY, 0, 0, &[0, 0, 0, 0, 0, 0, 0, 11])),
    ];
    for (sentence, frames) in rows {
        let upstream = Upstream::new();
        let proxy = proxy(&upstream);
        let caller = std::thread::spawn(move || call(proxy.address, "/a.B/C", b"message"));
        let mut wire = accept(&upstream);
        assert_eq!(wire.next_of(DATA).payload, framed(b"message"), "{sentence}");
        wire.send(&frames);
        let mut again = match frames[3] {
            GOAWAY => accept(&upstream),
            _ => wire,
        };
        // The end of the first attempt may come before.
        let mut data = again.next_of(DATA);
        while data.payload.is_empty() {
            data = again.next_of(DATA);
        }
        assert_eq!(data.payload, framed(b"message"), "{sentence}");
        again.send(&ok(data.stream));
        let reply = caller.join().unwrap();
        assert_eq!((&reply.body[..], reply.grpc_status()), (&b"ok"[..], Some("0")), "{sentence}");
    }
}

#[test]
fn a_call_that_may_have_been_processed_is_not_sent_again() {
    let upstream = Upstream::new();
    let proxy = proxy(&upstream);
    let address = proxy.address;
    let caller = std::thread::spawn(move || call(address, "/a.B/C", b"message"));
    let mut wire = accept(&upstream);
    wire.next_of(DATA);
    drop(wire);
    assert_eq!(caller.join().unwrap().grpc_status(), Some("14"));
    upstream.expect_no_connection();
}

/// Regression: all were taken for requests that an idle connection's end had met. Those that begin
/// before the upstream's next bytes are such requests.
#[test]
fn requests_that_end_with_their_connection_are_failures_of_the_upstream() {
    for (sentence, is_heard) in [("a connection in use", true), ("an idle one", false)] {
        let (upstream, backup) = (Upstream::new(), Upstream::new());
        let (address, other) = (upstream.address, backup.address);
        let proxy = Proxy::of(
            "",
            &format!(
                "proxy = [\"h2c://{address}\", {{ url = \"http://{other}\", backup = true }}]\n\
                 ejection = {{ failures = 2 }}\n"
            ),
        );
        let mut first = proxy.send("GET / HTTP/1.1\r\nHost: a\r\n\r\n");
        let mut wire = accept(&upstream);
        wire.next_of(HEADERS);
        wire.send(&ok(1));
        assert_eq!(first.answer().1, "ok", "{sentence}");
        let failed = [3, 5, 7, 9].map(|stream| {
            let client = proxy.send("POST / HTTP/1.1\r\nHost: a\r\nContent-Length: 0\r\n\r\n");
            assert_eq!(wire.next_of(HEADERS).stream, stream, "{sentence}");
            if stream == 5 && is_heard {
                wire.send(&frame(PING, 0, 0, b"received"));
                wire.next_of(PING);
            }
            client
        });
        drop(wire);
        for mut client in failed {
            assert!(client.head().starts_with("HTTP/1.1 502"), "{sentence}");
        }
        let mut next = proxy.send("GET / HTTP/1.1\r\nHost: a\r\n\r\n");
        if is_heard {
            let (mut peer, _) = backup.next_request();
            peer.send(OK);
        } else {
            let mut wire = accept(&upstream);
            wire.next_of(HEADERS);
            wire.send(&ok(1));
        }
        assert_eq!(next.answer().1, "ok", "{sentence}");
    }
}

#[test]
fn requests_before_the_last_of_a_goaway_are_answered() {
    let upstream = Upstream::new();
    let proxy = proxy(&upstream);
    let mut client = proxy.send("GET /1 HTTP/1.1\r\nHost: a\r\n\r\n");
    let mut wire = accept(&upstream);
    assert_eq!(wire.next_of(HEADERS).stream, 1);
    wire.send(&frame(GOAWAY, 0, 0, &[0, 0, 0, 1, 0, 0, 0, 0]));
    wire.send(&frame(PING, 0, 0, b"received"));
    assert_eq!(wire.next_of(PING).payload, b"received");
    let mut other = proxy.send("GET /2 HTTP/1.1\r\nHost: a\r\n\r\n");
    let mut next = accept(&upstream);
    next.next_of(HEADERS);
    next.send(&ok(1));
    assert_eq!(other.answer().1, "ok");
    wire.send(&ok(1));
    assert_eq!(client.answer().1, "ok");
    assert_eq!(wire.end(), None, "the proxy closes the connection");
}

#[test]
fn a_client_that_leaves_cancels_its_stream() {
    let upstream = Upstream::new();
    let proxy = proxy(&upstream);
    let client = proxy.send("GET / HTTP/1.1\r\nHost: a\r\n\r\n");
    let mut wire = accept(&upstream);
    wire.next_of(HEADERS);
    client.reset();
    assert_eq!(wire.next_of(RST_STREAM).code(), 8, "CANCEL");
}
