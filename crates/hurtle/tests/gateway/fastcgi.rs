//! The request that a FastCGI application gets, and the response that a client gets.

use crate::dir::Dir;
use crate::peer::{
    ReceivedRequest, STDERR, STDOUT, end, read, read_input, receive, receive_on, record,
};
use crate::support::{NOBODY, Proxy, Upstream};

/// A server that forwards every path to the application.
pub(crate) fn server(upstream: &Upstream, keys: &str) -> Proxy {
    Proxy::of("", &format!("fastcgi = \"{}\"\n{keys}", upstream.address))
}

pub(crate) const DOCUMENT: &str = "Content-Type: text/plain\r\n\r\nhello";

#[test]
fn variables_are_those_of_rfc_3875() {
    let upstream = Upstream::new();
    let mount = format!(
        "path = \"/app\"\nfastcgi = \"{}\"\nparams = {{ APP_ENV = \"prod\", SERVER_SOFTWARE = \"s\" }}",
        upstream.address
    );
    let server = Proxy::of("", &mount);
    let mut client = server.send(
        "POST /app/a%20b/c?q=%20 HTTP/1.1\r\nHost: Example.org:8080\r\nContent-Length: 3\r\n\
         Content-Type: a/b\r\nProxy: http://evil/\r\nX_Real_IP: 1\r\nX-Forwarded-For: 1.2.3.4\r\n\
         X-Two: 1\r\nX-Two: 2\r\nAuthorization: Basic YTpi\r\nX-Sendfile-Type: X\r\n\
         Connection: X-Hop\r\nX-Hop: 1\r\n\r\nabc",
    );
    let received = receive(&upstream);
    assert_eq!((received.role, received.keep), (1, false));
    let variables = received.variables.clone();
    for (name, value) in [
        ("GATEWAY_INTERFACE", Some("CGI/1.1")),
        ("SERVER_PROTOCOL", Some("HTTP/1.1")),
        ("SERVER_NAME", Some("Example.org")),
        ("SERVER_PORT", Some("8080")),
        ("SERVER_SOFTWARE", Some("s")),
        ("APP_ENV", Some("prod")),
        ("REQUEST_METHOD", Some("POST")),
        ("REQUEST_URI", Some("/app/a%20b/c?q=%20")),
        ("QUERY_STRING", Some("q=%20")),
        ("SCRIPT_NAME", Some("/app")),
        ("PATH_INFO", Some("/a b/c")),
        ("REMOTE_ADDR", Some("127.0.0.1")),
        ("CONTENT_LENGTH", Some("3")),
        ("CONTENT_TYPE", Some("a/b")),
        ("HTTP_X_TWO", Some("1, 2")),
        ("HTTP_HOST", Some("Example.org:8080")),
        ("HTTP_AUTHORIZATION", Some("Basic YTpi")),
        ("HTTP_PROXY", None),
        ("HTTP_X_REAL_IP", None),
        ("HTTP_X_FORWARDED_FOR", None),
        ("HTTP_X_SENDFILE_TYPE", None),
        ("HTTP_X_HOP", None),
        ("HTTPS", None),
        ("SCRIPT_FILENAME", None),
    ] {
        assert_eq!(variables.get(name).map(String::as_str), value, "{name}");
    }
    received.answer(DOCUMENT);
    let (head, body) = client.answer();
    assert!(head.starts_with("HTTP/1.1 200 OK\n"), "{head}");
    assert_eq!(body, "hello");
}

#[test]
fn an_encoded_slash_is_decoded_in_the_path_and_kept_in_the_target() {
    let upstream = Upstream::new();
    let server = server(&upstream, "");
    let table = [
        ("a part of a name", "/group%2fproject?%2f", "/group/project"),
        ("a run of them", "/x/http:%2F%2Fa%2F", "/x/http:/a/"),
        ("dots beside it", "/x%2F..%2Fy", "/y"),
        ("encoded twice", "/x%252Fy", "/x%2Fy"),
    ];
    let mut client = server.connect();
    for (sentence, target, info) in table {
        client.send(format!("GET {target} HTTP/1.1\r\nHost: a\r\n\r\n"));
        let received = receive(&upstream);
        assert_eq!(received.variables["PATH_INFO"], info, "{sentence}");
        assert_eq!(received.variables["REQUEST_URI"], target, "{sentence}");
        received.answer(DOCUMENT);
        assert_eq!(client.answer().1, "hello", "{sentence}");
    }
    client.send("GET /..%2Fx HTTP/1.1\r\nHost: a\r\n\r\n");
    assert!(client.head().starts_with("HTTP/1.1 404 "), "above the root");
    upstream.expect_no_connection();
}

#[test]
fn request_and_response_are_streamed() {
    let upstream = Upstream::new();
    let server = Proxy::of("", &format!("fastcgi = \"{}\"\nbuffer = \"off\"", upstream.address));
    let mut client = server.send("POST / HTTP/1.1\r\nHost: a\r\nContent-Length: 6\r\n\r\none");
    let ReceivedRequest { client: mut app, .. } = receive(&upstream);
    assert_eq!(read(&mut app), (5, b"one".to_vec()), "before the rest is there");
    app.send(record(STDOUT, "Content-Type: a/b\n\nfirst"));
    assert!(client.head().contains("Transfer-Encoding: chunked"));
    assert_eq!(client.chunk(), "first", "before the request's end");
    client.send("two");
    assert_eq!(read_input(&mut app), b"two");
    app.send([record(STDOUT, "second"), end()].concat());
    assert_eq!(client.chunks(), b"second");
}

#[test]
fn a_large_body_is_cut_into_records_and_arrives_whole() {
    let upstream = Upstream::new();
    let server = server(&upstream, "");
    let body: Vec<u8> = (0..300_000u32).map(|n| (n % 251) as u8).collect();
    let head = format!("PUT / HTTP/1.1\r\nHost: a\r\nContent-Length: {}\r\n\r\n", body.len());
    let mut client = server.send(head);
    std::thread::scope(|scope| {
        let sender = client.stream.try_clone().unwrap();
        let sent = body.clone();
        scope.spawn(move || std::io::Write::write_all(&mut &sender, &sent).unwrap());
        let mut received = receive(&upstream);
        assert!(read_input(&mut received.client) == body, "the same bytes");
        received.client.send([record(STDOUT, DOCUMENT), end()].concat());
        assert_eq!(client.answer().1, "hello");
    });
}

#[test]
fn a_client_gets_100_continue_when_its_body_is_read() {
    let upstream = Upstream::new();
    let server = server(&upstream, "");
    let mut client = server
        .send("POST / HTTP/1.1\r\nHost: a\r\nContent-Length: 2\r\nExpect: 100-continue\r\n\r\n");
    assert_eq!(client.line(), "HTTP/1.1 100 Continue");
    assert_eq!(client.line(), "");
    upstream.expect_no_connection();
    client.send("ok");
    receive(&upstream).answer(DOCUMENT);
    assert_eq!(client.answer().1, "hello");
}

#[test]
fn a_response_is_converted_to_http() {
    let upstream = Upstream::new();
    let server = server(&upstream, "");
    let table: [(&str, &str, &str, &[&str], &str); 7] = [
        (
            "GET",
            "no more than the length, in one piece",
            "Content-Type: a/b\nContent-Length: 2\n\nok\n",
            &["HTTP/1.1 200 OK", "Content-Length: 2"],
            "ok",
        ),
        ("GET", "a status", "Status: 404 Gone Fishing\n\nx", &["HTTP/1.1 404 Not Found"], "x"),
        (
            "GET",
            "a redirect",
            "Location: /there\r\n\r\n",
            &["HTTP/1.1 302 Found", "Location: /there"],
            "",
        ),
        (
            "GET",
            "a length",
            "Content-Type: a/b\nContent-Length: 2\n\nok",
            &["HTTP/1.1 200 OK", "Content-Length: 2"],
            "ok",
        ),
        (
            "HEAD",
            "no body for HEAD",
            "Content-Type: a/b\nContent-Length: 2\n\n",
            &["HTTP/1.1 200 OK", "Content-Length: 2"],
            "",
        ),
        ("GET", "nothing", "Status: 204\n\n", &["HTTP/1.1 204 No Content"], ""),
        (
            "GET",
            "fields in order",
            "Set-Cookie: a\nSet-Cookie: b\nStatus: 200\n\nx",
            &["Set-Cookie: a", "Set-Cookie: b"],
            "x",
        ),
    ];
    for (method, sentence, said, lines, expected) in table {
        let mut client = server.send(format!("{method} / HTTP/1.1\r\nHost: a\r\n\r\n"));
        receive(&upstream).answer(said);
        let head = client.head();
        for line in lines {
            assert!(head.lines().any(|l| l == *line), "{sentence}: {line}: {head}");
        }
        let body =
            if head.contains("chunked") { client.chunks() } else { client.take(expected.len()) };
        assert_eq!(body, expected.as_bytes(), "{sentence}");
        // The connection persists.
        client.send("OPTIONS * HTTP/1.1\r\nHost: a\r\n\r\n");
        assert!(client.head().starts_with("HTTP/1.1 204"), "{sentence}");
    }
}

#[test]
fn fields_for_the_server_are_not_sent_to_clients() {
    let upstream = Upstream::new();
    let server = server(&upstream, "");
    let mut client = server.send("GET / HTTP/1.1\r\nHost: a\r\n\r\n");
    receive(&upstream).answer(
        "Content-Type: a/b\nX-Sendfile: /etc/passwd\nX-Accel-Redirect: /a\nConnection: x\n\
         Keep-Alive: 1\nX-Kept: 1\n\nx",
    );
    let (head, body) = client.answer();
    assert!(head.contains("X-Kept: 1\n") || head.contains("x-kept: 1\n"), "{head}");
    for gone in ["sendfile", "accel", "connection:", "keep-alive"] {
        assert!(!head.to_lowercase().contains(gone), "{gone}: {head}");
    }
    assert_eq!(body, "x");
}

#[test]
fn a_connection_is_kept_if_configured_and_a_lost_one_is_replaced() {
    let upstream = Upstream::new();
    let server = server(&upstream, "keep_connections = 1");
    let mut client = server.connect();
    let get = "GET / HTTP/1.1\r\nHost: a\r\n\r\n";
    client.send(get);
    let first = receive(&upstream);
    assert!(first.keep);
    let app = first.answer(DOCUMENT);
    assert_eq!(client.answer().1, "hello");
    client.send(get);
    let app = receive_on(app).answer(DOCUMENT);
    assert_eq!(client.answer().1, "hello", "on the same connection");
    // The application closes its connection when the next request is in flight.
    client.send(get);
    drop(receive_on(app));
    receive(&upstream).answer(DOCUMENT);
    assert_eq!(client.answer().1, "hello", "on another connection");
}

#[test]
fn standard_error_is_logged_in_lines_with_a_limit() {
    crate::log::begin();
    let upstream = Upstream::new();
    let server = server(&upstream, "");
    let mut client = server.send("GET / HTTP/1.1\r\nHost: a\r\n\r\n");
    let mut received = receive(&upstream);
    read_input(&mut received.client);
    let name = upstream.address.to_string();
    let evil = "first complaint\x1b[2J\nsecond";
    let lines = "a rather long complaint of no interest to anybody\n".repeat(1_000);
    received.client.send(record(STDERR, evil));
    received.client.send(record(STDERR, &lines));
    received.client.send([record(STDOUT, DOCUMENT), end()].concat());
    assert_eq!(client.answer().1, "hello");
    crate::dir::eventually("all is logged", || {
        !crate::log::lines_with(&format!("{name}: more output of this request")).is_empty()
    });
    assert_eq!(crate::log::lines_with(&format!("{name}: first complaint?[2J")).len(), 1);
    let logged = crate::log::lines_with(&name).len();
    assert!((100..200).contains(&logged), "{logged} lines of 1,002");
}

#[test]
fn scripts_are_existing_files_of_their_name_beneath_the_root() {
    let dir = Dir::new(&[
        ("root/index.php", ""),
        ("root/info.php", ""),
        ("root/a.jpg", "jpg"),
        ("root/sub/index.php", ""),
        ("root/empty/x.txt", "text"),
        ("root/.hidden/x.php", ""),
        ("secret.php", ""),
    ]);
    dir.link("root/out.php", "../secret.php");
    dir.link("root/in.php", "info.php");
    let upstream = Upstream::new();
    let server = server(&upstream, &format!("root = {:?}", dir.path("root")));
    let table: [(&str, &str, Result<(&str, &str), u16>); 27] = [
        ("the index", "/", Ok(("index.php", ""))),
        ("a script", "/info.php", Ok(("info.php", ""))),
        ("what is behind it", "/info.php/a/b", Ok(("info.php", "/a/b"))),
        ("its slash", "/info.php/", Ok(("info.php", "/"))),
        ("a directory's index", "/sub/", Ok(("sub/index.php", ""))),
        ("a directory without its slash", "/sub", Err(301)),
        ("nothing there", "/blog/post", Ok(("index.php", ""))),
        ("a directory without an index", "/empty/", Ok(("index.php", ""))),
        ("the same without its slash", "/empty", Ok(("index.php", ""))),
        ("a link that stays", "/in.php", Ok(("in.php", ""))),
        ("a file", "/a.jpg", Err(200)),
        ("a script that is none", "/a.jpg/x.php", Err(404)),
        ("the same, encoded", "/a.jpg%2Fx.php", Err(404)),
        ("a script that is not there", "/missing.php", Err(404)),
        ("a link that leads out", "/out.php", Err(404)),
        ("a hidden one", "/.hidden/x.php", Err(404)),
        ("another case", "/info.PHP", Err(404)),
        ("a script behind a script that is not there", "/no.php/info.php", Err(404)),
        ("an encoded slash behind a script", "/info.php/a%2Fb", Ok(("info.php", "/a/b"))),
        ("one in a name that is not there", "/group%2fproject", Ok(("index.php", ""))),
        ("up, to where it began", "/info.php/a%2F..%2Fb", Ok(("info.php", "/b"))),
        ("a script if decoded", "/sub%2Findex.php", Err(404)),
        ("another script if decoded", "/info.php%2Fa", Err(404)),
        ("the same by its directory", "/sub%2F", Err(404)),
        ("up to another script", "/info.php/..%2Fsub%2Findex.php", Err(404)),
        ("a file if decoded", "/empty%2Fx.txt", Err(404)),
        ("a hidden file if decoded", "/x%2F.hidden%2Fx.php", Err(404)),
    ];
    let mut client = server.connect();
    for (sentence, path, expected) in table {
        client.send(format!("GET {path} HTTP/1.1\r\nHost: a\r\n\r\n"));
        let Ok((file, info)) = expected else {
            let (head, _) = client.answer();
            let status = format!("HTTP/1.1 {} ", expected.unwrap_err());
            assert!(head.starts_with(&status), "{sentence}: {head}");
            continue;
        };
        let received = receive(&upstream);
        let variables = received.variables.clone();
        let root = dir.path("root").display().to_string();
        assert_eq!(variables["SCRIPT_FILENAME"], format!("{root}/{file}"), "{sentence}");
        assert_eq!(variables["SCRIPT_NAME"], format!("/{file}"), "{sentence}");
        assert_eq!(variables["PATH_INFO"], info, "{sentence}");
        assert_eq!(variables["DOCUMENT_ROOT"], root, "{sentence}");
        assert_eq!(variables["REQUEST_URI"], path, "{sentence}");
        received.answer(DOCUMENT);
        assert_eq!(client.answer().1, "hello", "{sentence}");
    }
    upstream.expect_no_connection();
}

#[test]
fn a_rule_sets_the_query_and_leaves_the_target() {
    let upstream = Upstream::new();
    let rule = "[[site.rule]]\nmatch = \"/wiki/*\"\nrewrite = \"/index?title={1}&{query}\"";
    let server = Proxy::of_site(rule, &format!("fastcgi = \"{}\"", upstream.address));
    let mut client = server.send("GET /wiki/A%20b?c=d HTTP/1.1\r\nHost: a\r\n\r\n");
    let received = receive(&upstream);
    assert_eq!(received.variables["QUERY_STRING"], "title=A%20b&c=d");
    assert_eq!(received.variables["PATH_INFO"], "/index");
    assert_eq!(received.variables["REQUEST_URI"], "/wiki/A%20b?c=d");
    received.answer(DOCUMENT);
    assert_eq!(client.answer().1, "hello");
}

#[test]
fn several_addresses_get_requests_in_turn() {
    let upstreams = [Upstream::new(), Upstream::new()];
    let [one, other] = upstreams.each_ref().map(|upstream| upstream.address);
    let server = Proxy::of("", &format!("fastcgi = [\"{one}\", \"{other}\"]"));
    for turn in 0..4 {
        let mut client = server.send("POST /a HTTP/1.1\r\nHost: a\r\nContent-Length: 3\r\n\r\nabc");
        receive(&upstreams[turn % 2]).answer(DOCUMENT);
        assert_eq!(client.answer().1, "hello", "{turn}");
    }
}

#[test]
fn an_address_that_accepts_no_connection_is_left_out() {
    let upstream = Upstream::new();
    let server = Proxy::of("", &format!("fastcgi = [\"{NOBODY}\", \"{}\"]", upstream.address));
    for turn in 0..3 {
        let mut client = server.send("POST /a HTTP/1.1\r\nHost: a\r\nContent-Length: 3\r\n\r\nabc");
        let mut app = receive(&upstream);
        assert_eq!(read_input(&mut app.client), b"abc", "{turn}");
        app.client.send([record(STDOUT, DOCUMENT), end()].concat());
        assert_eq!(client.answer().1, "hello", "{turn}");
    }
    let server = Proxy::of("", &format!("fastcgi = [\"{NOBODY}\", \"{NOBODY}\"]"));
    let (head, _) = server.send("GET / HTTP/1.1\r\nHost: a\r\n\r\n").answer();
    assert!(head.starts_with("HTTP/1.1 502 "), "{head}");
}

#[test]
fn a_request_waits_for_an_application_that_restarts() {
    let socket = socket2::Socket::new(socket2::Domain::IPV4, socket2::Type::STREAM, None).unwrap();
    socket.bind(&"127.0.0.1:0".parse::<std::net::SocketAddr>().unwrap().into()).unwrap();
    let address = socket.local_addr().unwrap().as_socket().unwrap();
    let server = Proxy::of("", &format!("fastcgi = \"{address}\"\nretry_for = \"1h\""));
    let mut client = server.send("POST /a HTTP/1.1\r\nHost: a\r\nContent-Length: 3\r\n\r\nabc");
    // Without `retry_for` the same request fails.
    let other = Proxy::of("", &format!("fastcgi = \"{address}\""));
    let (head, _) = other.send("GET / HTTP/1.1\r\nHost: a\r\n\r\n").answer();
    assert!(head.starts_with("HTTP/1.1 502 "), "{head}");
    socket.listen(1).unwrap();
    let mut app = receive(&Upstream::of(socket.into()));
    assert_eq!(read_input(&mut app.client), b"abc");
    app.client.send([record(STDOUT, DOCUMENT), end()].concat());
    assert_eq!(client.answer().1, "hello");
}

#[test]
fn fields_of_requests_are_edited() {
    let upstream = Upstream::new();
    let fields = "request_fields = { set = { X-Port = \"{server.port}\", X-Of = \"{client} {path}?{query}\", \
                  X-Empty = \"{request.X-None}\", Host = \"app.internal\", \
                  X-Real-IP = \"{client}\", X-Forwarded-Port = \"443\" }, add = { X-Tag = \"b\" }, \
                  remove = [\"Cookie\"] }";
    let server = server(&upstream, fields);
    let mut client = server.send(
        "GET /a%20b?c HTTP/1.1\r\nHost: a\r\nX-Port: 1\r\nX-Of: evil\r\nX-Empty: evil\r\nX-Tag: a\r\n\
         Cookie: s=1\r\nX-Kept: 1\r\nX_Port: 2\r\nX-Real-IP: 1.2.3.4\r\nX-Forwarded-Port: 1\r\n\
         Connection: X-Port, X-Real-IP, X-Hop\r\nX-Hop: 1\r\n\r\n",
    );
    let received = receive(&upstream);
    let port = server.address.port().to_string();
    for (name, value) in [
        ("HTTP_X_PORT", Some(&*port)),
        ("HTTP_X_OF", Some("127.0.0.1 /a%20b?c")),
        ("HTTP_X_EMPTY", None),
        ("HTTP_HOST", Some("app.internal")),
        ("HTTP_X_TAG", Some("a, b")),
        ("HTTP_COOKIE", None),
        ("HTTP_X_KEPT", Some("1")),
        ("HTTP_X_REAL_IP", Some("127.0.0.1")),
        ("HTTP_X_FORWARDED_PORT", Some("443")),
        ("HTTP_X_HOP", None),
    ] {
        assert_eq!(received.variables.get(name).map(String::as_str), value, "{name}");
    }
    received.answer(DOCUMENT);
    assert_eq!(client.answer().1, "hello");
}
