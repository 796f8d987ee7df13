//! Parts of responses (206): stored, combined, and never mixed with those of another representation
//! (RFC 9111 sections 3.3 and 3.4).

use super::orders::{order, socket};
use super::{MINUTE, Pair, get, has};
use crate::client::Client;
use crate::support::{Proxy, Upstream};

/// The representation of all tests that do not change it.
const WHOLE: &str = "0123456789abcdefghij";
const TAG: &str = "ETag: \"v1\"\r\n";

fn range(range: &str) -> String {
    get("/", &format!("Range: bytes={range}\r\n"))
}

/// Answers with a part of `WHOLE`.
fn part(peer: &mut Client, fields: &str, (start, end): (usize, usize)) {
    let (last, len, whole) = (end - 1, end - start, WHOLE.len());
    peer.send(format!(
        "HTTP/1.1 206 Partial Content\r\n{fields}Content-Range: bytes {start}-{last}/{whole}\r\n\
         Content-Length: {len}\r\nConnection: close\r\n\r\n{}",
        &WHOLE[start..end]
    ));
}

/// Requests a range that the upstream answers, and returns the upstream's request.
#[track_caller]
fn fetch(pair: &Pair, wanted: &str, fields: &str, (start, end): (usize, usize)) -> String {
    let mut client = pair.proxy.send(range(wanted));
    let (mut peer, head) = pair.upstream.next_request();
    part(&mut peer, fields, (start, end));
    let (answer, body) = client.answer();
    assert!(answer.starts_with("HTTP/1.1 206 "), "{answer}");
    has(&answer, &format!("Content-Range: bytes {start}-{}/{}", end - 1, WHOLE.len()));
    assert_eq!(body, WHOLE[start..end]);
    head
}

/// Asserts that a range is answered from the cache.
#[track_caller]
fn hit(pair: &Pair, wanted: &str, (start, end): (usize, usize)) -> String {
    let (head, body) = pair.hit(&range(wanted));
    assert!(head.starts_with("HTTP/1.1 206 "), "{head}");
    has(&head, &format!("Content-Range: bytes {start}-{}/{}", end - 1, WHOLE.len()));
    assert!(head.contains("Cache-Status: hurtle; hit"), "{head}");
    assert_eq!(head.matches("Content-Range").count(), 1, "{head}");
    assert_eq!(body, WHOLE[start..end]);
    head
}

#[test]
fn a_part_answers_ranges_within_it_and_nothing_else() {
    let pair = Pair::new();
    let fields = format!("{MINUTE}{TAG}X-A: 1\r\n");
    let head = fetch(&pair, "5-14", &fields, (5, 15));
    has(&head, "Range: bytes=5-14");
    has(&hit(&pair, "5-14", (5, 15)), "X-A: 1");
    hit(&pair, "6-7", (6, 8));
    let (head, _) = pair.hit(&get("/", "Range: bytes=6-7\r\nIf-None-Match: \"v1\"\r\n"));
    assert!(head.starts_with("HTTP/1.1 304 "), "{head}");
    let if_range = "Range: bytes=6-7\r\nIf-Range: \"v1\"\r\n";
    assert_eq!(pair.hit(&get("/", if_range)).1, "67");
    for fields in [
        "",
        "Range: bytes=4-6\r\n",
        "Range: bytes=-1\r\n",
        "Range: bytes=5-6,8-9\r\n",
        "Range: bytes=6-7\r\nIf-Range: \"v0\"\r\n",
    ] {
        let mut client = pair.proxy.send(get("/", fields));
        // Not stored, so that each request finds the part only.
        pair.upstream
            .next_request()
            .0
            .send("HTTP/1.1 500 No\r\nContent-Length: 2\r\nConnection: close\r\n\r\nno");
        assert_eq!(client.answer().1, "no", "{fields}");
    }
    hit(&pair, "5-14", (5, 15));
}

#[test]
fn a_part_becomes_the_whole_with_the_rest() {
    let pair = Pair::new();
    fetch(&pair, "0-9", &format!("{MINUTE}{TAG}X-Old: 1\r\nX-A: 1\r\n"), (0, 10));
    fetch(&pair, "15-", &format!("{MINUTE}{TAG}X-A: 2\r\n"), (15, 20));
    hit(&pair, "-3", (17, 20));
    fetch(&pair, "8-16", &format!("{MINUTE}{TAG}X-A: 3\r\n"), (8, 17));
    let (head, body) = pair.hit(&get("/", ""));
    assert!(head.starts_with("HTTP/1.1 200 "), "{head}");
    assert_eq!(body, WHOLE);
    has(&head, "X-Old: 1");
    has(&head, "X-A: 3");
    has(&head, "Content-Length: 20");
    assert!(!head.contains("Content-Range") && !head.contains("X-A: 1"), "{head}");
    hit(&pair, "3-17", (3, 18));
}

#[test]
fn a_request_for_the_whole_fetches_it_and_replaces_parts() {
    let pair = Pair::new();
    fetch(&pair, "0-9", &format!("{MINUTE}{TAG}"), (0, 10));
    let mut client = pair.proxy.send(get("/", ""));
    let head = pair.reply(&format!("{MINUTE}{TAG}"), WHOLE);
    assert!(!head.contains("Range") && !head.contains("If-"), "{head}");
    let (head, body) = client.answer();
    has(&head, "Cache-Status: hurtle; fwd=partial; stored");
    assert_eq!(body, WHOLE);
    assert_eq!(pair.hit(&get("/", "")).1, WHOLE);
    hit(&pair, "12-", (12, 20));
}

#[test]
fn a_changed_validator_discards_the_old_parts() {
    let pair = Pair::new();
    fetch(&pair, "0-9", &format!("{MINUTE}{TAG}"), (0, 10));
    fetch(&pair, "10-19", &format!("{MINUTE}ETag: \"v2\"\r\n"), (10, 20));
    hit(&pair, "10-19", (10, 20));
    fetch(&pair, "0-9", &format!("{MINUTE}{TAG}"), (0, 10));
    hit(&pair, "0-9", (0, 10));
    // If-Range of a part that is no longer stored is for the upstream.
    let mut client = pair.proxy.send(get("/", "Range: bytes=10-19\r\nIf-Range: \"v2\"\r\n"));
    let head = pair.reply(&format!("Cache-Control: no-store\r\n{TAG}"), WHOLE);
    has(&head, "If-Range: \"v2\"");
    assert_eq!(client.answer().1, WHOLE);
}

#[test]
fn parts_that_cannot_be_trusted_are_not_stored() {
    let modified = "Date: Sun, 06 Nov 1994 08:49:37 GMT\r\nLast-Modified: Sun, 06 Nov 1994";
    let no_validator = MINUTE.to_owned();
    let weak = format!("{MINUTE}ETag: W/\"v1\"\r\n");
    let recent = format!("{modified} 08:49:30 GMT\r\n{}", "Cache-Control: max-age=9999999999\r\n");
    let no_lifetime = TAG.to_owned();
    for fields in [no_validator, weak, recent, no_lifetime] {
        let pair = Pair::new();
        fetch(&pair, "0-9", &fields, (0, 10));
        fetch(&pair, "0-9", &fields, (0, 10));
    }
    for content_range in ["bytes 0-8/20", "bytes 0-9/*", "bytes 0-9/5", "x"] {
        let pair = Pair::new();
        for _ in 0..2 {
            let mut client = pair.proxy.send(range("0-9"));
            pair.upstream.next_request().0.send(format!(
                "HTTP/1.1 206 Partial Content\r\n{MINUTE}{TAG}Content-Range: {content_range}\r\n\
                 Content-Length: 10\r\nConnection: close\r\n\r\n0123456789"
            ));
            assert_eq!(client.answer().1, "0123456789", "{content_range}");
        }
    }
    let pair = Pair::with("cache = { max_object = 19 }");
    fetch(&pair, "0-0", &format!("{MINUTE}{TAG}"), (0, 1));
    fetch(&pair, "0-0", &format!("{MINUTE}{TAG}"), (0, 1));

    // Truncated.
    let pair = Pair::new();
    let mut client = pair.proxy.send(range("0-9"));
    pair.upstream.next_request().0.send(format!(
        "HTTP/1.1 206 Partial Content\r\n{MINUTE}{TAG}Content-Range: bytes 0-9/20\r\n\
         Content-Length: 10\r\n\r\n01234"
    ));
    assert_eq!(client.rest().split("\r\n\r\n").nth(1), Some("01234"));
    fetch(&pair, "0-4", &format!("{MINUTE}{TAG}"), (0, 5));
}

#[test]
fn an_old_last_modified_is_a_strong_validator() {
    let pair = Pair::new();
    let fields = "Cache-Control: max-age=9999999999\r\nDate: Sun, 06 Nov 1994 08:49:37 GMT\r\n\
                  Last-Modified: Sun, 06 Nov 1994 08:48:37 GMT\r\n";
    fetch(&pair, "0-9", fields, (0, 10));
    fetch(&pair, "10-19", fields, (10, 20));
    assert_eq!(pair.hit(&get("/", "")).1, WHOLE);
}

#[test]
fn a_stale_part_is_validated_with_its_range() {
    let pair = Pair::new();
    fetch(&pair, "0-9", &format!("{MINUTE}{TAG}"), (0, 10));
    let wish = "Range: bytes=2-3\r\nCache-Control: no-cache\r\n";
    let mut client = pair.proxy.send(get("/", wish));
    let (mut peer, head) = pair.upstream.next_request();
    has(&head, "If-None-Match: \"v1\"");
    has(&head, "Range: bytes=2-3");
    peer.send(format!("HTTP/1.1 304 Not Modified\r\n{TAG}{MINUTE}Connection: close\r\n\r\n"));
    let (head, body) = client.answer();
    assert!(head.starts_with("HTTP/1.1 206 "), "{head}");
    assert_eq!(body, "23");
    hit(&pair, "0-9", (0, 10));

    // A part of a new representation comes at once.
    let mut client = pair.proxy.send(get("/", wish));
    let (mut peer, _) = pair.upstream.next_request();
    part(&mut peer, &format!("{MINUTE}ETag: \"v2\"\r\n"), (2, 4));
    has(&client.answer().0, "ETag: \"v2\"");
    has(&hit(&pair, "2-3", (2, 4)), "ETag: \"v2\"");
    fetch(&pair, "0-9", &format!("{MINUTE}ETag: \"v2\"\r\n"), (0, 10));
}

#[test]
fn a_part_of_the_stored_whole_makes_it_fresh() {
    let pair = Pair::new();
    pair.fetch(&get("/", ""), &format!("{MINUTE}{TAG}X-A: 1\r\n"), WHOLE);
    let wish = "Range: bytes=2-3\r\nCache-Control: no-cache\r\n";
    let mut client = pair.proxy.send(get("/", wish));
    let (mut peer, _) = pair.upstream.next_request();
    part(&mut peer, &format!("{MINUTE}{TAG}X-A: 2\r\n"), (2, 4));
    client.answer();
    let (head, body) = pair.hit(&get("/", ""));
    has(&head, "X-A: 2");
    assert_eq!(body, WHOLE);
}

#[test]
fn a_range_beyond_the_end_leaves_what_is_stored() {
    let pair = Pair::new();
    fetch(&pair, "0-9", &format!("{MINUTE}{TAG}"), (0, 10));
    let mut client = pair.proxy.send(range("99-"));
    pair.upstream.next_request().0.send(
        "HTTP/1.1 416 No\r\nContent-Range: bytes */20\r\nContent-Length: 0\r\n\
         Connection: close\r\n\r\n",
    );
    assert!(client.answer().0.starts_with("HTTP/1.1 416 "));
    hit(&pair, "0-9", (0, 10));
}

#[test]
fn requests_for_one_range_share_a_fetch_and_variants_are_apart() {
    let pair = Pair::new();
    let fields = format!("{MINUTE}{TAG}Vary: X-A\r\n");
    let request = get("/", "Range: bytes=0-9\r\nX-A: 1\r\n");
    let mut first = pair.proxy.send(&request);
    let (mut peer, _) = pair.upstream.next_request();
    let mut others: Vec<Client> = (0..20).map(|_| pair.proxy.send(&request)).collect();
    part(&mut peer, &fields, (0, 10));
    assert_eq!(first.answer().1, "0123456789");
    for other in &mut others {
        assert_eq!(other.answer().1, "0123456789");
    }
    pair.upstream.expect_no_connection();
    let mut client = pair.proxy.send(get("/", "Range: bytes=10-19\r\nX-A: 2\r\n"));
    part(&mut pair.upstream.next_request().0, &fields, (10, 20));
    assert_eq!(client.answer().1, "abcdefghij");
    assert_eq!(pair.hit(&request).1, "0123456789");
    let mut client = pair.proxy.send(get("/", "Range: bytes=10-19\r\nX-A: 1\r\n"));
    part(&mut pair.upstream.next_request().0, &fields, (10, 20));
    assert_eq!(client.answer().1, "abcdefghij");
    assert_eq!(pair.hit(&get("/", "X-A: 1\r\n")).1, WHOLE);
}

#[test]
fn a_purge_removes_parts_and_those_that_are_arriving() {
    let (upstream, socket) = (Upstream::new(), socket("parts"));
    let mount = format!("proxy = \"http://{}\"\ncache = {{}}", upstream.address);
    let proxy = Proxy::of(&format!("admin = {socket:?}"), &mount);
    let pair = Pair { upstream, proxy };
    let fields = format!("{MINUTE}{TAG}");
    fetch(&pair, "0-9", &fields, (0, 10));
    let mut client = pair.proxy.send(range("10-19"));
    let (mut peer, _) = pair.upstream.next_request();
    assert!(order(&socket, "PURGE / HTTP/1.1\r\nHost: a\r\n\r\n").ends_with("purged 1\n"));
    part(&mut peer, &fields, (10, 20));
    assert_eq!(client.answer().1, "abcdefghij");
    fetch(&pair, "10-19", &fields, (10, 20));
    fetch(&pair, "0-9", &fields, (0, 10));
    assert_eq!(pair.hit(&get("/", "")).1, WHOLE);
    let _ = std::fs::remove_file(socket);
}

/// RFC 9110 section 13.1.5: the representation may have changed again just after that date.
#[test]
fn a_date_shortly_before_the_response_does_not_validate_a_range() {
    for (date, status) in [("00:00:00", 200), ("00:00:59", 200), ("00:01:00", 206)] {
        let pair = Pair::new();
        let fields = format!(
            "Cache-Control: max-age=2000000000\r\nLast-Modified: Mon, 30 Nov 2026 00:00:00 GMT\r\n\
             Date: Mon, 30 Nov 2026 {date} GMT\r\n"
        );
        pair.fetch(&get("/", ""), &fields, WHOLE);
        let if_range = "Range: bytes=2-4\r\nIf-Range: Mon, 30 Nov 2026 00:00:00 GMT\r\n";
        let (head, _) = pair.hit(&get("/", if_range));
        assert!(head.starts_with(&format!("HTTP/1.1 {status} ")), "{date}: {head}");
    }
}
