//! HTTP/2 clients that ask and ask and never read a word of what they are told: each is cut, and
//! costs little until then.

use std::io::Write;
use std::net::TcpStream;
use std::time::Instant;

use crate::child::{Child, PATIENCE};
use crate::frames::*;
use crate::support::Dir;

const CONFIG: &str = "root = '{root}'\n[limits]\nwrite_stall = '1s'\nhead_timeout = '1s'\n";

/// What any of them may cost, all that is kept for reuse included: less than a piece of 64 KiB for
/// each of as many streams as there may be.
const FLOOD_KIB_MAX: u64 = 4 << 10;
const STREAMS_KIB_MAX: u64 = 4 << 10;

#[test]
fn floods_whose_answers_nobody_reads_end_and_cost_little() {
    let dir = Dir::new(&[("a.txt", "a\n")]);
    dir.write("large.bin", vec![b'x'; 4 << 20]);
    let child = Child::configured(&dir, CONFIG);
    assert_eq!(child.connect().request("GET", "/large.bin").status, 200);
    let windows = open_windows();
    let ordinary = frame(SETTINGS, 0, 0, &[]);
    let post =
        [&ordinary[..], &frame(HEADERS, END_HEADERS, 1, &request("POST", "/a.txt"))].concat();
    // A field of 4,000 bytes, kept, and then named again and again by a byte.
    let kept = [&[0x40, 1, b'a', 0x7f, 0xa1, 0x1e][..], &[b'x'; 4_000]].concat();
    let bomb = move |n: u32| {
        let head = if n == 0 { kept.clone() } else { vec![] };
        let block = [request("GET", "/a.txt"), head, vec![0xbe; 12_000]].concat();
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

/// As many answers as there may be at once, none of which can leave: each once held a piece of 64 KiB.
#[test]
fn as_many_answers_as_may_be_that_nobody_takes_cost_little() {
    const STREAMS: u32 = 128;
    let dir = Dir::new(&[("a.txt", "a\n")]);
    dir.write("large.bin", vec![b'x'; 4 << 20]);
    let child = Child::configured(&dir, CONFIG);
    assert_eq!(child.connect().request("GET", "/large.bin").status, 200);
    let before_kib = child.resident_kib();
    // Their windows are closed.
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
    // Their windows are open, and nobody reads.
    let peak_kib = flood(&child, &open_windows(), &|n| match n {
        0..STREAMS => get(2 * n + 1, "/large.bin"),
        _ => vec![],
    });
    let cost_kib = peak_kib - before_kib;
    println!("{STREAMS} answers that nobody reads: {cost_kib} KiB");
    assert!(cost_kib <= STREAMS_KIB_MAX, "{cost_kib} KiB");
}

/// Settings, and windows that hold as much as there is.
fn open_windows() -> Vec<u8> {
    let wide = [0x7f, 0xff, 0, 0];
    let settings = frame(SETTINGS, 0, 0, &[&[0, 4][..], &wide].concat());
    [settings, frame(WINDOW_UPDATE, 0, 0, &wide)].concat()
}

/// Sends it without end, and reads nothing, until the server ends it; the most memory that the
/// server had meanwhile, in KiB.
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
        // Who said its last word and closed is found out by sending more.
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
