//! Requests over HTTP/1.1 and HTTP/2 to upstreams over HTTP/2.

use std::io::{Read as _, Write as _};
use std::net::TcpListener;
use std::sync::atomic::Ordering::SeqCst;
use std::thread;

use bytes::Bytes;
use h2::RecvStream;
use h2::server::SendResponse;
use http::{Request, Response, StatusCode};
use tokio::sync::watch;

use crate::client::PATIENCE;
use crate::library::{Upstream, read};
use crate::support::Proxy;

/// Answers by the path.
async fn answer(mut request: Request<RecvStream>, mut respond: SendResponse<Bytes>) {
    let path = request.uri().path().to_owned();
    let head = Response::builder();
    match path.as_str() {
        "/fields" => {
            let fields = request.headers().iter();
            let line = |(name, value): (&http::HeaderName, &http::HeaderValue)| {
                format!("{name}: {}\n", value.to_str().unwrap())
            };
            let uri = request.uri();
            let text = format!("{} {uri}\n", request.method());
            let text = text + &fields.map(line).collect::<String>();
            let head = head.header("content-length", text.len()).body(()).unwrap();
            let mut body = respond.send_response(head, false).unwrap();
            body.send_data(text.into(), true).unwrap();
        }
        "/echo" => {
            let sent = read(request.body_mut()).await.unwrap();
            let mut body = respond.send_response(head.body(()).unwrap(), false).unwrap();
            body.send_data(sent.into(), true).unwrap();
        }
        "/interim" => {
            let early = Response::builder().status(103).header("link", "</a>; rel=preload");
            respond.send_informational(early.body(()).unwrap()).unwrap();
            let mut body = respond.send_response(head.body(()).unwrap(), false).unwrap();
            body.send_data("late".into(), false).unwrap();
            let mut trailers = http::HeaderMap::new();
            trailers.insert("x-tail", "end".parse().unwrap());
            body.send_trailers(trailers).unwrap();
        }
        "/empty" => {
            let head = head.status(StatusCode::NO_CONTENT).body(()).unwrap();
            respond.send_response(head, true).unwrap();
        }
        _ => {
            let head = head.header("content-length", 7).header("cache-control", "max-age=60");
            let head = head.body(()).unwrap();
            let is_head = request.method() == http::Method::HEAD;
            let mut body = respond.send_response(head, is_head).unwrap();
            if !is_head {
                body.send_data("nothing".into(), true).unwrap();
            }
        }
    }
}

/// Answers `/waits` when so many events have come, and anything else like `answer`. A request with
/// the path `event` is one.
async fn answer_after(
    events: (usize, &watch::Sender<usize>),
    event: &str,
    request: Request<RecvStream>,
    mut respond: SendResponse<Bytes>,
) {
    let (needed, events) = events;
    let path = request.uri().path().to_owned();
    if path == event {
        events.send_modify(|count| *count += 1);
    }
    if path != "/waits" {
        return answer(request, respond).await;
    }
    events.subscribe().wait_for(|count| *count >= needed).await.unwrap();
    let head = Response::builder().header("content-length", 4).body(()).unwrap();
    respond.send_response(head, false).unwrap().send_data("done".into(), true).unwrap();
}

/// A count of events for `answer_after`, which lives as long as the program.
fn events() -> &'static watch::Sender<usize> {
    Box::leak(Box::new(watch::Sender::new(0)))
}

fn proxy(upstream: &Upstream, keys: &str) -> Proxy {
    Proxy::of("", &format!("proxy = \"h2c://{}\"\n{keys}", upstream.address))
}

#[test]
fn requests_of_http1_become_streams_of_one_connection() {
    let upstream = Upstream::start(100, answer);
    let proxy = proxy(&upstream, "");
    let mut client = proxy.connect();
    let address = upstream.address;

    client.send("GET /fields?a=%20b HTTP/1.1\r\nHost: site:81\r\nX-Two: 1\r\nx-two: 2\r\nTE: trailers\r\n\r\n");
    let (head, body) = client.answer();
    assert!(head.starts_with("HTTP/1.1 200 OK\n"), "{head}");
    assert!(body.starts_with("GET http://site:81/fields?a=%20b\nx-two: 1\nx-two: 2\nte: trailers\nx-forwarded-for: 127.0.0.1\n"), "{address}: {body}");
    assert!(!body.contains("connection"), "{body}");

    let sent = "0123456789".repeat(100_000);
    client
        .send(format!("POST /echo HTTP/1.1\r\nHost: a\r\nContent-Length: {}\r\n\r\n", sent.len()));
    client.send(&sent);
    let (_, body) = client.answer();
    assert_eq!(body.len(), sent.len());
    assert!(body == sent, "the same bytes");
    client.send(
        "POST /echo HTTP/1.1\r\nHost: a\r\nTransfer-Encoding: chunked\r\n\r\n3\r\nabc\r\n0\r\n\r\n",
    );
    assert_eq!(client.answer().1, "abc");

    client.send("HEAD /x HTTP/1.1\r\nHost: a\r\n\r\n");
    assert!(client.head().contains("Content-Length: 7\n"));
    client.send("GET /empty HTTP/1.1\r\nHost: a\r\n\r\n");
    assert!(client.head().starts_with("HTTP/1.1 204"));
    client.send("GET /interim HTTP/1.1\r\nHost: a\r\nTE: trailers\r\n\r\n");
    let early = client.head();
    assert!(early.contains("103 Early Hints\n") && early.contains("rel=preload"), "{early}");
    assert_eq!(client.answer().1, "lateX-Tail: end\n");
    client.send("GET /x HTTP/1.1\r\nHost: a\r\n\r\n");
    assert_eq!(client.answer().1, "nothing");
    assert_eq!(upstream.connections.load(SeqCst), 1);
}

#[test]
fn a_full_connection_is_followed_by_another_up_to_a_limit() {
    // Responses begin when 8 connections have 2 requests each.
    let events = events();
    let upstream = Upstream::start(2, async move |request, respond| {
        answer_after((16, events), "/waits", request, respond).await;
    });
    let proxy = proxy(&upstream, "");
    let clients: Vec<_> = (0..24)
        .map(|_| {
            let mut client = proxy.send("GET /waits HTTP/1.1\r\nHost: a\r\n\r\n");
            thread::spawn(move || client.answer().1)
        })
        .collect();
    for client in clients {
        assert_eq!(client.join().unwrap(), "done");
    }
    assert_eq!(upstream.connections.load(SeqCst), 8, "more requests wait");
    assert_eq!(upstream.most.load(SeqCst), 2, "SETTINGS_MAX_CONCURRENT_STREAMS");
}

#[test]
fn a_cache_stores_responses() {
    let upstream = Upstream::start(100, answer);
    let proxy = proxy(&upstream, "cache = {}\n");
    for status in ["stored", "hit"] {
        let mut client = proxy.send("GET /x HTTP/1.1\r\nHost: a\r\n\r\n");
        let (head, body) = client.answer();
        assert_eq!(body, "nothing");
        assert!(head.contains("Cache-Status: hurtle; ") && head.contains(status), "{head}");
    }
}

#[test]
fn health_checks_use_streams() {
    // The response begins when three checks have come.
    let events = events();
    let upstream = Upstream::start(100, async move |request, respond| {
        answer_after((3, events), "/up", request, respond).await;
    });
    let proxy = proxy(&upstream, "health = \"/up\"\nhealth_interval = \"100ms\"\n");
    let mut client = proxy.send("GET /waits HTTP/1.1\r\nHost: a\r\n\r\n");
    assert_eq!(client.answer().1, "done");
    assert_eq!(upstream.connections.load(SeqCst), 1);
}

#[test]
fn a_health_check_does_not_wait_for_requests() {
    // Responses begin when 3 checks have come beside 8 full connections.
    let (full, checks) = (events(), events());
    let upstream = Upstream::start(1, async move |request, respond| {
        match request.uri().path() {
            "/waits" => full.send_modify(|count| *count += 1),
            "/up" if *full.borrow() == 8 => checks.send_modify(|count| *count += 1),
            _ => {}
        }
        answer_after((3, checks), "", request, respond).await;
    });
    // After a check that failed it would stay without requests.
    let health = "health = \"/up\"\nhealth_interval = \"100ms\"\n";
    let proxy = proxy(&upstream, &format!("{health}health_fails = 1\nhealth_passes = 100\n"));
    let clients: Vec<_> =
        (0..8).map(|_| proxy.send("GET /waits HTTP/1.1\r\nHost: a\r\n\r\n")).collect();
    for mut client in clients {
        assert_eq!(client.answer().1, "done");
    }
    assert_eq!(proxy.send("GET /x HTTP/1.1\r\nHost: a\r\n\r\n").answer().1, "nothing");
}

/// Regression: the other upstream got a head alone, and waited for the body's end.
#[test]
fn an_empty_body_that_is_refused_is_sent_whole_to_another_upstream() {
    let refusing = Upstream::start(100, async move |mut request, mut respond| {
        read(request.body_mut()).await.unwrap();
        respond.send_reset(h2::Reason::REFUSED_STREAM);
    });
    let other = TcpListener::bind("127.0.0.1:0").unwrap();
    let address = other.local_addr().unwrap();
    let upstreams = format!("[\"h2c://{}\", \"http://{address}\"]", refusing.address);
    let proxy = Proxy::of("", &format!("proxy = {upstreams}\nbuffer = \"off\"\n"));
    let mut client =
        proxy.send("POST / HTTP/1.1\r\nHost: a\r\nTransfer-Encoding: chunked\r\n\r\n0\r\n\r\n");
    let (mut peer, _) = other.accept().unwrap();
    peer.set_read_timeout(Some(PATIENCE)).unwrap();
    let (mut received, mut byte) = (Vec::new(), [0]);
    while !received.ends_with(b"\r\n0\r\n\r\n") {
        peer.read_exact(&mut byte).expect("the end of the body");
        received.push(byte[0]);
    }
    peer.write_all(b"HTTP/1.1 200 OK\r\nContent-Length: 2\r\n\r\nhi").unwrap();
    assert_eq!(client.answer().1, "hi");
}
