//! Azure Blob Storage and Google Cloud Storage, by their emulators: `az://` and `gs://`.

use crate::child::{Child, eventually};
use crate::emulator::Emulator;
use crate::proxy::Fault;
use crate::resumed::{append, begin, offset};
use crate::store::{Bucket, content};
use crate::support::Response;
use crate::uploads::send;

/// More than one chunk, and more than one part of an upload.
const LARGE: usize = 9 << 20;

fn range(server: &Child, target: &str, range: &str) -> Response {
    let mut client = server.connect();
    client.send(format!("GET {target} HTTP/1.1\r\nHost: a\r\nRange: bytes={range}\r\n\r\n"));
    client.response()
}

/// Reads `/d/a.txt`, which has "hello\n", and `/large.bin`; ranges of them, and listings.
#[track_caller]
fn expect_objects(server: &Child) {
    let whole = server.get("/d/a.txt");
    assert_eq!((whole.status, whole.text()), (200, "hello\n"));
    assert_eq!(whole.field("Content-Type"), Some("text/plain; charset=utf-8"));
    assert!(whole.field("ETag").is_some() && whole.field("Last-Modified").is_some());
    let part = range(server, "/d/a.txt", "1-3");
    assert_eq!((part.status, part.text()), (206, "ell"));
    let large = content(LARGE);
    let part = range(server, "/large.bin", "8388600-8388699");
    assert_eq!((part.status, &part.body[..]), (206, &large[8_388_600..8_388_700]));
    assert!(server.get("/large.bin").body == large);
    let head = server.connect().request("HEAD", "/large.bin");
    let length = LARGE.to_string();
    assert_eq!((head.status, head.field("Content-Length")), (200, Some(&length[..])));
    let listing = server.get("/");
    assert!(listing.text().contains("\"./d/\"") && listing.text().contains("\"./large.bin\""));
    assert!(server.get("/d/").text().contains("\"./a.txt\""));
    for missing in ["/none.txt", "/d/none.txt", "/none/"] {
        assert_eq!(server.get(missing).status, 404, "{missing}");
    }
}

#[test]
fn azure_objects_are_put_read_listed_and_deleted() {
    let Some(azure) = Emulator::azure() else { return };
    let server = azure.serve("az://site", "");
    let created = send(&server, "PUT", "/d/a.txt", "", b"hello\n");
    assert_eq!(created.status, 201, "{}", server.stderr());
    let stored = azure.stored_azure("d/a.txt");
    assert_eq!((stored.status, stored.text()), (200, "hello\n"));
    assert_eq!(stored.field("Content-Type"), Some("text/plain; charset=utf-8"));
    assert_eq!(send(&server, "PUT", "/large.bin", "", &content(LARGE)).status, 201);
    assert!(azure.stored_azure("large.bin").body == content(LARGE), "sent in parts");
    expect_objects(&server);
    // Listings and revalidations without credentials.
    expect_objects(&azure.serve("az://site", "anonymous = true\n"));
    expect_resumed(&server, "/resumed.bin");

    let tag = created.field("ETag").unwrap();
    let refused = send(&server, "PUT", "/d/a.txt", "If-None-Match: *\r\n", b"other\n");
    assert_eq!(refused.status, 412);
    let refused = send(&server, "PUT", "/d/a.txt", "If-Match: \"other\"\r\n", b"other\n");
    assert_eq!(refused.status, 412);
    let replaced = send(&server, "PUT", "/d/a.txt", &format!("If-Match: {tag}\r\n"), b"new\n");
    assert_eq!(replaced.status, 204);
    assert_eq!(server.get("/d/a.txt").text(), "new\n");
    assert_eq!(send(&server, "DELETE", "/d/a.txt", "", b"").status, 204);
    assert_eq!(azure.stored_azure("d/a.txt").status, 404);
    assert_eq!(server.get("/d/a.txt").status, 404);
}

/// Resumes an upload of `LARGE` bytes that has broken off.
#[track_caller]
fn expect_resumed(server: &Child, target: &str) {
    let bytes = content(LARGE);
    let path = begin(server, target, "", &bytes[..1_000_000]);
    assert_eq!(offset(server, &path), 1_000_000);
    let done = append(server, &path, 1_000_000, true, &bytes[1_000_000..]);
    assert_eq!(done.status, 201, "{done:?} {}", server.stderr());
    assert!(server.get(target).body == bytes);
}

/// Google's XML interface has the requests of S3 for uploads, so a service of S3 takes them. It
/// does not know Google's conditions.
#[test]
fn google_objects_are_put_in_one_piece_and_in_parts() {
    let Some(bucket) = Bucket::new(&[]) else { return };
    let takes = "uploads = { free_bytes = 0 }\nauth = \"none\"";
    let mount = bucket.mount("", takes).replace("s3://", "gs://");
    let server = bucket.start(&format!("[[site]]\n{mount}"));
    let created = send(&server, "PUT", "/d/a.txt", "If-None-Match: *\r\n", b"hello\n");
    assert_eq!(created.status, 201, "{}", server.stderr());
    let stored = bucket.stored("d/a.txt");
    assert_eq!((stored.status, stored.text()), (200, "hello\n"));
    assert_eq!(stored.field("Content-Type"), Some("text/plain; charset=utf-8"));
    let served = server.get("/d/a.txt");
    assert_eq!((served.text(), served.field("ETag")), ("hello\n", created.field("ETag")));
    let put = format!("PUT /{}/d%2Fa%2Etxt 0", bucket.name);
    let requests = bucket.proxy.requests();
    assert!(requests.contains(&put), "it must not exist: {requests:?}");
    let refused = send(&server, "PUT", "/d/a.txt", "If-None-Match: *\r\n", b"other\n");
    assert_eq!(refused.status, 412);
    assert_eq!(send(&server, "PUT", "/large.bin", "", &content(LARGE)).status, 201);
    assert!(bucket.stored("large.bin").body == content(LARGE));
    expect_resumed(&server, "/resumed.bin");
    let parts = bucket.proxy.requests();
    assert_eq!(parts.iter().filter(|line| line.contains("partNumber")).count(), 4, "{parts:?}");
    bucket.proxy.once("PUT", Fault::CorruptRequest(3));
    assert_eq!(send(&server, "PUT", "/d/b.txt", "", b"hello\n").status, 201);
    assert_eq!((bucket.stored("d/b.txt").text(), bucket.proxy.faults()), ("hello\n", 1));
    assert_eq!(send(&server, "DELETE", "/d/a.txt", "", b"").status, 204);
    assert_eq!(bucket.stored("d/a.txt").status, 404);
}

/// The emulator has none of the uploads of Google's XML interface, so objects are put by its JSON
/// interface.
#[test]
fn google_objects_are_read_listed_and_deleted() {
    let Some(google) = Emulator::google() else { return };
    google.put_google("d/a.txt", b"hello\n");
    google.put_google("large.bin", &content(LARGE));
    let server = google.serve("gs://site", "");
    expect_objects(&server);
    google.put_google("d/a.txt", b"another\n");
    eventually("the new object is served", || server.get("/d/a.txt").text() == "another\n");
    assert_eq!(send(&server, "DELETE", "/d/a.txt", "", b"").status, 204, "{}", server.stderr());
    assert_eq!(server.get("/d/a.txt").status, 404);
}

/// The client of Google's store asked the metadata service for a token before an upload.
#[test]
fn anonymous_uploads_to_google_need_no_token() {
    let Some(google) = Emulator::google() else { return };
    let server = google.serve("gs://site", "anonymous = true\n");
    assert_eq!(send(&server, "PUT", "/a.txt", "", b"hello\n").status, 502);
    let answer = "invalid uploadType";
    eventually("the emulator got the request", || server.stderr().contains(answer));
    assert!(!server.stderr().contains("token"), "{}", server.stderr());
}
