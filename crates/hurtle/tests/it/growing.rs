//! Tests of files that grow while they are read, as logs do: a response keeps its length, and the
//! next request gets the new one.

use std::fs::File;
use std::io::{Read, Write};
use std::sync::atomic::{AtomicBool, Ordering};
use std::time::Duration;

use hurtle::config::Sendfile;

use crate::support::{Client, Dir, Response, Server, eventually};

/// More than the socket buffers hold.
const LARGE_BYTES: usize = 16 << 20;

/// Sent in one turn, but not cached in memory.
const MEDIUM_BYTES: usize = 900 << 10;

/// Cached in memory.
const SMALL_BYTES: usize = 10 << 10;

/// Bytes of which no two stretches are equal.
fn pattern(len: usize) -> Vec<u8> {
    (0..len as u32 / 4).flat_map(|n| n.wrapping_mul(0x9E37_79B1).to_le_bytes()).collect()
}

fn append(dir: &Dir, path: &str) {
    File::options().append(true).open(dir.path(path)).unwrap().write_all(b"more").unwrap();
}

/// Regression: a file that grew was cut after the first turn, 1 MiB of 16.
#[test]
fn a_response_keeps_its_length_while_the_file_grows() {
    let large = pattern(LARGE_BYTES);
    let (first, last) = (5, LARGE_BYTES - 7);
    let range = format!("/large\nRange: bytes={first}-{last}");
    let two = format!("/large\nRange: bytes=0-9,{first}-{last}");
    let rows: [(&str, &str, &[u8]); 5] = [
        ("the whole", "/large", &large),
        ("a range", &range, &large[first..=last]),
        ("two ranges", &two, &large[first..=last]),
        ("a file of one turn", "/medium", &large[..MEDIUM_BYTES]),
        ("a file kept in memory", "/small", &large[..SMALL_BYTES]),
    ];
    for sendfile in [Sendfile::Auto, Sendfile::Off] {
        let server = Server::with(&[], |config| config.sendfile = sendfile);
        for (name, len) in
            [("large", LARGE_BYTES), ("medium", MEDIUM_BYTES), ("small", SMALL_BYTES)]
        {
            server.dir.write(name, &large[..len]);
        }
        for (why, target, expected) in rows {
            let mut client = server.connect();
            let mut got = begin(&mut client, target);
            append(&server.dir, target[1..].split('\n').next().unwrap());
            client.stream.read_to_end(&mut got).unwrap();
            let told = format!("{why}, {sendfile:?}");
            let body_at = memchr::memmem::find(&got, b"\r\n\r\n").unwrap() + 4;
            let head = String::from_utf8_lossy(&got[..body_at]).into_owned();
            let promised = format!("Content-Length: {}\r\n", got.len() - body_at);
            assert!(head.contains(&promised), "{told}: {} came of {head}", got.len() - body_at);
            assert!(memchr::memmem::find(&got, expected).is_some(), "{told}: other bytes");
        }
    }
}

/// Sends a request and reads the start of the response.
fn begin(client: &mut Client, target: &str) -> Vec<u8> {
    let (path, fields) = match target.split_once('\n') {
        Some((path, line)) => (path, format!("{line}\r\n")),
        None => (target, String::new()),
    };
    client.send(format!("GET {path} HTTP/1.1\r\nHost: a\r\nConnection: close\r\n{fields}\r\n"));
    let mut got = vec![0; 1_000];
    client.stream.read_exact(&mut got).unwrap();
    got
}

/// A cached head is not used once the file has grown, even within `revalidate`.
#[test]
fn the_next_request_sees_the_new_length() {
    let large = pattern(MEDIUM_BYTES);
    let server = Server::with(&[], |config| config.revalidate = Duration::from_secs(3_600));
    server.dir.write("log", &large);
    let mut client = server.connect();
    let mut len = large.len();
    for (why, target) in [
        ("the whole", "/log"),
        ("a range", "/log\nRange: bytes=0-9"),
        ("two ranges", "/log\nRange: bytes=0-9,20-29"),
    ] {
        let mut told = || length_told(&client.request("GET", target));
        assert_eq!(told(), len, "{why}");
        append(&server.dir, "log");
        len += 4;
        eventually(&format!("the new length for {why}"), || (told() == len).then_some(()));
    }
}

/// The file's length in a response.
fn length_told(answer: &Response) -> usize {
    let head_or_part = match answer.field("Content-Range") {
        Some(range) => range.to_owned(),
        None if answer.status == 206 => {
            let part = &answer.body[..answer.body.len().min(300)];
            let lines = String::from_utf8_lossy(part).into_owned();
            lines.lines().find(|line| line.starts_with("Content-Range")).unwrap().to_owned()
        }
        None => format!("/{}", answer.field("Content-Length").unwrap()),
    };
    head_or_part.rsplit('/').next().unwrap().parse().unwrap()
}

/// Regression: a file that grew between its look-up and its opening was looked up again a few
/// times, so a busy log was answered 500. An append sets the time before the length, which looks
/// like an edit for a moment.
#[test]
fn a_file_written_to_without_a_pause_is_answered() {
    let begun = "x".repeat(2 << 20);
    let server = Server::with(&[("log", &begun)], |config| config.revalidate = Duration::ZERO);
    let log = File::options().append(true).open(server.dir.path("log")).unwrap();
    let done = AtomicBool::new(false);
    std::thread::scope(|scope| {
        for _ in 0..2 {
            scope.spawn(|| {
                while !done.load(Ordering::Relaxed) {
                    (&log).write_all(b"a line\n").unwrap();
                }
            });
        }
        let mut client = server.connect();
        let mut ask = |method: &str| {
            client.send(format!(
                "{method} /log HTTP/1.1\r\nHost: a\r\nRange: bytes=0-2097151\r\n\r\n"
            ));
            client.try_answer(method).map(|answer| (answer.status, answer.body.len()))
        };
        let found: Vec<_> = (0..500).map(|_| ask("HEAD")).collect();
        let sent: Vec<_> = (0..10).map(|_| ask("GET")).collect();
        done.store(true, Ordering::Relaxed);
        assert!(found.iter().all(|answer| *answer == Ok((200, 0))), "{found:?}");
        assert!(sent.iter().all(|answer| *answer == Ok((206, 2 << 20))), "{sent:?}");
    });
}
