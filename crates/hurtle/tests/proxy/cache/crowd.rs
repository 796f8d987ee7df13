//! Tests of concurrent requests for one response.

use std::time::{Duration, Instant};

use super::{MINUTE, Pair, get, reply};
use crate::client::Client;
use crate::support::{NOBODY, Proxy, Upstream};

const CROWD: usize = 100;

#[test]
fn one_fetch_serves_all_clients_on_all_workers() {
    let upstream = Upstream::new();
    let mount = format!("proxy = \"http://{}\"\ncache = {{}}", upstream.address);
    let pair = Pair { proxy: Proxy::on(3, "", &mount), upstream };
    let mut clients: Vec<Client> = (0..CROWD).map(|_| pair.proxy.send(get("/", ""))).collect();
    pair.reply(MINUTE, "body");
    for client in &mut clients {
        assert_eq!(client.answer().1, "body");
    }
    pair.upstream.expect_no_connection();
}

#[test]
fn all_clients_get_a_body_as_it_arrives() {
    let pair = Pair::new();
    let mut first = pair.proxy.send(get("/", ""));
    let (mut peer, _) = pair.upstream.next_request();
    peer.send(format!(
        "HTTP/1.1 200 OK\r\n{MINUTE}Content-Length: 10\r\nConnection: close\r\n\r\n"
    ));
    peer.send("hello");
    first.head();
    assert_eq!(first.take(5), b"hello");
    let mut second = pair.proxy.send(get("/", ""));
    assert!(second.head().contains("fwd=uri-miss; collapsed"));
    assert_eq!(second.take(5), b"hello");
    peer.send("world");
    assert_eq!((first.take(5), second.take(5)), (b"world".to_vec(), b"world".to_vec()));
    let kept = (0..10_000).find_map(|_| {
        let (head, body) = pair.hit(&get("/", ""));
        head.contains("; hit").then_some(body)
    });
    assert_eq!(kept.as_deref(), Some("helloworld"));
}

/// Regression: each of these got the beginning of the old response (RFC 9111 4.2.4, 5.2.1).
#[test]
fn a_response_that_arrives_is_not_for_requests_that_do_not_accept_its_age() {
    for (sentence, fields, request) in [
        ("it is stale", "Age: 61\r\n", ""),
        ("the request wants a new one", "", "Cache-Control: no-cache\r\n"),
        ("it is too old for the request", "Age: 9\r\n", "Cache-Control: max-age=5\r\n"),
    ] {
        let pair = Pair::new();
        let mut first = pair.proxy.send(get("/", ""));
        let (mut peer, _) = pair.upstream.next_request();
        peer.send(format!("HTTP/1.1 200 OK\r\n{MINUTE}{fields}Content-Length: 10\r\n\r\nhello"));
        first.head();
        assert_eq!(first.take(5), b"hello", "{sentence}");
        let mut second = pair.proxy.send(get("/", request));
        pair.reply(MINUTE, "own");
        assert_eq!(second.answer().1, "own", "{sentence}");
        peer.send("world");
        assert_eq!(first.take(5), b"world", "{sentence}");
    }
}

#[test]
fn the_leader_may_leave() {
    let pair = Pair::new();
    let first = pair.proxy.send(get("/", ""));
    let (peer, _) = pair.upstream.next_request();
    let mut second = pair.proxy.send(get("/", ""));
    first.reset();
    reply(peer, MINUTE, "body");
    assert_eq!(second.answer().1, "body");
    pair.upstream.expect_no_connection();
}

#[test]
fn a_request_is_forwarded_after_waiting_five_seconds() {
    let pair = Pair::new();
    let mut first = pair.proxy.send(get("/", ""));
    let (slow, _) = pair.upstream.next_request();
    let begun = Instant::now();
    let mut second = pair.proxy.send(get("/", ""));
    pair.reply(MINUTE, "own");
    assert!(begun.elapsed() > Duration::from_secs(4), "it has waited: {:?}", begun.elapsed());
    let (head, body) = second.answer();
    assert!(head.contains("fwd=bypass; detail=waited-too-long") && body == "own", "{head}");
    // The first response is stored nevertheless.
    reply(slow, MINUTE, "body");
    assert_eq!(first.answer().1, "body");
}

#[test]
fn an_uncacheable_response_releases_all_requests_and_is_remembered() {
    const FEW: usize = 10;
    let pair = Pair::new();
    for round in 0..2 {
        let mut clients: Vec<Client> = (0..FEW).map(|_| pair.proxy.send(get("/", ""))).collect();
        let mut peers = Vec::new();
        if round == 0 {
            reply(pair.upstream.next_request().0, "Cache-Control: no-store\r\n", "body");
        }
        // All other requests are forwarded, and none waits for another's response.
        while peers.len() < FEW - usize::from(round == 0) {
            peers.push(pair.upstream.next_request().0);
        }
        peers.into_iter().for_each(|peer| reply(peer, "Cache-Control: no-store\r\n", "body"));
        for client in &mut clients {
            assert_eq!(client.answer().1, "body");
        }
        pair.upstream.expect_no_connection();
    }
}

#[test]
fn a_response_for_one_client_does_not_mark_the_key() {
    let pair = Pair::new();
    let credentials = get("/", "Authorization: Basic eA==\r\n");
    assert_eq!(pair.fetch(&credentials, MINUTE, "his").1, "his");
    assert_eq!(pair.fetch(&get("/", ""), MINUTE, "all's").1, "all's");
    assert_eq!(pair.hit(&get("/", "")).1, "all's");
}

/// Regression: one such response removed those of all other clients, and none was stored for 30 s.
#[test]
fn a_response_that_is_not_stored_leaves_those_of_other_clients() {
    let rows = [
        ("private, by Vary", "Cookie: session=1\r\n", "200 OK", "Cache-Control: private\r\n"),
        (
            "bad credentials",
            "Cache-Control: no-cache\r\nAuthorization: Bearer x\r\n",
            "401 Unauthorized",
            "",
        ),
        ("too many requests", "Cache-Control: no-cache\r\n", "429 Too Many Requests", ""),
        ("a bad request", "Cache-Control: no-cache\r\n", "400 Bad Request", ""),
        ("private now", "Cache-Control: no-cache\r\n", "200 OK", "Cache-Control: private\r\n"),
    ];
    for (case, fields, status, forbids) in rows {
        let pair = Pair::new();
        let anonymous = get("/", "");
        pair.fetch(&anonymous, &format!("{MINUTE}Vary: Cookie\r\n"), "all's");
        let mut client = pair.proxy.send(get("/", fields));
        let (mut peer, _) = pair.upstream.next_request();
        peer.send(format!(
            "HTTP/1.1 {status}\r\n{forbids}Content-Length: 3\r\nConnection: close\r\n\r\nhis"
        ));
        assert_eq!(client.answer().1, "his", "{case}");
        assert_eq!(pair.hit(&anonymous).1, "all's", "{case}");
    }
}

#[test]
fn all_clients_get_502_if_no_upstream_is_there() {
    let proxy = Proxy::with(&[NOBODY], "cache = {}");
    let mut clients: Vec<Client> = (0..5).map(|_| proxy.send(get("/", ""))).collect();
    for client in &mut clients {
        assert!(client.answer().0.starts_with("HTTP/1.1 502 "));
    }
}
