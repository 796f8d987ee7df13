//! Tests of stored bodies: complete, in memory or on the disk, within their limits.

use std::fs;

use crate::client::Client;

use super::{MINUTE, Pair, get, has};

#[test]
fn aborted_bodies_are_not_stored() {
    let pair = Pair::new();
    for (sentence, part) in [
        ("of a length", "Content-Length: 9\r\n\r\nhello"),
        ("in chunks", "Transfer-Encoding: chunked\r\n\r\n5\r\nhello\r\n"),
        ("in malformed chunks", "Transfer-Encoding: chunked\r\n\r\n5\r\nhelloX"),
    ] {
        let mut client = pair.proxy.send(get("/", ""));
        let (mut peer, _) = pair.upstream.next_request();
        peer.send(format!("HTTP/1.1 200 OK\r\n{MINUTE}{part}"));
        drop(peer);
        let all = client.rest();
        assert!(!all.contains("0\r\n\r\n"), "{sentence}: {all}");
    }
    // A body delimited by the connection's end may be incomplete.
    let mut client = pair.proxy.send(get("/", ""));
    let (mut peer, _) = pair.upstream.next_request();
    peer.send(format!("HTTP/1.1 200 OK\r\n{MINUTE}\r\nhello"));
    drop(peer);
    assert_eq!(client.answer().1, "hello");
    assert_eq!(pair.fetch(&get("/", ""), MINUTE, "whole").1, "whole");
}

#[test]
fn a_body_that_ends_before_its_first_byte_is_no_fault_of_this_server() {
    let pair = Pair::new();
    for _ in 0..300 {
        let mut client = pair.proxy.send(get("/", "Connection: close\r\n"));
        let (mut peer, _) = pair.upstream.next_request();
        peer.send(format!("HTTP/1.1 200 OK\r\n{MINUTE}Content-Length: 9\r\n\r\n"));
        drop(peer);
        let all = client.rest();
        // The head of the response may have been sent before the body ended.
        let is_right = all.starts_with("HTTP/1.1 502 ") || all.starts_with("HTTP/1.1 200 ");
        assert!(is_right, "{all}");
    }
}

#[test]
fn chunks_become_a_length() {
    let pair = Pair::new();
    let mut client = pair.proxy.send(get("/", ""));
    let (mut peer, _) = pair.upstream.next_request();
    peer.send(format!(
        "HTTP/1.1 200 OK\r\n{MINUTE}Transfer-Encoding: chunked\r\n\r\n5\r\nhello\r\n"
    ));
    peer.send("5\r\nworld\r\n0\r\nX-Sum: 1\r\n\r\n");
    assert_eq!(client.answer().1, "helloworld");
    let kept = (0..10_000).find_map(|_| {
        let (head, body) = pair.hit(&get("/", ""));
        head.contains("; hit").then_some((head, body))
    });
    let (head, body) = kept.unwrap();
    has(&head, "Content-Length: 10");
    assert_eq!(body, "helloworld");
}

#[test]
fn bodies_that_are_too_large_are_relayed() {
    let pair = Pair::with("cache = { max_object = \"100 KB\" }");
    let body = "x".repeat(1 << 20);
    assert_eq!(pair.fetch(&get("/said", ""), MINUTE, &body).1.len(), body.len());
    assert_eq!(pair.fetch(&get("/said", ""), MINUTE, "2").1, "2");

    // The excess is noticed only after the response has begun.
    let mut client = pair.proxy.send(get("/unsaid", ""));
    let (mut peer, _) = pair.upstream.next_request();
    let sender = std::thread::spawn(move || {
        peer.send(format!("HTTP/1.1 200 OK\r\n{MINUTE}Transfer-Encoding: chunked\r\n\r\n"));
        for _ in 0..64 {
            peer.send(format!("4000\r\n{}\r\n", "y".repeat(0x4000)));
        }
        peer.send("0\r\n\r\n");
    });
    assert_eq!(client.answer().1, "y".repeat(1 << 20));
    sender.join().unwrap();
    assert_eq!(pair.fetch(&get("/unsaid", ""), MINUTE, "2").1, "2");
}

#[test]
fn large_bodies_are_in_files_without_names() {
    let directory = std::env::temp_dir().join(format!("hurtle-bodies-{}", std::process::id()));
    fs::create_dir_all(&directory).unwrap();
    // The bodies together exceed the memory.
    let keys = format!("cache = {{ memory = \"2 MB\", disk = {directory:?} }}");
    let pair = Pair::with(&keys);
    let body = |n: u32| -> String { (0..40_000).map(|i| format!("{:010}", i * 10 + n)).collect() };
    for n in 0..8 {
        assert_eq!(pair.fetch(&get(&format!("/{n}"), ""), MINUTE, &body(n)).1, body(n));
    }
    for n in 0..8 {
        let path = format!("/{n}");
        let kept = (0..10_000).find_map(|_| {
            let (head, got) = pair.hit(&get(&path, ""));
            head.contains("; hit").then_some(got)
        });
        assert_eq!(kept.unwrap(), body(n));
        let (_, part) = pair.hit(&get(&path, "Range: bytes=200000-200009\r\n"));
        assert_eq!(part, body(n)[200_000..200_010]);
    }
    assert_eq!(fs::read_dir(&directory).unwrap().count(), 0);
    drop(pair);
    // Another server starts with an empty cache.
    let pair = Pair::with(&keys);
    assert_eq!(pair.fetch(&get("/0", ""), MINUTE, "new").1, "new");
    let _ = fs::remove_dir(directory);
}

#[test]
fn memory_is_bounded() {
    let pair = Pair::with("cache = { memory = \"100 KB\" }");
    let body = "z".repeat(10_000);
    let path = |n| get(&format!("/{n}"), "");
    for n in 0..50 {
        assert_eq!(pair.fetch(&path(n), MINUTE, &body).1.len(), body.len());
    }
    let kept = (0..50).filter(|n| {
        let mut client =
            pair.proxy.send(get(&format!("/{n}"), "Cache-Control: only-if-cached\r\n"));
        client.answer().0.starts_with("HTTP/1.1 200 ")
    });
    let kept = kept.count();
    assert!((5..10).contains(&kept), "{kept} of 10,000 bytes are in 100,000");
}

/// Regression: bytes that a slow client was still to get counted no longer once their response was
/// evicted, so many of them took any amount of memory.
#[test]
fn bytes_that_clients_have_yet_to_get_count() {
    // Four bodies fill the memory, and no socket takes a whole one.
    let pair = Pair::with("cache = { memory = \"20 MB\", max_object = \"5 MB\" }");
    let body = "z".repeat(4_900_000);
    let is_kept = |path: &str| {
        let (head, got) = pair.fetch(&get(path, ""), MINUTE, &body);
        assert_eq!(got.len(), body.len());
        !head.contains("detail=memory")
    };
    let begin = |path: &str| {
        let mut slow = pair.proxy.send(get(path, ""));
        if !path.starts_with("/hit") {
            pair.reply(MINUTE, &body);
        }
        has(&slow.head(), "Content-Length: 4900000");
        slow
    };
    for kind in ["hit", "fetch"] {
        let slow: Vec<Client> = (0..4)
            .map(|n| {
                let path = format!("/{kind}{n}");
                assert!(kind == "fetch" || is_kept(&path), "{path}");
                begin(&path)
            })
            .collect();
        assert!(!is_kept(&format!("/{kind}-more")), "{kind}: nothing is sent yet");
        drop(slow);
        let path = format!("/{kind}-later");
        assert!((0..1_000).any(|_| is_kept(&path)), "{kind}: the clients have left");
    }
}
