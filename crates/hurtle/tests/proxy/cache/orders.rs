//! Tests of PURGE on the admin socket.

use std::io::{Read, Write};
use std::os::unix::fs::PermissionsExt;
use std::os::unix::net::UnixStream;
use std::path::{Path, PathBuf};

use super::{MINUTE, Pair, get};
use crate::support::{Proxy, Upstream};

pub(super) fn socket(name: &str) -> PathBuf {
    std::env::temp_dir().join(format!("hurtle-{name}-{}.sock", std::process::id()))
}

pub(super) fn order(socket: &Path, order: &str) -> String {
    let mut stream = UnixStream::connect(socket).unwrap();
    stream.write_all(order.as_bytes()).unwrap();
    let mut answer = String::new();
    stream.read_to_string(&mut answer).unwrap();
    answer
}

#[test]
fn a_purged_response_is_fetched_again() {
    let (upstream, socket) = (Upstream::new(), socket("purge"));
    let mount = format!("proxy = \"http://{}\"\ncache = {{}}", upstream.address);
    let proxy = Proxy::of(&format!("admin = {socket:?}"), &mount);
    let pair = Pair { upstream, proxy };
    let mode = std::fs::metadata(&socket).unwrap().permissions().mode();
    assert_eq!(mode & 0o777, 0o600, "nobody else may connect");
    for path in ["/a/1", "/a/2?q", "/b"] {
        pair.fetch(&get(path, ""), MINUTE, path);
    }
    #[rustfmt::skip]
    let rows = [
        ("another host", "PURGE /a/1 HTTP/1.1\r\nHost: b\r\n\r\n", "200", "purged 0\n"),
        ("one", "PURGE /a/1 HTTP/1.1\r\nHost: a\r\n\r\n", "200", "purged 1\n"),
        ("it is gone", "PURGE /a/1 HTTP/1.1\r\nHost: a\r\n\r\n", "200", "purged 0\n"),
        ("all that begins so", "PURGE http://a/a/* HTTP/1.1\r\nHost: a\r\n\r\n", "200", "purged 1\n"),
        ("no order", "GET /b HTTP/1.1\r\nHost: a\r\n\r\n", "405", ""),
        ("nonsense", "what\r\n\r\n", "400", ""),
    ];
    for (sentence, text, status, body) in rows {
        let answer = order(&socket, text);
        assert!(answer.starts_with(&format!("HTTP/1.1 {status} ")), "{sentence}: {answer}");
        assert!(answer.ends_with(body), "{sentence}: {answer}");
    }
    assert_eq!(pair.hit(&get("/b", "")).1, "/b");
    assert_eq!(pair.fetch(&get("/a/1", ""), MINUTE, "new").1, "new");
    assert_eq!(pair.fetch(&get("/a/2?q", ""), MINUTE, "new").1, "new");

    // Over TCP, PURGE is an ordinary request.
    let mut client = pair.proxy.send("PURGE /b HTTP/1.1\r\nHost: a\r\n\r\n");
    let (mut peer, head) = pair.upstream.next_request();
    assert!(head.starts_with("PURGE /b "), "{head}");
    peer.send("HTTP/1.1 405 x\r\nContent-Length: 0\r\nConnection: close\r\n\r\n");
    client.answer();
    assert_eq!(pair.hit(&get("/b", "")).1, "/b");
    drop(pair);
    let _ = std::fs::remove_file(socket);
}
