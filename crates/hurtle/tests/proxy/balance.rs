//! Tests of several upstreams: selection, failures and health checks.

use crate::support::{GET, OK, Proxy, Upstream};

const LAST_OK: &str = "HTTP/1.1 200 OK\r\nContent-Length: 2\r\nConnection: close\r\n\r\nok";

#[test]
fn upstreams_are_selected_in_turn() {
    let upstreams = [Upstream::new(), Upstream::new()];
    let proxy = Proxy::with(&[upstreams[0].address, upstreams[1].address], "");
    for turn in [0, 1, 0, 1] {
        let mut client = proxy.send(GET);
        let (mut peer, _) = upstreams[turn].next_request();
        peer.send(LAST_OK);
        assert_eq!(client.answer().1, "ok");
    }
}

#[test]
fn an_unreachable_upstream_is_skipped() {
    let gone = Upstream::new();
    let addresses = [gone.address];
    drop(gone);
    let upstream = Upstream::new();
    let proxy = Proxy::with(&[addresses[0], upstream.address], "");
    for _ in 0..6 {
        let body = "POST / HTTP/1.1\r\nHost: a\r\nContent-Length: 5\r\n\r\nhello";
        let mut client = proxy.send(body);
        let (mut peer, _) = upstream.next_request();
        assert_eq!(peer.take(5), b"hello", "what was never sent may go to another");
        peer.send(LAST_OK);
        assert_eq!(client.answer().1, "ok");
    }
}

#[test]
fn a_failed_request_is_retried_only_if_that_is_safe() {
    let upstreams = [Upstream::new(), Upstream::new()];
    let proxy = Proxy::with(&[upstreams[0].address, upstreams[1].address], "");
    let mut client = proxy.send(GET);
    drop(upstreams[0].next_request());
    let (mut peer, _) = upstreams[1].next_request();
    peer.send(LAST_OK);
    assert_eq!(client.answer().1, "ok");

    client.send("POST / HTTP/1.1\r\nHost: a\r\nContent-Length: 0\r\n\r\n");
    drop(upstreams[0].next_request());
    assert!(client.head().starts_with("HTTP/1.1 502 "), "it may have been done already");
    upstreams[1].expect_no_connection();
}

#[test]
fn the_least_busy_upstream_is_selected() {
    let upstreams = [Upstream::new(), Upstream::new()];
    let keys = "balance = \"least-connections\"";
    let proxy = Proxy::with(&[upstreams[0].address, upstreams[1].address], keys);
    let _waiting = proxy.send(GET);
    let _held = upstreams[0].next_request();
    for _ in 0..3 {
        let mut client = proxy.send(GET);
        let (mut peer, _) = upstreams[1].next_request();
        peer.send(LAST_OK);
        assert_eq!(client.answer().1, "ok");
    }
}

#[test]
fn a_path_is_hashed_to_one_upstream() {
    let upstreams = [Upstream::new(), Upstream::new()];
    let keys = "balance = \"hash-path\"";
    let proxy = Proxy::with(&[upstreams[0].address, upstreams[1].address], keys);
    let requests = upstreams.map(|upstream| {
        std::thread::spawn(move || {
            let mut requests = Vec::new();
            while let Some((mut peer, head)) = upstream.next_request_if_any() {
                requests.push(head.lines().next().unwrap().to_owned());
                peer.send(LAST_OK);
            }
            requests
        })
    });
    let lines = (0..16).map(|n| format!("GET /{} HTTP/1.1", n % 8)).collect::<Vec<_>>();
    for line in &lines {
        assert_eq!(proxy.send(format!("{line}\r\nHost: a\r\n\r\n")).answer().1, "ok");
    }
    drop(proxy);
    let requests = requests.map(|thread| thread.join().unwrap());
    assert_eq!(requests[0].len() + requests[1].len(), 16);
    for line in &lines {
        assert_ne!(requests[0].contains(line), requests[1].contains(line), "{line} went to both");
    }
}

#[test]
fn an_unhealthy_upstream_gets_no_requests() {
    let upstream = Upstream::new();
    let keys = "health = \"/health z\"\nhealth_interval = \"10ms\"";
    let proxy = Proxy::with(&[upstream.address], keys);
    let check = |answer: &str| {
        let (mut peer, head) = upstream.next_request();
        assert!(head.starts_with("GET /health%20z HTTP/1.1\n"), "{head}");
        peer.send(answer);
    };
    let bad = "HTTP/1.1 500 No\r\nContent-Length: 0\r\n\r\n";
    check(bad);
    check(bad);
    // The third health check follows the evaluation of the second.
    let (mut third, _) = upstream.next_request();
    let (head, _) = proxy.send(GET).answer();
    assert!(head.starts_with("HTTP/1.1 503 ") && head.contains("Retry-After"), "{head}");
    third.send("HTTP/1.1 200 OK\r\nContent-Length: 0\r\n\r\n");
    drop(third);
    let (_fourth, _) = upstream.next_request();
    let mut client = proxy.send(GET);
    let (mut peer, head) = upstream.next_request();
    assert!(head.starts_with("GET / HTTP/1.1\n"), "{head}");
    peer.send(OK);
    assert_eq!(client.answer().1, "ok", "well again");
}
