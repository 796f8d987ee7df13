//! HTTP/3 over an upgrade: downloads go on in the process before, then the new process serves.

use std::io::{Read as _, Write as _};
use std::net::TcpStream;

use bytes::{Buf as _, Bytes};
use quinn::ConnectionError;

use super::{LocalTls, Upgraded};
use crate::h3_peer::{NAME, ask, begin, endpoint, get, trusting, within_patience};
use crate::support::Dir;

/// Bytes of the download: more than buffers take while the client does not read.
const LARGE: usize = 24 << 20;

/// Clients that connect meanwhile: it is unlikely that all get the same worker of two.
const CLIENTS: usize = 12;

/// With two workers: one has no connection.
fn config(tls: &LocalTls) -> String {
    format!("drain = '60s'\nworkers = 2\n{}", tls.config)
}

#[test]
fn a_download_over_http3_goes_on_and_then_the_new_process_serves() {
    let dir = Dir::new(&[("a.txt", "text")]);
    let tls = LocalTls::named(&dir, NAME);
    let large = vec![b'x'; LARGE];
    dir.write("large.bin", &large);
    let mut server = Upgraded::of(dir, &config(&tls), |_| {});
    within_patience(async {
        let new_endpoint = || endpoint(trusting(tls.roots.clone(), &["h3"]));
        let endpoint = new_endpoint();
        let connect = async || endpoint.connect(tls.address, NAME).unwrap().await;
        let connection = connect().await.unwrap();
        let mut client = begin(connection.clone()).await;
        let mut exchange = ask(&mut client, "GET", "/large.bin", Bytes::new()).await;
        assert_eq!(exchange.recv_response().await.unwrap().status().as_u16(), 200);

        let mut over_tcp = TcpStream::connect(server.child.address()).unwrap();
        let request = b"GET /large.bin HTTP/1.1\r\nHost: a\r\nConnection: close\r\n\r\n";
        over_tcp.write_all(request).unwrap();
        let mut status = [0; 12];
        over_tcp.read_exact(&mut status).unwrap();
        assert_eq!(&status, b"HTTP/1.1 200");
        server.upgrade();
        server.expect_service();
        // The kernel selects the worker by the port of the client.
        for client in (0..CLIENTS).map(|_| new_endpoint()) {
            let refused = client.connect(tls.address, NAME).unwrap().await.unwrap_err();
            assert!(matches!(refused, ConnectionError::ConnectionClosed(_)), "{refused}");
        }
        let mut received = 0;
        while let Some(data) = exchange.recv_data().await.unwrap() {
            received += data.remaining();
        }
        assert_eq!(received, large.len());
        drop(exchange);
        connection.closed().await;
        // Although one over TCP goes on in the process before.
        let connection = loop {
            match connect().await {
                Ok(connection) => break connection,
                Err(refused) => {
                    assert!(matches!(refused, ConnectionError::ConnectionClosed(_)), "{refused}");
                }
            }
        };
        assert_eq!(get(&mut begin(connection).await, "/a.txt").await.text(), "text");
        let mut rest = Vec::new();
        over_tcp.read_to_end(&mut rest).unwrap();
        assert!(rest.len() > large.len());
        assert_eq!(server.child.wait_for_process().code(), Some(0));
    });
}
