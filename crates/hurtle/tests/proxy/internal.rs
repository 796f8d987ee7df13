//! Tests of files that an upstream names in its response.

use std::fs;
use std::path::PathBuf;

use crate::client::Client;
use crate::support::{Proxy, Upstream};

/// A directory that is removed when dropped.
struct Root(PathBuf);

impl Root {
    fn new(name: &str) -> Root {
        let path = std::env::temp_dir().join(format!("hurtle-{name}-{}", std::process::id()));
        fs::create_dir_all(path.join("private/sub")).unwrap();
        fs::write(path.join("private/a b.txt"), "0123456789").unwrap();
        fs::write(path.join("private/.hidden"), "hidden").unwrap();
        fs::write(path.join("secret.txt"), "secret").unwrap();
        Root(path)
    }

    fn proxy(&self, upstream: &Upstream) -> Proxy {
        let private = self.0.join("private");
        Proxy::with(&[upstream.address], &format!("internal = {private:?}"))
    }
}

impl Drop for Root {
    fn drop(&mut self) {
        let _ = fs::remove_dir_all(&self.0);
    }
}

/// The client's response if the upstream's has these fields and a body.
#[track_caller]
fn answer(
    client: &mut Client,
    upstream: &Upstream,
    request: &str,
    fields: &str,
) -> (String, String) {
    client.send(request);
    let (mut peer, _) = upstream.next_request();
    peer.send(format!(
        "HTTP/1.1 200 OK\r\n{fields}Content-Length: 4\r\nConnection: close\r\n\r\nbody"
    ));
    client.answer()
}

const GET: &str = "GET /download HTTP/1.1\r\nHost: a\r\n\r\n";

#[test]
fn a_named_file_replaces_the_response_body() {
    let (root, upstream) = (Root::new("sent"), Upstream::new());
    let proxy = root.proxy(&upstream);
    let mut client = proxy.connect();
    let named = "X-Accel-Redirect: /a%20b.txt\r\nSet-Cookie: a=b\r\nSet-Cookie: c=d\r\n\
                 Content-Type: application/pdf\r\nContent-Disposition: attachment\r\n\
                 Cache-Control: private\r\nETag: \"theirs\"\r\nContent-Encoding: gzip\r\n\
                 X-Other: 1\r\n";
    // Once uncached, once cached.
    for _ in 0..2 {
        let (head, body) = answer(&mut client, &upstream, GET, named);
        assert_eq!(body, "0123456789");
        let has = |line: &str| assert!(head.lines().any(|l| l == line), "{line}: {head}");
        has("Content-Length: 10");
        has("Content-Type: application/pdf");
        has("Content-Disposition: attachment");
        has("Cache-Control: private");
        has("Set-Cookie: a=b");
        has("Set-Cookie: c=d");
        has("Accept-Ranges: bytes");
        for gone in ["theirs", "gzip", "X-Accel", "X-Other"] {
            assert!(!head.contains(gone), "{gone}: {head}");
        }
        assert_eq!(head.matches("Content-Type").count(), 1, "{head}");
    }
    // Each request is forwarded; the file is never served without the upstream.
    client.send(GET);
    upstream.next_request();
}

#[test]
fn a_named_file_is_sent_with_ranges_and_conditions() {
    let (root, upstream) = (Root::new("ranges"), Upstream::new());
    let proxy = root.proxy(&upstream);
    let mut client = proxy.connect();
    let named = "X-Accel-Redirect: /a%20b.txt\r\nContent-Type: a/b\r\nSet-Cookie: a\r\n";
    let (head, _) = answer(&mut client, &upstream, GET, named);
    let tag = head.lines().find_map(|line| line.strip_prefix("ETag: ")).unwrap().to_owned();

    let part = "GET / HTTP/1.1\r\nHost: a\r\nRange: bytes=2-4\r\n\r\n";
    let (head, body) = answer(&mut client, &upstream, part, named);
    assert!(head.starts_with("HTTP/1.1 206 ") && head.contains("Content-Range: bytes 2-4/10\n"));
    assert!(head.contains("Set-Cookie: a\n"), "{head}");
    // RFC 9110 section 15.3.7: a part has the fields of the whole.
    assert!(head.contains("Content-Type: a/b\n"), "{head}");
    assert_eq!(body, "234");
    let parts = "GET / HTTP/1.1\r\nHost: a\r\nRange: bytes=0-0,9-9\r\n\r\n";
    let (head, _) = answer(&mut client, &upstream, parts, named);
    assert!(head.contains("Content-Type: multipart/byteranges;"), "{head}");

    let known = format!("GET / HTTP/1.1\r\nHost: a\r\nIf-None-Match: {tag}\r\n\r\n");
    let (head, _) = answer(&mut client, &upstream, &known, named);
    assert!(head.starts_with("HTTP/1.1 304 ") && head.contains("Set-Cookie: a\n"), "{head}");

    let head_only = "HEAD / HTTP/1.1\r\nHost: a\r\nConnection: close\r\n\r\n";
    client.send(head_only);
    let (mut peer, _) = upstream.next_request();
    peer.send(format!("HTTP/1.1 200 OK\r\n{named}\r\n"));
    assert!(client.head().contains("Content-Length: 10\n"));
    assert_eq!(client.rest(), "");

    let mut client = proxy.connect();
    let post = "POST / HTTP/1.1\r\nHost: a\r\nRange: bytes=2-4\r\nContent-Length: 0\r\n\r\n";
    assert_eq!(answer(&mut client, &upstream, post, named).1, "0123456789", "a POST has no range");
}

#[test]
fn a_named_file_is_beneath_the_root() {
    let (root, upstream) = (Root::new("names"), Upstream::new());
    let proxy = root.proxy(&upstream);
    let private = root.0.join("private");
    let private = private.to_str().unwrap();
    let mut client = proxy.connect();
    fs::write(root.0.join("private/50% off?.txt"), "0123456789").unwrap();
    let sendfile = format!("X-Sendfile: {private}/a b.txt\r\n");
    let encoded = format!("X-Sendfile: {private}/a%20b.txt\r\n");
    let odd = format!("X-Sendfile: {private}/50% off?.txt\r\n");
    let rows = [
        ("as the file system has it", sendfile.as_str(), true),
        ("as the file system has it, encoded", encoded.as_str(), true),
        ("with characters that URLs encode", odd.as_str(), true),
        ("as a URL beneath the root", "X-Sendfile: /a%20b.txt\r\n", true),
        ("with a query", "X-Accel-Redirect: /a%20b.txt?x\r\n", true),
        ("upward", "X-Accel-Redirect: /../secret.txt\r\n", false),
        ("upward, encoded", "X-Accel-Redirect: /%2e%2e/secret.txt\r\n", false),
        ("upward behind an encoded slash", "X-Accel-Redirect: /..%2Fsecret.txt\r\n", false),
        (
            "upward through the root's own name",
            &format!("X-Sendfile: {private}/../secret.txt\r\n"),
            false,
        ),
        ("a file of the system", "X-Sendfile: /etc/passwd\r\n", false),
        ("a hidden one", "X-Accel-Redirect: /.hidden\r\n", false),
        ("a directory", "X-Accel-Redirect: /sub\r\n", false),
        ("a directory with its slash", "X-Accel-Redirect: /sub/\r\n", false),
        ("nothing", "X-Accel-Redirect: \r\n", false),
        ("what is not there", "X-Accel-Redirect: /none\r\n", false),
    ];
    for (sentence, named, found) in rows {
        let (head, body) = answer(&mut client, &upstream, GET, named);
        let status = if found { "HTTP/1.1 200 OK\n" } else { "HTTP/1.1 404 Not Found\n" };
        assert!(head.starts_with(status), "{sentence}: {head}");
        assert_eq!(body == "0123456789", found, "{sentence}: {body}");
        assert!(!body.contains("body") && !head.contains("Location"), "{sentence}: {head}");
    }
}

/// Regression: no file was found.
#[test]
fn the_root_may_be_written_with_a_slash() {
    let (root, upstream) = (Root::new("slash"), Upstream::new());
    let private = root.0.join("private");
    let private = private.to_str().unwrap();
    let proxy = Proxy::with(&[upstream.address], &format!("internal = \"{private}/\""));
    let named = format!("X-Sendfile: {private}/a b.txt\r\n");
    assert_eq!(answer(&mut proxy.connect(), &upstream, GET, &named).1, "0123456789");
}

/// Regression: the next request was sent on a connection that was about to close.
#[test]
fn a_connection_that_the_upstream_closes_is_not_used_again() {
    let (root, upstream) = (Root::new("closed"), Upstream::new());
    let proxy = root.proxy(&upstream);
    let mut client = proxy.connect();
    let mut open = Vec::new();
    for _ in 0..3 {
        client.send(GET);
        let (mut peer, _) = upstream.next_request();
        peer.send(
            "HTTP/1.1 200 OK\r\nX-Accel-Redirect: /a%20b.txt\r\nContent-Length: 0\r\n\
             Connection: close\r\n\r\n",
        );
        assert_eq!(client.answer().1, "0123456789");
        open.push(peer);
    }
}

#[test]
fn a_named_file_has_the_cookie_of_the_chosen_upstream() {
    let (root, upstreams) = (Root::new("cookie"), [(); 2].map(|()| Upstream::new()));
    let keys = format!("balance = 'cookie'\ninternal = {:?}", root.0.join("private"));
    let proxy = Proxy::with(&upstreams.each_ref().map(|upstream| upstream.address), &keys);
    let mut client = proxy.connect();
    let named = "X-Accel-Redirect: /a%20b.txt\r\nSet-Cookie: a=b\r\n";
    let (head, body) = answer(&mut client, &upstreams[0], GET, named);
    assert_eq!((head.matches("\nSet-Cookie: ").count(), &*body), (2, "0123456789"), "{head}");
}

#[test]
fn a_missing_named_file_has_the_page_of_the_site() {
    let (root, upstream) = (Root::new("missing"), Upstream::new());
    let proxy = Proxy::written(
        1,
        &format!(
            "[[site]]\nerrors = {{ 404 = \"@gone\" }}\n[[site.mount]]\nproxy = \"http://{}\"\n\
             internal = {:?}\n[[site.mount]]\nname = \"gone\"\nrespond = \"it is gone\"\n\
             status = 404\n",
            upstream.address,
            root.0.join("private")
        ),
    );
    let mut client = proxy.connect();
    let (head, body) = answer(&mut client, &upstream, GET, "X-Accel-Redirect: /none\r\n");
    assert!(head.starts_with("HTTP/1.1 404 ") && body == "it is gone", "{head}{body}");
}

/// Regression: it was sent with the status 200.
#[test]
fn an_error_page_that_an_upstream_names_has_the_status_of_the_error() {
    let (root, upstream) = (Root::new("page"), Upstream::new());
    let proxy = Proxy::written(
        1,
        &format!(
            "[[site]]\nerrors = {{ 403 = \"/errors/403\" }}\n[[site.mount]]\npath = \"/closed\"\n\
             respond = \"\"\ndeny = \"127.0.0.1\"\n[[site.mount]]\npath = \"/errors\"\n\
             proxy = \"http://{}\"\ninternal = {:?}\n",
            upstream.address,
            root.0.join("private")
        ),
    );
    let mut client = proxy.connect();
    let get = "GET /closed HTTP/1.1\r\nHost: a\r\n\r\n";
    let (head, body) = answer(&mut client, &upstream, get, "X-Accel-Redirect: /a%20b.txt\r\n");
    assert!(head.starts_with("HTTP/1.1 403 ") && body == "0123456789", "{head}{body}");
}

/// Regression: a variant was sent with the coding of the rule in place of its own.
#[test]
fn a_named_file_is_sent_as_it_is_where_a_rule_sets_its_coding() {
    let (root, upstream) = (Root::new("coded"), Upstream::new());
    let private = root.0.join("private");
    fs::write(private.join("a.json"), "0123456789").unwrap();
    fs::write(private.join("a.json.br"), "brotli").unwrap();
    let site = "[[site.header]]\nmatch = '/data/**'\nset = { Content-Encoding = 'gzip' }";
    let mount = format!("proxy = 'http://{}'\ninternal = {private:?}", upstream.address);
    let proxy = Proxy::of_site(site, &mount);
    let mut client = proxy.connect();
    for (path, coding, expected) in
        [("/data/a", "gzip", "0123456789"), ("/other/a", "br", "brotli")]
    {
        let get = format!("GET {path} HTTP/1.1\r\nHost: a\r\nAccept-Encoding: br\r\n\r\n");
        let named = "X-Accel-Redirect: /a.json\r\n";
        let (head, body) = answer(&mut client, &upstream, &get, named);
        let head = head.to_lowercase();
        let codings: Vec<_> =
            head.lines().filter_map(|line| line.strip_prefix("content-encoding: ")).collect();
        assert_eq!((codings.as_slice(), &*body), (&[coding][..], expected), "{path}: {head}");
    }
}

/// Regression: a rule's Vary took the place of the file's own.
#[test]
fn the_vary_of_a_rule_stands_beside_that_of_a_named_file() {
    let (root, upstream) = (Root::new("vary"), Upstream::new());
    let private = root.0.join("private");
    fs::write(private.join("a.json"), "0123456789").unwrap();
    fs::write(private.join("a.json.br"), "brotli").unwrap();
    let site = "[[site.header]]\nset = { Vary = 'Cookie' }";
    let mount = format!("proxy = 'http://{}'\ninternal = {private:?}", upstream.address);
    let proxy = Proxy::of_site(site, &mount);
    let mut client = proxy.connect();
    for (named, expected) in [
        ("X-Accel-Redirect: /a.json\r\n", &["accept-encoding", "cookie"][..]),
        // That of an upstream is replaced.
        ("Vary: Accept\r\n", &["cookie"]),
    ] {
        let (head, _) = answer(&mut client, &upstream, GET, named);
        let head = head.to_lowercase();
        let vary: Vec<_> = head.lines().filter_map(|line| line.strip_prefix("vary: ")).collect();
        assert_eq!(vary, expected, "{named}: {head}");
    }
}
