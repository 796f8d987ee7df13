//! `hurtle purge` as a command, and the cache status in the access log.

use std::fs;
use std::io::{Read, Write};
use std::net::{SocketAddr, TcpListener};
use std::os::unix::net::UnixStream;
use std::os::unix::process::CommandExt as _;
use std::path::{Path, PathBuf};
use std::thread;

use rustix::process::geteuid;

use crate::child::{Child, eventually, hurtle};
use crate::support::Dir;

/// A user that is neither root nor the server's.
const STRANGER: u32 = 12_345;

/// An upstream whose response may be cached for a minute.
fn upstream() -> SocketAddr {
    let listener = TcpListener::bind("127.0.0.1:0").unwrap();
    let address = listener.local_addr().unwrap();
    thread::spawn(move || {
        for peer in listener.incoming() {
            let (mut peer, mut head) = (peer.unwrap(), Vec::new());
            while !head.ends_with(b"\r\n\r\n") {
                let mut byte = [0];
                if peer.read(&mut byte).unwrap_or(0) == 0 {
                    break;
                }
                head.push(byte[0]);
            }
            let answer = "HTTP/1.1 200 OK\r\nCache-Control: max-age=60\r\nContent-Length: 2\r\n\
                          Connection: close\r\n\r\nok";
            let _ = peer.write_all(answer.as_bytes());
        }
    });
    address
}

/// A server with a cache and an admin socket next to its configuration.
fn server(dir: &Dir, more: &str) -> (Child, PathBuf) {
    let socket = dir.path("../admin.sock");
    let config = format!(
        "admin = {socket:?}\n{more}\n[[site]]\n[[site.mount]]\nproxy = \"http://{}\"\ncache = {{}}\n",
        upstream()
    );
    (Child::configured(dir, &config), socket)
}

/// Exit code, standard output and standard error of `hurtle purge`.
fn purge(arguments: &[&str]) -> (Option<i32>, String, String) {
    let output = hurtle().arg("purge").args(arguments).output().unwrap();
    let text = |bytes| String::from_utf8(bytes).unwrap();
    (output.status.code(), text(output.stdout), text(output.stderr))
}

fn shown(path: &Path) -> String {
    path.display().to_string()
}

#[test]
fn purge_prints_the_number_of_removed_responses() {
    let dir = Dir::new(&[]);
    let (child, socket) = server(&dir, "");
    let (config, admin) = (shown(&dir.path("../hurtle.toml")), shown(&socket));
    let mut client = child.connect();
    for path in ["/a/1", "/a/2", "/b", "/c%2B", "/c+", "//c%2b"] {
        client.request("GET", &format!("{path}\nHost: example.org"));
    }
    let table = [
        ("a page that is kept", "http://example.org/b", "purged 1\n"),
        ("it is gone", "http://example.org/b", "purged 0\n"),
        ("another host", "http://example.com/a/1", "purged 0\n"),
        ("all that begins so", "http://example.org/a/*", "purged 2\n"),
        ("every spelling", "http://example.org/%63+", "purged 3\n"),
    ];
    for (sentence, url, expected) in table {
        // The socket is found in the configuration or named by --admin.
        let by = if expected == "purged 1\n" { ["--config", &config] } else { ["--admin", &admin] };
        let (code, out, err) = purge(&[url, by[0], by[1]]);
        assert_eq!((code, out.as_str(), err.as_str()), (Some(0), expected, ""), "{sentence}");
    }
}

#[test]
fn errors_of_purge_say_what_to_do() {
    let dir = Dir::new(&[]);
    let (mut child, socket) = server(&dir, "");
    let admin = shown(&socket);
    let (code, _, err) = purge(&["http://example.org/%zz", "--admin", &admin]);
    assert_eq!(
        (code, err.as_str()),
        (Some(1), "hurtle: refused: the request target is malformed\n")
    );
    for url in ["/a", "example.org/a", "http:///a", "http://example.org"] {
        let (code, _, err) = purge(&[url, "--admin", &admin]);
        assert_eq!(code, Some(2), "{url}");
        assert!(err.contains("write http://HOST/PATH"), "{url}: {err}");
    }
    let plain = dir.path("../plain.toml");
    fs::write(&plain, "root = \"/\"\n").unwrap();
    let (code, _, err) = purge(&["http://a/b", "--config", &shown(&plain)]);
    assert_eq!(code, Some(2));
    assert!(err.contains("write admin = \"PATH\""), "{err}");

    let nowhere = shown(&dir.path("../nowhere.sock"));
    // A killed server leaves its socket file behind.
    child.signal(rustix::process::Signal::KILL);
    child.wait();
    assert!(socket.exists());
    for (sentence, path) in [("no socket", &nowhere), ("a dead server's", &admin)] {
        let (code, out, err) = purge(&["http://example.org/a", "--admin", path]);
        assert_eq!((code, out.as_str()), (Some(1), ""), "{sentence}");
        let expected = format!(
            "hurtle: no server listens on {path}: start it, or name the admin socket of a running \
             server with --admin\n"
        );
        assert_eq!(err, expected, "{sentence}");
    }
}

#[test]
fn another_user_may_not_purge() {
    if !geteuid().is_root() {
        println!("skipped: it takes root to be somebody else");
        return;
    }
    let dir = Dir::new(&[]);
    let (_child, socket) = server(&dir, "");
    let admin = shown(&socket);
    let as_stranger =
        |arguments: &[&str]| hurtle().args(arguments).uid(STRANGER).gid(STRANGER).output();
    if let Err(e) = as_stranger(&["--version"]) {
        println!("skipped: nobody else may run the program where it was built: {e}");
        return;
    }
    let output = as_stranger(&["purge", "http://a/b", "--admin", &admin]).unwrap();
    assert_eq!((output.status.code(), &output.stdout[..]), (Some(1), &b""[..]));
    let expected = format!(
        "hurtle: {admin}: Permission denied (os error 13): only the server's own user and root may \
         connect\n"
    );
    assert_eq!(String::from_utf8(output.stderr).unwrap(), expected);
    let (code, out, _) = purge(&["http://a/b", "--admin", &admin]);
    assert_eq!((code, out.as_str()), (Some(0), "purged 0\n"), "root may");
}

#[test]
fn the_access_log_has_the_cache_status() {
    let dir = Dir::new(&[]);
    let log = dir.path("../access.log");
    let log_keys = format!(
        "[access_log]\nformat = \"json\"\nfields = [\"target\", \"cache\"]\npath = {log:?}\n"
    );
    let (child, socket) = server(&dir, &log_keys);
    let mut client = child.connect();
    for _ in 0..2 {
        client.request("GET", "/a\nHost: example.org");
    }
    purge(&["http://example.org/a", "--admin", &shown(&socket)]);
    client.request("GET", "/a\nHost: example.org");
    client.request("POST", "/a\nHost: example.org");
    let expected: String = ["miss", "hit", "miss", "pass"]
        .iter()
        .map(|word| format!("{{\"target\":\"/a\",\"cache\":\"{word}\"}}\n"))
        .collect();
    let text = || fs::read_to_string(&log).unwrap_or_default();
    eventually("four lines are written", || text().lines().count() == 4);
    assert_eq!(text(), expected);
}

#[test]
fn an_unknown_command_is_answered_with_the_known_ones() {
    let dir = Dir::new(&[]);
    let (_child, socket) = server(&dir, "");
    let mut peer = UnixStream::connect(&socket).unwrap();
    peer.write_all(b"GET http://a/ HTTP/1.1\r\nHost: a\r\n\r\n").unwrap();
    let mut answer = String::new();
    peer.read_to_string(&mut answer).unwrap();
    assert!(answer.starts_with("HTTP/1.1 405 "), "{answer}");
    assert!(answer.contains("\r\nAllow: GET, POST, PURGE\r\n"), "{answer}");
}
