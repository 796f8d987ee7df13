//! uWSGI applications: a scripted one, byte by byte, and uWSGI itself with a program in Python.

use std::collections::BTreeMap;
use std::fs;
use std::os::unix::net::UnixStream;
use std::process::{Child, Command, Stdio};

use crate::client::Client;
use crate::dir::{Dir, eventually};
use crate::support::{NOBODY, Proxy, Upstream};

fn server(upstream: &Upstream, keys: &str) -> Proxy {
    Proxy::of("", &format!("uwsgi = \"{}\"\n{keys}", upstream.address))
}

/// Accepts a connection and reads the packet that begins its request.
#[track_caller]
fn receive(upstream: &Upstream) -> (Client, BTreeMap<String, String>) {
    let mut client = upstream.accept();
    let head = client.take(4);
    assert_eq!((head[0], head[3]), (0, 0), "the modifiers");
    let packet = client.take(usize::from(u16::from_le_bytes([head[1], head[2]])));
    let mut rest = &packet[..];
    let mut text = || {
        let (len, after) = rest.split_first_chunk()?;
        let (text, after) = after.split_at(usize::from(u16::from_le_bytes(*len)));
        rest = after;
        Some(String::from_utf8(text.to_vec()).unwrap())
    };
    let mut variables = BTreeMap::new();
    while let Some(name) = text() {
        variables.insert(name, text().expect("a value for each name"));
    }
    (client, variables)
}

#[test]
fn an_application_gets_the_variables_of_the_request_and_then_the_body() {
    let upstream = Upstream::new();
    let server = server(&upstream, "params = { APP_ENV = \"prod\" }");
    let mut client = server.send(
        "POST /a%20b/c?q=%20 HTTP/1.1\r\nHost: example.org\r\nContent-Length: 3\r\n\
         Content-Type: a/b\r\nX-One: 1\r\n\r\nabc",
    );
    let (mut application, variables) = receive(&upstream);
    for (name, value) in [
        ("REQUEST_METHOD", "POST"),
        ("REQUEST_URI", "/a%20b/c?q=%20"),
        ("PATH_INFO", "/a b/c"),
        ("SCRIPT_NAME", ""),
        ("QUERY_STRING", "q=%20"),
        ("CONTENT_LENGTH", "3"),
        ("CONTENT_TYPE", "a/b"),
        ("SERVER_PROTOCOL", "HTTP/1.1"),
        ("HTTP_HOST", "example.org"),
        ("HTTP_X_ONE", "1"),
        ("APP_ENV", "prod"),
    ] {
        assert_eq!(variables.get(name).map(String::as_str), Some(value), "{name}");
    }
    assert_eq!(application.take(3), b"abc");
    application.send("HTTP/1.1 201 Created\r\nContent-Length: 2\r\n\r\nok");
    drop(application);
    let (head, body) = client.answer();
    assert!(head.starts_with("HTTP/1.1 201 Created\n"), "{head}");
    assert_eq!(body, "ok");
}

#[test]
fn a_response_is_understood_however_it_begins_and_is_cut() {
    let table = [
        ("HTTP/1.0 200 OK\r\nContent-Type: a/b\r\n\r\nhello", 200, "hello"),
        ("HTTP/1.1 404 Not Found\r\n\r\nno", 404, "no"),
        ("Status: 503 x\r\nContent-Type: a/b\r\n\r\n", 503, ""),
        ("Content-Type: a/b\n\nhello", 200, "hello"),
    ];
    let upstream = Upstream::new();
    let server = server(&upstream, "");
    for (response, status, text) in table {
        for cut in [1, 5, 9, 12, response.len()] {
            let mut client = server.send("GET / HTTP/1.1\r\nHost: a\r\nConnection: close\r\n\r\n");
            let (mut application, _) = receive(&upstream);
            application.send(&response[..cut]);
            application.send(&response[cut..]);
            drop(application);
            let answer = client.rest();
            assert!(answer.starts_with(&format!("HTTP/1.1 {status} ")), "{response:?}: {answer}");
            assert!(answer.contains(text), "{response:?}, cut at {cut}: {answer}");
        }
    }
}

#[test]
fn faults_of_an_application_are_errors() {
    let upstream = Upstream::new();
    let server = server(&upstream, "first_byte_timeout = \"100ms\"");
    let table = [
        ("it closes the connection at once", Some(""), 502),
        ("its head does not end", Some("HTTP/1.1 200 OK\r\nA: b\r\n"), 502),
        ("its status is none", Some("HTTP/1.1 abc\r\n\r\n"), 502),
        ("it says nothing", None, 504),
    ];
    for (sentence, response, status) in table {
        let mut client = server.send("GET / HTTP/1.1\r\nHost: a\r\n\r\n");
        let (mut application, _) = receive(&upstream);
        if let Some(response) = response {
            application.send(response);
            drop(application);
            let head = client.head();
            assert!(head.starts_with(&format!("HTTP/1.1 {status} ")), "{sentence}: {head}");
            continue;
        }
        let head = client.head();
        assert!(head.starts_with(&format!("HTTP/1.1 {status} ")), "{sentence}: {head}");
    }
    let nobody = Proxy::of("", &format!("uwsgi = \"{NOBODY}\""));
    let head = nobody.send("GET / HTTP/1.1\r\nHost: a\r\n\r\n").head();
    assert!(head.starts_with("HTTP/1.1 502 "), "nothing listens: {head}");
}

#[test]
fn a_request_that_the_protocol_cannot_carry_is_431() {
    let upstream = Upstream::new();
    let mount = format!("uwsgi = \"{}\"", upstream.address);
    let server = Proxy::of("[limits]\nhead_bytes = \"128 KiB\"\n", &mount);
    let field = "x".repeat(70_000);
    let head = server.send(format!("GET / HTTP/1.1\r\nHost: a\r\nX-Long: {field}\r\n\r\n")).head();
    assert!(head.starts_with("HTTP/1.1 431 "), "{head}");
}

/// A program that returns the variables it got and the length of the body.
const PROGRAM: &str = r#"
import hashlib

def application(environ, start_response):
    if environ["PATH_INFO"].endswith("/stream"):
        start_response("200 OK", [("Content-Type", "text/plain")])
        return (b"%d\n" % n for n in range(3))
    body = environ["wsgi.input"].read()
    names = ["REQUEST_METHOD", "SCRIPT_NAME", "PATH_INFO", "QUERY_STRING", "CONTENT_TYPE", "HTTP_X_ONE"]
    lines = ["%s=%s" % (name, environ.get(name)) for name in names]
    lines.append("body=%d %s" % (len(body), hashlib.sha256(body).hexdigest()[:8]))
    text = "\n".join(lines).encode()
    start_response("200 Fine", [("Content-Type", "text/plain"), ("Content-Length", str(len(text)))])
    return [text]
"#;

/// A running uWSGI with one process, stopped when dropped.
struct UwsgiServer {
    child: Child,
    dir: Dir,
}

impl UwsgiServer {
    fn start() -> UwsgiServer {
        let dir = Dir::new(&[("app.py", PROGRAM)]);
        let socket = dir.path("app.sock");
        let mut command = Command::new("uwsgi");
        command.args(["--plugin", "python3", "--master", "--processes", "1", "--die-on-term"]);
        command.arg("--socket").arg(&socket).arg("--wsgi-file").arg(dir.path("app.py"));
        command.stdin(Stdio::null()).stdout(Stdio::null());
        command.stderr(fs::File::create(dir.path("log")).unwrap());
        let mut child = command.spawn().expect("uwsgi (Debian: uwsgi-core) starts");
        eventually("uWSGI listens", || {
            let ended = child.try_wait().unwrap();
            let log = || fs::read_to_string(dir.path("log"));
            assert!(ended.is_none(), "it ended, {ended:?}: {:?}", log());
            UnixStream::connect(&socket).is_ok()
        });
        UwsgiServer { child, dir }
    }
}

impl Drop for UwsgiServer {
    fn drop(&mut self) {
        let id = i32::try_from(self.child.id()).ok().and_then(rustix::process::Pid::from_raw);
        let _ = id.map(|id| rustix::process::kill_process(id, rustix::process::Signal::TERM));
        let _ = self.child.wait();
    }
}

#[test]
fn uwsgi_runs_a_python_program_at_the_root_and_beneath_a_path() {
    let uwsgi = UwsgiServer::start();
    let address = format!("uwsgi = \"unix:{}\"\n", uwsgi.dir.path("app.sock").display());
    let root = Proxy::of("", &address);
    let answer = root.send("GET /a%20b?q=1 HTTP/1.1\r\nHost: a\r\nX-One: 1\r\n\r\n").answer();
    assert!(answer.0.starts_with("HTTP/1.1 200 "), "{}", answer.0);
    let expected = "REQUEST_METHOD=GET\nSCRIPT_NAME=\nPATH_INFO=/a b\nQUERY_STRING=q=1\n\
                    CONTENT_TYPE=None\nHTTP_X_ONE=1\nbody=0 e3b0c442";
    assert_eq!(answer.1, expected);

    let beneath = Proxy::of("", &format!("path = \"/py\"\n{address}strip_prefix = true\n"));
    let body = "x".repeat(300_000);
    let answer = beneath.send(format!(
        "POST /py/x HTTP/1.1\r\nHost: a\r\nContent-Type: a/b\r\nContent-Length: {}\r\n\r\n{body}",
        body.len()
    ));
    let answer = { answer }.answer();
    assert!(answer.1.contains("SCRIPT_NAME=/py\nPATH_INFO=/x\n"), "{}", answer.1);
    assert!(answer.1.contains("body=300000 "), "{}", answer.1);

    // A length that the client does not give is found out, and a response without one is chunked.
    let chunked =
        "POST / HTTP/1.1\r\nHost: a\r\nTransfer-Encoding: chunked\r\n\r\n3\r\nabc\r\n0\r\n\r\n";
    assert!(root.send(chunked).answer().1.contains("body=3 ba7816bf"));
    let streamed = root.send("GET /stream HTTP/1.1\r\nHost: a\r\nConnection: close\r\n\r\n").rest();
    assert!(streamed.contains("0\n") && streamed.contains("2\n"), "{streamed}");
}
