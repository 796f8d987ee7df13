//! Tests that every handler gives the same response over HTTP/1.1, HTTP/2 and HTTP/3.

use bytes::Bytes;

use crate::handlers::{BODY_BYTES_MAX, Handlers, upstream};
use crate::support::{Client, Response};
use crate::{h3_peer, peer};

/// One request: a description, method, target and field lines, body, and the expected status.
struct Row(&'static str, &'static str, String, String, u16);

/// A response with its interim responses (103) before it.
type Exchange = (Vec<Response>, Response);

/// The response without the fields that depend on the protocol or the time.
fn comparable(mut response: Response, target: &str) -> Response {
    let moment = ["date", "age", "alt-svc", "connection", "transfer-encoding"];
    // An uploaded file's dates are those of its request.
    let upload = ["etag", "last-modified"];
    for (name, _) in &mut response.fields {
        name.make_ascii_lowercase();
    }
    response.fields.retain(|(name, _)| {
        let is_upload = target.starts_with("/drop") && upload.contains(&name.as_str());
        !is_upload && !moment.contains(&name.as_str())
    });
    // Each server has its own boundary (RFC 9110 section 14.6).
    let of = |value: &str| value.split_once("boundary=").map(|(_, boundary)| boundary.to_owned());
    if let Some(boundary) = response.fields.iter().find_map(|(_, value)| of(value)) {
        response.fields.retain(|(_, value)| of(value).is_none());
        response.body = response.text().replace(&boundary, "boundary").into();
    }
    response.fields.sort();
    response
}

fn over_http1(server: &Handlers, Row(_, method, target, body, _): &Row) -> Exchange {
    let address = server.address();
    let (path, fields) = target.split_once('\n').unwrap_or((target, ""));
    let mut request = format!("{method} {path} HTTP/1.1\r\nHost: test.example\r\n");
    for line in fields.lines() {
        request.push_str(&format!("{line}\r\n"));
    }
    let mut client = Client::connect(address);
    client.send(format!("{request}\r\n{body}"));
    let mut interim = Vec::new();
    loop {
        let answer = comparable(client.answer(method), target);
        if answer.status >= 200 {
            return (interim, answer);
        }
        interim.push(answer);
    }
}

fn over_http2(server: &Handlers, Row(_, method, target, body, _): &Row) -> Exchange {
    peer::talk(server.address(), async |client| {
        let mut ready = client.ready().await.unwrap();
        let request = peer::request(method, target);
        let (mut response, mut stream) = ready.send_request(request, body.is_empty()).unwrap();
        if !body.is_empty() {
            stream.send_data(Bytes::from(body.clone()), true).unwrap();
        }
        let mut interim = Vec::new();
        while let Some(hint) = std::future::poll_fn(|cx| response.poll_informational(cx)).await {
            let hint = hint.unwrap();
            let text = |value: &http::HeaderValue| value.to_str().unwrap().to_owned();
            let fields = hint.headers().iter().map(|(name, value)| (name.to_string(), text(value)));
            let status = hint.status().as_u16();
            let hint = Response { status, fields: fields.collect(), body: vec![] };
            interim.push(comparable(hint, target));
        }
        (interim, comparable(peer::answer(response).await, target))
    })
}

fn over_http3(server: &Handlers, Row(_, method, target, body, _): &Row) -> Exchange {
    h3_peer::talk(server.secure(), server.authority.roots(), async |mut client| {
        let mut exchange = h3_peer::ask(&mut client, method, target, body.clone()).await;
        let (interim, response, _) = h3_peer::answer(&mut exchange).await;
        let interim = interim.into_iter().map(|hint| comparable(hint, target)).collect();
        (interim, comparable(response, target))
    })
}

/// Sends every row over each protocol, to a server of its own, because uploads and caches
/// remember requests.
#[track_caller]
fn compare(rows: impl Fn(&Handlers) -> Vec<Row>) {
    compare_with("", rows);
}

/// Likewise, with more in the configuration of the site.
#[track_caller]
fn compare_with(more: &str, rows: impl Fn(&Handlers) -> Vec<Row>) {
    let upstream = upstream();
    let [one, two, three] = [(); 3].map(|()| Handlers::start_with(upstream, more));
    let mut wrong = Vec::new();
    for row in rows(&one) {
        let first = over_http1(&one, &row);
        let second = over_http2(&two, &row);
        let third = over_http3(&three, &row);
        let Row(why, method, target, _, status) = row;
        let row = format!("{why} ({method} {target:?})");
        if second.1.status != status {
            wrong.push(format!("{row}: {}, not {status}", second.1.status));
        }
        for (version, other) in [(2, &second), (3, &third)] {
            if first != *other {
                let (first, other) = (short(&first), short(other));
                wrong.push(format!("{row}: {first}; over HTTP/{version}: {other}"));
            }
        }
    }
    assert!(wrong.is_empty(), "{wrong:#?}");
}

/// Formats an exchange for a failed test's message.
fn short((interim, response): &Exchange) -> String {
    let body = &response.body[..response.body.len().min(60)];
    let (status, fields, len) = (response.status, &response.fields, response.body.len());
    format!("{interim:?} {status} {fields:?} {len} bytes {}", body.escape_ascii())
}

fn row(why: &'static str, method: &'static str, target: &str, status: u16) -> Row {
    Row(why, method, target.to_owned(), String::new(), status)
}

fn with_body(why: &'static str, method: &'static str, target: &str, status: u16) -> Row {
    Row(why, method, format!("{target}\ncontent-length: 5"), "hello".to_owned(), status)
}

fn with_large_body(why: &'static str, method: &'static str, target: &str, status: u16) -> Row {
    let body = "x".repeat(BODY_BYTES_MAX + 1);
    Row(why, method, format!("{target}\ncontent-length: {}", body.len()), body, status)
}

#[test]
fn files_and_fixed_responses() {
    compare(|server| {
        let whole = Client::connect(server.address()).request("GET", "/a.txt");
        let known = format!("/a.txt\nif-none-match: {}", whole.field("ETag").unwrap());
        vec![
            row("a file", "GET", "/a.txt", 200),
            row("a large file", "GET", "/large", 200),
            row("an empty file", "GET", "/empty", 200),
            row("its head", "HEAD", "/large", 200),
            row("a range", "GET", "/a.txt\nrange: bytes=2-4", 206),
            row("several ranges", "GET", "/a.txt\nrange: bytes=0-0,8-9", 206),
            row("a range of nothing", "GET", "/a.txt\nrange: bytes=99-", 416),
            row("a known file", "GET", &known, 304),
            row("a failed precondition", "GET", "/a.txt\nif-match: \"other\"", 412),
            row("the site's error page", "GET", "/none", 404),
            row("the head of an error page", "HEAD", "/none", 404),
            row("an index file", "GET", "/dir/", 200),
            row("a directory without its slash", "GET", "/dir", 301),
            row("a listing as a page", "GET", "/list/", 200),
            row("a listing as JSON", "GET", "/list/\naccept: application/json", 200),
            row("a rule that redirects", "GET", "/moved/x", 302),
            row("a redirect", "GET", "/elsewhere/x?y", 302),
            row("a fixed response", "GET", "/fixed", 200),
            row("its head", "HEAD", "/fixed", 200),
            row("a fixed status", "GET", "/teapot", 418),
            row("a path that cannot be decoded", "GET", "/%zz", 400),
            row("options", "OPTIONS", "/a.txt", 204),
            row("a method that files do not have", "DELETE", "/a.txt", 405),
            row("an unknown method", "BREW", "/a.txt", 501),
            with_body("a body that no file reads", "POST", "/a.txt", 405),
            with_body("a GET with a body", "GET", "/a.txt", 200),
            with_large_body("a GET with a body that is too large", "GET", "/a.txt", 413),
            row("a method that traces", "TRACE", "/a.txt", 405),
            row("another method of the fixed response", "POST", "/fixed", 200),
            row("another method of the redirect", "POST", "/elsewhere/x", 302),
            row("a method of the rule", "POST", "/moved/x", 302),
            row("an address that is refused", "GET", "/closed", 403),
            row("its head", "HEAD", "/closed", 403),
            row("an encoded slash", "GET", "/dir%2Findex.html", 404),
            row("a sidecar", "GET", "/packed.txt\naccept-encoding: gzip", 200),
            row("without its sidecar", "GET", "/packed.txt", 200),
        ]
    });
}

#[test]
fn uploads() {
    compare(|_| {
        vec![
            with_body("a new file", "PUT", "/drop/new.txt", 201),
            with_body("a replaced file", "PUT", "/drop/new.txt", 204),
            with_body("a failed precondition", "PUT", "/drop/new.txt\nif-none-match: *", 412),
            row("the file", "GET", "/drop/new.txt", 200),
            row("options of a mount with uploads", "OPTIONS", "/drop/new.txt", 204),
            row("a removed file", "DELETE", "/drop/new.txt", 204),
            row("a missing file", "DELETE", "/drop/new.txt", 404),
            row("a file from before", "GET", "/drop/old.txt", 200),
            with_body("a method that uploads do not have", "POST", "/drop/new.txt", 405),
        ]
    });
}

#[test]
fn applications() {
    compare(|_| {
        vec![
            row("a known length", "GET", "/hello", 200),
            row("its head", "HEAD", "/hello", 200),
            row("any method", "BREW", "/hello", 200),
            row("options are the application's", "OPTIONS", "/hello", 200),
            with_body("a body that is not read", "POST", "/hello", 200),
            with_body("a body that is sent back", "POST", "/echo", 200),
            with_large_body("the limit is for built-in handlers", "POST", "/echo", 200),
            row("no body to send back", "GET", "/echo", 200),
            row("an unknown length, with trailers", "GET", "/pieces\nte: trailers", 200),
            row("a stated length, with announced trailers", "GET", "/sized\nte: trailers", 200),
            row("a stated length, without trailers", "GET", "/sized", 200),
            row("the head of an unknown length", "HEAD", "/pieces", 200),
            row("early hints", "GET", "/hints", 200),
        ]
    });
}

#[test]
fn proxied_responses() {
    compare(|_| {
        vec![
            row("small", "GET", "/proxy/small", 200),
            row("its head", "HEAD", "/proxy/small", 200),
            row("large", "GET", "/proxy/large", 200),
            row("chunked, with trailers", "GET", "/proxy/chunked\nte: trailers", 200),
            row("up to the end of the connection", "GET", "/proxy/ends", 200),
            with_large_body("the limit is for built-in handlers", "POST", "/proxy/small", 200),
            row("a method that traces", "TRACE", "/proxy/small", 405),
            row("without a body", "GET", "/proxy/empty", 204),
            row("not modified", "GET", "/proxy/same\nif-none-match: \"1\"", 304),
            row("early hints", "GET", "/proxy/hinted", 200),
            row("a file in its place", "GET", "/proxy/accel", 200),
            row("the head of such a file", "HEAD", "/proxy/accel", 200),
            row("a range of such a file", "GET", "/proxy/accel\nrange: bytes=1-2", 206),
            row("the upstream's error", "GET", "/proxy/error", 500),
            row("the upstream's 404 has no page of the site", "GET", "/proxy/none", 404),
            row("no response", "GET", "/proxy/broken", 502),
            row("a cache without the response", "GET", "/cached/fresh", 200),
            row("a cache with it", "GET", "/cached/fresh", 200),
            row("its head", "HEAD", "/cached/fresh", 200),
            row("a range of it", "GET", "/cached/fresh\nrange: bytes=1-2", 206),
            row("a validator for it", "GET", "/cached/fresh\nif-none-match: \"1\"", 304),
            row("only from the cache", "GET", "/cached/none\ncache-control: only-if-cached", 504),
        ]
    });
}

#[test]
fn early_hints() {
    let server = Handlers::start(upstream());
    for target in ["/hints", "/proxy/hinted"] {
        let asked = row("", "GET", target, 200);
        for exchange in [over_http1, over_http2, over_http3] {
            let (interim, _) = exchange(&server, &asked);
            let [hint] = &interim[..] else { panic!("{target}: {interim:?}") };
            assert_eq!((hint.status, hint.field("link")), (103, Some("</a.css>; rel=preload")));
        }
    }
}

#[test]
fn conditions() {
    let more = r#"
[[site.mount]]
match = { method = "DELETE" }
proxy = "http://127.0.0.1:1"
[[site.mount]]
path = "/m"
respond = "met"
status = 203
header = [{ set = { X-Met = "1" } }]
match = { regex = "^/m/[0-9]+$", host = "test.example", client = "127.0.0.0/8", cookie = { b = "2" }, query = { "q r" = "*x" }, header = { X-Flag = true, X-Not = false } }
[[site.mount]]
path = "/m/one"
exact = true
respond = "one"
status = 202
[[site.mount]]
match = { path = "/peer", peer = ["127.0.0.0/8", "::1"] }
respond = "here"
status = 203
[[site.mount]]
match = { path = "/far", peer = "192.0.2.0/24" }
respond = "far"
status = 203
[[site.mount]]
match = { path = "/outside", not = { peer = ["192.0.2.0/24", "2400:cb00::/32"] } }
respond = ""
status = 403
[[site.rule]]
match = { path = "/r/*", header = { X-Flag = "on" } }
redirect = "/m/{1}"
[[site.mount]]
path = "/etc"
files = "/etc"
otherwise = "app"
[[site.mount]]
name = "app"
proxy = "http://127.0.0.1:1"
"#;
    compare_with(more, |_| {
        let met = "/m/12?q+r=x\ncookie: a=1; b=2\nx-flag: 1";
        vec![
            row("all conditions", "GET", met, 203),
            row("another cookie", "GET", &met.replace("b=2", "b=1"), 404),
            row("another parameter", "GET", &met.replace("q+r", "q"), 404),
            row("no field", "GET", &met.replace("x-flag", "x-other"), 404),
            row("a field that must not be", "GET", &format!("{met}\nx-not: 1"), 404),
            row("another path", "GET", &met.replace("/m/12", "/m/x"), 404),
            row("one path", "GET", "/m/one", 202),
            row("not beneath it", "GET", "/m/one/x", 404),
            row("a rule by a field", "GET", "/r/7\nx-flag: on", 302),
            row("and without", "GET", "/r/7", 404),
            with_body("a rule whatever the method", "POST", "/r/7\nx-flag: on", 302),
            row("a peer", "GET", "/peer", 203),
            row("another peer", "GET", "/far", 404),
            row("a peer in none of the networks", "GET", "/outside", 403),
            row("a method", "DELETE", "/a.txt", 502),
            row("a file", "GET", "/a.txt", 200),
            row("a file beside an application", "GET", "/etc/passwd", 200),
            row("the application behind the files", "GET", "/etc/gone", 502),
            row("with another method", "POST", "/etc/gone", 502),
            row("which the file does not take", "POST", "/etc/passwd", 405),
        ]
    });
}

#[test]
fn trailers() {
    let server = Handlers::start(upstream());
    for path in ["/pieces", "/sized", "/proxy/chunked"] {
        let mut client = Client::connect(server.address());
        client.send(format!(
            "GET {path} HTTP/1.1\r\nHost: a\r\nTE: trailers\r\nConnection: TE, close\r\n\r\n"
        ));
        let text = String::from_utf8(client.rest()).unwrap().to_ascii_lowercase();
        assert!(text.ends_with("\r\n0\r\nx-sum: 2\r\n\r\n"), "{path}: {text}");
        peer::talk(server.address(), async |mut client| {
            let asked = format!("{path}\nte: trailers");
            let response = peer::ask(&mut client, "GET", &asked).await.await.unwrap();
            let (_, trailers) = peer::body(&mut response.into_body()).await.unwrap();
            assert_eq!(trailers["x-sum"], "2", "{path}");
        });
        h3_peer::talk(server.secure(), server.authority.roots(), async |mut client| {
            let asked = format!("{path}\nte: trailers");
            let mut exchange = h3_peer::ask(&mut client, "GET", &asked, Bytes::new()).await;
            let (_, _, trailers) = h3_peer::answer(&mut exchange).await;
            assert_eq!(trailers["x-sum"], "2", "{path}");
        });
    }
}

#[test]
fn replaced_errors_queries_of_rules_and_flags_of_cookies() {
    let more = "[[site.rule]]\nmatch = \"/asked/*\"\nredirect = \"/new?of={1}&{query}\"\n\
                [[site.mount]]\npath = \"/gone\"\nproxy = \"http://127.0.0.1:1\"\n\
                errors = { 502 = \"@spare\" }\n\
                [[site.mount]]\nname = \"spare\"\nrespond = \"spare\"\nstatus = 503\n\
                header = [{ set = { Set-Cookie = \"a=b\" }, cookie_flags = \"Secure\", always = true }]\n";
    compare_with(more, |_| {
        vec![
            row("an error that a mount replaces", "GET", "/gone/x", 503),
            row("its head", "HEAD", "/gone/x", 503),
            with_body("one of a request with a body", "POST", "/gone/x", 503),
            row("a query of a rule", "GET", "/asked/a%26b?c=d", 302),
        ]
    });
}
