//! Figures that hold while connections stay open: bytes that arrive, connections between requests,
//! and upstreams that a reload removes.

use std::io::{Read as _, Write as _};
use std::net::{TcpListener, TcpStream};
use std::sync::mpsc;
use std::{fs, iter, thread};

use crate::child::{Child, PATIENCE, eventually, hurtle, write_config};
use crate::frames::*;
use crate::metrics::{scrape, value};
use crate::support::{Dir, reserved_address};

/// Bytes of a request's body, within the first window of HTTP/2 (RFC 9113 section 6.9.2).
const BODY: usize = 60_000;

/// More bytes than a request has beside its body.
const HEAD_MAX: usize = 1_000;

/// Bytes of a frame, at most 16 KiB (RFC 9113 section 4.2).
const FRAME: usize = 10_000;

/// Puts a configuration in force.
#[track_caller]
fn reload(dir: &Dir, config: &str) {
    write_config(dir, config);
    let admin = dir.path("../admin.sock");
    let reloaded = hurtle().arg("reload").arg("--admin").arg(admin).output().unwrap();
    assert!(reloaded.status.success(), "{reloaded:?}");
}

/// Reads a request with a body, as the upstream, and answers it.
#[track_caller]
fn take_body(upstream: &TcpListener) {
    let (mut peer, _) = upstream.accept().unwrap();
    peer.set_read_timeout(Some(PATIENCE)).unwrap();
    let (mut received, mut piece) = (Vec::new(), [0; 4096]);
    while received.len() <= BODY || !received.ends_with(b"z") {
        let len = peer.read(&mut piece).unwrap();
        assert!(len > 0, "the body is cut");
        received.extend_from_slice(&piece[..len]);
    }
    peer.write_all(b"HTTP/1.1 204 No Content\r\nConnection: close\r\n\r\n").unwrap();
}

/// Regression: bodies that a handler reads were not counted, and neither was anything of HTTP/2.
#[test]
fn bytes_of_request_bodies_are_received_bytes() {
    let dir = Dir::new(&[]);
    let upstream = TcpListener::bind("127.0.0.1:0").unwrap();
    let config = format!(
        "admin = '{{root}}/../admin.sock'\n[[site]]\n[[site.mount]]\nproxy = 'http://{}'\n",
        upstream.local_addr().unwrap()
    );
    let child = Child::configured(&dir, &config);
    let received =
        || value(&scrape(&dir.path("../admin.sock")), "hurtle_received_bytes_total").unwrap();
    let body = [vec![b'x'; BODY - 1], b"z".to_vec()].concat();

    let before = received();
    let mut client = child.connect();
    client.send(format!("POST / HTTP/1.1\r\nHost: a\r\nContent-Length: {BODY}\r\n\r\n"));
    client.send(&body);
    take_body(&upstream);
    assert_eq!(client.response().status, 204);
    let over_http1 = (received() - before) as usize;
    assert!((BODY..BODY + HEAD_MAX).contains(&over_http1), "{over_http1}");

    let before = received();
    let mut wire = Wire::begin(child.address(), &[]);
    let len = field("content-length", &BODY.to_string());
    wire.send(&frame(HEADERS, END_HEADERS, 1, &[request("POST", "/"), len].concat()));
    for (number, piece) in (1_usize..).zip(body.chunks(FRAME)) {
        let flags = if number * FRAME == BODY { END_STREAM } else { 0 };
        wire.send(&frame(DATA, flags, 1, piece));
    }
    take_body(&upstream);
    wire.next_of(HEADERS);
    let over_http2 = (received() - before) as usize;
    assert!((BODY..BODY + HEAD_MAX).contains(&over_http2), "{over_http2}");
}

/// Regression: each handshake that had begun was subtracted from the idle connections.
#[test]
fn handshakes_hide_no_idle_connections() {
    let pair = rcgen::generate_simple_self_signed(["a.test".to_owned()]).unwrap();
    let dir = Dir::new(&[]);
    fs::write(dir.path("../chain.pem"), pair.cert.pem()).unwrap();
    fs::write(dir.path("../key.pem"), pair.signing_key.serialize_pem()).unwrap();
    let secure = reserved_address();
    let config = format!(
        "listen_tls = '{secure}'\nadmin = '{{root}}/../admin.sock'\n\
         [[site]]\nhosts = 'a.test'\n[[site.mount]]\nfiles = '{{root}}'\n\
         [site.tls]\ncertificate = '{{root}}/../chain.pem'\nkey = '{{root}}/../key.pem'\n"
    );
    let child = Child::configured(&dir, &config);
    let open = |protocol: &str, state: &str| {
        let labels = format!("protocol=\"{protocol}\",state=\"{state}\"");
        value(&scrape(&dir.path("../admin.sock")), &format!("hurtle_connections{{{labels}}}"))
    };
    // The first byte of a record, of which the rest does not come.
    let _stalled = [(); 2].map(|()| {
        let mut peer = TcpStream::connect(secure).unwrap();
        peer.write_all(&[22]).unwrap();
        peer
    });
    eventually("two handshakes run", || open("tls", "handshake") == Some(2.0));
    let _idle = child.connect();
    eventually("one connection is idle", || open("http/1.1", "idle") == Some(1.0));
}

/// Regression: the open connection used the configuration before, and the figures stayed.
#[test]
fn figures_of_a_removed_upstream_end_while_a_connection_is_idle() {
    let dir = Dir::new(&[("x", "x")]);
    let config = "admin = '{root}/../admin.sock'\n\
                  [[site]]\nhosts = 'a'\n[[site.mount]]\nfiles = '{root}'\n";
    let proxied = "[[site.mount]]\npath = '/down'\nproxy = 'http://127.0.0.1:1'\n";
    let child = Child::configured(&dir, &format!("{config}{proxied}"));
    let up = "hurtle_upstream_up{site=\"a\",mount=\"/down\",upstream=\"http://127.0.0.1:1\"}";
    let is_known = || value(&scrape(&dir.path("../admin.sock")), up).is_some();
    let mut idle = child.connect();
    assert_eq!(idle.request("GET", "/x\nHost: a").status, 200);
    assert!(is_known());
    reload(&dir, config);
    eventually("it is forgotten", || !is_known());
    assert_eq!(idle.request("GET", "/x\nHost: a").status, 200, "the connection stayed open");
}

/// Answers the request of each connection, as the upstream, and passes its target on. WebSockets
/// stay open until the test ends.
fn answer_checks(upstream: &TcpListener, targets: &mpsc::Sender<String>) {
    let agreed = "HTTP/1.1 101 Switching Protocols\r\nConnection: Upgrade\r\n\
                  Upgrade: websocket\r\nSec-WebSocket-Accept: b\r\n\r\n";
    let ok = "HTTP/1.1 200 OK\r\nContent-Length: 0\r\nConnection: close\r\n\r\n";
    let mut tunnels = Vec::new();
    for mut peer in upstream.incoming().flatten() {
        let mut head = [0; 4096];
        let len = peer.read(&mut head).unwrap_or(0);
        let head = String::from_utf8_lossy(&head[..len]).into_owned();
        let target = head.split(' ').nth(1).unwrap_or_default().to_owned();
        let reply = if target == "/" { agreed } else { ok };
        if peer.write_all(reply.as_bytes()).is_ok() && target == "/" {
            tunnels.push(peer);
        }
        if targets.send(target).is_err() {
            return;
        }
    }
}

/// Regression: the tunnel held the upstream, whose checks went on.
#[test]
fn checks_of_a_replaced_configuration_end_while_a_websocket_is_open() {
    let dir = Dir::new(&[]);
    let upstream = TcpListener::bind("127.0.0.1:0").unwrap();
    let address = upstream.local_addr().unwrap();
    let (sender, targets) = mpsc::channel();
    thread::spawn(move || answer_checks(&upstream, &sender));
    let config = |path: &str| {
        format!(
            "admin = '{{root}}/../admin.sock'\n[[site]]\n[[site.mount]]\n\
             proxy = 'http://{address}'\nhealth = '{path}'\nhealth_interval = '100ms'\n"
        )
    };
    let child = Child::configured(&dir, &config("/before"));
    let mut client = child.connect();
    client.send(
        "GET / HTTP/1.1\r\nHost: a\r\nConnection: Upgrade\r\nUpgrade: websocket\r\n\
         Sec-WebSocket-Key: a\r\n\r\n",
    );
    assert_eq!(client.response().status, 101);
    reload(&dir, &config("/after"));
    let mut targets = iter::from_fn(|| targets.recv_timeout(PATIENCE).ok());
    // A check from before may be under way until then.
    let seen = targets.by_ref().filter(|target| target == "/after").take(3).count();
    assert_eq!(seen, 3);
    let next: Vec<String> = targets.take(6).collect();
    assert!(next.iter().all(|target| target == "/after"), "{next:?}");
    client.half_close();
}
