//! HTTP/2 clients that flood the server with requests and never read responses: each connection is
//! closed, and uses little memory until then.

use std::io::Write;
use std::net::TcpStream;
use std::time::Instant;

use crate::child::{Child, PATIENCE};
use crate::frames::*;
use crate::support::Dir;

const CONFIG: &str = "root = '{root}'\n[limits]\nwrite_stall = '1s'\nhead_timeout = '1s'\n";

/// Memory limit of a flood, in KiB, buffers kept for reuse included: less than 64 KiB for each of
/// the allowed streams.
const FLOOD_KIB_MAX: u64 = 4 << 10;
const STREAMS_KIB_MAX: u64 = 4 << 10;

#[test]
fn floods_of_unread_responses_are_cut_and_use_little_memory() {
    let dir = Dir::new(&[("a.txt", "a\n")]);
    dir.write("large.bin", vec![b'x'; 4 << 20]);
    let child = Child::configured(&dir, CONFIG);
    assert_eq!(child.connect().request("GET", "/large.bin").status, 200);
    let windows = open_windows();
    let ordinary = frame(SETTINGS, 0, 0, &[]);
    let post =
        [&ordinary[..], &frame(HEADERS, END_HEADERS, 1, &request("POST", "/a.txt"))].concat();
    // A field of 4,000 bytes is stored in the HPACK table, then referenced by single bytes.
    let kept = [&[0x40, 1, b'a', 0x7f, 0xa1, 0x1e][..], &[b'x'; 4_000]].concat();
    let bomb = move |n: u32| {
        let head = if n == 0 { kept.clone() } else { vec![] };
        let block = [request("GET", "/a.txt"), head, vec![0xbe; 3_000]].concat();
        frame(HEADERS, END_HEADERS | END_STREAM, 2 * n + 1, &block)
    };
    let rows: Vec<(&str, &[u8], Box<dyn Fn(u32) -> Vec<u8>>)> = vec![
        ("PING", &ordinary, Box::new(|_| frame(PING, 0, 0, &[0; 8]))),
        ("SETTINGS", &ordinary, Box::new(|_| frame(SETTINGS, 0, 0, &[]))),
        ("WINDOW_UPDATE", &post, Box::new(|_| frame(WINDOW_UPDATE, 0, 1, &[0, 0, 0, 1]))),
        ("empty DATA", &post, Box::new(|_| frame(DATA, 0, 1, b""))),
        ("errors", &ordinary, Box::new(|n| get(2 * n + 1, "/none"))),
        (
            "answers without a body",
            &ordinary,
            Box::new(|n| {
                frame(HEADERS, END_HEADERS | END_STREAM, 2 * n + 1, &request("HEAD", "/a.txt"))
            }),
        ),
        ("large answers", &windows, Box::new(|n| get(2 * n + 1, "/large.bin"))),
        (
            "requests that are reset",
            &windows,
            Box::new(|n| {
                [get(2 * n + 1, "/large.bin"), frame(RST_STREAM, 0, 2 * n + 1, &[0, 0, 0, 8])]
                    .concat()
            }),
        ),
        (
            "requests that make the server reset them",
            &ordinary,
            Box::new(|n| {
                let malformed = [request("GET", "/"), field("te", "x")].concat();
                frame(HEADERS, END_HEADERS | END_STREAM, 2 * n + 1, &malformed)
            }),
        ),
        ("blocks that mean far more than they say", &ordinary, Box::new(bomb)),
    ];
    for (why, begun, each) in rows {
        let before_kib = child.resident_kib();
        let peak_kib = flood(&child, begun, &each);
        let cost_kib = peak_kib.saturating_sub(before_kib);
        println!("{why}: {cost_kib} KiB");
        assert!(cost_kib <= FLOOD_KIB_MAX, "{why}: {cost_kib} KiB");
        assert_eq!(child.get("/a.txt").text(), "a\n", "{why}");
    }
}

/// Regression: each response that could not be sent held a piece of 64 KiB.
#[test]
fn unread_responses_on_all_streams_use_little_memory() {
    const STREAMS: u32 = 128;
    let dir = Dir::new(&[("a.txt", "a\n")]);
    dir.write("large.bin", vec![b'x'; 4 << 20]);
    let child = Child::configured(&dir, CONFIG);
    assert_eq!(child.connect().request("GET", "/large.bin").status, 200);
    let before_kib = child.resident_kib();
    // With closed windows.
    let mut wire = Wire::begin(child.address(), &[(INITIAL_WINDOW_SIZE, 0)]);
    wire.send(&(0..STREAMS).flat_map(|n| get(2 * n + 1, "/large.bin")).collect::<Vec<_>>());
    for _ in 0..STREAMS {
        wire.next_of(HEADERS);
    }
    let cost_kib = child.resident_kib() - before_kib;
    println!("{STREAMS} answers with closed windows: {cost_kib} KiB");
    assert!(cost_kib <= STREAMS_KIB_MAX, "{cost_kib} KiB");
    for _ in 0..STREAMS {
        wire.next_of(RST_STREAM);
    }
    // With open windows and a client that does not read.
    let peak_kib = flood(&child, &open_windows(), &|n| match n {
        0..STREAMS => get(2 * n + 1, "/large.bin"),
        _ => vec![],
    });
    let cost_kib = peak_kib - before_kib;
    println!("{STREAMS} answers that nobody reads: {cost_kib} KiB");
    assert!(cost_kib <= STREAMS_KIB_MAX, "{cost_kib} KiB");
}

/// Settings and window updates for unlimited data.
fn open_windows() -> Vec<u8> {
    let wide = [0x7f, 0xff, 0, 0];
    let settings = frame(SETTINGS, 0, 0, &[&[0, 4][..], &wide].concat());
    [settings, frame(WINDOW_UPDATE, 0, 0, &wide)].concat()
}

/// Sends frames without reading until the server closes the connection; returns the server's peak
/// memory, in KiB.
#[track_caller]
fn flood(child: &Child, begun: &[u8], each: &dyn Fn(u32) -> Vec<u8>) -> u64 {
    let mut socket: TcpStream = child.connect_narrow();
    socket.set_nonblocking(true).unwrap();
    let mut peak_kib = 0;
    let start = Instant::now();
    let mut numbers = 0..;
    let mut waiting = [PREFACE, begun].concat();
    let mut sent = 0;
    loop {
        assert!(start.elapsed() < PATIENCE, "it goes on after {sent} bytes");
        // A closed connection is detected by sending more.
        if waiting.is_empty() {
            waiting = numbers.by_ref().take(20).flat_map(each).collect();
        }
        match socket.write(&waiting) {
            Ok(n) => {
                sent += n;
                waiting.drain(..n);
            }
            Err(e) if e.kind() == std::io::ErrorKind::WouldBlock => std::thread::yield_now(),
            Err(_) => return peak_kib,
        }
        peak_kib = peak_kib.max(child.resident_kib());
    }
}
