//! Tests of clients that break the rules of HTTP/3: streams of raw bytes, and the expected end.

use std::time::Duration;

use quinn::{Connection, ConnectionError, VarInt};

use crate::server::Server;

/// Types of streams and frames (RFC 9114 sections 6.2 and 7.2, RFC 9204 section 4.2).
const CONTROL: u8 = 0;
const PUSH: u8 = 1;
const ENCODER: u8 = 2;
const SETTINGS: [u8; 3] = [CONTROL, 4, 0];

/// `:status: 200`, an entry of the static table (RFC 9204 appendix A).
const STATUS_200: u8 = 0xd9;

/// HEADERS that request `/a.txt` of `test.example`: the name as a literal, the rest from the static
/// table.
fn get() -> Vec<u8> {
    get_path(b"/a.txt")
}

fn get_path(path: &[u8; 6]) -> Vec<u8> {
    let mut block = vec![0, 0, 0xd1, 0xd7, 0x50, 12];
    block.extend(b"test.example");
    block.extend([0x51, 6]);
    block.extend(path);
    frame(1, &block)
}

fn frame(kind: u8, payload: &[u8]) -> Vec<u8> {
    [&[kind, u8::try_from(payload.len()).unwrap()], payload].concat()
}

/// The bytes of a client: of its unidirectional streams, then of a request. `true`: the stream ends
/// with them.
#[derive(Default)]
struct Sent {
    unidirectional: Vec<(Vec<u8>, bool)>,
    request: Option<(Vec<u8>, bool)>,
}

fn control(more: &[u8]) -> Sent {
    Sent { unidirectional: vec![([&SETTINGS, more].concat(), false)], request: None }
}

fn asked(bytes: Vec<u8>) -> Sent {
    Sent { request: Some((bytes, true)), ..control(&[]) }
}

/// Sends the bytes; returns the code with which the server ends the connection, or else the
/// request's stream (`Err`).
async fn end(connection: Connection, sent: Sent) -> Result<u64, u64> {
    for (bytes, is_end) in sent.unidirectional {
        let mut stream = connection.open_uni().await.unwrap();
        // The server may have ended the connection.
        let _ = stream.write_all(&bytes).await;
        match is_end {
            true => drop(stream.finish()),
            false => std::mem::forget(stream),
        }
    }
    let mut response = None;
    if let Some((bytes, is_end)) = sent.request {
        let (mut stream, receiving) = connection.open_bi().await.unwrap();
        let _ = stream.write_all(&bytes).await;
        match is_end {
            true => drop(stream.finish()),
            false => std::mem::forget(stream),
        }
        response = Some(receiving);
    }
    let reset = async {
        let Some(response) = &mut response else { return std::future::pending().await };
        match response.received_reset().await {
            Ok(Some(code)) => code.into_inner(),
            _ => std::future::pending().await,
        }
    };
    tokio::select! {
        reason = connection.closed() => match reason {
            ConnectionError::ApplicationClosed(close) => Ok(close.error_code.into_inner()),
            ConnectionError::ConnectionClosed(close) => Ok(u64::from(close.error_code)),
            other => panic!("{other}"),
        },
        code = reset => Err(code),
    }
}

#[test]
fn breaches_end_the_connection_or_the_stream_with_their_code() {
    let server = Server::start(&[("a.txt", "a")]);
    let rows: [(&str, Sent, Result<u64, u64>); 15] = [
        (
            "a control stream without SETTINGS",
            Sent { unidirectional: vec![(vec![CONTROL, 0, 0], false)], request: None },
            Ok(0x10a),
        ),
        ("a second SETTINGS", control(&[4, 0]), Ok(0x105)),
        (
            "a setting of HTTP/2",
            Sent { unidirectional: vec![(vec![CONTROL, 4, 2, 2, 0], false)], request: None },
            Ok(0x109),
        ),
        (
            "a closed control stream",
            Sent { unidirectional: vec![(SETTINGS.to_vec(), true)], request: None },
            Ok(0x104),
        ),
        (
            "two control streams",
            Sent {
                unidirectional: vec![(SETTINGS.to_vec(), false), (SETTINGS.to_vec(), false)],
                request: None,
            },
            Ok(0x103),
        ),
        (
            "a push by the client",
            Sent { unidirectional: vec![(vec![PUSH, 0], false)], request: None },
            Ok(0x103),
        ),
        (
            "a closed encoder stream",
            Sent { unidirectional: vec![(vec![ENCODER], true)], request: None },
            Ok(0x104),
        ),
        (
            "an insertion that refers to nothing",
            Sent { unidirectional: vec![(vec![ENCODER, 0x80, 0], false)], request: None },
            Ok(0x201),
        ),
        ("DATA on the control stream", control(&[0, 0]), Ok(0x105)),
        ("a frame of HTTP/2", control(&[6, 0]), Ok(0x105)),
        ("DATA before HEADERS", asked(vec![0, 0]), Ok(0x105)),
        ("a frame that is cut off", asked(vec![1, 9, 0]), Ok(0x106)),
        ("an index of no field", asked(frame(1, &[0, 0, 0xff, 0xff, 0xff, 0x7f])), Ok(0x200)),
        ("a request without a path", asked(frame(1, &[0, 0, 0xd1, 0xd7])), Err(0x10e)),
        ("an empty request", asked(vec![]), Err(0x10d)),
    ];
    for (why, sent, expected) in rows {
        let found = server.converse(async |connection, _| end(connection, sent).await);
        let text = |end: Result<u64, u64>| match end {
            Ok(code) => format!("the connection ends with {code:#x}"),
            Err(code) => format!("the stream ends with {code:#x}"),
        };
        assert_eq!(text(found), text(expected), "{why}");
    }
}

#[test]
fn unknown_streams_and_frames_are_ignored() {
    let server = Server::start(&[("a.txt", "a")]);
    server.converse(async |connection, _| {
        let mut control = connection.open_uni().await.unwrap();
        control.write_all(&[&SETTINGS[..], &frame(0x21, b"unknown")].concat()).await.unwrap();
        let mut unknown = connection.open_uni().await.unwrap();
        unknown.write_all(&[0x21, 1, 2, 3]).await.unwrap();
        let (mut request, mut response) = connection.open_bi().await.unwrap();
        request.write_all(&[frame(0x21, b"unknown"), get()].concat()).await.unwrap();
        request.finish().unwrap();
        let answer = response.read_to_end(1 << 20).await.unwrap();
        assert!(answer.ends_with(b"\0\x01a"), "{}", answer.escape_ascii());
    });
}

/// A request that is cancelled costs the client little and the server much (CVE-2023-44487).
#[test]
fn a_flood_of_cancelled_requests_ends_the_connection() {
    let server = Server::start(&[("a.txt", "a")]);
    let reason = server.converse(async |connection, _| {
        let mut control = connection.open_uni().await.unwrap();
        control.write_all(&SETTINGS).await.unwrap();
        loop {
            let Ok((mut request, mut response)) = connection.open_bi().await else { break };
            let _ = request.write_all(&[&get()[..], &[0, 9]].concat()).await;
            let _ = request.reset(VarInt::from_u32(0x10c));
            let _ = response.stop(VarInt::from_u32(0x10c));
        }
        connection.closed().await
    });
    let ConnectionError::ApplicationClosed(close) = reason else { panic!("{reason}") };
    assert_eq!(close.error_code.into_inner(), 0x107, "{close}");
}

/// The client reads nothing of many large responses; the server keeps little of them, and serves
/// others.
#[test]
fn a_client_that_does_not_read_delays_no_other() {
    let server = Server::start(&[("a.txt", "a")]);
    let large = vec![7; 4 << 20];
    std::fs::write(server.dir.path("b.txt"), large).unwrap();
    server.converse(async |connection, _| {
        let mut control = connection.open_uni().await.unwrap();
        control.write_all(&SETTINGS).await.unwrap();
        let mut held = Vec::new();
        for _ in 0..20 {
            let (mut request, response) = connection.open_bi().await.unwrap();
            let mut bytes = get();
            let at = bytes.len() - 5;
            bytes[at] = b'b';
            request.write_all(&bytes).await.unwrap();
            request.finish().unwrap();
            held.push(response);
        }
        server_answers(&server).await;
    });
}

/// Sends a request on another connection.
async fn server_answers(server: &Server) {
    let endpoint = crate::peer::endpoint(crate::peer::trusting(server.roots(), &["h3"]));
    let connection = endpoint.connect(server.address, crate::peer::NAME).unwrap().await.unwrap();
    let mut client = crate::peer::begin(connection).await;
    assert_eq!(crate::peer::get(&mut client, "/a.txt").await.text(), "a");
}

/// The client reads nothing of a response that is larger than its window.
#[test]
fn a_response_that_the_client_does_not_read_is_given_up() {
    let soon = Duration::from_millis(300);
    expect_to_be_given_up(&Server::with(&[("a.txt", "")], |config| {
        config.limits.write_stall = soon;
    }));
    expect_to_be_given_up(&Server::with(&[("a.txt", "")], |config| {
        config.sites[0].mounts[0].policy.timeouts.write_stall = Some(soon);
    }));
}

/// The response was not reset if all of it waited for the window, and never while any other
/// response of the connection moved.
#[test]
fn a_small_response_that_the_client_does_not_read_is_given_up() {
    let unread = "x".repeat(8 << 10);
    let server = Server::with(&[("a.txt", &unread), ("b.txt", "b")], |config| {
        config.limits.write_stall = Duration::from_millis(300);
    });
    for others_move in [false, true] {
        crate::peer::within_patience(async {
            let config = crate::peer::trusting(server.roots(), &["h3"]);
            let mut transport = quinn::TransportConfig::default();
            transport.stream_receive_window(VarInt::from_u32(1_000));
            let endpoint = crate::peer::endpoint_with(config, transport);
            let connecting = endpoint.connect(server.address, crate::peer::NAME).unwrap();
            let connection = connecting.await.unwrap();
            let mut control = connection.open_uni().await.unwrap();
            control.write_all(&SETTINGS).await.unwrap();
            let ask = async |path: &[u8; 6]| {
                let (mut request, response) = connection.open_bi().await.unwrap();
                request.write_all(&get_path(path)).await.unwrap();
                request.finish().unwrap();
                response
            };
            let mut response = ask(b"/a.txt").await;
            let others = async {
                if others_move {
                    loop {
                        ask(b"/b.txt").await.read_to_end(1_000).await.unwrap();
                    }
                }
                std::future::pending::<()>().await;
            };
            tokio::select! {
                reset = response.received_reset() => {
                    let code = reset.unwrap().map(VarInt::into_inner);
                    assert_eq!(code, Some(0x10c), "others move: {others_move}");
                }
                () = others => {}
            }
        });
    }
}

/// The end of a request that waited for the encoder stream was not read, so it had a body.
#[test]
fn a_request_that_waits_for_an_insertion_has_no_body() {
    let has_body = tower::service_fn(|request: http::Request<hurtle::RequestBody>| async move {
        let is_whole = http_body::Body::is_end_stream(request.body());
        let status = if is_whole { 200 } else { 404 };
        Ok::<_, std::convert::Infallible>(
            http::Response::builder().status(status).body(String::new()).unwrap(),
        )
    });
    let server = Server::app(|server| server.mount("*", "/", has_body).unwrap());
    server.converse(async |connection, _| {
        let mut control = connection.open_uni().await.unwrap();
        control.write_all(&SETTINGS).await.unwrap();
        // Refers to the first insertion, which follows.
        let mut block = get()[2..].to_vec();
        block[0] = 2;
        block.push(0x80);
        let (mut request, mut response) = connection.open_bi().await.unwrap();
        request.write_all(&frame(1, &block)).await.unwrap();
        request.finish().unwrap();
        // The server answers this one after it has read that one.
        let (mut other, mut answer) = connection.open_bi().await.unwrap();
        other.write_all(&get()).await.unwrap();
        other.finish().unwrap();
        assert!(answer.read_to_end(1_000).await.unwrap().contains(&STATUS_200));
        let mut encoder = connection.open_uni().await.unwrap();
        // A capacity of 220 bytes, and `x-a: b`.
        encoder
            .write_all(&[ENCODER, 0x3f, 0xbd, 1, 0x43, b'x', b'-', b'a', 1, b'b'])
            .await
            .unwrap();
        assert!(response.read_to_end(1_000).await.unwrap().contains(&STATUS_200));
    });
}

fn expect_to_be_given_up(server: &Server) {
    std::fs::write(server.dir.path("a.txt"), vec![9; 16 << 20]).unwrap();
    server.converse(async |connection, _| {
        let mut control = connection.open_uni().await.unwrap();
        control.write_all(&SETTINGS).await.unwrap();
        let (mut request, mut response) = connection.open_bi().await.unwrap();
        request.write_all(&get()).await.unwrap();
        request.finish().unwrap();
        let reset = response.received_reset().await.unwrap();
        assert_eq!(reset.map(VarInt::into_inner), Some(0x10c));
    });
}
