//! Messages on WebSockets and calls of gRPC.

use std::fs;
use std::io::{Read, Write};
use std::net::{SocketAddr, TcpListener, TcpStream};
use std::process::{Command, Output};
use std::sync::PoisonError;
use std::thread;

use deathmatch::tls::Identity;
use http::{Response, StatusCode};
use rustls::{ServerConnection, StreamOwned};
use serde_json::Value;
use tungstenite::handshake::server::{ErrorResponse, Request};
use tungstenite::{Message, accept_hdr};

use crate::scripted::folder;
use crate::server::{serve_http2, serve_http2_plainly, tls};
use crate::{DEATHMATCH, ONE_AT_A_TIME, said};

/// A server of WebSockets, whose answers depend on the path.
fn websockets(identity: Option<&Identity>) -> SocketAddr {
    let listener = TcpListener::bind("127.0.0.1:0").unwrap();
    let address = listener.local_addr().unwrap();
    let config = identity.map(|identity| tls(identity, b"http/1.1"));
    thread::spawn(move || {
        for socket in listener.incoming() {
            let config = config.clone();
            thread::spawn(move || {
                let socket: TcpStream = socket.unwrap();
                let _ = socket.set_nodelay(true);
                match config {
                    None => converse(socket),
                    Some(config) => {
                        converse(StreamOwned::new(ServerConnection::new(config).unwrap(), socket));
                    }
                }
            });
        }
    });
    address
}

#[allow(clippy::result_large_err, reason = "the library's type")]
fn converse(socket: impl Read + Write) {
    let mut path = String::new();
    let accepted = accept_hdr(socket, |request: &Request, response| {
        path = request.uri().path().to_owned();
        let mut refused = ErrorResponse::new(None);
        *refused.status_mut() = StatusCode::NOT_FOUND;
        if path == "/none" { Err(refused) } else { Ok::<Response<()>, _>(response) }
    });
    let Ok(mut socket) = accepted else { return };
    for number in 0.. {
        let Ok(message) = socket.read() else { return };
        // The library answers pings by itself.
        if message.is_ping() || path == "/silent" {
            continue;
        }
        if path == "/closing" && number == 5 {
            let _ = socket.close(None);
            continue;
        }
        if path == "/pinging" {
            let _ = socket.send(Message::Ping(vec![7; 20].into()));
            // Its answer comes before the next message.
            let answer = socket.read().unwrap();
            assert!(matches!(answer, Message::Pong(payload) if payload == vec![7; 20]));
        }
        if message.is_close() || socket.send(message).is_err() {
            return;
        }
    }
}

fn run(words: &[&str]) -> (Output, Value) {
    let output = Command::new(DEATHMATCH).args(words).arg("--json").output().unwrap();
    let found = serde_json::from_slice(&output.stdout).unwrap_or(Value::Null);
    (output, found)
}

#[test]
fn each_message_of_a_websocket_has_a_response() {
    let _turn = ONE_AT_A_TIME.lock().unwrap_or_else(PoisonError::into_inner);
    let server = websockets(None);
    let large = folder("url-websocket").join("large");
    fs::write(&large, vec![0xff; 300_000]).unwrap();
    let large = format!("@{}", large.display());
    // Path, the message, bytes of a response.
    let rows: [(&str, &[&str], u64); 5] = [
        ("/echo", &["-b", "hello"], 5),
        ("/echo", &[], 0),
        ("/pinging", &["-b", "hello"], 5),
        ("/echo", &["-b", &large], 300_000),
        ("/echo", &["-b", "hello", "-H", "Origin: http://a"], 5),
    ];
    for (path, message, bytes) in rows {
        let url = format!("ws://{server}{path}");
        for load in [&["-n", "40", "-c", "4"][..], &["-n", "40", "-c", "4", "-r", "400"]] {
            let (output, found) = run(&[&[&*url][..], load, message].concat());
            assert_eq!(output.status.code(), Some(0), "{path}: {}", said(&output));
            assert_eq!(found["responses"], 40, "{path} {message:?}: {found}");
            assert_eq!(found["bytes"], 40 * bytes, "{path} {message:?}: {found}");
            assert_eq!((&found["connections"], &found["reconnections"]), (&4.into(), &0.into()));
            assert_eq!(found["protocol"], "WebSocket");
            assert!(found["latency"]["p50_ms"].as_f64() > Some(0.0), "{found}");
        }
    }
    let (output, found) =
        run(&[&format!("ws://{server}/silent"), "-b", "x", "-n", "2", "--timeout", "100ms"]);
    assert_eq!(output.status.code(), Some(1), "{}", said(&output));
    assert_eq!(found["errors"]["timeout"], 2, "{found}");
    // A closed WebSocket loses its message, and is opened again.
    let (output, found) =
        run(&[&format!("ws://{server}/closing"), "-b", "x", "-n", "20", "-c", "1"]);
    assert_eq!(output.status.code(), Some(1), "{}", said(&output));
    assert_eq!(found["responses"].as_u64().unwrap() + found["failed"].as_u64().unwrap(), 20);
    assert!(found["reconnections"].as_u64() >= Some(2), "{found}");
    assert!(found["failed"].as_u64() >= Some(2), "{found}");
}

#[test]
fn generators_with_other_content_alone_have_other_options() {
    let _turn = ONE_AT_A_TIME.lock().unwrap_or_else(PoisonError::into_inner);
    let (server, (http2, _)) = (websockets(None), serve_http2_plainly());
    let [websocket, http2] = [format!("ws://{server}/echo"), format!("http://{http2}/echo")];
    for words in [&[&*websocket][..], &[&*http2, "--h2"]] {
        let sum = |body: &str| {
            let load = ["load", "-n", "2", "-c", "1", "-b", body, "--out", "-"];
            let output = Command::new(DEATHMATCH).args(load).args(words).output().unwrap();
            assert_eq!(output.status.code(), Some(0), "{}", said(&output));
            let found: Value = serde_json::from_slice(&output.stdout).unwrap();
            found["options"]["request_sha256"].as_str().unwrap().to_owned()
        };
        assert_eq!(sum("tea"), sum("tea"), "{words:?}");
        assert_ne!(sum("tea"), sum("tee"), "{words:?}");
    }
}

#[test]
fn a_websocket_may_be_secure() {
    let _turn = ONE_AT_A_TIME.lock().unwrap_or_else(PoisonError::into_inner);
    let identity = Identity::within(&folder("url-wss")).unwrap();
    let server = websockets(Some(&identity));
    let url = format!("wss://localhost:{}/echo", server.port());
    let (output, found) = run(&[&url, "--insecure", "-n", "20", "-c", "2", "-b", "hello"]);
    assert_eq!(output.status.code(), Some(0), "{}", said(&output));
    assert_eq!((&found["responses"], &found["bytes"]), (&20.into(), &100.into()), "{found}");
}

#[test]
fn what_is_no_websocket_is_named_before_the_load() {
    let server = websockets(None);
    let url = format!("ws://{server}/none");
    let rows: [(&[&str], &str); 6] = [
        (&[&url], "the server answers 404 Not Found"),
        (&[&url, "--h2"], "opened over HTTP/1.1; leave it out"),
        (&[&url, "--grpc"], "gRPC is spoken over http://"),
        (&[&url, "-m", "PUT"], "-m:"),
        (&[&url, &url], "has one URL"),
        (&["vs", &url, "nginx"], "compared over HTTP"),
    ];
    for (words, expected) in rows {
        let output = Command::new(DEATHMATCH).args(words).output().unwrap();
        assert_eq!(output.status.code(), Some(2), "{words:?}: {}", said(&output));
        assert!(said(&output).contains(expected), "{words:?}: {}", said(&output));
    }
}

#[test]
fn a_call_of_grpc_states_its_outcome_in_its_trailers() {
    let _turn = ONE_AT_A_TIME.lock().unwrap_or_else(PoisonError::into_inner);
    let root = folder("url-grpc");
    let identity = Identity::within(&root).unwrap();
    let (plain, _) = serve_http2_plainly();
    let (secure, _) = serve_http2(tls(&identity, b"h2"));
    let proto = root.join("shop.proto");
    let text = "syntax = \"proto3\"; package shop; message Order { string item = 1; }
        service Shop { rpc Buy(Order) returns (Order); rpc Full(Order) returns (Order); }";
    fs::write(&proto, text).unwrap();
    let proto = proto.to_str().unwrap();
    let encoded = root.join("order");
    fs::write(&encoded, b"\x0a\x03tea").unwrap();
    let encoded = format!("@{}", encoded.display());
    let json = ["--proto", proto, "-b", "{\"item\": \"tea\"}"];
    // Method, message, exit code, outcome. `Buy` wants an order of tea.
    let rows: [(&str, &[&str], i32, &str); 7] = [
        ("Buy", &["-b", &encoded], 0, "gRPC 0 OK"),
        ("Buy", &json, 0, "gRPC 0 OK"),
        ("Buy", &["--proto", proto], 1, "gRPC 3 INVALID_ARGUMENT"),
        ("Buy", &[], 1, "gRPC 3 INVALID_ARGUMENT"),
        ("Full", &json, 1, "gRPC 8 RESOURCE_EXHAUSTED"),
        ("Proxied", &[], 1, "gRPC 14 UNAVAILABLE"),
        ("Page", &[], 1, "gRPC 2 UNKNOWN"),
    ];
    for (method, message, code, outcome) in rows {
        for url in [format!("http://{plain}"), format!("https://localhost:{}", secure.port())] {
            let url = format!("{url}/shop.Shop/{method}");
            let load = ["--grpc", "--insecure", "-n", "40", "-c", "2", "--streams", "5", &url];
            let (output, found) = run(&[&load[..], message].concat());
            assert_eq!(output.status.code(), Some(code), "{method}: {}", said(&output));
            assert_eq!(found["responses"], 40, "{method}: {found}");
            assert_eq!(found["failed"], 40 * code, "{method}: {found}");
            assert_eq!(found["statuses"], serde_json::json!({ outcome: 40 }), "{method}");
        }
    }
    let url = format!("http://{plain}/shop.Shop/Sell");
    let rows: [(&[&str], &str); 4] = [
        (&["--grpc", "--proto", proto, &url], "it has /shop.Shop/Buy, /shop.Shop/Full"),
        (&["--grpc", "--proto", "/no/such.proto", &url], "--proto /no/such.proto"),
        (&["--proto", proto, &url], "--grpc"),
        (&["--grpc", "--h3", &url], "cannot be used with"),
    ];
    for (words, expected) in rows {
        let output = Command::new(DEATHMATCH).args(words).output().unwrap();
        assert_eq!(output.status.code(), Some(2), "{words:?}: {}", said(&output));
        assert!(said(&output).contains(expected), "{words:?}: {}", said(&output));
    }
}
