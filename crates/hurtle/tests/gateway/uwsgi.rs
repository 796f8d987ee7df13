//! uWSGI applications: a scripted one, byte by byte, and uWSGI itself with a program in Python.

use std::collections::BTreeMap;

use crate::client::Client;
use crate::support::{NOBODY, Proxy, Upstream};
use crate::uwsgi_server::UwsgiServer;

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
fn a_body_that_ends_before_its_length_is_cut() {
    let upstream = Upstream::new();
    let server = server(&upstream, "");
    let mut client = server.send("GET / HTTP/1.1\r\nHost: a\r\n\r\n");
    let (mut application, _) = receive(&upstream);
    application.send("HTTP/1.1 200 OK\r\nContent-Length: 10\r\n\r\nhalf");
    drop(application);
    assert!(client.head().starts_with("HTTP/1.1 200 "));
    client.expect_early_end(10, "an application that stops");
}

/// Regression: the half that came was a complete response for the client.
#[test]
fn a_compressed_body_that_ends_before_its_length_is_cut() {
    let upstream = Upstream::new();
    let server = server(&upstream, "compress = true");
    let mut client = server.send("GET / HTTP/1.1\r\nHost: a\r\nAccept-Encoding: gzip\r\n\r\n");
    let (mut application, _) = receive(&upstream);
    let half = "half".repeat(10_000);
    application.send(format!(
        "HTTP/1.1 200 OK\r\nContent-Type: text/html\r\nContent-Length: 80000\r\n\r\n{half}"
    ));
    drop(application);
    let head = client.head();
    assert!(head.contains("Content-Encoding: gzip\n"), "{head}");
    // A complete one leaves the connection open.
    client.expect_early_end(80_000, "an application that stops");
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

#[test]
fn uwsgi_runs_a_python_program_at_the_root_and_beneath_a_path() {
    let uwsgi = UwsgiServer::start();
    let address = format!("uwsgi = \"unix:{}\"\n", uwsgi.socket());
    let root = Proxy::of("", &address);
    let answer = root.send("GET /a%20b?q=1 HTTP/1.1\r\nHost: a\r\nX-One: 1\r\n\r\n").answer();
    assert!(answer.0.starts_with("HTTP/1.1 200 "), "{}", answer.0);
    let expected = "REQUEST_METHOD=GET\nSCRIPT_NAME=\nPATH_INFO=/a b\nQUERY_STRING=q=1\n\
                    CONTENT_TYPE=\nHTTP_X_ONE=1\nbody=0 e3b0c442";
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

/// Regression: the path of an exact mount was the application's in part only.
#[test]
fn an_exact_mount_names_the_whole_path() {
    let upstream = Upstream::new();
    let mount = "path = \"/a/shop\"\nstrip_prefix = true\n";
    let told = [mount.to_owned(), format!("{mount}exact = true\n")].map(|keys| {
        let server = server(&upstream, &keys);
        let _client = server.send("GET /a/shop HTTP/1.1\r\nHost: a\r\n\r\n");
        let (_, mut variables) = receive(&upstream);
        ["SCRIPT_NAME", "PATH_INFO"].map(|name| variables.remove(name))
    });
    assert_eq!(told[0][0].as_deref(), Some("/a/shop"));
    assert_eq!(told[0], told[1]);
}
