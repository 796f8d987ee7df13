//! Status pages as browsers and programs see them, `hurtle top` without a terminal, and the
//! configurations that would show a page to everybody.

use std::io::{BufRead, BufReader, Read, Write};
use std::net::{TcpListener, TcpStream};
use std::process::Command;
use std::{fs, thread};

use rustix::process::Signal;
use serde_json::Value;

use crate::browser::{BROWSERS, browser, visit_for};
use crate::child::{Child, PATIENCE, eventually, hurtle, write_config};
use crate::support::Dir;

const CONFIG: &str = "admin = '{root}/../admin.sock'\n\
    [[site]]\nhosts = '*'\n[[site.mount]]\nfiles = '{root}'\n\
    [[site.mount]]\npath = '/internal/status'\nstatus = true\n";

/// Opens a stream of events; returns its reader after the head.
fn events(child: &Child, path: &str) -> (String, BufReader<TcpStream>) {
    let mut stream = TcpStream::connect(child.address()).unwrap();
    stream.set_read_timeout(Some(PATIENCE)).unwrap();
    write!(stream, "GET {path} HTTP/1.0\r\n\r\n").unwrap();
    let mut reader = BufReader::new(stream);
    let mut head = String::new();
    while !head.ends_with("\r\n\r\n") {
        assert!(reader.read_line(&mut head).unwrap() > 0, "{head}");
    }
    (head, reader)
}

/// Reads up to the next event; returns its data. `None`: the stream has ended.
fn next_event(reader: &mut BufReader<TcpStream>) -> Option<String> {
    loop {
        let mut line = String::new();
        if reader.read_line(&mut line).unwrap() == 0 {
            return None;
        }
        if let Some(data) = line.strip_prefix("data: ") {
            return Some(data.to_owned());
        }
    }
}

#[test]
fn the_page_has_the_figures_and_its_json_is_that_of_status() {
    let dir = Dir::new(&[("x.txt", "0123456789")]);
    let child = Child::configured(&dir, CONFIG);
    for _ in 0..5 {
        child.get("/x.txt");
    }
    let page = child.get("/internal/status");
    assert_eq!(page.status, 200);
    let text = page.text();
    assert!(text.contains("<th scope=\"row\">*/</th>"), "{text}");
    assert!(text.contains("http-equiv=\"refresh\""), "{text}");
    assert_eq!(page.field("cache-control"), Some("no-store"));
    assert!(page.field("content-security-policy").unwrap().contains("default-src 'none'"));
    for path in ["/internal/status?format=json", "/internal/status/?x&format=json"] {
        let json: Value = serde_json::from_str(child.get(path).text()).unwrap();
        let routes = json["routes"].as_array().unwrap();
        let root = routes.iter().find(|route| route["mount"] == "/").unwrap();
        assert_eq!(root["requests"][0]["count"], 5, "{path}: {json}");
    }
    let accepting = child.get("/internal/status\nAccept: application/json");
    assert_eq!(accepting.field("content-type"), Some("application/json"));
    assert_eq!(child.get("/internal/status/other").status, 404);
    let posted = child.connect().request("POST", "/internal/status");
    assert_eq!(posted.status, 405);
}

#[test]
fn events_come_each_second_and_end_when_the_server_stops() {
    let dir = Dir::new(&[("x.txt", "0123456789")]);
    let mut child = Child::configured(&dir, CONFIG);
    let (head, mut reader) = events(&child, "/internal/status/events");
    assert!(head.contains("text/event-stream"), "{head}");
    // The second viewer gets the same events as the first.
    let (_, mut second) = events(&child, "/internal/status/events");
    let begun = next_event(&mut reader).unwrap();
    assert!(begun.contains("requests/s"), "{begun}");
    child.get("/x.txt");
    let (mut first, mut count) = (begun, 0);
    while !first.contains("*/</th>") {
        first = next_event(&mut reader).expect("the stream goes on");
        count += 1;
        assert!(count < 10, "{first}");
    }
    let mut same = next_event(&mut second).unwrap();
    while same != first {
        same = next_event(&mut second).expect("the second viewer gets it too");
    }
    child.signal(Signal::TERM);
    while next_event(&mut reader).is_some() {}
    assert!(child.wait().success(), "viewers do not delay the stop");
}

#[test]
fn a_reload_ends_the_streams_of_a_page_that_is_gone() {
    let dir = Dir::new(&[("x.txt", "0123456789")]);
    let child = Child::configured(&dir, CONFIG);
    let (_, mut reader) = events(&child, "/internal/status/events");
    assert!(next_event(&mut reader).is_some());
    let without = CONFIG.split("[[site.mount]]\npath").next().unwrap();
    write_config(&dir, without);
    child.signal(Signal::HUP);
    let has_ended = (0..30).any(|_| next_event(&mut reader).is_none());
    assert!(has_ended, "30 seconds after the reload");
    assert!(events(&child, "/internal/status/events").0.contains(" 404 "));
}

#[test]
fn hot_paths_and_slow_requests_are_shown_without_queries_and_control_characters() {
    let dir = Dir::new(&[("x.txt", "0123456789")]);
    let slow = TcpListener::bind("127.0.0.1:0").unwrap();
    let proxy = format!(
        "[[site.mount]]\npath = '/slow'\nproxy = 'http://{}'\n",
        slow.local_addr().unwrap()
    );
    let child = Child::configured(&dir, &format!("{CONFIG}{proxy}"));
    let mut client = child.connect();
    for _ in 0..20 {
        client.request("GET", "/x.txt?token=secret");
    }
    client.request("GET", "/<b>%1b");
    let mut waiting = child.connect();
    waiting.send("GET /slow/job?token=secret HTTP/1.1\r\nHost: a\r\n\r\n");
    let read = || -> Value {
        let text = child.get("/internal/status?format=json").text().to_owned();
        assert!(!text.contains("secret"), "{text}");
        serde_json::from_str(&text).unwrap()
    };
    eventually("the figures are published", || {
        let json = read();
        let hottest = json["paths"]["hottest"].as_array().unwrap();
        let has = |path: &str, responses: u64| {
            hottest.iter().any(|of| of["path"] == path && of["responses"] == responses)
        };
        let slowest = json["in_flight"]["slowest"].as_array().unwrap();
        has("/x.txt", 20)
            && has("/<b>%1b", 1)
            && slowest.iter().any(|of| {
                of["path"] == "/slow/job"
                    && of["method"] == "GET"
                    && of["mount"] == "/slow"
                    && of["is_responding"] == false
                    && of["seconds"].as_f64() > Some(0.0)
            })
    });
    let page = child.get("/internal/status").text().to_owned();
    assert!(page.contains("*/&lt;b&gt;%1b") && page.contains("GET */slow/job"), "{page}");
    let socket = dir.path("../admin.sock");
    let mut top = hurtle();
    top.args(["top", "--once", "--interval", "100ms", "--admin"]).arg(&socket);
    let shown = String::from_utf8(top.output().unwrap().stdout).unwrap();
    assert!(shown.contains("*/x.txt") && shown.contains("GET */slow/job"), "{shown}");
    let (mut upstream, _) = slow.accept().unwrap();
    upstream.write_all(b"HTTP/1.1 200 OK\r\nContent-Length: 0\r\n\r\n").unwrap();
    assert_eq!(waiting.answer("GET").status, 200);
    eventually("it is gone", || read()["in_flight"]["requests"] == 1);
}

#[test]
fn viewers_are_bounded() {
    let dir = Dir::new(&[]);
    let child = Child::configured(&dir, CONFIG);
    let path = "/internal/status/events";
    let viewers: Vec<_> = (0..64).map(|_| events(&child, path)).collect();
    let (head, mut refused) = events(&child, path);
    assert!(head.contains(" 503 "), "{head}");
    refused.read_to_end(&mut Vec::new()).unwrap();
    drop(viewers);
    eventually("another viewer is admitted", || events(&child, path).0.contains(" 200 "));
}

#[test]
fn a_page_for_everybody_is_refused() {
    let dir = Dir::new(&[]);
    let rows = [
        ("", false),
        ("allow = '10.0.0.0/8'\n", true),
        ("allow = ['0.0.0.0/0', '::/0']\n", true),
        ("deny = '10.0.0.0/8'\n", false),
    ];
    for (keys, is_ok) in rows {
        let file = write_config(&dir, &format!("{CONFIG}{keys}"));
        let text = fs::read_to_string(&file).unwrap();
        let public = text.replace("listen = \"127.0.0.1:0\"", "listen = \"0.0.0.0:8080\"");
        fs::write(&file, public).unwrap();
        let checked = hurtle().args(["check", "--config"]).arg(&file).output().unwrap();
        let said = String::from_utf8_lossy(&checked.stderr).into_owned();
        assert_eq!(checked.status.success(), is_ok, "{keys}: {said}");
        assert_eq!(said.contains("could see this page; write allow ="), !is_ok, "{keys}: {said}");
    }
    // An address of the command line is checked, too.
    let file = write_config(&dir, CONFIG);
    let mut command = hurtle();
    command.args(["--listen", "0.0.0.0:0", "--config"]).arg(&file);
    let started = command.output().unwrap();
    let said = String::from_utf8_lossy(&started.stderr).into_owned();
    assert!(said.contains("could see the status page at /internal/status"), "{said}");
}

#[test]
fn a_browser_shows_the_figures_without_scripts_and_live_with_them() {
    let Some(browser) = browser() else {
        println!("skipped: none of {BROWSERS:?} is installed");
        return;
    };
    let dir = Dir::new(&[("x.txt", "0123456789")]);
    // Without the script: a policy of the site forbids it.
    let blocked = "[[site.header]]\nmatch = '**'\n\
                   set = { Content-Security-Policy = \"script-src 'none'\" }\n";
    let child = Child::configured(&dir, &format!("{CONFIG}{blocked}"));
    child.get("/x.txt");
    let url = |child: &Child| format!("http://{}/internal/status", child.address());
    let (page, said) = visit_for(browser, &url(&child), &[]);
    assert!(page.contains("<dt>requests/s</dt>") && page.contains("*/</th>"), "{page}\n{said}");
    assert!(page.contains("<p role=\"status\"></p>"), "{page}");
    // With it: a row that comes after the page was loaded. The time of the page stands still while
    // the stream is open, so the page is printed after the server has stopped.
    let dir = Dir::new(&[("x.txt", "0123456789")]);
    let mut child = Child::configured(&dir, CONFIG);
    let (live, options) = (url(&child), &["--virtual-time-budget=2000"]);
    let visiting = thread::spawn(move || visit_for(browser, &live, options));
    eventually("the browser has opened the stream", || {
        // The thread that makes figures for viewers.
        child.has_thread("status")
    });
    let (_, mut reader) = events(&child, "/internal/status/events");
    child.get("/x.txt");
    while !next_event(&mut reader).unwrap().contains("*/</th>") {}
    child.signal(Signal::TERM);
    assert!(child.wait().success());
    let (page, said) = visiting.join().unwrap();
    assert!(page.contains("*/</th>"), "the row was added: {page}\n{said}");
    let blocked = said.lines().find(|line| line.contains("Content Security Policy"));
    assert_eq!(blocked, None, "the policy allows the page's own script and style");
}

#[test]
fn top_without_a_terminal_prints_the_figures_of_one_interval() {
    let dir = Dir::new(&[("x.txt", "0123456789")]);
    let child = Child::configured(&dir, CONFIG);
    child.get("/x.txt");
    let top = |arguments: &[&str]| {
        let mut command: Command = hurtle();
        command.arg("top").args(arguments).arg("--admin").arg(dir.path("../admin.sock"));
        let output = command.output().unwrap();
        let text = |bytes: &[u8]| String::from_utf8_lossy(bytes).into_owned();
        (output.status.success(), text(&output.stdout), text(&output.stderr))
    };
    let (is_ok, said, _) = top(&["--once", "--interval", "100ms"]);
    assert!(is_ok && said.contains("requests/s") && said.contains("*/"), "{said}");
    assert!(!said.contains('\x1b'), "{said:?}");
    let (is_ok, _, said) = top(&["--interval", "10ms"]);
    assert!(!is_ok && said.contains("write 100ms or more"), "{said}");
    drop(child);
    let (is_ok, _, said) = top(&[]);
    assert!(!is_ok && said.contains("no server listens"), "{said}");
}

/// A viewer of the page stays for minutes.
#[test]
fn the_stream_of_the_page_is_not_among_its_times() {
    let dir = Dir::new(&[]);
    let child = Child::configured(&dir, CONFIG);
    let (_, mut reader) = events(&child, "/internal/status/events");
    next_event(&mut reader).expect("an event comes");
    drop(reader);
    eventually("the stream is counted", || {
        let page = child.get("/internal/status?format=json");
        let status: Value = serde_json::from_str(page.text()).unwrap();
        let mut routes = status["routes"].as_array().unwrap().iter();
        let route = routes.find(|route| route["mount"] == "/internal/status").map(counted);
        route.is_some_and(|(requests, times)| requests > times)
    });
}

/// The numbers of requests and of response times of a mount.
fn counted(route: &Value) -> (u64, u64) {
    let requests = route["requests"].as_array().unwrap().iter();
    let requests = requests.map(|of| of["count"].as_u64().unwrap()).sum();
    (requests, route["duration_seconds"]["count"].as_u64().unwrap())
}

#[test]
fn an_upstream_that_nothing_has_tried_is_not_up() {
    let upstream = TcpListener::bind("127.0.0.1:0").unwrap();
    let url = format!("http://{}", upstream.local_addr().unwrap());
    let dir = Dir::new(&[]);
    let config = format!("{CONFIG}[[site.mount]]\npath = '/api'\nproxy = '{url}'\n");
    let child = Child::configured(&dir, &config);
    let state = || {
        let file = dir.path("../hurtle.toml");
        let output = hurtle().args(["status", "--config"]).arg(file).output().unwrap();
        let text = String::from_utf8(output.stdout).unwrap();
        let line = text.lines().find(|line| line.contains(&url)).map(str::to_owned);
        line.unwrap_or_default()
    };
    eventually("it is listed as untried", || state().contains(" untried "));
    let asked = thread::spawn(move || {
        let (mut peer, _) = upstream.accept().unwrap();
        let mut head = [0; 4096];
        let _ = peer.read(&mut head).unwrap();
        peer.write_all(b"HTTP/1.1 200 OK\r\nContent-Length: 0\r\n\r\n").unwrap();
    });
    assert_eq!(child.get("/api").status, 200);
    asked.join().unwrap();
    eventually("it is up", || state().contains(" up "));
}
