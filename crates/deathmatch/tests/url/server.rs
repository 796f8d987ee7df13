//! Scripted servers of HTTP/1, in clear text and over TLS, and of HTTP/2.

#![allow(clippy::unwrap_used, reason = "the servers' threads are tests too")]

use std::io::{self, Read, Write};
use std::net::{SocketAddr, TcpListener, TcpStream};
use std::sync::atomic::{AtomicU64, Ordering};
use std::sync::mpsc::{Receiver, Sender, channel};
use std::sync::{Arc, Mutex};
use std::thread;
use std::time::Duration;

use bytes::Bytes;
use deathmatch::tls::Identity;
use rustls::crypto::aws_lc_rs;
use rustls::pki_types::pem::PemObject;
use rustls::pki_types::{CertificateDer, PrivateKeyDer};
use rustls::{ServerConfig, ServerConnection, StreamOwned};

/// A server whose response depends on the path.
pub(crate) struct Server {
    pub(crate) address: SocketAddr,
    /// Every request that arrived, with its head and body.
    pub(crate) seen: Mutex<Receiver<String>>,
}

impl Server {
    pub(crate) fn start(tls: Option<Arc<ServerConfig>>) -> Server {
        let listener = TcpListener::bind("127.0.0.1:0").unwrap();
        let address = listener.local_addr().unwrap();
        let (send, seen) = channel();
        let stalls = Arc::new(AtomicU64::new(0));
        thread::spawn(move || {
            for socket in listener.incoming() {
                let (send, tls, stalls) = (send.clone(), tls.clone(), stalls.clone());
                thread::spawn(move || {
                    let socket: TcpStream = socket.unwrap();
                    let _ = socket.set_nodelay(true);
                    match tls {
                        None => converse(socket, &send, &stalls),
                        Some(config) => {
                            let session = ServerConnection::new(config).unwrap();
                            converse(StreamOwned::new(session, socket), &send, &stalls)
                        }
                    }
                });
            }
        });
        Server { address, seen: Mutex::new(seen) }
    }
}

/// Answers on a connection of any kind, unseen.
pub(crate) fn converse_plainly(socket: impl Read + Write) {
    let (send, _) = channel();
    // An error is the client's end.
    let _ = converse(socket, &send, &AtomicU64::new(1));
}

/// Answers until the connection ends; an error is the client's end.
fn converse(
    mut socket: impl Read + Write,
    seen: &Sender<String>,
    stalls: &AtomicU64,
) -> io::Result<()> {
    let mut read = Vec::new();
    loop {
        let Some(request) = receive(&mut socket, &mut read)? else { return Ok(()) };
        let path = request.split(' ').nth(1).unwrap_or_default().to_owned();
        let is_head = request.starts_with("HEAD ");
        let _ = seen.send(request);
        let length = "Content-Length: 5\r\n\r\n";
        let body = if is_head { "" } else { "hello" };
        let (response, closes) = match path.split('?').next().unwrap_or_default() {
            "/ok" => (format!("HTTP/1.1 200 OK\r\n{length}{body}"), false),
            "/typed" => {
                (format!("HTTP/1.1 200 OK\r\nContent-Type: text/x\r\n{length}{body}"), false)
            }
            "/stall" => {
                if stalls.fetch_add(1, Ordering::SeqCst) == 0 {
                    thread::sleep(Duration::from_millis(500));
                }
                (format!("HTTP/1.1 200 OK\r\n{length}{body}"), false)
            }
            "/chunked" => {
                let chunks = "5\r\nhello\r\n0\r\n\r\n";
                (format!("HTTP/1.1 200 OK\r\nTransfer-Encoding: chunked\r\n\r\n{chunks}"), false)
            }
            "/redirect" => (format!("HTTP/1.1 301 Moved\r\nLocation: /\r\n{length}hello"), false),
            "/missing" => (format!("HTTP/1.1 404 Not Found\r\n{length}hello"), false),
            "/failing-slowly" => {
                thread::sleep(Duration::from_millis(200));
                (format!("HTTP/1.1 503 Busy\r\n{length}hello"), false)
            }
            "/failing" => {
                (format!("HTTP/1.1 503 Busy\r\nConnection: close\r\n{length}hello"), true)
            }
            "/close" => (format!("HTTP/1.1 200 OK\r\nConnection: close\r\n{length}hello"), true),
            "/old" => ("HTTP/1.0 200 OK\r\n\r\nhello".to_owned(), true),
            "/cut" => ("HTTP/1.1 200 OK\r\nContent-Length: 100\r\n\r\nhello".to_owned(), true),
            "/garbage" => ("SSH-2.0-no\r\n\r\n".to_owned(), true),
            // Until the client gives up.
            _ => {
                let _ = socket.read(&mut [0; 1]);
                return Ok(());
            }
        };
        socket.write_all(response.as_bytes())?;
        socket.flush()?;
        if closes {
            return Ok(());
        }
    }
}

/// One request, head and body.
fn receive(socket: &mut impl Read, read: &mut Vec<u8>) -> io::Result<Option<String>> {
    loop {
        if let Some(at) = read.windows(4).position(|w| w == b"\r\n\r\n") {
            let head = String::from_utf8_lossy(&read[..at + 4]).into_owned();
            let field = head.lines().find_map(|line| line.strip_prefix("content-length: "));
            let whole = at + 4 + field.map_or(0, |length| length.parse::<usize>().unwrap());
            if read.len() >= whole {
                let rest = read.split_off(whole);
                let request = String::from_utf8_lossy(read).into_owned();
                *read = rest;
                return Ok(Some(request));
            }
        }
        let mut piece = [0; 4096];
        match socket.read(&mut piece)? {
            0 => return Ok(None),
            count => read.extend_from_slice(&piece[..count]),
        }
    }
}

pub(crate) fn tls(identity: &Identity, protocol: &[u8]) -> Arc<ServerConfig> {
    let certificate = CertificateDer::from_pem_file(&identity.certificate).unwrap();
    let key = PrivateKeyDer::from_pem_file(&identity.key).unwrap();
    let mut config = ServerConfig::builder_with_provider(Arc::new(aws_lc_rs::default_provider()))
        .with_safe_default_protocol_versions()
        .unwrap()
        .with_no_client_auth()
        .with_single_cert(vec![certificate], key)
        .unwrap();
    config.alpn_protocols = vec![protocol.to_vec()];
    Arc::new(config)
}

/// A server of HTTP/2 over TLS; returns its address and its number of requests.
pub(crate) fn serve_http2(config: Arc<ServerConfig>) -> (SocketAddr, Arc<AtomicU64>) {
    let acceptor = tokio_rustls::TlsAcceptor::from(config);
    serve_http2_with(Some(acceptor), &h2::server::Builder::new())
}

/// As `serve_http2`, in clear text with prior knowledge.
pub(crate) fn serve_http2_plainly() -> (SocketAddr, Arc<AtomicU64>) {
    serve_http2_with(None, &h2::server::Builder::new())
}

/// As `serve_http2_plainly`; more concurrent streams than these are refused.
pub(crate) fn serve_http2_of_streams(streams_max: u32) -> SocketAddr {
    serve_http2_with(None, h2::server::Builder::new().max_concurrent_streams(streams_max)).0
}

fn serve_http2_with(
    acceptor: Option<tokio_rustls::TlsAcceptor>,
    settings: &h2::server::Builder,
) -> (SocketAddr, Arc<AtomicU64>) {
    let settings = settings.clone();
    let listener = TcpListener::bind("127.0.0.1:0").unwrap();
    let (address, requests) = (listener.local_addr().unwrap(), Arc::new(AtomicU64::new(0)));
    let counted = requests.clone();
    thread::spawn(move || {
        let runtime = tokio::runtime::Builder::new_current_thread().enable_all().build().unwrap();
        runtime.block_on(async move {
            listener.set_nonblocking(true).unwrap();
            let listener = tokio::net::TcpListener::from_std(listener).unwrap();
            loop {
                let (socket, _) = listener.accept().await.unwrap();
                let (acceptor, counted) = (acceptor.clone(), counted.clone());
                let settings = settings.clone();
                tokio::spawn(async move {
                    match acceptor {
                        None => converse_http2(socket, &settings, &counted).await,
                        Some(acceptor) => {
                            let Ok(socket) = acceptor.accept(socket).await else { return };
                            converse_http2(socket, &settings, &counted).await;
                        }
                    }
                });
            }
        });
    });
    (address, requests)
}

/// As `serve_http2_plainly`, with a GOAWAY before each response.
pub(crate) fn serve_http2_leaving() -> SocketAddr {
    let listener = TcpListener::bind("127.0.0.1:0").unwrap();
    let address = listener.local_addr().unwrap();
    thread::spawn(move || {
        for socket in listener.incoming() {
            let socket = socket.unwrap();
            // An error is the client's end.
            thread::spawn(move || respond_and_leave(socket).unwrap_or_default());
        }
    });
    address
}

/// Types of frames (RFC 9113, 6).
const HEADERS: u8 = 1;
const SETTINGS: u8 = 4;
const GOAWAY: u8 = 7;

fn respond_and_leave(socket: TcpStream) -> io::Result<()> {
    let mut socket = greet(socket)?;
    loop {
        let stream = read_request(&mut socket)?;
        let farewell = [&[0, 0, 8, GOAWAY, 0, 0, 0, 0, 0], &stream[..], &[0; 4]].concat();
        socket.write_all(&farewell)?;
        respond_empty(&mut socket, stream)?;
    }
}

/// Reads the client's preface, and sends the server's (RFC 9113, 3.4).
fn greet(mut socket: TcpStream) -> io::Result<TcpStream> {
    socket.read_exact(&mut [0; 24])?;
    socket.write_all(&[0, 0, 0, SETTINGS, 0, 0, 0, 0, 0])?;
    Ok(socket)
}

/// The stream of the next request without a body.
fn read_request(socket: &mut TcpStream) -> io::Result<[u8; 4]> {
    loop {
        let mut head = [0; 9];
        socket.read_exact(&mut head)?;
        let [_, high, low, kind, _, stream @ ..] = head;
        socket.read_exact(&mut vec![0; usize::from(u16::from_be_bytes([high, low]))])?;
        if kind == HEADERS {
            return Ok(stream);
        }
    }
}

/// Ends a stream with `:status: 200` (RFC 7541, appendix A).
fn respond_empty(socket: &mut TcpStream, stream: [u8; 4]) -> io::Result<()> {
    socket.write_all(&[&[0, 0, 1, HEADERS, 5], &stream[..], &[0x88]].concat())
}

/// As `serve_http2_plainly`, for two requests at once on the first connection: a GOAWAY follows
/// both, and the response to the first one follows a request on another connection.
pub(crate) fn serve_http2_leaving_a_stream() -> SocketAddr {
    let listener = TcpListener::bind("127.0.0.1:0").unwrap();
    let address = listener.local_addr().unwrap();
    let (send, others) = channel();
    let others = Arc::new(Mutex::new(Some(others)));
    thread::spawn(move || {
        for socket in listener.incoming() {
            let (socket, send, others) = (socket.unwrap(), send.clone(), others.clone());
            // An error is the client's end.
            thread::spawn(move || leave_a_stream(socket, &send, &others).unwrap_or_default());
        }
    });
    address
}

fn leave_a_stream(
    socket: TcpStream,
    send: &Sender<()>,
    others: &Mutex<Option<Receiver<()>>>,
) -> io::Result<()> {
    let mut socket = greet(socket)?;
    let Some(others) = others.lock().unwrap().take() else {
        loop {
            let stream = read_request(&mut socket)?;
            respond_empty(&mut socket, stream)?;
            let _ = send.send(());
        }
    };
    let (first, second) = (read_request(&mut socket)?, read_request(&mut socket)?);
    socket.write_all(&[&[0, 0, 8, GOAWAY, 0, 0, 0, 0, 0], &second[..], &[0; 4]].concat())?;
    respond_empty(&mut socket, second)?;
    let _ = others.recv();
    respond_empty(&mut socket, first)?;
    // It stays open until the client's end.
    socket.read(&mut [0; 1]).map(drop)
}

/// As `serve_http2_plainly`, for a page and two assets on a connection: a GOAWAY refuses the second
/// asset, and the response to the first one follows the next response on another connection.
pub(crate) fn serve_http2_leaving_an_asset() -> SocketAddr {
    let listener = TcpListener::bind("127.0.0.1:0").unwrap();
    let address = listener.local_addr().unwrap();
    let (send, others) = channel();
    let others = Arc::new(Mutex::new(others));
    thread::spawn(move || {
        for socket in listener.incoming() {
            let (socket, send, others) = (socket.unwrap(), send.clone(), others.clone());
            // An error is the client's end.
            thread::spawn(move || leave_an_asset(socket, &send, &others).unwrap_or_default());
        }
    });
    address
}

fn leave_an_asset(
    socket: TcpStream,
    send: &Sender<()>,
    others: &Mutex<Receiver<()>>,
) -> io::Result<()> {
    let mut socket = greet(socket)?;
    let page = read_request(&mut socket)?;
    respond_empty(&mut socket, page)?;
    let _ = send.send(());
    let first = read_request(&mut socket)?;
    read_request(&mut socket)?;
    let others = others.lock().unwrap();
    while others.try_recv().is_ok() {}
    socket.write_all(&[&[0, 0, 8, GOAWAY, 0, 0, 0, 0, 0], &first[..], &[0; 4]].concat())?;
    let _ = others.recv();
    respond_empty(&mut socket, first)?;
    // It stays open until the client's end.
    socket.read(&mut [0; 1]).map(drop)
}

async fn converse_http2(
    socket: impl tokio::io::AsyncRead + tokio::io::AsyncWrite + Unpin,
    settings: &h2::server::Builder,
    counted: &AtomicU64,
) {
    let Ok(mut connection) = settings.handshake(socket).await else { return };
    while let Some(Ok((request, respond))) = connection.accept().await {
        let number = counted.fetch_add(1, Ordering::SeqCst);
        // As nginx does after `keepalive_requests`.
        if number % 7 == 6 && request.uri().path() == "/leaving" {
            connection.graceful_shutdown();
        }
        // The connection goes on meanwhile.
        match request.uri().path().strip_prefix("/shop.Shop/").map(str::to_owned) {
            Some(method) => tokio::spawn(respond_grpc(method, request, respond)),
            None => tokio::spawn(respond_http2(request, respond)),
        };
    }
}

/// Responds to a call of gRPC (gRPC, `PROTOCOL-HTTP2.md`).
async fn respond_grpc(
    method: String,
    mut request: http::Request<h2::RecvStream>,
    mut respond: h2::server::SendResponse<Bytes>,
) {
    let mut body = Vec::new();
    while let Some(Ok(piece)) = request.body_mut().data().await {
        body.extend_from_slice(&piece);
    }
    let headers = request.headers();
    let is_call = headers["content-type"] == "application/grpc"
        && headers["te"] == "trailers"
        && request.method() == "POST";
    let grpc = http::Response::builder().header("content-type", "application/grpc");
    let whole = match method.as_str() {
        // Without a body the status is in the head.
        "Full" => grpc.header("grpc-status", "8").body(()),
        "Proxied" => http::Response::builder().status(502).body(()),
        "Page" => http::Response::builder().status(200).body(()),
        _ => {
            let Ok(mut sender) = respond.send_response(grpc.body(()).unwrap(), false) else {
                return;
            };
            let is_tea = is_call && body == b"\0\0\0\0\x05\x0a\x03tea";
            if is_tea {
                let _ = sender.send_data(Bytes::from_static(b"\0\0\0\0\0"), false);
            }
            let status = http::HeaderValue::from_static(if is_tea { "0" } else { "3" });
            let name = http::HeaderName::from_static("grpc-status");
            let _ = sender.send_trailers(http::HeaderMap::from_iter([(name, status)]));
            return;
        }
    };
    let _ = respond.send_response(whole.unwrap(), true);
}

async fn respond_http2(
    mut request: http::Request<h2::RecvStream>,
    mut respond: h2::server::SendResponse<Bytes>,
) {
    let mut content = Bytes::from_static(b"hello");
    let status = match request.uri().path() {
        "/failing" => 503,
        "/refused" => 413,
        "/echo" => {
            let mut body = Vec::new();
            while let Some(piece) = request.body_mut().data().await {
                let Ok(piece) = piece else { return };
                let _ = request.body_mut().flow_control().release_capacity(piece.len());
                body.extend_from_slice(&piece);
            }
            content = body.into();
            200
        }
        _ => 200,
    };
    let headers = request.headers();
    let is_right = headers.get("connection").is_none()
        && headers["user-agent"].as_bytes().starts_with(b"deathmatch/");
    let response = http::Response::builder().status(if is_right { status } else { 400 });
    if let Ok(mut body) = respond.send_response(response.body(()).unwrap(), false) {
        let _ = body.send_data(content, true);
    }
}
