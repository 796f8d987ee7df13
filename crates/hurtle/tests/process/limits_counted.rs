//! Limits of connections that a client hits by being slow or by flooding: they are counted.

use std::io::Write as _;

use crate::child::{Child, eventually};
use crate::frames::*;
use crate::metrics::{scrape, value};
use crate::support::Dir;

const CONFIG: &str = "admin = '{root}/../admin.sock'\nroot = '{root}'\n[limits]\n\
                      write_stall = '1s'\nhead_timeout = '1s'\n";

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
