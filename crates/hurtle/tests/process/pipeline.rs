//! A client that never waits for an answer before it asks for the next.

use std::io::Write;
use std::thread;
use std::time::{Duration, Instant};

use crate::child::Child;
use crate::support::Dir;

const REQUESTS: usize = 100_000;

/// Every so many answers another client asks.
const OTHER_EVERY: usize = 1_000;

/// How long the other client may wait, in a build without optimisation.
const OTHER_WAIT_MAX: Duration = Duration::from_secs(1);

#[test]
fn so_are_those_of_the_other_schedules() {
    for schedule in ["eager", "yield"] {
        pipelined(&["--schedule", schedule], REQUESTS / 10);
    }
}

#[test]
fn a_hundred_thousand_pipelined_requests_are_answered_in_order_and_hold_up_nobody() {
    pipelined(&[], REQUESTS);
}

fn pipelined(options: &[&str], requests: usize) {
    let dir = Dir::new(&[]);
    for number in 0..10 {
        dir.write(format!("{number}.txt"), number.to_string());
    }
    let child = Child::serve(&dir, options);
    let mut client = child.connect();
    let mut other = child.connect();
    let mut writing = client.stream.try_clone().unwrap();
    let writer = thread::spawn(move || {
        let all: String = (0..requests).map(request).collect();
        writing.write_all(all.as_bytes()).unwrap();
    });
    let mut slowest = Duration::ZERO;
    for number in 0..requests {
        let (method, file) = ask(number);
        let answer = client.answer(method);
        assert_eq!(answer.status, 200, "answer {number}");
        let body = if method == "HEAD" { String::new() } else { file.to_string() };
        assert_eq!(answer.text(), body, "answer {number}");
        if number % OTHER_EVERY == 0 {
            let begun = Instant::now();
            assert_eq!(other.request("GET", "/7.txt").text(), "7");
            slowest = slowest.max(begun.elapsed());
        }
    }
    writer.join().unwrap();
    assert!(slowest < OTHER_WAIT_MAX, "{options:?}: another client waited {slowest:?}");
    client.expect_open();
}

/// Which file, and how: neighbours differ, and no short period hides a swap.
fn ask(number: usize) -> (&'static str, usize) {
    let mixed = number.wrapping_mul(0x9E37_79B9) >> 7;
    (if mixed.is_multiple_of(3) { "HEAD" } else { "GET" }, mixed % 10)
}

fn request(number: usize) -> String {
    let (method, file) = ask(number);
    format!("{method} /{file}.txt HTTP/1.1\r\nHost: a\r\n\r\n")
}
