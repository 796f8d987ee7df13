//! Tests of unsupported methods: 405 with `Allow` (RFC 9110 15.5.6), which OPTIONS returns too.

use std::path::Path;

use hurtle::config::{Auth, MountHandler, Uploads, check};

use crate::support::site::{files_of, mount};
use crate::support::{Dir, Server};

/// The methods of RFC 9110 9.3 and RFC 5789 except CONNECT, whose target is not a resource.
const METHODS: [&str; 8] = ["GET", "HEAD", "POST", "PUT", "DELETE", "OPTIONS", "TRACE", "PATCH"];

#[test]
fn allow_lists_the_methods_that_are_not_refused() {
    let dir = Dir::new(&[("a.txt", "a"), ("up/a.txt", "a")]);
    let root = dir.root();
    let server = Server::of(dir, |config| {
        let mut takes = files_of(&root.join("up"));
        takes.uploads = Some(Uploads { free_bytes: 0, ..Uploads::default() });
        let site = &mut config.sites[0];
        site.auth = Some(Auth::None);
        site.mounts.push(mount("/up", MountHandler::Files(Box::new(takes))));
    });
    for (path, expected) in [
        ("/a.txt", "GET, HEAD, OPTIONS"),
        ("/none", "GET, HEAD, OPTIONS"),
        ("/up/a.txt", "GET, HEAD, PUT, DELETE, OPTIONS"),
        ("/up/none", "GET, HEAD, PUT, DELETE, OPTIONS"),
    ] {
        let allowed: Vec<&str> = expected.split(", ").collect();
        for method in METHODS {
            let answer = server.request(method, path);
            let is_refused = answer.status == 405;
            assert_eq!(is_refused, !allowed.contains(&method), "{method} {path}: {answer:?}");
            if is_refused || method == "OPTIONS" {
                assert_eq!(answer.field("Allow"), Some(expected), "{method} {path}");
            }
        }
    }
}

#[test]
fn fixed_responses_and_redirects_answer_every_method_but_trace() {
    let server = Server::of(Dir::new(&[]), |config| {
        let fixed = MountHandler::Fixed {
            status: http::StatusCode::OK,
            body: "fixed".to_owned(),
            content_type: http::HeaderValue::from_static("text/plain"),
        };
        let to = "/a.txt".to_owned();
        let moved = MountHandler::Redirect { status: http::StatusCode::FOUND, to };
        config.sites[0].mounts.extend([mount("/fixed", fixed), mount("/moved", moved)]);
    });
    for method in METHODS.into_iter().chain(["BREW"]) {
        for (path, status) in [("/fixed", 200), ("/moved", 302)] {
            let answer = server.request(method, path);
            let expected = if method == "TRACE" { 405 } else { status };
            assert_eq!(answer.status, expected, "{method} {path}");
            let has_body = path == "/fixed" && !["HEAD", "TRACE"].contains(&method);
            assert_eq!(answer.body == b"fixed", has_body, "{method} {path}");
        }
    }
}

/// Regression: in a site of files, a redirect of a rule was for GET and HEAD alone.
#[test]
fn redirects_of_rules_answer_every_method_but_trace() {
    let server = Server::of(Dir::new(&[("a.txt", "a")]), |config| {
        let text = "[[site]]\n[[site.rule]]\nmatch = \"/old/**\"\nredirect = \"/new/{1}\"\n\
                    status = 308\n[[site.mount]]\nfiles = \".\"\n";
        config.sites[0].rules =
            check(text, Path::new("/nowhere/a.toml")).unwrap().sites[0].rules.clone();
    });
    for method in METHODS.into_iter().chain(["BREW"]) {
        let answer = server.request(method, "/old/x?y");
        assert_eq!(answer.status, if method == "TRACE" { 405 } else { 308 }, "{method}");
        assert_eq!(answer.field("Location"), (method != "TRACE").then_some("/new/x?y"), "{method}");
    }
    let mut client = server.connect();
    client.send("POST /old/x HTTP/1.1\r\nHost: a\r\nContent-Length: 5\r\n\r\nhello");
    assert_eq!(client.answer("POST").status, 308);
    client.send("GET /a.txt HTTP/1.1\r\nHost: a\r\n\r\n");
    assert_eq!(client.answer("GET").text(), "a", "the body is no request");
}

/// Regression: the refusal came only after the body, or 408 in place of it.
#[test]
fn a_refusal_does_not_wait_for_the_body() {
    let dir = Dir::new(&[("a.txt", "a")]);
    let server = Server::of(dir, |config| {
        let moved =
            MountHandler::Redirect { status: http::StatusCode::FOUND, to: "/a.txt".to_owned() };
        config.sites[0].mounts.push(mount("/moved", moved));
    });
    let rows = [
        ("a long body", "Content-Length: 100000\r\n\r\n", false),
        ("the start of one", "Content-Length: 100000\r\n\r\n0123456789", false),
        ("a short body", "Content-Length: 10\r\n\r\n", true),
        ("a chunked body", "Transfer-Encoding: chunked\r\n\r\n", true),
        ("one that waits", "Content-Length: 10\r\nExpect: 100-continue\r\n\r\n", false),
    ];
    for path in ["/a.txt", "/none", "/moved"] {
        for (why, rest, stays) in rows {
            for (method, status) in [("POST", 405), ("PURGE", 501), ("OPTIONS", 204)] {
                let status = if path == "/moved" { 302 } else { status };
                let mut client = server.connect();
                client.send(format!("{method} {path} HTTP/1.1\r\nHost: a\r\n{rest}"));
                let answer = client.answer(method);
                assert_eq!(answer.status, status, "{method} {path}: {why}");
                let close = (!stays).then_some("close");
                assert_eq!(answer.field("Connection"), close, "{method} {path}: {why}");
            }
        }
    }
    for (framing, body) in [
        ("Content-Length: 10", "0123456789"),
        ("Transfer-Encoding: chunked", "3\r\nabc\r\n0\r\n\r\n"),
    ] {
        let mut client = server.connect();
        client.send(format!("POST /a.txt HTTP/1.1\r\nHost: a\r\n{framing}\r\n\r\n"));
        assert_eq!(client.answer("POST").status, 405, "{framing}");
        client.send(body);
        assert_eq!(client.request("GET", "/a.txt").text(), "a", "{framing}: the connection stays");
    }
}
