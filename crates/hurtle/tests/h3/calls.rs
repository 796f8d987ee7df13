//! Calls of gRPC over HTTP/3, to an upstream over HTTP/2.

use bytes::{Buf, Bytes};
use h2::RecvStream;
use h2::server::SendResponse;
use http::{HeaderMap, Request, Response};

use crate::library::{Upstream, framed};
use crate::peer::request;
use crate::server::Server;

/// Echoes each piece as it arrives, then sends trailers.
async fn echo(mut request: Request<RecvStream>, mut respond: SendResponse<Bytes>) {
    let head = Response::builder().header("content-type", "application/grpc").body(()).unwrap();
    let mut body = respond.send_response(head, false).unwrap();
    while let Some(Ok(data)) = request.body_mut().data().await {
        request.body_mut().flow_control().release_capacity(data.len()).unwrap();
        body.send_data(data, false).unwrap();
    }
    let mut trailers = HeaderMap::new();
    trailers.insert("grpc-status", "0".parse().unwrap());
    body.send_trailers(trailers).unwrap();
}

#[test]
fn messages_flow_both_ways_and_trailers_follow() {
    let upstream = Upstream::start(100, echo);
    let server = Server::configured(
        &[],
        &format!(
            "listen_tls = \"127.0.0.1:1\"\n[[site]]\n[site.tls]\ncertificate = \"a\"\nkey = \"b\"\n\
             [[site.mount]]\nproxy = \"h2c://{}\"\n",
            upstream.address
        ),
    );
    server.talk(async |mut client| {
        let head = request("POST", "/a.B/C\ncontent-type: application/grpc\nte: trailers");
        let mut call = client.send_request(head).await.unwrap();
        for message in ["first", "second"] {
            call.send_data(framed(message.as_bytes())).await.unwrap();
            if message == "first" {
                assert_eq!(call.recv_response().await.unwrap().status(), 200);
            }
            let mut reply = call.recv_data().await.unwrap().unwrap();
            assert_eq!(reply.copy_to_bytes(reply.remaining()), framed(message.as_bytes()));
        }
        call.finish().await.unwrap();
        assert!(call.recv_data().await.unwrap().is_none());
        let trailers = call.recv_trailers().await.unwrap().unwrap();
        assert_eq!(trailers["grpc-status"], "0");
    });
}
