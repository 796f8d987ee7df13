//! Connections whose bytes never end: others of the same worker are answered meanwhile.

use std::io::{self, Write};
use std::net::Shutdown;
use std::panic::{AssertUnwindSafe, catch_unwind};
use std::sync::atomic::{AtomicBool, Ordering};
use std::thread;

use crate::support::Server;
use crate::wire::*;

/// Requests in one write.
const REQUESTS: u32 = 100;

/// A HEAD that is so long that one read of the server holds fewer than may be open.
fn request_on(stream: u32) -> Vec<u8> {
    const PADDING: usize = 255;
    let long = field("x", &"x".repeat(120));
    let fields = [request("HEAD", "/a.txt"), long.repeat(3)].concat();
    let payload = [&[PADDING as u8][..], &fields, &[0; PADDING]].concat();
    frame(HEADERS, END_HEADERS | END_STREAM | PADDED, stream, &payload)
}

/// Regression: the worker served such a connection alone, and accepted no other.
#[test]
fn a_connection_whose_bytes_never_end_starves_no_other() {
    let broken = [frame(DATA, 0, 0, b"of no stream"), vec![0; 256 << 10]].concat();
    let rows: [(&str, &(dyn Fn(u32) -> Vec<u8> + Sync)); 2] = [
        ("requests", &|from| (from..from + REQUESTS).flat_map(|n| request_on(2 * n + 1)).collect()),
        ("bytes behind an error", &|_| broken.clone()),
    ];
    for (sentence, bytes) in rows {
        let server = Server::start(&[("a.txt", "a"), ("b.txt", "bb")]);
        let greedy = Wire::begin(server.address, &[]).socket;
        let (mut writing, mut reading) = (&greedy, &greedy);
        let done = AtomicBool::new(false);
        thread::scope(|scope| {
            scope.spawn(move || io::copy(&mut reading, &mut io::sink()));
            scope.spawn(|| {
                let mut from = 0;
                while !done.load(Ordering::Relaxed) && writing.write_all(&bytes(from)).is_ok() {
                    from += REQUESTS;
                }
                // Responses still in flight are not needed.
                let _ = writing.shutdown(Shutdown::Both);
            });
            // Without a turn a read would time out.
            let asked = catch_unwind(AssertUnwindSafe(|| {
                for _ in 0..50 {
                    assert_eq!(server.get("/b.txt").text(), "bb");
                }
            }));
            done.store(true, Ordering::Relaxed);
            assert!(asked.is_ok(), "{sentence}");
        });
    }
}
