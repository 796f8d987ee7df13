//! Requests whose clients leave before the response: their lines in the access log, and their
//! count in the metrics.

use std::fs;
use std::io::Read as _;
use std::net::{TcpListener, TcpStream};
use std::time::Duration;

use crate::child::{Child, eventually};
use crate::frames::*;
use crate::metrics::{scrape, value};
use crate::support::Dir;

/// Waits until the upstream has a request.
#[track_caller]
fn next_request(upstream: &TcpListener) -> TcpStream {
    let (mut peer, _) = upstream.accept().unwrap();
    assert!(peer.read(&mut [0; 1024]).unwrap() > 0);
    peer
}

/// Regression: the upstream had worked for a request of which the server knew nothing.
#[test]
fn a_request_whose_client_leaves_is_logged_and_counted() {
    let dir = Dir::new(&[]);
    let log = dir.path("../access.log");
    let upstream = TcpListener::bind("127.0.0.1:0").unwrap();
    let config = format!(
        "admin = '{{root}}/../admin.sock'\n[access_log]\nformat = 'json'\n\
         fields = ['target', 'status', 'body_bytes', 'completion']\npath = '{}'\n\
         [[site]]\n[[site.mount]]\nproxy = 'http://{}'\n",
        log.display(),
        upstream.local_addr().unwrap()
    );
    let child = Child::configured(&dir, &config);
    let mut wire = Wire::begin(child.address(), &[]);
    wire.send(&get(1, "/h2"));
    let _of_stream = next_request(&upstream);
    wire.send(&frame(RST_STREAM, 0, 1, &8_u32.to_be_bytes()));
    let lines = || fs::read_to_string(&log).unwrap_or_default().lines().count();
    eventually("the stream has a line", || lines() == 1);
    wire.expect_open();

    let mut client = child.connect();
    client.send("GET /http/1.1 HTTP/1.1\r\nHost: a\r\n\r\n");
    let _of_connection = next_request(&upstream);
    // Closing resets the connection.
    socket2::SockRef::from(&client.stream).set_linger(Some(Duration::ZERO)).unwrap();
    drop(client);
    eventually("the connection has a line", || lines() == 2);

    let metrics = scrape(&dir.path("../admin.sock"));
    let text = fs::read_to_string(&log).unwrap();
    for (line, protocol) in text.lines().zip(["h2", "http/1.1"]) {
        let line: serde_json::Value = serde_json::from_str(line).unwrap();
        let expected = serde_json::json!({
            "target": format!("/{protocol}"), "status": 499, "body_bytes": 0,
            "completion": "client_gone",
        });
        assert_eq!(line, expected);
        let labels = format!("site=\"*\",mount=\"/\",protocol=\"{protocol}\",status=\"4xx\"");
        let sample = format!("hurtle_http_requests_total{{{labels}}}");
        assert_eq!(value(&metrics, &sample), Some(1.0), "{protocol}: {metrics}");
    }
}
