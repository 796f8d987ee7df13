//! Tests of stale responses: validated, sent during the validation, or sent if the upstream fails.

use super::{Pair, get, has};

const OLD: &str = "Cache-Control: max-age=60\r\nAge: 61\r\nETag: \"v1\"\r\nX-A: old\r\n";
const STILL_GOOD: &str = "HTTP/1.1 304 Not Modified\r\nCache-Control: max-age=60\r\nX-A: new\r\nConnection: close\r\n\r\n";

#[test]
fn a_304_makes_it_fresh_and_updates_its_fields() {
    let pair = Pair::new();
    pair.fetch(&get("/", ""), OLD, "body");
    let mut client = pair.proxy.send(get("/", ""));
    let (mut peer, head) = pair.upstream.next_request();
    has(&head, "If-None-Match: \"v1\"");
    peer.send(STILL_GOOD);
    let (head, body) = client.answer();
    assert_eq!(body, "body");
    has(&head, "X-A: new");
    has(&head, "Cache-Status: hurtle; fwd=stale; fwd-status=304; stored");
    assert!(!head.contains("Age: 6"), "{head}");
    let (head, body) = pair.hit(&get("/", ""));
    assert_eq!(body, "body");
    has(&head, "X-A: new");
    has(&head, "ETag: \"v1\"");
}

#[test]
fn a_200_replaces_it() {
    let pair = Pair::new();
    pair.fetch(&get("/", ""), OLD, "old");
    let (head, body) = pair.fetch(&get("/", ""), "Cache-Control: max-age=60\r\n", "new");
    assert_eq!(body, "new");
    has(&head, "Cache-Status: hurtle; fwd=stale; stored");
    assert_eq!(pair.hit(&get("/", "")).1, "new");
}

#[test]
fn stale_while_revalidate() {
    let pair = Pair::new();
    let fields = OLD.replace("max-age=60", "max-age=60, stale-while-revalidate=60");
    pair.fetch(&get("/", ""), &fields, "body");
    let (head, body) = pair.proxy.send(get("/", "")).answer();
    assert_eq!(body, "body");
    assert!(head.contains("Cache-Status: hurtle; hit; ttl=-"), "{head}");
    let (mut peer, _) = pair.upstream.next_request();
    // Several requests in the meantime cause one revalidation.
    for _ in 0..5 {
        assert_eq!(pair.hit(&get("/", "")).1, "body");
    }
    peer.send(STILL_GOOD);
    let renewed = |_| pair.hit(&get("/", "")).0.contains("X-A: new");
    assert!((0..10_000).any(renewed), "what was learnt is not used");
    pair.upstream.expect_no_connection();
}

#[test]
fn stale_if_error() {
    let pair = Pair::with("cache = {}\nfirst_byte_timeout = \"100ms\"");
    let fields = OLD.replace("max-age=60", "max-age=60, stale-if-error=60");
    pair.fetch(&get("/", ""), &fields, "body");
    for (sentence, answer) in [
        ("an error", "HTTP/1.1 500 x\r\nContent-Length: 0\r\nConnection: close\r\n\r\n"),
        ("no answer", ""),
        ("nonsense", "what?\r\n\r\n"),
    ] {
        let mut client = pair.proxy.send(get("/", ""));
        let (mut peer, _) = pair.upstream.next_request();
        peer.send(answer);
        // The peer stays open, since a closed connection would be retried.
        let (head, body) = client.answer();
        assert_eq!(body, "body", "{sentence}: {head}");
        assert!(head.contains("detail=stale-if-error"), "{sentence}: {head}");
    }
    let Pair { upstream, proxy } = pair;
    drop(upstream);
    assert_eq!(proxy.send(get("/", "")).answer().1, "body", "nobody is there");
}

/// Regression: it was forwarded to the upstream that does not respond.
#[test]
fn stale_if_error_for_a_request_that_waits_too_long() {
    let pair = Pair::with("cache = {}");
    let fields = OLD.replace("max-age=60", "max-age=60, stale-if-error=60");
    pair.fetch(&get("/", ""), &fields, "body");
    let _first = pair.proxy.send(get("/", ""));
    let _peer = pair.upstream.next_request();
    let (head, body) = pair.proxy.send(get("/", "")).answer();
    assert_eq!(body, "body", "{head}");
    assert!(head.contains("detail=stale-if-error"), "{head}");
}

/// Regression: it got a 503 of this server.
#[test]
fn a_request_that_refuses_stale_responses_gets_the_upstream_s_error() {
    let pair = Pair::new();
    let fields = OLD.replace("max-age=60", "max-age=60, stale-if-error=60");
    pair.fetch(&get("/", ""), &fields, "body");
    let mut first = pair.proxy.send(get("/", ""));
    let (mut peer, _) = pair.upstream.next_request();
    let mut second = pair.proxy.send(get("/", "Cache-Control: no-cache\r\n"));
    // By then the second waits for the first one's fetch.
    pair.fetch(&get("/other", ""), OLD, "other");
    let error = "HTTP/1.1 503 x\r\nContent-Length: 4\r\nConnection: close\r\n\r\noops";
    peer.send(error);
    assert_eq!(first.answer().1, "body");
    let (mut peer, _) = pair.upstream.next_request();
    peer.send(error);
    let (head, body) = second.answer();
    assert_eq!(body, "oops", "{head}");
}

/// Regression: the stored body had the tag of the other version from then on.
#[test]
fn a_304_of_another_version_updates_nothing() {
    let pair = Pair::new();
    let rows = [("/a", "\"v2\"", true), ("/b", "\"v1\"", false), ("/c", "W/\"v2\"", false)];
    for (path, tag, is_other) in rows {
        pair.fetch(&get(path, ""), OLD, "body");
        let mut client = pair.proxy.send(get(path, ""));
        let (mut peer, head) = pair.upstream.next_request();
        has(&head, "If-None-Match: \"v1\"");
        peer.send(STILL_GOOD.replace("X-A", &format!("ETag: {tag}\r\nX-A")));
        let (head, body) = client.answer();
        assert_eq!(body, "body", "{tag}");
        has(&head, if is_other { "ETag: \"v1\"" } else { "X-A: new" });
        if is_other {
            let mut client = pair.proxy.send(get(path, ""));
            let (mut peer, head) = pair.upstream.next_request();
            assert!(!head.contains("If-None-Match"), "{head}");
            peer.send("HTTP/1.1 200 OK\r\nContent-Length: 3\r\nConnection: close\r\n\r\nnew");
            assert_eq!(client.answer().1, "new");
        }
    }
}

#[test]
fn errors_are_relayed_without_stale_if_error() {
    let pair = Pair::new();
    pair.fetch(&get("/", ""), OLD, "body");
    let mut client = pair.proxy.send(get("/", ""));
    let (mut peer, _) = pair.upstream.next_request();
    peer.send("HTTP/1.1 500 x\r\nContent-Length: 4\r\nConnection: close\r\n\r\noops");
    let (head, body) = client.answer();
    assert!(head.starts_with("HTTP/1.1 500 "), "{head}");
    assert_eq!(body, "oops", "it is the upstream's own answer");
    // The failure is not remembered: the next good response is stored.
    pair.fetch(&get("/", ""), "Cache-Control: max-age=60\r\n", "new");
    assert_eq!(pair.hit(&get("/", "")).1, "new");
}
