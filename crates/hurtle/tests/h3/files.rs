//! Tests of files over HTTP/3: complete, in parts, many at a time, and while the client's address
//! changes.

use std::fs;
use std::net::{SocketAddr, UdpSocket};

use bytes::Bytes;
use tokio::task::JoinSet;

use crate::peer::{self, answer, ask, begin, get};
use crate::server::Server;

/// Contents of which no two parts are equal.
fn contents(len: usize) -> Vec<u8> {
    (0_u64..).flat_map(|n| n.wrapping_mul(0x9e37_79b9_7f4a_7c15).to_be_bytes()).take(len).collect()
}

#[test]
fn a_file_is_served_with_the_fields_of_every_protocol() {
    let server = Server::start(&[("a.txt", "0123456789")]);
    server.talk(async |mut client| {
        let whole = get(&mut client, "/a.txt").await;
        assert_eq!((whole.status, whole.text()), (200, "0123456789"));
        assert_eq!(whole.field("content-length"), Some("10"));
        assert!(whole.field("connection").is_none() && whole.field("transfer-encoding").is_none());
        let known = format!("/a.txt\nif-none-match: {}", whole.field("etag").unwrap());
        let rows = [
            ("a known file", "GET", known.as_str(), 304, ""),
            ("its head", "HEAD", "/a.txt", 200, ""),
            ("a range", "GET", "/a.txt\nrange: bytes=2-4", 206, "234"),
            ("a range of nothing", "GET", "/a.txt\nrange: bytes=99-", 416, ""),
            ("a missing file", "GET", "/none", 404, "404 Not Found\n"),
            ("a method that files do not have", "DELETE", "/a.txt", 405, ""),
        ];
        for (why, method, target, status, body) in rows {
            let mut exchange = ask(&mut client, method, target, Bytes::new()).await;
            let response = answer(&mut exchange).await.1;
            assert_eq!(response.status, status, "{why}");
            assert!(response.text().starts_with(body), "{why}: {}", response.text());
        }
    });
}

/// Regression: the refusal came only after the body, or 408 in place of it.
#[test]
fn a_refusal_does_not_wait_for_the_body() {
    let server = Server::start(&[("a.txt", "a")]);
    server.talk(async |mut client| {
        let mut exchange = client.send_request(peer::request("POST", "/a.txt")).await.unwrap();
        let (head, ()) = exchange.recv_response().await.unwrap().into_parts();
        assert_eq!(head.status, 405);
        assert_eq!(get(&mut client, "/a.txt").await.text(), "a", "the connection stays");
    });
}

#[test]
fn responses_over_tcp_name_the_udp_port() {
    for (is_on, rule) in [(true, ""), (false, "http3 = false\n")] {
        let text = format!(
            "listen_tls = \"127.0.0.1:1\"\n{rule}[[site]]\n[site.tls]\ncertificate = \"a\"\nkey = \"b\"\n\
             [[site.mount]]\nfiles = \"{{root}}\"\n"
        );
        let server = Server::configured(&[("a.txt", "a")], &text);
        let expected = format!("h3=\":{}\"; ma=86400", server.address.port());
        let config = peer::trusting(server.roots(), &["http/1.1"]);
        let name = peer::NAME.try_into().unwrap();
        let session = rustls::ClientConnection::new(config.into(), name).unwrap();
        let socket = std::net::TcpStream::connect(server.address).unwrap();
        let mut stream = rustls::StreamOwned::new(session, socket);
        let asked =
            format!("GET /a.txt HTTP/1.1\r\nHost: {}\r\nConnection: close\r\n\r\n", peer::NAME);
        std::io::Write::write_all(&mut stream, asked.as_bytes()).unwrap();
        let mut text = String::new();
        std::io::Read::read_to_string(&mut stream, &mut text).unwrap();
        let found = text.lines().find_map(|line| line.strip_prefix("Alt-Svc: "));
        assert_eq!(found, is_on.then_some(expected.as_str()), "{text}");
        let bound = UdpSocket::bind(server.address);
        assert_eq!(bound.is_err(), is_on, "the UDP port");
    }
}

#[test]
fn a_large_file_arrives_whole() {
    let server = Server::start(&[("large", "")]);
    let expected = contents(8 << 20);
    fs::write(server.dir.path("large"), &expected).unwrap();
    server.talk(async |mut client| {
        let response = get(&mut client, "/large").await;
        assert!(response.body == expected, "{} bytes", response.body.len());
    });
}

#[test]
fn requests_of_a_connection_are_answered_side_by_side() {
    let server = Server::start(&[("large", ""), ("small.txt", "small")]);
    let expected = contents(200_000);
    fs::write(server.dir.path("large"), &expected).unwrap();
    server.talk(async |client| {
        let mut tasks = JoinSet::new();
        for n in 0..100 {
            let (mut client, expected) = (client.clone(), expected.clone());
            tasks.spawn(async move {
                let path = if n % 2 == 0 { "/large" } else { "/small.txt" };
                let response = get(&mut client, path).await;
                let is_right = response.body == if n % 2 == 0 { &expected[..] } else { b"small" };
                assert!(is_right, "{n}: {} of {} bytes", response.status, response.body.len());
            });
        }
        while let Some(done) = tasks.join_next().await {
            done.unwrap();
        }
    });
}

/// Each new port may belong to another worker's socket.
#[test]
fn a_download_goes_on_while_the_client_changes_its_address() {
    let server = Server::start(&[("large", "")]);
    let expected = contents(6 << 20);
    fs::write(server.dir.path("large"), &expected).unwrap();
    server.converse(async |connection, endpoint| {
        let mut client = begin(connection).await;
        let mut exchange = ask(&mut client, "GET", "/large", Bytes::new()).await;
        assert_eq!(exchange.recv_response().await.unwrap().status().as_u16(), 200);
        let (mut body, mut moves) = (Vec::new(), 0);
        while let Some(mut data) = exchange.recv_data().await.unwrap() {
            use bytes::Buf as _;
            body.extend_from_slice(&data.copy_to_bytes(data.remaining()));
            if body.len() / (1 << 20) > moves {
                moves += 1;
                let socket = UdpSocket::bind(SocketAddr::from(([127, 0, 0, 1], 0))).unwrap();
                endpoint.rebind(socket).unwrap();
            }
        }
        assert!(body == expected, "{} bytes", body.len());
        assert!(moves >= 5, "{moves}");
    });
}

/// Regression: the source of a packet, which anyone can forge, was the client's address at once.
#[test]
fn the_client_of_a_request_is_the_address_of_the_handshake() {
    let mount = |path: &str, allow: &str| {
        format!("[[site.mount]]\npath = '{path}'\nfiles = '{{root}}'\nallow = '{allow}'\n")
    };
    let mounts = mount("/first", "127.0.0.1") + &mount("/second", "127.0.0.2");
    let server = Server::configured(&[("a.txt", "a")], &format!("[[site]]\n{mounts}"));
    server.converse(async |connection, endpoint| {
        let mut client = begin(connection).await;
        for ip in [[127, 0, 0, 1], [127, 0, 0, 2]] {
            endpoint.rebind(UdpSocket::bind(SocketAddr::from((ip, 0))).unwrap()).unwrap();
            assert_eq!(get(&mut client, "/first/a.txt").await.status, 200, "{ip:?}");
            assert_eq!(get(&mut client, "/second/a.txt").await.status, 403, "{ip:?}");
        }
    });
}
