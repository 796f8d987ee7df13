//! Uploads put and delete objects.

use crate::proxy::Fault;
use crate::store::{Bucket, content};
use crate::support::Response;

pub(crate) fn send(
    server: &crate::child::Child,
    method: &str,
    target: &str,
    fields: &str,
    body: &[u8],
) -> Response {
    let mut client = server.connect();
    let len = body.len();
    client.send(format!(
        "{method} {target} HTTP/1.1\r\nHost: a\r\n{fields}Content-Length: {len}\r\n\r\n"
    ));
    client.send(body);
    client.answer(method)
}

#[test]
fn objects_are_put_and_deleted() {
    let Some(bucket) = Bucket::new(&[]) else { return };
    let server = bucket.serve("", "uploads = {}\nauth = \"none\"");
    assert_eq!(server.get("/d/a.txt").status, 404);
    let created = send(&server, "PUT", "/d/a.txt", "", b"one");
    assert_eq!(created.status, 201);
    let tag = created.field("ETag").unwrap();
    assert_eq!(bucket.stored("d/a.txt").body, b"one");
    assert_eq!(bucket.stored("d/a.txt").field("Content-Type"), Some("text/plain; charset=utf-8"));
    let served = server.get("/d/a.txt");
    assert_eq!((served.text(), served.field("ETag")), ("one", Some(tag)));
    let rows: [(&str, &str, u16); 6] = [
        ("PUT", "If-None-Match: *\r\n", 412),
        ("PUT", "If-Match: \"other\"\r\n", 412),
        ("PUT", "Content-Range: bytes 0-2/9\r\n", 400),
        ("PUT", "Content-Encoding: gzip\r\n", 415),
        ("DELETE", "If-Match: \"other\"\r\n", 412),
        ("POST", "", 405),
    ];
    for (method, fields, status) in rows {
        let response = send(&server, method, "/d/a.txt", fields, b"two");
        assert_eq!(response.status, status, "{method} {fields}");
    }
    assert_eq!(bucket.stored("d/a.txt").body, b"one");
    let replaced = send(&server, "PUT", "/d/a.txt", &format!("If-Match: {tag}\r\n"), b"three");
    assert_eq!(replaced.status, 204);
    assert_eq!(server.get("/d/a.txt").text(), "three");
    assert_eq!(send(&server, "PUT", "/d", "", b"x").status, 409, "a prefix of keys");
    assert_eq!(send(&server, "PUT", "/.a", "", b"x").status, 403);
    assert_eq!(send(&server, "DELETE", "/d/a.txt", "", b"").status, 204);
    assert_eq!(send(&server, "DELETE", "/d/a.txt", "", b"").status, 404);
    assert_eq!(server.get("/d/a.txt").status, 404);
}

#[test]
fn a_large_object_is_sent_in_parts() {
    let Some(bucket) = Bucket::new(&[]) else { return };
    let server = bucket.serve("", "uploads = {}\nauth = \"none\"");
    let bytes = content(20 << 20);
    assert_eq!(send(&server, "PUT", "/large.bin", "", &bytes).status, 201);
    assert!(bucket.stored("large.bin").body == bytes);
    let parts = bucket.proxy.requests();
    assert_eq!(parts.iter().filter(|line| line.contains("partNumber")).count(), 3, "{parts:?}");
    assert!(server.get("/large.bin").body == bytes);
}

#[test]
fn an_upload_that_ends_early_leaves_nothing() {
    let Some(bucket) = Bucket::new(&[]) else { return };
    let server = bucket.serve("timeout = \"1s\"", "uploads = {}\nauth = \"none\"");
    let bytes = content(12 << 20);
    let mut client = server.connect();
    client.send(format!("PUT /a.bin HTTP/1.1\r\nHost: a\r\nContent-Length: {}\r\n\r\n", 20 << 20));
    client.send(&bytes);
    crate::child::eventually("a part is sent", || {
        bucket.proxy.requests().iter().any(|line| line.contains("partNumber"))
    });
    drop(client);
    crate::child::eventually("the upload is given up", || {
        bucket
            .proxy
            .requests()
            .iter()
            .any(|line| line.starts_with("DELETE") && line.contains("uploadId"))
    });
    assert_eq!(bucket.stored("a.bin").status, 404);
    // A store that fails.
    bucket.proxy.always("PUT", Fault::Status(500));
    assert_eq!(send(&server, "PUT", "/b.bin", "", b"b").status, 502);
    assert!(bucket.proxy.faults() > 0);
}
