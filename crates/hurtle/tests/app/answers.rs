//! Tests of applications' responses: framing, trailers, streaming, and aborted responses.

use std::sync::{Arc, Mutex, mpsc};
use std::time::Duration;

use bytes::Bytes;
use http::{Request, Response, StatusCode};
use http_body_util::Full;
use hurtle::RequestBody;

use crate::client::PATIENCE;
use crate::support::{App, FrameSender, Frames, GET, Guard, frames};

/// An application that responds with these bodies in turn.
fn giving(bodies: Vec<Frames>) -> App {
    let bodies = Arc::new(Mutex::new(bodies.into_iter()));
    App::of(move |_| {
        let body = bodies.lock().unwrap().next().unwrap();
        async { Response::new(body) }
    })
}

#[test]
fn each_frame_is_sent_at_once() {
    let (hand, body) = frames();
    let app = giving(vec![body]);
    let mut client = app.connect();
    client.send(GET);
    let head = client.head();
    assert!(head.contains("Transfer-Encoding: chunked\n"), "before any frame is there: {head}");
    hand.data("one");
    assert_eq!(client.chunk(), "one", "while the application waits");
    hand.data("");
    hand.data("two");
    assert_eq!(client.chunk(), "two", "an empty frame ends nothing");
    drop(hand);
    assert_eq!(client.chunk(), "");
    assert_eq!(client.line(), "");
}

#[test]
fn known_lengths_are_sent() {
    let app = App::of(|_| async { Response::new(Full::<Bytes>::from("hello")) });
    let (head, body) = app.ask(GET);
    assert_eq!(head, "HTTP/1.1 200 OK\nServer: hurtle\nContent-Length: 5\n");
    assert_eq!(body, "hello");

    let (hand, body) = frames();
    let app = App::of({
        let bodies = Arc::new(Mutex::new(Some(body)));
        move |_| {
            let body = bodies.lock().unwrap().take().unwrap();
            async { Response::builder().header("content-length", "3").body(body).unwrap() }
        }
    });
    hand.data("abc");
    assert_eq!(app.ask(GET).0, "HTTP/1.1 200 OK\nServer: hurtle\nContent-Length: 3\n");
}

#[test]
fn large_frames_arrive_whole() {
    let app = App::of(|request: Request<RequestBody>| async move {
        let len: usize = request.uri().path()[1..].parse().unwrap();
        let text: String = (0..len).map(|at| char::from(b'a' + (at % 23) as u8)).collect();
        let (hand, body) = frames();
        hand.data(text);
        Response::new(body)
    });
    let mut client = app.connect();
    for len in [1, 4 << 10, (4 << 10) + 1, 256 << 10, (256 << 10) + 1, 3_000_000] {
        client.send(format!("GET /{len} HTTP/1.1\r\nHost: a\r\n\r\n"));
        let (_, body) = client.answer();
        assert_eq!(body.len(), len);
        assert!(body.bytes().enumerate().all(|(at, b)| b == b'a' + (at % 23) as u8), "{len}");
    }
}

#[test]
fn http_1_0_reads_to_the_end() {
    let (hand, body) = frames();
    let app = giving(vec![body]);
    let mut client = app.connect();
    client.send("GET / HTTP/1.0\r\nConnection: keep-alive\r\n\r\n");
    hand.data("one");
    let head = client.head();
    assert_eq!(head, "HTTP/1.1 200 OK\nServer: hurtle\nConnection: close\n");
    assert_eq!(client.take(3), b"one");
    hand.data("two");
    drop(hand);
    assert_eq!(client.rest(), "two");
}

#[test]
fn trailers_are_sent_to_clients_that_accept_them() {
    let with_trailers = || {
        let (hand, body) = frames();
        hand.data("data");
        hand.trailers(&[("sum", "1"), ("content-length", "9"), ("x-note", "b")]);
        body
    };
    let app = giving(vec![with_trailers(), with_trailers()]);
    let (_, body) = app.ask(GET);
    assert_eq!(body, "data", "nobody asked for trailers");
    let (_, body) = app.ask("GET / HTTP/1.1\r\nHost: a\r\nTE: trailers\r\nConnection: TE\r\n\r\n");
    assert_eq!(body, "dataSum: 1\nX-Note: b\n", "what frames a message is no trailer");
}

#[test]
fn bodies_that_are_not_sent_are_not_polled() {
    let app = App::of(|request: Request<RequestBody>| async move {
        let status = request.uri().path()[1..].parse::<StatusCode>().unwrap();
        // Reading this body fails.
        let (hand, body) = frames();
        hand.fail();
        Response::builder().status(status).body(body.claiming(5)).unwrap()
    });
    let mut client = app.connect();
    for (request, want) in [
        ("HEAD /200", "HTTP/1.1 200 OK\nServer: hurtle\nContent-Length: 5\n"),
        ("GET /204", "HTTP/1.1 204 No Content\nServer: hurtle\n"),
        ("GET /304", "HTTP/1.1 304 Not Modified\nServer: hurtle\n"),
    ] {
        client.send(format!("{request} HTTP/1.1\r\nHost: a\r\n\r\n"));
        assert_eq!(client.head(), want);
    }
    client.send("GET /200 HTTP/1.1\r\nHost: a\r\n\r\n");
    assert!(client.head().starts_with("HTTP/1.1 500"), "the connection is in step");

    let bodies = giving(vec![frames().1, frames().1]);
    let mut client = bodies.connect();
    client.send("HEAD / HTTP/1.1\r\nHost: a\r\n\r\nHEAD / HTTP/1.1\r\nHost: a\r\n\r\n");
    for _ in 0..2 {
        assert!(client.head().contains("Transfer-Encoding: chunked"), "as GET would have it");
    }
}

#[test]
fn an_aborted_response_is_visibly_incomplete() {
    let (chunked, body) = frames();
    let (short, short_body) = frames();
    let (long, long_body) = frames();
    let (close, close_body) = frames();
    let (nothing, nothing_body) = frames();
    let app = giving(vec![
        body,
        short_body.claiming(10),
        long_body.claiming(4),
        close_body,
        nothing_body,
    ]);
    let read = |hand: FrameSender, request: &str, then: fn(&FrameSender)| {
        let mut client = app.connect();
        client.send(request);
        hand.data("one");
        client.head();
        then(&hand);
        drop(hand);
        client
    };
    assert_eq!(read(chunked, GET, FrameSender::fail).rest(), "3\r\none\r\n", "an error");
    assert_eq!(read(short, GET, |_| ()).rest(), "one", "less than was said");
    assert_eq!(read(long, GET, |hand| hand.data("two")).rest(), "one", "more than was said");
    read(close, "GET / HTTP/1.0\r\n\r\n", FrameSender::fail).expect_reset();

    nothing.fail();
    let (head, _) = app.ask(GET);
    assert!(head.starts_with("HTTP/1.1 500"), "nothing was said yet: {head}");
}

#[test]
fn a_panic_is_answered_500() {
    let app = App::of(|request: Request<RequestBody>| async move {
        assert!(request.uri().path() != "/panic", "the test says so");
        Response::new(Full::<Bytes>::from("alive"))
    });
    let (head, _) = app.ask("GET /panic HTTP/1.1\r\nHost: a\r\n\r\n");
    assert!(head.starts_with("HTTP/1.1 500"), "{head}");
    assert_eq!(app.ask(GET).1, "alive", "on the same worker");
}

#[test]
fn a_reset_cancels_the_handler_and_a_half_close_does_not() {
    let (gone, told) = mpsc::channel();
    let (hand, body) = frames();
    let body = Arc::new(Mutex::new(Some(body)));
    let wake = Arc::new(tokio::sync::Notify::new());
    let (begun, begins) = mpsc::channel();
    let app = App::of({
        let wake = wake.clone();
        move |request: Request<RequestBody>| {
            let (guard, wake, begun) = (Guard(gone.clone()), wake.clone(), begun.clone());
            let body = body.clone();
            async move {
                if request.uri().path() == "/think" {
                    begun.send(()).unwrap();
                    wake.notified().await;
                }
                std::mem::forget(guard);
                Response::new(body.lock().unwrap().take().unwrap())
            }
        }
    });
    let mut client = app.connect();
    client.send("POST /think HTTP/1.1\r\nHost: a\r\nContent-Length: 5\r\n\r\nhe");
    begins.recv_timeout(PATIENCE).unwrap();
    client.reset();
    assert_eq!(told.recv_timeout(PATIENCE), Ok("dropped"), "while it thinks");

    let mut client = app.connect();
    client.send("GET /think HTTP/1.1\r\nHost: a\r\n\r\n");
    begins.recv_timeout(PATIENCE).unwrap();
    client.half_close();
    wake.notify_one();
    hand.data("one");
    client.head();
    assert_eq!(client.chunk(), "one", "a client that has said its last word still listens");
    client.reset();
    hand.wait_for_drop();
}

/// The timer of the connection from the first port to the second: which, and in how many hundredths
/// of a second (proc(5), `/proc/net/tcp`; 2 is keep-alive's).
#[cfg(target_os = "linux")]
fn timer(from: u16, to: u16) -> Option<(u8, u64)> {
    let table = std::fs::read_to_string("/proc/net/tcp").unwrap();
    let ends = (format!(":{from:04X}"), format!(":{to:04X}"));
    table.lines().find_map(|line| {
        let fields: Vec<&str> = line.split_ascii_whitespace().collect();
        let (kind, left) = fields.get(5)?.split_once(':')?;
        let its = fields[1].ends_with(&ends.0) && fields[2].ends_with(&ends.1);
        its.then(|| Some((kind.parse().ok()?, u64::from_str_radix(left, 16).ok()?)))?
    })
}

#[test]
#[cfg(target_os = "linux")] // where the kernel shows its timers
fn the_kernel_asks_whether_an_idle_streams_peer_is_still_there() {
    let (hand, body) = frames();
    let app = giving(vec![body]);
    let mut client = app.connect();
    client.send(GET);
    client.head();
    hand.data("one");
    assert_eq!(client.chunk(), "one");
    let from = client.stream.peer_addr().unwrap().port();
    let to = client.stream.local_addr().unwrap().port();
    let end = std::time::Instant::now() + PATIENCE;
    // The timer is the retransmission timer until the last bytes are acknowledged.
    let left = loop {
        match timer(from, to) {
            Some((2, left)) => break left,
            other => assert!(std::time::Instant::now() < end, "no keep-alive timer but {other:?}"),
        }
        std::thread::yield_now();
    };
    assert!(left <= 60 * 100, "the first question comes within a minute, not in {left} hundredths");
}

#[test]
fn a_slow_handler_is_not_a_stalled_write() {
    let (hand, body) = frames();
    let bodies = Arc::new(Mutex::new(Some(body)));
    let app = App::with(
        |config| config.limits.write_stall = Duration::ZERO,
        move |_| {
            let body = bodies.lock().unwrap().take().unwrap();
            async { Response::new(body) }
        },
    );
    let mut client = app.connect();
    client.send(GET);
    client.head();
    client.stream.set_read_timeout(Some(Duration::from_millis(200))).unwrap();
    let mut byte = [0];
    let waited = std::io::Read::read(&mut client.stream, &mut byte);
    assert!(waited.is_err(), "the connection is open, and silent");
    client.stream.set_read_timeout(Some(PATIENCE)).unwrap();
    hand.data("late");
    assert_eq!(client.chunk(), "late");
}

#[test]
fn frames_keep_to_the_limit_of_their_client() {
    let app = App::with(
        |config| {
            config.limits.address_rate = 400_000;
            config.limits.write_stall = Duration::from_millis(20);
        },
        |_| async {
            let (hand, body) = frames();
            // One large frame, many small ones.
            hand.data(vec![b'x'; 300_000]);
            for _ in 0..100 {
                hand.data(vec![b'x'; 3_000]);
            }
            Response::new(body)
        },
    );
    let begun = std::time::Instant::now();
    let (_, body) = app.ask(GET);
    assert_eq!(body.matches('x').count(), 600_000);
    // The limit allows a burst of a quarter of a second's bytes.
    assert!(begun.elapsed() >= Duration::from_millis(1_250), "{:?}", begun.elapsed());
}

/// RFC 9110 section 7.8: a sender of Upgrade sends it as an option of the connection, too.
#[test]
fn an_upgrade_that_is_required_is_an_option_of_the_connection() {
    let app = App::of(|_| async {
        let response = Response::builder().status(StatusCode::UPGRADE_REQUIRED);
        response.header("upgrade", "websocket").body(Full::<Bytes>::from("upgrade")).unwrap()
    });
    let (head, _) = app.ask(GET);
    assert!(head.starts_with("HTTP/1.1 426"), "{head}");
    for line in ["Upgrade: websocket\n", "Connection: upgrade\n"] {
        assert!(head.contains(line), "{line}: {head}");
    }
}
