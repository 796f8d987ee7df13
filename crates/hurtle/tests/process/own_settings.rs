//! Settings of requests that sites and mounts have for themselves: body sizes, lines in the access
//! log, error pages.

use std::fs;
use std::io::{ErrorKind, Read as _, Write as _};
use std::net::TcpListener;
use std::sync::{Arc, Mutex};
use std::thread;

use crate::child::{Child, eventually};
use crate::frames::{self, DATA, END_HEADERS, END_STREAM, HEADERS, Wire};
use crate::support::Dir;

/// An upstream that keeps the bytes of each request, and answers each at once.
fn upstream() -> (std::net::SocketAddr, Arc<Mutex<Vec<String>>>) {
    let listener = TcpListener::bind("127.0.0.1:0").unwrap();
    let address = listener.local_addr().unwrap();
    let requests: Arc<Mutex<Vec<String>>> = Arc::default();
    let kept = Arc::clone(&requests);
    thread::spawn(move || {
        for peer in listener.incoming() {
            let (mut peer, kept) = (peer.unwrap(), Arc::clone(&kept));
            thread::spawn(move || {
                let (mut all, mut part) = (Vec::new(), [0; 1024]);
                let is_whole = |all: &[u8]| {
                    let text = String::from_utf8_lossy(all);
                    let (head, body) = text.split_once("\r\n\r\n").unwrap_or_default();
                    let length = head.lines().find_map(|l| l.strip_prefix("Content-Length: "));
                    match length {
                        Some(length) => body.len() == length.parse::<usize>().unwrap(),
                        None if head.contains("chunked") => body.ends_with("0\r\n\r\n"),
                        None => !head.is_empty(),
                    }
                };
                while !is_whole(&all) {
                    match peer.read(&mut part) {
                        Err(e) if e.kind() == ErrorKind::Interrupted => {}
                        Ok(0) | Err(_) => break,
                        Ok(n) => all.extend_from_slice(&part[..n]),
                    }
                }
                if is_whole(&all) {
                    let ok = "HTTP/1.1 200 OK\r\nContent-Length: 2\r\nConnection: close\r\n\r\nok";
                    let _ = peer.write_all(ok.as_bytes());
                }
                kept.lock().unwrap().push(String::from_utf8_lossy(&all).into_owned());
            });
        }
    });
    (address, requests)
}

#[test]
fn a_body_is_limited_for_every_handler_by_its_mount() {
    let dir = Dir::new(&[("index.html", "home\n"), ("too-large.html", "our page\n")]);
    let (address, requests) = upstream();
    let child = Child::configured(
        &dir,
        &format!(
            "[[site]]\nbody_bytes = 10\nerrors = {{ 413 = '/too-large.html' }}\n\
             [[site.mount]]\nfiles = '{{root}}'\n\
             [[site.mount]]\npath = '/app'\nproxy = 'http://{address}'\n\
             [[site.mount]]\npath = '/large'\nproxy = 'http://{address}'\nbody_bytes = '1 KiB'\n"
        ),
    );
    let chunked = |body: &str| {
        format!("Transfer-Encoding: chunked\r\n\r\n{:x}\r\n{body}\r\n0\r\n\r\n", body.len())
    };
    let long = |body: &str| format!("Content-Length: {}\r\n\r\n{body}", body.len());
    let (ten, eleven, kib) = ("x".repeat(10), "x".repeat(11), "x".repeat(1024));
    let rows = [
        ("a body of the size", "/app", long(&ten), 200),
        ("a longer one", "/app", long(&eleven), 413),
        ("a body without a length", "/app", chunked(&ten), 200),
        ("a longer one without a length", "/app", chunked(&eleven), 413),
        ("a mount with its own size", "/large", long(&kib), 200),
        ("a longer one there", "/large", long(&format!("{kib}x")), 413),
        ("a longer one there, without a length", "/large", chunked(&format!("{kib}x")), 413),
        ("a mount of files", "/", long(&eleven), 413),
    ];
    for (sentence, path, rest, status) in rows {
        let mut client = child.connect();
        client.send(format!("POST {path} HTTP/1.1\r\nHost: a\r\n{rest}"));
        assert_eq!(client.response().status, status, "{sentence}");
    }
    let mut client = child.connect();
    client.send(
        "POST /app HTTP/1.1\r\nHost: a\r\nExpect: 100-continue\r\nContent-Length: 11\r\n\r\n",
    );
    let refused = client.response();
    assert_eq!(
        (refused.status, refused.text()),
        (413, "our page\n"),
        "no 100, and the site's page"
    );
    for (sentence, size, status) in [("HTTP/2", 10, "200"), ("a longer one in HTTP/2", 11, "413")] {
        let mut wire = Wire::begin(child.address(), &[]);
        wire.send(&frames::frame(HEADERS, END_HEADERS, 1, &frames::request("POST", "/app")));
        wire.send(&frames::frame(DATA, END_STREAM, 1, &vec![b'x'; size]));
        let head = wire.next_of(HEADERS).payload;
        // The status is in the static table (RFC 7541 appendix A) or literal.
        let is_ok = head.first() == Some(&0x88);
        assert_eq!(is_ok, status == "200", "{sentence}: {head:?}");
    }
    let whole = |request: &&String| !request.contains("chunked") || request.ends_with("0\r\n\r\n");
    eventually("the upstream has what was let through", || {
        requests.lock().unwrap().iter().filter(whole).count() == 4
    });
}

#[test]
fn mounts_and_conditions_decide_about_the_access_log() {
    let dir = Dir::new(&[("index.html", "home\n"), ("a.css", "css\n")]);
    let log = dir.path("../access.log");
    let child = Child::configured(
        &dir,
        &format!(
            "[access_log]\nformat = 'json'\nfields = ['host', 'target']\npath = {log:?}\n\
             match = {{ not = {{ path = '*.css', header = {{ X-Probe = 'yes' }} }} }}\n\
             [[site]]\ndefault = true\n[[site.mount]]\nfiles = '{{root}}'\n\
             [[site.mount]]\npath = '/healthz'\nrespond = 'ok'\naccess_log = false\n\
             [[site]]\nhosts = 'quiet'\naccess_log = false\n[[site.mount]]\nfiles = '{{root}}'\n\
             [[site.mount]]\npath = '/loud'\nrespond = 'ok'\naccess_log = true\n"
        ),
    );
    let mut client = child.connect();
    // Files are cached after the first request.
    for _ in 0..2 {
        client.request("GET", "/a.css\nX-Probe: yes");
        client.request("GET", "/a.css");
        client.request("GET", "/healthz");
        client.request("GET", "/a.css\nHost: quiet");
        client.request("GET", "/none\nHost: quiet");
        client.request("GET", "/loud\nHost: quiet");
    }
    client.send("GET / HTTP/1.1\r\nbad header\r\n\r\n");
    client.response();
    let lines = || fs::read_to_string(&log).unwrap_or_default();
    let logged = [("a.test", "/a.css"), ("quiet", "/loud")];
    eventually("all lines are written", || lines().lines().count() == 5);
    let targets: Vec<String> = lines()
        .lines()
        .map(|line| {
            let line: serde_json::Value = serde_json::from_str(line).unwrap();
            line["target"].as_str().unwrap().to_owned()
        })
        .collect();
    let expected = [logged[0].1, logged[1].1, logged[0].1, logged[1].1, "/"];
    assert_eq!(targets, expected, "{}", lines());
}

/// The client is one that a trusted proxy names, the peer is the proxy.
#[test]
fn the_access_log_can_select_by_peer_and_client() {
    let dir = Dir::new(&[("a.txt", "a\n")]);
    let log = dir.path("../access.log");
    let child = Child::configured(
        &dir,
        &format!(
            "trusted_proxies = '127.0.0.1'\n\
             [access_log]\nformat = 'json'\nfields = ['target']\npath = {log:?}\n\
             match = {{ peer = '127.0.0.0/8', not = {{ client = '192.0.2.7', peer = '127.0.0.1' }} }}\n\
             [[site]]\n[[site.mount]]\nfiles = '{{root}}'\n"
        ),
    );
    let mut client = child.connect();
    for target in ["/a.txt?1\nX-Forwarded-For: 192.0.2.7", "/a.txt?2", "/a.txt?3"] {
        client.request("GET", target);
    }
    let lines = || fs::read_to_string(&log).unwrap_or_default();
    let expected = "{\"target\":\"/a.txt?2\"}\n{\"target\":\"/a.txt?3\"}\n";
    eventually("all lines are written", || lines() == expected);
}

#[test]
fn a_mount_has_error_pages_of_its_own() {
    let dir = Dir::new(&[
        ("404.html", "the site's\n"),
        ("app/404.html", "the application's\n"),
        ("403.html", "forbidden\n"),
    ]);
    let child = Child::configured(
        &dir,
        "[[site]]\n[site.errors]\n404 = '/404.html'\n403 = '/403.html'\n\
         [[site.mount]]\nfiles = '{root}'\n\
         [[site.mount]]\npath = '/app'\nfiles = '{root}/app'\nerrors = { 404 = '/app/404.html' }\n\
         [[site.mount]]\npath = '/closed'\nfiles = '{root}'\ndeny = '127.0.0.1'\n\
         errors = { 404 = '/app/404.html' }\n\
         [[site.mount]]\npath = '/up'\nfiles = '{root}'\nuploads = {}\nauth = 'none'\n",
    );
    let rows = [
        ("the page of the site", "GET", "/none", 404, "the site's\n"),
        ("the page of the mount", "GET", "/app/none", 404, "the application's\n"),
        ("a status without a page of the mount", "GET", "/closed/x", 403, "forbidden\n"),
        (
            "a refused upload has none",
            "DELETE",
            "/up/none",
            404,
            "404 Not Found: the file does not exist\n",
        ),
    ];
    for (sentence, method, path, status, text) in rows {
        let response = child.connect().request(method, path);
        assert_eq!((response.status, response.text()), (status, text), "{sentence}");
    }
}
