//! Header rules on errors (`always`), as bytes on the connection.

use crate::support::{GET, Proxy, Upstream};

const RULES: &str = r#"
[[site.header]]
set = { X-Some = "1" }
[[site.header]]
match = "/**"
set = { X-All = "1", X-Theirs = "ours" }
remove = ["X-Gone"]
always = true
[[site.header]]
match = "/elsewhere/**"
set = { X-Elsewhere = "1" }
always = true
[[site.rule]]
match = "/moved"
redirect = "/new"
[[site.mount]]
path = "/files"
files = "/usr"
[[site.mount]]
path = "/text"
respond = "text"
"#;

/// Asserts which rules apply to a response.
#[track_caller]
fn check(head: &str, status: &str, some: bool) {
    assert!(head.starts_with(&format!("HTTP/1.1 {status} ")), "{head}");
    let count = |line: &str| head.lines().filter(|other| *other == line).count();
    assert_eq!(count("X-All: 1"), 1, "{head}");
    assert_eq!(count("X-Some: 1") == 1, some, "{head}");
    assert!(!head.contains("X-Elsewhere"), "{head}");
}

fn proxy() -> (Upstream, Proxy) {
    let upstream = Upstream::new();
    let mount = format!("proxy = \"http://{}\"", upstream.address);
    let proxy = Proxy::of_site(RULES, &mount);
    (upstream, proxy)
}

#[test]
fn rules_with_always_reach_errors_of_this_server() {
    let (_upstream, proxy) = proxy();
    for (request, status, some) in [
        ("GET /text", "200", true),
        ("OPTIONS /text", "200", true),
        ("TRACE /text", "405", false),
        ("BREW /files/", "501", false),
        ("GET /files/no-such-file", "404", false),
        ("PUT /files/no-such-file", "405", false),
        ("OPTIONS /files/", "204", true),
    ] {
        let head = proxy.send(format!("{request} HTTP/1.1\r\nHost: a\r\n\r\n")).head();
        check(&head, status, some);
    }
}

#[test]
fn rules_with_always_reach_errors_of_upstreams() {
    let (upstream, proxy) = proxy();
    for (status, some) in [("200", true), ("204", true), ("404", false), ("503", false)] {
        let mut client = proxy.send("GET /x HTTP/1.1\r\nHost: a\r\n\r\n");
        let (mut peer, _) = upstream.next_request();
        peer.send(format!(
            "HTTP/1.1 {status} S\r\nX-Gone: 1\r\nX-Theirs: 1\r\n{}Connection: close\r\n\r\n",
            if status == "204" { "" } else { "Content-Length: 0\r\n" }
        ));
        let head = client.head();
        check(&head, status, some);
        assert!(!head.contains("X-Gone") && head.contains("X-Theirs: ours"), "{head}");
        assert_eq!(head.matches("X-Theirs").count(), 1, "{head}");
    }
    drop(upstream);
    check(&proxy.send("GET /x HTTP/1.1\r\nHost: a\r\n\r\n").head(), "502", false);
}

#[test]
fn rules_with_always_reach_requests_without_a_password() {
    let users = std::env::temp_dir().join(format!("hurtle-always-{}", std::process::id()));
    std::fs::write(&users, "anna:$2b$04$abcdefghijklmnopqrstuu2r9OfJnfCsdneAXAGHnS4UpFFP8WIrW\n")
        .unwrap();
    let site = format!("auth = \"basic\"\nusers = {users:?}\n{RULES}");
    let proxy = Proxy::of_site(&site, "proxy = \"http://127.0.0.1:1\"");
    check(&proxy.send("GET /text HTTP/1.1\r\nHost: a\r\n\r\n").head(), "401", false);
    let _ = std::fs::remove_file(users);
}

#[test]
fn all_cookies_get_flags() {
    let upstream = Upstream::new();
    let rule = "[[site.header]]\ncookie_flags = [\"Secure\", \"SameSite=Lax\"]\nalways = true";
    for cache in ["", "cache = {}"] {
        let mount = format!("proxy = \"http://{}\"\n{cache}", upstream.address);
        let proxy = Proxy::of_site(rule, &mount);
        for status in ["200 OK", "403 Forbidden"] {
            let mut client = proxy.send(GET);
            upstream.next_request().0.send(format!(
                "HTTP/1.1 {status}\r\nContent-Length: 2\r\nSet-Cookie: a=b; Path=/; SameSite=None\r\n\
                 X-A: b\r\nset-cookie: c=d\r\nConnection: close\r\n\r\nok"
            ));
            let (head, _) = client.answer();
            let cookies: Vec<&str> = head
                .lines()
                .filter(|line| line.to_ascii_lowercase().starts_with("set-cookie: "))
                .map(|line| &line["set-cookie: ".len()..])
                .collect();
            assert_eq!(cookies, ["a=b; Path=/; Secure; SameSite=Lax", "c=d; Secure; SameSite=Lax"]);
        }
    }
}
