//! The fields that the server adds to each kind of an application's response.

use std::sync::{Arc, Mutex, mpsc};
use std::thread;

use bytes::Bytes;
use http::{Request, Response, StatusCode};
use http_body_util::Full;
use hurtle::config::{HeaderRule, Matcher, Site};
use hurtle::{BoxError, RequestBody};
use tower::service_fn;

use crate::client::PATIENCE;
use crate::support::{App, GET};

/// A sentence, the path, the status, and whether the rule without `always` applies.
const ROWS: &[(&str, &str, u16, bool)] = &[
    ("a response", "/", 200, true),
    ("an error", "/404", 404, false),
    ("a panic", "/panic", 500, false),
    ("a failure", "/fail", 500, false),
    ("a target that is no URI", "/%ff\"", 200, true),
];

async fn answer(request: Request<RequestBody>) -> Result<Response<Full<Bytes>>, BoxError> {
    assert!(request.uri().path() != "/panic", "the test says so");
    if request.uri().path() == "/fail" {
        return Err("the test says so".into());
    }
    let mut response = Response::new(Full::from("theirs"));
    if request.uri().path() == "/404" {
        *response.status_mut() = StatusCode::NOT_FOUND;
    }
    response.headers_mut().insert("x-all", "theirs".parse().unwrap());
    response.headers_mut().insert("x-gone", "1".parse().unwrap());
    Ok(response)
}

#[test]
fn each_kind_of_response_is_finished_alike() {
    let change = |config: &mut hurtle::Config| {
        let rule = |name: &'static str, always| HeaderRule {
            matcher: Matcher::of_pattern("**"),
            set: vec![(http::HeaderName::from_static(name), "ours".parse().unwrap())],
            remove: vec![http::HeaderName::from_static("x-gone")],
            always,
            types: Vec::new(),
            if_absent: false,
            cookie_flags: Vec::new(),
        };
        let site = &mut config.sites[0];
        site.headers = vec![rule("x-some", false), rule("x-all", true)];
        site.security_headers = true;
    };
    for isolated in [false, true] {
        let app = App::mounted(
            |config| {
                config.sites = vec![Site { default: true, ..Site::new() }];
                change(config);
            },
            |server| match isolated {
                true => server.mount_isolated("*", "/", service_fn(answer)).unwrap(),
                false => server.mount("*", "/", service_fn(answer)).unwrap(),
            },
        );
        for (sentence, path, status, has_some) in ROWS {
            let (head, _) = app.ask(&format!("GET {path} HTTP/1.1\r\nHost: a\r\n\r\n"));
            let head = head.to_lowercase();
            let count = |line: &str| head.lines().filter(|other| *other == line).count();
            assert!(head.starts_with(&format!("http/1.1 {status} ")), "{sentence}: {head}");
            assert_eq!(count("x-some: ours") == 1, *has_some, "{sentence}: {head}");
            assert_eq!(count("x-all: ours"), 1, "{sentence}: {head}");
            assert_eq!(count("x-content-type-options: nosniff"), 1, "{sentence}: {head}");
            assert!(!head.contains("theirs") && !head.contains("x-gone"), "{sentence}: {head}");
        }
    }
}

/// Regression: the worker waited for the task without end.
#[test]
fn a_stop_does_not_wait_for_a_blocking_task() {
    let (hold, held) = mpsc::channel::<()>();
    let (begin, begun) = mpsc::channel();
    let held = Arc::new(Mutex::new(held));
    let app = App::of(move |_| {
        let (held, begin) = (Arc::clone(&held), begin.clone());
        async move {
            let blocking = tokio::task::spawn_blocking(move || {
                begin.send(()).unwrap();
                let _ = held.lock().unwrap().recv();
            });
            let _ = blocking.await;
            Response::new(Full::<Bytes>::from("never"))
        }
    });
    let mut client = app.connect();
    client.send(GET);
    begun.recv_timeout(PATIENCE).expect("the task has begun");
    let (end, ended) = mpsc::channel();
    let stopping = thread::spawn(move || {
        drop(app);
        end.send(()).unwrap();
    });
    ended.recv_timeout(PATIENCE).expect("the server has stopped");
    drop(hold);
    stopping.join().unwrap();
}
