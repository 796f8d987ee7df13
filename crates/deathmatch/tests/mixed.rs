//! Streams beside the requests, against scripted servers on loopback.

#![allow(clippy::unwrap_used)] // the servers' threads are tests too

use std::io::{self, Read as _, Write as _};
use std::net::{SocketAddr, TcpListener, TcpStream};
use std::sync::atomic::{AtomicU64, Ordering};
use std::sync::{Arc, Mutex, PoisonError};
use std::thread;
use std::time::Duration;

use deathmatch::load::{Bulk, Client, Expected, Job, OneTimeDownload, marks, run};
use deathmatch::sample::{BulkLoad, Errors, Load, Mark, Offered};

const HELLO: &[u8] = b"HTTP/1.1 200 OK\r\nContent-Length: 5\r\n\r\nhello";
const TAKEN: &[u8] = b"HTTP/1.1 201 Created\r\nContent-Length: 3\r\n\r\nok\n";
const REFUSED: &[u8] = b"HTTP/1.1 403 Forbidden\r\nContent-Length: 0\r\n\r\n";
const BODY_BYTES: u64 = 1_000_000;
const MS: u64 = 1_000_000;

/// The generator needs a whole core: one test at a time.
static ONE_AT_A_TIME: Mutex<()> = Mutex::new(());

#[test]
fn every_byte_is_counted_once() {
    let _turn = ONE_AT_A_TIME.lock().unwrap_or_else(PoisonError::into_inner);
    for (sentence, downloads, uploads) in
        [("both ways", 2, 2), ("downloads alone", 3, 0), ("uploads alone", 0, 1)]
    {
        // Each stream gets one response; after that there are no more.
        let server = Server::start(|request| match request.times {
            0 => Reaction::Answer,
            _ => Reaction::Silence,
        });
        let load = run(&job(server.address, bulk(downloads, uploads, None))).unwrap();
        let moved = load.bulk.unwrap();
        let (downs, ups) = (u64::from(downloads), u64::from(uploads));
        assert_eq!((moved.downloads, moved.uploads), (downs, ups), "{sentence}");
        assert_eq!(moved.down_bytes, downs * large(BODY_BYTES).len() as u64, "{sentence}");
        let each = BODY_BYTES + bulk(0, 1, None).uploads[0].len() as u64;
        assert_eq!(moved.up_bytes, 2 * ups * each, "{sentence}: the answered and the other");
        assert_eq!(server.uploaded.load(Ordering::SeqCst), moved.up_bytes, "{sentence}: arrived");
        assert_eq!(moved.failures, 0, "{sentence}: silence is no failure before the timeout");
        let right = load.replies == load.intended && load.errors == Errors::default();
        assert!(right && load.intended == 100, "{sentence}: {load:?}");
    }
}

#[test]
fn one_time_downloads_are_not_repeated() {
    let _turn = ONE_AT_A_TIME.lock().unwrap_or_else(PoisonError::into_inner);
    type Row = (&'static str, u32, fn(&Request) -> Reaction, u64, bool);
    // Each run has ten requests and takes 1,000 ms. A failed stream pauses for 100 ms.
    let rows: [Row; 4] = [
        ("one after the other", 1, |_| Reaction::Answer, 10, true),
        ("more streams than requests", 16, |_| Reaction::Answer, 10, true),
        ("every second fails and is lost", 1, |r| refuse_if(r.times == 1), 5, true),
        ("the second is never answered", 1, |r| silent_if(r.times == 1), 1, false),
    ];
    for (sentence, downloads, then, right, over) in rows {
        let server = Server::start(then);
        let sizes = || (1..=10).map(|at| at * 1000);
        let once = |bytes| OneTimeDownload { request: download(bytes), body_bytes: bytes };
        let beside = Bulk { once: sizes().map(once).collect(), ..bulk(downloads, 0, None) };
        let job = Job { duration: Duration::from_secs(1), ..job(server.address, beside) };
        let load = run(&job).unwrap();
        let moved = load.bulk.unwrap();
        assert_eq!(moved.downloads, right, "{sentence}: {moved:?}");
        assert_eq!(moved.downloads + moved.failures == 10, over, "{sentence}: {moved:?}");
        assert_eq!(moved.over_ns.is_some(), over, "{sentence}: {moved:?}");
        if right == 10 {
            let bytes: u64 = sizes().map(|bytes| large(bytes).len() as u64).sum();
            assert_eq!(moved.down_bytes, bytes, "{sentence}: each of its own length");
        }
        let full = load.replies == load.intended && load.errors == Errors::default();
        assert!(full, "{sentence}: and the requests: {load:?}");
        let endless = Job { beside: Some(bulk(1, 0, None)), ..job.clone() };
        let idle = Load { busy_s: 0.0, ..load };
        assert!(!marks(&job, &idle).contains(&Mark::GeneratorBusy), "{sentence}: it has an end");
        assert!(marks(&endless, &idle).contains(&Mark::GeneratorBusy), "{sentence}: this has none");
    }
}

#[test]
fn a_rate_is_shared_and_kept() {
    let _turn = ONE_AT_A_TIME.lock().unwrap_or_else(PoisonError::into_inner);
    let server = Server::start(|_| Reaction::Answer);
    for (downloads, uploads) in [(4, 4), (3, 1), (4, 0)] {
        let rate = 40e6;
        let job = Job {
            duration: Duration::from_millis(500),
            ..job(server.address, bulk(downloads, uploads, Some(rate)))
        };
        let load = run(&job).unwrap();
        let moved = load.bulk.unwrap();
        let asked = rate * load.seconds / f64::from(downloads + uploads);
        for (bytes, streams) in [(moved.down_bytes, downloads), (moved.up_bytes, uploads)] {
            let share = bytes as f64 / (asked * f64::from(streams)).max(1.0);
            // Never more; less if the machine has no time for the generator.
            let fits = (0.5..=1.02).contains(&share) || streams == 0 && bytes == 0;
            assert!(fits, "{downloads} and {uploads}: {moved:?}");
        }
        assert!(moved.downloads > 0 && moved.failures == 0, "{moved:?}");
    }
}

#[test]
fn streams_that_do_not_get_their_rate_are_marked() {
    let beside = |rate| job(([127, 0, 0, 1], 1).into(), bulk(1, 1, rate));
    let load = |down_bytes, up_bytes| Load {
        seconds: 2.0,
        bulk: Some(BulkLoad { down_bytes, up_bytes, ..BulkLoad::default() }),
        ..Load::default()
    };
    let rows = [
        ("all of it", Some(1e6), load(1_000_000, 1_000_000), false),
        ("nearly", Some(1e6), load(950_000, 960_000), false),
        ("one way is slow", Some(1e6), load(1_000_000, 800_000), true),
        ("one way gives nothing", Some(1e6), load(1_000_000, 0), true),
        ("no rate is never missed", None, load(0, 0), false),
    ];
    for (sentence, rate, load, slow) in rows {
        let is_marked = marks(&beside(rate), &load).contains(&Mark::StreamsSlow);
        assert_eq!(is_marked, slow, "{sentence}");
    }
}

#[test]
fn a_failed_stream_is_counted_and_stops_no_other() {
    let _turn = ONE_AT_A_TIME.lock().unwrap_or_else(PoisonError::into_inner);
    type Row = (&'static str, fn(&Request) -> Reaction, u64, u64, bool);
    // In a run of 350 ms; a failed stream pauses for 100.
    let rows: [Row; 6] = [
        ("an upload refused", |r| refuse_if(r.upload == Some(0)), 1, 4, false),
        ("a download cut short", |r| cut_if(r.upload.is_none() && r.times == 1), 1, 8, false),
        ("one that is too short", |r| short_if(r.upload.is_none()), 4, 8, true),
        ("another status", |r| refuse_if(r.upload.is_none()), 4, 8, true),
        ("closed, as announced", |_| Reaction::AnswerAndClose, 0, 0, false),
        ("no answer in time", |r| silent_if(r.upload.is_some()), 1, 8, false),
    ];
    for (sentence, then, least, most, starves) in rows {
        let server = Server::start(then);
        let job = Job {
            duration: Duration::from_millis(350),
            timeout: Duration::from_millis(120),
            ..job(server.address, bulk(2, 2, Some(100e6)))
        };
        let load = run(&job).unwrap();
        let moved = load.bulk.unwrap();
        let BulkLoad { downloads, uploads, failures, .. } = moved;
        assert!((least..=most).contains(&failures), "{sentence}: {moved:?}");
        assert!(uploads + downloads > 2, "{sentence}: the others go on: {moved:?}");
        assert_eq!(downloads == 0, starves, "{sentence}: {moved:?}");
        // A loaded machine may delay a request beyond a limit as short as this one.
        let errors = Errors { timeout: 0, ..load.errors };
        assert_eq!(errors, Errors::default(), "{sentence}: and the requests");
        let is_marked = marks(&job, &load).contains(&Mark::StreamsSlow);
        assert!(is_marked || !starves, "{sentence}: the requests had it easier: {moved:?}");
    }
}

#[test]
fn streams_without_a_rate_are_marked() {
    let _turn = ONE_AT_A_TIME.lock().unwrap_or_else(PoisonError::into_inner);
    let server = Server::start(|_| Reaction::Answer);
    let job = job(server.address, bulk(1, 1, None));
    let load = run(&job).unwrap();
    assert!(marks(&job, &load).contains(&Mark::GeneratorBusy), "{:?}", load.bulk);
}

/// A server that writes a whole download before it handles another connection: at 20 MB/s one of 20
/// MB takes a second, less the contents of the kernel's buffers, and requests for a page wait
/// meanwhile.
#[test]
fn a_page_sees_the_download_it_waits_for() {
    let _turn = ONE_AT_A_TIME.lock().unwrap_or_else(PoisonError::into_inner);
    for (sentence, then, stalled) in
        [("whole", Reaction::AnswerAlone, true), ("beside others", Reaction::Answer, false)]
    {
        let server = Server::start(move |_| then);
        let beside = {
            let body_bytes = 20 * BODY_BYTES;
            Bulk { body_bytes, download: download(body_bytes), ..bulk(1, 0, Some(20e6)) }
        };
        let job = Job { duration: Duration::from_millis(1000), ..job(server.address, beside) };
        let load = run(&job).unwrap();
        let p90 = load.response.quantile(0.9);
        assert_eq!(p90 > 100 * MS, stalled, "{sentence}: {} ms, {:?}", p90 / MS, load.bulk);
        let late = load.lateness.quantile(0.9);
        assert!(late < 20 * MS, "{sentence}: the server's stall is not our lateness: {late}");
    }
}

#[test]
fn impossible_streams_are_refused_with_a_reason() {
    for (downloads, rate) in [(0, None), (1, Some(0.0)), (1, Some(f64::NAN))] {
        let address = ([127, 0, 0, 1], 1).into();
        let error = run(&job(address, bulk(downloads, 0, rate))).unwrap_err().to_string();
        assert!(error.contains("a number and a rate above 0"), "{error}");
    }
}

fn bulk(downloads: u32, uploads: u32, rate: Option<f64>) -> Bulk {
    let put = |at| format!("PUT /up/{at} HTTP/1.1\r\nContent-Length: {BODY_BYTES}\r\n\r\n");
    Bulk {
        downloads,
        download: download(BODY_BYTES),
        once: Vec::new(),
        uploads: (0..uploads).map(|at| put(at).into_bytes()).collect(),
        body_bytes: BODY_BYTES,
        rate,
    }
}

/// A request for so many bytes.
fn download(bytes: u64) -> Vec<u8> {
    format!("GET /{bytes} HTTP/1.1\r\n\r\n").into_bytes()
}

fn size_asked_for(head: &str) -> u64 {
    head.strip_prefix("GET /").and_then(|rest| rest.split(' ').next()?.parse().ok()).unwrap()
}

fn job(target: SocketAddr, beside: Bulk) -> Job {
    Job {
        target,
        client: Client::default(),
        requests: vec![b"GET /small HTTP/1.1\r\n\r\n".to_vec()],
        bodies: Vec::new(),
        order: Vec::new(),
        expected: Expected { status: 200, body_bytes: 5, body: Some(b"hello".to_vec()) },
        offered: Offered::Open { rate: 200.0, poisson: false, connections: 4 },
        tls: None,
        over: None,
        beside: Some(beside),
        draw: 0,
        warm_up: Duration::ZERO,
        duration: Duration::from_millis(500),
        timeout: Duration::from_secs(5),
        stop: Arc::default(),
    }
}

fn large(bytes: u64) -> Vec<u8> {
    let head = format!("HTTP/1.1 200 OK\r\nContent-Length: {bytes}\r\n\r\n");
    let mut answer = head.into_bytes();
    answer.resize(answer.len() + bytes as usize, b'x');
    answer
}

/// A scripted server's reaction to a download or an upload; pages are always answered.
#[derive(Clone, Copy)]
enum Reaction {
    Answer,
    /// And no other connection meanwhile.
    AnswerAlone,
    AnswerAndClose,
    Refuse,
    Cut,
    Short,
    Silence,
}

fn refuse_if(is: bool) -> Reaction {
    if is { Reaction::Refuse } else { Reaction::Answer }
}

fn cut_if(is: bool) -> Reaction {
    if is { Reaction::Cut } else { Reaction::Answer }
}

fn short_if(is: bool) -> Reaction {
    if is { Reaction::Short } else { Reaction::Answer }
}

fn silent_if(is: bool) -> Reaction {
    if is { Reaction::Silence } else { Reaction::Answer }
}

/// A download or an upload, as a script sees it.
struct Request {
    /// Requests before it on its connection.
    times: u64,
    /// Number of the upload; `None`: a download.
    upload: Option<u64>,
}

struct Server {
    address: SocketAddr,
    /// Bytes of uploads that arrived, heads included.
    uploaded: Arc<AtomicU64>,
}

impl Server {
    /// A thread for every connection, which ends with it.
    fn start(then: impl Fn(&Request) -> Reaction + Send + Sync + 'static) -> Server {
        let listener = TcpListener::bind("127.0.0.1:0").unwrap();
        let address = listener.local_addr().unwrap();
        let uploaded = Arc::new(AtomicU64::new(0));
        let server = Server { address, uploaded: uploaded.clone() };
        let shared = Arc::new((then, Mutex::new(()), uploaded));
        thread::spawn(move || {
            for socket in listener.incoming() {
                let shared = shared.clone();
                thread::spawn(move || {
                    let (then, gate, uploaded) = &*shared;
                    // The thread ends when its client is gone.
                    let _ = converse(socket.unwrap(), then, gate, uploaded);
                });
            }
        });
        server
    }
}

fn converse(
    mut socket: TcpStream,
    then: &impl Fn(&Request) -> Reaction,
    gate: &Mutex<()>,
    uploaded: &AtomicU64,
) -> io::Result<()> {
    socket.set_nodelay(true)?;
    for times in 0.. {
        let head = read_head(&mut socket)?;
        if head.starts_with("GET /small ") {
            let held = gate.lock().unwrap_or_else(PoisonError::into_inner);
            drop(held);
            socket.write_all(HELLO)?;
            continue;
        }
        let upload = head.strip_prefix("PUT /up/").map(|rest| rest.split(' ').next().unwrap());
        let upload = upload.map(|number| number.parse().unwrap());
        if upload.is_some() {
            uploaded.fetch_add(head.len() as u64, Ordering::SeqCst);
            read_body(&mut socket, uploaded)?;
        }
        let right = if upload.is_some() { TAKEN.to_vec() } else { large(size_asked_for(&head)) };
        match then(&Request { times, upload }) {
            Reaction::Answer => socket.write_all(&right)?,
            Reaction::AnswerAlone => {
                let _held = gate.lock().unwrap_or_else(PoisonError::into_inner);
                socket.write_all(&right)?;
            }
            Reaction::AnswerAndClose => {
                let status = right.iter().position(|b| *b == b'\n').unwrap() + 1;
                socket.write_all(&[&right[..status], b"Connection: close\r\n"].concat())?;
                return socket.write_all(&right[status..]);
            }
            Reaction::Refuse => socket.write_all(REFUSED)?,
            Reaction::Cut => return socket.write_all(&right[..right.len() / 2]),
            Reaction::Short => socket.write_all(&large(BODY_BYTES / 10))?,
            Reaction::Silence => {}
        }
    }
    Ok(())
}

/// A head, byte by byte, so that no byte after it is consumed.
fn read_head(socket: &mut TcpStream) -> io::Result<String> {
    let (mut head, mut byte) = (Vec::new(), [0]);
    while !head.ends_with(b"\r\n\r\n") {
        socket.read_exact(&mut byte)?;
        head.push(byte[0]);
    }
    Ok(String::from_utf8(head).unwrap())
}

fn read_body(socket: &mut TcpStream, uploaded: &AtomicU64) -> io::Result<()> {
    let (mut left, mut piece) = (BODY_BYTES as usize, vec![0; 65_536]);
    while left > 0 {
        let most = left.min(piece.len());
        let count = socket.read(&mut piece[..most])?;
        if count == 0 {
            return Err(io::ErrorKind::UnexpectedEof.into());
        }
        uploaded.fetch_add(count as u64, Ordering::SeqCst);
        left -= count;
    }
    Ok(())
}
