//! Clients that send or read very slowly. Limits are scaled down to keep the tests short: "one byte
//! a second" against ten seconds becomes one byte every 30 ms against 300 ms.

use std::io::{Read, Write};
use std::net::TcpStream;
use std::thread;
use std::time::{Duration, Instant};

use crate::child::{Child, eventually};
use crate::support::{Client, Dir};

/// Time between two bytes of a slow client.
const DRIP: Duration = Duration::from_millis(30);

/// Larger than socket buffers.
const LARGE_KIB: u64 = 48 << 10;

const CONFIG: &str = "root = '{root}'\nrevalidate = 60\n[limits]\nhead_timeout = '300ms'\n\
    idle_timeout = '300ms'\nbody_grace = '300ms'\nbody_rate = 1000\nwrite_stall = '500ms'\n";

#[test]
fn a_client_that_sends_single_bytes_gets_408_in_time() {
    let dir = Dir::new(&[("a.txt", "a\n")]);
    let child = Child::configured(&dir, CONFIG);
    let filler = format!("GET /a.txt HTTP/1.1\r\nX: {}", "x".repeat(10_000));
    let body = format!("GET /a.txt HTTP/1.1\r\nHost: a\r\nContent-Length: 10000\r\n\r\n{filler}");
    let chunks = "GET /a.txt HTTP/1.1\r\nHost: a\r\nTransfer-Encoding: chunked\r\n\r\n".to_owned()
        + &"1\r\nx\r\n".repeat(10_000);
    let rows = [
        ("a head", &filler, 0),
        ("a body", &body, body.len() - filler.len()),
        ("a chunked body", &chunks, chunks.find("\r\n\r\n").unwrap() + 4),
    ];
    for (what, bytes, at_once) in rows {
        let mut client = child.connect();
        client.send(&bytes.as_bytes()[..at_once]);
        let begun = Instant::now();
        let sent = drip(&mut client, &bytes.as_bytes()[at_once..]);
        assert!(sent < bytes.len() - at_once, "{what}: it was not slow");
        let answer = client.response();
        assert_eq!(answer.status, 408, "{what}");
        client.half_close();
        client.expect_end();
        assert!(begun.elapsed() >= Duration::from_millis(290), "{what}: cut early");
        assert!(begun.elapsed() < Duration::from_secs(3), "{what}: {:?}", begun.elapsed());
    }
}

#[test]
fn a_silent_client_is_closed_without_a_response() {
    let dir = Dir::new(&[("a.txt", "a\n")]);
    let child = Child::configured(&dir, CONFIG);
    let mut silent = child.connect();
    let mut kept = child.connect();
    assert_eq!(kept.request("GET", "/a.txt").status, 200);
    let mut empty_line = child.connect();
    empty_line.send("\r\n");
    let begun = Instant::now();
    // Without a request there is no 408.
    silent.expect_end();
    kept.expect_end();
    empty_line.expect_end();
    assert!(begun.elapsed() >= Duration::from_millis(250), "cut early: {:?}", begun.elapsed());
    assert!(begun.elapsed() < Duration::from_secs(3), "{:?}", begun.elapsed());
}

#[test]
fn clients_that_read_nothing_are_cut_and_use_no_memory() {
    const CLIENTS: usize = 50;
    for sendfile in ["auto", "off"] {
        let dir = Dir::new(&[]);
        dir.write("large.bin", vec![b'x'; LARGE_KIB as usize * 1024]);
        let config = format!("sendfile = '{sendfile}'\n{CONFIG}");
        let child = Child::configured(&dir, &config);
        let own = sockets(&child);
        assert_eq!(child.connect().request("HEAD", "/large.bin").status, 200);
        eventually("nobody is connected", || sockets(&child) == own);
        let before_kib = child.resident_kib();
        let mut peak_kib = 0;
        let begun = Instant::now();
        let mut clients: Vec<_> = (0..CLIENTS).map(|_| ask_for_large(&child)).collect();
        // Each response has begun, or was cut already. On a busy machine the first clients are cut
        // before the last ones are accepted, so all are never connected at once.
        for client in &mut clients {
            let _ = client.read(&mut [0]);
        }
        eventually("all are cut", || {
            peak_kib = child.resident_kib().max(peak_kib);
            // Reading single bytes does not free enough buffer space to count as progress.
            let _ = clients[0].read(&mut [0]);
            sockets(&child) == own
        });
        println!("sendfile {sendfile}: {} KiB more for {CLIENTS}", peak_kib - before_kib);
        assert!(begun.elapsed() >= Duration::from_millis(490), "{sendfile}: cut early");
        assert!(peak_kib - before_kib < 16 << 10, "{sendfile}: {} KiB", peak_kib - before_kib);
        // The connection ends with a reset, so that the response does not look complete.
        let end = clients[1].read_to_end(&mut Vec::new());
        assert!(end.is_err(), "{sendfile}: {end:?}");
    }
}

#[test]
fn a_slow_but_steady_reader_gets_the_whole_file() {
    let dir = Dir::new(&[]);
    dir.write("large.bin", vec![b'x'; LARGE_KIB as usize * 1024]);
    let child = Child::configured(&dir, CONFIG);
    let mut client = ask_for_large(&child);
    let begun = Instant::now();
    let mut got = 0;
    let mut piece = vec![0; 1 << 20];
    loop {
        // The whole download takes longer than the stall limit, but never pauses that long.
        thread::sleep(DRIP);
        let mut read = 0;
        while read < piece.len() {
            match client.read(&mut piece[read..]).unwrap() {
                0 => break,
                n => read += n,
            }
        }
        got += read;
        if read < piece.len() {
            break;
        }
    }
    assert!(got as u64 > LARGE_KIB * 1024, "only {got} bytes");
    assert!(begun.elapsed() > Duration::from_millis(1_000), "it was not slow");
}

/// The first mount has the limits of the server, the second one its own.
#[test]
fn a_mount_may_be_more_patient_than_the_server() {
    let dir = Dir::new(&[]);
    for name in ["quick", "patient"] {
        std::fs::create_dir(dir.path(name)).unwrap();
        dir.write(format!("{name}/large.bin"), vec![b'x'; LARGE_KIB as usize * 1024]);
    }
    let sites = "[[site]]\n[[site.mount]]\npath = '/quick'\nfiles = '{root}/quick'\n\
                 [[site.mount]]\npath = '/patient'\nfiles = '{root}/patient'\n\
                 body_grace = '1h'\nwrite_stall = '1h'\n";
    let config = CONFIG.replacen("root = '{root}'\n", "", 1) + sites;
    let child = Child::configured(&dir, &config);

    // A body of which half is sent.
    let post = |mount: &str| {
        let mut client = child.connect();
        let head = format!("GET /{mount}/large.bin HTTP/1.1\r\nHost: a\r\nContent-Length: 2\r\n");
        client.send(format!("{head}Range: bytes=0-0\r\n\r\nx"));
        client
    };
    let (mut patient, mut quick) = (post("patient"), post("quick"));
    assert_eq!(quick.response().status, 408);
    patient.send("x");
    assert_eq!(patient.response().status, 206);

    // Responses that are not read. The second file is known when it is requested again.
    let ask = |mount: &str| {
        let mut stream = child.connect_narrow();
        let request =
            format!("GET /{mount}/large.bin HTTP/1.1\r\nHost: a\r\nConnection: close\r\n\r\n");
        stream.write_all(request.as_bytes()).unwrap();
        stream
    };
    let mut patient = [ask("patient"), ask("patient")];
    let quick = ask("quick");
    let socket = socket2::SockRef::from(&quick);
    eventually("the quick one is reset", || socket.take_error().unwrap().is_some());
    for client in &mut patient {
        let mut response = Vec::new();
        client.read_to_end(&mut response).unwrap();
        assert!(response.len() as u64 > LARGE_KIB * 1024, "only {} bytes", response.len());
    }
}

/// Regression: the kernel reports a socket writable only once a third of its buffer is free. A slow
/// but steady reader that takes longer than the stall limit for that was cut.
#[test]
fn a_client_slower_than_the_kernels_buffer_is_not_cut() {
    const SLOWLY: u64 = 192 << 10;
    for (case, sendfile, target) in [
        ("a file", "auto", "large.bin"),
        ("a copied file", "off", "large.bin"),
        ("an archive", "auto", "?archive=tar"),
        ("a response of an upstream", "auto", "proxied/large.bin"),
    ] {
        let dir = Dir::new(&[]);
        dir.write("large.bin", vec![b'x'; LARGE_KIB as usize * 1024]);
        let upstream = Child::serve(&dir, &[]);
        let sites = format!(
            "[[site]]\n[[site.mount]]\nfiles = '{{root}}'\nlisting = true\narchive = {{}}\n\
             [[site.mount]]\npath = '/proxied'\nstrip_prefix = true\nproxy = 'http://{}'\n",
            upstream.address()
        );
        let config = CONFIG.replacen("root = '{root}'\n", "", 1);
        let child = Child::configured(&dir, &format!("sendfile = '{sendfile}'\n{config}{sites}"));
        let mut client = ask_for(&child, target);
        let (mut got, mut piece) = (0, vec![0; 48 << 10]);
        let begun = Instant::now();
        while got < SLOWLY {
            thread::sleep(DRIP);
            match client.read(&mut piece) {
                Ok(read @ 1..) => got += read as u64,
                end => panic!("{case}: {end:?} after {got} bytes"),
            }
        }
        assert!(begun.elapsed() > Duration::from_millis(1_000), "it was not slow");
        assert!(client.read(&mut piece).unwrap() > 0, "{case}");
    }
}

fn ask_for_large(child: &Child) -> TcpStream {
    ask_for(child, "large.bin")
}

fn ask_for(child: &Child, target: &str) -> TcpStream {
    let mut stream = child.connect_narrow();
    let request = format!("GET /{target} HTTP/1.1\r\nHost: a\r\nConnection: close\r\n\r\n");
    stream.write_all(request.as_bytes()).unwrap();
    stream
}

/// Sends byte by byte until the server responds; returns the number of bytes.
fn drip(client: &mut Client, bytes: &[u8]) -> usize {
    client.stream.set_nonblocking(true).unwrap();
    let said_something = |client: &Client| client.stream.peek(&mut [0]).is_ok();
    let mut sent = 0;
    while sent < bytes.len() && !said_something(client) {
        client.send(&bytes[sent..=sent]);
        sent += 1;
        thread::sleep(DRIP);
    }
    client.stream.set_nonblocking(false).unwrap();
    sent
}

/// TCP sockets of the server, including the listener.
fn sockets(child: &Child) -> usize {
    let table = child.proc("net/tcp");
    let inodes: Vec<_> = table.lines().filter_map(|line| line.split_whitespace().nth(9)).collect();
    let is_tcp = |name: &str| {
        let inode = name.strip_prefix("socket:[").and_then(|rest| rest.strip_suffix(']'));
        inode.is_some_and(|inode| inodes.contains(&inode))
    };
    child.descriptors().iter().filter(|path| path.to_str().is_some_and(is_tcp)).count()
}
