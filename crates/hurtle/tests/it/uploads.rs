//! Uploads: what is on the disk and what is answered, byte by byte, whatever happens on the way.

use std::fs;
use std::io::Read;
use std::net::Shutdown;
use std::os::unix::fs::{MetadataExt, PermissionsExt};
use std::time::{Duration, Instant};

use hurtle::config::{Auth, Config, Symlinks, Uploads};

use crate::support::client::PATIENCE;
use crate::support::site::files;
use crate::support::{Client, Dir, Response, Server};

/// Serves these files and takes uploads from everybody.
fn start(tree: &[(&str, &str)]) -> Server {
    with(tree, |_| ())
}

fn with(tree: &[(&str, &str)], change: impl FnOnce(&mut Config)) -> Server {
    Server::with(tree, |config| {
        config.sites[0].auth = Some(Auth::None);
        files(config).uploads = Some(Uploads { free_bytes: 0, ..Uploads::default() });
        change(config);
    })
}

fn limits(config: &mut Config) -> &mut Uploads {
    files(config).uploads.as_mut().unwrap()
}

/// A request with a body of a known length, as `Server::get`.
#[track_caller]
fn send(server: &Server, method: &str, target: &str, body: &[u8]) -> Response {
    send_on(&mut server.connect(), method, target, body)
}

#[track_caller]
fn send_on(client: &mut Client, method: &str, target: &str, body: &[u8]) -> Response {
    let (path, fields) = target.split_once('\n').unwrap_or((target, ""));
    let mut head = format!("{method} {path} HTTP/1.1\r\nHost: a\r\n");
    for field in fields.lines() {
        head.push_str(field);
        head.push_str("\r\n");
    }
    head.push_str(&format!("Content-Length: {}\r\n\r\n", body.len()));
    client.send(head);
    client.send(body);
    client.answer(method)
}

/// What is in a directory, hidden names too.
fn names(dir: &Dir, path: &str) -> Vec<String> {
    let entries = fs::read_dir(dir.path(path)).unwrap();
    let mut names: Vec<String> =
        entries.map(|entry| entry.unwrap().file_name().into_string().unwrap()).collect();
    names.sort();
    names
}

/// Waits until something holds.
#[track_caller]
fn wait_until(what: &str, holds: impl Fn() -> bool) {
    let end = Instant::now() + PATIENCE;
    while !holds() {
        assert!(Instant::now() < end, "not in time: {what}");
        std::thread::sleep(Duration::from_millis(5));
    }
}

/// Bytes of which no two nearby runs are alike.
fn pattern(len: usize) -> Vec<u8> {
    (0..len).map(|i| (i * 31 + i / 251 * 7 + i / 65_521) as u8).collect()
}

#[test]
fn put_creates_and_replaces_and_delete_removes() {
    let server = start(&[("d/", "")]);
    let mut client = server.connect();
    let created = send_on(&mut client, "PUT", "/d/a.txt", b"one");
    assert_eq!((created.status, created.body.len()), (201, 0), "{created:?}");
    let first = created.field("ETag").unwrap().to_owned();
    assert!(first.starts_with('"'), "a strong tag: {first}");
    let got = client.request("GET", "/d/a.txt");
    assert_eq!((got.text(), got.field("ETag")), ("one", Some(&*first)));
    assert_eq!(got.field("X-Content-Type-Options"), Some("nosniff"));

    let replaced = send_on(&mut client, "PUT", "/d/a.txt", b"two");
    assert_eq!(replaced.status, 204, "{replaced:?}");
    let second = replaced.field("ETag").unwrap().to_owned();
    assert_ne!(first, second, "files of one size in one moment have two tags");
    // At once, though the file was known, and with the tag that was told.
    let got = client.request("GET", "/d/a.txt");
    assert_eq!((got.text(), got.field("ETag")), ("two", Some(&*second)));
    assert_eq!(names(&server.dir, "d"), ["a.txt"]);

    assert_eq!(client.request("DELETE", "/d/a.txt").status, 204);
    assert_eq!(client.request("GET", "/d/a.txt").status, 404);
    assert_eq!(client.request("DELETE", "/d/a.txt").status, 404);
    assert_eq!(names(&server.dir, "d"), [""; 0]);
}

#[test]
fn bodies_of_every_size_and_framing_arrive_whole() {
    for fsync in [false, true] {
        let server = with(&[], |config| limits(config).fsync = fsync);
        for len in [0, 1, 4095, 256 << 10, (256 << 10) + 1, 9 << 20] {
            let body = pattern(len);
            let path = format!("/f{len}");
            assert_eq!(send(&server, "PUT", &path, &body).status, 201, "{len}");
            assert!(fs::read(server.dir.path(&path[1..])).unwrap() == body, "{len}");
        }
        let mut client = server.connect();
        client.send("PUT /c HTTP/1.1\r\nHost: a\r\nTransfer-Encoding: chunked\r\n\r\n");
        client.send("3\r\nabc\r\n2;x=y\r\nde\r\n0\r\nX-Sum: 1\r\n\r\n");
        assert_eq!(client.answer("PUT").status, 201);
        assert_eq!(fs::read(server.dir.path("c")).unwrap(), b"abcde");
        client.expect_open();
    }
}

#[test]
fn an_uploaded_file_is_never_executable() {
    let server = start(&[]);
    send(&server, "PUT", "/run.sh", b"#!/bin/sh\n");
    let mode = fs::metadata(server.dir.path("run.sh")).unwrap().permissions().mode();
    assert_eq!(mode & 0o111, 0, "{mode:o}");
    assert_eq!(mode & 0o400, 0o400, "{mode:o}");
}

#[test]
fn what_is_not_taken_says_why_and_changes_nothing() {
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
        // Paths that lead nowhere are refused before anybody is asked.
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
fn links_are_not_followed_where_none_are_and_never_out_of_the_root() {
    for (symlinks, inside) in
        [(Symlinks::Never, 403), (Symlinks::WithinRoot, 201), (Symlinks::Anywhere, 201)]
    {
        let tree = [("dir/", ""), ("../beside/", "")];
        let server = with(&tree, |config| files(config).symlinks = symlinks);
        server.dir.link("inside", "dir");
        server.dir.link("out", "../beside");
        assert_eq!(send(&server, "PUT", "/inside/a", b"x").status, inside, "{symlinks:?}");
        assert_eq!(send(&server, "PUT", "/out/a", b"x").status, 403, "{symlinks:?}");
        assert_eq!(names(&server.dir, "../beside"), [""; 0], "{symlinks:?}");
    }
}

#[test]
fn where_no_variants_are_served_their_names_are_free() {
    let server = with(&[], |config| files(config).sidecars = false);
    assert_eq!(send(&server, "PUT", "/a.tar.gz", b"x").status, 201);
    assert_eq!(server.get("/a.tar.gz").text(), "x");
}

#[test]
fn without_uploads_there_are_none() {
    let server = Server::start(&[("a.txt", "old")]);
    assert_eq!(send(&server, "PUT", "/a.txt", b"new").status, 405);
    assert_eq!(send(&server, "DELETE", "/a.txt", b"").status, 405);
    assert_eq!(fs::read(server.dir.path("a.txt")).unwrap(), b"old");
}

#[test]
fn conditions_are_kept() {
    for etag in ["auto", "content"] {
        let server = with(&[], |config| {
            if etag == "content" {
                files(config).etag = hurtle::config::EtagSource::Content;
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
fn what_is_refused_is_not_asked_for() {
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
fn more_than_was_allowed_is_cut_off_where_no_length_was_told() {
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
fn nothing_is_seen_of_an_upload_before_it_is_whole() {
    let server = with(&[("a", "old")], |config| files(config).listing = true);
    let mut client = server.connect();
    client.send("PUT /a HTTP/1.1\r\nHost: a\r\nContent-Length: 600000\r\n\r\n");
    client.send(pattern(599_999));
    assert_eq!(server.get("/a").text(), "old");
    assert_eq!(names(&server.dir, ""), ["a"], "not even a hidden name");
    client.send([pattern(600_000)[599_999]]);
    assert_eq!(client.answer("PUT").status, 204);
    assert!(fs::read(server.dir.path("a")).unwrap() == pattern(600_000));
}

#[test]
fn an_aborted_upload_leaves_nothing() {
    let server = start(&[("a", "old")]);
    let rows = ["a half-closed connection", "a closed one", "a broken chunk"];
    for (row, what) in rows.iter().enumerate() {
        let mut client = server.connect();
        let framing =
            if row == 2 { "Transfer-Encoding: chunked" } else { "Content-Length: 900000" };
        client.send(format!("PUT /a HTTP/1.1\r\nHost: a\r\n{framing}\r\n\r\n"));
        match row {
            0 => {
                client.send(pattern(500_000));
                client.stream.shutdown(Shutdown::Write).unwrap();
                assert_eq!(client.answer("PUT").status, 400, "{what}");
            }
            1 => {
                client.send(pattern(500_000));
                wait_until("its file is open", || holds_open(&server.dir) || !has_proc());
                drop(client);
            }
            _ => {
                client.send("5\r\nhello\r\nzz\r\n");
                assert_eq!(client.answer("PUT").status, 400, "{what}");
            }
        }
        assert_eq!(server.get("/a").text(), "old", "{what}");
        wait_until("its file is closed", || !holds_open(&server.dir));
        assert_eq!(names(&server.dir, ""), ["a"], "{what}");
    }
}

fn has_proc() -> bool {
    fs::exists("/proc/self/fd").unwrap()
}

/// Whether this process has an unfinished file open beneath the directory.
fn holds_open(dir: &Dir) -> bool {
    let root = dir.root();
    let Ok(descriptors) = fs::read_dir("/proc/self/fd") else { return false };
    descriptors.flatten().any(|fd| {
        let target = fs::read_link(fd.path()).unwrap_or_default();
        target.starts_with(&root) && target.to_string_lossy().ends_with(" (deleted)")
    })
}

#[test]
fn writers_of_one_name_take_turns() {
    let server = start(&[]);
    let first = send(&server, "PUT", "/a", b"0");
    let tag = first.field("ETag").unwrap();
    // All know the same file; one of them can be the next.
    let outcomes: Vec<u16> = std::thread::scope(|scope| {
        let server = &server;
        let writers: Vec<_> = (1..=8)
            .map(|n| {
                scope.spawn(move || {
                    let body = vec![b'0' + n; 300_000];
                    send(server, "PUT", &format!("/a\nIf-Match: {tag}"), &body).status
                })
            })
            .collect();
        writers.into_iter().map(|writer| writer.join().unwrap()).collect()
    });
    assert_eq!(outcomes.iter().filter(|status| **status == 204).count(), 1, "{outcomes:?}");
    assert_eq!(outcomes.iter().filter(|status| **status == 412).count(), 7, "{outcomes:?}");
    let winner = outcomes.iter().position(|status| *status == 204).unwrap() as u8;
    assert_eq!(fs::read(server.dir.path("a")).unwrap(), vec![b'1' + winner; 300_000]);

    // And of those who want to be first, one is.
    let outcomes: Vec<u16> = std::thread::scope(|scope| {
        let server = &server;
        let write = || send(server, "PUT", "/new\nIf-None-Match: *", b"x").status;
        let writers: Vec<_> = (0..8).map(|_| scope.spawn(write)).collect();
        writers.into_iter().map(|writer| writer.join().unwrap()).collect()
    });
    assert_eq!(outcomes.iter().filter(|status| **status == 201).count(), 1, "{outcomes:?}");
    assert_eq!(names(&server.dir, ""), ["a", "new"]);
}

#[test]
fn a_replaced_file_still_goes_to_whoever_reads_it() {
    let server = start(&[]);
    let old = pattern(8 << 20);
    send(&server, "PUT", "/a", &old);
    let mut reader = server.connect();
    reader.send("GET /a HTTP/1.1\r\nHost: a\r\n\r\n");
    let mut begun = vec![0; 1];
    reader.stream.read_exact(&mut begun).unwrap();
    assert_eq!(send(&server, "PUT", "/a", b"new").status, 204);
    let mut rest = vec![0; 8 << 20];
    reader.stream.read_exact(&mut rest).unwrap();
    drop(reader);
    assert_eq!(server.get("/a").text(), "new");
}

#[test]
fn room_that_must_stay_free_stays_free() {
    let server = with(&[], |config| limits(config).free_bytes = 1 << 40);
    let response = send(&server, "PUT", "/a", b"x");
    assert_eq!(response.status, 507, "{response:?}");
    assert_eq!(names(&server.dir, ""), [""; 0]);
}

#[test]
fn a_paced_upload_takes_its_time() {
    let server = with(&[], |config| limits(config).rate = 1_000_000);
    let begun = Instant::now();
    assert_eq!(send(&server, "PUT", "/a", &pattern(500_000)).status, 201);
    assert!(begun.elapsed() >= Duration::from_millis(450), "{:?}", begun.elapsed());
    assert!(fs::read(server.dir.path("a")).unwrap() == pattern(500_000));
}

#[test]
fn unfinished_files_are_never_served_and_go_at_the_start() {
    let tree = [("d/.hurtle-upload-1-2-3", "half"), ("d/x", "")];
    let dir = Dir::new(&tree);
    // Held, as by another server that is at work here.
    let held = fs::File::open(dir.path("d/.hurtle-upload-1-2-3")).unwrap();
    rustix::fs::flock(&held, rustix::fs::FlockOperation::LockExclusive).unwrap();
    dir.write("d/.hurtle-upload-9", "left");
    let server = Server::of(dir, |config| {
        files(config).uploads = Some(Uploads { free_bytes: 0, ..Uploads::default() });
        files(config).dotfiles = true;
        files(config).listing = true;
    });
    assert_eq!(server.get("/d/.hurtle-upload-1-2-3").status, 404);
    let listing = server.get("/d/").text().to_owned();
    assert!(listing.contains("x") && !listing.contains("hurtle-upload"), "{listing}");
    wait_until("the sweep", || names(&server.dir, "d") == [".hurtle-upload-1-2-3", "x"]);
}

#[test]
fn a_directory_that_may_not_be_written_says_so() {
    let server = start(&[("d/a", "old")]);
    let path = server.dir.path("d");
    fs::set_permissions(&path, fs::Permissions::from_mode(0o555)).unwrap();
    // Root may all the same.
    let may = fs::metadata(&path).unwrap().uid() == 0 && rustix::process::geteuid().is_root();
    if !may {
        for (method, name) in [("PUT", "new"), ("PUT", "a"), ("DELETE", "a")] {
            let response = send(&server, method, &format!("/d/{name}"), b"x");
            assert_eq!(response.status, 403, "{method} {name}: {response:?}");
        }
        assert_eq!(server.get("/d/a").text(), "old");
    }
    fs::set_permissions(&path, fs::Permissions::from_mode(0o755)).unwrap();
}
