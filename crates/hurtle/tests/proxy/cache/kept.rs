//! Tests of stored responses: conditions for storing, matching requests, fields and bodies.

use super::{MINUTE, Pair, get, has, reply};
use crate::client::Client;

#[test]
fn responses_that_are_stored_and_reused() {
    let pair = Pair::new();
    #[rustfmt::skip]
    let rows = [
        ("RFC 9111 5.2.2.1: fresh", MINUTE, "", "", true),
        ("4.2.2: no heuristic by default", "Last-Modified: Sun, 06 Nov 1994 08:49:37 GMT\r\n", "", "", false),
        ("5.3 Expires", "Expires: Fri, 31 Dec 9999 23:59:59 GMT\r\n", "", "", true),
        ("5.3: long past", "Expires: 0\r\n", "", "", false),
        ("5.2.2.5 no-store", "Cache-Control: max-age=60, no-store\r\n", "", "", false),
        ("5.2.2.7 private", "Cache-Control: max-age=60, private\r\n", "", "", false),
        ("5.2.2.4 no-cache", "Cache-Control: max-age=60, no-cache\r\n", "", "", false),
        ("5.2.2.10 s-maxage", "Cache-Control: max-age=0, s-maxage=60\r\n", "", "", true),
        ("4.2.3: stale on arrival, by Age", "Cache-Control: max-age=60\r\nAge: 61\r\n", "", "", false),
        ("4.2.3: fresh, with an Age", "Cache-Control: max-age=60\r\nAge: 30\r\n", "", "", true),
        ("4.2.3: stale on arrival, by Date", "Cache-Control: max-age=60\r\nDate: Sun, 06 Nov 1994 08:49:37 GMT\r\n", "", "", false),
        ("5.1: of two lines of Age the first", "Cache-Control: max-age=60\r\nAge: 61\r\nAge: 0\r\n", "", "", false),
        ("5.1: though the second is larger", "Cache-Control: max-age=60\r\nAge: 0\r\nAge: 61\r\n", "", "", true),
        ("5.1: of a list the first", "Cache-Control: max-age=60\r\nAge: 61, 0\r\n", "", "", false),
        ("4.2: Expires in any case", "Expires: FRI, 31 dec 9999 23:59:59 gmt\r\n", "", "", true),
        ("5.2.2.3: must-understand", "Cache-Control: max-age=60, no-store, must-understand\r\n", "", "", true),
        ("RFC 9213: a lifetime for this cache", "CDN-Cache-Control: max-age=60\r\n", "", "", true),
        ("RFC 9213 2.2: against no-store", "Cache-Control: no-store\r\nCDN-Cache-Control: max-age=60\r\n", "", "", true),
        ("RFC 9213 2.2: against a past Expires", "CDN-Cache-Control: max-age=60\r\nExpires: 0\r\n", "", "", true),
        ("RFC 9213 2.2: private", "CDN-Cache-Control: private\r\nCache-Control: max-age=60\r\n", "", "", false),
        ("RFC 9213 2.2: no-cache", "CDN-Cache-Control: no-cache\r\nCache-Control: max-age=60\r\n", "", "", false),
        ("RFC 9213 2.2: no-store", "CDN-Cache-Control: no-store\r\nCache-Control: max-age=60\r\n", "", "", false),
        ("RFC 9213 2.2: stale at once", "CDN-Cache-Control: max-age=0\r\nExpires: Fri, 31 Dec 9999 23:59:59 GMT\r\n", "", "", false),
        ("RFC 9213 2.1: invalid, thus ignored", "CDN-Cache-Control: max-age=\"0\"\r\nCache-Control: max-age=60\r\n", "", "", true),
        ("5.2.1.4: the client's no-cache", MINUTE, "", "Cache-Control: no-cache\r\n", false),
        ("5.4: Pragma", MINUTE, "", "Pragma: no-cache\r\n", false),
        ("5.2.1.1: the client's max-age", "Cache-Control: max-age=60\r\nAge: 20\r\n", "", "Cache-Control: max-age=10\r\n", false),
        ("5.2.1.2: max-stale", "Cache-Control: max-age=60\r\nAge: 70\r\n", "", "Cache-Control: max-stale=100\r\n", true),
        ("5.2.2.2: max-stale against must-revalidate", "Cache-Control: max-age=60, must-revalidate\r\nAge: 70\r\n", "", "Cache-Control: max-stale=100\r\n", false),
        ("5.2.1.5: the client's no-store", MINUTE, "Cache-Control: no-store\r\n", "", false),
        ("3.5: a request with Authorization", MINUTE, "Authorization: Basic eA==\r\n", "", false),
        ("3.5: a request with Authorization, and `public`", "Cache-Control: public, max-age=60\r\n", "Authorization: Basic eA==\r\n", "", true),
        ("3.5: a stored response answers a request with Authorization", MINUTE, "", "Authorization: Basic eA==\r\n", true),
        ("7.3: a cookie", "Cache-Control: max-age=60\r\nSet-Cookie: a=b\r\n", "", "", false),
        ("7.3: a cookie, and `public`", "Cache-Control: max-age=60, public\r\nSet-Cookie: a=b\r\n", "", "", true),
        ("4.1: Vary: *", "Cache-Control: max-age=60\r\nVary: *\r\n", "", "", false),
        ("4.1: the same value", "Cache-Control: max-age=60\r\nVary: X-A\r\n", "X-A: 1\r\n", "X-A:   1\r\n", true),
        ("4.1: another value", "Cache-Control: max-age=60\r\nVary: X-A\r\n", "X-A: 1\r\n", "X-A: 2\r\n", false),
        ("4.1: the case of another field counts", "Cache-Control: max-age=60\r\nVary: X-A\r\n", "X-A: a,b\r\n", "X-A: A,b\r\n", false),
        ("4.1: languages have no case", "Cache-Control: max-age=60\r\nVary: Accept-Language\r\n", "Accept-Language: en, de\r\n", "Accept-Language: EN, De\r\n", true),
        ("4.1: codings may have spaces between", "Cache-Control: max-age=60\r\nVary: Accept-Encoding\r\n", "Accept-Encoding: gzip, br\r\n", "Accept-Encoding: gzip,br\r\n", true),
        ("4.1: the order of codings counts", "Cache-Control: max-age=60\r\nVary: Accept-Encoding\r\n", "Accept-Encoding: gzip, br\r\n", "Accept-Encoding: br, gzip\r\n", false),
        ("4.1: no value", "Cache-Control: max-age=60\r\nVary: X-A\r\n", "X-A: 1\r\n", "", false),
        ("4.1: a field that this server rewrites", "Cache-Control: max-age=60\r\nVary: X-Forwarded-For\r\n", "", "", false),
        ("X-Forwarded-Host is no part of the key", MINUTE, "X-Forwarded-Host: evil\r\n", "", true),
        ("4.3.2: the origin evaluates If-Match", MINUTE, "", "If-Match: \"a\"\r\n", false),
    ];
    for (number, (sentence, fields, first, second, kept)) in rows.into_iter().enumerate() {
        let path = format!("/{number}");
        let (_, body) = pair.fetch(&get(&path, first), fields, "first");
        assert_eq!(body, "first", "{sentence}");
        let mut client = pair.proxy.send(get(&path, second));
        if !kept {
            let next = pair.upstream.next_request_if_any();
            reply(next.unwrap_or_else(|| panic!("{sentence}: not asked again")).0, "", "second");
        }
        let (head, body) = client.answer();
        assert_eq!(body, if kept { "first" } else { "second" }, "{sentence}: {head}");
        pair.upstream.expect_no_connection();
    }
}

#[test]
fn statuses() {
    let pair = Pair::new();
    #[rustfmt::skip]
    let rows = [
        ("RFC 9111 3: any that says how long", "599 Whatever", MINUTE, true),
        ("a failure that says how long", "503 Service Unavailable", MINUTE, true),
        ("a failure that does not", "503 Service Unavailable", "", false),
        ("a question for credentials", "401 Unauthorized", MINUTE, false),
        ("RFC 6585 4", "429 Too Many Requests", MINUTE, false),
        ("RFC 9111 5.2.2.3: unknown", "599 Whatever", "Cache-Control: max-age=60, no-store, must-understand\r\n", false),
    ];
    for (number, (sentence, status, fields, kept)) in rows.into_iter().enumerate() {
        let path = format!("/{number}");
        let mut client = pair.proxy.send(get(&path, ""));
        let (mut peer, _) = pair.upstream.next_request();
        peer.send(format!(
            "HTTP/1.1 {status}\r\n{fields}Content-Length: 5\r\nConnection: close\r\n\r\nfirst"
        ));
        assert_eq!(client.answer().1, "first", "{sentence}");
        let mut client = pair.proxy.send(get(&path, ""));
        if !kept {
            let next = pair.upstream.next_request_if_any();
            reply(next.unwrap_or_else(|| panic!("{sentence}: not asked again")).0, "", "second");
        }
        let (head, body) = client.answer();
        assert_eq!(body, if kept { "first" } else { "second" }, "{sentence}: {head}");
        assert!(
            !kept || head.starts_with(&format!("HTTP/1.1 {}", &status[..3])),
            "{sentence}: {head}"
        );
        pair.upstream.expect_no_connection();
    }
}

#[test]
fn cache_keys_are_forwarded_targets() {
    let pair = Pair::new();
    pair.fetch(&get("/a/b?x", ""), MINUTE, "1");
    #[rustfmt::skip]
    let rows = [
        ("the same target", get("/a/b?x", ""), true),
        ("another spelling, forwarded alike", get("/a/./%62?x", ""), true),
        ("another query", get("/a/b?y", ""), false),
        ("no query", get("/a/b", ""), false),
        ("another host", "GET /a/b?x HTTP/1.1\r\nHost: b\r\n\r\n".to_owned(), false),
        ("another port", "GET /a/b?x HTTP/1.1\r\nHost: a:81\r\n\r\n".to_owned(), false),
    ];
    for (sentence, request, kept) in rows {
        let body = if kept { pair.hit(&request).1 } else { pair.fetch(&request, "", "2").1 };
        assert_eq!(body == "1", kept, "{sentence}");
    }
}

#[test]
fn clients_get_the_whole_a_part_or_304() {
    let pair = Pair::new();
    let fields = "Cache-Control: max-age=60\r\nAge: 30\r\nETag: \"v1\"\r\nContent-Type: a/b\r\n\
                  Date: Fri, 31 Dec 9999 23:59:59 GMT\r\nKeep-Alive: x\r\nX-Other: 1\r\n\
                  Last-Modified: Sun, 06 Nov 1994 08:49:37 GMT\r\n";
    let (head, _) =
        pair.fetch(&get("/", "If-None-Match: \"v0\"\r\nX-A: 1\r\n"), fields, "0123456789");
    has(&head, "Cache-Status: hurtle; fwd=uri-miss; stored");
    assert!(!head.contains("Keep-Alive"), "{head}");

    let (head, body) = pair.hit(&get("/", ""));
    assert_eq!(body, "0123456789");
    has(&head, "ETag: \"v1\"");
    has(&head, "X-Other: 1");
    assert!(head.contains("Cache-Status: hurtle; hit; ttl="), "{head}");
    let age = head.lines().find_map(|line| line.strip_prefix("Age: ")).unwrap();
    assert!((30..60).contains(&age.parse::<u64>().unwrap()), "{head}");
    assert_eq!(head.matches("Age: ").count(), 1, "{head}");

    let (head, body) = pair.hit(&get("/", "If-None-Match: \"v1\"\r\n"));
    assert!(head.starts_with("HTTP/1.1 304 ") && body.is_empty(), "{head}");
    has(&head, "ETag: \"v1\"");
    assert!(!head.contains("Content-"), "{head}");
    let since = "If-Modified-Since: Sun, 06 Nov 1994 08:49:37 GMT\r\n";
    assert!(pair.hit(&get("/", since)).0.starts_with("HTTP/1.1 304 "));

    let (head, body) = pair.hit(&get("/", "Range: bytes=2-4\r\n"));
    assert!(head.starts_with("HTTP/1.1 206 "), "{head}");
    has(&head, "Content-Range: bytes 2-4/10");
    assert_eq!(body, "234");
    let other = pair.hit(&get("/", "Range: bytes=2-4\r\nIf-Range: \"v0\"\r\n"));
    assert_eq!(other.1, "0123456789", "a part of another would not do");
    let (head, _) = pair.hit(&get("/", "Range: bytes=10-\r\n"));
    assert!(head.starts_with("HTTP/1.1 416 "), "{head}");
    has(&head, "Content-Range: bytes */10");

    let mut client = pair.proxy.send("HEAD / HTTP/1.1\r\nHost: a\r\nConnection: close\r\n\r\n");
    has(&client.head(), "Content-Length: 10");
    assert_eq!(client.rest(), "");
    pair.upstream.expect_no_connection();
}

#[test]
fn a_fetch_drops_its_clients_preconditions() {
    let pair = Pair::new();
    let wishes = "If-None-Match: \"v1\"\r\nIf-Modified-Since: x\r\nX-A: 1\r\n";
    let mut client = pair.proxy.send(get("/", wishes));
    let head = pair.reply(&format!("{MINUTE}ETag: \"v1\"\r\n"), "body");
    assert!(head.contains("X-A: 1") && !head.contains("If-"), "{head}");
    assert!(client.head().starts_with("HTTP/1.1 304 "), "the client has it already");
    assert_eq!(pair.hit(&get("/", "")).1, "body");

    // A 206 without a strong validator is not stored.
    let mut client = pair.proxy.send(get("/part", "Range: bytes=0-0\r\n"));
    let (mut peer, head) = pair.upstream.next_request();
    assert!(head.contains("Range: bytes=0-0"), "{head}");
    peer.send(format!(
        "HTTP/1.1 206 Partial Content\r\n{MINUTE}Content-Range: bytes 0-0/9\r\n\
         Content-Length: 1\r\nConnection: close\r\n\r\na"
    ));
    assert_eq!(client.answer().1, "a");
    assert_eq!(pair.fetch(&get("/part", ""), MINUTE, "the whole").1, "the whole");
}

#[test]
fn variants_are_kept_apart_and_are_few() {
    const VARIANTS: usize = 8;
    let pair = Pair::new();
    let vary = format!("{MINUTE}Vary: Accept-Language\r\n");
    let of = |n: usize| get("/", &format!("Accept-Language: l{n}\r\n"));
    for n in 0..=VARIANTS {
        let (head, body) = pair.fetch(&of(n), &vary, &format!("body {n}"));
        assert_eq!(body, format!("body {n}"));
        let why = if n == 0 { "uri-miss" } else { "vary-miss" };
        has(&head, &format!("Cache-Status: hurtle; fwd={why}; stored"));
    }
    for n in 1..=VARIANTS {
        assert_eq!(pair.hit(&of(n)).1, format!("body {n}"));
    }
    assert_eq!(pair.fetch(&of(0), &vary, "again").1, "again", "the oldest went");
}

/// Regression: an upstream does not get a field that Connection lists, so its response was stored
/// as the variant of a value that it had not seen.
#[test]
fn a_field_that_connection_lists_selects_no_variant() {
    let pair = Pair::new();
    let vary = format!("{MINUTE}Vary: Accept-Language\r\n");
    let german = get("/", "Accept-Language: de\r\n");
    let listed = get("/", "Accept-Language: de\r\nConnection: Accept-Language\r\n");
    for body in ["unnamed", "again"] {
        assert_eq!(pair.fetch(&listed, &vary, body).1, body);
    }
    assert_eq!(pair.fetch(&german, &vary, "german").1, "german");
    assert_eq!(pair.fetch(&listed, &vary, "unnamed").1, "unnamed");
    assert_eq!(pair.hit(&german).1, "german");
    // Other options of the connection list no field that matters.
    let usual = get("/", "Accept-Language: de\r\nConnection: keep-alive, HTTP2-Settings\r\n");
    assert_eq!(pair.hit(&usual).1, "german");
}

/// Regression: the response kept the selecting fields of the Vary before.
#[test]
fn a_304_with_another_vary_is_for_matching_requests_only() {
    let pair = Pair::new();
    let origin = |origin: &str| get("/", &format!("Origin: {origin}\r\n"));
    pair.fetch(&get("/", ""), "Cache-Control: max-age=60\r\nAge: 60\r\nETag: \"a\"\r\n", "1");
    let mut client = pair.proxy.send(origin("https://a"));
    let (mut peer, head) = pair.upstream.next_request();
    has(&head, "If-None-Match: \"a\"");
    peer.send(format!(
        "HTTP/1.1 304 Not Modified\r\nETag: \"a\"\r\nVary: Origin\r\n{MINUTE}Age: 0\r\n\
         Access-Control-Allow-Origin: https://a\r\nConnection: close\r\n\r\n"
    ));
    assert_eq!(client.answer().1, "1");
    has(&pair.hit(&origin("https://a")).0, "Access-Control-Allow-Origin: https://a");
    assert_eq!(pair.fetch(&origin("https://b"), MINUTE, "2").1, "2");
}

#[test]
fn unsafe_methods_invalidate() {
    let pair = Pair::new();
    let post = "POST / HTTP/1.1\r\nHost: a\r\nContent-Length: 0\r\n\r\n";
    pair.fetch(&get("/", ""), MINUTE, "1");
    let mut client = pair.proxy.send(post);
    let (mut peer, _) = pair.upstream.next_request();
    peer.send("HTTP/1.1 500 x\r\nContent-Length: 0\r\nConnection: close\r\n\r\n");
    client.answer();
    assert_eq!(pair.hit(&get("/", "")).1, "1", "RFC 9111 4.4: nothing changed");
    let (head, _) = pair.fetch(post, "", "done");
    has(&head, "Cache-Status: hurtle; fwd=method");
    assert_eq!(pair.fetch(&get("/", ""), MINUTE, "2").1, "2", "RFC 9111 4.4");

    // A response to a request sent before the POST may be outdated if it arrives after it.
    let mut before = pair.proxy.send(get("/late", ""));
    let (peer, _) = pair.upstream.next_request();
    pair.fetch(&post.replace("/ ", "/late "), "", "done");
    reply(peer, MINUTE, "old");
    assert_eq!(before.answer().1, "old");
    assert_eq!(pair.fetch(&get("/late", ""), MINUTE, "new").1, "new");
}

#[test]
fn no_response_is_stored_without_a_cache() {
    let pair = Pair::with("");
    for body in ["1", "2"] {
        let (head, got) = pair.fetch(&get("/", ""), MINUTE, body);
        assert_eq!(got, body);
        assert!(!head.contains("Cache-Status"), "{head}");
    }
}

#[test]
fn only_if_cached() {
    let pair = Pair::new();
    let (head, _) = pair.hit(&get("/", "Cache-Control: only-if-cached\r\n"));
    assert!(head.starts_with("HTTP/1.1 504 "), "RFC 9111 5.2.1.7: {head}");
}

#[test]
fn pipelined_hits_on_one_connection() {
    let pair = Pair::new();
    let mut client: Client = pair.proxy.send(get("/", ""));
    pair.reply(MINUTE, "body");
    assert_eq!(client.answer().1, "body");
    client.send(get("/", "").repeat(50));
    for _ in 0..50 {
        assert_eq!(client.answer().1, "body");
    }
    pair.upstream.expect_no_connection();
}

#[test]
fn a_response_that_names_a_file_is_not_stored() {
    let pair = Pair::with(&format!("internal = {:?}\ncache = {{}}", std::env::temp_dir()));
    let fields = format!("{MINUTE}X-Accel-Redirect: /no-such-file\r\n");
    for _ in 0..2 {
        let (head, _) = pair.fetch(&get("/", ""), &fields, "");
        assert!(head.starts_with("HTTP/1.1 404 "), "{head}");
    }
}

#[test]
fn cache_status_says_why_a_response_is_not_stored() {
    for (fields, request, why) in [
        ("", "", "no-lifetime"),
        ("Cache-Control: max-age=60, no-store\r\n", "", "no-store"),
        ("Cache-Control: max-age=60, private\r\n", "", "private"),
        ("Cache-Control: max-age=60, no-cache\r\n", "", "no-cache"),
        ("Cache-Control: max-age=60\r\nVary: *\r\n", "", "vary"),
        ("Cache-Control: max-age=60\r\nSet-Cookie: a=b\r\n", "", "set-cookie"),
        (MINUTE, "Authorization: x\r\n", "authorization"),
        (MINUTE, "Cache-Control: no-store\r\n", "request-no-store"),
    ] {
        let pair = Pair::new();
        let (head, _) = pair.fetch(&get("/", request), fields, "body");
        has(&head, &format!("Cache-Status: hurtle; fwd=uri-miss; detail={why}"));
    }
    let pair = Pair::with("cache = { max_object = 3 }");
    let (head, _) = pair.fetch(&get("/", ""), MINUTE, "body");
    has(&head, "Cache-Status: hurtle; fwd=uri-miss; detail=size");
}

/// RFC 9112 section 6.3: such a response has no body, but a faulty upstream may send one later.
#[test]
fn a_connection_on_which_a_stray_body_may_follow_is_not_used_again() {
    let pair = Pair::new();
    let mut open = Vec::new();
    for path in ["/a", "/b", "/c"] {
        let mut client = pair.proxy.send(format!("GET {path} HTTP/1.1\r\nHost: a\r\n\r\n"));
        let (mut peer, _) = pair.upstream.next_request();
        peer.send(
            "HTTP/1.1 204 No Content\r\nCache-Control: max-age=60\r\nContent-Length: 2\r\n\r\n",
        );
        assert!(client.answer().0.starts_with("HTTP/1.1 204 "));
        open.push(peer);
    }
}
