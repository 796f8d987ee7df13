//! Tests of a connection from its first request to its end. Byte-level cases are in
//! `tests/golden/h1`.

use std::io::Write;
use std::net::Shutdown;

use crate::support::{Response, Server};

#[test]
fn one_connection_for_many_requests() {
    let server = Server::start(&[("a.txt", "a"), ("b.txt", "b")]);
    let mut client = server.connect();
    for n in 0..200 {
        let (path, body) = if n % 3 == 0 { ("/b.txt", "b") } else { ("/a.txt", "a") };
        assert_eq!(client.request("GET", path).text(), body);
    }
    client.half_close();
    client.expect_end();
}

#[test]
fn ten_thousand_pipelined_requests_in_order() {
    let large = "x".repeat(70_000);
    let server = Server::start(&[("a.txt", "a"), ("b.txt", "bb"), ("large.txt", &large)]);
    let paths = ["/a.txt", "/b.txt", "/none", "/large.txt"];
    let wanted = [1, 2, 14, 70_000];
    // One in fifty is large.
    let pick = |n: usize| if n % 50 == 49 { 3 } else { n % 3 };
    let mut client = server.connect();
    let mut sender = client.stream.try_clone().unwrap();
    let sending = std::thread::spawn(move || {
        let request = |n| format!("GET {} HTTP/1.1\r\nHost: a\r\n\r\n", paths[pick(n)]);
        let all: String = (0..10_000).map(request).collect();
        sender.write_all(all.as_bytes()).unwrap();
        sender.shutdown(Shutdown::Write).unwrap();
    });
    for n in 0..10_000 {
        assert_eq!(client.response().body.len(), wanted[pick(n)], "answer {n}");
    }
    client.expect_end();
    sending.join().unwrap();
}

#[test]
fn requests_in_one_write_are_separated() {
    let server = Server::start(&[("a.txt", "a"), ("b.txt", "b")]);
    let get = |path| format!("GET {path} HTTP/1.1\r\nHost: a\r\n\r\n");
    let post = "POST /a.txt HTTP/1.1\r\nHost: a\r\n";
    let mut client = server.connect();
    for (sent, why) in [
        (get("/a.txt"), "a head alone"),
        (format!("{post}Content-Length: 5\r\n\r\n1\r\n\r\n"), "a body that ends like a head"),
        (format!("{post}Transfer-Encoding: chunked\r\n\r\n0\r\n\r\n"), "one that has to"),
        (format!("\r\n{}", get("/a.txt")), "an empty line before it (RFC 9112 2.2)"),
    ] {
        client.send(format!("{sent}{}", get("/b.txt")));
        let first = client.response();
        assert!(first.status == 405 || first.text() == "a", "{why}: {}", first.status);
        assert_eq!(client.response().text(), "b", "{why}");
        client.send(sent);
        client.response();
        client.expect_open();
    }
}

#[test]
fn expect_100_continue() {
    let server = Server::start(&[("a.txt", "a")]);
    let length = "Content-Length: 5\r\n";
    let chunked = "Transfer-Encoding: chunked\r\n";
    for (framing, body) in [(length, "hello"), (chunked, "5\r\nhello\r\n0\r\n\r\n")] {
        let mut client = server.connect();
        let head = |method| {
            format!("{method} /a.txt HTTP/1.1\r\nHost: a\r\nExpect: 100-Continue\r\n{framing}\r\n")
        };
        client.send(head("GET"));
        let interim = client.response();
        assert_eq!((interim.status, interim.fields.len()), (100, 0), "invited");
        client.send(body);
        assert_eq!(client.response().text(), "a", "then answered");
        client.expect_open();

        client.send(head("GET") + body);
        assert_eq!(client.response().status, 200, "a body that is there needs no invitation");
        client.expect_open();

        client.send(head("POST"));
        let refused = client.response();
        assert_eq!(refused.status, 405, "refused at once, no 100 before it");
        assert_eq!(refused.field("Allow"), Some("GET, HEAD, OPTIONS"));
        client.send(body);
        client.expect_end();
    }
}

#[test]
fn a_body_beyond_the_limit_gets_no_100_continue() {
    let server = Server::start(&[("a.txt", "a")]);
    let mut client = server.connect();
    client.send(
        "GET /a.txt HTTP/1.1\r\nHost: a\r\nExpect: 100-continue\r\nContent-Length: 20000000\r\n\r\n",
    );
    assert_eq!(client.response().status, 413, "no 100 before it");
    client.expect_end();
}

#[test]
fn a_refused_upload_can_read_its_error() {
    let server = Server::start(&[]);
    let megabyte = vec![b'x'; 1 << 20];
    for chunked in [false, true] {
        let mut client = server.connect();
        client.send("POST /upload HTTP/1.1\r\nHost: a\r\n");
        client.send(if chunked {
            "Transfer-Encoding: chunked\r\n\r\n"
        } else {
            "Content-Length: 20971520\r\n\r\n"
        });
        for _ in 0..20 {
            if chunked {
                client.send("100000\r\n");
            }
            // A reset here would lose the response, so the server must continue reading.
            client.stream.write_all(&megabyte).unwrap();
            if chunked {
                client.send("\r\n");
            }
        }
        let Response { status, .. } = client.response();
        assert_eq!(status, 405, "chunked: {chunked}");
        client.expect_end();
    }
}

#[test]
fn a_large_body_within_the_limit_is_read() {
    let server = Server::start(&[("a.txt", "a")]);
    let mut client = server.connect();
    client.send("GET /a.txt HTTP/1.1\r\nHost: a\r\nContent-Length: 16777216\r\n\r\n");
    client.send(vec![b'x'; 16 << 20]);
    assert_eq!(client.response().status, 200);
    client.expect_open();
}

#[test]
fn http_1_0_as_old_clients_speak_it() {
    let server = Server::start(&[("a.txt", "a"), ("large", &"x".repeat(300_000))]);
    let mut client = server.connect();
    client.send("GET /large HTTP/1.0\r\nConnection: keep-alive\r\n\r\n");
    let large = client.response();
    assert_eq!(large.body.len(), 300_000);
    assert_eq!(large.field("Connection"), Some("keep-alive"));
    client.send("GET /a.txt HTTP/1.0\r\n\r\n");
    assert_eq!(client.response().field("Connection"), Some("close"));
    client.expect_end();
}
