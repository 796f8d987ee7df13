//! A server with every kind of handler, and the upstream of its proxies.

use std::convert::Infallible;
use std::fs::File;
use std::io::{BufRead, BufReader, Read, Write};
use std::net::{SocketAddr, TcpListener, TcpStream};
use std::path::Path;
use std::pin::Pin;
use std::task::{Context, Poll};
use std::thread;
use std::time::{Duration, SystemTime};

use bytes::Bytes;
use http::{HeaderMap, Request, Response};
use http_body::{Body, Frame};
use hurtle::RequestBody;
use hurtle::config::{CertificateFiles, check};

use crate::authority::Authority;
use crate::bodies::RunningServer;
use crate::h3_peer::NAME;
use crate::support::Dir;

/// Length of a body that is larger than the windows and buffers on its way.
const LARGE: usize = 300_000;

/// Largest request body that the server accepts.
pub(crate) const BODY_BYTES_MAX: usize = 10_000;

/// A server with every kind of handler, and its directory.
pub(crate) struct Handlers {
    held: RunningServer,
    pub(crate) authority: Authority,
    _dir: Dir,
}

impl Handlers {
    pub(crate) fn start(upstream: SocketAddr) -> Handlers {
        Handlers::start_with(upstream, "")
    }

    /// `more` is added to the site.
    pub(crate) fn start_with(upstream: SocketAddr, more: &str) -> Handlers {
        let large = "0123456789".repeat(LARGE / 10);
        let dir = Dir::new(&[
            ("a.txt", "0123456789"),
            ("large", &large),
            ("empty", ""),
            ("packed.txt", "packed"),
            ("packed.txt.gz", "gzip"),
            ("dir/index.html", "d"),
            ("list/one.txt", "1"),
            ("list/two.txt", "22"),
            ("list/sub/", ""),
            ("missing.html", "no such page\n"),
            ("../drop/old.txt", "old"),
            ("../private/b.txt", "internal"),
        ]);
        for name in ["list/sub", "list"] {
            let time = SystemTime::UNIX_EPOCH + Duration::from_secs(1_700_000_000);
            File::open(dir.path(name)).unwrap().set_modified(time).unwrap();
        }
        let authority = Authority::new("the test's authority");
        let CertificateFiles { chain, key } = authority.issue(NAME).write(&dir, "a");
        let (chain, key) = (chain.display(), key.display());
        let base = dir.path("..");
        let base = base.display();
        let text = format!(
            r#"
listen_tls = "127.0.0.1:0"
[limits]
body_bytes = {BODY_BYTES_MAX}
[[site]]
early_hints = "always"
errors = {{ 404 = "/missing.html" }}
hosts = "{NAME}"
default = true
tls = {{ certificate = "{chain}", key = "{key}", redirect = false }}
[[site.header]]
match = "/**"
set = {{ X-Rule = "1" }}
[[site.rule]]
match = "/moved/*"
redirect = "/a.txt"
[[site.mount]]
files = "{base}/root"
listing = true
[[site.mount]]
path = "/drop"
files = "{base}/drop"
auth = "none"
[site.mount.uploads]
free_bytes = 0
[[site.mount]]
path = "/fixed"
respond = "fixed\n"
[[site.mount]]
path = "/teapot"
respond = "short\n"
status = 418
[[site.mount]]
path = "/closed"
respond = "closed\n"
deny = "127.0.0.1"
[[site.mount]]
path = "/elsewhere"
redirect = "https://example.org/"
[[site.mount]]
path = "/proxy"
proxy = "http://{upstream}"
internal = "{base}/private"
[[site.mount]]
path = "/cached"
proxy = "http://{upstream}"
cache = {{}}
{more}"#
        );
        let config = check(&text, Path::new("/nowhere/hurtle.toml")).expect(&text);
        let held = RunningServer::start(config, |server| {
            let server = server.mount("*", "/hello", tower::service_fn(hello)).unwrap();
            let server = server.mount("*", "/echo", tower::service_fn(echo)).unwrap();
            let server = server.mount("*", "/pieces", tower::service_fn(pieces)).unwrap();
            let server = server.mount("*", "/sized", tower::service_fn(sized)).unwrap();
            server.mount("*", "/hints", tower::service_fn(hints)).unwrap()
        });
        Handlers { held, authority, _dir: dir }
    }

    pub(crate) fn address(&self) -> SocketAddr {
        self.held.address
    }

    /// The address of HTTP/3.
    pub(crate) fn secure(&self) -> SocketAddr {
        self.held.secure.unwrap()
    }
}

async fn hello(_: Request<RequestBody>) -> Result<Response<String>, Infallible> {
    let response = Response::builder().header("content-type", "text/plain");
    Ok(response
        .header("set-cookie", "a=1")
        .header("set-cookie", "b=2")
        .body("hello".into())
        .unwrap())
}

async fn echo(request: Request<RequestBody>) -> Result<Response<RequestBody>, Infallible> {
    Ok(Response::new(request.into_body()))
}

/// A body of unknown length, with trailers.
struct Pieces(u8);

impl Body for Pieces {
    type Data = Bytes;
    type Error = Infallible;

    fn poll_frame(
        mut self: Pin<&mut Self>,
        _: &mut Context<'_>,
    ) -> Poll<Option<Result<Frame<Bytes>, Infallible>>> {
        self.0 += 1;
        Poll::Ready(match self.0 {
            1 => Some(Ok(Frame::data(Bytes::from_static(b"one, ")))),
            2 => Some(Ok(Frame::data(Bytes::from_static(b"two")))),
            3 => {
                let trailer = ("x-sum".parse().unwrap(), "2".parse().unwrap());
                Some(Ok(Frame::trailers(HeaderMap::from_iter([trailer]))))
            }
            _ => None,
        })
    }
}

async fn pieces(_: Request<RequestBody>) -> Result<Response<Pieces>, Infallible> {
    Ok(Response::new(Pieces(0)))
}

/// The length is stated, and the trailers are announced.
async fn sized(_: Request<RequestBody>) -> Result<Response<Pieces>, Infallible> {
    let response = Response::builder().header("content-length", "8").header("trailer", "x-sum");
    Ok(response.body(Pieces(0)).unwrap())
}

async fn hints(request: Request<RequestBody>) -> Result<Response<String>, Infallible> {
    let hints = request.extensions().get::<hurtle::EarlyHints>().unwrap();
    let link = ("link".parse().unwrap(), "</a.css>; rel=preload".parse().unwrap());
    hints.send(HeaderMap::from_iter([link]));
    tokio::task::yield_now().await;
    Ok(Response::new("hinted".into()))
}

/// Starts an upstream that answers by the last segment of the path, until the test ends.
pub(crate) fn upstream() -> SocketAddr {
    let listener = TcpListener::bind("127.0.0.1:0").unwrap();
    let address = listener.local_addr().unwrap();
    thread::spawn(move || {
        for peer in listener.incoming() {
            thread::spawn(move || serve(peer.unwrap()));
        }
    });
    address
}

/// Answers the requests of one connection.
fn serve(peer: TcpStream) {
    let mut peer = BufReader::new(peer);
    loop {
        let (mut head, mut length) = (String::new(), 0);
        while !head.ends_with("\r\n\r\n") {
            let mut line = String::new();
            if !matches!(peer.read_line(&mut line), Ok(1..)) {
                return;
            }
            line.make_ascii_lowercase();
            if let Some(value) = line.strip_prefix("content-length: ") {
                length = value.trim().parse().unwrap();
            }
            head.push_str(&line);
        }
        peer.read_exact(&mut vec![0; length]).unwrap();
        let mut words = head.split(' ');
        let (method, path) = (words.next().unwrap(), words.next().unwrap());
        let (answer, is_last) = canned(method, path.rsplit('/').next().unwrap());
        if peer.get_mut().write_all(answer.as_bytes()).is_err() || is_last {
            return;
        }
    }
}

/// The upstream's response, and whether the connection ends after it.
fn canned(method: &str, name: &str) -> (String, bool) {
    let sized = |fields: &str, body: &str| {
        let head = format!("HTTP/1.1 200 OK\r\n{fields}Content-Length: {}\r\n\r\n", body.len());
        if method == "head" { head } else { head + body }
    };
    let answer = match name {
        "small" => {
            sized("Content-Type: text/plain\r\nETag: \"1\"\r\nX-Two: a\r\nX-Two: b\r\n", "small")
        }
        "large" => sized("", &"x".repeat(LARGE)),
        "fresh" => sized("Cache-Control: max-age=60\r\nETag: \"1\"\r\n", "fresh"),
        "accel" => sized("X-Accel-Redirect: /b.txt\r\nX-Other: 1\r\n", "body"),
        "chunked" => {
            "HTTP/1.1 200 OK\r\nTransfer-Encoding: chunked\r\nKeep-Alive: timeout=5\r\n\r\n\
                      3\r\nabc\r\n4\r\ndefg\r\n0\r\nX-Sum: 2\r\n\r\n"
                .to_owned()
        }
        "ends" => "HTTP/1.1 200 OK\r\nConnection: close\r\n\r\nup to the end".to_owned(),
        "empty" => "HTTP/1.1 204 No Content\r\nX-Other: 1\r\n\r\n".to_owned(),
        "same" => "HTTP/1.1 304 Not Modified\r\nETag: \"1\"\r\n\r\n".to_owned(),
        "hinted" => {
            "HTTP/1.1 103 Early Hints\r\nLink: </a.css>; rel=preload\r\n\r\n".to_owned()
                + &sized("", "hinted")
        }
        "error" => "HTTP/1.1 500 Oops\r\nContent-Length: 4\r\n\r\noops".to_owned(),
        "broken" => "nonsense\r\n\r\n".to_owned(),
        _ => "HTTP/1.1 404 Not Found\r\nContent-Length: 4\r\n\r\ngone".to_owned(),
    };
    (answer, matches!(name, "ends" | "broken"))
}
