//! Tests of concurrency limits with upstreams that respond when the test says so.

use std::time::Duration;

use crate::client::Client;
use crate::support::{LAST_OK, Proxy, Upstream, ask, race};

/// A server with two workers and these keys of its mount.
fn limited(upstream: &Upstream, keys: &str) -> Proxy {
    Proxy::on(2, "", &format!("proxy = \"http://{}\"\n{keys}", upstream.address))
}

#[test]
fn requests_beyond_the_limit_wait_and_those_beyond_the_queue_are_refused() {
    let upstream = Upstream::new();
    let keys = "concurrency = 1\nqueue = 2\nqueue_timeout = \"1h\"";
    let proxy = limited(&upstream, keys);
    let mut running = ask(&proxy, "/running");
    let (mut peer, _) = upstream.next_request();
    let answers = race(&proxy, 4);
    for _ in 0..2 {
        let head = answers.recv().unwrap();
        assert!(head.starts_with("HTTP/1.1 503 Service Unavailable\n"), "{head}");
        assert!(head.contains("Retry-After: 1\n"), "{head}");
    }
    upstream.expect_no_connection();
    peer.send(LAST_OK);
    assert_eq!(running.answer().1, "ok");
    // One at a time, each once the one before is answered.
    for _ in 0..2 {
        let (mut peer, _) = upstream.next_request();
        upstream.expect_no_connection();
        peer.send(LAST_OK);
        let head = answers.recv().unwrap();
        assert!(head.starts_with("HTTP/1.1 200 "), "{head}");
    }
}

#[test]
fn a_request_waits_no_longer_than_the_limit() {
    let upstream = Upstream::new();
    let proxy = limited(&upstream, "concurrency = 1\nqueue = 9\nqueue_timeout = \"50ms\"");
    let _running = ask(&proxy, "/running");
    let (_peer, _) = upstream.next_request();
    let (head, body) = ask(&proxy, "/late").answer();
    assert!(head.starts_with("HTTP/1.1 503 Service Unavailable\n"), "{head}");
    assert_eq!(body, "503 Service Unavailable: the queue is too slow\n");
    upstream.expect_no_connection();
}

#[test]
fn a_client_that_resets_leaves_the_queue() {
    let upstream = Upstream::new();
    let keys = "concurrency = 1\nqueue = 1\nqueue_timeout = \"1h\"";
    let proxy = limited(&upstream, keys);
    let mut running = ask(&proxy, "/running");
    let (mut peer, _) = upstream.next_request();
    let mut gone = ask(&proxy, "/gone");
    // Until another request is refused, the first may not have arrived; then it takes the queue.
    let answered = |client: &Client| {
        client.stream.set_read_timeout(Some(Duration::from_secs(1))).unwrap();
        client.stream.peek(&mut [0]).is_ok_and(|n| n > 0)
    };
    let probe = ask(&proxy, "/probe");
    if !answered(&probe) {
        // The probe came first, so the other one was refused.
        assert!(answered(&gone));
        gone = probe;
    }
    gone.reset();
    let mut next = loop {
        let client = ask(&proxy, "/next");
        if !answered(&client) {
            break client;
        }
    };
    peer.send(LAST_OK);
    assert_eq!(running.answer().1, "ok");
    let (mut peer, head) = upstream.next_request();
    assert!(head.starts_with("GET /next "), "{head}");
    peer.send(LAST_OK);
    next.stream.set_read_timeout(Some(crate::client::PATIENCE)).unwrap();
    assert_eq!(next.answer().1, "ok");
}

#[test]
fn a_permit_returns_after_every_end() {
    let upstream = Upstream::new();
    let proxy = limited(&upstream, "concurrency = 1");
    for what in ["answered", "gone", "broken"] {
        // The permit of the request before may be returned a moment after its end.
        let (client, mut peer) = loop {
            let mut client = ask(&proxy, "/");
            client.stream.set_read_timeout(Some(Duration::from_millis(300))).unwrap();
            let is_refused = client.stream.peek(&mut [0]).is_ok_and(|n| n > 0);
            client.stream.set_read_timeout(Some(crate::client::PATIENCE)).unwrap();
            if is_refused {
                assert!(client.answer().0.starts_with("HTTP/1.1 503 "), "{what}");
            } else {
                break (client, upstream.next_request().0);
            }
        };
        match what {
            "answered" => peer.send(LAST_OK),
            "gone" => client.reset(),
            _ => drop(peer),
        }
    }
}

/// A POST whose body of four bytes has not arrived whole.
const BEGUN: &str = "POST /begun HTTP/1.1\r\nHost: a\r\nContent-Length: 4\r\n\r\nab";

#[test]
fn a_slow_client_takes_a_place_once_its_body_is_here() {
    let upstream = Upstream::new();
    // A place is free a moment after the response; so the next request may wait for it.
    let keys = "concurrency = 1\nqueue = 1\nqueue_timeout = \"1h\"";
    let proxy = limited(&upstream, keys);
    let mut slow = [proxy.send(BEGUN), proxy.send(BEGUN)];
    for turn in 0..3 {
        let mut client = ask(&proxy, "/quick");
        let (mut peer, head) = upstream.next_request();
        assert!(head.starts_with("GET /quick "), "{turn}: {head}");
        peer.send(LAST_OK);
        assert_eq!(client.answer().1, "ok", "{turn}");
    }
    slow[0].send("cd");
    let (mut peer, head) = upstream.next_request();
    assert!(head.starts_with("POST /begun "), "{head}");
    assert_eq!(peer.take(4), b"abcd");
    slow[1].send("cd");
    upstream.expect_no_connection();
    peer.send(LAST_OK);
    assert_eq!(slow[0].answer().1, "ok");
    let (mut peer, _) = upstream.next_request();
    assert_eq!(peer.take(4), b"abcd", "the other one waited for the place");
    peer.send(LAST_OK);
    assert_eq!(slow[1].answer().1, "ok");
}

#[test]
fn a_request_is_refused_if_no_place_is_free_once_its_body_is_here() {
    let upstream = Upstream::new();
    let proxy = limited(&upstream, "concurrency = 1");
    let mut late = proxy.send(BEGUN);
    let mut running = ask(&proxy, "/running");
    let (mut peer, _) = upstream.next_request();
    late.send("cd");
    let (head, body) = late.answer();
    assert!(head.starts_with("HTTP/1.1 503 "), "{head}");
    assert_eq!(body, "503 Service Unavailable: the queue is full\n");
    let (head, _) = proxy.send(BEGUN).answer();
    assert!(
        head.starts_with("HTTP/1.1 503 "),
        "one that could not get a place is not read: {head}"
    );
    peer.send(LAST_OK);
    assert_eq!(running.answer().1, "ok");
}

#[test]
fn a_body_that_is_not_kept_has_a_place_while_it_arrives() {
    let upstream = Upstream::new();
    let proxy = limited(&upstream, "concurrency = 1\nbuffer = \"off\"");
    let mut slow = proxy.send(BEGUN);
    let (mut peer, _) = upstream.next_request();
    let (head, _) = ask(&proxy, "/quick").answer();
    assert!(head.starts_with("HTTP/1.1 503 "), "{head}");
    slow.send("cd");
    assert_eq!(peer.take(4), b"abcd");
    peer.send(LAST_OK);
    assert_eq!(slow.answer().1, "ok");
}
