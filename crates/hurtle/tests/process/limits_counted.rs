//! Limits of connections that a client hits by being slow or by flooding: they are counted.

use std::io::{Read as _, Write as _};
use std::net::TcpListener;

use crate::child::{Child, eventually};
use crate::frames::*;
use crate::metrics::{scrape, value};
use crate::support::Dir;

const CONFIG: &str = "admin = '{root}/../admin.sock'\nroot = '{root}'\n[limits]\n\
                      write_stall = '1s'\nhead_timeout = '1s'\n";

/// Responses of a known file, of which the last are not timed.
const KNOWN: u32 = 300;

/// More streams than a client may open at a time.
const STREAMS: u32 = 300;

#[track_caller]
fn expect_hits(dir: &Dir, limit: &str, is_expected: impl Fn(f64) -> bool) {
    let sample = format!("hurtle_limit_hits_total{{limit=\"{limit}\"}}");
    let hits = || value(&scrape(&dir.path("../admin.sock")), &sample).unwrap();
    eventually(&format!("{limit} is counted"), || is_expected(hits()));
}

#[test]
fn a_client_that_does_not_read_hits_send_time() {
    let dir = Dir::new(&[]);
    dir.write("large.bin", vec![b'x'; 16 << 20]);
    let child = Child::configured(&dir, CONFIG);
    let mut client = child.connect_narrow();
    client.write_all(b"GET /large.bin HTTP/1.1\r\nHost: a\r\n\r\n").unwrap();
    expect_hits(&dir, "send_time", |hits| hits == 1.0);
}

/// Regression: without an access log, only responses that are timed were counted.
#[test]
fn every_client_that_does_not_read_a_known_file_hits_send_time() {
    const STALLED: u32 = 8;
    let dir = Dir::new(&[("a.txt", "a")]);
    let child = Child::configured(&dir, CONFIG);
    let mut client = child.connect();
    for _ in 0..KNOWN {
        assert_eq!(client.request("GET", "/a.txt").status, 200);
    }
    let mut wire = Wire::begin(child.address(), &[(INITIAL_WINDOW_SIZE, 0)]);
    wire.send(&(0..STALLED).flat_map(|n| get(2 * n + 1, "/a.txt")).collect::<Vec<_>>());
    for _ in 0..STALLED {
        wire.next_of(RST_STREAM);
    }
    expect_hits(&dir, "send_time", |hits| hits == f64::from(STALLED));
}

/// Regression: a page in place of the error counted once more, and so did an upstream's error.
#[test]
fn a_body_that_is_too_large_is_counted_once() {
    let dir = Dir::new(&[]);
    let upstream = TcpListener::bind("127.0.0.1:0").unwrap();
    let config = format!(
        "admin = '{{root}}/../admin.sock'\n[[site]]\nbody_bytes = 4\n\
         errors = {{ 413 = '/too-large' }}\n\
         [[site.mount]]\nproxy = 'http://{}'\nintercept_errors = true\n\
         [[site.mount]]\npath = '/too-large'\nrespond = 'sorry'\n",
        upstream.local_addr().unwrap()
    );
    let child = Child::configured(&dir, &config);
    let mut client = child.connect();
    client.send("POST / HTTP/1.1\r\nHost: a\r\nContent-Length: 5\r\n\r\nlarge");
    let refused = client.response();
    assert_eq!((refused.status, refused.text()), (413, "sorry"));
    expect_hits(&dir, "body_size", |hits| hits == 1.0);

    let mut client = child.connect();
    client.send("GET / HTTP/1.1\r\nHost: a\r\n\r\n");
    let (mut peer, _) = upstream.accept().unwrap();
    assert!(peer.read(&mut [0; 1024]).unwrap() > 0);
    peer.write_all(b"HTTP/1.1 413 Content Too Large\r\nContent-Length: 0\r\n\r\n").unwrap();
    let refused = client.response();
    assert_eq!((refused.status, refused.text()), (413, "sorry"));
    expect_hits(&dir, "body_size", |hits| hits == 1.0);
}

#[test]
fn a_balancer_that_sends_no_header_hits_proxy_header_time() {
    let dir = Dir::new(&[("a.txt", "a")]);
    let child = Child::configured(&dir, &format!("{CONFIG}[proxy_protocol]\nfrom = '127.0.0.1'\n"));
    child.connect().expect_end();
    expect_hits(&dir, "proxy_header_time", |hits| hits == 1.0);
}

#[test]
fn refused_streams_and_floods_of_frames_are_counted() {
    let dir = Dir::new(&[("a.txt", "a")]);
    let child = Child::configured(&dir, CONFIG);
    // With closed windows, so that no stream ends.
    let mut wire = Wire::begin(child.address(), &[(INITIAL_WINDOW_SIZE, 0)]);
    wire.send(&(0..STREAMS).flat_map(|n| get(2 * n + 1, "/a.txt")).collect::<Vec<_>>());
    let refused = wire.next_of(RST_STREAM);
    assert_eq!(refused.code(), REFUSED_STREAM);
    drop(wire);
    expect_hits(&dir, "http2_streams", |hits| hits >= 1.0);

    let mut wire = Wire::begin(child.address(), &[]);
    wire.send(&frame(PING, 0, 0, b"12345678").repeat(20_000));
    assert_eq!(wire.end(), Some(ENHANCE_YOUR_CALM));
    expect_hits(&dir, "http2_frames", |hits| hits == 1.0);
}
