//! Tests of interim responses (RFC 9110 15.2) to a fetch for the cache.

use super::{MINUTE, Pair, get, reply};
use crate::support::{Proxy, Upstream};

const HINTS: &str = "HTTP/1.1 103 Early Hints\nLink: </a.css>; rel=preload\n";
const PROCESSING: &str = "HTTP/1.1 102 Processing\n";
const CONTINUE: &str = "HTTP/1.1 100 Continue\n";

fn sent(head: &str) -> String {
    head.replace('\n', "\r\n") + "\r\n"
}

#[test]
fn the_leader_of_a_fetch_gets_interim_responses() {
    let current = get("/", "");
    let old = "GET / HTTP/1.0\r\nHost: a\r\n\r\n".to_owned();
    #[rustfmt::skip]
    let rows: [(&str, &str, &String, &[&str], &[&str]); 6] = [
        ("one", "", &current, &[PROCESSING], &[PROCESSING]),
        ("several", "", &current, &[HINTS, PROCESSING, HINTS], &[HINTS, PROCESSING, HINTS]),
        ("nothing waits for a 100", "", &current, &[CONTINUE, HINTS], &[HINTS]),
        ("a site may keep hints back", "early_hints = \"off\"", &current, &[HINTS, PROCESSING], &[PROCESSING]),
        ("HTTP/1.0 does not know them", "", &old, &[HINTS], &[]),
        ("and the connection goes on", "", &current, &[], &[]),
    ];
    for (sentence, key, request, interim, expected) in rows {
        let upstream = Upstream::new();
        let mount = format!("proxy = \"http://{}\"\ncache = {{}}", upstream.address);
        let proxy = Proxy::of_site(key, &mount);
        let pair = Pair { upstream, proxy };
        let mut client = pair.proxy.send(request);
        let (mut peer, _) = pair.upstream.next_request();
        interim.iter().for_each(|head| peer.send(sent(head)));
        for head in expected {
            assert_eq!(client.head(), *head, "{sentence}");
        }
        reply(peer, MINUTE, "body");
        let (head, body) = client.answer();
        assert!(head.starts_with("HTTP/1.1 200 OK\n"), "{sentence}: {head}");
        assert!(!head.contains("Link"), "{sentence}: {head}");
        assert_eq!(body, "body", "{sentence}");
        // They are not stored.
        let (head, body) = pair.hit(&get("/", ""));
        assert!(head.starts_with("HTTP/1.1 200 OK\n") && !head.contains("Link"), "{head}");
        assert_eq!(body, "body", "{sentence}");
    }
}

#[test]
fn an_unstored_response_follows_its_interim_responses() {
    let pair = Pair::new();
    for path in ["/", "/"] {
        let mut client = pair.proxy.send(get(path, ""));
        let (mut peer, _) = pair.upstream.next_request();
        peer.send(sent(HINTS));
        assert_eq!(client.head(), HINTS);
        reply(peer, "Cache-Control: no-store\r\n", "body");
        assert_eq!(client.answer().1, "body");
    }
}

#[test]
fn a_waiting_client_gets_no_interim_responses() {
    let pair = Pair::new();
    let mut leader = pair.proxy.send(get("/", ""));
    let (mut peer, _) = pair.upstream.next_request();
    let mut second = pair.proxy.send(get("/", ""));
    peer.send(sent(HINTS));
    assert_eq!(leader.head(), HINTS);
    reply(peer, MINUTE, "body");
    assert_eq!((leader.answer().1, second.answer().1), ("body".to_owned(), "body".to_owned()));
}

#[test]
fn a_fetch_continues_after_its_client_has_disconnected() {
    let pair = Pair::new();
    let leader = pair.proxy.send(get("/", ""));
    let (mut peer, _) = pair.upstream.next_request();
    leader.reset();
    peer.send(sent(HINTS));
    let mut second = pair.proxy.send(get("/", ""));
    peer.send(sent(HINTS));
    reply(peer, MINUTE, "body");
    assert_eq!(second.answer().1, "body");
    pair.upstream.expect_no_connection();
}
