//! The cache: each object is requested once, stays over a restart, and leaves for others.

use std::thread;

use crate::child::{eventually, hurtle, write_config};
use crate::proxy::Fault;
use crate::store::{Bucket, content, with_credentials};

const CHUNK: usize = 4 << 20;

#[test]
fn concurrent_requests_share_one_of_the_store() {
    let bytes = content(300_000);
    let Some(bucket) = Bucket::new(&[("a.bin", &bytes)]) else { return };
    let server = bucket.serve("", "sidecars = false");
    bucket.proxy.once("GET", Fault::Hold);
    let address = server.address();
    let clients: Vec<_> = (0..20)
        .map(|_| {
            thread::spawn(move || crate::support::Client::connect(address).request("GET", "/a.bin"))
        })
        .collect();
    eventually("the object is requested", || bucket.proxy.faults() == 1);
    bucket.proxy.release();
    for client in clients {
        let response = client.join().unwrap();
        assert!(response.status == 200 && response.body == bytes);
    }
    assert_eq!(server.get("/a.bin").body, bytes);
    assert_eq!(bucket.proxy.requests(), [format!("GET /{}/a.bin", bucket.name)]);
}

#[test]
fn a_hit_is_sent_from_the_cache() {
    let Some(bucket) = Bucket::new(&[("a.bin", &content(300_000))]) else { return };
    let server = bucket.serve("", "");
    server.get("/a.bin");
    eventually("the object is whole", || bucket.whole().len() == 1);
    server.get("/a.bin");
    // An open file of the cache, to send it by sendfile.
    let whole = bucket.whole();
    eventually("it is open", || server.descriptors().contains(&whole[0]));
    bucket.proxy.requests();
    for _ in 0..3 {
        assert_eq!(server.get("/a.bin").body.len(), 300_000);
    }
    assert_eq!(bucket.proxy.requests(), [""; 0]);
    // A name says nothing of the key.
    let name = whole[0].file_name().unwrap().to_str().unwrap();
    assert!(name.len() == 65 && !name.contains("a.bin"), "{name}");
}

#[test]
fn a_range_of_a_large_object_fetches_its_chunk_only() {
    let bytes = content(3 * CHUNK + 1000);
    let Some(bucket) = Bucket::new(&[("large.bin", &bytes)]) else { return };
    let server = bucket.serve("", "sidecars = false");
    let at = 2 * CHUNK + 77;
    for _ in 0..2 {
        let part = server.get(&format!("/large.bin\nRange: bytes={at}-{}", at + 99));
        assert!(part.status == 206 && part.body == bytes[at..at + 100]);
    }
    let path = format!("/{}/large.bin", bucket.name);
    let range = format!("GET {path} bytes={}-{}", 2 * CHUNK, 3 * CHUNK - 1);
    assert_eq!(bucket.proxy.requests(), [format!("HEAD {path}"), range]);
    // The whole of it needs the others only.
    assert!(server.get("/large.bin").body == bytes);
    let ranges: Vec<_> = bucket.proxy.requests();
    assert_eq!(ranges.len(), 3, "{ranges:?}");
    eventually("the object is whole", || bucket.whole().len() == 1);
    assert!(server.get("/large.bin").body == bytes);
    assert_eq!(bucket.proxy.requests(), [""; 0]);
}

#[test]
fn objects_stay_over_a_restart_and_parts_do_not() {
    let bytes = content(100_000);
    let Some(bucket) = Bucket::new(&[("a.bin", &bytes), ("b.bin", &bytes)]) else { return };
    let server = bucket.serve("", "sidecars = false");
    server.get("/a.bin");
    eventually("the object is whole", || bucket.whole().len() == 1);
    bucket.proxy.once("b.bin", Fault::Stall(50_000));
    let mut client = server.connect();
    client.send("GET /b.bin HTTP/1.1\r\nHost: a\r\n\r\n");
    eventually("a part is there", || bucket.cached().len() == 2);
    // Killed, as in a crash.
    drop(server);
    assert_eq!(bucket.cached().len(), 2);
    bucket.proxy.release();
    bucket.proxy.requests();
    let server = bucket.serve("", "sidecars = false");
    assert!(server.get("/a.bin").body == bytes);
    let path = &bucket.name;
    assert_eq!(bucket.proxy.requests(), [format!("HEAD /{path}/a.bin")]);
    eventually("the part is removed", || bucket.cached().len() == 1);
    assert!(server.get("/b.bin").body == bytes);
    assert_eq!(bucket.proxy.requests(), [format!("GET /{path}/b.bin")]);
}

#[test]
fn a_changed_object_is_served_after_its_age() {
    let Some(bucket) = Bucket::new(&[("a.txt", b"old"), ("b.txt", b"b")]) else { return };
    let server = bucket.serve("revalidate = \"100ms\"", "");
    let old = server.get("/a.txt");
    assert_eq!((old.text(), server.get("/c.txt").status), ("old", 404));
    bucket.put("a.txt", b"newer");
    bucket.put("c.txt", b"c");
    bucket.delete("b.txt");
    eventually("the new object is served", || server.get("/a.txt").text() == "newer");
    eventually("the added one too", || server.get("/c.txt").status == 200);
    eventually("the deleted one is gone", || server.get("/b.txt").status == 404);
    assert_ne!(server.get("/a.txt").field("ETag"), old.field("ETag"));
    eventually("the old file is removed", || bucket.whole().len() == 2);
}

#[test]
fn the_cache_keeps_its_size() {
    let objects: Vec<String> = (0..12).map(|number| format!("{number}.bin")).collect();
    let bytes = content(8 << 20);
    let Some(bucket) = Bucket::new(&[]) else { return };
    objects.iter().for_each(|key| bucket.put(key, &bytes));
    let server = bucket.serve("cache_bytes = \"64 MiB\"", "sidecars = false");
    for key in &objects {
        assert!(server.get(&format!("/{key}")).body == bytes, "{key}");
        let size: u64 =
            bucket.cached().iter().filter_map(|path| path.metadata().ok()).map(|m| m.len()).sum();
        assert!(size <= 64 << 20, "{size}");
    }
    bucket.proxy.requests();
    server.get("/11.bin");
    assert_eq!(bucket.proxy.requests(), [""; 0], "the last one is there");
    assert!(server.get("/0.bin").body == bytes);
    assert!(!bucket.proxy.requests().is_empty(), "the first one is not");
}

#[test]
fn explain_says_where_an_object_is() {
    let Some(bucket) = Bucket::new(&[("a.txt", b"hello\n")]) else { return };
    let path = write_config(&bucket.dir, &format!("[[site]]\n{}", bucket.mount("", "")));
    let explain = || {
        let mut command = hurtle();
        let output = with_credentials(command.args(["explain", "/a.txt", "--config"]).arg(&path));
        String::from_utf8(output.output().unwrap().stdout).unwrap()
    };
    let url = format!("found    from s3://{}/a.txt, 6 bytes", bucket.name);
    let said = explain();
    assert!(said.contains(&format!("{url}, not cached")), "{said}");
    let server = bucket.serve("", "");
    server.get("/a.txt");
    eventually("the object is whole", || !bucket.whole().is_empty());
    let said = explain();
    assert!(said.contains(&format!("{url}, cached")), "{said}");
}
