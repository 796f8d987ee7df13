//! Tests of `max_connections`: limits of the requests at once to an upstream, over two workers.

use std::sync::mpsc;
use std::thread;

use crate::support::{LAST_OK, Proxy, Upstream, ask, race};

/// A server with two workers; each upstream takes `max` requests at once.
fn limited(upstreams: &[&Upstream], max: usize, keys: &str) -> Proxy {
    let server = |upstream: &&Upstream| {
        format!("{{ url = 'http://{}', max_connections = {max} }}", upstream.address)
    };
    let servers: Vec<_> = upstreams.iter().map(server).collect();
    Proxy::on(2, "", &format!("proxy = [{}]\n{keys}", servers.join(", ")))
}

#[test]
fn an_upstream_gets_no_more_requests_at_once_than_its_limit() {
    let upstream = Upstream::new();
    let keys = "upstream_queue = 3\nupstream_queue_timeout = '1h'";
    let proxy = limited(&[&upstream], 2, keys);
    // Many connections, so that both workers have some.
    let answers = race(&proxy, 12);
    let (mut first, _) = upstream.next_request();
    let (mut second, _) = upstream.next_request();
    for _ in 0..7 {
        let head = answers.recv().unwrap();
        assert!(head.starts_with("HTTP/1.1 503 Service Unavailable\n"), "{head}");
        assert!(head.contains("Retry-After: 1\n"), "{head}");
    }
    upstream.expect_no_connection();
    first.send(LAST_OK);
    for _ in 0..3 {
        let (mut next, _) = upstream.next_request();
        upstream.expect_no_connection();
        next.send(LAST_OK);
    }
    second.send(LAST_OK);
    for _ in 0..5 {
        let head = answers.recv().unwrap();
        assert!(head.starts_with("HTTP/1.1 200 "), "{head}");
    }
}

#[test]
fn a_request_waits_no_longer_than_the_time_limit() {
    let upstream = Upstream::new();
    let proxy = limited(&[&upstream], 1, "upstream_queue_timeout = '50ms'");
    let _running = ask(&proxy, "/running");
    let (_peer, _) = upstream.next_request();
    let (head, body) = ask(&proxy, "/late").answer();
    assert!(head.starts_with("HTTP/1.1 503 Service Unavailable\n"), "{head}");
    assert_eq!(
        body,
        "503 Service Unavailable: all upstreams are busy, and the queue is too slow\n"
    );
    upstream.expect_no_connection();
}

#[test]
fn a_busy_upstream_leaves_requests_to_others_and_the_first_free_one_gets_those_that_wait() {
    let upstreams = [Upstream::new(), Upstream::new()];
    let proxy = limited(&[&upstreams[0], &upstreams[1]], 1, "upstream_queue_timeout = '1h'");
    let mut clients: Vec<_> = (0..2).map(|_| ask(&proxy, "/")).collect();
    let (_stuck, _) = upstreams[0].next_request();
    let (mut peer, _) = upstreams[1].next_request();
    let mut waiting: Vec<_> = (0..3).map(|_| ask(&proxy, "/waiting")).collect();
    for _ in 0..3 {
        peer.send(LAST_OK);
        (peer, _) = upstreams[1].next_request();
    }
    peer.send(LAST_OK);
    upstreams[0].expect_no_connection();
    waiting.iter_mut().for_each(|client| assert_eq!(client.answer().1, "ok"));
    drop(clients.pop());
}

#[test]
fn a_hashed_request_waits_for_its_upstream_and_goes_elsewhere_when_that_takes_too_long() {
    hashed("upstream_queue_timeout = '200ms'");
    hashed("upstream_queue_timeout = '1h'\nupstream_queue = 0");
}

/// Sends two requests of one path, of which the second one leaves the busy upstream.
fn hashed(keys: &str) {
    let upstreams = [Upstream::new(), Upstream::new()];
    let keys = format!("balance = 'hash-path'\n{keys}");
    let proxy = limited(&[&upstreams[0], &upstreams[1]], 1, &keys);
    let (sender, receiver) = mpsc::channel();
    let requests = upstreams.map(|upstream| {
        let sender = sender.clone();
        thread::spawn(move || {
            let (peer, _) = upstream.next_request();
            // The listener stays: a refused connection would send the request elsewhere, too.
            sender.send((upstream, peer)).unwrap();
        })
    });
    drop(sender);
    let _running = ask(&proxy, "/same");
    let (its_own, _stuck) = receiver.recv().unwrap();
    let mut late = ask(&proxy, "/same");
    let (other, mut peer) = receiver.recv().unwrap();
    assert_ne!(its_own.address, other.address);
    peer.send(LAST_OK);
    assert_eq!(late.answer().1, "ok");
    requests.into_iter().for_each(|thread| thread.join().unwrap());
}

#[test]
fn a_busy_upstream_does_not_call_for_its_backup() {
    let (upstream, backup) = (Upstream::new(), Upstream::new());
    let (busy, spare) = (upstream.address, backup.address);
    let proxy = Proxy::of(
        "",
        &format!(
            "proxy = [{{ url = 'http://{busy}', max_connections = 1 }},\n\
             {{ url = 'http://{spare}', backup = true }}]\nupstream_queue = 0"
        ),
    );
    let _running = ask(&proxy, "/");
    let (_stuck, _) = upstream.next_request();
    let (head, body) = ask(&proxy, "/").answer();
    assert!(head.starts_with("HTTP/1.1 503 "), "{head}");
    assert!(body.contains("the queue is full"), "{body}");
    backup.expect_no_connection();
}

#[test]
fn a_cached_mount_holds_the_limit() {
    let upstream = Upstream::new();
    let proxy = limited(&[&upstream], 1, "upstream_queue_timeout = '50ms'\ncache = {}");
    let mut running = ask(&proxy, "/a");
    let (mut peer, _) = upstream.next_request();
    assert!(ask(&proxy, "/b").head().starts_with("HTTP/1.1 503 "));
    upstream.expect_no_connection();
    peer.send(LAST_OK);
    assert_eq!(running.answer().1, "ok");
    let mut next = ask(&proxy, "/b");
    let (mut peer, head) = upstream.next_request();
    assert!(head.starts_with("GET /b "), "{head}");
    peer.send(LAST_OK);
    assert_eq!(next.answer().1, "ok");
}
