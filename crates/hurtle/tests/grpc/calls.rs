//! Errors of the proxy as statuses of calls.

use std::io::Read as _;
use std::sync::atomic::{AtomicBool, Ordering::SeqCst};
use std::time::{Duration, Instant};

use bytes::Bytes;
use h2::RecvStream;
use h2::server::SendResponse;
use http::{HeaderMap, Request, Response};

use crate::library::{Upstream, call, call_head, framed, read, talk, whole};
use crate::refused::{accept, ok};
use crate::support::{self, NOBODY, Proxy};
use crate::wire::*;

/// The answer of the health service.
static SERVING: AtomicBool = AtomicBool::new(true);

/// Answers by the path.
async fn answer(mut request: Request<RecvStream>, mut respond: SendResponse<Bytes>) {
    let path = request.uri().path().to_owned();
    let head = || Response::builder().header("content-type", "application/grpc");
    match path.as_str() {
        // Trailers-Only: the head ends the stream.
        "/only" => {
            let head = head().header("grpc-status", "9").body(()).unwrap();
            respond.send_response(head, true).unwrap();
        }
        "/cut" => {
            let mut body = respond.send_response(head().body(()).unwrap(), false).unwrap();
            body.send_data(framed(b"first"), false).unwrap();
            // The proxy has read the message, since its client has answered it.
            let _ = request.body_mut().data().await;
            let _ = request.body_mut().data().await;
            body.send_reset(h2::Reason::CANCEL);
        }
        "/reset" => respond.send_reset(h2::Reason::ENHANCE_YOUR_CALM),
        "/never" => std::future::pending().await,
        "/grpc.health.v1.Health/Check" => {
            let sent = read(request.body_mut()).await.unwrap();
            assert_eq!(sent, [0; 5], "an empty message");
            let mut body = respond.send_response(head().body(()).unwrap(), false).unwrap();
            let serving = if SERVING.load(SeqCst) { 1 } else { 2 };
            body.send_data(framed(&[8, serving]), false).unwrap();
            let mut trailers = HeaderMap::new();
            trailers.insert("grpc-status", "0".parse().unwrap());
            body.send_trailers(trailers).unwrap();
        }
        _ => {
            let timeout = request.headers().get("grpc-timeout").cloned();
            let mut body = respond.send_response(head().body(()).unwrap(), false).unwrap();
            body.send_data(framed(b"reply"), false).unwrap();
            let mut trailers = HeaderMap::new();
            trailers.insert("grpc-status", "0".parse().unwrap());
            if let Some(timeout) = timeout {
                trailers.insert("x-timeout", timeout);
            }
            body.send_trailers(trailers).unwrap();
        }
    }
}

fn proxy(upstream: &Upstream, keys: &str) -> Proxy {
    Proxy::of("", &format!("proxy = \"h2c://{}\"\n{keys}", upstream.address))
}

#[test]
fn trailers_and_trailers_only_are_relayed() {
    let upstream = Upstream::start(100, answer);
    let proxy = proxy(&upstream, "");
    let reply = call(proxy.address, "/any", b"ask");
    assert_eq!((&reply.body[..], reply.grpc_status()), (&framed(b"reply")[..], Some("0")));
    assert!(!reply.head.headers.contains_key("grpc-status"));
    let stream_ended = talk(proxy.address, async |client| {
        let mut client = client.ready().await.unwrap();
        let (response, mut body) = client.send_request(call_head("/only"), false).unwrap();
        body.send_data(framed(b""), false).unwrap();
        let response = response.await.unwrap();
        assert_eq!(response.headers()["grpc-status"], "9");
        response.body().is_end_stream()
    });
    assert!(stream_ended, "the head ends the stream, although the request has not ended");
}

#[test]
fn grpc_timeout_reaches_the_upstream() {
    let upstream = Upstream::start(100, answer);
    let proxy = proxy(&upstream, "");
    let reply = talk(proxy.address, async |client| {
        let mut client = client.ready().await.unwrap();
        let mut head = call_head("/any");
        head.headers_mut().insert("grpc-timeout", "5S".parse().unwrap());
        let (response, _) = client.send_request(head, true).unwrap();
        whole(response.await.unwrap()).await.unwrap()
    });
    assert_eq!(reply.trailers["x-timeout"], "5S");
}

#[test]
fn errors_of_the_proxy_are_statuses() {
    let down = Proxy::of("", &format!("proxy = \"h2c://{NOBODY}\""));
    let upstream = Upstream::start(100, answer);
    let slow = proxy(&upstream, "first_byte_timeout = \"300ms\"");
    let closed = proxy(&upstream, "deny = \"127.0.0.1\"");
    for (sentence, proxy, path, status) in [
        ("no connection: UNAVAILABLE", &down, "/any", "14"),
        ("no response: DEADLINE_EXCEEDED", &slow, "/never", "4"),
        ("a reset stream: RESOURCE_EXHAUSTED", &slow, "/reset", "8"),
        ("not allowed: PERMISSION_DENIED", &closed, "/any", "7"),
    ] {
        let reply = call(proxy.address, path, b"ask");
        assert_eq!(reply.head.status, 200, "{sentence}");
        assert_eq!(reply.head.headers["content-type"], "application/grpc", "{sentence}");
        assert_eq!(reply.head.headers["grpc-status"], status, "{sentence}");
        assert!(reply.head.headers.contains_key("grpc-message"), "{sentence}");
        assert!(reply.body.is_empty(), "{sentence}");
    }
    let mut client = down.send("GET / HTTP/1.1\r\nHost: a\r\n\r\n");
    assert!(client.head().starts_with("HTTP/1.1 502"), "another request than a call");
}

#[test]
fn the_health_service_is_asked_by_a_call() {
    let upstream = Upstream::start(100, answer);
    let keys = "health = \"/grpc.health.v1.Health/Check\"\nhealth_interval = \"50ms\"";
    let proxy = proxy(&upstream, keys);
    let wait_for = |status: &str| {
        let begun = Instant::now();
        while call(proxy.address, "/any", b"ask").grpc_status() != Some(status) {
            assert!(begun.elapsed() < Duration::from_secs(30), "never {status}");
        }
    };
    wait_for("0");
    SERVING.store(false, SeqCst);
    wait_for("14");
    SERVING.store(true, SeqCst);
    wait_for("0");
}

#[test]
fn a_response_that_is_cut_short_ends_with_a_status() {
    let upstream = Upstream::start(100, answer);
    let proxy = proxy(&upstream, "");
    let reply = talk(proxy.address, async |client| {
        let mut client = client.ready().await.unwrap();
        let (response, mut body) = client.send_request(call_head("/cut"), false).unwrap();
        body.send_data(framed(b"ask"), false).unwrap();
        let mut response = response.await.unwrap();
        let first = response.body_mut().data().await.unwrap().unwrap();
        assert_eq!(first, framed(b"first"));
        body.send_data(framed(b"seen"), true).unwrap();
        whole(response).await.unwrap()
    });
    assert_eq!(reply.grpc_status(), Some("1"), "CANCELLED");
}

/// HEADERS left alone, and DATA in another write, because the connection's task ran between them.
#[test]
fn the_head_and_the_message_of_a_call_leave_together() {
    let upstream = support::Upstream::new();
    let proxy = Proxy::of("", &format!("proxy = \"h2c://{}\"", upstream.address));
    let mut client = Wire::begin(proxy.address, &[]);
    let call = |stream| {
        let fields = [
            (":method", "POST"),
            (":scheme", "http"),
            (":authority", "a"),
            (":path", "/a.B/C"),
            ("content-type", "application/grpc"),
        ];
        let head = frame(HEADERS, END_HEADERS, stream, &block(&fields));
        [head, frame(DATA, END_STREAM, stream, &framed(b"message"))].concat()
    };
    client.send(&call(1));
    let mut peer = accept(&upstream);
    peer.next_of(DATA);
    peer.send(&ok(1));
    client.next_of(DATA);
    for stream in (3..103).step_by(2) {
        client.send(&call(stream));
        let mut piece = [0; 16 << 10];
        let len = peer.socket.read(&mut piece).unwrap();
        assert_eq!(kinds(&piece[..len]), [HEADERS, DATA], "of one read");
        peer.send(&ok(stream));
        client.next_of(DATA);
    }
}

/// The kinds of complete frames.
fn kinds(mut frames: &[u8]) -> Vec<u8> {
    let mut kinds = Vec::new();
    while let [a, b, c, kind, rest @ ..] = frames {
        kinds.push(*kind);
        let len = u32::from_be_bytes([0, *a, *b, *c]) as usize;
        frames = &rest[5 + len..];
    }
    kinds
}
