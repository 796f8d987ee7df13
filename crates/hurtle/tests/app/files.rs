//! Tests of `hurtle::file`: files are sent by `sendfile` if no layer needs their bytes, and
//! streamed otherwise.

use std::fs::{self, File};
use std::io::Read;
use std::path::{Path, PathBuf};
use std::pin::Pin;
use std::sync::Arc;
use std::sync::atomic::{AtomicUsize, Ordering::SeqCst};
use std::task::{Context, Poll};

use axum::Router;
use axum::body::Body;
use axum::extract::{self, Path as Name, Request};
use axum::middleware::map_response;
use axum::response::{IntoResponse, Response};
use axum::routing::any;
use bytes::Bytes;
use http::StatusCode;
use http_body::{Frame, SizeHint};
use hurtle::RequestBody;
use tower_http::compression::CompressionLayer;
use tower_http::cors::CorsLayer;
use tower_http::timeout::TimeoutLayer;
use tower_http::trace::TraceLayer;

use crate::client::PATIENCE;
use crate::support::{App, Folder};

/// More than one turn of a connection, and hashed at once.
const LARGE_BYTES: usize = 1_000_000;

/// Too large for the memory cache, but sent in one turn.
const MEDIUM_BYTES: usize = 100_000;

/// A directory with a file of each size.
fn folder() -> Folder {
    let folder = Folder::new();
    fs::write(folder.root().join("../secret.txt"), "secret").unwrap();
    folder.put("large.txt", &text(LARGE_BYTES));
    folder.put("medium.bin", &text(MEDIUM_BYTES));
    folder.put("small.html", &text(100));
    folder
}

fn text(len: usize) -> Vec<u8> {
    (0..len).map(|at| b'a' + (at % 23) as u8).collect()
}

/// Counts the polls of a body; 0 if the kernel sends the file.
#[derive(Clone, Default)]
struct Polls(Arc<AtomicUsize>);

impl Polls {
    fn taken(&self) -> usize {
        self.0.swap(0, SeqCst)
    }

    fn counted(&self, response: Response) -> Response {
        let polls = self.clone();
        response.map(|body| Body::new(Counted { body, polls }))
    }
}

struct Counted {
    body: Body,
    polls: Polls,
}

impl http_body::Body for Counted {
    type Data = Bytes;
    type Error = axum::Error;

    fn poll_frame(
        mut self: Pin<&mut Self>,
        cx: &mut Context<'_>,
    ) -> Poll<Option<Result<Frame<Bytes>, axum::Error>>> {
        self.polls.0.fetch_add(1, SeqCst);
        Pin::new(&mut self.body).poll_frame(cx)
    }

    fn is_end_stream(&self) -> bool {
        self.body.is_end_stream()
    }

    fn size_hint(&self) -> SizeHint {
        self.body.size_hint()
    }
}

async fn download(
    extract::State(root): extract::State<PathBuf>,
    Name(name): Name<String>,
    request: Request,
) -> impl IntoResponse {
    hurtle::file(root, name, &request).await
}

/// An axum router that responds with files by name.
fn files(root: &Path, polls: &Polls) -> Router {
    let polls = polls.clone();
    let router = Router::new().route("/{*name}", any(download)).with_state(root.to_owned());
    router.layer(map_response(move |response| {
        let response = polls.counted(response);
        async { response }
    }))
}

fn serving(router: Router) -> App {
    App::mounted(|_| (), |server| server.mount("*", "/f", router).unwrap())
}

fn get(name: &str, more: &str) -> String {
    format!("GET /f/{name} HTTP/1.1\r\nHost: a\r\n{more}\r\n")
}

#[test]
fn unmodified_file_bodies_are_sent_by_sendfile() {
    let (folder, polls) = (folder(), Polls::default());
    let router = || files(&folder.root(), &polls);
    let timeout = TimeoutLayer::with_status_code(StatusCode::REQUEST_TIMEOUT, PATIENCE);
    let rows = [
        ("axum's boxed bodies", router()),
        ("a trace", router().layer(TraceLayer::new_for_http())),
        ("CORS and a timeout", router().layer(CorsLayer::permissive()).layer(timeout)),
        ("compression that was not asked for", router().layer(CompressionLayer::new())),
    ];
    for (what, router) in rows {
        let app = serving(router);
        let mut client = app.connect();
        for (name, len, media_type) in [
            ("large.txt", LARGE_BYTES, "text/plain; charset=utf-8"),
            ("medium.bin", MEDIUM_BYTES, "application/octet-stream"),
        ] {
            client.send(get(name, ""));
            let (head, body) = client.answer();
            assert!(head.starts_with("HTTP/1.1 200 OK\n"), "{what}: {head}");
            for field in [
                &format!("Content-Type: {media_type}\n"),
                &format!("Content-Length: {len}\n"),
                "Last-Modified: Sun, 09 Sep 2001 01:46:40 GMT\n",
                "Accept-Ranges: bytes\n",
                "Etag: \"",
            ] {
                assert_eq!(head.matches(field).count(), 1, "{what}: {field} in {head}");
            }
            assert!(body.into_bytes() == text(len), "{what}: the file's bytes");
            assert_eq!(polls.taken(), 0, "{what}: the body was polled");
        }
        client.send(get("small.html", ""));
        assert_eq!(client.answer().1.into_bytes(), text(100), "{what}");
        assert_eq!(polls.taken(), 1, "{what}: a small file comes from memory");
    }
}

#[test]
fn a_service_needs_no_router() {
    let folder = folder();
    let root = folder.root();
    let app = App::of(move |request: http::Request<RequestBody>| {
        let name = request.uri().path().trim_start_matches('/').to_owned();
        let root = root.clone();
        async move { hurtle::file(root, name, &request).await }
    });
    let (_, body) = app.ask("GET /large.txt HTTP/1.1\r\nHost: a\r\n\r\n");
    assert!(body.into_bytes() == text(LARGE_BYTES));
}

#[test]
fn compression_streams_the_same_bytes() {
    let (folder, polls) = (folder(), Polls::default());
    let app = serving(files(&folder.root(), &polls).layer(CompressionLayer::new()));
    let mut client = app.connect();
    client.send(get("large.txt", "Accept-Encoding: gzip\r\n"));
    let head = client.head();
    assert!(head.contains("Content-Encoding: gzip\n"), "{head}");
    assert!(!head.contains("Content-Length"), "{head}");
    let encoded = client.chunks();
    let mut decoded = Vec::new();
    flate2::read::GzDecoder::new(&encoded[..]).read_to_end(&mut decoded).unwrap();
    assert!(decoded == text(LARGE_BYTES), "{} bytes", decoded.len());
    assert!(polls.taken() > 1, "somebody has seen them");
    client.send(get("small.html", ""));
    assert_eq!(client.answer().1.len(), 100, "the connection goes on");
}

#[test]
fn the_server_evaluates_conditions_and_ranges() {
    let (folder, polls) = (folder(), Polls::default());
    let app = serving(files(&folder.root(), &polls));
    let mut client = app.connect();
    client.send(get("large.txt", ""));
    let (head, _) = client.answer();
    let tag = head.lines().find_map(|line| line.strip_prefix("Etag: ")).unwrap();
    let all = String::from_utf8(text(LARGE_BYTES)).unwrap();
    let same = format!("If-None-Match: {tag}\r\n");
    let still = format!("If-Range: {tag}\r\nRange: bytes=0-3\r\n");
    let since = "If-Modified-Since: Sun, 09 Sep 2001 01:46:40 GMT\r\n";
    let rows: [(&str, &str, &str, &str, &str); 9] = [
        ("it has it already", &same, "304 Not Modified", "Etag: \"", ""),
        ("it has it by date", since, "304 Not Modified", "Etag: \"", ""),
        ("another is meant", "If-Match: \"x\"\r\n", "412 Precondition Failed", "Etag: \"", ""),
        (
            "a part",
            "Range: bytes=23-27\r\n",
            "206 Partial",
            "Content-Range: bytes 23-27/1000000\n",
            { "abcde" },
        ),
        ("the end", "Range: bytes=-4\r\n", "206 Partial", "bytes 999996-999999/", {
            &all[LARGE_BYTES - 4..]
        }),
        ("a part of the same", &still, "206 Partial", "Content-Length: 4\n", "abcd"),
        ("a part of another", "If-Range: \"x\"\r\nRange: bytes=0-3\r\n", "200 OK", "Etag", &all),
        ("beyond it", "Range: bytes=1000000-\r\n", "416 Range", "bytes */1000000\n", ""),
        ("no range", "Range: lines=1-2\r\n", "200 OK", "Content-Length: 1000000\n", &all),
    ];
    for (what, more, status, field, want) in rows {
        client.send(get("large.txt", more));
        let (head, body) = client.answer();
        assert!(head.starts_with(&format!("HTTP/1.1 {status}")), "{what}: {head}");
        assert!(head.contains(field), "{what}: {field} in {head}");
        assert!(body == want, "{what}: {} bytes", body.len());
        assert_eq!(polls.taken(), 0, "{what}: the body was polled");
    }
    client.send(get("large.txt", "Range: bytes=0-1,100-101\r\n"));
    let (head, body) = client.answer();
    assert!(head.contains("Content-Type: multipart/byteranges; boundary="), "{head}");
    assert!(body.contains("Content-Range: bytes 100-101/1000000\r\n\r\nij\r\n"), "{body}");

    client.send("HEAD /f/large.txt HTTP/1.1\r\nHost: a\r\nRange: bytes=0-3\r\n\r\n");
    let head = client.head();
    assert!(
        head.starts_with("HTTP/1.1 200") && head.contains("Content-Length: 1000000\n"),
        "{head}"
    );
    client.send(
        "POST /f/large.txt HTTP/1.1\r\nHost: a\r\nContent-Length: 0\r\nRange: bytes=0-3\r\n\r\n",
    );
    assert_eq!(client.answer().1.len(), LARGE_BYTES, "ranges are GET's");
}

#[test]
fn names_do_not_lead_out_of_the_directory() {
    let (folder, polls) = (folder(), Polls::default());
    std::os::unix::fs::symlink("../secret.txt", folder.root().join("link.txt")).unwrap();
    fs::create_dir(folder.root().join("sub")).unwrap();
    let app = serving(files(&folder.root(), &polls));
    let mut client = app.connect();
    let secret = folder.root().parent().unwrap().join("secret.txt");
    let absolute = secret.to_str().unwrap().replace('/', "%2F");
    for (what, name) in [
        ("nothing", "none.txt"),
        ("a directory", "sub"),
        ("beside it", "%2E%2E%2Fsecret.txt"),
        ("from the top", &*absolute),
        ("a link out of it", "link.txt"),
        ("no name that a file can have", "large.txt%00"),
    ] {
        client.send(get(name, ""));
        let (head, body) = client.answer();
        assert!(head.starts_with("HTTP/1.1 4"), "{what}: {head}");
        assert!(!body.contains("secret"), "{what}: {body}");
    }
}

#[test]
fn a_file_that_changes_during_a_response_is_visibly_incomplete() {
    let folder = folder();
    let root = folder.root();
    // The file changes after the response is made and before it is sent.
    let app = serving(
        Router::new()
            .route(
                "/{len}/{name}",
                any(|Name((len, name)): Name<(u64, String)>, request: Request| async move {
                    let answer = hurtle::file(&root, &name, &request).await;
                    let file = File::options().write(true).open(root.join(&name)).unwrap();
                    file.set_len(len).unwrap();
                    answer
                }),
            )
            .layer(CompressionLayer::new()),
    );
    let whole = |name, len| {
        folder.put(name, &text(len));
        len
    };
    let mut client = app.connect();
    let len = whole("medium.bin", MEDIUM_BYTES);
    client.send(get("200000/medium.bin", ""));
    let (head, body) = client.answer();
    assert!(head.contains("Content-Length: 100000\n"), "{head}");
    assert!(body.into_bytes() == text(len), "grown: as long as it was");

    for (what, name, len) in [
        ("shorter", "medium.bin", MEDIUM_BYTES),
        ("shorter, in many turns", "large.txt", LARGE_BYTES),
    ] {
        whole(name, len);
        let mut client = app.connect();
        client.send(get(&format!("50000/{name}"), ""));
        client.head();
        client.expect_early_end(len, what);
    }
    whole("large.txt", LARGE_BYTES);
    let (head, _) = app.ask(&get("50000/large.txt", "Accept-Encoding: gzip\r\n"));
    assert!(head.starts_with("HTTP/1.1 500"), "known before the first byte is out: {head}");
}

#[test]
fn a_request_of_another_server_is_answered_500() {
    let request = http::Request::new(());
    let runtime = tokio::runtime::Builder::new_current_thread().build().unwrap();
    let response = runtime.block_on(hurtle::file("/", "etc/passwd", &request));
    assert_eq!(response.status(), StatusCode::INTERNAL_SERVER_ERROR);
}

/// Regression: they were sent, though names may come from the client.
#[test]
fn hidden_files_and_unfinished_uploads_are_not_sent() {
    let (folder, polls) = (folder(), Polls::default());
    for name in [".env", ".well-known/a.txt", ".git/config", ".hurtle-upload-x"] {
        fs::create_dir_all(folder.root().join(name).parent().unwrap()).unwrap();
        folder.put(name, b"secret");
    }
    let app = serving(files(&folder.root(), &polls));
    for (name, status) in [
        (".env", "404"),
        (".git%2Fconfig", "404"),
        (".hurtle-upload-x", "404"),
        (".well-known%2Fa.txt", "200"),
    ] {
        let (head, _) = app.ask(&get(name, ""));
        assert!(head.starts_with(&format!("HTTP/1.1 {status}")), "{name}: {head}");
    }
}
