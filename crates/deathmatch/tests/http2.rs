//! The generator's HTTP/2 against servers made with the library h2, and against some that violate
//! the protocol.

#![allow(clippy::unwrap_used)] // the servers' threads are tests too

mod scripted;

use std::net::{SocketAddr, TcpListener};
use std::sync::Arc;
use std::sync::atomic::{AtomicU64, Ordering};
use std::thread;
use std::time::Duration;

use bytes::Bytes;
use deathmatch::load::{Client, Expected, Job, Tls, http2_request, marks, run};
use deathmatch::sample::{ConnectionUse, Errors, Load, Mark, Offered, Version};
use deathmatch::tls::{Identity, Protocol};
use h2::server::{Connection, SendResponse};
use http::{Request, Response};
use rustls::ServerConfig;
use rustls::crypto::aws_lc_rs;
use rustls::pki_types::pem::PemObject;
use rustls::pki_types::{CertificateDer, PrivateKeyDer};
use scripted::folder;
use tokio::io::AsyncWriteExt as _;
use tokio_rustls::TlsAcceptor;
use tokio_rustls::server::TlsStream;

type Socket = TlsStream<tokio::net::TcpStream>;

const OPEN: Offered = Offered::Open { rate: 300.0, poisson: false, connections: 2 };
const CLOSED: Offered = Offered::Closed { connections: 2 };

/// Larger than every window.
const LARGE: usize = 40_000_000;

#[test]
fn requests_are_answered_on_streams_and_counted_once() {
    let identity = Identity::within(&folder("h2-streams")).unwrap();
    for (offered, streams) in [(CLOSED, 1), (CLOSED, 10), (CLOSED, 100), (OPEN, 10)] {
        let server = serve(&identity, Reaction::Answer(5));
        let job = job(&identity, &server, offered, streams, 5);
        let load = run(&job).unwrap();
        let what = format!("{streams} streams, {offered:?}: {load:?}");
        assert!(is_whole(&load) && load.errors == Errors::default(), "{what}");
        assert_eq!(load.replies, server.requests.load(Ordering::SeqCst), "{what}");
        assert_eq!(load.handshakes.full, 2, "{what}");
        let most = server.at_once.load(Ordering::SeqCst);
        assert!(most <= u64::from(streams), "no more at once than asked for: {most}, {what}");
        if offered == CLOSED {
            assert_eq!(most, u64::from(streams), "{what}");
        }
        assert_eq!(load.response.count(), load.replies, "{what}");
    }
}

#[test]
fn a_page_has_a_connection_of_its_own_and_counts_once() {
    let identity = Identity::within(&folder("h2-page")).unwrap();
    let server = serve(&identity, Reaction::Answer(5));
    let over = Some(ConnectionUse::Page { version: Version::Http2, files: 7 });
    let load = run(&Job { over, ..job(&identity, &server, CLOSED, 1, 5) }).unwrap();
    assert!(is_whole(&load) && load.errors == Errors::default(), "{load:?}");
    assert_eq!(7 * load.replies, server.requests.load(Ordering::SeqCst), "{load:?}");
    assert_eq!(load.handshakes.full, load.replies, "{load:?}");
    assert_eq!(server.at_once.load(Ordering::SeqCst), 7, "all files at once: {load:?}");
}

#[test]
fn bodies_larger_than_the_windows_come_whole() {
    let identity = Identity::within(&folder("h2-large")).unwrap();
    let server = serve(&identity, Reaction::Answer(LARGE));
    let whole = Job {
        duration: Duration::from_millis(1),
        ..job(&identity, &server, Offered::Closed { connections: 1 }, 3, LARGE)
    };
    let load = run(&whole).unwrap();
    assert_eq!((load.intended, load.replies), (3, 3), "{load:?}");
    assert!(load.bytes >= 3 * LARGE as u64, "{load:?}");
}

#[test]
fn faults_are_counted_by_kind() {
    let identity = Identity::within(&folder("h2-faults")).unwrap();
    let http2 = |n| Errors { http2: n, ..Errors::default() };
    let status = |n| Errors { status: n, ..Errors::default() };
    let bytes = |n| Errors { bytes: n, ..Errors::default() };
    let timeout = |n| Errors { timeout: n, ..Errors::default() };
    let tls = |n| Errors { tls: n, ..Errors::default() };
    type Row = (&'static str, Reaction, fn(u64) -> Errors);
    let rows: [Row; 9] = [
        ("another status", Reaction::Status(416), status),
        ("too short", Reaction::Answer(4), bytes),
        ("too long", Reaction::Answer(6), bytes),
        ("every stream is reset", Reaction::Reset, http2),
        ("going away", Reaction::GoAway, http2),
        ("fewer streams than wanted", Reaction::FewStreams, http2),
        ("no frames", Reaction::Garbage, http2),
        ("no answer", Reaction::Silence, timeout),
        ("another protocol agreed on", Reaction::Http1, tls),
    ];
    for (name, then, want) in rows {
        for offered in [CLOSED, OPEN] {
            let server = serve(&identity, then);
            let ms = if matches!(then, Reaction::Silence) { 100 } else { 5000 };
            let timeout = Duration::from_millis(ms);
            let job = Job { timeout, ..job(&identity, &server, offered, 4, 5) };
            let load = run(&job).unwrap();
            assert!(is_whole(&load), "{name}, {offered:?}: {load:?}");
            assert_eq!(load.errors, want(load.intended), "{name}, {offered:?}: {load:?}");
        }
    }
}

#[test]
fn failed_streams_do_not_stop_the_others() {
    let identity = Identity::within(&folder("h2-some")).unwrap();
    let server = serve(&identity, Reaction::ResetSome);
    let load = run(&job(&identity, &server, OPEN, 4, 5)).unwrap();
    assert!(is_whole(&load), "{load:?}");
    assert!(load.errors.http2 > 0 && load.replies > load.errors.http2, "{load:?}");
    assert_eq!(load.errors.total(), load.errors.http2, "{load:?}");
    assert_eq!(load.handshakes.full, 2, "the connections stayed: {load:?}");
}

#[test]
fn in_a_closed_loop_every_stream_always_has_a_request() {
    let identity = Identity::within(&folder("h2-little")).unwrap();
    let server = serve(&identity, Reaction::Answer(5));
    let job = job(&identity, &server, CLOSED, 10, 5);
    let load = |replies: u64, ms: u64| {
        let mut load = Load { seconds: 1.0, replies, ..Load::default() };
        (0..replies).for_each(|_| load.response.record(ms * 1_000_000));
        load
    };
    // Little's law for two connections with ten streams each.
    assert_eq!(marks(&job, &load(1000, 20)), [], "20 = 1000/s x 20 ms");
    assert_eq!(marks(&job, &load(100, 20)), [Mark::LittlesLaw], "20 is not 100/s x 20 ms");
}

fn job(identity: &Identity, server: &Server, offered: Offered, streams: u32, body: usize) -> Job {
    Job {
        target: server.address,
        client: Client::default(),
        requests: vec![http2_request("localhost", "/a/path?of=some+length")],
        bodies: Vec::new(),
        order: Vec::new(),
        expected: Expected { status: 200, body_bytes: body as u64, body: Some(vec![b'x'; body]) },
        offered,
        tls: Some(Tls::new(&identity.trust, None, Protocol::Http2).unwrap()),
        over: Some(ConnectionUse::Streams(streams)),
        beside: None,
        draw: 0,
        warm_up: Duration::ZERO,
        duration: Duration::from_millis(200),
        timeout: Duration::from_secs(20),
        stop: Arc::default(),
    }
}

fn is_whole(load: &Load) -> bool {
    load.intended > 0 && load.intended == load.replies + load.errors.total()
}

/// A server's reaction to a request.
#[derive(Clone, Copy, Debug)]
enum Reaction {
    /// A body of so many bytes.
    Answer(usize),
    Status(u16),
    Reset,
    /// Every third response.
    ResetSome,
    GoAway,
    FewStreams,
    Garbage,
    Silence,
    Http1,
}

struct Server {
    address: SocketAddr,
    requests: Arc<AtomicU64>,
    /// The largest number of concurrent requests on one connection.
    at_once: Arc<AtomicU64>,
}

/// A thread, with a task for every connection and every request.
fn serve(identity: &Identity, then: Reaction) -> Server {
    let certificate = CertificateDer::from_pem_file(&identity.certificate).unwrap();
    let key = PrivateKeyDer::from_pem_file(&identity.key).unwrap();
    let mut config = ServerConfig::builder_with_provider(Arc::new(aws_lc_rs::default_provider()))
        .with_safe_default_protocol_versions()
        .unwrap()
        .with_no_client_auth()
        .with_single_cert(vec![certificate], key)
        .unwrap();
    if !matches!(then, Reaction::Http1) {
        config.alpn_protocols = vec![b"h2".to_vec()];
    }
    let acceptor = TlsAcceptor::from(Arc::new(config));
    let listener = TcpListener::bind("127.0.0.1:0").unwrap();
    let server = Server {
        address: listener.local_addr().unwrap(),
        requests: Arc::default(),
        at_once: Arc::default(),
    };
    let (requests, at_once) = (server.requests.clone(), server.at_once.clone());
    thread::spawn(move || {
        let runtime = tokio::runtime::Builder::new_current_thread().enable_all().build().unwrap();
        runtime.block_on(async move {
            listener.set_nonblocking(true).unwrap();
            let listener = tokio::net::TcpListener::from_std(listener).unwrap();
            loop {
                let (socket, _) = listener.accept().await.unwrap();
                let (acceptor, requests) = (acceptor.clone(), requests.clone());
                let at_once = at_once.clone();
                tokio::spawn(async move {
                    if let Ok(socket) = acceptor.accept(socket).await {
                        converse(socket, then, requests, at_once).await;
                    }
                });
            }
        });
    });
    server
}

async fn converse(
    mut socket: Socket,
    then: Reaction,
    requests: Arc<AtomicU64>,
    at_once: Arc<AtomicU64>,
) {
    if matches!(then, Reaction::Garbage) {
        let _ = socket.write_all(b"HTTP/1.1 400 Bad Request\r\n\r\n").await;
        let _ = socket.flush().await;
        return std::future::pending().await;
    }
    let mut builder = h2::server::Builder::new();
    builder.max_concurrent_streams(if matches!(then, Reaction::FewStreams) { 3 } else { 100 });
    let Ok(mut connection): Result<Connection<Socket, Bytes>, _> = builder.handshake(socket).await
    else {
        return;
    };
    let now = Arc::new(AtomicU64::new(0));
    while let Some(Ok((request, respond))) = connection.accept().await {
        let number = requests.fetch_add(1, Ordering::SeqCst);
        at_once.fetch_max(now.fetch_add(1, Ordering::SeqCst) + 1, Ordering::SeqCst);
        if matches!(then, Reaction::GoAway) {
            connection.abrupt_shutdown(h2::Reason::NO_ERROR);
            continue;
        }
        let now = now.clone();
        tokio::spawn(async move {
            answer(&request, respond, then, number, &now).await;
        });
    }
}

async fn answer(
    request: &Request<h2::RecvStream>,
    mut respond: SendResponse<Bytes>,
    then: Reaction,
    number: u64,
    now: &AtomicU64,
) {
    assert_eq!(request.uri(), "https://localhost/a/path?of=some+length");
    assert_eq!(request.headers()["user-agent"], "deathmatch");
    let (status, length) = match then {
        Reaction::ResetSome if number.is_multiple_of(3) => {
            now.fetch_sub(1, Ordering::SeqCst);
            return respond.send_reset(h2::Reason::INTERNAL_ERROR);
        }
        Reaction::Reset => {
            now.fetch_sub(1, Ordering::SeqCst);
            return respond.send_reset(h2::Reason::INTERNAL_ERROR);
        }
        Reaction::Silence => return std::future::pending().await,
        Reaction::Answer(length) => (200, length),
        Reaction::Status(status) => (status, 5),
        _ => (200, 5),
    };
    // A pause, so that requests overlap.
    tokio::task::yield_now().await;
    now.fetch_sub(1, Ordering::SeqCst);
    // Some fields that stay in the table, and one that changes each time.
    let head = Response::builder()
        .status(status)
        .header("server", "a server of this test")
        .header("etag", format!("\"{number:x}\""))
        .header("x-spelled-out", "yes");
    let Ok(mut stream) = respond.send_response(head.body(()).unwrap(), false) else { return };
    let _ = stream.send_data(Bytes::from(vec![b'x'; length]), true);
}
