//! A WebSocket on a stream (RFC 9220); the tests of HTTP/2 have more cases of the same code.

use std::io::{Read as _, Write as _};
use std::net::TcpListener;
use std::thread;

use bytes::Bytes;
use h2::RecvStream;
use h2::server::SendResponse;
use http::{Request, Response};

use crate::library;
use crate::server::Server;

/// Types of frames (RFC 9114 section 7.2).
const DATA: u8 = 0;
const HEADERS: u8 = 1;

fn frame(kind: u8, payload: &[u8]) -> Vec<u8> {
    let len = u16::try_from(payload.len()).unwrap() | 0x4000;
    [&[kind], &len.to_be_bytes()[..], payload].concat()
}

/// A field section of literals (RFC 9204 section 4.5.6).
fn asking() -> Vec<u8> {
    let fields = [
        (":method", "CONNECT"),
        (":protocol", "websocket"),
        (":scheme", "https"),
        (":authority", "test.example"),
        (":path", "/chat"),
        ("sec-websocket-version", "13"),
    ];
    let mut section = vec![0, 0];
    for (name, value) in fields {
        // Lengths of names have a prefix of three bits, so they continue in a second byte.
        let len = u8::try_from(name.len()).unwrap();
        match len {
            0..7 => section.push(0x20 | len),
            _ => section.extend([0x27, len - 7]),
        }
        section.extend(name.as_bytes());
        section.push(u8::try_from(value.len()).unwrap());
        section.extend(value.as_bytes());
    }
    section
}

/// Reads a frame; `None`: the end of the stream.
async fn next(stream: &mut quinn::RecvStream) -> Option<(u8, Vec<u8>)> {
    let mut kind = [0];
    stream.read(&mut kind).await.unwrap()?;
    let mut first = [0];
    stream.read_exact(&mut first).await.unwrap();
    // RFC 9000 section 16.
    let mut len = usize::from(first[0] & 0x3f);
    for _ in 1..1 << (first[0] >> 6) {
        let mut byte = [0];
        stream.read_exact(&mut byte).await.unwrap();
        len = len << 8 | usize::from(byte[0]);
    }
    let mut payload = vec![0; len];
    stream.read_exact(&mut payload).await.unwrap();
    Some((kind[0], payload))
}

#[test]
fn a_tunnel_carries_bytes_both_ways() {
    let upstream = TcpListener::bind("127.0.0.1:0").unwrap();
    let address = upstream.local_addr().unwrap();
    let server =
        Server::configured(&[], &format!("[[site]]\n[[site.mount]]\nproxy = 'http://{address}'\n"));
    let far = thread::spawn(move || {
        let (mut peer, _) = upstream.accept().unwrap();
        let (mut head, mut byte) = (Vec::new(), [0]);
        while !head.ends_with(b"\r\n\r\n") {
            peer.read_exact(&mut byte).unwrap();
            head.push(byte[0]);
        }
        let head = String::from_utf8(head).unwrap();
        assert!(head.starts_with("GET /chat HTTP/1.1\r\n"), "{head}");
        assert!(head.contains("Upgrade: websocket\r\nSec-WebSocket-Key: "), "{head}");
        let agreed = "HTTP/1.1 101 Switching Protocols\r\nConnection: Upgrade\r\n\
                      Upgrade: websocket\r\nSec-WebSocket-Accept: b\r\n\r\nfirst";
        peer.write_all(agreed.as_bytes()).unwrap();
        // An echo.
        let mut piece = [0; 4096];
        while let Ok(n @ 1..) = peer.read(&mut piece) {
            peer.write_all(&piece[..n]).unwrap();
        }
    });
    converse(&server);
    far.join().unwrap();
}

/// Accepts a tunnel, sends "first" and echoes what comes.
async fn echo(mut request: Request<RecvStream>, mut respond: SendResponse<Bytes>) {
    assert_eq!(request.extensions().get::<h2::ext::Protocol>().unwrap().as_str(), "websocket");
    let mut body = respond.send_response(Response::new(()), false).unwrap();
    body.send_data("first".into(), false).unwrap();
    while let Some(Ok(data)) = request.body_mut().data().await {
        request.body_mut().flow_control().release_capacity(data.len()).unwrap();
        body.send_data(data, false).unwrap();
    }
    body.send_data(Bytes::new(), true).unwrap();
}

#[test]
fn a_tunnel_goes_on_as_a_stream_of_an_upstream() {
    let mut settings = h2::server::Builder::new();
    let upstream = library::Upstream::configured(settings.enable_connect_protocol(), echo);
    let mount = format!("[[site]]\n[[site.mount]]\nproxy = 'h2c://{}'\n", upstream.address);
    converse(&Server::configured(&[], &mount));
}

/// Opens a tunnel to an upstream that sends "first" and echoes what comes.
fn converse(server: &Server) {
    let large = vec![b'x'; 10_000];
    server.converse(async |connection, _| {
        let mut control = connection.open_uni().await.unwrap();
        // SETTINGS without any.
        control.write_all(&[0, 4, 0]).await.unwrap();
        let (mut sending, mut receiving) = connection.open_bi().await.unwrap();
        sending.write_all(&frame(HEADERS, &asking())).await.unwrap();
        let (kind, head) = next(&mut receiving).await.unwrap();
        // Status 200 is entry 25 of the static table (RFC 9204 appendix A).
        assert_eq!((kind, &head[..3]), (HEADERS, &[0, 0, 0xc0 | 25][..]));
        let mut received = Vec::new();
        for sent in [&b""[..], b"one", &large] {
            let len = received.len() + if sent.is_empty() { 5 } else { sent.len() };
            sending.write_all(&frame(DATA, sent)).await.unwrap();
            while received.len() < len {
                let (kind, data) = next(&mut receiving).await.unwrap();
                assert_eq!(kind, DATA);
                received.extend(data);
            }
        }
        assert!(received == [&b"firstone"[..], &large].concat());
        sending.finish().unwrap();
        assert_eq!(next(&mut receiving).await, None, "both ends have ended");
    });
}
