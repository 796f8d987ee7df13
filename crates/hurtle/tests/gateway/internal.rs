//! Files that an application names in its response, sent in place of its body: PHP-FPM, a CGI
//! program and a scripted peer.

use crate::cgi;
use crate::client::Client;
use crate::dir::Dir;
use crate::peer::receive;
use crate::php_fpm::PhpFpm;
use crate::support::{Proxy, Upstream};

#[track_caller]
fn get(client: &mut Client, target: &str, fields: &str) -> (String, String) {
    client.send(format!("GET {target} HTTP/1.1\r\nHost: a\r\n{fields}\r\n"));
    client.answer()
}

/// PHP-FPM and a server whose `internal` directory is `private` next to the application's root.
fn php() -> (PhpFpm, Proxy) {
    let php = PhpFpm::start(2);
    php.dir.write("private/a b.txt", "0123456789");
    php.dir.write("private/.hidden", "hidden");
    php.dir.write("secret.txt", "secret");
    let internal = php.dir.path("private");
    let server = Proxy::of("", &format!("{}internal = {internal:?}\n", php.mount()));
    (php, server)
}

#[test]
fn php_names_a_file_and_it_is_sent_with_conditions_and_ranges() {
    let (php, server) = php();
    let mut client = server.connect();
    let target = "/accel?name=/a%2520b.txt";
    // First from the disk, then from the cache.
    for _ in 0..2 {
        let (head, body) = get(&mut client, target, "");
        assert_eq!(body, "0123456789", "{head}");
        for line in [
            "HTTP/1.1 200 OK",
            "Content-Length: 10",
            "Content-Type: application/pdf",
            "Content-Disposition: attachment",
            "Set-Cookie: a=1",
            "Accept-Ranges: bytes",
        ] {
            let lower = line.to_lowercase();
            assert!(head.lines().any(|l| l.to_lowercase() == lower), "{line}: {head}");
        }
        for gone in ["x-accel", "x-other", "x-powered-by"] {
            assert!(!head.to_lowercase().contains(gone), "{gone}: {head}");
        }
    }
    let (head, _) = get(&mut client, target, "");
    let tag = head.lines().find_map(|line| line.strip_prefix("ETag: ")).expect("a tag");
    let (head, _) = get(&mut client, target, &format!("If-None-Match: {tag}\r\n"));
    assert!(head.starts_with("HTTP/1.1 304 "), "{head}");
    let (head, body) = get(&mut client, target, "Range: bytes=2-4\r\n");
    assert!(head.starts_with("HTTP/1.1 206 ") && body == "234", "{head}");
    let (head, body) = get(&mut client, "/sendfile?name=a+b.txt", "");
    assert!(head.starts_with("HTTP/1.1 404 ") && body.starts_with("404"), "{head}: leads out");
    client.send(format!("HEAD {target} HTTP/1.1\r\nHost: a\r\n\r\n"));
    assert!(client.head().contains("Content-Length: 10"));
    // The file cannot be requested directly.
    assert_eq!(get(&mut client, "/private/a%20b.txt", "").1, "no page /private/a%20b.txt");
    drop(php);
}

#[test]
fn names_outside_of_the_internal_directory_are_not_found() {
    crate::log::begin();
    let (php, server) = php();
    let mut client = server.connect();
    let table = [
        ("a file that is not there", "/no.txt"),
        ("a hidden one", "/.hidden"),
        ("one beside the directory", "/../secret.txt"),
        ("the same, encoded", "/%252e%252e/secret.txt"),
        ("the directory", "/"),
        ("no path", "secret"),
    ];
    for (sentence, name) in table {
        let (head, body) = get(&mut client, &format!("/accel?name={name}"), "");
        assert!(head.starts_with("HTTP/1.1 404 "), "{sentence}: {head}");
        assert_eq!(body, "404 Not Found\n", "{sentence}");
    }
    assert!(!crate::log::lines_with("/no.txt: an upstream named it").is_empty());
    drop(php);
}

#[test]
fn a_program_may_name_a_file_without_other_fields() {
    let dir = Dir::new(&[("private/a.txt", "the file")]);
    let file = dir.path("private/a.txt").display().to_string();
    dir.program("bin/name.sh", &format!("#!/bin/sh\nprintf 'X-Sendfile: {file}\\n\\n'\n"));
    let server = cgi::server(&dir, &format!("internal = {:?}", dir.path("private")));
    let (head, body) = cgi::get(&mut server.connect(), "/cgi-bin/name.sh");
    assert!(head.starts_with("HTTP/1.1 200 ") && body == "the file", "{head}");
    assert!(head.contains("Content-Type: text/plain"), "{head}");
}

#[test]
fn a_file_named_for_a_post_ignores_ranges_and_gets_header_rules() {
    let dir = Dir::new(&[("private/a.txt", "the file")]);
    let upstream = Upstream::new();
    let rules =
        "[[site.header]]\nmatch = \"/*\"\nset = { X-Rule = \"1\" }\nremove = [\"Set-Cookie\"]\n";
    let mount = format!("fastcgi = \"{}\"\ninternal = {:?}", upstream.address, dir.path("private"));
    let server = Proxy::of("", &format!("{mount}\n{rules}"));
    let mut client = server
        .send("POST / HTTP/1.1\r\nHost: a\r\nContent-Length: 2\r\nRange: bytes=0-1\r\n\r\nab");
    receive(&upstream).answer("X-Accel-Redirect: /a.txt\nContent-Type: a/b\nSet-Cookie: a=b\n\nx");
    let (head, body) = client.answer();
    assert!(head.starts_with("HTTP/1.1 200 ") && body == "the file", "{head}");
    let lower = head.to_lowercase();
    assert!(lower.contains("x-rule: 1") && !lower.contains("set-cookie"), "{head}");
}
