//! Replacements of errors: pages, and responses of mounts with names. Mounts that give no
//! response at all.

use std::fs;
use std::path::{Path, PathBuf};

use hurtle::config::check;

use crate::client::Client;
use crate::support::{GET, LAST_OK, NOBODY, OK, Proxy, Upstream};

/// A tree of files, removed when dropped.
struct Tree(PathBuf);

impl Tree {
    fn new(name: &str) -> Tree {
        let root =
            std::env::temp_dir().join(format!("hurtle-errors-{name}-{}", std::process::id()));
        let _ = fs::remove_dir_all(&root);
        fs::create_dir_all(&root).unwrap();
        fs::write(root.join("404.html"), "no such page").unwrap();
        fs::write(root.join("down.html"), "we are down").unwrap();
        fs::write(root.join("empty.gif"), "GIF89a").unwrap();
        Tree(root)
    }

    fn files(&self) -> String {
        format!("files = {:?}", self.0.display().to_string())
    }
}

impl Drop for Tree {
    fn drop(&mut self) {
        let _ = fs::remove_dir_all(&self.0);
    }
}

pub(crate) fn get(path: &str) -> String {
    format!("GET {path} HTTP/1.1\r\nHost: a\r\nConnection: close\r\n\r\n")
}

pub(crate) fn response(status: &str, fields: &str, body: &str) -> String {
    let len = body.len();
    format!("HTTP/1.1 {status}\r\nContent-Length: {len}\r\nConnection: close\r\n{fields}\r\n{body}")
}

/// Returns the status line and the body.
pub(crate) fn answered(client: &mut Client) -> (String, String) {
    let (head, body) = client.answer();
    (head.lines().next().unwrap_or_default().trim_start_matches("HTTP/1.1 ").to_owned(), body)
}

#[test]
fn a_mount_with_a_name_responds_to_an_error() {
    let tree = Tree::new("named");
    let files = tree.files();
    let rows = [
        (
            "with its own status",
            "502 = \"@down\"",
            "respond = \"busy\"\nstatus = 503".to_owned(),
            ("503 Service Unavailable", "busy"),
        ),
        (
            "with the given status",
            "502 = { to = \"@down\", status = 502 }",
            "respond = \"busy\"".to_owned(),
            ("502 Bad Gateway", "busy"),
        ),
        (
            "with a file",
            "502 = { to = \"@down\", status = 503 }",
            format!("{files}\ntry_files = [\"/down.html\"]"),
            ("503 Service Unavailable", "we are down"),
        ),
        (
            "not if it has no file",
            "502 = \"@down\"",
            files.clone(),
            ("502 Bad Gateway", "502 Bad Gateway\n"),
        ),
        (
            "not if it fails, too",
            "502 = \"@down\"",
            format!("proxy = \"http://{NOBODY}\""),
            ("502 Bad Gateway", "502 Bad Gateway\n"),
        ),
        (
            "not if one of its gates refuses the client",
            "502 = \"@down\"",
            "respond = \"secret\"\ndeny = \"127.0.0.1\"".to_owned(),
            ("502 Bad Gateway", "502 Bad Gateway\n"),
        ),
        (
            "not to another error",
            "503 = \"@down\"",
            "respond = \"busy\"".to_owned(),
            ("502 Bad Gateway", "502 Bad Gateway\n"),
        ),
    ];
    for (sentence, errors, named, (status, body)) in rows {
        let proxy = Proxy::written(
            1,
            &format!(
                "[[site]]\nerrors = {{ {errors} }}\n[[site.mount]]\nproxy = \"http://{NOBODY}\"\n\
                 [[site.mount]]\nname = \"down\"\n{named}\n"
            ),
        );
        let mut client = proxy.connect();
        for _ in 0..2 {
            // The connection goes on.
            client.send(GET);
            assert_eq!(answered(&mut client), (status.to_owned(), body.to_owned()), "{sentence}");
        }
        client.send("POST /form HTTP/1.1\r\nHost: a\r\nContent-Length: 4\r\n\r\nbody");
        assert_eq!(answered(&mut client), (status.to_owned(), body.to_owned()), "{sentence}");
        client.send("HEAD / HTTP/1.1\r\nHost: a\r\n\r\n");
        assert!(client.head().starts_with(&format!("HTTP/1.1 {status}\n")), "{sentence}");
    }
}

#[test]
fn an_upstream_gets_a_get_without_the_body_in_place_of_an_error() {
    let (upstream, spare) = (Upstream::new(), Upstream::new());
    let proxy = Proxy::written(
        1,
        &format!(
            "[[site]]\n[[site.mount]]\nproxy = \"http://{}\"\nintercept_errors = true\n\
             errors = {{ 500 = \"@spare\" }}\n\
             [[site.mount]]\nname = \"spare\"\nproxy = \"http://{}\"\n",
            upstream.address, spare.address
        ),
    );
    let mut client = proxy.send(
        "POST /form?a=b HTTP/1.1\r\nHost: a\r\nContent-Length: 4\r\nContent-Type: text/x\r\n\
         If-None-Match: \"x\"\r\nRange: bytes=0-1\r\nCookie: c=d\r\n\r\nbody",
    );
    let (mut peer, head) = upstream.next_request();
    assert!(head.starts_with("POST /form?a=b "), "{head}");
    assert_eq!(peer.take(4), b"body");
    peer.send(response("500 Internal Server Error", "", "oops"));
    let (mut peer, head) = spare.next_request();
    assert!(head.starts_with("GET /form?a=b HTTP/1.1\n"), "{head}");
    assert!(head.contains("\nCookie: c=d\n"), "{head}");
    for omitted in ["Content-", "Transfer-Encoding", "If-None-Match", "Range"] {
        assert!(!head.contains(omitted), "{omitted}: {head}");
    }
    peer.send(LAST_OK);
    assert_eq!(answered(&mut client), ("200 OK".to_owned(), "ok".to_owned()));
    // The errors of the mount are not those of the spare one.
    let mut client = proxy.send(get("/"));
    upstream.next_request().0.send(response("500 Internal Server Error", "", "oops"));
    spare.next_request().0.send(response("500 Internal Server Error", "", "of the spare one"));
    assert_eq!(answered(&mut client).1, "of the spare one");
}

#[test]
fn a_body_that_nobody_reads_is_no_request() {
    let spare = Upstream::new();
    let url = format!("proxy = \"http://{}\"", spare.address);
    for named in [url.as_str(), "respond = \"busy\"\nstatus = 503"] {
        let proxy = Proxy::written(
            1,
            &format!(
                "[[site]]\nerrors = {{ 403 = \"@spare\" }}\n[[site.mount]]\npath = \"/closed\"\n\
                 respond = \"\"\ndeny = \"127.0.0.1\"\n[[site.mount]]\nrespond = \"smuggled\"\n\
                 [[site.mount]]\nname = \"spare\"\n{named}\n"
            ),
        );
        let body = "GET /smuggled HTTP/1.1\r\nHost: a\r\n\r\n";
        let len = body.len();
        let mut client = proxy.send(format!(
            "POST /closed HTTP/1.1\r\nHost: a\r\nContent-Length: {len}\r\n\r\n{body}"
        ));
        if named == url {
            let (mut peer, head) = spare.next_request();
            assert!(head.starts_with("GET /closed "), "{head}");
            peer.send(response("503 Service Unavailable", "", "busy"));
        }
        assert_eq!(answered(&mut client).1, "busy");
        assert_eq!(client.rest(), "", "{named}");
    }
}

#[test]
fn errors_of_an_upstream_are_replaced_where_the_mount_says_so() {
    let tree = Tree::new("intercepted");
    let upstream = Upstream::new();
    let table = [
        ("an error with a page", "404 Not Found", "no such page"),
        ("one without", "410 Gone", "of the upstream"),
        ("no error", "201 Created", "of the upstream"),
    ];
    for (intercepts, cache) in [(true, ""), (false, ""), (true, "cache = {}")] {
        let proxy = Proxy::written(
            1,
            &format!(
                "[[site]]\n[site.errors]\n404 = \"/pages/404.html\"\n401 = \"/pages/404.html\"\n\
                 [[site.mount]]\npath = \"/pages\"\n{}\n[[site.mount]]\n\
                 proxy = \"http://{}\"\nintercept_errors = {intercepts}\n{cache}\n",
                tree.files(),
                upstream.address
            ),
        );
        for (sentence, status, replaced) in table {
            let mut client = proxy.send(get("/"));
            let fields = "X-Of-Upstream: 1\r\n";
            upstream.next_request().0.send(response(status, fields, "of the upstream"));
            let (head, body) = client.answer();
            let expected = if intercepts { replaced } else { "of the upstream" };
            assert!(head.starts_with(&format!("HTTP/1.1 {status}\n")), "{sentence}: {head}");
            assert_eq!(body, expected, "{sentence}, {intercepts}");
            let is_kept = head.contains("X-Of-Upstream");
            assert_eq!(is_kept, expected == "of the upstream", "{sentence}: {head}");
        }
        let mut client = proxy.send(get("/"));
        let fields = "WWW-Authenticate: Basic realm=\"a\"\r\nSet-Cookie: a=b\r\n";
        upstream.next_request().0.send(response("401 Unauthorized", fields, "of the upstream"));
        let (head, _) = client.answer();
        let lower = head.to_ascii_lowercase();
        assert!(lower.contains("\nwww-authenticate: basic realm=\"a\"\n"), "{head}");
        assert_eq!(head.contains("Set-Cookie"), !intercepts, "{head}");
    }
}

#[test]
fn a_stored_error_is_replaced_each_time() {
    let tree = Tree::new("stored");
    let upstream = Upstream::new();
    let proxy = Proxy::written(
        1,
        &format!(
            "[[site]]\n[site.errors]\n404 = \"/pages/404.html\"\n[[site.mount]]\npath = \"/pages\"\n{}\n\
             [[site.mount]]\nproxy = \"http://{}\"\nintercept_errors = true\ncache = {{}}\n",
            tree.files(),
            upstream.address
        ),
    );
    for turn in 0..4 {
        let mut client = proxy.send(get("/gone"));
        if turn == 0 {
            let fields = "Cache-Control: max-age=100\r\n";
            upstream.next_request().0.send(response("404 Not Found", fields, "of the upstream"));
        }
        let expected = ("404 Not Found".to_owned(), "no such page".to_owned());
        assert_eq!(answered(&mut client), expected, "{turn}");
    }
    upstream.expect_no_connection();
}

/// The page is in the same mount as the error, and the error of the page itself is not replaced
/// again.
#[test]
fn an_application_may_have_the_page_of_an_error() {
    let upstream = Upstream::new();
    let tree = Tree::new("of-application");
    let files = tree.files();
    let text = format!(
        "[[site]]\nerrors = {{ 404 = \"/errors/a b\", 410 = {{ to = \"/errors/gone\", status = 200 }} }}\n\
         [[site.mount]]\n{files}\n\
         [[site.mount]]\npath = \"/app\"\nproxy = \"http://{0}\"\nintercept_errors = true\n\
         [[site.mount]]\npath = \"/errors\"\nproxy = \"http://{0}\"\nintercept_errors = true\n",
        upstream.address
    );
    let proxy = Proxy::written(1, &text);
    let ask = |request: &str, answers: &[(&str, &str)], expected: (&str, &str)| {
        let mut client = proxy.send(request);
        for (asked, answer) in answers {
            let (mut peer, head) = upstream.next_request();
            assert!(head.starts_with(asked), "{head}");
            assert!(!head.to_lowercase().contains("content-length"), "{head}");
            peer.send(answer);
        }
        assert_eq!(
            answered(&mut client),
            (expected.0.to_owned(), expected.1.to_owned()),
            "{request}"
        );
    };
    let page = response("200 OK", "Connection: close\r\n", "a page");
    let none = response("404 Not Found", "Connection: close\r\n", "plain");
    let gone = response("410 Gone", "Connection: close\r\n", "");
    let of_page = "GET /errors/a%20b HTTP/1.1\n";
    ask(&get("/none?x=1"), &[(of_page, &page)], ("404 Not Found", "a page"));
    ask(
        &get("/app/none"),
        &[("GET /app/none ", &none), (of_page, &page)],
        ("404 Not Found", "a page"),
    );
    ask(
        &get("/app/x"),
        &[("GET /app/x ", &gone), ("GET /errors/gone ", &page)],
        ("200 OK", "a page"),
    );
    // The page is missing, too.
    ask(&get("/none"), &[(of_page, &none)], ("404 Not Found", "plain"));
    let delete = get("/app/none").replace("GET", "DELETE");
    ask(&delete, &[("DELETE /app/none ", &none), (of_page, &page)], ("404 Not Found", "a page"));
}

#[test]
fn an_error_page_may_have_another_status() {
    let tree = Tree::new("status");
    let proxy =
        Proxy::of_site("errors = { 404 = { to = \"/empty.gif\", status = 200 } }", &tree.files());
    let expected = ("200 OK".to_owned(), "GIF89a".to_owned());
    assert_eq!(answered(&mut proxy.send(get("/missing.gif"))), expected);
}

#[test]
fn two_mounts_that_lead_to_each_other_end_with_the_error() {
    let proxy = Proxy::written(
        1,
        &format!(
            "[[site]]\n[site.errors]\n502 = \"@one\"\n503 = \"@two\"\n\
             [[site.mount]]\nproxy = \"http://{NOBODY}\"\n\
             [[site.mount]]\nname = \"one\"\nproxy = \"http://{NOBODY}\"\nerrors = {{ 502 = \"@two\" }}\n\
             [[site.mount]]\nname = \"two\"\nproxy = \"http://{NOBODY}\"\n"
        ),
    );
    assert_eq!(answered(&mut proxy.send(get("/"))).0, "502 Bad Gateway");
}

#[test]
fn a_mount_may_give_no_response() {
    let upstream = Upstream::new();
    let proxy = Proxy::written(
        1,
        &format!(
            "[[site]]\n[[site.mount]]\npath = \"/none\"\nabort = true\n\
             [[site.mount]]\nmatch = \"*.php\"\nabort = true\n\
             [[site.mount]]\nproxy = \"http://{}\"\n",
            upstream.address
        ),
    );
    for request in [
        get("/none/x"),
        get("/wp-login.php"),
        "POST /none HTTP/1.1\r\nHost: a\r\nContent-Length: 9\r\n\r\n".to_owned(),
        "OPTIONS /none HTTP/1.1\r\nHost: a\r\n\r\n".to_owned(),
    ] {
        proxy.send(&request).expect_reset();
    }
    let mut client = proxy.send(GET);
    upstream.next_request().0.send(OK);
    assert_eq!(answered(&mut client).1, "ok");
}

/// Asks until the answer has this status line: the file is looked up again after a second.
fn eventually(proxy: &Proxy, request: &str, status: &str) -> (String, String) {
    let begun = std::time::Instant::now();
    loop {
        let (head, body) = proxy.send(request).answer();
        if head.starts_with(&format!("HTTP/1.1 {status}\n")) {
            return (head, body);
        }
        assert!(begun.elapsed() < crate::client::PATIENCE, "{head}");
    }
}

#[test]
fn a_site_is_down_while_a_file_exists() {
    let tree = Tree::new("maintenance");
    let flag = tree.0.join("off.html");
    let proxy = Proxy::of_site(
        &format!("maintenance = {flag:?}\nerrors = {{ 503 = \"@down\" }}"),
        &format!(
            "{}\n[[site.mount]]\nname = \"down\"\nrespond = \"busy\"\nstatus = 503",
            tree.files()
        ),
    );
    let up = |what: &str| {
        let (_, body) = eventually(&proxy, &get("/down.html"), "200 OK");
        assert_eq!(body, "we are down", "{what}");
    };
    up("before");
    // A known file, too.
    up("again");
    fs::write(&flag, "<p>soon").unwrap();
    let (head, body) = eventually(&proxy, &get("/down.html"), "503 Service Unavailable");
    assert_eq!(body, "<p>soon");
    assert!(head.contains("\nContent-Type: text/html; charset=utf-8\n"), "{head}");
    assert!(head.contains("\nRetry-After: 60\n"), "{head}");
    for request in [get("/none"), get("/down.html").replace("GET", "POST")] {
        assert_eq!(answered(&mut proxy.send(&request)).0, "503 Service Unavailable", "{request}");
    }
    fs::remove_file(&flag).unwrap();
    up("after it");
    fs::write(&flag, "").unwrap();
    let (_, body) = eventually(&proxy, &get("/down.html"), "503 Service Unavailable");
    assert_eq!(body, "busy", "an empty file has the site's page");
    fs::remove_file(&flag).unwrap();
    up("at last");
    fs::create_dir(&flag).unwrap();
    eventually(&proxy, &get("/down.html"), "503 Service Unavailable");
}

fn problems(text: &str) -> String {
    let errors = check(text, Path::new("/nowhere/hurtle.toml")).expect_err(text);
    errors.iter().map(ToString::to_string).collect()
}

#[test]
fn mistakes_are_reported() {
    let rows = [
        ("404 = \"@nobody\"", "", "no mount of this site has the name \"nobody\""),
        (
            "404 = \"@dwn\"",
            "[[site.mount]]\nname = \"down\"\nrespond = \"\"",
            "did you mean \"down\"?",
        ),
        ("404 = \"404.html\"", "", "\"404.html\" is no place of a response"),
        ("404 = \"@\"", "", "is not a name of a mount"),
        ("404 = { status = 200 }", "", "the page is missing"),
        ("404 = { to = \"/x\", status = 99 }", "", "99"),
        ("200 = \"/x\"", "", "not an error status"),
    ];
    for (errors, more, problem) in rows {
        let text =
            format!("[[site]]\nerrors = {{ {errors} }}\n[[site.mount]]\nrespond = \"\"\n{more}\n");
        let error = problems(&text);
        assert!(error.contains(problem), "{errors}: {error}");
    }
    let error = problems("[[site]]\n[[site.mount]]\nabort = true\nrespond = \"\"\n");
    assert!(error.contains("a mount has only one of"), "{error}");
}
