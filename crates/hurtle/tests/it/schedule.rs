//! Tests of `schedule`: with every value, responses are the same and other clients are served.

use std::io::Write;
use std::net::Shutdown;
use std::num::NonZeroUsize;
use std::sync::atomic::{AtomicBool, Ordering};
use std::thread;

use hurtle::config::Schedule;

use crate::support::Server;

const SCHEDULES: [Schedule; 3] = [Schedule::Wait, Schedule::Eager, Schedule::Yield];

const TREE: &[(&str, &str)] = &[("a.txt", "a"), ("b.txt", "bb")];

const REQUESTS: &str = "GET /a.txt HTTP/1.1\r\nHost: a\r\n\r\n\
                        HEAD /b.txt HTTP/1.1\r\nHost: a\r\n\r\n\
                        POST /b.txt HTTP/1.1\r\nHost: a\r\nContent-Length: 3\r\n\r\nabc\
                        GET /none HTTP/1.1\r\nHost: a\r\n\r\n\
                        GET /b.txt HTTP/1.1\r\nHost: a\r\n\r\n";

/// Expected responses in order: method, status and body (`None`: not checked).
const ANSWERS: [(&str, u16, Option<&str>); 5] = [
    ("GET", 200, Some("a")),
    ("HEAD", 200, Some("")),
    ("POST", 405, None),
    ("GET", 404, None),
    ("GET", 200, Some("bb")),
];

fn with(schedule: Schedule) -> Server {
    Server::with(TREE, |config| {
        config.schedule = schedule;
        // With one worker, both clients share an event loop.
        config.workers = NonZeroUsize::MIN;
    })
}

#[test]
fn pipelined_and_split_requests_are_answered_the_same() {
    for schedule in SCHEDULES {
        let server = with(schedule);
        let ways = [
            ("all at once", REQUESTS.len()),
            ("in the middle of a head", 50),
            ("byte for byte", 1),
        ];
        for (sentence, piece) in ways {
            let mut client = server.connect();
            client.stream.set_nodelay(true).unwrap();
            for piece in REQUESTS.as_bytes().chunks(piece) {
                client.send(piece);
            }
            for (method, status, body) in ANSWERS {
                let answer = client.answer(method);
                assert_eq!(answer.status, status, "{schedule:?}, {sentence}");
                if let Some(body) = body {
                    assert_eq!(answer.text(), body, "{schedule:?}, {sentence}");
                }
            }
            // A request that arrives after its connection has waited.
            assert_eq!(client.request("GET", "/a.txt").text(), "a", "{schedule:?}, {sentence}");
            client.half_close();
            client.expect_end();
        }
    }
}

#[test]
fn endless_pipelining_starves_no_other_client() {
    let request = "GET /a.txt HTTP/1.1\r\nHost: a\r\n\r\n";
    for schedule in SCHEDULES {
        let server = with(schedule);
        let greedy = server.connect();
        let mut other = server.connect();
        let (mut writing, mut reading) = (&greedy.stream, &greedy.stream);
        let done = &AtomicBool::new(false);
        thread::scope(|scope| {
            scope.spawn(move || std::io::copy(&mut reading, &mut std::io::sink()));
            scope.spawn(move || {
                let many = request.repeat(1_000);
                while !done.load(Ordering::Relaxed) {
                    writing.write_all(many.as_bytes()).unwrap();
                }
                // Responses still in flight are not needed.
                writing.shutdown(Shutdown::Both).unwrap();
            });
            // Without a turn its read would time out.
            let asked = scope.spawn(|| {
                for _ in 0..50 {
                    assert_eq!(other.request("GET", "/b.txt").text(), "bb");
                }
            });
            let asked = asked.join();
            done.store(true, Ordering::Relaxed);
            assert!(asked.is_ok(), "{schedule:?}");
        });
    }
}
