//! Tests of requests with bodies: applications, uploads, upstreams.

use std::convert::Infallible;
use std::io::{Read, Write};
use std::net::{SocketAddr, TcpListener};
use std::path::Path;
use std::thread;

use bytes::Bytes;
use http::{HeaderMap, Request, Response};
use hurtle::config::{Auth, Config, Listen, Uploads, check};
use hurtle::{RequestBody, Running};

use crate::peer::{answer, ask, body, request, send, talk};
use crate::support::Server;
use crate::support::client::PATIENCE;
use crate::support::site::files;

/// A running server, stopped when dropped.
pub(crate) struct RunningServer {
    running: Option<Running>,
    pub(crate) address: SocketAddr,
    /// The address of TLS and HTTP/3, if a site has a certificate.
    pub(crate) secure: Option<SocketAddr>,
}

impl RunningServer {
    pub(crate) fn start(
        mut config: Config,
        mount: impl FnOnce(hurtle::Server) -> hurtle::Server,
    ) -> RunningServer {
        config.listen = vec![Listen::Tcp(SocketAddr::from(([127, 0, 0, 1], 0)))];
        if config.sites.iter().any(|site| site.tls.is_some()) {
            config.listen_tls.clone_from(&config.listen);
        }
        config.workers = std::num::NonZeroUsize::MIN;
        let server = mount(hurtle::Server::bind(config).unwrap());
        let Listen::Tcp(address) = server.addresses()[0] else { panic!("not a TCP address") };
        let secure = server.tls_addresses().iter().find_map(|listen| match listen {
            Listen::Tcp(address) => Some(*address),
            Listen::Unix(_) => None,
        });
        RunningServer { running: Some(server.start().unwrap()), address, secure }
    }

    /// Responds with the request's body, and with fields that describe its head.
    fn echo() -> RunningServer {
        let echo = tower::service_fn(|request: Request<RequestBody>| async {
            let (head, body) = request.into_parts();
            let seen = format!("{:?} {}", head.version, head.headers.len());
            let mut response = Response::new(body);
            response.headers_mut().insert("seen", seen.parse().unwrap());
            Ok::<_, Infallible>(response)
        });
        RunningServer::start(Config::new(vec![]), |server| server.mount("*", "/", echo).unwrap())
    }

    pub(crate) fn proxy(upstream: SocketAddr) -> RunningServer {
        RunningServer::proxy_with(upstream, "")
    }

    /// Like `proxy`, with additional keys of the site.
    pub(crate) fn proxy_with(upstream: SocketAddr, keys: &str) -> RunningServer {
        let text = format!("[[site]]\n{keys}\n[[site.mount]]\nproxy = \"http://{upstream}\"\n");
        let config = check(&text, Path::new("/nowhere/hurtle.toml")).unwrap();
        RunningServer::start(config, |server| server)
    }
}

impl Drop for RunningServer {
    fn drop(&mut self) {
        let Some(running) = self.running.take() else { return };
        running.stop().end();
        let ended = running.join();
        if !thread::panicking() {
            ended.unwrap();
        }
    }
}

#[test]
fn an_application_streams_both_ways_with_trailers() {
    let app = RunningServer::echo();
    talk(app.address, async |client| {
        let mut ready = client.ready().await.unwrap();
        let (response, mut stream) = ready.send_request(request("POST", "/"), false).unwrap();
        stream.send_data(Bytes::from_static(b"one"), false).unwrap();
        let (head, mut frames) = response.await.unwrap().into_parts();
        // Host is present; framing fields of other protocols are not.
        assert_eq!(head.headers["seen"], "HTTP/2.0 1");
        assert!(!head.headers.contains_key("transfer-encoding"));
        assert_eq!(frames.data().await.unwrap().unwrap(), "one", "before the request is whole");
        stream.send_data(Bytes::from_static(b"two"), false).unwrap();
        let mut trailers = HeaderMap::new();
        trailers.insert("x-sum", "6".parse().unwrap());
        stream.send_trailers(trailers).unwrap();
        let (rest, trailers) = body(&mut frames).await.unwrap();
        assert_eq!(rest, b"two");
        assert!(trailers.is_empty(), "it did not say that it takes trailers");
    });
}

#[test]
fn trailers_reach_clients_that_accept_them() {
    let app = RunningServer::echo();
    talk(app.address, async |client| {
        let mut ready = client.ready().await.unwrap();
        let asked = request("POST", "/\nte: trailers");
        let (response, mut stream) = ready.send_request(asked, false).unwrap();
        stream.send_data(Bytes::from_static(b"one"), false).unwrap();
        let mut trailers = HeaderMap::new();
        trailers.insert("grpc-status", "0".parse().unwrap());
        stream.send_trailers(trailers.clone()).unwrap();
        let mut frames = response.await.unwrap().into_body();
        assert_eq!(body(&mut frames).await.unwrap(), (b"one".to_vec(), trailers));
    });
}

#[test]
fn large_bodies_pass_every_window_both_ways() {
    let app = RunningServer::echo();
    let sent: Vec<u8> = (0..3_000_000_u32).map(|i| (i * 31 % 251) as u8).collect();
    let expected = sent.clone();
    talk(app.address, async |client| {
        for target in ["/".to_owned(), format!("/\ncontent-length: {}", sent.len())] {
            let mut ready = client.clone().ready().await.unwrap();
            let (response, mut stream) =
                ready.send_request(request("POST", &target), false).unwrap();
            // The library queues data beyond the windows until they open.
            stream.send_data(sent.clone().into(), true).unwrap();
            let mut frames = response.await.unwrap().into_body();
            let (echoed, _) = body(&mut frames).await.unwrap();
            assert!(echoed == expected, "{} bytes came back of {target}", echoed.len());
        }
    });
}

#[test]
fn uploads_arrive_whole() {
    let server = Server::with(&[], |config| {
        config.sites[0].auth = Some(Auth::None);
        files(config).uploads = Some(Uploads { free_bytes: 0, ..Uploads::default() });
    });
    let contents = vec![7; 700_000];
    talk(server.address, async |mut client| {
        let put = send(&mut client, request("PUT", "/new.bin"), contents.clone()).await;
        assert_eq!(put.status, 201, "{put:?}");
        let get = answer(ask(&mut client, "GET", "/new.bin").await).await;
        assert!(get.body == contents);
        let refused = request("PUT", "/new.bin\nif-none-match: *");
        assert_eq!(send(&mut client, refused, "other").await.status, 412);
        assert_eq!(answer(ask(&mut client, "DELETE", "/new.bin").await).await.status, 204);
    });
}

#[test]
fn an_interrupted_upload_leaves_no_file() {
    let server = Server::with(&[], |config| {
        config.sites[0].auth = Some(Auth::None);
        files(config).uploads = Some(Uploads { free_bytes: 0, ..Uploads::default() });
    });
    talk(server.address, async |mut client| {
        let mut ready = client.clone().ready().await.unwrap();
        let (response, mut stream) = ready.send_request(request("PUT", "/half"), false).unwrap();
        stream.send_data(Bytes::from_static(b"half"), false).unwrap();
        stream.send_reset(h2::Reason::CANCEL);
        assert!(response.await.is_err());
        assert_eq!(answer(ask(&mut client, "GET", "/half").await).await.status, 404);
    });
}

#[test]
fn an_interrupted_upload_is_resumed() {
    let server = Server::with(&[], |config| {
        config.sites[0].auth = Some(Auth::None);
        files(config).uploads = Some(Uploads { free_bytes: 0, ..Uploads::default() });
    });
    talk(server.address, async |mut client| {
        let begun = "/a.bin\nupload-draft-interop-version: 8\nupload-complete: ?0";
        let created = send(&mut client, request("PUT", begun), "one, ").await;
        assert_eq!(created.status, 201, "{created:?}");
        let path = created.field("location").unwrap().to_owned();
        let state = answer(ask(&mut client, "HEAD", &path).await).await;
        assert_eq!(state.field("upload-offset"), Some("5"));
        let part = format!(
            "{path}\nupload-offset: 5\nupload-complete: ?1\n\
             content-type: application/partial-upload"
        );
        let done = send(&mut client, request("PATCH", &part), "two").await;
        assert!((200..300).contains(&done.status), "{done:?}");
        assert_eq!(answer(ask(&mut client, "GET", "/a.bin").await).await.body, b"one, two");
    });
}

/// Starts an upstream that reads one request up to `wanted` and sends `answer`. The thread returns
/// the request.
pub(crate) fn upstream(
    answer: &'static str,
    wanted: &'static str,
) -> (SocketAddr, thread::JoinHandle<String>) {
    let listener = TcpListener::bind("127.0.0.1:0").unwrap();
    let address = listener.local_addr().unwrap();
    let serving = thread::spawn(move || {
        let mut peer = listener.accept().unwrap().0;
        peer.set_read_timeout(Some(PATIENCE)).unwrap();
        let mut came = Vec::new();
        while !String::from_utf8_lossy(&came).ends_with(wanted) {
            let mut piece = [0; 4096];
            let n = peer.read(&mut piece).unwrap();
            assert_ne!(n, 0, "{}", String::from_utf8_lossy(&came));
            came.extend_from_slice(&piece[..n]);
        }
        peer.write_all(answer.as_bytes()).unwrap();
        String::from_utf8(came).unwrap()
    });
    (address, serving)
}

#[test]
fn upstream_requests_use_the_upstreams_version() {
    let reply = "HTTP/1.1 200 OK\r\nTransfer-Encoding: chunked\r\nKeep-Alive: timeout=5\r\n\r\n\
                 3\r\nabc\r\n4\r\ndefg\r\n0\r\n\r\n";
    let (address, serving) = upstream(reply, "\r\n0\r\n\r\n");
    let proxy = RunningServer::proxy(address);
    let answer = talk(proxy.address, async |mut client| {
        let asked = request("POST", "/x?q\ncookie: a=1\ncookie: b=2");
        send(&mut client, asked, "hello").await
    });
    assert_eq!((answer.status, &answer.body[..]), (200, &b"abcdefg"[..]));
    assert_eq!(answer.field("keep-alive"), None);
    let came = serving.join().unwrap();
    assert!(came.starts_with("POST /x?q HTTP/1.1\r\nHost: test.example\r\n"), "{came}");
    for line in ["cookie: a=1; b=2", "Transfer-Encoding: chunked", "Via: 2.0 hurtle"] {
        assert!(came.contains(&format!("\r\n{line}\r\n")), "{line}: {came}");
    }
    assert!(came.ends_with("\r\n\r\n5\r\nhello\r\n0\r\n\r\n"), "{came}");
}

#[test]
fn an_aborted_response_is_reset() {
    let (address, serving) =
        upstream("HTTP/1.1 200 OK\r\nContent-Length: 9\r\n\r\nhalf", "\r\n\r\n");
    let proxy = RunningServer::proxy(address);
    talk(proxy.address, async |mut client| {
        // Data queued when a stream is reset need not arrive.
        let error = match ask(&mut client, "GET", "/").await.await {
            Ok(response) => body(&mut response.into_body()).await.unwrap_err(),
            Err(error) => error,
        };
        assert_eq!(error.reason(), Some(h2::Reason::INTERNAL_ERROR), "{error}");
    });
    serving.join().unwrap();
}

#[test]
fn interim_answers_arrive_before_the_last() {
    let reply = "HTTP/1.1 103 Early Hints\r\nLink: </a.css>\r\n\r\nHTTP/1.1 204 No Content\r\n\r\n";
    let (address, serving) = upstream(reply, "\r\n\r\n");
    let proxy = RunningServer::proxy(address);
    talk(proxy.address, async |mut client| {
        let mut response = ask(&mut client, "GET", "/").await;
        let interim = std::future::poll_fn(|cx| response.poll_informational(cx)).await;
        let interim = interim.unwrap().unwrap();
        assert_eq!(
            (interim.status().as_u16(), &interim.headers()["link"]),
            (103, &"</a.css>".parse().unwrap())
        );
        assert_eq!(answer(response).await.status, 204);
    });
    serving.join().unwrap();
}

#[test]
fn an_unread_body_does_not_delay_its_response() {
    let server = Server::start(&[("a.txt", "a")]);
    let status = talk(server.address, async |mut client| {
        send(&mut client, request("POST", "/a.txt"), "nobody reads this").await.status
    });
    assert_eq!(status, 405);
}

/// Regression: the refusal came only after the body, or 408 in place of it.
#[test]
fn a_refusal_does_not_wait_for_the_body() {
    let server = Server::start(&[("a.txt", "a")]);
    talk(server.address, async |mut client| {
        let mut ready = client.clone().ready().await.unwrap();
        let (response, stream) = ready.send_request(request("POST", "/a.txt"), false).unwrap();
        assert_eq!(answer(response).await.status, 405);
        drop(stream);
        let next = ask(&mut client, "GET", "/a.txt").await;
        assert_eq!(answer(next).await.body, b"a", "the connection stays");
    });
}

#[test]
fn a_stop_sends_goaway_and_finishes_open_requests() {
    let mut app = RunningServer::echo();
    talk(app.address, async |client| {
        let mut ready = client.clone().ready().await.unwrap();
        let (response, mut stream) = ready.send_request(request("POST", "/"), false).unwrap();
        stream.send_data(Bytes::from_static(b"one"), false).unwrap();
        let mut frames = response.await.unwrap().into_body();
        assert_eq!(frames.data().await.unwrap().unwrap(), "one");
        app.running.as_ref().unwrap().stop().drain();
        while client.clone().ready().await.is_ok() {
            tokio::task::yield_now().await;
        }
        stream.send_data(Bytes::from_static(b"two"), true).unwrap();
        assert_eq!(body(&mut frames).await.unwrap().0, b"two");
    });
    app.running.take().unwrap().join().unwrap();
}
