//! Requests and responses over TLS.

use std::io::{ErrorKind, Write};
use std::net::Shutdown;

use axum::Router;
use axum::extract::Request;
use axum::routing::post;
use http_body_util::BodyExt;
use hurtle::config::{HostName, Sendfile};
use hurtle::{Arrival, ClientCertificate};

use crate::peer::{Peer, field};
use crate::server::Secure;

fn bytes(len: usize) -> Vec<u8> {
    (0..len).map(|i| (i * 31 % 251) as u8).collect()
}

#[test]
fn files_of_every_size_arrive_whole_and_the_connection_goes_on() {
    let server = Secure::start(&[]);
    let mut peer = server.connect();
    // Around the sizes of records, writes, cached files and turns.
    for len in [0, 1, 16_383, 16_385, 65_536, 262_145, 1_048_577, 5_000_000] {
        let contents = bytes(len);
        std::fs::write(server.dir.path(format!("{len}.bin")), &contents).unwrap();
        let answer = peer.get(&format!("/{len}.bin"));
        assert_eq!(answer.status, 200);
        assert!(answer.body == contents, "{len} bytes are not those of the file");
    }
}

#[test]
fn ranges_conditions_and_pipelining_work_over_tls() {
    let server = Secure::start(&[("a.txt", "0123456789"), ("b.txt", "b")]);
    let mut peer = server.connect();
    let answer = peer.get("/a.txt\nRange: bytes=2-4");
    assert_eq!((answer.status, answer.body), (206, b"234".to_vec()));
    let answer = peer.get("/a.txt\nRange: bytes=0-0,8-9");
    assert_eq!(answer.status, 206);
    assert!(String::from_utf8_lossy(&answer.body).contains("\r\n\r\n89\r\n"));
    let etag = field(&answer.head, "ETag").unwrap().to_owned();
    assert_eq!(peer.get(&format!("/a.txt\nIf-None-Match: {etag}")).status, 304);
    let one = "GET /b.txt HTTP/1.1\r\nHost: a.test\r\n\r\n";
    peer.send(one.repeat(40));
    for _ in 0..40 {
        assert_eq!(peer.answer().body, b"b");
    }
}

#[test]
fn a_complete_response_ends_with_close_notify() {
    let server = Secure::start(&[("a.txt", "hello\n")]);
    let mut peer = server.connect();
    peer.send("GET /a.txt HTTP/1.1\r\nHost: a.test\r\nConnection: close\r\n\r\n");
    let (answer, closed_cleanly) = peer.rest();
    assert!(answer.ends_with(b"\r\n\r\nhello\n") && closed_cleanly);
}

#[test]
fn a_request_before_close_notify_is_answered() {
    let server = Secure::start(&[("a.txt", "hello\n")]);
    let mut peer = server.connect();
    peer.session.send_close_notify();
    let mut early = server.connect();
    early.send("GET /a.txt HTTP/1.1\r\nHost: a.test\r\n\r\n");
    early.session.send_close_notify();
    early.send("");
    early.socket.shutdown(Shutdown::Write).unwrap();
    let (answer, closed_cleanly) = early.rest();
    assert!(answer.ends_with(b"hello\n") && closed_cleanly);
    peer.send("");
    assert_eq!(
        peer.rest(),
        (Vec::new(), true),
        "a client without a request gets close_notify, too"
    );
}

#[test]
fn a_request_body_cut_short_without_close_notify_is_refused() {
    let server = Secure::mounted(
        &[],
        |_, _, _| (),
        |server| {
            let echo = post(|body: String| async move { body });
            server.mount("a.test", "/echo", Router::new().route("/", echo)).unwrap()
        },
    );
    let mut peer = server.connect();
    peer.send("POST /echo HTTP/1.1\r\nHost: a.test\r\nTransfer-Encoding: chunked\r\n\r\n3\r\nabc");
    peer.socket.shutdown(Shutdown::Write).unwrap();
    let (answer, _) = peer.rest();
    assert!(!answer.starts_with(b"HTTP/1.1 200"), "{}", String::from_utf8_lossy(&answer));
}

#[test]
fn a_truncated_response_ends_without_close_notify() {
    let server = Secure::start(&[]);
    let path = server.dir.path("big.bin");
    std::fs::write(&path, bytes(64 << 20)).unwrap();
    let mut peer = server.connect();
    peer.send("GET /big.bin HTTP/1.1\r\nHost: a.test\r\n\r\n");
    let mut some = [0; 1024];
    assert!(peer.read(&mut some).unwrap() > 0);
    std::fs::OpenOptions::new().write(true).open(&path).unwrap().set_len(1 << 20).unwrap();
    let (rest, closed_cleanly) = peer.rest();
    assert!(rest.len() < 64 << 20 && !closed_cleanly);
}

#[test]
fn a_file_that_grows_during_a_response_keeps_its_length() {
    const LEN: usize = 32 << 20;
    for sendfile in [Sendfile::Auto, Sendfile::Off] {
        let server = Secure::with(&[], |config, _, _| config.sendfile = sendfile);
        let path = server.dir.path("log");
        std::fs::write(&path, bytes(LEN)).unwrap();
        let mut peer = server.connect();
        peer.send("GET /log HTTP/1.1\r\nHost: a.test\r\nConnection: close\r\n\r\n");
        let mut got = vec![0; 1024];
        let begun = peer.read(&mut got).unwrap();
        got.truncate(begun);
        let mut log = std::fs::OpenOptions::new().append(true).open(&path).unwrap();
        log.write_all(b"more").unwrap();
        let (rest, goodbye) = peer.rest();
        got.extend(rest);
        let body_at = memchr::memmem::find(&got, b"\r\n\r\n").unwrap() + 4;
        let came = got.len() - body_at;
        assert!(got[body_at..] == bytes(LEN) && goodbye, "{sendfile:?}: {came} bytes came");
    }
}

#[test]
fn an_application_reads_and_writes_at_once() {
    let server = Secure::mounted(
        &[],
        |_, _, _| (),
        |server| {
            let echo = post(|request: Request| async move {
                assert!(request.extensions().get::<Arrival>().unwrap().secure);
                assert!(request.extensions().get::<ClientCertificate>().is_none());
                axum::body::Body::new(request.into_body().map_frame(|frame| frame))
            });
            server.mount("a.test", "/echo", Router::new().route("/", echo)).unwrap()
        },
    );
    let mut peer = server.connect();
    let body = bytes(3_000_000);
    let head = format!("POST /echo HTTP/1.1\r\nHost: a.test\r\nContent-Length: {}\r\n", body.len());
    peer.send(format!("{head}Connection: close\r\n\r\n"));
    // Both directions carry more than all buffers hold.
    let mut received = Vec::new();
    peer.session.writer().write_all(&body).unwrap();
    peer.socket.set_nonblocking(true).unwrap();
    loop {
        if peer.session.wants_write() {
            match peer.session.write_tls(&mut peer.socket) {
                Err(e) if e.kind() == ErrorKind::WouldBlock => {}
                written => drop(written.unwrap()),
            }
        }
        let mut some = [0; 16 << 10];
        match peer.read(&mut some) {
            Ok(0) => break,
            Ok(n) => received.extend_from_slice(&some[..n]),
            Err(e) if e.kind() == ErrorKind::WouldBlock => std::thread::yield_now(),
            Err(e) => panic!("{e}"),
        }
    }
    let start = received.windows(4).position(|four| four == b"\r\n\r\n").unwrap() + 4;
    let chunked = unchunked(&received[start..]);
    assert!(chunked == body, "{} of {} bytes", chunked.len(), body.len());
}

fn unchunked(mut rest: &[u8]) -> Vec<u8> {
    let mut data = Vec::new();
    loop {
        let end = rest.windows(2).position(|two| two == b"\r\n").unwrap();
        let len = usize::from_str_radix(std::str::from_utf8(&rest[..end]).unwrap(), 16).unwrap();
        if len == 0 {
            return data;
        }
        data.extend_from_slice(&rest[end + 2..][..len]);
        rest = &rest[end + 2 + len + 2..];
    }
}

#[test]
fn every_response_over_tls_has_hsts() {
    let server = Secure::with(&[("a.txt", "hello\n")], |config, _, _| {
        if let Some(tls) = &mut config.sites[0].tls {
            tls.redirect = true;
            tls.hsts = Some("max-age=60".parse().unwrap());
        }
    });
    let table = [
        ("a file", "GET /a.txt HTTP/1.1\r\nHost: a.test\r\n\r\n", 200),
        ("a 304", "GET /a.txt HTTP/1.1\r\nHost: a.test\r\nIf-None-Match: *\r\n\r\n", 304),
        ("a 412", "GET /a.txt HTTP/1.1\r\nHost: a.test\r\nIf-Match: \"x\"\r\n\r\n", 412),
        ("a 416", "GET /a.txt HTTP/1.1\r\nHost: a.test\r\nRange: bytes=9-\r\n\r\n", 416),
        ("nothing there", "GET /b.txt HTTP/1.1\r\nHost: a.test\r\n\r\n", 404),
        ("a method refused", "PUT /a.txt HTTP/1.1\r\nHost: a.test\r\n\r\n", 405),
        ("an unknown method", "BREW /a.txt HTTP/1.1\r\nHost: a.test\r\n\r\n", 501),
        ("what is possible", "OPTIONS /a.txt HTTP/1.1\r\nHost: a.test\r\n\r\n", 204),
        ("a path that is none", "GET /%zz HTTP/1.1\r\nHost: a.test\r\n\r\n", 400),
        ("no host", "GET /a.txt HTTP/1.1\r\n\r\n", 400),
        ("no request", "nonsense\r\n\r\n", 400),
    ];
    for (sentence, request, status) in table {
        let mut peer = server.connect();
        peer.send(request);
        let answer = peer.answer();
        assert_eq!(answer.status, status, "{sentence}");
        let pinned = field(&answer.head, "Strict-Transport-Security");
        assert_eq!(pinned, Some("max-age=60"), "{sentence}");
    }
}

#[test]
fn plain_http_is_redirected_to_a_name_of_the_site() {
    let any = vec![HostName::Wildcard("w.test".to_owned()), HostName::AnyDomain("mail".to_owned())];
    let own = [vec![HostName::Exact("a.test".to_owned())], any.clone()].concat();
    #[rustfmt::skip]
    let rows = [
        (&own, "x.w.test", "x.w.test", "a wildcard"),
        (&own, "Mail.Example.", "mail.example", "in any domain"),
        (&own, "evil.test", "a.test", "another name of a default site"),
        (&any, "evil.test", "evil.test", "where no name is whole"),
    ];
    for (names, host, expected, sentence) in rows {
        let server = Secure::with(&[("a.txt", "")], |config, _, _| {
            config.sites[0].hosts.clone_from(names);
            config.sites[0].default = true;
            config.sites[0].tls.iter_mut().for_each(|tls| tls.redirect = true);
        });
        let mut client = crate::support::Client::connect(server.clear);
        let answer = client.request("GET", &format!("/a.txt\nHost: {host}"));
        assert_eq!(answer.status, 308, "{sentence}");
        let location = format!("https://{expected}:{}/a.txt", server.address.port());
        assert_eq!(answer.field("Location"), Some(&*location), "{sentence}");
    }
}

#[test]
fn plain_http_is_redirected_to_the_configured_name() {
    let server = Secure::with(&[("a.txt", "hello\n")], |config, _, _| {
        if let Some(tls) = &mut config.sites[0].tls {
            tls.redirect = true;
            tls.hsts = Some("max-age=60".parse().unwrap());
        }
    });
    let port = server.address.port();
    for (host, target) in [("a.test", "/a.txt?q=1"), ("A.TEST.", "//evil/"), ("evil.test", "/")] {
        let mut client = crate::support::Client::connect(server.clear);
        let answer = client.request("GET", &format!("{target}\nHost: {host}"));
        assert_eq!(answer.status, 308);
        let location = format!("https://a.test:{port}{target}");
        assert_eq!(answer.field("Location"), Some(location.as_str()), "{host}");
        assert_eq!(answer.field("Strict-Transport-Security"), None, "RFC 6797 7.2");
    }
    let answer = server.connect().get("/a.txt");
    assert_eq!(answer.status, 200);
    assert_eq!(field(&answer.head, "Strict-Transport-Security"), Some("max-age=60"));
    assert_eq!(
        Peer::connect(server.address, "a.test", &server.options()).unwrap().get("/").status,
        200
    );
}
