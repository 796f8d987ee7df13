//! The lines of WebSockets in the access log.

use std::fs;
use std::io::{Read as _, Write as _};
use std::net::{TcpListener, TcpStream};

use crate::child::{Child, eventually};
use crate::frames::*;
use crate::support::Dir;

/// Bytes that the upstream sends through each tunnel.
const SENT: usize = 100;

/// Accepts a WebSocket, as the upstream, and sends its bytes and its end.
#[track_caller]
fn answer(upstream: &TcpListener) -> TcpStream {
    let (mut peer, _) = upstream.accept().unwrap();
    assert!(peer.read(&mut [0; 4096]).unwrap() > 0);
    let agreed = "HTTP/1.1 101 Switching Protocols\r\nConnection: Upgrade\r\n\
                  Upgrade: websocket\r\nSec-WebSocket-Accept: b\r\n\r\n";
    peer.write_all(&[agreed.as_bytes(), &[b'x'; SENT]].concat()).unwrap();
    peer.shutdown(std::net::Shutdown::Write).unwrap();
    peer
}

/// Regression: the upstream was null. Over HTTP/2, the bytes were short by those of the head.
#[test]
fn a_json_line_has_the_upstream_and_the_bytes_of_a_tunnel() {
    let dir = Dir::new(&[]);
    let log = dir.path("../access.log");
    let upstream = TcpListener::bind("127.0.0.1:0").unwrap();
    let address = upstream.local_addr().unwrap();
    let config = format!(
        "[access_log]\nformat = 'json'\nfields = ['status', 'body_bytes', 'upstream']\n\
         path = '{}'\n[[site]]\n[[site.mount]]\nproxy = 'http://{address}'\n",
        log.display()
    );
    let child = Child::configured(&dir, &config);
    let text = || fs::read_to_string(&log).unwrap_or_default();
    let mut client = child.connect();
    client.send(
        "GET / HTTP/1.1\r\nHost: a\r\nConnection: Upgrade\r\nUpgrade: websocket\r\n\
         Sec-WebSocket-Key: a\r\n\r\n",
    );
    let peer = answer(&upstream);
    let received = client.rest();
    assert!(received.ends_with(&[b'x'; SENT]), "{}", String::from_utf8_lossy(&received));
    client.half_close();
    eventually("a line is written", || text().lines().count() == 1);
    drop(peer);

    let mut wire = Wire::begin(child.address(), &[]);
    let fields = [
        (":method", "CONNECT"),
        (":protocol", "websocket"),
        (":scheme", "http"),
        (":authority", "a"),
        (":path", "/"),
        ("sec-websocket-version", "13"),
    ];
    wire.send(&frame(HEADERS, END_HEADERS, 1, &block(&fields)));
    let _peer = answer(&upstream);
    let mut received = 0;
    while received < SENT {
        received += wire.next_of(DATA).payload.len();
    }
    eventually("another line is written", || text().lines().count() == 2);
    for (line, status) in text().lines().zip([101, 200]) {
        let line: serde_json::Value = serde_json::from_str(line).unwrap();
        assert_eq!((&line["status"], &line["body_bytes"]), (&status.into(), &SENT.into()));
        let upstream = line["upstream"].as_str().unwrap_or_default();
        assert!(upstream.contains(&address.to_string()), "{status}: {line}");
    }
}
