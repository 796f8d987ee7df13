//! Lines of the logs about requests that are refused, and about attempts that a retry mends.

use std::fs;
use std::io::{Read as _, Write as _};
use std::net::{TcpListener, TcpStream};

use crate::child::{Child, PATIENCE, eventually};
use crate::support::Dir;

#[test]
fn a_refused_request_is_logged_as_far_as_it_was_read() {
    let dir = Dir::new(&[]);
    let log = dir.path("../access.log");
    let child = Child::serve(&dir, &["--access-log", &format!("combined:{}", log.display())]);
    let rows: [(&[u8], &str); 6] = [
        (b"GET /a HTTP/1.1\r\n\r\n", "\"GET /a HTTP/1.1\" 400"),
        (b"GET /b HTTP/1.1\r\nHost : a\r\n\r\n", "\"GET /b "),
        (b"HEAD /c# HTTP/1.1\r\nHost: a\r\n\r\n", "\"HEAD /c# HTTP/1.1\" 400 0 "),
        (b"GET /d HTTP/9.9\r\n\r\n", "\"GET /d "),
        (b"GET\r\n\r\n", "GET "),
        (b"\x16\x03\x01\x02\r\n", "\\x16\\x03\\x01\\x02"),
    ];
    for (n, (bytes, expected)) in rows.into_iter().enumerate() {
        let mut client = TcpStream::connect(child.address()).unwrap();
        client.set_read_timeout(Some(PATIENCE)).unwrap();
        client.write_all(bytes).unwrap();
        client.shutdown(std::net::Shutdown::Write).unwrap();
        let mut answer = String::new();
        client.read_to_string(&mut answer).unwrap();
        assert!(answer.starts_with("HTTP/1.1 "), "{expected}: {answer}");
        let mut lines = String::new();
        eventually("it is logged", || {
            lines = fs::read_to_string(&log).unwrap_or_default();
            lines.lines().count() > n
        });
        let line = lines.lines().last().unwrap();
        assert!(line.contains(expected), "{expected}: {line}");
    }
}

#[test]
fn a_lost_race_that_a_retry_mends_is_no_error() {
    let upstream = TcpListener::bind("127.0.0.1:0").unwrap();
    let dir = Dir::new(&[]);
    let address = upstream.local_addr().unwrap();
    let config = format!("[[site]]\n[[site.mount]]\nproxy = 'http://{address}'\n");
    let child = Child::configured(&dir, &config);
    let mut client = child.connect();
    let answer = |peer: &mut TcpStream| {
        let mut head = [0; 4096];
        let _ = peer.read(&mut head).unwrap();
        peer.write_all(b"HTTP/1.1 200 OK\r\nContent-Length: 2\r\n\r\nok").unwrap();
    };
    client.send("GET /first HTTP/1.1\r\nHost: a\r\n\r\n");
    let (mut peer, _) = upstream.accept().unwrap();
    answer(&mut peer);
    assert_eq!(client.response().status, 200);
    client.send("GET /second HTTP/1.1\r\nHost: a\r\n\r\n");
    // The idle connection ends while the request is on its way.
    let mut head = [0; 4096];
    let _ = peer.read(&mut head).unwrap();
    drop(peer);
    let (mut peer, _) = upstream.accept().unwrap();
    answer(&mut peer);
    assert_eq!(client.response().status, 200);
    eventually("the retry is logged", || child.stderr().contains("/second: retried)"));
    let log = child.stderr();
    assert!(!log.contains("ERROR") && !log.contains("502"), "{log}");
}
