//! Tests of WebSockets in mounted applications.

use std::io::{Read as _, Write as _};
use std::net::TcpStream;
use std::thread;
use std::time::{Duration, Instant};

use axum::Router;
use axum::extract::ws::{WebSocket, WebSocketUpgrade};
use axum::response::Response;
use axum::routing::any;
use hurtle::config::Config;

use crate::client::{Client, PATIENCE};
use crate::support::App;

// From the documentation of axum's `extract::ws`.

async fn handler(ws: WebSocketUpgrade) -> Response {
    ws.on_upgrade(handle_socket)
}

async fn handle_socket(mut socket: WebSocket) {
    while let Some(msg) = socket.recv().await {
        let msg = if let Ok(msg) = msg {
            msg
        } else {
            // client disconnected
            return;
        };

        if socket.send(msg).await.is_err() {
            // client disconnected
            return;
        }
    }
}

fn router() -> Router {
    Router::new()
        .route("/ws", any(handler))
        .route("/last", any(async |ws: WebSocketUpgrade| ws.on_upgrade(say_and_leave)))
        .route("/plain", any(async || "plain"))
}

/// Length of the last message of `say_and_leave`: more than a pipe in memory holds.
const LAST_BYTES: usize = 300_000;

/// Reads one message, answers it, and reads nothing else.
async fn say_and_leave(mut socket: WebSocket) {
    let _ = socket.recv().await;
    let _ = socket.send(vec![b'x'; LAST_BYTES].into()).await;
}

/// The key of the example in RFC 6455 1.2.
const HANDSHAKE: &str = "GET /a/ws HTTP/1.1\r\nHost: a\r\nConnection: keep-alive, Upgrade\r\n\
                         Upgrade: websocket\r\nSec-WebSocket-Version: 13\r\n\
                         Sec-WebSocket-Key: dGhlIHNhbXBsZSBub25jZQ==\r\n\r\n";

fn apps() -> [(&'static str, App); 2] {
    apps_with(|_| ())
}

fn apps_with(change: fn(&mut Config)) -> [(&'static str, App); 2] {
    let mounted = |server: hurtle::Server| server.mount("*", "/a", router()).unwrap();
    let isolated = |server: hurtle::Server| server.mount_isolated("*", "/a", router()).unwrap();
    [("mounted", App::mounted(change, mounted)), ("isolated", App::mounted(change, isolated))]
}

/// A client's data frame (RFC 6455 5.2), masked with zeros, with the longest form of the length.
fn frame(first: u8, data: &[u8]) -> Vec<u8> {
    let mut frame = vec![first, 0x80 | 127];
    frame.extend((data.len() as u64).to_be_bytes());
    frame.extend([0; 4]);
    frame.extend(data);
    frame
}

#[track_caller]
fn agreed(client: &mut Client, what: &str) {
    let head = client.head();
    assert!(head.starts_with("HTTP/1.1 101 Switching Protocols\n"), "{what}: {head}");
    for field in ["Connection: upgrade\n", "Upgrade: websocket\n", "s3pPLMBiTxaQ9kYGzzhZRbK+xOo=\n"]
    {
        assert_eq!(head.matches(field).count(), 1, "{what}: {field} in {head}");
    }
}

#[test]
fn axums_websocket_echoes() {
    for (what, app) in apps() {
        let mut client = app.connect();
        client.send([HANDSHAKE.as_bytes(), &frame(0x81, b"early")].concat());
        agreed(&mut client, what);
        assert_eq!(client.take(7), b"\x81\x05early", "{what}: what came with the request");
        client.send([0x81, 0x82, 0, 0, 0, 0, b'h', b'i']);
        assert_eq!(client.take(4), b"\x81\x02hi", "{what}");
        let large = vec![b'x'; 1_000_000];
        client.send(frame(0x82, &large));
        assert_eq!(client.take(10), [&[0x82, 127][..], &1_000_000u64.to_be_bytes()].concat());
        assert!(client.take(1_000_000) == large, "{what}: a large message");
        client.send([0x88, 0x82, 0, 0, 0, 0, 0x03, 0xe8]);
        assert_eq!(client.rest(), "", "{what}: the application is gone, and so is the connection");
    }
}

/// Regression: the last bytes of an application were lost if the client was sending meanwhile.
#[test]
fn the_last_message_of_an_application_arrives_while_the_client_goes_on_sending() {
    for (what, app) in apps() {
        let mut client = app.connect();
        client.send(HANDSHAKE.replace("/a/ws", "/a/last"));
        agreed(&mut client, what);
        let mut sending = client.stream.try_clone().unwrap();
        let sender = thread::spawn(move || {
            // The server may stop reading.
            let both = [frame(0x82, b"hi"), frame(0x82, &vec![b'y'; 4_000_000])].concat();
            let _ = sending.write_all(&both);
        });
        assert_eq!(client.take(10)[..2], [0x82, 127], "{what}");
        assert!(client.take(LAST_BYTES).iter().all(|byte| *byte == b'x'), "{what}");
        drop(client);
        sender.join().unwrap();
    }
}

#[test]
fn a_stop_leaves_a_websocket_its_drain_time_and_no_more() {
    for (what, app) in apps_with(|config| config.drain = Duration::from_millis(700)) {
        let mut client = app.connect();
        client.send(HANDSHAKE);
        agreed(&mut client, what);
        let begun = Instant::now();
        app.drain();
        client.send([0x81, 0x82, 0, 0, 0, 0, b'h', b'i']);
        assert_eq!(client.take(4), b"\x81\x02hi", "{what}: what is open goes on");
        client.expect_early_end(1, what);
        let took = begun.elapsed();
        let range = Duration::from_millis(690)..Duration::from_secs(5);
        assert!(range.contains(&took), "{what}: ended after {took:?}");
    }
}

#[test]
fn refused_upgrades_stay_http() {
    let plain = "GET /a/plain HTTP/1.1\r\nHost: a\r\n";
    let asking = format!("{plain}Connection: upgrade\r\nUpgrade: h2c\r\n\r\n");
    let without = HANDSHAKE.replace("Sec-WebSocket-Key", "X-Key");
    let alone = "GET /a/ws HTTP/1.1\r\nHost: a\r\n\r\n";
    for (what, app) in apps() {
        let mut client = app.connect();
        client.send(&asking);
        let (head, body) = client.answer();
        assert!(head.starts_with("HTTP/1.1 200"), "{what}: nobody has to agree: {head}");
        assert_eq!(body, "plain", "{what}");
        for (why, request) in [("a handshake without its key", &*without), ("none", alone)] {
            client.send(request);
            let (head, _) = client.answer();
            assert!(head.starts_with("HTTP/1.1 4"), "{what}, {why}: {head}");
        }
        client.send(format!("{plain}\r\n"));
        assert_eq!(client.answer().1, "plain", "{what}: the connection goes on");
    }
}

/// Regression: it kept its place for an hour.
#[test]
fn a_silent_client_of_an_application_that_has_left_is_not_kept() {
    let one = |config: &mut Config| config.limits.connections_per_address = Some(1);
    for (what, app) in apps_with(one) {
        let mut silent = app.connect();
        silent.send(HANDSHAKE.replace("/a/ws", "/a/last"));
        agreed(&mut silent, what);
        silent.send(frame(0x81, b"hi"));
        silent.take(LAST_BYTES);
        let begun = Instant::now();
        let is_served = || {
            let mut stream = TcpStream::connect(app.address()).unwrap();
            let request = b"GET /a/plain HTTP/1.1\r\nHost: a\r\nConnection: close\r\n\r\n";
            let mut got = Vec::new();
            let _ = stream.write_all(request).and_then(|()| stream.read_to_end(&mut got).map(drop));
            got.starts_with(b"HTTP/1.1 200")
        };
        while !is_served() {
            assert!(begun.elapsed() < PATIENCE, "{what}: the silent client is kept");
            thread::park_timeout(Duration::from_millis(50));
        }
        drop(silent);
    }
}
