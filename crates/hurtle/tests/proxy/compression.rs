//! Tests of compressed responses of upstreams.

use std::io::{Read, Write};

use crate::client::Client;
use crate::coding::{decode, decode_part, text};
use crate::support::{Proxy, Upstream};

fn on(upstream: &Upstream) -> Proxy {
    Proxy::with(&[upstream.address], "compress = true")
}

fn get(coding: &str) -> String {
    format!("GET / HTTP/1.1\r\nHost: a\r\nAccept-Encoding: {coding}\r\n\r\n")
}

/// Reads a body: by its length, or in chunks.
fn body(client: &mut Client, head: &str) -> Vec<u8> {
    match head.lines().find_map(|line| line.strip_prefix("Content-Length: ")) {
        Some(len) => client.take(len.parse().unwrap()),
        None => client.chunks(),
    }
}

#[test]
fn every_framing_of_an_upstream_is_compressed() {
    let page = text(300_000, 1);
    let chunked: String = (page.as_bytes().chunks(7_001))
        .map(|chunk| format!("{:x}\r\n{}\r\n", chunk.len(), str::from_utf8(chunk).unwrap()))
        .collect();
    let rows = [
        ("a length", format!("Content-Length: {}\r\n\r\n{page}", page.len())),
        ("chunks", format!("Transfer-Encoding: chunked\r\n\r\n{chunked}0\r\n\r\n")),
        ("the end of the connection", format!("\r\n{page}")),
    ];
    for (why, rest) in rows {
        for coding in ["br", "zstd", "gzip"] {
            let upstream = Upstream::new();
            let proxy = on(&upstream);
            let mut client = proxy.send(get(coding));
            let (mut peer, _) = upstream.next_request();
            let rest = rest.clone();
            let head = "HTTP/1.1 200 OK\r\nContent-Type: text/css\r\nETag: \"a\"\r\nAccept-Ranges: bytes\r\n";
            // The server reads no faster than the client.
            let sending = std::thread::spawn(move || {
                let _ = peer.stream.write_all(format!("{head}{rest}").as_bytes());
            });
            let head = client.head();
            for line in ["Vary: Accept-Encoding", "ETag: W/\"a\"", "Transfer-Encoding: chunked"] {
                assert!(head.lines().any(|found| found == line), "{why}: no {line}: {head}");
            }
            assert!(head.contains(&format!("Content-Encoding: {coding}\n")), "{why}: {head}");
            assert!(!head.contains("Accept-Ranges") && !head.contains("Content-Length"), "{head}");
            let coded = client.chunks();
            assert!(decode(coding, &coded).unwrap() == page.as_bytes(), "{why}: {coding}");
            assert!(coded.len() < page.len() / 2, "{why}: {coding}");
            sending.join().unwrap();
        }
    }
}

#[test]
fn responses_that_forbid_it_are_relayed_as_they_are() {
    let page = text(2_000, 2);
    #[rustfmt::skip]
    let rows = [
        ("another type", "200 OK", "Content-Type: image/png\r\n"),
        ("no-transform", "200 OK", "Content-Type: text/css\r\nCache-Control: no-transform\r\n"),
        ("encoded already", "200 OK", "Content-Type: text/css\r\nContent-Encoding: gzip\r\n"),
        ("a part", "206 Partial Content", "Content-Type: text/css\r\nContent-Range: bytes 0-1999/9999\r\n"),
        ("a digest", "200 OK", "Content-Type: text/css\r\nContent-Digest: sha-256=:AA:\r\n"),
    ];
    for (why, status, fields) in rows {
        let upstream = Upstream::new();
        let proxy = on(&upstream);
        let mut client = proxy.send(get("br, zstd, gzip"));
        let (mut peer, _) = upstream.next_request();
        peer.send(format!("HTTP/1.1 {status}\r\n{fields}Content-Length: 2000\r\n\r\n{page}"));
        let head = client.head();
        assert!(head.contains("Content-Length: 2000\n") && !head.contains("Vary"), "{why}: {head}");
        assert!(body(&mut client, &head) == page.as_bytes(), "{why}");
    }
}

#[test]
fn it_is_off_by_default_and_for_clients_without_codings() {
    let page = text(2_000, 3);
    let reply = format!(
        "HTTP/1.1 200 OK\r\nContent-Type: text/css\r\nETag: \"a\"\r\nContent-Length: 2000\r\n\r\n{page}"
    );
    for (keys, coding, varies) in
        [("", "br", false), ("compress = true", "deflate", true), ("compress = true", "", true)]
    {
        let upstream = Upstream::new();
        let proxy = Proxy::with(&[upstream.address], keys);
        let mut client = proxy.send(get(coding));
        let (mut peer, _) = upstream.next_request();
        peer.send(&reply);
        let head = client.head();
        assert_eq!(head.contains("Vary: Accept-Encoding\n"), varies, "{head}");
        assert!(
            head.contains("ETag: \"a\"\n") && head.contains("Content-Length: 2000\n"),
            "{head}"
        );
        assert!(body(&mut client, &head) == page.as_bytes());
    }
}

#[test]
fn a_head_and_a_304_have_the_fields_of_the_encoded_response() {
    let upstream = Upstream::new();
    let proxy = on(&upstream);
    let mut client = proxy.send(get("gzip").replace("GET", "HEAD"));
    let (mut peer, _) = upstream.next_request();
    peer.send(
        "HTTP/1.1 200 OK\r\nContent-Type: text/css\r\nETag: \"a\"\r\nContent-Length: 2000\r\n\r\n",
    );
    let head = client.head();
    assert!(
        head.contains("Content-Encoding: gzip\n") && head.contains("ETag: W/\"a\"\n"),
        "{head}"
    );
    assert!(!head.contains("Content-Length"), "{head}");
    client.send(get("gzip").replace("\r\n\r\n", "\r\nIf-None-Match: W/\"a\"\r\n\r\n"));
    assert!(peer.head().contains("W/\"a\""), "the upstream compares");
    peer.send("HTTP/1.1 304 Not Modified\r\nETag: \"a\"\r\n\r\n");
    let head = client.head();
    assert!(head.contains("304") && head.contains("ETag: W/\"a\"\n"), "{head}");
    assert!(head.contains("Vary: Accept-Encoding\n"), "{head}");
}

#[test]
fn each_event_arrives_before_the_next_is_sent() {
    for coding in ["br", "zstd", "gzip"] {
        let upstream = Upstream::new();
        let proxy = on(&upstream);
        let mut client = proxy.send(get(coding));
        let (mut peer, _) = upstream.next_request();
        peer.send("HTTP/1.1 200 OK\r\nContent-Type: text/event-stream\r\nTransfer-Encoding: chunked\r\n\r\n");
        assert!(client.head().contains(&format!("Content-Encoding: {coding}\n")));
        let (mut coded, mut plain) = (Vec::new(), String::new());
        for n in 0..10 {
            let event = format!("data: event {n}\n\n");
            plain.push_str(&event);
            peer.send(format!("{:x}\r\n{event}\r\n", event.len()));
            while decode_part(coding, &coded).0 != plain.as_bytes() {
                let len = usize::from_str_radix(&client.line(), 16).unwrap();
                coded.extend(client.take(len));
                client.line();
            }
        }
        peer.send("0\r\n\r\n");
        coded.extend(client.chunks());
        assert_eq!(decode(coding, &coded).unwrap(), plain.as_bytes(), "{coding}");
    }
}

#[test]
fn a_body_that_breaks_off_is_not_completed() {
    let upstream = Upstream::new();
    let proxy = on(&upstream);
    let mut client = proxy.send(get("gzip"));
    let (mut peer, _) = upstream.next_request();
    peer.send("HTTP/1.1 200 OK\r\nContent-Type: text/css\r\nContent-Length: 2000\r\n\r\nsome");
    client.head();
    drop(peer);
    let mut rest = Vec::new();
    let _ = client.stream.read_to_end(&mut rest);
    assert!(!rest.ends_with(b"0\r\n\r\n"), "a client notices: {rest:?}");
}

/// Regression: it had Content-Encoding, and no length.
#[test]
fn an_empty_body_is_not_compressed() {
    let upstream = Upstream::new();
    let mount = format!("proxy = \"http://{}\"\ncompress = true", upstream.address);
    let proxy = Proxy::of("[compress]\nmin_bytes = 0\n", &mount);
    let mut client = proxy.send(get("gzip"));
    let (mut peer, _) = upstream.next_request();
    peer.send("HTTP/1.1 200 OK\r\nContent-Type: text/css\r\nContent-Length: 0\r\n\r\n");
    let head = client.head();
    assert!(head.contains("Content-Length: 0\n") && !head.contains("Encoding: gzip"), "{head}");
}
