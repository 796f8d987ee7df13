//! Slices of the load generator against a server that stalls.

#![allow(clippy::unwrap_used)] // the servers' threads are tests too

use std::io::{Read as _, Write as _};
use std::net::{SocketAddr, TcpListener, TcpStream};
use std::sync::Arc;
use std::sync::atomic::{AtomicU64, Ordering};
use std::thread;
use std::time::Duration;

use deathmatch::load::{Client, Expected, Job, Kept, marks};
use deathmatch::sample::Offered;

const HELLO: &[u8] = b"HTTP/1.1 200 OK\r\nContent-Length: 5\r\n\r\nhello";

/// Time without a request on another connection after which a stalled response is sent.
const SILENCE: Duration = Duration::from_millis(100);

#[test]
fn a_connection_that_stalls_at_the_end_of_a_slice_agrees_with_littles_law() {
    let server = serve_with_a_stall();
    let job = job(server);
    let mut kept = Kept::new(&job).unwrap();
    // A generator that does not run for a moment has its stall before the end of the slice.
    let mut has_stalled = false;
    for _ in 0..3 {
        let load = kept.slice(job.duration).unwrap();
        assert!(load.replies > 1 && load.errors.total() == 0, "{load:?}");
        has_stalled |= load.seconds > job.duration.as_secs_f64() + 0.05;
        assert_eq!(marks(&job, &load), [], "{load:?}");
    }
    assert!(has_stalled, "no slice waited for a response at its end");
}

fn job(target: SocketAddr) -> Job {
    Job {
        target,
        client: Client::default(),
        requests: vec![b"GET /a HTTP/1.1\r\nHost: x\r\n\r\n".to_vec()],
        bodies: Vec::new(),
        order: Vec::new(),
        expected: Expected { status: 200, body_bytes: 5, body: Some(b"hello".to_vec()) },
        offered: Offered::Closed { connections: 2 },
        tls: None,
        over: None,
        beside: None,
        draw: 0,
        warm_up: Duration::ZERO,
        duration: Duration::from_millis(200),
        timeout: Duration::from_secs(10),
        stop: Arc::default(),
    }
}

/// A server that responds at once on its first connection. On others it responds once that one has
/// no request any more.
fn serve_with_a_stall() -> SocketAddr {
    let listener = TcpListener::bind("127.0.0.1:0").unwrap();
    let address = listener.local_addr().unwrap();
    let requests = Arc::new(AtomicU64::new(0));
    thread::spawn(move || {
        for (number, socket) in listener.incoming().enumerate() {
            let requests = requests.clone();
            thread::spawn(move || converse(socket.unwrap(), number == 0, &requests));
        }
    });
    address
}

fn converse(mut socket: TcpStream, is_first: bool, requests: &AtomicU64) {
    socket.set_nodelay(true).unwrap();
    let mut piece = [0; 4096];
    while socket.read(&mut piece).is_ok_and(|count| count > 0) {
        if is_first {
            requests.fetch_add(1, Ordering::SeqCst);
        } else {
            let mut seen = None;
            while seen != Some(requests.load(Ordering::SeqCst)) {
                seen = Some(requests.load(Ordering::SeqCst));
                thread::sleep(SILENCE);
            }
        }
        if socket.write_all(HELLO).is_err() {
            return;
        }
    }
}
