//! A client that sends requests without waiting for responses.

use std::fs;
use std::io::{ErrorKind, Write};
use std::net::SocketAddr;
use std::thread;
use std::time::{Duration, Instant};

use rustix::process::Signal;

use crate::child::{Child, eventually};
use crate::support::{Client, Dir};

const REQUESTS: usize = 100_000;

/// Interval of another client's requests, in responses.
const OTHER_EVERY: usize = 1_000;

/// Time limit of the other client, in an unoptimised build.
const OTHER_WAIT_MAX: Duration = Duration::from_secs(1);

#[test]
fn pipelined_requests_are_answered_in_order_with_the_other_schedules() {
    for schedule in ["eager", "yield"] {
        pipelined(&["--schedule", schedule], REQUESTS / 10);
    }
}

#[test]
fn a_hundred_thousand_pipelined_requests_are_answered_in_order_without_delaying_others() {
    pipelined(&[], REQUESTS);
}

/// The requests of one client that are answered in a row while another's wait (`serve::h1`): so
/// many that were read at once, or of those that each take a read.
const TURN: usize = 2 * 16;
const TURN_OF_READS: usize = 128;

/// A request's body that is read and not used, in bytes.
const WARM_UP: usize = 512 << 10;

/// Size of a read of a head, in bytes.
const READ_BYTES: usize = 4 << 10;

/// Two constant responses and a log.
const CONSTANTS: &str = r#"
[access_log]
path = "{root}/../access.log"
format = "json"

[[site]]
[[site.mount]]
path = "/one"
respond = "1"
[[site.mount]]
path = "/many"
respond = "m"
"#;

#[test]
fn other_clients_wait_for_one_turn_of_a_client_that_pipelines() {
    let rows = [
        ("many requests in a read", "wait", 0, 300, TURN),
        ("many requests in a read", "eager", 0, 300, TURN),
        ("many requests in a read", "yield", 0, 300, TURN),
        ("a request in each read", "wait", READ_BYTES, 600, TURN_OF_READS),
        ("a request in each read", "eager", READ_BYTES, 600, TURN_OF_READS),
        ("a request in each read", "yield", READ_BYTES, 600, TURN_OF_READS),
    ];
    for (sentence, schedule, request_bytes, requests, turn) in rows {
        let dir = Dir::new(&[]);
        let log = dir.path("../access.log");
        // Constant responses: none waits for a disk thread, whose turn the test does not control.
        let child = Child::configured(&dir, &format!("schedule = \"{schedule}\"\n{CONSTANTS}"));
        let (mut first, mut many, mut last) = (child.connect(), child.connect(), child.connect());
        for client in [&mut first, &mut many, &mut last] {
            client.expect_open();
        }
        // The kernel makes room for more on a connection by which much has come.
        many.send(format!("HEAD /many HTTP/1.1\r\nHost: a\r\nContent-Length: {WARM_UP}\r\n\r\n"));
        many.send(vec![b'x'; WARM_UP]);
        assert_eq!(many.answer("HEAD").status, 200);
        // The server sees requests of all three at once, whichever it looks at first.
        child.signal(Signal::STOP);
        eventually("it is stopped", || child.threads_are('T'));
        let all = padded("many", request_bytes).repeat(requests);
        first.send(padded("one", 0));
        let rest = &all.as_bytes()[send_what_fits(&many, all.as_bytes())..];
        last.send(padded("one", 0));
        // Under load the kernel may deliver later than `send` returns.
        eventually("the server's sockets hold all three requests", || {
            [&first, &many, &last].iter().all(|client| unread_by_server(client) > 0)
        });
        child.signal(Signal::CONT);
        thread::scope(|scope| {
            let mut writing = &many.stream;
            scope.spawn(move || writing.write_all(rest).unwrap());
            let mut reading = Client::of(many.stream.try_clone().unwrap());
            for _ in 0..requests {
                assert_eq!(reading.response().text(), "m");
            }
        });
        for client in [&mut first, &mut last] {
            assert_eq!(client.response().text(), "1");
        }
        let lines = || fs::read_to_string(&log).unwrap_or_default();
        eventually("all is logged", || lines().matches("GET").count() == requests + 2);
        let lines = lines();
        let targets: Vec<&str> = lines.lines().filter(|line| line.contains("GET")).collect();
        let waited = targets.iter().rposition(|line| line.contains("/one")).unwrap() - 1;
        println!("{sentence}, {schedule}: the others waited for {waited}");
        assert!(waited <= turn, "{sentence}, {schedule}: the others waited for {waited}");
    }
}

/// Returns the number of sent bytes that the server has not read (proc(5), `/proc/net/tcp`: the
/// receive queue of the server's socket).
fn unread_by_server(client: &Client) -> u64 {
    let port = |address: SocketAddr| format!(":{:04X}", address.port());
    let local = port(client.stream.peer_addr().unwrap());
    let remote = port(client.stream.local_addr().unwrap());
    let table = fs::read_to_string("/proc/net/tcp").unwrap();
    let row = table.lines().map(|line| line.split_ascii_whitespace().collect::<Vec<_>>());
    let mut server = row.filter(|row| row[1].ends_with(&local) && row[2].ends_with(&remote));
    let queues = server.next().map_or("0:0", |row| row[4]);
    u64::from_str_radix(queues.split_once(':').unwrap().1, 16).unwrap()
}

/// Sends what the sockets take without a reader; returns how many bytes that is.
fn send_what_fits(client: &Client, bytes: &[u8]) -> usize {
    let mut socket = &client.stream;
    socket.set_nonblocking(true).unwrap();
    let mut sent = 0;
    while sent < bytes.len() {
        match socket.write(&bytes[sent..]) {
            Ok(n) => sent += n,
            Err(e) if e.kind() == ErrorKind::WouldBlock => break,
            Err(e) => panic!("{e}"),
        }
    }
    socket.set_nonblocking(false).unwrap();
    sent
}

/// A GET of so many bytes, or as few as it takes.
fn padded(name: &str, bytes: usize) -> String {
    let head = format!("GET /{name} HTTP/1.1\r\nHost: a\r\n");
    let padding = bytes.saturating_sub(head.len() + "X: \r\n\r\n".len());
    if padding == 0 { head + "\r\n" } else { format!("{head}X: {}\r\n\r\n", "x".repeat(padding)) }
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

/// File and form of a request: neighbours differ, without a short period.
fn ask(number: usize) -> (&'static str, usize) {
    let mixed = number.wrapping_mul(0x9E37_79B9) >> 7;
    (if mixed.is_multiple_of(3) { "HEAD" } else { "GET" }, mixed % 10)
}

fn request(number: usize) -> String {
    let (method, file) = ask(number);
    format!("{method} /{file}.txt HTTP/1.1\r\nHost: a\r\n\r\n")
}
