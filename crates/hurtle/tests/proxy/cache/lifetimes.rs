//! Tests of lifetimes by status (RFC 9111 4.2.2).

use super::{MINUTE, Pair, get, has};

const LIFETIMES: &str = "cache = { lifetimes = { 200 = '10m', 404 = '1m', 410 = 0, any = '5m' } }";

/// Sends a request whose response has a status, and returns the client's response.
#[track_caller]
fn fetch(pair: &Pair, request: &str, status: &str, fields: &str) -> (String, String) {
    let mut client = pair.proxy.send(request);
    let (mut peer, _) = pair.upstream.next_request();
    peer.send(format!(
        "HTTP/1.1 {status}\r\n{fields}Content-Length: 5\r\nConnection: close\r\n\r\nfirst"
    ));
    client.answer()
}

/// Returns `ttl` of a hit's Cache-Status, in seconds.
fn ttl(head: &str) -> Option<i64> {
    head.split_once("Cache-Status: hurtle; hit; ttl=")?.1.lines().next()?.parse().ok()
}

#[test]
fn a_response_without_a_lifetime_has_that_of_its_status() {
    const CHANGED: &str = "Last-Modified: Sun, 06 Nov 1994 08:49:37 GMT\r\n";
    let pair = Pair::with(LIFETIMES);
    // The lifetime in seconds; `None`: the response is not stored.
    #[rustfmt::skip]
    let rows = [
        ("a status that has one", "200 OK", "", Some(600)),
        ("another", "404 Not Found", "", Some(60)),
        ("one without, by `any`", "302 Found", "", Some(300)),
        ("a failure, by `any`", "503 Service Unavailable", "", Some(300)),
        ("0 forbids to store it", "410 Gone", "", None),
        ("it precedes the time since Last-Modified", "200 OK", CHANGED, Some(600)),
        ("4.2.1: max-age precedes it", "200 OK", MINUTE, Some(60)),
        ("4.2.1: max-age precedes 0", "410 Gone", MINUTE, Some(60)),
        ("4.2.1: a lifetime of 0 is explicit", "200 OK", "Cache-Control: max-age=0\r\n", None),
        ("5.3: an invalid Expires is in the past", "200 OK", "Expires: 0\r\n", None),
        ("4.2.3: Age counts", "200 OK", "Age: 100\r\n", Some(500)),
        ("4.2.3: it is older than that", "200 OK", "Age: 601\r\n", Some(-1)),
        ("5.2.2.5", "200 OK", "Cache-Control: no-store\r\n", None),
        ("5.2.2.7", "200 OK", "Cache-Control: private\r\n", None),
        ("5.2.2.4", "200 OK", "Cache-Control: no-cache\r\n", None),
        ("4.1", "200 OK", "Vary: *\r\n", None),
        ("7.3: a cookie", "200 OK", "Set-Cookie: a=b\r\n", None),
        ("7.3: a cookie, and `public`", "200 OK", "Set-Cookie: a=b\r\nCache-Control: public\r\n", Some(600)),
        ("a question for credentials is not in `any`", "401 Unauthorized", "", None),
    ];
    for (number, (sentence, status, fields, expected)) in rows.into_iter().enumerate() {
        let request = get(&format!("/{number}"), "");
        let (head, _) = fetch(&pair, &request, status, fields);
        let is_stored =
            head.lines().any(|line| line == "Cache-Status: hurtle; fwd=uri-miss; stored");
        assert_eq!(is_stored, expected.is_some(), "{sentence}: {head}");
        if let Some(expected) = expected.filter(|ttl| *ttl > 0) {
            let (head, body) = pair.hit(&request);
            assert!(head.starts_with(&format!("HTTP/1.1 {status}")[..12]), "{sentence}: {head}");
            let ttl = ttl(&head).unwrap_or_else(|| panic!("{sentence}: {head}"));
            assert!((expected - 20..=expected).contains(&ttl), "{sentence}: {head}");
            assert!(head.contains("Age: ") && body == "first", "{sentence}: {head}");
        } else {
            assert_eq!(fetch(&pair, &request, "200 OK", MINUTE).1, "first", "{sentence}");
        }
    }
}

#[test]
fn a_request_with_authorization_is_not_stored_for_others() {
    let pair = Pair::with(LIFETIMES);
    let (head, _) = fetch(&pair, &get("/", "Authorization: x\r\n"), "200 OK", "");
    has(&head, "Cache-Status: hurtle; fwd=uri-miss; detail=authorization");
}

#[test]
fn a_status_without_a_lifetime_is_not_stored() {
    let pair = Pair::with("cache = { lifetimes = { 200 = '1m' } }");
    let (head, _) = fetch(&pair, &get("/", ""), "404 Not Found", "");
    has(&head, "Cache-Status: hurtle; fwd=uri-miss; detail=no-lifetime");
    // Requests for this path do not wait for each other for half a minute.
    let (head, _) = fetch(&pair, &get("/", ""), "200 OK", "");
    has(&head, "Cache-Status: hurtle; fwd=bypass; detail=uncacheable");
}

#[test]
fn a_stale_response_is_validated_and_fresh_again() {
    let pair = Pair::with("cache = { lifetimes = { 200 = '10m' } }");
    fetch(&pair, &get("/", ""), "200 OK", "ETag: \"a\"\r\nAge: 600\r\n");
    let mut client = pair.proxy.send(get("/", ""));
    let (mut peer, head) = pair.upstream.next_request();
    has(&head, "If-None-Match: \"a\"");
    peer.send("HTTP/1.1 304 Not Modified\r\nETag: \"a\"\r\nAge: 0\r\nConnection: close\r\n\r\n");
    assert_eq!(client.answer().1, "first");
    let (head, _) = pair.hit(&get("/", ""));
    assert!(ttl(&head).is_some_and(|ttl| (580..=600).contains(&ttl)), "{head}");
}

#[test]
fn a_part_has_the_lifetime_of_the_whole() {
    let pair = Pair::with("cache = { lifetimes = { 200 = '10m' } }");
    let request = get("/", "Range: bytes=0-4\r\n");
    let part = "ETag: \"a\"\r\nContent-Range: bytes 0-4/9\r\n";
    fetch(&pair, &request, "206 Partial Content", part);
    let (head, body) = pair.hit(&request);
    assert!(ttl(&head).is_some_and(|ttl| (580..=600).contains(&ttl)) && body == "first", "{head}");
}
