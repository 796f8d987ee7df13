//! Tests of proxied requests with bodies.

use crate::support::{OK, Proxy, Upstream};

#[test]
fn request_bodies_keep_their_framing() {
    let upstream = Upstream::new();
    let proxy = Proxy::to(&upstream);
    let mut client = proxy.send("POST / HTTP/1.1\r\nHost: a\r\nContent-Length: 5\r\n\r\nhello");
    let (mut peer, head) = upstream.next_request();
    assert!(head.contains("\nContent-Length: 5\n") && !head.contains("Transfer-Encoding"));
    assert_eq!(peer.take(5), b"hello");
    peer.send(OK);
    assert_eq!(client.answer().1, "ok");

    client.send(
        "POST / HTTP/1.1\r\nHost: a\r\nTransfer-Encoding: chunked\r\n\r\n\
         5;x=y\r\nhello\r\n0\r\nX-Sum: 5\r\nTransfer-Encoding: a\r\n\r\n",
    );
    assert!(peer.head().contains("\nTransfer-Encoding: chunked\n"), "on the same connection");
    assert_eq!(peer.chunk(), "hello");
    assert_eq!([peer.line(), peer.line(), peer.line()], ["0", "X-Sum: 5", ""], "with its trailers");
    peer.send(OK);
    assert_eq!(client.answer().1, "ok");
}

/// An upstream may merge trailers into the head (RFC 9110 section 6.5.2), and CGI-like ones read
/// `_` as `-`.
#[test]
fn request_trailers_carry_nothing_that_the_head_may_not() {
    let (auth, upstream) = (Upstream::new(), Upstream::new());
    let keys = format!(
        "auth = 'forward'\nforward = 'http://{}'\ncopy_headers = ['X-Account']",
        auth.address
    );
    let proxy = Proxy::of_site(&keys, &format!("proxy = 'http://{}'", upstream.address));
    let barred = [
        "X-Forwarded-For",
        "X_Forwarded_For",
        "X-Forwarded-Proto",
        "X-Real-IP",
        "Forwarded",
        "Via",
        "Proxy",
        "X-Accel-Redirect",
        "X_Sendfile",
        "Keep-Alive",
        "Remote-User",
        "X-Account",
        "x_account",
        "Content_Length",
        "If_Match",
    ];
    let lines: String = barred.iter().map(|name| format!("{name}: evil\r\n")).collect();
    let mut client = proxy.send(format!(
        "POST / HTTP/1.1\r\nHost: a\r\nTransfer-Encoding: chunked\r\n\r\n\
         5\r\nhello\r\n0\r\n{lines}X-Sum: 5\r\n\r\n"
    ));
    let (mut checker, _) = auth.next_request();
    checker.send("HTTP/1.1 200 OK\r\nContent-Length: 0\r\nX-Account: anna\r\n\r\n");
    let (mut peer, head) = upstream.next_request();
    assert!(head.to_lowercase().contains("\nx-account: anna\n"), "{head}");
    assert_eq!(peer.chunk(), "hello");
    assert_eq!([peer.line(), peer.line(), peer.line()], ["0", "X-Sum: 5", ""]);
    peer.send(OK);
    assert_eq!(client.answer().1, "ok");
}

#[test]
fn a_request_body_is_streamed() {
    let upstream = Upstream::new();
    let proxy = Proxy::streaming(&upstream);
    let mut client = proxy.send("POST / HTTP/1.1\r\nHost: a\r\nContent-Length: 6\r\n\r\none");
    let (mut peer, _) = upstream.next_request();
    assert_eq!(peer.take(3), b"one", "before the rest is here");
    peer.send("HTTP/1.1 200 OK\r\nTransfer-Encoding: chunked\r\n\r\n3\r\nhah\r\n");
    client.head();
    assert_eq!(client.chunk(), "hah", "an answer while it is being sent");
    client.send("two");
    assert_eq!(peer.take(3), b"two", "and the rest all the same");
    peer.send("0\r\n\r\n");
    assert_eq!(client.chunk(), "");
    client.line();
    client.send("GET /2 HTTP/1.1\r\nHost: a\r\n\r\n");
    assert!(peer.head().starts_with("GET /2 "), "both connections go on");
}

#[test]
fn an_early_refusal_is_passed_on() {
    let upstream = Upstream::new();
    let proxy = Proxy::streaming(&upstream);
    let mut client =
        proxy.send("POST / HTTP/1.1\r\nHost: a\r\nContent-Length: 100000000\r\n\r\nsome");
    let (mut peer, _) = upstream.next_request();
    assert_eq!(peer.take(4), b"some");
    peer.send("HTTP/1.1 413 Content Too Large\r\nContent-Length: 0\r\nConnection: close\r\n\r\n");
    assert!(client.head().starts_with("HTTP/1.1 413 "));
    assert_eq!(peer.rest(), "", "the connection with the unsent rest is over");
}

#[test]
fn a_large_body_arrives_whole() {
    let upstream = Upstream::new();
    let proxy = Proxy::to(&upstream);
    let body: Vec<u8> = (0..3_000_000_u32).map(|n| (n % 251) as u8).collect();
    let head = format!("PUT / HTTP/1.1\r\nHost: a\r\nContent-Length: {}\r\n\r\n", body.len());
    let mut client = proxy.connect();
    let sent = [head.as_bytes(), &body].concat();
    let sender = std::thread::spawn(move || {
        client.send(&sent);
        client
    });
    let (mut peer, _) = upstream.next_request();
    assert!(peer.take(body.len()) == body);
    peer.send(OK);
    assert_eq!(sender.join().unwrap().answer().1, "ok");
}

const EXPECTING: &str =
    "POST / HTTP/1.1\r\nHost: a\r\nContent-Length: 5\r\nExpect: 100-continue\r\n\r\n";

#[test]
fn the_upstreams_100_continue_is_relayed() {
    let upstream = Upstream::new();
    let proxy = Proxy::streaming(&upstream);
    let mut client = proxy.send(EXPECTING);
    let (mut peer, head) = upstream.next_request();
    assert!(head.contains("\nExpect: 100-continue\n"));
    peer.send("HTTP/1.1 100 Continue\r\n\r\n");
    assert_eq!(client.head(), "HTTP/1.1 100 Continue\n");
    client.send("hello");
    assert_eq!(peer.take(5), b"hello");
    peer.send(OK);
    assert_eq!(client.answer().1, "ok");
    client.send("GET /2 HTTP/1.1\r\nHost: a\r\n\r\n");
    assert!(peer.head().starts_with("GET /2 "), "both connections go on");
}

#[test]
fn an_upstream_may_refuse_before_the_body_is_sent() {
    let upstream = Upstream::new();
    let proxy = Proxy::streaming(&upstream);
    let mut client = proxy.send(EXPECTING);
    let (mut peer, _) = upstream.next_request();
    peer.send("HTTP/1.1 401 Unauthorized\r\nContent-Length: 0\r\n\r\n");
    let head = client.head();
    assert!(head.starts_with("HTTP/1.1 401 ") && head.contains("Connection: close"), "{head}");
    assert_eq!(peer.rest(), "", "what was announced never came, so nothing can follow");
}

#[test]
fn an_upstream_may_ignore_expect() {
    let upstream = Upstream::new();
    let proxy = Proxy::streaming(&upstream);
    let mut client = proxy.send(EXPECTING);
    let (mut peer, _) = upstream.next_request();
    assert_eq!(client.head(), "HTTP/1.1 100 Continue\n", "after a while the proxy gives it");
    client.send("hello");
    assert_eq!(peer.take(5), b"hello");
    peer.send(OK);
    assert_eq!(client.answer().1, "ok");
}

#[test]
fn no_request_is_smuggled() {
    let upstream = Upstream::new();
    let proxy = Proxy::streaming(&upstream);
    for (sentence, fields, body) in [
        ("both framings", "Content-Length: 4\r\nTransfer-Encoding: chunked\r\n", "0\r\n\r\n"),
        ("two lengths", "Content-Length: 0\r\nContent-Length: 4\r\n", "evil"),
        ("a list of lengths", "Content-Length: 0, 4\r\n", "evil"),
        ("a hidden coding", "Transfer-Encoding: xchunked\r\n", "0\r\n\r\n"),
        (
            "a coding in two lines",
            "Transfer-Encoding: chunked\r\nTransfer-Encoding: x\r\n",
            "0\r\n\r\n",
        ),
        ("a space before the colon", "Transfer-Encoding : chunked\r\n", "0\r\n\r\n"),
        ("a folded coding", "X: a\r\n Transfer-Encoding: chunked\r\n", "0\r\n\r\n"),
        ("LF alone", "X: a\nTransfer-Encoding: chunked\r\n", "0\r\n\r\n"),
    ] {
        let request = format!("POST / HTTP/1.1\r\nHost: a\r\n{fields}\r\n{body}");
        let mut client = proxy.send(request);
        let head = client.head();
        assert!(
            head.starts_with("HTTP/1.1 4") || head.starts_with("HTTP/1.1 501"),
            "{sentence}: {head}"
        );
        upstream.expect_no_connection();
    }
    // A wrong chunk size ends the connection, and no part of the chunk is parsed as a request.
    let lie = "POST / HTTP/1.1\r\nHost: a\r\nTransfer-Encoding: chunked\r\n\r\n\
               1\r\nxGET /evil HTTP/1.1\r\n\r\n0\r\n\r\n";
    let mut client = proxy.send(lie);
    let (mut peer, _) = upstream.next_request();
    assert!(client.head().starts_with("HTTP/1.1 400 "));
    assert!(!peer.rest().contains("evil"));
}
