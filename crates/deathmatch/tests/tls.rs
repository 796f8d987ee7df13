//! The load generator against small servers that speak TLS.

#![allow(clippy::unwrap_used)] // the servers' threads are tests too

mod scripted;

use std::io::{Read as _, Write as _};
use std::net::{SocketAddr, TcpListener, TcpStream};
use std::sync::Arc;
use std::sync::atomic::{AtomicU64, Ordering};
use std::thread;
use std::time::Duration;

use deathmatch::load::{Client, Expected, Job, Tls, marks, run};
use deathmatch::sample::{ConnectionUse, Errors, Handshakes, Load, Mark, Offered, Version};
use deathmatch::tls::{Identity, Protocol};
use rustls::crypto::aws_lc_rs;
use rustls::pki_types::pem::PemObject;
use rustls::pki_types::{CertificateDer, PrivateKeyDer};
use rustls::{ServerConfig, ServerConnection, StreamOwned};
use scripted::folder;

const OPEN: Offered = Offered::Open { rate: 500.0, poisson: false, connections: 4 };
const CLOSED: Offered = Offered::Closed { connections: 3 };
const SESSIONS: Offered = Offered::Sessions { rate: 100.0, calls: 5 };
const ONE_CALL: Offered = Offered::Sessions { rate: 100.0, calls: 1 };
const FULL: ConnectionUse = ConnectionUse::Anew { resumed: false };
const RESUMED: ConnectionUse = ConnectionUse::Anew { resumed: true };

const CLOSING: &[u8] = b"GET /a HTTP/1.1\r\nHost: x\r\nConnection: close\r\n\r\n";

/// Longer than a record, so that a response takes several.
const LARGE: usize = 300_000;

#[test]
fn requests_are_answered_over_tls_and_counted_once() {
    let identity = Identity::within(&folder("tls-kept")).unwrap();
    for (body, name) in [(5, "small"), (LARGE, "large")] {
        for (offered, connections) in [(OPEN, Some(4)), (CLOSED, Some(3)), (SESSIONS, None)] {
            let server = serve(&identity, body);
            let load = run(&Job {
                tls: Some(Tls::new(&identity.trust, None, Protocol::Http1).unwrap()),
                ..job(server.address, offered, body)
            })
            .unwrap();
            let what = format!("{name}, {offered:?}: {load:?}");
            assert!(is_whole(&load) && load.errors == Errors::default(), "{what}");
            let asked = server.requests.load(Ordering::SeqCst);
            assert_eq!(asked, load.replies, "{what}");
            let head = head(body).len();
            assert_eq!(load.bytes, load.replies * (head + body) as u64, "plain bytes: {what}");
            assert_eq!(load.handshakes.resumed, 0, "{what}");
            let connections = connections.unwrap_or(asked / 5);
            assert_eq!(load.handshakes.full, connections, "{what}");
        }
    }
}

#[test]
fn every_handshake_is_of_the_kind_that_is_measured() {
    let identity = Identity::within(&folder("tls-anew")).unwrap();
    for offered in [CLOSED, ONE_CALL] {
        for over in [FULL, RESUMED] {
            let server = serve(&identity, 5);
            let anew = Job {
                tls: Some(
                    Tls::new(&identity.trust, (over == RESUMED).then_some(4), Protocol::Http1)
                        .unwrap(),
                ),
                over: Some(over),
                requests: vec![CLOSING.to_vec()],
                ..job(server.address, offered, 5)
            };
            // Tickets are collected here, where nothing is counted, as in a warm-up.
            run(&Job { duration: Duration::from_millis(50), ..anew.clone() }).unwrap();
            let before = server.connections.load(Ordering::SeqCst);
            let load = run(&anew).unwrap();
            let what = format!("{offered:?}, {over:?}: {load:?}");
            assert!(is_whole(&load) && load.errors == Errors::default(), "{what}");
            let connections = server.connections.load(Ordering::SeqCst) - before;
            assert_eq!(load.replies, connections, "one request on each: {what}");
            let Handshakes { full, resumed } = load.handshakes;
            let (mine, others) = if over == RESUMED { (resumed, full) } else { (full, resumed) };
            assert_eq!((mine, others), (connections, 0), "{what}");
            assert!(!marks(&anew, &load).contains(&Mark::OtherHandshakes), "{what}");
        }
    }
}

#[test]
fn a_handshake_of_another_kind_marks_the_sample() {
    let identity = Identity::within(&folder("tls-no-tickets")).unwrap();
    let server = serve_with(&identity, 5, |config| config.send_tls13_tickets = 0);
    let anew = Job {
        tls: Some(Tls::new(&identity.trust, Some(1), Protocol::Http1).unwrap()),
        over: Some(RESUMED),
        requests: vec![CLOSING.to_vec()],
        ..job(server.address, CLOSED, 5)
    };
    let load = run(&anew).unwrap();
    assert!(load.replies > 0 && load.handshakes.resumed == 0, "{load:?}");
    assert!(marks(&anew, &load).contains(&Mark::OtherHandshakes));
}

#[test]
fn a_wrong_certificate_or_plain_text_is_an_error() {
    let identity = Identity::within(&folder("tls-mine")).unwrap();
    let other = Identity::within(&folder("tls-other")).unwrap();
    let rows = [
        ("another certificate", serve(&other, 5).address, CLOSED),
        ("another certificate, at a rate", serve(&other, 5).address, OPEN),
        ("no TLS", in_clear(b"HTTP/1.1 400 No\r\nConnection: close\r\n\r\n"), CLOSED),
        ("no TLS, at a rate", in_clear(b"HTTP/1.1 400 No\r\nConnection: close\r\n\r\n"), OPEN),
    ];
    for (name, address, offered) in rows {
        let load = run(&Job {
            tls: Some(Tls::new(&identity.trust, None, Protocol::Http1).unwrap()),
            ..job(address, offered, 5)
        })
        .unwrap();
        assert!(is_whole(&load), "{name}: {load:?}");
        assert_eq!(load.errors, Errors { tls: load.intended, ..Errors::default() }, "{name}");
        assert_eq!(load.handshakes, Handshakes::default(), "{name}");
    }
}

#[test]
fn a_connection_that_is_not_closed_is_an_error_where_it_should_be() {
    let address = in_clear(b"HTTP/1.1 200 OK\r\nContent-Length: 5\r\n\r\nhello");
    let anew =
        Job { over: Some(FULL), timeout: Duration::from_millis(100), ..job(address, CLOSED, 5) };
    let load = run(&anew).unwrap();
    assert_eq!(load.errors, Errors { timeout: load.intended, ..Errors::default() }, "{load:?}");
}

#[test]
fn a_page_of_http_1_1_requests_one_file_after_the_other() {
    let identity = Identity::within(&folder("tls-page")).unwrap();
    for body in [5, 100_000] {
        let server = serve(&identity, body);
        let page = Job {
            over: Some(ConnectionUse::Page { version: Version::Http1, files: 7 }),
            tls: Some(Tls::new(&identity.trust, None, Protocol::Http1).unwrap()),
            ..job(server.address, Offered::Closed { connections: 2 }, body)
        };
        let load = run(&page).unwrap();
        assert!(is_whole(&load) && load.errors.total() == 0, "{load:?}");
        assert_eq!(7 * load.replies, server.requests.load(Ordering::SeqCst), "{load:?}");
        assert_eq!(load.replies, server.connections.load(Ordering::SeqCst), "{load:?}");
        assert_eq!(load.bytes, load.replies * 7 * (head(body).len() + body) as u64, "{load:?}");
    }
}

fn job(target: SocketAddr, offered: Offered, body: usize) -> Job {
    Job {
        target,
        client: Client::default(),
        requests: vec![b"GET /a HTTP/1.1\r\nHost: x\r\n\r\n".to_vec()],
        bodies: Vec::new(),
        order: Vec::new(),
        expected: Expected { status: 200, body_bytes: body as u64, body: Some(vec![b'x'; body]) },
        offered,
        tls: None,
        over: None,
        beside: None,
        draw: 0,
        warm_up: Duration::ZERO,
        duration: Duration::from_millis(200),
        timeout: Duration::from_secs(5),
        stop: Arc::default(),
    }
}

fn is_whole(load: &Load) -> bool {
    load.intended > 0 && load.intended == load.replies + load.errors.total()
}

fn head(body: usize) -> String {
    format!("HTTP/1.1 200 OK\r\nContent-Length: {body}\r\n\r\n")
}

struct Server {
    address: SocketAddr,
    connections: Arc<AtomicU64>,
    requests: Arc<AtomicU64>,
}

fn serve(identity: &Identity, body: usize) -> Server {
    serve_with(identity, body, |_| {})
}

/// A thread for every connection, which it closes if the request asks for it.
fn serve_with(identity: &Identity, body: usize, set: impl Fn(&mut ServerConfig)) -> Server {
    let certificate = CertificateDer::from_pem_file(&identity.certificate).unwrap();
    let key = PrivateKeyDer::from_pem_file(&identity.key).unwrap();
    let provider = Arc::new(aws_lc_rs::default_provider());
    let mut config = ServerConfig::builder_with_provider(provider)
        .with_safe_default_protocol_versions()
        .unwrap()
        .with_no_client_auth()
        .with_single_cert(vec![certificate], key)
        .unwrap();
    config.ticketer = aws_lc_rs::Ticketer::new().unwrap();
    set(&mut config);
    let config = Arc::new(config);
    let listener = TcpListener::bind("127.0.0.1:0").unwrap();
    let (connections, requests) = (Arc::new(AtomicU64::new(0)), Arc::new(AtomicU64::new(0)));
    let server = Server {
        address: listener.local_addr().unwrap(),
        connections: connections.clone(),
        requests: requests.clone(),
    };
    thread::spawn(move || {
        for socket in listener.incoming() {
            connections.fetch_add(1, Ordering::SeqCst);
            let session = ServerConnection::new(config.clone()).unwrap();
            let stream = StreamOwned::new(session, socket.unwrap());
            let requests = requests.clone();
            thread::spawn(move || converse(stream, body, &requests));
        }
    });
    server
}

fn converse(
    mut stream: StreamOwned<ServerConnection, TcpStream>,
    body: usize,
    requests: &AtomicU64,
) {
    stream.sock.set_nodelay(true).unwrap();
    let answer = [head(body).into_bytes(), vec![b'x'; body]].concat();
    let mut asked = Vec::new();
    let mut piece = [0; 1000];
    loop {
        match stream.read(&mut piece) {
            Ok(0) | Err(_) => return,
            Ok(count) => asked.extend_from_slice(&piece[..count]),
        }
        if !asked.ends_with(b"\r\n\r\n") {
            continue;
        }
        requests.fetch_add(1, Ordering::SeqCst);
        let closes = asked.windows(5).any(|word| word == b"close");
        asked.clear();
        if stream.write_all(&answer).is_err() {
            return;
        }
        if closes {
            stream.conn.send_close_notify();
            let _ = stream.flush();
            return;
        }
    }
}

/// A server without TLS: sends this after the first bytes, and waits.
fn in_clear(answer: &'static [u8]) -> SocketAddr {
    let listener = TcpListener::bind("127.0.0.1:0").unwrap();
    let address = listener.local_addr().unwrap();
    thread::spawn(move || {
        for socket in listener.incoming() {
            thread::spawn(move || {
                let mut socket = socket.unwrap();
                let mut piece = [0; 4096];
                while socket.read(&mut piece).is_ok_and(|count| count > 0) {
                    let _ = socket.write_all(answer);
                }
            });
        }
    });
    address
}
