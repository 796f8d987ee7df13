//! A FastCGI authorizer in front of a mount.

use crate::dir::Dir;
use crate::peer::{STDOUT, receive, record};
use crate::support::{GET, Proxy, Upstream};

fn files(upstream: &Upstream, dir: &Dir) -> Proxy {
    Proxy::of("", &format!("files = {:?}\nauthorizer = \"{}\"", dir.path("root"), upstream.address))
}

#[test]
fn a_file_is_authorized_each_time() {
    let dir = Dir::new(&[("root/a.txt", "hello")]);
    let upstream = Upstream::new();
    let server = files(&upstream, &dir);
    let mut client = server.connect();
    // The file is cached after the first request.
    for _ in 0..3 {
        client.send("GET /a.txt?x HTTP/1.1\r\nHost: a\r\nCookie: c\r\n\r\n");
        let received = receive(&upstream);
        assert_eq!(received.role, 2);
        let has = |name: &str| received.variables.get(name).map(String::as_str);
        assert_eq!(has("REQUEST_URI"), Some("/a.txt?x"));
        assert_eq!(has("HTTP_COOKIE"), Some("c"));
        for none in ["CONTENT_LENGTH", "PATH_INFO", "PATH_TRANSLATED", "SCRIPT_NAME"] {
            assert_eq!(has(none), None, "FastCGI 6.3");
        }
        received.answer("Status: 200\nX-Theirs: 1\n\nignored");
        let (head, body) = client.answer();
        assert_eq!(body, "hello");
        assert!(!head.to_lowercase().contains("theirs"), "{head}");
    }
}

#[test]
fn another_status_of_the_authorizer_is_the_response() {
    let dir = Dir::new(&[("root/a.txt", "hello")]);
    let upstream = Upstream::new();
    let server = files(&upstream, &dir);
    let mut client = server.connect();
    for (said, status, expected) in [
        ("Status: 403\nContent-Type: text/plain\nVariable-A: b\n\nno", "403", "no"),
        ("Status: 401\nWWW-Authenticate: Basic realm=x\nContent-Length: 0\n\n", "401", ""),
        ("Status: 201\nContent-Length: 2\n\nno", "201", "no"),
        ("Location: /login\nContent-Length: 0\n\n", "302", ""),
        ("no answer at all\n\n", "502", "502 Bad Gateway\n"),
    ] {
        client.send("GET /a.txt HTTP/1.1\r\nHost: a\r\n\r\n");
        receive(&upstream).answer(said);
        let (head, body) = client.answer();
        assert!(head.starts_with(&format!("HTTP/1.1 {status} ")), "{head}");
        assert!(!head.to_lowercase().contains("variable"), "{head}");
        assert_eq!(body, expected);
    }
    drop(upstream);
    client.send("GET /a.txt HTTP/1.1\r\nHost: a\r\n\r\n");
    assert!(client.answer().0.starts_with("HTTP/1.1 502 "), "nobody to ask is no leave");
}

#[test]
fn variables_reach_the_application_and_a_refused_body_is_not_read() {
    let (authorizer, app) = (Upstream::new(), Upstream::new());
    let mount = format!("fastcgi = \"{}\"\nauthorizer = \"{}\"", app.address, authorizer.address);
    let server = Proxy::of("", &mount);
    let mut client = server.connect();
    client.send("POST / HTTP/1.1\r\nHost: a\r\nContent-Length: 2\r\n\r\nhi");
    receive(&authorizer).answer("Status: 200\nVariable-Remote-User: ann\nVariable-HTTP_A: b\n\n");
    let app_request = receive(&app);
    assert_eq!(app_request.variables["REMOTE_USER"], "ann");
    assert_eq!(app_request.variables.get("HTTP_A"), None, "that is what the client says");
    app_request.answer("Content-Type: a/b\n\nok");
    assert_eq!(client.answer().1, "ok");
    client.send("POST / HTTP/1.1\r\nHost: a\r\nContent-Length: 2\r\n\r\n");
    let mut refusing = receive(&authorizer);
    refusing.client.send(record(STDOUT, "Status: 403\nContent-Length: 0\n\n"));
    assert!(client.answer().0.starts_with("HTTP/1.1 403 "), "without waiting for the body");
    app.expect_no_connection();
}

#[test]
fn a_cached_response_is_authorized_each_time() {
    let (authorizer, origin) = (Upstream::new(), Upstream::new());
    let mount = format!(
        "proxy = \"http://{}\"\ncache = {{}}\nauthorizer = \"{}\"",
        origin.address, authorizer.address
    );
    let server = Proxy::of("", &mount);
    let mut client = server.send(GET);
    receive(&authorizer).answer("Status: 200\n\n");
    let (mut peer, _) = origin.next_request();
    peer.send(
        "HTTP/1.1 200 OK\r\nCache-Control: max-age=60\r\nContent-Length: 2\r\n\
         Connection: close\r\n\r\nok",
    );
    assert_eq!(client.answer().1, "ok");
    client.send(GET);
    receive(&authorizer).answer("Status: 403\nContent-Length: 0\n\n");
    assert!(client.answer().0.starts_with("HTTP/1.1 403 "), "it is kept, but not for him");
    origin.expect_no_connection();
}

/// `anna:secret` with bcrypt's lowest cost.
fn users(dir: &Dir) -> std::path::PathBuf {
    let hash = bcrypt::hash_with_salt("secret", 4, [7; 16]).unwrap();
    dir.write("users", &format!("anna:{hash}\n"));
    dir.path("users")
}

/// The variable had the path of the file of passwords, too.
#[test]
fn the_user_of_a_password_is_named_to_the_application() {
    let (dir, upstream) = (Dir::new(&[]), Upstream::new());
    let auth = format!("auth = 'basic'\nusers = {:?}", users(&dir));
    let server = Proxy::of_site(&auth, &format!("fastcgi = \"{}\"", upstream.address));
    // "anna:secret" in base64.
    let mut client =
        server.send("GET / HTTP/1.1\r\nHost: a\r\nAuthorization: Basic YW5uYTpzZWNyZXQ=\r\n\r\n");
    let received = receive(&upstream);
    assert_eq!(received.variables["REMOTE_USER"], "anna");
    received.answer("Content-Type: a/b\n\nok");
    assert!(client.answer().0.starts_with("HTTP/1.1 200 "));
}

/// Regression: the application got the password, and no name.
#[test]
fn the_user_of_a_password_is_named_to_an_application_behind_files() {
    let (dir, upstream) = (Dir::new(&[("root/a.txt", "hello")]), Upstream::new());
    let mounts = format!(
        "files = {:?}\nauth = 'basic'\nusers = {:?}\notherwise = 'app'\n\
         [[site.mount]]\npath = '/shop'\nfiles = {:?}\nauth = 'basic'\nusers = {:?}\n\
         errors = {{ 404 = '@app', 401 = '@app' }}\n\
         [[site.mount]]\nname = 'app'\nfastcgi = \"{}\"",
        dir.path("root"),
        users(&dir),
        dir.path("root"),
        users(&dir),
        upstream.address
    );
    let server = Proxy::of_site("", &mounts);
    let rows = [
        ("/none", "YW5uYTpzZWNyZXQ=", Some("anna")),
        ("/shop/none", "YW5uYTpzZWNyZXQ=", Some("anna")),
        // Nobody has checked this name.
        ("/shop/none", "YW5uYTp3cm9uZw==", None),
    ];
    for (path, credentials, user) in rows {
        let mut client = server.send(format!(
            "GET {path} HTTP/1.1\r\nHost: a\r\nAuthorization: Basic {credentials}\r\n\r\n"
        ));
        let received = receive(&upstream);
        let has = |name: &str| received.variables.get(name).map(String::as_str);
        assert_eq!(has("REMOTE_USER"), user, "{path}");
        assert_eq!(has("HTTP_AUTHORIZATION").is_some(), user.is_none(), "{path}");
        received.answer("Content-Type: a/b\n\nok");
        client.answer();
    }
}

/// Regression: the page of the site was not sent for an authorizer that does not decide.
#[test]
fn the_page_of_a_site_replaces_an_error_but_no_refusal() {
    let dir = Dir::new(&[("root/a.txt", "hello")]);
    let upstream = Upstream::new();
    let mounts = format!(
        "files = {:?}\nauthorizer = \"{}\"\n\
         [[site.mount]]\npath = '/page'\nrespond = 'a page'",
        dir.path("root"),
        upstream.address
    );
    let server = Proxy::of_site("errors = { 502 = '/page', 403 = '/page' }", &mounts);
    let mut client = server.connect();
    for (said, expected) in [("nonsense\n\n", "a page"), ("Status: 403\n\nno", "no")] {
        client.send("GET /a.txt HTTP/1.1\r\nHost: a\r\n\r\n");
        receive(&upstream).answer(said);
        assert_eq!(client.answer().1, expected);
    }
}

/// Regression: the request to the authorizer stayed until it was answered.
#[test]
fn a_client_that_leaves_ends_the_request_to_the_authorizer() {
    let dir = Dir::new(&[("root/a.txt", "hello")]);
    let upstream = Upstream::new();
    let server = files(&upstream, &dir);
    let client = server.send(GET);
    let mut received = receive(&upstream);
    let reset = socket2::Socket::from(client.stream);
    reset.set_linger(Some(std::time::Duration::ZERO)).unwrap();
    drop(reset);
    assert_eq!(received.client.rest(), "");
}

/// A browser asks for a password only with the field (RFC 9110 section 15.5.2).
#[test]
fn the_page_of_a_mount_keeps_the_challenge_of_the_refusal() {
    let dir = Dir::new(&[("root/a.txt", "hello")]);
    let site = format!("auth = 'basic'\nusers = {:?}\nerrors = {{ 401 = '/denied' }}", users(&dir));
    let mounts = format!(
        "files = {:?}\n[[site.mount]]\npath = '/denied'\nauth = 'none'\nrespond = 'ask Bo'",
        dir.path("root")
    );
    let server = Proxy::of_site(&site, &mounts);
    let mut client = server.send("GET /a.txt HTTP/1.1\r\nHost: a\r\n\r\n");
    let (head, body) = client.answer();
    assert!(head.starts_with("HTTP/1.1 401 "), "{head}");
    assert!(head.to_lowercase().contains("\nwww-authenticate: basic "), "{head}");
    assert_eq!(body, "ask Bo");
}

/// Regression: the body of a refused request was taken for the next one, because the response of an
/// authorizer is a stream.
#[test]
fn the_body_of_a_refused_request_is_no_request() {
    let dir = Dir::new(&[("root/a.txt", "hello")]);
    let upstream = Upstream::new();
    let server = files(&upstream, &dir);
    for said in ["Status: 403\n\nno", "Status: 403\nContent-Length: 2\n\nno"] {
        let body = "GET /smuggled HTTP/1.1\r\nHost: a\r\n\r\n";
        let len = body.len();
        let mut client = server.send(format!(
            "POST /a.txt HTTP/1.1\r\nHost: a\r\nContent-Length: {len}\r\n\r\n{body}"
        ));
        receive(&upstream).answer(said);
        let (head, refusal) = client.answer();
        assert!(head.starts_with("HTTP/1.1 403 ") && refusal == "no", "{head}");
        assert_eq!(client.rest(), "", "{said}");
    }
}
