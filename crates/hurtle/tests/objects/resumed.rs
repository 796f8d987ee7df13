//! Resumable uploads to a store (draft-ietf-httpbis-resumable-upload-12, interop version 8): broken
//! off, resumed, and sent on to a store that fails.

use std::fs;
use std::path::PathBuf;
use std::time::{Duration, SystemTime};

use rustix::process::Signal;

use crate::child::{Child, eventually};
use crate::proxy::Fault;
use crate::store::{Bucket, content};
use crate::support::{Client, Response};
use crate::uploads::send;

const SPEAKS: &str = "Upload-Draft-Interop-Version: 8\r\n";

/// A mount that takes uploads, whatever space the disk has.
const TAKES: &str = "uploads = { free_bytes = 0 }\nauth = \"none\"";

/// A store that does not respond is given up soon, and a slow machine is waited for.
const SHORT: &str = "timeout = \"4s\"";

/// More than two parts, in bytes.
const LARGE: usize = 20 << 20;

/// Begins an incomplete upload with these fields; returns its path.
#[track_caller]
pub(crate) fn begin(server: &Child, target: &str, fields: &str, body: &[u8]) -> String {
    let fields = format!("{SPEAKS}Upload-Complete: ?0\r\n{fields}");
    let created = last_answer(&mut request(server, "PUT", target, &fields, body));
    assert_eq!(created.status, 201, "{created:?}\n{}", server.stderr());
    assert_eq!(created.field("Upload-Offset"), Some(&*body.len().to_string()));
    created.field("Location").unwrap().to_owned()
}

fn request(server: &Child, method: &str, target: &str, fields: &str, body: &[u8]) -> Client {
    let mut client = server.connect();
    let len = body.len();
    client.send(format!(
        "{method} {target} HTTP/1.1\r\nHost: a\r\n{fields}Content-Length: {len}\r\n\r\n"
    ));
    client.send(body);
    client
}

/// Reads the final response.
#[track_caller]
fn last_answer(client: &mut Client) -> Response {
    loop {
        let answer = client.answer("PUT");
        if answer.status >= 200 {
            return answer;
        }
    }
}

/// The fields of a part.
fn part(offset: usize, complete: bool) -> String {
    format!(
        "Upload-Offset: {offset}\r\nUpload-Complete: ?{}\r\nContent-Type: \
         application/partial-upload\r\n",
        u8::from(complete)
    )
}

#[track_caller]
pub(crate) fn append(
    server: &Child,
    path: &str,
    offset: usize,
    complete: bool,
    body: &[u8],
) -> Response {
    send(server, "PATCH", path, &part(offset, complete), body)
}

/// The offset of an unfinished upload, in bytes.
#[track_caller]
pub(crate) fn offset(server: &Child, path: &str) -> usize {
    let answer = server.connect().request("HEAD", path);
    assert_eq!((answer.status, answer.field("Upload-Complete")), (204, Some("?0")), "{answer:?}");
    answer.field("Upload-Offset").unwrap().parse().unwrap()
}

/// The files kept for unfinished uploads.
fn kept(bucket: &Bucket) -> Vec<PathBuf> {
    let read = |path: PathBuf| fs::read_dir(path).into_iter().flatten().flatten();
    let cache = read(bucket.dir.path("cache"));
    let stores = cache.map(|entry| entry.path().join(".hurtle-upload-resumable"));
    stores.flat_map(read).map(|entry| entry.path()).collect()
}

/// Bytes received of the one unfinished upload.
fn received(bucket: &Bucket) -> u64 {
    let contents = kept(bucket).into_iter().filter(|path| path.extension().is_none());
    contents.filter_map(|path| path.metadata().ok()).map(|metadata| metadata.len()).sum()
}

#[test]
fn an_interrupted_upload_is_resumed_after_a_reload_and_a_restart() {
    let Some(bucket) = Bucket::new(&[]) else { return };
    let server = bucket.serve("", TAKES);
    let bytes = content(LARGE);
    let fields = format!("{SPEAKS}Upload-Complete: ?1\r\nContent-Length: {LARGE}\r\n");
    let mut client = server.connect();
    client.send(format!("PUT /d/a.bin HTTP/1.1\r\nHost: a\r\n{fields}\r\n"));
    let announced = client.answer("PUT");
    assert_eq!(announced.status, 104, "{announced:?}");
    assert_eq!(announced.field("Upload-Limit"), Some("max-size=1073741824, max-age=86400"));
    let path = announced.field("Location").unwrap().to_owned();
    client.send(&bytes[..12 << 20]);
    eventually("some of it is on the disk", || received(&bucket) >= 9 << 20);
    drop(client);
    let from = offset(&server, &path);
    assert!((9 << 20..=12 << 20).contains(&from), "{from}");

    server.signal(Signal::HUP);
    eventually("the configuration is read again", || server.stderr().contains("reloaded"));
    let middle = from + 1_000_000;
    let more = append(&server, &path, from, false, &bytes[from..middle]);
    assert_eq!((more.status, more.field("Upload-Complete")), (204, Some("?0")), "{more:?}");

    // Killed, as in a crash.
    drop(server);
    let server = bucket.serve("", TAKES);
    assert_eq!(offset(&server, &path), middle, "confirmed bytes stay");
    assert_eq!(append(&server, &path, middle - 1, false, b"x").status, 409);
    assert_eq!(bucket.stored("d/a.bin").status, 404);
    let puts = bucket.proxy.requests().into_iter().filter(|line| !line.starts_with("GET"));
    assert_eq!(puts.collect::<Vec<_>>(), [""; 0], "the store has heard nothing of it");
    let done = append(&server, &path, middle, true, &bytes[middle..]);
    assert_eq!((done.status, done.field("Upload-Complete")), (201, Some("?1")), "{done:?}");
    assert!(bucket.stored("d/a.bin").body == bytes);
    let parts = bucket.proxy.requests().into_iter().filter(|line| line.contains("partNumber"));
    assert_eq!(parts.count(), 3);
    let served = server.get("/d/a.bin");
    assert!(served.body == bytes && served.field("ETag") == done.field("ETag"));
    assert_eq!(server.connect().request("HEAD", &path).status, 404, "it is over");
    assert_eq!(kept(&bucket), [""; 0].map(PathBuf::from));
}

#[test]
fn an_upload_may_break_off_at_any_byte() {
    let Some(bucket) = Bucket::new(&[]) else { return };
    let server = bucket.serve("", TAKES);
    const LEN: usize = 600_000;
    let bytes = content(LEN);
    for cut in [0, 1, 4095, 256 << 10, (256 << 10) + 1, LEN - 1] {
        let target = format!("/{cut}.bin");
        let mut client = server.connect();
        client.send(format!(
            "PUT {target} HTTP/1.1\r\nHost: a\r\n{SPEAKS}Upload-Complete: ?1\r\nContent-Length: \
             {LEN}\r\n\r\n"
        ));
        let path = client.answer("PUT").field("Location").unwrap().to_owned();
        client.send(&bytes[..cut]);
        drop(client);
        let from = offset(&server, &path);
        assert!(from <= cut, "{from} of {cut}");
        let done = append(&server, &path, from, true, &bytes[from..]);
        assert_eq!(done.status, 201, "{cut}: {done:?}");
        assert!(bucket.stored(&target[1..]).body == bytes, "{cut}");
    }
}

#[test]
fn an_upload_waits_for_a_store_that_fails() {
    let Some(bucket) = Bucket::new(&[]) else { return };
    let server = bucket.serve(SHORT, TAKES);
    // Put with one request, and in parts.
    for len in [3_000, LARGE] {
        let bytes = content(len);
        let faults = [("PUT", Fault::Status(503)), ("PUT", Fault::Reset), ("PUT", Fault::Hold)];
        let of_parts = [("uploads", Fault::Status(503)), ("?uploadId=", Fault::Reset)];
        let faults: Vec<_> =
            faults.into_iter().chain(of_parts.into_iter().filter(|_| len == LARGE)).collect();
        for (of, fault) in faults {
            let what = format!("{len} {of} {fault:?}");
            let path = begin(&server, "/a.bin", "", &bytes);
            let before = bucket.proxy.faults();
            bucket.proxy.always(of, fault);
            let failed = append(&server, &path, len, true, b"");
            let fields = ["Retry-After", "Upload-Complete"].map(|name| failed.field(name));
            assert_eq!((failed.status, fields), (503, [Some("5"), Some("?0")]), "{what}");
            assert!(bucket.proxy.faults() > before, "{what}");
            assert_eq!(offset(&server, &path), len, "{what}");
            assert_eq!(bucket.stored("a.bin").status, 404, "{what}");
            bucket.proxy.end();
            let done = append(&server, &path, len, true, b"");
            assert_eq!((done.status, done.field("Upload-Complete")), (201, Some("?1")), "{what}");
            assert!(bucket.stored("a.bin").body == bytes, "{what}");
            assert_eq!(server.connect().request("HEAD", &path).status, 404, "{what}");
            assert_eq!(send(&server, "DELETE", "/a.bin", "", b"").status, 204, "{what}");
        }
    }
    assert_eq!(kept(&bucket), [""; 0].map(PathBuf::from));
    eventually("it is logged", || server.stderr().contains("a.bin: "));
}

#[test]
fn an_upload_is_published_after_a_restart() {
    let Some(bucket) = Bucket::new(&[]) else { return };
    let bytes = content(LARGE);
    let server = bucket.serve("", TAKES);
    let path = begin(&server, "/a.bin", "", &bytes);
    bucket.proxy.once("partNumber=2", Fault::Hold);
    let mut client = request(&server, "PATCH", &path, &part(LARGE, true), b"");
    eventually("the store has a part", || bucket.proxy.faults() == 1);
    drop(server);
    assert!(client.try_answer("PATCH").is_err());
    bucket.proxy.release();
    let server = bucket.serve("", TAKES);
    assert_eq!((offset(&server, &path), bucket.stored("a.bin").status), (LARGE, 404));
    assert_eq!(append(&server, &path, LARGE, true, b"").status, 201);
    assert!(bucket.stored("a.bin").body == bytes);
}

#[test]
fn a_response_of_the_store_that_is_lost_is_no_loss() {
    let Some(bucket) = Bucket::new(&[]) else { return };
    let server = bucket.serve("", TAKES);
    for (len, of) in [(3_000, "PUT"), (LARGE, "?uploadId=")] {
        let (bytes, target) = (content(len), format!("/{len}.bin"));
        let path = begin(&server, &target, "", &bytes);
        bucket.proxy.once(of, Fault::Lose);
        let before = bucket.proxy.faults();
        let mut done = append(&server, &path, len, true, b"");
        if done.status == 503 {
            // The store did not know the upload in parts any more, which it had completed.
            done = append(&server, &path, len, true, b"");
        }
        assert!(bucket.proxy.faults() > before);
        assert!([201, 204].contains(&done.status), "{done:?}");
        assert!(bucket.stored(&target[1..]).body == bytes, "{len}");
    }
}

#[test]
fn a_corrupted_body_is_sent_again() {
    let Some(bucket) = Bucket::new(&[]) else { return };
    let server = bucket.serve("", TAKES);
    for (len, of) in [(3_000, "PUT"), (LARGE, "partNumber=2")] {
        let (bytes, target) = (content(len), format!("/{len}.bin"));
        let path = begin(&server, &target, "", &bytes);
        let before = bucket.proxy.faults();
        bucket.proxy.once(of, Fault::CorruptRequest(1_000));
        assert_eq!(append(&server, &path, len, true, b"").status, 201, "{len}");
        assert_eq!(bucket.proxy.faults(), before + 1, "{len}");
        assert!(bucket.stored(&target[1..]).body == bytes, "{len}");
    }
    // Each time: the object does not appear.
    let bytes = content(LARGE);
    let path = begin(&server, "/never.bin", "", &bytes);
    bucket.proxy.always("partNumber=2", Fault::CorruptRequest(1_000));
    let failed = append(&server, &path, LARGE, true, b"");
    assert_eq!((failed.status, offset(&server, &path)), (503, LARGE));
    assert_eq!(bucket.stored("never.bin").status, 404);
    eventually("it is logged", || server.stderr().contains("checksum differs"));
    let is_abort = |line: &String| line.starts_with("DELETE") && line.contains("uploadId");
    eventually("its parts are given up", || bucket.proxy.requests().iter().any(is_abort));
    bucket.proxy.end();
    assert_eq!(append(&server, &path, LARGE, true, b"").status, 201);
    assert!(bucket.stored("never.bin").body == bytes);

    // This service verifies no body itself.
    let server = bucket.serve("checksums = false", TAKES);
    let path = begin(&server, "/wrong.bin", "", &bytes[..3_000]);
    bucket.proxy.once("PUT", Fault::CorruptRequest(1_000));
    assert_eq!(append(&server, &path, 3_000, true, b"").status, 201);
    assert!(bucket.stored("wrong.bin").body != bytes[..3_000]);
}

#[test]
fn conditions_and_permissions_hold_when_an_upload_is_complete() {
    let Some(bucket) = Bucket::new(&[("old.txt", b"old")]) else { return };
    let server = bucket.serve("", TAKES);
    let fields = format!("{SPEAKS}Upload-Complete: ?0\r\nIf-None-Match: *\r\n");
    assert_eq!(send(&server, "PUT", "/old.txt", &fields, b"x").status, 412, "none is begun");
    let tag = server.get("/old.txt").field("ETag").unwrap().to_owned();
    let rows = [
        ("/new.txt", "If-None-Match: *\r\n".to_owned()),
        ("/old.txt", format!("If-Match: {tag}\r\n")),
    ];
    for (target, condition) in rows {
        // Nothing has changed.
        let path = begin(&server, target, &condition, b"late");
        let done = append(&server, &path, 4, true, b"");
        assert!([201, 204].contains(&done.status), "{target}: {done:?}");
        assert_eq!(bucket.stored(&target[1..]).text(), "late");
    }
    let tag = server.get("/old.txt").field("ETag").unwrap().to_owned();
    let rows = [
        ("/newer.txt", "If-None-Match: *\r\n".to_owned()),
        ("/old.txt", format!("If-Match: {tag}\r\n")),
    ];
    for (target, condition) in rows {
        let path = begin(&server, target, &condition, b"late");
        bucket.put(&target[1..], b"first");
        let late = append(&server, &path, 4, true, b"");
        assert_eq!((late.status, late.field("Upload-Complete")), (412, Some("?1")), "{late:?}");
        assert_eq!(bucket.stored(&target[1..]).text(), "first");
        assert_eq!(kept(&bucket), [""; 0].map(PathBuf::from), "{target}");
    }
    // Credentials that may not write.
    let path = begin(&server, "/denied.txt", "", b"late");
    bucket.proxy.once("PUT", Fault::Status(403));
    let denied = append(&server, &path, 4, true, b"");
    assert_eq!((denied.status, denied.field("Upload-Complete")), (403, Some("?1")), "{denied:?}");
    assert_eq!(server.connect().request("HEAD", &path).status, 404);
    assert_eq!(kept(&bucket), [""; 0].map(PathBuf::from));
    let before = bucket.proxy.faults();
    // While the parts are sent.
    let path = begin(&server, "/large.bin", "If-None-Match: *\r\n", &content(LARGE));
    bucket.proxy.once("partNumber=2", Fault::Hold);
    let mut client = request(&server, "PATCH", &path, &part(LARGE, true), b"");
    eventually("the store has a part", || bucket.proxy.faults() == before + 1);
    bucket.put("large.bin", b"first");
    bucket.proxy.release();
    assert_eq!(client.answer("PATCH").status, 412);
    assert_eq!(bucket.stored("large.bin").text(), "first");
    let is_abort = |line: &String| line.starts_with("DELETE") && line.contains("uploadId");
    assert!(bucket.proxy.requests().iter().any(is_abort));
    assert_eq!(kept(&bucket), [""; 0].map(PathBuf::from));
}

#[test]
fn a_slow_store_outlasts_its_clients() {
    let Some(bucket) = Bucket::new(&[]) else { return };
    let server = bucket.serve("timeout = \"30s\"", TAKES);
    let bytes = content(3_000);
    let path = begin(&server, "/a.bin", "", &bytes);
    bucket.proxy.once("PUT", Fault::Hold);
    let complete = || request(&server, "PATCH", &path, &part(3_000, true), b"");
    let left = complete();
    eventually("the store is asked", || bucket.proxy.faults() == 1);
    // Closing then sends a reset, which ends the request.
    socket2::SockRef::from(&left.stream).set_linger(Some(Duration::ZERO)).unwrap();
    drop(left);
    assert_eq!(offset(&server, &path), 3_000, "answered meanwhile");
    // Both wait for the result of the first.
    let waiting: Vec<Client> = (0..2).map(|_| complete()).collect();
    // Each of these takes the server as long as it takes to begin to wait.
    (0..20).for_each(|_| assert_eq!(offset(&server, &path), 3_000));
    bucket.proxy.release();
    for mut client in waiting {
        let done = client.answer("PATCH");
        assert_eq!((done.status, done.field("Upload-Complete")), (201, Some("?1")), "{done:?}");
    }
    let is_put = |line: &&String| line.starts_with("PUT");
    assert_eq!(bucket.proxy.requests().iter().filter(is_put).count(), 1);
    assert!(bucket.stored("a.bin").body == bytes);
    assert_eq!(kept(&bucket), [""; 0].map(PathBuf::from));
}

#[test]
fn unfinished_uploads_are_bounded_and_private() {
    let Some(bucket) = Bucket::new(&[]) else { return };
    let limits = "resumable = 2, resumable_bytes = 1000, file_bytes = 1000";
    let takes =
        format!("uploads = {{ free_bytes = 0, {limits} }}\nauth = \"none\"\nlisting = true");
    let server = bucket.serve("", &takes);
    let path = begin(&server, "/a.bin", "Upload-Length: 600\r\n", b"hello");
    let status = |fields: &str, complete: u8| {
        let fields = format!("{SPEAKS}Upload-Complete: ?{complete}\r\n{fields}");
        send(&server, "PUT", "/b.bin", &fields, b"x").status
    };
    assert_eq!(status("Upload-Length: 600\r\n", 0), 507, "bytes");
    assert_eq!(status("", 0), 507, "an unknown length counts as the largest");
    assert_eq!(status("Upload-Length: 1001\r\n", 0), 413);
    begin(&server, "/b.bin", "Upload-Length: 300\r\n", b"");
    assert_eq!(status("Upload-Length: 1\r\n", 0), 507, "two are two");
    assert_eq!(status("", 1), 201, "a complete one needs no room");
    assert_eq!(bucket.stored("b.bin").text(), "x");
    for target in ["/.hurtle-upload-resumable/", &format!("{path}.json")] {
        assert_eq!(server.get(target).status, 404, "{target}");
    }
    assert!(!server.get("/").text().contains("hurtle-upload"));
    // Another store does not have it, in the same directory either.
    let other = bucket.mount("", TAKES).replace("[[site.mount]]", "[[site.mount]]\npath = \"/b\"");
    let other = other.replace(&format!("s3://{}", bucket.name), &format!("s3://{}/b", bucket.name));
    let both = bucket.start(&format!("[[site]]\n{}{other}", bucket.mount("", TAKES)));
    assert_eq!(offset(&both, &path), 5);
    assert_eq!(both.connect().request("HEAD", &format!("/b{path}")).status, 404);
    assert_eq!(send(&both, "DELETE", &path, "", b"").status, 204);
    assert_eq!(both.connect().request("HEAD", &path).status, 404);
}

#[test]
fn an_upload_ends_after_a_day() {
    let Some(bucket) = Bucket::new(&[]) else { return };
    let server = bucket.serve("", TAKES);
    let begun = |target: &str| {
        let path = begin(&server, target, "", b"hello");
        let name = path.rsplit_once('/').unwrap().1.to_owned();
        let record = kept(&bucket).into_iter().find(|path| path.ends_with(format!("{name}.json")));
        let record = record.unwrap();
        let mut written: serde_json::Value =
            serde_json::from_slice(&fs::read(&record).unwrap()).unwrap();
        let now = SystemTime::UNIX_EPOCH.elapsed().unwrap().as_secs();
        written["created"] = (now - 86_401).into();
        fs::write(&record, written.to_string()).unwrap();
        path
    };
    let path = begun("/a.bin");
    assert_eq!(append(&server, &path, 5, true, b"").status, 404);
    assert_eq!(kept(&bucket), [""; 0].map(PathBuf::from), "removed when it is requested");
    begun("/a.bin");
    drop(server);
    let _server = bucket.serve("", TAKES);
    eventually("removed at the start", || kept(&bucket).is_empty());
    assert_eq!(bucket.stored("a.bin").status, 404);
}
