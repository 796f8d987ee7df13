//! Request bodies that are taken whole before an upstream is asked, so that slow clients hold none.

use crate::client::Client;
use crate::support::{GET, LAST_OK, OK, Proxy, Upstream};

/// A POST of so many bytes, without its body.
fn post(len: usize) -> String {
    format!("POST /p HTTP/1.1\r\nHost: a\r\nContent-Length: {len}\r\n\r\n")
}

fn noise(len: u32) -> Vec<u8> {
    (0..len).map(|n| (n.wrapping_mul(2_654_435_761) >> 24) as u8).collect()
}

/// A client that has sent the head of a POST and a part of its body.
fn dripping(proxy: &Proxy) -> Client {
    proxy.send(format!("{}drip", post(1_000)))
}

#[test]
fn slow_clients_do_not_occupy_an_upstream() {
    let upstream = Upstream::new();
    let url = format!("{{ url = \"http://{}\", max_connections = 2 }}", upstream.address);
    let proxy = Proxy::of("", &format!("proxy = [{url}]\nupstream_queue = 0"));
    let mut slow: Vec<Client> = (0..2).map(|_| dripping(&proxy)).collect();
    for turn in 0..5 {
        let mut client = proxy.send(GET);
        let (mut peer, head) = upstream.next_request();
        assert!(head.starts_with("GET / "), "{turn}: {head}");
        peer.send(LAST_OK);
        assert_eq!(client.answer().1, "ok", "{turn}");
        slow.iter_mut().for_each(|client| client.send("drip"));
    }
    upstream.expect_no_connection();
    for client in &mut slow {
        client.send(vec![b'x'; 1_000 - 24]);
        let (mut peer, head) = upstream.next_request();
        assert!(
            head.starts_with("POST /p ") && head.contains("\nContent-Length: 1000\n"),
            "{head}"
        );
        let body = peer.take(1_000);
        assert!(body.starts_with(b"dripdripdripdripdripdripx"), "{}", body.escape_ascii());
        peer.send(LAST_OK);
        assert_eq!(client.answer().1, "ok");
    }
}

#[test]
fn bodies_arrive_as_they_were_sent() {
    let upstream = Upstream::new();
    let proxy = Proxy::to(&upstream);
    let mut client = proxy.connect();
    let mut peer: Option<Client> = None;
    let table: [(&str, u32); 6] = [
        ("a byte", 1),
        ("one short of what memory keeps", 65_535),
        ("what memory keeps", 65_536),
        ("one more", 65_537),
        ("a large one", 300_000),
        ("a larger one", 3_000_001),
    ];
    for (sentence, len) in table {
        let body = noise(len);
        client.send(post(body.len()));
        // In two parts, so that it has not come with the head.
        let (first, second) = body.split_at(body.len() / 2);
        client.send(first);
        client.send(second);
        let peer = peer.get_or_insert_with(|| upstream.accept());
        assert!(peer.head().contains(&format!("\nContent-Length: {len}\n")), "{sentence}");
        assert!(peer.take(body.len()) == body, "{sentence}");
        peer.send(OK);
        assert_eq!(client.answer().1, "ok", "{sentence}");
    }
}

#[test]
fn chunks_and_trailers_arrive() {
    let upstream = Upstream::new();
    let proxy = Proxy::to(&upstream);
    let mut client = proxy.connect();
    client.send("POST / HTTP/1.1\r\nHost: a\r\nTransfer-Encoding: chunked\r\n\r\n5\r\nhello\r\n");
    client.send("6\r\n world\r\n");
    client.send("0\r\nX-Sum: 11\r\n\r\n");
    let (mut peer, head) = upstream.next_request();
    assert!(head.contains("\nTransfer-Encoding: chunked\n"), "{head}");
    let mut whole = String::new();
    loop {
        let chunk = peer.chunk();
        if chunk.is_empty() {
            break;
        }
        whole += &chunk;
    }
    assert_eq!(whole, "hello world");
    assert_eq!([peer.line(), peer.line()], ["X-Sum: 11", ""], "with its trailers");
    peer.send(OK);
    assert_eq!(client.answer().1, "ok");
}

#[test]
fn a_client_that_waits_for_100_gets_it_from_the_proxy() {
    let upstream = Upstream::new();
    let proxy = Proxy::to(&upstream);
    let mut client = proxy
        .send("POST / HTTP/1.1\r\nHost: a\r\nExpect: 100-continue\r\nContent-Length: 5\r\n\r\n");
    assert!(client.head().starts_with("HTTP/1.1 100 "), "before an upstream is asked");
    upstream.expect_no_connection();
    client.send("hello");
    let (mut peer, head) = upstream.next_request();
    assert!(!head.contains("\nExpect:"), "the upstream is not asked: {head}");
    assert_eq!(peer.take(5), b"hello");
    peer.send("HTTP/1.1 100 Continue\r\n\r\n");
    peer.send(OK);
    let (head, body) = client.answer();
    assert!(head.starts_with("HTTP/1.1 200 ") && body == "ok", "the client gets one 100: {head}");
}

#[test]
fn a_client_that_leaves_is_not_seen_by_the_upstream() {
    let upstream = Upstream::new();
    let proxy = Proxy::to(&upstream);
    drop(dripping(&proxy));
    let mut client = proxy.send(GET);
    let (mut peer, head) = upstream.next_request();
    assert!(head.starts_with("GET / "), "{head}");
    peer.send(LAST_OK);
    assert_eq!(client.answer().1, "ok");
    upstream.expect_no_connection();
}

#[test]
fn a_whole_body_is_sent_again_to_the_next_upstream() {
    let (gone, upstream) = (Upstream::new(), Upstream::new());
    let proxy = Proxy::with(&[gone.address, upstream.address], "");
    let body = noise(200_000);
    let mut client = proxy.connect();
    client.send(post(body.len()).replace("POST", "PUT"));
    client.send(&body);
    let mut first = gone.accept();
    first.head();
    // The connection ends without a response.
    first.take(100_000);
    drop(first);
    let (mut peer, head) = upstream.next_request();
    assert!(head.starts_with("PUT /p "), "{head}");
    assert!(peer.take(body.len()) == body, "from its begin");
    peer.send(LAST_OK);
    assert_eq!(client.answer().1, "ok");
}

#[test]
fn without_buffering_a_body_is_passed_on_as_it_arrives() {
    let upstream = Upstream::new();
    let proxy = Proxy::with(&[upstream.address], "buffer = \"off\"");
    let mut client = dripping(&proxy);
    let (mut peer, _) = upstream.next_request();
    assert_eq!(peer.take(4), b"drip");
    client.send(vec![b'x'; 996]);
    assert_eq!(peer.take(996), vec![b'x'; 996]);
    peer.send(LAST_OK);
    assert_eq!(client.answer().1, "ok");
}
