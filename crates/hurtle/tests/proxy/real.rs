//! Tests with real application servers behind the proxy: gunicorn (WSGI) and uvicorn (ASGI), each
//! with a small application on a unix socket.

use std::fmt::Write as _;
use std::fs;
use std::os::unix::net::UnixStream;
use std::path::{Path, PathBuf};
use std::process::{Child, Command, Stdio};
use std::sync::atomic::{AtomicUsize, Ordering::Relaxed};
use std::time::{Duration, Instant};

use rustix::process::{Pid, Signal, kill_process};
use sha2::{Digest as _, Sha256};

use crate::client::{Client, PATIENCE};
use crate::support::Proxy;

/// An application with a response in two pieces, the second on the test's signal; an upload whose
/// checksum it returns; and a response with the request's properties.
const WSGI: &str = r#"
import hashlib, os, time

def stream():
    yield b"first\n"
    while not os.path.exists("go"):
        time.sleep(0.005)
    yield b"second\n"

def application(environ, start_response):
    if environ["PATH_INFO"] == "/stream":
        start_response("200 OK", [("Content-Type", "text/plain")])
        return stream()
    digest, count = hashlib.sha256(), 0
    while piece := environ["wsgi.input"].read(65536):
        digest.update(piece)
        count += len(piece)
    told = [environ["REQUEST_METHOD"], environ["PATH_INFO"], environ["QUERY_STRING"],
            environ["HTTP_HOST"], environ["HTTP_X_FORWARDED_FOR"], str(count), digest.hexdigest()]
    start_response("200 OK", [("Content-Type", "text/plain")])
    return [" ".join(told).encode()]
"#;

/// Like the application above, and echoes WebSocket messages.
const ASGI: &str = r#"
import asyncio, hashlib, os

async def application(scope, receive, send):
    if scope["type"] == "websocket":
        return await echo(receive, send)
    if scope["type"] != "http":
        raise RuntimeError("nothing to do at start and end")
    head = {"type": "http.response.start", "status": 200, "headers": [(b"content-type", b"text/plain")]}
    body = {"type": "http.response.body"}
    if scope["path"] == "/stream":
        await send(head)
        await send(body | {"body": b"first\n", "more_body": True})
        while not os.path.exists("go"):
            await asyncio.sleep(0.005)
        return await send(body | {"body": b"second\n"})
    digest, count, more = hashlib.sha256(), 0, True
    while more:
        message = await receive()
        digest.update(message["body"])
        count += len(message["body"])
        more = message["more_body"]
    fields = {name.decode(): value.decode() for name, value in scope["headers"]}
    told = [scope["method"], scope["path"], scope["query_string"].decode(), fields["host"],
            fields["x-forwarded-for"], str(count), digest.hexdigest()]
    await send(head)
    await send(body | {"body": " ".join(told).encode()})

async def echo(receive, send):
    await receive()
    await send({"type": "websocket.accept"})
    while True:
        message = await receive()
        if message["type"] == "websocket.disconnect":
            with open("closed.new", "w") as told:
                told.write(str(message["code"]))
            return os.rename("closed.new", "closed")
        if message.get("text") == "end":
            return await send({"type": "websocket.close", "code": 4001})
        kept = {key: message[key] for key in ("text", "bytes") if message.get(key) is not None}
        await send({"type": "websocket.send"} | kept)
"#;

/// An application server, stopped when dropped.
struct Peer {
    process: Child,
    dir: PathBuf,
}

impl Peer {
    /// Starts a program with an application, and waits until it listens; `None` if the program is
    /// not installed.
    fn start(program: &str, arguments: &[&str], application: &str) -> Option<Peer> {
        let mut peer = Peer::spawn(program, arguments, application)?;
        peer.eventually("it listens", Peer::listens);
        Some(peer)
    }

    fn spawn(program: &str, arguments: &[&str], application: &str) -> Option<Peer> {
        static NEXT: AtomicUsize = AtomicUsize::new(0);
        let number = NEXT.fetch_add(1, Relaxed);
        let name = format!("hurtle-{program}-{}-{number}", std::process::id());
        let dir = std::env::temp_dir().join(name);
        fs::create_dir_all(&dir).unwrap();
        fs::write(dir.join("app.py"), application).unwrap();
        let mut command = Command::new(program);
        command.args(arguments).current_dir(&dir).env("PYTHONDONTWRITEBYTECODE", "1");
        command.stdin(Stdio::null()).stdout(Stdio::null()).stderr(Stdio::null());
        Some(Peer { process: command.spawn().ok()?, dir })
    }

    fn wsgi() -> Option<Peer> {
        let arguments = ["--bind", "unix:socket", "--threads", "4", "app:application"];
        Peer::start("gunicorn", &arguments, WSGI)
    }

    fn asgi() -> Option<Peer> {
        Peer::start("uvicorn", &["--uds", "socket", "app:application"], ASGI)
    }

    /// uvicorn with the library `websockets`, which reports close codes to the application. `None`
    /// if the library is missing: uvicorn then exits at once.
    fn websockets() -> Option<Peer> {
        let arguments = ["--ws", "websockets", "--uds", "socket", "app:application"];
        let mut peer = Peer::spawn("uvicorn", &arguments, ASGI)?;
        let listens = peer.comes_to(Peer::listens);
        assert!(listens || peer.has_ended(), "it neither listens nor ends");
        listens.then_some(peer)
    }

    /// The installed application servers.
    fn all() -> impl Iterator<Item = (&'static str, Peer)> {
        [("gunicorn", Peer::wsgi()), ("uvicorn", Peer::asgi())]
            .into_iter()
            .filter_map(|(name, peer)| Some((name, peer?)))
    }

    fn listens(&self) -> bool {
        UnixStream::connect(self.path("socket")).is_ok()
    }

    fn path(&self, name: &str) -> PathBuf {
        self.dir.join(name)
    }

    fn proxy(&self) -> Proxy {
        Proxy::of("", &format!("proxy = \"unix:{}\"", self.path("socket").display()))
    }

    #[track_caller]
    fn eventually(&mut self, what: &str, done: impl Fn(&Peer) -> bool) {
        assert!(self.comes_to(done), "still not, or it ended: {what}");
    }

    /// Waits until `done`; `false` if the process ends first, or after 60 s.
    fn comes_to(&mut self, done: impl Fn(&Peer) -> bool) -> bool {
        let end = Instant::now() + 2 * PATIENCE;
        while !done(self) {
            if Instant::now() >= end || self.has_ended() {
                return false;
            }
            std::thread::sleep(Duration::from_millis(5));
        }
        true
    }

    fn has_ended(&mut self) -> bool {
        self.process.try_wait().unwrap().is_some()
    }
}

impl Drop for Peer {
    fn drop(&mut self) {
        // SIGTERM, so that it ends its workers too.
        let _ = kill_process(Pid::from_child(&self.process), Signal::TERM);
        // It would wait for ever for a connection that a failed test has left open.
        self.comes_to(|_| false);
        let _ = self.process.kill();
        let _ = self.process.wait();
        let _ = fs::remove_dir_all(&self.dir);
    }
}

fn sum(bytes: &[u8]) -> String {
    Sha256::digest(bytes).iter().fold(String::new(), |mut text, byte| {
        write!(text, "{byte:02x}").unwrap();
        text
    })
}

#[test]
fn a_response_is_streamed_as_it_is_generated() {
    for (name, peer) in Peer::all() {
        let proxy = peer.proxy();
        let mut client = proxy.send("GET /stream HTTP/1.1\r\nHost: a\r\n\r\n");
        let head = client.head();
        assert!(head.starts_with("HTTP/1.1 200 OK\n"), "{name}: {head}");
        assert!(head.contains("Transfer-Encoding: chunked\n"), "{name}: {head}");
        assert_eq!(client.chunk(), "first\n", "{name}");
        // The second piece is generated after the client has received the first.
        fs::write(peer.path("go"), "").unwrap();
        assert_eq!(client.chunks(), b"second\n", "{name}");
    }
}

#[test]
fn an_upload_arrives_whole_however_it_is_framed() {
    let body: Vec<u8> = (0..2_500_000_u32).map(|n| n.to_le_bytes()[n as usize % 3]).collect();
    for (name, peer) in Peer::all() {
        let proxy = peer.proxy();
        let head = "PUT /a%20b?c=d HTTP/1.1\r\nHost: example.org\r\n";
        let told = format!("PUT /a b c=d example.org 127.0.0.1 {} {}", body.len(), sum(&body));
        let mut client = proxy.send(format!("{head}Content-Length: {}\r\n\r\n", body.len()));
        client.send(&body);
        assert_eq!(client.answer().1, told, "{name}: with its length");
        client.send(format!("{head}Transfer-Encoding: chunked\r\n\r\n"));
        for piece in body.chunks(40_000) {
            client.send(format!("{:x}\r\n", piece.len()));
            client.send(piece);
            client.send("\r\n");
        }
        client.send("0\r\n\r\n");
        assert_eq!(client.answer().1, told, "{name}: in chunks");
        client.send(format!("{head}Expect: 100-continue\r\nContent-Length: 3\r\n\r\n"));
        let head = client.head();
        assert!(head.starts_with("HTTP/1.1 100 "), "{name}: {head}");
        client.send("abc");
        let end = format!(" 3 {}", sum(b"abc"));
        assert!(client.answer().1.ends_with(&end), "{name}: when it is asked for");
    }
}

/// The key of the example in RFC 6455 1.2.
const HANDSHAKE: &str = "GET /ws HTTP/1.1\r\nHost: a\r\nConnection: Upgrade\r\nUpgrade: websocket\r\n\
                         Sec-WebSocket-Version: 13\r\n\
                         Sec-WebSocket-Key: dGhlIHNhbXBsZSBub25jZQ==\r\n\r\n";

/// A client's frame (RFC 6455 5.2), masked with zeros.
fn frame(first: u8, data: &[u8]) -> Vec<u8> {
    let len = u8::try_from(data.len()).unwrap();
    [&[first, 0x80 | len, 0, 0, 0, 0][..], data].concat()
}

#[track_caller]
fn websocket(proxy: &Proxy) -> Client {
    let mut client = proxy.send(HANDSHAKE);
    let head = client.head();
    assert!(head.starts_with("HTTP/1.1 101 "), "{head}");
    assert!(head.contains("s3pPLMBiTxaQ9kYGzzhZRbK+xOo="), "{head}");
    client
}

#[test]
fn a_websocket_of_uvicorn_keeps_to_its_protocol() {
    let Some(mut peer) = Peer::websockets() else {
        println!("skipped: uvicorn is not installed, or has no websockets");
        return;
    };
    let proxy = peer.proxy();
    let mut client = websocket(&proxy);
    client.send(frame(0x81, b"hello"));
    assert_eq!(client.take(7), b"\x81\x05hello", "a text");
    client.send(frame(0x82, &[0, 255]));
    assert_eq!(client.take(4), [0x82, 2, 0, 255], "bytes");
    client.send(frame(0x89, b"ping"));
    assert_eq!(client.take(6), b"\x8a\x04ping", "a ping and its pong");
    // RFC 6455 5.4: a control frame may come between the fragments of a message.
    client.send([frame(0x01, b"he"), frame(0x89, b"?"), frame(0x80, b"llo")].concat());
    assert_eq!(client.take(3), b"\x8a\x01?", "a ping within a message");
    assert_eq!(client.take(7), b"\x81\x05hello", "a message in two fragments");
    for byte in frame(0x81, b"slow") {
        client.send([byte]);
    }
    assert_eq!(client.take(6), b"\x81\x04slow", "a frame byte by byte");
    client.send(frame(0x88, &[0x03, 0xe8]));
    assert_eq!(client.take(4), [0x88, 2, 0x03, 0xe8], "a close is answered (RFC 6455 5.5.1)");
    assert_eq!(client.rest(), "", "and then the connection ends");
    let closed = |peer: &Peer, code: &str| {
        fs::read_to_string(peer.path("closed")).is_ok_and(|told| told == code)
    };
    peer.eventually("the application knows", |peer| closed(peer, "1000"));

    let mut client = websocket(&proxy);
    client.send(frame(0x81, b"end"));
    assert_eq!(client.take(4), [0x88, 2, 0x0f, 0xa1], "the application closes, with its code");
    client.send(frame(0x88, &[0x0f, 0xa1]));
    assert_eq!(client.rest(), "");

    let client = websocket(&proxy);
    client.reset();
    peer.eventually("it learns of one that is cut", |peer| closed(peer, "1006"));
}

#[test]
fn a_stopped_upstream_is_502_and_a_restarted_one_is_used() {
    let Some(peer) = Peer::wsgi() else {
        println!("skipped: gunicorn is not installed");
        return;
    };
    let socket = peer.path("socket");
    let proxy = Proxy::of("", &format!("proxy = \"unix:{}\"", socket.display()));
    let mut client = proxy.send("GET /1 HTTP/1.1\r\nHost: a\r\n\r\n");
    assert!(client.answer().1.starts_with("GET /1 "));
    let dir = peer.dir.clone();
    drop(peer);
    client.send("GET /2 HTTP/1.1\r\nHost: a\r\n\r\n");
    assert!(client.answer().0.starts_with("HTTP/1.1 502 "));
    let back = Peer::wsgi().unwrap();
    fs::create_dir_all(&dir).unwrap();
    link(&back.path("socket"), &socket);
    client.send("GET /3 HTTP/1.1\r\nHost: a\r\n\r\n");
    assert!(client.answer().1.starts_with("GET /3 "), "on the connection the client had");
    fs::remove_dir_all(dir).unwrap();
}

fn link(to: &Path, name: &Path) {
    std::os::unix::fs::symlink(to, name).unwrap();
}
