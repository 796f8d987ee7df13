//! Tests of refused uploads: they change no file.

use std::fs;

use hurtle::config::{EtagSource, Symlinks};

use super::{limits, names, send, with};
use crate::support::site::files;
use crate::support::{Response, Server};

#[test]
fn refused_uploads_have_a_reason_and_change_nothing() {
    let tree = [("a.txt", "old"), ("dir/x", ""), ("../beside/secret", "s")];
    let server = with(&tree, |config| {
        limits(config).file_bytes = 8;
        files(config).dotfiles = true;
    });
    server.dir.link("out", "../beside");
    server.dir.link("link", "a.txt");
    server.dir.link("dangling", "../beside/new");
    server.dir.link("inside", "dir");
    let rows = [
        ("a part of a file", "PUT", "/a.txt\nContent-Range: bytes 0-2/3", 400),
        ("an encoded file", "PUT", "/a.txt\nContent-Encoding: gzip", 415),
        ("not encoded after all", "PUT", "/plain\nContent-Encoding: identity", 201),
        ("too large", "PUT", "/a.txt\nX-Body: large", 413),
        ("a directory's name", "PUT", "/dir", 409),
        ("a name that says directory", "PUT", "/dir/", 409),
        ("the root", "PUT", "/", 409),
        ("no such directory", "PUT", "/none/x", 409),
        ("a file in the way", "PUT", "/a.txt/x", 409),
        ("a hidden name", "PUT", "/.htaccess", 403),
        ("beneath a hidden name", "PUT", "/.git/config", 403),
        ("what speaks for the host", "PUT", "/.well-known/acme-challenge/t", 403),
        ("an unfinished file's name", "PUT", "/.hurtle-upload-1", 403),
        ("an encoded variant's name", "PUT", "/a.txt.gz", 403),
        ("another's", "PUT", "/a.txt.BR", 403),
        ("through a link that leads out", "PUT", "/out/new", 403),
        ("a link's own name", "PUT", "/link", 403),
        ("a link to nothing", "PUT", "/dangling", 403),
        ("a link's name, to delete", "DELETE", "/link", 403),
        ("through a link that stays inside", "PUT", "/inside/new", 201),
        ("out by dots", "PUT", "/../beside/new", 400),
        ("out by encoded dots", "PUT", "/%2e%2e/beside/new", 400),
        ("an encoded slash", "PUT", "/..%2fbeside%2fnew", 404),
        ("a NUL", "PUT", "/a%00b", 400),
        ("a name too long", "PUT", &format!("/{}", "n".repeat(256)), 400),
        ("a directory, to delete", "DELETE", "/dir", 409),
        ("nothing there, to delete", "DELETE", "/none/x", 404),
        ("a hidden name, to delete", "DELETE", "/.hidden", 403),
        ("another method", "POST", "/a.txt", 405),
    ];
    for (what, method, target, status) in rows {
        let body: &[u8] = if target.contains("large") { b"123456789" } else { b"new" };
        let response = send(&server, method, target, body);
        assert_eq!(response.status, status, "{what}: {response:?}");
        // Invalid paths are refused before a password is required.
        if !target.contains(['%']) && !target.contains("..") {
            assert_eq!(response.field("X-Content-Type-Options"), Some("nosniff"), "{what}");
        }
        assert_eq!(response.body.is_empty(), status < 400, "{what}: it says why");
    }
    assert_eq!(fs::read(server.dir.path("a.txt")).unwrap(), b"old");
    assert_eq!(names(&server.dir, "../beside"), ["secret"]);
    let left = ["a.txt", "dangling", "dir", "inside", "link", "out", "plain"];
    assert_eq!(names(&server.dir, ""), left);
    assert_eq!(names(&server.dir, "dir"), ["new", "x"]);

    let allow = Some("GET, HEAD, PUT, DELETE, OPTIONS");
    assert_eq!(server.request("OPTIONS", "/a.txt").field("Allow"), allow);
    assert_eq!(send(&server, "POST", "/a.txt", b"").field("Allow"), allow);
}

#[test]
fn links_are_followed_only_if_allowed_and_never_out_of_the_root() {
    for (symlinks, inside) in
        [(Symlinks::Never, 403), (Symlinks::WithinRoot, 201), (Symlinks::Anywhere, 201)]
    {
        let tree = [("dir/", ""), ("../beside/", "")];
        let server = with(&tree, |config| files(config).symlinks = symlinks.clone());
        server.dir.link("inside", "dir");
        server.dir.link("out", "../beside");
        assert_eq!(send(&server, "PUT", "/inside/a", b"x").status, inside, "{symlinks:?}");
        assert_eq!(send(&server, "PUT", "/out/a", b"x").status, 403, "{symlinks:?}");
        assert_eq!(names(&server.dir, "../beside"), [""; 0], "{symlinks:?}");
    }
}

#[test]
fn without_variants_their_names_may_be_uploaded() {
    let server = with(&[], |config| files(config).sidecars = false);
    assert_eq!(send(&server, "PUT", "/a.tar.gz", b"x").status, 201);
    assert_eq!(server.get("/a.tar.gz").text(), "x");
}

#[test]
fn without_the_setting_uploads_are_refused() {
    let server = Server::start(&[("a.txt", "old")]);
    assert_eq!(send(&server, "PUT", "/a.txt", b"new").status, 405);
    assert_eq!(send(&server, "DELETE", "/a.txt", b"").status, 405);
    assert_eq!(fs::read(server.dir.path("a.txt")).unwrap(), b"old");
}

#[test]
fn conditions_are_evaluated() {
    for etag in ["auto", "content"] {
        let server = with(&[], |config| {
            if etag == "content" {
                files(config).etag = EtagSource::Content;
            }
        });
        let tag = |response: &Response| response.field("ETag").unwrap().to_owned();
        let rows = |current: &str| {
            [
                ("PUT", "If-None-Match: *".to_owned(), 412),
                ("PUT", "If-Match: \"other\"".to_owned(), 412),
                ("PUT", format!("If-None-Match: {current}"), 412),
                ("PUT", format!("If-Match: W/{current}"), 412),
                ("PUT", "If-Unmodified-Since: Sun, 06 Nov 1994 08:49:37 GMT".to_owned(), 412),
                ("DELETE", "If-Match: \"other\"".to_owned(), 412),
            ]
        };
        assert_eq!(send(&server, "PUT", "/a\nIf-Match: *", b"x").status, 412, "nothing there");
        assert_eq!(send(&server, "DELETE", "/a\nIf-Match: *", b"").status, 412);
        let one = send(&server, "PUT", "/a\nIf-None-Match: *", b"one");
        assert_eq!(one.status, 201);
        for (method, field, status) in rows(&tag(&one)) {
            let response = send(&server, method, &format!("/a\n{field}"), b"no");
            assert_eq!(response.status, status, "{etag}, {method}, {field}");
        }
        let two = send(&server, "PUT", &format!("/a\nIf-Match: {}", tag(&one)), b"two");
        assert_eq!(two.status, 204, "{etag}");
        let late = send(&server, "PUT", &format!("/a\nIf-Match: {}", tag(&one)), b"no");
        assert_eq!(late.status, 412, "{etag}: that one is gone");
        assert_eq!(server.get("/a").field("ETag"), Some(&*tag(&two)), "{etag}");
        let gone = send(&server, "DELETE", &format!("/a\nIf-Match: {}", tag(&two)), b"");
        assert_eq!(gone.status, 204, "{etag}");
    }
}

#[test]
fn refused_uploads_get_no_100_continue() {
    let server = with(&[("a.txt", "old")], |config| limits(config).file_bytes = 100);
    let rows = [
        ("too large", "/b", "Content-Length: 101", "413"),
        ("a condition", "/a.txt", "Content-Length: 5\r\nIf-None-Match: *", "412"),
        ("a name", "/.x", "Content-Length: 5", "403"),
        ("a part", "/b", "Content-Length: 5\r\nContent-Range: bytes 0-4/9", "400"),
        ("nothing", "/b", "Content-Length: 5", "100"),
    ];
    for (what, path, fields, status) in rows {
        let mut client = server.connect();
        client.send(format!(
            "PUT {path} HTTP/1.1\r\nHost: a\r\nExpect: 100-continue\r\n{fields}\r\n\r\n"
        ));
        let first = client.response();
        assert_eq!(first.status.to_string(), status, "{what}");
        if first.status == 100 {
            client.send("hello");
            assert_eq!(client.response().status, 201, "{what}");
        }
    }
    assert_eq!(names(&server.dir, ""), ["a.txt", "b"]);
}

#[test]
fn a_body_of_unknown_length_is_cut_off_at_the_limit() {
    let server = with(&[], |config| limits(config).file_bytes = 100_000);
    let mut client = server.connect();
    client.send("PUT /a HTTP/1.1\r\nHost: a\r\nTransfer-Encoding: chunked\r\n\r\n");
    for _ in 0..11 {
        client.send(format!("2710\r\n{}\r\n", "x".repeat(10_000)));
    }
    assert_eq!(client.answer("PUT").status, 413);
    assert_eq!(names(&server.dir, ""), [""; 0]);
}

#[test]
fn the_configured_free_space_stays_free() {
    let server = with(&[], |config| limits(config).free_bytes = 1 << 40);
    let response = send(&server, "PUT", "/a", b"x");
    assert_eq!(response.status, 507, "{response:?}");
    assert_eq!(names(&server.dir, ""), [""; 0]);
}
