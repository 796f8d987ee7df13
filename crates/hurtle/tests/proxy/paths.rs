//! Tests of the path that an upstream gets.

use crate::support::{OK, Proxy, Upstream};

#[test]
fn an_unchanged_path_is_forwarded_in_its_spelling() {
    for cache in ["", "cache = {}\n"] {
        let upstream = Upstream::new();
        let rule = "[[site.rule]]\nmatch = \"/old/*\"\nrewrite = \"/new/{1}\"";
        let mount = format!("proxy = \"http://{}\"\n{cache}{rule}", upstream.address);
        let server = Proxy::of("", &mount);
        let table = [
            ("what needs no escapes", "/a/b.c?d=%41%2f", "/a/b.c?d=%41%2f"),
            ("escapes that need not be", "/%41%7Eb%2D", "/%41%7Eb%2D"),
            ("a file of Debian", "/x/lib%2B%2B%3Bz.deb", "/x/lib%2B%2B%3Bz.deb"),
            ("small letters", "/caf%c3%a9%20", "/caf%c3%a9%20"),
            ("an escaped percent", "/100%2525", "/100%2525"),
            ("what others would encode", "/a(b)'*!;=:@$&+,~", "/a(b)'*!;=:@$&+,~"),
            ("a whole URL", "http://a/%41", "/%41"),
            ("what no URL may hold", "/%41\"|{}^`<>", "/%41\"|{}^`<>"),
            ("a backslash", "/%41\"|\\", "/A%22%7C%5C"),
            ("an encoded backslash", "/%41%5c%41", "/%41%5c%41"),
            ("a dot segment", "/x/../%41", "/A"),
            ("an encoded one", "/x/%2e%2E/%41", "/A"),
            ("one at the end", "/%41/.", "/A/"),
            ("one between slashes", "/%41//./b", "/A/b"),
            ("doubled slashes", "/%41//b//", "/%41//b//"),
            ("slashes in front would begin a host", "//%41//b", "/%41//b"),
            ("a URL in the path", "/proxy/https://host/", "/proxy/https://host/"),
            ("parameters of segments", "/a;x=1/b;jsessionid=2", "/a;x=1/b;jsessionid=2"),
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
}

#[test]
fn a_stored_response_serves_the_spelling_that_its_upstream_got() {
    let upstream = Upstream::new();
    let server = Proxy::of("", &format!("proxy = \"http://{}\"\ncache = {{}}", upstream.address));
    let mut client = server.send("");
    let mut stored = |sent: &str, expected: &str, is_stored: bool| {
        client.send(format!("GET {sent} HTTP/1.1\r\nHost: a\r\n\r\n"));
        if is_stored {
            assert_eq!(client.answer().1, "ok", "{sent}");
            return upstream.expect_no_connection();
        }
        let (mut peer, head) = upstream.next_request();
        assert!(head.starts_with(&format!("GET {expected} HTTP/1.1\n")), "{sent}: {head}");
        let last = "\r\nConnection: close\r\nCache-Control: max-age=60\r\n\r\n";
        peer.send(OK.replace("\r\n\r\n", last));
        assert_eq!(client.answer().1, "ok", "{sent}");
    };
    let rows = [
        ("/~A%2B", "/~A%2B", false),
        ("/~A+", "/~A+", false),
        ("/%7e%41+", "/%7e%41+", false),
        // Dot segments and slashes in front are never forwarded.
        ("/x/../%7EA+", "/~A+", true),
        ("//~A%2B", "/~A%2B", true),
        ("/%7e%41+", "/%7e%41+", true),
    ];
    for (sent, expected, is_stored) in rows {
        stored(sent, expected, is_stored);
    }
    // A POST makes the cache forget the spelling that was sent, and the common one.
    let mut changing =
        server.send("POST /%7e%41+ HTTP/1.1\r\nHost: a\r\nContent-Length: 0\r\n\r\n");
    let (mut peer, head) = upstream.next_request();
    assert!(head.starts_with("POST /%7e%41+ HTTP/1.1\n"), "{head}");
    peer.send(OK.replace("\r\n\r\n", "\r\nConnection: close\r\n\r\n"));
    assert_eq!(changing.answer().1, "ok");
    stored("/%7e%41+", "/%7e%41+", false);
    stored("/~A+", "/~A+", false);
}

#[test]
fn a_path_that_servers_read_differently_reaches_no_upstream_past_a_gate() {
    let upstream = Upstream::new();
    let address = upstream.address;
    let server = Proxy::of(
        "",
        &format!(
            "proxy = \"http://{address}\"\n\
             [[site.mount]]\npath = \"/admin\"\ndeny = \"0.0.0.0/0\"\nproxy = \"http://{address}\"\n\
             [[site.mount]]\npath = \"/open\"\nproxy = \"http://{address}\"\n\
             [[site.rule]]\nmatch = \"/old/**\"\nrewrite = \"/open/{{1}}\"\n\
             [[site.rule]]\nmatch = \"/moved/**\"\nredirect = \"/\"\n"
        ),
    );
    let refused = [
        ("dots with parameters", "/open/..;/admin"),
        ("encoded ones", "/open/%2e%2e%3b/admin"),
        ("one dot with parameters", "/open/.;x=1/a"),
        ("dots between backslashes", "/open/x\\..\\..\\admin"),
        ("dots between encoded backslashes", "/open/..%5c..%5Cadmin"),
        ("parameters of a guarded mount", "/admin;x=1/users"),
        ("a guarded mount alone", "/admin;x"),
        ("a backslash behind a guarded mount", "/admin%5Cusers"),
        ("dots behind an encoded slash", "/open/x%2F..;%2Fadmin"),
        ("a path that a rule has changed", "/old/..;/admin"),
        ("a path that a rule would redirect", "/moved;x/a"),
    ];
    for (sentence, sent) in refused {
        let mut client = server.send(format!("GET {sent} HTTP/1.1\r\nHost: a\r\n\r\n"));
        let head = client.answer().0;
        assert!(head.starts_with("HTTP/1.1 404 "), "{sentence}: {head}");
        upstream.expect_no_connection();
    }
    for (sentence, sent) in [
        ("parameters beneath the mount", "/open/a;x=1/b"),
        ("dots in a name", "/open/..a;x/b..;y"),
        ("a backslash beneath the mount", "/open/a%5Cb"),
    ] {
        let mut client = server.send(format!("GET {sent} HTTP/1.1\r\nHost: a\r\n\r\n"));
        let (mut peer, head) = upstream.next_request();
        assert!(head.starts_with(&format!("GET {sent} HTTP/1.1\n")), "{sentence}: {head}");
        peer.send(OK.replace("\r\n\r\n", "\r\nConnection: close\r\n\r\n"));
        assert_eq!(client.answer().1, "ok", "{sentence}");
    }
}

#[test]
fn the_path_of_an_upstream_takes_the_place_of_that_of_the_mount() {
    // The path of the mount, that of the upstream's URL, the path as sent, and the one that it
    // gets.
    let rows = [
        ("/api", "/v2/", "/api/users/1?q=%2F", "/v2/users/1?q=%2F"),
        ("/api", "/v2", "/api/users/1", "/v2/users/1"),
        ("/api", "/v2", "/api", "/v2"),
        ("/api", "/v2", "/api/", "/v2/"),
        ("/api", "/v2/", "/api", "/v2/"),
        ("/api", "/v2/", "/api//x", "/v2/x"),
        ("/api", "/a%20b/", "/api/x%2Fy", "/a%20b/x%2Fy"),
        ("/", "/v2/", "/x", "/v2/x"),
        ("/", "/v2", "/", "/v2/"),
    ];
    for cache in ["", "cache = {}\n"] {
        for (mount, base, sent, wanted) in rows {
            let upstream = Upstream::new();
            let url = format!("http://{}{base}", upstream.address);
            let proxy = Proxy::of("", &format!("path = \"{mount}\"\nproxy = \"{url}\"\n{cache}"));
            let mut client = proxy.send(format!("GET {sent} HTTP/1.1\r\nHost: a\r\n\r\n"));
            let (mut peer, head) = upstream.next_request();
            peer.send(OK);
            assert!(client.head().starts_with("HTTP/1.1 200 "), "{sent}");
            assert_eq!(head.lines().next(), Some(&*format!("GET {wanted} HTTP/1.1")), "{sent}");
        }
    }
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
        ("/a/b", "//a///%62//c//d", "/c//d"),
        ("/", "/x", "/x"),
    ];
    for cache in ["", "cache = {}\n"] {
        for (mount, sent, wanted) in rows {
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
            assert_eq!(head.lines().next(), Some(&*format!("GET {wanted} HTTP/1.1")), "{sent}");
        }
    }
}

#[test]
fn a_rule_sets_the_query() {
    // The target as sent, and the one that the upstream gets.
    let rows = [
        ("/wiki/A%20b%26c?d=%2F", "/index?title=A%20b%26c&d=%2F"),
        ("/wiki/A", "/index?title=A"),
        ("/bare/x?a=b", "/bare"),
        ("/twice/x?a=b", "/index?title=x&from=twice&a=b"),
        ("/other?a=b", "/other?a=b"),
    ];
    let rules = "[[site.rule]]\nmatch = \"/twice/*\"\nrewrite = \"/wiki/{1}?from=twice&{query}\"\n\
         [[site.rule]]\nmatch = \"/wiki/**\"\nrewrite = \"/index?title={1}&{query}\"\n\
         [[site.rule]]\nmatch = \"/bare/*\"\nrewrite = \"/bare?\"\n";
    for cache in ["", "cache = {}\n"] {
        for (sent, wanted) in rows {
            let upstream = Upstream::new();
            let mount = format!("proxy = \"http://{}\"\n{cache}", upstream.address);
            let proxy = Proxy::of_site(rules, &mount);
            let mut client = proxy.connect();
            for turn in 0..2 {
                client.send(format!("GET {sent} HTTP/1.1\r\nHost: a\r\n\r\n"));
                if turn == 0 || cache.is_empty() {
                    let (mut peer, head) = upstream.next_request();
                    peer.send(LAST_STORED);
                    let line = head.lines().next();
                    assert_eq!(line, Some(&*format!("GET {wanted} HTTP/1.1")), "{sent}");
                }
                assert_eq!(client.answer().1, "ok", "{sent}");
            }
            if !cache.is_empty() {
                // Another query has another response.
                let sent = format!("{sent}{}z", if sent.contains('?') { "&" } else { "?" });
                client.send(format!("GET {sent} HTTP/1.1\r\nHost: a\r\n\r\n"));
                if !sent.starts_with("/bare/") {
                    upstream.next_request().0.send(LAST_STORED);
                }
                assert_eq!(client.answer().1, "ok", "{sent}");
            }
        }
    }
}

/// A response that a cache stores.
const LAST_STORED: &str = "HTTP/1.1 200 OK\r\nContent-Length: 2\r\nCache-Control: max-age=100\r\n\
     Connection: close\r\n\r\nok";

/// Regression: it had the query of the request.
#[test]
fn the_redirect_of_a_mount_has_the_query_of_a_rule() {
    let server = Proxy::of_site(
        "rule = [{ match = '/wiki/*', rewrite = '/go/?page={1}' }]",
        "path = '/go'\nredirect = 'https://wiki.example/'",
    );
    let (head, _) = server.send("GET /wiki/Foo?a=1 HTTP/1.1\r\nHost: a\r\n\r\n").answer();
    assert!(head.contains("Location: https://wiki.example/?page=Foo\n"), "{head}");
}
