//! An upstream's own address and paths in the client's terms.

use bytes::Bytes;
use h2::RecvStream;
use h2::server::SendResponse;
use http::{Request, Response};

use crate::library;
use crate::support::{Proxy, Upstream};

/// The fields of a response that begin with one of these names, as the client gets them. `UP`
/// stands for the upstream's address.
fn fields(keys: &str, status: &str, lines: &str) -> Vec<String> {
    fields_at("", keys, status, lines)
}

/// Likewise, with a path in the URL of the upstream.
fn fields_at(base: &str, keys: &str, status: &str, lines: &str) -> Vec<String> {
    let upstream = Upstream::new();
    let address = upstream.address.to_string();
    let proxy =
        Proxy::of("", &format!("path = \"/app\"\nproxy = \"http://{address}{base}\"\n{keys}"));
    let mut client = proxy.send("GET /app/x HTTP/1.1\r\nHost: a\r\n\r\n");
    let (mut peer, _) = upstream.next_request();
    let lines = lines.replace("UP", &address);
    peer.send(format!("HTTP/1.1 {status}\r\n{lines}Content-Length: 0\r\n\r\n"));
    let head = client.head();
    let ours = ["Location", "Content-Location", "Refresh", "Set-Cookie"];
    let is_ours = |line: &&str| {
        let name = line.split(':').next().unwrap_or_default();
        ours.iter().any(|ours| ours.eq_ignore_ascii_case(name))
    };
    head.lines().filter(is_ours).map(|line| line.replace(&address, "UP")).collect()
}

#[test]
fn what_names_the_upstream_is_translated() {
    let strip = "strip_prefix = true\n";
    let host = "[site.mount.request_fields]\nset = { Host = \"app.internal\" }\n";
    // Keys, the status, the upstream's lines, and those of the client.
    let rows: &[(&str, &str, &str, &str, &[&str])] = &[
        (
            "a redirect to itself",
            "",
            "302 Found",
            "Location: http://UP/login?next=%2F#top\r\n",
            &["Location: /login?next=%2F#top"],
        ),
        ("without a path", "", "302 Found", "Location: http://UP\r\n", &["Location: /"]),
        ("a query alone", "", "302 Found", "Location: http://UP?a\r\n", &["Location: /?a"]),
        (
            "two slashes would name a host",
            "",
            "302 Found",
            "Location: http://UP//evil.example/\r\n",
            &["Location: /evil.example/"],
        ),
        (
            "another server",
            strip,
            "302 Found",
            "Location: http://b.example/UP\r\nContent-Location: https://UP/x\r\n",
            &["Location: http://b.example/UP", "Content-Location: https://UP/x"],
        ),
        ("a path", "", "302 Found", "Location: /login\r\n", &["Location: /login"]),
        (
            "beneath a prefix that was taken off",
            strip,
            "201 Created",
            "Location: http://UP/items/1\r\nContent-Location: //UP/items/1\r\n",
            &["Location: /app/items/1", "Content-Location: /app/items/1"],
        ),
        (
            "a Host that the operator has set, with either scheme",
            host,
            "307 Temporary Redirect",
            "Location: https://APP.internal/x\r\n",
            &["Location: /x"],
        ),
        (
            "Refresh and cookies, where the prefix is taken off",
            strip,
            "200 OK",
            "Refresh: 5; URL=http://UP/again\r\nSet-Cookie: a=b; Path=/x; HttpOnly\r\n\
             Set-Cookie: c=d; Domain=127.0.0.1; Path=/\r\nSet-Cookie: e=f; Domain=b.example\r\n",
            &[
                "Refresh: 5; URL=/app/again",
                "Set-Cookie: a=b; Path=/app/x; HttpOnly",
                "Set-Cookie: c=d; Path=/app",
                "Set-Cookie: e=f; Domain=b.example",
            ],
        ),
        (
            "cookies that have no other Path, or are named like an attribute",
            strip,
            "200 OK",
            "Set-Cookie: __Host-id=1; Path=/; Secure\r\nSet-Cookie: path=/docs; HttpOnly\r\n\
             Set-Cookie: domain=127.0.0.1; Max-Age=60\r\n",
            &[
                "Set-Cookie: __Host-id=1; Path=/; Secure",
                "Set-Cookie: path=/docs; HttpOnly",
                "Set-Cookie: domain=127.0.0.1; Max-Age=60",
            ],
        ),
        (
            "cookies and Refresh of every response",
            "",
            "200 OK",
            "Location: http://UP/x\r\nrefresh: 5; URL=http://UP/again\r\n\
             set-cookie: c=d; Domain=127.0.0.1; Path=/\r\n",
            &["Location: http://UP/x", "refresh: 5; URL=/again", "set-cookie: c=d; Path=/"],
        ),
        (
            "not if it is turned off",
            "strip_prefix = true\nrewrite_location = false\n",
            "302 Found",
            "Location: http://UP/login\r\nSet-Cookie: a=b; Path=/x\r\n",
            &["Location: http://UP/login", "Set-Cookie: a=b; Path=/x"],
        ),
    ];
    for (sentence, keys, status, lines, wanted) in rows {
        assert_eq!(fields(keys, status, lines), *wanted, "{sentence}");
    }
}

#[test]
fn what_names_the_upstream_by_its_path_is_translated() {
    let rows: &[(&str, &str, &[&str])] = &[
        (
            "beneath its path",
            "Location: http://UP/v2/items?a\r\nContent-Location: //UP/v2\r\n",
            &["Location: /app/items?a", "Content-Location: /app/"],
        ),
        (
            "elsewhere",
            "Location: http://UP/login\r\nContent-Location: http://UP/v20/x\r\n",
            &["Location: http://UP/login", "Content-Location: http://UP/v20/x"],
        ),
        (
            "cookies",
            "Set-Cookie: a=b; Path=/v2/x\r\nSet-Cookie: c=d; Path=/v2/\r\nSet-Cookie: e=f; Path=/\r\n",
            &[
                "Set-Cookie: a=b; Path=/app/x",
                "Set-Cookie: c=d; Path=/app",
                "Set-Cookie: e=f; Path=/",
            ],
        ),
    ];
    for (sentence, lines, wanted) in rows {
        for base in ["/v2", "/v2/"] {
            assert_eq!(fields_at(base, "", "302 Found", lines), *wanted, "{sentence}");
        }
    }
}

/// Regression: the Path of a cookie in a response that is not stored had the prefix twice.
#[test]
fn a_response_over_http2_that_is_not_stored_is_translated_once() {
    async fn logged_in(_: Request<RecvStream>, mut respond: SendResponse<Bytes>) {
        let head = Response::builder().header("set-cookie", "a=b; Path=/").body(()).unwrap();
        respond.send_response(head, true).unwrap();
    }
    let upstream = library::Upstream::start(100, logged_in);
    let keys = format!(
        "path = \"/app\"\nproxy = \"h2c://{}\"\nstrip_prefix = true\ncache = {{}}\n",
        upstream.address
    );
    let proxy = Proxy::of("", &keys);
    let mut client = proxy.send("GET /app/x HTTP/1.1\r\nHost: a\r\n\r\n");
    let head = client.head();
    assert!(head.contains("set-cookie: a=b; Path=/app\n"), "{head}");
}

#[test]
fn a_stored_redirect_is_translated() {
    let upstream = Upstream::new();
    let address = upstream.address;
    let proxy = Proxy::of(
        "",
        &format!(
            "path = \"/app\"\nproxy = \"http://{address}\"\nstrip_prefix = true\ncache = {{}}\n"
        ),
    );
    for number in 0..2 {
        let mut client = proxy.send("GET /app/x HTTP/1.1\r\nHost: a\r\n\r\n");
        if number == 0 {
            let (mut peer, head) = upstream.next_request();
            assert!(head.starts_with("GET /x "), "{head}");
            peer.send(format!(
                "HTTP/1.1 301 Moved Permanently\r\nLocation: http://{address}/y\r\n\
                 Cache-Control: max-age=60\r\nContent-Length: 0\r\n\r\n"
            ));
        }
        let head = client.head();
        assert!(head.contains("Location: /app/y\n"), "{head}");
    }
}
