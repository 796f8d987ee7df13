//! Tests of requests on a connection that has had cache hits.

use std::time::{Duration, Instant};

use super::orders::{order, socket};
use super::{MINUTE, Pair, get, has};
use crate::client::Client;
use crate::support::{Proxy, Upstream};

/// A connection with so many hits that its header section is remembered.
#[track_caller]
fn served(pair: &Pair, fields: &str) -> Client {
    pair.fetch(&get("/", ""), fields, "first");
    let mut client = pair.proxy.connect();
    for _ in 0..4 {
        assert_eq!(again(&mut client), "first");
    }
    client
}

#[track_caller]
fn again(client: &mut Client) -> String {
    client.send(get("/", ""));
    client.answer().1
}

#[test]
fn a_purge_and_a_change_apply_to_the_next_request() {
    let (upstream, socket) = (Upstream::new(), socket("again"));
    let mount = format!("proxy = \"http://{}\"\ncache = {{}}", upstream.address);
    let proxy = Proxy::of(&format!("admin = {socket:?}"), &mount);
    let pair = Pair { upstream, proxy };
    let mut client = served(&pair, MINUTE);
    assert!(order(&socket, "PURGE / HTTP/1.1\r\nHost: a\r\n\r\n").ends_with("purged 1\n"));
    client.send(get("/", ""));
    pair.reply(MINUTE, "second");
    assert_eq!(client.answer().1, "second");
    for _ in 0..4 {
        assert_eq!(again(&mut client), "second");
    }

    client.send("DELETE / HTTP/1.1\r\nHost: a\r\n\r\n");
    pair.reply("", "");
    client.answer();
    client.send(get("/", ""));
    pair.reply(MINUTE, "third");
    assert_eq!(client.answer().1, "third", "RFC 9111 4.4");
    let _ = std::fs::remove_file(socket);
}

#[test]
fn age_grows_until_the_response_is_stale() {
    let pair = Pair::new();
    let before = Instant::now();
    let mut client = served(&pair, "Cache-Control: max-age=12\r\nAge: 10\r\n");
    // The resolution of the server's clock.
    let (stored, grain) = (Instant::now(), Duration::from_millis(50));
    std::thread::scope(|scope| {
        scope.spawn(|| pair.reply("", "second"));
        loop {
            let least = 10 + stored.elapsed().saturating_sub(grain).as_secs();
            client.send(get("/", ""));
            let (head, body) = client.answer();
            if body == "second" {
                break;
            }
            // RFC 9111 4.2.3: the duration of the fetch counts.
            let most = 10 + (before.elapsed() + grain).as_secs();
            let age = head.lines().find_map(|line| line.strip_prefix("Age: ")).unwrap();
            let age: u64 = age.parse().unwrap();
            assert!((least..=most).contains(&age), "{least} to {most}: {head}");
            has(&head, &format!("Cache-Status: hurtle; hit; ttl={}", 12 - age));
        }
    });
    assert!(before.elapsed() + grain >= Duration::from_secs(1), "it was fresh");
}

#[test]
fn other_requests_get_their_own_responses() {
    let pair = Pair::new();
    let mut client = served(&pair, &format!("{MINUTE}ETag: \"e\"\r\n"));
    for (head, status, expected) in [
        ("GET / HTTP/1.1\r\nHost: a\r\nIf-None-Match: \"e\"\r\n\r\n", "304", ""),
        ("GET / HTTP/1.1\r\nHost: a\r\nRange: bytes=1-2\r\n\r\n", "206", "ir"),
        ("GET http://a/ HTTP/1.1\r\nHost: b\r\n\r\n", "200", "first"),
        ("GET /./ HTTP/1.1\r\nHost: a\r\n\r\n", "200", "first"),
    ] {
        client.send(head);
        let (answer, body) = client.answer();
        assert!(answer.starts_with(&format!("HTTP/1.1 {status} ")), "{head}: {answer}");
        assert_eq!(body, expected, "{head}");
        assert_eq!(again(&mut client), "first", "{head}");
    }
    pair.upstream.expect_no_connection();
    for head in [
        "GET / HTTP/1.1\r\nHost: b\r\n\r\n",
        "GET / HTTP/1.1\r\nHost: a:81\r\n\r\n",
        "GET /? HTTP/1.1\r\nHost: a\r\n\r\n",
        "GET / HTTP/1.1\r\nHost: a\r\nIf-Match: \"e\"\r\n\r\n",
        "OPTIONS / HTTP/1.1\r\nHost: a\r\n\r\n",
    ] {
        client.send(head);
        pair.reply("Cache-Control: no-store\r\n", "other");
        assert_eq!(client.answer().1, "other", "{head}");
        assert_eq!(again(&mut client), "first", "{head}");
    }
    client.send(get("/", "Cache-Control: no-cache\r\n"));
    pair.reply(MINUTE, "second");
    assert_eq!(client.answer().1, "second");
    assert_eq!(again(&mut client), "second");
}

#[test]
fn header_rules_apply_to_stored_responses() {
    let upstream = Upstream::new();
    let rule = "[[site.header]]\nset = { X-Set = \"ours\" }\nremove = [\"X-Gone\"]";
    let mount = format!("proxy = \"http://{}\"\ncache = {{}}", upstream.address);
    let proxy = Proxy::of_site(rule, &mount);
    let pair = Pair { upstream, proxy };
    let mut client =
        served(&pair, &format!("{MINUTE}X-Set: theirs\r\nX-Gone: 1\r\nX-Other: 1\r\n"));
    for _ in 0..4 {
        client.send(get("/", ""));
        let (head, _) = client.answer();
        has(&head, "X-Set: ours");
        has(&head, "X-Other: 1");
        assert!(!head.contains("theirs") && !head.contains("X-Gone"), "{head}");
    }
}

#[test]
fn stored_responses_need_the_password_too() {
    // `anna:secret` with bcrypt's lowest cost.
    let users = std::env::temp_dir().join(format!("hurtle-users-{}", std::process::id()));
    std::fs::write(&users, "anna:$2b$04$abcdefghijklmnopqrstuu2r9OfJnfCsdneAXAGHnS4UpFFP8WIrW\n")
        .unwrap();
    let upstream = Upstream::new();
    let auth = format!("auth = \"basic\"\nusers = {users:?}");
    let mount = format!("proxy = \"http://{}\"\ncache = {{}}", upstream.address);
    let proxy = Proxy::of_site(&auth, &mount);
    let pair = Pair { upstream, proxy };
    let shown = "Authorization: Basic YW5uYTpzZWNyZXQ=\r\n";
    let (_, body) = pair.fetch(&get("/", shown), "Cache-Control: public, max-age=60\r\n", "his");
    assert_eq!(body, "his");
    let mut client = pair.proxy.connect();
    for (fields, status, expected) in [("", "401", false), (shown, "200", true), ("", "401", false)]
    {
        client.send(get("/", fields));
        let (head, body) = client.answer();
        assert!(head.starts_with(&format!("HTTP/1.1 {status} ")), "{head}");
        assert_eq!(body == "his", expected);
    }
    pair.upstream.expect_no_connection();
    let _ = std::fs::remove_file(users);
}
