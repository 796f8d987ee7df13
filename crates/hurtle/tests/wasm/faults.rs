//! Components that fail or do not end. Their clients get a status or a closed connection; all
//! others are served meanwhile.

use std::io::{Read as _, Write as _};
use std::net::TcpStream;
use std::time::Duration;

use super::{LIMITS, Served};
use crate::child::eventually;

const TIMEOUTS: &str = "first_byte_timeout = '500ms'\nread_timeout = '500ms'\n";

#[test]
fn a_failure_has_a_status_and_a_line_in_the_log() {
    let served = Served::start(TIMEOUTS, LIMITS);
    let table = [
        ("/app/loop", 504, "its processor time is used up (GET /loop)"),
        ("/app/trap", 500, "unreachable"),
        ("/app/memory", 500, "it reached its memory limit"),
        ("/app/never", 504, "it has not responded in time (GET /never)"),
        ("/app/garbage", 502, "it has ended without a response"),
        ("/app/error", 502, "it gives an error in place of a response"),
        ("/app/interim", 502, "its response has status 103"),
    ];
    for (target, status, line) in table {
        let response = served.get(target);
        assert_eq!(response.status, status, "{target}");
        eventually(line, || served.child.stderr().contains(line));
        served.expect_undisturbed();
    }
}

/// Regression: it had none.
#[test]
fn a_failure_has_the_page_of_its_mount() {
    let keys = format!("errors = {{ 500 = '/a.txt', 504 = '/a.txt' }}\n{TIMEOUTS}");
    let served = Served::start(&keys, LIMITS);
    for (target, status) in [("/app/trap", 500), ("/app/never", 504)] {
        let response = served.get(target);
        assert_eq!((response.status, response.text()), (status, "a file\n"), "{target}");
    }
}

#[test]
fn looping_components_leave_time_to_others() {
    let served = Served::start("", "cpu_time = '10s'\ninstances = 8\n");
    let mut loops: Vec<_> = (0..6).map(|_| served.connect()).collect();
    for client in &mut loops {
        client.send("GET /app/loop HTTP/1.1\r\nHost: a\r\n\r\n");
    }
    let before = served.child.cpu_ticks();
    eventually("they compute", || served.child.cpu_ticks() > before + 20);
    for _ in 0..5 {
        served.expect_undisturbed();
    }
    let log = served.child.stderr();
    assert!(!log.contains("processor time is used up"), "others are served before they end: {log}");
}

#[test]
fn a_client_that_leaves_ends_its_component() {
    let served = Served::start("", "cpu_time = '1h'\ninstances = 1\n");
    let mut client = TcpStream::connect(served.child.address()).unwrap();
    client.write_all(b"GET /app/loop HTTP/1.1\r\nHost: a\r\n\r\n").unwrap();
    let before = served.child.cpu_ticks();
    eventually("it computes", || served.child.cpu_ticks() > before + 20);
    // The only instance is free when the client has reset its connection.
    let reset = socket2::Socket::from(client);
    reset.set_linger(Some(Duration::ZERO)).unwrap();
    drop(reset);
    served.expect_undisturbed();
}

#[test]
fn requests_wait_for_an_instance() {
    let served = Served::start("first_byte_timeout = '1s'\n", "instances = 1\n");
    let mut sleeps = served.connect();
    sleeps.send("GET /app/never HTTP/1.1\r\nHost: a\r\n\r\n");
    let mut waits = served.connect();
    waits.send("GET /app/hello HTTP/1.1\r\nHost: a\r\n\r\n");
    assert_eq!(sleeps.response().status, 504);
    assert_eq!(waits.response().text(), "hello\n");
}

#[test]
fn requests_that_wait_too_long_get_503() {
    let served = Served::start("", "instances = 1\n");
    let mut sleeps = served.connect();
    sleeps.send("GET /app/never HTTP/1.1\r\nHost: a\r\n\r\n");
    // The instance is taken when the first request has been begun.
    let refused = loop {
        let response = served.get("/app/hello");
        if response.status != 200 {
            break response;
        }
    };
    assert_eq!((refused.status, refused.field("Retry-After")), (503, Some("1")));
}

#[test]
fn a_flood_waits_for_its_reader() {
    let served = Served::start("read_timeout = '500ms'\n", "instances = 4\n");
    let mut slow = served.child.connect_narrow();
    slow.write_all(b"GET /app/flood HTTP/1.1\r\nHost: a\r\n\r\n").unwrap();
    let mut piece = vec![0; 1 << 10];
    slow.read_exact(&mut piece).unwrap();
    // Nobody reads: the component stands still, and so does the memory of the server.
    eventually("it waits for its reader", || served.child.sleeps());
    let resident = served.child.resident_kib();
    served.expect_undisturbed();
    for _ in 0..1 << 10 {
        slow.read_exact(&mut piece).unwrap();
    }
    eventually("it waits for its reader again", || served.child.sleeps());
    let more = served.child.resident_kib().saturating_sub(resident);
    assert!(more < 16 << 10, "{more} KiB more");
    // A pause of the client is not the component's.
    slow.read_exact(&mut piece).unwrap();
    assert!(!served.child.stderr().contains("paused"), "{}", served.child.stderr());
}

#[test]
fn a_body_that_fails_ends_its_connection() {
    let served = Served::start(TIMEOUTS, LIMITS);
    for (target, line) in [("/app/cut", "unreachable"), ("/app/stall", "its response paused")] {
        let mut client = served.connect();
        client.send(format!("GET {target} HTTP/1.1\r\nHost: a\r\n\r\n"));
        let bytes = client.rest();
        let text = String::from_utf8_lossy(&bytes);
        assert!(text.starts_with("HTTP/1.1 200 "), "{target}: {text}");
        assert!(!text.ends_with("\r\n0\r\n\r\n"), "{target}: it looks complete");
        eventually(line, || served.child.stderr().contains(line));
        served.expect_undisturbed();
    }
}

#[test]
fn output_is_logged_up_to_a_limit() {
    let served = Served::start("", "");
    assert_eq!(served.get("/app/write").text(), "hello\n");
    let dropped = "more than 65536 bytes of output are dropped";
    eventually(dropped, || served.child.stderr().contains(dropped));
    let log = served.child.stderr();
    assert!(log.contains("wasm */app: hello\n"), "{log}");
    assert!(log.len() < 80 << 10, "{} bytes", log.len());
}
