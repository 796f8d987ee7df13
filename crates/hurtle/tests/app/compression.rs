//! Tests of compressed responses of applications.

use std::sync::{Arc, Mutex};

use bytes::Bytes;
use http::{Request, Response};
use http_body_util::Full;
use hurtle::{Config, RequestBody};

use crate::coding::{decode, decode_part, text};
use crate::support::{App, Frames, GET, frames};

/// Compresses the responses of applications.
fn on(config: &mut Config) {
    config.sites = vec![hurtle::config::Site {
        default: true,
        compress: Some(true),
        ..hurtle::config::Site::new()
    }];
}

/// An application that answers with these fields and this body.
fn giving(fields: &'static [(&'static str, &'static str)], status: u16, body: String) -> App {
    App::with(on, move |_| {
        let mut response = Response::builder().status(status);
        for (name, value) in fields {
            response = response.header(*name, *value);
        }
        let response = response.body(Full::<Bytes>::from(body.clone())).unwrap();
        async { response }
    })
}

fn get(coding: &str, more: &str) -> String {
    format!("GET / HTTP/1.1\r\nHost: a\r\nAccept-Encoding: {coding}\r\n{more}\r\n")
}

/// Sends a request and reads the response: its head in lower case, and its body without framing.
fn ask(app: &App, request: &str) -> (String, Vec<u8>) {
    let mut client = app.connect();
    client.send(request);
    let head = client.head();
    let len = head.lines().find_map(|line| line.strip_prefix("Content-Length: "));
    let len = len.filter(|_| !request.starts_with("HEAD"));
    let body = match len {
        Some(len) => client.take(len.parse().unwrap()),
        None if head.contains("chunked") && !request.starts_with("HEAD") => client.chunks(),
        None => vec![],
    };
    (head.to_lowercase(), body)
}

const TEXT: &[(&str, &str)] = &[("content-type", "text/html")];

#[test]
fn a_body_of_any_size_is_compressed() {
    for len in [1_024, 20_000, 32_768, 100_000, 2_000_000] {
        let page = text(len, 1);
        let app = giving(TEXT, 200, page.clone());
        for coding in ["br", "zstd", "gzip"] {
            let (head, body) = ask(&app, &get(coding, ""));
            assert!(head.contains(&format!("content-encoding: {coding}\n")), "{head}");
            assert!(head.contains("vary: accept-encoding\n"), "{head}");
            assert!(decode(coding, &body).unwrap() == page.as_bytes(), "{coding} {len}");
            assert!(body.len() < len, "{coding} {len}");
        }
        let (head, body) = ask(&app, GET);
        assert!(body == page.as_bytes() && head.contains("vary: accept-encoding\n"), "{head}");
    }
}

#[test]
fn responses_that_forbid_it_are_left_alone() {
    let page = text(5_000, 2);
    #[rustfmt::skip]
    let rows: &[(&str, &'static [(&'static str, &'static str)], u16, &str)] = &[
        ("not a compressible type", &[("content-type", "image/png")], 200, ""),
        ("no type", &[], 200, ""),
        ("no-transform", &[("content-type", "text/html"), ("cache-control", "private, no-transform")], 200, ""),
        ("encoded already", &[("content-type", "text/html"), ("content-encoding", "x-own")], 200, ""),
        ("a range", &[("content-type", "text/html"), ("content-range", "bytes 0-4999/9999")], 206, ""),
        ("a range without its status", &[("content-type", "text/html"), ("content-range", "bytes 0-4999/9999")], 200, ""),
        ("no range", &[("content-type", "text/html"), ("content-range", "bytes */9999")], 416, ""),
        ("a digest of the content", &[("content-type", "text/html"), ("content-digest", "sha-256=:AAAA:")], 200, ""),
        ("a digest of the representation", &[("content-type", "text/html"), ("repr-digest", "sha-256=:AAAA:")], 200, ""),
        ("an old digest", &[("content-type", "text/html"), ("digest", "sha-256=AAAA")], 200, ""),
        ("an older one", &[("content-type", "text/html"), ("content-md5", "AAAA")], 200, ""),
    ];
    for (why, fields, status, _) in rows {
        let app = giving(fields, *status, page.clone());
        let (head, body) = ask(&app, &get("br, gzip", ""));
        assert!(body == page.as_bytes(), "{why}: {head}");
        assert!(!head.contains("content-encoding: br") && !head.contains("vary"), "{why}: {head}");
    }
    let app = giving(TEXT, 200, text(1_023, 3));
    assert!(ask(&app, &get("br", "")).1 == text(1_023, 3).as_bytes(), "too small");
    let app = giving(TEXT, 200, page.clone());
    let old = get("gzip", "").replace("HTTP/1.1", "HTTP/1.0");
    let (head, body) = ask(&app, &old);
    assert!(body == page.as_bytes() && !head.contains("encoding:"), "HTTP/1.0: {head}");
    let off = App::with(
        |_| (),
        move |_: Request<RequestBody>| {
            let body = Full::<Bytes>::from(page.clone());
            async { Response::builder().header("content-type", "text/html").body(body).unwrap() }
        },
    );
    assert!(!ask(&off, &get("br", "")).0.contains("vary"), "it is off by default");
}

#[test]
fn fields_describe_the_encoded_bytes() {
    let page = text(5_000, 4);
    let fields = &[
        ("content-type", "application/ld+json"),
        ("etag", "\"v1\""),
        ("accept-ranges", "bytes"),
        ("vary", "Cookie"),
    ];
    let app = giving(fields, 200, page.clone());
    let (head, body) = ask(&app, &get("gzip", ""));
    for line in
        ["etag: w/\"v1\"", "vary: cookie", "vary: accept-encoding", "content-encoding: gzip"]
    {
        assert!(head.lines().any(|found| found == line), "no {line}: {head}");
    }
    assert!(!head.contains("accept-ranges"), "{head}");
    assert!(!head.contains("content-length: 5000\n"), "{head}");
    assert_eq!(decode("gzip", &body).unwrap(), page.as_bytes());
    let (head, _) = ask(&app, GET);
    assert!(head.contains("etag: \"v1\"\n") && head.contains("accept-ranges: bytes\n"), "{head}");
    let (head, body) = ask(&app, &get("gzip", "").replace("GET", "HEAD"));
    assert!(head.contains("content-encoding: gzip\n") && head.contains("w/\"v1\""), "HEAD: {head}");
    assert!(!head.contains("content-length: 5000") && body.is_empty(), "HEAD: {head}");

    let app = giving(&[("etag", "\"v1\"")], 304, String::new());
    let (head, _) = ask(&app, &get("gzip", "If-None-Match: W/\"v1\"\r\n"));
    assert!(head.contains("304") && head.contains("etag: w/\"v1\"\n"), "{head}");
    let (head, _) = ask(&app, GET);
    assert!(head.contains("etag: \"v1\"\n"), "{head}");
}

#[test]
fn each_event_arrives_before_the_next_is_made() {
    for coding in ["br", "zstd", "gzip"] {
        let (hand, body) = frames();
        let body = Arc::new(Mutex::new(Some(body)));
        let app = App::with(on, move |_: Request<RequestBody>| {
            let body: Frames = body.lock().unwrap().take().unwrap();
            async {
                Response::builder().header("content-type", "text/event-stream").body(body).unwrap()
            }
        });
        let mut client = app.connect();
        client.send(get(coding, ""));
        let head = client.head().to_lowercase();
        assert!(head.contains(&format!("content-encoding: {coding}\n")), "{head}");
        let (mut coded, mut plain) = (Vec::new(), String::new());
        for n in 0..10 {
            let event = format!("data: event {n}\n\n");
            plain.push_str(&event);
            hand.data(event);
            while decode_part(coding, &coded).0 != plain.as_bytes() {
                let len = usize::from_str_radix(&client.line(), 16).unwrap();
                coded.extend(client.take(len));
                client.line();
            }
        }
        drop(hand);
        coded.extend(client.chunks());
        assert_eq!(decode(coding, &coded).unwrap(), plain.as_bytes(), "{coding}");
    }
}
