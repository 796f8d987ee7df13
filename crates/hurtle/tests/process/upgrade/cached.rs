//! Stored responses that the new process takes over.

use std::fs::{self, Permissions};
use std::io::{Read as _, Write as _};
use std::net::{SocketAddr, TcpListener};
use std::os::unix::fs::PermissionsExt as _;
use std::sync::Arc;
use std::sync::atomic::{AtomicUsize, Ordering::SeqCst};
use std::thread;

use super::{Upgraded, said};
use crate::child::eventually;
use crate::support::Dir;

/// Larger than what stays in memory when the cache has a disk.
const LARGE: usize = 300_000;

/// An upstream; the body names the request's language, or is large. Returns the number of requests.
fn upstream() -> (SocketAddr, Arc<AtomicUsize>) {
    let listener = TcpListener::bind("127.0.0.1:0").unwrap();
    let (address, requests) = (listener.local_addr().unwrap(), Arc::<AtomicUsize>::default());
    let count = Arc::clone(&requests);
    thread::spawn(move || {
        for peer in listener.incoming() {
            let (mut peer, mut head) = (peer.unwrap(), Vec::new());
            let mut byte = [0];
            while !head.ends_with(b"\r\n\r\n") && peer.read(&mut byte).unwrap_or(0) == 1 {
                head.push(byte[0]);
            }
            count.fetch_add(1, SeqCst);
            let head = String::from_utf8(head).unwrap();
            let language = head.lines().find_map(|line| line.strip_prefix("Accept-Language: "));
            let body = match head.starts_with("GET /large") {
                true => "x".repeat(LARGE),
                false => language.unwrap_or("none").to_owned(),
            };
            let answer = format!(
                "HTTP/1.1 200 OK\r\nCache-Control: max-age=600\r\nAge: 50\r\nX-Octet: \u{e9}\r\n\
                 Vary: Accept-Language\r\nContent-Length: {}\r\nConnection: close\r\n\r\n{body}",
                body.len()
            );
            let _ = peer.write_all(answer.as_bytes());
        }
    });
    (address, requests)
}

/// The state of the response caches.
fn cache_status(server: &Upgraded) -> serde_json::Value {
    let status = server.command("status").arg("--json").output().unwrap();
    let mut status: serde_json::Value = serde_json::from_str(&said(&status)).unwrap();
    status["response_cache"].take()
}

#[test]
fn stored_responses_are_handed_over_and_no_upstream_is_asked_again() {
    let (address, requests) = upstream();
    let dir = Dir::new(&[("cache/a", "")]);
    fs::set_permissions(dir.path("cache"), Permissions::from_mode(0o777)).unwrap();
    let mut server = Upgraded::of(
        dir,
        &format!(
            "[[site]]\n[[site.mount]]\nproxy = 'http://{address}'\n\
             cache = {{ disk = '{{root}}/cache' }}\n\
             [[site.mount]]\npath = '/changed/'\nproxy = 'http://{address}'\n\
             cache = {{ memory = '1 MiB' }}\n"
        ),
        |_| {},
    );
    let table = [
        ("a body in memory", "/small", "none".to_owned()),
        ("another variant of it", "/small\nAccept-Language: de", "de".to_owned()),
        ("a body on the disk", "/large", "x".repeat(LARGE)),
    ];
    let changed = "/changed/small";
    for (sentence, target, body) in &table {
        assert_eq!(server.child.get(target).text(), body, "{sentence}");
    }
    server.child.get(changed);
    let asked = requests.load(SeqCst);
    assert_eq!(asked, 4);
    // A body on the disk is stored once it is written, which may be after its response.
    eventually("all are stored", || cache_status(&server)["entries"] == asked);
    let file = server.dir.path("../hurtle.toml");
    let text = fs::read_to_string(&file).unwrap();
    fs::write(&file, text.replace("'1 MiB'", "'2 MiB'")).unwrap();
    // The second time, the responses have been received themselves.
    for _ in 0..2 {
        server.upgrade();
        for (sentence, target, body) in &table {
            let response = server.child.get(target);
            assert_eq!(response.text(), body, "{sentence}");
            let age = response.field("Age").and_then(|age| age.parse::<u64>().ok());
            assert!(age.is_some_and(|age| age >= 50), "{sentence}: {age:?}");
            assert_eq!(response.field("X-Octet"), Some("\u{c3}\u{a9}"), "{sentence}");
        }
        assert_eq!(requests.load(SeqCst), asked, "no upstream is asked again");
    }
    server.child.get(changed);
    assert_eq!(requests.load(SeqCst), asked + 1, "the cache with other settings begins empty");
    let cache = cache_status(&server);
    assert!(cache["disk_bytes"].as_u64() == Some(LARGE as u64), "charged to the disk: {cache}");
}
