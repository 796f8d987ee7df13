//! Tests of responses from upstreams, as the client receives them.

use crate::client::Client;
use crate::support::{GET, LAST_GET, OK, Proxy, Upstream};

/// Relays one exchange; returns the client's response without `Date` and `Server`.
fn answered(upstream: &Upstream, proxy: &Proxy, request: &str, reply: &[u8]) -> String {
    let mut client = proxy.send(request);
    let (mut peer, _) = upstream.next_request();
    peer.send(reply);
    drop(peer);
    text(&mut client)
}

fn text(client: &mut Client) -> String {
    let head = client.head().replace("Server: hurtle\n", "").replace("Connection: close\n", "");
    format!("{head}\n{}", client.rest())
}

const BAD: &str = "HTTP/1.1 502 Bad Gateway\nContent-Type: text/plain; charset=utf-8\n\
                   Content-Length: 16\n\n502 Bad Gateway\n";

#[test]
fn every_kind_of_response() {
    let upstream = Upstream::new();
    let proxy = Proxy::to(&upstream);
    let rows: &[(&str, &str, &str)] = &[
        (
            "a length",
            "HTTP/1.1 200 OK\r\nContent-Length: 5\r\nX-A: b\r\n\r\nhello",
            "HTTP/1.1 200 OK\nX-A: b\nContent-Length: 5\n\nhello",
        ),
        (
            "chunks",
            "HTTP/1.1 200 OK\r\nTransfer-Encoding: chunked\r\n\r\n5\r\nhello\r\n0\r\n\r\n",
            "HTTP/1.1 200 OK\nTransfer-Encoding: chunked\n\n5\r\nhello\r\n0\r\n\r\n",
        ),
        (
            "chunks with extensions, which are nobody's business",
            "HTTP/1.1 200 OK\r\nTransfer-Encoding: chunked\r\n\r\n5;a=b\r\nhello\r\n0\r\n\r\n",
            "HTTP/1.1 200 OK\nTransfer-Encoding: chunked\n\n5\r\nhello\r\n0\r\n\r\n",
        ),
        (
            "up to the end of the connection",
            "HTTP/1.1 200 OK\r\n\r\nhello",
            "HTTP/1.1 200 OK\nTransfer-Encoding: chunked\n\n5\r\nhello\r\n0\r\n\r\n",
        ),
        (
            "the same in HTTP/1.0",
            "HTTP/1.0 200 OK\r\n\r\nhello",
            "HTTP/1.1 200 OK\nTransfer-Encoding: chunked\n\n5\r\nhello\r\n0\r\n\r\n",
        ),
        ("no content", "HTTP/1.1 204 No Content\r\n\r\n", "HTTP/1.1 204 No Content\n\n"),
        (
            "no content, but a length said of it",
            "HTTP/1.1 204 No Content\r\nContent-Length: 0\r\n\r\n",
            "HTTP/1.1 204 No Content\n\n",
        ),
        (
            "not modified",
            "HTTP/1.1 304 Not Modified\r\nETag: \"a\"\r\nContent-Length: 5\r\n\r\n",
            "HTTP/1.1 304 Not Modified\nETag: \"a\"\nContent-Length: 5\n\n",
        ),
        (
            "a redirect and cookies, untouched",
            "HTTP/1.1 302 Found\r\nLocation: /x\r\nSet-Cookie: a\r\nSet-Cookie: b\r\nContent-Length: 0\r\n\r\n",
            "HTTP/1.1 302 Found\nLocation: /x\nSet-Cookie: a\nSet-Cookie: b\nContent-Length: 0\n\n",
        ),
        (
            "an error of the application's own",
            "HTTP/1.1 503 Busy\r\nContent-Length: 4\r\n\r\nbusy",
            "HTTP/1.1 503 Service Unavailable\nContent-Length: 4\n\nbusy",
        ),
        (
            "hop-by-hop fields, and those that Connection names",
            "HTTP/1.1 200 OK\r\nConnection: keep-alive, X-Hop\r\nX-Hop: 1\r\nKeep-Alive: timeout=5\r\nProxy-Authenticate: Basic\r\nContent-Length: 0\r\n\r\n",
            "HTTP/1.1 200 OK\nContent-Length: 0\n\n",
        ),
        (
            "what is between upstream and server, though no root is named",
            "HTTP/1.1 200 OK\r\nX-Accel-Redirect: /etc/passwd\r\nX-Sendfile: /etc/passwd\r\nX-Accel-Expires: 1\r\nContent-Length: 2\r\n\r\nok",
            "HTTP/1.1 200 OK\nContent-Length: 2\n\nok",
        ),
        (
            "more than its length: an answer to nothing",
            "HTTP/1.1 200 OK\r\nContent-Length: 2\r\n\r\nokHTTP/1.1 200 OK\r\nContent-Length: 4\r\n\r\nevil",
            "HTTP/1.1 200 OK\nContent-Length: 2\n\nok",
        ),
        (
            "both framings",
            "HTTP/1.1 200 OK\r\nContent-Length: 5\r\nTransfer-Encoding: chunked\r\n\r\n0\r\n\r\n",
            BAD,
        ),
        (
            "two lengths",
            "HTTP/1.1 200 OK\r\nContent-Length: 5\r\nContent-Length: 5\r\n\r\nhello",
            BAD,
        ),
        ("a signed length", "HTTP/1.1 200 OK\r\nContent-Length: +5\r\n\r\nhello", BAD),
        ("a list of lengths", "HTTP/1.1 200 OK\r\nContent-Length: 5, 5\r\n\r\nhello", BAD),
        ("another coding", "HTTP/1.1 200 OK\r\nTransfer-Encoding: gzip\r\n\r\nhello", BAD),
        (
            "chunks in HTTP/1.0",
            "HTTP/1.0 200 OK\r\nTransfer-Encoding: chunked\r\n\r\n0\r\n\r\n",
            BAD,
        ),
        ("a folded field", "HTTP/1.1 200 OK\r\nX-A: b\r\n c\r\nContent-Length: 0\r\n\r\n", BAD),
        ("a space before a colon", "HTTP/1.1 200 OK\r\nContent-Length : 0\r\n\r\n", BAD),
        ("LF alone", "HTTP/1.1 200 OK\nContent-Length: 0\n\n", BAD),
        ("a CR in a field", "HTTP/1.1 200 OK\r\nX-A: b\rX-B: c\r\nContent-Length: 0\r\n\r\n", BAD),
        ("HTTP/0.9", "hello", BAD),
        ("another protocol", "SSH-2.0-OpenSSH\r\n", BAD),
        ("HTTP/2", "HTTP/2 200\r\n\r\n", BAD),
        ("a status of no class", "HTTP/1.1 999 Odd\r\n\r\n", BAD),
        (
            "another protocol unasked",
            "HTTP/1.1 101 Switching Protocols\r\nConnection: Upgrade\r\nUpgrade: websocket\r\n\r\n",
            BAD,
        ),
    ];
    for (sentence, reply, expected) in rows {
        let got = answered(&upstream, &proxy, LAST_GET, reply.as_bytes());
        assert_eq!(got, *expected, "{sentence}");
    }
}

#[test]
fn a_huge_head_is_a_bad_gateway() {
    let upstream = Upstream::new();
    let proxy = Proxy::to(&upstream);
    let huge = format!("HTTP/1.1 200 OK\r\nX-A: {}\r\n\r\n", "a".repeat(70 << 10));
    assert_eq!(answered(&upstream, &proxy, LAST_GET, huge.as_bytes()), BAD);
    let many = format!("HTTP/1.1 200 OK\r\n{}\r\n", "A: b\r\n".repeat(201));
    assert_eq!(answered(&upstream, &proxy, LAST_GET, many.as_bytes()), BAD);
    let large =
        format!("HTTP/1.1 200 OK\r\nX-A: {}\r\nContent-Length: 0\r\n\r\n", "a".repeat(40 << 10));
    let got = answered(&upstream, &proxy, LAST_GET, large.as_bytes());
    assert!(got.starts_with("HTTP/1.1 200 OK\n"), "one that is merely large is passed on");
}

#[test]
fn a_response_to_head_has_no_body_despite_its_length() {
    let upstream = Upstream::new();
    let proxy = Proxy::to(&upstream);
    let mut client =
        proxy.send("HEAD / HTTP/1.1\r\nHost: a\r\n\r\nGET /2 HTTP/1.1\r\nHost: a\r\n\r\n");
    let (mut peer, _) = upstream.next_request();
    peer.send("HTTP/1.1 200 OK\r\nContent-Length: 500\r\n\r\n");
    assert_eq!(client.head(), "HTTP/1.1 200 OK\nServer: hurtle\nContent-Length: 500\n");
    assert!(peer.head().starts_with("GET /2 HTTP/1.1\n"), "and the connection goes on");
    peer.send(OK);
    assert_eq!(client.answer().1, "ok");
}

#[test]
fn http_1_0_clients_get_no_chunks() {
    let upstream = Upstream::new();
    let proxy = Proxy::to(&upstream);
    let chunked = b"HTTP/1.1 200 OK\r\nTransfer-Encoding: chunked\r\n\r\n5\r\nhello\r\n0\r\n\r\n";
    let got = answered(&upstream, &proxy, "GET / HTTP/1.0\r\n\r\n", chunked);
    assert_eq!(got, "HTTP/1.1 200 OK\n\nhello");
}

#[test]
fn upstream_connections_are_reused() {
    let upstream = Upstream::new();
    let proxy = Proxy::to(&upstream);
    let mut client = proxy.send(GET);
    let (mut peer, _) = upstream.next_request();
    peer.send(OK);
    assert_eq!(client.answer().1, "ok");
    let mut other = proxy.send(GET);
    peer.head();
    peer.send(OK);
    assert_eq!(other.answer().1, "ok", "by another client too");
    upstream.expect_no_connection();

    other.send(GET);
    peer.head();
    peer.send("HTTP/1.1 200 OK\r\nContent-Length: 0\r\nConnection: close\r\n\r\n");
    other.answer();
    other.send(GET);
    let (mut next, _) = upstream.next_request();
    assert_eq!(peer.rest(), "", "not after it said it would close");
    next.send("HTTP/1.1 200 OK\r\nContent-Length: 2\r\n\r\nok and more");
    assert_eq!(other.answer().1, "ok");
    other.send(GET);
    let (mut last, _) = upstream.next_request();
    last.send(OK);
    assert_eq!(other.answer().1, "ok", "nor after more than an answer came");
}

#[test]
fn interim_answers_are_relayed() {
    let upstream = Upstream::new();
    let proxy = Proxy::to(&upstream);
    let mut client = proxy.send(GET);
    let (mut peer, _) = upstream.next_request();
    peer.send(
        "HTTP/1.1 103 Early Hints\r\nLink: </a.css>\r\nConnection: X-Hop\r\nX-Hop: 1\r\n\r\n",
    );
    assert_eq!(client.head(), "HTTP/1.1 103 Early Hints\nLink: </a.css>\n", "before the answer");
    peer.send("HTTP/1.1 102 Processing\r\n\r\nHTTP/1.1 100 Continue\r\n\r\n");
    assert_eq!(client.head(), "HTTP/1.1 102 Processing\n");
    peer.send(OK);
    assert_eq!(client.answer().1, "ok", "a leave that nobody waits for is not");

    let mut old = proxy.send("GET / HTTP/1.0\r\n\r\n");
    peer.head();
    peer.send(format!("HTTP/1.1 103 Early Hints\r\n\r\n{OK}"));
    assert!(old.rest().starts_with("HTTP/1.1 200 OK"), "HTTP/1.0 does not know them");
}

#[test]
fn a_response_is_streamed() {
    let upstream = Upstream::new();
    let proxy = Proxy::to(&upstream);
    let mut client = proxy.send("GET / HTTP/1.1\r\nHost: a\r\nTE: trailers\r\n\r\n");
    let (mut peer, head) = upstream.next_request();
    assert!(head.contains("\nConnection: TE\nTE: trailers\n"));
    peer.send("HTTP/1.1 200 OK\r\nTransfer-Encoding: chunked\r\nTrailer: X-Sum\r\n\r\n");
    assert!(client.head().contains("Transfer-Encoding: chunked"), "the head, before any byte");
    for event in ["one", "two"] {
        peer.send(format!("3\r\n{event}\r\n"));
        assert_eq!(client.chunk(), event, "each as it comes");
    }
    peer.send("0\r\nX-Sum: 6\r\nContent-Length: 9\r\n\r\n");
    assert_eq!(client.chunk(), "");
    assert_eq!([client.line(), client.line()], ["X-Sum: 6", ""], "trailers that may be there");
}

/// A small body is sent in one write with its head, also if header rules lengthen the head.
#[test]
fn a_small_response_arrives_whole_after_a_longer_head() {
    for added in [1, 900, 1_100, 5_000] {
        let upstream = Upstream::new();
        let value = "v".repeat(added);
        let rule = format!("[[site.header]]\nmatch = \"/*\"\nset = {{ X-Rule = \"{value}\" }}");
        let proxy = Proxy::of_site(&rule, &format!("proxy = \"http://{}\"", upstream.address));
        let mut client = proxy.send(GET);
        let (mut peer, _) = upstream.next_request();
        for len in [0, 1, 1_000, 10_240, 16 << 10, (16 << 10) + 1, 60_000] {
            let body: Vec<u8> = (0..len).map(|n| (n % 251) as u8).collect();
            let head = format!("HTTP/1.1 200 OK\r\nContent-Length: {len}\r\n\r\n");
            for parted in [false, true] {
                match parted {
                    false => peer.send([head.as_bytes(), &body].concat()),
                    true => peer.send_split(&[head.as_bytes(), &body].concat(), 20),
                }
                assert!(client.head().contains(&format!("\nX-Rule: {value}\n")));
                assert!(client.take(len) == body, "{len} bytes behind {added} more");
                client.send(GET);
                assert!(peer.head().starts_with("GET / "), "and both connections go on");
            }
        }
    }
}

#[test]
fn a_large_response_arrives_whole() {
    let upstream = Upstream::new();
    let proxy = Proxy::to(&upstream);
    let body: Vec<u8> = (0..3_000_000_u32).map(|n| (n % 251) as u8).collect();
    let head = format!("HTTP/1.1 200 OK\r\nContent-Length: {}\r\n\r\n", body.len());
    let mut client = proxy.send(GET);
    let (mut peer, _) = upstream.next_request();
    let sent = [head.as_bytes(), &body].concat();
    let sender = std::thread::spawn(move || {
        peer.send(&sent);
        peer
    });
    client.head();
    assert!(client.take(body.len()) == body);
    let mut peer = sender.join().unwrap();
    client.send(GET);
    assert!(peer.head().starts_with("GET / "), "and its connection goes on");
}

#[test]
fn over_a_unix_socket() {
    use std::io::{Read, Write};
    let path = std::env::temp_dir().join(format!("hurtle-proxy-{}.sock", std::process::id()));
    let listener = std::os::unix::net::UnixListener::bind(&path).unwrap();
    let proxy = Proxy::of("", &format!("proxy = \"unix:{}\"", path.display()));
    let mut client = proxy.send(GET);
    let (mut peer, _) = listener.accept().unwrap();
    std::fs::remove_file(&path).unwrap();
    for _ in 0..2 {
        let mut head = Vec::new();
        while !head.ends_with(b"\r\n\r\n") {
            let mut byte = [0];
            peer.read_exact(&mut byte).unwrap();
            head.extend(byte);
        }
        assert!(head.starts_with(b"GET / HTTP/1.1\r\nHost: a\r\n"));
        peer.write_all(OK.as_bytes()).unwrap();
        assert_eq!(client.answer().1, "ok");
        client.send(GET);
    }
}
