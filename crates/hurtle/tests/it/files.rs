//! Tests of files: the file selected by a path, and the response's fields.

use std::collections::BTreeMap;

use http::{HeaderName, HeaderValue, StatusCode};
use hurtle::config::{EtagSource, HeaderRule, Matcher, MountHandler, Symlinks, TryFile};

use crate::support::rows::check;
use crate::support::site::{files, files_of, mount};
use crate::support::{MODIFIED, Server};

#[test]
fn paths() {
    let tree = [
        ("index.html", "root"),
        ("a.txt", "a"),
        ("dir/index.html", "in dir"),
        ("dir/b.txt", "b"),
        ("bare/c.txt", "c"),
        ("deep/er/index.html/d.txt", "d"),
        ("empty.txt", ""),
        ("a b/index.html", "ab"),
        ("%41.txt", "percent"),
        ("ä.txt", "umlaut"),
        ("back\\slash/index.html", "back"),
    ];
    let server = Server::start(&tree);
    check(
        &server,
        &[
            ("the root's index", "/", 200, &["Content-Length: 4"], Some("root")),
            ("by name too", "/index.html", 200, &[], Some("root")),
            ("a file", "/a.txt", 200, &["Content-Length: 1", "Accept-Ranges: bytes"], Some("a")),
            ("an empty file", "/empty.txt", 200, &["Content-Length: 0"], Some("")),
            ("a directory's index", "/dir/", 200, &[], Some("in dir")),
            ("without its slash", "/dir", 301, &["Location: /dir/"], None),
            ("the query is kept", "/dir?a=b&c", 301, &["Location: /dir/?a=b&c"], None),
            ("an empty query is kept", "/dir?", 301, &["Location: /dir/?"], None),
            ("never another host", "//dir", 301, &["Location: /dir/"], None),
            ("nor by many slashes", "////dir", 301, &["Location: /dir/"], None),
            ("nor by a backslash", "/back%5Cslash", 301, &["Location: /back%5Cslash/"], None),
            ("a name that needs encoding", "/a%20b", 301, &["Location: /a%20b/"], None),
            ("and what is behind it", "/a%20b/", 200, &[], Some("ab")),
            ("a percent sign in a name", "/%2541.txt", 200, &[], Some("percent")),
            ("which is not decoded twice", "/%41.txt", 404, &[], None),
            ("a name in UTF-8", "/%C3%A4.txt", 200, &[], Some("umlaut")),
            ("a directory without an index", "/bare/", 404, &[], None),
            ("has its slash all the same", "/bare", 301, &["Location: /bare/"], None),
            ("an index that is a directory", "/deep/er/", 404, &[], None),
            ("nothing there", "/none", 404, &["Content-Type: text/plain; charset=utf-8"], None),
            ("nothing in nothing", "/none/none", 404, &[], None),
            ("a file is no directory", "/a.txt/", 404, &[], None),
            ("nor has it anything in it", "/a.txt/b", 404, &[], None),
            ("a name has a case", "/A.txt", 404, &[], None),
            ("dots are resolved", "/dir/../a.txt", 200, &[], Some("a")),
            ("a trailing dot means the directory", "/dir/.", 200, &[], Some("in dir")),
            ("so do two", "/dir/x/..", 200, &[], Some("in dir")),
            ("a name longer than any", &format!("/{}", "x".repeat(300)), 404, &[], None),
            ("a path longer than any", &format!("/{}", "x/".repeat(3000)), 404, &[], None),
        ],
    );
}

#[test]
fn media_types() {
    let names = [
        ("page.html", "text/html; charset=utf-8"),
        ("PAGE.HTML", "text/html; charset=utf-8"),
        ("plain.txt", "text/plain; charset=utf-8"),
        ("style.css", "text/css; charset=utf-8"),
        ("app.js", "text/javascript; charset=utf-8"),
        ("app.mjs", "text/javascript; charset=utf-8"),
        ("data.json", "application/json"),
        ("pic.svg", "image/svg+xml"),
        ("pic.png", "image/png"),
        ("pic.jpg", "image/jpeg"),
        ("pic.webp", "image/webp"),
        ("font.woff2", "font/woff2"),
        ("code.wasm", "application/wasm"),
        ("paper.pdf", "application/pdf"),
        ("archive.tar.gz", "application/gzip"),
        ("archive.tgz", "application/gzip"),
        ("list.m3u8", "application/vnd.apple.mpegurl"),
        ("card.vcf", "text/vcard; charset=utf-8"),
        ("package.rpm", "application/x-rpm"),
        ("model.usdz", "model/vnd.usdz+zip"),
        ("film.mts", "video/mp2t"),
        ("notes.own", "text/x-own"),
        ("unknown.zzz", "application/octet-stream"),
        ("Makefile", "application/octet-stream"),
        ("ends.in.", "application/octet-stream"),
    ];
    let tree: Vec<_> = names.iter().map(|(name, _)| (*name, "x")).collect();
    let server = Server::with(&tree, |config| {
        let own = HeaderValue::from_static("text/x-own");
        files(config).media_types = BTreeMap::from([("own".to_owned(), own)]);
    });
    for (name, media_type) in names {
        let response = server.get(&format!("/{name}"));
        assert_eq!(response.field("Content-Type"), Some(media_type), "{name}");
    }
}

#[test]
fn validators() {
    let server = Server::start(&[("a.txt", "aa"), ("same.txt", "bb"), ("longer.txt", "bbb")]);
    let tag = |path| server.get(path).field("ETag").unwrap().to_owned();
    let modified = server.get("/a.txt");
    assert_eq!(modified.field("Last-Modified"), Some(MODIFIED.1), "the file's own time");
    assert!(tag("/a.txt").starts_with('"'), "strong: the file is old");
    assert_ne!(tag("/a.txt"), tag("/same.txt"), "another content, although their times are set");
    assert_ne!(tag("/a.txt"), tag("/longer.txt"), "another size");

    server.dir.write("new.txt", "aa");
    server.dir.set_modified("new.txt", MODIFIED.0 + 1);
    assert_eq!(tag("/a.txt"), tag("/new.txt"), "two hosts of one deploy must agree");

    std::fs::write(server.dir.path("young.txt"), "aa").unwrap();
    let young = server.get("/young.txt");
    let weak = young.field("ETag").unwrap();
    assert!(weak.starts_with("W/\""), "a young file may change again unseen: {weak}");

    server.dir.write("future.txt", "aa");
    server.dir.set_modified("future.txt", now_secs() + 86_400);
    let future = server.get("/future.txt");
    assert_eq!(future.field("Last-Modified"), None, "never later than Date (RFC 9110 8.8.2.1)");
}

#[test]
fn tags_of_reproducible_builds_come_from_the_contents() {
    let dir_of = |secs| {
        let server = Server::start(&[("a.txt", "aa"), ("b.txt", "bb"), ("twin.txt", "aa")]);
        for name in ["a.txt", "b.txt", "twin.txt"] {
            server.dir.set_modified(name, secs);
        }
        server
    };
    for secs in [0, 1, 315_532_800] {
        let server = dir_of(secs);
        let tag = |path| server.get(path).field("ETag").unwrap().to_owned();
        assert_ne!(tag("/a.txt"), tag("/b.txt"), "same size, same time {secs}, other contents");
        assert_eq!(tag("/a.txt"), tag("/twin.txt"), "same contents");
    }
}

#[test]
fn tags_as_configured() {
    let tree = [("a.txt", "aa"), ("b.txt", "bb")];
    let off = Server::with(&tree, |config| files(config).etag = EtagSource::Off);
    assert_eq!(off.get("/a.txt").field("ETag"), None);
    assert_eq!(off.get("/a.txt").field("Last-Modified"), Some(MODIFIED.1));

    let content = Server::with(&tree, |config| files(config).etag = EtagSource::Content);
    let tag = |path| content.get(path).field("ETag").unwrap().to_owned();
    assert_ne!(tag("/a.txt"), tag("/b.txt"));
    content.dir.set_modified("a.txt", now_secs());
    assert!(tag("/a.txt").starts_with('"'), "contents are never weak");
}

#[test]
fn try_files() {
    let tree = [("a.html", "a"), ("b", "b"), ("fallback.html", "fallback"), ("dir/x", "x")];
    let path = |path: &str| TryFile::Path(path.to_owned());
    let server = Server::with(&tree, |config| {
        files(config).try_files = vec![path("{path}"), path("{path}.html"), path("/fallback.html")];
    });
    check(
        &server,
        &[
            ("the path itself", "/b", 200, &[], Some("b")),
            (
                "the path with a suffix",
                "/a",
                200,
                &["Content-Type: text/html; charset=utf-8"],
                Some("a"),
            ),
            ("the last resort", "/none/at/all", 200, &[], Some("fallback")),
            ("a directory still wants its slash", "/dir", 301, &["Location: /dir/"], None),
            ("hidden names are not tried", "/.git", 404, &[], None),
        ],
    );

    let gone = Server::with(&tree, |config| {
        files(config).try_files = vec![path("{path}"), TryFile::Status(StatusCode::GONE)];
    });
    check(
        &gone,
        &[("found", "/b", 200, &[], Some("b")), ("not found", "/a", 410, &[], Some("410 Gone\n"))],
    );

    // Regression: the second `{path}` was taken literally, and the first had no slash before it.
    let tree = [("dir/a", "in dir"), ("b/b", "twice"), ("c/more/c", "more"), ("../x", "beside")];
    let several = Server::with(&tree, |config| {
        let tries = ["/dir{path}", "{path}{path}", "{path}/more/{path}"];
        files(config).try_files = tries.map(path).to_vec();
    });
    check(
        &several,
        &[
            ("text before the path", "/a", 200, &[], Some("in dir")),
            ("the path twice", "/b", 200, &[], Some("twice")),
            ("text between the two", "/c", 200, &[], Some("more")),
        ],
    );
    let upward = Server::with(&tree, |config| {
        files(config).try_files = vec![path("{path}../x")];
        files(config).symlinks = Symlinks::Anywhere;
    });
    check(&upward, &[("no element leaves the root", "/", 404, &[], None)]);
}

#[test]
fn single_page_app() {
    let tree =
        [("index.html", "app"), ("real.js", "js"), ("bare/x.txt", "x"), ("gone.html", "gone")];
    let server = Server::with(&tree, |config| {
        files(config).spa = Some("/index.html".to_owned());
        config.sites[0].error_pages =
            BTreeMap::from([(StatusCode::NOT_FOUND, "/gone.html".into())]);
    });
    let page = ["Content-Type: text/html; charset=utf-8", "Vary: Accept"];
    let encoded = ["Vary: Accept-Encoding, Accept"];
    let rows: &[(&str, &str, bool)] = &[
        ("a browser", "/users/7\nAccept: text/html,*/*;q=0.8", true),
        ("any text", "/users/7\nAccept: text/*", true),
        ("anything", "/users/7\nAccept: */*", true),
        ("no Accept at all", "/users/7", true),
        ("a directory without an index", "/bare/", true),
        ("a name with an extension, as a page", "/john.doe\nAccept: text/html", true),
        ("a missing script", "/gone.js\nAccept: */*", false),
        ("a missing style", "/gone.css\nAccept: text/css,*/*;q=0.1", false),
        ("a missing file, without Accept", "/gone.png", false),
        ("html refused", "/users/7\nAccept: text/html;q=0, */*", false),
        ("JSON", "/users/7\nAccept: application/json", false),
    ];
    for (why, target, is_page) in rows {
        let (status, body) = if *is_page { (200, "app") } else { (404, "gone") };
        check(&server, &[(why, target, status, &page, Some(body))]);
    }
    check(
        &server,
        &[
            ("a real file is itself", "/real.js\nAccept: text/html", 200, &["!Vary"], Some("js")),
            ("so is the page", "/index.html", 200, &["!Vary"], Some("app")),
            ("hidden names stay hidden", "/.env\nAccept: text/html", 404, &["!Vary"], None),
        ],
    );
    assert_eq!(server.request("POST", "/users/7\nAccept: text/html").status, 405);

    server.dir.write("index.html", "app ".repeat(1_000));
    let own = server.get("/users/7").field("ETag").unwrap().to_owned();
    let known = format!("/users/7\nIf-None-Match: {own}");
    check(
        &server,
        &[
            ("a page with variants", "/users/7", 200, &encoded, None),
            ("the same page", &known, 304, &encoded, None),
        ],
    );
}

#[test]
fn header_rules_of_failed_conditions_and_ranges() {
    let server = Server::with(&[("a.txt", "0123456789")], |config| {
        let rule = |name, always| HeaderRule {
            matcher: Matcher::of_pattern("/**"),
            set: vec![(HeaderName::from_static(name), HeaderValue::from_static("1"))],
            remove: vec![],
            always,
            types: Vec::new(),
            if_absent: false,
            cookie_flags: Vec::new(),
        };
        config.sites[0].headers = vec![rule("x-often", false), rule("x-always", true)];
    });
    let all = ["x-often: 1", "x-always: 1"];
    let some = ["!x-often", "x-always: 1"];
    for _ in 0..2 {
        check(
            &server,
            &[
                ("a file", "/a.txt", 200, &all, None),
                ("a part", "/a.txt\nRange: bytes=1-2", 206, &all, None),
                ("nothing new", "/a.txt\nIf-None-Match: *", 304, &all, None),
                ("another file", "/a.txt\nIf-Match: \"x\"", 412, &some, None),
                ("behind the end", "/a.txt\nRange: bytes=99-", 416, &some, None),
                ("no file", "/none", 404, &some, None),
            ],
        );
    }
}

#[test]
fn a_mount_of_its_own() {
    let tree = [("index.html", "root"), ("../docs/index.html", "docs"), ("../docs/a/b.txt", "b")];
    let server = Server::with(&tree, |config| {
        let docs = files_of(&files(config).root.join("../docs"));
        config.sites[0].mounts.push(mount("/docs", MountHandler::Files(Box::new(docs))));
    });
    check(
        &server,
        &[
            ("beneath it", "/docs/", 200, &[], Some("docs")),
            ("a file", "/docs/a/b.txt", 200, &[], Some("b")),
            ("its own slash, or links would break", "/docs", 301, &["Location: /docs/"], None),
            ("with the query", "/docs?x", 301, &["Location: /docs/?x"], None),
            ("a directory's slash", "/docs/a", 301, &["Location: /docs/a/"], None),
            ("not what begins alike", "/docsify", 404, &[], None),
            ("dots lead to the other mount", "/docs/../", 200, &[], Some("root")),
            ("however many", "/docs/a/../../index.html", 200, &[], Some("root")),
        ],
    );
}

fn now_secs() -> u64 {
    std::time::SystemTime::UNIX_EPOCH.elapsed().unwrap().as_secs()
}
