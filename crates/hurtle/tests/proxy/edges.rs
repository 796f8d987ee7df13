//! Edges of the protocol on the way to an upstream: hop counts, versions, hosts, expectations,
//! interim responses, raw bytes, and races with idle connections.

use crate::support::{GET, OK, Proxy, Upstream};

/// Sends a request and returns its head as the upstream gets it, after a response.
#[track_caller]
fn forwarded(proxy: &Proxy, upstream: &Upstream, request: impl AsRef<[u8]>) -> String {
    let mut client = proxy.send(request);
    let (mut peer, head) = upstream.next_request();
    peer.send(OK);
    assert!(client.head().starts_with("HTTP/1.1 200 "), "{head}");
    head
}

#[test]
fn max_forwards_counts_the_hops_of_options() {
    let upstream = Upstream::new();
    let proxy = Proxy::to(&upstream);
    let request = |method: &str, hops: &str| {
        format!("{method} /a HTTP/1.1\r\nHost: a\r\nMax-Forwards: {hops}\r\n\r\n")
    };
    let rows = [
        ("one hop is used", "OPTIONS", "5", "5-1"),
        ("the last one", "OPTIONS", "1", "1-1"),
        ("a malformed number is not touched", "OPTIONS", "x", "x"),
        ("a number has no meaning for other methods", "GET", "5", "5"),
    ];
    for (sentence, method, hops, expected) in rows {
        // Twice, because a repeated header section is cached.
        for _ in 0..3 {
            let head = forwarded(&proxy, &upstream, request(method, hops));
            let expected = match expected.split_once('-') {
                Some((number, _)) => (number.parse::<u32>().unwrap() - 1).to_string(),
                None => expected.to_owned(),
            };
            assert!(head.contains(&format!("Max-Forwards: {expected}\n")), "{sentence}: {head}");
        }
    }
    let mut client = proxy.send(request("OPTIONS", "0"));
    let head = client.head();
    assert!(head.starts_with("HTTP/1.1 204 "), "{head}");
    assert!(head.contains("Allow: GET, HEAD, POST, PUT, PATCH, DELETE, OPTIONS\n"), "{head}");
    let mut client = proxy.send(request("TRACE", "0"));
    assert!(client.head().starts_with("HTTP/1.1 405 "));
    upstream.expect_no_connection();
}

#[test]
fn via_has_the_version_of_the_request_and_no_host_is_invented() {
    let upstream = Upstream::new();
    let proxy = Proxy::to(&upstream);
    let rows = [
        ("HTTP/1.1", "GET / HTTP/1.1\r\nHost: a\r\n\r\n", "Via: 1.1 hurtle", Some("a")),
        ("HTTP/1.0 with Host", "GET / HTTP/1.0\r\nHost: a\r\n\r\n", "Via: 1.0 hurtle", Some("a")),
        ("HTTP/1.0 without Host", "GET / HTTP/1.0\r\n\r\n", "Via: 1.0 hurtle", None),
    ];
    for (sentence, request, via, host) in rows {
        let head = forwarded(&proxy, &upstream, request);
        assert!(head.contains(&format!("{via}\n")), "{sentence}: {head}");
        let named = head.lines().find_map(|line| line.strip_prefix("X-Forwarded-Host: "));
        assert_eq!(named, host, "{sentence}: {head}");
        assert_eq!(head.contains(";host="), host.is_some(), "{sentence}: {head}");
        assert!(head.contains(";proto=http\n"), "{sentence}: {head}");
    }
    // The versions may change within a connection.
    let mut client = proxy.send("GET / HTTP/1.0\r\nHost: a\r\nConnection: keep-alive\r\n\r\n");
    let (mut peer, head) = upstream.next_request();
    assert!(head.contains("Via: 1.0 hurtle\n"), "{head}");
    peer.send(OK);
    client.answer();
    client.send(GET);
    let head = peer.head();
    assert!(head.contains("Via: 1.1 hurtle\n"), "{head}");
    peer.send(OK);
    client.answer();
}

#[test]
fn raw_bytes_of_a_target_reach_the_upstream_encoded() {
    let upstream = Upstream::new();
    let proxy = Proxy::to(&upstream);
    let head = forwarded(
        &proxy,
        &upstream,
        b"GET /caf\xc3\xa9/\xff?q=\xe4%20\xe4 HTTP/1.1\r\nHost: a\r\n\r\n",
    );
    assert!(head.starts_with("GET /caf%C3%A9/%FF?q=%E4%20%E4 HTTP/1.1\n"), "{head}");
    // A redirect keeps the query, too.
    let site = "[[site.rule]]\nmatch = \"/old\"\nredirect = \"/new\"\n";
    let proxy = Proxy::of_site(site, "respond = \"\"");
    let mut client = proxy.send(b"GET /old?q=\xe4 HTTP/1.1\r\nHost: a\r\n\r\n");
    let head = client.head();
    assert!(head.contains("Location: /new?q=%E4\n"), "{head}");
}

#[test]
fn an_expectation_whose_body_has_come_does_not_wait() {
    let upstream = Upstream::new();
    let proxy = Proxy::streaming(&upstream);
    let head = "POST / HTTP/1.1\r\nHost: a\r\nExpect: 100-continue\r\nContent-Length: 5\r\n\r\n";
    for (with_head, later) in [("hello", ""), ("hel", "lo")] {
        let mut client = proxy.send(format!("{head}{with_head}"));
        let (mut peer, _) = upstream.next_request();
        assert_eq!(peer.take(with_head.len()), with_head.as_bytes());
        client.send(later);
        assert_eq!(peer.take(later.len()), later.as_bytes());
        // The client does not wait for this one any more. After a second without the body, hurtle
        // would have sent one itself.
        peer.send(format!("HTTP/1.1 100 Continue\r\n\r\n{OK}"));
        let head = client.head();
        assert!(head.starts_with("HTTP/1.1 200 "), "{with_head}: {head}");
    }
}

#[test]
fn a_response_before_the_body_has_no_100_continue_within() {
    let upstream = Upstream::new();
    let proxy = Proxy::streaming(&upstream);
    let mut client = proxy
        .send("POST / HTTP/1.1\r\nHost: a\r\nExpect: 100-continue\r\nContent-Length: 5\r\n\r\n");
    let (mut peer, _) = upstream.next_request();
    peer.send("HTTP/1.1 200 OK\r\nContent-Length: 4\r\n\r\nbo");
    assert!(client.head().starts_with("HTTP/1.1 200 "));
    assert_eq!(client.take(2), b"bo");
    peer.send("dy");
    assert_eq!(client.rest(), "dy");
}

#[test]
fn a_slow_request_may_have_many_interim_responses() {
    let upstream = Upstream::new();
    let proxy = Proxy::to(&upstream);
    let mut client = proxy.send(GET);
    let (mut peer, _) = upstream.next_request();
    for _ in 0..100 {
        peer.send("HTTP/1.1 102 Processing\r\n\r\n");
        assert!(client.head().starts_with("HTTP/1.1 102 "));
    }
    peer.send(OK);
    assert!(client.head().starts_with("HTTP/1.1 200 "));
    // Without end they fail the request.
    let mut client = proxy.send("GET / HTTP/1.0\r\n\r\n");
    peer.head();
    peer.send("HTTP/1.1 102 Processing\r\n\r\n".repeat(1_001));
    assert!(client.head().starts_with("HTTP/1.1 502 "));
}

#[test]
fn a_cache_takes_expires_in_every_form() {
    let upstream = Upstream::new();
    let proxy = Proxy::of("", &format!("proxy = \"http://{}\"\ncache = {{}}", upstream.address));
    let rows = [
        ("asctime", "Fri Jan  1 00:00:00 2066"),
        // Those of the public test suite for caches have the wrong weekday.
        ("asctime with another weekday", "Thu Aug  8 02:01:18 2050"),
        ("RFC 850", "Thursday, 18-Aug-50 02:01:18 GMT"),
    ];
    for (n, (sentence, expires)) in rows.into_iter().enumerate() {
        let get = format!("GET /{n} HTTP/1.1\r\nHost: a\r\n\r\n");
        let mut client = proxy.send(&get);
        let (mut peer, _) = upstream.next_request();
        peer.send(format!(
            "HTTP/1.1 200 OK\r\nExpires: {expires}\r\nContent-Length: 2\r\n\
             Connection: close\r\n\r\nok"
        ));
        client.answer();
        client.send(&get);
        let (head, _) = client.answer();
        assert!(head.contains("Cache-Status: hurtle; hit"), "{sentence}: {head}");
    }
}
