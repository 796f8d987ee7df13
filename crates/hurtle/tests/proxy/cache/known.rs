//! Stored responses to requests that repeat: they take a shorter way, which asks the same gates
//! and follows the same routes.

use std::fs;
use std::net::SocketAddr;
use std::thread;

use super::reply;
use crate::secure::Authority;
use crate::support::{Proxy, Upstream};

/// Requests after which a response takes the shorter way.
const REPEATS: usize = 4;

const STORED: &str = "Cache-Control: public, max-age=600\r\n";

/// An upstream that answers this many requests, each with this text and its target.
fn answering(text: &'static str, requests: usize) -> (SocketAddr, thread::JoinHandle<()>) {
    let upstream = Upstream::new();
    let address = upstream.address;
    let work = move || {
        for _ in 0..requests {
            let Some((peer, head)) = upstream.next_request_if_any() else { return };
            let target = head.split(' ').nth(1).unwrap_or_default();
            reply(peer, STORED, &format!("{text} {target}"));
        }
    };
    (address, thread::spawn(work))
}

/// The response without what differs between one that is stored and one that comes from the
/// upstream.
fn answer(server: &Proxy, host: &str, (path, fields): (&str, &str)) -> String {
    let request =
        format!("GET {path} HTTP/1.1\r\nHost: {host}\r\n{fields}Connection: close\r\n\r\n");
    let (head, body) = server.send(request).answer();
    let varies = ["Date: ", "Age: ", "Cache-Status: ", "RateLimit"];
    let stays = |line: &&str| !varies.iter().any(|name| line.starts_with(name));
    let mut lines: Vec<&str> = head.lines().filter(stays).collect();
    lines.sort_unstable();
    let body = body.replace(path, "PATH");
    lines.join("\n") + &body
}

#[test]
fn known_responses_pass_the_gates_of_unknown_ones() {
    let authority = Authority::new("known-responses");
    let hash = bcrypt::hash_with_salt("secret", 4, [7; 16]).unwrap();
    fs::write(authority.dir.join("users"), format!("anna:{hash}\n")).unwrap();
    let users = authority.file("users");
    // Keys of the site, then its tables.
    let gates = [
        (format!("auth = \"basic\"\nusers = {users}\nrealm = \"r\""), ""),
        ("deny = \"127.0.0.1\"".to_owned(), ""),
        (String::new(), "[site.cors]\norigins = [\"https://b.example\"]"),
        (String::new(), "[[site.rate_limit]]\nrequests = \"1000/h\""),
    ];
    let of_mount = "concurrency = 2";
    let sets = 1 << (gates.len() + 1);
    let requests: Vec<String> =
        ["", "Authorization: Basic YW5uYTpzZWNyZXQ=\r\n", "Authorization: Basic eA==\r\n"]
            .iter()
            .flat_map(|c| ["", "Origin: https://b.example\r\n"].map(|o| format!("{c}{o}")))
            .collect();
    let (upstream, work) = answering("hello", sets * (requests.len() + 1));
    let mut text = String::new();
    for set in 0..sets {
        let has = |number: usize| set >> number & 1 == 1;
        let chosen = gates.iter().enumerate().filter(|(number, _)| has(*number));
        let (keys, tables): (Vec<&str>, Vec<&str>) =
            chosen.map(|(_, (keys, tables))| (&**keys, *tables)).unzip();
        let own = if has(gates.len()) { of_mount } else { "" };
        text += &format!(
            "[[site]]\nhosts = \"h{set}\"\n{}\n{}\n[[site.mount]]\nproxy = \"http://{upstream}\"\n\
             cache = {{}}\n{own}\n",
            keys.join("\n"),
            tables.join("\n"),
        );
    }
    let server = Proxy::written(1, &text);
    for set in 0..sets {
        let host = format!("h{set}");
        // One of these is admitted, and makes the response known.
        for _ in 0..REPEATS {
            for fields in &requests {
                answer(&server, &host, ("/k", fields));
            }
        }
        for (number, fields) in requests.iter().enumerate() {
            let unknown = answer(&server, &host, (&format!("/{number}"), fields));
            let known = answer(&server, &host, ("/k", fields));
            assert_eq!(known, unknown, "gates {set:b}, {fields}");
        }
    }
    drop(server);
    work.join().unwrap();
}

#[test]
fn known_responses_follow_the_routes_of_each_request() {
    let beta = "match = { header = { Beta = \"1\" } }";
    let rule = |to: &str| {
        format!(
            "[[site.rule]]\nmatch = {{ path = \"/a\", header = {{ Beta = \"1\" }} }}\n\
             rewrite = \"{to}\"\n"
        )
    };
    let rows = [
        (
            "mounts by a field",
            format!("[[site.mount]]\n{beta}\nproxy = \"http://ONE\"\ncache = {{}}\n"),
            ["one /a", "two /a"],
        ),
        ("a rule by a field", rule("/b"), ["two /b", "two /a"]),
        ("a rule by a field, which changes the query", rule("/a?beta"), ["two /a?beta", "two /a"]),
    ];
    for (what, keys, expected) in rows {
        let ((one, first), (two, second)) = (answering("one", 8), answering("two", 8));
        let keys = keys.replace("ONE", &one.to_string());
        let text =
            format!("[[site]]\n{keys}\n[[site.mount]]\nproxy = \"http://{two}\"\ncache = {{}}\n");
        let server = Proxy::written(1, &text);
        for round in 0..2 * REPEATS {
            for (fields, expected) in ["Beta: 1\r\n", ""].into_iter().zip(expected) {
                let request =
                    format!("GET /a HTTP/1.1\r\nHost: a\r\n{fields}Connection: close\r\n\r\n");
                let (head, body) = server.send(request).answer();
                assert!(body == expected, "{what}, round {round}: {head}{body}");
            }
        }
        drop(server);
        drop((first, second));
    }
}

#[test]
fn a_known_error_has_the_page_of_the_mount() {
    let upstream = Upstream::new();
    let keys = "cache = {}\nintercept_errors = true\nerrors = { 404 = \"@page\" }\n\
                [[site.mount]]\nname = \"page\"\nrespond = \"no such page\"\nstatus = 404";
    let server = Proxy::with(&[upstream.address], keys);
    let request = "GET /gone HTTP/1.1\r\nHost: a\r\nConnection: close\r\n\r\n";
    for round in 0..2 * REPEATS {
        let mut client = server.send(request);
        if round == 0 {
            let (mut peer, _) = upstream.next_request();
            peer.send(format!(
                "HTTP/1.1 404 Not Found\r\n{STORED}Content-Length: 3\r\nConnection: close\r\n\r\nits"
            ));
        }
        let (head, body) = client.answer();
        assert!(head.starts_with("HTTP/1.1 404 "), "{head}");
        assert_eq!(body, "no such page", "round {round}: {head}");
    }
    upstream.expect_no_connection();
}

#[test]
fn a_known_response_has_the_timeouts_and_fields_of_its_mount() {
    let (upstream, _work) = answering("hello", 4);
    let text = format!(
        "[[site]]\n[[site.mount]]\npath = \"/a\"\nproxy = \"http://{upstream}\"\ncache = {{}}\n\
         write_stall = \"7s\"\n[[site.mount.header]]\nset = {{ X-Mount = \"a\" }}\n\
         [[site.mount]]\nfiles = \"/nowhere\"\n"
    );
    let server = Proxy::written(1, &text);
    for round in 0..2 * REPEATS {
        let answer = answer(&server, "a", ("/a/x", ""));
        assert!(answer.contains("X-Mount: a"), "round {round}: {answer}");
        assert!(answer.ends_with("hello PATH"), "round {round}: {answer}");
    }
}

#[test]
fn a_response_that_depends_on_the_sent_target_is_stored_for_that_target() {
    let upstream = Upstream::new();
    let text = format!(
        "[[site]]\n[[site.rule]]\nmatch = \"/*\"\nrewrite = \"/index\"\n\
         [[site.mount]]\nproxy = \"http://{}\"\ncache = {{}}\n\
         request_fields = {{ set = {{ X-Sent = \"{{uri}}\" }} }}\n",
        upstream.address
    );
    let work = thread::spawn(move || {
        for _ in 0..3 {
            let Some((peer, head)) = upstream.next_request_if_any() else { return };
            let sent = head.lines().find(|line| line.to_ascii_lowercase().starts_with("x-sent: "));
            reply(peer, STORED, sent.and_then(|line| line.get(8..)).unwrap_or_default());
        }
    });
    let server = Proxy::written(1, &text);
    for round in 0..2 * REPEATS {
        for path in ["/a", "/b", "/a?b"] {
            let answer = answer(&server, "a", (path, ""));
            assert!(answer.ends_with("PATH"), "round {round}, {path}: {answer}");
        }
    }
    drop(server);
    work.join().unwrap();
}
