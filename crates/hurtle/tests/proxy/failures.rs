//! Tests of upstreams that fail at each point of an exchange.

use crate::support::{GET, LAST_GET, NOBODY, OK, Proxy, Upstream};

const POST: &str = "POST / HTTP/1.1\r\nHost: a\r\nContent-Length: 5\r\n\r\nhello";

#[track_caller]
fn expect(client: &mut crate::client::Client, status: &str) {
    let (head, body) = client.answer();
    assert!(head.starts_with(&format!("HTTP/1.1 {status}\n")), "{head}");
    assert_eq!(body, format!("{status}\n"), "no word of whose fault it is");
}

#[test]
fn an_unreachable_upstream_is_502() {
    let proxy = Proxy::with(&[NOBODY], "");
    expect(&mut proxy.send(GET), "502 Bad Gateway");
    let proxy = Proxy::of("", "proxy = \"unix:/nowhere/app.sock\"");
    expect(&mut proxy.send(GET), "502 Bad Gateway");
    let proxy = Proxy::of("", "proxy = \"http://no-such-name.invalid:80\"");
    expect(&mut proxy.send(GET), "502 Bad Gateway");
}

#[test]
fn a_connection_closed_without_a_response_is_502() {
    let upstream = Upstream::new();
    let proxy = Proxy::to(&upstream);
    let mut client = proxy.send(POST);
    let (mut peer, _) = upstream.next_request();
    peer.take(5);
    drop(peer);
    expect(&mut client, "502 Bad Gateway");
    upstream.expect_no_connection();
    client.send(GET);
    let (peer, _) = upstream.next_request();
    peer.reset();
    expect(&mut client, "502 Bad Gateway");
}

#[test]
fn a_connection_closed_during_the_request_body_is_502() {
    let upstream = Upstream::new();
    let proxy = Proxy::streaming(&upstream);
    type End = fn(crate::client::Client);
    let ends: [(&str, End); 2] = [("an end", drop), ("a reset", crate::client::Client::reset)];
    for (sentence, end) in ends {
        for framing in ["Content-Length: 100", "Transfer-Encoding: chunked"] {
            let mut client = proxy.send(format!("PUT / HTTP/1.1\r\nHost: a\r\n{framing}\r\n\r\n"));
            let (mut peer, _) = upstream.next_request();
            client.send("4\r\nabcd\r\n");
            peer.take(4);
            end(peer);
            let (head, _) = client.answer();
            assert!(head.starts_with("HTTP/1.1 502 "), "{sentence}, {framing}: {head}");
            upstream.expect_no_connection();
        }
    }
}

#[test]
fn a_connection_closed_after_an_interim_response_is_502() {
    let upstream = Upstream::new();
    let proxy = Proxy::to(&upstream);
    let mut client = proxy.send(GET);
    let (mut peer, _) = upstream.next_request();
    peer.send("HTTP/1.1 103 Early Hints\r\nLink: </a.css>\r\n\r\n");
    assert!(client.head().starts_with("HTTP/1.1 103 "));
    drop(peer);
    expect(&mut client, "502 Bad Gateway");
}

#[test]
fn a_connection_closed_within_the_head_is_502() {
    let upstream = Upstream::new();
    let proxy = Proxy::to(&upstream);
    let mut client = proxy.send(GET);
    let (mut peer, _) = upstream.next_request();
    peer.send("HTTP/1.1 200 OK\r\nContent-Le");
    drop(peer);
    expect(&mut client, "502 Bad Gateway");
}

#[test]
fn a_connection_closed_within_the_body_truncates_the_response() {
    let upstream = Upstream::new();
    let proxy = Proxy::to(&upstream);
    for (sentence, part) in [
        ("of a length", "HTTP/1.1 200 OK\r\nContent-Length: 9\r\n\r\nhello"),
        ("in chunks", "HTTP/1.1 200 OK\r\nTransfer-Encoding: chunked\r\n\r\n5\r\nhello\r\n"),
        (
            "before its trailers end",
            "HTTP/1.1 200 OK\r\nTransfer-Encoding: chunked\r\n\r\n5\r\nhello\r\n0\r\nX-A: b\r\n",
        ),
        ("in malformed chunks", "HTTP/1.1 200 OK\r\nTransfer-Encoding: chunked\r\n\r\n5\r\nhelloX"),
    ] {
        let mut client = proxy.send(LAST_GET);
        let (mut peer, _) = upstream.next_request();
        peer.send(part);
        drop(peer);
        let all = client.rest();
        // The client sees an incomplete response, or a 502.
        assert!(all.contains("hello") || all.starts_with("HTTP/1.1 502 "), "{sentence}: {all}");
        assert!(!all.contains("0\r\n\r\n"), "{sentence}: {all}");
    }
    let mut client = proxy.send(GET);
    let (mut peer, _) = upstream.next_request();
    peer.send("HTTP/1.1 200 OK\r\n\r\nhello");
    client.head();
    assert_eq!(client.chunk(), "hello");
    peer.reset();
    assert!(!client.rest().contains("0\r\n"), "a reset is no end");
}

#[test]
fn a_slow_upstream_is_504() {
    let upstream = Upstream::new();
    let keys = "buffer = \"off\"\nfirst_byte_timeout = \"200ms\"\nread_timeout = \"200ms\"\nsend_timeout = \"200ms\"";
    let proxy = Proxy::with(&[upstream.address], keys);
    let mut client = proxy.send(GET);
    let (mut peer, _) = upstream.next_request();
    peer.send("HTTP/1.1 200 ");
    expect(&mut client, "504 Gateway Timeout");
    assert_eq!(peer.rest(), "", "its connection is over");

    client.send(GET);
    let (mut peer, _) = upstream.next_request();
    peer.send("HTTP/1.1 200 OK\r\nContent-Length: 9\r\n\r\nhello");
    client.head();
    assert_eq!(client.rest(), "hello", "and then the end, before the length is reached");

    let mut client = proxy.send("POST / HTTP/1.1\r\nHost: a\r\nContent-Length: 100000000\r\n\r\n");
    let (peer, _) = upstream.next_request();
    let sender = std::thread::spawn(move || {
        client.send(vec![0; 100_000_000]);
        client
    });
    let mut client = sender.join().unwrap();
    assert!(client.head().starts_with("HTTP/1.1 504 "), "it takes none of the request");
    drop(peer);
}

#[test]
fn a_slow_client_is_not_the_upstreams_fault() {
    let upstream = Upstream::new();
    let keys = "buffer = \"off\"\nfirst_byte_timeout = \"100ms\"\nsend_timeout = \"100ms\"";
    let proxy = Proxy::with(&[upstream.address], keys);
    let mut client = proxy.send("POST / HTTP/1.1\r\nHost: a\r\nContent-Length: 6\r\n\r\none");
    let (mut peer, _) = upstream.next_request();
    assert_eq!(peer.take(3), b"one");
    // The pause exceeds every timeout of the upstream, which must not apply to the client.
    peer.stream.set_read_timeout(Some(std::time::Duration::from_millis(400))).unwrap();
    let mut byte = [0];
    assert!(std::io::Read::read(&mut peer.stream, &mut byte).is_err(), "nothing comes");
    peer.stream.set_read_timeout(Some(crate::client::PATIENCE)).unwrap();
    client.send("two");
    assert_eq!(peer.take(3), b"two");
    peer.send(OK);
    assert_eq!(client.answer().1, "ok");
}

#[test]
fn a_closed_idle_connection_is_replaced() {
    let upstream = Upstream::new();
    let proxy = Proxy::to(&upstream);
    let mut client = proxy.send(GET);
    let (mut peer, _) = upstream.next_request();
    peer.send(OK);
    client.answer();
    drop(peer);
    client.send(POST);
    let (mut peer, _) = upstream.next_request();
    assert_eq!(peer.take(5), b"hello", "seen before anything was sent, it is not even a retry");
    peer.send(OK);
    assert_eq!(client.answer().1, "ok");

    client.send(GET);
    peer.head();
    drop(peer);
    let (mut peer, _) = upstream.next_request();
    peer.send(OK);
    assert_eq!(client.answer().1, "ok", "what may be done twice is");

    client.send(POST);
    peer.head();
    drop(peer);
    expect(&mut client, "502 Bad Gateway");
    upstream.expect_no_connection();
}

#[test]
fn a_disconnected_client_cancels_its_upstream_request() {
    let upstream = Upstream::new();
    let proxy = Proxy::to(&upstream);
    let client = proxy.send(GET);
    let (mut peer, _) = upstream.next_request();
    client.reset();
    assert_eq!(peer.rest(), "", "the upstream learns it");

    let mut client = proxy.send(GET);
    let (mut peer, _) = upstream.next_request();
    peer.send(OK);
    client.answer();
    client.send(GET);
    peer.head();
    client.reset();
    assert_eq!(peer.rest(), "", "also of a connection that has served before");
}

/// Requests without a body take a faster path, which is tested here.
#[test]
fn failures_on_a_reused_connection_equal_those_on_a_new_one() {
    let upstream = Upstream::new();
    let proxy = Proxy::with(&[upstream.address], "first_byte_timeout = \"200ms\"");
    let mut client = proxy.send(GET);
    let (mut peer, _) = upstream.next_request();
    peer.send(OK);
    client.answer();

    client.send(GET);
    peer.head();
    peer.send("HTTP/1.1 103 Early Hints\r\n\r\nHTTP/1.1 10");
    assert_eq!(client.head(), "HTTP/1.1 103 Early Hints\n");
    peer.send(format!("2 Processing\r\n\r\n{OK}"));
    assert_eq!(client.head(), "HTTP/1.1 102 Processing\n", "one of several, in pieces");
    assert_eq!(client.answer().1, "ok");

    client.send(GET.repeat(2));
    peer.head();
    peer.send(OK);
    assert_eq!(client.answer().1, "ok", "while the next request waits");
    peer.head();
    peer.send("HTTP/1.1 200 ");
    expect(&mut client, "504 Gateway Timeout");
    assert_eq!(peer.rest(), "", "its connection is over");
}

#[test]
fn a_broken_body_is_the_clients_fault() {
    let upstream = Upstream::new();
    let proxy = Proxy::streaming(&upstream);
    let mut client =
        proxy.send("POST / HTTP/1.1\r\nHost: a\r\nTransfer-Encoding: chunked\r\n\r\n1\r\na\r\n");
    let (mut peer, _) = upstream.next_request();
    assert_eq!(peer.chunk(), "a");
    client.send("nonsense\r\n");
    assert!(client.head().starts_with("HTTP/1.1 400 "));
    assert_eq!(peer.rest(), "", "without its last chunk it is no whole body there");
}

#[test]
fn the_sites_error_page_replaces_upstream_failures() {
    let root = std::env::temp_dir().join(format!("hurtle-pages-{}", std::process::id()));
    std::fs::create_dir_all(&root).unwrap();
    std::fs::write(root.join("down.html"), "back soon").unwrap();
    let proxy = Proxy::of(
        "",
        &format!(
            "proxy = \"unix:/nowhere/app.sock\"\n[site.errors]\n502 = \"/pages/down.html\"\n\
             [[site.mount]]\npath = \"/pages\"\nfiles = {root:?}"
        ),
    );
    let (head, body) = proxy.send(GET).answer();
    assert!(head.starts_with("HTTP/1.1 502 ") && head.contains("text/html"), "{head}");
    assert_eq!(body, "back soon");
    let _ = std::fs::remove_dir_all(&root);
}

#[test]
fn bytes_after_a_bodiless_response_are_not_the_next_response() {
    let upstream = Upstream::new();
    let proxy = Proxy::to(&upstream);
    for odd in [
        "HTTP/1.1 204 No Content\r\nContent-Length: 5\r\n\r\n",
        "HTTP/1.1 204 No Content\r\nTransfer-Encoding: chunked\r\n\r\n",
        "HTTP/1.1 304 Not Modified\r\nTransfer-Encoding: chunked\r\n\r\n",
    ] {
        let mut client = proxy.send(GET);
        let (mut peer, _) = upstream.next_request();
        peer.send(odd);
        assert!(client.head().starts_with("HTTP/1.1 "));
        assert_eq!(peer.rest(), "", "the connection is over: {odd}");
    }
}

#[test]
fn another_upstream_is_tried_in_place_of_a_listed_status() {
    let busy = "HTTP/1.1 503 Service Unavailable\r\nContent-Length: 4\r\n\r\nbusy";
    let (get, put, post) = (GET, POST.replace("POST", "PUT"), POST);
    // The request, the keys of the mount, the first response, and whether another upstream gets the
    // request.
    let table: [(&str, &str, &str, &str, bool); 7] = [
        ("a listed status", get, "retry_status = 503", busy, true),
        ("a class", get, "retry_status = [\"5xx\"]", busy, true),
        ("with a body", &put, "retry_status = 503", busy, true),
        ("before it is stored", get, "retry_status = 503\ncache = {}", busy, true),
        ("another status", get, "retry_status = [500, 502]", busy, false),
        ("a method that must not be repeated", post, "retry_status = 503", busy, false),
        ("by default", get, "", busy, false),
    ];
    for (sentence, request, keys, response, is_retried) in table {
        let (one, other) = (Upstream::new(), Upstream::new());
        let proxy = Proxy::with(&[one.address, other.address], keys);
        let mut client = proxy.send(request);
        let (mut peer, _) = one.next_request();
        peer.send(response);
        if is_retried {
            let (mut peer, head) = other.next_request();
            assert!(head.starts_with(&request[..4]), "{sentence}: {head}");
            if head.starts_with("PUT") {
                assert_eq!(peer.take(5), b"hello", "{sentence}: with its body");
            }
            peer.send(OK);
            assert_eq!(client.answer().1, "ok", "{sentence}");
        } else {
            let (head, body) = client.answer();
            assert!(head.starts_with("HTTP/1.1 503 ") && body == "busy", "{sentence}: {head}");
            other.expect_no_connection();
        }
    }
}

#[test]
fn the_response_of_the_last_upstream_is_passed_on() {
    let (one, other) = (Upstream::new(), Upstream::new());
    let proxy = Proxy::with(&[one.address, other.address], "retry_status = [502, 503]");
    let mut client = proxy.send(GET);
    let (mut peer, _) = one.next_request();
    peer.send("HTTP/1.1 503 Service Unavailable\r\nContent-Length: 0\r\n\r\n");
    let (mut peer, _) = other.next_request();
    peer.send("HTTP/1.1 502 Bad Gateway\r\nContent-Length: 4\r\n\r\nlast");
    let (head, body) = client.answer();
    assert!(head.starts_with("HTTP/1.1 502 ") && body == "last", "{head}");
    one.expect_no_connection();
}
