//! Tests of early hints (103) from applications over HTTP/1.1, where they are configured.

use std::sync::Arc;

use http::{HeaderMap, HeaderValue, Request, Response, header};
use hurtle::RequestBody;
use hurtle::config::{EarlyHints, Site};
use tokio::sync::Notify;

use crate::support::App;

#[test]
fn a_hint_is_sent_before_the_response() {
    let go_on = Arc::new(Notify::new());
    let waits = Arc::clone(&go_on);
    let app = App::with(
        |config| {
            let early_hints = EarlyHints::Always;
            config.sites.push(Site { default: true, early_hints, ..Site::new() });
        },
        move |request: Request<RequestBody>| {
            let waits = Arc::clone(&waits);
            async move {
                if let Some(hints) = request.extensions().get::<hurtle::EarlyHints>() {
                    for link in ["</a.css>; rel=preload", "</b.js>; rel=preload"] {
                        let link = HeaderValue::from_static(link);
                        hints.send(HeaderMap::from_iter([(header::LINK, link)]));
                    }
                    waits.notified().await;
                }
                Response::new("done".to_owned())
            }
        },
    );
    let mut client = app.connect();
    let posted = "POST / HTTP/1.1\r\nHost: a\r\nContent-Length: 1\r\n\r\nx";
    for request in ["GET / HTTP/1.1\r\nHost: a\r\n\r\n", posted] {
        client.send(request);
        let hints = "HTTP/1.1 103 Early Hints\nLink: </a.css>; rel=preload\n\
                     Link: </b.js>; rel=preload\n";
        assert_eq!(client.head(), hints);
        go_on.notify_one();
        let (head, body) = client.answer();
        assert!(head.starts_with("HTTP/1.1 200 OK\n"), "{head}");
        assert!(!head.to_lowercase().contains("link"), "it is no part of the answer: {head}");
        assert_eq!(body, "done", "and the connection goes on");
    }
    let (head, _) = app.ask("GET / HTTP/1.0\r\n\r\n");
    assert!(head.starts_with("HTTP/1.1 200 OK\n"), "HTTP/1.0 does not know them: {head}");
}
