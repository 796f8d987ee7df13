//! The generator's HTTP/3 against servers made with the libraries h3 and quinn, and against some
//! that violate the protocol.

#![allow(clippy::unwrap_used)] // the servers' threads are tests too

mod scripted;

use std::net::{SocketAddr, UdpSocket};
use std::sync::Arc;
use std::sync::atomic::{AtomicU64, Ordering};
use std::thread;
use std::time::Duration;

use bytes::Bytes;
use deathmatch::load::{
    Client, Expected, Job, Kept, RequestFields, Tls, http3_request, marks, reach_http3, run,
};
use deathmatch::sample::{ConnectionUse, Errors, Load, Mark, Offered, Version};
use deathmatch::tls::{Identity, Protocol};
use deathmatch::verify::verify_http3;
use http::Response;
use quinn::crypto::rustls::QuicServerConfig;
use quinn::{Endpoint, ServerConfig, TransportConfig};
use rustls::crypto::aws_lc_rs;
use rustls::pki_types::pem::PemObject;
use rustls::pki_types::{CertificateDer, PrivateKeyDer};
use scripted::folder;

const OPEN: Offered = Offered::Open { rate: 300.0, poisson: false, connections: 2 };
const CLOSED: Offered = Offered::Closed { connections: 2 };

/// Larger than every window.
const LARGE: usize = 40_000_000;

#[test]
fn bodies_are_sent_whole_as_windows_allow() {
    let identity = Identity::within(&folder("h3-bodies")).unwrap();
    // More than a stream's window, and no byte.
    for (length, streams) in [(3_000_000, 1), (400_000, 10), (0, 10)] {
        // Four bodies of 400,000 bytes fill the connection's window.
        let server = serve(&identity, Reaction::Measure);
        let job = job(&identity, &server, CLOSED, ConnectionUse::Http3(streams), length);
        let load = run(&Job { bodies: vec![Bytes::from(vec![b'x'; length])], ..job }).unwrap();
        assert!(is_whole(&load) && load.errors == Errors::default(), "{length}: {load:?}");
        assert_eq!(load.replies, server.requests.load(Ordering::SeqCst), "{length}: {load:?}");
    }
    // A server that resets the stream before it has the body.
    let server = serve(&identity, Reaction::Reset);
    let job = job(&identity, &server, CLOSED, ConnectionUse::Http3(1), 5);
    let load = run(&Job { bodies: vec![Bytes::from(vec![b'x'; 3_000_000])], ..job }).unwrap();
    assert!(load.errors.http2 > 0 && load.replies == 0, "{load:?}");
}

#[test]
fn requests_are_answered_on_streams_and_counted_once() {
    let identity = Identity::within(&folder("h3-streams")).unwrap();
    for (offered, streams) in [(CLOSED, 1), (CLOSED, 10), (CLOSED, 100), (OPEN, 10)] {
        let server = serve(&identity, Reaction::Answer(5));
        let job = job(&identity, &server, offered, ConnectionUse::Http3(streams), 5);
        let load = run(&job).unwrap();
        let what = format!("{streams} streams, {offered:?}: {load:?}");
        assert!(is_whole(&load) && load.errors == Errors::default(), "{what}");
        assert_eq!(load.replies, server.requests.load(Ordering::SeqCst), "{what}");
        assert_eq!(load.handshakes.full, 2, "{what}");
        assert_eq!(server.connections.load(Ordering::SeqCst), 2, "{what}");
        let most = server.at_once.load(Ordering::SeqCst);
        assert!(most <= u64::from(streams), "no more at once than asked for: {most}, {what}");
        assert_eq!(load.response.count(), load.replies, "{what}");
    }
}

#[test]
fn a_page_has_a_connection_of_its_own_and_counts_once() {
    let identity = Identity::within(&folder("h3-page")).unwrap();
    let over = ConnectionUse::Page { version: Version::Http3, files: 7 };
    let server = serve(&identity, Reaction::Answer(5));
    let whole = job(&identity, &server, CLOSED, over, 5);
    let load = run(&whole).unwrap();
    assert!(is_whole(&load) && load.errors == Errors::default(), "{load:?}");
    assert_eq!(7 * load.replies, server.requests.load(Ordering::SeqCst), "{load:?}");
    assert_eq!(load.replies, server.connections.load(Ordering::SeqCst), "{load:?}");
    assert_eq!(load.handshakes.full, load.replies, "{load:?}");
    assert_eq!(load.response.count(), load.replies, "{load:?}");
    assert!(marks(&whole, &load).iter().all(|mark| *mark != Mark::LittlesLaw), "{load:?}");
    let server = serve(&identity, Reaction::Status(404));
    let load = run(&job(&identity, &server, CLOSED, over, 5)).unwrap();
    assert!(is_whole(&load) && load.replies == 0, "one wrong file fails its page: {load:?}");
    assert_eq!(load.errors.status, load.intended, "{load:?}");
}

#[test]
fn bodies_larger_than_the_windows_come_whole() {
    let identity = Identity::within(&folder("h3-large")).unwrap();
    let server = serve(&identity, Reaction::Answer(LARGE));
    let whole = Job {
        duration: Duration::from_millis(1),
        expected: Expected { status: 200, body_bytes: LARGE as u64, body: Some(vec![b'x'; LARGE]) },
        ..job(
            &identity,
            &server,
            Offered::Closed { connections: 1 },
            ConnectionUse::Http3(3),
            LARGE,
        )
    };
    let load = run(&whole).unwrap();
    assert_eq!((load.intended, load.replies), (3, 3), "{load:?}");
    assert!(load.bytes >= 3 * LARGE as u64, "{load:?}");
}

#[test]
fn every_request_has_a_handshake_of_its_own() {
    let identity = Identity::within(&folder("h3-anew")).unwrap();
    let server = serve(&identity, Reaction::Answer(5));
    let job = job(&identity, &server, CLOSED, ConnectionUse::Http3Anew, 5);
    let mut kept = Kept::new(&job).unwrap();
    let mut replies = 0;
    for _ in 0..2 {
        let load = kept.slice(Duration::from_millis(200)).unwrap();
        assert!(load.replies > 2 && load.errors == Errors::default(), "{load:?}");
        assert_eq!(load.handshakes.full, load.replies, "{load:?}");
        assert!(marks(&job, &load).iter().all(|mark| *mark != Mark::OtherHandshakes), "{load:?}");
        replies += load.replies;
        assert_eq!(server.connections.load(Ordering::SeqCst), replies, "{load:?}");
    }
}

#[test]
fn connections_are_kept_between_slices() {
    let identity = Identity::within(&folder("h3-kept")).unwrap();
    let server = serve(&identity, Reaction::Answer(5));
    let job = job(&identity, &server, CLOSED, ConnectionUse::Http3(10), 5);
    let mut kept = Kept::new(&job).unwrap();
    for _ in 0..3 {
        let load = kept.slice(Duration::from_millis(100)).unwrap();
        assert!(is_whole(&load) && load.errors == Errors::default(), "{load:?}");
    }
    assert_eq!(server.connections.load(Ordering::SeqCst), 2);
}

#[test]
fn faults_are_counted_by_kind() {
    let identity = Identity::within(&folder("h3-faults")).unwrap();
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
        ("a control stream without SETTINGS", Reaction::NoSettings, http2),
        ("no answer", Reaction::Silence, timeout),
        ("another protocol", Reaction::OtherProtocol, tls),
    ];
    for (name, then, want) in rows {
        for offered in [CLOSED, OPEN] {
            let server = serve(&identity, then);
            let ms = if matches!(then, Reaction::Silence) { 100 } else { 5000 };
            let timeout = Duration::from_millis(ms);
            let over = ConnectionUse::Http3(4);
            let job = Job { timeout, ..job(&identity, &server, offered, over, 5) };
            let load = run(&job).unwrap();
            assert!(is_whole(&load), "{name}, {offered:?}: {load:?}");
            // At a low rate some requests are alone on their connection, perhaps all.
            let is_rare = matches!(then, Reaction::FewStreams) && offered == OPEN;
            let failed = if is_rare { load.errors.http2 } else { load.intended };
            assert!(is_rare || failed > 0, "{name}, {offered:?}: {load:?}");
            assert_eq!(load.errors, want(failed), "{name}, {offered:?}: {load:?}");
        }
    }
}

#[test]
fn a_server_that_is_not_there_is_refused() {
    let identity = Identity::within(&folder("h3-refused")).unwrap();
    let free = UdpSocket::bind("127.0.0.1:0").unwrap();
    let address = free.local_addr().unwrap();
    drop(free);
    let tls = Tls::new(&identity.trust, None, Protocol::Http3).unwrap();
    assert!(reach_http3(address, &tls, Duration::from_secs(5)).is_err());
    let server = serve(&identity, Reaction::Answer(5));
    reach_http3(server.address, &tls, Duration::from_secs(20)).unwrap();
    let other = Identity::within(&folder("h3-other-certificate")).unwrap();
    let tls = Tls::new(&other.trust, None, Protocol::Http3).unwrap();
    let why = reach_http3(server.address, &tls, Duration::from_secs(20)).unwrap_err().to_string();
    assert!(why.contains("certificate"), "{why}");
}

#[test]
fn files_are_verified_byte_by_byte() {
    let identity = Identity::within(&folder("h3-verify")).unwrap();
    let file = |text: &'static [u8]| text;
    let server = serve(&identity, Reaction::Answer(5));
    let verify = |bytes| verify_http3(server.address, &identity.trust, "/a.txt", bytes);
    let verified = verify(file(b"xxxxx")).unwrap();
    assert_eq!(verified.content_type, "text/plain");
    for (wrong, why) in [(file(b"xxxx"), "Content-Length"), (file(b"xxyxx"), "byte 2")] {
        let said = verify(wrong).unwrap_err().to_string();
        assert!(said.contains(why), "{said}");
    }
    let server = serve(&identity, Reaction::Status(404));
    let said = verify_http3(server.address, &identity.trust, "/a.txt", b"xxxxx").unwrap_err();
    assert!(said.to_string().contains("404"), "{said}");
}

fn is_whole(load: &Load) -> bool {
    load.intended > 0 && load.intended == load.replies + load.errors.total()
}

fn job(
    identity: &Identity,
    server: &Server,
    offered: Offered,
    over: ConnectionUse,
    length: usize,
) -> Job {
    let fields = RequestFields {
        method: "GET",
        is_secure: true,
        authority: "localhost",
        path: "/a.txt",
        fields: &[],
    };
    Job {
        target: server.address,
        client: Client::default(),
        requests: vec![http3_request(&fields)],
        bodies: Vec::new(),
        order: Vec::new(),
        expected: Expected { status: 200, body_bytes: length as u64, body: None },
        offered,
        tls: Some(Tls::new(&identity.trust, None, Protocol::Http3).unwrap()),
        over: Some(over),
        beside: None,
        draw: 0,
        warm_up: Duration::ZERO,
        duration: Duration::from_millis(200),
        timeout: Duration::from_secs(60),
        stop: Arc::default(),
    }
}

/// A server's reaction to each request.
#[derive(Clone, Copy, Debug)]
enum Reaction {
    /// 200, with a body of so many bytes.
    Answer(usize),
    /// 200, with as many bytes as the request's body had.
    Measure,
    Status(u16),
    Reset,
    GoAway,
    FewStreams,
    NoSettings,
    Silence,
    OtherProtocol,
}

struct Server {
    address: SocketAddr,
    requests: Arc<AtomicU64>,
    connections: Arc<AtomicU64>,
    /// Most requests at once on a connection.
    at_once: Arc<AtomicU64>,
}

type Stream = h3::server::RequestStream<h3_quinn::BidiStream<Bytes>, Bytes>;

/// Starts a server on a thread, which ends with the process.
fn serve(identity: &Identity, then: Reaction) -> Server {
    let certificate = CertificateDer::from_pem_file(&identity.certificate).unwrap();
    let key = PrivateKeyDer::from_pem_file(&identity.key).unwrap();
    let provider = Arc::new(aws_lc_rs::default_provider());
    let mut tls = rustls::ServerConfig::builder_with_provider(provider)
        .with_protocol_versions(&[&rustls::version::TLS13])
        .unwrap()
        .with_no_client_auth()
        .with_single_cert(vec![certificate], key)
        .unwrap();
    let protocol = if matches!(then, Reaction::OtherProtocol) { b"hq" } else { b"h3" };
    tls.alpn_protocols = vec![protocol.to_vec()];
    let mut config = ServerConfig::with_crypto(Arc::new(QuicServerConfig::try_from(tls).unwrap()));
    let mut transport = TransportConfig::default();
    let streams: u32 = if matches!(then, Reaction::FewStreams) { 2 } else { 100 };
    transport.max_concurrent_bidi_streams(streams.into());
    if matches!(then, Reaction::Measure) {
        transport.receive_window(1_000_000_u32.into());
        transport.stream_receive_window(256_000_u32.into());
    }
    config.transport_config(Arc::new(transport));
    let (requests, connections, at_once) = (Arc::default(), Arc::default(), Arc::default());
    let server = Server {
        address: ([127, 0, 0, 1], 0).into(),
        requests: Arc::clone(&requests),
        connections: Arc::clone(&connections),
        at_once: Arc::clone(&at_once),
    };
    let (told, address) = std::sync::mpsc::channel();
    thread::spawn(move || {
        let runtime = tokio::runtime::Builder::new_current_thread().enable_all().build().unwrap();
        runtime.block_on(async {
            let endpoint = Endpoint::server(config, ([127, 0, 0, 1], 0).into()).unwrap();
            told.send(endpoint.local_addr().unwrap()).unwrap();
            while let Some(incoming) = endpoint.accept().await {
                let (requests, at_once) = (Arc::clone(&requests), Arc::clone(&at_once));
                let connections = Arc::clone(&connections);
                tokio::spawn(async move {
                    let Ok(connection) = incoming.await else { return };
                    connections.fetch_add(1, Ordering::SeqCst);
                    answer(connection, then, &requests, &at_once).await;
                });
            }
        });
    });
    Server { address: address.recv().unwrap(), ..server }
}

async fn answer(
    connection: quinn::Connection,
    then: Reaction,
    requests: &Arc<AtomicU64>,
    at_once: &Arc<AtomicU64>,
) {
    if matches!(then, Reaction::NoSettings) {
        let mut control = connection.open_uni().await.unwrap();
        // GOAWAY on a control stream.
        control.write_all(&[0, 7, 1, 0]).await.unwrap();
        connection.closed().await;
        return;
    }
    let connection = h3_quinn::Connection::new(connection);
    let Ok(mut connection) = h3::server::Connection::new(connection).await else { return };
    if matches!(then, Reaction::GoAway) {
        let _ = connection.shutdown(0).await;
    }
    let now = Arc::new(AtomicU64::new(0));
    while let Ok(Some(resolver)) = connection.accept().await {
        let (now, requests, at_once) =
            (Arc::clone(&now), Arc::clone(requests), Arc::clone(at_once));
        tokio::spawn(async move {
            let Ok((_, stream)) = resolver.resolve_request().await else { return };
            requests.fetch_add(1, Ordering::SeqCst);
            at_once.fetch_max(now.fetch_add(1, Ordering::SeqCst) + 1, Ordering::SeqCst);
            respond(stream, then, &now).await;
        });
    }
}

async fn respond(mut stream: Stream, then: Reaction, now: &AtomicU64) {
    let response = Response::builder().header("content-type", "text/plain");
    let (status, body) = match then {
        Reaction::Answer(length) => (200, length),
        Reaction::Measure => {
            let mut length = 0;
            while let Ok(Some(piece)) = stream.recv_data().await {
                length += bytes::Buf::remaining(&piece);
            }
            (200, length)
        }
        Reaction::Status(status) => (status, 5),
        Reaction::Reset => {
            now.fetch_sub(1, Ordering::SeqCst);
            return stream.stop_stream(h3::error::Code::H3_REQUEST_CANCELLED);
        }
        Reaction::Silence => std::future::pending().await,
        _ => (200, 5),
    };
    let response = response.status(status).header("content-length", body).body(()).unwrap();
    let _ = stream.send_response(response).await;
    // Before the client learns of the end.
    now.fetch_sub(1, Ordering::SeqCst);
    let _ = stream.send_data(Bytes::from(vec![b'x'; body])).await;
    let _ = stream.finish().await;
}
