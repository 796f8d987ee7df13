//! WebSockets to upstreams over HTTP/2 (RFC 8441): extended CONNECT on a stream, or HTTP/1.1 where
//! the upstream does not take it.

use std::future::poll_fn;
use std::io::{ErrorKind, Write as _};
use std::net::{SocketAddr, TcpStream};
use std::sync::atomic::{AtomicUsize, Ordering::SeqCst};
use std::time::Duration;

use bytes::Bytes;
use h2::RecvStream;
use h2::ext::Protocol;
use h2::server::{Builder, SendResponse};
use http::{Method, Request, Response};

use crate::client::Client;
use crate::library::{self, talk, whole};
use crate::log;
use crate::secure::{Authority, Secure};
use crate::support::{GET, OK, Proxy, Upstream};
use crate::wire::*;

/// A handshake with the key of the example in RFC 6455 section 1.3.
const ASKING: &str = "GET /chat?room=1 HTTP/1.1\r\nHost: site\r\nConnection: Upgrade\r\n\
                      Upgrade: websocket\r\nSec-WebSocket-Version: 13\r\n\
                      Sec-WebSocket-Key: dGhlIHNhbXBsZSBub25jZQ==\r\n\r\n";

/// The head of the answer to it.
const AGREED: &str = "HTTP/1.1 101 Switching Protocols\nsec-websocket-protocol: chat\n\
                      Sec-WebSocket-Accept: s3pPLMBiTxaQ9kYGzzhZRbK+xOo=\n\
                      Connection: Upgrade\nUpgrade: websocket\n";

/// SETTINGS_ENABLE_CONNECT_PROTOCOL with the value 1 (RFC 8441 section 3).
const CONNECT_PROTOCOL: [u8; 6] = [0, 8, 0, 0, 0, 1];

/// Error code CANCEL (RFC 9113 section 7).
const CANCEL: u32 = 8;

/// The first line of `echo`.
const FIRST: &str = "CONNECT http://site/chat?room=1 websocket version=13 key=false\n";

/// Accepts a tunnel, sends a line about its request, and echoes what comes. Other requests are
/// refused.
async fn echo(mut request: Request<RecvStream>, mut respond: SendResponse<Bytes>) {
    let Some(protocol) = request.extensions().get::<Protocol>().cloned() else {
        let head = Response::builder().header("content-length", 5).body(()).unwrap();
        respond.send_response(head, false).unwrap().send_data("plain".into(), true).unwrap();
        return;
    };
    if request.uri().path() == "/forbidden" {
        let head = Response::builder().status(403).header("content-length", 2).body(()).unwrap();
        respond.send_response(head, false).unwrap().send_data("no".into(), true).unwrap();
        return;
    }
    let field = |name: &str| request.headers().get(name).map_or("none", |v| v.to_str().unwrap());
    let first = format!(
        "{} {} {} version={} key={}\n",
        request.method(),
        request.uri(),
        protocol.as_str(),
        field("sec-websocket-version"),
        request.headers().contains_key("sec-websocket-key"),
    );
    let head = Response::builder().header("sec-websocket-protocol", "chat").body(()).unwrap();
    let mut body = respond.send_response(head, false).unwrap();
    body.send_data(first.into(), false).unwrap();
    while let Some(Ok(data)) = request.body_mut().data().await {
        request.body_mut().flow_control().release_capacity(data.len()).unwrap();
        if body.send_data(data, false).is_err() {
            return;
        }
    }
    let _ = body.send_data(Bytes::new(), true);
}

fn echoing() -> library::Upstream {
    library::Upstream::configured(Builder::new().enable_connect_protocol(), echo)
}

fn proxy(upstream: SocketAddr) -> Proxy {
    Proxy::of("", &format!("proxy = \"h2c://{upstream}\""))
}

/// Opens a tunnel over HTTP/2.
fn asking(path: &str) -> Request<()> {
    Request::builder()
        .method(Method::CONNECT)
        .uri(format!("http://site{path}"))
        .extension(Protocol::from_static("websocket"))
        .header("sec-websocket-version", "13")
        .body(())
        .unwrap()
}

/// Accepts a connection of the proxy with these settings.
fn accept(upstream: &Upstream, settings: &[u8]) -> Wire<TcpStream> {
    let mut client = upstream.accept();
    assert_eq!(client.take(PREFACE.len()), PREFACE);
    let mut wire = Wire { socket: client.stream, unread: Vec::new() };
    wire.send(&frame(SETTINGS, 0, 0, settings));
    wire.send(&frame(SETTINGS, ACK, 0, &[]));
    wire
}

/// A client over HTTP/1.1 with a tunnel to an upstream of raw frames, whose response has these
/// fields.
fn tunnel(fields: &[(&str, &str)]) -> (Proxy, Client, Wire<TcpStream>) {
    let upstream = Upstream::new();
    let proxy = proxy(upstream.address);
    let mut client = proxy.send(ASKING);
    let mut wire = accept(&upstream, &CONNECT_PROTOCOL);
    let head = wire.next_of(HEADERS);
    assert_eq!((head.stream, head.flags & END_STREAM), (1, 0));
    wire.send(&frame(HEADERS, END_HEADERS, 1, &block(fields)));
    assert!(client.head().starts_with("HTTP/1.1 101 "));
    (proxy, client, wire)
}

#[test]
fn clients_of_http1_and_http2_share_a_connection() {
    let upstream = echoing();
    let proxy = proxy(upstream.address);
    let mut client = proxy.send(format!("{ASKING}early"));
    assert_eq!(client.head(), AGREED);
    assert_eq!(client.take(FIRST.len()), FIRST.as_bytes());
    assert_eq!(client.take(5), b"early", "bytes behind the handshake");
    for n in 0..3_u8 {
        client.send([n; 3]);
        assert_eq!(client.take(3), [n; 3]);
    }
    let large: Vec<u8> = (0..3 << 20).map(|n: u32| (n % 251) as u8).collect();
    let mut sender = client.stream.try_clone().unwrap();
    let sent = large.clone();
    let sending = std::thread::spawn(move || sender.write_all(&sent).unwrap());
    assert!(client.take(large.len()) == large, "another message came back");
    sending.join().unwrap();

    talk(proxy.address, async |client| {
        let mut client = client.ready().await.unwrap();
        let (response, mut body) = client.send_request(asking("/chat?room=1"), false).unwrap();
        let mut response = response.await.unwrap();
        assert_eq!((response.status(), response.headers().len()), (http::StatusCode::OK, 3));
        assert_eq!(response.headers()["sec-websocket-protocol"], "chat");
        body.send_data("over HTTP/2".into(), true).unwrap();
        let received = library::read(response.body_mut()).await.unwrap();
        assert_eq!(String::from_utf8(received).unwrap(), format!("{FIRST}over HTTP/2"));
    });
    client.send("last");
    client.half_close();
    assert_eq!(client.rest(), "last", "the end of the client's data is the end of the stream");
    assert_eq!(upstream.connections.load(SeqCst), 1);
}

#[test]
fn a_refusal_is_an_ordinary_response() {
    let upstream = echoing();
    let proxy = proxy(upstream.address);
    let mut client = proxy.send(ASKING.replace("/chat", "/forbidden"));
    let (head, body) = client.answer();
    assert!(head.starts_with("HTTP/1.1 403 "), "{head}");
    assert_eq!(body, "no");
    client.send(GET);
    assert_eq!(client.answer().1, "plain", "the connection carries more requests");
    talk(proxy.address, async |client| {
        let mut client = client.ready().await.unwrap();
        let (response, _body) = client.send_request(asking("/forbidden"), false).unwrap();
        let refused = whole(response.await.unwrap()).await.unwrap();
        assert_eq!((refused.head.status.as_u16(), &refused.body[..]), (403, &b"no"[..]));
    });
}

#[test]
fn an_upstream_in_clear_without_tunnels_is_a_bad_gateway_with_a_reason() {
    log::begin();
    let upstream = library::Upstream::start(100, echo);
    let proxy = proxy(upstream.address);
    // More failures than eject an upstream.
    for _ in 0..5 {
        let mut client = proxy.send(ASKING);
        assert!(client.answer().0.starts_with("HTTP/1.1 502 "));
    }
    let status = talk(proxy.address, async |client| {
        let mut client = client.ready().await.unwrap();
        let (response, _body) = client.send_request(asking("/chat"), false).unwrap();
        response.await.unwrap().status()
    });
    assert_eq!(status, 502);
    let mut client = proxy.send(GET);
    assert_eq!(client.answer().1, "plain", "other requests go on");
    let lines = log::lines_with(&format!("upstream h2c://{}", upstream.address));
    let reason = "it takes no WebSocket over HTTP/2 (SETTINGS_ENABLE_CONNECT_PROTOCOL, RFC 8441)";
    assert!(lines.iter().any(|line| line.contains(reason)), "{lines:?}");
}

#[test]
fn an_upstream_with_tls_without_tunnels_gets_the_handshake_of_http1() {
    log::begin();
    let authority = Authority::new("streams");
    for has_http1 in [true, false] {
        let mut config = authority.server("localhost", |_| ());
        config.alpn_protocols = vec![b"h2".to_vec()];
        if has_http1 {
            config.alpn_protocols.push(b"http/1.1".to_vec());
        }
        let upstream = Secure::new(config);
        let (port, ca) = (upstream.address.port(), authority.file("ca.pem"));
        let tls = format!("[site.mount.upstream_tls]\nca = {ca}\n");
        let proxy = Proxy::of("", &format!("proxy = 'h2://localhost:{port}'\n{tls}"));
        let mut client = proxy.send(format!("{ASKING}early"));
        let mut peer = upstream.accept();
        assert_eq!(peer.take(PREFACE.len()), PREFACE);
        // SETTINGS without any.
        peer.send(frame(SETTINGS, 0, 0, &[]));
        if !has_http1 {
            upstream.accept_broken();
            assert!(client.answer().0.starts_with("HTTP/1.1 502 "));
            let lines = log::lines_with(&format!("upstream h2://localhost:{port}"));
            let reason = "and no HTTP/1.1 instead: ";
            assert!(lines.iter().any(|line| line.contains(reason)), "{lines:?}");
            continue;
        }
        let mut tunnel = upstream.accept();
        let head = tunnel.head();
        assert!(head.starts_with("GET /chat?room=1 HTTP/1.1\r\nHost: site\r\n"), "{head}");
        assert!(head.contains("\r\nSec-WebSocket-Key: dGhlIHNhbXBsZSBub25jZQ==\r\n"), "{head}");
        assert!(head.contains("\r\nConnection: Upgrade\r\nUpgrade: websocket\r\n"), "{head}");
        tunnel.send(
            "HTTP/1.1 101 S\r\nConnection: Upgrade\r\nUpgrade: websocket\r\n\
             Sec-WebSocket-Accept: b\r\n\r\nhello",
        );
        assert!(client.head().contains("\nSec-WebSocket-Accept: b\n"), "the upstream's");
        assert_eq!((client.take(5), tunnel.take(5)), (b"hello".to_vec(), b"early".to_vec()));

        // A refused handshake leaves a connection for the next one.
        let mut client = proxy.send(ASKING);
        let mut refusing = upstream.accept();
        refusing.head();
        refusing.send(OK);
        assert_eq!(client.answer().1, "ok");
        client.send(ASKING);
        assert!(refusing.head().starts_with("GET /chat"));
    }
}

#[test]
fn malformed_handshakes_are_refused_before_an_upstream_is_asked() {
    let upstream = Upstream::new();
    let proxy = proxy(upstream.address);
    let key = "Sec-WebSocket-Key: dGhlIHNhbXBsZSBub25jZQ==\r\n";
    for (sentence, asking) in [
        ("no key", ASKING.replace(key, "")),
        ("a short key", ASKING.replace("dGhlIHNhbXBsZSBub25jZQ==", "AAAA")),
        ("two keys", ASKING.replace(key, &key.repeat(2))),
        ("another method", ASKING.replace("GET ", "DELETE ")),
    ] {
        let mut client = proxy.send(asking);
        assert!(client.answer().0.starts_with("HTTP/1.1 400 "), "{sentence}");
    }
    upstream.expect_no_connection();
}

#[test]
fn each_direction_ends_by_itself() {
    // RFC 9110 section 9.3.6: the length in a success has no meaning.
    let (_proxy, mut client, mut wire) = tunnel(&[(":status", "200"), ("content-length", "0")]);
    wire.send(&frame(DATA, END_STREAM, 1, b"bye"));
    assert_eq!(client.rest(), "bye", "END_STREAM is the end of the connection's data");
    client.send("more");
    assert_eq!(wire.next_of(DATA).payload, b"more");
    client.half_close();
    let end = wire.next_of(DATA);
    assert_eq!((end.flags & END_STREAM, &end.payload[..]), (END_STREAM, &b""[..]));
    wire.expect_open();
}

#[test]
fn resets_are_passed_on() {
    let (_proxy, mut client, mut wire) = tunnel(&[(":status", "200")]);
    wire.send(&frame(RST_STREAM, 0, 1, &CANCEL.to_be_bytes()));
    client.expect_reset();
    wire.expect_open();

    let (_proxy, client, mut wire) = tunnel(&[(":status", "200")]);
    client.reset();
    assert_eq!(wire.next_of(RST_STREAM).code(), CANCEL);
    wire.expect_open();

    let (_proxy, mut client, wire) = tunnel(&[(":status", "200")]);
    drop(wire);
    client.expect_reset();
}

#[test]
fn the_slower_side_holds_the_other_back() {
    // The upstream grants no more than the first window of the stream, 65,535 bytes.
    let (_proxy, mut client, mut wire) = tunnel(&[(":status", "200")]);
    client.stream.set_write_timeout(Some(Duration::from_millis(500))).unwrap();
    let mut sent = 0;
    loop {
        match client.stream.write(&[b'x'; 16 << 10]) {
            Ok(len) => sent += len,
            Err(e) if e.kind() == ErrorKind::Interrupted => {}
            Err(e) if matches!(e.kind(), ErrorKind::WouldBlock | ErrorKind::TimedOut) => break,
            Err(e) => panic!("{e}"),
        }
        assert!(sent < 64 << 20, "the proxy reads what the upstream does not take");
    }
    let mut arrived = 0;
    while arrived < 65_535 {
        arrived += wire.next_of(DATA).payload.len();
    }
    assert_eq!(arrived, 65_535);

    // The client does not read: the proxy grants no more than what the sockets hold.
    let (_proxy, _client, mut wire) = tunnel(&[(":status", "200")]);
    wire.socket.set_read_timeout(Some(Duration::from_millis(500))).unwrap();
    let (mut room, mut sent) = (256 << 10, 0);
    let piece = frame(DATA, 0, 1, &[b'x'; 16 << 10]);
    loop {
        while room >= 16 << 10 {
            wire.send(&piece);
            (room, sent) = (room - (16 << 10), sent + (16 << 10));
        }
        assert!(sent < 64 << 20, "the proxy reads what the client does not take");
        let Some(more) = window_update(&mut wire) else { break };
        room += more;
    }
}

/// Streams that nobody read held the window of the connection, and with it all other requests.
#[test]
fn tunnels_that_nobody_reads_delay_no_request() {
    let sent: &'static AtomicUsize = Box::leak(Box::default());
    let flood = async move |request: Request<RecvStream>, mut respond: SendResponse<Bytes>| {
        if request.method() != Method::CONNECT {
            return echo(request, respond).await;
        }
        let mut body = respond.send_response(Response::new(()), false).unwrap();
        let piece = Bytes::from_static(&[b'x'; 16 << 10]);
        loop {
            body.reserve_capacity(piece.len());
            let Some(Ok(room)) = poll_fn(|cx| body.poll_capacity(cx)).await else { return };
            if body.send_data(piece.slice(..room.min(piece.len())), false).is_err() {
                return;
            }
            sent.fetch_add(room, SeqCst);
        }
    };
    let mut settings = Builder::new();
    let upstream = library::Upstream::configured(settings.enable_connect_protocol(), flood);
    let proxy = proxy(upstream.address);
    let clients: Vec<_> = (0..8)
        .map(|_| {
            let mut client = proxy.send(ASKING);
            assert!(client.head().starts_with("HTTP/1.1 101 "));
            client
        })
        .collect();
    // Requests are answered while the buffers fill. They are full when no byte is sent during many
    // requests.
    let (mut before, mut unchanged) = (0, 0);
    while unchanged < 100 {
        let mut client = proxy.send(GET);
        assert_eq!(client.answer().1, "plain", "after {before} bytes");
        let now = sent.load(SeqCst);
        unchanged = if now == before { unchanged + 1 } else { 0 };
        before = now;
    }
    assert_eq!(upstream.connections.load(SeqCst), 1);
    drop(clients);
}

/// The next increment of the stream's window; `None`: none comes in time.
fn window_update(wire: &mut Wire<TcpStream>) -> Option<u32> {
    loop {
        let mut begin = [0; 13];
        if wire.unread.len() < 9 && wire.socket.peek(&mut begin).is_err() {
            return None;
        }
        let next = wire.next()?;
        if next.kind == WINDOW_UPDATE && next.stream == 1 {
            return Some(u32::from_be_bytes(next.payload.try_into().unwrap()));
        }
    }
}
