//! Tests of request bodies: splits, trailers, back-pressure, and 100 Continue.

use std::fmt::Write as _;
use std::future::{pending, poll_fn};
use std::io::{ErrorKind, Write};
use std::pin::Pin;
use std::sync::mpsc;
use std::task::{Context, Poll};
use std::time::Duration;

use bytes::Bytes;
use http::{Request, Response, StatusCode};
use http_body::{Body, Frame};
use http_body_util::{BodyExt, Full};
use hurtle::{Config, RequestBody};
use tokio::sync::Notify;
use tokio::time::timeout;

use crate::support::{App, Guard};

/// Streams the request's body back.
async fn echo(request: Request<RequestBody>) -> Response<RequestBody> {
    Response::new(request.into_body())
}

/// A body that begins before the request's, which follows, is read.
struct Begun {
    has_begun: bool,
    rest: RequestBody,
}

impl Body for Begun {
    type Data = Bytes;
    type Error = <RequestBody as Body>::Error;

    fn poll_frame(
        mut self: Pin<&mut Self>,
        cx: &mut Context<'_>,
    ) -> Poll<Option<Result<Frame<Bytes>, Self::Error>>> {
        match std::mem::replace(&mut self.has_begun, true) {
            false => Poll::Ready(Some(Ok(Frame::data(Bytes::from_static(b"begun"))))),
            true => Pin::new(&mut self.rest).poll_frame(cx),
        }
    }
}

async fn begin_and_echo(request: Request<RequestBody>) -> Response<Begun> {
    Response::new(Begun { has_begun: false, rest: request.into_body() })
}

/// Reads the whole body before it responds.
async fn count(request: Request<RequestBody>) -> Response<Full<Bytes>> {
    match request.into_body().collect().await {
        Ok(body) => Response::new(body.to_bytes().len().to_string().into()),
        Err(_) => panic!("a broken body is the server's to answer"),
    }
}

/// Responds without reading the body.
async fn ignore(_: Request<RequestBody>) -> Response<Full<Bytes>> {
    Response::new("ignored".into())
}

const CHUNKED: &str = "POST / HTTP/1.1\r\nHost: a\r\nTransfer-Encoding: chunked\r\n";

#[test]
fn bodies_arrive_whole_in_any_split() {
    let app = App::of(echo);
    let chunked = format!("{CHUNKED}\r\n5\r\nhello\r\n1;x=y\r\n \r\n5\r\nworld\r\n0\r\n\r\n");
    let trailers =
        format!("{CHUNKED}TE: trailers\r\n\r\n2\r\nhi\r\n0\r\nSum: 1\r\nHost: b\r\n\r\n");
    let rows = [
        (
            "a length",
            "POST / HTTP/1.1\r\nHost: a\r\nContent-Length: 11\r\n\r\nhello world",
            "hello world",
        ),
        ("no body", "POST / HTTP/1.1\r\nHost: a\r\n\r\n", ""),
        ("chunks", &chunked, "hello world"),
        ("trailers, without those that frame or route", &trailers, "hiSum: 1\n"),
    ];
    for (what, request, want) in rows {
        for size in [1, 2, 3, 7, usize::MAX] {
            let mut client = app.connect();
            // The connection continues after each request.
            for _ in 0..2 {
                client.send_split(request.as_bytes(), size);
                let (head, body) = client.answer();
                assert_eq!(body, want, "{what}, in pieces of {size}: {head}");
            }
        }
    }
}

#[test]
fn an_upload_waits_for_its_reader() {
    let (go, reading) = (std::sync::Arc::new(Notify::new()), std::sync::Arc::new(Notify::new()));
    let (gate, begun) = (go.clone(), reading.clone());
    let app = App::of(move |request: Request<RequestBody>| {
        let (gate, begun) = (gate.clone(), begun.clone());
        async move {
            begun.notify_one();
            gate.notified().await;
            let mut body = request.into_body();
            let (mut total, mut largest) = (0, 0);
            while let Some(frame) = body.frame().await {
                let len = frame.unwrap().into_data().unwrap().len();
                (total, largest) = (total + len, largest.max(len));
            }
            Response::new(Full::<Bytes>::from(format!("{total} {}", largest <= 64 << 10)))
        }
    });
    // More than the kernel's socket buffers hold.
    let len: usize = 64 << 20;
    let mut client = app.connect();
    client.send(format!("PUT / HTTP/1.1\r\nHost: a\r\nContent-Length: {len}\r\n\r\n"));
    client.stream.set_write_timeout(Some(Duration::from_millis(300))).unwrap();
    let piece = vec![b'x'; 64 << 10];
    let mut sent = 0;
    while sent < len {
        match client.stream.write(&piece[..piece.len().min(len - sent)]) {
            Ok(n) => sent += n,
            Err(e) if e.kind() == ErrorKind::Interrupted => {}
            Err(e) => {
                assert_eq!(e.kind(), ErrorKind::WouldBlock);
                break;
            }
        }
    }
    assert!(sent < len / 2, "nobody reads, so {sent} of {len} bytes are held somewhere");
    go.notify_one();
    client.stream.set_write_timeout(None).unwrap();
    while sent < len {
        let next = &piece[..piece.len().min(len - sent)];
        client.stream.write_all(next).unwrap();
        sent += next.len();
    }
    assert_eq!(client.answer().1, format!("{len} true"));
}

#[test]
fn a_body_may_be_read_on_another_thread() {
    let app = App::of(|request: Request<RequestBody>| async {
        let (told, hear) = tokio::sync::oneshot::channel();
        std::thread::spawn(move || {
            let thread = tokio::runtime::Builder::new_current_thread().build().unwrap();
            assert!(told.send(thread.block_on(count(request))).is_ok());
        });
        hear.await.unwrap()
    });
    let mut client = app.connect();
    for _ in 0..10 {
        client.send_split(format!("{CHUNKED}\r\n2\r\nhi\r\n2\r\nho\r\n0\r\n\r\n").as_bytes(), 7);
        assert_eq!(client.answer().1, "4");
    }
}

#[test]
fn a_client_gets_100_continue_once_its_body_is_read() {
    const ASK: &str =
        "POST / HTTP/1.1\r\nHost: a\r\nExpect: 100-continue\r\nContent-Length: 2\r\n\r\n";
    let app = App::of(count);
    let mut client = app.connect();
    client.send(ASK);
    assert_eq!(client.head(), "HTTP/1.1 100 Continue\n");
    client.send("hi");
    assert_eq!(client.answer().1, "2");
    client.send(format!("{ASK}hi"));
    let (head, body) = client.answer();
    assert!(head.starts_with("HTTP/1.1 200"), "who does not wait needs no invitation: {head}");
    assert_eq!(body, "2");

    let app = App::of(ignore);
    let mut client = app.connect();
    client.send(ASK);
    let (head, body) = client.answer();
    assert!(head.starts_with("HTTP/1.1 200"), "nobody wants it: {head}");
    assert!(head.contains("Connection: close"), "whether it comes is not known: {head}");
    assert_eq!((body.as_str(), client.rest().as_str()), ("ignored", ""));

    let app = App::of(echo);
    let mut client = app.connect();
    client.send(ASK);
    let why = "wanted once the answer was made, so before its head";
    assert_eq!(client.head(), "HTTP/1.1 100 Continue\n", "{why}");
    assert!(client.head().starts_with("HTTP/1.1 200"), "{why}");
    client.send("hi");
    assert_eq!(client.take(2), b"hi");

    let app = App::of(begin_and_echo);
    let mut client = app.connect();
    client.send(ASK);
    assert!(client.head().starts_with("HTTP/1.1 200"), "its response begins without the body");
    assert_eq!(client.take(10), b"5\r\nbegun\r\n");
    client.send("hi");
    assert_eq!(client.rest(), "2\r\nhi\r\n0\r\n\r\n", "no invitation within the response");
}

#[test]
fn an_answer_may_come_before_the_body() {
    let app = App::of(ignore);
    let mut client = app.connect();
    for body in
        ["Content-Length: 5\r\n\r\nhello", "Transfer-Encoding: chunked\r\n\r\n1\r\na\r\n0\r\n\r\n"]
    {
        client.send(format!("POST / HTTP/1.1\r\nHost: a\r\n{body}"));
        let (head, body) = client.answer();
        assert!(!head.contains("close"), "a small body is passed over: {head}");
        assert_eq!(body, "ignored");
    }

    let len = 256 << 20;
    let mut client = app.connect();
    client.send(format!("POST / HTTP/1.1\r\nHost: a\r\nContent-Length: {len}\r\n\r\n0123456789"));
    let (head, body) = client.answer();
    assert!(head.contains("Connection: close"), "a large one is not: {head}");
    assert_eq!(body, "ignored");
    client.send(vec![b'x'; 64 << 10]);
    assert_eq!(client.rest(), "", "and its sender can read the answer before the end");

    let app = App::of(count);
    let mut client = app.connect();
    client.send("POST / HTTP/1.1\r\nHost: a\r\nContent-Length: 0\r\n\r\n");
    assert_eq!(client.answer().1, "0");
}

#[test]
fn a_broken_body_is_answered_by_the_server() {
    let slow = |config: &mut Config| {
        config.limits.body_grace = Duration::from_millis(100);
    };
    let (gone, told) = mpsc::channel();
    let app = App::with(slow, move |request| {
        let guard = Guard(gone.clone());
        async move {
            let answer = count(request).await;
            std::mem::forget(guard);
            answer
        }
    });
    let rows = [
        ("a size that is none", format!("{CHUNKED}\r\nx\r\n"), "HTTP/1.1 400"),
        ("a chunk beyond its size", format!("{CHUNKED}\r\n1\r\nabc"), "HTTP/1.1 400"),
        (
            "too many trailers",
            format!("{CHUNKED}\r\n0\r\n{}\r\n", "a:b\r\n".repeat(101)),
            "HTTP/1.1 431",
        ),
        ("one that does not come", format!("{CHUNKED}\r\n1\r\na\r\n"), "HTTP/1.1 408"),
    ];
    for (what, request, want) in rows {
        let mut client = app.connect();
        client.send(request);
        let (head, _) = client.answer();
        assert!(head.starts_with(want) && head.contains("close"), "{what}: {head}");
        assert_eq!(told.recv_timeout(Duration::from_secs(10)), Ok("dropped"), "{what}");
    }
}

#[test]
fn every_method_arrives() {
    let app = App::of(|request: Request<RequestBody>| async move {
        let text = format!("{} {:?}", request.method(), request.version());
        Response::builder().status(StatusCode::ACCEPTED).body(Full::<Bytes>::from(text)).unwrap()
    });
    for method in ["GET", "POST", "PUT", "PATCH", "DELETE", "OPTIONS", "TRACE", "PROPFIND"] {
        let (head, body) = app.ask(&format!("{method} / HTTP/1.1\r\nHost: a\r\n\r\n"));
        assert_eq!(body, format!("{method} HTTP/1.1"));
        assert!(head.starts_with("HTTP/1.1 202 Accepted\n"), "{head}");
    }
    let (head, _) = app.ask("OPTIONS * HTTP/1.1\r\nHost: a\r\n\r\n");
    assert!(head.starts_with("HTTP/1.1 204"), "this one is about the server: {head}");
}

/// Responds with the target, each field and the body that it received.
async fn echo_request(request: Request<RequestBody>) -> Response<Full<Bytes>> {
    let (head, body) = request.into_parts();
    let mut text = format!("{} {}\n", head.method, head.uri);
    for (name, value) in &head.headers {
        writeln!(text, "{name}: {}", value.to_str().unwrap()).unwrap();
    }
    let body = body.collect().await.unwrap().to_bytes();
    text.push_str(str::from_utf8(&body).unwrap());
    Response::new(text.into())
}

/// The server remembers field sections that repeat. A section that differs must not match one.
#[test]
fn repeated_field_sections_are_received_as_sent() {
    let app = App::of(echo_request);
    let mine = "host: a\r\nx-token: mine\r\n";
    let rows = [
        ("GET /1", mine, ""),
        ("GET /2", mine, ""),
        ("GET /3?q", mine, ""),
        ("GET /4", "host: a\r\nx-token: your\r\n", ""),
        ("GET /5", mine, ""),
        ("DELETE /6", mine, ""),
        ("POST /7", "host: a\r\ncontent-length: 2\r\n", "ab"),
        ("POST /8", "host: a\r\ncontent-length: 2\r\n", "cd"),
        ("POST /9", "host: a\r\ncontent-length: 2\r\n", "ef"),
        ("POST /10", "host: a\r\ncontent-length: 2\r\n", "gh"),
        ("GET /11", "host: b\r\nx-token: mine\r\n", ""),
        ("GET /12", mine, ""),
    ];
    for whole in [true, false] {
        for _ in 0..2 {
            let mut client = app.connect();
            for (line, fields, body) in rows {
                let request = format!("{line} HTTP/1.1\r\n{fields}\r\n{body}");
                client.send_split(request.as_bytes(), if whole { usize::MAX } else { 5 });
                let expected = format!("{line}\n{}{body}", fields.replace("\r\n", "\n"));
                assert_eq!(client.answer().1, expected, "in one piece: {whole}");
            }
        }
    }
}

/// Regression: the handler was cancelled with 408.
#[test]
fn a_body_that_is_dropped_while_it_is_awaited_is_awaited_no_longer() {
    let late = |config: &mut Config| config.limits.body_grace = Duration::from_millis(200);
    let app = App::with(late, |request: Request<RequestBody>| async {
        let mut body = request.into_body();
        let first = poll_fn(|cx| Poll::Ready(Pin::new(&mut body).poll_frame(cx).is_ready())).await;
        // The server waits for the client now.
        tokio::task::yield_now().await;
        drop(body);
        // Longer than the client has for its body.
        let _ = timeout(Duration::from_secs(1), pending::<()>()).await;
        Response::new(Full::<Bytes>::from(if first { "a frame" } else { "none" }))
    });
    let (head, body) = app.ask("POST / HTTP/1.1\r\nHost: a\r\nContent-Length: 10\r\n\r\n");
    assert!(head.starts_with("HTTP/1.1 200"), "{head}");
    assert_eq!(body, "none");
}
