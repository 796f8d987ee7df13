//! Tests of requests without a body: responses equal those over HTTP/1.1.

use std::fs::File;
use std::io::Write;
use std::net::SocketAddr;
use std::time::Duration;

use bytes::Bytes;
use h2::client::SendRequest;

use crate::peer::{answer, ask, body, talk};
use crate::support::{Response, Server};

/// A response over HTTP/1.1, with field names in lower case as in HTTP/2.
fn in_http1(server: &Server, method: &str, target: &str) -> Response {
    comparable(server.request(method, target))
}

fn comparable(mut response: Response) -> Response {
    for (name, _) in &mut response.fields {
        name.make_ascii_lowercase();
    }
    response.fields.retain(|(name, _)| name != "date" && name != "connection");
    response.fields.sort();
    response
}

fn in_http2(address: SocketAddr, method: &str, target: &str) -> Response {
    comparable(talk(address, async |mut client| {
        answer(ask(&mut client, method, target).await).await
    }))
}

#[test]
fn responses_equal_those_of_http1() {
    let large = "0123456789".repeat(200_000);
    let tree = [("a.txt", "0123456789"), ("empty", ""), ("large", &large), ("dir/index.html", "d")];
    let server = Server::start(&tree);
    let etag = server.get("/a.txt").field("ETag").unwrap().to_owned();
    let rows = [
        ("GET", "/a.txt".to_owned(), 200),
        ("GET", "/a.txt?query".to_owned(), 200),
        ("HEAD", "/a.txt".to_owned(), 200),
        ("HEAD", "/large".to_owned(), 200),
        ("GET", "/empty".to_owned(), 200),
        ("GET", "/large".to_owned(), 200),
        ("GET", "/dir/".to_owned(), 200),
        ("GET", "/dir".to_owned(), 301),
        ("GET", "/none".to_owned(), 404),
        ("GET", "/%zz".to_owned(), 400),
        ("GET", "/..%2f".to_owned(), 404),
        ("GET", "/a.txt\nRange: bytes=2-4".to_owned(), 206),
        ("GET", "/a.txt\nRange: bytes=0-0,8-9".to_owned(), 206),
        ("GET", "/large\nRange: bytes=100000-1900000".to_owned(), 206),
        ("GET", "/a.txt\nRange: bytes=99-".to_owned(), 416),
        ("GET", format!("/a.txt\nIf-None-Match: {etag}"), 304),
        ("GET", "/a.txt\nIf-Match: \"other\"".to_owned(), 412),
        ("OPTIONS", "/a.txt".to_owned(), 204),
        ("DELETE", "/a.txt".to_owned(), 405),
        ("BREW", "/a.txt".to_owned(), 501),
    ];
    for (method, target, status) in rows {
        let found = in_http2(server.address, method, &target);
        assert_eq!(found.status, status, "{method} {target}");
        let expected = in_http1(&server, method, &target);
        assert!(found == expected, "{method} {target}: {:?} {:?}", found.fields, expected.fields);
    }
}

#[test]
fn a_file_that_grows_during_a_response_keeps_its_length() {
    let large = "0123456789".repeat(400_000);
    let server = Server::start(&[("log", &large)]);
    talk(server.address, async |mut client| {
        let (head, mut frames) = ask(&mut client, "GET", "/log").await.await.unwrap().into_parts();
        assert_eq!(head.headers["content-length"], *large.len().to_string());
        let mut log = File::options().append(true).open(server.dir.path("log")).unwrap();
        log.write_all(b"more").unwrap();
        assert!(body(&mut frames).await.unwrap().0 == large.as_bytes());
    });
}

#[test]
fn a_connection_serves_concurrent_requests_and_later_ones() {
    let large = "x".repeat(100_000);
    let server = Server::start(&[("a.txt", "a"), ("large", &large)]);
    talk(server.address, async |mut client| {
        for _ in 0..4 {
            let mut asked = Vec::new();
            for n in 0..50 {
                let target = if n % 10 == 0 { "/large" } else { "/a.txt" };
                asked.push((ask(&mut client, "GET", target).await, n % 10 == 0));
            }
            for (response, is_large) in asked {
                let answer = answer(response).await;
                assert_eq!(answer.body.len(), if is_large { large.len() } else { 1 });
            }
        }
    });
}

#[test]
fn an_unread_download_does_not_delay_others() {
    let large = "x".repeat(3_000_000);
    let server = Server::start(&[("a.txt", "a"), ("large", &large)]);
    talk(server.address, async |mut client| {
        // The window of this stream is never opened.
        let _stuck = ask(&mut client, "GET", "/large").await.await.unwrap();
        for _ in 0..20 {
            assert_eq!(answer(ask(&mut client, "GET", "/a.txt").await).await.body, b"a");
        }
    });
}

/// Regression: streams that waited for the disk lost their share of the window to others, and were
/// reset.
#[test]
#[cfg(target_os = "linux")]
fn downloads_that_wait_for_the_disk_share_the_windows() {
    let names: Vec<String> = (0..16).map(|n| format!("file-{n}")).collect();
    let large = "0123456789".repeat(60_000);
    let tree: Vec<_> = names.iter().map(|name| (name.as_str(), large.as_str())).collect();
    let server = Server::start(&tree);
    for name in &names {
        let file = File::open(server.dir.path(name)).unwrap();
        file.sync_all().unwrap();
        rustix::fs::fadvise(&file, 0, None, rustix::fs::Advice::DontNeed).unwrap();
    }
    crate::peer::talk_within(65_535, server.address, async |mut client| {
        let mut asked = Vec::new();
        for name in &names {
            asked.push(ask(&mut client, "GET", &format!("/{name}")).await);
        }
        let answers = asked.into_iter().map(|response| tokio::spawn(answer(response)));
        for answer in answers.collect::<Vec<_>>() {
            assert!(answer.await.unwrap().body == large.as_bytes());
        }
    });
}

#[test]
fn a_client_beyond_its_request_limit_reconnects() {
    let server = Server::with(&[("a.txt", "a")], |config| {
        config.limits.requests_per_connection = Some(3);
    });
    talk(server.address, async |mut client| {
        for _ in 0..3 {
            assert_eq!(answer(ask(&mut client, "GET", "/a.txt").await).await.status, 200);
        }
        expect_goaway(client).await;
    });
}

#[test]
fn a_client_of_an_old_connection_reconnects() {
    let server = Server::with(&[("a.txt", "a")], |config| {
        config.limits.connection_age = Some(Duration::from_millis(1));
    });
    talk(server.address, expect_goaway);
}

/// Sends requests until the server lets no more follow.
async fn expect_goaway(client: SendRequest<Bytes>) {
    let refused = async {
        let mut asked = client.ready().await?;
        loop {
            let request = crate::peer::request("GET", "/a.txt");
            asked.send_request(request, true)?.0.await?;
            asked = asked.ready().await?;
        }
    };
    let Err::<(), h2::Error>(error) = refused.await else { unreachable!() };
    let is_closed = error.to_string().contains("closed");
    assert!(error.is_go_away() || error.is_io() || is_closed, "{error}");
}
