//! Stopping: under load, during a download, and by a second signal.

use std::fs::{self, Permissions};
use std::io::{ErrorKind, Read, Write};
use std::net::{SocketAddr, TcpStream};
use std::os::unix::fs::PermissionsExt as _;
use std::os::unix::net::UnixStream;
use std::sync::atomic::{AtomicUsize, Ordering::Relaxed};
use std::thread;
use std::time::{Duration, Instant};

use rustix::process::Signal;

use crate::child::{Child, PATIENCE, eventually, hurtle};
use crate::frames::*;
use crate::metrics::ask;
use crate::support::Dir;

/// Larger than socket buffers.
const LARGE: usize = 32 << 20;

/// Clients that send requests as fast as possible: half on one connection, half on a new one for
/// each request.
const CLIENTS: usize = 8;

/// Outcomes of requests that were sent completely on accepted connections.
#[derive(Debug, Default)]
struct Tally {
    answered: AtomicUsize,
    /// The connection was closed in order before the first byte of a response, so the request may
    /// be repeated.
    closed: AtomicUsize,
    /// The request ended in any other way.
    broken: AtomicUsize,
}

#[test]
fn a_stop_under_load_breaks_no_request() {
    for workers in ["1", "2"] {
        let dir = Dir::new(&[("a.txt", "a\n")]);
        dir.write("mid.bin", vec![b'x'; 300 << 10]);
        let mut command = hurtle();
        command.arg(dir.root()).args(["--listen", "127.0.0.1:0", "--workers", workers]);
        let mut child = Child::start(&mut command);
        let (address, tally) = (child.address(), Tally::default());
        let begun = thread::scope(|scope| {
            for number in 0..CLIENTS {
                let tally = &tally;
                scope.spawn(move || hammer(address, number % 2 == 0, tally));
            }
            eventually("the load is on", || tally.answered.load(Relaxed) > 2_000);
            child.signal(Signal::TERM);
            Instant::now()
        });
        let status = child.wait();
        println!("{workers} workers, stopped after {:?}: {tally:?}", begun.elapsed());
        assert_eq!(status.code(), Some(0), "{}", child.stderr());
        assert_eq!(tally.broken.load(Relaxed), 0, "{workers} workers: {tally:?}");
        assert!(begun.elapsed() < Duration::from_secs(5), "it took {:?}", begun.elapsed());
    }
}

#[test]
fn a_download_that_ends_within_the_drain_time_is_whole() {
    let dir = Dir::new(&[]);
    dir.write("large.bin", vec![b'x'; LARGE]);
    let mut child = Child::serve(&dir, &["--drain", "15s"]);
    let mut idle = child.connect();
    idle.expect_open();
    let mut download = ask_for_large(&child);
    child.signal(Signal::TERM);
    idle.expect_end();
    eventually("nobody is let in", || TcpStream::connect(child.address()).is_err());
    let mut rest = Vec::new();
    download.read_to_end(&mut rest).unwrap();
    assert!(rest.len() >= LARGE, "{} bytes", rest.len());
    assert_eq!(child.wait().code(), Some(0));
}

/// The end of the first server removed the socket of the second.
#[test]
fn the_next_server_may_listen_on_the_same_socket_while_one_finishes_its_requests() {
    let dir = Dir::new(&[]);
    dir.write("large.bin", vec![b'x'; LARGE]);
    let socket = dir.path("../http.sock");
    fs::set_permissions(dir.path(".."), Permissions::from_mode(0o777)).unwrap();
    let start = || {
        let mut command = hurtle();
        command.arg(dir.root()).arg("--listen").arg(format!("unix:{}", socket.display()));
        Child::start(command.args(["--workers", "1", "--drain", "60s"]))
    };
    let mut first = start();
    let mut download = UnixStream::connect(&socket).unwrap();
    download.write_all(b"GET /large.bin HTTP/1.1\r\nHost: a\r\nConnection: close\r\n\r\n").unwrap();
    download.read_exact(&mut [0; 1024]).unwrap();
    first.signal(Signal::TERM);
    eventually("nobody is let in", || UnixStream::connect(&socket).is_err());
    let mut second = start();
    let mut rest = Vec::new();
    download.read_to_end(&mut rest).unwrap();
    assert!(rest.len() >= LARGE - 1024, "{} bytes", rest.len());
    assert_eq!(first.wait().code(), Some(0));
    assert!(UnixStream::connect(&socket).is_ok(), "the second one serves");
    second.signal(Signal::TERM);
    assert_eq!(second.wait().code(), Some(0));
    assert!(!socket.exists(), "its socket is removed");
}

#[test]
fn a_server_is_not_ready_before_it_stops_accepting() {
    for delay in ["60s", "300ms"] {
        let dir = Dir::new(&[("a.txt", "a")]);
        let config = format!(
            "drain_delay = '{delay}'\n[metrics]\nlisten = 'unix:{{root}}/../metrics.sock'\n\
             [[site]]\ndefault = true\n[[site.mount]]\nfiles = '{{root}}'\n"
        );
        let mut child = Child::configured(&dir, &config);
        let metrics = dir.path("../metrics.sock");
        assert!(ask(&metrics, "GET /ready HTTP/1.1").0.starts_with("HTTP/1.1 200 "));
        let mut kept = child.connect();
        kept.expect_open();
        child.signal(Signal::TERM);
        if delay == "60s" {
            eventually("it says that it is not ready", || {
                ask(&metrics, "GET /ready HTTP/1.1").0.starts_with("HTTP/1.1 503 ")
            });
            assert!(ask(&metrics, "GET /live HTTP/1.1").0.starts_with("HTTP/1.1 200 "));
            assert_eq!(child.get("/a.txt").text(), "a", "on a new connection");
            let response = kept.request("GET", "/a.txt");
            assert_eq!(response.field("Connection"), None, "the connection is kept");
            kept.expect_open();
            assert_eq!(child.ended(), None);
            child.signal(Signal::TERM);
        }
        assert_eq!(child.wait().code(), Some(0), "{delay}: {}", child.stderr());
    }
}

#[test]
fn a_stop_finishes_running_streams_and_refuses_new_ones() {
    let dir = Dir::new(&[("a.txt", "a")]);
    dir.write("large.bin", vec![b'x'; 1 << 20]);
    let mut child = Child::serve(&dir, &["--drain", "15s"]);
    let mut wire = Wire::begin(child.address(), &[(INITIAL_WINDOW_SIZE, 1 << 30)]);
    wire.send(&[get(1, "/large.bin"), get(3, "/large.bin")].concat());
    let mut bytes = wire.next_of(DATA).payload.len();
    child.signal(Signal::TERM);
    let goaway = loop {
        match wire.next().unwrap() {
            frame if frame.kind == GOAWAY => break frame,
            frame if frame.kind == DATA => bytes += frame.payload.len(),
            _ => {}
        }
    };
    assert_eq!(goaway.code(), 0);
    // Requests in flight are accepted until the client has received GOAWAY (RFC 9113 section 6.8).
    wire.send(&frame(WINDOW_UPDATE, 0, 0, &[0, 0x7f, 0, 0]));
    let mut ended = 0;
    while let Some(came) = wire.next() {
        match came.kind {
            PING if came.flags & ACK == 0 => wire.send(&frame(PING, ACK, 0, &came.payload)),
            GOAWAY => {
                assert_eq!((came.code(), &came.payload[..4]), (0, &[0, 0, 0, 3][..]));
                wire.send(&get(5, "/a.txt"));
            }
            DATA => {
                assert_ne!(came.stream, 5, "it is taken after the end was said");
                bytes += came.payload.len();
                ended += usize::from(came.flags & END_STREAM);
            }
            _ => {}
        }
    }
    assert_eq!((ended, bytes), (2, 2 << 20));
    assert_eq!(child.wait().code(), Some(0));
}

#[test]
fn a_client_that_does_not_read_is_cut_after_the_drain_time() {
    let dir = Dir::new(&[]);
    dir.write("large.bin", vec![b'x'; LARGE]);
    let mut child = Child::serve(&dir, &["--drain", "500ms"]);
    let mut download = ask_for_large(&child);
    let begun = Instant::now();
    child.signal(Signal::TERM);
    assert_eq!(child.wait().code(), Some(0));
    assert!(begun.elapsed() >= Duration::from_millis(490), "after {:?}", begun.elapsed());
    assert!(begun.elapsed() < Duration::from_secs(5), "after {:?}", begun.elapsed());
    assert!(child.stderr().contains("1 connections cut"), "{}", child.stderr());
    let mut rest = Vec::new();
    // The download is cut, with or without a reset.
    let _ = download.read_to_end(&mut rest);
    assert!(rest.len() < LARGE, "it came whole");
}

#[test]
fn a_second_signal_ends_the_server_at_once() {
    for second in [Signal::TERM, Signal::INT] {
        let dir = Dir::new(&[]);
        dir.write("large.bin", vec![b'x'; LARGE]);
        let mut child = Child::serve(&dir, &["--drain", "60s"]);
        let _download = ask_for_large(&child);
        child.signal(Signal::INT);
        eventually("it has begun to stop", || TcpStream::connect(child.address()).is_err());
        let begun = Instant::now();
        child.signal(second);
        assert_eq!(child.wait().code(), Some(0));
        assert!(begun.elapsed() < Duration::from_secs(3), "{:?}", begun.elapsed());
    }
}

/// Sends requests as fast as possible until the server stops listening.
fn hammer(address: SocketAddr, keeps: bool, tally: &Tally) {
    let targets = ["/a.txt", "/mid.bin"];
    loop {
        let Ok(mut stream) = TcpStream::connect(address) else { return };
        stream.set_read_timeout(Some(PATIENCE)).unwrap();
        for target in targets.iter().cycle().take(if keeps { usize::MAX } else { 1 }) {
            let request = format!("GET {target} HTTP/1.1\r\nHost: a\r\n\r\n");
            // The response shows whether the request was sent.
            let _ = stream.write_all(request.as_bytes());
            match answer(&mut stream) {
                Ok(goes_on) => {
                    tally.answered.fetch_add(1, Relaxed);
                    if !goes_on {
                        break;
                    }
                }
                Err(0) => {
                    tally.closed.fetch_add(1, Relaxed);
                    break;
                }
                Err(_) => {
                    tally.broken.fetch_add(1, Relaxed);
                    break;
                }
            }
        }
    }
}

/// Reads a response; `true` if another request may follow. The error is the number of bytes before
/// an orderly close, or `usize::MAX` for any other end.
fn answer(stream: &mut TcpStream) -> Result<bool, usize> {
    let mut got = Vec::new();
    let mut piece = [0; 64 << 10];
    let mut wanted = None;
    while wanted.is_none_or(|wanted| got.len() < wanted) {
        match stream.read(&mut piece) {
            Ok(0) => return Err(got.len()),
            Ok(n) => got.extend_from_slice(&piece[..n]),
            Err(e) if e.kind() == ErrorKind::Interrupted => {}
            Err(_) => return Err(usize::MAX),
        }
        if wanted.is_none() {
            wanted = whole_length(&got);
        }
    }
    Ok(memchr::memmem::find(&got, b"Connection: close\r\n").is_none())
}

/// Length of a response whose head has arrived.
fn whole_length(got: &[u8]) -> Option<usize> {
    let head_end = memchr::memmem::find(got, b"\r\n\r\n")? + 4;
    let head = std::str::from_utf8(&got[..head_end]).unwrap();
    assert!(head.starts_with("HTTP/1.1 200 "), "{head}");
    let (_, length) = head.split_once("Content-Length: ").unwrap();
    Some(head_end + length.split("\r\n").next()?.parse::<usize>().unwrap())
}

/// A download that has started and cannot end before it is read.
fn ask_for_large(child: &Child) -> TcpStream {
    let mut stream = child.connect_narrow();
    let request = b"GET /large.bin HTTP/1.1\r\nHost: a\r\nConnection: close\r\n\r\n";
    stream.write_all(request).unwrap();
    // Peeks, so that the bytes stay in the socket.
    assert_eq!(stream.peek(&mut [0]).unwrap(), 1);
    stream
}
