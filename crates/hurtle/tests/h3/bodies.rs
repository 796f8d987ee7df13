//! Tests of requests with bodies over HTTP/3: applications and uploads.

use std::convert::Infallible;
use std::fs;

use bytes::Bytes;
use http::{HeaderMap, Request, Response};
use hurtle::RequestBody;

use crate::peer::{answer, ask, body, request};
use crate::server::Server;

/// Responds with the request's body, and with fields that describe its head.
fn echo() -> Server {
    let echo = tower::service_fn(|request: Request<RequestBody>| async {
        let (head, body) = request.into_parts();
        let seen = format!("{:?} {}", head.version, head.headers.len());
        let mut response = Response::new(body);
        response.headers_mut().insert("seen", seen.parse().unwrap());
        Ok::<_, Infallible>(response)
    });
    Server::app(|server| server.mount("*", "/", echo).unwrap())
}

#[test]
fn an_application_streams_both_ways_with_trailers() {
    let app = echo();
    app.talk(async |mut client| {
        let asked = request("POST", "/\nte: trailers");
        let mut exchange = client.send_request(asked).await.unwrap();
        exchange.send_data(Bytes::from_static(b"one")).await.unwrap();
        let head = exchange.recv_response().await.unwrap();
        assert_eq!(head.headers()["seen"], "HTTP/3.0 2");
        let mut first = exchange.recv_data().await.unwrap().unwrap();
        use bytes::Buf as _;
        assert_eq!(first.copy_to_bytes(3), "one", "before the request is whole");
        exchange.send_data(Bytes::from_static(b"two")).await.unwrap();
        let trailers = HeaderMap::from_iter([("x-sum".parse().unwrap(), "6".parse().unwrap())]);
        exchange.send_trailers(trailers.clone()).await.unwrap();
        exchange.finish().await.unwrap();
        assert_eq!(body(&mut exchange).await.unwrap(), (b"two".to_vec(), trailers));
    });
}

/// The stream ended at the length of the message, so that the call had no status.
#[test]
fn a_grpc_call_whose_message_has_a_length_ends_with_its_trailers() {
    let app = tower::service_fn(|_: Request<RequestBody>| async {
        let trailers =
            HeaderMap::from_iter([("grpc-status".parse().unwrap(), "0".parse().unwrap())]);
        let message = http_body_util::Full::new(Bytes::from_static(b"\0\0\0\0\x01m"));
        let body = http_body_util::BodyExt::with_trailers(message, async { Some(Ok(trailers)) });
        let response = Response::builder().header("content-type", "application/grpc").body(body);
        Ok::<_, Infallible>(response.unwrap())
    });
    let server = Server::app(|server| server.mount("*", "/", app).unwrap());
    server.talk(async |mut client| {
        let asked = request("POST", "/a.B/C\ncontent-type: application/grpc\nte: trailers");
        let mut call = client.send_request(asked).await.unwrap();
        call.finish().await.unwrap();
        assert_eq!(call.recv_response().await.unwrap().status(), 200);
        let (message, trailers) = body(&mut call).await.unwrap();
        assert_eq!((message.len(), trailers["grpc-status"].as_bytes()), (6, &b"0"[..]));
    });
}

#[test]
fn large_bodies_pass_every_window_both_ways() {
    let app = echo();
    let sent: Vec<u8> = (0..3_000_000_u32).map(|i| (i * 31 % 251) as u8).collect();
    let expected = sent.clone();
    app.talk(async |mut client| {
        for target in ["/".to_owned(), format!("/\ncontent-length: {}", sent.len())] {
            let exchange = client.send_request(request("POST", &target)).await.unwrap();
            let (mut sending, mut receiving) = exchange.split();
            let data = Bytes::from(sent.clone());
            let sender = tokio::spawn(async move {
                sending.send_data(data).await.unwrap();
                sending.finish().await.unwrap();
            });
            assert_eq!(receiving.recv_response().await.unwrap().status().as_u16(), 200);
            let mut received = Vec::new();
            while let Some(mut data) = receiving.recv_data().await.unwrap() {
                use bytes::Buf as _;
                received.extend_from_slice(&data.copy_to_bytes(data.remaining()));
            }
            sender.await.unwrap();
            assert!(received == expected, "{target}: {} bytes", received.len());
        }
    });
}

#[test]
fn a_file_is_uploaded() {
    let server = Server::configured(
        &[("old.txt", "old")],
        "listen_tls = \"127.0.0.1:1\"\n[[site]]\n[site.tls]\ncertificate = \"a\"\nkey = \"b\"\n\
         [[site.mount]]\nfiles = \"{root}\"\nauth = \"none\"\n[site.mount.uploads]\nfree_bytes = 0\n",
    );
    let sent = "0123456789".repeat(100_000);
    server.talk(async |mut client| {
        let mut exchange = ask(&mut client, "PUT", "/new.txt", sent.clone()).await;
        assert_eq!(answer(&mut exchange).await.1.status, 201);
        let mut exchange = ask(&mut client, "DELETE", "/old.txt", Bytes::new()).await;
        assert_eq!(answer(&mut exchange).await.1.status, 204);
    });
    assert!(fs::read_to_string(server.dir.path("new.txt")).unwrap() == sent);
    assert!(!server.dir.path("old.txt").exists());
}
