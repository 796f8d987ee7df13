//! Tests of protocol upgrades: only configured protocols, and only after the upstream's 101.

use std::time::{Duration, Instant};

use crate::support::{OK, Proxy, Upstream};

const ASKING: &str = "GET /chat HTTP/1.1\r\nHost: a\r\nConnection: keep-alive, Upgrade\r\n\
                      Upgrade: WebSocket\r\nSec-WebSocket-Key: a\r\n\r\n";
const AGREED: &str = "HTTP/1.1 101 Switching Protocols\r\nConnection: Upgrade\r\n\
                      Upgrade: websocket\r\nSec-WebSocket-Accept: b\r\n\r\n";

#[test]
fn a_tunnel_carries_any_bytes_both_ways() {
    let upstream = Upstream::new();
    let proxy = Proxy::to(&upstream);
    // The first frame arrives together with the request; the proxy must not parse it.
    let mut client = proxy.send(format!("{ASKING}first"));
    let (mut peer, head) = upstream.next_request();
    assert!(head.contains("\nConnection: Upgrade\nUpgrade: websocket\n"), "{head}");
    assert!(head.contains("\nSec-WebSocket-Key: a\n"), "{head}");
    peer.send(format!("{AGREED}hello"));
    assert_eq!(
        client.head(),
        "HTTP/1.1 101 Switching Protocols\nSec-WebSocket-Accept: b\nConnection: Upgrade\n\
         Upgrade: websocket\n"
    );
    assert_eq!(client.take(5), b"hello", "what came with the head");
    assert_eq!(peer.take(5), b"first");
    for n in 0..3_u8 {
        client.send([n; 3]);
        assert_eq!(peer.take(3), [n; 3]);
        peer.send([n + 100; 3]);
        assert_eq!(client.take(3), [n + 100; 3]);
    }
    let large = vec![7; 1 << 20];
    let sent = large.clone();
    let sender = std::thread::spawn(move || {
        peer.send(&sent);
        peer
    });
    assert!(client.take(large.len()) == large);
    let mut peer = sender.join().unwrap();
    client.half_close();
    assert_eq!(peer.rest(), "", "one side's last word is passed on");
    peer.send("bye");
    drop(peer);
    assert_eq!(client.rest(), "bye", "and the other side's still comes");
}

#[test]
fn a_stop_leaves_a_tunnel_its_drain_time_and_no_more() {
    let upstream = Upstream::new();
    let mount = format!("proxy = \"http://{}\"", upstream.address);
    let proxy = Proxy::of("drain = \"700ms\"", &mount);
    let mut client = proxy.send(ASKING);
    let (mut peer, _) = upstream.next_request();
    peer.send(AGREED);
    client.head();
    let begun = Instant::now();
    proxy.drain();
    client.send("one");
    assert_eq!(peer.take(3), b"one", "what is open goes on");
    peer.send("two");
    assert_eq!(client.take(3), b"two");
    client.expect_early_end(1, "the client's side");
    peer.expect_early_end(1, "the upstream's side");
    let took = begun.elapsed();
    let range = Duration::from_millis(690)..Duration::from_secs(5);
    assert!(range.contains(&took), "ended after {took:?}");
}

#[test]
fn no_bytes_are_relayed_before_the_101() {
    let upstream = Upstream::new();
    let proxy = Proxy::to(&upstream);
    let mut client = proxy.send(format!("{ASKING}GET /2 HTTP/1.1\r\nHost: a\r\n\r\n"));
    let (mut peer, _) = upstream.next_request();
    peer.send(OK);
    assert_eq!(client.answer().1, "ok", "it would rather not");
    let head = peer.head();
    assert!(head.starts_with("GET /2 HTTP/1.1\n") && head.contains("\nVia: "), "a request: {head}");
}

#[test]
fn only_a_requested_protocol_is_accepted() {
    let upstream = Upstream::new();
    let proxy = Proxy::to(&upstream);
    let mut client = proxy.send(ASKING);
    let (mut peer, _) = upstream.next_request();
    peer.send("HTTP/1.1 101 Switching Protocols\r\nConnection: Upgrade\r\nUpgrade: h2c\r\n\r\n");
    assert!(client.head().starts_with("HTTP/1.1 502 "));
}

#[test]
fn other_protocols_are_not_forwarded() {
    let upstream = Upstream::new();
    let proxy = Proxy::to(&upstream);
    for (sentence, fields) in [
        (
            "HTTP/2 in the clear",
            "Connection: Upgrade, HTTP2-Settings\r\nUpgrade: h2c\r\nHTTP2-Settings: AAMAAABk\r\n",
        ),
        ("one that is not listed", "Connection: Upgrade\r\nUpgrade: foo/2\r\n"),
        ("an Upgrade that Connection does not name", "Upgrade: websocket\r\n"),
        ("one behind a body", "Connection: Upgrade\r\nUpgrade: websocket\r\nContent-Length: 1\r\n"),
    ] {
        let _client = proxy.send(format!("GET / HTTP/1.1\r\nHost: a\r\n{fields}\r\nx"));
        let (_, head) = upstream.next_request();
        let lower = head.to_lowercase();
        assert!(!lower.contains("upgrade") && !lower.contains("http2"), "{sentence}: {head}");
    }
    let keys = "upgrades = [\"foo/2\"]";
    let proxy = Proxy::with(&[upstream.address], keys);
    let _client = proxy
        .send("GET / HTTP/1.1\r\nHost: a\r\nConnection: upgrade\r\nUpgrade: h2c, foo/2\r\n\r\n");
    let (_, head) = upstream.next_request();
    assert!(
        head.contains("\nConnection: Upgrade\nUpgrade: foo/2\n"),
        "the listed one alone: {head}"
    );
}

#[test]
fn a_tunnel_has_the_cookie_of_the_chosen_upstream() {
    let upstreams = [(); 2].map(|()| Upstream::new());
    let addresses = upstreams.each_ref().map(|upstream| upstream.address);
    let keys = "balance = 'cookie'\ncookie = 'server'\n\
                [[site.mount.header]]\nremove = ['Set-Cookie']";
    let proxy = Proxy::with(&addresses, keys);
    let mut client = proxy.send(ASKING);
    let (mut peer, _) = upstreams[0].next_request();
    peer.send(AGREED);
    let head = client.head();
    assert!(head.contains("\nSet-Cookie: server="), "{head}");
}
