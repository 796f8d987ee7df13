//! Logs that are not read, that do not fit on the disk, or that are renamed.

use std::fs;
use std::io::{Read as _, Write as _};
use std::net::TcpListener;
use std::os::unix::fs::{FileTypeExt, PermissionsExt, symlink};
use std::path::Path;
use std::process::Command;
use std::thread;
use std::time::{Duration, Instant};

use rustix::process::Signal;

use crate::child::{Child, eventually, hurtle};
use crate::frames::*;
use crate::support::Dir;

/// Requests whose log lines exceed the queue of a log's thread and the buffer of a pipe.
const REQUESTS: usize = 2_000;

/// Length of a User-Agent field, which makes a line long.
const AGENT_BYTES: usize = 6 << 10;

#[test]
fn a_blocked_log_delays_no_request_and_counts_lost_lines() {
    let rows: [(&str, fn(&Path), &str); 2] = [
        ("an unread pipe", |path| make_fifo(path), ""),
        ("a full disk", |path| symlink("/dev/full", path).unwrap(), "No space"),
    ];
    for (fault, make, complaint) in rows {
        let dir = Dir::new(&[("a.txt", "a\n")]);
        let log = dir.path("../access.log");
        make(&log);
        let mut child = Child::serve(&dir, &["--access-log", &format!("json:{}", log.display())]);
        let mut client = child.connect();
        let agent = "x".repeat(AGENT_BYTES);
        let mut slowest = Duration::ZERO;
        for _ in 0..REQUESTS {
            let begun = Instant::now();
            assert_eq!(
                client.request("GET", &format!("/a.txt\nUser-Agent: {agent}")).text(),
                "a\n"
            );
            slowest = slowest.max(begun.elapsed());
        }
        println!("{fault}: slowest answer {slowest:?}");
        // A blocked log would delay a request without end.
        assert!(slowest < Duration::from_secs(5), "{fault}: {slowest:?}");
        let begun = Instant::now();
        child.signal(Signal::TERM);
        assert_eq!(child.wait().code(), Some(0), "{fault}");
        assert!(begun.elapsed() < Duration::from_secs(6), "{fault}: {:?}", begun.elapsed());
        let said = child.stderr();
        assert!(said.contains("access log"), "{fault}: not a word: {said}");
        assert!(said.contains("lines were dropped"), "{fault}: not counted: {said}");
        assert!(said.contains(complaint), "{fault}: {said}");
    }
}

/// The upstream has the whole request at once, and has sent its whole response before the client
/// reads.
#[test]
fn the_log_has_the_bytes_that_were_kept_in_files_for_slow_clients() {
    const SENT: usize = 1_000_000;
    const READ: usize = 20 << 20;
    let dir = Dir::new(&[]);
    let log = dir.path("../access.log");
    let upstream = TcpListener::bind("127.0.0.1:0").unwrap();
    let config = format!(
        "[access_log]\nformat = 'json'\nfields = ['request_buffered_bytes', 'response_buffered_bytes']\n\
         path = '{}'\n[[site]]\n[[site.mount]]\nproxy = 'http://{}'\n",
        log.display(),
        upstream.local_addr().unwrap()
    );
    let mut child = Child::configured(&dir, &config);
    let mut client = child.connect();
    let head = "POST / HTTP/1.1\r\nHost: a\r\n";
    client.send(format!("{head}Content-Length: {SENT}\r\n\r\n{}", "x".repeat(SENT)));
    let (mut peer, _) = upstream.accept().unwrap();
    let mut request = Vec::new();
    while !request.ends_with(&[b'x'; SENT]) {
        let mut piece = [0; 64 << 10];
        let len = peer.read(&mut piece).unwrap();
        assert!(len > 0, "the request ended early");
        request.extend_from_slice(&piece[..len]);
    }
    peer.write_all(format!("HTTP/1.1 200 OK\r\nContent-Length: {READ}\r\n\r\n").as_bytes())
        .unwrap();
    peer.write_all(&vec![b'y'; READ]).unwrap();
    assert_eq!(client.response().body.len(), READ);
    assert_eq!(client.request("GET", "*").status, 400);
    child.signal(Signal::TERM);
    assert_eq!(child.wait().code(), Some(0));
    let text = fs::read_to_string(&log).unwrap();
    let lines: Vec<serde_json::Value> =
        text.lines().map(|line| serde_json::from_str(line).unwrap()).collect();
    assert_eq!(lines[0]["request_buffered_bytes"], SENT, "{text}");
    let kept = lines[0]["response_buffered_bytes"].as_u64().unwrap() as usize;
    assert!(kept > 0 && kept <= READ, "{text}");
    assert_eq!(lines[1]["response_buffered_bytes"], 0, "of another request: {text}");
}

/// Regression: the log named the path beneath the mount.
#[test]
fn an_application_that_fails_is_logged_with_the_path_as_sent() {
    let dir = Dir::new(&[]);
    let gone = "'unix:{root}/../gone.sock'";
    let config = format!(
        "[[site]]\n[[site.mount]]\npath = '/app'\nuwsgi = {gone}\n\
         [[site.mount]]\npath = '/php'\nfastcgi = {gone}\n"
    );
    let mut child = Child::configured(&dir, &config);
    for path in ["/app/a%20b", "/php/x"] {
        assert_eq!(child.get(path).status, 502, "{path}");
    }
    child.signal(Signal::TERM);
    assert_eq!(child.wait().code(), Some(0));
    let said = child.stderr();
    for request in ["(GET /app/a%20b: 502)", "(GET /php/x: 502)"] {
        assert!(said.contains(request), "{request} is not in: {said}");
    }
}

/// Behind a proxy, the requests of many visitors come over one connection.
#[test]
fn a_refused_request_is_logged_without_the_visitor_of_the_request_before() {
    let dir = Dir::new(&[("a.txt", "a\n")]);
    let log = dir.path("../access.log");
    let config = format!(
        "root = '{{root}}'\ntrusted_proxies = ['127.0.0.0/8']\n[limits]\nbody_bytes = '9 B'\n\
         [access_log]\nformat = 'json'\n\
         fields = ['client', 'method', 'target', 'status', 'host', 'user_agent', 'cache', 'request_bytes']\n\
         path = '{}'\n",
        log.display()
    );
    let visitor = "/a.txt\nX-Forwarded-For: 192.0.2.7\nUser-Agent: theirs";
    let large = format!("{visitor}\nContent-Length: 12");
    let rows = [
        ("BAD\r\n\r\n", r#""client":"127.0.0.1","method":"","target":"BAD","status":400"#),
        (
            "GET /x HTTP/1.1\r\n\r\n",
            r#""client":"127.0.0.1","method":"GET","target":"/x","status":400"#,
        ),
        ("GET /x HTTP/9.9\r\nHost: a\r\n\r\n", r#""method":"GET","target":"/x","status":505"#),
    ];
    let mut child = Child::configured(&dir, &config);
    for (bytes, _) in rows {
        let mut client = child.connect();
        assert_eq!(client.request("GET", visitor).status, 200);
        client.send(bytes);
        assert!(client.response().status >= 400);
    }
    let mut client = child.connect();
    assert_eq!(client.request("GET", &large).status, 413);
    child.signal(Signal::TERM);
    assert_eq!(child.wait().code(), Some(0));
    let text = fs::read_to_string(&log).unwrap();
    let lines: Vec<&str> = text.lines().collect();
    assert_eq!(lines.len(), 2 * rows.len() + 1, "{text}");
    for (number, (_, expected)) in rows.iter().enumerate() {
        let (of_visitor, refused) = (lines[2 * number], lines[2 * number + 1]);
        assert!(of_visitor.contains("192.0.2.7"), "{of_visitor}");
        assert!(refused.contains(expected), "{refused}");
        assert!(!refused.contains("192.0.2.7") && !refused.contains("theirs"), "{refused}");
    }
    let refused = lines[lines.len() - 1];
    let expected = r#""client":"192.0.2.7","method":"GET","target":"/a.txt","status":413"#;
    assert!(refused.contains(expected), "a body that is refused belongs to its request: {refused}");
    let said = child.stderr();
    let refused = "192.0.2.7: GET /a.txt: refused by `body_bytes`";
    assert!(said.contains(refused), "{said}");
}

#[test]
fn renamed_logs_are_reopened() {
    let dir = Dir::new(&[("a.txt", "a\n"), ("b.txt", "b\n")]);
    let (access, errors) = (dir.path("../access.log"), dir.path("../error.log"));
    // A server that has given up root opens the logs as its new user.
    fs::set_permissions(dir.path(".."), fs::Permissions::from_mode(0o777)).unwrap();
    let config = format!(
        "root = '{{root}}'\n[access_log]\nformat = 'combined'\npath = '{}'\n\
         [error_log]\nlevel = 'debug'\npath = '{}'\n",
        access.display(),
        errors.display()
    );
    let child = Child::configured(&dir, &config);
    let lines = |path: &Path| fs::read_to_string(path).unwrap_or_default();
    child.get("/a.txt");
    eventually("the first line is written", || lines(&access).contains("GET /a.txt "));
    let (old, old_errors) = (access.with_extension("1"), errors.with_extension("1"));
    fs::rename(&access, &old).unwrap();
    fs::rename(&errors, &old_errors).unwrap();
    child.signal(Signal::USR1);
    eventually("a line is written to a new file", || {
        child.get("/b.txt");
        lines(&access).contains("GET /b.txt ")
    });
    eventually("an event is written to a new file", || {
        child.signal(Signal::HUP);
        lines(&errors).contains("reloaded")
    });
    assert!(!lines(&access).contains("/a.txt"), "the old lines stay where they were");
    assert!(lines(&old).contains("GET /a.txt "));
}

#[test]
fn a_json_line_has_exactly_the_configured_fields() {
    let dir = Dir::new(&[("a.txt", "hello\n")]);
    let log = dir.path("../access.log");
    let config = format!(
        "root = '{{root}}'\n[access_log]\nformat = 'json'\nfields = ['status', 'method', 'target', \
         'client', 'body_bytes', 'host', 'referer', 'user_agent', 'protocol']\npath = '{}'\n",
        log.display()
    );
    let child = Child::configured(&dir, &config);
    let mut client = child.connect();
    client.request("GET", "/a.txt?q=1\nHost: example.org\nReferer: http://r/\nUser-Agent: \"me\"");
    client.request("HEAD", "/none");
    client.send("GET / HTTP/1.1\r\nbad header\r\n\r\n");
    client.response();
    let text = || fs::read_to_string(&log).unwrap_or_default();
    eventually("three lines are written", || text().lines().count() == 3);
    let lines: Vec<serde_json::Value> =
        text().lines().map(|line| serde_json::from_str(line).unwrap()).collect();
    let expected = serde_json::json!({
        "status": 200, "method": "GET", "target": "/a.txt?q=1", "client": "127.0.0.1",
        "body_bytes": 6, "host": "example.org", "referer": "http://r/", "user_agent": "\"me\"",
        "protocol": "HTTP/1.1",
    });
    assert_eq!(lines[0], expected);
    assert_eq!((&lines[1]["status"], &lines[1]["body_bytes"]), (&404.into(), &0.into()));
    assert_eq!(lines[2]["status"], 400, "what cannot be read is logged too");
}

#[test]
fn a_json_line_names_the_end_of_the_response() {
    let dir = Dir::new(&[("a.txt", "a\n")]);
    dir.write("large.bin", vec![b'x'; 64 << 20]);
    let log = dir.path("../access.log");
    let upstream = TcpListener::bind("127.0.0.1:0").unwrap();
    let config = format!(
        "[access_log]\nformat = 'json'\nfields = ['target', 'completion']\npath = '{}'\n\
         [[site]]\n[[site.mount]]\nfiles = '{{root}}'\n\
         [[site.mount]]\npath = '/up'\nproxy = 'http://{}'\n",
        log.display(),
        upstream.local_addr().unwrap()
    );
    let child = Child::configured(&dir, &config);
    let broken = thread::spawn(move || {
        let (mut server, _) = upstream.accept().unwrap();
        let mut head = [0; 1024];
        assert!(server.read(&mut head).unwrap() > 0);
        // A third of the body that was promised.
        let part = "HTTP/1.1 200 OK\r\nContent-Length: 1000\r\n\r\n".to_owned() + &"x".repeat(300);
        server.write_all(part.as_bytes()).unwrap();
    });
    child.get("/a.txt");
    let mut client = child.connect();
    client.send("GET /up HTTP/1.1\r\nHost: a\r\n\r\n");
    assert!(String::from_utf8_lossy(&client.rest()).contains("200 OK"), "the head has been sent");
    broken.join().unwrap();
    let mut client = child.connect();
    client.send("GET /large.bin HTTP/1.1\r\nHost: a\r\n\r\n");
    let mut first = [0; 15];
    client.stream.read_exact(&mut first).unwrap();
    assert_eq!(&first, b"HTTP/1.1 200 OK");
    // Closing with unread bytes resets the connection.
    drop(client);
    let text = || fs::read_to_string(&log).unwrap_or_default();
    eventually("three lines are written", || text().lines().count() == 3);
    let mut lines: Vec<serde_json::Value> =
        text().lines().map(|line| serde_json::from_str(line).unwrap()).collect();
    lines.sort_by_key(|line| line["target"].to_string());
    let expected =
        [("/a.txt", "complete"), ("/large.bin", "client_gone"), ("/up", "source_failed")];
    for (line, (target, completion)) in lines.iter().zip(expected) {
        assert_eq!(*line, serde_json::json!({"target": target, "completion": completion}));
    }
}

/// Regression: the client was blamed for a reset of the upstream. If the server had bytes for it,
/// the tunnel was complete.
#[test]
fn a_json_line_names_the_end_of_a_tunnel() {
    let dir = Dir::new(&[]);
    let log = dir.path("../access.log");
    let upstream = TcpListener::bind("127.0.0.1:0").unwrap();
    let config = format!(
        "[access_log]\nformat = 'json'\nfields = ['target', 'completion']\npath = '{}'\n\
         [[site]]\n[[site.mount]]\nproxy = 'http://{}'\n",
        log.display(),
        upstream.local_addr().unwrap()
    );
    let child = Child::configured(&dir, &config);
    let table = [
        ("/end", false, false, "complete"),
        ("/reset", true, false, "source_failed"),
        ("/reset-with-bytes-for-it", true, true, "source_failed"),
    ];
    for (number, (target, is_reset, fills, completion)) in table.into_iter().enumerate() {
        let mut client = child.connect();
        client.send(format!(
            "GET {target} HTTP/1.1\r\nHost: a\r\nConnection: Upgrade\r\nUpgrade: websocket\r\n\
             Sec-WebSocket-Key: a\r\n\r\n"
        ));
        let (mut peer, _) = upstream.accept().unwrap();
        assert!(peer.read(&mut [0; 1024]).unwrap() > 0);
        let agreed = "HTTP/1.1 101 Switching Protocols\r\nConnection: Upgrade\r\n\
                      Upgrade: websocket\r\nSec-WebSocket-Accept: b\r\n\r\n";
        peer.write_all(agreed.as_bytes()).unwrap();
        let mut status = [0; 12];
        client.stream.read_exact(&mut status).unwrap();
        assert_eq!(&status, b"HTTP/1.1 101", "{target}");
        if fills {
            client.stream.set_nonblocking(true).unwrap();
            let bytes = vec![0; 64 << 10];
            eventually("the upstream takes no more", || match client.stream.write(&bytes) {
                Ok(taken) => taken == 0,
                Err(_) => child.sleeps(),
            });
            client.stream.set_nonblocking(false).unwrap();
        }
        if is_reset {
            socket2::SockRef::from(&peer).set_linger(Some(Duration::ZERO)).unwrap();
        }
        drop(peer);
        if !is_reset {
            client.rest();
            client.half_close();
        }
        let text = || fs::read_to_string(&log).unwrap_or_default();
        eventually("a line is written", || text().lines().count() == number + 1);
        let line: serde_json::Value = serde_json::from_str(text().lines().last().unwrap()).unwrap();
        assert_eq!(line, serde_json::json!({"target": target, "completion": completion}));
    }
}

#[test]
fn verbose_prints_a_line_for_each_request() {
    let dir = Dir::new(&[("a.txt", "a\n")]);
    let child = Child::start(hurtle().arg(dir.root()).args(["-v", "--listen", "127.0.0.1:0"]));
    child.get("/a.txt");
    child.get("/none");
    let line = |parts: [&str; 3]| {
        child.stdout().lines().any(|line| parts.iter().all(|part| line.contains(part)))
    };
    eventually("a line for each", || {
        line(["GET", "/a.txt", " 200 "]) && line(["GET", "/none", " 404 "])
    });
}

fn make_fifo(path: &Path) {
    assert!(Command::new("mkfifo").arg(path).status().unwrap().success());
    assert!(fs::metadata(path).unwrap().file_type().is_fifo());
}

#[test]
fn a_request_over_http2_is_logged_with_its_protocol() {
    let dir = Dir::new(&[("a.txt", "0123456789")]);
    let log = dir.path("../access.log");
    let child = Child::serve(&dir, &["--access-log", &format!("combined:{}", log.display())]);
    let mut wire = Wire::begin(child.address(), &[]);
    wire.send(&get(1, "/a.txt"));
    assert_eq!(wire.next_of(DATA).payload, b"0123456789");
    let head = [request("HEAD", "/none?q"), field("user-agent", "x")].concat();
    wire.send(&frame(HEADERS, END_HEADERS | END_STREAM, 3, &head));
    assert_eq!(wire.next_of(HEADERS).stream, 3);
    child.get("/a.txt");
    let text = || fs::read_to_string(&log).unwrap_or_default();
    eventually("all three are there", || text().lines().count() == 3);
    let text = text();
    let said: Vec<_> = text.lines().map(|line| &line[line.find('"').unwrap()..]).collect();
    // The log counts bytes of the body, without framing.
    assert_eq!(
        said,
        [
            "\"GET /a.txt HTTP/2.0\" 200 10 \"-\" \"-\"",
            "\"HEAD /none?q HTTP/2.0\" 404 0 \"-\" \"x\"",
            "\"GET /a.txt HTTP/1.1\" 200 10 \"-\" \"-\"",
        ]
    );
}

#[test]
fn a_log_is_rotated_by_size_and_the_oldest_files_go() {
    let dir = Dir::new(&[("a.txt", "a\n"), ("../logs/keep", "")]);
    let folder = dir.path("../logs");
    fs::set_permissions(&folder, fs::Permissions::from_mode(0o777)).unwrap();
    let log = folder.join("access.log");
    let config = "root = '{root}'\n[access_log]\nformat = 'json'\nfields = ['target']\n\
                  rotate_bytes = '4 KiB'\nkeep = 2\n";
    let mut child = Child::configured(&dir, &format!("{config}path = {log:?}\n"));
    let mut client = child.connect();
    let wide = "x".repeat(500);
    // A line may wait for half a second, so each file begins once the one before is there.
    for number in 0..40 {
        client.request("GET", &format!("/a.txt?{number}-{wide}"));
        if number % 5 == 4 {
            let shown = format!("?{number}-");
            let files = || {
                let entries = fs::read_dir(&folder).unwrap().flatten();
                entries
                    .filter_map(|entry| fs::read_to_string(entry.path()).ok())
                    .collect::<String>()
            };
            eventually("the line is written", || files().contains(&shown));
        }
    }
    child.signal(Signal::TERM);
    assert_eq!(child.wait().code(), Some(0), "{}", child.stderr());
    let mut names: Vec<String> = fs::read_dir(&folder)
        .unwrap()
        .map(|entry| entry.unwrap().file_name().into_string().unwrap())
        .filter(|name| name != "keep")
        .collect();
    names.sort();
    assert_eq!(names, ["access.log", "access.log.1", "access.log.2"], "{}", child.stderr());
    let read = |name: &str| fs::read_to_string(folder.join(name)).unwrap();
    let texts = [read("access.log.2"), read("access.log.1"), read("access.log")];
    for text in &texts {
        assert!(text.len() <= 4 << 10, "{} bytes", text.len());
        assert!(text.ends_with("\"}\n"), "whole lines");
    }
    let numbers: Vec<u32> = texts
        .concat()
        .lines()
        .map(|line| line.split(['?', '-']).nth(1).unwrap().parse().unwrap())
        .collect();
    assert!(numbers.is_sorted() && numbers.last() == Some(&39), "{numbers:?}");
    assert!(numbers.windows(2).all(|pair| pair[1] == pair[0] + 1), "none is lost: {numbers:?}");
}
