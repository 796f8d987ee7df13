//! Tests of the path that an upstream gets.

use crate::support::{OK, Proxy, Upstream};

#[test]
fn an_unchanged_path_is_forwarded_in_its_spelling() {
    let upstream = Upstream::new();
    let rule = "[[site.rule]]\nmatch = \"/old/*\"\nrewrite = \"/new/{1}\"";
    let mount = format!("proxy = \"http://{}\"\n{rule}", upstream.address);
    let server = Proxy::of("", &mount);
    let table = [
        ("what needs no escapes", "/a/b.c?d=%41%2f", "/a/b.c?d=%41%2f"),
        ("escapes that need not be", "/%41%7Eb%2D", "/%41%7Eb%2D"),
        ("small letters", "/caf%c3%a9%20", "/caf%c3%a9%20"),
        ("an escaped percent", "/100%2525", "/100%2525"),
        ("what others would encode", "/a(b)'*!;=:@$&+,~", "/a(b)'*!;=:@$&+,~"),
        ("a whole URL", "http://a/%41", "/%41"),
        ("what no URL may hold", "/%41\"|\\", "/A%22%7C%5C"),
        ("a dot segment", "/x/../%41", "/A"),
        ("an encoded one", "/x/%2e%2E/%41", "/A"),
        ("one at the end", "/%41/.", "/A/"),
        ("doubled slashes", "//%41//b", "/A/b"),
        ("what a rule has changed", "/old/%41", "/new/A"),
    ];
    for (sentence, sent, expected) in table {
        let mut client = server.send(format!("GET {sent} HTTP/1.1\r\nHost: a\r\n\r\n"));
        let (mut peer, head) = upstream.next_request();
        assert!(head.starts_with(&format!("GET {expected} HTTP/1.1\n")), "{sentence}: {head}");
        peer.send(OK.replace("\r\n\r\n", "\r\nConnection: close\r\n\r\n"));
        assert_eq!(client.answer().1, "ok", "{sentence}");
    }
}

#[test]
fn a_stored_response_serves_all_spellings_of_its_path() {
    let upstream = Upstream::new();
    let server = Proxy::of("", &format!("proxy = \"http://{}\"\ncache = {{}}", upstream.address));
    let mut client = server.send("GET /%7e%41 HTTP/1.1\r\nHost: a\r\n\r\n");
    let (mut peer, head) = upstream.next_request();
    assert!(head.starts_with("GET /~A HTTP/1.1\n"), "{head}");
    let last = "\r\nConnection: close\r\nCache-Control: max-age=60\r\n\r\n";
    peer.send(OK.replace("\r\n\r\n", last));
    assert_eq!(client.answer().1, "ok");
    for same in ["/~A", "/%7E%41", "/x/../~A"] {
        client.send(format!("GET {same} HTTP/1.1\r\nHost: a\r\n\r\n"));
        assert_eq!(client.answer().1, "ok", "{same}");
        upstream.expect_no_connection();
    }
    let mut client = server.send("POST /%7eA HTTP/1.1\r\nHost: a\r\nContent-Length: 0\r\n\r\n");
    let (mut peer, head) = upstream.next_request();
    assert!(head.starts_with("POST /~A HTTP/1.1\n"), "what makes it forget, too: {head}");
    peer.send(OK);
    assert_eq!(client.answer().1, "ok");
}

#[test]
fn the_path_of_a_mount_is_taken_off() {
    // The path of the mount, the path as sent, and the path that the upstream gets.
    let rows = [
        ("/api", "/api/users/1?q=%2F", "/users/1?q=%2F"),
        ("/api", "/api", "/"),
        ("/api", "/api/", "/"),
        ("/api", "/%61pi/a%20b%2B", "/a%20b%2B"),
        ("/api", "/api//evil.example/x", "/evil.example/x"),
        ("/api", "/api/x%2Fy", "/x%2Fy"),
        ("/api", "/api/../api/./x", "/x"),
        ("/a b", "/a%20b/c", "/c"),
        ("/", "/x", "/x"),
    ];
    for cache in ["", "cache = {}\n"] {
        for (mount, sent, wanted) in rows {
            if !cache.is_empty() && sent.contains("%2F") {
                continue;
            }
            let upstream = Upstream::new();
            let keys = format!(
                "path = \"{mount}\"\nproxy = \"http://{}\"\nstrip_prefix = true\n{cache}",
                upstream.address
            );
            let proxy = Proxy::of("", &keys);
            let mut client = proxy.send(format!("GET {sent} HTTP/1.1\r\nHost: a\r\n\r\n"));
            let (mut peer, head) = upstream.next_request();
            peer.send(OK);
            assert!(client.head().starts_with("HTTP/1.1 200 "), "{sent}");
            let wanted = match cache {
                "" => wanted.to_owned(),
                _ => wanted.replace("%2B", "+"),
            };
            assert_eq!(head.lines().next(), Some(&*format!("GET {wanted} HTTP/1.1")), "{sent}");
        }
    }
}
