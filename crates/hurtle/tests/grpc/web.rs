//! Calls of gRPC-Web that become gRPC.

use base64::Engine as _;
use base64::engine::general_purpose::STANDARD;
use bytes::Bytes;
use h2::RecvStream;
use h2::server::SendResponse;
use http::{HeaderMap, Request, Response};

use crate::library::{Upstream, framed, read, talk, whole};
use crate::support::Proxy;

/// Echoes the body after a message with the content type and `te`.
async fn answer(mut request: Request<RecvStream>, mut respond: SendResponse<Bytes>) {
    let field = |name: &str| request.headers().get(name).map_or("none", |v| v.to_str().unwrap());
    let told = format!("{} {}", field("content-type"), field("te"));
    let head = Response::builder().header("content-type", "application/grpc+proto");
    if request.uri().path() == "/only" {
        let head = head.header("grpc-status", "5").body(()).unwrap();
        respond.send_response(head, true).unwrap();
        return;
    }
    // A malformed request is cancelled.
    let Ok(sent) = read(request.body_mut()).await else { return };
    let mut body = respond.send_response(head.body(()).unwrap(), false).unwrap();
    body.send_data(framed(told.as_bytes()), false).unwrap();
    body.send_data(sent.into(), false).unwrap();
    let mut trailers = HeaderMap::new();
    trailers.insert("grpc-status", "0".parse().unwrap());
    body.send_trailers(trailers).unwrap();
}

fn proxy(upstream: &Upstream) -> Proxy {
    Proxy::of("", &format!("proxy = \"h2c://{}\"\ngrpc_web = true", upstream.address))
}

const END: &[u8] = b"\x80\0\0\0\x10grpc-status: 0\r\n";

fn expected(message: &[u8]) -> Vec<u8> {
    [&framed(b"application/grpc+proto trailers")[..], &framed(message), END].concat()
}

fn post(path: &str, media_type: &str, body: &[u8]) -> Vec<u8> {
    let len = body.len();
    let head = format!(
        "POST {path} HTTP/1.1\r\nHost: a\r\nContent-Type: {media_type}\r\nX-Grpc-Web: 1\r\n\
         Content-Length: {len}\r\n\r\n"
    );
    [head.as_bytes(), body].concat()
}

#[test]
fn frames_over_http1() {
    let upstream = Upstream::start(100, answer);
    let proxy = proxy(&upstream);
    let mut client = proxy.send(post("/a", "application/grpc-web+proto", &framed(b"message")));
    let head = client.head();
    assert!(head.contains("Content-Type: application/grpc-web+proto\n"), "{head}");
    assert_eq!(client.chunks(), expected(b"message"));
}

/// Regression: the response had no length, so that the client waited for the connection's end.
#[test]
fn a_call_without_a_message_ends_over_http1() {
    let upstream = Upstream::start(100, answer);
    let proxy = proxy(&upstream);
    let mut client = proxy.connect();
    for _ in 0..2 {
        client.send(post("/only", "application/grpc-web+proto", &framed(b"")));
        let head = client.head().to_lowercase();
        assert!(
            head.contains("grpc-status: 5\n") && head.contains("content-length: 0\n"),
            "{head}"
        );
    }
}

#[test]
fn base64_over_http1_in_any_pieces() {
    let upstream = Upstream::start(100, answer);
    let proxy = proxy(&upstream);
    let text = STANDARD.encode(framed(b"message"));
    for size in [1, 3, 1_000] {
        let mut client = proxy.connect();
        let request = post("/a", "application/grpc-web-text+proto", text.as_bytes());
        client.send_split(&request, size);
        let head = client.head();
        assert!(head.contains("Content-Type: application/grpc-web-text+proto\n"), "{head}");
        // Each piece of the response has its own padding.
        let body = String::from_utf8(client.chunks()).unwrap();
        let mut frames = Vec::new();
        let mut rest = &body[..];
        while !rest.is_empty() {
            let end = rest.find('=').map_or(rest.len(), |at| (at / 4 + 1) * 4);
            frames.extend(STANDARD.decode(&rest[..end]).unwrap());
            rest = &rest[end..];
        }
        assert_eq!(frames, expected(b"message"), "in pieces of {size}");
    }
}

#[test]
fn frames_over_http2_and_errors() {
    let upstream = Upstream::start(100, answer);
    let proxy = proxy(&upstream);
    let call = |path: &'static str, body: Bytes| {
        talk(proxy.address, async move |client| {
            let mut client = client.ready().await.unwrap();
            let head = Request::post(format!("http://a{path}"))
                .header("content-type", "application/grpc-web-text")
                .body(())
                .unwrap();
            let (response, mut stream) = client.send_request(head, false).unwrap();
            stream.send_data(body, true).unwrap();
            whole(response.await.unwrap()).await.unwrap()
        })
    };
    let only = call("/only", STANDARD.encode(framed(b"")).into());
    assert_eq!(only.grpc_status(), Some("5"), "in the head, without a body");
    assert_eq!(only.head.headers["content-type"], "application/grpc-web-text+proto");
    let malformed = call("/a", "!!!!".into());
    assert_eq!((malformed.head.status.as_u16(), malformed.grpc_status()), (200, Some("13")));
    assert_eq!(malformed.head.headers["content-type"], "application/grpc-web-text");
    let mut client = proxy.send(post("/a", "text/plain", b"as it is"));
    let head = client.head();
    assert!(head.contains("content-type: application/grpc+proto\n"), "another request: {head}");
}

/// Sends a message, then reads the body; resets the stream for `/reset`.
async fn answer_first(mut request: Request<RecvStream>, mut respond: SendResponse<Bytes>) {
    let head = Response::builder().header("content-type", "application/grpc").body(()).unwrap();
    let mut body = respond.send_response(head, false).unwrap();
    body.send_data(framed(b"first"), false).unwrap();
    // The rest of a malformed body is a reset stream.
    let _ = request.body_mut().data().await;
    if request.uri().path() == "/reset" {
        body.send_reset(h2::Reason::ENHANCE_YOUR_CALM);
    }
}

/// The status in the last frame of a response.
fn last_status(frames: &[u8]) -> String {
    let begin = framed(b"first").len();
    assert_eq!(frames[begin], 0x80, "a frame of trailers: {}", frames.escape_ascii());
    let text = String::from_utf8(frames[begin + 5..].to_vec()).unwrap();
    text.lines().next().unwrap().to_owned()
}

/// A malformed body stalled the call until `read_timeout`, because nothing reported the failure of
/// the request to the reader of the response.
#[test]
fn calls_that_fail_after_the_head_end_with_a_status() {
    let upstream = Upstream::start(100, answer_first);
    let proxy = proxy(&upstream);
    for (path, rest, expected) in [
        ("/a", &b"4\r\n!!!!\r\n"[..], "grpc-status: 13"),
        ("/a", b"1\r\nA\r\n0\r\n\r\n", "grpc-status: 13"),
        ("/reset", b"4\r\nAAAA\r\n", "grpc-status: 8"),
    ] {
        let mut client = proxy.send(format!(
            "POST {path} HTTP/1.1\r\nHost: a\r\nContent-Type: application/grpc-web-text\r\n\
             Transfer-Encoding: chunked\r\n\r\n"
        ));
        assert!(client.head().starts_with("HTTP/1.1 200"), "{path}");
        client.send(rest);
        let text = String::from_utf8(client.chunks()).unwrap();
        let first = STANDARD.encode(framed(b"first"));
        let (first, end) = text.split_at(first.len());
        let frames = [first, end].map(|text| STANDARD.decode(text).unwrap()).concat();
        assert_eq!(last_status(&frames), expected, "{path}");
    }
    let status = talk(proxy.address, async |client| {
        let mut client = client.ready().await.unwrap();
        let head = Request::post("http://a/a")
            .header("content-type", "application/grpc-web-text")
            .body(())
            .unwrap();
        let (response, mut stream) = client.send_request(head, false).unwrap();
        let response = response.await.unwrap();
        stream.send_data("!!!!".into(), false).unwrap();
        let whole = whole(response).await.unwrap();
        let (first, end) = whole.body.split_at(STANDARD.encode(framed(b"first")).len());
        let frames = [first, end].map(|text| STANDARD.decode(text).unwrap()).concat();
        last_status(&frames)
    });
    assert_eq!(status, "grpc-status: 13", "over HTTP/2");
}
