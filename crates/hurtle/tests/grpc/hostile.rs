//! Upstreams that violate HTTP/2 or flood the proxy: the client gets 502, and the proxy stays
//! bounded.

use std::io::Write;
use std::net::TcpListener;

use crate::refused::{accept, proxy};
use crate::support::{Proxy, Upstream};
use crate::wire::*;

const FLOOD: usize = 20_000;

#[test]
fn violations_and_floods_are_bad_gateways() {
    let head = || block(&[(":status", "200")]);
    let begun = frame(HEADERS, 0, 1, &head());
    let more = frame(CONTINUATION, 0, 1, &field("a", &"b".repeat(100)));
    let early = frame(HEADERS, END_HEADERS, 1, &block(&[(":status", "103")]));
    let whole =
        |fields: &[(&str, &str)]| frame(HEADERS, END_HEADERS | END_STREAM, 1, &block(fields));
    let rows: Vec<(&str, Vec<u8>)> = vec![
        ("PING", frame(PING, 0, 0, b"12345678").repeat(FLOOD)),
        ("SETTINGS", frame(SETTINGS, 0, 0, &[0, 4, 0, 1, 0, 0]).repeat(FLOOD)),
        ("WINDOW_UPDATE", frame(WINDOW_UPDATE, 0, 0, &[0, 0, 0, 1]).repeat(FLOOD)),
        ("RST_STREAM of no stream", frame(RST_STREAM, 0, 3, &[0, 0, 0, 8])),
        ("an endless block", [begun.clone(), more.repeat(FLOOD)].concat()),
        ("interim heads without end", early.repeat(FLOOD)),
        ("frames of an unknown kind", frame(77, 0, 0, b"?").repeat(FLOOD)),
        ("data before a head", frame(DATA, 0, 1, b"x")),
        ("a pushed stream", frame(PUSH_PROMISE, END_HEADERS, 1, &[0, 0, 0, 2])),
        ("a head of another stream", frame(HEADERS, END_HEADERS, 3, &head())),
        ("a head of an even stream", frame(HEADERS, END_HEADERS, 2, &head())),
        ("a window that overflows", frame(WINDOW_UPDATE, 0, 1, &0x7fff_ffff_u32.to_be_bytes())),
        ("settings that allow a push", frame(SETTINGS, 0, 0, &[0, 2, 0, 0, 0, 1])),
        ("no status", whole(&[("a", "b")])),
        ("a status of a request", whole(&[(":status", "200"), (":path", "/")])),
        ("no number", whole(&[(":status", "2x0")])),
        ("a class that does not exist", whole(&[(":status", "600")])),
        ("101", frame(HEADERS, END_HEADERS, 1, &block(&[(":status", "101")]))),
        ("an interim head that ends", whole(&[(":status", "103")])),
        ("a field of a connection", whole(&[(":status", "200"), ("connection", "close")])),
        ("a capital", whole(&[(":status", "200"), ("A", "b")])),
        ("less than announced", whole(&[(":status", "200"), ("content-length", "5")])),
        ("no block", frame(HEADERS, END_HEADERS, 1, &[0xff; 20])),
        ("a frame that is too large", frame(DATA, 0, 1, &[0; 20_000])),
        ("HTTP/1.1", b"HTTP/1.1 200 OK\r\nContent-Length: 0\r\n\r\n".to_vec()),
    ];
    for (sentence, frames) in rows {
        let upstream = Upstream::new();
        let proxy = proxy(&upstream);
        // A method that is not sent again.
        let mut client = proxy.send("POST / HTTP/1.1\r\nHost: a\r\nContent-Length: 0\r\n\r\n");
        let mut wire = accept(&upstream);
        wire.next_of(HEADERS);
        // The proxy may close before it has read all.
        wire.send(&frames);
        let head = client.head();
        assert!(head.starts_with("HTTP/1.1 502"), "{sentence}: {head}");
        upstream.expect_no_connection();
    }
}

#[test]
fn an_upstream_without_http2_is_a_bad_gateway() {
    let listener = TcpListener::bind("127.0.0.1:0").unwrap();
    let proxy = Proxy::of("", &format!("proxy = \"h2c://{}\"", listener.local_addr().unwrap()));
    std::thread::spawn(move || {
        while let Ok((mut socket, _)) = listener.accept() {
            let _ = socket.write_all(b"HTTP/1.1 400 Bad Request\r\nContent-Length: 0\r\n\r\n");
        }
    });
    let mut client = proxy.send("POST / HTTP/1.1\r\nHost: a\r\nContent-Length: 0\r\n\r\n");
    assert!(client.head().starts_with("HTTP/1.1 502"));
}

#[test]
fn data_beyond_the_window_is_a_truncated_response() {
    let upstream = Upstream::new();
    let proxy = proxy(&upstream);
    let mut client = proxy.send("GET / HTTP/1.1\r\nHost: a\r\nConnection: close\r\n\r\n");
    let mut wire = accept(&upstream);
    wire.next_of(HEADERS);
    let head = block(&[(":status", "200"), ("content-length", "5")]);
    wire.send(&frame(HEADERS, END_HEADERS, 1, &head));
    wire.send(&frame(DATA, 0, 1, b"more than announced"));
    assert_eq!(wire.next_of(RST_STREAM).code(), PROTOCOL_ERROR);
    let mut rest = String::new();
    let _ = std::io::Read::read_to_string(&mut client.stream, &mut rest);
    assert!(!rest.contains("more than"), "{rest}");
}

#[test]
fn a_slow_client_of_a_call_holds_an_upstream_back() {
    let upstream = Upstream::new();
    let proxy = proxy(&upstream);
    let client = proxy.send(
        "POST / HTTP/1.1\r\nHost: a\r\nContent-Type: application/grpc\r\nContent-Length: 0\r\n\r\n",
    );
    let mut wire = accept(&upstream);
    wire.next_of(HEADERS);
    wire.send(&frame(HEADERS, END_HEADERS, 1, &block(&[(":status", "200")])));
    // The client does not read: windows open until the buffers of its socket are full.
    wire.socket.set_read_timeout(Some(std::time::Duration::from_millis(500))).unwrap();
    let (mut room, mut sent) = (256 << 10, 0_u64);
    let piece = frame(DATA, 0, 1, &[b'x'; 16_384]);
    loop {
        while room >= 16_384 {
            wire.send(&piece);
            (room, sent) = (room - 16_384, sent + 16_384);
        }
        let mut frames = [0; 4_096];
        let Ok(len) = std::io::Read::read(&mut wire.socket, &mut frames) else { break };
        assert!(len > 0, "the proxy keeps the connection");
        wire.unread.extend_from_slice(&frames[..len]);
        room += increments(&mut wire.unread, 1);
        assert!(sent < 64 << 20, "the proxy reads what nobody takes");
    }
    drop(client);
    assert_eq!(wire.next_of(RST_STREAM).code(), 8, "CANCEL");
}

/// Takes complete frames from `unread`; returns the sum of the stream's WINDOW_UPDATE.
fn increments(unread: &mut Vec<u8>, of: u32) -> u64 {
    let mut sum = 0;
    while unread.len() >= 9 {
        let len = u32::from_be_bytes([0, unread[0], unread[1], unread[2]]) as usize;
        if unread.len() < 9 + len {
            break;
        }
        let head: Vec<u8> = unread.drain(..9 + len).collect();
        let stream = u32::from_be_bytes(head[5..9].try_into().unwrap());
        if head[3] == WINDOW_UPDATE && stream == of {
            sum += u64::from(u32::from_be_bytes(head[9..13].try_into().unwrap()));
        }
    }
    sum
}
