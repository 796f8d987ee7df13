//! Tests of isolated applications, which run on threads of their own, and of the log's warnings
//! about applications that block a worker.

use std::convert::Infallible;
use std::sync::{Arc, Mutex, mpsc};
use std::thread;
use std::time::Duration;

use bytes::Bytes;
use http::{Request, Response};
use http_body_util::{BodyExt, Full};
use hurtle::{BoxError, RequestBody, Server};

use crate::client::PATIENCE;
use crate::log;
use crate::support::{App, Frames, GET, Guard, frames};

/// A server with one isolated application.
fn isolated<F, Fut, B>(answer: F) -> App
where
    F: Fn(Request<RequestBody>) -> Fut + Clone + Send + 'static,
    Fut: Future<Output = Response<B>> + Send + 'static,
    B: http_body::Body + Send + 'static,
    B::Error: Into<BoxError>,
{
    App::mounted(|_| (), |server| mount_isolated(server, "/", answer))
}

fn mount_isolated<F, Fut, B>(server: Server, path: &str, answer: F) -> Server
where
    F: Fn(Request<RequestBody>) -> Fut + Clone + Send + 'static,
    Fut: Future<Output = Response<B>> + Send + 'static,
    B: http_body::Body + Send + 'static,
    B::Error: Into<BoxError>,
{
    let service = tower::service_fn(move |request| {
        let answering = answer(request);
        async { Ok::<_, Infallible>(answering.await) }
    });
    server.mount_isolated("*", path, service).unwrap()
}

async fn thread_name(_: Request<RequestBody>) -> Response<Full<Bytes>> {
    let name = thread::current().name().unwrap_or_default().to_owned();
    Response::new(name.into())
}

#[test]
fn applications_run_on_the_threads_of_their_mount() {
    assert_eq!(App::of(thread_name).ask(GET).1, "worker-0");
    assert_eq!(isolated(thread_name).ask(GET).1, "app");
}

#[test]
fn a_blocking_application_delays_no_other_request() {
    let (release, released) = mpsc::channel::<()>();
    let (begun, begins) = mpsc::channel();
    let released = Arc::new(Mutex::new(released));
    let app = App::mounted(
        |_| (),
        |server| {
            let server = mount_isolated(server, "/slow", move |_| {
                let (released, begun) = (Arc::clone(&released), begun.clone());
                async move {
                    begun.send(()).unwrap();
                    released.lock().unwrap().recv_timeout(PATIENCE).unwrap();
                    Response::new(Full::<Bytes>::from("at last"))
                }
            });
            let quick =
                tower::service_fn(async |request| Ok::<_, Infallible>(thread_name(request).await));
            server.mount("*", "/quick", quick).unwrap()
        },
    );
    let mut slow = app.connect();
    slow.send("GET /slow HTTP/1.1\r\nHost: a\r\n\r\n");
    begins.recv_timeout(PATIENCE).unwrap();
    for _ in 0..3 {
        let (_, body) = app.ask("GET /quick HTTP/1.1\r\nHost: a\r\n\r\n");
        assert_eq!(body, "worker-0", "the one worker there is answers others");
    }
    release.send(()).unwrap();
    assert_eq!(slow.answer().1, "at last");
}

#[test]
fn bodies_flow_both_ways_between_the_threads() {
    let app =
        isolated(|request: Request<RequestBody>| async move { Response::new(request.into_body()) });
    let mut client = app.connect();
    client.send("POST / HTTP/1.1\r\nHost: a\r\nTransfer-Encoding: chunked\r\n");
    client.send("TE: trailers\r\nConnection: TE\r\n\r\n3\r\none\r\n");
    assert!(client.head().starts_with("HTTP/1.1 200"));
    assert_eq!(client.chunk(), "one", "before the request is over");
    client.send("3\r\ntwo\r\n0\r\nX-Note: a\r\n\r\n");
    assert_eq!(client.chunk(), "two");
    assert_eq!([client.chunk(), client.line(), client.line()], ["", "X-Note: a", ""]);

    client.send("POST / HTTP/1.1\r\nHost: a\r\nContent-Length: 300000\r\n\r\n");
    client.send("x".repeat(300_000));
    let (head, body) = client.answer();
    assert!(head.contains("Content-Length: 300000\n"), "the length is known there too: {head}");
    assert!(body.bytes().all(|b| b == b'x'));
}

#[test]
fn an_aborted_isolated_response_is_visibly_incomplete() {
    let (hand, body) = frames();
    let body = Arc::new(Mutex::new(Some(body)));
    let app = isolated(move |request: Request<RequestBody>| {
        let body = body.lock().unwrap().take();
        async move {
            assert!(request.uri().path() != "/panic", "the test says so");
            Response::new(body.unwrap())
        }
    });
    let mut client = app.connect();
    client.send(GET);
    hand.data("one");
    client.head();
    assert_eq!(client.chunk(), "one");
    hand.fail();
    assert_eq!(client.rest(), "", "no last chunk");
}

#[test]
fn an_answered_isolated_request_is_dropped() {
    let (gone, told) = mpsc::channel();
    let app = isolated(move |_| {
        let guard = Guard(gone.clone());
        let held = move |frame| {
            let _ = &guard;
            frame
        };
        async { Response::new(Full::<Bytes>::from("all of it").map_frame(held)) }
    });
    let mut client = app.connect();
    client.send(GET);
    assert_eq!(client.answer().1, "all of it");
    assert_eq!(told.recv_timeout(PATIENCE), Ok("dropped"), "while the connection goes on");
    client.send(GET);
    assert_eq!(client.answer().1, "all of it");
}

#[test]
fn panics_are_answered_and_logged() {
    log::begin();
    async fn answer(request: Request<RequestBody>) -> Response<Full<Bytes>> {
        assert!(!request.uri().path().starts_with("/panic"), "the test says so");
        Response::new("alive".into())
    }
    for (what, app) in [("mounted", App::of(answer)), ("isolated", isolated(answer))] {
        let request = format!("GET /panic-{what}?key=secret HTTP/1.1\r\nHost: a\r\n\r\n");
        let (head, _) = app.ask(&request);
        assert!(head.starts_with("HTTP/1.1 500"), "{what}: {head}");
        let lines = log::lines_with(&format!("panicked: the test says so (GET /panic-{what})"));
        assert_eq!(lines.len(), 1, "{what}: {lines:?}");
        assert_eq!(app.ask(GET).1, "alive", "{what}: the worker lives");
    }
    assert_eq!(log::lines_with("key=secret"), [""; 0], "a query is nobody's business");
}

#[test]
fn a_reset_cancels_an_isolated_handler() {
    let (gone, told) = mpsc::channel();
    let (begun, begins) = mpsc::channel();
    let (hand, body) = frames();
    let body = Arc::new(Mutex::new(Some(body)));
    let app = isolated(move |request: Request<RequestBody>| {
        let (guard, begun, body) = (Guard(gone.clone()), begun.clone(), Arc::clone(&body));
        async move {
            if request.uri().path() == "/think" {
                let _guard = guard;
                begun.send(()).unwrap();
                return std::future::pending::<Response<Frames>>().await;
            }
            let body = body.lock().unwrap().take().unwrap();
            Response::new(body)
        }
    });
    let mut client = app.connect();
    client.send("GET /think HTTP/1.1\r\nHost: a\r\n\r\n");
    begins.recv_timeout(PATIENCE).unwrap();
    client.reset();
    assert_eq!(told.recv_timeout(PATIENCE), Ok("dropped"), "while it thinks");

    let mut client = app.connect();
    client.send(GET);
    hand.data("one");
    client.head();
    assert_eq!(client.chunk(), "one");
    client.reset();
    hand.wait_for_drop();
}

/// Number of blocking requests. The server logs at most one line a second for them.
const LONG_POLLS: usize = 20;

#[test]
fn long_polls_are_logged_at_a_limited_rate() {
    log::begin();
    // The server measures how long a poll blocks, so the sleep is what this test is about.
    let long = || thread::sleep(Duration::from_millis(20));
    let service = tower::service_fn(move |request: Request<RequestBody>| async move {
        let in_body = request.uri().path() == "/body";
        if !in_body {
            long();
        }
        let body = Full::<Bytes>::from("done").map_frame(move |frame| {
            if in_body {
                long();
            }
            frame
        });
        Ok::<_, Infallible>(Response::new(body))
    });
    let app = App::mounted(
        |_| (),
        |server| {
            let server = server.mount("*", "/dog", service).unwrap();
            let server = server.mount("*", "/puppy", service).unwrap();
            server.mount_isolated("*", "/cat", service).unwrap()
        },
    );
    let mut client = app.connect();
    for _ in 0..LONG_POLLS {
        client.send("GET /dog/work?key=hidden HTTP/1.1\r\nHost: a\r\n\r\n");
        assert_eq!(client.answer().1, "done");
        client.send("GET /cat/work HTTP/1.1\r\nHost: a\r\n\r\n");
        assert_eq!(client.answer().1, "done");
    }
    client.send("GET /puppy/body HTTP/1.1\r\nHost: a\r\n\r\n");
    assert_eq!(client.answer().1, "done");

    let lines = log::lines_with("the application at */dog held its worker for ");
    assert!((1..LONG_POLLS / 2).contains(&lines.len()), "{lines:#?}");
    assert!(lines[0].contains(" ms (GET /dog/work)"), "{lines:?}");
    assert_eq!(log::lines_with("hidden"), [""; 0]);
    let lines = log::lines_with("the application at */puppy held its worker for ");
    assert_eq!(lines.len(), 1, "an answer's body is watched, too: {lines:?}");
    assert_eq!(log::lines_with("*/cat held"), [""; 0], "it holds nobody");
}
