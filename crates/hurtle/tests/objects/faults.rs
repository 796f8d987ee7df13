//! Faults of the store: a response is right, or an error, or ends early; never wrong.

use std::io::Read;

use crate::child::eventually;
use crate::proxy::Fault;
use crate::store::{Bucket, content};

/// Bytes of the parts in which large objects are fetched.
const CHUNK: usize = 4 << 20;

/// Settings with which a test need not wait long.
const SHORT: &str = "timeout = \"1s\"\nrevalidate = \"50ms\"";

#[test]
fn one_fault_is_hidden_from_the_client() {
    for fault in [Fault::Status(503), Fault::Reset, Fault::Truncate(1000)] {
        let bytes = content(200_000);
        let Some(bucket) = Bucket::new(&[("a.bin", &bytes)]) else { return };
        let server = bucket.serve("", "sidecars = false");
        bucket.proxy.once("GET", fault);
        let response = server.get("/a.bin");
        assert!(response.status == 200 && response.body == bytes, "{fault:?}");
        assert_eq!(bucket.proxy.faults(), 1, "{fault:?}");
    }
}

#[test]
fn a_store_that_fails_is_502_and_a_silent_one_504() {
    let bytes = content(1000);
    let Some(bucket) = Bucket::new(&[("a.bin", &bytes)]) else { return };
    let server = bucket.serve(SHORT, "sidecars = false");
    let rows = [
        (Fault::Status(503), 502),
        (Fault::Reset, 502),
        (Fault::Status(403), 403),
        (Fault::Hold, 504),
    ];
    for (number, (fault, status)) in rows.into_iter().enumerate() {
        bucket.proxy.always("a.bin", fault);
        assert_eq!(server.get("/a.bin").status, status, "{fault:?}");
        let line = format!("s3://{}/a.bin: ", bucket.name);
        eventually("it is logged", || server.stderr().matches(&line).count() == number + 1);
    }
    bucket.proxy.release();
    assert!(server.get("/a.bin").body == bytes);
}

#[test]
fn first_bytes_are_sent_while_others_arrive() {
    let bytes = content(200_000);
    let Some(bucket) = Bucket::new(&[("a.bin", &bytes)]) else { return };
    let server = bucket.serve("", "sidecars = false");
    bucket.proxy.once("GET", Fault::Stall(100_000));
    let mut client = server.connect();
    client.send("GET /a.bin HTTP/1.1\r\nHost: a\r\nConnection: close\r\n\r\n");
    let mut received = vec![0; 80_000];
    client.stream.read_exact(&mut received).unwrap();
    assert!(received.starts_with(b"HTTP/1.1 200 OK\r\n"));
    assert_eq!(bucket.whole().len(), 0);
    bucket.proxy.release();
    received.extend(client.rest());
    assert!(received.ends_with(&bytes));
}

#[test]
fn a_truncated_object_is_never_complete() {
    let bytes = content(200_000);
    let Some(bucket) = Bucket::new(&[("a.bin", &bytes)]) else { return };
    let server = bucket.serve(SHORT, "sidecars = false");
    bucket.proxy.always("GET", Fault::Truncate(20_000));
    for _ in 0..2 {
        let mut client = server.connect();
        client.send("GET /a.bin HTTP/1.1\r\nHost: a\r\n\r\n");
        let problem = client.try_answer("GET").unwrap_err();
        assert!(problem.contains("instead of"), "{problem}");
    }
    assert!(bucket.proxy.faults() > 1);
    assert_eq!(bucket.whole().len(), 0);
    bucket.proxy.release();
    assert!(server.get("/a.bin").body == bytes);
}

#[test]
fn a_corrupted_object_is_never_complete() {
    let bytes = content(200_000);
    let Some(bucket) = Bucket::new(&[("a.bin", &bytes)]) else { return };
    let server = bucket.serve("", "sidecars = false");
    bucket.proxy.once("GET", Fault::CorruptAndStall(1000, 150_000));
    let mut client = server.connect();
    client.send("GET /a.bin HTTP/1.1\r\nHost: a\r\n\r\n");
    eventually("a wrong byte is sent", || client.stream.peek(&mut [0; 1500]).unwrap() == 1500);
    bucket.proxy.release();
    let response = client.try_answer("GET");
    assert!(response.is_err(), "{response:?}");
    eventually("it is logged", || server.stderr().contains("checksum"));
    assert_eq!(bucket.whole().len(), 0);
    assert!(server.get("/a.bin").body == bytes);
    eventually("the good one is kept", || bucket.whole().len() == 1);
    // A store whose entity-tags are no checksums.
    let server = bucket.serve("checksums = false", "sidecars = false");
    assert!(server.get("/a.bin").body == bytes);
}

#[test]
fn an_object_that_is_replaced_while_it_is_sent_is_not_mixed() {
    let (old, new) = (vec![b'o'; 9 << 20], vec![b'n'; 9 << 20]);
    let Some(bucket) = Bucket::new(&[("a.bin", &old)]) else { return };
    let server = bucket.serve(SHORT, "sidecars = false");
    assert_eq!(server.get("/a.bin\nRange: bytes=0-9").body, [b'o'; 10]);
    bucket.put("a.bin", &new);
    // Its third chunk is not there, and the store has another version by now.
    eventually("the new object is served", || {
        let mut client = server.connect();
        client.send("GET /a.bin HTTP/1.1\r\nHost: a\r\n\r\n");
        match client.try_answer("GET") {
            Ok(response) if response.status == 200 => {
                let body = response.body;
                assert!(body == old || body == new, "mixed");
                body == new
            }
            _ => false,
        }
    });
}

#[test]
fn a_store_that_is_down_leaves_the_cache() {
    let Some(bucket) = Bucket::new(&[("a.txt", b"kept"), ("b.txt", b"new")]) else { return };
    let server = bucket.serve(SHORT, "sidecars = false");
    assert_eq!(server.get("/a.txt").text(), "kept");
    eventually("the object is whole", || bucket.whole().len() == 1);
    bucket.proxy.always("", Fault::Reset);
    eventually("the store was asked", || {
        assert_eq!(server.get("/a.txt").text(), "kept");
        bucket.proxy.faults() > 0
    });
    assert_eq!(server.get("/a.txt").text(), "kept");
    assert_eq!(server.get("/b.txt").status, 502);
    eventually("it is logged", || server.stderr().contains("the cache's copy is used"));
    // After a restart too.
    drop(server);
    let server = bucket.serve(SHORT, "sidecars = false");
    assert_eq!(server.get("/a.txt").text(), "kept");
    drop(server);
    // Not longer than is allowed.
    let store = format!("{SHORT}\nstale = \"0s\"");
    let server = bucket.serve(&store, "sidecars = false");
    eventually("it is too old", || server.get("/a.txt").status == 502);
}

/// Regression: the bytes of a deleted object stayed in the cache's directory, from which a server
/// that started while the store was down sent them.
#[test]
fn an_object_that_was_deleted_or_replaced_does_not_come_back_after_a_restart() {
    let objects: [(&str, &[u8]); 2] = [("a.txt", b"deleted"), ("b.txt", b"replaced")];
    let Some(bucket) = Bucket::new(&objects) else { return };
    let mount = "sidecars = false\nuploads = {}\nauth = \"none\"";
    let server = bucket.serve(SHORT, mount);
    assert_eq!(server.get("/a.txt").text(), "deleted");
    assert_eq!(server.get("/b.txt").text(), "replaced");
    eventually("the objects are whole", || bucket.whole().len() == 2);
    for (request, status) in [
        ("DELETE /a.txt HTTP/1.1\r\nHost: a\r\n\r\n", 204),
        ("PUT /b.txt HTTP/1.1\r\nHost: a\r\nContent-Length: 3\r\n\r\nnew", 204),
    ] {
        let mut client = server.connect();
        client.send(request);
        assert_eq!(client.answer("PUT").status, status, "{request}");
    }
    bucket.proxy.always("", Fault::Reset);
    drop(server);
    let server = bucket.serve(SHORT, mount);
    for path in ["/a.txt", "/b.txt"] {
        assert_eq!(server.get(path).status, 502, "{path}");
    }
}

/// Regression: each failed part of an object was counted as bytes of the cache, so that requests
/// during an outage evicted all objects.
#[test]
fn parts_that_fail_take_no_room() {
    let large = content(3 * CHUNK);
    let Some(bucket) = Bucket::new(&[("a.txt", b"kept"), ("large.bin", &large)]) else { return };
    let server = bucket.serve("cache_bytes = \"64 MiB\"", "sidecars = false");
    assert_eq!(server.get("/a.txt").text(), "kept");
    eventually("the object is whole", || bucket.whole().len() == 1);
    assert_eq!(server.get("/large.bin\nRange: bytes=0-9").body, large[..10]);
    bucket.proxy.always("", Fault::Reset);
    let second = format!("/large.bin\nRange: bytes={CHUNK}-{}", CHUNK + 9);
    for _ in 0..20 {
        assert_eq!(server.get(&second).status, 502);
    }
    assert_eq!(server.get("/a.txt").text(), "kept");
}

/// Regression: the cached object was sent for an hour more.
#[test]
fn an_object_that_became_private_is_not_sent_from_the_cache() {
    let bytes = content(1000);
    let Some(bucket) = Bucket::new(&[("a.bin", &bytes)]) else { return };
    let server = bucket.serve(SHORT, "sidecars = false");
    assert!(server.get("/a.bin").body == bytes);
    bucket.proxy.always("a.bin", Fault::Status(503));
    eventually("an outage is hidden", || {
        bucket.proxy.faults() > 0 || server.get("/a.bin").status != 200
    });
    assert!(server.get("/a.bin").body == bytes);
    bucket.proxy.always("a.bin", Fault::Status(403));
    eventually("it is private", || server.get("/a.bin").status == 403);
    bucket.proxy.release();
    eventually("it is there again", || server.get("/a.bin").status == 200);
}

/// Regression: the GET was 502, because its condition was the entity-tag that HEAD had got.
#[test]
fn an_object_that_changed_after_a_head_is_looked_up_anew() {
    let keys = ["whole.txt", "part.txt", "gone.txt"];
    let objects: Vec<(&str, &[u8])> = keys.iter().map(|key| (*key, &b"old"[..])).collect();
    let Some(bucket) = Bucket::new(&objects) else { return };
    let server = bucket.serve("", "sidecars = false");
    for key in keys {
        let head = server.connect().request("HEAD", &format!("/{key}"));
        assert_eq!((head.status, head.field("Content-Length")), (200, Some("3")), "{key}");
    }
    bucket.put("whole.txt", b"newer");
    bucket.put("part.txt", b"newer");
    bucket.delete("gone.txt");
    let whole = server.get("/whole.txt");
    assert_eq!((whole.status, whole.text()), (200, "newer"));
    let part = server.get("/part.txt\nRange: bytes=1-3");
    assert_eq!((part.status, part.text()), (206, "ewe"));
    assert_eq!(part.field("Content-Range"), Some("bytes 1-3/5"));
    assert_eq!(server.get("/gone.txt").status, 404);
}
