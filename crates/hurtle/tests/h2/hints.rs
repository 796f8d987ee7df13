//! Tests of early hints (103) over HTTP/2.

use std::convert::Infallible;
use std::io::{Read, Write};
use std::net::TcpListener;
use std::thread;

use http::{HeaderMap, Request, Response};
use hurtle::RequestBody;
use hurtle::config::{Config, EarlyHints, Site};

use crate::bodies::{RunningServer, upstream};
use crate::peer::{answer, ask, talk};
use crate::support::Client;
use crate::support::client::PATIENCE;

#[test]
fn links_of_a_rule_arrive_before_the_upstream_answers() {
    let rules = "[[site.header]]\nmatch = \"/page\"\n\
                 set = { Link = \"</a.css>; rel=preload; as=style\", X-Other = \"1\" }\n\
                 [[site.header]]\nmatch = \"/next\"\nset = { Link = \"</2>; rel=next\" }\n";
    let listener = TcpListener::bind("127.0.0.1:0").unwrap();
    let proxy = RunningServer::proxy_with(listener.local_addr().unwrap(), rules);
    let (told, wait) = std::sync::mpsc::channel::<()>();
    let serving = thread::spawn(move || {
        // Only the first response waits.
        for n in 0..3 {
            let mut peer = listener.accept().unwrap().0;
            assert_ne!(peer.read(&mut [0; 4096]).unwrap(), 0);
            if n == 0 {
                wait.recv_timeout(PATIENCE).unwrap();
            }
            let answer = b"HTTP/1.1 200 OK\r\nContent-Length: 0\r\nConnection: close\r\n\r\n";
            peer.write_all(answer).unwrap();
        }
    });
    talk(proxy.address, async |mut client| {
        let mut response = ask(&mut client, "GET", "/page").await;
        let hint = std::future::poll_fn(|cx| response.poll_informational(cx)).await;
        let hint = hint.unwrap().unwrap();
        assert_eq!((hint.status().as_u16(), hint.headers().len()), (103, 1));
        assert_eq!(hint.headers()["link"], "</a.css>; rel=preload; as=style");
        told.send(()).unwrap();
        let page = answer(response).await;
        assert_eq!(page.field("link"), Some("</a.css>; rel=preload; as=style"));
        assert_eq!((page.status, page.field("x-other")), (200, Some("1")));
        // Fields that are useless as early hints are not sent.
        let mut response = ask(&mut client, "GET", "/next").await;
        let none = std::future::poll_fn(|cx| response.poll_informational(cx)).await;
        assert!(none.is_none(), "{none:?}");
    });
    // Over HTTP/1.1 there is no 103.
    let page = Client::connect(proxy.address).request("GET", "/page");
    assert_eq!((page.status, page.field("Link").is_some()), (200, true));
    serving.join().unwrap();
}

#[test]
fn hints_of_an_upstream_come_before_its_answer_with_a_cache_and_without() {
    for keys in ["", "cache = {}\n"] {
        let listener = TcpListener::bind("127.0.0.1:0").unwrap();
        let address = listener.local_addr().unwrap();
        let mount =
            format!("[[site.mount]]\npath = \"/page\"\nproxy = \"http://{address}\"\n{keys}");
        let proxy = RunningServer::proxy_with(address, &mount);
        let serving = thread::spawn(move || {
            let mut peer = listener.accept().unwrap().0;
            assert_ne!(peer.read(&mut [0; 4096]).unwrap(), 0);
            let answer = b"HTTP/1.1 103 Early Hints\r\nLink: </a.css>; rel=preload\r\n\r\n\
                           HTTP/1.1 200 OK\r\nCache-Control: max-age=60\r\n\
                           Content-Length: 0\r\nConnection: close\r\n\r\n";
            peer.write_all(answer).unwrap();
        });
        talk(proxy.address, async |mut client| {
            let mut response = ask(&mut client, "GET", "/page").await;
            let hint = std::future::poll_fn(|cx| response.poll_informational(cx)).await;
            let hint = hint.expect(keys).unwrap();
            assert_eq!(hint.status().as_u16(), 103, "{keys}");
            assert_eq!(hint.headers()["link"], "</a.css>; rel=preload", "{keys}");
            assert_eq!(answer(response).await.status, 200, "{keys}");
        });
        serving.join().unwrap();
    }
}

#[test]
fn an_application_sends_early_hints() {
    let go_on = std::sync::Arc::new(tokio::sync::Notify::new());
    let waits = std::sync::Arc::clone(&go_on);
    let slow = tower::service_fn(move |request: Request<RequestBody>| {
        let waits = std::sync::Arc::clone(&waits);
        async move {
            if let Some(hints) = request.extensions().get::<hurtle::EarlyHints>() {
                for link in ["</a.css>; rel=preload", "</b.css>; rel=preload"] {
                    hints.send(HeaderMap::from_iter([(
                        "link".parse().unwrap(),
                        link.parse().unwrap(),
                    )]));
                    waits.notified().await;
                }
            }
            Ok::<_, Infallible>(Response::new("done".to_owned()))
        }
    });
    for isolated in [false, true] {
        let app = RunningServer::start(Config::new(vec![]), |server| match isolated {
            false => server.mount("*", "/", slow.clone()).unwrap(),
            true => server.mount_isolated("*", "/", slow.clone()).unwrap(),
        });
        talk(app.address, async |mut client| {
            let mut response = ask(&mut client, "GET", "/").await;
            for expected in ["</a.css>; rel=preload", "</b.css>; rel=preload"] {
                let hint = std::future::poll_fn(|cx| response.poll_informational(cx)).await;
                let hint = hint.unwrap().unwrap();
                assert_eq!((hint.status().as_u16(), hint.headers().len()), (103, 1));
                assert_eq!(hint.headers()["link"], expected);
                go_on.notify_one();
            }
            let answer = answer(response).await;
            assert_eq!((&answer.body[..], answer.field("link")), (&b"done"[..], None));
        });
        let in_http1 = Client::connect(app.address).request("GET", "/");
        assert_eq!(in_http1.text(), "done");
    }
}

#[test]
fn the_site_selects_the_clients_of_early_hints() {
    let says = tower::service_fn(|request: Request<RequestBody>| async move {
        let told = request.extensions().get::<hurtle::EarlyHints>().is_some();
        Ok::<_, Infallible>(Response::new(told.to_string()))
    });
    let table = [
        (EarlyHints::Http2, "true", "false"),
        (EarlyHints::Always, "true", "true"),
        (EarlyHints::Off, "false", "false"),
    ];
    for (early_hints, over_http2, over_http1) in table {
        let site = Site { default: true, early_hints, ..Site::new() };
        let app = RunningServer::start(Config::new(vec![site]), |server| {
            server.mount("*", "/", says).unwrap()
        });
        for method in ["GET", "POST"] {
            talk(app.address, async |mut client| {
                let answer = answer(ask(&mut client, method, "/").await).await;
                assert_eq!(answer.text(), over_http2, "{early_hints:?} {method}");
            });
            let answer = Client::connect(app.address).request(method, "/");
            assert_eq!(answer.text(), over_http1, "{early_hints:?} {method}");
        }
    }
}

#[test]
fn upstream_hints_are_dropped_when_early_hints_are_off() {
    let reply = "HTTP/1.1 103 Early Hints\r\nLink: </b.css>\r\n\r\nHTTP/1.1 204 No Content\r\n\r\n";
    let (address, serving) = upstream(reply, "\r\n\r\n");
    let keys = "early_hints = \"off\"\n\
                [[site.header]]\nset = { Link = \"</a.css>; rel=preload; as=style\" }\n";
    let proxy = RunningServer::proxy_with(address, keys);
    talk(proxy.address, async |mut client| {
        let mut response = ask(&mut client, "GET", "/").await;
        let none = std::future::poll_fn(|cx| response.poll_informational(cx)).await;
        assert!(none.is_none(), "{none:?}");
        let answer = answer(response).await;
        assert_eq!((answer.status, answer.field("link").is_some()), (204, true));
    });
    serving.join().unwrap();
}
