//! The load generator against scripted servers on loopback.

#![allow(clippy::unwrap_used)] // the servers' threads are tests too

use std::io::{Read as _, Write as _};
use std::net::{SocketAddr, TcpListener, TcpStream};
use std::sync::atomic::{AtomicBool, AtomicU64, Ordering};
use std::sync::{Arc, Mutex, PoisonError, RwLock, RwLockReadGuard, RwLockWriteGuard};
use std::thread;
use std::time::{Duration, Instant};

use deathmatch::histogram::Times;
use deathmatch::load::{Client, Expected, Job, marks, run};
use deathmatch::sample::{Errors, Load, Mark, Offered};

const REQUEST: &[u8] = b"GET /a HTTP/1.1\r\nHost: x\r\n\r\n";
const HELLO: &[u8] = b"HTTP/1.1 200 OK\r\nContent-Length: 5\r\n\r\nhello";

const MS: u64 = 1_000_000;

const OPEN: Offered = Offered::Open { rate: 1000.0, poisson: false, connections: 4 };
const SLOWER: Offered = Offered::Open { rate: 500.0, poisson: false, connections: 4 };
const SESSIONS: Offered = Offered::Sessions { rate: 100.0, calls: 10 };
const CLOSED: Offered = Offered::Closed { connections: 2 };

#[test]
fn every_request_is_answered_and_counted_once() {
    let _turn = beside_others();
    let rows = [
        ("open", OPEN, Some(100)),
        ("poisson", Offered::Open { rate: 500.0, poisson: true, connections: 4 }, None),
        ("sessions", SESSIONS, Some(100)),
        ("closed", CLOSED, None),
    ];
    for (name, offered, intended) in rows {
        let server = serve(Reaction::Answer(HELLO.to_vec()));
        let load = run(&job(server.address, offered)).unwrap();
        assert!(is_whole(&load) && load.errors == Errors::default(), "{name}: {}", brief(&load));
        assert!(intended.is_none_or(|n| n == load.intended), "{name}: {}", load.intended);
        assert_eq!(load.response.count(), load.replies, "{name}");
        assert_eq!(load.service.count(), load.replies, "{name}");
        assert_eq!(load.bytes, load.replies * HELLO.len() as u64, "{name}");
        assert_eq!(server.requests.load(Ordering::SeqCst), load.replies, "{name}");
        assert!(load.busy_s > 0.0 && load.busy_s < 1.0, "{name}: {}", load.busy_s);
    }
}

#[test]
fn faults_are_counted_by_kind() {
    let _turn = beside_others();
    type Row = (&'static str, Reaction, Expected, fn(u64) -> Errors);
    let text = |head: &str, body: &str| format!("HTTP/1.1 {head}\r\n\r\n{body}").into_bytes();
    let short = || Expected { status: 200, body_bytes: 5, body: None };
    let whole = || Expected { body: Some(b"hello".to_vec()), ..short() };
    let large = || Expected { body_bytes: 100_000, ..short() };
    let status = |n| Errors { status: n, ..Errors::default() };
    let bytes = |n| Errors { bytes: n, ..Errors::default() };
    let reset = |n| Errors { reset: n, ..Errors::default() };
    let timeout = |n| Errors { timeout: n, ..Errors::default() };
    let endless = text(&format!("200 OK\r\nA: {}", "a".repeat(16_384)), "");
    let half = text("200 OK\r\nContent-Length: 100000", &"x".repeat(50_000));
    #[rustfmt::skip]
    let rows: Vec<Row> = vec![
        ("wrong status", Reaction::Answer(text("404 No\r\nContent-Length: 5", "hello")), whole(), status),
        ("no HTTP", Reaction::Answer(text("x", "")), whole(), status),
        ("a head too large", Reaction::AnswerTimes(endless, 1), whole(), status),
        ("too short", Reaction::Answer(text("200 OK\r\nContent-Length: 4", "hell")), whole(), bytes),
        ("a wrong byte", Reaction::Answer(text("200 OK\r\nContent-Length: 5", "hellO")), whole(), bytes),
        ("too long", Reaction::Answer(text("200 OK\r\nContent-Length: 6", "hello!")), short(), bytes),
        ("cut", Reaction::AnswerTimes(text("200 OK\r\nContent-Length: 5", "hel"), 1), whole(), reset),
        ("cut, discarded", Reaction::AnswerTimes(half, 1), large(), reset),
        ("reset", Reaction::Reset, whole(), reset),
        ("no answer", Reaction::Silence, whole(), timeout),
    ];
    for (name, then, expected, want) in rows {
        for offered in [OPEN, SESSIONS, CLOSED] {
            let server = serve(then.clone());
            let ms = if matches!(then, Reaction::Silence) { 150 } else { 10_000 };
            let timeout = Duration::from_millis(ms);
            let job = Job { expected: expected.clone(), timeout, ..job(server.address, offered) };
            let load = run(&job).unwrap();
            assert!(is_whole(&load), "{name}, {offered:?}: {}", brief(&load));
            assert_eq!(load.errors, want(load.intended), "{name}, {offered:?}");
        }
    }
}

#[test]
fn a_refused_connection_is_counted() {
    let _turn = beside_others();
    // The system gives port 1 to no other test.
    let address = SocketAddr::from(([127, 0, 0, 1], 1));
    for offered in [OPEN, SESSIONS, CLOSED] {
        let load = run(&job(address, offered)).unwrap();
        assert!(is_whole(&load), "{offered:?}: {}", brief(&load));
        assert_eq!(load.errors.refused, load.intended, "{offered:?}: {}", brief(&load));
        assert!(load.intended <= 100, "{offered:?}: a closed loop does not spin on it");
    }
}

#[test]
fn correct_responses_count_in_any_framing() {
    let _turn = beside_others();
    let with =
        |head: &str, body: &str| format!("HTTP/1.1 200 OK\r\n{head}\r\n\r\n{body}").into_bytes();
    let large = with("Content-Length: 100000", &"x".repeat(100_000));
    let chunks = with("Transfer-Encoding: chunked", "2\r\nhe\r\n3\r\nllo\r\n0\r\n\r\n");
    let announced = with("Connection: close\r\nContent-Length: 5", "hello");
    let hello = || HELLO.to_vec();
    let rows = [
        ("chunks", 5, Reaction::Answer(chunks)),
        ("closed, as announced", 5, Reaction::AnswerTimes(announced, 1)),
        ("closed without a word", 5, Reaction::AnswerTimes(hello(), 1)),
        ("closed after three", 5, Reaction::AnswerTimes(hello(), 3)),
        (
            "the end is the end",
            5,
            Reaction::AnswerTimes(b"HTTP/1.0 200 OK\r\n\r\nhello".to_vec(), 1),
        ),
        ("discarded", 100_000, Reaction::Answer(large.clone())),
        ("discarded, split in the head", 100_000, Reaction::Split(large.clone(), 20)),
        ("discarded, split in the body", 100_000, Reaction::Split(large, 5000)),
    ];
    for (name, body_bytes, then) in rows {
        for offered in [OPEN, SESSIONS, CLOSED] {
            let server = serve(then.clone());
            let body = (body_bytes == 5).then(|| b"hello".to_vec());
            let expected = Expected { status: 200, body_bytes, body };
            let load = run(&Job { expected, ..job(server.address, offered) }).unwrap();
            assert!(is_whole(&load), "{name}, {offered:?}: {}", brief(&load));
            assert_eq!(load.errors, Errors::default(), "{name}, {offered:?}");
        }
    }
}

#[test]
fn a_head_may_be_split_anywhere() {
    let _turn = beside_others();
    for at in 1..HELLO.len() {
        let server = serve(Reaction::Split(HELLO.to_vec(), at));
        let short = Job { duration: Duration::from_millis(10), ..job(server.address, CLOSED) };
        let load = run(&short).unwrap();
        assert!(is_whole(&load) && load.errors == Errors::default(), "at {at}: {}", brief(&load));
    }
}

#[test]
fn a_session_is_one_connection_with_its_calls() {
    let _turn = beside_others();
    let server = serve(Reaction::Answer(HELLO.to_vec()));
    let sessions = Offered::Sessions { rate: 200.0, calls: 7 };
    let load = run(&job(server.address, sessions)).unwrap();
    assert_eq!((load.intended, load.replies), (140, 140));
    assert_eq!(server.connections.load(Ordering::SeqCst), 20);
    assert_eq!(load.lateness.count(), 20, "only a session's beginning can be late");
}

#[test]
fn the_warm_up_is_not_counted() {
    let _turn = beside_others();
    let server = serve(Reaction::Answer(HELLO.to_vec()));
    let warm_up = Duration::from_millis(150);
    let load = run(&Job { warm_up, ..job(server.address, OPEN) }).unwrap();
    assert_eq!((load.intended, load.replies), (100, 100));
    assert_eq!(server.requests.load(Ordering::SeqCst), 250);
}

#[test]
fn bins_are_whole_seconds() {
    let _turn = alone();
    let server = serve(Reaction::Answer(HELLO.to_vec()));
    let duration = Duration::from_millis(2100);
    let load = run(&Job { duration, ..job(server.address, SLOWER) }).unwrap();
    assert_eq!(load.replies_per_second.len(), 2);
    assert!(load.replies_per_second.iter().all(|n| (400..=600).contains(n)), "{}", brief(&load));
}

/// 500 requests a second meet a stall of 200 ms within one second: each of the 100 intended
/// meanwhile waits, from 200 ms down to nothing, so that about 50 wait longer than 100 ms. The
/// service time, or a closed loop, shows the stall only once for each connection.
#[test]
fn a_stall_is_seen_by_every_request_it_delays() {
    let _turn = alone();
    let run_with = |offered| {
        let address = serve_with_a_stall(Duration::from_millis(300), Duration::from_millis(200));
        run(&Job { duration: Duration::from_secs(1), ..job(address, offered) }).unwrap()
    };
    let open = run_with(SLOWER);
    assert_eq!((open.intended, open.replies), (500, 500));
    let late = slower(&open.response, 100 * MS);
    assert!((40..=100).contains(&late), "{late} of 500 waited longer than 100 ms");
    assert!(open.response.max() >= 195 * MS, "{}", open.response.max());
    let sent = slower(&open.service, 100 * MS);
    assert!((1..=12).contains(&sent), "{sent}: about one on each connection");
    assert!(open.lateness.quantile(0.9) < 20 * MS, "the server's stall is not our lateness");
    let naive = run_with(Offered::Closed { connections: 4 });
    let seen = slower(&naive.response, 100 * MS);
    assert!((1..=12).contains(&seen), "{seen} of {}: a naive one misses it", naive.replies);
    assert!(naive.response.quantile(0.99) < 100 * MS && open.response.quantile(0.99) >= 100 * MS);
}

/// One connection with a response time of a millisecond or more is offered ten times as many
/// requests: those that wait too long are given up, unsent or not, and the run ends.
#[test]
fn overload_ends_in_timeouts_and_is_not_the_generators_lateness() {
    let _turn = alone();
    let server = serve(Reaction::Split(HELLO.to_vec(), 10));
    let offered = Offered::Open { rate: 10_000.0, poisson: false, connections: 1 };
    let timeout = Duration::from_millis(100);
    let load = run(&Job { timeout, ..job(server.address, offered) }).unwrap();
    assert!(is_whole(&load) && load.intended == 1000, "{}", brief(&load));
    assert_eq!(load.errors, Errors { timeout: 1000 - load.replies, ..Errors::default() });
    assert!((1..400).contains(&load.replies), "{}", brief(&load));
    assert_eq!(load.response.count(), 1000, "what is given up has the time of the timeout");
    let in_time = 1000 - slower(&load.response, 99 * MS);
    assert!(in_time <= load.replies, "{in_time} in time: {}", brief(&load));
    assert!(load.lateness.quantile(0.5) < MS, "{}", load.lateness.quantile(0.5));
    assert!(server.requests.load(Ordering::SeqCst) < 500, "what is given up is not sent");
}

#[test]
fn marks_record_the_generators_failures() {
    let _turn = alone();
    let load = |replies: u64, response_ms: u64, late_ms: u64, busy_s: f64| {
        let mut load = Load { seconds: 1.0, replies, busy_s, ..Load::default() };
        for _ in 0..replies {
            load.response.record(response_ms * MS);
            load.lateness.record(late_ms * MS);
        }
        load
    };
    let closed = Offered::Closed { connections: 10 };
    let rows: [(&str, Offered, Load, &[Mark]); 7] = [
        ("nothing", OPEN, load(100, 10, 0, 0.5), &[]),
        ("late by a fifth", OPEN, load(100, 10, 2, 0.5), &[Mark::GeneratorLate]),
        ("busy", OPEN, load(100, 10, 0, 0.96), &[Mark::GeneratorBusy]),
        ("10 = 1000/s x 10 ms", closed, load(1000, 10, 0, 0.5), &[]),
        ("10 is not 900/s x 10 ms", closed, load(900, 10, 0, 0.5), &[Mark::LittlesLaw]),
        ("nor 1100/s x 10 ms", closed, load(1100, 10, 0, 0.5), &[Mark::LittlesLaw]),
        ("no answer at all", closed, load(0, 0, 0, 0.5), &[Mark::LittlesLaw]),
    ];
    for (name, offered, load, want) in rows {
        let job = job(([127, 0, 0, 1], 1).into(), offered);
        assert_eq!(marks(&job, &load), want, "{name}");
    }
    let server = serve(Reaction::Split(HELLO.to_vec(), 10));
    let real = Job { duration: Duration::from_millis(500), ..job(server.address, CLOSED) };
    let load = run(&real).unwrap();
    assert!(!marks(&real, &load).contains(&Mark::LittlesLaw), "a real one obeys: {}", brief(&load));
}

#[test]
fn an_impossible_job_is_refused_with_a_reason() {
    let address = ([127, 0, 0, 1], 1).into();
    let rows = [
        (Offered::Open { rate: 0.0, poisson: false, connections: 1 }, "rate of 0/s"),
        (Offered::Open { rate: f64::NAN, poisson: true, connections: 1 }, "rate of NaN/s"),
        (Offered::Open { rate: 1.0, poisson: false, connections: 0 }, "no connection"),
        (Offered::Closed { connections: 0 }, "no connection"),
        (Offered::Closed { connections: u32::MAX }, "descriptor limit"),
        (Offered::Sessions { rate: 1.0, calls: 0 }, "without calls"),
    ];
    for (offered, want) in rows {
        let error = run(&job(address, offered)).unwrap_err().to_string();
        assert!(error.contains(want), "{offered:?}: {error}");
    }
    let error = deathmatch::load::pin(1_000_000).unwrap_err().to_string();
    assert!(error.contains("core 1000000"), "{error}");
}

/// A generator spins: tests that judge times do not run beside others.
static PROCESSOR: RwLock<()> = RwLock::new(());

fn alone() -> RwLockWriteGuard<'static, ()> {
    PROCESSOR.write().unwrap_or_else(PoisonError::into_inner)
}

fn beside_others() -> RwLockReadGuard<'static, ()> {
    PROCESSOR.read().unwrap_or_else(PoisonError::into_inner)
}

fn job(target: SocketAddr, offered: Offered) -> Job {
    Job {
        target,
        client: Client::default(),
        requests: vec![REQUEST.to_vec()],
        bodies: Vec::new(),
        order: Vec::new(),
        expected: Expected { status: 200, body_bytes: 5, body: Some(b"hello".to_vec()) },
        offered,
        tls: None,
        over: None,
        beside: None,
        draw: 0,
        warm_up: Duration::ZERO,
        duration: Duration::from_millis(100),
        timeout: Duration::from_secs(5),
        stop: Arc::default(),
    }
}

fn is_whole(load: &Load) -> bool {
    load.intended > 0 && load.intended == load.replies + load.errors.total()
}

fn brief(load: &Load) -> String {
    let Load { intended, replies, errors, replies_per_second, .. } = load;
    format!("{replies} of {intended}, {replies_per_second:?}, {errors:?}")
}

/// Number of times longer than this.
fn slower(times: &Times, ns: u64) -> u64 {
    let within =
        times.steps().iter().filter(|(t, _)| *t <= ns).map(|(_, s)| *s).fold(0.0, f64::max);
    ((1.0 - within) * times.count() as f64).round() as u64
}

/// A scripted server's reaction to a request.
#[derive(Clone)]
enum Reaction {
    Answer(Vec<u8>),
    /// In two parts, apart.
    Split(Vec<u8>, usize),
    /// Only so many times on a connection, which is then closed.
    AnswerTimes(Vec<u8>, u64),
    Reset,
    Silence,
}

struct Server {
    address: SocketAddr,
    connections: Arc<AtomicU64>,
    requests: Arc<AtomicU64>,
}

/// A thread for every connection, which ends with it.
fn serve(then: Reaction) -> Server {
    let listener = TcpListener::bind("127.0.0.1:0").unwrap();
    let address = listener.local_addr().unwrap();
    let (connections, requests) = (Arc::new(AtomicU64::new(0)), Arc::new(AtomicU64::new(0)));
    let server = Server { address, connections: connections.clone(), requests: requests.clone() };
    thread::spawn(move || {
        for socket in listener.incoming() {
            let (then, requests) = (then.clone(), requests.clone());
            connections.fetch_add(1, Ordering::SeqCst);
            thread::spawn(move || converse(socket.unwrap(), &then, &requests));
        }
    });
    server
}

fn converse(mut socket: TcpStream, then: &Reaction, requests: &AtomicU64) {
    socket.set_nodelay(true).unwrap();
    let mut buffer = [0; REQUEST.len()];
    let mut answered = 0;
    while socket.read_exact(&mut buffer).is_ok() {
        assert_eq!(buffer, REQUEST);
        requests.fetch_add(1, Ordering::SeqCst);
        answered += 1;
        match then {
            Reaction::Answer(answer) => drop(socket.write_all(answer)),
            Reaction::Split(answer, at) => {
                drop(socket.write_all(&answer[..*at]));
                thread::sleep(Duration::from_millis(1));
                drop(socket.write_all(&answer[*at..]));
            }
            Reaction::AnswerTimes(answer, times) => {
                drop(socket.write_all(answer));
                if answered == *times {
                    return;
                }
            }
            Reaction::Reset => {
                drop(socket2::SockRef::from(&socket).set_linger(Some(Duration::ZERO)));
                return;
            }
            Reaction::Silence => {}
        }
    }
}

/// One request at a time over all connections, and one stall.
fn serve_with_a_stall(after: Duration, stall: Duration) -> SocketAddr {
    let (gate, stalled) = (Arc::new(Mutex::new(())), Arc::new(AtomicBool::new(false)));
    let listener = TcpListener::bind("127.0.0.1:0").unwrap();
    let address = listener.local_addr().unwrap();
    let began = Instant::now();
    thread::spawn(move || {
        for socket in listener.incoming() {
            let (gate, stalled, mut socket) = (gate.clone(), stalled.clone(), socket.unwrap());
            thread::spawn(move || {
                let mut buffer = [0; REQUEST.len()];
                while socket.read_exact(&mut buffer).is_ok() {
                    let held = gate.lock().unwrap();
                    if began.elapsed() > after && !stalled.swap(true, Ordering::SeqCst) {
                        thread::sleep(stall);
                    }
                    drop(held);
                    drop(socket.write_all(HELLO));
                }
            });
        }
    });
    address
}
