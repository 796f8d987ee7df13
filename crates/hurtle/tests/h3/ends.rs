//! Tests of the ends of HTTP/3 connections: a stop of the server, limits, and time-outs.

use std::convert::Infallible;
use std::fs;
use std::net::{SocketAddr, UdpSocket};
use std::sync::mpsc;
use std::thread;
use std::time::{Duration, Instant};

use bytes::Bytes;
use http::{Request, Response};
use hurtle::RequestBody;
use quinn::ConnectionError;

use crate::peer::{ask, begin, body, get, request, talk};
use crate::server::Server;
use crate::support::client::PATIENCE;

/// H3_NO_ERROR.
const NO_ERROR: u64 = 0x100;

fn code(reason: &ConnectionError) -> u64 {
    match reason {
        ConnectionError::ApplicationClosed(close) => close.error_code.into_inner(),
        other => panic!("{other}"),
    }
}

#[test]
fn a_stop_completes_responses_and_closes_connections() {
    let server = Server::start(&[("large", ""), ("a.txt", "a")]);
    let expected = vec![9; 5 << 20];
    fs::write(server.dir.path("large"), &expected).unwrap();
    let stop = server.stopper();
    server.converse(async |connection, _| {
        let mut client = begin(connection.clone()).await;
        assert_eq!(get(&mut client, "/a.txt").await.text(), "a");
        let mut exchange = ask(&mut client, "GET", "/large", Bytes::new()).await;
        assert_eq!(exchange.recv_response().await.unwrap().status().as_u16(), 200);
        stop.drain();
        let (received, _) = body(&mut exchange).await.unwrap();
        assert!(received == expected, "{} bytes", received.len());
        drop(exchange);
        assert_eq!(code(&connection.closed().await), NO_ERROR);
    });
}

#[test]
fn an_idle_connection_is_closed_after_its_time() {
    let server = Server::with(&[("a.txt", "a")], |config| {
        config.limits.idle_timeout = Duration::from_millis(300);
    });
    server.converse(async |connection, _| {
        let mut client = begin(connection.clone()).await;
        assert_eq!(get(&mut client, "/a.txt").await.text(), "a");
        let reason = connection.closed().await;
        let is_over = matches!(reason, ConnectionError::TimedOut) || code(&reason) == NO_ERROR;
        assert!(is_over, "{reason}");
    });
}

#[test]
fn a_connection_has_as_many_requests_as_the_limit_says() {
    let server = Server::with(&[("a.txt", "a")], |config| {
        config.limits.requests_per_connection = Some(3);
    });
    server.converse(async |connection, _| {
        let mut client = begin(connection.clone()).await;
        for _ in 0..3 {
            assert_eq!(get(&mut client, "/a.txt").await.text(), "a");
        }
        assert_eq!(code(&connection.closed().await), NO_ERROR);
    });
}

#[test]
fn an_old_connection_closes_behind_a_response() {
    let server = Server::with(&[("a.txt", "a")], |config| {
        config.limits.connection_age = Some(Duration::from_millis(1));
    });
    server.converse(async |connection, _| {
        let mut client = begin(connection.clone()).await;
        while let Ok(mut exchange) = client.send_request(request("GET", "/a.txt")).await {
            let _ = exchange.finish().await;
            if exchange.recv_response().await.is_err() {
                break;
            }
        }
        assert_eq!(code(&connection.closed().await), NO_ERROR);
    });
}

#[test]
fn an_address_has_as_many_connections_as_the_limit_says() {
    let server = Server::with(&[("a.txt", "a")], |config| {
        config.limits.connections_per_address = Some(1);
    });
    server.converse(async |connection, endpoint| {
        let mut client = begin(connection.clone()).await;
        assert_eq!(get(&mut client, "/a.txt").await.text(), "a");
        let second = endpoint.connect(server.address, crate::peer::NAME).unwrap().await.unwrap();
        let reason = second.closed().await;
        assert_eq!(code(&reason), 0x107, "{reason}");
        assert_eq!(get(&mut client, "/a.txt").await.text(), "a", "the first one");
    });
}

/// A head that does not arrive costs the stream only.
#[test]
fn an_incomplete_head_is_given_up() {
    let server = Server::with(&[("a.txt", "a")], |config| {
        config.limits.head_timeout = Duration::from_millis(300);
    });
    server.converse(async |connection, _| {
        let mut client = begin(connection.clone()).await;
        assert_eq!(get(&mut client, "/a.txt").await.text(), "a");
        let (mut sending, mut receiving) = connection.open_bi().await.unwrap();
        sending.write_all(&[1, 9, 0]).await.unwrap();
        let reset = receiving.received_reset().await.unwrap();
        assert_eq!(reset.map(quinn::VarInt::into_inner), Some(0x10d));
        assert_eq!(get(&mut client, "/a.txt").await.text(), "a");
    });
}

/// Regression: an exchange that waited for its handler went on after the end of its connection.
#[test]
fn a_request_ends_with_its_connection() {
    struct Guard(mpsc::Sender<()>);
    impl Drop for Guard {
        fn drop(&mut self) {
            let _ = self.0.send(());
        }
    }
    let (begun, ended) = (mpsc::channel(), mpsc::channel());
    let silent = tower::service_fn(move |_: Request<RequestBody>| {
        let guard = Guard(ended.0.clone());
        begun.0.send(()).unwrap();
        async move {
            let _guard = guard;
            std::future::pending::<Result<Response<RequestBody>, Infallible>>().await
        }
    });
    let server = Server::app(|server| server.mount("*", "/", silent).unwrap());
    server.converse(async |connection, _| {
        let mut client = begin(connection.clone()).await;
        let _exchange = ask(&mut client, "GET", "/", Bytes::new()).await;
        while begun.1.try_recv().is_err() {
            tokio::task::yield_now().await;
        }
        connection.close(0_u32.into(), b"");
        connection.closed().await;
    });
    ended.1.recv_timeout(PATIENCE).expect("the handler goes on");
}

/// Passes datagrams on, those of the server one by one, each when the client has been silent for
/// this long.
fn slow_path(server: SocketAddr, pause: Duration) -> SocketAddr {
    let [near, far] = [(); 2].map(|()| UdpSocket::bind("127.0.0.1:0").unwrap());
    far.connect(server).unwrap();
    far.set_nonblocking(true).unwrap();
    near.set_read_timeout(Some(pause)).unwrap();
    let address = near.local_addr().unwrap();
    thread::spawn(move || {
        let (mut bytes, mut client, begun) = ([0; 64 << 10], None, Instant::now());
        while begun.elapsed() < PATIENCE {
            if let Ok((len, from)) = near.recv_from(&mut bytes) {
                client = Some(from);
                let _ = far.send(&bytes[..len]);
            } else if let (Some(client), Ok(len)) = (client, far.recv(&mut bytes)) {
                let _ = near.send_to(&bytes[..len], client);
            }
        }
    });
    address
}

/// Regression: a client that had acknowledged a part of a response was given up, if QUIC held the
/// rest of it.
#[test]
fn a_client_on_a_slow_path_gets_a_whole_response() {
    let soon = Duration::from_secs(1);
    let stall = Server::with(&[("a.txt", "")], |config| config.limits.write_stall = soon);
    let last = Server::with(&[("a.txt", "")], |config| {
        config.limits.requests_per_connection = Some(1);
    });
    let expect = |case, server: Server| {
        let expected = vec![9; 50_000];
        fs::write(server.dir.path("a.txt"), &expected).unwrap();
        let path = slow_path(server.address, Duration::from_millis(25));
        let received = talk(path, server.roots(), async |mut client| {
            let mut exchange = ask(&mut client, "GET", "/a.txt", Bytes::new()).await;
            exchange.recv_response().await.unwrap();
            body(&mut exchange).await.map(|(bytes, _)| bytes.len())
        });
        assert_eq!(received.unwrap(), expected.len(), "{case}");
    };
    thread::scope(|scope| {
        scope.spawn(|| expect("write_stall", stall));
        scope.spawn(|| expect("the last request", last));
    });
}
