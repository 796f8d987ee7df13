//! The response to a client when a FastCGI application fails.

use crate::peer::{END, ReceivedRequest, STDOUT, end, read_input, receive, record};
use crate::support::{GET, NOBODY, Proxy, Upstream};

fn server(upstream: &Upstream, keys: &str) -> Proxy {
    Proxy::of("", &format!("fastcgi = \"{}\"\n{keys}", upstream.address))
}

#[test]
fn an_invalid_response_is_a_bad_gateway_and_is_logged() {
    crate::log::begin();
    let upstream = Upstream::new();
    let server = server(&upstream, "");
    let table: [(&str, Vec<u8>, u16, &str); 11] = [
        ("nothing", vec![], 502, "it ended before its response"),
        ("no FastCGI", b"HTTP/1.1 200 OK\r\n\r\n".to_vec(), 502, "a record of version 72"),
        ("another request", vec![1, 6, 0, 2, 0, 0, 0, 0], 502, "a record of unknown request 2"),
        ("an end without an answer", end(), 502, "its head does not end"),
        ("half a head", [record(STDOUT, "Status: 200\n"), end()].concat(), 502, "does not end"),
        ("no head", record(STDOUT, "hello\n\n"), 502, "a malformed field"),
        ("no type", record(STDOUT, "X-A: b\n\n"), 502, "has none of Content-Type"),
        ("a bad status", record(STDOUT, "Status: 99\n\n"), 502, "its Status is not a final"),
        ("a bad field", record(STDOUT, "A: b\x01c\n\n"), 502, "a malformed field"),
        ("no room", record(END, [0, 0, 0, 0, 2, 0, 0, 0]), 503, "it is overloaded"),
        (
            "another role",
            record(END, [0, 0, 0, 0, 3, 0, 0, 0]),
            502,
            "it does not support the role",
        ),
    ];
    for (n, (sentence, bytes, status, why)) in table.into_iter().enumerate() {
        let mut client = server.send(format!("GET /fault-{n} HTTP/1.1\r\nHost: a\r\n\r\n"));
        let ReceivedRequest { client: mut app, .. } = receive(&upstream);
        read_input(&mut app);
        app.send(bytes);
        app.half_close();
        let (head, _) = client.answer();
        assert!(head.starts_with(&format!("HTTP/1.1 {status} ")), "{sentence}: {head}");
        let lines = crate::log::lines_with(&format!("GET /fault-{n}: {status}"));
        assert!(lines.len() == 1 && lines[0].contains(why), "{sentence}: {lines:?}");
    }
}

/// Regression: it was 500 where the end came with the head.
#[test]
fn a_response_that_ends_before_its_first_byte_is_a_bad_gateway() {
    let upstream = Upstream::new();
    let server = server(&upstream, "");
    let mut client = server.send(GET);
    let ReceivedRequest { client: mut app, .. } = receive(&upstream);
    read_input(&mut app);
    let head = record(STDOUT, "Content-Type: text/plain\nContent-Length: 5\n\n");
    app.send([head, end()].concat());
    let (head, _) = client.answer();
    assert!(head.starts_with("HTTP/1.1 502 "), "{head}");
}

#[test]
fn an_endless_head_is_refused() {
    let upstream = Upstream::new();
    let server = server(&upstream, "");
    let mut client = server.send(GET);
    let ReceivedRequest { client: mut app, .. } = receive(&upstream);
    let line = format!("X-A: {}\n", "b".repeat(1_000));
    for _ in 0..80 {
        app.send(record(STDOUT, &line));
    }
    assert!(client.answer().0.starts_with("HTTP/1.1 502 "));
}

#[test]
fn a_truncated_response_is_visibly_incomplete() {
    let upstream = Upstream::new();
    let server = server(&upstream, "");
    for (sentence, said, whole) in [
        ("in chunks", "Content-Type: a/b\n\npart", "4\r\npart\r\n0\r\n\r\n".len()),
        ("with a length", "Content-Type: a/b\nContent-Length: 9\n\npart", 9),
    ] {
        let mut client = server.send(GET);
        let ReceivedRequest { client: mut app, .. } = receive(&upstream);
        app.send(record(STDOUT, said));
        client.head();
        drop(app);
        client.expect_early_end(whole, sentence);
    }
}

#[test]
fn a_missing_application_is_a_bad_gateway() {
    let server = Proxy::of("", &format!("fastcgi = \"{NOBODY}\""));
    assert!(server.send(GET).answer().0.starts_with("HTTP/1.1 502 "));
}

#[test]
fn each_phase_has_its_time_limit() {
    let upstream = Upstream::new();
    let keys = "buffer = \"off\"\nfirst_byte_timeout = \"100ms\"\nread_timeout = \"100ms\"";
    let server = server(&upstream, keys);
    let mut client = server.send(GET);
    let silent = receive(&upstream);
    assert!(client.answer().0.starts_with("HTTP/1.1 504 "));
    drop(silent);
    // While the client is sending, the application's time limit does not run.
    let mut client = server.send("POST / HTTP/1.1\r\nHost: a\r\nContent-Length: 3\r\n\r\nab");
    let mut patient = receive(&upstream);
    std::thread::sleep(std::time::Duration::from_millis(300));
    client.send("c");
    read_input(&mut patient.client);
    patient.client.send(record(STDOUT, "Content-Type: a/b\n\npart"));
    assert!(client.head().starts_with("HTTP/1.1 200 "));
    assert_eq!(client.chunk(), "part");
    client.expect_early_end(1, "a pause within the body");
}

#[test]
fn a_disconnected_client_cancels_its_request() {
    let upstream = Upstream::new();
    let server = server(&upstream, "");
    let client = server.send(GET);
    let ReceivedRequest { client: mut app, .. } = receive(&upstream);
    read_input(&mut app);
    client.reset();
    assert_eq!(app.rest(), "", "the connection ends");
}

#[test]
fn a_slow_client_slows_the_application_down() {
    use std::io::Write as _;
    let upstream = Upstream::new();
    let server = server(&upstream, "buffer = \"request\"");
    let client = server.connect();
    socket2::SockRef::from(&client.stream).set_recv_buffer_size(4 << 10).unwrap();
    let mut client = client;
    client.send(GET);
    let ReceivedRequest { client: app, .. } = receive(&upstream);
    (&app.stream).write_all(&record(STDOUT, "Content-Type: a/b\n\n")).unwrap();
    client.head();
    app.stream.set_write_timeout(Some(std::time::Duration::from_millis(500))).unwrap();
    let piece = record(STDOUT, vec![b'x'; 60_000]);
    let mut taken = 0;
    let stopped = loop {
        match (&app.stream).write(&piece) {
            Ok(n) => taken += n,
            Err(e) if e.kind() == std::io::ErrorKind::Interrupted => {}
            Err(e) => break e.kind(),
        }
        assert!(taken < 64 << 20, "the server takes {taken} bytes for a client that reads none");
    };
    assert_eq!(stopped, std::io::ErrorKind::WouldBlock);
}
