//! Tests of uploads: the files on the disk and the responses, also after failures.

mod forms;
mod refused;
mod resumed;

use std::fs;
use std::io::Read;
use std::net::Shutdown;
use std::os::unix::fs::PermissionsExt;
use std::time::{Duration, Instant, SystemTime};

use hurtle::config::{Auth, Config, Uploads};

use crate::support::site::files;
use crate::support::{Client, Dir, Response, Server, eventually};

/// Serves these files and accepts uploads without a password.
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

/// Sends a request with a body of known length; see `Server::get`.
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

/// Sorted names in a directory, including hidden ones.
fn names(dir: &Dir, path: &str) -> Vec<String> {
    let entries = fs::read_dir(dir.path(path)).unwrap();
    let mut names: Vec<String> =
        entries.map(|entry| entry.unwrap().file_name().into_string().unwrap()).collect();
    names.sort();
    names
}

/// Waits until a condition holds.
#[track_caller]
fn wait_until(what: &str, holds: impl Fn() -> bool) {
    eventually(what, || holds().then_some(()));
}

/// Bytes of which no two nearby stretches are equal.
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
    // The new file is served at once although the old one was cached, with the announced
    // entity-tag.
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
fn an_upload_is_invisible_until_it_is_complete() {
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

/// `true` if this process has an unfinished file open beneath the directory.
fn holds_open(dir: &Dir) -> bool {
    let root = dir.root();
    let Ok(descriptors) = fs::read_dir("/proc/self/fd") else { return false };
    descriptors.flatten().any(|fd| {
        let target = fs::read_link(fd.path()).unwrap_or_default();
        target.starts_with(&root) && target.to_string_lossy().ends_with(" (deleted)")
    })
}

/// Regression: they were answered 400, although the file could be read.
#[test]
fn names_and_queries_have_characters_that_no_uri_has() {
    let server = start(&[]);
    for path in ["/a\"<b>", "/b?\"<c>\""] {
        assert_eq!(send(&server, "PUT", path, b"hello").status, 201, "{path}");
        assert_eq!(server.get(path).text(), "hello", "{path}");
    }
}

/// Regression: an encoding has another entity-tag, with which the file could not be put back.
#[test]
fn the_tag_that_a_browser_gets_is_the_one_that_if_match_takes() {
    let server = start(&[("notes.json", &"[1, 2] ".repeat(2_000))]);
    let file = fs::File::options().append(true).open(server.dir.path("notes.json")).unwrap();
    file.set_modified(SystemTime::now() - Duration::from_secs(3_600)).unwrap();
    for _ in 0..3 {
        let shown = server.get("/notes.json\nAccept-Encoding: gzip, br, zstd");
        let tag = shown.field("ETag").unwrap();
        let put = send(&server, "PUT", &format!("/notes.json\nIf-Match: {tag}"), b"[]");
        assert_eq!(put.status, 204, "{shown:?}");
    }
}

#[test]
fn writers_of_one_name_take_turns() {
    let server = start(&[]);
    let first = send(&server, "PUT", "/a", b"0");
    let tag = first.field("ETag").unwrap();
    // All have the same If-Match; one succeeds.
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

    // Several requests have If-None-Match: *; one succeeds.
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
fn a_replaced_file_is_still_sent_to_its_readers() {
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
fn a_paced_upload_takes_its_time() {
    let server = with(&[], |config| limits(config).rate = 1_000_000);
    let begun = Instant::now();
    assert_eq!(send(&server, "PUT", "/a", &pattern(500_000)).status, 201);
    assert!(begun.elapsed() >= Duration::from_millis(450), "{:?}", begun.elapsed());
    assert!(fs::read(server.dir.path("a")).unwrap() == pattern(500_000));
}

#[test]
fn unfinished_files_are_never_served_and_removed_at_the_start() {
    let tree = [("d/.hurtle-upload-1-2-3", "half"), ("d/x", "")];
    let dir = Dir::new(&tree);
    // Locked, as by another server process.
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
