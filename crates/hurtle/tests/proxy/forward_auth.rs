//! Tests of forward authentication with scripted authentication servers and upstreams.

use crate::client::Client;
use crate::support::{LAST_OK, Proxy, Upstream};

/// A server that asks `auth` about requests to `upstream`.
fn server(auth: &Upstream, upstream: &Upstream) -> Proxy {
    let keys = format!(
        "auth = \"forward\"\nforward = \"http://{}/verify?a=1\"\nauth_timeout = \"2s\"\n\
         copy_headers = [\"Remote-User\", \"Remote-Groups\"]",
        auth.address
    );
    Proxy::of_site(&keys, &format!("proxy = \"http://{}\"", upstream.address))
}

fn has(head: &str, line: &str) -> bool {
    head.lines().any(|other| other.eq_ignore_ascii_case(line))
}

#[test]
fn a_request_that_the_server_accepts_gets_its_fields() {
    let (auth, upstream) = (Upstream::new(), Upstream::new());
    let server = server(&auth, &upstream);
    let mut client = server.send(
        "POST /app/%78?y=1 HTTP/1.1\r\nHost: a.example\r\nCookie: session=1\r\nAuthorization: Bearer t\r\n\
         Content-Length: 5\r\nRemote-User: evil\r\nremote_groups: evil\r\nIf-None-Match: \"x\"\r\n\
         X-Forwarded-Uri: /evil\r\nX-Forwarded-Method: EVIL\r\nX-Other: 1\r\n\
         Connection: Remote-User, X-Hop\r\nX-Hop: evil\r\n\r\nhello",
    );
    let (mut checker, asked) = auth.next_request();
    assert_eq!(asked.lines().next(), Some("GET /verify?a=1 HTTP/1.1"), "{asked}");
    for line in [
        "Host: a.example",
        "Cookie: session=1",
        "Authorization: Bearer t",
        "X-Other: 1",
        "X-Forwarded-Method: POST",
        "X-Forwarded-Uri: /app/%78?y=1",
        "X-Forwarded-Host: a.example",
        "X-Forwarded-Proto: http",
        "X-Forwarded-For: 127.0.0.1",
    ] {
        assert!(has(&asked, line), "{line}: {asked}");
    }
    for name in ["content-length", "transfer-encoding", "if-none-match"] {
        assert!(!asked.to_lowercase().contains(name), "{name}: {asked}");
    }
    assert_eq!(asked.to_lowercase().matches("x-forwarded-").count(), 5, "{asked}");
    upstream.expect_no_connection();
    checker.send(
        "HTTP/1.1 200 OK\r\nContent-Length: 4\r\nRemote-User: anna\r\nSet-Cookie: a=b\r\n\
         X-Secret: 1\r\n\r\nbody",
    );
    let (mut peer, head) = upstream.next_request();
    assert_eq!(peer.take(5), b"hello");
    assert!(has(&head, "Remote-User: anna"), "{head}");
    assert!(has(&head, "X-Other: 1") && has(&head, "Cookie: session=1"), "{head}");
    assert!(!head.contains("evil") && !head.contains("X-Secret"), "{head}");
    peer.send(LAST_OK);
    assert_eq!(client.answer().1, "ok");
    // The connection to the authentication server is used again.
    let mut client = server.send("GET /b HTTP/1.1\r\nHost: a\r\nRemote-User: evil\r\n\r\n");
    assert!(has(&checker.head(), "X-Forwarded-Uri: /b"));
    checker.send("HTTP/1.1 204 No Content\r\n\r\n");
    let (mut peer, head) = upstream.next_request();
    assert!(!head.contains("evil"), "{head}");
    peer.send(LAST_OK);
    assert_eq!(client.answer().1, "ok");
}

#[test]
fn a_refusal_is_relayed_as_it_came() {
    let rows = [
        (
            "HTTP/1.1 401 Unauthorized\r\nWWW-Authenticate: Bearer\r\nContent-Length: 3\r\n\r\nwho",
            "WWW-Authenticate: Bearer",
            "who",
        ),
        (
            "HTTP/1.1 302 Found\r\nLocation: https://login.example/?x\r\nSet-Cookie: s=1\r\n\
             Set-Cookie: t=2\r\nContent-Length: 0\r\n\r\n",
            "Set-Cookie: t=2",
            "",
        ),
        (
            "HTTP/1.1 403 Forbidden\r\nTransfer-Encoding: chunked\r\n\r\n2\r\nno\r\n0\r\n\r\n",
            "Transfer-Encoding: chunked",
            "no",
        ),
    ];
    // Regression: a redirect to the page of the authentication server became one to the site, which
    // redirects clients there again.
    let own = Upstream::new();
    let location = format!("Location: http://{}/login?x", own.address);
    let cookie = format!("Set-Cookie: s=1; Domain={}", own.address.ip());
    let to_itself =
        format!("HTTP/1.1 302 Found\r\n{location}\r\n{cookie}\r\nContent-Length: 0\r\n\r\n");
    let rows = rows.map(|(response, line, body)| (Upstream::new(), response, line, body));
    let more = [(own, &*to_itself, &*location, "")];
    for (auth, response, line, body) in rows.into_iter().chain(more) {
        let upstream = Upstream::new();
        let server = server(&auth, &upstream);
        // The body of the refused request is not taken for another request.
        let smuggled = "GET /smuggled HTTP/1.1\r\nHost: a\r\n\r\n";
        let mut client = server.send(format!(
            "POST / HTTP/1.1\r\nHost: a\r\nContent-Length: {}\r\n\r\n{smuggled}",
            smuggled.len()
        ));
        let (mut checker, _) = auth.next_request();
        checker.send(response);
        let (head, got) = client.answer();
        let status = response.lines().next().unwrap();
        assert!(head.starts_with(status), "{head}");
        assert!(has(&head, line), "{line}: {head}");
        assert_eq!(got, body);
        client.send("GET /next HTTP/1.1\r\nHost: a\r\n\r\n");
        let asked = next_head(&auth, checker);
        assert!(has(&asked.1, "X-Forwarded-Uri: /next"), "{}", asked.1);
        upstream.expect_no_connection();
    }
}

/// The next request, on this connection or on a new one.
fn next_head(auth: &Upstream, mut checker: Client) -> (Client, String) {
    let soon = std::time::Duration::from_millis(500);
    checker.stream.set_read_timeout(Some(soon)).unwrap();
    match checker.stream.peek(&mut [0]) {
        Ok(1) => {
            let head = checker.head();
            (checker, head)
        }
        _ => auth.next_request(),
    }
}

#[test]
fn every_failure_of_the_server_refuses_the_request() {
    let rows = [
        ("an error", "HTTP/1.1 500 Internal Server Error\r\nContent-Length: 0\r\n\r\n", 502),
        ("not found", "HTTP/1.1 404 Not Found\r\nContent-Length: 0\r\n\r\n", 502),
        ("not modified", "HTTP/1.1 304 Not Modified\r\n\r\n", 502),
        (
            "another protocol",
            "HTTP/1.1 101 Switching Protocols\r\nUpgrade: x\r\nConnection: upgrade\r\n\r\n",
            502,
        ),
        ("no HTTP", "SSH-2.0-OpenSSH\r\n\r\n", 502),
        ("half a head", "HTTP/1.1 200 OK\r\n", 502),
        ("no response", "", 502),
    ];
    for (sentence, response, status) in rows {
        let (auth, upstream) = (Upstream::new(), Upstream::new());
        let server = server(&auth, &upstream);
        let mut client = server.send("GET / HTTP/1.1\r\nHost: a\r\n\r\n");
        let (mut checker, _) = auth.next_request();
        checker.send(response);
        drop(checker);
        let (head, _) = client.answer();
        assert!(head.starts_with(&format!("HTTP/1.1 {status} ")), "{sentence}: {head}");
        upstream.expect_no_connection();
    }
    let (auth, upstream) = (Upstream::new(), Upstream::new());
    let server = server(&auth, &upstream);
    let mut client = server.send("GET / HTTP/1.1\r\nHost: a\r\n\r\n");
    let _silent = auth.next_request();
    assert!(client.answer().0.starts_with("HTTP/1.1 504 "), "a silent server");
    drop(_silent);
    drop(auth);
    let mut client = server.send("GET / HTTP/1.1\r\nHost: a\r\n\r\n");
    assert!(client.answer().0.starts_with("HTTP/1.1 502 "), "no server");
    upstream.expect_no_connection();
}

#[test]
fn the_server_decides_about_known_files_paths_without_a_mount_and_heads() {
    let auth = Upstream::new();
    let dir = std::env::temp_dir().join(format!("hurtle-forward-{}", std::process::id()));
    std::fs::create_dir_all(&dir).unwrap();
    std::fs::write(dir.join("a.txt"), "hello").unwrap();
    let keys = format!("auth = \"forward\"\nforward = \"http://{}\"", auth.address);
    let server = Proxy::of_site(&keys, &format!("path = \"/m\"\nfiles = {dir:?}"));
    let rows = [
        ("GET", "/m/a.txt", "204 No Content", "200 OK", "hello"),
        ("GET", "/m/a.txt", "204 No Content", "200 OK", "hello"),
        ("GET", "/m/a.txt", "403 Forbidden\r\nContent-Length: 2", "403 Forbidden", "no"),
        ("GET", "/elsewhere", "403 Forbidden\r\nContent-Length: 2", "403 Forbidden", "no"),
        ("HEAD", "/m/a.txt", "403 Forbidden\r\nContent-Length: 2", "403 Forbidden", ""),
    ];
    for (method, path, response, status, body) in rows {
        let mut client = server
            .send(format!("{method} {path} HTTP/1.1\r\nHost: a\r\nConnection: close\r\n\r\n"));
        let (mut checker, asked) = auth.next_request();
        assert!(asked.starts_with(&format!("{method} / HTTP/1.1\n")), "{asked}");
        let content = if response.starts_with("403") && method == "GET" { "no" } else { "" };
        checker.send(format!("HTTP/1.1 {response}\r\nConnection: close\r\n\r\n{content}"));
        let head = client.head();
        assert!(head.starts_with(&format!("HTTP/1.1 {status}\n")), "{path}: {head}");
        assert_eq!(client.rest(), body, "{method} {path}");
    }
    std::fs::remove_dir_all(&dir).unwrap();
}

/// Regression: the next question was sent on a connection that was about to close.
#[test]
fn a_connection_that_the_server_closes_is_not_used_again() {
    let (auth, upstream) = (Upstream::new(), Upstream::new());
    let server = server(&auth, &upstream);
    let mut open = Vec::new();
    for _ in 0..3 {
        let mut client = server.send("GET /a HTTP/1.1\r\nHost: a\r\n\r\n");
        let (mut checker, _) = auth.next_request();
        checker.send("HTTP/1.1 204 No Content\r\nConnection: close\r\n\r\n");
        let (mut peer, _) = upstream.next_request();
        peer.send(LAST_OK);
        assert_eq!(client.answer().1, "ok");
        open.push(checker);
    }
}
