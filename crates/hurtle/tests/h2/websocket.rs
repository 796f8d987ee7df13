//! Tests of WebSockets on streams (RFC 8441), of applications and upstreams.

use std::io::{Read, Write};
use std::net::{SocketAddr, TcpListener, TcpStream};
use std::path::Path;
use std::thread;

use axum::Router;
use axum::extract::ws::WebSocketUpgrade;
use axum::routing;
use hurtle::config::check;

use crate::bodies::RunningServer;
use crate::support::Dir;
use crate::table::OK;
use crate::wire::*;

/// SETTINGS_ENABLE_CONNECT_PROTOCOL with the value 1 (RFC 8441 section 3).
const CONNECT_PROTOCOL: [u8; 6] = [0, 8, 0, 0, 0, 1];

/// A message "hi" of a client, masked with zeros, and the server's echo of it (RFC 6455 section 5).
const HI: [u8; 8] = [0x81, 0x82, 0, 0, 0, 0, b'h', b'i'];
const ECHO: &[u8] = b"\x81\x02hi";
const CLOSE: [u8; 8] = [0x88, 0x82, 0, 0, 0, 0, 0x03, 0xe8];

/// Statuses as literals in HPACK, some in Huffman coding, which is shorter (RFC 7541 appendix B).
const NOT_IMPLEMENTED: &[u8] = b"\x48\x82\x6c\x01";
const BAD_GATEWAY: &[u8] = b"\x48\x82\x6c\x02";
const FORBIDDEN: &[u8] = b"\x48\x03403";
const TOO_LARGE: &[u8] = b"\x48\x03413";

/// The head of an extended CONNECT.
fn connect(stream: u32, path: &str, protocol: &str) -> Vec<u8> {
    let fields = [
        (":method", "CONNECT"),
        (":protocol", protocol),
        (":scheme", "http"),
        (":authority", "a"),
        (":path", path),
        ("sec-websocket-version", "13"),
    ];
    frame(HEADERS, END_HEADERS, stream, &block(&fields))
}

/// An application that echoes messages at `/app/ws`, an upstream beneath `/up`, and files.
fn server(upstream: SocketAddr, dir: &Dir) -> RunningServer {
    let root = dir.root();
    let text = format!(
        "[[site]]\n[[site.mount]]\nfiles = '{}'\n\
         [[site.mount]]\npath = '/up'\nproxy = 'http://{upstream}'\n\
         [[site.mount]]\npath = '/one'\nproxy = 'http://{upstream}'\nconcurrency = 1\nqueue = 1\n",
        root.display()
    );
    let echo = async |ws: WebSocketUpgrade| {
        ws.on_upgrade(async |mut socket| {
            while let Some(Ok(message)) = socket.recv().await {
                if socket.send(message).await.is_err() {
                    return;
                }
            }
        })
    };
    let router = Router::new()
        .route("/ws", routing::get(echo))
        .route("/plain", routing::get(async || "plain"));
    let config = check(&text, Path::new("/nowhere/hurtle.toml")).unwrap();
    RunningServer::start(config, |server| server.mount("*", "/app", router).unwrap())
}

fn head_of(peer: &mut TcpStream) -> String {
    let (mut head, mut byte) = (Vec::new(), [0]);
    while !head.ends_with(b"\r\n\r\n") {
        peer.read_exact(&mut byte).unwrap();
        head.push(byte[0]);
    }
    String::from_utf8(head).unwrap()
}

/// The bytes of a stream's next `len` bytes of data.
fn data(wire: &mut Wire, len: usize) -> Vec<u8> {
    let mut data = Vec::new();
    while data.len() < len {
        data.extend(wire.next_of(DATA).payload);
    }
    data
}

fn unused() -> SocketAddr {
    let listener = TcpListener::bind("127.0.0.1:0").unwrap();
    listener.local_addr().unwrap()
}

#[test]
fn an_application_speaks_websocket_on_a_stream() {
    let dir = Dir::new(&[("a.txt", "a")]);
    let server = server(unused(), &dir);
    let mut wire = Wire::begin(server.address, &[]);
    let settings = wire.next_of(SETTINGS).payload;
    assert!(settings.chunks(6).any(|setting| setting == CONNECT_PROTOCOL), "{settings:?}");
    wire.send(&connect(1, "/app/ws", "websocket"));
    let head = wire.next_of(HEADERS);
    assert_eq!((head.payload[0], head.flags & END_STREAM), (OK, 0), "{head:?}");
    for _ in 0..3 {
        wire.send(&frame(DATA, 0, 1, &HI));
        assert_eq!(data(&mut wire, ECHO.len()), ECHO);
    }
    // Other requests of the connection are answered meanwhile.
    wire.send(&get(3, "/a.txt"));
    assert_eq!(wire.next_of(HEADERS).stream, 3);
    assert_eq!(wire.next_of(DATA).payload, b"a");
    wire.send(&frame(DATA, 0, 1, &CLOSE));
    let mut last = wire.next_of(DATA);
    while last.flags & END_STREAM == 0 {
        last = wire.next_of(DATA);
    }
    assert_eq!(last.stream, 1);
    wire.expect_open();
}

#[test]
fn an_upstream_gets_the_handshake_of_http_1() {
    let upstream = TcpListener::bind("127.0.0.1:0").unwrap();
    let dir = Dir::new(&[]);
    let server = server(upstream.local_addr().unwrap(), &dir);
    let mut wire = Wire::begin(server.address, &[]);
    wire.send(&connect(1, "/up/chat?room=1", "websocket"));
    let (mut peer, _) = upstream.accept().unwrap();
    let head = head_of(&mut peer);
    assert!(head.starts_with("GET /up/chat?room=1 HTTP/1.1\r\nHost: a\r\n"), "{head}");
    assert!(head.contains("Connection: Upgrade\r\nUpgrade: websocket\r\n"), "{head}");
    let key = head.split("Sec-WebSocket-Key: ").nth(1).and_then(|rest| rest.split("\r\n").next());
    assert_eq!(key.map(str::len), Some(24), "{head}");
    let lower = head.to_lowercase();
    assert!(lower.contains("sec-websocket-version: 13\r\n"), "{head}");
    assert!(!lower.contains("transfer-encoding"), "{head}");
    // Its first bytes arrive with the head.
    let agreed = "HTTP/1.1 101 Switching Protocols\r\nConnection: Upgrade\r\n\
                  Upgrade: websocket\r\nSec-WebSocket-Accept: b\r\n\r\nfirst";
    peer.write_all(agreed.as_bytes()).unwrap();
    let head = wire.next_of(HEADERS);
    assert_eq!((head.payload[0], head.flags & END_STREAM), (OK, 0), "{head:?}");
    assert_eq!(data(&mut wire, 5), b"first");
    wire.send(&frame(DATA, 0, 1, b"up"));
    let mut bytes = [0; 2];
    peer.read_exact(&mut bytes).unwrap();
    assert_eq!(&bytes, b"up");
    let large = vec![b'x'; 50_000];
    let sent = large.clone();
    let sender = thread::spawn(move || {
        peer.write_all(&sent).unwrap();
        peer
    });
    assert!(data(&mut wire, large.len()) == large);
    let mut peer = sender.join().unwrap();
    wire.send(&frame(DATA, END_STREAM, 1, b"end"));
    let mut rest = Vec::new();
    peer.read_to_end(&mut rest).unwrap();
    assert_eq!(rest, b"end", "the end of the client's data is the end of the upstream's");
    drop(peer);
    assert_eq!(wire.next_of(DATA).flags & END_STREAM, END_STREAM);
    wire.expect_open();
}

#[test]
fn a_reset_stream_ends_the_tunnel() {
    let upstream = TcpListener::bind("127.0.0.1:0").unwrap();
    let dir = Dir::new(&[]);
    let server = server(upstream.local_addr().unwrap(), &dir);
    let mut wire = Wire::begin(server.address, &[]);
    wire.send(&connect(1, "/up/chat", "websocket"));
    let (mut peer, _) = upstream.accept().unwrap();
    head_of(&mut peer);
    let agreed = "HTTP/1.1 101 Switching Protocols\r\nConnection: Upgrade\r\n\
                  Upgrade: websocket\r\n\r\n";
    peer.write_all(agreed.as_bytes()).unwrap();
    wire.next_of(HEADERS);
    wire.send(&frame(RST_STREAM, 0, 1, &8_u32.to_be_bytes()));
    let mut rest = Vec::new();
    // A reset of the upstream's connection is an end, too.
    let _ = peer.read_to_end(&mut rest);
    assert_eq!(rest, b"");
    wire.expect_open();
}

/// Regression: the reset of a client that had ended its direction went unnoticed for an hour, and
/// its place was taken as long.
#[test]
fn a_reset_after_the_end_of_its_stream_ends_the_tunnel() {
    let listener = TcpListener::bind("127.0.0.1:0").unwrap();
    let dir = Dir::new(&[]);
    let server = server(listener.local_addr().unwrap(), &dir);
    thread::spawn(move || {
        // It goes on after the end of the client's direction.
        let mut open = Vec::new();
        for peer in listener.incoming() {
            let mut peer = peer.unwrap();
            head_of(&mut peer);
            let agreed = "HTTP/1.1 101 Switching Protocols\r\nConnection: Upgrade\r\n\
                          Upgrade: websocket\r\n\r\n";
            peer.write_all(agreed.as_bytes()).unwrap();
            open.push(peer);
        }
    });
    let mut wire = Wire::begin(server.address, &[]);
    wire.send(&connect(1, "/one/chat", "websocket"));
    assert_eq!(wire.next_of(HEADERS).payload[0], OK);
    wire.send(&frame(DATA, END_STREAM, 1, b"bye"));
    wire.send(&frame(RST_STREAM, 0, 1, &8_u32.to_be_bytes()));
    wire.send(&connect(3, "/one/chat", "websocket"));
    let second = wire.next_of(HEADERS);
    assert_eq!(second.payload[0], OK, "it has the place of the first: {second:?}");
}

#[test]
fn what_is_no_tunnel_does_not_look_like_one() {
    let upstream = TcpListener::bind("127.0.0.1:0").unwrap();
    let address = upstream.local_addr().unwrap();
    thread::spawn(move || {
        for peer in upstream.incoming() {
            let mut peer = peer.unwrap();
            let answer = match head_of(&mut peer).contains("/forbidden") {
                true => "HTTP/1.1 403 Forbidden\r\nContent-Length: 0\r\n\r\n",
                false => "HTTP/1.1 200 OK\r\nContent-Length: 2\r\n\r\nno",
            };
            peer.write_all(answer.as_bytes()).unwrap();
        }
    });
    let dir = Dir::new(&[("a.txt", "a")]);
    let server = server(address, &dir);
    let mut wire = Wire::begin(server.address, &[]);
    // A file that is cached is no exception.
    wire.send(&get(1, "/a.txt"));
    wire.next_of(HEADERS);
    let rows = [
        ("a file", "/a.txt", "websocket", NOT_IMPLEMENTED),
        ("no such file", "/missing", "websocket", NOT_IMPLEMENTED),
        ("an application without one", "/app/plain", "websocket", NOT_IMPLEMENTED),
        ("another protocol", "/up/x", "connect-udp", NOT_IMPLEMENTED),
        ("another protocol, of an application", "/app/ws", "connect-udp", NOT_IMPLEMENTED),
        ("an upstream that switches nothing", "/up/x", "websocket", NOT_IMPLEMENTED),
        ("an upstream that refuses", "/up/forbidden", "websocket", FORBIDDEN),
    ];
    for (sentence, path, protocol, status) in rows {
        let mut wire = Wire::begin(server.address, &[]);
        wire.send(&connect(1, path, protocol));
        let head = wire.next_of(HEADERS);
        assert!(head.payload.starts_with(status), "{sentence}: {head:?}");
        wire.expect_open();
    }
}

/// The upstream closes first (RFC 6455 section 7.1.1). The tunnel, its connection to the upstream
/// and its place went on for an hour.
#[test]
fn a_tunnel_ends_when_the_upstream_has_ended() {
    let dir = Dir::new(&[]);
    let listener = TcpListener::bind("127.0.0.1:0").unwrap();
    let server = server(listener.local_addr().unwrap(), &dir);
    let mut wire = Wire::begin(server.address, &[]);
    wire.send(&connect(1, "/up/ws", "websocket"));
    let (mut upstream, _) = listener.accept().unwrap();
    head_of(&mut upstream);
    let switching = "HTTP/1.1 101 Switching Protocols\r\nConnection: Upgrade\r\n\
                     Upgrade: websocket\r\n\r\n";
    upstream.write_all(switching.as_bytes()).unwrap();
    assert_eq!(wire.next_of(HEADERS).payload[0], OK);
    wire.send(&frame(DATA, 0, 1, &CLOSE));
    let mut close = [0; CLOSE.len()];
    upstream.read_exact(&mut close).unwrap();
    upstream.write_all(b"\x88\x02\x03\xe8").unwrap();
    upstream.shutdown(std::net::Shutdown::Write).unwrap();
    upstream.set_read_timeout(Some(std::time::Duration::from_secs(30))).unwrap();
    assert_eq!(upstream.read(&mut [0; 9]).unwrap(), 0, "the server has closed its connection");
    wire.expect_open();
}

/// The conditions of a WebSocket over HTTP/1.1 did not hold for its extended CONNECT, so that
/// another mount had it, or a guard let it pass.
#[test]
fn conditions_of_a_websocket_hold_for_a_stream() {
    let text = "[[site]]\n[[site.mount]]\npath = '/a'\nrespond = 'plain'\n\
                [[site.mount]]\npath = '/a'\nmatch = { header = { Upgrade = 'websocket' } }\n\
                respond = 'no'\ndeny = '127.0.0.0/8'\n\
                [[site.mount]]\npath = '/b'\nrespond = 'plain'\n\
                [[site.mount]]\npath = '/b'\nmatch = { method = 'GET' }\nrespond = 'no'\n\
                deny = '127.0.0.0/8'\n\
                [[site.mount]]\npath = '/c'\nrespond = 'plain'\n\
                [[site.mount]]\npath = '/c'\nmatch = { method = 'CONNECT' }\nrespond = 'no'\n\
                deny = '127.0.0.0/8'\n";
    let config = check(text, Path::new("/nowhere/hurtle.toml")).unwrap();
    let server = RunningServer::start(config, |server| server);
    for path in ["/a", "/b", "/c"] {
        // The table of a connection would have the status of the first response.
        let mut wire = Wire::begin(server.address, &[]);
        wire.send(&connect(1, path, "websocket"));
        let head = wire.next_of(HEADERS);
        assert!(head.payload.starts_with(FORBIDDEN), "{path}: {head:?}");
    }
}

/// Regression: it got CONNECT, for which it may have another rule.
#[test]
fn an_authentication_server_gets_the_method_of_http_1() {
    let auth = TcpListener::bind("127.0.0.1:0").unwrap();
    let text = format!(
        "[[site]]\n[[site.mount]]\nrespond = 'in'\nauth = 'forward'\nforward = 'http://{}/'\n",
        auth.local_addr().unwrap()
    );
    let config = check(&text, Path::new("/nowhere/hurtle.toml")).expect(&text);
    let server = RunningServer::start(config, |server| server);
    let mut wire = Wire::begin(server.address, &[]);
    wire.send(&connect(1, "/ws", "websocket"));
    let (mut peer, _) = auth.accept().unwrap();
    let head = head_of(&mut peer);
    assert!(head.contains("\r\nX-Forwarded-Method: GET\r\n"), "{head}");
    peer.write_all(b"HTTP/1.1 403 Forbidden\r\nContent-Length: 0\r\n\r\n").unwrap();
    let head = wire.next_of(HEADERS);
    assert!(head.payload.starts_with(FORBIDDEN), "{head:?}");
}

/// With a status of 2xx the client takes the page for its WebSocket (RFC 8441 section 5).
#[test]
fn an_error_page_opens_no_websocket() {
    let text = format!(
        "[[site]]\n[site.errors]\n502 = '@down'\n[[site.mount]]\nproxy = 'http://{}'\n\
         [[site.mount]]\nname = 'down'\nrespond = 'sorry'\n",
        unused()
    );
    let config = check(&text, Path::new("/nowhere/hurtle.toml")).expect(&text);
    let server = RunningServer::start(config, |server| server);
    let mut wire = Wire::begin(server.address, &[]);
    wire.send(&connect(1, "/chat", "websocket"));
    let head = wire.next_of(HEADERS);
    assert!(head.payload.starts_with(BAD_GATEWAY), "{head:?}");
}

/// Regression: the body was awaited for which the client waits itself.
#[test]
fn a_body_that_is_announced_too_large_is_refused_at_once() {
    let text = "[limits]\nbody_bytes = '1 KB'\n[[site]]\n[[site.mount]]\nrespond = 'hello'\n";
    let config = check(text, Path::new("/nowhere/hurtle.toml")).expect(text);
    let server = RunningServer::start(config, |server| server);
    let mut wire = Wire::begin(server.address, &[]);
    let fields = [
        (":method", "GET"),
        (":scheme", "http"),
        (":authority", "a"),
        (":path", "/"),
        ("content-length", "2000"),
        ("expect", "100-continue"),
    ];
    wire.send(&frame(HEADERS, END_HEADERS, 1, &block(&fields)));
    let head = wire.next_of(HEADERS);
    assert!(head.payload.starts_with(TOO_LARGE), "{head:?}");
}
