//! A PHP application with a front controller behind a real PHP-FPM.

use std::fs;
use std::process::Command;

use sha2::{Digest, Sha256};

use crate::client::Client;
use crate::php_fpm::PhpFpm;
use crate::support::Proxy;

/// Sends a GET; returns the status line and the body.
#[track_caller]
fn get(client: &mut Client, path: &str) -> (String, String) {
    client.send(format!("GET {path} HTTP/1.1\r\nHost: app.example\r\nX-Asked: yes\r\n\r\n"));
    client.answer()
}

#[test]
fn pages_files_and_the_front_controller() {
    let php = PhpFpm::start(2);
    let server = Proxy::of("", &php.mount());
    let mut client = server.connect();
    let table = [
        ("/", 200, "home"),
        ("/no/such/page", 404, "no page /no/such/page"),
        ("/admin/", 200, "admin"),
        ("/style.css", 200, "body { color: green }\n"),
        ("/a.jpg", 200, "<?php echo 'run'; ?>"),
        ("/a.jpg/x.php", 404, "404 Not Found\n"),
        ("/missing.php", 404, "404 Not Found\n"),
        (
            "/info.php/more/of%20it?q=1",
            200,
            "SCRIPT_NAME=/info.php\nPATH_INFO=/more/of it\nQUERY_STRING=q=1\n\
             SERVER_NAME=app.example\nPHP_SELF=/info.php/more/of it\ninfo.php\n",
        ),
    ];
    for (path, status, expected) in table {
        let (head, body) = get(&mut client, path);
        assert!(head.starts_with(&format!("HTTP/1.1 {status} ")), "{path}: {head}");
        assert_eq!(body, expected, "{path}");
    }
    let (head, _) = get(&mut client, "/style.css");
    assert!(head.contains("Content-Type: text/css") && head.contains("ETag: "), "{head}");
    let (head, _) = get(&mut client, "/admin");
    assert!(head.starts_with("HTTP/1.1 301 ") && head.contains("Location: /admin/\n"), "{head}");
    // Regression: 405, and 204 of this server.
    for method in ["POST", "OPTIONS", "DELETE"] {
        let fields = "Host: a\r\nContent-Length: 0\r\n\r\n";
        client.send(format!("{method} /admin?a=b HTTP/1.1\r\n{fields}"));
        let (head, _) = client.answer();
        assert!(head.starts_with("HTTP/1.1 308 "), "{method}: {head}");
        assert!(head.contains("Location: /admin/?a=b\n"), "{method}: {head}");
        client.send(format!("{method} /admin/?a=b HTTP/1.1\r\n{fields}"));
        assert_eq!(client.answer().1, "admin", "{method}");
    }
    client.send("POST /style.css HTTP/1.1\r\nHost: a\r\nContent-Length: 0\r\n\r\n");
    assert!(client.answer().0.starts_with("HTTP/1.1 405 "), "a file takes no POST");
}

#[test]
fn without_a_front_controller_only_scripts_and_files_are_found() {
    let php = PhpFpm::start(2);
    let server = Proxy::of("", &format!("{}\nfront_controller = false", php.mount()));
    let mut client = server.connect();
    for (path, status) in [
        ("/", 200),
        ("/admin/", 200),
        ("/admin", 301),
        ("/style.css", 200),
        ("/info.php/more", 200),
        ("/no/such/page", 404),
        ("/no/such/", 404),
        ("/missing.php", 404),
    ] {
        let (head, _) = get(&mut client, path);
        assert!(head.starts_with(&format!("HTTP/1.1 {status} ")), "{path}: {head}");
    }
}

#[test]
fn the_front_controller_answers_for_scripts_that_are_not_there() {
    let php = PhpFpm::start(2);
    let server = Proxy::of("", &format!("{}\nfront_for_scripts = true", php.mount()));
    let mut client = server.connect();
    for (path, status, expected) in [
        ("/missing.php", 404, "no page /missing.php"),
        ("/missing.php/more", 404, "no page /missing.php/more"),
        ("/a.jpg/x.php", 404, "no page /a.jpg/x.php"),
        ("/missing.PHP", 404, "no page /missing.PHP"),
        ("/.hidden.php", 404, "404 Not Found\n"),
        ("/admin/", 200, "admin"),
    ] {
        let (head, body) = get(&mut client, path);
        assert!(head.starts_with(&format!("HTTP/1.1 {status} ")), "{path}: {head}");
        assert_eq!(body, expected, "{path}");
    }
}

#[test]
fn forms_uploads_and_fields() {
    let php = PhpFpm::start(2);
    let server = Proxy::of("", &php.mount());
    let mut client = server.connect();
    client.send(
        "POST /form?q=2 HTTP/1.1\r\nHost: a\r\nContent-Length: 10\r\n\
         Content-Type: application/x-www-form-urlencoded\r\n\r\nname=Ann+B",
    );
    assert_eq!(client.answer().1, "POST Ann B 2");

    let file: Vec<u8> = (0..5_000_000u32).map(|n| (n * 7 % 253) as u8).collect();
    let before = "--x\r\nContent-Disposition: form-data; name=\"file\"; filename=\"f.bin\"\r\n\r\n";
    let body = [before.as_bytes(), &file, b"\r\n--x--\r\n"].concat();
    client.send(format!(
        "POST /upload HTTP/1.1\r\nHost: a\r\nContent-Length: {}\r\n\
         Content-Type: multipart/form-data; boundary=x\r\n\r\n",
        body.len()
    ));
    client.send(&body);
    assert_eq!(client.answer().1, format!("f.bin {} {}", file.len(), sha256_hex(&file)));

    client.send(format!("PUT /raw HTTP/1.1\r\nHost: a\r\nContent-Length: {}\r\n\r\n", file.len()));
    client.send(&file);
    assert_eq!(client.answer().1, sha256_hex(&file));

    client.send("PUT /raw HTTP/1.1\r\nHost: a\r\nTransfer-Encoding: chunked\r\n\r\n");
    client.send(format!("{:x}\r\n", file.len()));
    client.send([&file[..], b"\r\n0\r\n\r\n"].concat());
    assert_eq!(client.answer().1, sha256_hex(&file), "though nobody told its length");

    client.send("GET /fields HTTP/1.1\r\nHost: a\r\nProxy: http://evil\r\nX-Asked: yes\r\n\r\n");
    let (head, body) = client.answer();
    assert!(head.starts_with("HTTP/1.1 201 Created\n"), "{head}");
    assert_eq!(head.to_lowercase().matches("set-cookie: ").count(), 2, "{head}");
    assert_eq!(body, "no proxy yes");

    let (head, _) = get(&mut client, "/redirect");
    assert!(head.starts_with("HTTP/1.1 302 ") && head.contains("/there\n"), "{head}");
}

#[test]
fn over_http_2_without_a_length() {
    let php = PhpFpm::start(2);
    let server = Proxy::of("", &php.mount());
    let file = vec![b'x'; 300_000];
    fs::write(php.dir.path("sent"), &file).unwrap();
    let url = format!("http://{}/raw", server.connect().stream.peer_addr().unwrap());
    // From standard input, so that curl does not know the length.
    let curl = Command::new("curl")
        .args(["--silent", "--show-error", "--max-time", "10", "--http2-prior-knowledge"])
        .args(["--upload-file", "-", "--write-out", " %{http_version}", &url])
        .stdin(fs::File::open(php.dir.path("sent")).unwrap())
        .output()
        .unwrap();
    let said = String::from_utf8_lossy(&curl.stdout);
    assert_eq!(said, format!("{} 2", sha256_hex(&file)), "{:?}", curl.stderr);
}

#[test]
fn responses_are_streamed() {
    let php = PhpFpm::start(2);
    let server = Proxy::of("", &php.mount());
    let mut client = server.send("GET /flush HTTP/1.1\r\nHost: a\r\n\r\n");
    client.head();
    assert_eq!(client.chunk(), "one", "before the rest is made");
    fs::write(php.dir.path("go"), "").unwrap();
    assert_eq!(client.chunks(), b"two");
    client.send("GET /big HTTP/1.1\r\nHost: a\r\n\r\n");
    client.head();
    let body = client.chunks();
    assert_eq!(body.len(), 8 << 20);
    let right = |(n, piece): (usize, &[u8])| piece.iter().all(|&b| usize::from(b) == 97 + n % 26);
    assert!(body.chunks(1024).enumerate().all(right), "the same bytes");
}

#[test]
fn a_failure_is_reported_and_the_next_request_succeeds() {
    crate::log::begin();
    let php = PhpFpm::start(3);
    let server = Proxy::of("", &format!("{}first_byte_timeout = \"300ms\"\n", php.mount()));
    let mut client = server.connect();
    let (head, _) = get(&mut client, "/dies-early");
    assert!(head.starts_with("HTTP/1.1 502 "), "{head}");
    let (head, _) = get(&mut client, "/slow");
    assert!(head.starts_with("HTTP/1.1 504 "), "{head}");
    client.send("GET /dies HTTP/1.1\r\nHost: a\r\n\r\n");
    client.head();
    client.expect_early_end(20, "an answer that breaks off");
    let mut client = server.connect();
    assert_eq!(get(&mut client, "/complains").1, "done");
    let socket = php.dir.path("fpm.sock").display().to_string();
    crate::dir::eventually("the complaint is logged", || {
        let lines = crate::log::lines_with("a complaint of PHP");
        lines.iter().any(|line| line.contains(&socket))
    });
}

#[test]
fn a_kept_connection_occupies_one_child() {
    let php = PhpFpm::start(2);
    let server = Proxy::of("", &format!("{}keep_connections = 1\n", php.mount()));
    let mut client = server.connect();
    let (_, first) = get(&mut client, "/pid");
    for _ in 0..5 {
        assert_eq!(get(&mut client, "/pid").1, first);
    }
}

fn sha256_hex(bytes: &[u8]) -> String {
    Sha256::digest(bytes).iter().map(|byte| format!("{byte:02x}")).collect()
}
