//! Tests of encoded slashes in forwarded paths.

use crate::support::{OK, Proxy, Upstream};

/// `/` and `/a` are proxied, `/b` is not, `/old` is rewritten, `/from` is redirected.
fn server(upstream: &Upstream) -> Proxy {
    let address = upstream.address;
    Proxy::of(
        "",
        &format!(
            "proxy = \"http://{address}\"\n[[site.mount]]\npath = \"/a\"\n\
             proxy = \"http://{address}\"\n[[site.mount]]\npath = \"/b\"\nrespond = \"b\"\n\
             [[site.rule]]\nmatch = \"/old/*\"\nrewrite = \"/new\"\n\
             [[site.rule]]\nmatch = \"/from/*\"\nredirect = \"/\"\n"
        ),
    )
}

#[test]
fn encoded_slashes_are_forwarded_if_both_readings_select_one_upstream() {
    let upstream = Upstream::new();
    let server = server(&upstream);
    let passed = [
        ("a part of a name", "/x/a%2Fb", "/x/a%2Fb"),
        ("in small letters", "/x/a%2fb", "/x/a%2fb"),
        ("beneath a mount", "/a/group%2Fproject?q=%2F", "/a/group%2Fproject?q=%2F"),
        ("at the end", "/x%2F", "/x%2F"),
        ("beside what is decoded", "/x/%61%2F%20/./y", "/x/a%2F%20/y"),
        ("a slash encoded twice is none", "/x/a%252Fb", "/x/a%252Fb"),
        ("upward, but not out of the mount", "/a/x%2F..%2Fy", "/a/x%2F..%2Fy"),
    ];
    for (sentence, sent, expected) in passed {
        let mut client = server.send(format!("GET {sent} HTTP/1.1\r\nHost: a\r\n\r\n"));
        let (mut peer, head) = upstream.next_request();
        assert!(head.starts_with(&format!("GET {expected} HTTP/1.1\n")), "{sentence}: {head}");
        peer.send(OK.replace("\r\n\r\n", "\r\nConnection: close\r\n\r\n"));
        assert_eq!(client.answer().1, "ok", "{sentence}");
    }
    let refused = [
        ("another mount if decoded", "/%2Fb"),
        ("the same behind dots", "/x%2F..%2Fb"),
        ("another mount if not decoded", "/a%2Fx"),
        ("out of the mount", "/a/x%2F..%2F..%2Fy"),
        ("above the root", "/..%2Fx"),
        ("what a rule changes", "/old/x%2Fy"),
        ("what a rule would change if it were decoded", "/old%2Fx"),
        ("what a rule redirects", "/from/x%2Fy"),
    ];
    // Both readings select the fixed response, which needs no file.
    let mut client = server.send("GET /b/x%2Fy HTTP/1.1\r\nHost: a\r\n\r\n");
    assert_eq!(client.answer().1, "b");
    for (sentence, sent) in refused {
        let mut client = server.send(format!("GET {sent} HTTP/1.1\r\nHost: a\r\n\r\n"));
        let head = client.answer().0;
        assert!(head.starts_with("HTTP/1.1 404 "), "{sentence}: {head}");
        upstream.expect_no_connection();
    }
}

/// Regression: each spelling had an allowance of its own.
#[test]
fn spellings_of_a_path_share_an_allowance() {
    let limit = "[[site.mount.rate_limit]]\nrequests = \"1/h\"\nburst = 1\nkey = \"path\"\n";
    let server = Proxy::of("", &format!("respond = \"b\"\n{limit}"));
    let status = |path: &str| {
        let request = format!("POST {path} HTTP/1.1\r\nHost: a\r\nContent-Length: 0\r\n\r\n");
        server.send(request).answer().0.split(' ').nth(1).unwrap().to_owned()
    };
    assert_eq!(status("/api/login"), "200");
    for path in
        ["/api%2Flogin", "/%61pi%2flogin", "/api/%6Cogin", "/./api//login", "/api/login;x=1?y"]
    {
        assert_eq!(status(path), "429", "{path}");
    }
    assert_eq!(status("/api%2Fother"), "200");
}
