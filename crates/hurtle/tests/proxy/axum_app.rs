//! Tests with an axum application on hyper behind the proxy, and with curl as the client.

use std::net::{SocketAddr, TcpListener};
use std::process::{Command, Stdio};
use std::{fs, thread};

use axum::Router;
use axum::body::{Body, Bytes};
use axum::extract::DefaultBodyLimit;
use axum::extract::ws::{Message, WebSocket, WebSocketUpgrade};
use axum::http::HeaderMap;
use axum::response::{Redirect, Response};
use axum::routing::{any, get, post};
use sha2::{Digest as _, Sha256};

use crate::support::Proxy;

/// Serves the application until the test ends.
fn application() -> SocketAddr {
    let listener = TcpListener::bind("127.0.0.1:0").unwrap();
    listener.set_nonblocking(true).unwrap();
    let address = listener.local_addr().unwrap();
    let routes = Router::new()
        .route("/big", get(|| async { Body::from(vec![b'x'; 3_000_000]) }))
        .route("/sum", post(sum).put(sum).layer(DefaultBodyLimit::disable()))
        .route("/there", get(|| async { Redirect::to("/big") }))
        .route("/told", get(describe))
        .route("/ws", any(|ws: WebSocketUpgrade| async { ws.on_upgrade(echo) }));
    thread::spawn(move || {
        let runtime = tokio::runtime::Builder::new_current_thread().enable_all().build().unwrap();
        runtime.block_on(async {
            let listener = tokio::net::TcpListener::from_std(listener).unwrap();
            axum::serve(listener, routes).await.unwrap();
        });
    });
    address
}

async fn sum(body: Bytes) -> String {
    format!("{} {:02x?}", body.len(), &Sha256::digest(&body)[..4])
}

async fn describe(fields: HeaderMap) -> Response<String> {
    let told = ["host", "x-forwarded-for", "x-forwarded-proto", "via"];
    let value = |name: &str| fields.get(name).map_or("-", |value| value.to_str().unwrap());
    Response::new(told.map(value).join(" "))
}

async fn echo(mut socket: WebSocket) {
    while let Some(Ok(message)) = socket.recv().await {
        // axum answers pings and closes itself.
        if let Message::Text(_) = message
            && socket.send(message).await.is_err()
        {
            return;
        }
    }
}

/// Runs curl; its output, followed by the HTTP version and the status.
#[track_caller]
fn curl(arguments: &[&str], input: Stdio) -> String {
    let output = Command::new("curl")
        .args(["--silent", "--show-error", "--max-time", "20"])
        .args(["--write-out", " %{http_version} %{http_code}"])
        .args(arguments)
        .stdin(input)
        .output()
        .unwrap();
    assert!(output.status.success(), "{}", String::from_utf8_lossy(&output.stderr));
    String::from_utf8(output.stdout).unwrap()
}

#[test]
fn curl_gets_and_sends_whatever_the_version_and_the_framing() {
    let proxy = Proxy::of("", &format!("proxy = \"http://{}\"", application()));
    let address = proxy.connect().stream.peer_addr().unwrap();
    let url = |path: &str| format!("http://{address}{path}");
    let sent: Vec<u8> = (0..2_000_000_u32).map(|n| (n % 253) as u8).collect();
    let file = std::env::temp_dir().join(format!("hurtle-curl-{}", std::process::id()));
    fs::write(&file, &sent).unwrap();
    let name = file.display().to_string();
    let summed = format!("2000000 {:02x?}", &Sha256::digest(&sent)[..4]);
    for (option, version) in [("--http1.1", "1.1"), ("--http2-prior-knowledge", "2")] {
        let said = |arguments: &[&str]| curl(&[&[option], arguments].concat(), Stdio::null());
        let big = said(&[&url("/big")]);
        assert_eq!(big.len(), 3_000_000 + format!(" {version} 200").len(), "{version}");
        // curl knows a file's length and sends Expect: 100-continue; for its input it knows no
        // length.
        let expected = format!("{summed} {version} 200");
        assert_eq!(said(&["--upload-file", &name, &url("/sum")]), expected);
        let input = Stdio::from(fs::File::open(&file).unwrap());
        assert_eq!(curl(&[option, "--upload-file", "-", &url("/sum")], input), expected);
        assert_eq!(
            said(&["--head", "--output", "/dev/null", &url("/big")]),
            format!(" {version} 200")
        );
        let via = if version == "2" { "2.0" } else { "1.1" };
        let told = format!("{address} 127.0.0.1 http {via} hurtle {version} 200");
        assert_eq!(said(&[&url("/told")]), told);
    }
    // Not over HTTP/2: in curl 7.88 a connection's second such request fails with any server.
    let followed = ["--location", "--output", "/dev/null", &url("/there")];
    assert_eq!(curl(&followed, Stdio::null()), " 1.1 200");
    fs::remove_file(file).unwrap();
}

#[test]
fn a_websocket_of_axum_echoes() {
    let proxy = Proxy::of("", &format!("proxy = \"http://{}\"", application()));
    let mut client = proxy.send(
        "GET /ws HTTP/1.1\r\nHost: a\r\nConnection: Upgrade\r\nUpgrade: websocket\r\n\
         Sec-WebSocket-Version: 13\r\nSec-WebSocket-Key: dGhlIHNhbXBsZSBub25jZQ==\r\n\r\n",
    );
    let head = client.head();
    assert!(head.contains("s3pPLMBiTxaQ9kYGzzhZRbK+xOo="), "{head}");
    // A frame masked with zeros (RFC 6455 5.2).
    let frame =
        |first: u8, data: &[u8]| [&[first, 0x80 | data.len() as u8, 0, 0, 0, 0][..], data].concat();
    client.send([frame(0x01, b"he"), frame(0x89, b"?"), frame(0x80, b"llo")].concat());
    assert_eq!(client.take(3), b"\x8a\x01?", "a ping within a message");
    assert_eq!(client.take(7), b"\x81\x05hello", "a message in two fragments");
    client.send(frame(0x88, &[0x03, 0xe8]));
    assert_eq!(client.take(4), [0x88, 2, 0x03, 0xe8], "a close is answered");
    assert_eq!(client.rest(), "", "and then the connection ends");
}
